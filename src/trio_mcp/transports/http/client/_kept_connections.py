"""Requests on kept connections: they are sent at once, by the task that makes them.

A request usually has a task of its own (`HttpRequestTask`), which takes a connection, sends and waits. Starting and
ending such a task takes as long as all the rest of a small request (benchmark cell `http-1`). So here each kept
connection has a task, which waits for the responses, and goes on waiting while the connection is idle.

Rules of this file:

1. Only what needs no waiting is sent: no credentials are looked up, and the server has answered before.
2. Only JSON that has arrived whole at the first read is taken here. Any other response, and any failure, goes to the
   task of the request, as if that had sent it.
3. A caller that leaves closes the connection, so that the server notices it.
4. If anything arrives on an idle connection, even its end, the connection is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

import trio
from attrs import define, field

from ....wire import JSON_TYPE
from .._engine import EngineError, Place, place_of
from .._http1_engine import Http1Connection, Http1Engine, NothingSentError, SentExchange
from ..h1 import HttpSyntaxError, ResponseHead, ResponseReader

__all__ = ["KeptConnection", "KeptConnections", "QuickRequest"]

_MOST_BYTES = 32 * 1024
"""The size of the largest body that is sent here: an idle connection takes that at once."""
_MOST_HEADS = 64
"""The number of heads that are remembered."""
_LONGEST_KNOWN = 2048
"""The size of the largest head of a response that is remembered."""
_UNUSUAL = frozenset({"content-encoding", "set-cookie", "transfer-encoding"})
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class QuickRequest(Protocol):
    """A request that can be sent here: `HttpRequestTask`, as this module sees it."""

    def take_json(self, body: bytes) -> None:
        """Take the whole body of a response with the status 200; the request has ended."""
        ...

    async def run_sent(self, sent: SentExchange) -> None:
        """Read the response to the request, as if this task had sent it; never raises."""
        ...

    def abandoned(self) -> None:
        """Note that the connection has ended with the client."""
        ...


@define(eq=False)
class KeptConnections:
    """The kept connections of one client.

    Args:
        engine: makes and keeps the connections.
        fields: the header fields of each request.
        start_soon: starts a task.
        max_body_bytes: the size of the largest body of a response.
    """

    engine: Http1Engine
    _fields: Mapping[str, str] = field(repr=False)
    start_soon: Callable[[Callable[[], Awaitable[None]]], object]
    max_body_bytes: int
    _idle: list[KeptConnection] = field(factory=list["KeptConnection"], init=False)
    """Those whose task waits without a request; that which was used last is the last one."""
    _heads: dict[tuple[object, ...], bytes] = field(factory=dict[tuple[object, ...], bytes], init=False)
    """The latest heads. They hold header fields of the caller, and live no longer than the client."""

    def send(self, request: QuickRequest, url: str, fields: Mapping[str, str], content: bytes) -> KeptConnection | None:
        """Send a POST at once, with *fields* in addition; return its connection, or None if nothing was sent."""
        if len(content) > _MOST_BYTES:
            return None
        place = place_of(url)
        try:
            data = self._head(place, fields, len(content)) + content
        except ValueError:  # the task of the request reports it
            return None
        while True:
            kept = self._next(place)
            if kept is None or kept.send(request, url, data):
                return kept

    def _next(self, place: Place) -> KeptConnection | None:
        """Return a connection without a request; None if there is none."""
        while self._idle:
            kept = self._idle.pop()
            if kept.connection.is_usable():
                return kept
            kept.connection.close()
        connection = self.engine.kept(place, None)
        if connection is None:
            return None
        if not connection.uses_descriptor:  # as under TLS
            self.engine.keep(connection)
            return None
        kept = KeptConnection(self, connection)
        self.start_soon(kept.run)
        return kept

    def _head(self, place: Place, fields: Mapping[str, str], size: int) -> bytes:
        key = (place.url, size, *fields.items())
        head = self._heads.get(key)
        if head is None or self.engine.has_cookies:  # which change
            head = self.engine.head("POST", place, {**self._fields, **fields}, size)
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[key] = head
        return head

    def keep(self, kept: KeptConnection) -> None:
        """Take a connection whose response has arrived whole."""
        now = kept.connection.become_idle()
        self._idle.append(kept)
        while self._idle and (self._idle[0].connection.expires <= now or len(self._idle) > self.engine.most_idle):
            self._idle.pop(0).connection.close()

    def forget(self, kept: KeptConnection) -> None:
        """Let go of a connection that has ended."""
        if kept in self._idle:
            self._idle.remove(kept)


@define(eq=False)
class KeptConnection:
    """One connection, and its task."""

    _owner: KeptConnections
    connection: Http1Connection
    _request: QuickRequest | None = field(default=None, init=False)
    """The request in flight."""
    _url: str = field(default="", init=False)
    """Its URL."""
    _reader: ResponseReader = field(factory=ResponseReader, init=False)
    """Reads the response to it."""
    _known: ResponseHead | None = field(default=None, init=False)
    """The head of the latest response that was taken."""
    _is_sending: bool = field(default=False, init=False)
    """True while it has not left completely, and ever after if it cannot."""
    _is_handed_over: bool = field(default=False, init=False)
    """True once the task of the request is to read the response."""

    def send(self, request: QuickRequest, url: str, data: bytes) -> bool:
        """Send a request; return False if the connection has ended."""
        try:
            written = self.connection.write_now(data)
        except NothingSentError:
            self.connection.close()
            return False
        self._request, self._url, self._reader = request, url, ResponseReader(self._known)
        if written < len(data):
            self._is_sending = True
            self._owner.start_soon(partial(self._send_rest, data, written))
        return True

    async def _send_rest(self, data: bytes, written: int) -> None:
        try:
            await self.connection.send_rest(data, written)
        except EngineError:  # the server takes nothing
            self.connection.close()
        except _BROKEN:
            pass  # a refusal may have arrived nevertheless
        else:
            self._is_sending = False

    def hand_over(self) -> None:
        """Have the task of the request read the response, whatever it is; synchronous."""
        self._is_handed_over = True
        self.connection.stop_waiting()

    def abandon(self) -> None:
        """Close the connection, because the caller has left (rule 3); synchronous."""
        self._request = None
        self.connection.close()

    async def run(self) -> None:
        """Take the responses; the body of the task."""
        try:
            while await self._take_response():
                pass
        finally:
            self._owner.forget(self)
            if self._request is not None:
                self._request.abandoned()

    async def _take_response(self) -> bool:
        """Take one response; return False if the connection has ended, or is kept by the engine."""
        failure: Exception | None = None
        data = b""
        try:
            if not self._is_handed_over:  # it may be before this task waits
                data = await self.connection.receive_first()
        except _BROKEN as exc:
            failure = None if self._is_handed_over else exc
        except BaseException:
            self.connection.close()
            raise
        request, reader = self._request, self._reader
        if request is None:  # rule 4
            self.connection.close()
            return False
        self._request = None
        if failure is None and (data or not self._is_handed_over):
            failure = _failure_to_read(reader, data)
        if failure is None and not self._is_handed_over and self._is_quick(reader):
            self._owner.keep(self)
            request.take_json(b"".join(reader.take_body()))
            return True
        is_whole = not self._is_sending
        sent = SentExchange(self._owner.engine, self._url, self.connection, reader, failure, is_whole=is_whole)
        try:
            await request.run_sent(sent)
        finally:
            sent.close_unless_taken()
        return False

    def _is_quick(self, reader: ResponseReader) -> bool:
        """Return True if rule 2 lets the response be taken here."""
        head = reader.head
        if head is None or not reader.is_complete or reader.is_last or self._is_sending:
            return False
        if head is not self._known:
            if (
                head.status != 200
                or head.headers.get("content-type") != JSON_TYPE
                or not _UNUSUAL.isdisjoint(head.headers)
            ):
                return False
            self._known = head if len(head.raw) <= _LONGEST_KNOWN else None
        return (head.length or 0) <= self._owner.max_body_bytes


def _failure_to_read(reader: ResponseReader, data: bytes) -> HttpSyntaxError | None:
    try:
        reader.feed(data)
    except HttpSyntaxError as exc:
        return exc
    return None
