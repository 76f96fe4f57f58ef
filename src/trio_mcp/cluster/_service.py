"""The memory that the processes of a service have in common: an `abc.SharedService` on a backend and common keys.

Rules of this file:

1. The backend gets no key of a caller: it gets a hash, or an authentication code if the key is a secret.
2. What a process believes was sealed by a process of the service for the very name at which it is stored. So whoever
   can write to the backend can make processes forget, wait or repeat, but can make them believe nothing, unless
   the keys are in the backend, and can be read there. Then nothing is kept: a value may say that a token is valid.
3. The process that works holds a claim, and renews it. A claim that is not renewed expires, and then another process
   works. A process that finds its claim with another one cancels its work, and waits for the result of the other.
4. A process goes on with its work while the backend cannot be reached, and gives its own caller the result in any case.
5. What is kept only saves work. After a failure of the backend it is left alone for `_PAUSE_SECONDS`, so that not every
   call waits for the next failure.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

import trio
from attrs import define, field

from .. import SharedUnavailable
from ..abc import SharedState
from ..lowlevel import owned_nursery
from ._buckets import SharedBuckets
from ._keys import ClusterKeys

__all__ = ["KeyedService"]

_log = logging.getLogger("trio_mcp.cluster")

_CLAIM, _RESULT = b"c", b"r"
"""The first bytes of the value of something that is done once."""
_CLAIM_SECONDS, _RENEW_SECONDS = 10.0, 2.5
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
"""The first and the longest pause between two looks for the result of another process."""
_PAUSE_SECONDS = 5.0
_SETTLE_SECONDS = 3.0
"""The maximum time for the last words about a claim, which are not cancelled."""


def _hashed(kind: str, key: str) -> str:
    """Return the name in the backend for a key (rule 1)."""
    return f"service/{kind}/{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


@define(eq=False)
class KeyedService:
    """The memory that the processes of a service have in common, as one of them sees it; see `abc.SharedService`.

    Args:
        state: the backend.
        keys: the keys of the service.
        keeps: True if values are kept, for which the keys must not be in the backend (rule 2).
    """

    _state: SharedState
    _keys: ClusterKeys
    _keeps: bool = field(kw_only=True, alias="keeps")
    _buckets: SharedBuckets = field(init=False)
    _forgetful_until: float = field(default=-math.inf, init=False)
    """The time until which nothing is kept or recalled, on Trio's clock (rule 5)."""

    def __attrs_post_init__(self) -> None:
        self._buckets = SharedBuckets(self._state)

    async def once(self, key: str, work: Callable[[], Awaitable[bytes]], *, seconds: float) -> bytes:
        """Return the result of *work*, which runs once."""
        name, claim = _hashed("once", key), _CLAIM + os.urandom(16)
        pause = _SHORTEST_PAUSE
        while True:
            if await self._state.swap(name, None, claim, seconds=_CLAIM_SECONDS):
                result = await self._run(name, claim, work, seconds)
                if result is not None:
                    return result
            stored = await self._state.get(name)
            if stored is not None and stored.startswith(_RESULT):
                return self._result_in(stored, name)
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _result_in(self, stored: bytes, name: str) -> bytes:
        result = self._keys.open(name, stored[len(_RESULT) :])
        if result is None:  # the work was done, perhaps: it must not be repeated
            raise SharedUnavailable(f"the value {name!r} of the shared backend was not made by this service")
        return result

    async def _run(self, name: str, claim: bytes, work: Callable[[], Awaitable[bytes]], seconds: float) -> bytes | None:
        """Return the result of *work*; None if it was cancelled because another process has the claim (rule 3)."""
        result: bytes | None = None
        try:
            async with owned_nursery() as nursery:
                nursery.start_soon(self._renew, name, claim, nursery.cancel_scope)
                result = await work()
                nursery.cancel_scope.cancel()
        finally:
            with trio.move_on_after(_SETTLE_SECONDS, shield=True):
                await self._settle(name, claim, result, seconds)
        return result

    async def _renew(self, name: str, claim: bytes, scope: trio.CancelScope) -> None:
        """Renew a claim, and put it back if the backend has lost it; cancel *scope* when another process has it."""
        while True:
            await trio.sleep(_RENEW_SECONDS)
            with suppress(SharedUnavailable):  # rule 4
                if await self._state.swap(name, claim, claim, seconds=_CLAIM_SECONDS):
                    continue
                if not await self._state.swap(name, None, claim, seconds=_CLAIM_SECONDS):
                    scope.cancel(reason="another process has begun this work")
                    return

    async def _settle(self, name: str, claim: bytes, result: bytes | None, seconds: float) -> None:
        """Store the result in place of a claim, or give the claim back."""
        try:
            if result is None:
                await self._state.swap(name, claim, None)
                return
            sealed = _RESULT + self._keys.seal(name, result)
            if not await self._state.swap(name, claim, sealed, seconds=seconds):
                await self._state.swap(name, None, sealed, seconds=seconds)  # the backend has lost the claim
        except SharedUnavailable as error:
            _log.warning("%s; the other processes do not know what was done here once, and may do it again", error)

    async def take(self, key: str, *, per_second: float, burst: int) -> float:
        """Take a token from a bucket."""
        return await self._buckets.take(_hashed("bucket", key), per_second, burst)

    async def is_first(self, key: str, *, seconds: float) -> bool:
        """Return True for the first call with a key."""
        return await self._state.swap(_hashed("first", key), None, b"1", seconds=seconds)

    async def recall(self, key: str) -> bytes | None:
        """Return the value that a process has kept."""
        name = self._secret_name(key)
        stored: bytes | None = None
        with self._keeping() as keeps:
            stored = await self._state.get(name) if keeps else None
        return None if stored is None else self._keys.open(name, stored)

    async def keep(self, key: str, value: bytes, *, seconds: float) -> None:
        """Store a value, unless there is one."""
        name = self._secret_name(key)
        with self._keeping() as keeps:
            if keeps:
                await self._state.swap(name, None, self._keys.seal(name, value), seconds=seconds)

    @contextmanager
    def _keeping(self) -> Generator[bool]:
        """Yield False if nothing is kept, or the backend has failed a moment ago (rule 5); take note if it fails."""
        try:
            yield self._keeps and trio.current_time() >= self._forgetful_until
        except SharedUnavailable as error:
            _log.warning("%s; for a moment, this process does not know what others have kept", error)
            self._forgetful_until = trio.current_time() + _PAUSE_SECONDS

    def _secret_name(self, key: str) -> str:
        """Return the name in the backend for a key that is a secret (rule 1); another one after a change of keys."""
        return f"service/kept/{self._keys.sign('kept', key)}"
