"""The modern half of an HTTP server: each POST is one exchange, and nothing is remembered from one to the next.

Rules of this file:

1. What a request says first decides about its response. The answer alone is JSON, with the status of its error; an
   update, or silence for as long as a keep-alive lasts, begins an event stream.
2. A client that closes the response has cancelled the request: its handler is stopped, and nothing more is sent.
3. At the end, streams without an end of their own are ended at once; other requests may go on for
   `Limits.drain_seconds`, and are then told that the server stops.
4. A stream without an end of its own ends with the access of who opened it. What has an end may go on to it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import trio
from attrs import define, evolve, field

from .._errors import ConnectionClosed, McpError
from ..abc import HttpServing
from ..peer import ExchangeContext, Peer
from ..wire import INVALID_PARAMS, ModernPost, Notification, Refusal, Request, sse_event, status_of
from ._asgi import HttpRequest
from ._http_admission import Admission
from ._http_exchange import PostedExchange
from ._http_guests import Guests
from ._http_mirrors import Mirrors
from ._http_response import QUICK_PASSES, Responding

__all__ = ["Posts"]

_FLUSH_SECONDS = 2.0
"""How long last words may take to be written."""


@define(eq=False)
class Posts:
    """Answers the modern requests of one serving."""

    _serving: HttpServing
    _admission: Admission
    _guests: Guests = field(init=False)
    _mirrors: Mirrors = field(init=False)
    _open: set[PostedExchange] = field(factory=set[PostedExchange], init=False)
    """Requests whose response is not written yet."""
    _fewer: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._guests = Guests(self._serving)
        self._mirrors = Mirrors(self._serving)

    async def post(self, posted: ModernPost, request: HttpRequest, responding: Responding) -> None:
        """Answer a POST."""
        message, guest = posted.message, self._guests.of(request)
        if isinstance(message, Notification):
            self._serving.notified(message.method, message.params or {}, guest, request.envelope)
            await responding.empty()
            return
        refusal = self._admission.refusal([message], request, self._serving)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        try:
            context = self._admit(message, request, guest)
        except McpError as error:
            status = 400 if error.code == INVALID_PARAMS else status_of(error.code)
            await responding.refuse(Refusal(status, error, message.id))
            return
        limits = self._serving.limits
        exchange = PostedExchange(message.method, message.params, context, message.id, guest, limits.outbox_bytes)
        self._open.add(exchange)
        try:
            self._serving.answer(exchange)
            await _respond(exchange, responding, request.access_until)
        finally:
            if responding.left:
                exchange.cancel("the client closed the response")
            else:
                exchange.lose()  # harmless where it was answered
            self._open.discard(exchange)
            if self._fewer:
                self._fewer.unpark_all()

    def _admit(self, message: Request, request: HttpRequest, guest: Peer) -> ExchangeContext:
        """Return the terms of a request; raises `McpError` where it is refused."""
        context = guest.gate.admit(message.method, message.params)
        fault = self._mirrors.fault(message, request.headers)
        if fault is not None:
            raise fault
        envelope = request.envelope
        return evolve(context, access=envelope.access, headers=envelope.headers)

    def stop(self) -> None:
        """End what does not end by itself; synchronous."""
        self._abandon(endless_only=True)

    async def drained(self) -> None:
        """Wait until every request is answered, and the answer written, for a bounded time (rule 3)."""
        with trio.move_on_after(self._serving.limits.drain_seconds):
            await self._emptied()
        self.close()
        with trio.move_on_after(_FLUSH_SECONDS):
            await self._emptied()

    async def _emptied(self) -> None:
        while self._open:
            await self._fewer.park()

    def close(self) -> None:
        """Tell those that still wait for an answer that there is none; synchronous."""
        self._abandon(endless_only=False)
        self._guests.lose(ConnectionClosed("the server stops"))

    def _abandon(self, *, endless_only: bool) -> None:
        for exchange in list(self._open):
            if exchange.open and (exchange.endless or not endless_only):
                exchange.abandon()


async def _respond(exchange: PostedExchange, responding: Responding, access_until: float) -> None:
    """Write what belongs to an exchange until all of it has been written, or its client has left (rules 1 and 4)."""
    answer = exchange.only_answer()
    for _ in range(QUICK_PASSES):
        if answer is None:
            await trio.lowlevel.checkpoint()
            answer = exchange.only_answer()
    if answer is not None:
        await responding.json(answer, status=exchange.status)
        return
    async with responding.attending():
        with trio.move_on_after(responding.keep_alive):
            await exchange.said()
        answer = exchange.only_answer()
        if answer is not None:
            await responding.json(answer, status=exchange.status)
            return
        async with responding.stream() as stream:
            while lines := await _take(exchange, access_until):
                await stream.send(b"".join(map(sse_event, lines)))


async def _take(exchange: PostedExchange, access_until: float) -> list[bytes]:
    """Return what is to be written next."""
    with trio.CancelScope(deadline=access_until):
        return await exchange.take()
    if exchange.endless:
        exchange.abandon()
    return await exchange.take()
