"""In process, without bytes: an exchange goes straight from the caller to the handler.

Nothing is shared all the same: params, updates and results cross as the wire would carry them, so a handler that
changes its arguments changes nothing of its caller's, and what JSON cannot say is refused here as well.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import trio
from attrs import define, field

from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, LocalProtocolError, McpError
from ..abc import Answerer, Direction, Serving, Tap, Transport, TransportClient, TransportOpener
from ..peer import (
    Admission,
    ConnectionStatistics,
    ExchangeState,
    HandlerSlots,
    IncomingRequest,
    Limits,
    OutgoingRequest,
    UpdateBudget,
)
from ..wire import (
    INTERNAL_ERROR,
    PROGRESS_TOKEN_KEY,
    JsonObject,
    NotJsonError,
    copy_json,
    decode,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    stamp,
)

__all__ = ["memory_transport"]

_log = logging.getLogger("trio_mcp.transports")

_UNREAD_BEFORE_YIELDING = 64
"""Updates that may wait before a handler lets others run at each further one."""


def memory_transport(answerer: Answerer) -> TransportOpener:
    """Return an opener of direct connections to *answerer*, which is served for as long as one is open."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        async with answerer.serving() as serving:
            transport = _MemoryTransport(client, serving)
            try:
                yield transport
            finally:
                transport.close()

    return connect


@define(eq=False)
class _MemoryEnd:
    """One end of a connection, as the other end sees it: what it asks, and what it is told."""

    admission: Admission
    """On which terms its requests are admitted at the other end."""
    limits: Limits
    """What the other end lets it cost."""
    answer: Callable[[IncomingRequest], None]
    """How the other end answers it."""
    notified: Callable[[str, JsonObject], None]
    """Takes what it is told."""
    budget: UpdateBudget
    """How much it keeps unread."""
    _tap: Tap | None
    _directions: Sequence[Direction]
    """Which way its requests go, and which way the answers."""
    slots: HandlerSlots = field(init=False)
    listens: HandlerSlots = field(init=False)
    asked: dict[int, _OutgoingMemoryRequest] = field(factory=dict[int, "_OutgoingMemoryRequest"], init=False)
    lost: ConnectionLost | None = field(default=None, init=False)
    """Why nothing comes or goes any more; None while the connection is up."""
    _issued: int = field(default=0, init=False)
    _on_disconnect: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )

    def __attrs_post_init__(self) -> None:
        self.slots = HandlerSlots(self.limits.max_in_flight, self.limits.max_queued)
        self.listens = HandlerSlots.for_listens(self.limits.max_listens)

    def has_room(self) -> bool:
        return self.lost is None

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.lost is not None:
            raise copy(self.lost)

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        copied = copy_json(params)
        self.show_answer(encode_notification, method, copied)
        self.notified(method, copied)

    def show_request(self, encode: Callable[..., bytes], *message: Any) -> None:
        """Show whoever wants to see it what would have gone from here as bytes; `tapped` says whether anybody does."""
        if self._tap is not None:
            self._tap(self._directions[0], encode(*message)[:-1])

    def show_answer(self, encode: Callable[..., bytes], *message: Any) -> None:
        """Likewise what would have come here."""
        if self._tap is not None:
            self._tap(self._directions[1], encode(*message)[:-1])

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        if self.lost is None:
            self._on_disconnect.append(callback)
        else:
            callback(copy(self.lost))

    def issue(self, asked: _OutgoingMemoryRequest) -> int:
        self._issued += 1
        self.asked[self._issued] = asked
        return self._issued

    def disconnect(self, reason: ConnectionLost) -> None:
        """The connection is closed."""
        self.lost = reason
        for callback in self._on_disconnect:
            callback(copy(reason))
        for asked in list(self.asked.values()):
            asked.disconnect(reason)


@define(eq=False)
class _MemoryTransport:
    """One direct connection."""

    client: TransportClient
    serving: Serving
    ours: _MemoryEnd = field(init=False)
    """The client's end, as the server sees it."""
    theirs: _MemoryEnd = field(init=False)
    """The server's end, as the client sees it."""

    def __attrs_post_init__(self) -> None:
        client, serving = self.client, self.serving
        self.ours = _MemoryEnd(
            serving.admission(),
            serving.limits,
            serving.answer,
            client.notified,
            _budget(client.limits),
            client.tap,
            ("sent", "received"),
        )
        self.theirs = _MemoryEnd(
            client.admission,
            client.limits,
            client.answer,
            self._notified,
            _budget(serving.limits),
            client.tap,
            ("received", "sent"),
        )

    @property
    def has_fields(self) -> bool:
        return False

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingRequest:
        return _OutgoingMemoryRequest(method, params, wants_updates, self.ours.budget, self.ours, self.theirs)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        await self.ours.room()
        self.theirs.notify_nowait(method, params or {})

    async def hear_news(self) -> None:
        await trio.lowlevel.checkpoint()  # heard anyway

    def _notified(self, method: str, params: JsonObject) -> None:
        self.ours.admission.notified(method)
        self.serving.notified(method, params, self.ours)

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        self.ours.on_disconnect(callback)

    def statistics(self) -> ConnectionStatistics:
        ours = self.ours
        return ConnectionStatistics(
            asked=len(ours.asked),
            answering=len(ours.asked),
            running=ours.slots.running + ours.listens.running,
            queued=ours.slots.waiting,
            outbox_bytes=0,
            update_bytes=ours.budget.total,
            unmatched_responses=0,
            malformed=0,
        )

    def close(self) -> None:
        lost = ConnectionClosed("this side closed the connection")
        self.ours.disconnect(lost)
        self.theirs.disconnect(lost)


