"""Grants: the ways in which a client obtains tokens, and the grants that work without a user.

An application passes a grant as `auth` to the function that opens a client. `ClientCredentials`, `WorkloadIdentity` and
`EnterpriseManaged` never refresh: they request each token in the same way. `OAuth`, which needs a user, is in
`_authorization_code`.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization,
https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials,
https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization and
https://www.rfc-editor.org/rfc/rfc7523
"""

from __future__ import annotations

import abc
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

import trio
from attrs import define, evolve, field

from ..._errors import AuthorizationFailed
from .._urls import checked_endpoint, resource_of, shown_url
from ._discovery import ServerMetadata
from ._registration import check_issuer
from ._source import GrantSource
from ._steps import Await, ConnectionServices, Flow
from ._token_cache import TokenCaches
from ._token_endpoint import (
    AuthMethod,
    PrivateKey,
    Registration,
    TokenAsk,
    Tokens,
    post_token_request,
    request_tokens,
    scope_member,
    string_member,
)
from ._token_storage import MemoryTokenStorage

if TYPE_CHECKING:
    from ...abc import Fetch, TokenSource, TokenStorage
    from ._browser import BrowserAgent

__all__ = [
    "JWT_BEARER",
    "AssertionSource",
    "ClientCredentials",
    "EnterpriseManaged",
    "Grant",
    "MachineGrant",
    "WorkloadIdentity",
    "read_assertion",
]

_SCOPE = re.compile(r"[!#-\[\]-~]+")


def check_scopes(_: object, __: object, scopes: Sequence[str] | None) -> None:
    """Raise `ValueError` if a value is not a sequence of scopes (RFC 6749, 3.3)."""
    each = () if scopes is None else cast("Sequence[object]", scopes)
    if isinstance(scopes, str) or any(not isinstance(scope, str) or not _SCOPE.fullmatch(scope) for scope in each):
        raise ValueError(f"scopes={scopes!r}: pass a sequence of strings without spaces, such as ['read', 'write']")


@define(kw_only=True, eq=False)
class Grant(abc.ABC):
    """The base of `OAuth`, `ClientCredentials` and the other grants: a way to obtain tokens, and its common options.

    A grant serves any number of clients, in one run of Trio at a time. Do not derive from it: implement
    `abc.ClientAuth`, or pass a function to `Bearer`.
    """

    scopes: Sequence[str] | None = field(default=None, validator=check_scopes)
    """The scopes to request at least; by default those that the server names. A call may need more."""
    storage: TokenStorage = field(factory=MemoryTokenStorage)
    """The storage of tokens and registrations, such as a `FileTokenStorage`; by default this object's memory."""
    account: str = ""
    """The name of an account. Tokens of different accounts in one storage are never mixed."""
    dpop: bool = False
    """True if tokens are bound to a key of this client (DPoP, RFC 9449), so that a stolen token is useless."""
    trusted_hosts: Sequence[str] = ()
    """Names of hosts that may be reached without TLS and at private addresses, although a server has named them."""
    issuers_without_resource: Sequence[str] = ()
    """Authorization servers that refuse the parameter `resource` (RFC 8707), by their issuers: that of Microsoft Entra
    ID, for example. They are not told for which server a token is; the scopes have to say it."""
    clock: Callable[[], float] = time.time
    """The clock that decides when tokens expire, as `time.time` counts."""
    _caches: TokenCaches | None = field(default=None, init=False, repr=False)
    """The token caches, shared by all connections."""

    interactive: ClassVar[bool] = False
    """True if obtaining tokens needs the user."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """A name that distinguishes this client from others in one storage. It contains no secret."""

    @property
    def stays_with_issuer(self) -> bool:
        """True if the client has credentials of one authorization server, and no option says of which one.

        The first server that issued tokens is then the only one. The MCP server cannot switch the client to another
        one.
        """
        return False

    @abc.abstractmethod
    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Obtain new tokens, by the steps that the flow yields.

        Args:
            ask: the authorization server, the scopes to request, and the proofs of possession to make.

        Raises:
            AuthorizationFailed: no tokens can be obtained; the message names the step that failed.
        """

    @abc.abstractmethod
    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        """Obtain tokens in exchange for a refresh token. A response without a new refresh token confirms the old one.

        Args:
            ask: the authorization server, the scopes to request, and the proofs of possession to make.
            refresh_token: the refresh token of the tokens that have expired.

        Raises:
            AuthorizationFailed: the request failed, or was refused (`error` has the error code).
        """

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]:
        """Open the browser agent for one authorization.

        Raises:
            RuntimeError: this grant uses no browser.
        """
        raise RuntimeError(f"{type(self).__name__} uses no browser")

    def source(
        self,
        url: str,
        *,
        fetch: Fetch,
        nursery: trio.Nursery,
        asking_person: Callable[[], AbstractContextManager[None]],
    ) -> TokenSource:
        """Return the source of tokens for the server at *url*, for one connection; see `abc.ClientAuth`.

        All connections to one server that use this object share their tokens, and obtain them once.

        Args:
            url: the URL of the server, as the caller named it.
            fetch: makes requests to other servers.
            nursery: the nursery for tasks of the connection, which end with it.
            asking_person: a context manager to enter while the user is asked.
        """
        if self._caches is None:
            self._caches = TokenCaches(self)
        return GrantSource(self._caches.of(url), ConnectionServices(fetch, nursery, asking_person))


JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

AssertionSource: TypeAlias = str | Callable[[], Awaitable[str]]
"""A string that another party has signed, or an async function that returns one. It is called for each token."""


def read_assertion(source: AssertionSource, what: str) -> Flow[str]:
    """Return the assertion of a source.

    Raises:
        AuthorizationFailed: the application's function failed, or returned no string; the message names *what*.
    """
    if isinstance(source, str):
        return source
    try:
        text: object = yield Await(source)
    except AuthorizationFailed:
        raise
    except Exception as error:
        raise AuthorizationFailed(f"{what} could not be obtained: {type(error).__name__}") from error
    if not isinstance(text, str) or not text:
        raise AuthorizationFailed(
            f"{what} could not be obtained: the function returned {type(text).__name__}, not a string"
        )
    return text


@define(kw_only=True, eq=False)
class MachineGrant(Grant):
    """A grant that does not need the user."""

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Request a token. A refresh token that comes with it is dropped."""
        tokens = yield from self._request(ask)
        return evolve(tokens, refresh_token=None)

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:  # noqa: ARG002 # there is no refresh token
        """Request a new token; see `obtain`."""
        return self.obtain(ask)

    @abc.abstractmethod
    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        """Request a token."""


@define(kw_only=True, eq=False)
class ClientCredentials(MachineGrant):
    """A grant that authenticates with the client's own credentials; a `ClientAuth`.

    The common options, such as `scopes` and `dpop`, are described at `auth.Grant`.

    Args:
        client_id: the client's id at the authorization server.
        secret: the client's secret.
        private_key: the client's key, instead of a secret. It is safer, because it never leaves this machine.
        method: the authentication method; by default the one that the server prefers.
        issuer: the authorization server that knows the client. Without it, the secret goes to the first authorization
            server that the MCP server names, so set it unless you trust the MCP server.

    Raises:
        ValueError: both a secret and a key were passed, or neither.
    """

    client_id: str = field(kw_only=False)
    secret: str | None = field(default=None, repr=False)
    private_key: PrivateKey | None = None
    method: AuthMethod | None = None
    issuer: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.secret is None) == (self.private_key is None):
            raise ValueError("ClientCredentials: pass either secret or private_key")

    @property
    def identity(self) -> str:
        """A name that distinguishes this client from others in one storage. It contains no secret."""
        return f"credentials of client {self.client_id}"

    @property
    def stays_with_issuer(self) -> bool:
        """True if the first authorization server that issued tokens is the only one."""
        return self.issuer is None

    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        check_issuer(self.issuer, ask.token_issuer, f"the client {self.client_id!r}")
        registration = Registration(
            self.client_id, secret=self.secret, private_key=self.private_key, method=self.method, issuer=self.issuer
        )
        form = {"grant_type": "client_credentials", **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, registration, form))


@define(kw_only=True, eq=False)
class WorkloadIdentity(MachineGrant):
    """A grant that authenticates with an assertion of the platform that this program runs on; a `ClientAuth`.

    If an assertion is refused, it is not sent again, and no other grant is tried. The common options are described at
    `auth.Grant`.

    Args:
        assertion: the platform's signed assertion (a JWT, whose audience is the authorization server), or an async
            function that returns one.
        client_id: the client's id at the authorization server, if it requires one.
        issuer: the authorization server that the assertion is for; None means the first one that the MCP server names.
    """

    assertion: AssertionSource = field(kw_only=False, repr=False)
    client_id: str | None = None
    issuer: str | None = None

    @property
    def identity(self) -> str:
        """A name that distinguishes this client from others in one storage. It contains no secret."""
        return f"workload {self.client_id or ''}".rstrip()

    @property
    def stays_with_issuer(self) -> bool:
        """True if the first authorization server that issued tokens is the only one."""
        return self.issuer is None

    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        check_issuer(self.issuer, ask.token_issuer, "the workload's assertion")
        registration = None if self.client_id is None else Registration(self.client_id, method="none")
        assertion = yield from read_assertion(self.assertion, "the workload's assertion")
        form = {"grant_type": JWT_BEARER, "assertion": assertion, **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, registration, form))


_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # the name of a grant type
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 # the prefix of token types
_ID_JAG = f"{_TOKEN_TYPE}id-jag"


@define(kw_only=True, eq=False)
class EnterpriseManaged(MachineGrant):
    """A grant that authenticates the user by the identity provider of an enterprise, without a sign-in; a `ClientAuth`.

    The identity provider exchanges the user's ID token for an assertion (ID-JAG) that is valid only at the MCP server's
    authorization server. That server exchanges the assertion for an access token.

    Args:
        client: the registration of the client at the authorization server.
        idp_client_id: the client's id at the identity provider.
        idp_secret: the client's secret there, if it has one.
        idp_private_key: the client's key there, instead of a secret.
        idp_issuer: the identity provider, exactly as its metadata spells it.
        idp_token_endpoint: the URL of its token endpoint.
        id_token: the ID token of the user's sign-in at the identity provider, or an async function that returns it.
        id_token_type: the type of the ID token: OpenID Connect or SAML 2.

    Raises:
        ValueError: `idp_token_endpoint` is not a safe URL for secrets.

    One storage may hold the tokens of several users: tell them apart by `account`. The common options are described at
    `auth.Grant`.
    """

    client: Registration = field(kw_only=False)
    idp_client_id: str
    idp_secret: str | None = field(default=None, repr=False)
    idp_private_key: PrivateKey | None = None
    idp_issuer: str
    idp_token_endpoint: str
    id_token: AssertionSource = field(repr=False)
    id_token_type: Literal["id_token", "saml2"] = "id_token"  # noqa: S105 # the name of a token type

    def __attrs_post_init__(self) -> None:
        try:
            checked_endpoint(self.idp_token_endpoint, "token endpoint of the identity provider", self.trusted_hosts)
        except AuthorizationFailed as fault:
            raise ValueError(f"idp_token_endpoint: {fault}") from None

    @property
    def identity(self) -> str:
        """A name that distinguishes this client from others in one storage. It contains no secret."""
        return f"enterprise {self.idp_issuer} {self.idp_client_id} client {self.client.client_id}"

    @property
    def stays_with_issuer(self) -> bool:
        """True if the first authorization server that issued tokens is the only one."""
        return self.client.issuer is None

    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        check_issuer(self.client.issuer, ask.token_issuer, f"the client {self.client.client_id!r}")
        grant = yield from self._exchange(ask)
        form = {"grant_type": JWT_BEARER, "assertion": grant, **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, self.client, form))

    def _exchange(self, ask: TokenAsk) -> Flow[str]:
        """Exchange the user's ID token for an assertion at the identity provider (RFC 8693)."""
        provider = ServerMetadata(issuer=self.idp_issuer, token_endpoint=self.idp_token_endpoint)
        registration = Registration(self.idp_client_id, secret=self.idp_secret, private_key=self.idp_private_key)
        id_token = yield from read_assertion(self.id_token, "the user's ID token")
        form = {
            "grant_type": _TOKEN_EXCHANGE,
            "requested_token_type": _ID_JAG,
            "audience": ask.token_issuer.server.issuer,
            "resource": ask.token_issuer.identifier or resource_of(ask.token_issuer.url),
            "subject_token": id_token,
            "subject_token_type": f"{_TOKEN_TYPE}{self.id_token_type}",
            **scope_member(ask.scopes),
        }
        members = yield from post_token_request(provider, registration, form, proofs=None, named_by="user")
        grant = string_member(members, "access_token")
        if grant is None or members.get("issued_token_type") != _ID_JAG:
            raise AuthorizationFailed(
                f"the token exchange at {shown_url(self.idp_token_endpoint)} returned no token of the type {_ID_JAG}"
            )
        return grant
