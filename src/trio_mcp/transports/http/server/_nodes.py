"""The other processes of a service, to which requests are forwarded that belong to them.

A request belongs to the process that holds what it continues: the session that it names, or the handler that waits for
the answers which it brings. Any process may receive it. That one checks the head, the authorization and the body, and
forwards the rest; the owner answers it as if it had received it. If the owner has left its sessions to the other
processes (`StoppingSessions`), the receiver looks for the one that continues the session, or does that itself.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management and
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

import trio
from attrs import define, evolve, field, frozen

from ...._errors import McpError, SharedUnavailable
from ....abc import SharedService
from ....wire import (
    INTERNAL_ERROR,
    SESSION_FIELD,
    JsonRpcRequest,
    LegacyPost,
    ModernPost,
    Refusal,
    RequestId,
    addressed_stream,
)
from ._asgi import BegunRequest, HttpRequest, Responding
from ._channel import HttpChannel, ResponseHead
from ._legacy_session_manager import SessionRegistry
from ._session_moves import MISDIRECTED, SessionMoves

__all__ = [
    "ANSWERER_ENDED",
    "BegunForwarding",
    "ForwardedApp",
    "ForwardedExchange",
    "HttpNodes",
    "NodesOpener",
    "RequestOwners",
]

_log = logging.getLogger("trio_mcp.transports")

ANSWERER_ENDED = "the process that answered this request has ended; whether the request was carried out is unknown"
_QUICK_SECONDS = 0.02
"""The time for a response during which it does not pay to watch whether the client leaves."""


class ForwardedApp(Protocol):
    """An application that answers what other processes have received and checked for it."""

    def begin_forwarded(self, request: HttpRequest) -> BegunRequest | None:
        """Begin to answer a request at once; return None, with nothing done, if `answer_forwarded` has to."""
        ...

    async def answer_forwarded(
        self, request: HttpRequest, channel: HttpChannel, begun: BegunRequest | None = None
    ) -> None:
        """Answer a request, which may have been begun.

        Args:
            request: the request.
            channel: sends the response, and says when the client leaves.
            begun: the result of `begin_forwarded`; None if it was not called, or has returned None.
        """
        ...


class ForwardedExchange(Protocol):
    """A request that another process answers. It was sent; `leave` must be called at the end."""

    @property
    def outcome(self) -> Literal["gone", "lost"] | None:
        """The reason why there is no more of the response; None unless `next_part` has returned None.

        ``"gone"``: the process is no longer there, so that nothing was done. ``"lost"``: it ended, or could not be
        reached any more, while it answered.
        """
        ...

    async def next_part(self) -> tuple[ResponseHead | None, bytes, bool] | None:
        """Wait for the next part of the response: its head in the first part, bytes, and True if more follows.

        Returns None if there is no more; see `outcome`. A cancelled call loses nothing.
        """
        ...

    def taken(self) -> None:
        """Take note that the latest part was passed on. Synchronous."""
        ...

    def leave(self) -> None:
        """End the exchange; the other process learns if the client has left. Synchronous."""
        ...


class HttpNodes(SessionMoves, Protocol):
    """The processes of a service, of which this one is a node."""

    @property
    def name(self) -> str:
        """The name of this process: lower-case letters and digits; no other process ever has it."""
        ...

    def home(self) -> str:
        """Return the string with which the request states of parked handlers of this process begin; it has no dot.

        It is another one when the keys of the service were replaced.
        """
        ...

    @property
    def service(self) -> SharedService:
        """The memory that this process has in common with the others."""
        ...

    def owner_of_home(self, home: str) -> str | None:
        """Return the name of the other process whose request states begin with *home*; None if no other's do."""
        ...

    def owner_of(self, id: str) -> str | None:
        """Return the name of the other process that has made an id of a session; None if no other has.

        It is that of the process that continues the session, if this one has learnt that.
        """
        ...

    def forward(self, owner: str, request: HttpRequest) -> ForwardedExchange:
        """Send a request to another process. Synchronous.

        Args:
            owner: the name of that process.
            request: the request, which this process has checked.
        """
        ...


