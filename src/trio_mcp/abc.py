"""The interfaces between the layers: protocols that transports, servers, clients and authorization implement.

Everything crosses these boundaries as exchanges: one request, its updates, exactly one response, and a way to cancel
it. This module has no code of its own, only protocols and the values that they exchange. It imports nothing of the
package at run time. In annotations it names classes of `peer`, the vocabulary of every exchange; `peer` does not import
this module.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

if TYPE_CHECKING:
    import trio

    from ._errors import ConnectionLost
    from .peer import (
        Access,
        Admission,
        ConnectionStatistics,
        IncomingRequest,
        Limits,
        MessageOrigin,
        OutgoingRequest,
        Peer,
    )
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
    "KnownOpener",
    "Serving",
    "Shared",
    "SharedService",
    "SharedState",
    "StreamPart",
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
"""The direction of a message, from the point of view of the client."""

Tap: TypeAlias = "Callable[[Direction, bytes], None]"
"""A function that sees each whole message without its newline, in wire order, when it is sent or received.

A received line may not be a valid message. An incomplete message at the end of a connection is not shown."""


@runtime_checkable
class Answerer(Protocol):
    """A server that transports can serve: a `Server`."""

    def serving(self) -> AbstractAsyncContextManager[Serving]:
        """Open a serving: enter the lifespan, and open the handler pool."""
        ...


@runtime_checkable
class HttpAnswerer(Protocol):
    """A server that can be served over HTTP too: a `Server`."""

    @property
    def revisions(self) -> Sequence[str]:
        """The supported protocol revisions, oldest first."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of each connection, or client."""
        ...

    def serving(
        self,
        *,
        asking: Literal["parked", "replayed"] | None = None,
        home: Callable[[], str] = str,
        shared: SharedService | None = None,
    ) -> AbstractAsyncContextManager[HttpServing]:
        """Open a serving: enter the lifespan, and open the handler pool.

        Args:
            asking: the way in which a handler waits for an answer; overrides the server's own choice.
            home: returns a string that names this process in a service of several; an empty one if there are no others.
                The request states of its parked handlers begin with it and a dot, so that retries find them.
            shared: what the handlers of this process share with those of the others; None if there are no others.
        """
        ...

    def serving_one(self) -> AbstractAsyncContextManager[HttpServing]:
        """Open a serving for a single request, which leaves nothing behind.

        Raises:
            McpError: the server cannot be served for a single request; this is the response to send.
        """
        ...


