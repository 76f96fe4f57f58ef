"""What one owner has in an event log, and the one place where a log may fail: that costs resumption, nothing else."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence

import trio
from attrs import define, field

from ..abc import EventLog

__all__ = ["Record"]

_log = logging.getLogger("trio_mcp.transports")


@define(eq=False)
class Record:
    """The events of one owner. Nobody outside of this process can know its name in the log."""

    _events: EventLog
    _owner: str = field(factory=lambda: secrets.token_hex(16), init=False)
    _appending: int = field(default=0, init=False)
    """Calls of `append` under way."""
    _appended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _is_closed: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)

    async def append(self, stream: int, first: int, events: Sequence[bytes]) -> None:
        """Keep events, if the log can."""
        if self._is_closed:
            return
        self._appending += 1
        try:
            await self._events.append(self._owner, stream, first, events)
        except Exception as exc:  # noqa: BLE001 # whatever a store of somebody else's raises
            self._complain("keep events", exc)
        finally:
            self._appending -= 1
            self._appended.unpark_all()

    async def read(self, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        """Return the number of the oldest event after number *after*, and some from it on; none where it cannot."""
        try:
            return await self._events.read(self._owner, stream, after)
        except Exception as exc:  # noqa: BLE001 # likewise
            self._complain("read events", exc)
            return 0, ()

    async def forget(self) -> None:
        """Drop everything, and keep nothing more."""
        self._is_closed = True
        while self._appending:
            await self._appended.park()
        try:
            await self._events.forget(self._owner)
        except Exception as exc:  # noqa: BLE001 # likewise
            self._complain("forget events", exc)

    def _complain(self, what: str, exc: Exception) -> None:
        self._failures += 1
        if self._failures == 1:  # a full disk is full for each of thousands of events
            _log.error("the event store cannot %s of a client; what it fails at next is only a debug message", what)
        _log.log(logging.ERROR if self._failures == 1 else logging.DEBUG, "its failure", exc_info=exc)
