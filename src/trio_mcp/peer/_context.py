"""On which terms a request is answered: the immutable facts that travel with an exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from .._errors import ConnectionLost
from ..wire import JsonObject, RequestId, is_modern

if TYPE_CHECKING:
    from ._handler_pool import HandlerSlots

__all__ = ["NO_HEADERS", "NO_ORIGIN", "Access", "Admission", "ExchangeContext", "MessageOrigin", "Peer"]

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@frozen
class Access:
    """Who was authenticated, and what they may do: what a token says, but never the token."""

    principal: str
    """Who it is, the same text each time; different for any two who may see different things. Whoever made the token
    says so of a user; before the id of an application that asks for itself there stands ``client``."""
    scopes: frozenset[str] = field(default=frozenset(), kw_only=True)
    """What was granted, in the words of the authorization server."""
    client_id: str | None = field(default=None, kw_only=True)
    """The application that asks on their behalf, where it is known."""
    expires_at: float | None = field(default=None, kw_only=True)
    """When it ends, as `time.time` counts; None where nothing says so."""
    claims: Mapping[str, Any] = field(factory=dict[str, Any], kw_only=True, repr=False)
    """Whatever else the token, or its introspection, says."""


@frozen
class MessageOrigin:
    """What is known of a message beside what it says itself: whatever carried it has found that out."""

    headers: Mapping[str, str] = NO_HEADERS
    """Header fields, by lower-case name, without those that are secrets; empty where there are none."""
    access: Access | None = None
    """Who was authenticated, and what they may do; None where nobody was."""


NO_ORIGIN = MessageOrigin()


@frozen(kw_only=True)
class ExchangeContext:
    """What is known about one request beside its method and params. Never changes, never outlives the request."""

    revision: str
    """The protocol revision of this exchange."""
    capabilities: JsonObject
    """What the other side declared, as it came."""
    peer_info: JsonObject | None
    """How the other side names itself; for display and debugging only."""
    meta: Mapping[str, Any]
    """The request's `_meta`, as it came; empty where there was none."""
    progress_token: RequestId | None
    """Where progress goes; None where none was asked for."""
    log_level: str | None
    """The least severe log level that the other side wants for this request; None for none at all."""
    access: Access | None = None
    """Who was authenticated, and what they may do; None where nobody was."""
    headers: Mapping[str, str] = NO_HEADERS
    """Header fields of the envelope, where the transport has any."""

    @property
    def principal(self) -> str | None:
        """Who was authenticated; None where nobody was."""
        return None if self.access is None else self.access.principal

    @property
    def modern(self) -> bool:
        """Whether this exchange carries its own envelope."""
        return is_modern(self.revision)


# On which terms the other side's messages are admitted: the one place that knows what a connection remembers.
#
# An engine asks its gate before it answers anything. What a gate remembers (a handshake's outcome) is the only state
# that outlives an exchange; a modern request brings everything along and leaves nothing behind.


class Admission(Protocol):
    """Decides for one connection what comes in, and as what."""

    @property
    def revision(self) -> str | None:
        """What a handshake has agreed on; None before, and where there is none."""
        ...

    @property
    def may_respond(self) -> bool:
        """Whether this side may send responses at all: a modern client must not."""
        ...

    @property
    def answers_unreadable(self) -> bool:
        """Whether this side answers what names no request: a client must not write what may be no message."""
        ...

    @property
    def batches(self) -> bool:
        """Whether the other side may send arrays of messages."""
        ...

    @property
    def omits_unknown_id(self) -> bool:
        """Whether an error for a request whose id could not be read goes without id, instead of with null."""
        ...

    @property
    def operating(self) -> bool:
        """Whether the other side takes what belongs to no exchange: unasked news, questions of ours."""
        ...

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the terms on which a request is answered.

        Raises:
            McpError: what to answer instead.
        """
        ...

    def responded(self, method: str, *, success: bool) -> None:
        """Take note that a request which was admitted has been answered."""
        ...

    def notified(self, method: str) -> None:
        """Take note of a notification of the other side."""
        ...


# The other end of a connection, as whoever answers its requests sees it: one object that every exchange of it carries.
#
# What is told through it belongs to no exchange; what belongs to one goes through `Exchange.notify`.


class Peer(Protocol):
    """Made by the transport, one for each connection."""

    @property
    def admission(self) -> Admission:
        """On which terms its requests are admitted."""
        ...

    @property
    def slots(self) -> HandlerSlots:
        """The room for running handlers that it has."""
        ...

    @property
    def listens(self) -> HandlerSlots:
        """The room for requests that listen for changes: they last, and take no room from those that do not."""
        ...

    def has_room(self) -> bool:
        """Whether a message may be queued now without waiting."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued.

        Raises:
            ConnectionLost: none ever will.
        """
        ...

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        """Queue a notification that belongs to no exchange; there must be room."""
        ...

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* with the reason when nothing will come from the other end any more, or now if that is so.

        It is called once, synchronously, and must not raise.
        """
        ...
