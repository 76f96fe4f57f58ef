"""The requests of a client over HTTP.

Each message of the client is a POST of its own, and each request's POST is a task of its own, so it fails alone.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import abc
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from copy import copy
from typing import Any, Protocol

import trio
from attrs import define, field

from ...._errors import (
    AuthorizationFailed,
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ResponseLost,
    TrioMcpError,
)
from ....abc import Tap, TokenSource
from ....peer import NO_HEADERS, MessageConnection, OutgoingMessageRequest, Outlet, PausableTimeouts
from ....wire import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    LISTEN,
    REVISION_KEY,
    VERSION_FIELD,
    JsonObject,
    SseDecoder,
    SseEvent,
    Undecodable,
    decode,
    encode_notification,
    is_modern,
    is_object,
    request_fields,
)
from .._engine import (
    EngineError,
    HttpEngine,
    HttpResponse,
    Refused,
    is_event_stream,
    is_success,
    media_type,
    read_body,
    read_events,
    read_refusal,
)

__all__ = [
    "TRIES",
    "HttpRequestTask",
    "HttpSender",
    "HttpSessions",
    "HttpTransport",
    "OutgoingHttpRequest",
    "back_off",
]

_log = logging.getLogger("trio_mcp.transports")

_LINGER_SECONDS = 1.0
"""How long the end of a response is waited for when the answer has come."""
TRIES = 7
"""How often a server that could be reached before is tried: about 6 s in all."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_ACCEPTED_TYPES = f"{JSON_TYPE}, {EVENT_STREAM_TYPE}"


