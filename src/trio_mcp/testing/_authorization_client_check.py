"""How the development authorization server makes sure which client it is that asks.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-2.3 and https://www.rfc-editor.org/rfc/rfc7523#section-2.2
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Any
from urllib.parse import unquote_plus

from attrs import define, field

from ..auth import AuthMethod
from ._authorization_clients import ClientRegistry, keep
from ._authorization_http import Asked, OAuthError
from ._authorization_keys import is_for, read_jwt, read_keys, unverified_claims
from ._authorization_options import KnownClient, Settings

__all__ = ["ClientCheck", "presents_credentials"]

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_ASSERTIONS = 10_000


def _refused(why: str, *, basic: bool = False) -> OAuthError:
    headers = {"www-authenticate": 'Basic realm="token"'} if basic else None
    return OAuthError("invalid_client", why, status=401, headers=headers)


@define(eq=False)
class ClientCheck:
    """Makes sure who asks at an endpoint for clients."""

    _settings: Settings
    _registry: ClientRegistry
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """Assertions, each of which holds once."""

    async def check(self, asked: Asked) -> KnownClient:
        """Return the client that has authenticated, or that is public.

        Raises:
            OAuthError: it has not, or in several ways, or not as it was registered.
        """
        if len(_ways(asked)) > 1:
            raise OAuthError("invalid_request", "a client authenticates in one way")
        basic = _basic(asked.headers.get("authorization"))
        if basic is not None:
            client = await self._with_secret("client_secret_basic", *basic)
        elif "client_secret" in asked.form:
            client = await self._with_secret(
                "client_secret_post", asked.form.get("client_id", ""), asked.form["client_secret"]
            )
        elif "client_assertion" in asked.form:
            client = await self._with_assertion(asked.form["client_assertion"], asked.form.get("client_assertion_type"))
        else:
            client = await self._without(asked.form.get("client_id", ""))
        if asked.form.get("client_id", client.client_id) != client.client_id:
            raise OAuthError("invalid_request", "client_id is that of another client")
        return client

    async def _with_secret(self, method: AuthMethod, client_id: str, secret: str) -> KnownClient:
        basic = method == "client_secret_basic"
        client = await self._find(client_id, method, basic=basic)
        if client.secret is None or not hmac.compare_digest(client.secret.encode(), secret.encode()):
            raise _refused("the secret is wrong", basic=basic)
        if client.secret_expires_at is not None and client.secret_expires_at <= self._settings.clock():
            raise _refused("the secret has ended", basic=basic)
        return client

    async def _without(self, client_id: str) -> KnownClient:
        client = await self._find(client_id, "none")
        if not client.is_public:
            raise _refused("the client has to authenticate")
        return client

    async def _with_assertion(self, assertion: str, kind: str | None) -> KnownClient:
        if kind != _ASSERTION_TYPE:
            raise OAuthError("invalid_request", f"client_assertion_type has to be {_ASSERTION_TYPE}")
        client = await self._find(str(unverified_claims(assertion).get("sub")), "private_key_jwt")
        decoded = None if client.keys is None else read_jwt(assertion, read_keys(client.keys))
        if decoded is None or not self._holds(decoded.claims, client.client_id):
            raise _refused("the assertion does not hold")
        return client

    def _holds(self, claims: dict[str, Any], client_id: str) -> bool:
        places = (self._settings.issuer, self._settings.place("/token"))
        if claims.get("iss") != client_id or not is_for(claims, places, self._settings.clock()):
            return False
        number = claims.get("jti")
        key = f"{client_id} {number}"
        if not isinstance(number, str) or key in self._seen:
            return False
        keep(self._seen, key, None, _MAX_ASSERTIONS)
        return True

    async def _find(self, client_id: str, method: AuthMethod, *, basic: bool = False) -> KnownClient:
        try:
            client = await self._registry.find(client_id)
        except OAuthError as error:
            raise _refused(error.description, basic=basic) from None
        if method not in self._settings.auth_methods or client.method not in {None, method}:
            raise _refused("the client is to authenticate in another way", basic=basic)
        return client


def presents_credentials(asked: Asked) -> bool:
    """Tell whether a client tries to authenticate."""
    return bool(_ways(asked))


def _ways(asked: Asked) -> set[str]:
    return {"client_secret", "client_assertion"} & {*asked.form} | {"authorization"} & {*asked.headers}


def _basic(value: str | None) -> tuple[str, str] | None:
    """Return name and secret out of a header field; None where it has none of that kind."""
    scheme, _, credentials = (value or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _refused("the Authorization field cannot be read", basic=True) from None
    client_id, _, secret = text.partition(":")
    return unquote_plus(client_id), unquote_plus(secret)
