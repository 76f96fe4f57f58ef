"""What an authorization server has said of tokens: kept for a while, and asked for once by all who want it at a time.

Specification: https://www.rfc-editor.org/rfc/rfc7662#section-4
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from ._verified import VerifiedToken, VerifierUnavailable

__all__ = ["Answers"]

_MAX_KEPT = 10_000
"""Beyond that the oldest is dropped."""


@define(eq=False)
class _Question:
    """A question that is being asked, for all who want its answer."""

    settled: trio.Event = field(factory=trio.Event)
    failure: VerifierUnavailable | None = None


@define(eq=False)
class Answers:
    """What tokens are, None for those that are not good. Tokens themselves are not kept, only digests of them.

    Args:
        seconds: how long an answer is used; 0: not at all.
        clock: tells the time, as `time.time` does.
    """

    _seconds: float
    _clock: Callable[[], float]
    _kept: dict[bytes, tuple[float, VerifiedToken | None]] = field(
        factory=dict[bytes, "tuple[float, VerifiedToken | None]"], init=False, repr=False
    )
    """The oldest first, each with the time of its arrival."""
    _asked: dict[bytes, _Question] = field(factory=dict[bytes, _Question], init=False, repr=False)

    async def find(self, token: str, ask: Callable[[], Awaitable[VerifiedToken | None]]) -> VerifiedToken | None:
        """Return what is known of a token, or else what *ask* returns.

        Whoever asks may be cancelled: somebody else who waits asks then.

        Raises:
            VerifierUnavailable: what *ask* raises, for all who wait.
        """
        if not self._seconds:
            return await ask()
        digest = hashlib.sha256(token.encode()).digest()
        while (question := self._asked.get(digest)) is not None:
            await question.settled.wait()
            if question.failure is not None:
                raise VerifierUnavailable(*question.failure.args)
        at, answer = self._kept.get(digest, (-math.inf, None))
        if 0 <= self._clock() - at < self._seconds:
            return answer
        return await self._ask(digest, ask)

    async def _ask(self, digest: bytes, ask: Callable[[], Awaitable[VerifiedToken | None]]) -> VerifiedToken | None:
        question = self._asked[digest] = _Question()
        try:
            answer = await ask()
        except VerifierUnavailable as exc:
            question.failure = exc
            raise
        finally:
            del self._asked[digest]
            question.settled.set()
        self._kept.pop(digest, None)
        self._kept[digest] = (self._clock(), answer)
        if len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return answer
