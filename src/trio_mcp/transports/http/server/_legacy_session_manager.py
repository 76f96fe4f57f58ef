"""The sessions of an HTTP application: who has one, how many there are, and how they end.

Rules of this file:

1. A session that rests for too long ends; one whose handshake is not complete, soon.
2. At most so many sessions are there. When one more begins, another goes: one without a handshake, or else the one that
   rests longest, if that is for a minute at least. Failing that, one goes that rests of whoever has by far the most, so
   that nobody who was authenticated keeps others out. Where none can go, the new one is refused.
3. A session is there for its principal alone; to anybody else it is unknown.
4. At the end, requests under way may go on for `Limits.drain_seconds`, and are then told that the server stops. Then
   every session ends, and with it its streams.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import Any, TypeVar

import trio
from attrs import Attribute, define, evolve, field, frozen
from attrs.validators import lt

from ...._errors import ConnectionClosed, McpError
from ...._util import owned_nursery
from ....abc import EventLog, EventStore, HttpServing
from ....wire import (
    INVALID_REQUEST,
    LEGACY_REVISIONS,
    SESSION_FIELD,
    VERSION_FIELD,
    JsonRpcRequest,
    LegacyPost,
    Refusal,
    check_session,
    parse_message,
)
from ._asgi import HttpRequest, RequestAuthorizer, Responding
from ._legacy_session import HttpSession, SessionHost, SseConnection, StreamableSession, addressed_stream

__all__ = ["SessionRegistry", "SessionSettings", "SessionStatistics", "open_sessions"]

_log = logging.getLogger("trio_mcp.transports")

_PROTECTED_SECONDS = 60.0
"""Who has became_idle for less is not ended to make room for others (rule 2)."""
_RETRY_AFTER = "30"
"""Seconds after which a client that was refused for want of room may try again."""
_FLUSH_SECONDS = 2.0
"""How long last words may take to be written."""

S = TypeVar("S", bound=HttpSession)


def _positive(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"SessionSettings({attribute.name}={value!r}): must be a number above 0")


def _path(_: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and not value.startswith("/"):
        raise ValueError(f"SessionSettings({attribute.name}={value!r}): begins with a slash")


@frozen(kw_only=True)
class SessionSettings:
    """What clients of revisions up to 2025-11-25 may cost an HTTP server, and what is stored for when they lose a stream.

    Times are seconds.

    Raises:
        ValueError: a number is not above 0, *retry_seconds* is infinite, or *sse_path* is no path.
    """

    idle_seconds: float = field(default=30 * 60.0, validator=_positive)
    """A session ends when its client has asked for nothing, and has had no stream open, for so long."""
    half_open_seconds: float = field(default=30.0, validator=_positive)
    """Likewise, while its client has not wait_output that it is initialized."""
    max_sessions: int = field(default=4096, validator=_positive)
    """How many there may be. When one more begins, one that is idle makes room; where none is, the client gets 503."""
    event_store: EventStore | None = None
    """Where what is sent on event streams is stored, so that clients whose connection breaks get the rest. By default it
    is not: an answer whose client has left is lost. With it, clients can also be sent away to come back later; see
    `Context.close_stream`."""
    retry_seconds: float = field(default=1.0, validator=(_positive, lt(math.inf)))
    """After how long they come back, unless a handler says otherwise."""
    sse: bool = True
    """Whether clients of HTTP+SSE are served as well, if the server speaks 2024-11-05: a GET that names no session, and
    asks for an event stream, begins one."""
    sse_path: str | None = field(default=None, validator=_path)
    """One more path for these clients, such as ``"/sse"``."""


@frozen(kw_only=True)
class SessionStatistics:
    """What the sessions of an application hold at one moment, for debugging."""

    sessions: int
    """Those that are there."""
    half_open: int
    """Those of them whose client has not wait_output that it is initialized."""
    idle: int
    """Those of them of which nothing is worked on, and no stream is open."""
    outbox_bytes: int
    """Bytes that wait to be sent."""
    undelivered: int
    """Answers since the beginning that nobody was there to take."""


@asynccontextmanager
async def open_sessions(
    serving: HttpServing, spoken: Sequence[str], settings: SessionSettings, authorizer: RequestAuthorizer
) -> AsyncGenerator[SessionRegistry]:
    """Open the sessions of an application that is run; at the end of the block all of them end, at once.

    Args:
        serving: answers their requests.
        spoken: the revisions that the server speaks.
        settings: what they may cost.
        admission: judges who asks.
    """
    store = settings.event_store
    async with nullcontext() if store is None else store.open() as events, owned_nursery() as nursery:
        sessions = SessionRegistry(serving, spoken, settings, authorizer, nursery, events)
        nursery.start_soon(sessions.expire)
        try:
            yield sessions
        finally:
            sessions.close()


@define(eq=False)
class SessionRegistry:
    """The sessions of an application. Made by `open_sessions`."""

    _serving: HttpServing
    _spoken: Sequence[str]
    _settings: SessionSettings
    _authorizer: RequestAuthorizer
    _nursery: trio.Nursery
    _events: EventLog | None
    _host: SessionHost = field(init=False)
    _table: dict[str, HttpSession] = field(factory=dict[str, HttpSession], init=False)
    """Those that are there, by id."""
    _ending: set[HttpSession] = field(factory=set[HttpSession], init=False)
    """Those that have ended, and something of which still has to."""
    _removed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _sleep: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Ends when the first of them has became_idle for too long."""
    _undelivered: int = field(default=0, init=False)
    """Answers of those that have ended that nobody was there to take."""

    def __attrs_post_init__(self) -> None:
        settings = self._settings
        self._host = SessionHost(
            self._serving,
            self._authorizer,
            self._nursery,
            self._events,
            idle_seconds=settings.idle_seconds,
            half_open_seconds=settings.half_open_seconds,
            retry_ms=round(settings.retry_seconds * 1000),
            became_idle=self._became_idle,
            ended=self._ended,
        )

    async def post(self, posted: LegacyPost, request: HttpRequest, responding: Responding) -> None:
        """Answer a POST: that of a session, or one that begins a session."""
        if posted.session_id is None:
            session = self._begin(StreamableSession, request, posted.value)
        else:
            session = self._named(posted.session_id, request, responding, posted.value)
        if isinstance(session, Refusal):
            await responding.refuse(session)
        else:
            await session.post(posted, request, responding)

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Answer a GET: that of a session, or one that begins a stream of HTTP+SSE."""
        if self._begins_stream(request):
            connection = self._begin(SseConnection, request)
            if isinstance(connection, Refusal):
                await responding.refuse(connection)
            else:
                await connection.get(request, responding)
            return
        session = self._named_in_head(request, responding)
        if isinstance(session, Refusal):
            await responding.refuse(session)
        else:
            await session.get(request, responding)

    async def delete(self, request: HttpRequest, responding: Responding) -> None:
        """End the session that a DELETE names."""
        session = self._named_in_head(request, responding)
        if isinstance(session, Refusal):
            await responding.refuse(session)
        else:
            session.close(ConnectionClosed("the client has ended the session"))
            await responding.empty(HTTPStatus.NO_CONTENT)

    def apply_revision(self, responding: Responding, request: HttpRequest) -> None:
        """Have errors be as the session wants them that a request names; see `HttpSession.apply_revision`."""
        session = self._find(StreamableSession, request.headers.get(SESSION_FIELD, ""), request)
        if session is not None:
            session.apply_revision(responding)

    def stream_of(self, request: HttpRequest) -> SseConnection | None:
        """Return the stream of HTTP+SSE that a POST is addressed to; None where there is none."""
        id = addressed_stream(request)
        return None if id is None else self._find(SseConnection, id, request)

    def _begins_stream(self, request: HttpRequest) -> bool:
        later = request.headers.get(SESSION_FIELD) or request.headers.get(VERSION_FIELD)
        return self._settings.sse and LEGACY_REVISIONS[0] in self._spoken and not later

    def _named_in_head(self, request: HttpRequest, responding: Responding) -> StreamableSession | Refusal:
        """Return the session that a request without a body names, or what it gets instead."""
        refusal = check_session(request.headers, self._spoken)
        return self._named(request.headers[SESSION_FIELD], request, responding) if refusal is None else refusal

    def _named(
        self, id: str, request: HttpRequest, responding: Responding, value: object = None
    ) -> StreamableSession | Refusal:
        """Return a session, or what a request gets that may not use it; *value* is what was posted."""
        session = self._find(StreamableSession, id, request)
        if session is None:
            gone = "there is no such session, or no more: send 'initialize' without the header field"
            return _refusal(404, f"{gone} {SESSION_FIELD}", value)
        session.apply_revision(responding)
        version, revision = request.headers.get(VERSION_FIELD), session.admission.revision
        if version and version != revision:
            return _refusal(400, f"{VERSION_FIELD} {version[:100]!r}: this session speaks {revision}", value)
        return session

    def _find(self, kind: type[S], id: str, request: HttpRequest) -> S | None:
        session = self._table.get(id)
        return session if isinstance(session, kind) and session.principal == request.principal else None

    def _begin(self, kind: type[S], request: HttpRequest, value: object = None) -> S | Refusal:
        """Return a new session, or what its client gets instead (rule 2)."""
        if len(self._table) >= self._settings.max_sessions:
            self._make_room(request.principal)
        if len(self._table) >= self._settings.max_sessions:
            refusal = _refusal(503, "there are as many sessions as there may be; try again later", value)
            return evolve(refusal, headers={"retry-after": _RETRY_AFTER})
        session = kind.begin(self._host, request.principal)
        self._table[session.id] = session
        self._became_idle(session)
        return session

    def _make_room(self, newcomer: str | None) -> None:
        """End the session that others miss least, if there is one, for somebody to have one more."""
        protected_since = trio.current_time() - _PROTECTED_SECONDS
        idle = [each for each in self._table.values() if each.deadline < math.inf]
        candidates = [each for each in idle if not each.admission.operating or each.idle_since <= protected_since]
        least = min(candidates, key=lambda each: (each.admission.operating, each.deadline), default=None)
        least = least or self._surplus(idle, newcomer)
        if least is not None:
            _log.debug("a session ends to make room for another one")
            least.close(ConnectionClosed("the server has no room for idle sessions"))

    def _surplus(self, idle: Sequence[HttpSession], newcomer: str | None) -> HttpSession | None:
        """Return a session at rest of whoever has most; None where that would leave them fewer than *newcomer* has."""
        owned = Counter(each.principal for each in self._table.values())
        ((owner, most),) = owned.most_common(1)
        theirs = [each for each in idle if each.principal == owner] if most > owned[newcomer] + 1 else []
        return min(theirs, key=lambda each: each.deadline, default=None)

    def _became_idle(self, session: HttpSession) -> None:
        self._sleep.deadline = min(self._sleep.deadline, session.deadline)

    def _ended(self, session: HttpSession) -> None:
        del self._table[session.id]
        self._undelivered += session.undelivered
        self._ending.add(session)
        self._nursery.start_soon(self._forget, session, name="end of a session")

    async def _forget(self, session: HttpSession) -> None:
        await session.forget()
        self._ending.discard(session)
        self._removed.unpark_all()

    async def expire(self) -> None:
        """End sessions that have became_idle for too long, for ever (rule 1)."""
        while True:
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = min((each.deadline for each in self._table.values()), default=math.inf)
                await trio.sleep_forever()
            for session in list(self._table.values()):
                if session.deadline <= trio.current_time():
                    session.close(ConnectionClosed("the session was idle for too long"))

    def stop(self) -> None:
        """End what does not end by itself; synchronous."""
        for session in list(self._table.values()):
            session.abandon(lambda exchange: exchange.endless)

    async def emptied(self) -> None:
        """Wait until every request is answered, and every session has ended, for a bounded time (rule 4)."""
        async with trio.open_nursery() as nursery:
            for session in self._table.values():
                nursery.start_soon(session.drain)
        self.close()
        with trio.move_on_after(_FLUSH_SECONDS):
            while self._ending:
                await self._removed.park()

    def close(self) -> None:
        """End every session; synchronous."""
        for session in list(self._table.values()):
            session.abandon(lambda exchange: exchange.open)
            session.close(ConnectionClosed("the server stops"))

    def statistics(self) -> SessionStatistics:
        """Return what the sessions hold now."""
        sessions = self._table.values()
        return SessionStatistics(
            sessions=len(sessions),
            half_open=sum(not each.admission.operating for each in sessions),
            idle=sum(each.idle_since < math.inf for each in sessions),
            outbox_bytes=sum(each.statistics().outbox_bytes for each in sessions),
            undelivered=self._undelivered + sum(each.undelivered for each in sessions),
        )


def _refusal(status: int, sentence: str, value: object) -> Refusal:
    """Return the refusal of a request, with the id of what was posted, if that is a request."""
    message = parse_message(value)
    return Refusal(
        status, McpError(INVALID_REQUEST, sentence), message.id if isinstance(message, JsonRpcRequest) else None
    )
