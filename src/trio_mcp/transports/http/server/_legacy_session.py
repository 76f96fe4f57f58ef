"""A conversation over HTTP whose messages come in POSTs: what its two kinds have in common.

Rules of this file:

1. An HTTP request of the client's that is being answered, a POST or a stream, is a *request_in_flight*. A session is at rest when
   there is none, and nothing of it is worked on.
2. A session belongs to who has begun it, and nobody else may know that it is there.
3. The end of a session is synchronous: its handlers are stopped, whoever waits is told, its streams end.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import abc
import math
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlencode

import trio
from attrs import define, evolve, field, frozen

from ...._errors import AskExpired, ConnectionBroken, ConnectionClosed, ConnectionLost, McpError
from ....abc import EventLog, HttpServing
from ....peer import (
    BUSY,
    NO_HEADERS,
    NO_ORIGIN,
    ExchangeContext,
    ExchangeState,
    IncomingMessageRequest,
    Limits,
    MessageConnection,
    MessageOrigin,
    Outlet,
)
from ....wire import (
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
    Undecodable,
    decode,
    is_array,
    parse_message,
    sse_event,
)
from ._asgi import QUICK_PASSES, HttpRequest, RequestAuthorizer, Responding
from ._event_store import EventRecord
from ._legacy_streams import EventReplay, EventSource, HttpOutlet, OutletReader, StoredOutlet, read_event_id

__all__ = ["HttpSession", "SessionHost", "SseConnection", "StreamableSession", "addressed_stream"]


@frozen(eq=False)
class SessionHost:
    """What sessions are part of."""

    serving: HttpServing
    authorizer: RequestAuthorizer
    """Judges who asks."""
    nursery: trio.Nursery
    """For their tasks, which end with them."""
    events: EventLog | None
    """Where what goes out is stored; None where it is not."""
    idle_seconds: float
    """How long a session may rest."""
    half_open_seconds: float
    """Likewise, while its handshake is not complete."""
    retry_ms: int
    """After how many milliseconds clients come back, unless a handler says otherwise."""
    became_idle: Callable[[HttpSession], None]
    """Told when a session has come to rest."""
    ended: Callable[[HttpSession], None]
    """Told when one has ended."""


@define(eq=False)
class HttpSession(MessageConnection):
    """One session; see also `MessageConnection`. Made by `begin`."""

    host: SessionHost
    principal: str | None
    """Whose it is (rule 2)."""
    id: str = field(factory=lambda: secrets.token_urlsafe(32), init=False)
    """What the client calls it: 43 visible characters that nobody can guess."""
    undelivered: int = field(default=0, init=False)
    """Answers that nobody was there to take."""
    idle_since: float = field(factory=trio.current_time, init=False)
    """On Trio's clock; infinite while it is not at rest."""
    envelope: MessageOrigin = field(default=NO_ORIGIN, init=False)
    """What the messages came in that are being taken."""
    _requests_in_flight: int = field(default=0, init=False)
    _request_ended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @classmethod
    def begin(cls, host: SessionHost, principal: str | None) -> Self:
        """Return a new session."""

        def notified(method: str, params: JsonObject) -> None:
            serving.notified(method, params, session, session.envelope)

        serving = host.serving
        session = cls(serving.admission(), serving.answer, notified, serving.limits, host, principal)
        return session

    @property
    @abc.abstractmethod
    def outlet(self) -> HttpOutlet:
        """Where what belongs to no request goes out."""

    @property
    def deadline(self) -> float:
        """When it ends by itself, on Trio's clock, unless somebody uses it."""
        host = self.host
        return self.idle_since + (host.idle_seconds if self.admission.operating else host.half_open_seconds)

    def apply_revision(self, responding: Responding) -> None:
        """Have errors be as the session's revision wants them, once a handshake has settled on one."""
        if self.admission.revision is not None:
            responding.null_ids = not self.admission.omits_unknown_id

    @contextmanager
    def request_in_flight(self) -> Generator[None]:
        """Count an HTTP request of its client's for as long as it is being answered (rule 1)."""
        self._requests_in_flight += 1
        self.idle_since = math.inf
        try:
            yield
        finally:
            self._requests_in_flight -= 1
            self._note_idle()

    def _note_idle(self) -> None:
        if self._requests_in_flight:
            return
        if self._request_ended:
            self._request_ended.unpark_all()
        if not self.ledger.answering and self.lost is None:
            self.idle_since = trio.current_time()
            self.host.became_idle(self)

    async def forget(self) -> None:
        """Forget what is stored of it, when it has ended, and the last request_in_flight has, too."""
        while self._requests_in_flight:
            await self._request_ended.park()

    def close(self, reason: ConnectionLost) -> None:
        """End the session, now; harmless when it has ended (rule 3)."""
        if self.lost is None:
            for exchange in list(self.ledger.answering.values()):
                exchange.disconnect()
            self.disconnect(reason)
            self.outlet.end(reason)
            self.host.ended(self)

    async def room_in(self, outlet: Outlet) -> None:
        """Wait until a question may be queued in a lane.

        Raises:
            ConnectionLost: the session has ended, or nobody reads that lane any more.
        """
        await super().room_in(outlet)
        assert isinstance(outlet, HttpOutlet)
        if outlet.is_abandoned:
            raise _no_reader()

    def abandon_outlet(self, outlet: HttpOutlet) -> None:
        """Nobody will read a lane any more: its exchanges go on, but nothing can be asked there."""
        self.fail_unsent(outlet, _no_reader())
        outlet.abandon()

    def refusal(self, value: object, request: HttpRequest) -> Refusal | None:
        """Return what a POST gets whose messages need more than was granted; None where they do not.

        A request to listen, which no session knows, is refused later: to look at what thousands of them name, in one
        array, would take too long.
        """
        posted = _messages_in(value, self.limits)
        messages = [each for each in posted if not isinstance(each, JsonRpcRequest) or each.method != LISTEN]
        return self.host.authorizer.refusal(messages, request, self.host.serving)

    def take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        """Take what was posted, all of it at once; its answers go out by a lane."""
        assert isinstance(outlet, HttpOutlet)
        self.envelope = outlet.envelope
        super().take_value(value, size, outlet)

    def _admit(self, request: JsonRpcRequest, outlet: Outlet) -> ExchangeContext:
        context = super()._admit(request, outlet)
        assert isinstance(outlet, HttpOutlet)
        return evolve(context, access=outlet.envelope.access, headers=outlet.envelope.headers)

    def begun(self, exchange: IncomingMessageRequest) -> None:
        """Owe an answer to a request."""
        assert isinstance(exchange.outlet, HttpOutlet)
        exchange.outlet.expect()

    def ended(self, exchange: IncomingMessageRequest) -> None:
        """Owe it no longer."""
        super().ended(exchange)
        outlet = exchange.outlet
        assert isinstance(outlet, HttpOutlet)
        if outlet.is_abandoned and exchange.state is ExchangeState.ANSWERED:
            self.undelivered += 1
        outlet.resolve()
        if outlet.is_complete:
            self._withdraw_questions(outlet)
        self._note_idle()

    def _withdraw_questions(self, outlet: HttpOutlet) -> None:
        """Take back what is still asked by a lane that ends in this step: later nobody reads there any more."""
        for asked in list(self.ledger.asked.values()):
            if asked.uses(outlet):
                self.ledger.forget(asked.id)
                asked.withdraw()
                asked.finish(AskExpired("the call is over"))


