"""The options of the development authorization server: clients, grants, keys and misbehaviour for tests.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization,
https://www.rfc-editor.org/rfc/rfc7519, https://www.rfc-editor.org/rfc/rfc9068, https://www.rfc-editor.org/rfc/rfc8414
and
https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypedDict, cast
from urllib.parse import unquote, urlsplit

from attrs import Attribute, define, field, frozen
from attrs.validators import deep_mapping, instance_of, optional
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, RSAKey

from ...abc import Fetch
from ...auth import AuthMethod
from ...wire import Undecodable, decode, is_array, is_object

__all__ = [
    "ALGORITHMS",
    "ID_JAG_TYPE",
    "JWT_BEARER",
    "TOKEN_EXCHANGE",
    "AccessAsk",
    "AuthorizationRequest",
    "AuthorizationServerOptions",
    "Endpoint",
    "Jwt",
    "KnownClient",
    "Settings",
    "SigningKeys",
    "is_for",
    "metadata_paths",
    "read_jwt",
    "read_keys",
    "server_metadata",
    "unverified_claims",
]


# --- JWTs ---

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
        """Return True if it may use a grant type."""
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
    parameters: Mapping[str, Any]
    """By name, from the query, the form or the JSON body; secrets are replaced by ``"(secret)"``."""
    status: int
    """The HTTP status of the response."""
    error: str | None
    """The error code; None for a success."""


class AuthorizationServerOptions(TypedDict, total=False):
    """The options of an `AuthorizationServer`. All are keyword arguments, and optional."""

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


# --- Metadata ---

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # a name
ID_JAG_TYPE = "urn:ietf:params:oauth:token-type:id-jag"


def metadata_paths(issuer: str) -> tuple[str, ...]:
    """Return the paths of an issuer's metadata at its origin, without percent-encoding."""
    path = unquote(urlsplit(issuer).path).rstrip("/")
    both = (f"/.well-known/oauth-authorization-server{path}", f"/.well-known/openid-configuration{path}")
    return (*both, f"{path}/.well-known/openid-configuration") if path else both


def server_metadata(settings: Settings) -> dict[str, Any]:
    """Return the metadata: one document for both specifications."""
    grants = ["authorization_code", "refresh_token", "client_credentials", TOKEN_EXCHANGE]
    members: dict[str, Any] = {
        "issuer": settings.issuer,
        "authorization_endpoint": settings.endpoint_url("/authorize"),
        "token_endpoint": settings.endpoint_url("/token"),
        "jwks_uri": settings.endpoint_url("/jwks"),
        "introspection_endpoint": settings.endpoint_url("/introspect"),
        "revocation_endpoint": settings.endpoint_url("/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "grant_types_supported": [*grants, JWT_BEARER] if settings.trusted_issuers else grants,
        "token_endpoint_auth_methods_supported": [*settings.auth_methods],
        "token_endpoint_auth_signing_alg_values_supported": [*ALGORITHMS],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": settings.fetch is not None,
    }
    scopes = [*(settings.scopes or ())]
    if settings.refresh_tokens == "offline_access" and "offline_access" not in scopes:
        scopes.append("offline_access")
    if scopes:
        members["scopes_supported"] = scopes
    if settings.registration:
        members["registration_endpoint"] = settings.endpoint_url("/register")
    if settings.dpop != "off":
        members["dpop_signing_alg_values_supported"] = ["ES256"]
    return members
