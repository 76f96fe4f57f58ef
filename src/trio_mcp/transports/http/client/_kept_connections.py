"""Requests on kept connections: the task that makes a request sends it at once, and reads the response itself.

A request usually has a task of its own (`HttpRequestTask`), which takes a connection, sends and waits. Starting, waking
and ending such a task takes as long as all the rest of a small request (benchmark cell `http-1`).

Rules of this file:

1. Only what needs no waiting is sent: no credentials are looked up, the server has answered before, and the caller
   awaits the outcome at once.
2. Only JSON that has arrived whole at the first read is taken here. Any other response, and any failure, goes to the
   task of the request, which then reads the response as if it had sent the request.
3. A caller that leaves closes the connection, so that the server notices it.
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

__all__ = ["AwaitedResponse", "KeptConnections", "QuickRequest"]

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

    def go_on(self, sent: SentExchange) -> None:
        """Read the response in a task of its own, as if that had sent the request. Synchronous."""
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
    _max_body_bytes: int
    _heads: dict[tuple[object, ...], bytes] = field(factory=dict[tuple[object, ...], bytes], init=False, repr=False)
    """The latest heads of requests. They hold header fields of the caller, and live no longer than the client."""
    known: ResponseHead | None = field(default=None, init=False)
    """The head of the latest response that was taken."""

    def send(
        self, request: QuickRequest, url: str, fields: Mapping[str, str], content: bytes
    ) -> AwaitedResponse | None:
        """Send a POST at once, with *fields* in addition; return its response, or None if nothing was sent."""
        begun = self._begin(url, fields, content)
        if begun is None:
            return None
        connection, data, written = begun
        response = AwaitedResponse(self, request, url, connection, ResponseReader(self.known))
        if written < len(data):
            response.send_rest(data, written)
        return response

    def send_whole(self, url: str, fields: Mapping[str, str], content: bytes) -> SentExchange | None:
        """Do the same for a POST whose response is read by another task; return None if it was not sent whole."""
        begun = self._begin(url, fields, content)
        if begun is None:
            return None
        connection, data, written = begun
        if written < len(data):  # the length was announced, so the server cannot take a part of it for the whole
            connection.close()
            return None
        return SentExchange(self.engine, url, connection, ResponseReader(), None, is_whole=True)

    def _begin(self, url: str, fields: Mapping[str, str], content: bytes) -> tuple[Http1Connection, bytes, int] | None:
        """Begin to send a POST; return its connection, its bytes and how many of them were sent, or None if none."""
        place = place_of(url)
        if len(content) > _MOST_BYTES or place.is_encrypted:
            return None
        try:
            data = self._head(place, fields, len(content)) + content
        except ValueError:  # the task of the request reports it
            return None
        while True:
            connection = self.engine.kept(place, None)
            if connection is None:
                return None
            if not connection.uses_descriptor:  # Windows
                self.engine.keep(connection)
                return None
            try:
                return connection, data, connection.write_now(data)
            except NothingSentError:
                connection.close()

    def _head(self, place: Place, fields: Mapping[str, str], size: int) -> bytes:
        key = (place.url, size, *fields.items())
        head = self._heads.get(key)
        if head is None or self.engine.has_cookies:  # which change
            head = self.engine.head("POST", place, {**self._fields, **fields}, size)
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[key] = head
        return head

    def takes(self, reader: ResponseReader) -> bool:
        """Return True if rule 2 lets a response be taken here."""
        head = reader.head
        if head is None or not reader.is_complete or reader.is_last:
            return False
        if head is not self.known:
            is_json = head.headers.get("content-type") == JSON_TYPE
            if head.status != 200 or not is_json or not _UNUSUAL.isdisjoint(head.headers):
                return False
            self.known = head if len(head.raw) <= _LONGEST_KNOWN else None
        return (head.length or 0) <= self._max_body_bytes


@define(eq=False)
class AwaitedResponse:
    """The response to a request that was sent, which the task that awaits it reads. Made by `KeptConnections`."""

    _owner: KeptConnections
    _request: QuickRequest
    _url: str
    _connection: Http1Connection
    _reader: ResponseReader
    _is_sending: bool = field(default=False, init=False)
    """True while the request has not left completely, and ever after if it cannot."""
    _sending: trio.Event | None = field(default=None, init=False)
    """Set when its rest was sent, or cannot be sent; None if there is none."""
    _is_over: bool = field(default=False, init=False)
    """True once the response was taken, or another task reads it, or the caller has left."""
    is_awaited: bool = field(default=False, init=False)
    """True while a task waits."""

    def send_rest(self, data: bytes, written: int) -> None:
        """Have a task send *data* after its first *written* bytes."""
        self._is_sending, self._sending = True, trio.Event()
        self._owner.start_soon(partial(self._send_rest, data, written))

    async def _send_rest(self, data: bytes, written: int) -> None:
        assert self._sending is not None
        try:
            await self._connection.send_rest(data, written)
        except (EngineError, trio.ClosedResourceError):  # the server takes nothing, or `wake` has stopped this too
            self._connection.close()
        except _BROKEN:
            pass  # a refusal may have arrived nevertheless
        else:
            self._is_sending = False
        finally:
            self._sending.set()

    @property
    def is_sent(self) -> bool:
        """True if the request has left completely."""
        return not self._is_sending

    async def wait_sent(self) -> None:
        """Wait until the request has left completely, or cannot leave."""
        if self._sending is not None:
            await self._sending.wait()

    async def wait(self) -> None:
        """Wait until the response was taken, or another task reads it; or until `wake`.

        Cancellation: nothing is lost, and it can be called again.
        """
        failure: Exception | None = None
        data: bytes | None = None
        self.is_awaited = True
        try:
            await self._connection.wait_arrived()
            data = None if self._is_over else self._connection.read_now()
        except _BROKEN as exc:
            failure = exc if self.is_awaited else None  # else it was woken
        finally:
            self.is_awaited = False
        if self._is_over or (data is None and failure is None):
            return
        if data is not None:
            failure = _failure_to_read(self._reader, data)
        if failure is None and not self._is_sending and self._owner.takes(self._reader):
            self._is_over = True
            self._owner.engine.keep(self._connection)
            self._request.take_json(b"".join(self._reader.take_body()))
        else:
            self._hand_over(failure)

    def wake(self) -> None:
        """Let the task that waits return. Synchronous."""
        if self.is_awaited:
            self.is_awaited = False
            self._connection.stop_waiting()

    def hand_over(self) -> None:
        """Have the task of the request read the response, whatever it is. Synchronous."""
        self.wake()
        self._hand_over(None)

    def _hand_over(self, failure: Exception | None) -> None:
        self._is_over = True
        is_whole = not self._is_sending
        engine, connection = self._owner.engine, self._connection
        self._request.go_on(SentExchange(engine, self._url, connection, self._reader, failure, is_whole=is_whole))

    def abandon(self) -> None:
        """Close the connection, because the caller has left (rule 3). Synchronous."""
        self._is_over = True
        self.wake()
        self._connection.close()


def _failure_to_read(reader: ResponseReader, data: bytes) -> HttpSyntaxError | None:
    try:
        reader.feed(data)
    except HttpSyntaxError as exc:
        return exc
    return None