class Serving(Protocol):
    """An `Answerer` while it is being served, to any number of connections at once."""

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        ...

    def admission(self) -> Admission:
        """Return the admission of a new connection."""
        ...

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request; synchronous, and never raises.

        Args:
            exchange: the request, which was admitted. It gets exactly one response, unless its requester cancels it.
        """
        ...

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = ...) -> None:
        """Take a notification of *peer* that belongs to no exchange; synchronous, and never raises.

        Args:
            method: the method of the notification.
            params: its params; empty if it has none.
            peer: the connection or session by which it arrived.
            envelope: the headers and the access of the message, if the transport knows them.
        """
        ...

    def stop(self) -> None:
        """Let open questions to users expire, because the server stops. Synchronous; does not close connections."""
        ...


class HttpServing(Serving, Protocol):
    """An `HttpAnswerer` while it is being served."""

    def input_schema(self, tool: str, access: Access | None) -> JsonObject | None:
        """Return a tool's input schema, as modern clients list it; None if the caller sees no such tool.

        Returns the same object each time, as long as the tool is the same. Its `x-mcp-header` annotations are valid.
        Synchronous, and never raises.

        Args:
            tool: the name of the tool.
            access: the authenticated caller; None without authentication.
        """
        ...

    def needed_scopes(self, method: str, params: JsonObject, access: Access | None) -> frozenset[str]:
        """Return the scopes that a request needs; empty if it needs none, or names what the caller does not see.

        Synchronous, and never raises, for any *params*.

        Args:
            method: the method of the request.
            params: its params, which have not been checked.
            access: the authenticated caller; None without authentication.
        """
        ...

    def session_record(self, peer: Peer) -> JsonObject | None:
        """Return what another process needs to continue the session of *peer*; synchronous.

        None before its handshake, and when it has ended. No request of the session may be in flight.
        """
        ...

    def restore_session(self, peer: Peer, record: JsonObject, access: Access | None) -> None:
        """Let a new session continue one that another process has ended; synchronous.

        Args:
            peer: the new session, of which no message has been answered yet.
            record: returned by `session_record` there.
            access: the principal of the session; None without authentication.

        Raises:
            KeyError, TypeError, ValueError: the record is from another version of this package.
        """
        ...


class EventStore(Protocol):
    """A store of the events of event streams, so that a client can resume a stream after its connection broke.

    The package has `MemoryEventStore` and `SqliteEventStore`; an application may have its own.
    """

    def open(self) -> AbstractAsyncContextManager[EventLog]:
        """Open the store while an application is being served. It is opened again only after it was closed."""
        ...


class EventLog(Protocol):
    """An open `EventStore`. An event has an owner, a stream of that owner, and a number in that stream.

    Owners and streams are opaque to the log. The numbers of a stream have no gaps. They begin with 1, or with a higher
    number if another process has stored the events before. A log is bounded: it may drop events, the oldest of an owner
    first. An exception of a log is written to the server's log; its only
    effect is that the events are not stored.
    """

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        """Store events of a stream; the first of them has the number *first*.

        The calls for one stream are made in order, one at a time; calls for other streams may run at the same time.

        Args:
            owner: the owner of the stream.
            stream: the number of the stream among those of its owner.
            first: the number of the first event in the stream.
            events: the bytes of each event, as `read` has to return them.
        """
        ...

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        """Return the number of the oldest stored event after number *after*, and some events from it on.

        The events have no gap between them, and are some tens of KiB together unless a single one is larger. If there
        is no such event, the list is empty and the number has no meaning.

        Args:
            owner: the owner of the stream.
            stream: the number of the stream among those of its owner.
            after: the number of the last event that the client has; 0 for none.
        """
        ...

    async def forget(self, owner: str) -> None:
        """Drop all events of an owner that no longer exists."""
        ...


class Shared(Protocol):
    """A backend by which the processes of one service share state, on one machine or on many.

    The package has `MemoryShared`, `SqliteShared` and `RedisShared`; an application may have its own, and
    `testing.SharedContract` has the tests for it. One object is used by one process, for any number of servers.
    """

    def open(self) -> AbstractAsyncContextManager[SharedState]:
        """Connect to the backend. May be entered several times, also at once; each state is closed with its block.

        Raises:
            SharedUnavailable: the backend cannot be reached, or refuses this program.
        """
        ...


@frozen
class StreamPart:
    """Some entries of a stream of a `SharedState`, in order and without gaps between them."""

    first: int
    """The number of the first of these entries."""
    entries: Sequence[bytes]
    """The bytes of each entry, oldest first."""
    is_gap: bool = False
    """True if entries before these may have been lost to this reader: they were dropped before it read them, or the
    backend has lost its data. There may be no entries then."""


class SharedState(Protocol):
    """An open `Shared` backend: values, streams and leases.

    Keys and names of streams, groups and leases are strings of up to 200 printable ASCII characters. Times are seconds
    of the backend's clock, above 0. Other names and times raise ValueError. The methods may be called in any number of
    tasks at once. If a call is cancelled, it has done either all or nothing. A backend that is interrupted is connected
    to again by itself.

    All methods but `follow` raise `SharedUnavailable`, within a second, if the backend cannot be reached; whether they
    have done anything is unknown then. What is said to have been written is kept as long as the backend keeps its data.
    """

    @property
    def host(self) -> str:
        """The address by which the other processes that use the backend reach this machine, such as ``10.0.0.7``.

        It is that of this machine in the network of the backend; ``127.0.0.1`` if all are on one machine.
        """
        ...

    async def get(self, key: str) -> bytes | None:
        """Return the value of *key*; None if there is none, or it has expired."""
        ...

    async def swap(self, key: str, old: bytes | None, new: bytes | None, *, seconds: float = math.inf) -> bool:
        """Atomically set the value of *key* to *new* if it is *old*; return True if it was set. None means no value.

        Args:
            key: the key of the value.
            old: the value that it must have; None if there must be no value.
            new: the value to set; None to delete it.
            seconds: the time after which the new value expires.
        """
        ...

    async def append(self, stream: str, entries: Sequence[bytes], *, at_most: int, seconds: float = math.inf) -> int:
        """Append entries to a stream, together; return the number of the last.

        The first entry of a stream has the number 1, and each other one the next number.

        Args:
            stream: the name of the stream, which begins to exist with its first entry.
            entries: the bytes of each entry; at least one.
            at_most: the number of entries to keep; older ones may be dropped.
            seconds: the time after the latest `append` after which the whole stream may be dropped. Then it begins
                again with number 1, and its followers get a part with `is_gap`.
        """
        ...

    async def read(self, stream: str, after: int) -> StreamPart:
        """Return entries of *stream* after the number *after*; only the first of them if there are many.

        If there are none, `StreamPart.first` is the number of the next one. The part has `is_gap` if entries after that
        number were dropped, or if that number is beyond the last.
        """
        ...

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of *stream*; 0 if there never was one."""
        ...

    def follow(self, stream: str) -> AbstractAsyncContextManager[AsyncIterator[StreamPart]]:
        """Follow *stream*: iterate over what is appended after the block was entered, as soon as it is.

        This is how processes publish and subscribe. The iterator never ends, and waits while the backend cannot be
        reached; afterwards it continues where it was, or yields a part with `is_gap`.

        Raises:
            SharedUnavailable: the backend cannot be reached when the block is entered.
        """
        ...

    async def lease(self, group: str, name: str, value: bytes, *, seconds: float) -> None:
        """Hold a lease in a group, or renew it with a new value: others see it until it expires or is released.

        Args:
            group: the name of the group, which is all that `leases` returns together.
            name: the name of the lease in its group.
            value: the bytes that others read.
            seconds: the time after which the lease expires unless it is renewed.
        """
        ...

    async def release(self, group: str, name: str) -> None:
        """Give back the lease *name* of *group*, if it is held."""
        ...

    async def leases(self, group: str) -> Mapping[str, bytes]:
        """Return the values of the leases of *group* that have not expired, by name."""
        ...


