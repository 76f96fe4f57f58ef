"""The clients of the development authorization server: registration, metadata documents, and client authentication.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration,
https://www.rfc-editor.org/rfc/rfc8252, https://www.rfc-editor.org/rfc/rfc9700#section-4.1 and
https://www.rfc-editor.org/rfc/rfc6749#section-2.3
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, unquote_plus, urlsplit

from attrs import define, field, frozen

from ...auth import AuthMethod, CallFailed, HttpCall
from ...wire import Undecodable, decode, is_array, is_object
from ._http import EndpointRequest, OAuthError
from ._keys import is_for, read_jwt, read_keys, unverified_claims
from ._options import KnownClient, Settings

__all__ = [
    "THIS_MACHINE",
    "ClientCheck",
    "ClientRegistry",
    "check_redirect_uris",
    "is_registered",
    "presents_credentials",
    "put_bounded",
]


# --- Redirect URIs ---

THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER = frozenset({"javascript", "data", "vbscript", "file", "blob", "about"})
"""Schemes that run code, or show content of this machine."""


def check_redirect_uris(uris: Sequence[str], application_type: object) -> None:
    """Check the redirect URIs of a registration.

    Args:
        application_type: the type that the client states: ``"native"``, ``"web"``, or None.

    Raises:
        OAuthError: a URI is not allowed, or not for this type.
    """
    if application_type not in (None, "native", "web"):  # a tuple, because the value may be of any JSON type
        raise OAuthError("invalid_client_metadata", "application_type must be native or web")
    if not uris:
        raise OAuthError("invalid_redirect_uri", "redirect_uris are missing")
    for uri in uris:
        parts = _split(uri)
        if parts is None or not _may_be_used(parts):
            raise OAuthError(
                "invalid_redirect_uri",
                "a redirect URI must use https, http on a loopback host, or a private-use scheme",
            )
        if application_type == "web" and (parts.scheme != "https" or parts.hostname in THIS_MACHINE):
            raise OAuthError(
                "invalid_redirect_uri",
                "a redirect URI of a web application must use https and must not be on a loopback host",
            )


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        return None if parts.port == 0 or "#" in uri or not uri.isascii() or not uri.isprintable() else parts
    except ValueError:
        return None


def _may_be_used(parts: SplitResult) -> bool:
    if parts.username is not None or parts.password is not None:
        return False
    if parts.scheme in {"http", "https"}:
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in THIS_MACHINE)
    return bool(parts.scheme) and parts.scheme not in _NEVER


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Return True if *uri* is registered exactly; the port of an ``http`` URL of this machine is ignored."""
    return uri in registered or any(_is_same_but_for_port(uri, each) for each in registered)


def _is_same_but_for_port(one: str, other: str) -> bool:
    first, second = _split(one), _split(other)
    if first is None or second is None or first.scheme != "http" or first.hostname not in THIS_MACHINE:
        return False
    return (
        first.username is None
        and first._replace(netloc="") == second._replace(netloc="")
        and (first.hostname == second.hostname)
    )


_MAX_CLIENTS = 10_000
_MAX_DOCUMENTS = 1000
_DOCUMENT_SECONDS = 300.0
_GRANTS = ("authorization_code", "refresh_token", "client_credentials")


