"""Puts definitions into the places that refer to them, because many hosts cannot follow ``$ref``.

Only published schemas are changed so. Values are validated against the schema with references, which accepts the same
values. Rules of this file:

1. A definition that contains itself, directly or through others, stays in ``$defs``, and references to it stay.
2. Keywords beside a reference describe the one place where it stands, so they take precedence over annotations of the
   definition (``title``, ``description``, ``default``). Constraints apply in addition to those of the definition.
3. A schema that would become too large keeps its references: definitions that refer twice to the next one double with
   each step. An inlined definition is one object that all its places share, so the work before this is known is small.
4. A schema that refers to anything but its own definitions is not changed, because inlining could break it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from attrs import define, field

from ...schema import LISTS_OF_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS

__all__ = ["SchemaRefs", "inlined"]

SchemaRefs: TypeAlias = Literal["inline", "keep"]
"""``"inline"`` publishes a schema without references, except to definitions that contain themselves."""

_MOST_PARTS: Final = 2_000
"""The number of values in an inlined schema, nested ones included, unless it had more before. A model reads all tools
of a server with each request: 2,000 parts are about 10,000 tokens."""

_MOST_LEVELS: Final = 90
"""The number of nested levels of an inlined schema. Many parsers of JSON refuse more than 100 in a message."""

_PREFIX: Final = "#/$defs/"

_CONSTRAINTS: Final = frozenset(
    {
        "const",
        "dependentRequired",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "required",
        "type",
        "uniqueItems",
    }
)
"""The constraints that mean the same whatever stands beside them."""
_DEPENDENT: Final = frozenset({*SINGLE_SCHEMAS, *LISTS_OF_SCHEMAS, *NAMED_SCHEMAS, "maxContains", "minContains"})
"""The constraints of which some depend on others beside them, so that two schemas with them cannot become one."""
_ANCHORED: Final = frozenset(
    {"$anchor", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "definitions"}
)
"""Keywords whose meaning depends on the place where they stand."""


class _Unchangeable(Exception):
    """A schema cannot be inlined, or would nest too deeply; it is published with its references."""


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a self-contained schema with its definitions in the places that refer to them.

    Args:
        schema: the schema, whose definitions are in ``$defs`` at its root. It is not changed.

    Returns:
        A schema that accepts the same values; *schema* itself if there is nothing to inline, or if it cannot be
        inlined. It shares parts of *schema*, and may contain the same object several times.
    """
    if "$defs" not in schema:
        return schema
    definitions: Mapping[str, Any] = schema["$defs"]
    root = {keyword: fact for keyword, fact in schema.items() if keyword != "$defs"}
    try:
        inliner = _Inliner(definitions, _recursive(definitions))
        made: dict[str, Any] = inliner.inline(root, 0)
        kept = {name: inliner.inline(each, 0) for name, each in definitions.items() if name in inliner.recursive}
        made = {**made, "$defs": kept} if kept else made
        parts, levels = _Measure().of(made, 0)
        if parts > _MOST_PARTS and parts > _Measure().of(schema, 0)[0]:
            return schema
    except _Unchangeable:
        return schema
    return made if levels <= _MOST_LEVELS else schema


def _recursive(definitions: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the definitions that contain themselves."""
    direct = {name: set(_references(each)) for name, each in definitions.items()}
    found: set[str] = set()
    for name in definitions:
        reached: set[str] = set()
        waiting = [*direct[name]]
        while waiting:
            other = waiting.pop()
            if other not in reached:
                reached.add(other)
                waiting += direct.get(other, ())
        if name in reached:
            found.add(name)
    return frozenset(found)


def _references(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions to which a schema refers itself; and, to be safe, those in its examples."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += cast("list[Any]", part)
        elif isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            waiting += members.values()
            reference = members.get("$ref")
            if isinstance(reference, str):
                yield reference.removeprefix(_PREFIX)


@define(eq=False)
class _Inliner:
    """Inlines the definitions of one schema, each once."""

    definitions: Mapping[str, Any]
    recursive: frozenset[str]
    _done: dict[str, Any] = field(factory=dict[str, Any], init=False)

    def inline(self, schema: Any, level: int) -> Any:
        """Return a schema without references to definitions that are not recursive.

        Raises:
            _Unchangeable: it refers to something else, or is nested too deeply.
        """
        if not isinstance(schema, dict):
            return schema  # true or false
        members = cast("dict[str, Any]", schema)
        if level > _MOST_LEVELS or not _ANCHORED.isdisjoint(members):
            raise _Unchangeable
        made = {keyword: self._fact(keyword, fact, level + 1) for keyword, fact in members.items()}
        if "$ref" not in made:
            return made
        name = str(made["$ref"]).removeprefix(_PREFIX)
        if made["$ref"] != f"{_PREFIX}{name}" or name not in self.definitions:
            raise _Unchangeable
        if name in self.recursive:
            return made
        if name not in self._done:
            self._done[name] = self.inline(self.definitions[name], level + 1)
        del made["$ref"]
        return _joined(self._done[name], made)

    def _fact(self, keyword: str, fact: Any, level: int) -> Any:
        """Return the value of a keyword, with the schemas in it inlined."""
        if keyword == "discriminator":
            return self._discriminator(fact)
        if keyword in NAMED_SCHEMAS and isinstance(fact, dict):
            named = cast("dict[str, Any]", fact)
            return {name: self.inline(each, level) for name, each in named.items()}
        if keyword in LISTS_OF_SCHEMAS and isinstance(fact, list | tuple):
            return [self.inline(each, level) for each in cast("list[Any]", fact)]
        return self.inline(fact, level) if keyword in SINGLE_SCHEMAS else fact

    def _discriminator(self, fact: Any) -> Any:
        """Return OpenAPI's hint at the member that selects an alternative, without its references to definitions.

        JSON Schema does not know it, so it validates nothing.
        """
        if not isinstance(fact, dict):
            return fact
        members = cast("dict[str, Any]", fact)
        return {name: each for name, each in members.items() if name != "mapping"}


def _joined(definition: Any, beside: dict[str, Any]) -> Any:
    """Return the schema that means a reference to a definition with keywords beside it (rule 2)."""
    if not beside:
        return definition
    facts = {keyword for keyword in beside if keyword in _CONSTRAINTS or keyword in _DEPENDENT}
    if isinstance(definition, dict) and facts <= _CONSTRAINTS:
        members = cast("dict[str, Any]", definition)
        if facts.isdisjoint(members):
            return {**members, **beside}
    return {**beside, "allOf": [*beside.get("allOf", ()), cast("Any", definition)]}


@define(eq=False)
class _Measure:
    """Counts the parts and the levels of a JSON value, each object in it once."""

    _known: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]], init=False)
    """The counts by the id of the object; the measured value keeps it alive."""

    def of(self, value: Any, level: int) -> tuple[int, int]:
        """Return the number of values in a value, itself included, and the number of its nested levels.

        Raises:
            _Unchangeable: it is nested too deeply.
        """
        if level > _MOST_LEVELS:
            raise _Unchangeable
        key, inner = id(value), list[Any]()
        if isinstance(value, dict):
            inner = list(cast("dict[str, Any]", value).values())
        elif isinstance(value, list | tuple):
            inner = list(cast("list[Any]", value))
        if not inner:
            return 1, 1
        known = self._known.get(key)
        if known is None:
            counts = [self.of(each, level + 1) for each in inner]
            known = 1 + sum(parts for parts, _ in counts), 1 + max(levels for _, levels in counts)
            self._known[key] = known
        return known
