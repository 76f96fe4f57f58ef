"""One HTTP response, written to ASGI: a refusal, JSON, nothing, or an event stream; and whether somebody is there.

Rules of this file:

1. A client that has left is known by `receive` alone: what is sent to it afterwards goes nowhere, without an error. So
   whoever works for a response works inside `Responding.attending`, which cancels that work when the client leaves.
2. A stream that says nothing for a while says so, in a comment: proxies keep it open, and it is how the server finds
   out about clients that it cannot hear.
3. A stream ends properly when its block does. When the block fails or is cancelled, the client sees that it was cut.
4. One that takes nothing for the stall limit has left.

How it is used, by whoever answers a request::

    async with responding.attending():
        first = await something_to_say()
        async with responding.stream() as stream:
            await stream.send(sse_event(first))
    if responding.left:
        ...  # the block above was cancelled

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

import trio
from attrs import define, field

from .._util import owned_nursery
from ..wire import EVENT_STREAM_TYPE, JSON_TYPE, Refusal, sse_comment
from ._asgi import AsgiMessage, Receive, Send

__all__ = ["QUICK_PASSES", "EventStream", "Responding"]

QUICK_PASSES = 2
"""After so many passes of the scheduler a handler that waits for nothing has ended; for the quick ones it is not worth
while to watch for a client that leaves."""
_NO_HEADERS: Mapping[str, str] = {}
_KEEP_ALIVE = sse_comment()
_PIECE_BYTES = 64 * 1024
"""What is larger is handed over in pieces of this size, each within the stall limit."""


@define(eq=False)
class Responding:
    """The response to one request. One of `refuse`, `json`, `empty` and `stream` is called, once.

    Args:
        send: of ASGI.
        receive: likewise; the body of the request has been read, or is of no interest.
        keep_alive: seconds of silence after which a stream says that it is alive.
        stall_seconds: how long a client may take nothing.
    """

    _send: Send
    _receive: Receive
    keep_alive: float
    stall_seconds: float
    null_ids: bool = field(default=False, init=False)
    """Whether the client's revision wants an error to have the id null where it is none of a request's."""
    begun: bool = field(default=False, init=False)
    """Whether the head of the response has been sent."""
    left: bool = field(default=False, init=False)
    """Whether the client left before the response was complete."""
    _nursery: trio.Nursery | None = field(default=None, init=False)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer that there is no answer."""
        body = refusal.body(null_id=self.null_ids)
        if body:
            await self.json(body, status=refusal.status, headers=refusal.headers)
        else:
            await self.empty(refusal.status, refusal.headers)

    async def json(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Answer with one JSON text."""
        fields = {"content-type": JSON_TYPE, "content-length": str(len(body)), "cache-control": "no-store", **headers}
        await self._transmit(self._head(status, fields), *_parts(body, more=False))

    async def empty(self, status: int = 202, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Answer with a status alone."""
        sized = {} if status == HTTPStatus.NO_CONTENT else {"content-length": "0"}
        await self._transmit(self._head(status, {**sized, **headers}), *_parts(b"", more=False))

    @asynccontextmanager
    async def attending(self) -> AsyncGenerator[None]:
        """Cancel the block when the client leaves; `left` tells whether it has. Not to be entered twice."""
        async with owned_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._watch)
            yield

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        self.left = True
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason="the client has left")

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str] = _NO_HEADERS) -> AsyncGenerator[EventStream]:
        """Answer with an event stream, inside of `attending`; it ends when the block does (rule 3)."""
        assert self._nursery is not None
        fields = {
            "content-type": EVENT_STREAM_TYPE,
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            **headers,
        }
        await self._transmit(self._head(HTTPStatus.OK, fields))
        stream = EventStream(self)
        self._nursery.start_soon(stream.keep_alive)
        yield stream
        await stream.end()

    def _head(self, status: int, headers: Mapping[str, str]) -> AsgiMessage:
        self.begun = True
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        return {"type": "http.response.start", "status": int(status), "headers": lines}

    async def put(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body, or its end; for streams there is `EventStream.send`."""
        await self._transmit(*_parts(body, more=more))

    async def _transmit(self, *messages: AsgiMessage) -> None:
        """Hand messages over, one after the other; whoever does not take one of them has left (rule 4)."""
        with trio.CancelScope() as stall:
            for message in messages:
                stall.deadline = trio.current_time() + self.stall_seconds
                try:
                    await self._send(message)
                except OSError:  # how some servers say what Hypercorn does not (rule 1)
                    stall.cancel()
                    await trio.lowlevel.checkpoint()
        if stall.cancelled_caught:
            self._leave()
            await trio.lowlevel.checkpoint_if_cancelled()


def _parts(body: bytes, *, more: bool) -> Sequence[AsgiMessage]:
    """Return the messages that carry *body*: one, unless it is large."""
    ends = range(_PIECE_BYTES, len(body), _PIECE_BYTES)
    parts: list[AsgiMessage] = [
        {"type": "http.response.body", "body": body[end - _PIECE_BYTES : end], "more_body": True} for end in ends
    ]
    rest = body[ends[-1] :] if ends else body
    return [*parts, {"type": "http.response.body", "body": rest, "more_body": more}]


@define(eq=False)
class EventStream:
    """An event stream, while it is open. Made by `Responding.stream`."""

    _responding: Responding
    _last: float = field(factory=trio.current_time, init=False)
    """When something was sent last."""
    _sending: trio.Lock = field(factory=trio.Lock, init=False)
    _has_ended: bool = field(default=False, init=False)

    async def send(self, chunk: bytes) -> None:
        """Send whole events. Cancelled, it may have sent a part of them, and the stream is of no use any more."""
        await self._put(chunk, more=True)

    async def end(self) -> None:
        """Say that nothing follows. A comment that is being sent goes out first: half of one would break the stream."""
        self._has_ended = True
        await self._put(b"", more=False)

    async def keep_alive(self) -> None:
        """Send a comment whenever nothing was sent for a while; to be run beside the rest."""
        pause = self._responding.keep_alive
        while not self._has_ended:
            await trio.sleep_until(self._last + pause)
            if self._sending.locked():
                await trio.sleep(pause)  # somebody waits for the client as it is
            elif trio.current_time() >= self._last + pause and not self._has_ended:
                await self._put(_KEEP_ALIVE, more=True)

    async def _put(self, chunk: bytes, *, more: bool) -> None:
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            await self._responding.put(chunk, more=more)
        finally:
            self._sending.release()
        self._last = trio.current_time()
