"""The sessions of legacy clients at an HTTP server: those of Streamable HTTP, and the connections of HTTP+SSE.

With HTTP+SSE, the transport of 2024-11-05, everything that the server sends goes out in one event stream. The client
opens it with a GET. Its first event, `endpoint`, names the address to post to, which is that of the stream with a
query: so both are at the one path of an application, beside what later revisions have there. Every POST is answered
with 202. The session ends with the stream, and both end with the access of the client, which each POST may extend.

Rules of this file:

1. A session is idle while no HTTP request of its client is being answered, neither a POST nor a stream, and no handler
   runs.
2. A session belongs to the principal that opened it; no other client can find out that it exists.
3. Ending a session is synchronous: its handlers are cancelled, waiting callers fail, its streams end.
4. Messages that belong to a request go out in the response to its POST. All others go out in the standing stream, which
   the client opens with a GET.
5. Without an event store, a response that consists of one answer, or an array of answers, is JSON, and any other is an
   event stream. With an event store it is an event stream, because only events can be requested again.
6. A client that closes a response has cancelled nothing. With an event store it may come back for the rest. Without
   one, the rest is dropped, and the answer is counted as undelivered.
7. From 2025-11-25 on, a stored stream begins with an event without data: its id tells the client where to resume, and
   its `retry` when. Clients of earlier revisions fail on it, so only later ones may be sent away from a stream that
   goes on.
8. The standing stream ends with the access of the client that opened it, and its client opens a new one. Other streams
   end with their call.
9. Messages of the handshake are not stored: before it, the revision of the client is unknown.
10. A cancellation may overtake its request, because each is posted on a connection of its own. The request is then
    dropped when it arrives: ids are not used twice in a session.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http and
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Self
from urllib.parse import quote

import trio
from attrs import define, field, frozen

from ...._errors import AskExpired, ConnectionBroken, ConnectionClosed, ConnectionLost, McpError
from ...._shares import Sender
from ....abc import HttpServing
from ....peer import (
    BUSY,
    NO_HEADERS,
    NO_ORIGIN,
    Access,
    ExchangeContext,
    ExchangeState,
    IncomingMessageRequest,
    Limits,
    MessageConnection,
    MessageOrigin,
    Outlet,
    ResponseBatch,
    SenderSlots,
    note_arrival,
)
from ....wire import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LAST_EVENT_FIELD,
    LEGACY_REVISIONS,
    LISTEN,
    PARSE_ERROR,
    SESSION_FIELD,
    JsonObject,
    JsonRpcRequest,
    LegacyPost,
    Message,
    Refusal,
    RequestId,
    Undecodable,
    decode,
    is_array,
    parse_message,
    sse_event,
    stream_query,
)
from ._asgi import QUICK_PASSES, BegunRequest, HttpRequest, RequestAuthorizer, Responding
from ._byte_budget import ByteBudget
from ._event_store import EventGuard, EventRecord
from ._legacy_streams import EventReplay, EventSource, HttpOutlet, OutletReader, StoredOutlet, read_event_id

__all__ = ["HttpSession", "SessionHost", "SseConnection", "StreamableSession"]


@frozen(eq=False)
class SessionHost:
    """The environment of the sessions of an application."""

    serving: HttpServing
    authorizer: RequestAuthorizer
    """Authorizes their requests."""
    budget: ByteBudget
    """Counts the bytes that wait in their outlets."""
    nursery: trio.Nursery
    """Holds their tasks, which end with it."""
    events: EventGuard | None
    """The event store; None if nothing is stored."""
    idle_seconds: float
    """The maximum time that a session may be idle."""
    half_open_seconds: float
    """The maximum time that it may be idle before its handshake is complete."""
    retry_ms: int
    """The milliseconds after which clients come back, unless a handler sets another value."""
    ended: Callable[[HttpSession], None]
    """Called when a session has ended."""
    new_id: Callable[[], str]
    """Returns the id of a new session: visible characters that cannot be guessed."""


_MOST_EARLY, _EARLY_SECONDS = 256, 10.0
"""The number of cancellations that wait for their requests, and the time for a request to arrive."""
_LONGEST_EARLY = 256
"""The size of the longest id that is remembered, in characters or bits: an id may be as long as a message."""


@define(eq=False)
class HttpSession(MessageConnection):
    """One session; see also `MessageConnection`. Made by `begin`."""

    transport: ClassVar[str] = "http session"
    """The kind of the transport, for `Server.snapshot`."""

    host: SessionHost
    principal: str | None
    """The owner (rule 2)."""
    sender: Sender
    """The owner, or else the address that it was opened from, which shares its handler slots with other sessions."""
    id: str = field(init=False)
    """The id of the session."""
    undelivered: int = field(default=0, init=False)
    """The number of answers whose client had left."""
    idle_since: float = field(factory=trio.current_time, init=False)
    """The time since which it is idle, on Trio's clock; infinite while it is in use."""
    envelope: MessageOrigin = field(default=NO_ORIGIN, init=False)
    """The origin of the messages that are being taken."""
    arrival: trio.Event | None = field(default=None, init=False)
    """Set when it is known whether this process continues it; None for a session that began here, or has arrived."""
    is_leaving: bool = field(default=False, init=False)
    """True while it is handed over to another process: it takes no message any more."""
    _cancelled_early: dict[RequestId, float] = field(factory=dict[RequestId, float], init=False)
    """The ids of cancellations that named no request in flight, each with its time, the latest ones last (rule 10)."""
    _requests_in_flight: int = field(default=0, init=False)
    _request_ended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @classmethod
    def begin(cls, host: SessionHost, request: HttpRequest, id: str | None = None) -> Self:
        """Return a new session for the client that makes a request.

        Args:
            id: that of a session of another process which it continues.
        """

        def notified(method: str, params: JsonObject) -> None:
            serving.notified(method, params, session, session.envelope)

        serving = host.serving
        principal, sender = request.principal, request.sender
        session = cls(serving.admission(), serving.answer, notified, serving.limits, host, principal, sender)
        session.id = host.new_id() if id is None else id
        session.slots = SenderSlots.of(serving, serving.limits).for_requests(sender)
        note_arrival(serving, session, cls.transport)
        return session

    @property
    @abc.abstractmethod
    def outlet(self) -> HttpOutlet:
        """The outlet for messages that belong to no request."""

    @property
    def deadline(self) -> float:
        """The time on Trio's clock at which it ends by itself, unless it is used."""
        host = self.host
        return self.idle_since + (host.idle_seconds if self.admission.operating else host.half_open_seconds)

    def apply_revision(self, responding: Responding) -> None:
        """Format errors for the session's revision, once a handshake has negotiated one."""
        if self.admission.revision is not None:
            responding.null_ids = not self.admission.omits_unknown_id

    @contextmanager
    def request_in_flight(self) -> Generator[None]:
        """Count an HTTP request of the client for as long as it is being answered (rule 1)."""
        self._begin_request()
        try:
            yield
        finally:
            self._end_request()

    def _begin_request(self) -> None:
        self._requests_in_flight += 1
        self.idle_since = math.inf

    def _end_request(self) -> None:
        self._requests_in_flight -= 1
        self._note_idle()

    def _note_idle(self) -> None:
        if self._requests_in_flight:
            return
        if self._request_ended:
            self._request_ended.unpark_all()
        if not self.ledger.incoming and self.lost is None:
            self.idle_since = trio.current_time()

    def was_cancelled(self, id: RequestId) -> bool:
        """Return True if the client has cancelled a request before it was taken (rule 10)."""
        return id in self._cancelled_early

    async def forget(self) -> None:
        """Delete what is stored of an ended session, after its last HTTP request has ended."""
        while self._requests_in_flight:
            await self._request_ended.park()
        self._notified = _ignore  # which refers to this session, as do the callbacks of the outlet
        self.outlet.disown()

    def close(self, reason: ConnectionLost) -> None:
        """End the session now; idempotent (rule 3)."""
        if self.lost is None:
            for exchange in list(self.ledger.incoming.values()):
                exchange.disconnect()
            self.disconnect(reason)
            self.outlet.end(reason)
            self.host.ended(self)

    def drop_outlet(self, reason: ConnectionLost) -> None:
        """End the session now, and drop the messages that belong to no request."""
        self.outlet.abandon()
        self.close(reason)

    async def room_in(self, outlet: Outlet) -> None:
        """Wait until a request may be queued in an outlet.

        Raises:
            ConnectionLost: the session has ended, or the outlet has no reader any more.
        """
        await super().room_in(outlet)
        assert isinstance(outlet, HttpOutlet)
        if outlet.is_abandoned:
            raise _no_reader()

    def abandon_outlet(self, outlet: HttpOutlet) -> None:
        """Drop the reader of an outlet: its exchanges go on, but cannot send requests to the client."""
        self.fail_unsent(outlet, _no_reader())
        outlet.abandon()

    def refusal(self, posted: Iterable[Message], request: HttpRequest) -> Refusal | None:
        """Return the refusal of a POST whose messages need scopes that are not granted, or None.

        A request to listen, which is unknown in sessions, is refused later: checking the names in thousands of them, in
        one array, would take too long.
        """
        messages = [each for each in posted if not isinstance(each, JsonRpcRequest) or each.method != LISTEN]
        return self.host.authorizer.refusal(messages, request, self.host.serving)

    def take_value(self, value: Any, size: int, outlet: Outlet, message: Message | None = None) -> None:
        """Take all posted messages at once; their answers go out in the outlet."""
        assert isinstance(outlet, HttpOutlet)
        self.envelope = outlet.envelope
        super().take_value(value, size, outlet, message)

    def _on_cancelled(self, id: RequestId, params: JsonObject) -> None:
        size = len(id) if isinstance(id, str) else id.bit_length()
        if size <= _LONGEST_EARLY and id not in self.ledger.incoming and id not in self.ledger.outgoing:
            if len(self._cancelled_early) >= _MOST_EARLY:
                del self._cancelled_early[next(iter(self._cancelled_early))]
            self._cancelled_early[id] = trio.current_time()
        super()._on_cancelled(id, params)

    def _on_request(self, request: JsonRpcRequest, outlet: Outlet, batch: ResponseBatch | None) -> None:
        cancelled_at = self._cancelled_early.pop(request.id, None) if self._cancelled_early else None
        is_early = cancelled_at is not None and trio.current_time() < cancelled_at + _EARLY_SECONDS
        if not is_early or request.method == "initialize":
            super()._on_request(request, outlet, batch)

    def _admit(self, request: JsonRpcRequest, outlet: Outlet) -> ExchangeContext:
        if request.method == "initialize" and self.admission.revision is not None:  # its header fields name a revision
            raise McpError(
                INVALID_REQUEST, "this session has begun: to begin another, send 'initialize' without its id"
            )
        context = super()._admit(request, outlet)
        assert isinstance(outlet, HttpOutlet)
        return context.arrived_by(outlet.envelope)

    def begun(self, exchange: IncomingMessageRequest) -> None:
        """Expect an answer to a request."""
        assert isinstance(exchange.outlet, HttpOutlet)
        exchange.outlet.expect()

    def ended(self, exchange: IncomingMessageRequest) -> None:
        """Stop expecting an answer."""
        super().ended(exchange)
        outlet = exchange.outlet
        assert isinstance(outlet, HttpOutlet)
        if outlet.is_abandoned and exchange.state is ExchangeState.ANSWERED:
            self.undelivered += 1
        outlet.resolve()
        if self.ledger.outgoing and outlet.is_complete:
            self._withdraw_questions(outlet)
        self._note_idle()

    def _withdraw_questions(self, outlet: HttpOutlet) -> None:
        """Withdraw the open requests to the client in an outlet that ends in this step."""
        for asked in list(self.ledger.outgoing.values()):
            if asked.uses(outlet):
                self.ledger.forget(asked.id)
                asked.withdraw()
                asked.finish(AskExpired("the call is over"))