def _budget(limits: Limits) -> UpdateBudget:
    """Return what one side keeps unread at most: each side bounds what it holds."""
    return UpdateBudget(limits.max_updates, limits.max_update_bytes, limits.max_link_update_bytes)


@define(eq=False)
class _OutgoingMemoryRequest(OutgoingRequest):
    """A request of one end, answered in the same process."""

    end: _MemoryEnd
    """Whose request it is."""
    _other: _MemoryEnd
    _exchange: _IncomingMemoryRequest | None = field(default=None, init=False)

    def begins_at_once(self) -> bool:
        return True

    async def _begin(self) -> None:
        end, params = self.end, self.params
        await trio.lowlevel.checkpoint_if_cancelled()
        if end.lost is not None:
            raise copy(end.lost)
        self.id = end.issue(self)
        if self.wants_updates:
            params = stamp(params, {PROGRESS_TOKEN_KEY: self.id})
        try:
            params = copy_json(params)
        except NotJsonError as exc:
            self.ended()
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        end.show_request(encode_request, self.id, self.method, params)
        if self.span is not None:
            self.span.sent(self.id)
        try:
            context = end.admission.admit(self.method, params)
        except McpError as error:
            self.resolve(error)
            return
        self._exchange = _IncomingMemoryRequest(self.method, params, context, self.id, end, self, self._other)
        end.answer(self._exchange)
        if self._outcome is not None:  # a caller that asks on and on lets others run all the same
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _cancel(self) -> None:
        exchange = self.ended()
        if self.method != "initialize":  # which is never cancelled
            assert exchange is not None
            self.end.show_request(encode_notification, "notifications/cancelled", {"requestId": self.id})
            exchange.cancel("the caller left")

    def disconnect(self, reason: ConnectionLost) -> None:
        """The connection is closed while this request waits."""
        self.finish(copy(reason))
        exchange = self.ended()
        assert exchange is not None
        exchange.disconnect()

    def resolve(self, outcome: JsonObject | McpError) -> None:
        """Take the answer."""
        if self.state is ExchangeState.CANCELLED:  # an `initialize` that was left went on, and nobody waits for it
            return
        self.ended()
        if isinstance(outcome, McpError):
            self.end.show_answer(encode_error, self.id, outcome.code, outcome.message, outcome.data)
            self.finish(ErrorResponse(outcome.code, outcome.message, outcome.data))
        else:
            self.end.show_answer(encode_result, self.id, outcome)
            self.finish(outcome)

    def ended(self) -> _IncomingMemoryRequest | None:
        """Nobody waits for this request any more; return the other end of it, which is not known from here any more."""
        self.end.asked.pop(self.id, None)
        exchange, self._exchange = self._exchange, None  # else every call would leave work to the garbage collector
        return exchange


@define(eq=False)
class _IncomingMemoryRequest(IncomingRequest):
    """The answering end."""

    _asked: _OutgoingMemoryRequest
    _answering: _MemoryEnd
    """Who answers, as the asking end sees it."""

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        answering, asking = self._answering, self._asked.end
        return _OutgoingMemoryRequest(method, params, False, answering.budget, answering, asking)

    def has_room(self) -> bool:
        return self._asked.waiting < _UNREAD_BEFORE_YIELDING

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()  # whoever reads has its turn; a handler never waits for one that does not

    def _send(self, outcome: JsonObject | McpError) -> None:
        try:
            copied = _copied_error(outcome) if isinstance(outcome, McpError) else copy_json(outcome)
        except NotJsonError as exc:
            _log.error("the answer to %r cannot be sent: %s", self.method, exc)
            copied = McpError(INTERNAL_ERROR, "the answer is not JSON; the server's log says where")
        self.peer.admission.responded(self.method, success=not isinstance(copied, McpError))
        self._asked.resolve(copied)

    def _notify(self, method: str, params: JsonObject) -> None:
        data = encode(params)
        copied: JsonObject = decode(data)
        end = self._asked.end
        end.show_answer(encode_notification, method, copied)
        if method == "notifications/progress":
            self._asked.put((method, copied), len(data))
        elif not self._asked.hear(method, copied):  # nothing else names its request on a connection
            end.notified(method, copied)

    def _end(self) -> None:
        """There is nothing to forget: the asking end keeps the record."""


def _copied_error(error: McpError) -> McpError:
    return McpError(error.code, *copy_json([error.message, error.data]))
