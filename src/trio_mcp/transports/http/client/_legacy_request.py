"""One request of a client that belongs to a session: how it begins one, is taken up again, cancelled, and lost.

Rules of this file:

1. Leaving a response cancels nothing. The server is told, but never before it has been told of the request.
2. A stream that ends before the answer is taken up again, if its events have ids.
3. Where the session is lost, so is the answer. A request whose response has not begun then, and which may not simply be
   repeated, gets a moment to be refused: so it is known that nothing was done.
4. What is refused because the server knows nothing of the session goes into the next one, once.
5. The connection is the next session's by then. What a response brings that begins in that moment all the same is
   taken as far as it is about the request, and no further: ids of the old session's questions are in use in the new.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio
from attrs import define, field

from ...._errors import ErrorResponse, ResponseLost, TrioMcpError
from ....peer import Outlet
from ....wire import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    BrokenResponse,
    ErrorReply,
    Message,
    Notification,
    Reply,
    SseEvent,
    Undecodable,
    decode,
    encode_notification,
    is_array,
    parse_message,
)
from .._engine import EngineError, HttpResponse, Refused, is_event_stream, is_success
from ._legacy_session import EventTrail, LegacySession, ReplyOutlet
from ._request import TRIES, HttpRequestTask

__all__ = ["LegacyRequestTask"]

_TAKE_UPS = 5
"""How often a stream that ends is taken up again without anything coming."""
_UNKNOWN_TO_LEGACY = (400, 404, 405)
"""What servers of HTTP+SSE, which take no POST here, may answer to one."""
_NEWER = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_REVISION)
"""Errors that only newer servers have."""
_NOTICE_SECONDS = 5.0
"""How long the request is waited for to leave, and the notice that it is cancelled to be taken."""
_VERDICT_SECONDS = 5.0
"""How long a request in a lost session is waited for to be refused; a server that was started anew does so at once."""


@define(eq=False)
class LegacyRequestTask(HttpRequestTask):
    """Carries a request in the session there is; `initialize` begins one."""

    _session: LegacySession | None = field(default=None, init=False)
    """In which it was sent."""
    _refused: Refused | None = field(default=None, init=False)
    """Why, if the server refused it."""
    _first_untaken: ResponseLost | None = field(default=None, init=False)
    """What came of it when the server first knew nothing of its session."""
    _attempt_scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _sent: trio.Event = field(factory=trio.Event, init=False)
    """Set when the latest attempt has left as a whole, or nothing is attempted any more."""
    _is_taken: bool = field(default=False, init=False)
    """Whether the server has begun a response to the latest attempt which is no refusal."""
    _is_over: bool = field(default=False, init=False)
    _says_farewell: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Carry the request; never raises."""
        try:
            await super().run()
        finally:
            self._is_over = True
            self._sent.set()

    def answered(self, *, in_time: bool) -> None:
        """The outcome is there."""
        if not self._says_farewell:
            super().answered(in_time=in_time)

    def stop(self) -> None:
        """Tell the server, if it may know of the request."""
        is_never_cancelled = self.asked.method == "initialize"
        if self._session is None or self._session.is_lost or is_never_cancelled:
            self._scope.cancel(reason="the request was left")
        else:
            self._says_farewell = True
            self.transport.say_farewell(self._say_cancelled)

    async def _say_cancelled(self) -> None:
        try:
            with trio.move_on_after(_NOTICE_SECONDS):
                await self._sent.wait()
                if not self._is_over:
                    assert self._session is not None
                    line = encode_notification("notifications/cancelled", {"requestId": self.asked.id})
                    await self.transport.keeper.notify_nowait(self._session, line, is_farewell=True)
        finally:
            self._scope.cancel(reason="the request was left")

    def lose_session(self) -> None:
        """The session is over: nothing comes any more, but for the word that the request was not taken."""
        assert self._session is not None
        if self._is_taken or self._session.is_legacy or self.asked.repeatable:
            self._attempt_scope.cancel(reason="the session is over")
        else:
            self._attempt_scope.deadline = trio.current_time() + _VERDICT_SECONDS

    def _may_repeat(self, failure: ResponseLost, tries: int) -> bool:
        if failure is self._first_untaken:
            return True
        if self._session is not None and self._session.is_lost:  # which may happen again after a response was lost
            return self.asked.repeatable and tries < TRIES
        return super()._may_repeat(failure, tries)

    async def _pause(self, failure: ResponseLost, tries: int) -> None:
        if failure is not self._first_untaken:  # else the next session is what is waited for
            await super()._pause(failure, tries)

    async def _attempt(self) -> TrioMcpError | None:
        if self.asked.method == "initialize":
            return await self._begin_session()
        return await self._attempt_in(await self.transport.keeper.usable())

    async def _begin_session(self) -> TrioMcpError | None:
        keeper = self.transport.keeper
        failure: TrioMcpError | None = ResponseLost("the server's event stream cannot be opened", sent=False)
        if keeper.is_legacy is not True:
            failure = await self._attempt_in(LegacySession(self.transport.door.url))
            if keeper.is_legacy is False or not self._may_be_legacy():
                return failure
        session = await keeper.open_legacy()
        if session is None:
            return failure
        self.asked.reissue()  # an id that was refused is not used again
        return await self._attempt_in(session)

    def _may_be_legacy(self) -> bool:
        """Whether the server may know HTTP+SSE alone, as far as its answer to `initialize` tells."""
        refused = self._refused
        if refused is None or refused.status not in _UNKNOWN_TO_LEGACY:
            return False
        return not (isinstance(refused.error, ErrorResponse) and refused.error.code in _NEWER)

    async def _attempt_in(self, session: LegacySession) -> TrioMcpError | None:
        self._session, self._refused, self._sent, self._is_taken = session, None, trio.Event(), False
        with trio.CancelScope() as self._attempt_scope:
            session.carriers.add(self)
            try:
                return await self._post(session)
            finally:
                session.carriers.discard(self)
        return ResponseLost(f"the session was lost before the answer to {self.asked.method!r}")

    async def _post(self, session: LegacySession) -> TrioMcpError | None:
        asked, outlet = self.asked, ReplyOutlet.of(self.transport.keeper, session)
        trail = EventTrail(self.transport.limits.max_message_bytes, lambda event: self._take_event(event, outlet))
        fields = {**session.fields, **asked.sent_fields}
        async with self.transport.door.post(session.url, asked.line, fields, self._note_sent) as response:
            self._note_sent()
            if not is_success(response):
                return self._take_session_refusal(session, await self._read_refusal(response))
            self._is_taken = True
            if asked.method == "initialize" and not session.is_legacy:
                session.begun_by(response)
                self.transport.keeper.enter(session)
            if not session.is_legacy:
                if not is_event_stream(response):
                    return await self._read(response, outlet)
                await self._read_stream(trail, response)
        if session.is_legacy:
            await self._answered.wait()
            return None
        return await self._take_up_again(session, trail)

    def _note_sent(self) -> None:
        super()._note_sent()
        self._sent.set()

    def _take_event(self, event: SseEvent, outlet: Outlet) -> None:
        assert self._session is not None
        if not self._session.is_lost:
            super()._take_event(event, outlet)
        elif event.event == "message" and event.data:
            self.transport.door.received(event.data)
            with suppress(Undecodable):
                self._take_value(decode(event.data), len(event.data), outlet)

    def _take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        assert self._session is not None
        if not self._session.is_lost:
            super()._take_value(value, size, outlet)
            return
        values: list[Any] = value if is_array(value) else [value]
        for each in values:
            if self._is_about_asked(parse_message(each)):
                super()._take_value(each, size // len(values), outlet)

    def _is_about_asked(self, message: Message) -> bool:
        """Whether a message is the answer to the request, or its progress."""
        match message:
            case Reply(id=id) | ErrorReply(id=id) | BrokenResponse(id=id):
                return id == self.asked.id
            case Notification(method="notifications/progress", params=params):
                return (params or {}).get("progressToken") == self.asked.id
            case _:
                return False

    def _take_session_refusal(self, session: LegacySession, refused: Refused) -> TrioMcpError:
        self._refused, failure = refused, self._take_refusal(refused)
        is_answer = isinstance(failure, ErrorResponse) and failure.code == METHOD_NOT_FOUND
        if refused.status != 404 or session.id is None or is_answer:
            return failure
        session.carriers.discard(self)
        self.transport.keeper.lost(session)
        text = f"the server has forgotten the session, and did not take {self.asked.method!r}"
        untaken = ResponseLost(text, sent=False)
        self._first_untaken = self._first_untaken or untaken
        return untaken

    async def _read_stream(self, trail: EventTrail, response: HttpResponse) -> None:
        with suppress(EngineError):  # however it has ended
            await trail.read(response)

    async def _take_up_again(self, session: LegacySession, trail: EventTrail) -> TrioMcpError | None:
        keeper = self.transport.keeper
        while self.asked.is_awaited():
            if not trail.fields or trail.failures >= _TAKE_UPS:
                return self._unanswered()
            await trail.pause()
            with suppress(EngineError):  # it may be reached again
                async with self.transport.door.get({**session.fields, **trail.fields}) as response:
                    if is_event_stream(response):
                        session.has_streams = True
                        await self._read_stream(trail, response)
                    elif keeper.is_forgotten(session, response):
                        keeper.lost(session)
                    elif response.status < 500:
                        return self._unanswered()
        return None