def _messages_in(value: object, limits: Limits) -> Iterable[Message]:
    """Return the posted messages, one or an array; of an array that is too long to be accepted, only some."""
    return map(parse_message, islice(value, limits.max_queued)) if is_array(value) else [parse_message(value)]


def _no_reader() -> ConnectionBroken:
    return ConnectionBroken("the client has closed the response that the question belongs to")


@define(eq=False)
class _BegunPost(BegunRequest):
    """A POST of one message that was begun to be answered at once."""

    _session: StreamableSession
    _number: int
    _outlet: HttpOutlet

    def take_answer(self, most_bytes: int) -> tuple[int, bytes] | None:
        answer = self._session.take_answer(self._number, self._outlet) if self._outlet.size <= most_bytes else None
        return None if answer is None else (200, answer)

    async def go_on(self, responding: Responding) -> None:
        await self._session.go_on(self._number, self._outlet, responding)


_MAX_GETS = 16
"""The maximum number of event streams that the client of a session may open by GET."""
_STANDING = 0
"""The number of the standing stream among the streams of a session."""
_PRIMED_REVISIONS = frozenset(LEGACY_REVISIONS[LEGACY_REVISIONS.index("2025-11-25") :])
"""The revisions of rule 7."""


@define(eq=False)
class StreamableSession(HttpSession):
    """One session of Streamable HTTP."""

    _record: EventRecord | None = field(init=False)
    """The stored events of the session; None without an event store."""
    _standing: HttpOutlet = field(init=False)
    _outlets: dict[int, HttpOutlet] = field(factory=dict[int, HttpOutlet], init=False)
    """The outlets that are not complete, or are read, by number."""
    _spare: tuple[int, HttpOutlet] | None = field(default=None, init=False)
    """The outlet of a POST that was answered in one step, with its number: for the next one, because making one takes
    a tenth of a small request."""
    _issued: int = field(default=_STANDING, init=False)
    """The number of the newest outlet."""
    _gets: int = field(default=0, init=False)
    """The number of streams that the client has opened by GET."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        events = self.host.events
        self._record = None if events is None else EventRecord(events, self.sender)
        self._standing = self._new_outlet(_STANDING, stored=True)

    @property
    def outlet(self) -> HttpOutlet:
        """The standing stream."""
        return self._standing

    @property
    def _is_primed(self) -> bool:
        return self.admission.revision in _PRIMED_REVISIONS

    def _new_outlet(self, number: int, envelope: MessageOrigin = NO_ORIGIN, *, stored: bool) -> HttpOutlet:
        is_standing, budget = number == _STANDING, self.host.budget
        cut = self.drop_outlet if is_standing else partial(self._cut, number)
        if self._record is None or not stored:
            outlet = HttpOutlet(self.limits, self.close, cut, envelope, self.sender, budget=budget)
        else:
            record = self._record
            outlet = StoredOutlet(
                self.limits, self.close, cut, envelope, self.sender, record, number, is_standing, budget=budget
            )
        self._outlets[number] = outlet
        return outlet

    def _cut(self, number: int, reason: ConnectionLost) -> None:
        """End the response to a POST whose messages have no room."""
        outlet = self._outlets[number]
        self.abandon_outlet(outlet)
        outlet.end(reason)

    async def post(self, posted: LegacyPost, request: HttpRequest, responding: Responding) -> None:
        """Take the posted messages, and answer the POST. A handshake that fails ends the session."""
        if is_array(posted.value) and not self.admission.batches:
            await self._refuse_http(
                400, f"revision {self.admission.revision} does not allow arrays of messages", responding
            )
            return
        message = posted.message
        refusal = self.refusal(_messages_in(posted.value, self.limits) if message is None else [message], request)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        begins = posted.session_id is None
        with self.request_in_flight():
            number, outlet = self._take_post(posted, request)
            if isinstance(outlet, StoredOutlet) and not outlet.is_silent:
                self.host.nursery.start_soon(self._store, outlet, name="a stored stream")
                await self._stream(outlet.attach(), responding, math.inf)
                return
            try:
                await self._respond(outlet, responding, begins=begins)
            finally:
                self._end_post(number, outlet)
                if begins and (self.admission.revision is None or not responding.begun):
                    self.close(ConnectionClosed("the handshake failed"))

    def _take_post(self, posted: LegacyPost, request: HttpRequest) -> tuple[int, HttpOutlet]:
        """Take the posted messages; return the outlet of their answers, and its number."""
        spare, self._spare = self._spare, None
        if spare is not None:
            number, outlet = spare
            outlet.renew(request.envelope)
            self._outlets[number] = outlet
        else:
            self._issued += 1
            number = self._issued
            outlet = self._new_outlet(number, request.envelope, stored=posted.session_id is not None)
        self.take_value(posted.value, len(request.body), outlet, posted.message)
        outlet.resolve()
        return number, outlet

    def _end_post(self, number: int, outlet: HttpOutlet) -> None:
        """Forget an outlet that is not stored, after the response that it was read by."""
        outlet.forget()
        del self._outlets[number]
        self._response_ended(outlet)

    def begin_post(self, posted: LegacyPost, request: HttpRequest) -> BegunRequest | None:
        """Begin to answer a POST of one message at once; return None, with nothing done, if `post` has to."""
        message = posted.message
        if message is None or self._record is not None or self.refusal([message], request) is not None:
            return None
        self._begin_request()
        try:
            return _BegunPost(self, *self._take_post(posted, request))
        except BaseException:
            self._end_request()
            raise

    def take_answer(self, number: int, outlet: HttpOutlet) -> bytes | None:
        """Return the answer to a POST that was begun, if that is all. Synchronous."""
        answer = outlet.sole_answer()
        if answer is not None:
            self._spare = number, self._outlets.pop(number)
            self._end_request()
        return answer

    async def go_on(self, number: int, outlet: HttpOutlet, responding: Responding) -> None:
        """Answer a POST that was begun."""
        self.apply_revision(responding)
        try:
            await self._respond(outlet, responding, begins=False)
        finally:
            self._end_post(number, outlet)
            self._end_request()

    def _response_ended(self, outlet: HttpOutlet) -> None:
        """Handle the end of the response that an outlet is read by, possibly because the client has left."""
        if outlet.is_silent:
            return
        if outlet.is_complete:
            self.undelivered += 1
        self.abandon_outlet(outlet)

    async def _respond(self, outlet: HttpOutlet, responding: Responding, *, begins: bool) -> None:
        """Answer with the messages of an outlet that is not stored (rule 5)."""
        for _ in range(QUICK_PASSES):
            if not outlet.is_complete:
                await trio.lowlevel.checkpoint()
        if await self._respond_whole(outlet, responding, begins=begins):
            return
        reader = outlet.attach()
        try:
            async with responding.attending():
                with trio.move_on_after(responding.keep_alive):
                    await outlet.wait_output()
                if not await self._respond_whole(outlet, responding, begins=begins):
                    headers = {SESSION_FIELD: self.id} if begins else NO_HEADERS
                    await self._write(reader, responding, headers, math.inf)
        finally:
            reader.leave()

    async def _respond_whole(self, outlet: HttpOutlet, responding: Responding, *, begins: bool) -> bool:
        """Answer without a stream, if the content of the response is known; return True if it was."""
        answer = outlet.sole_answer()
        if answer is not None:
            has_begun = begins and self.admission.revision is not None
            await responding.json(answer, headers={SESSION_FIELD: self.id} if has_begun else NO_HEADERS)
        elif outlet.is_silent and self.lost is not None:
            await self._refuse_http(404, "the session has ended", responding)
        elif outlet.is_silent:
            for _ in range(QUICK_PASSES):  # so that a cancelled handler ends before the client runs again
                await trio.lowlevel.checkpoint()
            await responding.empty()
        return answer is not None or outlet.is_silent

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Open the standing stream, or resume a stream (`Last-Event-ID`)."""
        if self._gets >= _MAX_GETS:
            await self._refuse_http(
                429, f"this session has {_MAX_GETS} event streams open already", responding, code=BUSY
            )
            return
        event_id = request.headers.get(LAST_EVENT_FIELD, "")
        self._gets += 1
        try:
            with self.request_in_flight():
                source = await self._source(event_id)
                if source is None:
                    await self._refuse_http(400, f"no events are stored after the event {event_id[:100]!r}", responding)
                else:
                    is_standing = isinstance(source, OutletReader) and source.outlet is self._standing
                    await self._stream(source, responding, request.access_until if is_standing else math.inf)
        finally:
            self._gets -= 1

    async def _source(self, event_id: str) -> EventSource | None:
        """Return the event source of a GET; None if it resumes after an unknown event."""
        if self._record is None or not event_id:
            return self._standing_reader()
        stream, number = read_event_id(event_id) or (self._issued + 1, 0)
        outlet = self._outlets.get(stream)
        if isinstance(outlet, StoredOutlet):
            return outlet.attach_after(number) if number <= outlet.last else None
        replay = EventReplay(self._record, stream, number)
        return replay if stream <= self._issued and await replay.find() else None

    def _standing_reader(self) -> OutletReader:
        outlet = self._standing
        if isinstance(outlet, StoredOutlet) and not outlet.is_storing:  # until then its queue bounds it
            outlet.is_storing = True
            self.host.nursery.start_soon(outlet.store, name="the stored standing stream")
        return outlet.attach()

    async def _store(self, outlet: StoredOutlet) -> None:
        await outlet.store()
        self._retire(outlet)

    def _retire(self, outlet: HttpOutlet) -> None:
        """Forget an outlet that is complete and not read: a client that resumes it gets the stored events."""
        if isinstance(outlet, StoredOutlet) and outlet.is_stored and not outlet.is_read:
            self._outlets.pop(outlet.stream, None)

    async def _stream(self, source: EventSource, responding: Responding, until: float) -> None:
        """Answer with an event stream, which ends at a time of Trio's clock at the latest."""
        try:
            async with responding.attending():
                await self._write(source, responding, NO_HEADERS, until)
        finally:
            source.leave()
            if isinstance(source, OutletReader):
                self._retire(source.outlet)

    async def _write(
        self, source: EventSource, responding: Responding, headers: Mapping[str, str], until: float
    ) -> None:
        async with responding.stream(headers) as stream:
            if self._is_primed and source.event_id is not None:
                await stream.send(sse_event(b"", id=source.event_id, retry_ms=self.host.retry_ms))
            while trio.current_time() < until and (chunk := await _next_chunk(source, until)):
                await stream.send(chunk)
            if source.retry_ms is not None:
                await stream.send(sse_event(b"", id=source.event_id, retry_ms=source.retry_ms))

    async def _refuse_http(
        self, status: int, sentence: str, responding: Responding, *, code: int = INVALID_REQUEST
    ) -> None:
        await responding.refuse(Refusal(status, McpError(code, sentence)))

    async def to_json(self, most_bytes: int) -> JsonObject | None:
        """End all streams, and return what another process needs to `restore` the session.

        None before its handshake, and when it has ended. No request may be in flight, and `close` must follow. Waits
        only for the event store.

        Args:
            most_bytes: the bytes of its events that are of use.
        """
        self.is_leaving = True
        with self.request_in_flight():  # so that it does not expire meanwhile
            agreed = self.host.serving.session_record(self)
            if agreed is None:
                return None
            standing = await self._standing.to_json(ConnectionClosed("another process continues the session"))
            for outlet in list(self._outlets.values()):
                if isinstance(outlet, StoredOutlet) and (outlet.is_storing or not outlet.is_silent):
                    await outlet.wait_stored()
            events = {} if self._record is None else await self._record.to_json(_STANDING, most_bytes)
        left = {"issued": self._issued, "asked": self.ledger.issued, "standing": standing, "events": events}
        return {"principal": self.principal, "agreed": agreed, **left}

    async def restore(self, record: JsonObject, access: Access | None) -> None:
        """Continue a session of another process.

        Args:
            record: returned by `to_json` there.
            access: the principal of the session; None without authentication.

        Raises:
            Exception: the record is from another version of this package.
        """
        self._issued, self.ledger.issued = record["issued"], record["asked"]
        if self._record is not None:
            await self._record.restore(record["events"])
        self._standing.restore(record["standing"])
        self.host.serving.restore_session(self, record["agreed"], access)

    def detach(self, outlet: Outlet, retry_ms: int | None) -> None:
        """Send the readers of an outlet away, if their revision allows it (rule 7)."""
        if isinstance(outlet, StoredOutlet) and self._is_primed:
            outlet.dismiss_readers(self.host.retry_ms if retry_ms is None else retry_ms)

    async def forget(self) -> None:
        """Delete what is stored of an ended session, after its last HTTP request has ended."""
        await super().forget()
        self._spare = None  # it refers to this session
        if self._record is not None:
            await self._record.forget()

    def _outbox_bytes(self) -> int:
        return sum(outlet.size for outlet in self._outlets.values())


