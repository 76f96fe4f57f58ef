"""In process, without bytes: an exchange goes straight from the caller to the handler.

Nothing is shared all the same: params, updates and results cross as the wire would carry them, so a handler that
changes its arguments changes nothing of its caller's, and what JSON cannot say is refused here as well.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import trio
from attrs import define, field

from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, LocalProtocolError, McpError
from ..abc import Answerer, Client, Direction, Serving, Transport, TransportOpener
from ..peer import Asked, ConnectionStatistics, Exchange, Gate, Limits, Slots, UpdateBudget
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
    async def connect(client: Client) -> AsyncGenerator[Transport]:
        async with answerer.serving() as serving:
            transport = _MemoryTransport(client, serving, serving.gate())
            try:
                yield transport
            finally:
                transport.close()

    return connect


@define(eq=False)
class _ClientInMemory:
    """The client's end, as the server sees it."""

    client: Client
    gate: Gate
    limits: Limits
    slots: Slots = field(init=False)
    listens: Slots = field(init=False)
    lost: ConnectionLost | None = field(default=None, init=False)
    """Why nothing comes or goes any more; None while the connection is up."""
    _when_lost: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )

    def __attrs_post_init__(self) -> None:
        self.slots = Slots(self.limits.max_in_flight, self.limits.max_queued)
        self.listens = Slots(self.limits.max_listens, 0)

    def has_room(self) -> bool:
        return self.lost is None

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.lost is not None:
            raise copy(self.lost)

    def tell(self, method: str, params: JsonObject) -> None:
        copied = copy_json(params)
        self.tell_tap("received", encode_notification, method, copied)
        self.client.notified(method, copied)

    def tell_tap(self, direction: Direction, encode: Callable[..., bytes], *message: Any) -> None:
        """Show whoever wants to see it what would have passed here as bytes."""
        if self.client.tap is not None:
            self.client.tap(direction, encode(*message)[:-1])

    def when_lost(self, tell: Callable[[ConnectionLost], None]) -> None:
        if self.lost is None:
            self._when_lost.append(tell)
        else:
            tell(copy(self.lost))

    def lose(self, reason: ConnectionLost) -> None:
        """The connection is closed."""
        self.lost = reason
        for tell in self._when_lost:
            tell(copy(reason))


@define(eq=False)
class _MemoryTransport:
    """One direct connection."""

    client: Client
    serving: Serving
    gate: Gate
    peer: _ClientInMemory = field(init=False)
    budget: UpdateBudget = field(init=False)
    asked: dict[int, _AskedInMemory] = field(factory=dict[int, "_AskedInMemory"], init=False)
    _issued: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        ours = self.client.limits  # each side bounds what it holds
        self.budget = UpdateBudget(ours.max_updates, ours.max_update_bytes, ours.max_link_update_bytes)
        self.peer = _ClientInMemory(self.client, self.gate, self.serving.limits)

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> Asked:
        return _AskedInMemory(method, params, wants_updates, self.budget, self)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        await self.peer.room()
        self.gate.notified(method)
        copied = copy_json(params or {})
        self.peer.tell_tap("sent", encode_notification, method, copied)
        self.serving.notified(method, copied)

    def when_lost(self, tell: Callable[[ConnectionLost], None]) -> None:
        self.peer.when_lost(tell)

    def statistics(self) -> ConnectionStatistics:
        return ConnectionStatistics(
            asked=len(self.asked),
            answering=len(self.asked),
            running=self.peer.slots.running + self.peer.listens.running,
            queued=self.peer.slots.waiting,
            outbox_bytes=0,
            update_bytes=self.budget.total,
            unmatched_responses=0,
            malformed=0,
        )

    def issue(self, asked: _AskedInMemory) -> int:
        self._issued += 1
        self.asked[self._issued] = asked
        return self._issued

    def close(self) -> None:
        lost = ConnectionClosed("this side closed the connection")
        self.peer.lose(lost)
        for asked in list(self.asked.values()):
            asked.lose(lost)


@define(eq=False)
class _AskedInMemory(Asked):
    """A request of ours, answered in the same process."""

    transport: _MemoryTransport
    id: int = field(default=0, init=False)
    _exchange: _ExchangeInMemory | None = field(default=None, init=False)

    def begins_at_once(self) -> bool:
        return True

    async def _begin(self) -> None:
        transport, params = self.transport, self.params
        await trio.lowlevel.checkpoint_if_cancelled()
        if transport.peer.lost is not None:
            raise copy(transport.peer.lost)
        self.id = transport.issue(self)
        if self.wants_updates:
            params = stamp(params, {PROGRESS_TOKEN_KEY: self.id})
        try:
            params = copy_json(params)
        except NotJsonError as exc:
            self.ended()
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        transport.peer.tell_tap("sent", encode_request, self.id, self.method, params)
        try:
            context = transport.gate.admit(self.method, params)
        except McpError as error:
            self.settle(error)
            return
        self._exchange = _ExchangeInMemory(self.method, params, context, self.id, transport.peer, self)
        transport.serving.answer(self._exchange)

    def _cancel(self) -> None:
        self.ended()
        if self.method != "initialize":  # which is never cancelled
            assert self._exchange is not None
            self.transport.peer.tell_tap("sent", encode_notification, "notifications/cancelled", {"requestId": self.id})
            self._exchange.cancel("the caller left")

    def lose(self, reason: ConnectionLost) -> None:
        """The connection is closed while this request waits."""
        self.finish(copy(reason))
        self.ended()
        assert self._exchange is not None
        self._exchange.lose()

    def settle(self, outcome: JsonObject | McpError) -> None:
        """Take the answer."""
        self.ended()
        if isinstance(outcome, McpError):
            self.transport.peer.tell_tap("received", encode_error, self.id, outcome.code, outcome.message, outcome.data)
            self.finish(ErrorResponse(outcome.code, outcome.message, outcome.data))
        else:
            self.transport.peer.tell_tap("received", encode_result, self.id, outcome)
            self.finish(outcome)

    def ended(self) -> None:
        """Nobody waits for this request any more."""
        self.transport.asked.pop(self.id, None)


@define(eq=False)
class _ExchangeInMemory(Exchange):
    """The answering end."""

    _asked: _AskedInMemory

    def has_room(self) -> bool:
        return self._asked.waiting < _UNREAD_BEFORE_YIELDING

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()  # whoever reads has its turn; a handler never waits for one that does not

    def _send(self, outcome: JsonObject | McpError) -> None:
        try:
            copied = _copy(outcome)
        except NotJsonError as exc:
            _log.error("the answer to %r cannot be sent: %s", self.method, exc)
            copied = McpError(INTERNAL_ERROR, "the answer is not JSON; the server's log says where")
        self._asked.transport.gate.responded(self.method, success=not isinstance(copied, McpError))
        self._asked.settle(copied)

    def _tell(self, method: str, params: JsonObject) -> None:
        data = encode(params)
        copied: JsonObject = decode(data)
        self._asked.transport.peer.tell_tap("received", encode_notification, method, copied)
        if method == "notifications/progress":
            self._asked.put((method, copied), len(data))
        elif not self._asked.hear(method, copied):  # nothing else names its request on a connection
            self._asked.transport.client.notified(method, copied)

    def _end(self) -> None:
        """There is nothing to forget: the asking end keeps the record."""


def _copy(outcome: JsonObject | McpError) -> JsonObject | McpError:
    if isinstance(outcome, McpError):
        return McpError(outcome.code, *copy_json([outcome.message, outcome.data]))
    copied: JsonObject = copy_json(outcome)
    return copied
