"""What a verifier finds out about a token that a client shows, and how it says that it is none.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

__all__ = ["LEEWAY_SECONDS", "InvalidToken", "VerifiedToken", "VerifierUnavailable"]

LEEWAY_SECONDS = 60.0
"""For so long a token is good beyond its end, and before its beginning: clocks differ."""


class InvalidToken(Exception):
    """A token is not good. The text says why, for the log alone: it never crosses the wire."""


class VerifierUnavailable(Exception):
    """Whether a token is good cannot be told now: the authorization server is out of reach. For the log alone."""


@frozen(kw_only=True)
class VerifiedToken:
    """A token that was made by whom it says; nothing else has been checked. An `abc.TokenVerifier` returns it."""

    issuer: str
    """The authorization server that has issued it."""
    subject: str | None
    """Whom it speaks for, in the issuer's words; None where it says nothing of that."""
    client_id: str | None
    """The application that it was issued to; None where it says nothing of that. It needs a subject or this."""
    audiences: tuple[str, ...]
    """The servers that it is for, by their URLs or as `ResourceServer.audiences` has them."""
    scopes: frozenset[str]
    """What was granted."""
    expires_at: float | None
    """When it ends, as `time.time` counts; None: never, as far as anybody knows."""
    not_before: float | None = None
    """When it begins to hold, likewise; None: it does already."""
    key_thumbprint: str | None = None
    """Of the key that it is bound to (`cnf.jkt`); None where it is for its bearer."""
    claims: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    """All that it says, as JSON."""
