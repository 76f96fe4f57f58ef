"""What the development authorization server can be told: whom it knows, what it grants, and how it should misbehave.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict
from urllib.parse import urlsplit

from attrs import Attribute, define, field, frozen
from attrs.validators import deep_mapping, instance_of, optional

from ..abc import Fetch
from ..auth import AuthMethod
from ._authorization_keys import read_keys

__all__ = [
    "AccessAsk",
    "AuthorizationRequest",
    "AuthorizationServerOptions",
    "Endpoint",
    "KnownClient",
    "Settings",
]

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
