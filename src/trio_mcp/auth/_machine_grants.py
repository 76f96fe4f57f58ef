"""How a program gets tokens of its own, without any person: by its credentials, or by what its platform says of it.

Called by whoever opens a client. Nothing is refreshed here: what got a token once gets the next.

Specification: https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials and
https://www.rfc-editor.org/rfc/rfc7523
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from attrs import define, evolve, field

from .._errors import AuthorizationFailed
from ._grant import Grant, TokenAsk
from ._registering import check_issuer
from ._steps import Await, Flow
from ._token_requests import request_tokens, scope_member
from ._tokens import AuthMethod, PrivateKey, Registration, Tokens

__all__ = ["JWT_BEARER", "AssertionSource", "ClientCredentials", "MachineGrant", "WorkloadIdentity", "read_assertion"]

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
        check_issuer(self.issuer, ask.place, f"the client {self.client_id!r}")
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
        check_issuer(self.issuer, ask.place, "the workload's statement")
        registration = None if self.client_id is None else Registration(self.client_id, method="none")
        assertion = yield from read_assertion(self.assertion, "the workload's statement")
        form = {"grant_type": JWT_BEARER, "assertion": assertion, **scope_member(ask.scopes)}
        return (yield from request_tokens(ask, registration, form))
