"""Keeps the session that a server of the older revisions has with this client: begins it, begins another, ends it.

Rules of this file:

1. Everything after `initialize` carries the session's id, where the server has given one, and the revision agreed on.
2. A status 404 says that the server has forgotten the session. Whoever finds out first has another one begun, in which
   what was refused with that status is sent again, once. All else that was under way in the old one fails, or is sent
   again if it may be; whatever comes meanwhile waits.
3. Another session is one of the same revision. A server that begins none has ended the connection. One that cannot be
   reached has not: the next request tries again.
4. A server that knows nothing of `initialize` by POST is asked for the event stream of HTTP+SSE.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Self

import trio
from attrs import define, field

from ...._errors import (
    AuthorizationFailed,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLost,
    HttpStatusError,
    RemoteProtocolError,
    ResponseLost,
    TrioMcpError,
)
from ....peer import Outbox, QueuedMessage
from ....wire import (
    LAST_EVENT_FIELD,
    SESSION_FIELD,
    VERSION_FIELD,
    JsonObject,
    SseDecoder,
    SseEvent,
    encode_notification,
    is_plain_field,
)
from .._engine import EngineError, HttpResponse, Refused, checked_endpoint, is_event_stream, read_events
from ._request import back_off

if TYPE_CHECKING:
    from ._legacy_request import LegacyRequestTask
    from ._transport import HttpTransport

__all__ = ["EventTrail", "LegacySession", "NewsStream", "ReplyOutlet", "SessionManager", "open_legacy_session"]


# One session of a server of the older revisions: what names it, and what is under way in it.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management

_ID = re.compile(r"[!-~]{1,1024}")


@define(eq=False)
class LegacySession:
    """One session, from its `initialize` on; also what stands for it where the server gives it no id."""

    url: str
    """Where its messages are posted."""
    is_legacy: bool = False
    """Whether it is one of HTTP+SSE: answers come by its one stream, and not in response to what is posted."""
    id: str | None = field(default=None, init=False, repr=False)
    revision: str | None = field(default=None, init=False)
    """What was agreed on; None before."""
    is_lost: bool = field(default=False, init=False)
    has_streams: bool = field(default=False, init=False)
    """Whether the server has answered a GET with a stream."""
    news: NewsStream | None = field(default=None, init=False)
    carriers: set[LegacyRequestTask] = field(factory=set["LegacyRequestTask"], init=False)
    """The requests under way in it."""
    _streams: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)

    @property
    def fields(self) -> dict[str, str]:
        """The header fields that name it."""
        fields = {} if self.id is None else {SESSION_FIELD: self.id}
        return fields if self.revision is None else {**fields, VERSION_FIELD: self.revision}

    def begun_by(self, response: HttpResponse) -> None:
        """Take the id that the server has given it; raises `RemoteProtocolError` for one that cannot be sent back."""
        id = response.headers.get(SESSION_FIELD)
        if id is not None and not _ID.fullmatch(id):
            raise RemoteProtocolError(f"the server gives its session an id that is none: {id[:100]!r}")
        self.id = id

    @contextmanager
    def streams(self) -> Generator[None]:
        """Cancel the block when the session ends."""
        with trio.CancelScope() as scope:
            self._streams.add(scope)
            try:
                yield
            finally:
                self._streams.discard(scope)

    def disconnect(self) -> None:
        """It is over: end its streams, and what is under way in it. Synchronous."""
        self.is_lost = True
        for scope in self._streams:
            scope.cancel(reason="the session is over")
        for carrier in list(self.carriers):
            carrier.lose_session()


# Where this side answers what the server of a session asks: each message a POST, one after the other.
#
# There is a lane for each stream that questions come by. So what belongs to one exchange stays in order, and one
# answer
# that does not get through holds up nothing else.


@define(eq=False)
class ReplyOutlet(Outbox):
    """A queue that has a task only while something is in it."""

    _keeper: SessionManager
    _session: LegacySession | None
    """What its messages belong to; None for whatever session there is when they leave."""
    _is_draining: bool = field(default=False, init=False)

    @classmethod
    def of(cls, keeper: SessionManager, session: LegacySession | None) -> Self:
        """Return an empty lane."""
        transport = keeper.transport
        limits = transport.limits
        return cls(limits.outbox_bytes, limits.outbox_urgent_bytes, transport.disconnect, keeper, session)

    def _append(self, entry: QueuedMessage) -> None:
        super()._append(entry)
        if self.size and not self._is_draining:
            self._is_draining = True
            self._keeper.draining.add(self)
            self._keeper.transport.nursery.start_soon(self._post_all)

    async def _post_all(self) -> None:
        try:
            while lines := self.take():
                for line in lines:
                    await self._keeper.notify_nowait(self._session or self._keeper.current, line)
                    self.sent(len(line))
        finally:
            self._is_draining = False
            self._keeper.draining.discard(self)


# Event streams that go on over several connections: what was missed is asked for by the id of the last event.
#
# Rules of this file:
#
# 1. A stream is taken up again after the pause that the server asked for (`retry`), or after a second. Where that
# fails,
#    the pauses grow; whatever comes makes them short again, and so does a stream that lasted.
# 2. A stream that nobody waits for (`NewsStream`) is tried for as long as the session lasts, unless the server has
# none.
#    Nor is it once a person was asked for it, or an authorization server, and said no: nobody is asked again and
#    again.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery

_log = logging.getLogger("trio_mcp.transports")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds, where the server has not said how long to wait."""


