"""JWTs of the development authorization server: its own key, and those of clients and issuers that it believes.

Specification: https://www.rfc-editor.org/rfc/rfc7519 and https://www.rfc-editor.org/rfc/rfc9068
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

from attrs import define, field
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, RSAKey

from ..wire import Undecodable, decode, is_array, is_object

__all__ = ["ALGORITHMS", "Jwt", "SigningKeys", "is_for", "read_jwt", "read_keys", "unverified_claims"]

Jwt = jwt.Token
ALGORITHMS = ("ES256", "RS256")
"""Of signatures that are taken from others."""
_MAX_JWT_CHARACTERS = 16 * 1024
_MAX_KEYS = 20
_LEEWAY_SECONDS = 60.0


@define(eq=False)
class SigningKeys:
    """The keys with which tokens are signed. The newest signs."""

    _keys: list[ECKey] = field(factory=lambda: [ECKey.generate_key("P-256", private=True)], init=False, repr=False)

    def rotate(self, *, keep: bool) -> None:
        """Sign with another key from now on.

        Args:
            keep: whether the public halves of the earlier ones are shown still.
        """
        self._keys = [ECKey.generate_key("P-256", private=True), *(self._keys if keep else ())]

    def sign(self, claims: Mapping[str, Any], *, typ: str, **header: Any) -> str:
        """Return a JWT."""
        newest = self._keys[0]
        return jwt.encode({"alg": "ES256", "typ": typ, "kid": newest.thumbprint(), **header}, dict(claims), newest)

    def public(self) -> dict[str, Any]:
        """Return the public halves, a JWK set."""
        own = {"alg": "ES256", "use": "sig"}
        return {"keys": [{**each.as_dict(private=False), "kid": each.thumbprint(), **own} for each in self._keys]}

    def read(self, token: str) -> Jwt | None:
        """Return what is in a token of our own; None where it is none."""
        return read_jwt(token, self._keys, ("ES256",))


def read_keys(keys: Mapping[str, Any] | str) -> list[Key]:
    """Return public keys out of a JWK set, a JWK or PEM.

    Raises:
        ValueError: something else is in it.
    """
    try:
        if isinstance(keys, str):
            return [_pem(keys)]
        each = cast("list[dict[str, Any]]", keys["keys"]) if "keys" in keys else [dict(keys)]
        read = [JWKRegistry.import_key(key) for key in each[:_MAX_KEYS]]
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        read = []
    if not read:
        raise ValueError("these are no public keys: a JWK set, a JWK or PEM")
    return read


def _pem(text: str) -> Key:
    try:
        return ECKey.import_key(text)
    except JoseError:  # it is of another kind
        return RSAKey.import_key(text)


def read_jwt(token: str, keys: Iterable[Key], algorithms: Collection[str] = ALGORITHMS) -> Jwt | None:
    """Return what is in a JWT that one of the keys has signed; None where it is none. No claim has been checked."""
    if len(token) > _MAX_JWT_CHARACTERS:
        return None
    for key in keys:
        with suppress(JoseError, ValueError, TypeError, RecursionError):
            return jwt.decode(token, key, algorithms=[*algorithms])
    return None


def unverified_claims(token: str) -> Mapping[str, Any]:
    """Return what stands in a JWT that nobody has checked; nothing where it is none."""
    try:
        claims = decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    except (IndexError, ValueError, Undecodable):
        return {}
    return claims if is_object(claims) else {}


def is_for(claims: Mapping[str, Any], audiences: Collection[str], now: float) -> bool:
    """Tell whether a JWT is meant for one of those, and has not ended."""
    audience, ends = claims.get("aud"), claims.get("exp")
    named: list[Any] = audience if is_array(audience) else [audience]
    return any(each in audiences for each in named) and isinstance(ends, int | float) and ends + _LEEWAY_SECONDS > now
