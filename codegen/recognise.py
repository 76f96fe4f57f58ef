"""The references that a tool has replaced by copies: to types of the core, and to definitions of the same file.

A schema file that inlines its types repeats them. Here each copy becomes a reference again, so that one thing has one
class. Two schemas are equal if the generated classes would be: the order of members and of the arms of a union, prose
and the form of strings do not count, nor do the contents of members that are plain JSON in Python.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from codegen.choices import CORE_REVISION, JSON_MEMBERS, META_MEMBER, PLAIN_JSON
from codegen.shapes import (
    JSON_OBJECT,
    Definitions,
    RefusedError,
    Schema,
    core_place,
    is_class,
    is_json_object,
    name_in_core,
    plain_json,
    rebuild,
    ref,
    target,
)

_SCALARS = frozenset({"boolean", "null", "number", "string"})
_FORM_OF_STRINGS = frozenset({"format", "pattern"})


def recognise(definitions: Definitions, core: Mapping[str, Definitions], source: str) -> Definitions:
    """Return the definitions of an extension with references in place of copies, and without copies of the core.

    A definition is a copy of one of the core only if it has the same name in the revision on which the extensions
    build. An object inside another schema has no name: it becomes a reference if exactly one definition equals it, in
    the file or else in the newest revision that has one.

    Args:
        definitions: the flattened definitions.
        core: the definitions of each revision.
        source: the extension, for messages.

    Raises:
        RefusedError: a definition for plain JSON differs from that of the core.
    """
    known = _Known(definitions, core)
    spelled: dict[str, Schema] = {}
    for name, schema in definitions.items():
        if name in PLAIN_JSON or _is_json_value(name, schema):
            if name in PLAIN_JSON and not any(schema == each.get(name) for each in core.values()):
                raise RefusedError(
                    f"{source}: {name} is the name of plain JSON in the core, and is something else here"
                )
            spelled[name] = plain_json(name) if name in PLAIN_JSON else {}
        elif known.is_in_core(name):
            spelled[name] = ref(name_in_core(CORE_REVISION, name))

    def replace(schema: Schema) -> Schema:
        name = target(schema)
        if name is not None:
            return spelled.get(name, schema)
        found = known.find(schema)
        return rebuild(schema, replace) if found is None else spelled.get(found, ref(found))

    def replace_inside(schema: Schema) -> Schema:
        changed = rebuild(schema, replace)
        params = schema.get("properties", {}).get("params", {})
        # The params of a message are not the result of another, even if both have the same members.
        if (target(changed.get("properties", {}).get("params", {})) or "").endswith("Result") and not target(params):
            changed["properties"]["params"] = rebuild(params, replace)
        return changed

    return {name: replace_inside(schema) for name, schema in definitions.items() if name not in spelled}


def _is_json_value(name: str, schema: Schema) -> bool:
    """Return True if a definition admits every JSON value, by saying what a value is made of."""
    arms = schema.get("anyOf", ())
    nested = [{"additionalProperties": ref(name), "type": "object"}, {"items": ref(name), "type": "array"}]
    kinds = {kind for arm in arms if arm.keys() == {"type"} for kind in _types(arm)}
    return all(each in arms for each in nested) and kinds >= _SCALARS


def _types(schema: Schema) -> list[str]:
    given = schema["type"]
    return [given] if isinstance(given, str) else given


class _Known:
    """The definitions that a copy may have come from: first those of the same file, then the newest of the core."""

    def __init__(self, definitions: Definitions, core: Mapping[str, Definitions]) -> None:
        self._definitions = definitions
        self._core = core
        spaces = [None, *sorted(core, reverse=True)]
        self._catalogs = [self._catalog(space) for space in spaces]

    def is_in_core(self, name: str) -> bool:
        """Return True if the core has an equal definition of this name."""
        core = self._core[CORE_REVISION]
        hidden = _json_members_of(name)
        own = self._key(self._definitions[name], None, hidden)
        return name in core and self._key(core[name], CORE_REVISION, hidden) == own

    def find(self, schema: Schema) -> str | None:
        """Return the name of the only definition that equals a schema; None if there is none, or more than one."""
        if not _is_worth_a_name(schema):
            return None
        keys = {hidden: self._key(schema, None, hidden) for hidden in _HIDDEN}
        for catalog in self._catalogs:
            found = {name for hidden, key in keys.items() for name in catalog.get((hidden, key), ())}
            if found:
                return found.pop() if len(found) == 1 else None
        return None

    def _catalog(self, revision: str | None) -> Mapping[tuple[frozenset[str], str], list[str]]:
        """Return the names of the definitions of the file, or of a revision, by what is hidden and their key."""
        found: defaultdict[tuple[frozenset[str], str], list[str]] = defaultdict(list)
        definitions = self._definitions if revision is None else self._core[revision]
        for name, schema in definitions.items():
            if _is_worth_a_name(schema):
                hidden = _json_members_of(name)
                place = name if revision is None else name_in_core(revision, name)
                found[hidden, self._key(schema, revision, hidden)].append(place)
        return found

    def _key(self, schema: Schema, revision: str | None, hidden: frozenset[str]) -> str:
        """Return the same text for equal schemas.

        Args:
            schema: the schema.
            revision: the revision that it is from; None for the extension.
            hidden: its members that are plain JSON.
        """
        members = schema.get("properties", {})
        if hidden & members.keys():
            plain = {name: JSON_OBJECT if name in hidden else inner for name, inner in members.items()}
            schema = {**schema, "properties": plain}
        return json.dumps(self._expanded(schema, revision, ()), sort_keys=True)

    def _expanded(self, schema: Schema, revision: str | None, path: tuple[tuple[str | None, str], ...]) -> Schema:
        """Return a schema with the definitions that it refers to in place of the references."""
        name = target(schema)
        if name is not None:
            revision, name = core_place(name) or (revision, name)
            definitions = self._definitions if revision is None else self._core[revision]
            if name in PLAIN_JSON or _is_json_value(name, definitions[name]):
                return plain_json(name) if name in PLAIN_JSON else {}
            if (revision, name) in path:
                return {"$ref": name}
            return self._expanded(definitions[name], revision, (*path, (revision, name)))
        if is_json_object(schema) or schema.get("properties") == {}:
            return JSON_OBJECT
        plain = {key: value for key, value in schema.items() if key not in _FORM_OF_STRINGS and value != []}
        if META_MEMBER in plain.get("properties", {}):
            plain["properties"] = {**plain["properties"], META_MEMBER: JSON_OBJECT}
        if "const" in plain:
            plain["enum"] = [plain.pop("const")]
        plain = rebuild(plain, lambda inner: self._expanded(inner, revision, path))
        if "anyOf" in plain:
            arms = [part for arm in plain["anyOf"] for part in (arm["anyOf"] if arm.keys() == {"anyOf"} else [arm])]
            plain["anyOf"] = sorted(arms, key=lambda arm: json.dumps(arm, sort_keys=True))
        return plain


def _json_members_of(owner: str) -> frozenset[str]:
    return frozenset(member for name, member in JSON_MEMBERS if name == owner)


_HIDDEN = {frozenset[str](), *(_json_members_of(owner) for owner, _ in JSON_MEMBERS)}


def _is_worth_a_name(schema: Schema) -> bool:
    """Return True for an object with named members, a union with such objects, and an enumeration."""
    if is_class(schema):
        return bool(schema["properties"])
    if "anyOf" in schema:
        return any(_is_worth_a_name(arm) or "$ref" in arm for arm in schema["anyOf"])
    return len(schema.get("enum", ())) > 1
