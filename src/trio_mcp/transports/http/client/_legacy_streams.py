"""A session of a server of the legacy revisions: its id, its event streams, and the outlets for answers.

Rules of this file:

1. Every message of the client is a POST. An outlet sends its messages one after the other. Each stream has an outlet of
   its own, so what belongs to one exchange stays in order, and an answer that does not get through delays no other
   exchange.
2. An event stream that ends is resumed with the id of its last event, after the pause that the server asked for
   (`retry`), or a second. If that fails, the pauses grow. Any event resets them, and so does a connection that lasted.
3. The standalone stream (`StandaloneStream`) is resumed for as long as the session lasts, unless the server has none.
   It is not resumed after a person or an authorization server was asked and refused, because they must not be asked
   again and again.
4. With HTTP+SSE, one stream carries everything and names the address that messages are posted to. The session ends with
   that stream.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery and
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Protocol, Self

import trio
from attrs import define, field

from ...._errors import AuthorizationFailed, RemoteProtocolError
from ....peer import NO_HEADERS, Outbox, QueuedMessage
from ....wire import LAST_EVENT_FIELD, SESSION_FIELD, VERSION_FIELD, SseDecoder, SseEvent, is_plain_field
from .._engine import EngineError, HttpResponse, checked_endpoint, is_event_stream, read_events
from ._transport import HttpTransport, back_off

__all__ = ["LegacySession", "ReplyOutlet", "ResumableStream", "SessionOwner", "StandaloneStream", "open_sse_session"]

_log = logging.getLogger("trio_mcp.transports")

_ID = re.compile(r"[!-~]{1,1024}")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds, if the server has not asked for a pause."""
_ENDPOINT_SECONDS = 10.0
"""The time to wait for an HTTP+SSE stream and its first event."""
_SHOWN = 200


class SessionRequest(Protocol):
    """A request in flight in a session."""

    def session_ended(self) -> None:
        """Act on the end of the session; synchronous."""
        ...


class SessionOwner(Protocol):
    """The part of `SessionManager` that the streams and outlets of a session use."""

    transport: HttpTransport
    current: LegacySession
    draining: set[ReplyOutlet]

    async def post_best_effort(self, session: LegacySession, line: bytes) -> bool:
        """Post a response that no caller waits for; return True if it was accepted. Never raises."""
        ...

    def is_unknown(self, session: LegacySession, response: HttpResponse) -> bool:
        """Return True if the response to a GET says that the server no longer knows the session."""
        ...

    def replace(self, session: LegacySession) -> None:
        """Replace a session that the server no longer knows, or whose stream has ended; synchronous."""
        ...


@define(eq=False)
class LegacySession:
    """One session, from its ``initialize`` on; also used for a server that gives its session no id."""

    url: str
    """The address that its messages are posted to."""
    is_sse: bool = False
    """True for HTTP+SSE: answers arrive in its one stream, and not in the responses to POSTs."""
    id: str | None = field(default=None, init=False, repr=False)
    revision: str | None = field(default=None, init=False)
    """The negotiated revision; None before the handshake."""
    fields: Mapping[str, str] = field(default=NO_HEADERS, init=False, repr=False)
    """The header fields that name it."""
    is_lost: bool = field(default=False, init=False)
    has_streams: bool = field(default=False, init=False)
    """True once the server has answered a GET with a stream."""
    standalone: StandaloneStream | None = field(default=None, init=False)
    tasks: set[SessionRequest] = field(factory=set["SessionRequest"], init=False)
    """The requests in flight in it."""
    _replies: ReplyOutlet | None = field(default=None, init=False)
    _streams: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)

    def replies(self, manager: SessionOwner) -> ReplyOutlet:
        """Return the outlet for answers to what comes in JSON responses, which is usually nothing."""
        if self._replies is None:
            self._replies = ReplyOutlet.of(manager, self)
        return self._replies

    def agree(self, revision: str | None) -> None:
        """Take the negotiated revision; None if there is none that a header field can name."""
        self.revision = revision
        self._set_fields()

    def _set_fields(self) -> None:
        named = {SESSION_FIELD: self.id, VERSION_FIELD: self.revision}
        self.fields = {name: value for name, value in named.items() if value is not None}

    def take_id(self, response: HttpResponse) -> None:
        """Take the id that the server has assigned; raises `RemoteProtocolError` if it cannot be sent back."""
        id = response.headers.get(SESSION_FIELD)
        if id is not None and not _ID.fullmatch(id):
            raise RemoteProtocolError(f"the server has assigned an invalid session id: {id[:100]!r}")
        self.id = id
        self._set_fields()

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
        """End the session: its streams and its requests in flight. Synchronous."""
        self.is_lost, self._replies = True, None
        for scope in self._streams:
            scope.cancel(reason="the session is over")
        for task in list(self.tasks):
            task.session_ended()


@define(eq=False)
class ReplyOutlet(Outbox):
    """An outlet whose task exists only while the queue is not empty."""

    _manager: SessionOwner
    _session: LegacySession | None
    """The session that its messages belong to; None for the session that is current when they are sent."""
    _is_draining: bool = field(default=False, init=False)

    @classmethod
    def of(cls, manager: SessionOwner, session: LegacySession | None) -> Self:
        """Return an empty outlet."""
        transport = manager.transport
        limits = transport.limits
        return cls(limits.outbox_bytes, limits.outbox_urgent_bytes, transport.disconnect, manager, session)

    def _append(self, entry: QueuedMessage) -> None:
        super()._append(entry)
        if self.size and not self._is_draining:
            self._is_draining = True
            self._manager.draining.add(self)
            self._manager.transport.nursery.start_soon(self._post_all)

    async def _post_all(self) -> None:
        try:
            while lines := self.take():
                for line in lines:
                    await self._manager.post_best_effort(self._session or self._manager.current, line)
                    self.sent(len(line))
        finally:
            self._is_draining = False
            self._manager.draining.discard(self)