def _messages_in(value: object, limits: Limits) -> Iterable[Message]:
    """Return the messages that were posted, one or an array of them; of an array that is too long to be taken, some."""
    return map(parse_message, islice(value, limits.max_queued)) if is_array(value) else [parse_message(value)]


def _no_reader() -> ConnectionBroken:
    return ConnectionBroken("the client has closed the response that the question belongs to")


# One session of Streamable HTTP: what its POSTs get, and its GETs.
#
# Rules of this file:
#
# 1. What belongs to a request goes out in the response to the POST that it came in; everything else by the standing
#    stream, which the client opens with a GET.
# 2. Without an event store a response is JSON if it is nothing but the answer, or an array of answers, and an event
#    stream otherwise. With one it is an event stream, because only events can be asked for again.
# 3. A client that closes a response has cancelled nothing. With an event store it may come back for the rest; without
#    one, what was to go out there is dropped, and the answer is counted.
# 4. From 2025-11-25 on a stored stream begins with an event without data: its id is where the client comes back to, and
# it
#    says after how long. Clients of before choke on it. So only the others may be sent away from a stream that goes
#    on.
# 5. The standing stream ends with the access of who opened it, and its client opens another. Others end with their
# call.
# 6. Nothing of the handshake itself is stored: before it nobody knows what the client reads.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http

