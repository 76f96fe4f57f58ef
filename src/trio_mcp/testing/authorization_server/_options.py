"""What the development authorization server can be told: whom it knows, what it grants, and how it should misbehave.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
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


# JWTs of the development authorization server: its own key, and those of clients and issuers that it believes.
#
# Specification: https://www.rfc-editor.org/rfc/rfc7519 and https://www.rfc-editor.org/rfc/rfc9068

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


Endpoint: TypeAlias = Literal["metadata", "jwks", "authorize", "decide", "token", "register", "introspect", "revoke"]
"""What is asked for: ``"decide"`` is what the consent page sends."""


def _keys(_: object, __: Attribute[Any], value: Mapping[str, Any] | str) -> None:
    read_keys(value)


@frozen
class KnownClient:
    """A client that an authorization server knows.

    Args:
        client_id: its name.
        name: for people.
        secret: what proves it, where it has one.
        keys: its public keys, a JWK set (`{"keys": [...]}`) or one JWK or PEM: what proves it by ``private_key_jwt``.
        method: the one way in which it authenticates; None: any that its secret or keys allow, and none without them.
        redirect_uris: where browsers may be sent back to. For ``http`` on this machine, any port will do.
        grant_types: what it may use; by default anything.
        known_as: its names at other authorization servers, by their issuers, for ID-JAGs that are made here; where
            there is none it is *client_id*.
        secret_expires_at: when the secret ends, as `time.time` counts; None: never.

    Raises:
        ValueError: *keys* are none.
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
        """Tell whether it has registered for a grant."""
        return self.grant_types is None or grant_type in self.grant_types

    @property
    def is_public(self) -> bool:
        """Whether nothing proves that it is this client."""
        return self.method == "none" if self.method else self.secret is None and self.keys is None


@frozen(kw_only=True)
class AccessAsk:
    """Somebody wants access: what a policy decides about."""

    grant_type: str
    """In OAuth's words, ``"authorization_code"`` say."""
    client_id: str
    subject: str
    """For whom it is: a user, or the client itself."""
    scopes: tuple[str, ...]
    """What is asked for."""
    resource: str | None
    """The server that it is for; None where the client does not say."""


@frozen(kw_only=True)
class AuthorizationRequest:
    """What an authorization server was asked, and how that ended."""

    endpoint: Endpoint
    parameters: Mapping[str, Any]
    """By name, from the query, the form or the JSON body; secrets are replaced by ``"(secret)"``."""
    status: int
    """Of the HTTP response."""
    error: str | None
    """The code, where it said no."""


class AuthorizationServerOptions(TypedDict, total=False):
    """What an `AuthorizationServer` can be told, all by keyword and all optional."""

    users: Mapping[str, str]
    """Names and passwords of those who may sign in; by default one ``"user"`` with the ``"password"``."""
    auto_consent: bool
    """Send browsers back at once, as if the first of the users had signed in and allowed what is asked for; by default
    there is a page for that."""
    clients: Iterable[KnownClient]
    """Those that are registered beforehand."""
    scopes: Sequence[str] | None
    """All that can be granted; by default whatever is asked for."""
    default_scopes: Sequence[str]
    """What those are granted who ask for nothing in particular; by default nothing."""
    resources: Sequence[str] | None
    """The servers that there are tokens for; by default whatever is named."""
    policy: Callable[[AccessAsk], Iterable[str] | None]
    """Says which scopes are granted, or by None that access is denied; by default all that is asked for."""
    refresh_tokens: Literal["always", "offline_access", "never"]
    """Who gets refresh tokens, of the clients that have registered for them; ``"always"`` by default."""
    token_seconds: float
    """How long access tokens hold; 3600 by default."""
    code_seconds: float
    """How long authorization codes do; 60 by default."""
    secret_seconds: float | None
    """How long the secrets of clients do that register by themselves; by default they never end."""
    registration: bool
    """Whether clients may register by themselves (RFC 7591); by default they may."""
    auth_methods: Sequence[AuthMethod]
    """How clients may authenticate, in the order of liking; by default in any way."""
    fetch: Fetch | None
    """Reads client ID metadata documents; without it there are none."""
    trusted_issuers: Mapping[str, Mapping[str, Any]]
    """Public keys, as JWK sets by issuer, of those whose assertions are taken (RFC 7523): ID-JAGs and identities of
    workloads."""
    dpop: Literal["off", "allowed", "required"]
    """Whether tokens may, or have to, be bound to a key (RFC 9449); ``"allowed"`` by default."""
    dpop_nonces: bool
    """Whether proofs of possession need a nonce of this server; by default they do not."""
    clock: Callable[[], float]
    """Tells the time; `time.time` by default."""
    before: Callable[[Endpoint], Awaitable[object]] | None
    """Awaited before anything is answered: it may wait, or raise an `OAuthError`."""
    change: Callable[[Endpoint, dict[str, Any]], Mapping[str, Any]] | None
    """Is shown the JSON that an endpoint answers, or for ``"authorize"`` the parameters of a redirect, and returns what
    is sent in its place. This is how to test what a client does about a server that is wrong, or hostile."""


def _issuer(_: object, __: Attribute[str], value: str) -> None:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"AuthorizationServer({value!r}): an issuer is a URL without query and fragment")


@define(kw_only=True, eq=False)
class Settings:
    """The options of an authorization server, with their defaults; they may be changed while it serves."""

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

    def place(self, path: str) -> str:
        """Return the address of an endpoint."""
        return self.issuer.rstrip("/") + path

    def changed(self, endpoint: Endpoint, members: dict[str, Any]) -> Mapping[str, Any]:
        """Return what is sent in place of *members*."""
        return members if self.change is None else self.change(endpoint, members)


# What the development authorization server says of itself, and where.
#
# Specification: https://www.rfc-editor.org/rfc/rfc8414 and https://openid.net/specs/openid-connect-discovery-1_0.html

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # a name
ID_JAG_TYPE = "urn:ietf:params:oauth:token-type:id-jag"


def metadata_paths(issuer: str) -> tuple[str, ...]:
    """Return where the metadata of an issuer stand, as paths on its origin that are not percent-encoded."""
    path = unquote(urlsplit(issuer).path).rstrip("/")
    both = (f"/.well-known/oauth-authorization-server{path}", f"/.well-known/openid-configuration{path}")
    return (*both, f"{path}/.well-known/openid-configuration") if path else both


def server_metadata(settings: Settings) -> dict[str, Any]:
    """Return the metadata: the same document in both kinds, with what either of them asks for."""
    grants = ["authorization_code", "refresh_token", "client_credentials", TOKEN_EXCHANGE]
    members: dict[str, Any] = {
        "issuer": settings.issuer,
        "authorization_endpoint": settings.place("/authorize"),
        "token_endpoint": settings.place("/token"),
        "jwks_uri": settings.place("/jwks"),
        "introspection_endpoint": settings.place("/introspect"),
        "revocation_endpoint": settings.place("/revoke"),
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
        members["registration_endpoint"] = settings.place("/register")
    if settings.dpop != "off":
        members["dpop_signing_alg_values_supported"] = ["ES256"]
    return members
