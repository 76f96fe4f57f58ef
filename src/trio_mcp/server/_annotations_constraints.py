"""Publishes what stands in ``Annotated[...]`` beside the type: a description, bounds, lengths, patterns.

Understood are plain strings, `msgspec.Meta`, and without importing them the classes of annotated-types and
pydantic's ``Field``; anything else is somebody else's metadata and is left alone. The schema is the only judge of a
constraint, so one that does not apply to its type is refused: it would be published and never hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from ._annotations_scalars import Inexpressible, Shape

__all__ = ["annotated_schema"]

_NUMBERS: Final = frozenset({"integer", "number"})

_BOUNDS: Final[Mapping[str, str]] = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS: Final[Mapping[str, Mapping[str, str]]] = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}
_TEXTS: Final[Mapping[str, str]] = {"title": "title", "description": "description", "examples": "examples"}
_TEXT_FORMS: Final = frozenset({"pattern", "format", "contentEncoding", "enum"})
_FOREIGN: Final = frozenset({"annotated_types", "pydantic"})


def annotated_schema(shape: Shape, annotation: Any, metadata: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a shape with what its metadata adds.

    Raises:
        Inexpressible: a constraint does not apply to the type, or cannot be published.
    """
    schema = dict(shape.schema)
    for note in metadata:
        if isinstance(note, str):
            schema["description"] = note
    for fact in _facts(metadata):
        for name, keyword in _TEXTS.items():
            if (value := getattr(fact, name, None)) is not None:
                schema[keyword] = value
        schema.update(_constraints(fact, shape, annotation))
        schema.update(getattr(fact, "extra_json_schema", None) or {})
    return schema


def _facts(metadata: Sequence[Any]) -> Iterator[Any]:
    for note in metadata:
        if isinstance(note, msgspec.Meta) or type(note).__module__.partition(".")[0] in _FOREIGN:
            yield note
            # pydantic's Field keeps its bounds as annotated-types here.
            yield from _facts(getattr(note, "metadata", ()))


def _constraints(fact: Any, shape: Shape, annotation: Any) -> Iterator[tuple[str, Any]]:
    if getattr(fact, "tz", None) is False:
        raise Inexpressible("tz=False: the published format date-time always has an offset")
    for name, keyword in _BOUNDS.items():
        if (bound := getattr(fact, name, None)) is not None:
            # A Decimal may come as text, which no bound would hold for.
            _require(shape.kinds & _NUMBERS and not _writes_text(shape.schema, {"pattern"}), name, bound, annotation)
            if not isinstance(bound, (int, float)):
                raise Inexpressible(f"{name}={bound!r} is no JSON number")
            yield keyword, bound
    for name, keywords in _LENGTHS.items():
        if (length := getattr(fact, name, None)) is not None:
            fitting = [keyword for kind, keyword in keywords.items() if kind in shape.kinds]
            _require(fitting and not _writes_text(shape.schema, _TEXT_FORMS), name, length, annotation)
            yield from ((keyword, length) for keyword in fitting)
    if (pattern := getattr(fact, "pattern", None)) is not None:
        _require(
            "string" in shape.kinds and not _writes_text(shape.schema, _TEXT_FORMS), "pattern", pattern, annotation
        )
        yield "pattern", pattern


def _require(fits: object, name: str, value: Any, annotation: Any) -> None:
    if not fits:
        raise Inexpressible(f"{name}={value!r} does not apply to {getattr(annotation, '__name__', annotation)}")


def _writes_text(schema: Mapping[str, Any], keywords: AbstractSet[str]) -> bool:
    """Say whether a type writes itself as text of its own form, told by one of these keywords."""
    arms: Sequence[Mapping[str, Any]] = schema.get("anyOf", ())
    here = schema.get("type") == "string" and not keywords.isdisjoint(schema)
    return here or any(_writes_text(arm, keywords) for arm in arms)
