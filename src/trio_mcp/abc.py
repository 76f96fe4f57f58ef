"""The interfaces that let a lower layer hold a higher one: what can be asked, and what can answer.

Everything crosses these boundaries as exchanges: one request, the updates that belong to it, exactly one response,
and a way to cancel it. Nothing here has code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

if TYPE_CHECKING:
    import trio

    from ._errors import ConnectionLost
    from .peer import Admission, ConnectionStatistics, IncomingRequest, Limits, MessageOrigin, OutgoingRequest, Peer
    from .wire import JsonObject

__all__ = [
    "Answerer",
    "AuthAttempt",
    "ClientAuth",
    "Direction",
    "EventLog",
    "EventStore",
    "Fetch",
    "HttpAnswerer",
    "HttpCall",
    "HttpReply",
    "HttpServing",
    "Serving",
    "Tap",
    "TokenSource",
    "TokenStorage",
    "TokenVerifier",
    "Transport",
    "TransportClient",
    "TransportOpener",
    "VerifiedToken",
]

Direction: TypeAlias = Literal["sent", "received"]
"""Which way a message went, seen from the client."""

Tap: TypeAlias = "Callable[[Direction, bytes], None]"
"""Sees each whole message without its newline, in the order of the wire, when it is handed over or has come in.

What has come in may be no message, if the other side has sent something else. Half of one, after which a connection has
ended, is never shown."""


@runtime_checkable
class Answerer(Protocol):
    """Something whose exchanges can be served: a `Server`."""

    def serving(self) -> AbstractAsyncContextManager[Serving]:
        """Open what serves: the lifespan, and the nursery of the handlers."""
        ...


@runtime_checkable
class HttpAnswerer(Protocol):
    """Something whose exchanges can be served over HTTP as well: a `Server`."""

    @property
    def revisions(self) -> Sequence[str]:
        """The protocol revisions it speaks, oldest first."""
        ...

    @property
    def limits(self) -> Limits:
        """What each connection, or client, may cost."""
        ...

    def serving(
        self, *, asking: Literal["parked", "replayed"] | None = None
    ) -> AbstractAsyncContextManager[HttpServing]:
        """Open what serves: the lifespan, and the nursery of the handlers.

        Args:
            asking: in place of the answerer's own choice, where a handler is while a client finds an answer.
        """
        ...

    def serving_one(self) -> AbstractAsyncContextManager[HttpServing]:
        """Open what serves a single request, and leaves nothing behind.

        Raises:
            McpError: the answerer needs to be served for longer; what to answer instead.
        """
        ...


class Serving(Protocol):
    """An `Answerer` while it is being served, by any number of connections at once."""

    @property
    def limits(self) -> Limits:
        """What each connection may cost."""
        ...

    def admission(self) -> Admission:
        """Return the gate of a new connection."""
        ...

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer; synchronous, and never raises."""
        ...

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = ...) -> None:
        """Take a notification of *peer* that belongs to no exchange; synchronous, and never raises.

        Args:
            envelope: what it came in, where the transport knows anything of that.
        """
        ...

    def stop(self) -> None:
        """The end is near: let what waits for people end. Synchronous; the connections end by themselves."""
        ...


class HttpServing(Serving, Protocol):
    """An `HttpAnswerer` while it is being served."""

    def input_schema(self, tool: str) -> JsonObject | None:
        """Return a tool's input schema, as modern clients list it; None where there is no such tool.

        The same object each time, as long as the tool is the same. Its annotations `x-mcp-header` keep their rules.
        """
        ...

    def needed_scopes(self, method: str, params: JsonObject) -> frozenset[str]:
        """Return what must have been granted to whoever makes a request; empty where nothing is needed.

        Synchronous, and never raises, whatever *params* are.
        """
        ...


class EventStore(Protocol):
    """Keeps what goes out on event streams, so that a client whose connection has broken gets the rest of it.

    There are `MemoryEventStore` and `SqliteEventStore`; yours may keep the events anywhere else.
    """

    def open(self) -> AbstractAsyncContextManager[EventLog]:
        """Open it for as long as an application is being served. It is opened again only when it has been closed."""
        ...


