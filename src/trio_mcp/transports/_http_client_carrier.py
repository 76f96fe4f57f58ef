"""One request of a client on its way over HTTP: a task of its own, and so a failure of its own.

Rules of this file:

1. Whatever happens to one request ends that one: others, and the client, go on.
2. What may be repeated is sent once more, under a new id, where its answer was lost. Where the server cannot even be
   reached, though it could before, it is tried for some seconds: that is how a server restarts.
3. After the answer the rest of the response is waited for a moment: a connection whose response has ended can be used
   again, and one that is left has to be closed.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import abc
import logging
import random
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from .._errors import LocalProtocolError, RemoteProtocolError, ResponseLost, TrioMcpError
from ..peer import Lane
from ..wire import JSON_TYPE, JsonObject, SseDecoder, SseEvent, Undecodable, decode, is_object
from ._http_client_reading import Refused, is_event_stream, is_success, media_type, read_body, read_events, read_refusal
from ._http_engine import EngineError, HttpResponse

if TYPE_CHECKING:
    from ._http_client import HttpTransport
    from ._http_client_asked import AskedOverHttp

__all__ = ["TRIES", "Carrier", "StatelessCarrier", "back_off"]

_log = logging.getLogger("trio_mcp.transports")

_LINGER_SECONDS = 1.0
"""How long the end of a response is waited for when the answer has come."""
TRIES = 7
"""How often a server that could be reached before is tried: about 6 s in all."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def back_off(attempt: int, *, first: float, longest: float) -> float:
    """Return the pause before attempt number *attempt* + 1, in seconds: longer each time, and never quite the same."""
    pause = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return pause * random.uniform(0.5, 1)  # noqa: S311 # keeps clients apart; no secret


@define(eq=False)
class Carrier(abc.ABC):
    """Carries one request to the server and its answer back; `run` is its task."""

    transport: HttpTransport
    asked: AskedOverHttp
    has_sent: bool = field(default=False, init=False)
    """Whether the latest attempt has left as a whole."""
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _answered: trio.Event = field(factory=trio.Event, init=False)
    _is_repeated: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Carry the request until it is answered, has failed, or was left; never raises."""
        try:
            with self._scope:
                await self._carry()
        finally:
            self.transport.carried(self)

    def answered(self, *, in_time: bool) -> None:
        """The outcome is there. Not *in_time*: the connection is gone, and there is nothing to wait for."""
        self._answered.set()
        self.transport.answered(self)
        if in_time:
            self._scope.deadline = trio.current_time() + _LINGER_SECONDS
        else:
            self._scope.cancel(reason="the connection is gone")

    @abc.abstractmethod
    def stop(self) -> None:
        """Nobody waits for the answer any more: have the server stop, if it can know of the request. Synchronous."""

    async def _carry(self) -> None:
        asked, tries = self.asked, 0
        while True:
            self.has_sent = False
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been left already: then nothing is sent
            failure = await self._outcome_of_attempt()
            if failure is None or not asked.is_awaited():
                return
            tries += 1
            if not (isinstance(failure, ResponseLost) and self._may_repeat(failure, tries)):
                self.transport.fail(asked, failure)
                return
            _log.debug("%s is sent once more: %s", asked.method, failure)
            await self._pause(failure, tries)
            if not asked.is_awaited():
                return
            try:
                asked.reissue()
            except LocalProtocolError as exc:  # its params have been changed meanwhile
                asked.finish(exc)
                return

    async def _outcome_of_attempt(self) -> TrioMcpError | None:
        try:
            return await self._attempt()
        except EngineError as exc:
            lost = ResponseLost(f"{self.asked.method!r}: {exc}", sent=exc.sent)
            lost.__cause__ = exc
            return lost
        except TrioMcpError as exc:
            return exc

    def _may_repeat(self, failure: ResponseLost, tries: int) -> bool:
        if not self.asked.repeatable:
            return False
        if not failure.sent:
            return self.transport.door.is_reached and tries < TRIES
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

    async def _read(self, response: HttpResponse, lane: Lane) -> TrioMcpError | None:
        """Read the response to the request; *lane* is where its answers go, should it ask something."""
        limits = self.transport.limits
        if is_event_stream(response):
            await read_events(
                response, SseDecoder(limits.max_message_bytes), lambda event: self._take_event(event, lane)
            )
            return self._unanswered()
        if is_success(response) and media_type(response) == JSON_TYPE:
            return self._take_body(await read_body(response, limits.max_message_bytes), lane)
        return self._take_refusal(await self._read_refusal(response))

    def _unanswered(self) -> ResponseLost:
        return ResponseLost(f"the server ended its response to {self.asked.method!r} before the answer")

    def _take_event(self, event: SseEvent, lane: Lane) -> None:
        if event.event == "message" and event.data:  # else it is there for its id
            self.transport.received(event.data, lane)

    def _take_body(self, body: bytes, lane: Lane) -> TrioMcpError | None:
        self.transport.door.received(body)
        try:
            value = decode(body)
        except Undecodable as exc:
            return RemoteProtocolError(f"the answer to {self.asked.method!r} is not JSON: {exc}")
        if is_object(value) and _is_nameless_error(value):
            value = {**value, "id": self.asked.id}  # it answers what its response does
        self._take_value(value, len(body), lane)
        return RemoteProtocolError(f"what came as the answer to {self.asked.method!r} does not answer it")

    def _take_value(self, value: Any, size: int, lane: Lane) -> None:
        self.transport.take_value(value, size, lane)

    async def _read_refusal(self, response: HttpResponse) -> Refused:
        transport = self.transport
        return await read_refusal(response, transport.door.url, transport.limits.max_message_bytes, self.asked.id)

    def _take_refusal(self, refused: Refused) -> TrioMcpError:
        if refused.body:
            self.transport.door.received(refused.body)
        return refused.error


def _is_nameless_error(value: JsonObject) -> bool:
    return value.get("id") is None and "error" in value and "result" not in value and "method" not in value


@define(eq=False)
class StatelessCarrier(Carrier):
    """Carries a request that says everything about itself: closing its response cancels it."""

    def stop(self) -> None:
        self._scope.cancel(reason="the request was left")

    async def _attempt(self) -> TrioMcpError | None:
        transport, asked = self.transport, self.asked
        door = transport.door
        async with door.post(door.url, asked.line, asked.sent_fields, self._note_sent) as response:
            self._note_sent()
            return await self._read(response, transport.lane)
