"""The faults of a value that cannot be converted, each with its path.

The public functions raise `Mismatch` as `StructureError`, and `Unsendable` as `TypeError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

__all__ = ["MAX_FAULTS", "Mismatch", "Unsendable", "kind_of", "listed", "quoted", "type_of"]

type_of: Callable[[Any], type[Any]] = type
"""`type` under another name, by which type checkers do not narrow: the contents of a JSON value stay Any."""

MAX_FAULTS: Final = 100
"""The most faults that are kept of one value. Further faults are only counted, so that a peer cannot exhaust memory."""

_MAX_QUOTED: Final = 60
"""The most characters of a peer's value or of a member's name in an error message."""

_MAX_BITS: Final = 1024
"""The size of the largest integer in an error message, in bits."""

_KINDS: Final = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """Return the name of the JSON type of *value*, or of its Python type if it is not a JSON value."""
    return _KINDS.get(type_of(value), type_of(value).__name__)


def quoted(value: Any) -> str:
    """Return a scalar in the shortened form of an error message, or the JSON type of any other value."""
    if type_of(value) not in {bool, float, int, str}:
        return kind_of(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a very large integer"  # slow to write out, and forbidden above some length
    text = repr(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def listed(words: list[str]) -> str:
    """Return words as an enumeration: `a`, `a or b`, `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


class Mismatch(Exception):
    """A JSON value does not fit its type. The exception holds every fault with its path inside the value."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self.faults: list[tuple[tuple[str | int, ...], str]] = [] if text is None else [((), text)]
        self.uncounted = 0

    @classmethod
    def expected(cls, wanted: str, value: Any) -> Mismatch:
        """Return the mismatch of a value of the wrong JSON type."""
        return cls(f"expected {wanted}, got {kind_of(value)}")

    def add(self, step: str | int | None, inner: Mismatch) -> None:
        """Add the faults of a value inside this one.

        Args:
            step: the name of the member or the index of the item; None for this value itself.
            inner: the faults of the inner value.
        """
        room = MAX_FAULTS - len(self.faults)
        path = () if step is None else (step,)
        self.faults.extend(((*path, *deeper), text) for deeper, text in inner.faults[:room])
        self.uncounted += inner.uncounted + max(0, len(inner.faults) - room)

    def inside(self, step: str | int) -> Mismatch:
        """Return the same error with the path of the outer value."""
        outer = Mismatch()
        outer.add(step, self)
        return outer

    def lines(self) -> list[str]:
        """Return the faults as sentences, each after its path from the root, `$`."""
        lines = [f"{_path(steps)}: {text}" for steps, text in self.faults]
        return [*lines, f"... and {self.uncounted} more"] if self.uncounted else lines


class Unsendable(TypeError):
    """A message of this program holds a value that its type does not allow and that cannot be sent as JSON."""

    def __init__(self, text: str, steps: tuple[str | int, ...] = ()) -> None:
        super().__init__(text, steps)
        self._text = text
        self._steps = steps

    def __str__(self) -> str:
        return f"{_path(self._steps)}: {self._text}"

    def inside(self, step: str | int) -> Unsendable:
        """Return the same error with the path of the outer value."""
        return Unsendable(self._text, (step, *self._steps))


def _path(steps: tuple[str | int, ...]) -> str:
    return "$" + "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.lstrip("$").isidentifier() and len(step) <= _MAX_QUOTED:
        return f".{step}"
    return f"[{json.dumps(step if len(step) <= _MAX_QUOTED else step[:_MAX_QUOTED] + '...')}]"