NodesOpener: TypeAlias = "Callable[[ForwardedApp], AbstractAsyncContextManager[HttpNodes]]"
"""Makes a running application a node of its service for as long as the block lasts."""


@frozen
class Destination:
    """The other process that answers a request."""

    owner: str
    """Its name."""
    session: str | None = None
    """The id of the session that the request belongs to; None if it belongs to none, or to one that cannot move."""


@define(eq=False)
class RequestOwners:
    """Finds the owners of the requests of one application, and forwards to them.

    Args:
        sessions: the sessions of this process.
    """

    _nodes: HttpNodes
    _sessions: SessionRegistry
    _streams: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The scopes of the streams of sessions, which do not end by themselves."""
    _in_flight: int = field(default=0, init=False)
    """The number of requests that are being forwarded."""
    _emptied: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _looking_up: dict[str, trio.Lock] = field(factory=dict[str, trio.Lock], init=False)
    """Held for each session that is being looked for, by its id."""

    def stop(self) -> None:
        """End the streams of sessions of other processes, because this process stops. Synchronous."""
        for stream in self._streams:
            stream.cancel(reason="the server stops")

    def of_head(self, request: HttpRequest) -> Destination | None:
        """Return the destination of a request without a body; None if this process answers it."""
        return self._of_session(request.headers.get(SESSION_FIELD, ""))

    def of_stream(self, request: HttpRequest) -> Destination | None:
        """Return the destination of a POST that is addressed to an HTTP+SSE stream of another process."""
        id = addressed_stream(request.query) if request.query else None
        owner = None if id is None else self._nodes.owner_of(id)
        return None if owner is None else Destination(owner)

    def of_post(self, posted: LegacyPost | ModernPost) -> Destination | None:
        """Return the destination of a POST; None if this process answers it."""
        if isinstance(posted, LegacyPost):
            return None if posted.session_id is None else self._of_session(posted.session_id)
        message = posted.message
        if not isinstance(message, JsonRpcRequest) or message.params is None:
            return None
        state: Any = message.params.get("requestState")
        if type(state) is not str or "." not in state:
            return None
        owner = self._nodes.owner_of_home(state.partition(".")[0])
        return None if owner is None else Destination(owner)

    def _of_session(self, id: str) -> Destination | None:
        if self._sessions.has(id):
            return None
        owner = self._nodes.owner_of(id)
        return None if owner is None else Destination(owner, id)

    def begin(self, owner: str, request: HttpRequest) -> ForwardedExchange:
        """Send a request to its owner, for a caller that takes the response; synchronous."""
        return self._nodes.forward(owner, request)

    async def forward(
        self, destination: Destination, request: HttpRequest, responding: Responding, id: RequestId | None = None
    ) -> bool:
        """Answer a request through its owner; return False, with nothing done, if this process has to answer it.

        That is the case if the owner is gone, and if this process continues the session from now on.

        Args:
            id: that of the JSON-RPC request in it, for an error.
        """
        self._in_flight += 1
        try:
            return await self._forward_to_owner(destination, request, responding, id)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._emptied.unpark_all()

    async def drained(self, seconds: float) -> None:
        """Wait until no request is being forwarded, for so many seconds at most."""
        with trio.move_on_after(seconds):
            while self._in_flight:
                await self._emptied.park()

    async def _forward_to_owner(
        self, destination: Destination, request: HttpRequest, responding: Responding, id: RequestId | None
    ) -> bool:
        """Answer a request through its owner, or the process that continues its session; see `forward`."""
        owner = destination.owner
        while True:  # it may move again at any time
            if await self._forward(owner, request, responding, id):
                return True
            if destination.session is None:
                return False
            try:
                found = await self._find(destination.session, request)
            except SharedUnavailable as error:
                _log.warning("a session cannot be looked for: %s", error)
                why = McpError(INTERNAL_ERROR, "the session cannot be found now; try again later")
                await responding.refuse(Refusal(503, why, id))
                return True
            if isinstance(found, Refusal):
                await responding.refuse(evolve(found, id=id))
                return True
            if found is None or found == owner:
                return False
            owner = found

    async def _find(self, id: str, request: HttpRequest) -> str | Refusal | None:
        """Return the process that continues a session whose owner is gone; None if this one does, or none can.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        lock = self._looking_up.setdefault(id, trio.Lock())
        try:
            async with lock:
                while not self._sessions.has(id):
                    found = await self._nodes.find_session(id)
                    if found is None or isinstance(found, str):
                        return found
                    if found.record.get("principal") != request.principal:
                        return None
                    begun = self._sessions.begin_arrival(id, request)
                    if isinstance(begun, Refusal):
                        return begun
                    await self._sessions.arrive(begun, found, request)
                return None
        finally:
            if not lock.locked():
                self._looking_up.pop(id, None)

    async def _forward(self, owner: str, request: HttpRequest, responding: Responding, id: RequestId | None) -> bool:
        """Answer a request through another process; return False if that one is gone, or does not answer it any more.

        Nothing was done then.
        """
        exchange, part = self._nodes.forward(owner, request), None
        try:
            with trio.move_on_after(_QUICK_SECONDS) as waiting:
                part = await exchange.next_part()
            if part is not None:
                if _is_misdirected(part[0]):
                    exchange.taken()
                    return False
                await responding.relay(part[0], part[1], more=part[2])
                exchange.taken()
            if waiting.cancelled_caught or (part is not None and part[2]):
                async with responding.attending():
                    if not await self._relay_rest(exchange, request, responding):
                        return False
            return responding.left or exchange.outcome is None or await _explain_loss(exchange, responding, id)
        finally:
            exchange.leave()

    async def _relay_rest(self, exchange: ForwardedExchange, request: HttpRequest, responding: Responding) -> bool:
        """Relay what is left of a response; return False if it is that of a process which does not answer any more.

        The stream of a session ends when this process stops.
        """
        with trio.CancelScope() as stream:
            if request.method == "GET":
                self._streams.add(stream)
            try:
                while (part := await exchange.next_part()) is not None:
                    head, data, more = part
                    if _is_misdirected(head):
                        exchange.taken()
                        return False
                    await responding.relay(head, data, more=more)
                    exchange.taken()
                    if not more:
                        break
            finally:
                self._streams.discard(stream)
        if stream.cancelled_caught and responding.begun:
            await responding.relay(None, b"", more=False)
        elif stream.cancelled_caught:
            await responding.refuse(Refusal(503, McpError(INTERNAL_ERROR, "the server stops")))
        return True


def _is_misdirected(head: ResponseHead | None) -> bool:
    return head is not None and head[0] == MISDIRECTED


async def _explain_loss(exchange: ForwardedExchange, responding: Responding, id: RequestId | None) -> bool:
    """Break a response off, or answer with an error; return False if the request can be answered here."""
    if exchange.outcome == "gone":
        return False
    if responding.begun:
        responding.cut()
    else:
        await responding.refuse(Refusal(502, McpError(INTERNAL_ERROR, ANSWERER_ENDED), id))
    return True


@frozen(eq=False)
class BegunForwarding(BegunRequest):
    """A POST that another process answers.

    Args:
        otherwise: answers it if this process has to.
    """

    _owners: RequestOwners
    _destination: Destination
    _request: HttpRequest
    _id: RequestId | None
    _otherwise: Callable[[HttpRequest, Responding], Awaitable[None]]

    def take_answer(self, most_bytes: int) -> None:
        """Return None: the answer has to be waited for."""
        del most_bytes

    async def go_on(self, responding: Responding) -> None:
        """Forward the request."""
        if not await self._owners.forward(self._destination, self._request, responding, self._id):
            self._request.stays_here = True
            await self._otherwise(self._request, responding)
