"""The options of the development authorization server: clients, grants, keys and misbehaviour for tests.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization,
https://www.rfc-editor.org/rfc/rfc7519, https://www.rfc-editor.org/rfc/rfc9068, https://www.rfc-editor.org/rfc/rfc8414
and
https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict
from urllib.parse import urlsplit

from attrs import Attribute, define, field, frozen
from attrs.validators import deep_mapping, instance_of, optional

from ...abc import Fetch
from ...auth import AuthMethod
from ._keys import read_keys

__all__ = [
    "ID_JAG_TYPE",
    "JWT_BEARER",
    "TOKEN_EXCHANGE",
    "AccessAsk",
    "AuthorizationRequest",
    "AuthorizationServerOptions",
    "Endpoint",
    "KnownClient",
    "Settings",
]


Endpoint: TypeAlias = Literal["metadata", "jwks", "authorize", "decide", "token", "register", "introspect", "revoke"]
"""The endpoint of a request; ``"decide"`` is the form of the consent page."""


def _keys(_: object, __: Attribute[Any], value: Mapping[str, Any] | str) -> None:
    read_keys(value)


@frozen
class KnownClient:
    """A client of an authorization server.

    Args:
        client_id: the client's id.
        name: the client's name, for users.
        secret: the client's secret, if it has one.
        keys: the client's public keys for ``private_key_jwt``: a JWK set (`{"keys": [...]}`), a JWK or PEM.
        method: the only authentication method; None means any that the secret or keys allow, and none without them.
        redirect_uris: the registered redirect URIs. For ``http`` URLs of this machine, any port is accepted.
        grant_types: the allowed grant types; by default all.
        known_as: the client's ids at other authorization servers, by issuer, for ID-JAGs of this server; by default
            *client_id*.
        secret_expires_at: the expiry of the secret, as `time.time` counts; None means never.

    Raises:
        ValueError: *keys* contains anything but keys.
    """

    client_id: str
    name: str = field(default="a client", kw_only=True)
    secret: str | None = field(default=None, kw_only=True, repr=False)
    keys: Mapping[str, Any] | str | None = field(default=None, kw_only=True, repr=False, validator=optional(_keys))
    method: AuthMethod | None = field(default=None, kw_only=True)
    redirect_uris: Sequence[str] = field(default=(), kw_only=True)
    grant_types: Sequence[str] | None = field(default=None, kw_only=True)
    known_as: Mapping[str, str] = field(factory=dict[str, str], kw_only=True)
    secret_expires_at: float | None = field(default=None, kw_only=True)

    def may_use(self, grant_type: str) -> bool:
        """Return True if it may use *grant_type*, such as ``"authorization_code"``."""
        return self.grant_types is None or grant_type in self.grant_types

    @property
    def is_public(self) -> bool:
        """True if the client has no credentials."""
        return self.method == "none" if self.method else self.secret is None and self.keys is None


@frozen(kw_only=True)
class AccessAsk:
    """A request for access, which a policy decides about."""

    grant_type: str
    """The grant type in OAuth's terms, such as ``"authorization_code"``."""
    client_id: str
    """The id of the client that requests access."""
    subject: str
    """The user, or the client itself."""
    scopes: tuple[str, ...]
    """The requested scopes."""
    resource: str | None
    """The server that the access is for; None if the client does not name it."""


@frozen(kw_only=True)
class AuthorizationRequest:
    """A request to an authorization server, and its result."""

    endpoint: Endpoint
    """The endpoint that received the request."""
    parameters: Mapping[str, Any]
    """By name, from the query, the form or the JSON body; secrets are replaced by ``"(secret)"``."""
    status: int
    """The HTTP status of the response."""
    error: str | None
    """The error code; None for a success."""


