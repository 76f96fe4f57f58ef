"""How fast a handler may log to its client: a token bucket, and a count of what did not pass.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from __future__ import annotations

import math

from attrs import define, field

__all__ = ["LogRate"]


@define(eq=False)
class LogRate:
    """Admits a second's worth of messages at once, and then so many in a second.

    Args:
        per_second: messages that pass in a second, infinite for all.
    """

    per_second: float
    _left: float = field(init=False)
    _filled: float = field(default=-math.inf, init=False)
    _dropped: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self._size

    @property
    def _size(self) -> float:
        return max(1.0, self.per_second)

    def admit(self, now: float) -> int | None:
        """Return None if a message is too much now; else how many were dropped since one passed.

        Args:
            now: in seconds.
        """
        if math.isinf(self.per_second):
            return 0
        self._left = min(self._size, self._left + (now - self._filled) * self.per_second)
        self._filled = now
        if self._left < 1:
            self._dropped += 1
            return None
        self._left -= 1
        dropped, self._dropped = self._dropped, 0
        return dropped