def put_bounded(kept: dict[str, Any], key: str, value: object, most: int) -> None:
    """Put a value into a dict, and drop the oldest entry if there are too many."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


@frozen
class _ClientDocument:
    client: KnownClient
    until: float


@define(eq=False)
class ClientRegistry:
    """The clients of an authorization server."""

    _settings: Settings
    _registered: dict[str, KnownClient] = field(factory=dict[str, KnownClient], init=False)
    """Dynamic registrations."""
    _documents: dict[str, _ClientDocument] = field(factory=dict[str, _ClientDocument], init=False)

    async def find(self, client_id: str) -> KnownClient:
        """Return a client; if its id is a URL, read its metadata document.

        Raises:
            OAuthError: the client is unknown.
        """
        for client in self._settings.clients:
            if client.client_id == client_id:
                return client
        if client_id in self._registered:
            return self._registered[client_id]
        if self._settings.fetch is not None and _is_document(client_id):
            return await self._documented(client_id)
        raise OAuthError("invalid_client", "the client is unknown", status=401)

    def forget_registered(self) -> None:
        """Delete all dynamic registrations, as a server may do."""
        self._registered.clear()

    def register(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client dynamically (RFC 7591); return the response.

        Raises:
            OAuthError: the registration is refused.
        """
        client = self._read(secrets.token_urlsafe(16), members, "client_secret_basic")
        put_bounded(self._registered, client.client_id, client, _MAX_CLIENTS)
        response = {
            "client_id": client.client_id,
            "client_id_issued_at": int(self._settings.clock()),
            "redirect_uris": [*client.redirect_uris],
            "grant_types": [*(client.grant_types or ())],
            "response_types": ["code"],
            "token_endpoint_auth_method": client.method,
            "client_name": client.name,
            **({"scope": members["scope"]} if "scope" in members else {}),
            **({"application_type": members["application_type"]} if "application_type" in members else {}),
        }
        if client.secret is not None:
            response |= {"client_secret": client.secret, "client_secret_expires_at": int(client.secret_expires_at or 0)}
        return response

    async def _documented(self, client_id: str) -> KnownClient:
        kept = self._documents.get(client_id)
        if kept is None or kept.until < self._settings.clock():
            client = await self._read_document(client_id)
            kept = _ClientDocument(client, self._settings.clock() + _DOCUMENT_SECONDS)
            put_bounded(self._documents, client_id, kept, _MAX_DOCUMENTS)
        return kept.client

    async def _read_document(self, client_id: str) -> KnownClient:
        members = await self._get_json(client_id)
        if members.get("client_id") != client_id:
            raise OAuthError(
                "invalid_client", "the client_id in the metadata document differs from its URL", status=401
            )
        if "client_secret" in members or not isinstance(members.get("client_name"), str):
            raise OAuthError(
                "invalid_client", "the metadata document must contain a client_name and no client_secret", status=401
            )
        if "jwks_uri" in members and isinstance(members["jwks_uri"], str):
            members = {**members, "jwks": await self._get_json(members["jwks_uri"])}
        client = self._read(client_id, members, "none")
        if client.secret is not None:
            raise OAuthError("invalid_client", "a client with a metadata document cannot use a secret", status=401)
        return client

    async def _get_json(self, url: str) -> Mapping[str, Any]:
        assert self._settings.fetch is not None
        headers = {"accept": "application/json"}
        try:
            reply = await self._settings.fetch(HttpCall(method="GET", url=url, headers=headers, named_by="server"))
            members = decode(reply.body) if reply.status == 200 else None
        except (CallFailed, Undecodable):
            members = None
        if not is_object(members):
            raise OAuthError("invalid_client", "the metadata document of the client cannot be read", status=401)
        return members

    def _read(self, client_id: str, members: Mapping[str, Any], usual: AuthMethod) -> KnownClient:
        """Create a client from its metadata.

        Raises:
            OAuthError: the metadata is not acceptable.
        """
        uris, grants = _strings(members, "redirect_uris"), _strings(members, "grant_types") or ["authorization_code"]
        method = members.get("token_endpoint_auth_method", usual)
        if method not in self._settings.auth_methods:
            raise _unacceptable(f"token_endpoint_auth_method must be one of {', '.join(self._settings.auth_methods)}")
        if not set(grants) <= set(_GRANTS):
            raise _unacceptable(f"grant_types must be among {', '.join(_GRANTS)}")
        if "authorization_code" in grants or uris:
            check_redirect_uris(uris, members.get("application_type"))
        keys = _keys(members) if method == "private_key_jwt" else None
        has_secret = method in {"client_secret_basic", "client_secret_post"}
        expires_at = self._settings.secret_seconds
        return KnownClient(
            client_id,
            name=str(members.get("client_name", "a client"))[:100],
            secret=secrets.token_urlsafe(32) if has_secret else None,
            keys=keys,
            method=method,
            redirect_uris=uris,
            grant_types=grants,
            secret_expires_at=self._settings.clock() + expires_at if has_secret and expires_at is not None else None,
        )


