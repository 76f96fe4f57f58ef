"""The modern half of an HTTP server: each POST is one exchange, and nothing is remembered between two POSTs.

Rules of this file:

1. The first message of an exchange decides the form of its response. The answer alone is JSON, with the status of its
   error. An update, or silence for as long as a keep-alive lasts, starts an event stream.
2. A client that closes the response cancels the request: its handler is cancelled, and nothing more is sent.
3. When the server stops, endless streams end at once. Other requests may go on for `Limits.drain_seconds`, and then
   fail because the server stops.
4. An endless stream ends with the access of the client that opened it. Other streams run to their end.
5. All messages of an exchange are queued, and the task of its POST sends them. What is being written still counts as
   queued, so a handler waits for a client that does not read.
6. After an exchange has ended without an answer, nothing more of it is sent.
7. A client is a sender (`Sender`): an authenticated principal, or else the address that the requests come from. Clients
   behind one proxy share one address, and its limits.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import trio
from attrs import define, field

from ...._errors import ConnectionBroken, ConnectionClosed, ConnectionLost, LocalProtocolError, McpError
from ...._shares import Sender
from ....abc import HttpAnswerer, HttpServing, Serving
from ....peer import (
    Access,
    Admission,
    ExchangeContext,
    FairLimiter,
    HandlerSlots,
    IncomingRequest,
    OutgoingRequest,
    Peer,
    SenderSlots,
    note_arrival,
)
from ....wire import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Headers,
    JsonObject,
    JsonRpcRequest,
    MirroredParam,
    ModernPost,
    Notification,
    Refusal,
    RequestId,
    encode_notification,
    is_object,
    mirrored_params,
    param_fault,
    param_fields,
    sse_event,
    status_of,
)
from ._asgi import QUICK_PASSES, BegunRequest, HttpRequest, RequestAuthorizer, Responding
from ._byte_budget import ByteHolder

if TYPE_CHECKING:
    from ._metrics import HttpMetrics

__all__ = [
    "HOW_TO_RUN",
    "ClientAddress",
    "ClientAddresses",
    "HeaderMirroring",
    "IncomingHttpRequest",
    "ModernEndpoint",
    "StandaloneEndpoint",
    "id_in",
    "refuse_for_now",
]


@define(eq=False)
class IncomingHttpRequest(IncomingRequest):
    """A request that came in a POST of its own; all that belongs to it is sent in the response.

    Args:
        bound: the number of bytes that may wait to be written before handlers wait.
    """

    line_end = b""

    _bound: int
    _holder: ByteHolder | None = field(default=None, init=False)
    """Holds the messages that wait to be written; None as long as nothing waits for them."""
    status: int = field(default=200, init=False)
    """The status of a response that consists of the answer alone."""
    _lines: deque[bytes] = field(factory=deque[bytes], init=False)
    """The messages that wait to be written."""
    _size: int = field(default=0, init=False)
    """Their size in bytes, including those being written."""
    _taken: int = field(default=0, init=False)
    """The number of bytes being written."""
    _is_disconnected: bool = field(default=False, init=False)
    """True once no answer is awaited any more."""
    _written: trio.lowlevel.ParkingLot | None = field(default=None, init=False)
    """The task that waits for messages; made when there is one, because most responses are ready at once."""
    _space: trio.lowlevel.ParkingLot | None = field(default=None, init=False)
    """The handlers that wait for room; likewise."""

    @property
    def waiting_bytes(self) -> int:
        """The size of the messages that wait to be written, or are being written."""
        return self._size

    def hold_with(self, holder: ByteHolder) -> None:
        """Have the messages that wait to be written held, those that wait now included."""
        self._holder = holder
        holder.hold(self._size)

    async def wait_output(self) -> None:
        """Wait until there is a message to write, or the exchange has ended."""
        while not self._lines and self.open:
            if self._written is None:
                self._written = trio.lowlevel.ParkingLot()
            await self._written.park()

    def sole_answer(self) -> bytes | None:
        """Take the answer, if it is there and no message precedes it."""
        if self.open or len(self._lines) != 1:
            return None
        if self._holder is not None:
            self._holder.release(self._size)
        return self._lines.popleft()

    async def take(self) -> list[bytes]:
        """Return the messages to write next, in order; empty at the end. Those taken before are written."""
        self._size -= self._taken
        self._taken = 0
        if self._size < self._bound and self._space is not None:
            self._space.unpark_all()
        await self.wait_output()
        lines = list(self._lines)
        self._lines.clear()
        self._taken = self._size
        assert self._holder is not None
        self._holder.release(self._size)  # the response holds them from now on
        return lines

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Refuse: in this revision the answer itself carries questions."""
        del params
        raise LocalProtocolError(f"{method!r} cannot be sent to a client of revision {self.context.revision}")

    def has_room(self) -> bool:
        """Return True if a handler need not wait."""
        return self._size < self._bound and self.open

    async def room(self) -> None:
        """Wait for a slow client; raises `ConnectionBroken` if it has left."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._size >= self._bound and self.open:
            if self._space is None:
                self._space = trio.lowlevel.ParkingLot()
            await self._space.park()
        if self._is_disconnected:
            await trio.lowlevel.checkpoint_if_cancelled()  # the waiting handler has been cancelled
            raise ConnectionBroken("the client has left")

    def _send(self, outcome: JsonObject | McpError) -> None:
        line, outcome = self._encoded(outcome)
        if isinstance(outcome, McpError):
            self.status = status_of(outcome.code)
        self._put(line)
        if self._space is not None:
            self._space.unpark_all()

    def _notify(self, method: str, params: JsonObject) -> None:
        self._put(encode_notification(method, params, end=self.line_end))

    def _put(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        if self._holder is not None:
            self._holder.hold(len(line))
        if self._written is not None:
            self._written.unpark_all()

    def _end(self) -> None:
        self._is_disconnected = True
        self._lines.clear()
        if self._written is not None:
            self._written.unpark_all()
        if self._space is not None:
            self._space.unpark_all()


_REMEMBERED = 256


@define(eq=False)
class ClientAddress:
    """One client, as a `peer.Peer`: it gets nothing but the answers to its requests."""

    admission: Admission
    slots: HandlerSlots
    listens: HandlerSlots
    _lost: ConnectionLost | None = field(default=None, init=False)
    _on_disconnect: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )

    def has_room(self) -> bool:
        """True: nothing is queued."""
        return True

    async def room(self) -> None:
        """Return at once: nothing is queued."""
        await trio.lowlevel.checkpoint()

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        """Drop the notification: in this revision every message to a client belongs to one of its requests."""

    def standalone_request(self, method: str, params: JsonObject) -> None:
        """Return None: in this revision there are no requests to a client."""

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* when the server stops; the client itself may always return."""
        if self._lost is None:
            self._on_disconnect.append(callback)
        else:
            callback(copy(self._lost))

    def disconnect(self, reason: ConnectionLost) -> None:
        """Report that the server stops."""
        self._lost = reason
        for callback in self._on_disconnect:
            callback(copy(reason))