@define(eq=False)
class EventTrail:
    """One stream, and how far it has been read.

    Args:
        limit: bytes of the longest event.
        take: is given each event.
    """

    _limit: int
    _take: Callable[[SseEvent], None]
    failures: int = field(default=0, init=False)
    """Attempts since something has come, or a connection has lasted."""
    _last_event_id: str = field(default="", init=False)
    _retry: float = field(default=0.0, init=False)
    """Seconds that the server wants to pass before the next attempt."""

    @property
    def fields(self) -> dict[str, str]:
        """The header field that asks for what has not been read; empty where nothing says how far that is."""
        last = self._last_event_id
        return {LAST_EVENT_FIELD: last} if last and is_plain_field(last) else {}

    async def read(self, response: HttpResponse) -> None:
        """Read one connection to its end; raises what `read_events` does."""
        decoder, begun = SseDecoder(self._limit, self._last_event_id), trio.current_time()
        try:
            await read_events(response, decoder, self._take_event)
        finally:
            if decoder.last_event_id != self._last_event_id:
                self._last_event_id, self.failures = decoder.last_event_id, 0
            if trio.current_time() - begun > _LONGEST_PAUSE:
                self.failures = 0
            if decoder.retry_ms is not None:
                self._retry = decoder.retry_ms / 1000

    def _take_event(self, event: SseEvent) -> None:
        self.failures = 0
        self._take(event)

    async def pause(self) -> None:
        """Wait before the next attempt."""
        self.failures += 1
        first = self._retry or _FIRST_PAUSE
        spread = back_off(self.failures, first=first, longest=max(first, _LONGEST_PAUSE))
        await trio.sleep(max(self._retry, spread))

    def forget(self) -> None:
        """Begin anew: what has not been read cannot be."""
        self._last_event_id = ""


