"""The context of an exchange: the immutable facts about one request, the peer that sent it, and its admission."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import define, field, frozen

from .._errors import ConnectionLost, McpError
from ..wire import JsonObject, RequestId, is_modern

if TYPE_CHECKING:
    from ._exchange import OutgoingRequest
    from ._slots import HandlerSlots

__all__ = [
    "NO_HEADERS",
    "NO_ORIGIN",
    "Access",
    "Admission",
    "Arrival",
    "ExchangeContext",
    "HeaderFields",
    "MessageOrigin",
    "ObservableServing",
    "Peer",
    "RequestObserver",
    "RequestWatch",
    "ServingStatistics",
    "note_arrival",
]

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@frozen(eq=False, repr=False)
class HeaderFields(Mapping[str, str]):
    """The header fields of a request for a handler, which finds them by their names in any case.

    Args:
        fields: the fields by lower-case name.
    """

    _fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return repr(dict(self._fields))


@frozen
class Access:
    """The authenticated principal and its permissions: the content of a token, but never the token itself."""

    principal: str
    """The name of the principal: the same string each time, and different for any two principals with different
    permissions. For a user it comes from the issuer of the token. For an application that acts for itself it is
    ``client`` and the id of the application."""
    scopes: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The granted scopes, as the authorization server names them."""
    client_id: str | None = field(default=None, kw_only=True)
    """The id of the application that acts for the principal, if known."""
    expires_at: float | None = field(default=None, kw_only=True)
    """The expiry of the token, as `time.time` counts; None if unknown."""
    claims: Mapping[str, Any] = field(factory=dict[str, Any], kw_only=True, repr=False)
    """All other claims of the token or of its introspection."""


@frozen
class MessageOrigin:
    """The facts about a message that its transport knows, in addition to the message itself."""

    headers: Mapping[str, str] = NO_HEADERS
    """The header fields by lower-case name, without secret ones; empty if there are none."""
    access: Access | None = None
    """The authenticated principal and its permissions; None without authentication."""


NO_ORIGIN = MessageOrigin()


@define(kw_only=True)
class ExchangeContext:
    """The facts about one request, in addition to its method and params. Never changes, never outlives the request.

    It is not frozen, because attrs takes twice as long to make a frozen object, and every request has one.
    """

    revision: str
    """The protocol revision of this exchange."""
    capabilities: JsonObject
    """The capabilities that the peer declared, as received."""
    peer_info: JsonObject | None
    """The name and version of the peer, for display and debugging only."""
    meta: Mapping[str, Any]
    """The `_meta` of the request, as received; empty if there was none."""
    progress_token: RequestId | None
    """The progress token; None if the peer asked for no progress."""
    log_level: str | None
    """The least severe log level that the peer wants for this request; None for no logging."""
    access: Access | None = None
    """The authenticated principal and its permissions; None without authentication."""
    headers: Mapping[str, str] = NO_HEADERS
    """The header fields of the message, if the transport has any."""

    def arrived_by(self, origin: MessageOrigin) -> ExchangeContext:
        """Return a copy with the caller and the header fields that the transport knows.

        Args:
            origin: the caller and the header fields of the message.
        """
        # not by `attrs.evolve`, which takes ten times as long
        return ExchangeContext(
            revision=self.revision,
            capabilities=self.capabilities,
            peer_info=self.peer_info,
            meta=self.meta,
            progress_token=self.progress_token,
            log_level=self.log_level,
            access=origin.access,
            headers=origin.headers,
        )

    @property
    def principal(self) -> str | None:
        """The name of the authenticated principal; None without authentication."""
        return None if self.access is None else self.access.principal

    @property
    def modern(self) -> bool:
        """True if the revision is modern: each request carries its own envelope."""
        return is_modern(self.revision)


