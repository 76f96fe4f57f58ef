"""Common names for the definitions of all revisions, so that `merge` can compare them.

A revision that defines an object inline, or allows any object, gets the class that another revision has at the same
place (owner and member). An object that is inline in every revision keeps the name that `hoist` gave it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from codegen.choices import JSON_MEMBERS, META_MEMBER, RENAMES, REQUEST_META
from codegen.hoist import Hoist
from codegen.shapes import (
    Definitions,
    RefusedError,
    Schema,
    is_class,
    is_json_object,
    plain_json,
    rebuild,
    ref,
    rename_refs,
    single_reference,
    target,
)

JSON_OBJECT_REF = ref("JSONObject")
Places: TypeAlias = dict[tuple[str, str], str]
"""The name of the class at each place, by owner and member."""


@frozen(kw_only=True)
class Revision:
    """A revision, or an extension, during the alignment."""

    name: str
    kind: str = "revision"
    definitions: Definitions
    hoisted: dict[str, Hoist]
    metas: dict[str, str] = field(factory=dict[str, str])
    """The name of the class that describes the `_meta` of each class."""
    responses: dict[str, str] = field(factory=dict[str, str])
    """The request of each response that the revision leaves undefined."""

    @property
    def label(self) -> str:
        """The name for messages."""
        return f"{self.kind} {self.name}"


def align(documents: list[dict[str, Any]]) -> list[Revision]:
    """Return the revisions, oldest first, with common names.

    Args:
        documents: the normalised schemas, oldest first.

    Raises:
        RefusedError: a declared rename does not fit, or two different objects would get one name.
    """
    revisions = [_with_plain_json(_renamed(_read(document))) for document in documents]
    folded: list[Revision] = []
    for revision in reversed(revisions):
        folded.insert(0, _folded(revision, _places(folded)))
    based = [_with_base_meta(revision) for revision in folded]
    places = _places(based)
    return [
        _without_json_members(_adopted(revision, places, _places(based[index + 1 :])))
        for index, revision in enumerate(based)
    ]


def read_extension(document: dict[str, Any]) -> Revision:
    """Return an extension, which has one version only and is aligned with nothing, with the plain JSON of the core."""
    return _without_json_members(_with_plain_json(_read(document, "extension")))


def _read(document: dict[str, Any], kind: str = "revision") -> Revision:
    return Revision(
        name=document[kind],
        kind=kind,
        definitions=document["$defs"],
        hoisted={name: Hoist(*place) for name, place in document["hoisted"].items()},
    )


def _rename(revision: Revision, names: dict[str, str]) -> Revision:
    definitions: Definitions = {}
    for old, schema in revision.definitions.items():
        name = names.get(old, old)
        renamed = rename_refs(schema, names)
        if definitions.setdefault(name, renamed) != renamed:
            raise RefusedError(f"{revision.label}: {old} is to be called {name}, which is something different")
    hoisted = {
        names.get(name, name): Hoist(names.get(place.owner, place.owner), place.member)
        for name, place in revision.hoisted.items()
    }
    return evolve(revision, definitions=definitions, hoisted=hoisted)


def _renamed(revision: Revision) -> Revision:
    names = RENAMES.get(revision.name, {})
    for old, new in names.items():
        if old not in revision.definitions:
            raise RefusedError(f"{revision.label}: the declared rename of {old} to {new} finds no {old}")
    return _rename(revision, names)


def _with_plain_json(revision: Revision) -> Revision:
    """Write every "any JSON object" as a reference to JSONObject and every "any JSON value" as the empty schema."""
    plain = {name for name, schema in revision.definitions.items() if is_json_object(schema)} | {"JSONObject"}

    def spell(schema: Schema) -> Schema:
        name = target(schema)
        if name in plain or is_json_object(schema):
            return JSON_OBJECT_REF
        return plain_json(name) if name in {"JSONArray", "JSONValue"} else rebuild(schema, spell)

    definitions = {name: rebuild(schema, spell) for name, schema in revision.definitions.items()}
    return evolve(revision, definitions=definitions)


def _places(revisions: list[Revision]) -> Places:
    """Return the class at each place, in the newest revision that has one."""
    found: Places = {}
    for revision in reversed(revisions):
        for owner, schema in revision.definitions.items():
            for member, inner in schema.get("properties", {}).items():
                name = single_reference(inner)
                if name is not None and is_class(revision.definitions.get(name, {})):
                    found.setdefault((owner, member), name)
    return found


def _folded(revision: Revision, places: Places) -> Revision:
    """Give hoisted objects the names that newer revisions have at their places, owners first."""
    for name, place in sorted(revision.hoisted.items()):
        if place.member == META_MEMBER and "progressToken" in revision.definitions[name]["properties"]:
            revision = _rename(revision, {name: REQUEST_META})
    resolved: set[str] = set()
    while waiting := [name for name in revision.hoisted if name not in resolved]:
        name = next(name for name in waiting if revision.hoisted[name].owner not in waiting)
        place = revision.hoisted[name]
        new = places.get((place.owner, place.member), name)
        if name not in {new, REQUEST_META}:
            revision = _rename(revision, {name: new})
        resolved.add(new if name != REQUEST_META else name)
    return revision


def _with_base_meta(revision: Revision) -> Revision:
    """Name `_meta` in the params of every method where only the base types Request and Notification name it."""
    definitions = dict(revision.definitions)
    for base, suffix in (("Request", "Request"), ("Notification", "Notification")):
        base_params = single_reference(definitions.get(base, {}).get("properties", {}).get("params", {}))
        meta = definitions.get(base_params or "", {}).get("properties", {}).get(META_MEMBER)
        if meta is None:
            continue
        for owner, schema in revision.definitions.items():
            params = single_reference(schema.get("properties", {}).get("params", {}))
            if owner.endswith(suffix) and params is not None and is_class(definitions[params]):
                properties = {META_MEMBER: meta, **definitions[params]["properties"]}
                definitions[params] = {**definitions[params], "properties": properties}
    return evolve(revision, definitions=definitions)


def _adopted(revision: Revision, places: Places, newer: Places) -> Revision:
    """Put the class of another revision where this one lets any object pass, or refers to a more general class.

    For `_meta` only a newer revision counts: each revision states its own class, so a newer "any object" may stay.
    """
    definitions = dict(revision.definitions)
    for owner, schema in revision.definitions.items():
        for member, inner in schema.get("properties", {}).items():
            name = (newer if member == META_MEMBER else places).get((owner, member))
            own = target(inner)
            if name is None or own is None or own == name or (owner, member) in JSON_MEMBERS:
                continue
            if own == "JSONObject":
                definitions.setdefault(name, {"properties": {}, "type": "object"})
            elif is_class(definitions.get(own, {})) and name.startswith(owner):
                definitions.setdefault(name, definitions[own])
            else:
                continue
            definitions[owner] = {
                **definitions[owner],
                "properties": {**definitions[owner]["properties"], member: ref(name)},
            }
    return evolve(revision, definitions=definitions)


def _without_json_members(revision: Revision) -> Revision:
    """Turn the members that hold JSON of the user into plain objects, and record the class of `_meta`."""
    definitions: Definitions = {}
    metas: dict[str, str] = {}
    for owner, schema in revision.definitions.items():
        properties = dict(schema.get("properties", {}))
        for member, inner in properties.items():
            if (owner, member) in JSON_MEMBERS or member == META_MEMBER:
                properties[member] = JSON_OBJECT_REF
            if member == META_MEMBER and (name := target(inner)) not in {None, "JSONObject"}:
                metas[owner] = str(name)
        definitions[owner] = {**schema, "properties": properties} if is_class(schema) else schema
    return evolve(revision, definitions=definitions, metas=metas)