@define(eq=False)
class NewsStream:
    """What the server says in a session outside of all exchanges; `run` is its task."""

    _keeper: SessionManager
    _session: LegacySession
    resolved: trio.Event = field(factory=trio.Event, init=False)
    """Set when the stream has begun, or it is known that it does not."""
    _trail: EventTrail = field(init=False)
    _outlet: ReplyOutlet = field(init=False)
    _has_begun: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._trail = EventTrail(self._keeper.transport.limits.max_message_bytes, self._take)
        self._outlet = ReplyOutlet.of(self._keeper, self._session)

    async def run(self) -> None:
        """Hear it until the session ends, or the server refuses; never raises."""
        with self._session.streams():
            while await self._connect():
                self.resolved.set()
                await self._trail.pause()
        self.resolved.set()

    async def _connect(self) -> bool:
        """Hear it over one connection; return whether to try another."""
        keeper, session = self._keeper, self._session
        timeouts = keeper.transport.timeouts
        pauses = timeouts.pauses
        try:
            async with keeper.transport.door.get({**session.fields, **self._trail.fields}) as response:
                if not is_event_stream(response):
                    if keeper.is_forgotten(session, response):
                        keeper.lost(session)
                    return self._has_begun and response.status >= 500
                self._has_begun = session.has_streams = True
                self.resolved.set()
                await self._trail.read(response)
        except EngineError as exc:
            _log.debug("the stream of news broke: %s", exc)
        except RemoteProtocolError as exc:
            _log.warning("some of the server's news cannot be read: %s", exc)
            self._trail.forget()  # else the same would come again
        except AuthorizationFailed as exc:
            if not self._has_begun or exc.error is not None or timeouts.pauses > pauses:
                _log.warning("the server's news are not heard: %s", exc)
                return False
            _log.debug("the stream of news cannot be taken up again: %s", exc)
        return True

    def _take(self, event: SseEvent) -> None:
        if event.event == "message" and event.data:
            self._keeper.transport.received(event.data, self._outlet)


# HTTP+SSE of 2024-11-05: one stream brings everything, and names the address that messages are posted to.
#
# The session is that stream: when it ends, so does the session.
#
# Specification: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse

_ENDPOINT_SECONDS = 10.0
"""How long the stream and its first event are waited for."""
_SHOWN = 200


class _NoStreamError(Exception):
    """The server has no such stream."""


async def open_legacy_session(keeper: SessionManager) -> LegacySession | None:
    """Begin a session by asking for its stream; None where the server has none.

    Raises:
        RemoteProtocolError: the stream names no address that messages may be posted to, or cannot be read.
        AuthorizationFailed: the server wants to know who asks, and there is no token for it.
    """
    session = LegacySession(keeper.transport.door.url, is_legacy=True)
    stream = _LegacySseStream(keeper, session, ReplyOutlet.of(keeper, session))
    with keeper.transport.timeouts.within(_ENDPOINT_SECONDS):
        try:
            await keeper.transport.nursery.start(stream.run)
        except (_NoStreamError, EngineError):
            return None
        return session
    return None


