"""The client's connection to an HTTP server: its requests, the tasks that carry them, and the connection itself.

Each message of the client is sent in a POST of its own, and each request has a task of its own. All responses go to one
`MessageConnection`. A message that names its revision needs nothing but the server's address. Any other message belongs
to a session, which this module knows only as `HttpSessions`.

Rules of this file:

1. A failure of one request ends that request only; other requests and the client go on.
2. If the response to a repeatable request is lost, the request is sent once more, under a new id. If the server was
   reachable before and no longer is, the client retries for some seconds, because that is what a restarting server
   looks like.
3. After the answer, the task waits a moment for the rest of the response: a connection whose response has ended can be
   reused, and one that is abandoned must be closed.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import abc
import logging
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Protocol

import trio
from attrs import define, field

from ...._errors import (
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ResponseLost,
    TrioMcpError,
)
from ....peer import NO_HEADERS, MessageConnection, OutgoingMessageRequest, Outlet, PausableTimeouts
from ....wire import (
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
    HttpResponse,
    Refused,
    is_event_stream,
    is_success,
    media_type,
    read_body,
    read_events,
    read_refusal,
)
from .._http1_engine import Http1Engine, SentExchange
from ._kept_connections import AwaitedResponse, KeptConnections
from ._sender import HttpSender

__all__ = [
    "TRIES",
    "HttpRequestTask",
    "HttpSessions",
    "HttpTransport",
    "OutgoingHttpRequest",
    "back_off",
]

_log = logging.getLogger("trio_mcp.transports")

_LINGER_SECONDS = 1.0
"""The time to wait for the end of a response after its answer has arrived."""
TRIES = 7
"""The maximum number of attempts to reach a server that was reachable before: about 6 s in total."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


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

    async def open_standalone_stream(self) -> None:
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
    """A bound on the number of requests in flight."""

    limit: int
    taken: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)
    _waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def free(self) -> bool:
        """True if `wait` would return at once."""
        return self.taken < self.limit or self._is_closed

    async def wait(self) -> None:
        """Wait for a slot, to be taken without a checkpoint in between; also returns once the connection is closed."""
        while not self.free:
            await self._waiting.park()
        self._waiting.unpark()  # so the next task looks too, whether or not this one takes its slot

    def release(self) -> None:
        """Release one slot."""
        self.taken -= 1
        if self._waiting:
            self._waiting.unpark()

    def close(self) -> None:
        """Wake every waiting task, because the connection is lost."""
        self._is_closed = True
        self._waiting.unpark_all()