@define(eq=False)
class ClientAddresses:
    """The clients of one serving: those with requests in flight, and the latest ones."""

    _serving: Serving
    _addresses: WeakValueDictionary[Sender, ClientAddress] = field(
        factory=WeakValueDictionary[Sender, ClientAddress], init=False
    )
    _latest: deque[ClientAddress] = field(factory=lambda: deque[ClientAddress](maxlen=_REMEMBERED), init=False)
    """Keeps returning clients from being created anew each time."""

    def of(self, request: HttpRequest) -> ClientAddress:
        """Return the client that makes a request."""
        sender, serving = request.sender, self._serving
        client = self._addresses.get(sender)
        if client is None:
            slots = SenderSlots.of(serving, serving.limits)
            self._addresses[sender] = client = ClientAddress(
                serving.admission(), slots.for_requests(sender), slots.for_listens(sender)
            )
            note_arrival(serving, client, "http", lasts=False)
        self._latest.append(client)
        return client

    def disconnect(self, reason: ConnectionLost) -> None:
        """Report to all clients that the server stops."""
        for client in list(self._addresses.values()):
            client.disconnect(reason)


_MAX_KNOWN = 4096
"""The number of tools whose annotations are cached; if there are more, the cache is emptied."""


@define(eq=False)
class HeaderMirroring:
    """The header fields of a tool call, which mirror the arguments that the tool's schema names."""

    _serving: HttpServing
    _known: dict[str, tuple[JsonObject, Sequence[MirroredParam]]] = field(
        factory=dict[str, "tuple[JsonObject, Sequence[MirroredParam]]"], init=False
    )
    """The schema of each tool, and the parameters that it mirrors. Another schema is another object."""

    def fault(self, request: JsonRpcRequest, headers: Headers, access: Access | None) -> McpError | None:
        """Return what is wrong with the header fields of the request of a caller, or None."""
        mirrored, arguments = self._mirrored_in(request, access)
        fault = param_fault(mirrored, arguments, headers) if mirrored else None
        return None if fault is None else McpError(HEADER_MISMATCH, fault)

    def fields(self, request: JsonRpcRequest, access: Access | None) -> Mapping[str, str]:
        """Return the header fields that a request has over HTTP; raise `ValueError` if it cannot have them."""
        return param_fields(*self._mirrored_in(request, access))

    def _mirrored_in(
        self, request: JsonRpcRequest, access: Access | None
    ) -> tuple[Sequence[MirroredParam], JsonObject]:
        """Return the mirrored arguments of the tool that a request calls, and all arguments of the request."""
        params: Any = request.params or {}
        name, arguments = params.get("name"), params.get("arguments", {})
        if request.method != "tools/call" or type(name) is not str or not is_object(arguments):
            return (), {}  # such a call is refused elsewhere
        return self._mirrored(name, access), arguments

    def _mirrored(self, tool: str, access: Access | None) -> Sequence[MirroredParam]:
        schema = self._serving.input_schema(tool, access)
        if schema is None:
            return ()
        known = self._known.get(tool)
        if known is not None and known[0] is schema:
            return known[1]
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        mirrored = mirrored_params(schema)
        self._known[tool] = schema, mirrored
        return mirrored