class Admission(Protocol):
    """Admits or refuses the requests of one connection, and gives each its context.

    A connection consults it before it answers a request. Its state, the outcome of a handshake, is the only state of a
    connection that outlives an exchange: a modern request carries everything itself and leaves nothing behind.
    """

    @property
    def revision(self) -> str | None:
        """The revision that the latest handshake agreed on; None before it, or without a handshake."""
        ...

    @property
    def may_respond(self) -> bool:
        """True if this side may send responses. A modern client must not."""
        ...

    @property
    def answers_unreadable(self) -> bool:
        """True if this side sends an error for a message whose id it could not read. A client must not."""
        ...

    @property
    def batches(self) -> bool:
        """True if the peer may send batches."""
        ...

    @property
    def omits_unknown_id(self) -> bool:
        """True if an error for a request with an unreadable id is sent without an id, instead of with null."""
        ...

    @property
    def operating(self) -> bool:
        """True if the peer accepts messages that belong to no exchange: notifications, and requests of this side."""
        ...

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the context of a request. Synchronous.

        Args:
            method: the method of the request.
            params: its params; None if it has none.

        Raises:
            McpError: the request is refused with this error.
        """
        ...

    def answered_handshake(self, context: ExchangeContext, *, success: bool) -> None:
        """Take note that an admitted `initialize` was answered.

        Args:
            context: the context that `admit` returned for it.
            success: True if the answer is a result, False if it is an error.
        """
        ...

    def notified(self, method: str) -> None:
        """Take note of a notification of the peer, by its *method*."""
        ...


class Peer(Protocol):
    """The other end of a connection, as the answering side sees it. Every exchange of the connection refers to it.

    Notifications that are sent through it belong to no exchange; see `IncomingRequest.notify` for those that do.
    """

    @property
    def admission(self) -> Admission:
        """The admission of its requests."""
        ...

    @property
    def slots(self) -> HandlerSlots:
        """The handler slots of its requests."""
        ...

    @property
    def listens(self) -> HandlerSlots:
        """The handler slots of its requests that listen for changes, which last and take no slots from others."""
        ...

    def has_room(self) -> bool:
        """Return True if a message may be queued now without waiting."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued.

        Raises:
            ConnectionLost: the connection was lost.
        """
        ...

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        """Queue a notification that belongs to no exchange. The caller has waited for room.

        Args:
            method: the method of the notification.
            params: its params as JSON.
        """
        ...

    def standalone_request(self, method: str, params: JsonObject) -> OutgoingRequest | None:
        """Return a request that belongs to no exchange: enter it to send it, leave it to end it.

        None if such a request would not reach the peer now: before the handshake is complete, after the connection was
        lost, while an HTTP client has no stream open for it, and always if there is no connection that lasts.

        Args:
            method: the method of the request.
            params: its params as JSON.
        """
        ...

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* with the reason when the connection is lost, or at once if it was lost already.

        It is called once, synchronously, and must not raise.
        """
        ...


class RequestWatch(Protocol):
    """A recipient of the outcome of one request: its span, or one of its measures. Only the first report counts."""

    def answered(self, outcome: JsonObject | McpError) -> None:
        """Take note that the request was answered."""
        ...

    def failed(self, kind: str, description: str | None = None) -> None:
        """Take note that the request has ended without an answer.

        Args:
            kind: ``"cancelled"`` or ``"connection_lost"``.
            description: a description for humans.
        """
        ...


class RequestObserver(Protocol):
    """An observer of all requests of a serving, which counts them or measures how long they take."""

    def begun(self, method: str, tool: Callable[[], str] | None, revision: str) -> RequestWatch:
        """Take note of a request that has arrived; return what is told how it ends.

        Args:
            method: the method, or ``"other"`` if the server does not know it.
            tool: returns, when the request has ended, the tool that it has called, or ``"other"`` if the caller sees no
                such tool; None if it calls none. A forwarder may not know its tools before.
            revision: the protocol revision.
        """
        ...


class ServingStatistics(Protocol):
    """The numbers of a serving that observers show."""

    @property
    def running(self) -> int:
        """Handlers that have started and not ended."""
        ...

    @property
    def parked(self) -> int:
        """Running handlers that wait for answers while no request waits for them."""
        ...

    @property
    def listening(self) -> int:
        """Listeners for changes."""
        ...


@runtime_checkable
class ObservableServing(Protocol):
    """A serving whose requests can be observed. A serving of another author need not be one."""

    def observe(self, observer: RequestObserver) -> None:
        """Tell *observer* of every request from now on; synchronous."""
        ...

    def statistics(self) -> ServingStatistics:
        """Return a snapshot of what the serving holds."""
        ...


_numbers = count(1)


@frozen(kw_only=True)
class Arrival:
    """The beginning of a connection, for `Server.snapshot`."""

    transport: str
    """The kind of the transport."""
    lasts: bool
    """False if the peer is only known by its requests, so that there is no connection without one."""
    number: int = field(factory=lambda: next(_numbers), init=False)
    """The number of the connection in this process."""
    since: float = field(factory=time.perf_counter, init=False)
    """The time at which it began, as `time.perf_counter` counts."""


def note_arrival(serving: object, peer: Peer, transport: str, *, lasts: bool = True) -> None:
    """Note a new connection in the `arrivals` of a serving; a serving of another author need not have any."""
    arrivals: Any = getattr(serving, "arrivals", None)
    if arrivals is not None:
        arrivals[peer] = Arrival(transport=transport, lasts=lasts)