@define(eq=False)
class _LegacySseStream:
    """The stream of one session; `run` is its task."""

    _keeper: SessionManager
    _session: LegacySession
    _outlet: ReplyOutlet
    _has_begun: bool = field(default=False, init=False)
    """Whether the first event has come."""

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Read the stream until it ends. Raises only before the session has begun."""
        with self._session.streams():
            try:
                await self._read(task_status)
            except (EngineError, RemoteProtocolError) as exc:
                if not self._has_begun:
                    raise
                _log.debug("the stream of the session broke: %s", exc)
        if not self._has_begun:
            raise _NoStreamError
        self._keeper.lost(self._session)

    async def _read(self, task_status: trio.TaskStatus[None]) -> None:
        def take(event: SseEvent) -> None:
            if not self._has_begun:
                self._begin(event)
                task_status.started()
            elif event.event == "message" and event.data:
                transport.received(event.data, self._outlet)

        transport = self._keeper.transport
        async with transport.door.get({}) as response:
            if is_event_stream(response):
                await read_events(response, SseDecoder(transport.limits.max_message_bytes), take)

    def _begin(self, event: SseEvent) -> None:
        if event.event != "endpoint":
            raise RemoteProtocolError(f"the event stream begins with {event.event[:_SHOWN]!r}, and not with 'endpoint'")
        self._session.url = checked_endpoint(self._session.url, event.data.decode(errors="replace"))
        self._has_begun = True


_RENEWAL_SECONDS = 30.0
"""How long it may take to begin another session."""
_WHO_ASKS = (401, 403)
"""The statuses that say nothing about sessions."""
_NEWS_SECONDS = 2.0
"""How long the head of the stream of news is waited for: servers that say nothing yet may not send one."""


@define(eq=False)
class SessionManager:
    """Keeps the one session of a transport."""

    transport: HttpTransport
    outlet: ReplyOutlet = field(init=False)
    """Where what belongs to no exchange goes out."""
    current: LegacySession = field(init=False)
    draining: set[ReplyOutlet] = field(factory=set[ReplyOutlet], init=False)
    """The lanes in which something waits."""
    is_legacy: bool | None = field(default=None, init=False)
    """Whether the server knows nothing but HTTP+SSE; None while that is not known."""
    _params: JsonObject | None = field(default=None, init=False)
    """Of the `initialize` that was answered; None where none was."""
    _revision: str | None = field(default=None, init=False)
    """Which another session must have; None where there was none yet."""
    _renewal: trio.Event | None = field(default=None, init=False)
    """Set when the renewal that is under way has ended; None where none is."""
    _unauthorized: AuthorizationFailed | None = field(default=None, init=False)
    """Why the latest renewal has failed, if it is this."""
    _wants_news: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.current = LegacySession(self.transport.door.url)
        self.outlet = ReplyOutlet.of(self, None)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of replies and notices that wait."""
        return sum(outlet.size for outlet in self.draining)

    # A session begins.

    def enter(self, session: LegacySession) -> None:
        """The server has accepted an `initialize`: what is sent from now on belongs to its session."""
        self.current = session

    async def open_legacy(self) -> LegacySession | None:
        """Ask for the stream of HTTP+SSE, and enter its session; None where the server has none.

        Raises:
            RemoteProtocolError: what it says there is no address for messages.
        """
        session = await open_legacy_session(self)
        if session is not None:
            self.enter(session)
        return session

    def agreed(self, params: JsonObject | None, answer: JsonObject) -> None:
        """`initialize` has been answered."""
        revision = answer.get("protocolVersion")
        self.current.revision = revision if type(revision) is str and is_plain_field(revision) else None
        self._params, self.is_legacy = params, self.current.is_legacy
        self._revision = self._revision or self.current.revision

    async def hear_news(self) -> None:
        """Open the stream on which the server says what belongs to no exchange, unless it is open, or there is none."""
        self._wants_news = True
        session = self.current
        if session.revision is None or session.is_legacy or session.is_lost:
            await trio.lowlevel.checkpoint()
            return
        if session.news is None:
            session.news = NewsStream(self, session)
            self.transport.nursery.start_soon(session.news.run)
        with trio.move_on_after(_NEWS_SECONDS):
            await session.news.resolved.wait()

    # What belongs to it.

    async def usable(self) -> LegacySession:
        """Return the session, or the one that stands in its place when it was lost.

        Raises:
            ResponseLost: the server cannot be reached to begin another.
            AuthorizationFailed: it wants to know who asks first, and there is no token for it.
        """
        if self._renewal is None and self.current.is_lost:
            self._begin_renewal()
        while self._renewal is not None:
            await self._renewal.wait()
        if self.current.is_lost:
            if self._unauthorized is not None:
                raise copy(self._unauthorized)
            raise ResponseLost("the session is lost, and the server cannot be reached to begin another", sent=False)
        return self.current

    async def notify(self, method: str, line: bytes) -> None:
        """Post a notification; raises what `HttpTransport.notify` does."""
        for _ in range(2):
            session = await self.usable()
            refused = await self._post(session, line)
            if refused is None:
                return
            if not _says_forgotten(refused, session):  # whatever has become of the session meanwhile
                raise refused.error
        raise ResponseLost(f"the server has forgotten the session, and did not take {method!r}", sent=False)

    async def notify_nowait(self, session: LegacySession, line: bytes, *, is_farewell: bool = False) -> None:
        """Post a reply, or a notice that nobody waits for; what becomes of it is at most logged.

        Args:
            is_farewell: whether it is not worth more than one try.
        """
        if session.is_lost:
            return  # another session knows nothing of it
        with self.transport.timeouts.within(self.transport.limits.stall_seconds) as timeouts:
            try:
                refused = await self._post(session, line, is_farewell=is_farewell)
            except TrioMcpError as exc:
                _log.warning("a reply or a notification may not have arrived: %s", exc)
            else:
                if refused is not None:
                    _log.warning("the server did not take a reply or a notification: %s", refused.error)
        if timeouts.cancelled_caught:
            _log.warning("the server does not say whether it has taken a reply or a notification")

    async def _post(self, session: LegacySession, line: bytes, *, is_farewell: bool = False) -> Refused | None:
        refused = await self.transport.post(session.url, line, session.fields, is_farewell=is_farewell)
        if refused is not None and _says_forgotten(refused, session):
            self.lost(session)
        return refused

    # A session ends.

    @staticmethod
    def is_forgotten(session: LegacySession, response: HttpResponse) -> bool:
        """Tell whether a response to a GET says that the server has forgotten the session, and not that it has none."""
        return response.status == 404 and session.id is not None and session.has_streams

    def lost(self, session: LegacySession) -> None:
        """The server has forgotten a session, or its stream has ended: begin another. Synchronous."""
        if session.is_lost:
            return
        session.disconnect()
        if session is self.current and session.revision is not None:
            for exchange in list(self.transport.ledger.answering.values()):
                exchange.disconnect()
            self._begin_renewal()

    def _begin_renewal(self) -> None:
        if self._renewal is None and self._params is not None and self.transport.lost is None:
            self._revision = self.current.revision or self._revision
            self._renewal = trio.Event()
            self.transport.nursery.start_soon(self._renew)

    async def _renew(self) -> None:
        """Begin another session; never raises."""
        assert self._renewal is not None
        is_begun, self._unauthorized = False, None
        try:
            with self.transport.timeouts.within(_RENEWAL_SECONDS):
                await self._begin_again()
                is_begun = True
                self.transport.renewed()
        except TrioMcpError as exc:
            _log.debug("no other session could be begun: %s", exc)
            self._unauthorized = exc if isinstance(exc, AuthorizationFailed) else None
            if _is_final(exc):
                self.transport.disconnect(
                    ConnectionBroken(f"the server has lost the session, and begins no other: {exc}")
                )
        finally:
            if not is_begun:
                self.current.disconnect()
            renewal, self._renewal = self._renewal, None
            renewal.set()

    async def _begin_again(self) -> None:
        asked = self.transport.ask("initialize", self._params)
        asked.repeatable = True
        async with asked:
            await asked.result()
        session = self.current
        if session.revision != self._revision:
            raise RemoteProtocolError(f"it spoke revision {self._revision} before, and now wants {session.revision}")
        refused = await self._post(session, encode_notification("notifications/initialized", None))
        if refused is not None:
            raise refused.error
        if self._wants_news:
            await self.hear_news()

    def give_up(self, reason: ConnectionLost) -> None:
        """The connection is gone. A session that this side ends is ended by `close`, after the last words."""
        self.outlet.fail(reason)
        if not isinstance(reason, ConnectionClosed):
            self.current.disconnect()

    async def close(self) -> None:
        """Tell the server that the session is not needed any more, whatever it answers."""
        session = self.current
        if session.id is None or session.is_lost:
            return
        try:
            async with self.transport.door.delete(session.fields):
                pass
        except (EngineError, AuthorizationFailed) as exc:
            _log.debug("the session could not be ended: %s", exc)


def _says_forgotten(refused: Refused, session: LegacySession) -> bool:
    """Tell whether what was posted was refused because the server has forgotten the session."""
    return refused.status == 404 and session.id is not None


def _is_final(exc: TrioMcpError) -> bool:
    """Tell whether what came of a renewal is the server's word; a server in trouble, or a proxy, may come round."""
    match exc:
        case AuthorizationFailed() | ConnectionLost() | ResponseLost():
            return False
        case HttpStatusError(status=status):
            return status < 500 and status not in _WHO_ASKS
        case _:
            return True
