"""A server spoken to over HTTP: Streamable HTTP of every revision, and HTTP+SSE where a server has nothing newer.

Each message of this side is a POST of its own, and each request's POST a task of its own. What comes back is fed to one
correspondent, whichever response it came by. Two kinds of messages go out: those that say everything about themselves,
which need nothing but an address, and those of a handshake, which belong to what the server remembers of it (see
`_http_client_session`). The message itself says which it is.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from ...._errors import ConnectionClosed, ConnectionLost, LocalProtocolError, ResponseLost, TrioMcpError
from ...._util import owned_nursery
from ....abc import ClientAuth, Transport, TransportClient, TransportOpener
from ....peer import NO_HEADERS, MessageConnection, OutgoingMessageRequest, Outlet, PausableTimeouts
from ....wire import (
    LISTEN,
    REVISION_KEY,
    VERSION_FIELD,
    JsonObject,
    encode_notification,
    is_modern,
    is_object,
    request_fields,
)
from .._engine import EngineError, HttpEngine, Refused, checked_fields, checked_url, is_success, read_refusal
from ._legacy_request import LegacyRequestTask
from ._legacy_session import SessionManager
from ._request import SHOWN_FIELDS, HttpRequestTask, HttpSender, ModernRequestTask, open_network

if TYPE_CHECKING:
    from .._engine import HttpxClient

__all__ = ["OutgoingHttpRequest", "RequestSlots", "fields_of", "http_transport", "says_revision"]


# A request of a client over HTTP, as whoever asks sees it, and the places that such requests take.


def says_revision(params: JsonObject | None) -> bool:
    """Tell whether a message says itself which revision it speaks."""
    meta = (params or {}).get("_meta")
    return is_object(meta) and REVISION_KEY in meta


def fields_of(method: str, params: JsonObject | None) -> Mapping[str, str]:
    """Return the header fields that repeat what a message which says its revision says.

    Raises:
        LocalProtocolError: the method, or a name, cannot stand in a field.
    """
    try:
        return request_fields(method, params)
    except ValueError as exc:
        raise LocalProtocolError(f"{method!r} cannot be sent over HTTP: {exc}") from None


@define(eq=False)
class RequestSlots:
    """Room for the requests that are under way at once."""

    most: int
    taken: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)
    _waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def free(self) -> bool:
        """Whether `wait` would return at once."""
        return self.taken < self.most or self._is_closed

    async def wait(self) -> None:
        """Wait for a place, to be taken without a checkpoint in between; also returns when none is given any more."""
        while not self.free:
            await self._waiting.park()
        self._waiting.unpark()  # the next one looks too, after this one has taken its place, or has failed to

    def give_back(self) -> None:
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
    sent_fields: Mapping[str, str] = field(default=NO_HEADERS, init=False)
    """The header fields that go with it."""
    _carrier: HttpRequestTask | None = field(default=None, init=False)

    def is_awaited(self) -> bool:
        """Tell whether somebody still waits for the answer."""
        return self._transport.ledger.asked.get(self.id) is self

    @property
    def says_revision(self) -> bool:
        """Whether it says everything about itself."""
        return says_revision(self.params)

    @property
    def is_apart(self) -> bool:
        """Whether it takes no place of others: it lasts, or others may wait for it."""
        return self.method in {LISTEN, "initialize"}

    def begins_at_once(self) -> bool:
        """Whether a place is free."""
        return self.is_apart or self._transport.places.free

    async def _begin(self) -> None:
        transport = self._transport
        own = fields_of(self.method, self.params) if self.says_revision else NO_HEADERS
        if not self.is_apart:
            await transport.places.wait()
        if transport.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(transport.lost)
        self.line, self.sent_fields = self._issue(), {**own, **self.fields}
        if self.span is not None:
            self.span.sent(self.id)
        self._carrier = transport.carry(self)

    def reissue(self) -> None:
        """Take a new id for another attempt; nobody waits for the answer to the one before.

        Raises:
            LocalProtocolError: its params are not JSON any more; then nobody waits for any answer.
        """
        self._transport.ledger.forget(self.id)
        self.line = self._issue()

    def withdraw(self) -> None:
        """Have the server stop, if it can know of the request."""
        assert self._carrier is not None
        self._carrier.stop()

    def finish(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome."""
        if self.method == "initialize" and not isinstance(outcome, Exception):
            self._transport.agreed(self.params, outcome)
        super().finish(outcome)
        assert self._carrier is not None
        self._carrier.answered(in_time=not isinstance(outcome, ConnectionLost))


