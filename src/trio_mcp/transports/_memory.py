"""In process, without bytes: an exchange goes straight from the caller to the handler.

Nothing is shared all the same: params, updates and results cross as the wire would carry them, so a handler that
changes its arguments changes nothing of its caller's, and what JSON cannot say is refused here as well.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy

import trio
from attrs import define, field

from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, LocalProtocolError, McpError
from ..abc import Answerer, Client, Serving, Transport, TransportOpener
from ..peer import Asked, ConnectionStatistics, Exchange, Gate, Slots, UpdateBudget
from ..wire import INTERNAL_ERROR, PROGRESS_TOKEN_KEY, JsonObject, NotJsonError, copy_json, decode, encode, stamp

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
class _MemoryTransport:
    """One direct connection."""

    client: Client
    serving: Serving
    gate: Gate
    budget: UpdateBudget = field(init=False)
    slots: Slots = field(init=False)
    asked: dict[int, _AskedInMemory] = field(factory=dict[int, "_AskedInMemory"], init=False)
    lost: ConnectionLost | None = field(default=None, init=False)
    _issued: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        ours, theirs = self.client.limits, self.serving.limits  # each side bounds what it holds
        self.budget = UpdateBudget(ours.max_updates, ours.max_update_bytes, ours.max_link_update_bytes)
        self.slots = Slots(theirs.max_in_flight, theirs.max_queued)

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> Asked:
        return _AskedInMemory(method, params, wants_updates, self.budget, self)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        await trio.lowlevel.checkpoint()
        if self.lost is not None:
            raise copy(self.lost)
        self.gate.notified(method)
        self.serving.notified(method, copy_json(params or {}))

    def statistics(self) -> ConnectionStatistics:
        return ConnectionStatistics(
            asked=len(self.asked),
            answering=len(self.asked),
            running=self.slots.running,
            queued=self.slots.waiting,
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
        self.lost = ConnectionClosed("this side closed the connection")
        for asked in list(self.asked.values()):
            asked.lose(self.lost)


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
        if transport.lost is not None:
            raise copy(transport.lost)
        self.id = transport.issue(self)
        if self.wants_updates:
            params = stamp(params, {PROGRESS_TOKEN_KEY: self.id})
        try:
            params = copy_json(params)
        except NotJsonError as exc:
            self.ended()
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        try:
            context = transport.gate.admit(self.method, params)
        except McpError as error:
            self.settle(error)
            return
        self._exchange = _ExchangeInMemory(self.method, params, context, transport.slots, self)
        transport.serving.answer(self._exchange)

    def _cancel(self) -> None:
        self.ended()
        if self.method != "initialize":  # which is never cancelled
            assert self._exchange is not None
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
            self.finish(ErrorResponse(outcome.code, outcome.message, outcome.data))
        else:
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
        if method != "notifications/progress":  # nothing else names its request on a connection
            self._asked.transport.client.notified(method, decode(data))
        else:
            self._asked.put((method, decode(data)), len(data))

    def _end(self) -> None:
        """There is nothing to forget: the asking end keeps the record."""


def _copy(outcome: JsonObject | McpError) -> JsonObject | McpError:
    if isinstance(outcome, McpError):
        return McpError(outcome.code, *copy_json([outcome.message, outcome.data]))
    copied: JsonObject = copy_json(outcome)
    return copied
