"""The authorization code grant with PKCE: the user signs in by a browser, and the client exchanges the code for tokens.

`OAuth` is the public grant. Rules of this file:

1. The state, the issuer and the code verifier of an authorization exist only in its flow, so that another authorization
   cannot use its response.
2. A response is checked in this order: the state, the issuer, then its content. The content of a response that fails a
   check is not shown, because it may come from an attacker.
3. A parameter may occur in a response only once.
4. PKCE uses the method S256 only.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps and
https://www.rfc-editor.org/rfc/rfc7636
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote_plus, urlencode

from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from ..._misuse import check_class
from .._urls import is_loopback, shown_text
from ._browser import BrowserAgent, CustomBrowserAgent, open_browser, open_loopback_browser
from ._discovery import ServerMetadata, TokenIssuer
from ._grants import Grant
from ._registration import (
    ClientProfile,
    UsableRegistration,
    check_metadata_url,
    check_redirect_uri,
    ensure_registration,
    find_registration,
    forget_registration,
)
from ._steps import BrowserStep, Flow
from ._token_endpoint import Registration, TokenAsk, Tokens, refusal, request_tokens, scope_member

__all__ = ["OAuth", "Pkce", "authorize", "check_pkce", "refresh"]


_RANDOM_BYTES = 48  # 64 characters; the specification requires 43 to 128


@frozen(kw_only=True)
class Pkce:
    """The code verifier of one authorization, and its code challenge."""

    verifier: str = field(repr=False)
    challenge: str

    @classmethod
    def of(cls, verifier: str) -> Pkce:
        """Return the pair for a given verifier."""
        digest = hashlib.sha256(verifier.encode("ascii")).digest()
        return cls(verifier=verifier, challenge=urlsafe_b64encode(digest).decode("ascii").rstrip("="))

    @classmethod
    def make(cls) -> Pkce:
        """Return a random pair."""
        return cls.of(secrets.token_urlsafe(_RANDOM_BYTES))


def check_pkce(token_issuer: TokenIssuer, known: Collection[str] = ()) -> None:
    """Refuse an authorization server that does not support S256.

    A server of 2025-03-26 that was found only by its address need not announce this: PKCE is used there all the same.

    Args:
        token_issuer: the authorization server.
        known: the issuers that support it without announcing it, as the user says.

    Raises:
        AuthorizationFailed: an attacker could redeem a stolen code.
    """
    if token_issuer.server.issuer in known:
        return
    methods = token_issuer.server.code_challenge_methods_supported
    if methods is None and (token_issuer.resource is None or token_issuer.server.is_assumed):
        return
    if "S256" not in (methods or ()):
        raise AuthorizationFailed(
            f"{shown_text(token_issuer.server.issuer)} does not announce support for PKCE with S256 "
            "(code_challenge_methods_supported); without it, authorization codes are not safe. If its documentation "
            "says that it supports this, pass OAuth(issuers_with_pkce=[...])"
        )


_STATE_BYTES = 24
_MAX_PARAMETERS = 50  # in a response
_MAX_RESPONSE = 65_536  # characters of the URL of the response
_READ = ("state", "iss", "error", "error_description", "code")
_CLIENT_IS_UNKNOWN = {"invalid_client", "unauthorized_client", "invalid_redirect_uri", "invalid_scope"}
"""Error codes after which a dynamic registration is useless."""


def authorize(ask: TokenAsk, profile: ClientProfile) -> Flow[Tokens]:
    """Let the user authorize a client, and obtain its tokens.

    Raises:
        AuthorizationFailed: a step failed, which the message names; `error` has the error code of a refusal.
    """
    server = ask.token_issuer.server
    endpoint = server.authorization_endpoint
    if endpoint is None:
        raise AuthorizationFailed(
            f"{shown_text(server.issuer)} has no authorization endpoint, so that users cannot sign in"
        )
    check_pkce(ask.token_issuer, profile.issuers_with_pkce)
    registered = yield from ensure_registration(ask.token_issuer, profile, ask.scopes, dpop=ask.proofs is not None)
    pkce, state = Pkce.make(), secrets.token_urlsafe(_STATE_BYTES)
    url = _with_query(endpoint, {**_request(ask, registered, pkce, state), **profile.parameters})
    try:
        response_url: str = yield BrowserStep(url, registered.redirect_uri)
    except AuthorizationFailed:
        # The browser does not return, either, if the server shows the user that it does not know the client any more.
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
    """Refresh tokens. The refresh token stays in the result unless the server replaces it.

    Raises:
        AuthorizationFailed: the request failed, or was refused (`error` has the error code).
    """
    registered = yield from find_registration(ask.token_issuer, profile, ask.client)
    if registered is None:
        issuer = shown_text(ask.token_issuer.server.issuer)
        raise AuthorizationFailed(
            f"the refresh token cannot be used: the registration at {issuer} is missing", error="invalid_client"
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
    """Delete a dynamic registration if a new one may help."""
    if failure.error in _CLIENT_IS_UNKNOWN:
        yield from forget_registration(registered)


def _request(ask: TokenAsk, registered: UsableRegistration, pkce: Pkce, state: str) -> dict[str, str]:
    """Return the parameters of the authorization request."""
    parameters = {
        "response_type": "code",
        "client_id": registered.registration.client_id,
        "redirect_uri": registered.redirect_uri,
        "code_challenge": pkce.challenge,
        "code_challenge_method": "S256",
        "state": state,
        **scope_member(ask.scopes),
        **ask.token_issuer.resource_member,
    }
    if ask.scopes is not None and "offline_access" in ask.scopes:
        parameters["prompt"] = "consent"  # without it, OpenID providers ignore the scope
    if ask.proofs is not None:
        parameters["dpop_jkt"] = ask.proofs.key.thumbprint  # binds the code to the key
    return parameters


_OWN_PARAMETERS = frozenset(
    {
        *("client_id", "code_challenge", "code_challenge_method", "dpop_jkt", "redirect_uri", "request", "request_uri"),
        *("resource", "response_mode", "response_type", "scope", "state"),
    }
)
"""The parameters of an authorization request on which its safety depends; the client alone sets them."""


def _check_parameters(parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        if name in _OWN_PARAMETERS:
            cure = {"scope": ": use scopes=", "redirect_uri": ": use redirect_uri=", "client_id": ": use client="}
            raise ValueError(f"authorization_parameters: the client sets {name!r} itself{cure.get(name, '')}")
        check_class(f"authorization_parameters[{name!r}]", value, str, "'offline'")


def _with_query(endpoint: str, parameters: Mapping[str, str]) -> str:
    """Return the URL of the authorization request. Other parameters in the endpoint's query are kept."""
    base, _, query = endpoint.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in parameters]
    return f"{base}?{'&'.join([*kept, urlencode(parameters)])}"


