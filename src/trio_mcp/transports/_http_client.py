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

from .._errors import ConnectionClosed, ConnectionLost, ResponseLost, TrioMcpError
from .._util import owned_nursery
from ..abc import Client, ClientAuth, Transport, TransportOpener
from ..peer import Correspondent, Lane, Patience
from ..wire import VERSION_FIELD, JsonObject, encode_notification, is_modern
from ._http_client_address import checked_fields, checked_url
from ._http_client_asked import AskedOverHttp, Places, fields_of, says_revision
from ._http_client_carrier import Carrier, StatelessCarrier
from ._http_client_door import SHOWN_FIELDS, HttpDoor
from ._http_client_network import open_network
from ._http_client_reading import Refused, is_success, read_refusal
from ._http_client_session_carrier import SessionCarrier
from ._http_client_session_keeper import SessionKeeper
from ._http_engine import EngineError, HttpEngine

if TYPE_CHECKING:
    from ._httpx_engine import HttpxClient

__all__ = ["http_transport"]

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
    async def connect(client: Client) -> AsyncGenerator[Transport]:
        fetches = auth is not None
        async with open_network(address, engine, http_client, fetches=fetches) as network, owned_nursery() as nursery:
            door = HttpDoor(network.engine, address, client.tap, fields)
            transport = HttpTransport(client.gate, client.answer, client.notified, client.limits, door, client.renewed)
            with trio.CancelScope(shield=True):  # it takes no time; cancelled, it would wait for that shielded task
                await nursery.start(transport.run)
            asking_person = partial(_asking_person, client, transport.patience)
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
def _asking_person(client: Client, patience: Patience) -> Generator[None]:
    """Have all time limits of the connection stand still."""
    with client.asking_person(), patience.paused():
        yield


@define(eq=False)
class HttpTransport(Correspondent):
    """The client's end of what goes over HTTP; see also `Correspondent`.

    Args:
        door: leads to the server.
        renewed: called when a session stands in the place of a lost one.
    """

    door: HttpDoor
    renewed: Callable[[], None]
    places: Places = field(init=False)
    keeper: SessionKeeper = field(init=False)
    """What the server remembers of this client, if it does."""
    patience: Patience = field(factory=Patience, init=False)
    """The limits of what takes its time here, and may wait for a person."""
    _carriers: dict[Carrier, bool] = field(factory=dict[Carrier, bool], init=False)
    """The requests under way, and whether each takes a place."""
    _notices: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The notifications under way, which the tasks of others wait for."""
    _farewells: int = field(default=0, init=False)
    _no_farewells: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _running: trio.CancelScope = field(factory=lambda: trio.CancelScope(shield=True), init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.places = Places(self.limits.max_posts)
        self.keeper = SessionKeeper(self)

    @property
    def has_fields(self) -> bool:
        """Requests have header fields."""
        return True

    @property
    def lane(self) -> Lane:
        """Where what belongs to no exchange goes out."""
        return self.keeper.lane

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
        self.lose(ConnectionClosed("this side closed the connection"))
        while self._farewells:
            await self._no_farewells.park()
        await self.keeper.close()

    def stop(self) -> None:
        """End everything that is left. Synchronous."""
        self._running.cancel()

    # What is asked, and told.

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> AskedOverHttp:
        """Return an exchange to enter; entering posts the request, leaving ends it."""
        return AskedOverHttp(method, params, wants_updates, self.budget, self, self.lane, self)

    def carry(self, asked: AskedOverHttp) -> Carrier:
        """Begin to carry a request; it takes a place, unless it is apart."""
        carrier = StatelessCarrier(self, asked) if asked.says_revision else SessionCarrier(self, asked)
        takes_place = not asked.is_apart
        self._carriers[carrier] = takes_place
        self.places.taken += takes_place
        self.nursery.start_soon(carrier.run, name=f"http {asked.method}")
        return carrier

    def answered(self, carrier: Carrier) -> None:
        """The answer to a request is there: its place is free, though its response may not have ended yet."""
        if self._carriers.get(carrier, False):
            self._carriers[carrier] = False
            self.places.give_back()

    def carried(self, carrier: Carrier) -> None:
        """A request is not carried any more."""
        self.answered(carrier)
        del self._carriers[carrier]

    def fail(self, asked: AskedOverHttp, failure: TrioMcpError) -> None:
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
        agreed = self.gate.revision
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

    def received(self, message: bytes, lane: Lane) -> None:
        """Take a message that has come in an event; its answers go out in *lane*."""
        self.door.received(message)
        self.take(message, lane)

    def agreed(self, params: JsonObject | None, answer: JsonObject) -> None:
        """A handshake has been answered."""
        self.keeper.agreed(params, answer)

    def lose(self, reason: ConnectionLost) -> None:
        """Tell all who wait for a response that there is none; nothing is asked or answered any more."""
        super().lose(reason)
        self.places.close()
        self.keeper.give_up(reason)
        for exchange in list(self.ledger.answering.values()):
            exchange.lose()
        for scope in self._notices:
            scope.cancel(reason="the connection is gone")

    def _outbox_bytes(self) -> int:
        unsent = sum(len(carrier.asked.line) for carrier in self._carriers if not carrier.has_sent)
        return unsent + self.keeper.waiting_bytes