def _ignore(method: str, params: JsonObject) -> None:
    """Drop a notification of a session that has ended."""


async def _next_chunk(source: EventSource, until: float) -> bytes:
    """Return the next chunk to send; empty at the end of the stream, or after the deadline."""
    with trio.CancelScope(deadline=until):
        return await source.next_chunk()
    return b""


_RECHECK_SECONDS = 15.0
"""The interval at which a stream that is open only for a call checks whether the call has ended."""


@define(eq=False)
class SseConnection(HttpSession):
    """One HTTP+SSE stream, and the POSTs that belong to it."""

    transport = "http+sse"

    _stream: HttpOutlet = field(init=False)
    _begun_at: float = field(factory=trio.current_time, init=False)
    _access_until: float = field(default=-math.inf, init=False)
    """The expiry of the client's access, as far as its requests have proved it."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._stream = HttpOutlet(
            self.limits, self.close, self.drop_outlet, NO_ORIGIN, self.sender, budget=self.host.budget
        )

    @property
    def outlet(self) -> HttpOutlet:
        """The stream."""
        return self._stream

    @property
    def deadline(self) -> float:
        """The time at which it ends by itself: soon, until the handshake is complete; then only with its stream."""
        return math.inf if self.admission.operating else self._begun_at + self.host.half_open_seconds

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Answer the GET that has opened it, to the end."""
        path = request.path.lstrip("/")  # two slashes at its start would name another host
        address = f"/{quote(path)}?{stream_query(self.id)}"
        reader = self._stream.attach()
        try:
            self._access_until = request.access_until
            with self.request_in_flight():
                async with responding.attending(), responding.stream() as stream:
                    await stream.send(sse_event(address.encode(), event="endpoint"))
                    while chunk := await self._next_chunk(reader):
                        await stream.send(chunk)
        finally:
            reader.leave()
            self.close(ConnectionBroken("the client has closed its event stream"))

    async def _next_chunk(self, reader: OutletReader) -> bytes:
        """Return the next chunk to send; empty at the end, or once the access has expired and all calls have ended."""
        while self.ledger.incoming or trio.current_time() < self._access_until:
            with trio.CancelScope(deadline=max(self._access_until, trio.current_time() + _RECHECK_SECONDS)):
                return await reader.next_chunk()
        return b""

    async def post(self, request: HttpRequest, responding: Responding, stops: str | None) -> None:
        """Take the posted messages.

        Args:
            stops: the reason why no request is begun any more; None if they are.
        """
        self.apply_revision(responding)
        try:
            value = decode(request.body)
        except Undecodable as exc:
            error = McpError(PARSE_ERROR, f"not a JSON message: {exc}")
            await responding.refuse(Refusal(400, error))
            return
        messages = list(_messages_in(value, self.limits))
        refusal = self.refusal(messages, request)
        if refusal is None and stops is not None and any(isinstance(each, JsonRpcRequest) for each in messages):
            refusal = Refusal(503, McpError(INTERNAL_ERROR, stops))
        if refusal is not None:
            await responding.refuse(refusal)
            return
        self._access_until = max(self._access_until, request.access_until)
        self._stream.envelope = request.envelope
        self.take_value(value, len(request.body), self._stream)
        await responding.empty()

    def _outbox_bytes(self) -> int:
        return self._stream.size