class AuthorizationServerOptions(TypedDict, total=False):
    """The options of an `AuthorizationServer`. All are keyword arguments, and optional.

    The functions among them have these forms::

        def policy(ask: AccessAsk) -> Iterable[str] | None:
            return None if ask.subject == "eve" else ask.scopes

        async def before(endpoint: Endpoint) -> None:
            if endpoint == "token":
                raise OAuthError("temporarily_unavailable", "try again later")

        def change(endpoint: Endpoint, members: dict[str, Any]) -> Mapping[str, Any]:
            return {**members, "expires_in": 1} if endpoint == "token" else members

        AuthorizationServer("https://auth.example", policy=policy, before=before, change=change)

    """

    users: Mapping[str, str]
    """The names and passwords of users; by default one ``"user"`` with the ``"password"``."""
    auto_consent: bool
    """Redirect browsers at once, as if the first user had signed in and allowed the request; by default, a page is
    shown."""
    clients: Iterable[KnownClient]
    """The manually registered clients."""
    scopes: Sequence[str] | None
    """The scopes that can be granted; by default any."""
    default_scopes: Sequence[str]
    """The scopes of requests that name none; by default no scopes."""
    resources: Sequence[str] | None
    """The servers that tokens are issued for; by default any."""
    policy: Callable[[AccessAsk], Iterable[str] | None]
    """Returns the granted scopes, or None to deny access; by default, all requested scopes are granted."""
    refresh_tokens: Literal["always", "offline_access", "never"]
    """The clients that get refresh tokens, of those that have registered for them; ``"always"`` by default."""
    token_seconds: float
    """The lifetime of access tokens; 3600 by default."""
    code_seconds: float
    """The lifetime of authorization codes; 60 by default."""
    secret_seconds: float | None
    """The lifetime of secrets of dynamic registrations; by default they never expire."""
    registration: bool
    """Allow dynamic registration (RFC 7591); by default it is allowed."""
    auth_methods: Sequence[AuthMethod]
    """The authentication methods of clients, the preferred one first; by default all."""
    fetch: Fetch | None
    """Reads client ID metadata documents; without it, they are not supported."""
    trusted_issuers: Mapping[str, Mapping[str, Any]]
    """The public keys, as JWK sets by issuer, of trusted assertions (RFC 7523): ID-JAGs and workload identities."""
    dpop: Literal["off", "allowed", "required"]
    """Allow or require tokens that are bound to a key (RFC 9449); ``"allowed"`` by default."""
    dpop_nonces: bool
    """Require a nonce of this server in proofs of possession; by default it is not required."""
    clock: Callable[[], float]
    """Returns the time; `time.time` by default."""
    before: Callable[[Endpoint], Awaitable[object]] | None
    """Awaited before each response: it may wait, or raise an `OAuthError`."""
    change: Callable[[Endpoint, dict[str, Any]], Mapping[str, Any]] | None
    """Receives the JSON of a response, or for ``"authorize"`` the parameters of a redirect, and returns a replacement.
    Use it to test how a client handles a faulty or hostile server."""


def _issuer(_: object, __: Attribute[str], value: str) -> None:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"AuthorizationServer({value!r}): an issuer must be a URL without a query and a fragment")


@define(kw_only=True, eq=False)
class Settings:
    """The options of an authorization server, with defaults; they may be changed while it serves."""

    issuer: str = field(validator=_issuer)
    users: Mapping[str, str] = field(factory=lambda: {"user": "password"}, repr=False)
    auto_consent: bool = False
    clients: Iterable[KnownClient] = field(default=(), converter=tuple[KnownClient, ...])
    scopes: Sequence[str] | None = None
    default_scopes: Sequence[str] = ()
    resources: Sequence[str] | None = None
    policy: Callable[[AccessAsk], Iterable[str] | None] = lambda ask: ask.scopes
    refresh_tokens: Literal["always", "offline_access", "never"] = "always"
    token_seconds: float = 3600.0
    code_seconds: float = 60.0
    secret_seconds: float | None = None
    registration: bool = True
    auth_methods: Sequence[AuthMethod] = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
    fetch: Fetch | None = None
    trusted_issuers: Mapping[str, Mapping[str, Any]] = field(
        factory=dict[str, Mapping[str, Any]], validator=deep_mapping(instance_of(str), _keys)
    )
    dpop: Literal["off", "allowed", "required"] = "allowed"
    dpop_nonces: bool = False
    clock: Callable[[], float] = time.time
    before: Callable[[Endpoint], Awaitable[object]] | None = None
    change: Callable[[Endpoint, dict[str, Any]], Mapping[str, Any]] | None = None

    def endpoint_url(self, path: str) -> str:
        """Return the URL of an endpoint."""
        return self.issuer.rstrip("/") + path

    def changed(self, endpoint: Endpoint, members: dict[str, Any]) -> Mapping[str, Any]:
        """Return the replacement of *members*."""
        return members if self.change is None else self.change(endpoint, members)


# --- Grant types and token types ---

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # a name
ID_JAG_TYPE = "urn:ietf:params:oauth:token-type:id-jag"
