"""Where the parts of a URI template begin and end in a URI: found in time linear in its length, whoever has sent it.

Rules of this file:

1. From the last part to the first, each is asked from which places of the text it and all after it fit. A place is an
   index; a set of places is a bytearray with a 1 for each. Nothing is tried twice, so there is nothing to backtrack.
2. Then, from the first to the last, each expression ends at the first place from which the rest fits: where several
   readings are possible, the earlier variable is the shorter, and what may be left out is.
3. All texts here are spellings; see `spelled`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import field, frozen

from ._uri_template_expression import Expression

__all__ = ["Literal", "Part", "Slot", "cut"]


@frozen
class Literal:
    """Text that stands in the URI as it is."""

    spelling: str

    def fitting(self, text: str, after: bytearray) -> bytearray:
        """Return the places where this part and all after it fit, *after* being those of the parts after it."""
        places, length = bytearray(len(after)), len(self.spelling)
        at = text.find(self.spelling)
        while at >= 0:
            places[at] = after[at + length]
            at = text.find(self.spelling, at + 1)
        return places


@frozen
class Slot:
    """An expression, and the characters that cannot stand in it at its place in the template."""

    expression: Expression
    excluded: frozenset[str]
    _stop: re.Pattern[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        stop = re.compile(f"[{''.join(map(re.escape, sorted(self.excluded)))}]")
        object.__setattr__(self, "_stop", stop)  # the class is frozen

    @property
    def first(self) -> str:
        """The character that an expansion begins with; empty where there is none."""
        return self.expression.operator.first

    def fitting(self, text: str, after: bytearray) -> bytearray:
        """Return the places where this part and all after it fit, *after* being those of the parts after it."""
        least = 0 if self.first else 1
        inside = bytearray(len(after))  # where the values begin, after the first character
        start = 0
        for stop in [*(found.start() for found in self._stop.finditer(text)), len(text)]:
            end = after.rfind(1, start, stop + 1) + 1 - least
            if end > start:
                inside[start:end] = b"\1" * (end - start)
            start = stop + 1
        if not self.first:
            return inside
        places = bytearray(after)  # left out
        at = text.find(self.first)
        while at >= 0:
            places[at] |= inside[at + 1]
            at = text.find(self.first, at + 1)
        return places

    def end(self, at: int, after: bytearray) -> int:
        """Return where the expansion that begins at *at* ends; *at* must be one of its places."""
        return after.find(1, at if self.first else at + 1)


Part = Literal | Slot


def cut(parts: Iterable[Part], text: str) -> list[tuple[Expression, str]] | None:
    """Return each expression with its piece of *text*, None where the parts do not fit."""
    parts = tuple(parts)
    if parts and isinstance(parts[0], Literal) and not text.startswith(parts[0].spelling):
        return None  # most URIs are for other templates
    after = bytearray(len(text) + 1)
    after[-1] = 1
    fitting = [after]
    for part in reversed(parts):
        after = part.fitting(text, after)
        if 1 not in after:
            return None
        fitting.append(after)
    if not after[0]:
        return None
    pieces: list[tuple[Expression, str]] = []
    at = 0
    for part, rest in zip(parts, fitting[-2::-1], strict=True):
        if isinstance(part, Literal):
            at += len(part.spelling)
        else:
            end = part.end(at, rest)
            pieces.append((part.expression, text[at:end]))
            at = end
    return pieces