@define(eq=False)
class _BegunExchange(BegunRequest):
    """A modern request that was begun to be answered at once."""

    _endpoint: ModernEndpoint
    _exchange: IncomingHttpRequest
    _request: HttpRequest

    def take_answer(self, most_bytes: int) -> tuple[int, bytes] | None:
        exchange = self._exchange
        answer = self._endpoint.take_answer(exchange) if exchange.waiting_bytes <= most_bytes else None
        return None if answer is None else (exchange.status, answer)

    async def go_on(self, responding: Responding) -> None:
        self._exchange.hold_with(responding)
        await self._endpoint.go_on(self._exchange, self._request, responding)


_FLUSH_SECONDS = 2.0
"""The maximum time for the last messages to be written."""


@define(eq=False)
class ModernEndpoint:
    """Answers the modern requests of one serving."""

    _serving: HttpServing
    _authorizer: RequestAuthorizer
    _addresses: ClientAddresses = field(init=False)
    _mirroring: HeaderMirroring = field(init=False)
    _open: set[IncomingHttpRequest] = field(factory=set[IncomingHttpRequest], init=False)
    """The requests whose response is not written yet."""
    _removed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._addresses = ClientAddresses(self._serving)
        self._mirroring = HeaderMirroring(self._serving)

    async def post(self, posted: ModernPost, request: HttpRequest, responding: Responding) -> None:
        """Answer a POST."""
        message, client = posted.message, self._addresses.of(request)
        if isinstance(message, Notification):
            self._serving.notified(message.method, message.params or {}, client, request.envelope)
            await responding.empty()
            return
        refusal = self._authorizer.refusal([message], request, self._serving)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        try:
            context = self._admit(message, request, client)
        except McpError as error:
            status = 400 if error.code == INVALID_PARAMS else status_of(error.code)
            await responding.refuse(Refusal(status, error, message.id))
            return
        exchange = self._exchange(message, context, client)
        exchange.hold_with(responding)
        self._answer(exchange)
        await self.go_on(exchange, request, responding)

    def begin(self, posted: ModernPost, request: HttpRequest) -> BegunRequest | None:
        """Begin to answer a POST at once; return None, with nothing done, if `post` has to. Synchronous."""
        message = posted.message
        if isinstance(message, Notification):
            return None
        client = self._addresses.of(request)
        if self._authorizer.refusal([message], request, self._serving) is not None:
            return None
        try:
            context = self._admit(message, request, client)
        except McpError:
            return None
        exchange = self._exchange(message, context, client)
        self._answer(exchange)
        return _BegunExchange(self, exchange, request)

    def _exchange(
        self, message: JsonRpcRequest, context: ExchangeContext, client: ClientAddress
    ) -> IncomingHttpRequest:
        bound = self._serving.limits.outbox_bytes
        exchange = IncomingHttpRequest(message.method, message.params, context, message.id, client, bound)
        self._open.add(exchange)
        return exchange

    def _answer(self, exchange: IncomingHttpRequest) -> None:
        try:
            self._serving.answer(exchange)
        except BaseException:
            exchange.disconnect()
            self._remove(exchange)
            raise

    def take_answer(self, exchange: IncomingHttpRequest) -> bytes | None:
        """Return the answer to an exchange that was begun, if it is there and nothing precedes it. Synchronous."""
        answer = exchange.sole_answer()
        if answer is not None:
            self._remove(exchange)
        return answer

    async def go_on(self, exchange: IncomingHttpRequest, request: HttpRequest, responding: Responding) -> None:
        """Write the messages of an exchange until it has ended."""
        responding.on_left = partial(exchange.cancel, "the client closed the response")
        try:
            await _respond(exchange, responding, request.access_until)
        finally:
            responding.on_left = None  # it refers to the exchange, and that to the response
            exchange.disconnect()  # has no effect once it is answered or cancelled
            self._remove(exchange)

    def _remove(self, exchange: IncomingHttpRequest) -> None:
        self._open.discard(exchange)
        if self._removed:
            self._removed.unpark_all()

    def _admit(self, message: JsonRpcRequest, request: HttpRequest, client: Peer) -> ExchangeContext:
        """Return the context of a request; raises `McpError` if it is refused."""
        context = client.admission.admit(message.method, message.params)
        fault = self._mirroring.fault(message, request.headers, request.access)
        if fault is not None:
            raise fault
        context.access, context.headers = request.access, request.shown_headers  # it was made for this request
        return context

    def stop(self) -> None:
        """End the endless requests; synchronous."""
        self._abandon(endless_only=True)

    async def drained(self) -> None:
        """Wait until every request is answered and its answer written, for a bounded time (rule 3)."""
        with trio.move_on_after(self._serving.limits.drain_seconds):
            await self._emptied()
        self.close()
        with trio.move_on_after(_FLUSH_SECONDS):
            await self._emptied()

    async def _emptied(self) -> None:
        while self._open:
            await self._removed.park()

    def close(self) -> None:
        """Fail the requests that are not answered yet; synchronous."""
        self._abandon(endless_only=False)
        self._addresses.disconnect(ConnectionClosed("the server stops"))

    def _abandon(self, *, endless_only: bool) -> None:
        for exchange in list(self._open):
            if exchange.open and (exchange.endless or not endless_only):
                exchange.abandon()


