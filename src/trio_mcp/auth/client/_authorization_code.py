"""The authorization code grant: a person allows it in a browser, and the code that comes back is exchanged for tokens.

Called by `OAuth`. Rules of this file:

1. What is recorded before the browser leaves (the issuer, the state, the verifier) lives in this flow alone, so that
   no other authorization can take its response.
2. A response is checked in this order: its state, its issuer, and only then what it says. What fails a check is not
   repeated to anybody: it may come from an attacker.
3. Each parameter may stand in a response once.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote_plus, urlencode

from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from .._urls import shown_text
from ._browser import BrowserAgent, CustomBrowserAgent, open_browser, open_loopback_browser
from ._discovery import ServerMetadata, TokenIssuer
from ._flow import BrowserStep, Flow
from ._grants import Grant
from ._registration import (
    ClientProfile,
    UsableRegistration,
    check_metadata_url,
    check_redirect_uri,
    ensure_registration,
    find_registration,
    forget_registration,
    is_loopback,
)
from ._token_endpoint import Registration, TokenAsk, Tokens, refusal, request_tokens, scope_member

__all__ = ["OAuth", "Pkce", "authorize", "check_pkce", "refresh"]


# Proof that who redeems an authorization code is who asked for it (PKCE), by the method S256 alone.
#
# Specification: https://www.rfc-editor.org/rfc/rfc7636

_RANDOM_BYTES = 48  # 64 characters; the specification wants 43 to 128 of them


@frozen(kw_only=True)
class Pkce:
    """A secret of one authorization, and what may be seen of it on the way."""

    verifier: str = field(repr=False)
    challenge: str

    @classmethod
    def of(cls, verifier: str) -> Pkce:
        """Return the pair of a given secret."""
        digest = hashlib.sha256(verifier.encode("ascii")).digest()
        return cls(verifier=verifier, challenge=urlsafe_b64encode(digest).decode("ascii").rstrip("="))

    @classmethod
    def make(cls) -> Pkce:
        """Return a pair that nobody can guess."""
        return cls.of(secrets.token_urlsafe(_RANDOM_BYTES))


def check_pkce(token_issuer: TokenIssuer) -> None:
    """Refuse an authorization server that does not say that it knows S256.

    A server of 2025-03-26, which nothing but its address leads to, need not say so: PKCE is used there all the same.

    Raises:
        AuthorizationFailed: a stolen code could be redeemed by the thief.
    """
    methods = token_issuer.server.code_challenge_methods_supported
    if methods is None and (token_issuer.resource is None or token_issuer.server.is_assumed):
        return
    if "S256" not in (methods or ()):
        raise AuthorizationFailed(
            f"{shown_text(token_issuer.server.issuer)} does not say that it supports PKCE with S256 "
            "(code_challenge_methods_supported); without it, authorization codes are not safe"
        )


_STATE_BYTES = 24
_MAX_PARAMETERS = 50  # of a response
_MAX_RESPONSE = 65_536  # characters of the URL that the browser comes back to
_READ = ("state", "iss", "error", "error_description", "code")
_CLIENT_IS_UNKNOWN = {"invalid_client", "unauthorized_client", "invalid_redirect_uri", "invalid_scope"}
"""Codes after which a registration that was made here is of no more use."""


def authorize(ask: TokenAsk, profile: ClientProfile) -> Flow[Tokens]:
    """Have a person authorize a client, and get its tokens.

    Raises:
        AuthorizationFailed: a step failed, the text says which; `error` has the code of who said no.
    """
    server = ask.token_issuer.server
    endpoint = server.authorization_endpoint
    if endpoint is None:
        raise AuthorizationFailed(f"{shown_text(server.issuer)} has no page where people could allow it")
    check_pkce(ask.token_issuer)
    registered = yield from ensure_registration(ask.token_issuer, profile, ask.scopes, dpop=ask.proofs is not None)
    pkce, state = Pkce.make(), secrets.token_urlsafe(_STATE_BYTES)
    url = _with_query(endpoint, _request(ask, registered, pkce, state))
    try:
        response_url: str = yield BrowserStep(url, registered.redirect_uri)
    except AuthorizationFailed:
        # Nobody comes back either where the server shows the person that it does not know the client any more.
        if not registered.is_new:
            yield from forget_registration(registered)
        raise
    try:
        code = _read_code(response_url, server, state)
    except AuthorizationFailed as failure:
        yield from _forget_after(failure, registered)
        raise
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": registered.redirect_uri,
        "code_verifier": pkce.verifier,
    }
    tokens = yield from _request_tokens(ask, registered, form)
    return tokens if registered.key is None else evolve(tokens, client=registered.registration)


def refresh(ask: TokenAsk, profile: ClientProfile, refresh_token: str) -> Flow[Tokens]:
    """Get tokens for a refresh token, which stands in the result until the server replaces it.

    Raises:
        AuthorizationFailed: it was refused (`error` has the code of it), or could not be asked for.
    """
    registered = yield from find_registration(ask.token_issuer, profile, ask.client)
    if registered is None:
        issuer = shown_text(ask.token_issuer.server.issuer)
        raise AuthorizationFailed(
            f"the refresh token cannot be used: the registration at {issuer} is gone", error="invalid_client"
        )
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    tokens = yield from _request_tokens(ask, registered, form)
    return tokens if tokens.refresh_token is not None else evolve(tokens, refresh_token=refresh_token)


def _request_tokens(ask: TokenAsk, registered: UsableRegistration, form: Mapping[str, str]) -> Flow[Tokens]:
    try:
        return (yield from request_tokens(ask, registered.registration, form))
    except AuthorizationFailed as failure:
        yield from _forget_after(failure, registered)
        raise


def _forget_after(failure: AuthorizationFailed, registered: UsableRegistration) -> Flow[None]:
    """Drop a registration that was made here, where another one may do better."""
    if failure.error in _CLIENT_IS_UNKNOWN:
        yield from forget_registration(registered)


def _request(ask: TokenAsk, registered: UsableRegistration, pkce: Pkce, state: str) -> dict[str, str]:
    """Return the parameters of the authorization request."""
    identifier = ask.token_issuer.identifier
    parameters = {
        "response_type": "code",
        "client_id": registered.registration.client_id,
        "redirect_uri": registered.redirect_uri,
        "code_challenge": pkce.challenge,
        "code_challenge_method": "S256",
        "state": state,
        **scope_member(ask.scopes),
    }
    if identifier is not None:
        parameters["resource"] = identifier
    if ask.scopes is not None and "offline_access" in ask.scopes:
        parameters["prompt"] = "consent"  # without it, OpenID providers have to ignore the scope
    if ask.proofs is not None:
        parameters["dpop_jkt"] = ask.proofs.key.thumbprint  # nobody can redeem the code with another key
    return parameters


def _with_query(endpoint: str, parameters: Mapping[str, str]) -> str:
    """Return the URL of the authorization request; what the endpoint has in its query stays, as far as it can."""
    base, _, query = endpoint.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in parameters]
    return f"{base}?{'&'.join([*kept, urlencode(parameters)])}"


def _read_code(url: str, server: ServerMetadata, state: str) -> str:
    """Return the code of an authorization response (rule 2)."""
    step = f"the authorization at {shown_text(server.issuer)}"
    said = _read_response(url, step)
    if not hmac.compare_digest(said.get("state", "").encode(errors="replace"), state.encode()):
        raise AuthorizationFailed(f"{step} failed: the response answers no request of this client (state)")
    _check_issuer(said.get("iss"), server, step)
    if said.get("error"):
        raise refusal(step, said["error"], said.get("error_description"))
    if not said.get("code"):
        raise AuthorizationFailed(f"{step} failed: the browser came back without a code")
    return said["code"]


def _read_response(url: str, step: str) -> dict[str, str]:
    """Return the parameters that this module has a use for, form-decoded; those of an attacker may be among them."""
    query = url.partition("#")[0].partition("?")[2]
    try:
        if len(query) > _MAX_RESPONSE:
            raise ValueError("too long")  # noqa: TRY301 # handled as what it is: a response that cannot be read
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise AuthorizationFailed(f"{step} failed: the response is too long") from None
    said = {name: value for name, value in pairs if name in _READ}
    if len(said) != sum(name in _READ for name, _ in pairs):
        raise AuthorizationFailed(f"{step} failed: the response says a thing twice")
    return said


def _check_issuer(said: str | None, server: ServerMetadata, step: str) -> None:
    """Refuse the response of another authorization server than the one that was asked (RFC 9207), by exact text."""
    if said is None and server.authorization_response_iss_parameter_supported:
        raise AuthorizationFailed(
            f"{step} failed: the response does not say whose it is (iss), which this server promises to say"
        )
    if said is not None and said != server.issuer:
        raise AuthorizationFailed(f"{step} failed: the response is of another authorization server (iss)")


# How a person lets a client in: the authorization code grant, with a browser, and all options it has.
#
# Called by whoever opens a client; the steps are in `_code_grant`.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization

_ANY_PORT = "http://127.0.0.1/callback"
"""Where browsers come back to by default; servers add the port (RFC 8252, 7.3)."""


@define(kw_only=True, eq=False)
class OAuth(Grant):
    """Has a person sign in, in a browser, when a server asks who is there; a `ClientAuth`.

    ::

        async with open_http_client(url, auth=OAuth(storage=FileTokenStorage())) as client: ...

    By default the system's browser opens and comes back to a port of this machine, and the client registers itself.
    Tokens are refreshed, and kept in `storage`, as long as that works without the person. `storage`, `scopes`, `dpop`
    and some more are options of every way to get tokens, and described at `auth.Grant`.

    Args:
        client_name: what people read on the page where they let the client in; so are `client_uri`, `logo_uri`,
            `policy_uri`, `tos_uri` and `contacts`, where the authorization server shows them.
        client: how the client is registered at the authorization server, where somebody has done that by hand. The id
            may be the URL of a document that describes the client, one with a private key say.
        client_metadata_url: where a document describes the client, to authorization servers that read such documents:
            an ``https`` URL with a path. `client_metadata` returns the document.
        redirect_uri: where the browser comes back to, if that matters: because it was registered, or because a port is
            forwarded. Without a port, any that is free is taken. By default ``http://127.0.0.1:PORT/callback``.
        show: an async function that shows a URL to the person, in place of the system's browser: `auth.print_url`, or
            yours. The browser still comes back to a port of this machine.
        visit: an async function that leads the person to a URL by means of the application's, and returns the whole URL
            to which the browser was sent back. It needs `redirect_uri`; no port is opened then.
        visit_seconds: how long a person may take, from when the page is shown.

    Raises:
        ValueError: options that contradict one another, or one that cannot be meant; the text names it.

    Concurrency: at most one person is asked at a time for one authorization server.
    """

    client_name: str = "trio-mcp client"
    client_uri: str | None = None
    """The client's home page."""
    logo_uri: str | None = None
    """Its picture."""
    policy_uri: str | None = None
    """What it does with people's data."""
    tos_uri: str | None = None
    """Its terms of service."""
    contacts: Sequence[str] = ()
    """Mail addresses of those who answer for it."""
    client: Registration | None = None
    client_metadata_url: str | None = None
    redirect_uri: str | None = None
    show: Callable[[str], Awaitable[None]] | None = None
    visit: Callable[[str], Awaitable[str]] | None = None
    visit_seconds: float = 300

    interactive: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        registered = None if self.client is None else self.client.redirect_uri
        for uri in (self.redirect_uri, registered):
            if uri is not None:
                check_redirect_uri(uri)
        if None not in {self.redirect_uri, registered} and self.redirect_uri != registered:
            raise ValueError(f"redirect_uri={self.redirect_uri!r}: the client is registered with {registered!r}")
        if self.client_metadata_url is not None:
            check_metadata_url(self.client_metadata_url)
        if self.visit is not None and self.show is not None:
            raise ValueError("show, visit: what leads a person there and back shows the URL itself")
        if self.visit is not None and self._redirect_uri is None:
            raise ValueError("visit: it needs redirect_uri, where the browser comes back to")
        if self.visit is None and self._redirect_uri is not None and not is_loopback(self._redirect_uri):
            raise ValueError(
                f"redirect_uri={self._redirect_uri!r}: a browser comes back to this program at http URLs of this "
                "machine alone; for others, pass visit"
            )
        if not self.visit_seconds > 0:
            raise ValueError(f"visit_seconds={self.visit_seconds!r}: it has to be positive")

    @property
    def _redirect_uri(self) -> str | None:
        return self.redirect_uri or (None if self.client is None else self.client.redirect_uri)

    @property
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""
        if self.client is not None:
            return f"client {self.client.client_id}"
        if self.client_metadata_url is not None:
            return f"client {self.client_metadata_url}"
        return f"client named {self.client_name}"

    @property
    def stays_with_issuer(self) -> bool:
        """Whether the first authorization server that it got tokens from is the only one; see `Grant`.

        A client whose id is the URL of a document is the same one everywhere, unless it has a secret.
        """
        client = self.client
        if client is None or client.issuer is not None:
            return False
        return client.secret is not None or not client.client_id.startswith("https://")

    @property
    def _profile(self) -> ClientProfile:
        names = {
            "client_name": self.client_name,
            "client_uri": self.client_uri,
            "logo_uri": self.logo_uri,
            "policy_uri": self.policy_uri,
            "tos_uri": self.tos_uri,
            "contacts": list(self.contacts) or None,
        }
        return ClientProfile(
            identity=self.identity,
            account=self.account,
            registration=self.client,
            metadata_url=self.client_metadata_url,
            redirect_uri=self._redirect_uri,
            names={name: value for name, value in names.items() if value is not None},
        )

    def client_metadata(self) -> dict[str, Any]:
        """Return what to publish at `client_metadata_url`, as JSON: how authorization servers get to know the client.

        Raises:
            ValueError: there is no `client_metadata_url`.

        Specification: https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
        """
        if self.client_metadata_url is None:
            raise ValueError("client_metadata: there is no client_metadata_url that it could be published at")
        return self._profile.document(self._redirect_uri or _ANY_PORT)

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Have the person authorize the client, and get its tokens; raises `AuthorizationFailed`."""
        return authorize(ask, self._profile)

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        """Get tokens in exchange for a refresh token; raises `AuthorizationFailed`."""
        return refresh(ask, self._profile, refresh_token)

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]:
        """Open what leads the person to the authorization server and back, for one authorization."""
        if self.visit is not None:
            assert self._redirect_uri is not None
            return nullcontext(CustomBrowserAgent(self.visit, self._redirect_uri, self.visit_seconds))
        return open_loopback_browser(
            show=self.show or open_browser, seconds=self.visit_seconds, redirect_uri=self._redirect_uri
        )
