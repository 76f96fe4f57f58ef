"""On which terms a request is answered: the immutable facts that travel with an exchange."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from ..wire import JsonObject, RequestId, is_modern

__all__ = ["NO_ENVELOPE", "NO_HEADERS", "Access", "Envelope", "ExchangeContext"]

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
class Envelope:
    """What is known of a message beside what it says itself: whatever carried it has found that out."""

    headers: Mapping[str, str] = NO_HEADERS
    """Header fields, by lower-case name, without those that are secrets; empty where there are none."""
    access: Access | None = None
    """Who was authenticated, and what they may do; None where nobody was."""


NO_ENVELOPE = Envelope()


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
