"""A request that came in a POST of its own, whose answer, and all that belongs to it, leaves in the response to it.

Rules of this file:

1. Everything is queued; one task, that of the POST, takes it from there. What is being written still counts as queued:
   a handler waits for a client that does not read.
2. Once the exchange is over without an answer, nothing is handed out any more.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections import deque

import trio
from attrs import define, field

from .._errors import ConnectionBroken, LocalProtocolError, McpError
from ..peer import Asked, Exchange
from ..wire import JsonObject, encode_notification, status_of

__all__ = ["PostedExchange"]


@define(eq=False)
class PostedExchange(Exchange):
    """One request in a POST of its own.

    Args:
        bound: bytes that may wait to be written before handlers wait.
    """

    _bound: int
    status: int = field(default=200, init=False)
    """The status of a response that is nothing but the answer."""
    _lines: deque[bytes] = field(factory=deque[bytes], init=False)
    """What waits to be written, each without its newline."""
    _size: int = field(default=0, init=False)
    """Bytes of it, those being written included."""
    _taken: int = field(default=0, init=False)
    """Bytes being written."""
    _gone: bool = field(default=False, init=False)
    """Whether nobody waits for the answer any more."""
    _work: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _space: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    async def said(self) -> None:
        """Wait until there is something to write, or never will be."""
        while not self._lines and self.open:
            await self._work.park()

    def only_answer(self) -> bytes | None:
        """Take the answer, if it is there and nothing comes before it."""
        return None if self.open or len(self._lines) != 1 else self._lines.popleft()

    async def take(self) -> list[bytes]:
        """Return what is to be written next, in order; empty when all has been. What was taken before is written."""
        self._size -= self._taken
        self._taken = 0
        if self._size < self._bound:
            self._space.unpark_all()
        await self.said()
        lines = list(self._lines)
        self._lines.clear()
        self._taken = self._size
        return lines

    def ask(self, method: str, params: JsonObject | None) -> Asked:
        """Refuse: in this revision the answer itself says what is asked."""
        del params
        raise LocalProtocolError(f"{method!r} cannot be asked of a client of revision {self.context.revision}")

    def has_room(self) -> bool:
        """Whether a handler need not wait."""
        return self._size < self._bound and self.open

    async def room(self) -> None:
        """Wait for a client that is slow; raises `ConnectionBroken` where it has left."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._size >= self._bound and self.open:
            await self._space.park()
        if self._gone:
            await trio.lowlevel.checkpoint_if_cancelled()  # which it is, if it is the handler that waits
            raise ConnectionBroken("the client has left")

    def _send(self, outcome: JsonObject | McpError) -> None:
        line, outcome = self._encoded(outcome)
        if isinstance(outcome, McpError):
            self.status = status_of(outcome.code)
        self._put(line)
        if self._space:
            self._space.unpark_all()

    def _tell(self, method: str, params: JsonObject) -> None:
        self._put(encode_notification(method, params))

    def _put(self, line: bytes) -> None:
        self._lines.append(line.removesuffix(b"\n"))
        self._size += len(line)
        if self._work:
            self._work.unpark_all()

    def _end(self) -> None:
        self._gone = True
        self._lines.clear()
        self._work.unpark_all()
        self._space.unpark_all()