class SharedService(Protocol):
    """The memory that the processes of one service have in common, by which they act as one.

    Keys are strings of any length and content. The backend never gets them: it gets their hashes, and values that only
    a process of the service can make or read. The methods may be called in any number of tasks at once.

    `once`, `take` and `is_first` raise `SharedUnavailable`, within a second, if the backend cannot be reached.
    """

    async def once(self, key: str, work: Callable[[], Awaitable[bytes]], *, seconds: float) -> bytes:
        """Return the result of *work*, which runs once for a key, in one of the processes that call this.

        The others wait for its result. If it raises, is cancelled, or its process ends, another process that waits
        runs its own *work*. It can run twice only if the backend fails, or the process pauses, while it runs.

        Args:
            key: it identifies the work, and cannot be guessed by those who must not have its result.
            work: called without arguments.
            seconds: the time for which the result is kept for later calls.

        Raises:
            SharedUnavailable: also if the result that is kept was not made by a process of this service.
            Exception: raised by *work*.
        """
        ...

    async def take(self, key: str, *, per_second: float, burst: int) -> float:
        """Take a token from a bucket; return 0, or the seconds until there may be one.

        Args:
            key: the bucket, which is full at first.
            per_second: the number of tokens that the bucket gets in a second.
            burst: the number of tokens that it holds.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        ...

    async def is_first(self, key: str, *, seconds: float) -> bool:
        """Return True to the first call with a key, in all processes together, and False to every other.

        Args:
            key: identifies the event that must count once only, such as the id of a token.
            seconds: the time after which the key is forgotten.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        ...

    async def recall(self, key: str) -> bytes | None:
        """Return the value that a process has kept for *key*; None if there is none, or no backend can be reached.

        Nothing is kept unless the program has given the service its keys (``Server(keys=[...])``).
        """
        ...

    async def keep(self, key: str, value: bytes, *, seconds: float) -> None:
        """Store a value for `recall` in all processes; do nothing if the backend cannot be reached.

        A value that is there already stays.

        Args:
            key: the key of the value.
            value: the bytes to store.
            seconds: the time after which the value expires.
        """
        ...


