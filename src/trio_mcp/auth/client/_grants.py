"""How a program gets tokens of its own, without any person: by its credentials, or by what its platform says of it.

Called by whoever opens a client. Nothing is refreshed here: what got a token once gets the next.

Specification: https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials and
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
from ._flow import Await, ConnectionServices, Flow
from ._registration import check_issuer
from ._source import GrantSource
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
    """Refuse what are no scopes (RFC 6749, 3.3); raises `ValueError`."""
    each = () if scopes is None else cast("Sequence[object]", scopes)
    if isinstance(scopes, str) or any(not isinstance(scope, str) or not _SCOPE.fullmatch(scope) for scope in each):
        raise ValueError(f"scopes={scopes!r}: scopes are a sequence of texts without blanks, such as ['read', 'write']")


@define(kw_only=True, eq=False)
class Grant(abc.ABC):
    """One way to get tokens, and where they are kept: what `OAuth`, `ClientCredentials` and the others have in common.

    It serves any number of clients, in one run of Trio at a time. It is not made to be derived from: a way of your own
    is an `abc.ClientAuth`, or `Bearer` with a function.
    """

    scopes: Sequence[str] | None = field(default=None, validator=check_scopes)
    """What to ask for at least; by default what the server says that it needs. When that turns out to be too little
    for a call, more is asked for."""
    storage: TokenStorage = field(factory=MemoryTokenStorage)
    """Keeps tokens and registrations, as a `FileTokenStorage` does; by default in memory, while this object lives."""
    account: str = ""
    """Tells apart the accounts of one storage: tokens of different ones are never mixed."""
    dpop: bool = False
    """Whether tokens are bound to a key of this client's (DPoP, RFC 9449), so that a stolen one is of no use."""
    trusted_hosts: Sequence[str] = ()
    """Names of hosts that may be reached without TLS and at private addresses, though a server has named them."""
    clock: Callable[[], float] = time.time
    """Tells the time by which tokens end."""
    _caches: TokenCaches | None = field(default=None, init=False, repr=False)
    """What is known of the servers, by all connections together."""

    interactive: ClassVar[bool] = False
    """Whether a person takes part when tokens are obtained."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""

    @property
    def stays_with_issuer(self) -> bool:
        """Whether it shows what one authorization server has given by hand, though nobody has said which that is.

        The first one that tokens came from is then the only one; the MCP server may not lead to another.
        """
        return False

    @abc.abstractmethod
    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Get tokens anew; raises `AuthorizationFailed`."""

    @abc.abstractmethod
    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        """Get tokens in exchange for a refresh token, which the answer may replace or confirm by leaving one out.

        Raises:
            AuthorizationFailed: it was refused (`error` says how), or could not be asked for.
        """

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]:
        """Open what leads a person to an authorization server and back, for one authorization."""
        raise RuntimeError(f"{type(self).__name__} leads nobody anywhere")

    def source(
        self,
        url: str,
        *,
        fetch: Fetch,
        nursery: trio.Nursery,
        asking_person: Callable[[], AbstractContextManager[None]],
    ) -> TokenSource:
        """Return what shows the server at *url* who asks; see `abc.ClientAuth`."""
        if self._caches is None:
            self._caches = TokenCaches(self)
        return GrantSource(self._caches.of(url), ConnectionServices(fetch, nursery, asking_person))


JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

AssertionSource: TypeAlias = str | Callable[[], Awaitable[str]]
"""A text that somebody else has signed, or an async function that gets one: it is called for each token."""


def read_assertion(source: AssertionSource, what: str) -> Flow[str]:
    """Return the text of a source.

    Raises:
        AuthorizationFailed: the application's function failed, or has none; the text names *what*.
    """
    if isinstance(source, str):
        return source
    try:
        text: object = yield Await(source)
    except AuthorizationFailed:
        raise
    except Exception as error:
        raise AuthorizationFailed(f"{what} could not be had: {type(error).__name__}") from error
    if not isinstance(text, str) or not text:
        raise AuthorizationFailed(f"{what} could not be had: the function returned {type(text).__name__}, and no text")
    return text