_CLOSING_SECONDS = 2.0
"""How long it may take to tell the server that this side leaves."""


def http_transport(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
) -> TransportOpener:
    """Return an opener that speaks to the server at *url*.

    Opening it sends nothing: that an address leads nowhere is found out by the first request. Such a connection is lost
    only when it is closed, or when a server that has forgotten a session begins no other.

    Args:
        url: ``http`` or ``https``.
        headers: fields to send with each request.
        auth: shows the server who asks; None: nothing does, but for what *headers* say.
        http_client: carries the requests in place of a client of our own; not closed.
        engine: carries them in place of httpx2; not closed.

    Raises:
        ValueError: *url* is no address of a server, or holds a password; or a header is none. Or both *http_client* and
            *engine* are given, or both *auth* and a header ``Authorization``.
    """
    if http_client is not None and engine is not None:
        raise ValueError("http_client and engine both carry the requests: give one of them")
    address, fields = checked_url(url), checked_fields(headers or {})
    if auth is not None:
        if not fields.keys().isdisjoint(SHOWN_FIELDS):
            raise ValueError("auth and headers both show who asks: give one of them")
        address = _as_it_is_sent(address)

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        fetches = auth is not None
        async with open_network(address, engine, http_client, fetches=fetches) as network, owned_nursery() as nursery:
            door = HttpSender(network.engine, address, client.tap, fields)
            transport = HttpTransport(
                client.admission, client.answer, client.notified, client.limits, door, client.renewed
            )
            with trio.CancelScope(shield=True):  # it takes no time; cancelled, it would wait for that shielded task
                await nursery.start(transport.run)
            asking_person = partial(_asking_person, client, transport.timeouts)
            try:
                if auth is not None:
                    assert network.fetch is not None  # it was wanted
                    door.source = auth.source(
                        address, fetch=network.fetch, nursery=transport.nursery, asking_person=asking_person
                    )
                yield transport
            finally:
                try:
                    with trio.move_on_after(_CLOSING_SECONDS, shield=True):
                        await transport.close()
                finally:  # an engine of the caller's may raise what it likes
                    transport.stop()

    return connect


def _as_it_is_sent(url: str) -> str:
    """Return an address in ASCII: tokens are made for that, and proofs are about it."""
    import httpx2  # noqa: PLC0415 # takes its time to load

    try:
        return str(httpx2.URL(url))
    except httpx2.InvalidURL as exc:
        raise ValueError(f"{url!r} is no address of a server: {exc}") from None


@contextmanager
def _asking_person(client: TransportClient, timeouts: PausableTimeouts) -> Generator[None]:
    """Have all time limits of the connection stand still."""
    with client.asking_person(), timeouts.paused():
        yield