@frozen(kw_only=True)
class HttpCall:
    """An HTTP request that authorization makes, and whose response is read as a whole."""

    method: Literal["GET", "POST"]
    """The HTTP method."""
    url: str
    """The absolute URL, with http or https."""
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """By lower-case name."""
    body: bytes = field(default=b"", repr=False)
    """The body of a POST; empty for a GET."""
    named_by: Literal["user", "server"]
    """The side that chose the host: a server must not direct a client into networks that it cannot reach itself."""


@frozen(kw_only=True)
class HttpReply:
    """The response to an `HttpCall`."""

    status: int
    """The HTTP status."""
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """By lower-case name; the values of repeated fields are joined with ``", "``."""
    body: bytes = field(default=b"", repr=False)
    """The whole body."""


class Fetch(Protocol):
    """A function that makes the HTTP requests of authorization."""

    async def __call__(self, call: HttpCall) -> HttpReply:
        """Make one request, with limits of size and time. Only a GET follows redirects, and only within the origin.

        Raises:
            CallFailed: the request failed, exceeded a limit, or went to a forbidden address. `Unreadable` if the
                response was received but cannot be used.
        """
        ...


class ClientAuth(Protocol):
    """The authentication of a client: `OAuth`, `Bearer` and so on. One object may serve any number of clients."""

    def source(
        self,
        url: str,
        *,
        fetch: Fetch,
        nursery: trio.Nursery,
        asking_person: Callable[[], AbstractContextManager[None]],
    ) -> TokenSource:
        """Return the credentials for the server at *url*, for one connection. Synchronous.

        Args:
            url: the URL of the server, as the caller named it.
            fetch: makes requests to other servers.
            nursery: the nursery for tasks of the connection, which end with it.
            asking_person: a context manager to enter while the user is asked; it pauses the connection's timeouts.
        """
        ...


class TokenSource(Protocol):
    """The credentials of one connection to one server."""

    def attempt(self, method: str, url: str) -> AuthAttempt:
        """Return the authentication of one request, for its first and all repeated attempts; synchronous.

        Args:
            method: the HTTP method, in capitals.
            url: the URL of the request, on the server's origin.
        """
        ...