class EventLog(Protocol):
    """An `EventStore` that is open. An event has an owner, a stream of that owner, and a number in that stream.

    What an owner is, and a stream, is nobody's business here. The numbers of a stream begin with 1 and have no gaps. A
    log is bounded: it loses what it will, of one owner the oldest events first. Whatever it raises is logged, and costs
    nothing but that what it should have kept is not there.
    """

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        """Keep events of a stream, the first of which has the number *first*.

        Those of one stream come in order, one call after the other; other streams may be appended to meanwhile.
        """
        ...

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        """Return the number of the oldest event after number *after* that is there, and some events from it on.

        They follow one another without a gap, are some tens of KiB together unless a single one is longer, and are the
        beginning of what is there. Where nothing is there, the events are empty and the number means nothing.
        """
        ...

    async def forget(self, owner: str) -> None:
        """Drop all events of an owner: it is gone."""
        ...


@frozen(kw_only=True)
class HttpCall:
    """An HTTP request that authorization makes, and whose response is read as a whole."""

    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """By lower-case name."""
    body: bytes = field(default=b"", repr=False)
    named_by: Literal["user", "server"]
    """Who chose the host. A server must not direct a client into networks that the server itself cannot reach."""


@frozen(kw_only=True)
class HttpReply:
    """The response to an `HttpCall`."""

    status: int
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """By lower-case name; the values of repeated fields are joined with ``", "``."""
    body: bytes = field(default=b"", repr=False)


class Fetch(Protocol):
    """Makes the HTTP requests that authorization needs beside those of the protocol."""

    async def __call__(self, call: HttpCall) -> HttpReply:
        """Make one request, within bounds of size and time. A redirect is followed within the origin, if it is a GET.

        Raises:
            CallFailed: it could not be made, or not within the bounds, or leads where it may not. It is `Unreadable`
                where that was the answer.
        """
        ...


class ClientAuth(Protocol):
    """How a client shows a server who asks: `OAuth`, `Bearer` and so on. One may serve any number of clients."""

    def source(
        self,
        url: str,
        *,
        fetch: Fetch,
        nursery: trio.Nursery,
        asking_person: Callable[[], AbstractContextManager[None]],
    ) -> TokenSource:
        """Return what shows it to the server at *url*, for one connection. Synchronous.

        Args:
            url: of the server, as the caller has named it.
            fetch: makes requests to others.
            nursery: takes tasks of the connection, which end with it.
            asking_person: to be entered while a person is being asked: the connection's time limits then stand still.
        """
        ...


class TokenSource(Protocol):
    """Shows one server who asks, for one connection."""

    def attempt(self, method: str, url: str) -> AuthAttempt:
        """Return what accompanies one request, from the first time it is sent to the last; synchronous.

        Args:
            method: of HTTP, in capitals.
            url: where the request goes, on the same origin as the server.
        """
        ...


