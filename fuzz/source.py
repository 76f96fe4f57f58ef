"""A source of choices: it turns the bytes of a fuzzer into the values that a target needs.

Bytes are read from the front, so that an additional byte at the end changes little. After the last byte, each choice is
the simplest one. The same bytes make the same choices everywhere, with and without atheris.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite
from typing import Any, TypeVar

from attrs import define, field

__all__ = ["Source"]

T = TypeVar("T")

_WORDS = ("", "a", "b", "_meta", "type", "text", "name", "id", "é", "\U0001f600", "\n", '"', "\x00", "2.0")
_NUMBERS = (0, 1, -1, 255, 2**31, 2**53, 2**53 - 1, -(2**53), 2**63, 2**64, 10**30)
_DEEPEST = 6


@define(eq=False)
class Source:
    """The bytes of one input, and the position of the next one."""

    data: bytes
    _place: int = field(default=0, init=False)

    @property
    def used_up(self) -> bool:
        """True if no bytes are left."""
        return self._place >= len(self.data)

    def take(self, count: int) -> bytes:
        """Return the next *count* bytes, or the rest if there are fewer."""
        start = self._place
        self._place = min(start + count, len(self.data))
        return self.data[start : self._place]

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        return self.take(len(self.data))

    def below(self, bound: int) -> int:
        """Return a number from 0 to *bound* - 1, which is at most 255."""
        return int.from_bytes(self.take(1)) % bound

    def flag(self) -> bool:
        """Return a boolean; False if no bytes are left."""
        return self.below(2) == 1

    def choose(self, choices: Sequence[T]) -> T:
        """Return one of the choices; the first if no bytes are left."""
        return choices[self.below(min(len(choices), 256))] if len(choices) <= 256 else choices[self._wide(len(choices))]

    def _wide(self, bound: int) -> int:
        return int.from_bytes(self.take(2)) % bound

    def binary(self, longest: int = 32) -> bytes:
        """Return up to *longest* bytes, at most 255."""
        return self.take(self.below(longest + 1))

    def text(self, longest: int = 16) -> str:
        """Return a string that UTF-8 can encode."""
        if self.flag():
            return self.choose(_WORDS)
        return self.binary(longest).decode(errors="replace")

    def any_text(self, longest: int = 16) -> str:
        """Return a string that may contain lone surrogates."""
        return self.binary(longest).decode(errors="surrogateescape")

    def cut(self, data: bytes) -> list[bytes]:
        """Return *data* in pieces, some of them empty."""
        pieces: list[bytes] = []
        while data and len(pieces) < 64 and not self.used_up:
            size = self.below(17)
            pieces.append(data[:size])
            data = data[size:]
        return [*pieces, data]

    def json(self, depth: int = 0) -> Any:
        """Return a JSON value."""
        match self.below(9 if depth < _DEEPEST else 7):
            case 0:
                return None
            case 1:
                return self.flag()
            case 2:
                return self.below(256)
            case 3:
                return self.choose(_NUMBERS)
            case 4:
                return self.number()
            case 5 | 6:
                return self.text()
            case 7:
                return [self.json(depth + 1) for _ in range(self.below(4))]
            case _:
                return self.object(depth + 1)

    def object(self, depth: int = 0, names: Sequence[str] = ()) -> dict[str, Any]:
        """Return a JSON object; some of its members have the *names*."""
        found: dict[str, Any] = {}
        for _ in range(self.below(6)):
            name = self.choose(names) if names and not self.flag() else self.text()
            found[name] = self.json(depth + 1)
        return found

    def number(self) -> float:
        """Return a number that JSON can express."""
        (value,) = struct.unpack(">d", self.take(8).ljust(8, b"\0"))
        return value if isfinite(value) else 0.5