@define(kw_only=True, eq=False)
class MachineGrant(Grant):
    """A way to get tokens that nobody has to be asked for."""

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Get a token; a refresh token that comes with it is of no use, so it is not kept."""
        tokens = yield from self._request(ask)
        return evolve(tokens, refresh_token=None)

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:  # noqa: ARG002 # there never is one
        """Get a token anew; see `obtain`."""
        return self.obtain(ask)

    @abc.abstractmethod
    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        """Ask for a token."""


@define(kw_only=True, eq=False)
class ClientCredentials(MachineGrant):
    """Shows who asks by a client's own credentials; a `ClientAuth`.

    Options that all ways to get tokens have, such as `scopes` and `dpop`, are described at `auth.Grant`.

    Args:
        client_id: the client's name at the authorization server.
        secret: what proves that this is the client.
        private_key: what proves it, in place of a secret: better, because it never leaves this machine.
        method: how to authenticate; by default as the server likes best.
        issuer: the authorization server that knows the client. A secret that is not bound to one goes to whichever the
            MCP server names first, so bind it unless you trust that.

    Raises:
        ValueError: there is no secret and no key, or there are both.
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
        """Tells this kind of client apart from others in one storage. No secret is in it."""
        return f"credentials of client {self.client_id}"

    @property
    def stays_with_issuer(self) -> bool:
        """Whether the first authorization server that it was shown to is the only one."""
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
    """Shows who asks by a statement of the platform that this program runs on; a `ClientAuth`.

    A statement that was refused is not shown again on its own, and no other way is tried in its place. Options that all
    ways to get tokens have are described at `auth.Grant`.

    Args:
        assertion: the platform's signed statement (a JWT, whose audience is the authorization server), or an async
            function that gets one.
        client_id: the client's name at the authorization server, where it wants one.
        issuer: the authorization server that the statement is for; None: whichever the MCP server names first.
    """

    assertion: AssertionSource = field(kw_only=False, repr=False)
    client_id: str | None = None
    issuer: str | None = None

    @property
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""
        return f"workload {self.client_id or ''}".rstrip()

    @property
    def stays_with_issuer(self) -> bool:
        """Whether the first authorization server that it was shown to is the only one."""
        return self.issuer is None

    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        check_issuer(self.issuer, ask.token_issuer, "the workload's statement")
        registration = None if self.client_id is None else Registration(self.client_id, method="none")
        assertion = yield from read_assertion(self.assertion, "the workload's statement")
        form = {"grant_type": JWT_BEARER, "assertion": assertion, **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, registration, form))


# How an enterprise lets its people's clients in: its identity provider vouches for them, so that nobody is asked.
#
# Specification: https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # the name of a grant
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 # the names of token types begin so
_ID_JAG = f"{_TOKEN_TYPE}id-jag"


@define(kw_only=True, eq=False)
class EnterpriseManaged(MachineGrant):
    """Shows a server who asks by what the enterprise's identity provider says of its user; a `ClientAuth`.

    The identity provider exchanges the user's sign-in there for a grant that is good at the MCP server's authorization
    server alone (ID-JAG), and that server exchanges the grant for a token.

    Args:
        client: how the client is registered at the authorization server.
        idp_client_id: the client's name at the identity provider.
        idp_secret: what proves there that this is the client, where it has a secret.
        idp_private_key: what proves it in place of a secret.
        idp_issuer: the identity provider, as its metadata spell it.
        idp_token_endpoint: the URL at which it exchanges tokens.
        id_token: what the identity provider gave when the user signed in, or an async function that gets it.
        id_token_type: what it is: an ID token of OpenID Connect, or a SAML 2 assertion.

    Raises:
        ValueError: `idp_token_endpoint` is no URL that secrets may go to.

    One storage may hold the tokens of several users: tell them apart by `account`. Options that all ways to get tokens
    have are described at `auth.Grant`.
    """

    client: Registration = field(kw_only=False)
    idp_client_id: str
    idp_secret: str | None = field(default=None, repr=False)
    idp_private_key: PrivateKey | None = None
    idp_issuer: str
    idp_token_endpoint: str
    id_token: AssertionSource = field(repr=False)
    id_token_type: Literal["id_token", "saml2"] = "id_token"  # noqa: S105 # the name of a type

    def __attrs_post_init__(self) -> None:
        try:
            checked_endpoint(self.idp_token_endpoint, "token endpoint of the identity provider", self.trusted_hosts)
        except AuthorizationFailed as fault:
            raise ValueError(f"idp_token_endpoint: {fault}") from None

    @property
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""
        return f"enterprise {self.idp_issuer} {self.idp_client_id} client {self.client.client_id}"

    @property
    def stays_with_issuer(self) -> bool:
        """Whether the first authorization server that the client was shown to is the only one."""
        return self.client.issuer is None

    def _request(self, ask: TokenAsk) -> Flow[Tokens]:
        check_issuer(self.client.issuer, ask.token_issuer, f"the client {self.client.client_id!r}")
        grant = yield from self._exchange(ask)
        form = {"grant_type": JWT_BEARER, "assertion": grant, **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, self.client, form))

    def _exchange(self, ask: TokenAsk) -> Flow[str]:
        """Have the identity provider vouch for the user at the authorization server (RFC 8693)."""
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
                f"the token exchange at {shown_url(self.idp_token_endpoint)} brought no grant of the type {_ID_JAG}"
            )
        return grant
