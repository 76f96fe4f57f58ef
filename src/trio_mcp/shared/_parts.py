"""A vocabulary that the backends have in common: valid names, the size of a `StreamPart`, and the place of a follower.

Rules of this file:

1. A stream has a generation, which differs from that of an earlier stream of the same name. So a follower notices
   that its stream was dropped, or lost, and began again, whatever its numbers are now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define

from ..abc import StreamPart

__all__ = [
    "MOST_BYTES",
    "MOST_ENTRIES",
    "StreamPlace",
    "check_append",
    "check_names",
    "check_seconds",
    "part_after",
    "whole_milliseconds",
]

MOST_ENTRIES = 500
"""The number of entries of one `StreamPart`."""
MOST_BYTES = 1_000_000
"""The size from which on a `StreamPart` gets no further entry, in bytes."""
_LONGEST_NAME = 200


def check_names(*names: str) -> None:
    """Check that keys or names have the form that `SharedState` demands.

    Raises:
        ValueError: one is empty, too long, or has other characters.
    """
    for name in names:
        if not (0 < len(name) <= _LONGEST_NAME and name.isascii() and name.isprintable()):
            raise ValueError(
                f"a name of shared state is 1 to {_LONGEST_NAME} printable ASCII characters: {name!r:.300}"
            )


def check_seconds(seconds: float) -> None:
    """Check a time after which something expires, in seconds.

    Raises:
        ValueError: it is not above 0, or not a number.
    """
    if not seconds > 0:
        raise ValueError(f"the time after which something expires is above 0 seconds, not {seconds!r}")


def check_append(stream: str, at_most: int, seconds: float) -> None:
    """Check the arguments of `SharedState.append`.

    Raises:
        ValueError: one is invalid.
    """
    check_names(stream)
    check_seconds(seconds)
    if at_most < 1:
        raise ValueError(f"a stream keeps at least 1 entry, so at_most cannot be {at_most!r}")


def whole_milliseconds(seconds: float) -> int:
    """Return a time above 0 seconds in milliseconds, at least 1; 0 if it is infinite."""
    return 0 if seconds == math.inf else max(1, round(seconds * 1000))


def part_after(after: int, last: int, first: int, entries: Sequence[bytes]) -> StreamPart:
    """Return the result of `SharedState.read`.

    Args:
        after: the number after which is read.
        last: the number of the last entry of the stream.
        first: the number of the first of the entries.
        entries: the entries after *after* that are still there, or some of them.
    """
    if not entries:
        return StreamPart(last + 1, (), is_gap=after != last)
    return StreamPart(first, tuple(entries), is_gap=first != after + 1)


@define
class StreamPlace:
    """The place of a follower in its stream: that of the latest entry that it has seen."""

    generation: int
    """The generation of the stream (rule 1); 0 if there was no stream when it was followed."""
    number: int
    """The number of the latest entry that was seen; 0 if none was."""

    def move(self, generation: int, first: int, entries: Sequence[bytes]) -> StreamPart:
        """Return entries that are next to be seen, and move behind them."""
        is_gap = first != self.number + 1 if generation == self.generation or not self.generation else True
        self.generation, self.number = generation, first + len(entries) - 1
        return StreamPart(first, tuple(entries), is_gap)