def _unacceptable(why: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", why)


def _keys(members: Mapping[str, Any]) -> Mapping[str, Any]:
    jwks = members.get("jwks")
    keys = jwks if is_object(jwks) else {}
    try:
        read_keys(keys)
    except ValueError:
        raise _unacceptable("private_key_jwt requires the public keys of the client in jwks") from None
    return keys


def _strings(members: Mapping[str, Any], name: str) -> Sequence[str]:
    value = members.get(name, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise _unacceptable(f"{name} must be a list of strings")
    return value


def _is_document(client_id: str) -> bool:
    """Return True if a client id is the URL of a metadata document."""
    try:
        parts = urlsplit(client_id)
    except ValueError:
        return False
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in THIS_MACHINE):
        return False
    return parts.path not in {"", "/"} and "@" not in parts.netloc and "#" not in client_id


# --- Client authentication ---

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_ASSERTIONS = 10_000


def _refused(why: str, *, basic: bool = False) -> OAuthError:
    headers = {"www-authenticate": 'Basic realm="token"'} if basic else None
    return OAuthError("invalid_client", why, status=401, headers=headers)


@define(eq=False)
class ClientCheck:
    """Authenticates clients."""

    _settings: Settings
    _registry: ClientRegistry
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """Used assertions, because each one is valid once."""

    async def check(self, request: EndpointRequest) -> KnownClient:
        """Return the authenticated or public client of a request.

        Raises:
            OAuthError: the authentication is missing, wrong, or ambiguous, or uses another method than the registered
                one.
        """
        if len(_methods_used(request)) > 1:
            raise OAuthError("invalid_request", "the client must use a single authentication method")
        basic = _basic(request.headers.get("authorization"))
        if basic is not None:
            client = await self._with_secret("client_secret_basic", *basic)
        elif "client_secret" in request.form:
            client = await self._with_secret(
                "client_secret_post", request.form.get("client_id", ""), request.form["client_secret"]
            )
        elif "client_assertion" in request.form:
            client = await self._with_assertion(
                request.form["client_assertion"], request.form.get("client_assertion_type")
            )
        else:
            client = await self._without(request.form.get("client_id", ""))
        if request.form.get("client_id", client.client_id) != client.client_id:
            raise OAuthError("invalid_request", "client_id does not match the authenticated client")
        return client

    async def _with_secret(self, method: AuthMethod, client_id: str, secret: str) -> KnownClient:
        basic = method == "client_secret_basic"
        client = await self._find(client_id, method, basic=basic)
        if client.secret is None or not hmac.compare_digest(client.secret.encode(), secret.encode()):
            raise _refused("the secret is wrong", basic=basic)
        if client.secret_expires_at is not None and client.secret_expires_at <= self._settings.clock():
            raise _refused("the secret has expired", basic=basic)
        return client

    async def _without(self, client_id: str) -> KnownClient:
        client = await self._find(client_id, "none")
        if not client.is_public:
            raise _refused("the client must authenticate")
        return client

    async def _with_assertion(self, assertion: str, kind: str | None) -> KnownClient:
        if kind != _ASSERTION_TYPE:
            raise OAuthError("invalid_request", f"client_assertion_type must be {_ASSERTION_TYPE}")
        client = await self._find(str(unverified_claims(assertion).get("sub")), "private_key_jwt")
        decoded = None if client.keys is None else read_jwt(assertion, read_keys(client.keys))
        if decoded is None or not self._holds(decoded.claims, client.client_id):
            raise _refused("the assertion is invalid")
        return client

    def _holds(self, claims: dict[str, Any], client_id: str) -> bool:
        places = (self._settings.issuer, self._settings.endpoint_url("/token"))
        if claims.get("iss") != client_id or not is_for(claims, places, self._settings.clock()):
            return False
        number = claims.get("jti")
        key = f"{client_id} {number}"
        if not isinstance(number, str) or key in self._seen:
            return False
        put_bounded(self._seen, key, None, _MAX_ASSERTIONS)
        return True

    async def _find(self, client_id: str, method: AuthMethod, *, basic: bool = False) -> KnownClient:
        try:
            client = await self._registry.find(client_id)
        except OAuthError as error:
            raise _refused(error.description, basic=basic) from None
        if method not in self._settings.auth_methods or client.method not in {None, method}:
            raise _refused("the client must use its registered authentication method", basic=basic)
        return client


def presents_credentials(request: EndpointRequest) -> bool:
    """Return True if a client tries to authenticate."""
    return bool(_methods_used(request))


def _methods_used(request: EndpointRequest) -> set[str]:
    return {"client_secret", "client_assertion"} & {*request.form} | {"authorization"} & {*request.headers}


def _basic(value: str | None) -> tuple[str, str] | None:
    """Return the client id and secret of a header field; None if it has another scheme."""
    scheme, _, credentials = (value or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _refused("the Authorization header cannot be read", basic=True) from None
    client_id, _, secret = text.partition(":")
    return unquote_plus(client_id), unquote_plus(secret)
