"""What is wrong with a JSON value, by path: raised by hooks, turned into `StructureError` at the public boundary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

__all__ = ["MAX_FAULTS", "Mismatch", "Unsendable", "kind_of", "listed", "quoted", "type_of"]

type_of: Callable[[Any], type[Any]] = type
"""`type` under a name that type checkers do not narrow by: what is inside a JSON value stays Any to them."""

MAX_FAULTS: Final = 100
"""How many faults of one value are kept; further ones are only counted, so that no peer can make us hold millions."""

_MAX_QUOTED: Final = 60
"""How many characters of a peer's value, or of a member's name, a message repeats."""

_MAX_BITS: Final = 1024
"""How big an integer a message repeats."""

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
    """Return JSON's word for what `value` is, or the name of its Python type when JSON has none."""
    return _KINDS.get(type_of(value), type_of(value).__name__)


def quoted(value: Any) -> str:
    """Return a scalar as a message shows it, shortened; of anything else only what kind it is."""
    if type_of(value) not in {bool, float, int, str}:
        return kind_of(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a very large integer"  # writing it out is slow, and beyond some length forbidden
    text = repr(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def listed(words: list[str]) -> str:
    """Return words as prose: `a`, `a or b`, `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


class Mismatch(Exception):
    """A JSON value does not fit. Holds every fault of the value, each with its path from that value."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self.faults: list[tuple[tuple[str | int, ...], str]] = [] if text is None else [((), text)]
        self.uncounted = 0

    @classmethod
    def expected(cls, wanted: str, value: Any) -> Mismatch:
        """Return the mismatch of a value that is of the wrong kind."""
        return cls(f"expected {wanted}, got {kind_of(value)}")

    def add(self, step: str | int | None, inner: Mismatch) -> None:
        """Take over the faults of a value inside this one.

        Args:
            step: the member's name or the item's index; None for this very value.
            inner: what is wrong there.
        """
        room = MAX_FAULTS - len(self.faults)
        path = () if step is None else (step,)
        self.faults.extend(((*path, *deeper), text) for deeper, text in inner.faults[:room])
        self.uncounted += inner.uncounted + max(0, len(inner.faults) - room)

    def inside(self, step: str | int) -> Mismatch:
        """Return the same, as seen from what holds the value."""
        outer = Mismatch()
        outer.add(step, self)
        return outer

    def lines(self) -> list[str]:
        """Return the faults as sentences, each headed by its path from the root, `$`."""
        lines = [f"{_path(steps)}: {text}" for steps, text in self.faults]
        return [*lines, f"... and {self.uncounted} more"] if self.uncounted else lines


class Unsendable(TypeError):
    """A message holds something that its types do not allow and that has no form as JSON. The program's fault."""

    def __init__(self, text: str, steps: tuple[str | int, ...] = ()) -> None:
        super().__init__(text, steps)
        self._text = text
        self._steps = steps

    def __str__(self) -> str:
        return f"{_path(self._steps)}: {self._text}"

    def inside(self, step: str | int) -> Unsendable:
        """Return the same, as seen from what holds the value."""
        return Unsendable(self._text, (step, *self._steps))


def _path(steps: tuple[str | int, ...]) -> str:
    return "$" + "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.lstrip("$").isidentifier() and len(step) <= _MAX_QUOTED:
        return f".{step}"
    return f"[{json.dumps(step if len(step) <= _MAX_QUOTED else step[:_MAX_QUOTED] + '...')}]"