def _read_code(url: str, server: ServerMetadata, state: str) -> str:
    """Return the code of an authorization response (rule 2)."""
    step = f"the authorization at {shown_text(server.issuer)}"
    said = _read_response(url, step)
    if not hmac.compare_digest(said.get("state", "").encode(errors="replace"), state.encode()):
        raise AuthorizationFailed(f"{step} failed: the response does not belong to a request of this client (state)")
    _check_issuer(said.get("iss"), server, step)
    if said.get("error"):
        raise refusal(step, said["error"], said.get("error_description"))
    if not said.get("code"):
        raise AuthorizationFailed(f"{step} failed: the response contains no code")
    return said["code"]


def _read_response(url: str, step: str) -> dict[str, str]:
    """Return the parameters that this module uses, decoded. They may come from an attacker."""
    query = url.partition("#")[0].partition("?")[2]
    try:
        if len(query) > _MAX_RESPONSE:
            raise ValueError("too long")  # noqa: TRY301 # handled like other unreadable responses
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise AuthorizationFailed(f"{step} failed: the response is too long") from None
    said = {name: value for name, value in pairs if name in _READ}
    if len(said) != sum(name in _READ for name, _ in pairs):
        raise AuthorizationFailed(f"{step} failed: the response contains a parameter twice")
    return said


def _check_issuer(said: str | None, server: ServerMetadata, step: str) -> None:
    """Refuse the response of another authorization server (RFC 9207); issuers are compared character by character."""
    if said is None and server.authorization_response_iss_parameter_supported:
        raise AuthorizationFailed(
            f"{step} failed: the response does not name its issuer (iss), although this server promises it"
        )
    if said is not None and said != server.issuer:
        raise AuthorizationFailed(f"{step} failed: the response comes from another authorization server (iss)")


_ANY_PORT = "http://127.0.0.1/callback"
"""The default redirect URI. Authorization servers accept any port with it (RFC 8252, 7.3)."""


