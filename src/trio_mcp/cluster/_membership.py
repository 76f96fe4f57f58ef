"""The processes of a service as one of them sees them: its own lease in the backend, the addresses of the others, keys.

Rules of this file:

1. A process holds a lease with its address, and renews it every `HEARTBEAT_SECONDS`. The lease outlives several of
   these, so that a short interruption of the backend, or a pause of the process, makes nobody disappear.
2. While the backend cannot be reached, the addresses that were read before count.
3. A process without a lease is gone, and its name never returns. Only for a short time after the backend has lost its
   data this is not known, because others may not have renewed their leases yet. Who notices the loss leaves a mark for
   that time, before anything else, so that processes that start meanwhile know of it.
4. The keys that the processes have agreed on are put back by any of them when the backend has lost them. If a process
   that has just started has made another one meanwhile, any of them adds those that it had before, which sign again,
   and every process verifies with all of them.
5. A key is replaced in two steps, so that every process can verify with it before any process signs with it.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import trio
from attrs import define, evolve, field, frozen

from .. import SharedUnavailable
from ..abc import SharedState
from ..wire import Undecodable, decode, encode
from ._keys import ClusterKeys
from ._links import Address

__all__ = ["HEARTBEAT_SECONDS", "Membership"]

_log = logging.getLogger("trio_mcp.cluster")

HEARTBEAT_SECONDS = 2.0
_LEASE_SECONDS = 15.0
_SETTLING_SECONDS = 3 * HEARTBEAT_SECONDS
"""The time after which every process has renewed its lease."""
_RECORD, _NODES, _LOSSES = "service", "nodes", "losses"
_KEY_BYTES = 32
_KEY_SECONDS = 30 * 86400.0
"""The age at which the first key is replaced."""
_ANNOUNCED_SECONDS = 60.0
"""The time for which a new key only verifies (rule 5)."""
_MOST_KEYS = 3
_MOST_REMEMBERED = 4096


@frozen
class _ServiceRecord:
    """The agreement of the processes of a service, which is stored in the backend."""

    epoch: str
    """A random string. Another one shows that the backend has lost its data."""
    keys: Sequence[str]
    """The keys, in hexadecimal; the first one signs. Empty if the program has given keys."""
    next_key: str | None
    """A key that is going to be the first one."""
    since: float
    """The time of the latest step, as `time.time` counts."""

    @classmethod
    def new(cls, keys: Sequence[str]) -> _ServiceRecord:
        return cls(secrets.token_hex(8), list(keys), None, time.time())

    @classmethod
    def of_bytes(cls, data: bytes) -> _ServiceRecord:
        """Return a record that was read.

        Raises:
            SharedUnavailable: it is no record; another program may use the same place.
        """
        try:
            json: Any = decode(data)
            record = cls(str(json["epoch"]), json["keys"], json["nextKey"], float(json["since"]))
            record.as_bytes()
        except (Undecodable, KeyError, TypeError, ValueError) as error:
            why = f"the value {_RECORD!r} of the shared backend was written by another program"
            raise SharedUnavailable(why) from error
        return record

    def to_bytes(self) -> bytes:
        return encode({"epoch": self.epoch, "keys": self.keys, "nextKey": self.next_key, "since": self.since})

    def as_bytes(self) -> Sequence[bytes]:
        """Return the keys to use: those that verify only are the last ones."""
        return [bytes.fromhex(each) for each in (*self.keys, *([] if self.next_key is None else [self.next_key]))]

    def with_keys_of(self, earlier: _ServiceRecord) -> _ServiceRecord:
        """Return the record with the keys of an earlier one, which the backend has lost (rule 4)."""
        missing = [each for each in earlier.keys if each not in self.keys]
        if not self.keys or not missing:
            return self
        is_unrelated = len(missing) == len(earlier.keys)
        return evolve(self, keys=[*missing, *self.keys] if is_unrelated else [*self.keys, *missing])

    def next_step(self) -> _ServiceRecord | None:
        """Return the record after the next step of the replacement of the first key; None if no step is due."""
        age = time.time() - self.since
        if not self.keys or age < (_KEY_SECONDS if self.next_key is None else _ANNOUNCED_SECONDS):
            return None
        if self.next_key is None:
            return evolve(self, next_key=os.urandom(_KEY_BYTES).hex(), since=time.time())
        keys = list(dict.fromkeys([self.next_key, *self.keys]))
        return evolve(self, keys=keys[:_MOST_KEYS], next_key=None, since=time.time())


@define(eq=False)
class Membership:
    """The membership of one process in its service.

    Args:
        state: the backend.
        node: the name of this process.
        given: the keys that the program has given; empty if the processes agree on some.
        use_keys: called with the keys, whenever these change; the first one signs.
    """

    _state: SharedState
    _node: str
    _given: Sequence[bytes] = field(repr=False)
    _use_keys: Callable[[Sequence[bytes]], None]
    keys: ClusterKeys = field(init=False)
    """The keys of the service. The object stays the same when these change."""
    _record: _ServiceRecord = field(init=False)
    _own: Address | None = field(default=None, init=False)
    _present: dict[str, Address] = field(factory=dict[str, Address], init=False)
    """The addresses of the processes that had a lease lately."""
    _remembered: dict[str, Address] = field(factory=dict[str, Address], init=False)
    """Those of earlier times, too, unless they are known to be gone."""
    _settled_at: float = field(default=0.0, init=False)
    """The time from which a process without a lease is known to be gone (rule 3)."""
    _is_interrupted: bool = field(default=False, init=False)
    _leasing: trio.Lock = field(factory=trio.Lock, init=False)
    """Held while the lease is renewed or given back, so that no renewal comes after the end."""

    async def open(self) -> None:
        """Read what the processes have agreed on, or be the first one.

        Raises:
            SharedUnavailable: the backend cannot be reached.
            ValueError: other processes were given keys, and this one was not, or the other way round.
        """
        self.keys = ClusterKeys(self._given)
        stored = await self._state.get(_RECORD)
        if stored is None:
            self._record = _ServiceRecord.new([] if self._given else [os.urandom(_KEY_BYTES).hex()])
            self._settled_at = trio.current_time() + _SETTLING_SECONDS
            stored = await self._put_back()
        elif await self._state.leases(_LOSSES):
            self._settled_at = trio.current_time() + _SETTLING_SECONDS
        self._record = _ServiceRecord.of_bytes(stored)
        if bool(self._record.keys) == bool(self._given):
            ours, theirs = ("given", "not given") if self._given else ("not given", "given")
            raise ValueError(
                f"this server was {ours} keys, and another process with the same shared backend was {theirs} any: "
                "give all of them the same Server(keys=[...]), or none"
            )
        self._adopt()

    async def _put_back(self) -> bytes:
        """Store the record of this process, unless another one has stored its own; return what is stored.

        It gets a new epoch, by which the other processes see that the backend has lost its data.
        """
        await self._state.lease(_LOSSES, self._node, b"", seconds=_SETTLING_SECONDS)
        own = evolve(self._record, epoch=secrets.token_hex(8)).to_bytes()
        while not await self._state.swap(_RECORD, None, own):
            stored = await self._state.get(_RECORD)
            if stored is not None:
                return stored
        return own

    def _adopt(self) -> None:
        """Use the keys of the record, and verify with all that were used before."""
        if self._given:
            return
        merged = list(dict.fromkeys([*self._record.as_bytes(), *self.keys.all]))
        if tuple(merged) != tuple(self.keys.all):
            self.keys.replace(merged)
            self._use_keys(merged)

    async def join(self, address: Address) -> None:
        """Announce this process.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        self._own = address
        await self._beat()

    async def run(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            try:
                await self._beat()
                if self._is_interrupted:
                    self._is_interrupted = False
                    _log.info("the shared backend can be reached again")
            except SharedUnavailable as error:
                if not self._is_interrupted:
                    self._is_interrupted = True
                    _log.warning("%s; this process goes on with what it knows", error)

    async def leave(self) -> None:
        """Give the lease back, so that the other processes know at once.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        self._own = None
        async with self._leasing:
            await self._state.release(_NODES, self._node)

    async def _beat(self) -> None:
        await self._refresh_record()
        async with self._leasing:
            if self._own is not None:  # the process has not left meanwhile
                data = self._own.to_bytes(self._node, self.keys)
                await self._state.lease(_NODES, self._node, data, seconds=_LEASE_SECONDS)
        await self._refresh()

    async def _refresh_record(self) -> None:
        record: _ServiceRecord | None = None
        while record is None:
            record = await self._read_record()
        self._record = record
        self._adopt()

    async def _read_record(self) -> _ServiceRecord | None:
        """Read the record, and make the change that is due; return None if another process has been faster."""
        stored = await self._state.get(_RECORD)
        if stored is None:
            self._settled_at = trio.current_time() + _SETTLING_SECONDS
            stored = await self._put_back()
        record = _ServiceRecord.of_bytes(stored)
        changed = record.next_step() or record
        if record.epoch != self._record.epoch:
            self._settled_at = trio.current_time() + _SETTLING_SECONDS
            changed = record.with_keys_of(self._record)
        if changed == record or await self._state.swap(_RECORD, stored, changed.to_bytes()):
            return changed
        return None

    async def _refresh(self) -> None:
        """Read the leases."""
        present: dict[str, Address] = {}
        for name, data in (await self._state.leases(_NODES)).items():
            known = self._present.get(name)
            address = Address.of_bytes(data, name, self.keys) if known is None else known
            if address is not None:
                present[name] = address
        self._present = present
        self._remembered.update(present)
        while len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    async def find(self, name: str) -> Address | None:
        """Return the address of a process; None if it is gone.

        Raises:
            SharedUnavailable: that is not known now.
        """
        if name in self._present:
            return self._present[name]
        try:
            await self._refresh()
            if name not in self._present:
                await self._refresh_record()  # only afterwards it is known whether the leases were lost
        except SharedUnavailable:
            if name in self._remembered:
                return self._remembered[name]
            raise
        if name in self._present:
            return self._present[name]
        if trio.current_time() >= self._settled_at:
            self._remembered.pop(name, None)
            return None
        if name in self._remembered:
            return self._remembered[name]
        raise SharedUnavailable("the backend has lost its data, and not all processes have renewed their leases yet")
