"""The keys and signed tokens of the authorization server: making, reading and checking them.

Specification: https://www.rfc-editor.org/rfc/rfc7519
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

from ...wire import Undecodable, decode, is_array, is_object

__all__ = ["ALGORITHMS", "Jwt", "SigningKeys", "is_for", "read_jwt", "read_keys", "unverified_claims"]


Jwt = jwt.Token


ALGORITHMS = ("ES256", "RS256")
"""The accepted algorithms of signatures."""


_MAX_JWT_CHARACTERS = 16 * 1024


_MAX_KEYS = 20


_LEEWAY_SECONDS = 60.0


@define(eq=False)
class SigningKeys:
    """The keys that sign tokens. The newest one is used."""

    _keys: list[ECKey] = field(factory=lambda: [ECKey.generate_key("P-256", private=True)], init=False, repr=False)

    def rotate(self, *, keep: bool) -> None:
        """Use another key from now on.

        Args:
            keep: True to still publish the earlier keys.
        """
        self._keys = [ECKey.generate_key("P-256", private=True), *(self._keys if keep else ())]

    def sign(self, claims: Mapping[str, Any], *, typ: str, **header: Any) -> str:
        """Return a signed JWT."""
        newest = self._keys[0]
        return jwt.encode({"alg": "ES256", "typ": typ, "kid": newest.thumbprint(), **header}, dict(claims), newest)

    def public(self) -> dict[str, Any]:
        """Return the public keys, as a JWK set."""
        own = {"alg": "ES256", "use": "sig"}
        return {"keys": [{**each.as_dict(private=False), "kid": each.thumbprint(), **own} for each in self._keys]}

    def read(self, token: str) -> Jwt | None:
        """Parse a token of this server; return None if it is not one."""
        return read_jwt(token, self._keys, ("ES256",))


def read_keys(keys: Mapping[str, Any] | str) -> list[Key]:
    """Return the public keys of a JWK set, a JWK or PEM.

    Raises:
        ValueError: it contains anything else.
    """
    try:
        if isinstance(keys, str):
            return [_pem(keys)]
        each = cast("list[dict[str, Any]]", keys["keys"]) if "keys" in keys else [dict(keys)]
        read = [JWKRegistry.import_key(key) for key in each[:_MAX_KEYS]]
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        read = []
    if not read:
        raise ValueError("the value contains no public keys; pass a JWK set, a JWK or PEM")
    return read


def _pem(text: str) -> Key:
    try:
        return ECKey.import_key(text)
    except JoseError:  # it has another type
        return RSAKey.import_key(text)


def read_jwt(token: str, keys: Iterable[Key], algorithms: Collection[str] = ALGORITHMS) -> Jwt | None:
    """Parse a JWT, and check its signature with the keys; return None if this fails. Claims are not checked."""
    if len(token) > _MAX_JWT_CHARACTERS:
        return None
    for key in keys:
        with suppress(JoseError, ValueError, TypeError, RecursionError):
            return jwt.decode(token, key, algorithms=[*algorithms])
    return None


def unverified_claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a JWT without any check; empty if it is malformed."""
    try:
        claims = decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    except (IndexError, ValueError, Undecodable):
        return {}
    return claims if is_object(claims) else {}


def is_for(claims: Mapping[str, Any], audiences: Collection[str], now: float) -> bool:
    """Return True if the claims name one of the audiences, and have not expired."""
    audience, expires_at = claims.get("aud"), claims.get("exp")
    named: list[Any] = audience if is_array(audience) else [audience]
    return (
        any(each in audiences for each in named)
        and isinstance(expires_at, int | float)
        and expires_at + _LEEWAY_SECONDS > now
    )
