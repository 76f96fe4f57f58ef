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
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field, frozen

from ...._errors import AuthorizationFailed, LocalProtocolError, RemoteProtocolError, ResponseLost, TrioMcpError
from ....abc import Fetch, Tap, TokenSource
from ....peer import Outlet
from ....wire import EVENT_STREAM_TYPE, JSON_TYPE, JsonObject, SseDecoder, SseEvent, Undecodable, decode, is_object
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
from .._fetch import engine_fetch

if TYPE_CHECKING:
    from .._engine import HttpxClient
    from ._transport import HttpTransport, OutgoingHttpRequest

__all__ = [
    "SHOWN_FIELDS",
    "TRIES",
    "HttpNetwork",
    "HttpRequestTask",
    "HttpSender",
    "ModernRequestTask",
    "back_off",
    "open_network",
]

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
class HttpRequestTask(abc.ABC):
    """Carries one request to the server and its answer back; `run` is its task."""

    transport: HttpTransport
    asked: OutgoingHttpRequest
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
        return ResponseLost(f"the server ended its response to {self.asked.method!r} before the answer")

    def _take_event(self, event: SseEvent, outlet: Outlet) -> None:
        if event.event == "message" and event.data:  # else it is there for its id
            self.transport.received(event.data, outlet)

    def _take_body(self, body: bytes, outlet: Outlet) -> TrioMcpError | None:
        self.transport.door.received(body)
        try:
            value = decode(body)
        except Undecodable as exc:
            return RemoteProtocolError(f"the answer to {self.asked.method!r} is not JSON: {exc}")
        if is_object(value) and _is_nameless_error(value):
            value = {**value, "id": self.asked.id}  # it answers what its response does
        self._take_value(value, len(body), outlet)
        return RemoteProtocolError(f"what came as the answer to {self.asked.method!r} does not answer it")

    def _take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        self.transport.take_value(value, size, outlet)

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
class ModernRequestTask(HttpRequestTask):
    """Carries a request that says everything about itself: closing its response cancels it."""

    def stop(self) -> None:
        self._scope.cancel(reason="the request was left")

    async def _attempt(self) -> TrioMcpError | None:
        transport, asked = self.transport, self.asked
        door = transport.door
        async with door.post(door.url, asked.line, asked.sent_fields, self._note_sent) as response:
            self._note_sent()
            return await self._read(response, transport.outlet)


# The one door through which everything of a client goes out over HTTP: what each request carries is decided here.
#
# Where there is something that shows who asks, it accompanies each request, hears what is answered, and may have it
# sent
# once more. It says how often; here is no limit of that. What is said in passing (a farewell) is sent once.

SHOWN_FIELDS = ("authorization", "dpop")
"""The header fields that show who asks."""

_TAKEN = f"{JSON_TYPE}, {EVENT_STREAM_TYPE}"


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
        is_farewell: bool = False,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Post one message, which is to be entered at once; see `HttpEngine.request` for the rest.

        Args:
            line: the message, with its newline.
            fields: what goes with this one alone.
            is_farewell: whether it is not worth more than one try.

        Raises:
            AuthorizationFailed: the server wants to know who asks, and there is no token for it.
        """
        message = line.removesuffix(b"\n")
        if self._tap is not None:  # before it leaves: afterwards, the answer might be told first
            self._tap("sent", message)
        fields = {"content-type": JSON_TYPE, "accept": _TAKEN, **fields}
        return self._request("POST", url, fields, message, on_sent, is_farewell=is_farewell)

    def get(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for an event stream; raises what `post` does."""
        return self._request("GET", self.url, {"accept": EVENT_STREAM_TYPE, **fields})

    def delete(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Say that what *fields* name is not needed any more, as a farewell; raises what `post` does."""
        return self._request("DELETE", self.url, fields, is_farewell=True)

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
        is_farewell: bool = False,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        fields = {**self._fields, **fields}
        if self.source is None and self.is_reached:  # there is nothing to add, and nothing to note
            return self.engine.request(method, url, fields, content, on_sent=on_sent)
        return self._showing(method, url, fields, content, on_sent, is_farewell=is_farewell)

    @asynccontextmanager
    async def _showing(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes,
        on_sent: Callable[[], None] | None,
        *,
        is_farewell: bool,
    ) -> AsyncGenerator[HttpResponse]:
        """Make a request that shows who asks, if there is something that does, and as often as that wants it."""
        with _failing_as_authorization():
            attempt = None if self.source is None else self.source.attempt(method, url)
        while True:
            headers = dict(fields)
            with _failing_as_authorization():
                if attempt is not None:
                    headers.update(await attempt.fields())
            async with self.engine.request(method, url, headers, content, on_sent=on_sent) as response:
                self.is_reached = True
                with _failing_as_authorization():
                    wants_more = attempt is not None and attempt.heard(response.status, response.headers)
                if attempt is None or not wants_more or is_farewell:
                    yield response
                    return
            with _failing_as_authorization():
                await attempt.resolve()


@contextmanager
def _failing_as_authorization() -> Generator[None]:
    """Have one request fail, and no other, where what shows who asks raises something: it may be the application's."""
    try:
        yield
    except AuthorizationFailed:
        raise
    except Exception as exc:
        raise AuthorizationFailed(f"what shows the server who asks has raised {type(exc).__name__}") from exc


# What carries the requests of a client: those to its server, and those beside them.


@frozen
class HttpNetwork:
    """What a client reaches others by."""

    engine: HttpEngine
    """Carries requests to the server."""
    fetch: Fetch | None
    """Makes requests to others; None where nobody wants any."""


@asynccontextmanager
async def open_network(
    url: str, engine: HttpEngine | None, http_client: HttpxClient | None, *, fetches: bool
) -> AsyncGenerator[HttpNetwork]:
    """Open what a client of the server at *url* needs.

    Args:
        engine: carries everything, if it is given; not closed.
        http_client: else it does, if it is given; not closed.
        fetches: whether there are to be requests to others: what makes them takes its time to open.
    """
    if engine is not None:
        yield HttpNetwork(engine, engine_fetch(engine))
        return
    from .._engine import HttpxEngine, new_httpx_client  # noqa: PLC0415 # takes its time to load
    from .._fetch import open_client_fetch  # noqa: PLC0415 # likewise

    own = HttpxEngine(http_client or new_httpx_client(), closes=http_client is None, notes_address=fetches)
    try:
        async with open_client_fetch(url, own, http_client) if fetches else nullcontext() as fetch:
            yield HttpNetwork(own, fetch)
    finally:
        with trio.CancelScope(shield=True):  # there is nothing left in it that could wait
            await own.aclose()
