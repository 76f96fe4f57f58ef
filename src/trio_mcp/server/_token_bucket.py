"""How much may happen in a time: tokens that come at a steady rate, and a bucket that holds so many of them."""

from __future__ import annotations

import math

from attrs import define, field

__all__ = ["TokenBucket"]


@define(eq=False)
class TokenBucket:
    """Begins full. It counts no time itself: every call says what the time is, and that never goes back.

    Args:
        per_second: tokens that come in a second, above 0; infinite for as many as are wanted.
        burst: tokens it holds, at least 1; a second's worth by default, or one where that is less.
    """

    per_second: float
    burst: float | None = None
    _size: float = field(init=False)
    _left: float = field(init=False)
    """Tokens in it when it was looked at last."""
    _seen: float = field(default=-math.inf, init=False)
    """When that was."""
    _due: float = field(default=-math.inf, init=False)
    """When there is a token. Kept, so that who waits until then and who looks then agree to the last bit."""

    def __attrs_post_init__(self) -> None:
        self._left = self._size = max(1.0, self.per_second) if self.burst is None else self.burst

    def take(self, now: float) -> bool:
        """Take a token; False where there is none.

        Args:
            now: in seconds.
        """
        if now < self._due:
            return False
        if math.isinf(self.per_second):
            return True
        self._left = max(0.0, min(self._size, self._left + (now - self._seen) * self.per_second) - 1)
        self._seen = now
        self._due = now if self._left >= 1 else now + (1 - self._left) / self.per_second
        return True

    def is_full(self, now: float) -> bool:
        """Tell whether it differs in nothing from a new one."""
        return self._left + (now - self._seen) * self.per_second >= self._size

    def due(self, now: float) -> float:
        """Return when there will be a token: *now*, or later."""
        return max(now, self._due)