@define(eq=False)
class HttpTransport(MessageConnection):
    """The client's end of what goes over HTTP; see also `MessageConnection`.

    Args:
        door: leads to the server.
        renewed: called when a session stands in the place of a lost one.
    """

    door: HttpSender
    renewed: Callable[[], None]
    places: RequestSlots = field(init=False)
    keeper: SessionManager = field(init=False)
    """What the server remembers of this client, if it does."""
    timeouts: PausableTimeouts = field(factory=PausableTimeouts, init=False)
    """The limits of what takes its time here, and may wait for a person."""
    _carriers: dict[HttpRequestTask, bool] = field(factory=dict[HttpRequestTask, bool], init=False)
    """The requests under way, and whether each takes a place."""
    _notices: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The notifications under way, which the tasks of others wait for."""
    _farewells: int = field(default=0, init=False)
    _no_farewells: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _running: trio.CancelScope = field(factory=lambda: trio.CancelScope(shield=True), init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.places = RequestSlots(self.limits.max_posts)
        self.keeper = SessionManager(self)

    @property
    def has_fields(self) -> bool:
        """Requests have header fields."""
        return True

    @property
    def outlet(self) -> Outlet:
        """Where what belongs to no exchange goes out."""
        return self.keeper.outlet

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
        while self._farewells:
            await self._no_farewells.park()
        await self.keeper.close()

    def stop(self) -> None:
        """End everything that is left. Synchronous."""
        self._running.cancel()

    # What is asked, and told.

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingHttpRequest:
        """Return an exchange to enter; entering posts the request, leaving ends it."""
        return OutgoingHttpRequest(method, params, wants_updates, self.budget, self, self.outlet, self)

    def carry(self, asked: OutgoingHttpRequest) -> HttpRequestTask:
        """Begin to carry a request; it takes a place, unless it is apart."""
        carrier = ModernRequestTask(self, asked) if asked.says_revision else LegacyRequestTask(self, asked)
        takes_place = not asked.is_apart
        self._carriers[carrier] = takes_place
        self.places.taken += takes_place
        self.nursery.start_soon(carrier.run, name=f"http {asked.method}")
        return carrier

    def answered(self, carrier: HttpRequestTask) -> None:
        """The answer to a request is there: its place is free, though its response may not have ended yet."""
        if self._carriers.get(carrier, False):
            self._carriers[carrier] = False
            self.places.give_back()

    def carried(self, carrier: HttpRequestTask) -> None:
        """A request is not carried any more."""
        self.answered(carrier)
        del self._carriers[carrier]

    def fail(self, asked: OutgoingHttpRequest, failure: TrioMcpError) -> None:
        """Give a request an outcome that is no message of the server."""
        self._on_outcome(asked.id, failure)

    def say_farewell(self, words: Callable[[], Awaitable[None]]) -> None:
        """Begin a task for which closing waits a moment."""

        async def say() -> None:
            try:
                await words()
            finally:
                self._farewells -= 1
                if not self._farewells:
                    self._no_farewells.unpark_all()

        self._farewells += 1
        self.nursery.start_soon(say)

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
            self._notices.add(scope)
            try:
                await self._post_notice(method, params)
            finally:
                self._notices.discard(scope)
        if scope.cancelled_caught:
            assert self.lost is not None
            raise copy(self.lost)

    async def _post_notice(self, method: str, params: JsonObject | None) -> None:
        line = encode_notification(method, params)
        agreed = self.admission.revision
        if says_revision(params) or (agreed is not None and is_modern(agreed)):
            named = {} if agreed is None else {VERSION_FIELD: agreed}
            refused = await self.post(self.door.url, line, {**named, **fields_of(method, params)})
            if refused is not None:
                raise refused.error
        else:
            await self.keeper.notify(method, line)

    async def post(
        self, url: str, line: bytes, fields: Mapping[str, str], *, is_farewell: bool = False
    ) -> Refused | None:
        """Post what gets no answer; return why it was refused, None where it was not.

        Args:
            is_farewell: whether it is not worth more than one try.

        Raises:
            ResponseLost: whether it has arrived is not known.
            AuthorizationFailed: it was not sent, or was refused.
        """
        try:
            async with self.door.post(url, line, fields, is_farewell=is_farewell) as response:
                if is_success(response):
                    return None
                refused = await read_refusal(response, url, self.limits.max_message_bytes)
        except EngineError as exc:
            raise ResponseLost(str(exc), sent=exc.sent) from exc
        if refused.body:
            self.door.received(refused.body)
        return refused

    async def hear_news(self) -> None:
        """Hear what belongs to no exchange, if there was a handshake; return when that is so, or the server refuses."""
        if self.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self.lost)
        await self.keeper.hear_news()

    # What comes back.

    def received(self, message: bytes, outlet: Outlet) -> None:
        """Take a message that has come in an event; its answers go out in *lane*."""
        self.door.received(message)
        self.take(message, outlet)

    def agreed(self, params: JsonObject | None, answer: JsonObject) -> None:
        """A handshake has been answered."""
        self.keeper.agreed(params, answer)

    def disconnect(self, reason: ConnectionLost) -> None:
        """Tell all who wait for a response that there is none; nothing is asked or answered any more."""
        super().disconnect(reason)
        self.places.close()
        self.keeper.give_up(reason)
        for exchange in list(self.ledger.answering.values()):
            exchange.disconnect()
        for scope in self._notices:
            scope.cancel(reason="the connection is gone")

    def _outbox_bytes(self) -> int:
        unsent = sum(len(carrier.asked.line) for carrier in self._carriers if not carrier.has_sent)
        return unsent + self.keeper.waiting_bytes
