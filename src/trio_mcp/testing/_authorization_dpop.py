"""How the development authorization server checks that a client has the key that its tokens are to be bound to.

Specification: https://www.rfc-editor.org/rfc/rfc9449#section-4.3
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from joserfc.jws import extract_compact

from ..wire import is_object
from ._authorization_clients import keep
from ._authorization_http import OAuthError
from ._authorization_keys import Jwt, read_jwt
from ._authorization_options import Settings

__all__ = ["ProofCheck"]

_LEEWAY_SECONDS = 300.0
_MAX_PROOFS = 10_000


@define(eq=False)
class ProofCheck:
    """Checks the proofs of possession that come with requests for tokens."""

    _settings: Settings
    nonce: str = field(factory=lambda: secrets.token_urlsafe(16), init=False)
    """The one that proofs have to carry, where they have to carry one."""
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)

    def renew_nonce(self) -> None:
        """Refuse proofs with the nonce of before."""
        self.nonce = secrets.token_urlsafe(16)

    def check(self, proof: str | None) -> str | None:
        """Return the thumbprint of the key that a request shows to have; None where it shows none.

        Raises:
            OAuthError: the proof does not hold, or is missing.
        """
        if self._settings.dpop == "off" or (proof is None and self._settings.dpop == "allowed"):
            return None
        read = None if proof is None else _read(proof)
        if read is None or not self._holds(read[0]):
            raise OAuthError("invalid_dpop_proof", "the DPoP field is missing, or its proof does not hold")
        decoded, thumbprint = read
        if self._settings.dpop_nonces and decoded.claims.get("nonce") != self.nonce:
            raise OAuthError("use_dpop_nonce", "the proof needs a nonce of this server", headers=self.fields)
        return thumbprint

    @property
    def fields(self) -> Mapping[str, str]:
        """The header field that gives a nonce to a client."""
        return {"dpop-nonce": self.nonce} if self._settings.dpop_nonces else {}

    def _holds(self, proof: Jwt) -> bool:
        claims, number = proof.claims, proof.claims.get("jti")
        issued, target = claims.get("iat"), claims.get("htu")
        if proof.header.get("typ") != "dpop+jwt" or claims.get("htm") != "POST" or not isinstance(target, str):
            return False
        if not _is_same_place(target, self._settings.place("/token")):
            return False
        if not isinstance(issued, int | float) or not _is_near(issued, self._settings.clock()):
            return False
        if not isinstance(number, str) or number in self._seen:
            return False
        keep(self._seen, number, None, _MAX_PROOFS)
        return True


def _read(proof: str) -> tuple[Jwt, str] | None:
    """Return what is in a proof that its own key has signed, and the thumbprint of that; None where it is none."""
    try:
        jwk = extract_compact(proof.encode()).headers().get("jwk")
        if not is_object(jwk) or "d" in jwk:
            return None
        key = ECKey.import_key(jwk)
    except (JoseError, ValueError, TypeError):
        return None
    decoded = read_jwt(proof, [key], ("ES256",))
    return None if decoded is None else (decoded, key.thumbprint())


def _is_near(issued: float, now: float) -> bool:
    return abs(issued - now) <= _LEEWAY_SECONDS  # which NaN is not


def _is_same_place(one: str, other: str) -> bool:
    try:
        first, second = urlsplit(one), urlsplit(other)
        ports = [each.port or {"http": 80, "https": 443}.get(each.scheme) for each in (first, second)]
    except ValueError:
        return False
    same_origin = first.scheme == second.scheme and first.hostname == second.hostname and ports[0] == ports[1]
    return same_origin and first.path == second.path
