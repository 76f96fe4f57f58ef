"""On which terms a request is answered: the immutable facts that travel with an exchange."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from ..wire import JsonObject, RequestId, is_modern

__all__ = ["NO_HEADERS", "ExchangeContext"]

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


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
    principal: str | None = None
    """Who was authenticated; None where nobody was."""
    headers: Mapping[str, str] = NO_HEADERS
    """Header fields of the envelope, where the transport has any."""

    @property
    def modern(self) -> bool:
        """Whether this exchange carries its own envelope."""
        return is_modern(self.revision)
