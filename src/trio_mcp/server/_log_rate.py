"""How fast a handler may log to its client, and a count of what did not pass.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from __future__ import annotations

from attrs import define, field

from ._token_bucket import TokenBucket

__all__ = ["LogRate"]


@define(eq=False)
class LogRate:
    """Admits a second's worth of messages at once, and then so many in a second.

    Args:
        per_second: messages that pass in a second, infinite for all.
    """

    per_second: float
    _bucket: TokenBucket = field(init=False)
    _dropped: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket(self.per_second)

    def admit(self, now: float) -> int | None:
        """Return None if a message is too much now; else how many were dropped since one passed.

        Args:
            now: in seconds.
        """
        if not self._bucket.take(now):
            self._dropped += 1
            return None
        dropped, self._dropped = self._dropped, 0
        return dropped