@define(eq=False)
class OutgoingHttpRequest(OutgoingMessageRequest):
    """A request that is sent in a POST of its own."""

    _transport: HttpTransport
    line: bytes = field(default=b"", init=False)
    """The request as it was last sent, with its newline."""
    sent_headers: Mapping[str, str] = field(default=NO_HEADERS, init=False)
    """The header fields that are sent with it."""
    names_revision: bool = field(init=False)
    """True if the request names the revision that it speaks."""
    needs_no_slot: bool = field(init=False)
    """True if it is exempt from the limit: it lasts, or other requests may wait for it."""
    _task: HttpRequestTask | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.names_revision = _names_revision(self.params)
        self.needs_no_slot = self.method in {LISTEN, "initialize"}

    def is_awaited(self) -> bool:
        """Return True if a caller still waits for the answer."""
        return self._transport.ledger.outgoing.get(self.id) is self

    @property
    def receiving(self) -> bool:
        """True if a task waits for an update or the outcome."""
        response = self._response
        return super().receiving if response is None else response.is_awaited

    @property
    def _response(self) -> AwaitedResponse | None:
        """The response, if the task that waits for the outcome reads it itself."""
        return None if self._task is None else self._task.response

    async def _wait(self) -> None:
        response = self._response
        if response is None:
            await super()._wait()
            return
        self._check_wait()
        await response.wait()
        self._raise_interruption()

    def _wake(self) -> None:
        response = self._response
        if response is not None:
            response.wake()
        super()._wake()

    def _has_room(self) -> bool:
        return self._transport.lost is None and (self.needs_no_slot or self._transport.request_slots.free)

    async def _room(self) -> None:
        transport = self._transport
        if not self.needs_no_slot:
            await transport.request_slots.wait()
        if transport.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(transport.lost)

    def _send(self) -> None:
        mirrored = _fields_of(self.method, self.params) if self.names_revision else NO_HEADERS
        self.line = self._issue()
        self.sent_headers = {**mirrored, **self.fields} if self.fields else mirrored
        self._task = self._transport.start(self)

    def reissue(self) -> None:
        """Take a new id for another attempt; the answer to the previous id is no longer awaited.

        Raises:
            LocalProtocolError: its params are no longer JSON; no answer is awaited then.
        """
        self._transport.ledger.forget(self.id)
        self.line = self._issue()

    def withdraw(self) -> None:
        """Have the server cancel the request, if it may have received it."""
        assert self._task is not None
        self._task.cancel()

    def task_ended(self) -> None:
        """Forget the task, which refers to the request: a cycle for each request would keep the collector busy."""
        self._task = None

    def finish(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome."""
        if self.method == "initialize" and not isinstance(outcome, Exception):
            self._transport.negotiated(self.params, outcome)
        super().finish(outcome)
        if self._task is not None:
            self._task.outcome_arrived(in_time=not isinstance(outcome, ConnectionLost))


def _names_revision(params: JsonObject | None) -> bool:
    """Return True if a message names the revision that it speaks."""
    meta = (params or {}).get("_meta")
    return is_object(meta) and REVISION_KEY in meta


def _fields_of(method: str, params: JsonObject | None) -> Mapping[str, str]:
    """Return the header fields that mirror a message which names its revision.

    Raises:
        LocalProtocolError: the method, or a name, cannot be written in a header field.
    """
    try:
        return request_fields(method, params)
    except ValueError as exc:
        raise LocalProtocolError(f"{method!r} cannot be sent over HTTP: {exc}") from None


def back_off(attempt: int, *, first: float, longest: float) -> float:
    """Return the pause after attempt number *attempt*, in seconds: it grows with each attempt, and is randomized."""
    pause = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return pause * random.uniform(0.5, 1)  # noqa: S311 # spreads clients; not a secret


@define(eq=False)
class HttpRequestTask(abc.ABC):
    """The task that sends one request to the server and takes its answer; `run` is its body."""

    transport: HttpTransport
    request: OutgoingHttpRequest
    has_sent: bool = field(default=False, init=False)
    """True once the latest attempt has been sent completely."""
    response: AwaitedResponse | None = field(default=None, init=False)
    """The response to a request that was sent at once, until it is taken, or this task reads it."""
    _sent_before: SentExchange | None = field(default=None, init=False)
    """The request as it was sent at once, when this task begins to read the response."""
    _running: trio.CancelScope | None = field(default=None, init=False)
    _is_repeated: bool = field(default=False, init=False)
    _has_read_all: bool = field(default=False, init=False)
    """True if the response has ended."""

    @property
    def _scope(self) -> trio.CancelScope:
        """The scope in which the task runs; made when it is needed, because most requests need none."""
        if self._running is None:
            self._running = trio.CancelScope()
        return self._running

    async def run(self) -> None:
        """Run until the request is answered, has failed, or was abandoned; never raises."""
        try:
            with self._scope:
                await self._send_until_answered()
        finally:
            if self._sent_before is not None:
                self._sent_before.close()
            self._end()

    def _end(self) -> None:
        """Note that nothing more is done for the request; called once."""
        self.transport.end_task(self)
        self.request.task_ended()

    # --- Requests that are sent at once; see `_kept_connections` ---

    @abc.abstractmethod
    def send_now(self) -> bool:
        """Send the request without a task; return False if that is not possible."""

    def _post_now(self, url: str, fields: Mapping[str, str]) -> bool:
        self.response = self.transport.sender.post_now(self, url, self.request.line, fields)
        self.has_sent = self.response is not None
        return self.has_sent

    def take_json(self, body: bytes) -> None:
        """Take the whole body of a response with the status 200; the request has ended."""
        self.response, self._has_read_all = None, True
        failure = self._take_body(body, self._outlet())
        if failure is not None:
            self.transport.fail(self.request, failure)
        self._end()

    @abc.abstractmethod
    def _outlet(self) -> Outlet:
        """Return the outlet for answers to requests in the response."""

    def go_on(self, sent: SentExchange) -> None:
        """Read the response to a request that was sent at once, in a task. Synchronous."""
        self.response, self._sent_before = None, sent
        self.transport.nursery.start_soon(self.run, name=f"http {self.request.method}")

    def _leave(self, reason: str) -> None:
        """End the request now, and close its connection."""
        response, self.response = self.response, None
        if response is None:
            self._scope.cancel(reason=reason)
        else:
            response.abandon()
            self._end()

    def outcome_arrived(self, *, in_time: bool) -> None:
        """Release the slot, and end the response soon.

        Args:
            in_time: False if the connection is lost: then the task ends at once.
        """
        self.transport.release_slot(self)
        if not in_time:
            self._leave("the connection is gone")
        elif not self._has_read_all:
            self._scope.deadline = trio.current_time() + _LINGER_SECONDS
            if self.response is not None:  # the answer has arrived in another response, so no caller reads this one
                self.response.hand_over()

    @abc.abstractmethod
    def cancel(self) -> None:
        """Have the server cancel the request, because the caller has left. Synchronous.

        Does nothing more than ending the task if the server cannot have received the request.
        """

    async def _send_until_answered(self) -> None:
        request, tries = self.request, 0
        while True:
            self.has_sent = self._sent_before is not None
            await trio.lowlevel.checkpoint_if_cancelled()  # if the caller has left already, nothing is sent
            failure = await self._outcome_of_attempt()
            if failure is None or not request.is_awaited():
                return
            tries += 1
            if not (isinstance(failure, ResponseLost) and self._may_repeat(failure, tries)):
                self.transport.fail(request, failure)
                return
            _log.debug("%s is repeated: %s", request.method, failure)
            await self._pause(failure, tries)
            if not request.is_awaited():
                return
            try:
                request.reissue()
            except LocalProtocolError as exc:  # the caller has changed its params
                request.finish(exc)
                return

    async def _outcome_of_attempt(self) -> TrioMcpError | None:
        try:
            return await self._attempt()
        except EngineError as exc:
            lost = ResponseLost(f"{self.request.method!r}: {exc}{self._cure(exc)}", sent=exc.sent)
            lost.__cause__ = exc
            return lost
        except TrioMcpError as exc:
            return exc

    def _cure(self, error: EngineError) -> str:
        """Return what the user may do about a server that has never answered; empty if that is unknown."""
        sender = self.transport.sender
        if not error.sent or sender.is_reached or not sender.url.startswith("http:"):
            return ""
        return "; if the server uses TLS, its URL begins with https://"

    def _may_repeat(self, failure: ResponseLost, tries: int) -> bool:
        if not self.request.repeatable:
            return False
        if not failure.sent:
            return self.transport.sender.is_reached and tries < TRIES
        is_first, self._is_repeated = not self._is_repeated, True
        return is_first

    async def _pause(self, failure: ResponseLost, tries: int) -> None:
        """Wait before the next attempt, if nothing has reached the server."""
        if not failure.sent:
            await trio.sleep(back_off(tries, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE))

    @abc.abstractmethod
    async def _attempt(self) -> TrioMcpError | None:
        """Send the request and feed the response to the transport; return what went wrong, or None."""

    def _note_sent(self) -> None:
        self.has_sent = True

    async def _read(self, response: HttpResponse, outlet: Outlet) -> TrioMcpError | None:
        """Read the response; answers to requests in it are sent in *outlet*."""
        limits = self.transport.limits
        if is_event_stream(response):
            await read_events(
                response, SseDecoder(limits.max_message_bytes), lambda event: self._take_event(event, outlet)
            )
            return self._unanswered()
        if is_success(response) and media_type(response) == JSON_TYPE:
            body = await read_body(response, limits.max_message_bytes)
            self._has_read_all = True
            return self._take_body(body, outlet)
        return self._take_refusal(await self._read_refusal(response))

    def _unanswered(self) -> ResponseLost:
        return ResponseLost(f"the server ended its response to {self.request.method!r} without an answer")

    def _take_event(self, event: SseEvent, outlet: Outlet) -> None:
        if event.event == "message" and event.data:  # other events only carry an id
            with self.transport.reading_response_to(self.request):
                self.transport.received(event.data, outlet)

    def _take_body(self, body: bytes, outlet: Outlet) -> TrioMcpError | None:
        self.transport.sender.received(body)
        try:
            value = decode(body)
        except Undecodable as exc:
            return RemoteProtocolError(f"the answer to {self.request.method!r} is not JSON: {exc}")
        if is_object(value) and _is_nameless_error(value):
            value = {**value, "id": self.request.id}  # an error without an id answers the request of its response
        self._take_value(value, len(body), outlet)
        if not self.request.is_awaited():
            return None
        return RemoteProtocolError(f"the response to {self.request.method!r} holds no answer to it")

    def _take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        self.transport.take_value(value, size, outlet)

    async def _read_refusal(self, response: HttpResponse) -> Refused:
        transport = self.transport
        return await read_refusal(response, transport.sender.url, transport.limits.max_message_bytes, self.request.id)

    def _take_refusal(self, refused: Refused) -> TrioMcpError:
        if refused.body:
            self.transport.sender.received(refused.body)
        if isinstance(refused.id, str):
            self.transport.meant_id(refused.id)
        return refused.error


def _is_nameless_error(value: JsonObject) -> bool:
    return value.get("id") is None and "error" in value and "result" not in value and "method" not in value


@define(eq=False)
class ModernRequestTask(HttpRequestTask):
    """The task of a request that names its revision: closing the response cancels the request."""

    def cancel(self) -> None:
        self._leave("the caller has left")

    def send_now(self) -> bool:
        return self._post_now(self.transport.sender.url, self.request.sent_headers)

    def _outlet(self) -> Outlet:
        return self.transport.outlet

    async def _attempt(self) -> TrioMcpError | None:
        request, sender = self.request, self.transport.sender
        sent, self._sent_before = self._sent_before, None
        async with sender.post(sender.url, request.line, request.sent_headers, self._note_sent, sent=sent) as response:
            self._note_sent()
            return await self._read(response, self._outlet())


@define(eq=False)
class HttpTransport(MessageConnection):
    """The client's side of a connection over HTTP; see also `MessageConnection`.

    Args:
        sender: makes the HTTP requests.
        renewed: called when a new session has replaced a lost one.
        new_sessions: returns the sessions of this connection.
    """

    sender: HttpSender
    renewed: Callable[[], None]
    _new_sessions: Callable[[HttpTransport], HttpSessions]
    request_slots: RequestSlots = field(init=False)
    sessions: HttpSessions = field(init=False)
    """The sessions that the server has with this client."""
    timeouts: PausableTimeouts = field(factory=PausableTimeouts, init=False)
    """The timeouts of the connection's own steps, which stand still while a person is asked."""
    _tasks: dict[HttpRequestTask, bool] = field(factory=dict[HttpRequestTask, bool], init=False)
    """In-flight requests, and whether each one counts against the limit."""
    _notifications: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The cancel scopes of notifications in flight, whose callers are tasks of others."""
    _closing_tasks: int = field(default=0, init=False)
    _closing_tasks_ended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _request_of_response: OutgoingHttpRequest | None = field(default=None, init=False)
    """The request whose response a message is being taken from; None for other messages."""
    _running: trio.CancelScope = field(factory=lambda: trio.CancelScope(shield=True), init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.request_slots = RequestSlots(self.limits.max_posts)
        sender = self.sender
        if isinstance(sender.engine, Http1Engine):
            fields, most = sender.fields_of_posts, self.limits.max_message_bytes
            sender.kept = KeptConnections(sender.engine, fields, self._start_soon, most)
        self.sessions = self._new_sessions(self)

    @property
    def has_fields(self) -> bool:
        """True: requests have header fields."""
        return True

    @property
    def outlet(self) -> Outlet:
        """The outlet for messages that belong to no request."""
        return self.sessions.outlet

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Hold the tasks of the connection until `stop`.

        Shielded, because the last messages are sent after a cancellation.
        """
        with self._running:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()

    def _start_soon(self, run: Callable[[], Awaitable[None]]) -> None:
        self.nursery.start_soon(run)

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery of the connection's tasks, which end with it."""
        assert self._nursery is not None
        return self._nursery

    async def close(self) -> None:
        """Fail every waiting caller and tell the server; the caller bounds the time."""
        self.disconnect(ConnectionClosed("this side closed the connection"))
        while self._closing_tasks:
            await self._closing_tasks_ended.park()
        await self.sessions.close()

    def stop(self) -> None:
        """Cancel every remaining task. Synchronous."""
        self._running.cancel()

    # --- Outgoing messages ---

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingHttpRequest:
        """Return an exchange; entering it posts the request, leaving it ends the request."""
        return OutgoingHttpRequest(method, params, wants_updates, self.budget, self, self.outlet, self)

    def start(self, request: OutgoingHttpRequest) -> HttpRequestTask:
        """Start the task of a request, which takes a slot if the request needs one."""
        task = ModernRequestTask(self, request) if request.names_revision else self.sessions.task_of(request)
        takes_slot = not request.needs_no_slot
        self._tasks[task] = takes_slot
        self.request_slots.taken += takes_slot
        if not (request.is_awaited_at_once and task.send_now()):
            self.nursery.start_soon(task.run, name=f"http {request.method}")
        return task

    def release_slot(self, task: HttpRequestTask) -> None:
        """Release the slot of a request that is answered, though its response may not have ended yet."""
        if self._tasks.get(task, False):
            self._tasks[task] = False
            self.request_slots.release()

    def end_task(self, task: HttpRequestTask) -> None:
        """Forget a task that has ended."""
        self.release_slot(task)
        del self._tasks[task]

    def fail(self, request: OutgoingHttpRequest, failure: TrioMcpError) -> None:
        """Give a request an outcome that is no message of the server."""
        self._on_outcome(request.id, failure)

    def finish_before_close(self, send_last: Callable[[], Awaitable[None]]) -> None:
        """Start a task that closing waits for, for a short time."""

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
        """Post a notification, and wait until the server has accepted it.

        If cancelled, it is unknown whether the server has received it.

        Raises:
            AuthorizationFailed: the server requires authentication, and no token is available.
            HttpStatusError: the server refuses the notification; or `ErrorResponse`, if it says so in a message.
            ResponseLost: it is unknown whether the notification has arrived.
            ConnectionLost: the connection is lost.
            LocalProtocolError: the method cannot be written in a header field.
            NotJsonError: *params* hold a value that JSON cannot represent.
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
        self,
        url: str,
        line: bytes,
        fields: Mapping[str, str],
        *,
        is_last_word: bool = False,
        sent: SentExchange | None = None,
    ) -> Refused | None:
        """Post a message that gets no answer; return why it was refused, or None.

        Args:
            url: the address to post to.
            line: the message, with its newline.
            fields: header fields for this message only.
            is_last_word: True if it is sent at most once.
            sent: the message as `HttpSender.begin_post` has posted it; None if it was not.

        Raises:
            ResponseLost: it is unknown whether the message has arrived.
            AuthorizationFailed: the message was not sent, or was refused.
        """
        try:
            async with self.sender.post(url, line, fields, is_last_word=is_last_word, sent=sent) as response:
                if is_success(response):
                    return None
                refused = await read_refusal(response, url, self.limits.max_message_bytes)
        except EngineError as exc:
            raise ResponseLost(str(exc), sent=exc.sent) from exc
        if refused.body:
            self.sender.received(refused.body)
        return refused

    async def open_standalone_stream(self) -> None:
        """Open the stream of messages that belong to no request, if there was a handshake.

        Returns when it is open, or is refused.
        """
        if self.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self.lost)
        await self.sessions.open_standalone_stream()

    # --- Incoming messages ---

    @contextmanager
    def reading_response_to(self, request: OutgoingHttpRequest) -> Generator[None]:
        """Take the messages of the block as ones that have arrived in the response to *request*. It never waits."""
        self._request_of_response = request
        try:
            yield
        finally:
            self._request_of_response = None

    def _on_other_notification(self, method: str, params: JsonObject) -> None:
        request = self._request_of_response
        if request is None or request.on_notification is None or not request.on_notification(method, params):
            super()._on_other_notification(method, params)

    def received(self, message: bytes, outlet: Outlet) -> None:
        """Take a message that has arrived in an event; answers to it are sent in *outlet*."""
        self.sender.received(message)
        self.take(message, outlet)

    def negotiated(self, params: JsonObject | None, answer: JsonObject) -> None:
        """Take the answer to ``initialize``."""
        self.sessions.negotiated(params, answer)

    def disconnect(self, reason: ConnectionLost) -> None:
        """Fail every caller that waits for a response; nothing is sent or answered from now on."""
        super().disconnect(reason)
        self.request_slots.close()
        self.sessions.disconnect(reason)
        for exchange in list(self.ledger.incoming.values()):
            exchange.disconnect()
        for scope in self._notifications:
            scope.cancel(reason="the connection is gone")

    def _outbox_bytes(self) -> int:
        unsent = sum(len(task.request.line) for task in self._tasks if not task.has_sent)
        return unsent + self.sessions.waiting_bytes
