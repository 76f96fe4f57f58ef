"""The sessions of a client at a server of the legacy revisions: opening, renewing, ending, and requests in them.

`SessionManager` is the only entry point for the rest of the client.

Rules of this file:

1. Every message after ``initialize`` carries the id of the session, if the server has assigned one, and the negotiated
   revision.
2. Status 404 says that the server no longer knows the session. The first request that gets it has a new session opened.
   What was refused with 404 is sent again in the new session, once. Every other request in flight in the old session
   fails, or is repeated if it may be. New requests wait for the new session. A request of which nothing was sent waits
   for some seconds for a server that opens none yet.
3. The new session has the same revision. If the server refuses to open one, the connection is lost. If the server
   cannot be reached, the next request tries again.
4. If the server refuses ``initialize`` by POST as unknown, the client requests the event stream of HTTP+SSE.
5. Closing a response cancels nothing. The server is sent a cancellation, but not before it has been sent the request.
   If it accepts that and then ends the response within a moment, the connection is kept.
6. A response stream that ends before the answer is resumed, if its events have ids.
7. If the session is lost, so are the answers in it. A request whose response has not begun, and which may not be
   repeated, waits a moment for its refusal: a refusal proves that the server did not execute it.
8. A response that begins after its session was lost is read only for the answer and the progress of its request. The
   connection belongs to the next session by then, and ids of the old session are in use again there.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

import trio
from attrs import define, field

from ...._errors import (
    AuthorizationFailed,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLost,
    ErrorResponse,
    HttpStatusError,
    RemoteProtocolError,
    ResponseLost,
    TrioMcpError,
)
from ....peer import Outlet
from ....wire import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    BrokenResponse,
    ErrorReply,
    JsonObject,
    Message,
    Notification,
    Reply,
    SseEvent,
    Undecodable,
    decode,
    encode_notification,
    is_array,
    is_plain_field,
    parse_message,
)
from .._engine import EngineError, HttpResponse, Refused, is_event_stream, is_success
from .._http1_engine import SentExchange
from ._legacy_streams import LegacySession, ReplyOutlet, ResumableStream, StandaloneStream, open_sse_session
from ._transport import TRIES, HttpRequestTask, HttpTransport, OutgoingHttpRequest

__all__ = ["LegacyRequestTask", "SessionManager"]

_log = logging.getLogger("trio_mcp.transports")

_RENEWAL_SECONDS = 30.0
"""The maximum time to open a new session."""
_CREDENTIAL_STATUSES = (401, 403)
"""The statuses that are about authentication and say nothing about sessions."""
_STANDALONE_SECONDS = 2.0
"""The time to wait for the head of the standalone stream: a server may delay it until its first message."""
_MAX_RESUMPTIONS = 5
"""The number of times that a stream is resumed without any event arriving."""
_SSE_STATUSES = (400, 404, 405)
"""The statuses that a server of HTTP+SSE, which takes no POST at this address, may answer with."""
_LATER_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_REVISION)
"""Error codes that only servers of later revisions use."""
_CANCEL_SECONDS = 5.0
"""The maximum time to wait for the request to be sent, and then for its cancellation to be accepted."""
_UNREACHABLE_SECONDS = 5.0
"""The time for which a request that was not sent and is not repeatable waits for a server that opens no session."""
_REJECTION_SECONDS = 5.0
"""The time to wait for the refusal of a request in a lost session; a restarted server refuses at once."""


@define(eq=False)
class SessionManager:
    """The owner of the one session of a transport."""

    transport: HttpTransport
    outlet: ReplyOutlet = field(init=False)
    """The outlet for messages that belong to no request."""
    current: LegacySession = field(init=False)
    draining: set[ReplyOutlet] = field(factory=set[ReplyOutlet], init=False)
    """The outlets whose queue is not empty."""
    is_sse: bool | None = field(default=None, init=False)
    """True if the server speaks nothing but HTTP+SSE; None while that is unknown."""
    _params: JsonObject | None = field(default=None, init=False)
    """The params of the ``initialize`` that was answered; None before."""
    _revision: str | None = field(default=None, init=False)
    """The revision that a new session must have; None before the first one."""
    _renewal: trio.Event | None = field(default=None, init=False)
    """Set when the renewal in progress has ended; None if there is none."""
    _unauthorized: AuthorizationFailed | None = field(default=None, init=False)
    """The reason why the latest renewal failed, if authorization failed."""
    _wants_standalone: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.current = LegacySession(self.transport.sender.url)
        self.outlet = ReplyOutlet.of(self, None)

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes of responses and notifications that wait to be sent."""
        return sum(outlet.size for outlet in self.draining)

    def task_of(self, request: OutgoingHttpRequest) -> LegacyRequestTask:
        """Return the task of a request that does not name its revision."""
        return LegacyRequestTask(self.transport, request, self)

    # --- Opening a session ---

    def use(self, session: LegacySession) -> None:
        """Make a session current, because the server has accepted its ``initialize``."""
        self.current = session

    async def open_sse(self) -> LegacySession | None:
        """Request the stream of HTTP+SSE and use its session; return None if the server has none.

        Raises:
            RemoteProtocolError: the server names no valid address for messages.
        """
        session = await open_sse_session(self)
        if session is not None:
            self.use(session)
        return session

    def negotiated(self, params: JsonObject | None, answer: JsonObject) -> None:
        """Take the answer to ``initialize``."""
        revision = answer.get("protocolVersion")
        self.current.agree(revision if type(revision) is str and is_plain_field(revision) else None)
        self._params, self.is_sse = params, self.current.is_sse
        self._revision = self._revision or self.current.revision

    async def open_standalone_stream(self) -> None:
        """Open the standalone stream, unless it is open or the server has none."""
        self._wants_standalone = True
        session = self.current
        if session.revision is None or session.is_sse or session.is_lost:
            await trio.lowlevel.checkpoint()
            return
        if session.standalone is None:
            session.standalone = StandaloneStream(self, session)
            self.transport.nursery.start_soon(session.standalone.run)
        with trio.move_on_after(_STANDALONE_SECONDS):
            await session.standalone.opened_or_refused.wait()

    # --- Messages in the session ---

    @property
    def session_now(self) -> LegacySession | None:
        """The current session; None if it is lost, or being replaced."""
        return None if self._renewal is not None or self.current.is_lost else self.current

    async def usable(self) -> LegacySession:
        """Return the current session, after a lost one was replaced.

        Raises:
            ResponseLost: the server cannot be reached to open a new session.
            AuthorizationFailed: the server requires authentication first, and no token is available.
        """
        if self._renewal is None and self.current.is_lost:
            self._begin_renewal()
        while self._renewal is not None:
            await self._renewal.wait()
        if self.current.is_lost:
            if self._unauthorized is not None:
                raise copy(self._unauthorized)
            raise ResponseLost("the session is lost, and the server cannot be reached to open a new one", sent=False)
        return self.current

    async def notify(self, method: str, line: bytes) -> None:
        """Post a notification; raises what `HttpTransport.notify` does."""
        for _ in range(2):
            session = await self.usable()
            refused = await self._post(session, line)
            if refused is None:
                return
            if not _is_rejected(refused, session):  # the session may have been replaced meanwhile
                raise refused.error
        raise ResponseLost(f"the server no longer knows the session, and did not accept {method!r}", sent=False)

    async def post_best_effort(
        self, session: LegacySession, line: bytes, *, is_last_word: bool = False, sent: SentExchange | None = None
    ) -> bool:
        """Post a response, or a notification that no caller waits for; return True if the server has accepted it.

        A failure is only logged.

        Args:
            session: the session that it belongs to.
            line: the message, with its newline.
            is_last_word: True if it is sent at most once.
            sent: the message as `HttpSender.begin_post` has posted it; None if it was not.
        """
        if session.is_lost and sent is None:
            return False  # the new session does not know the request
        with self.transport.timeouts.within(self.transport.limits.stall_seconds) as scope:
            try:
                refused = await self._post(session, line, is_last_word=is_last_word, sent=sent)
            except TrioMcpError as exc:
                _log.warning("a response or a notification may not have arrived: %s", exc)
            else:
                if refused is None:
                    return True
                _log.warning("the server refused a response or a notification: %s", refused.error)
        if scope.cancelled_caught:
            _log.warning("the server has not confirmed a response or a notification in time")
        return False

    async def _post(
        self, session: LegacySession, line: bytes, *, is_last_word: bool = False, sent: SentExchange | None = None
    ) -> Refused | None:
        refused = await self.transport.post(session.url, line, session.fields, is_last_word=is_last_word, sent=sent)
        if refused is not None and _is_rejected(refused, session):
            self.replace(session)
        return refused

    # --- The end of a session ---

    @staticmethod
    def is_unknown(session: LegacySession, response: HttpResponse) -> bool:
        """Return True if the response to a GET says that the server no longer knows the session.

        A server that has no such stream gives the same status, but has never opened one.
        """
        return response.status == 404 and session.id is not None and session.has_streams

    def replace(self, session: LegacySession) -> None:
        """Open a new session, because the server no longer knows this one, or its stream has ended. Synchronous."""
        if session.is_lost:
            return
        session.disconnect()
        if session is self.current and session.revision is not None:
            for exchange in list(self.transport.ledger.incoming.values()):
                exchange.disconnect()
            self._begin_renewal()

    def _begin_renewal(self) -> None:
        if self._renewal is None and self._params is not None and self.transport.lost is None:
            self._revision = self.current.revision or self._revision
            self._renewal = trio.Event()
            self.transport.nursery.start_soon(self._renew)

    async def _renew(self) -> None:
        """Open a new session; never raises."""
        assert self._renewal is not None
        is_begun, self._unauthorized = False, None
        try:
            with self.transport.timeouts.within(_RENEWAL_SECONDS):
                await self._open_successor()
                is_begun = True
                self.transport.renewed()
        except TrioMcpError as exc:
            _log.debug("no new session could be opened: %s", exc)
            self._unauthorized = exc if isinstance(exc, AuthorizationFailed) else None
            if _is_final(exc):
                self.transport.disconnect(
                    ConnectionBroken(f"the server no longer knows the session, and opens no new one: {exc}")
                )
        finally:
            if not is_begun:
                self.current.disconnect()
            renewal, self._renewal = self._renewal, None
            renewal.set()

    async def _open_successor(self) -> None:
        request = self.transport.ask("initialize", self._params)
        request.repeatable = True
        async with request:
            await request.result()
        session = self.current
        if session.revision != self._revision:
            raise RemoteProtocolError(
                f"the session had revision {self._revision}, and the new one has {session.revision}"
            )
        refused = await self._post(session, encode_notification("notifications/initialized", None))
        if refused is not None:
            raise refused.error
        if self._wants_standalone:
            await self.open_standalone_stream()

    def disconnect(self, reason: ConnectionLost) -> None:
        """Stop sending, because the connection is lost. If the client closes it, `close` ends the session later."""
        self.outlet.fail(reason)
        if not isinstance(reason, ConnectionClosed):
            self.current.disconnect()

    async def close(self) -> None:
        """Tell the server that the session is no longer needed; its answer is ignored."""
        session = self.current
        if session.id is None or session.is_lost:
            return
        try:
            async with self.transport.sender.delete(session.fields):
                pass
        except (EngineError, AuthorizationFailed) as exc:
            _log.debug("the session could not be ended: %s", exc)