@define(kw_only=True, eq=False)
class OAuth(Grant):
    """A grant that lets the user sign in by a browser when a server requires a token; a `ClientAuth`.

    ::

        async with open_http_client(url, auth=OAuth(storage=FileTokenStorage())) as client: ...

        async def show(url: str) -> None:
            print("sign in at", url)

        async def visit(url: str) -> str:
            return await my_browser.open_and_wait(url)  # the URL that it was redirected to

        OAuth(show=show)
        OAuth(visit=visit, redirect_uri="https://example.com/callback")

    By default, the system's browser opens, the browser is redirected to a port of this machine, and the client
    registers itself. Tokens are stored in `storage`, and refreshed without the user as long as possible. `storage`,
    `scopes`, `dpop` and other options that all grants have are described at `auth.Grant`.

    Args:
        client_name: the name on the consent page. If the authorization server supports it, the page also shows
            `client_uri`, `logo_uri`, `policy_uri`, `tos_uri` and `contacts`.
        client: a manual registration at the authorization server. Its id may be the URL of a client ID metadata
            document, for example of one with a private key.
        client_metadata_url: the URL of a client ID metadata document, for authorization servers that support it: an
            ``https`` URL with a path. `client_metadata` returns the document.
        redirect_uri: the redirect URI, if it matters, because it was registered or because a port is forwarded. Without
            a port in it, any free one is used. By default ``http://127.0.0.1:PORT/callback``.
        show: an async function that shows a URL to the user, instead of the system's browser: `auth.print_url`, or a
            custom one. The browser is still redirected to a port of this machine.
        visit: an async function that opens a URL by the application's own means, and returns the whole URL that the
            browser was redirected to. It requires `redirect_uri`; no port is opened.
        visit_seconds: the time limit of the user, from the moment when the page is shown.

    Raises:
        ValueError: an option is invalid, or contradicts another one; the message names it.

    Concurrency: at most one sign-in is in progress at a time for one authorization server.
    """

    client_name: str = "trio-mcp client"
    client_uri: str | None = None
    """The client's home page."""
    logo_uri: str | None = None
    """The URL of the client's logo."""
    policy_uri: str | None = None
    """The URL of the client's privacy policy."""
    tos_uri: str | None = None
    """The URL of the client's terms of service."""
    contacts: Sequence[str] = ()
    """Mail addresses of the people who are responsible for the client."""
    client: Registration | None = None
    client_metadata_url: str | None = None
    redirect_uri: str | None = None
    show: Callable[[str], Awaitable[None]] | None = None
    visit: Callable[[str], Awaitable[str]] | None = None
    visit_seconds: float = 300
    issuers_with_pkce: Sequence[str] = ()
    """Authorization servers that support PKCE with S256, although their metadata does not announce it, by their
    issuers: that of Microsoft Entra ID, for example. Any other server without it is refused."""
    authorization_parameters: Mapping[str, str] = field(factory=dict[str, str])
    """Further parameters of the authorization request, for what only one authorization server knows:
    ``{"access_type": "offline"}`` for Google. They are in the URL that the browser opens, so do not put secrets there.
    """

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
            raise ValueError("show, visit: pass only one of them; visit shows the URL itself")
        if self.visit is not None and self._redirect_uri is None:
            raise ValueError("visit: it requires redirect_uri")
        if self.visit is None and self._redirect_uri is not None and not is_loopback(self._redirect_uri):
            raise ValueError(
                f"redirect_uri={self._redirect_uri!r}: this program receives the browser only at http URLs of this "
                "machine; for others, pass visit"
            )
        _check_parameters(self.authorization_parameters)
        if not self.visit_seconds > 0:
            raise ValueError(f"visit_seconds={self.visit_seconds!r}: must be positive")

    @property
    def _redirect_uri(self) -> str | None:
        return self.redirect_uri or (None if self.client is None else self.client.redirect_uri)

    @property
    def identity(self) -> str:
        """A name that distinguishes this client from others in one storage. It contains no secret."""
        if self.client is not None:
            return f"client {self.client.client_id}"
        if self.client_metadata_url is not None:
            return f"client {self.client_metadata_url}"
        return f"client named {self.client_name}"

    @property
    def stays_with_issuer(self) -> bool:
        """True if the first authorization server that issued tokens is the only one; see `Grant`.

        A client whose id is the URL of a document is the same client everywhere, unless it has a secret.
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
            issuers_with_pkce=self.issuers_with_pkce,
            parameters=self.authorization_parameters,
            names={name: value for name, value in names.items() if value is not None},
        )

    def client_metadata(self) -> dict[str, Any]:
        """Return the client ID metadata document to publish at `client_metadata_url`, as JSON.

        Raises:
            ValueError: there is no `client_metadata_url`.

        Specification: https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
        """
        if self.client_metadata_url is None:
            raise ValueError("client_metadata: pass client_metadata_url, at which the document is published")
        return self._profile.document(self._redirect_uri or _ANY_PORT)

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Let the user authorize the client in a browser, and obtain its tokens.

        Args:
            ask: the authorization server, the scopes to request, and the proofs of possession to make.

        Raises:
            AuthorizationFailed: the user or the authorization server refused, or a step failed; the message names it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
        """
        return authorize(ask, self._profile)

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        """Obtain tokens in exchange for a refresh token, without the user.

        Args:
            ask: the authorization server, the scopes to request, and the proofs of possession to make.
            refresh_token: the refresh token of the tokens that have expired.

        Raises:
            AuthorizationFailed: the request failed, or was refused (`error` has the error code).
        """
        return refresh(ask, self._profile, refresh_token)

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]:
        """Open the browser agent for one authorization."""
        if self.visit is not None:
            assert self._redirect_uri is not None
            return nullcontext(CustomBrowserAgent(self.visit, self._redirect_uri, self.visit_seconds))
        return open_loopback_browser(
            show=self.show or open_browser, seconds=self.visit_seconds, redirect_uri=self._redirect_uri
        )
