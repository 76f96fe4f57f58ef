"""Chooses the arm of a union that a JSON value was meant for, with the published schema as the judge.

The kind of the value decides where it can; where several arms take the kind (two classes, a date or any text) the
first declared arm whose schema accepts the value wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._schema import LazyValidator
from .._schema_faults import TYPE_NAMES
from ._annotations_load import Loader
from ._annotations_scalars import FORMATS, Shape

__all__ = ["union_loader"]


def union_loader(shapes: Sequence[Shape], definitions: Mapping[str, Any]) -> Loader | None:
    """Return a loader for a union.

    Args:
        shapes: its arms in the order of declaration.
        definitions: what the arms refer to; may still grow until the first value is loaded.
    """
    if all(shape.load is None for shape in shapes):
        return None
    arms = {kind: [_Arm(shape, definitions) for shape in _candidates(shapes, kind)] for kind in TYPE_NAMES.values()}

    def load(value: Any) -> Any:
        *earlier, last = arms[TYPE_NAMES[type(value)]]
        # The whole value has passed the schema: what no earlier arm accepts is the last one's.
        chosen = next((arm for arm in earlier if arm.judge.accepts(value)), last)
        return value if chosen.load is None else chosen.load(value)

    return load


class _Arm:
    """One arm and the judge that says whether a value is for it."""

    def __init__(self, shape: Shape, definitions: Mapping[str, Any]) -> None:
        self.load = shape.load
        self.judge = LazyValidator({**shape.schema, "$defs": definitions}, FORMATS)


def _candidates(shapes: Sequence[Shape], kind: str) -> list[Shape]:
    """Return the arms that can take a value of this kind, the most exact first."""
    if kind == "integer":
        return sorted(
            (shape for shape in shapes if "integer" in shape.kinds), key=lambda shape: "number" in shape.kinds
        )
    if kind == "number":
        # A float without a fraction counts as an integer too, if no arm is for numbers.
        takers = [shape for shape in shapes if not shape.kinds.isdisjoint({"integer", "number"})]
        return sorted(takers, key=lambda shape: "number" not in shape.kinds)
    return [shape for shape in shapes if kind in shape.kinds]