class AuthAttempt(Protocol):
    """The authentication of one HTTP request of a client."""

    async def fields(self) -> Mapping[str, str]:
        """Return the header fields with the credentials, by lower-case name; waits while they are obtained.

        Raises:
            AuthorizationFailed: there are no credentials, and none can be obtained.
        """
        ...

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take the status and header fields of the response; return True to call `resolve` and repeat the request.

        Synchronous. Returns True only a bounded number of times for one request.

        Args:
            status: the HTTP status.
            headers: the header fields, by lower-case name.
        """
        ...

    async def resolve(self) -> None:
        """Obtain the authorization that the response requires before the request is repeated.

        Raises:
            AuthorizationFailed: the authorization cannot be obtained.
        """
        ...


class TokenStorage(Protocol):
    """A storage for a client's tokens and registrations at authorization servers.

    The package has `MemoryTokenStorage` and `FileTokenStorage`; an application may have its own. Values are strings
    that contain secrets. Several processes may share one storage.
    """

    async def load(self, key: str) -> str | None:
        """Return the value of a key; None if there is none."""
        ...

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Atomically set the value of a key to *new* if it is *old*; return True if it was set. None means no value."""
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
    """A verifier of access tokens: `JwtVerifier`, `IntrospectionVerifier`, or an application's own."""

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return the contents of a token. The caller checks the audience and the expiry.

        Args:
            token: the token as it was received, of any length and content.
            fetch: makes requests to the authorization server.

        Raises:
            InvalidToken: the token is unknown to this verifier, was changed, or was revoked.
            VerifierUnavailable: the token cannot be verified now.
        """
        ...


class TransportClient(Protocol):
    """The part of a client that a transport needs: it answers the requests of a legacy server."""

    @property
    def admission(self) -> Admission:
        """The admission of the server's requests."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of the connection."""
        ...

    @property
    def tap(self) -> Tap | None:
        """A synchronous function that sees each message and never raises; None if there is none."""
        ...

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request of the server; synchronous, and never raises.

        Args:
            exchange: the request, which was admitted. It gets exactly one response, unless the server cancels it.
        """
        ...

    def notified(self, method: str, params: JsonObject) -> None:
        """Take a notification that belongs to no exchange; synchronous, and never raises.

        Args:
            method: the method of the notification.
            params: its params; empty if it has none.
        """
        ...

    def asking_person(self) -> AbstractContextManager[None]:
        """Return a context manager to enter while the user is asked; it pauses the timeouts of the connection."""
        ...

    def renewed(self) -> None:
        """Take note that a new session has replaced a lost one, so that the server has no state of the old one.

        Called after the handshake of the new session, when its notifications are received as before
        (`Transport.open_standalone_stream`). Synchronous, and never raises.
        """
        ...


class Transport(Protocol):
    """The client side of an open connection."""

    @property
    def has_fields(self) -> bool:
        """True if requests have header fields, to which the transport copies the arguments that a tool names."""
        ...

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingRequest:
        """Return an exchange to enter with `async with`: entering sends the request, leaving ends it.

        Leaving the block before the outcome has arrived cancels the request on the other side.

        Args:
            method: the method of the request.
            params: its params as JSON, in the revision of the connection; None to send none.
            wants_updates: True to receive the notifications that belong to the request, such as its progress. Without
                it, a transport may drop them.
        """
        ...

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Send a notification that belongs to no exchange.

        Args:
            method: the method of the notification.
            params: its params as JSON; None to send none.

        Raises:
            ConnectionLost: the connection is gone.
        """
        ...

    async def open_standalone_stream(self) -> None:
        """Begin to receive the notifications that a legacy server sends outside of exchanges; return when that is done.

        Does nothing if the transport receives them anyway, or already. A server without such a stream is not an error.

        Raises:
            ConnectionLost: the connection is gone.
        """
        ...

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* with the reason when the connection is lost; immediately if it is lost already.

        The callback is called once, synchronously, and does not raise. It fails the requests that wait for a response.
        """
        ...

    def statistics(self) -> ConnectionStatistics:
        """Return a snapshot of what the connection holds, for debugging."""
        ...


TransportOpener: TypeAlias = "Callable[[TransportClient], AbstractAsyncContextManager[Transport]]"
"""A function that connects a client. Leaving the block closes the connection; opening it twice connects twice."""


@frozen(eq=False)
class KnownOpener:
    """A `TransportOpener` that tells to which server it connects, so that clients can remember it (`probe`)."""

    connect: TransportOpener
    """The function that connects a client."""
    server: Sequence[str] | None = None
    """Strings that identify the server in every process, such as the words of a command; None if nothing does."""
    starts_process: bool = False
    """True if each opening starts a new process of the server."""

    def __call__(self, client: TransportClient) -> AbstractAsyncContextManager[Transport]:
        """Connect *client* for the duration of the block."""
        return self.connect(client)