class AuthAttempt(Protocol):
    """Accompanies one HTTP request of a client."""

    async def fields(self) -> Mapping[str, str]:
        """Return the header fields that show who asks, by lower-case name; waits while they have to be found.

        Raises:
            AuthorizationFailed: there is nothing to show, and none can be had.
        """
        ...

    def heard(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take the head of the response; return whether to `resolve`, and to send the request once more.

        Synchronous. True only a bounded number of times for one attempt.
        """
        ...

    async def resolve(self) -> None:
        """Do what the response wants to be done before the request is sent again.

        Raises:
            AuthorizationFailed: it cannot be done.
        """
        ...


class TokenStorage(Protocol):
    """Keeps what a client must not forget: tokens, and how it is known to authorization servers.

    There are `MemoryTokenStorage` and `FileTokenStorage`; yours may keep it anywhere else. Values are texts, which hold
    secrets. Several processes may share one storage.
    """

    async def load(self, key: str) -> str | None:
        """Return the value of a key, None where there is none."""
        ...

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Set the value of a key to *new*, if it is *old* now, as one step; return whether it was. None: no value."""
        ...


@frozen(kw_only=True)
class VerifiedToken:
    """The contents of an access token whose issuer is verified. Nothing else has been checked."""

    issuer: str
    """The authorization server that issued the token."""
    subject: str | None
    """The user that the token speaks for, as the issuer names the user; None if the token names no user."""
    client_id: str | None
    """The application that the token was issued to; None if the token does not say. A token needs a subject or this."""
    audiences: tuple[str, ...]
    """The servers that the token is for, by URL or as `ResourceServer.audiences` names them."""
    scopes: frozenset[str]
    """The scopes that were granted."""
    expires_at: float | None
    """The expiry, as `time.time` counts; None if no expiry is known."""
    not_before: float | None = None
    """The time from which the token is valid, as `time.time` counts; None if it is valid already."""
    key_thumbprint: str | None = None
    """The thumbprint of the key that the token is bound to (`cnf.jkt`); None for a bearer token."""
    claims: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    """All claims of the token, as JSON."""


class TokenVerifier(Protocol):
    """Says whether a token is good, and whose it is: `JwtVerifier`, `IntrospectionVerifier`, or yours."""

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return what a token says. Whether it is meant for this server, and still holds, is checked by the caller.

        Args:
            token: as it came, of any length and content.
            fetch: makes requests to the authorization server.

        Raises:
            InvalidToken: it is none of those that this verifier knows, was changed, or has been withdrawn.
            VerifierUnavailable: it cannot be told now.
        """
        ...


class TransportClient(Protocol):
    """The part of a client that a transport needs: it answers what a legacy server asks."""

    @property
    def admission(self) -> Admission:
        """On which terms the server's requests are admitted."""
        ...

    @property
    def limits(self) -> Limits:
        """What the connection may cost."""
        ...

    @property
    def tap(self) -> Tap | None:
        """What wants to see each message that passes; synchronous, and never raises. None: nobody does."""
        ...

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request of the server; synchronous, and never raises."""
        ...

    def notified(self, method: str, params: JsonObject) -> None:
        """Take a notification that belongs to no exchange; synchronous, and never raises."""
        ...

    def asking_person(self) -> AbstractContextManager[None]:
        """Return a block in which a person is being asked: the time limits of the connection stand still."""
        ...

    def renewed(self) -> None:
        """Take note that another session stands in the place of a lost one: the server knows nothing of before.

        Called when it is agreed on, and heard of as the one before was (`Transport.hear_news`). Synchronous, and never
        raises.
        """
        ...


class Transport(Protocol):
    """The asking side of a connection that is up."""

    @property
    def has_fields(self) -> bool:
        """Whether requests carry header fields, into which the arguments that a tool names are mirrored."""
        ...

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingRequest:
        """Return an exchange to enter with `async with`: entering sends the request, leaving ends it.

        Whatever ends the block before the outcome has arrived cancels the request on the other side.
        """
        ...

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Send a notification that belongs to no exchange.

        Raises:
            ConnectionLost: the connection is gone.
        """
        ...

    async def hear_news(self) -> None:
        """From now on, hear what the server of a handshake says outside of exchanges; return when that is so.

        Nothing to do where that is heard anyway, or already. A server that says nothing there is no error.

        Raises:
            ConnectionLost: the connection is gone.
        """
        ...

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* with the reason when nothing can be asked any more; now, if that is so already.

        It is called once, synchronously, and does not raise. Those who wait for a response are told by that.
        """
        ...

    def statistics(self) -> ConnectionStatistics:
        """Return what the connection holds now."""
        ...


TransportOpener: TypeAlias = "Callable[[TransportClient], AbstractAsyncContextManager[Transport]]"
"""Connects a client; leaving the block takes the connection down. Opening the same one twice connects twice."""