# --- Without a run ---


HOW_TO_RUN = "have the host of the HTTP application pass on lifespan events, or enter `app.run()`"


@define(eq=False)
class StandaloneEndpoint:
    """Answers the modern requests of an application that is not run, each with a serving of its own."""

    _answerer: HttpAnswerer
    _authorizer: RequestAuthorizer
    _metrics: HttpMetrics | None
    _requests: FairLimiter = field(init=False)
    """The limit on these requests."""

    def __attrs_post_init__(self) -> None:
        self._requests = FairLimiter(self._answerer.limits.max_running, leaves_places=True)

    async def post(self, posted: ModernPost, request: HttpRequest, responding: Responding) -> None:
        """Answer a POST."""
        id, sender = id_in(posted.message), request.sender
        if isinstance(posted.message, Notification):  # its handler would outlive the response
            why = f"notifications need a running HTTP application, and this one is not running: {HOW_TO_RUN}"
            await refuse_for_now(why, id, responding)
            return
        try:
            opener = self._answerer.serving_one()
        except McpError as error:
            await refuse_for_now(error.message, id, responding)
            return
        if not self._requests.take(sender):
            running = f"{self._requests.taken} requests are running (Limits.max_running)"
            await refuse_for_now(f"too busy: {running}; try again later", id, responding)
            return
        try:
            async with opener as serving:
                if self._metrics is not None:
                    self._metrics.observe(serving)
                await ModernEndpoint(serving, self._authorizer).post(posted, request, responding)
        finally:
            self._requests.release(sender)


def id_in(message: object) -> RequestId | None:
    """Return the id of a message if it is a request; else None."""
    return message.id if isinstance(message, JsonRpcRequest) else None


async def refuse_for_now(why: str, id: RequestId | None, responding: Responding) -> None:
    """Refuse a request that could be served at another time, or in another setup."""
    await responding.refuse(Refusal(503, McpError(INTERNAL_ERROR, why), id))


# --- Responses ---


async def _respond(exchange: IncomingHttpRequest, responding: Responding, access_until: float) -> None:
    """Write the messages of an exchange until all are written, or the client has left (rules 1 and 4)."""
    answer = exchange.sole_answer()
    for _ in range(QUICK_PASSES):
        if answer is None:
            await trio.lowlevel.checkpoint()
            answer = exchange.sole_answer()
    if answer is not None:
        await responding.json(answer, status=exchange.status)
        return
    async with responding.attending():
        with trio.move_on_after(responding.keep_alive):
            await exchange.wait_output()
        answer = exchange.sole_answer()
        if answer is not None:
            await responding.json(answer, status=exchange.status)
            return
        async with responding.stream() as stream:
            while lines := await _take(exchange, access_until):
                await stream.send(b"".join(map(sse_event, lines)))


async def _take(exchange: IncomingHttpRequest, access_until: float) -> list[bytes]:
    """Return the messages to write next."""
    with trio.CancelScope(deadline=access_until):
        return await exchange.take()
    if exchange.endless:
        exchange.abandon()
    return await exchange.take()