@define(eq=False)
class HttpSender:
    """Requests to one server.

    Args:
        engine: carries them.
        url: where the server is.
        tap: sees each message, or None.
        fields: header fields of the caller's, which go with each request.
    """

    engine: HttpEngine
    url: str
    _tap: Tap | None
    _fields: Mapping[str, str] = field(repr=False)
    source: TokenSource | None = field(default=None, init=False)
    """What shows who asks, if that is not left to the fields."""
    is_reached: bool = field(default=False, init=False)
    """Whether the server has answered anything yet."""

    def post(
        self,
        url: str,
        line: bytes,
        fields: Mapping[str, str],
        on_sent: Callable[[], None] | None = None,
        *,
        is_last_word: bool = False,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Post one message, which is to be entered at once; see `HttpEngine.request` for the rest.

        Args:
            line: the message, with its newline.
            fields: what goes with this one alone.
            is_last_word: whether it is not worth more than one try.

        Raises:
            AuthorizationFailed: the server wants to know who asks, and there is no token for it.
        """
        message = line.removesuffix(b"\n")
        if self._tap is not None:  # before it leaves: afterwards, the answer might be told first
            self._tap("sent", message)
        fields = {"content-type": JSON_TYPE, "accept": _ACCEPTED_TYPES, **fields}
        return self._request("POST", url, fields, message, on_sent, is_last_word=is_last_word)

    def get(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for an event stream; raises what `post` does."""
        return self._request("GET", self.url, {"accept": EVENT_STREAM_TYPE, **fields})

    def delete(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Say that what *fields* name is not needed any more, as a farewell; raises what `post` does."""
        return self._request("DELETE", self.url, fields, is_last_word=True)

    def received(self, message: bytes) -> None:
        """A message has come in."""
        if self._tap is not None:
            self._tap("received", message)

    def _request(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes = b"",
        on_sent: Callable[[], None] | None = None,
        *,
        is_last_word: bool = False,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        fields = {**self._fields, **fields}
        if self.source is None and self.is_reached:  # there is nothing to add, and nothing to note
            return self.engine.request(method, url, fields, content, on_sent=on_sent)
        return self._request_with_credentials(method, url, fields, content, on_sent, is_last_word=is_last_word)

    @asynccontextmanager
    async def _request_with_credentials(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes,
        on_sent: Callable[[], None] | None,
        *,
        is_last_word: bool,
    ) -> AsyncGenerator[HttpResponse]:
        """Make a request that shows who asks, if there is something that does, and as often as that wants it."""
        with _authorization_errors():
            attempt = None if self.source is None else self.source.attempt(method, url)
        while True:
            headers = dict(fields)
            with _authorization_errors():
                if attempt is not None:
                    headers.update(await attempt.fields())
            async with self.engine.request(method, url, headers, content, on_sent=on_sent) as response:
                self.is_reached = True
                with _authorization_errors():
                    wants_more = attempt is not None and attempt.heard(response.status, response.headers)
                if attempt is None or not wants_more or is_last_word:
                    yield response
                    return
            with _authorization_errors():
                await attempt.resolve()


@contextmanager
def _authorization_errors() -> Generator[None]:
    """Have one request fail, and no other, where what shows who asks raises something: it may be the application's."""
    try:
        yield
    except AuthorizationFailed:
        raise
    except Exception as exc:
        raise AuthorizationFailed(f"what shows the server who asks has raised {type(exc).__name__}") from exc


class HttpSessions(Protocol):
    """The sessions that servers of the revisions up to 2025-11-25 have with a client, as modern code sees them.

    Implemented by `SessionManager`.
    """

    @property
    def outlet(self) -> Outlet:
        """The outlet for messages that belong to no request."""
        ...

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes of responses and notifications that wait to be sent."""
        ...

    def task_of(self, request: OutgoingHttpRequest) -> HttpRequestTask:
        """Return the task of a request that does not name its revision."""
        ...

    def negotiated(self, params: JsonObject | None, answer: JsonObject) -> None:
        """Take the answer to an ``initialize`` request."""
        ...

    async def notify(self, method: str, line: bytes) -> None:
        """Post a notification; raises what `HttpTransport.notify` does."""
        ...

    async def hear_news(self) -> None:
        """Open the stream of messages that belong to no request."""
        ...

    def disconnect(self, reason: ConnectionLost) -> None:
        """Stop sending, because the connection is lost; synchronous."""
        ...

    async def close(self) -> None:
        """End the session at the server."""
        ...


@define(eq=False)
class RequestSlots:
    """Room for the requests that are under way at once."""

    limit: int
    taken: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)
    _waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def free(self) -> bool:
        """Whether `wait` would return at once."""
        return self.taken < self.limit or self._is_closed

    async def wait(self) -> None:
        """Wait for a place, to be taken without a checkpoint in between; also returns when none is given any more."""
        while not self.free:
            await self._waiting.park()
        self._waiting.unpark()  # the next one looks too, after this one has taken its place, or has failed to

    def release(self) -> None:
        """A place is free again."""
        self.taken -= 1
        self._waiting.unpark()

    def close(self) -> None:
        """Nobody need wait any more: the connection is gone."""
        self._is_closed = True
        self._waiting.unpark_all()


@define(eq=False)
class OutgoingHttpRequest(OutgoingMessageRequest):
    """A request that goes out in a POST of its own."""

    _transport: HttpTransport
    line: bytes = field(default=b"", init=False)
    """The request as it was sent last, with its newline."""
    sent_headers: Mapping[str, str] = field(default=NO_HEADERS, init=False)
    """The header fields that go with it."""
    _task: HttpRequestTask | None = field(default=None, init=False)

    def is_awaited(self) -> bool:
        """Tell whether somebody still waits for the answer."""
        return self._transport.ledger.asked.get(self.id) is self

    @property
    def names_revision(self) -> bool:
        """Whether it says everything about itself."""
        return _names_revision(self.params)

    @property
    def needs_no_slot(self) -> bool:
        """Whether it takes no place of others: it lasts, or others may wait for it."""
        return self.method in {LISTEN, "initialize"}

    def begins_at_once(self) -> bool:
        """Whether a place is free."""
        return self.needs_no_slot or self._transport.request_slots.free

    async def _begin(self) -> None:
        transport = self._transport
        own = _fields_of(self.method, self.params) if self.names_revision else NO_HEADERS
        if not self.needs_no_slot:
            await transport.request_slots.wait()
        if transport.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(transport.lost)
        self.line, self.sent_headers = self._issue(), {**own, **self.fields}
        if self.span is not None:
            self.span.sent(self.id)
        self._task = transport.start(self)

    def reissue(self) -> None:
        """Take a new id for another attempt; nobody waits for the answer to the one before.

        Raises:
            LocalProtocolError: its params are not JSON any more; then nobody waits for any answer.
        """
        self._transport.ledger.forget(self.id)
        self.line = self._issue()

    def withdraw(self) -> None:
        """Have the server stop, if it can know of the request."""
        assert self._task is not None
        self._task.cancel()

    def finish(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome."""
        if self.method == "initialize" and not isinstance(outcome, Exception):
            self._transport.negotiated(self.params, outcome)
        super().finish(outcome)
        assert self._task is not None
        self._task.outcome_arrived(in_time=not isinstance(outcome, ConnectionLost))


def _names_revision(params: JsonObject | None) -> bool:
    """Tell whether a message says itself which revision it speaks."""
    meta = (params or {}).get("_meta")
    return is_object(meta) and REVISION_KEY in meta


def _fields_of(method: str, params: JsonObject | None) -> Mapping[str, str]:
    """Return the header fields that repeat what a message which says its revision says.

    Raises:
        LocalProtocolError: the method, or a name, cannot stand in a field.
    """
    try:
        return request_fields(method, params)
    except ValueError as exc:
        raise LocalProtocolError(f"{method!r} cannot be sent over HTTP: {exc}") from None


def back_off(attempt: int, *, first: float, longest: float) -> float:
    """Return the pause before attempt number *attempt* + 1, in seconds: longer each time, and never quite the same."""
    pause = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return pause * random.uniform(0.5, 1)  # noqa: S311 # keeps clients apart; no secret


@define(eq=False)
class HttpRequestTask(abc.ABC):
    """Carries one request to the server and its answer back; `run` is its task."""

    transport: HttpTransport
    request: OutgoingHttpRequest
    has_sent: bool = field(default=False, init=False)
    """Whether the latest attempt has left as a whole."""
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _answered: trio.Event = field(factory=trio.Event, init=False)
    _is_repeated: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Carry the request until it is answered, has failed, or was left; never raises."""
        try:
            with self._scope:
                await self._send_until_answered()
        finally:
            self.transport.end_task(self)

    def outcome_arrived(self, *, in_time: bool) -> None:
        """The outcome is there. Not *in_time*: the connection is gone, and there is nothing to wait for."""
        self._answered.set()
        self.transport.release_slot(self)
        if in_time:
            self._scope.deadline = trio.current_time() + _LINGER_SECONDS
        else:
            self._scope.cancel(reason="the connection is gone")

    @abc.abstractmethod
    def cancel(self) -> None:
        """Nobody waits for the answer any more: have the server stop, if it can know of the request. Synchronous."""

    async def _send_until_answered(self) -> None:
        request, tries = self.request, 0
        while True:
            self.has_sent = False
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been left already: then nothing is sent
            failure = await self._outcome_of_attempt()
            if failure is None or not request.is_awaited():
                return
            tries += 1
            if not (isinstance(failure, ResponseLost) and self._may_repeat(failure, tries)):
                self.transport.fail(request, failure)
                return
            _log.debug("%s is sent once more: %s", request.method, failure)
            await self._pause(failure, tries)
            if not request.is_awaited():
                return
            try:
                request.reissue()
            except LocalProtocolError as exc:  # its params have been changed meanwhile
                request.finish(exc)
                return

    async def _outcome_of_attempt(self) -> TrioMcpError | None:
        try:
            return await self._attempt()
        except EngineError as exc:
            lost = ResponseLost(f"{self.request.method!r}: {exc}", sent=exc.sent)
            lost.__cause__ = exc
            return lost
        except TrioMcpError as exc:
            return exc

    def _may_repeat(self, failure: ResponseLost, tries: int) -> bool:
        if not self.request.repeatable:
            return False
        if not failure.sent:
            return self.transport.sender.is_reached and tries < TRIES
        is_first, self._is_repeated = not self._is_repeated, True
        return is_first

    async def _pause(self, failure: ResponseLost, tries: int) -> None:
        """Wait before another attempt, where nothing has reached the server."""
        if not failure.sent:
            await trio.sleep(back_off(tries, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE))

    @abc.abstractmethod
    async def _attempt(self) -> TrioMcpError | None:
        """Send the request and feed its answer to the transport; return what went wrong, None where nothing did."""

    def _note_sent(self) -> None:
        self.has_sent = True

    async def _read(self, response: HttpResponse, outlet: Outlet) -> TrioMcpError | None:
        """Read the response to the request; *lane* is where its answers go, should it ask something."""
        limits = self.transport.limits
        if is_event_stream(response):
            await read_events(
                response, SseDecoder(limits.max_message_bytes), lambda event: self._take_event(event, outlet)
            )
            return self._unanswered()
        if is_success(response) and media_type(response) == JSON_TYPE:
            return self._take_body(await read_body(response, limits.max_message_bytes), outlet)
        return self._take_refusal(await self._read_refusal(response))

    def _unanswered(self) -> ResponseLost:
        return ResponseLost(f"the server ended its response to {self.request.method!r} before the answer")

    def _take_event(self, event: SseEvent, outlet: Outlet) -> None:
        if event.event == "message" and event.data:  # else it is there for its id
            self.transport.received(event.data, outlet)

    def _take_body(self, body: bytes, outlet: Outlet) -> TrioMcpError | None:
        self.transport.sender.received(body)
        try:
            value = decode(body)
        except Undecodable as exc:
            return RemoteProtocolError(f"the answer to {self.request.method!r} is not JSON: {exc}")
        if is_object(value) and _is_nameless_error(value):
            value = {**value, "id": self.request.id}  # it answers what its response does
        self._take_value(value, len(body), outlet)
        return RemoteProtocolError(f"what came as the answer to {self.request.method!r} does not answer it")

    def _take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        self.transport.take_value(value, size, outlet)

    async def _read_refusal(self, response: HttpResponse) -> Refused:
        transport = self.transport
        return await read_refusal(response, transport.sender.url, transport.limits.max_message_bytes, self.request.id)

    def _take_refusal(self, refused: Refused) -> TrioMcpError:
        if refused.body:
            self.transport.sender.received(refused.body)
        return refused.error


def _is_nameless_error(value: JsonObject) -> bool:
    return value.get("id") is None and "error" in value and "result" not in value and "method" not in value


@define(eq=False)
class ModernRequestTask(HttpRequestTask):
    """Carries a request that says everything about itself: closing its response cancels it."""

    def cancel(self) -> None:
        self._scope.cancel(reason="the request was left")

    async def _attempt(self) -> TrioMcpError | None:
        transport, request = self.transport, self.request
        sender = transport.sender
        async with sender.post(sender.url, request.line, request.sent_headers, self._note_sent) as response:
            self._note_sent()
            return await self._read(response, transport.outlet)


@define(eq=False)
class HttpTransport(MessageConnection):
    """The client's end of what goes over HTTP; see also `MessageConnection`.

    Args:
        sender: leads to the server.
        renewed: called when a session stands in the place of a lost one.
    """

    sender: HttpSender
    renewed: Callable[[], None]
    _new_sessions: Callable[[HttpTransport], HttpSessions]
    request_slots: RequestSlots = field(init=False)
    sessions: HttpSessions = field(init=False)
    """What the server remembers of this client, if it does."""
    timeouts: PausableTimeouts = field(factory=PausableTimeouts, init=False)
    """The limits of what takes its time here, and may wait for a person."""
    _tasks: dict[HttpRequestTask, bool] = field(factory=dict[HttpRequestTask, bool], init=False)
    """The requests under way, and whether each takes a place."""
    _notifications: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The notifications under way, which the tasks of others wait for."""
    _closing_tasks: int = field(default=0, init=False)
    _closing_tasks_ended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _running: trio.CancelScope = field(factory=lambda: trio.CancelScope(shield=True), init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.request_slots = RequestSlots(self.limits.max_posts)
        self.sessions = self._new_sessions(self)

    @property
    def has_fields(self) -> bool:
        """Requests have header fields."""
        return True

    @property
    def outlet(self) -> Outlet:
        """Where what belongs to no exchange goes out."""
        return self.sessions.outlet

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Hold the tasks of the connection until `stop`; shielded, because the last words follow a cancellation."""
        with self._running:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()

    @property
    def nursery(self) -> trio.Nursery:
        """The tasks of the connection, which end with it."""
        assert self._nursery is not None
        return self._nursery

    async def close(self) -> None:
        """Tell those who wait, and the server; to be bounded by the caller."""
        self.disconnect(ConnectionClosed("this side closed the connection"))
        while self._closing_tasks:
            await self._closing_tasks_ended.park()
        await self.sessions.close()

    def stop(self) -> None:
        """End everything that is left. Synchronous."""
        self._running.cancel()

    # What is asked, and told.

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingHttpRequest:
        """Return an exchange to use; entering posts the request, leaving ends it."""
        return OutgoingHttpRequest(method, params, wants_updates, self.budget, self, self.outlet, self)

    def start(self, request: OutgoingHttpRequest) -> HttpRequestTask:
        """Begin to carry a request; it takes a place, unless it is apart."""
        task = ModernRequestTask(self, request) if request.names_revision else self.sessions.task_of(request)
        takes_slot = not request.needs_no_slot
        self._tasks[task] = takes_slot
        self.request_slots.taken += takes_slot
        self.nursery.start_soon(task.run, name=f"http {request.method}")
        return task

    def release_slot(self, task: HttpRequestTask) -> None:
        """The answer to a request is there: its place is free, though its response may not have ended yet."""
        if self._tasks.get(task, False):
            self._tasks[task] = False
            self.request_slots.release()

    def end_task(self, task: HttpRequestTask) -> None:
        """A request is not carried any more."""
        self.release_slot(task)
        del self._tasks[task]

    def fail(self, request: OutgoingHttpRequest, failure: TrioMcpError) -> None:
        """Give a request an outcome that is no message of the server."""
        self._on_outcome(request.id, failure)

    def finish_before_close(self, send_last: Callable[[], Awaitable[None]]) -> None:
        """Begin a task for which closing waits a moment."""

        async def run() -> None:
            try:
                await send_last()
            finally:
                self._closing_tasks -= 1
                if not self._closing_tasks:
                    self._closing_tasks_ended.unpark_all()

        self._closing_tasks += 1
        self.nursery.start_soon(run)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Post a notification, and wait until the server has taken it.

        If cancelled, it is not known whether the server has got it.

        Raises:
            AuthorizationFailed: the server wants to know who asks, and there is no token for it.
            HttpStatusError: the server refuses it; or `ErrorResponse`, where it says so in a message.
            ResponseLost: whether it has arrived is not known.
            ConnectionLost: the connection is gone.
            LocalProtocolError: its method cannot stand in a header field.
            NotJsonError: *params* hold something that JSON cannot say.
        """
        if self.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self.lost)
        with trio.CancelScope() as scope:
            self._notifications.add(scope)
            try:
                await self._post_notification(method, params)
            finally:
                self._notifications.discard(scope)
        if scope.cancelled_caught:
            assert self.lost is not None
            raise copy(self.lost)

    async def _post_notification(self, method: str, params: JsonObject | None) -> None:
        line = encode_notification(method, params)
        negotiated = self.admission.revision
        if _names_revision(params) or (negotiated is not None and is_modern(negotiated)):
            named = {} if negotiated is None else {VERSION_FIELD: negotiated}
            refused = await self.post(self.sender.url, line, {**named, **_fields_of(method, params)})
            if refused is not None:
                raise refused.error
        else:
            await self.sessions.notify(method, line)

    async def post(
        self, url: str, line: bytes, fields: Mapping[str, str], *, is_last_word: bool = False
    ) -> Refused | None:
        """Post what gets no answer; return why it was refused, None where it was not.

        Args:
            is_last_word: whether it is not worth more than one try.

        Raises:
            ResponseLost: whether it has arrived is not known.
            AuthorizationFailed: it was not sent, or was refused.
        """
        try:
            async with self.sender.post(url, line, fields, is_last_word=is_last_word) as response:
                if is_success(response):
                    return None
                refused = await read_refusal(response, url, self.limits.max_message_bytes)
        except EngineError as exc:
            raise ResponseLost(str(exc), sent=exc.sent) from exc
        if refused.body:
            self.sender.received(refused.body)
        return refused

    async def hear_news(self) -> None:
        """Hear what belongs to no exchange, if there was a handshake; return when that is so, or the server refuses."""
        if self.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self.lost)
        await self.sessions.hear_news()

    # What comes back.

    def received(self, message: bytes, outlet: Outlet) -> None:
        """Take a message that has come in an event; its answers go out in *lane*."""
        self.sender.received(message)
        self.take(message, outlet)

    def negotiated(self, params: JsonObject | None, answer: JsonObject) -> None:
        """A handshake has been answered."""
        self.sessions.negotiated(params, answer)

    def disconnect(self, reason: ConnectionLost) -> None:
        """Tell all who wait for a response that there is none; nothing is asked or answered any more."""
        super().disconnect(reason)
        self.request_slots.close()
        self.sessions.disconnect(reason)
        for exchange in list(self.ledger.answering.values()):
            exchange.disconnect()
        for scope in self._notifications:
            scope.cancel(reason="the connection is gone")

    def _outbox_bytes(self) -> int:
        unsent = sum(len(task.request.line) for task in self._tasks if not task.has_sent)
        return unsent + self.sessions.waiting_bytes
