"""The sessions of an HTTP application: their owners, their number, and their end.

Rules of this file:

1. A session that is idle for too long ends; one whose handshake is not complete, soon.
2. The number of sessions is bounded. A new session beyond the bound replaces another: one without a handshake, or else
   the one that is idle longest, if that is for a minute at least. Otherwise the sender with the most sessions gives one
   up (`SharedBound`): an idle one, or else one that only listens, or else one with requests in flight. If the newcomer
   would have as many, it is refused.
3. A session exists only for its principal; to all others it is unknown.
4. When the server stops, requests in flight may go on for `Limits.drain_seconds`, and then fail because the server
   stops. Then every session ends with its streams; in a service of several processes, another one continues it
   (`StoppingSessions`).

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import trio
from attrs import Attribute, define, evolve, field, frozen
from attrs.validators import lt

from ...._errors import ConnectionClosed, McpError, SharedUnavailable
from ...._shares import Sender, SharedBound
from ...._util import owned_nursery
from ....abc import EventStore, HttpServing
from ....wire import (
    INVALID_REQUEST,
    LEGACY_REVISIONS,
    SESSION_FIELD,
    VERSION_FIELD,
    JsonRpcRequest,
    LegacyPost,
    Message,
    Refusal,
    addressed_stream,
    check_session,
    parse_message,
)
from ._asgi import BegunRequest, HttpRequest, RequestAuthorizer, Responding
from ._byte_budget import ByteBudget
from ._event_store import EventGuard
from ._legacy_session import HttpSession, SessionHost, SseConnection, StreamableSession
from ._session_moves import MISDIRECTED, LeftSession, SessionMoves, StoppingSessions

__all__ = ["SessionRegistry", "SessionSettings", "SessionStatistics", "open_sessions"]

_log = logging.getLogger("trio_mcp.transports")

_PROTECTED_SECONDS = 60.0
"""A session that is idle for a shorter time is not ended to make room (rule 2)."""
_RETRY_AFTER = "30"
"""The seconds after which a client that was refused for lack of room may try again."""
_ID_BYTES = 32
"""The number of random bytes in the id of a session."""
_ARRIVAL_SECONDS = 10.0
"""The maximum time for continuing a session of another process: longer than a backend and an event store ever take."""
_FLUSH_SECONDS = 2.0
"""The maximum time for the last messages to be written."""

S = TypeVar("S", bound=HttpSession)


def _positive(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"SessionSettings({attribute.name}={value!r}): must be a number above 0")


def _path(_: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and not value.startswith("/"):
        raise ValueError(f"SessionSettings({attribute.name}={value!r}): must begin with a slash")


@frozen(kw_only=True)
class SessionSettings:
    """The limits for sessions of revisions up to 2025-11-25, and the event store for resumable streams.

    Times are seconds.

    Raises:
        ValueError: a number is not above 0, *retry_seconds* is infinite, or *sse_path* is not a path.
    """

    idle_seconds: float = field(default=30 * 60.0, validator=_positive)
    """A session ends when its client has sent no request, and has had no stream open, for that long."""
    half_open_seconds: float = field(default=30.0, validator=_positive)
    """The same limit until the client has sent ``notifications/initialized``."""
    max_sessions: int = field(default=4096, validator=_positive)
    """The maximum number of sessions. One more replaces an idle session, or one of the client that has the most; if
    that is the new one's, it gets 503."""
    event_store: EventStore | None = None
    """Stores what is sent in event streams, so that clients whose connection breaks get the rest. By default nothing is
    stored: an answer whose client has left is lost. With a store, clients can also be sent away to come back later;
    see `Context.close_stream`."""
    retry_seconds: float = field(default=1.0, validator=(_positive, lt(math.inf)))
    """The time after which they come back, unless a handler sets another one."""
    sse: bool = True
    """True to serve clients of HTTP+SSE as well, if the server speaks 2024-11-05: a GET that names no session, and
    requests an event stream, opens a connection."""
    sse_path: str | None = field(default=None, validator=_path)
    """An additional path for these clients, such as ``"/sse"``."""


@frozen(kw_only=True)
class SessionStatistics:
    """The state of the sessions of an application at one moment, for debugging."""

    sessions: int
    """The number of sessions."""
    half_open: int
    """The number of sessions whose client has not sent ``notifications/initialized``."""
    idle: int
    """The number of sessions without a running handler and without an open stream."""
    outbox_bytes: int
    """The number of bytes that wait to be sent."""
    undelivered: int
    """The total number of answers whose client had left."""