_MAX_GETS = 16
"""Event streams that the client of one session may have open by GET."""
_STANDING = 0
"""The number of the standing stream among those of a session."""
_PRIMED_REVISIONS = frozenset(LEGACY_REVISIONS[LEGACY_REVISIONS.index("2025-11-25") :])
"""Those of rule 4."""


@define(eq=False)
class StreamableSession(HttpSession):
    """One session of Streamable HTTP."""

    _record: EventRecord | None = field(init=False)
    """What is stored of it; None where nothing is."""
    _standing: HttpOutlet = field(init=False)
    _outlets: dict[int, HttpOutlet] = field(factory=dict[int, HttpOutlet], init=False)
    """Those that are not complete, or are read, by number."""
    _issued: int = field(default=_STANDING, init=False)
    """The number of the newest lane."""
    _gets: int = field(default=0, init=False)
    """Streams that the client has open by GET."""
    _stores_standing: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        events = self.host.events
        self._record = None if events is None else EventRecord(events)
        self._standing = self._new_outlet(_STANDING, stored=True)

    @property
    def outlet(self) -> HttpOutlet:
        """The standing stream."""
        return self._standing

    @property
    def _is_primed(self) -> bool:
        return self.admission.revision in _PRIMED_REVISIONS

    def _new_outlet(self, number: int, envelope: MessageOrigin = NO_ORIGIN, *, stored: bool) -> HttpOutlet:
        if self._record is None or not stored:
            outlet = HttpOutlet(self.limits, self.close, envelope)
        else:
            outlet = StoredOutlet(self.limits, self.close, envelope, self._record, number, number == _STANDING)
        self._outlets[number] = outlet
        return outlet

    async def post(self, posted: LegacyPost, request: HttpRequest, responding: Responding) -> None:
        """Take what was posted, and answer it. A handshake that fails ends the session."""
        if is_array(posted.value) and not self.admission.batches:
            await self._refuse_http(400, f"revision {self.admission.revision} has no arrays of messages", responding)
            return
        refusal = self.refusal(posted.value, request)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        begins = posted.session_id is None
        self._issued += 1
        number = self._issued
        outlet = self._new_outlet(number, request.envelope, stored=not begins)
        with self.request_in_flight():
            self.take_value(posted.value, len(request.body), outlet)
            outlet.resolve()
            if isinstance(outlet, StoredOutlet) and not outlet.is_silent:
                self.host.nursery.start_soon(self._store, outlet, name="a stored stream")
                await self._stream(outlet.attach(), responding, math.inf)
                return
            try:
                await self._respond(outlet, responding, begins=begins)
            finally:
                del self._outlets[number]
                self._response_ended(outlet)
                if begins and (self.admission.revision is None or not responding.begun):
                    self.close(ConnectionClosed("the handshake failed"))

    def _response_ended(self, outlet: HttpOutlet) -> None:
        """The response that a lane goes out by has ended, be it that its client has left."""
        if outlet.is_silent:
            return
        if outlet.is_complete:
            self.undelivered += 1
        self.abandon_outlet(outlet)

    async def _respond(self, outlet: HttpOutlet, responding: Responding, *, begins: bool) -> None:
        """Answer with what goes out in a lane that is not stored (rule 2)."""
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
        """Answer if it is known what there is to say, and that is no stream; return whether it was."""
        answer = outlet.sole_answer()
        if answer is not None:
            has_begun = begins and self.admission.revision is not None
            await responding.json(answer, headers={SESSION_FIELD: self.id} if has_begun else NO_HEADERS)
        elif outlet.is_silent and self.lost is not None:
            await self._refuse_http(404, "the session has ended", responding)
        elif outlet.is_silent:
            await responding.empty()
        return answer is not None or outlet.is_silent

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Open the standing stream, or go on with one that was left (`Last-Event-ID`)."""
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
                    await self._refuse_http(400, f"nothing is stored after the event {event_id[:100]!r}", responding)
                else:
                    is_standing = isinstance(source, OutletReader) and source.outlet is self._standing
                    await self._stream(source, responding, request.access_until if is_standing else math.inf)
        finally:
            self._gets -= 1

    async def _source(self, event_id: str) -> EventSource | None:
        """Return what a GET gets; None where it wants to go on after something that nobody knows of."""
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
        if (
            isinstance(outlet, StoredOutlet) and not self._stores_standing
        ):  # until then it is bounded by its queue alone
            self._stores_standing = True
            self.host.nursery.start_soon(outlet.store, name="the stored standing stream")
        return outlet.attach()

    async def _store(self, outlet: StoredOutlet) -> None:
        await outlet.store()
        self._retire(outlet)

    def _retire(self, outlet: HttpOutlet) -> None:
        """Forget a lane that is complete, if nobody reads it: who comes back to it gets what was stored."""
        if isinstance(outlet, StoredOutlet) and outlet.is_stored and not outlet.is_read:
            self._outlets.pop(outlet.stream, None)

    async def _stream(self, source: EventSource, responding: Responding, until: float) -> None:
        """Answer with an event stream, which ends at a time of Trio's clock if it has not ended before."""
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

    def detach(self, outlet: Outlet, retry_ms: int | None) -> None:
        """Send away who reads a lane, where that is understood (rule 4)."""
        if isinstance(outlet, StoredOutlet) and self._is_primed:
            outlet.dismiss_readers(self.host.retry_ms if retry_ms is None else retry_ms)

    async def forget(self) -> None:
        """Forget what is stored of it, when it has ended, and the last request_in_flight has, too."""
        await super().forget()
        if self._record is not None:
            await self._record.forget()

    def _outbox_bytes(self) -> int:
        return sum(outlet.size for outlet in self._outlets.values())


