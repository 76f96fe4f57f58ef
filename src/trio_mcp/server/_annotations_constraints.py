"""Publishes what stands in ``Annotated[...]`` beside the type: a description, bounds, lengths, patterns.

Understood are plain strings, `msgspec.Meta`, and without importing them the classes of annotated-types and
pydantic's ``Field``; anything else is somebody else's metadata and is left alone. The schema is the only judge of a
constraint, so one that does not apply to its type is refused: it would be published and never hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
            if not isinstance(bound, (int, float)) or not shape.kinds & _NUMBERS or "string" in _only_text(shape):
                raise _misplaced(f"{name}={bound!r}", annotation)
            yield keyword, bound
    for name, keywords in _LENGTHS.items():
        if (length := getattr(fact, name, None)) is not None:
            fitting = [keyword for kind, keyword in keywords.items() if kind in shape.kinds]
            if not fitting or _has_own_text_form(shape):
                raise _misplaced(f"{name}={length!r}", annotation)
            yield from ((keyword, length) for keyword in fitting)
    pattern = getattr(fact, "pattern", None)
    if pattern is not None:
        if "string" not in shape.kinds or _has_own_text_form(shape):
            raise _misplaced(f"pattern={pattern!r}", annotation)
        yield "pattern", pattern