def _is_rejected(refused: Refused, session: LegacySession) -> bool:
    """Return True if a message was refused because the server no longer knows the session."""
    return refused.status == 404 and session.id is not None


def _is_final(exc: TrioMcpError) -> bool:
    """Return True if the server itself refused the renewal; a failing server or proxy may recover."""
    match exc:
        case AuthorizationFailed() | ConnectionLost() | ResponseLost():
            return False
        case HttpStatusError(status=status):
            return status < 500 and status not in _CREDENTIAL_STATUSES
        case _:
            return True


@define(eq=False)
class LegacyRequestTask(HttpRequestTask):
    """The task of a request in the current session; ``initialize`` opens one."""

    _manager: SessionManager
    _session: LegacySession | None = field(default=None, init=False)
    """The session in which it was sent."""
    _refused: Refused | None = field(default=None, init=False)
    """The refusal of the server, if there was one."""
    _first_rejection: ResponseLost | None = field(default=None, init=False)
    """The failure of the first attempt that the server rejected because it did not know the session."""
    _rejection: ResponseLost | None = field(default=None, init=False)
    """The same of the latest attempt that was rejected."""
    _begun_at: float = field(default=math.inf, init=False)
    """The time of its first attempt in this task, on Trio's clock."""
    _attempt_scope: trio.CancelScope | None = field(default=None, init=False)
    """The scope of the latest attempt; None before this task makes one."""
    _is_sent: bool = field(default=False, init=False)
    """True if the latest attempt has been sent completely, or there are no more attempts."""
    _sent: trio.Event | None = field(default=None, init=False)
    """Set when that becomes true; None while nothing waits for it."""
    _answered: trio.Event | None = field(default=None, init=False)
    """Set when the answer has arrived; None while nothing waits for that."""
    _is_accepted: bool = field(default=False, init=False)
    """True once the server has begun a response to the latest attempt that is not a refusal."""
    _has_ended: bool = field(default=False, init=False)
    _is_cancelling: bool = field(default=False, init=False)

    def _end(self) -> None:
        super()._end()
        self._has_ended = True
        self._set_sent()
        if self._session is not None:
            self._session.tasks.discard(self)

    def send_now(self) -> bool:
        """Send the request in the current session without a task; return False if that is not possible."""
        session = self._manager.session_now
        if session is None or session.is_sse or self.request.method == "initialize":
            return False
        added = self.request.sent_headers
        if not self._post_now(session.url, {**session.fields, **added} if added else session.fields):
            return False
        self._session = session
        session.tasks.add(self)
        return True

    def _outlet(self) -> Outlet:
        assert self._session is not None
        return self._session.replies(self._manager)

    def outcome_arrived(self, *, in_time: bool) -> None:
        """Take the outcome, unless the cancellation is still being sent."""
        if self._is_cancelling:
            return
        if self._answered is not None:
            self._answered.set()
        super().outcome_arrived(in_time=in_time)

    def cancel(self) -> None:
        """Send a cancellation, if the server may have received the request."""
        is_never_cancelled = self.request.method == "initialize"
        if self._session is None or self._session.is_lost or is_never_cancelled:
            self._leave("the caller has left")
        else:
            self._is_cancelling = True
            session, sent = self._session, None
            is_sent = self._is_sent if self.response is None else self.response.is_sent
            if is_sent:
                sent = self.transport.sender.begin_post(session.url, self._cancellation(), session.fields)
            self.transport.finish_before_close(partial(self._send_cancelled, sent))

    def _cancellation(self) -> bytes:
        return encode_notification("notifications/cancelled", {"requestId": self.request.id})

    async def _send_cancelled(self, sent: SentExchange | None) -> None:
        """Send the cancellation after the request, unless it was *sent* already; wait until it is accepted."""
        is_accepted = False
        try:
            with trio.move_on_after(_CANCEL_SECONDS):
                if sent is None:
                    await self._wait_sent()
                if sent is not None or not self._has_ended:
                    assert self._session is not None
                    is_accepted = await self._manager.post_best_effort(
                        self._session, self._cancellation(), is_last_word=True, sent=sent
                    )
        finally:
            if not self._has_ended:
                self._end_cancelled(is_accepted=is_accepted)

    async def _wait_sent(self) -> None:
        if self.response is not None:
            await self.response.wait_sent()
        elif not self._is_sent:
            self._sent = self._sent or trio.Event()
            await self._sent.wait()

    def _end_cancelled(self, *, is_accepted: bool) -> None:
        """End the request after its cancellation; if the server ends its response now, the connection is kept."""
        if is_accepted:
            super().outcome_arrived(in_time=True)
        else:
            self._leave("the caller has left")

    def session_ended(self) -> None:
        """Stop waiting for the response, or wait only for the refusal that proves that the request was not executed."""
        if self.response is not None:  # the attempt ends as soon as this task has taken the request over
            self.response.hand_over()
        elif self._attempt_scope is not None:
            self._end_attempt(self._attempt_scope)

    def _end_attempt(self, attempt: trio.CancelScope) -> None:
        assert self._session is not None
        if self._is_accepted or self._session.is_sse or self.request.repeatable:
            attempt.cancel(reason="the session is over")
        else:
            attempt.deadline = trio.current_time() + _REJECTION_SECONDS

    def _may_repeat(self, failure: ResponseLost, tries: int) -> bool:
        if failure is self._first_rejection:
            return True
        if failure.sent or failure is self._rejection:
            if self._session is not None and self._session.is_lost:  # the request may have lost its response before
                return self.request.repeatable and tries < TRIES
            return super()._may_repeat(failure, tries)
        # Nothing was sent, so that any request may be sent again. To open a session takes some seconds of its own.
        is_waiting = not self._manager.current.is_lost or trio.current_time() < self._begun_at + _UNREACHABLE_SECONDS
        return self.transport.sender.is_reached and tries < TRIES and (is_waiting or self.request.repeatable)

    async def _pause(self, failure: ResponseLost, tries: int) -> None:
        if failure is not self._first_rejection:  # a rejected request waits for the new session instead
            await super()._pause(failure, tries)

    async def _attempt(self) -> TrioMcpError | None:
        self._begun_at = min(self._begun_at, trio.current_time())
        if self.request.method == "initialize":
            return await self._initialize()
        if self._sent_before is not None:
            assert self._session is not None
            return await self._attempt_in(self._session)
        return await self._attempt_in(await self._manager.usable())

    async def _initialize(self) -> TrioMcpError | None:
        manager = self._manager
        failure: TrioMcpError | None = ResponseLost("the server's event stream cannot be opened", sent=False)
        if manager.is_sse is not True:
            failure = await self._attempt_in(LegacySession(self.transport.sender.url))
            if manager.is_sse is False or not self._may_be_sse():
                return failure
        session = await manager.open_sse()
        if session is None:
            return failure
        self.request.reissue()  # a refused id must not be reused
        return await self._attempt_in(session)

    def _may_be_sse(self) -> bool:
        """Return True if the answer to ``initialize`` allows that the server speaks only HTTP+SSE."""
        refused = self._refused
        if refused is None or refused.status not in _SSE_STATUSES:
            return False
        return not (isinstance(refused.error, ErrorResponse) and refused.error.code in _LATER_ERRORS)

    async def _attempt_in(self, session: LegacySession) -> TrioMcpError | None:
        self._session, self._refused, self._is_accepted = session, None, False
        if self._is_sent:
            self._is_sent, self._sent = False, None
        with trio.CancelScope() as self._attempt_scope:
            if session.is_lost and self._sent_before is not None:
                self._end_attempt(self._attempt_scope)
            session.tasks.add(self)
            try:
                return await self._post(session)
            finally:
                session.tasks.discard(self)
        return ResponseLost(f"the session was lost before the answer to {self.request.method!r}")

    async def _post(self, session: LegacySession) -> TrioMcpError | None:
        request, sender, outlet = self.request, self.transport.sender, ReplyOutlet.of(self._manager, session)
        stream = ResumableStream(self.transport.limits.max_message_bytes, lambda event: self._take_event(event, outlet))
        fields = {**session.fields, **request.sent_headers}
        sent, self._sent_before = self._sent_before, None
        if sent is not None and sent.is_whole:
            self._note_sent()
        if session.is_sse:
            self._answered = trio.Event()
        async with sender.post(session.url, request.line, fields, self._note_sent, sent=sent) as response:
            self._note_sent()
            if not is_success(response):
                return self._take_session_refusal(session, await self._read_refusal(response))
            self._is_accepted = True
            if request.method == "initialize" and not session.is_sse:
                session.take_id(response)
                self._manager.use(session)
            if not session.is_sse:
                if not is_event_stream(response):
                    return await self._read(response, outlet)
                await self._read_stream(stream, response)
        if self._answered is not None:
            await self._answered.wait()
            return None
        return await self._resume(session, stream)

    def _note_sent(self) -> None:
        super()._note_sent()
        self._set_sent()

    def _set_sent(self) -> None:
        self._is_sent = True
        if self._sent is not None:
            self._sent.set()

    def _take_event(self, event: SseEvent, outlet: Outlet) -> None:
        assert self._session is not None
        if not self._session.is_lost:
            super()._take_event(event, outlet)
        elif event.event == "message" and event.data:
            self.transport.sender.received(event.data)
            with suppress(Undecodable):
                self._take_value(decode(event.data), len(event.data), outlet)

    def _take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        assert self._session is not None
        if not self._session.is_lost:
            super()._take_value(value, size, outlet)
            return
        values: list[Any] = value if is_array(value) else [value]
        for each in values:
            if self._concerns_request(parse_message(each)):
                super()._take_value(each, size // len(values), outlet)

    def _concerns_request(self, message: Message) -> bool:
        """Return True if a message is the answer to the request, or its progress."""
        match message:
            case Reply(id=id) | ErrorReply(id=id) | BrokenResponse(id=id):
                return id == self.request.id or (isinstance(id, str) and self.transport.meant_id(id) == self.request.id)
            case Notification(method="notifications/progress", params=params):
                return (params or {}).get("progressToken") == self.request.id
            case _:
                return False

    def _take_session_refusal(self, session: LegacySession, refused: Refused) -> TrioMcpError:
        self._refused, failure = refused, self._take_refusal(refused)
        is_answer = isinstance(failure, ErrorResponse) and failure.code == METHOD_NOT_FOUND
        if refused.status != 404 or session.id is None or is_answer:
            return failure
        session.tasks.discard(self)
        self._manager.replace(session)
        text = f"the server no longer knows the session, and did not accept {self.request.method!r}"
        rejection = ResponseLost(text, sent=False)
        self._first_rejection, self._rejection = self._first_rejection or rejection, rejection
        return rejection

    async def _read_stream(self, stream: ResumableStream, response: HttpResponse) -> None:
        with suppress(EngineError):  # the caller resumes the stream
            await stream.read(response)

    async def _resume(self, session: LegacySession, stream: ResumableStream) -> TrioMcpError | None:
        manager = self._manager
        while self.request.is_awaited():
            if not stream.fields or stream.failures >= _MAX_RESUMPTIONS:
                return self._unanswered()
            await stream.pause()
            with suppress(EngineError):  # the next attempt may reach the server
                async with self.transport.sender.get({**session.fields, **stream.fields}) as response:
                    if is_event_stream(response):
                        session.has_streams = True
                        await self._read_stream(stream, response)
                    elif manager.is_unknown(session, response):
                        manager.replace(session)
                    elif response.status < 500:
                        return self._unanswered()
        return None
