"""A registration as it stands in the storage, which may be old, of another version of this package, or damaged.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import logging

from attrs import frozen

from ..wire import decode, encode, is_object
from ._dynamic_registration import method_named, optional_text, optional_time
from ._shown import shown_text
from ._tokens import Registration

__all__ = ["StoredRegistration", "read_stored"]

_log = logging.getLogger("trio_mcp.auth")


@frozen
class StoredRegistration:
    """What the storage holds of a client."""

    registration: Registration
    scopes: tuple[str, ...] | None
    """What it may ask for; None where that was left to the server."""

    def fits(self, redirect_uri: str, scopes: tuple[str, ...] | None, time: float) -> bool:
        """Tell whether it will do once more, to come back to *redirect_uri* with *scopes*."""
        ends = self.registration.secret_expires_at
        is_enough = self.scopes is None or set(scopes or ()) <= set(self.scopes)
        return self.registration.redirect_uri == redirect_uri and is_enough and (ends is None or time < ends)

    def to_text(self) -> str:
        """Return what stands in the storage: a secret."""
        registration = self.registration
        members = {
            "client_id": registration.client_id,
            "client_secret": registration.secret,
            "token_endpoint_auth_method": registration.method,
            "issuer": registration.issuer,
            "redirect_uri": registration.redirect_uri,
            "client_secret_expires_at": registration.secret_expires_at,
            "scope": None if self.scopes is None else " ".join(self.scopes),
        }
        return encode(members).decode()


def read_stored(text: str | None, issuer: str) -> StoredRegistration | None:
    """Read what `StoredRegistration.to_text` has written; None where that is not what *text* is, or of another issuer.

    Args:
        text: of the storage, which may hold anything; None where it holds nothing.
        issuer: of whom it has to be.
    """
    if text is None:
        return None
    try:
        return _read(text, issuer)
    except ValueError:
        _log.warning("the stored registration at %s cannot be read: it counts as absent", shown_text(issuer))
        return None


def _read(text: str, issuer: str) -> StoredRegistration:
    members = decode(text.encode())
    if not is_object(members) or members.get("issuer") != issuer:
        raise ValueError("no registration at this issuer")
    client_id, redirect_uri = optional_text(members, "client_id"), optional_text(members, "redirect_uri")
    if client_id is None or redirect_uri is None:
        raise ValueError("no registration that can be used")
    scope = members.get("scope")
    registration = Registration(
        client_id,
        secret=optional_text(members, "client_secret"),
        method=method_named(members.get("token_endpoint_auth_method")),
        issuer=issuer,
        redirect_uri=redirect_uri,
        secret_expires_at=optional_time(members, "client_secret_expires_at"),
    )
    return StoredRegistration(registration, None if scope is None else tuple(str(scope).split()))