@asynccontextmanager
async def open_sessions(
    serving: HttpServing,
    supported: Sequence[str],
    settings: SessionSettings,
    authorizer: RequestAuthorizer,
    budget: ByteBudget,
    moves: SessionMoves | None,
) -> AsyncGenerator[SessionRegistry]:
    """Open the sessions of a running application; at the end of the block all of them end, at once.

    Args:
        serving: answers their requests.
        supported: the revisions that the server speaks.
        settings: their limits.
        authorizer: authorizes their requests.
        budget: counts the bytes that wait in them.
        moves: those to and from the other processes of the service; None if there are none.
    """
    store = settings.event_store
    async with nullcontext() if store is None else store.open() as events, owned_nursery() as nursery:
        guard = None if events is None else EventGuard(events, nursery)
        sessions = SessionRegistry(serving, supported, settings, authorizer, budget, nursery, guard, moves)
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
    _budget: ByteBudget
    _nursery: trio.Nursery
    _events: EventGuard | None
    _moves: SessionMoves | None
    _host: SessionHost = field(init=False)
    _table: dict[str, HttpSession] = field(factory=dict[str, HttpSession], init=False)
    """The open sessions by id."""
    _bound: SharedBound[HttpSession] = field(init=False)
    """The same sessions by sender."""
    _ending: set[HttpSession] = field(factory=set[HttpSession], init=False)
    """The sessions that have ended, but are not forgotten yet."""
    _removed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _sleep: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Ends when the first session has been idle for too long."""
    _undelivered: int = field(default=0, init=False)
    """The number of undelivered answers of sessions that have ended."""
    is_stopping: bool = field(default=False, init=False)
    """True if no request is begun any more. Those that other processes forward wait."""
    _continued: set[str] = field(factory=set[str], init=False)
    """The ids of the open sessions that other processes have begun."""

    def __attrs_post_init__(self) -> None:
        settings = self._settings
        self._bound = SharedBound(settings.max_sessions)
        self._host = SessionHost(
            self._serving,
            self._authorizer,
            self._budget,
            self._nursery,
            self._events,
            idle_seconds=settings.idle_seconds,
            half_open_seconds=settings.half_open_seconds,
            retry_ms=round(settings.retry_seconds * 1000),
            ended=self._ended,
            new_id=partial(secrets.token_urlsafe, _ID_BYTES) if self._moves is None else self._moves.new_id,
        )

    @property
    def open(self) -> int:
        """The number of open sessions."""
        return len(self._table)

    def has(self, id: str) -> bool:
        """Return True if there is an open session *id*, of any principal, which has arrived."""
        session = self._table.get(id)
        return session is not None and session.arrival is None

    async def post(self, posted: LegacyPost, request: HttpRequest, responding: Responding) -> None:
        """Answer a POST in a session, or one that opens a session."""
        await self._arrived(posted.session_id)
        if self.is_stopping and self._has_to_wait(posted):
            await self._redirect_later(posted.session_id, responding, posted.message)
            return
        if posted.session_id is None:
            session = self._begin(StreamableSession, request, posted.value)
        else:
            session = self._named(posted.session_id, request, responding, posted.value)
        if isinstance(session, Refusal):
            await responding.refuse(session)
        else:
            await session.post(posted, request, responding)

    def begin(self, posted: LegacyPost, request: HttpRequest) -> BegunRequest | None:
        """Begin to answer a POST in a session at once; return None, with nothing done, if `post` has to."""
        session = None if posted.session_id is None else self._find(StreamableSession, posted.session_id, request)
        if (
            session is None
            or session.arrival is not None
            or request.headers.get(VERSION_FIELD, session.admission.revision) != session.admission.revision
        ):
            return None
        return session.begin_post(posted, request)

    async def _arrived(self, id: str | None) -> None:
        """Wait until it is known whether this process continues a session, if it is about to."""
        session = self._table.get(id or "")
        if session is not None and session.arrival is not None:
            await session.arrival.wait()

    def _has_to_wait(self, posted: LegacyPost) -> bool:
        """Return True if a POST waits for the handover of its session: it is not an answer, or that has begun."""
        session = self._table.get(posted.session_id or "")
        is_answer = posted.message is not None and not isinstance(posted.message, JsonRpcRequest)
        return session is None or session.is_leaving or not is_answer

    async def _redirect_later(self, id: str | None, responding: Responding, message: Message | None = None) -> None:
        """Let another process answer a forwarded request, when its session was handed over (`StoppingSessions`)."""
        session = self._table.get(id or "")
        if session is not None:
            await session.wait_lost()
            if isinstance(message, JsonRpcRequest) and session.was_cancelled(message.id):
                await responding.empty()
                return
        await responding.refuse(Refusal(MISDIRECTED))

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Answer a GET in a session, or one that opens a connection of HTTP+SSE."""
        await self._arrived(request.headers.get(SESSION_FIELD))
        if self.is_stopping:
            await self._redirect_later(request.headers.get(SESSION_FIELD), responding)
            return
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
        id = request.headers.get(SESSION_FIELD, "")
        await self._arrived(id)
        if self.is_stopping and (id not in self._table or self._table[id].is_leaving):
            await self._redirect_later(id, responding)
            return
        session = self._named_in_head(request, responding)
        if isinstance(session, Refusal):
            await responding.refuse(session)
        else:
            session.close(ConnectionClosed("the client has ended the session"))
            await responding.empty(HTTPStatus.NO_CONTENT)

    def apply_revision(self, responding: Responding, request: HttpRequest) -> None:
        """Format errors for the session that a request names; see `HttpSession.apply_revision`."""
        session = self._find(StreamableSession, request.headers.get(SESSION_FIELD, ""), request)
        if session is not None:
            session.apply_revision(responding)

    def stream_of(self, request: HttpRequest) -> SseConnection | None:
        """Return the HTTP+SSE connection that a POST is addressed to; None if there is none."""
        id = addressed_stream(request.query)
        return None if id is None else self._find(SseConnection, id, request)

    def _begins_stream(self, request: HttpRequest) -> bool:
        later = request.headers.get(SESSION_FIELD) or request.headers.get(VERSION_FIELD)
        return self._settings.sse and LEGACY_REVISIONS[0] in self._spoken and not later

    def _named_in_head(self, request: HttpRequest, responding: Responding) -> StreamableSession | Refusal:
        """Return the session that a request without a body names, or the refusal."""
        refusal = check_session(request.headers, self._spoken)
        return self._named(request.headers[SESSION_FIELD], request, responding) if refusal is None else refusal

    def _named(
        self, id: str, request: HttpRequest, responding: Responding, value: object = None
    ) -> StreamableSession | Refusal:
        """Return the session *id*, or the refusal of the request that names it.

        Args:
            id: of the session.
            request: which names it.
            responding: its response.
            value: the posted JSON, for the id of the refusal.
        """
        session = self._find(StreamableSession, id, request)
        if session is None:
            gone = "unknown or ended session: send 'initialize' without the header field"
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
        """Return a new session, or the refusal (rule 2)."""
        refusal = self.refusal_to_begin(request, value)
        if refusal is not None:
            return refusal
        session = kind.begin(self._host, request)
        self._add(session)
        return session

    def refusal_to_begin(self, request: HttpRequest, value: object) -> Refusal | None:
        """Make room for a session of the client that makes a request; return the refusal if there is none (rule 2)."""
        if not self._bound.has_room():
            self._make_room(request.sender)
        if self._bound.has_room():
            return None
        refusal = _refusal(
            503, "the maximum number of sessions is open (SessionSettings.max_sessions); try again later", value
        )
        return evolve(refusal, headers={"retry-after": _RETRY_AFTER})

    def _add(self, session: HttpSession) -> None:
        self._table[session.id] = session
        self._bound.add(session.sender, session)
        self._wake_by(session.deadline)

    def begin_arrival(self, id: str, request: HttpRequest) -> StreamableSession | Refusal:
        """Return a session that may continue one of another process, or the refusal; `arrive` must follow.

        It has its place from now on, and its requests wait.
        """
        refusal = self.refusal_to_begin(request, None)
        if self.is_stopping:
            refusal = _refusal(503, "the server stops", None)
        if refusal is not None:
            return refusal
        session = StreamableSession.begin(self._host, request, id)
        session.arrival = trio.Event()
        self._add(session)
        return session

    async def arrive(self, session: StreamableSession, left: LeftSession, request: HttpRequest) -> bool:
        """Continue a session of another process, for the client that makes a request; return False if that is in vain.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        arrival, is_here = session.arrival, False
        assert arrival is not None
        with session.request_in_flight(), trio.move_on_after(_ARRIVAL_SECONDS, shield=True):
            try:  # shielded, because the session would be lost in between
                if await left.claim():
                    self._continued.add(session.id)
                    await session.restore(left.record, request.access)
                    is_here = True
            except SharedUnavailable:
                raise
            except Exception:  # noqa: BLE001 # a process with another version of this package
                _log.exception("a session of another process cannot be read")
            finally:
                session.arrival = None
                if not is_here:
                    session.close(ConnectionClosed("another process continues the session"))
                arrival.set()
        return is_here

    def _make_room(self, newcomer: Sender) -> None:
        """End the session that is the least loss, if there is one, to make room for a new one."""
        protected_since = trio.current_time() - _PROTECTED_SECONDS
        idle = [each for each in self._table.values() if each.deadline < math.inf]
        candidates = [each for each in idle if not each.admission.operating or each.idle_since <= protected_since]
        least = min(candidates, key=lambda each: (each.admission.operating, each.deadline), default=None)
        least = least or self._surplus(newcomer)
        if least is not None:
            _log.debug("a session ends to make room for a new one")
            least.close(ConnectionClosed("the server has no room for the session"))

    def _surplus(self, newcomer: Sender) -> HttpSession | None:
        """Return the session that the sender with the most gives up; None if *newcomer* would then have as many."""
        owner = self._bound.who_gives_way(newcomer)
        if owner is None:
            return None
        return min(self._bound.entries_of(owner), key=lambda each: (bool(each.ledger.incoming), each.deadline))

    def _wake_by(self, deadline: float) -> None:
        """Look at all sessions at that time at the latest."""
        self._sleep.deadline = min(self._sleep.deadline, deadline)

    def _ended(self, session: HttpSession) -> None:
        del self._table[session.id]
        self._bound.remove(session)
        self._undelivered += session.undelivered
        self._ending.add(session)
        self._nursery.start_soon(self._forget, session, name="end of a session")

    async def _forget(self, session: HttpSession) -> None:
        await session.forget()
        if session.id in self._continued and self._moves is not None:
            self._continued.discard(session.id)
            await self._moves.session_ended(session.id)
        self._ending.discard(session)
        self._removed.unpark_all()

    async def expire(self) -> None:
        """End sessions that have been idle for too long, forever (rule 1).

        A session says nothing when it becomes idle, which it does after each request. None that does so during a sleep
        can expire before the sleep ends.
        """
        shortest = min(self._settings.idle_seconds, self._settings.half_open_seconds)
        while True:
            with trio.CancelScope() as self._sleep:
                if self._table:
                    deadlines = [each.deadline for each in self._table.values()]
                    self._wake_by(min(trio.current_time() + shortest, *deadlines))
                await trio.sleep_forever()
            for session in list(self._table.values()):
                if session.deadline <= trio.current_time():
                    session.close(ConnectionClosed("the session was idle for too long"))

    def stop(self) -> None:
        """End the endless requests, and begin no others; synchronous."""
        self.is_stopping = True
        for session in list(self._table.values()):
            session.abandon(lambda exchange: exchange.endless)

    async def emptied(self) -> None:
        """Wait until every request is answered and every session has ended, for a bounded time (rule 4)."""
        seconds, limits = self._settings.idle_seconds, self._serving.limits
        leaving = None
        if self._moves is not None:
            leaving = StoppingSessions(self._moves, seconds, len(self._table), limits.drain_seconds)
        async with trio.open_nursery() as nursery:
            for session in self._table.values():
                nursery.start_soon(self._drain, session, leaving)
        self.close()
        with trio.move_on_after(_FLUSH_SECONDS):
            while self._ending:
                await self._removed.park()

    async def _drain(self, session: HttpSession, leaving: StoppingSessions | None) -> None:
        """Wait until the requests of a session are answered; then hand it over, if there are other processes."""
        await self._arrived(session.id)
        await session.drain()
        if leaving is not None and isinstance(session, StreamableSession) and session.lost is None:
            session.abandon(lambda exchange: exchange.open)
            await leaving.hand_over(session)
            self._continued.discard(session.id)
            session.close(ConnectionClosed("another process continues the session"))

    def close(self) -> None:
        """End every session; synchronous."""
        for session in list(self._table.values()):
            session.abandon(lambda exchange: exchange.open)
            session.close(ConnectionClosed("the server stops"))

    def statistics(self) -> SessionStatistics:
        """Return the current state of the sessions."""
        sessions = self._table.values()
        return SessionStatistics(
            sessions=len(sessions),
            half_open=sum(not each.admission.operating for each in sessions),
            idle=sum(each.idle_since < math.inf for each in sessions),
            outbox_bytes=sum(each.statistics().outbox_bytes for each in sessions),
            undelivered=self._undelivered + sum(each.undelivered for each in sessions),
        )


def _refusal(status: int, sentence: str, value: object) -> Refusal:
    """Return a refusal with the id of the posted message, if that is a request."""
    message = parse_message(value)
    return Refusal(
        status, McpError(INVALID_REQUEST, sentence), message.id if isinstance(message, JsonRpcRequest) else None
    )
