"""The sessions of a service that have left the process that began them: what they consist of, or who continues them.

Rules of this file:

1. The id of a session names the process that began it. Only sessions that have left it have a value in the backend:
   first what they consist of, then the name of the process that continues them.
2. The key of the value is a hash of the id, because without authentication the id is all that a client needs. What a
   session consists of is encrypted.
3. A value expires: that of a session which nobody continues when it has been idle for too long, that of a name after
   `_NAME_SECONDS`, unless it is renewed. It is put back if the backend has lost its data.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import trio
from attrs import define, field, frozen

from .. import SharedUnavailable
from ..abc import SharedState
from ..wire import JsonObject, decode, encode
from ._keys import ClusterKeys

__all__ = ["SessionPlaces"]

_log = logging.getLogger("trio_mcp.cluster")

_NAME_SECONDS = 4 * 3600.0
_RENEWAL_SECONDS = 3600.0
_RETRY_SECONDS = 5.0
_MOST_LEARNT = 65_536
_NAME, _LEFT = b"n", b"s"
"""The first bytes of the value of a session: of the name of its process, and of what it consists of."""


def _key(id: str) -> str:
    return f"session/{hashlib.sha256(id.encode()).hexdigest()}"


@frozen(eq=False)
class _LeftSession:
    """A session that a process has left to the others, as a `lowlevel.LeftSession`."""

    record: JsonObject
    _id: str
    _value: bytes
    """Its value in the backend."""
    _places: SessionPlaces

    async def claim(self) -> bool:
        """Let this process continue it; return False if another one does already, or it has expired."""
        return await self._places.claim(self._id, self._value)


@define(eq=False)
class SessionPlaces:
    """The places of sessions that have moved, as one process of the service knows them.

    Args:
        state: the backend.
        node: the name of this process.
        keys: those of the service, which encrypt what sessions consist of.
    """

    _state: SharedState
    _node: str
    _keys: ClusterKeys
    _learnt: OrderedDict[str, str] = field(factory=OrderedDict[str, str], init=False)
    """The processes that continue sessions, by the ids of the sessions; the ones asked for latest are the last."""
    _own: set[str] = field(factory=set[str], init=False)
    """The ids of the sessions that this process continues."""
    _is_lost: trio.Event = field(factory=trio.Event, init=False)
    """Set when the backend may have lost its data."""

    def known_owner(self, id: str) -> str | None:
        """Return the other process that continues a session, as far as this process has learnt that."""
        return self._learnt.get(id)

    def lost_data(self) -> None:
        """Put back what this process has stored, soon."""
        self._is_lost.set()

    async def run(self) -> None:
        """Renew what is stored until cancelled (rule 3)."""
        while True:
            with trio.move_on_after(_RENEWAL_SECONDS):
                await self._is_lost.wait()
            self._is_lost = trio.Event()
            try:
                for id in [*self._own]:
                    await self._renew(id)
            except SharedUnavailable:  # the heartbeat logs it
                await trio.sleep(_RETRY_SECONDS)
                self._is_lost.set()

    async def _renew(self, id: str) -> None:
        if not await self._put_name(id, self._name):
            await self._put_name(id, None)

    @property
    def _name(self) -> bytes:
        return _NAME + self._node.encode()

    async def _put_name(self, id: str, old: bytes | None) -> bool:
        return await self._state.swap(_key(id), old, self._name, seconds=_NAME_SECONDS)

    async def hand_over(self, id: str, record: JsonObject, *, seconds: float) -> None:
        """Leave a session to the other processes; see `lowlevel.HttpNodes`."""
        value = _LEFT + self._keys.seal(_key(id), encode(record))
        before = self._name if id in self._own else None
        self._own.discard(id)
        while not await self._state.swap(_key(id), before, value, seconds=seconds):
            before = await self._state.get(_key(id))  # the name of this process was lost, renewed, or has expired

    async def find(self, id: str) -> str | _LeftSession | None:
        """Return the process that continues a session, or the session that was left; see `lowlevel.HttpNodes`."""
        value = await self._state.get(_key(id))
        if value is None:
            self._learnt.pop(id, None)
            return None
        if value.startswith(_NAME):
            return self._learn(id, value[len(_NAME) :].decode("ascii", "replace"))
        opened = self._keys.open(_key(id), value[len(_LEFT) :]) if value.startswith(_LEFT) else None
        if opened is None:
            _log.warning("a session in the shared backend was not left by a process of this service")
            return None
        record: Any = decode(opened)
        return _LeftSession(record, id, value, self)

    def _learn(self, id: str, node: str) -> str | None:
        if node == self._node:  # whose session has ended
            return None
        self._learnt[id] = node
        self._learnt.move_to_end(id)
        if len(self._learnt) > _MOST_LEARNT:
            self._learnt.popitem(last=False)
        return node

    async def claim(self, id: str, value: bytes) -> bool:
        """Let this process continue a session; return False if its value has changed."""
        is_own = await self._put_name(id, value)
        if is_own:
            self._own.add(id)
            self._learnt.pop(id, None)
        return is_own

    async def ended(self, id: str) -> None:
        """Forget a session that this process has continued."""
        self._own.discard(id)
        with suppress(SharedUnavailable):  # it expires
            await self._state.swap(_key(id), self._name, None)
