"""Proof that who redeems an authorization code is who asked for it (PKCE), by the method S256 alone.

Specification: https://www.rfc-editor.org/rfc/rfc7636
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode

from attrs import field, frozen

from .._errors import AuthorizationFailed
from ._metadata import Place
from ._shown import shown_text

__all__ = ["Pkce", "check_pkce"]

_RANDOM_BYTES = 48  # 64 characters; the specification wants 43 to 128 of them


@frozen(kw_only=True)
class Pkce:
    """A secret of one authorization, and what may be seen of it on the way."""

    verifier: str = field(repr=False)
    challenge: str

    @classmethod
    def of(cls, verifier: str) -> Pkce:
        """Return the pair of a given secret."""
        digest = hashlib.sha256(verifier.encode("ascii")).digest()
        return cls(verifier=verifier, challenge=urlsafe_b64encode(digest).decode("ascii").rstrip("="))

    @classmethod
    def make(cls) -> Pkce:
        """Return a pair that nobody can guess."""
        return cls.of(secrets.token_urlsafe(_RANDOM_BYTES))


def check_pkce(place: Place) -> None:
    """Refuse an authorization server that does not say that it knows S256.

    A server of 2025-03-26, which nothing but its address leads to, need not say so: PKCE is used there all the same.

    Raises:
        AuthorizationFailed: a stolen code could be redeemed by the thief.
    """
    methods = place.server.code_challenge_methods_supported
    if methods is None and (place.resource is None or place.server.is_assumed):
        return
    if "S256" not in (methods or ()):
        raise AuthorizationFailed(
            f"{shown_text(place.server.issuer)} does not say that it supports PKCE with S256 "
            "(code_challenge_methods_supported); without it, authorization codes are not safe"
        )
