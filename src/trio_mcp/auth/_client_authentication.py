"""How a client proves at a token endpoint that it is the one that was registered.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration,
https://www.rfc-editor.org/rfc/rfc6749#section-2.3 and https://www.rfc-editor.org/rfc/rfc7523#section-2.2
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from attrs import field, frozen

from .._errors import AuthorizationFailed
from ._metadata import ServerMetadata
from ._shown import shown_text
from ._tokens import AuthMethod, PrivateKey, Registration

__all__ = ["ASSERTION_TYPE", "Authenticated", "authenticate"]

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_ASSERTION_SECONDS = 60  # that an assertion holds: it is made for one request
_KEY_TYPES: Mapping[str, Literal["EC", "OKP", "RSA"]] = {
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("PS256", "PS384", "PS512", "RS256", "RS384", "RS512"), "RSA"),
    "Ed25519": "OKP",
}
"""What kind of key an algorithm signs with. None is symmetric: an authorization server has only the public half."""


@frozen(kw_only=True)
class Authenticated:
    """What a token request carries besides what it asks for."""

    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """By lower-case name."""
    form: Mapping[str, str] = field(factory=dict[str, str], repr=False)


def authenticate(registration: Registration, server: ServerMetadata, now: float) -> Authenticated:
    """Return what proves a client at the token endpoint of *server*, made for one request.

    Args:
        registration: how the client is known there.
        server: which lists the ways that it takes.
        now: the time, as `time.time` counts.

    Raises:
        AuthorizationFailed: the registration says how, but lacks the secret or the key for that, or its key is unfit.
    """
    client_id, secret, key = registration.client_id, registration.secret, registration.private_key
    method = registration.method or _choose(registration, server.token_endpoint_auth_methods_supported)
    if method == "none":
        return Authenticated(form={"client_id": client_id})
    if method == "private_key_jwt" and key is not None:
        assertion = _assertion(client_id, key, server.issuer, now)
        return Authenticated(form={"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion})
    if method == "client_secret_basic" and secret is not None:
        # A blank as %20, and the name once more in the form: there are servers that do not read "+", or that look for
        # the name there first. Both are allowed, and no other server minds.
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
        shown = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return Authenticated(headers=shown, form={"client_id": client_id})
    if method == "client_secret_post" and secret is not None:
        return Authenticated(form={"client_id": client_id, "client_secret": secret})
    lacking = "private key" if method == "private_key_jwt" else "secret"
    raise AuthorizationFailed(
        f"the client {shown_text(client_id)!r} is to authenticate with {shown_text(method)}, but has no {lacking}"
    )


def _choose(registration: Registration, listed: Sequence[str] | None) -> AuthMethod:
    """Return the first way of those that are listed for which the client has what it takes, or else its most usual."""
    able: list[AuthMethod] = []
    if registration.private_key is not None:
        able.append("private_key_jwt")
    if registration.secret is not None:
        able.extend(("client_secret_basic", "client_secret_post"))
    liked = sorted(set(able) & set(listed or ()), key=(listed or ()).index)
    if liked:
        return liked[0]
    if not able or (registration.private_key is None and listed is not None and "none" in listed):
        return "none"
    return able[0]


def _assertion(client_id: str, key: PrivateKey, audience: str, now: float) -> str:
    """Return the signed statement of a client that it is itself, for one authorization server."""
    issued_at = int(now)
    claims: dict[str, Any] = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": secrets.token_urlsafe(18),
        "iat": issued_at,
        "exp": issued_at + _ASSERTION_SECONDS,
    }
    signed = _sign(claims, key)
    if signed is None:
        raise AuthorizationFailed(
            f"the private key of the client {shown_text(client_id)!r} cannot sign with {shown_text(key.algorithm)}: "
            f"a key in PEM, without password, is needed, and one of the algorithms {', '.join(_KEY_TYPES)} that fits it"
        )
    return signed


def _sign(claims: dict[str, Any], key: PrivateKey) -> str | None:
    """Return claims with a signature; None where the key cannot make one."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 # heavy
    from joserfc import jwt  # noqa: PLC0415 # heavy
    from joserfc.errors import JoseError  # noqa: PLC0415 # heavy
    from joserfc.jwk import import_key  # noqa: PLC0415 # heavy

    header = {"alg": key.algorithm, "typ": "JWT", **({} if key.key_id is None else {"kid": key.key_id})}
    try:
        signing = import_key(key.pem, _KEY_TYPES[key.algorithm])
        return jwt.encode(header, claims, signing, algorithms=[key.algorithm])
    except (JoseError, UnsupportedAlgorithm, LookupError, ValueError, TypeError):  # LookupError: a strange name
        return None