async def _next_chunk(source: EventSource, until: float) -> bytes:
    """Return what is to be sent next; empty when there is no more, or it is too late."""
    with trio.CancelScope(deadline=until):
        return await source.next_chunk()
    return b""


# HTTP+SSE, the transport of 2024-11-05: everything the server says goes out by one event stream.
#
# A client opens the stream with a GET. Its first event, `endpoint`, says where to post; whatever is posted there is
# answered with 202, and the rest comes by the stream. The conversation ends with it, and both end with the access of
# the
# client, which each POST may extend. The address is that of the stream with a query, so that both live at the one
# path of
# an application, beside what later revisions have there.
#
# Specification: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse

_QUERY = "sessionId"
"""What the query of an address begins with; that of the reference implementation, which some logs and proxies know."""
_RECHECK_SECONDS = 15.0
"""After so many seconds it is looked again whether a call, for which alone a stream is still there, has ended."""


def addressed_stream(request: HttpRequest) -> str | None:
    """Return which stream a POST is addressed to; None where it is none for this transport."""
    values = parse_qs(request.query).get(_QUERY)
    return values[0] if values else None


@define(eq=False)
class SseConnection(HttpSession):
    """One stream, and what is posted for it."""

    _stream: HttpOutlet = field(init=False)
    _begun_at: float = field(factory=trio.current_time, init=False)
    _access_until: float = field(default=-math.inf, init=False)
    """Until when the access of its client lasts, as far as that has been shown."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._stream = HttpOutlet(self.limits, self.close, NO_ORIGIN)

    @property
    def outlet(self) -> HttpOutlet:
        """The stream."""
        return self._stream

    @property
    def deadline(self) -> float:
        """When it ends by itself: soon, unless there is a handshake; else with its stream."""
        return math.inf if self.admission.operating else self._begun_at + self.host.half_open_seconds

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Answer the GET that has begun it, to the end."""
        path = request.path.lstrip("/")  # with two slashes at its beginning it would be an address of another host
        address = f"/{quote(path)}?{urlencode({_QUERY: self.id})}"
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
        """Return what is to be sent next; empty when there is no more, or the access has ended, and all calls have."""
        while self.ledger.answering or trio.current_time() < self._access_until:
            with trio.CancelScope(deadline=max(self._access_until, trio.current_time() + _RECHECK_SECONDS)):
                return await reader.next_chunk()
        return b""

    async def post(self, request: HttpRequest, responding: Responding) -> None:
        """Take what was posted."""
        self.apply_revision(responding)
        try:
            value = decode(request.body)
        except Undecodable as exc:
            error = McpError(PARSE_ERROR, f"not a JSON message: {exc}")
            await responding.refuse(Refusal(400, error))
            return
        refusal = self.refusal(value, request)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        self._access_until = max(self._access_until, request.access_until)
        self._stream.envelope = request.envelope
        self.take_value(value, len(request.body), self._stream)
        await responding.empty()

    def _outbox_bytes(self) -> int:
        return self._stream.size
