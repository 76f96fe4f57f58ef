"""Proofs that a client holds the key its tokens are bound to, one for each request (DPoP).

Specification: https://www.rfc-editor.org/rfc/rfc9449
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from attrs import define, field, frozen

from ..wire import Undecodable, decode, encode, is_object
from ._jws import encode_base64url
from ._urls import origin_of, read_url

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

__all__ = ["NONCE_FIELD", "PROOF_FIELD", "DpopKey", "Proofs"]

PROOF_FIELD = "dpop"
NONCE_FIELD = "dpop-nonce"

_ALGORITHM = "ES256"
_CURVE = "P-256"
_NONCE = re.compile(r"[!#-\[\]-~]{1,1024}")  # RFC 9449, 8.1; its length is our bound
_MOST_ORIGINS = 8  # whose nonces are kept; a token has to do with two


@frozen(slots=False, eq=False)
class DpopKey:
    """A private key of the curve P-256, and what it proves. Its thumbprint is all that may be shown of it."""

    _key: ECKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Make a new key."""
        from joserfc.jwk import ECKey  # noqa: PLC0415 # heavy

        return cls(ECKey.generate_key(_CURVE))

    @classmethod
    def from_jwk(cls, text: str) -> Self:
        """Return the key that `to_jwk` has written.

        Raises:
            ValueError: it is no private key of this curve; nothing of the text is in the message.
        """
        from joserfc.errors import JoseError  # noqa: PLC0415 # heavy
        from joserfc.jwk import ECKey  # noqa: PLC0415 # heavy

        try:
            members: Any = decode(text.encode())
            key = ECKey.import_key(members) if is_object(members) else None
        except (Undecodable, JoseError, LookupError, ValueError, TypeError):  # LookupError: a strange curve
            key = None
        if key is None or not key.is_private or key.curve_name != _CURVE:
            raise ValueError(f"not a private key of the curve {_CURVE}, as a JWK")
        return cls(key)

    def to_jwk(self) -> str:
        """Return the private key as a JSON Web Key, to be stored: a secret."""
        return encode(self._key.as_dict(private=True)).decode()

    @cached_property
    def thumbprint(self) -> str:
        """What tokens are bound to (RFC 7638, SHA-256): the same for the same key, and no secret."""
        return self._key.thumbprint()

    def proof(self, method: str, url: str, *, now: float, token: str | None = None, nonce: str | None = None) -> str:
        """Return a proof for one request; it holds for no other, and is never shown twice.

        Args:
            method: of HTTP, in capitals.
            url: where the request goes, absolute.
            now: the time, as `time.time` counts.
            token: the access token that goes with the request, if one does.
            nonce: the newest that the server has asked for.

        Raises:
            ValueError: *url* is no http or https URL.
        """
        from joserfc import jwt  # noqa: PLC0415 # heavy

        parts = read_url(url)
        if parts is None:
            raise ValueError("a proof is about an http or https URL")
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(18),
            "htm": method,
            "htu": f"{parts.origin}{parts.path or '/'}",
            "iat": int(now),
        }
        if token is not None:
            claims["ath"] = encode_base64url(hashlib.sha256(token.encode()).digest())
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": _ALGORITHM, "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=[_ALGORITHM])


@define(eq=False)
class Proofs:
    """A key, and what the servers that see its proofs want in them: the newest nonce of each origin."""

    key: DpopKey
    nonces: dict[str, str] = field(factory=dict[str, str], init=False, repr=False)
    """By origin, the oldest first."""

    def note(self, url: str, headers: Mapping[str, str]) -> bool:
        """Take the nonce of a response, if it has one; return whether it is new, so that another proof may do better.

        Args:
            url: that was asked, of http or https.
            headers: of the response, by lower-case name. A nonce that is malformed or too long is none.
        """
        nonce, origin = headers.get(NONCE_FIELD), origin_of(url)
        if nonce is None or not _NONCE.fullmatch(nonce):
            return False
        is_new = self.nonces.pop(origin, None) != nonce
        self.nonces[origin] = nonce
        if len(self.nonces) > _MOST_ORIGINS:
            del self.nonces[next(iter(self.nonces))]
        return is_new

    def proof(self, method: str, url: str, *, now: float, token: str | None = None) -> str:
        """Return a proof for one request, with the newest nonce of its origin; see `DpopKey.proof`."""
        return self.key.proof(method, url, now=now, token=token, nonce=self.nonces.get(origin_of(url)))