@define(eq=False)
class ResumableStream:
    """An event stream that continues over several connections.

    Args:
        limit: the maximum size of an event, in bytes.
        take: called with each event.
    """

    _limit: int
    _take: Callable[[SseEvent], None]
    failures: int = field(default=0, init=False)
    """The number of attempts since an event has arrived, or a connection has lasted."""
    _last_event_id: str = field(default="", init=False)
    _retry: float = field(default=0.0, init=False)
    """The pause before the next attempt that the server asked for, in seconds."""

    @property
    def fields(self) -> dict[str, str]:
        """The header field that requests the events after the last one; empty if no event had an id."""
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
        """Start over, without the events that were missed."""
        self._last_event_id = ""


@define(eq=False)
class StandaloneStream:
    """The stream of messages that belong to no request of the client; `run` is its task."""

    _manager: SessionOwner
    _session: LegacySession
    opened_or_refused: trio.Event = field(factory=trio.Event, init=False)
    """Set when the stream is open, or is known not to open."""
    _stream: ResumableStream = field(init=False)
    _outlet: ReplyOutlet = field(init=False)
    _has_started: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._stream = ResumableStream(self._manager.transport.limits.max_message_bytes, self._take)
        self._outlet = ReplyOutlet.of(self._manager, self._session)

    async def run(self) -> None:
        """Read the stream until the session ends, or the server refuses; never raises."""
        with self._session.streams():
            while await self._connect():
                self.opened_or_refused.set()
                await self._stream.pause()
        self.opened_or_refused.set()

    async def _connect(self) -> bool:
        """Read the stream over one connection; return True to try another."""
        manager, session = self._manager, self._session
        timeouts = manager.transport.timeouts
        pauses = timeouts.pauses
        try:
            async with manager.transport.sender.get({**session.fields, **self._stream.fields}) as response:
                if not is_event_stream(response):
                    if manager.is_unknown(session, response):
                        manager.replace(session)
                    return self._has_started and response.status >= 500
                self._has_started = session.has_streams = True
                self.opened_or_refused.set()
                await self._stream.read(response)
        except EngineError as exc:
            _log.debug("the standalone stream broke off: %s", exc)
        except RemoteProtocolError as exc:
            _log.warning("events of the standalone stream cannot be read and are skipped: %s", exc)
            self._stream.forget()  # the server would send the same events again
        except AuthorizationFailed as exc:
            if not self._has_started or exc.error is not None or timeouts.pauses > pauses:
                _log.warning("the standalone stream is not opened again: %s", exc)
                return False
            _log.debug("the standalone stream cannot be resumed yet: %s", exc)
        return True

    def _take(self, event: SseEvent) -> None:
        if event.event == "message" and event.data:
            self._manager.transport.received(event.data, self._outlet)


class _NoStreamError(Exception):
    """The server has no such stream."""


async def open_sse_session(manager: SessionOwner) -> LegacySession | None:
    """Open a session by requesting its stream; return None if the server has none.

    Raises:
        RemoteProtocolError: the stream names no address that messages may be posted to, or cannot be read.
        AuthorizationFailed: the server requires authentication, and no token is available.
    """
    session = LegacySession(manager.transport.sender.url, is_sse=True)
    stream = _SseStream(manager, session, ReplyOutlet.of(manager, session))
    with manager.transport.timeouts.within(_ENDPOINT_SECONDS):
        try:
            await manager.transport.nursery.start(stream.run)
        except (_NoStreamError, EngineError):
            return None
        return session
    return None


@define(eq=False)
class _SseStream:
    """The stream of an HTTP+SSE session; `run` is its task."""

    _manager: SessionOwner
    _session: LegacySession
    _outlet: ReplyOutlet
    _has_started: bool = field(default=False, init=False)
    """True once the first event has arrived."""

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Read the stream until it ends. Raises only before the session has started."""
        with self._session.streams():
            try:
                await self._read(task_status)
            except (EngineError, RemoteProtocolError) as exc:
                if not self._has_started:
                    raise
                _log.debug("the event stream of the session broke off: %s", exc)
        if not self._has_started:
            raise _NoStreamError
        self._manager.replace(self._session)

    async def _read(self, task_status: trio.TaskStatus[None]) -> None:
        def take(event: SseEvent) -> None:
            if not self._has_started:
                self._begin(event)
                task_status.started()
            elif event.event == "message" and event.data:
                transport.received(event.data, self._outlet)

        transport = self._manager.transport
        async with transport.sender.get({}) as response:
            if is_event_stream(response):
                await read_events(response, SseDecoder(transport.limits.max_message_bytes), take)

    def _begin(self, event: SseEvent) -> None:
        if event.event != "endpoint":
            raise RemoteProtocolError(f"the event stream begins with {event.event[:_SHOWN]!r} instead of 'endpoint'")
        self._session.url = checked_endpoint(self._session.url, event.data.decode(errors="replace"))
        self._has_started = True
