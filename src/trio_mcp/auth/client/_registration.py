"""Client registration: the identity of a client at an authorization server that it signs users in at.

The sources, in this order: a manual registration, a client ID metadata document (CIMD), a stored registration, a new
dynamic registration (RFC 7591). The protocol deprecates the last one, but some servers support nothing else. Rules of
this file:

1. A registration belongs to one issuer, and is never sent to another one.
2. A dynamic registration also belongs to one server and account, like the tokens that it obtains. A new registration
   therefore does not make refresh tokens of other accounts useless; and tokens of the same account record the
   registration that obtained them.
3. A stored registration may be old, of another version of this package, or damaged.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import evolve, field, frozen

from ..._errors import AuthorizationFailed
from ...wire import JsonObject, decode, encode, is_object
from .._urls import is_local_host, read_url, resource_of, shown_text, shown_url
from ._discovery import ServerMetadata, TokenIssuer
from ._steps import CallFailed, Flow, HttpCall, Load, PickRedirect, Swap, call, now
from ._token_endpoint import AuthMethod, Registration, json_object_of, refusal_of

__all__ = [
    "ApplicationType",
    "ClientProfile",
    "StoredRegistration",
    "UsableRegistration",
    "application_type_of",
    "check_issuer",
    "check_metadata_url",
    "check_redirect_uri",
    "ensure_registration",
    "find_registration",
    "forget_registration",
    "method_named",
    "optional_string",
    "optional_time",
    "read_stored",
    "register_now",
]


_MAX_TIME = 1e12  # as `time.time` counts: a later time means never, and may not fit into a float


def register_now(token_issuer: TokenIssuer, introduction: dict[str, Any]) -> Flow[Registration]:
    """Register a client at an authorization server, with the metadata of `ClientProfile.introduction`.

    Raises:
        AuthorizationFailed: the server does not support this, or refused.
    """
    server = token_issuer.server
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise AuthorizationFailed(
            f"{shown_text(server.issuer)} does not support dynamic registration; register this client manually, "
            "and pass client=Registration('its client id')"
            + (" or client_metadata_url=" if server.client_id_metadata_document_supported else "")
        )
    step = f"the registration at {shown_url(endpoint)}"
    headers = {"accept": "application/json", "content-type": "application/json"}
    request = HttpCall(method="POST", url=endpoint, headers=headers, body=encode(introduction), named_by="server")
    try:
        reply = yield from call(request)
    except CallFailed as failure:
        raise AuthorizationFailed(f"{step} failed: {failure}") from failure
    if reply.status not in {200, 201}:
        raise refusal_of(step, reply)
    members = json_object_of(reply)
    if members is None:
        raise AuthorizationFailed(f"{step} failed: the response is not a JSON object")
    try:
        return _read_answer(members, introduction, token_issuer)
    except ValueError as fault:
        raise AuthorizationFailed(f"{step} returned an invalid registration: {fault}") from None


def _read_answer(members: JsonObject, introduction: dict[str, Any], token_issuer: TokenIssuer) -> Registration:
    """Read a registration response; raises `ValueError`."""
    asked: AuthMethod = introduction["token_endpoint_auth_method"]
    secret = optional_string(members, "client_secret")
    method = method_named(members.get("token_endpoint_auth_method"))
    if method is None:  # the server did not say, so it means the requested method, if possible
        listed = token_issuer.server.token_endpoint_auth_methods_supported or ()
        method = asked if secret is None or asked in listed else None
    if secret is None and method in {"client_secret_basic", "client_secret_post"}:
        raise ValueError(f"the authentication method is {method}, but client_secret is missing")
    client_id = optional_string(members, "client_id")
    if client_id is None:
        raise ValueError("client_id is missing")
    return Registration(
        client_id,
        secret=secret,
        method=method,
        issuer=token_issuer.server.issuer,
        redirect_uri=introduction["redirect_uris"][0],
        secret_expires_at=optional_time(members, "client_secret_expires_at") or None,  # 0 means never
    )


def method_named(name: object) -> AuthMethod | None:
    """Return the method by which a registered client authenticates without a private key; None for None.

    Raises:
        ValueError: there is no such method.
    """
    if name is None:
        return None
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if name == method:
            return method
    raise ValueError(f"the authentication method {shown_text(str(name))!r} is not supported")


def optional_string(members: JsonObject, name: str) -> str | None:
    """Return a string, None if it is empty or missing; raises `ValueError` for any other type."""
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value or None


def optional_time(members: JsonObject, name: str) -> float | None:
    """Return a time, as `time.time` counts, None if it is missing; raises `ValueError` if it is not a number."""
    value = members.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{name} is not a number")
    return None if value is None else float(min(max(value, 0), _MAX_TIME))


_log = logging.getLogger("trio_mcp.auth")


@frozen
class StoredRegistration:
    """A registration in the storage."""

    registration: Registration
    scopes: tuple[str, ...] | None
    """The scopes that the client was registered with; None if the server chose them."""

    def fits(self, redirect_uri: str, scopes: tuple[str, ...] | None, time: float) -> bool:
        """Return True if the registration is still valid for *redirect_uri* and *scopes*."""
        ends = self.registration.secret_expires_at
        is_enough = self.scopes is None or set(scopes or ()) <= set(self.scopes)
        return self.registration.redirect_uri == redirect_uri and is_enough and (ends is None or time < ends)

    def to_json(self) -> str:
        """Return the string for the storage. It contains a secret."""
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
    """Read the string of `StoredRegistration.to_json`; return None if it is invalid, or of another issuer.

    Args:
        text: the string in the storage; None if there is none.
        issuer: the expected issuer.
    """
    if text is None:
        return None
    try:
        return _read(text, issuer)
    except ValueError:
        _log.warning("the stored registration at %s is invalid; it is ignored", shown_text(issuer))
        return None


def _read(text: str, issuer: str) -> StoredRegistration:
    members = decode(text.encode())
    if not is_object(members) or members.get("issuer") != issuer:
        raise ValueError("not a registration at this issuer")
    client_id, redirect_uri = optional_string(members, "client_id"), optional_string(members, "redirect_uri")
    if client_id is None or redirect_uri is None:
        raise ValueError("client_id or redirect_uri is missing")
    scope = members.get("scope")
    registration = Registration(
        client_id,
        secret=optional_string(members, "client_secret"),
        method=method_named(members.get("token_endpoint_auth_method")),
        issuer=issuer,
        redirect_uri=redirect_uri,
        secret_expires_at=optional_time(members, "client_secret_expires_at"),
    )
    return StoredRegistration(registration, None if scope is None else tuple(str(scope).split()))


ApplicationType: TypeAlias = Literal["native", "web"]


@frozen(kw_only=True)
class ClientProfile:
    """The description of a client. Only the registration in it contains a secret."""

    identity: str
    """A name that distinguishes it from others in one storage."""
    account: str
    registration: Registration | None
    """The manual registration."""
    metadata_url: str | None
    """The URL of the client ID metadata document, which is the client's id at servers that support such documents."""
    redirect_uri: str | None
    """The required redirect URI; None means any one of this machine."""
    issuers_with_pkce: Sequence[str] = ()
    """The issuers that support PKCE without announcing it."""
    parameters: Mapping[str, str] = field(factory=dict[str, str])
    """Further parameters of the authorization request."""
    names: dict[str, Any] = field(factory=dict[str, Any])
    """The members of a registration that users see, such as `client_name`."""

    def document(self, redirect_uri: str) -> dict[str, Any]:
        """Return the content of the document at `metadata_url`."""
        return {
            "client_id": self.metadata_url,
            **self.names,
            "redirect_uris": [redirect_uri],
            "application_type": application_type_of(redirect_uri),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    def introduction(
        self, server: ServerMetadata, redirect_uri: str, scopes: tuple[str, ...] | None, *, dpop: bool
    ) -> dict[str, Any]:
        """Return the metadata for a dynamic registration (RFC 7591)."""
        kind = application_type_of(redirect_uri)
        grants = ["authorization_code", "refresh_token"]
        if server.grant_types_supported is not None and "refresh_token" not in server.grant_types_supported:
            grants.remove("refresh_token")  # some servers refuse a client that requests it
        return {
            **self.names,
            "redirect_uris": [redirect_uri],
            "application_type": kind,
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": _method(kind, server),
            **({"scope": " ".join(scopes)} if scopes else {}),
            **({"dpop_bound_access_tokens": True} if dpop else {}),
        }


def _method(kind: ApplicationType, server: ServerMetadata) -> AuthMethod:
    """Choose the authentication method: a native application cannot keep a secret, so it prefers none.

    If the server supports none of the methods, the request reports it.
    """
    methods: list[AuthMethod] = ["none", "client_secret_basic", "client_secret_post"]
    if kind == "web":
        methods = ["client_secret_basic", "client_secret_post", "none"]
    listed = server.token_endpoint_auth_methods_supported
    fit: list[AuthMethod] = methods if listed is None else [method for method in methods if listed.count(method)]
    return (fit or methods)[0]


def application_type_of(redirect_uri: str) -> ApplicationType:
    """Return the type of the application behind a redirect URI."""
    url = read_url(redirect_uri)
    return "native" if url is not None and is_local_host(url.host) else "web"


def check_redirect_uri(uri: str) -> None:
    """Check a redirect URI.

    Raises:
        ValueError: it is neither an https URL nor an http URL of this machine, which MCP requires; or it has a
            fragment.
    """
    url = read_url(uri)
    is_plain = url is not None and url.user is None and url.fragment is None
    if url is None or not is_plain or not (url.scheme == "https" or is_local_host(url.host)):
        raise ValueError(f"redirect_uri={uri!r}: pass an https URL, or an http URL of this machine, without a fragment")


def check_metadata_url(text: str) -> None:
    """Check the URL of a client ID metadata document.

    Raises:
        ValueError: it is not an https URL with a path, or has a user name or a fragment.
    """
    url = read_url(text)
    is_plain = url is not None and url.user is None and url.fragment is None
    if url is None or not is_plain or url.scheme != "https" or url.path in {"", "/"}:
        raise ValueError(f"client_metadata_url={text!r}: pass an https URL with a path, and without a fragment")


_TRIES = 4  # attempts to replace a registration that another process keeps changing


@frozen(kw_only=True)
class UsableRegistration:
    """A registration that can be used now, and its place in the storage."""

    registration: Registration
    key: str | None = None
    """The key in the storage; None if it is not stored."""
    text: str | None = field(default=None, repr=False)
    """The string in the storage. It contains a secret."""
    is_new: bool = False
    """True if it was made just now."""

    @property
    def redirect_uri(self) -> str:
        """The redirect URI."""
        assert self.registration.redirect_uri is not None
        return self.registration.redirect_uri


def check_issuer(issuer: str | None, token_issuer: TokenIssuer, what: str) -> None:
    """Refuse to send credentials of one authorization server to another one.

    Args:
        issuer: the server that the credentials belong to; None means any.
        token_issuer: the server that would receive them.
        what: the name of the credentials, as the subject of a sentence.

    Raises:
        AuthorizationFailed: the MCP server names another authorization server than the user.
    """
    if issuer is not None and issuer != token_issuer.server.issuer:
        raise AuthorizationFailed(
            f"{what} is for {shown_text(issuer)}, but {shown_url(token_issuer.url)} requires tokens of "
            f"{shown_text(token_issuer.server.issuer)}"
        )


def find_registration(
    token_issuer: TokenIssuer, profile: ClientProfile, earlier: Registration | None = None
) -> Flow[UsableRegistration | None]:
    """Return the existing registration of a client; None if there is none.

    Args:
        token_issuer: the authorization server.
        profile: the description of the client.
        earlier: the registration that obtained the tokens to refresh, although another one may be stored now.

    Raises:
        AuthorizationFailed: the client is registered at another authorization server.
    """
    given = _configured_registration(token_issuer, profile) if earlier is None else None
    if given is not None:
        return UsableRegistration(registration=given)
    key = _key(token_issuer, profile)
    text: str | None = yield Load(key)
    stored = read_stored(text, token_issuer.server.issuer)
    if earlier is not None and (stored is None or stored.registration != earlier):
        return UsableRegistration(registration=earlier)
    return None if stored is None else UsableRegistration(registration=stored.registration, key=key, text=text)


def ensure_registration(
    token_issuer: TokenIssuer, profile: ClientProfile, scopes: tuple[str, ...] | None, *, dpop: bool
) -> Flow[UsableRegistration]:
    """Return the registration of a client, a new one if necessary, with a redirect URI that is ready.

    Args:
        token_issuer: the authorization server.
        profile: the description of the client.
        scopes: the scopes that will be requested.
        dpop: True if the tokens will be bound to a key.

    Raises:
        AuthorizationFailed: the client is registered at another server, or the registration failed.
    """
    given = _configured_registration(token_issuer, profile)
    if given is not None:
        redirect_uri: str = yield PickRedirect(profile.redirect_uri or given.redirect_uri)
        return UsableRegistration(registration=evolve(given, redirect_uri=redirect_uri))
    key = _key(token_issuer, profile)
    text: str | None = yield Load(key)
    stored = read_stored(text, token_issuer.server.issuer)
    earlier = None if stored is None else stored.registration.redirect_uri
    redirect_uri = yield PickRedirect(profile.redirect_uri or earlier)
    time = yield from now()
    if stored is not None and stored.fits(redirect_uri, scopes, time):
        return UsableRegistration(registration=stored.registration, key=key, text=text)
    wanted = _scopes_to_register(token_issuer, scopes)
    fresh = yield from register_now(
        token_issuer, profile.introduction(token_issuer.server, redirect_uri, wanted, dpop=dpop)
    )
    written = StoredRegistration(fresh, wanted).to_json()
    for _ in range(_TRIES):
        if (yield Swap(key, text, written)):
            return UsableRegistration(registration=fresh, key=key, text=written, is_new=True)
        text = yield Load(key)
        stored = read_stored(text, token_issuer.server.issuer)
        if stored is not None and stored.fits(redirect_uri, scopes, time):
            return UsableRegistration(registration=stored.registration, key=key, text=text)
    raise AuthorizationFailed(
        f"the registration at {shown_text(token_issuer.server.issuer)} could not be stored: the value keeps changing"
    )


def forget_registration(registered: UsableRegistration) -> Flow[None]:
    """Delete a registration that the authorization server does not know any more, so that a new one is made."""
    if registered.key is not None:
        _log.info("the registration of client %s is deleted", shown_text(registered.registration.client_id))
        yield Swap(registered.key, registered.text, None)


def _configured_registration(token_issuer: TokenIssuer, profile: ClientProfile) -> Registration | None:
    """Return the registration that needs no storage."""
    if profile.registration is not None:
        check_issuer(profile.registration.issuer, token_issuer, f"the client {profile.registration.client_id!r}")
        return profile.registration
    if profile.metadata_url is not None and token_issuer.server.client_id_metadata_document_supported:
        return Registration(profile.metadata_url, method="none", issuer=token_issuer.server.issuer)
    return None


def _key(token_issuer: TokenIssuer, profile: ClientProfile) -> str:
    names = [
        token_issuer.server.issuer,
        token_issuer.identifier or resource_of(token_issuer.url),
        profile.identity,
        profile.account,
    ]
    return f"registration {encode(names).decode()}"


def _scopes_to_register(token_issuer: TokenIssuer, scopes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the scopes that the client may request later: some servers allow only the registered ones."""
    if scopes is None:
        return None
    later = (token_issuer.resource.scopes_supported or ()) if token_issuer.resource is not None else ()
    registered = set(later if token_issuer.server.scopes_supported is None else token_issuer.server.scopes_supported)
    return tuple(dict.fromkeys([*scopes, *(scope for scope in later if scope in registered)]))
