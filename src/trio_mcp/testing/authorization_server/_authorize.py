"""The authorization endpoint of the development authorization server: sign-in, consent and the redirect of the browser.

Rules of this file:

1. Until the client and its redirect URI are validated, the browser is not redirected: it gets an error page.
2. The subject of a consent form is kept here. The form contains a ticket that is valid only in the same browser.
3. Each response to a client names the issuer (`iss`), also errors.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-4.1 and https://www.rfc-editor.org/rfc/rfc9207
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlsplit

from attrs import define, evolve, field, frozen

from ._clients import ClientRegistry, is_registered, put_bounded
from ._http import EndpointRequest, EndpointResponse, OAuthError, _page, error_page, redirect, with_query
from ._options import AccessAsk, KnownClient, Settings
from ._token import GrantBook, TokenFamily, asked_resource, asked_scopes, granted_scopes, require_grant

__all__ = ["BrowserSessions", "consent_page"]

_COOKIE = "trio-mcp-development"
_TICKET_SECONDS = 600.0
_MAX_TICKETS = 1000
_MAX_TRIES = 10
"""The limit of wrong passwords on one page."""
_RANDOM = re.compile(r"[A-Za-z0-9_-]{43}")
"""The encoding of 32 bytes: a PKCE challenge, or a cookie of this server."""


@frozen
class _Return:
    """The redirect of the browser, and the state that it returns."""

    uri: str
    state: str | None


@define(eq=False)
class _Ticket:
    """A decision that a page asks the user for."""

    client: KnownClient
    back: _Return
    ask: AccessAsk
    challenge: str
    key_thumbprint: str | None
    browser: str
    """The cookie of the browser that shows the page."""
    expires_at: float
    tries: int = 0


@define(eq=False)
class BrowserSessions:
    """The sign-ins of all browsers."""

    _settings: Settings
    _registry: ClientRegistry
    _grants: GrantBook
    _tickets: dict[str, Any] = field(factory=dict[str, Any], init=False)

    async def authorize(self, request: EndpointRequest) -> EndpointResponse:
        """Handle an authorization request."""
        try:
            client, back = await self._validated(request.query)
        except OAuthError as error:
            return error_page(error.description, error=error.error, status=400)
        try:
            ticket = self._ticket(request, client, back)
            if self._settings.auto_consent:
                return self._allow(ticket, next(iter(self._settings.users), "user"))
        except OAuthError as error:
            return self._redirect_back(back, error.members)
        name = secrets.token_urlsafe(32)
        put_bounded(self._tickets, name, ticket, _MAX_TICKETS)
        return self._show(name, ticket, None)

    async def decide(self, request: EndpointRequest) -> EndpointResponse:
        """Handle the decision of a user."""
        name = request.form.get("ticket", "")
        ticket: _Ticket | None = self._tickets.get(name)
        if ticket is None or ticket.expires_at <= self._settings.clock() or not _is_of(request, ticket):
            return error_page(
                "This page has expired. Return to the application and start again.", error="access_denied", status=403
            )
        if request.form.get("decision") != "allow":
            del self._tickets[name]
            return self._redirect_back(
                ticket.back, OAuthError("access_denied", "the user denied access").members, status=303
            )
        user, password = request.form.get("username", ""), request.form.get("password", "")
        if not hmac.compare_digest(self._settings.users.get(user, "").encode(), password.encode()) or not password:
            ticket.tries += 1
            if ticket.tries >= _MAX_TRIES:
                del self._tickets[name]
            return self._show(name, ticket, "The user name or the password is wrong.")
        del self._tickets[name]
        try:
            return self._allow(ticket, user, status=303)
        except OAuthError as error:
            return self._redirect_back(ticket.back, error.members, status=303)

    async def _validated(self, query: Mapping[str, str]) -> tuple[KnownClient, _Return]:
        """Return the client and the redirect of a request (rule 1).

        Raises:
            OAuthError: one of them is invalid.
        """
        client = await self._registry.find(query.get("client_id", ""))
        uri = query.get("redirect_uri", client.redirect_uris[0] if len(client.redirect_uris) == 1 else "")
        if not is_registered(uri, client.redirect_uris):
            raise OAuthError("invalid_request", "the client has not registered this redirect_uri")
        return client, _Return(uri, query.get("state"))

    def _ticket(self, request: EndpointRequest, client: KnownClient, back: _Return) -> _Ticket:
        query = request.query
        require_grant(client, "authorization_code")
        if query.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type must be code")
        challenge = query.get("code_challenge", "")
        if query.get("code_challenge_method") != "S256" or not _RANDOM.fullmatch(challenge):
            raise OAuthError("invalid_request", "PKCE is required, and code_challenge_method must be S256")
        ask = AccessAsk(
            grant_type="authorization_code",
            client_id=client.client_id,
            subject="",
            scopes=asked_scopes(self._settings, query),
            resource=asked_resource(self._settings, query),
        )
        return _Ticket(
            client=client,
            back=back,
            ask=ask,
            challenge=challenge,
            key_thumbprint=query.get("dpop_jkt"),
            browser=_cookie_of(request) or secrets.token_urlsafe(32),
            expires_at=self._settings.clock() + _TICKET_SECONDS,
        )

    def _allow(self, ticket: _Ticket, user: str, *, status: int = 302) -> EndpointResponse:
        """Redirect a browser with a code.

        Raises:
            OAuthError: the policy denies access.
        """
        ask = evolve(ticket.ask, subject=user)
        family = TokenFamily(
            client_id=ask.client_id,
            subject=user,
            scopes=granted_scopes(self._settings, ask, refusal="access_denied"),
            resource=ask.resource,
            key_thumbprint=ticket.key_thumbprint,
        )
        code = self._grants.issue_code(family, redirect_uri=ticket.back.uri, challenge=ticket.challenge)
        return self._redirect_back(ticket.back, {"code": code}, status=status)

    def _redirect_back(self, back: _Return, members: Mapping[str, str], *, status: int = 302) -> EndpointResponse:
        state = {} if back.state is None else {"state": back.state}
        parameters = self._settings.changed("authorize", {**members, **state, "iss": self._settings.issuer})
        return redirect(with_query(back.uri, parameters), status=status, error=parameters.get("error"))

    def _show(self, name: str, ticket: _Ticket, trouble: str | None) -> EndpointResponse:
        endpoint_url = urlsplit(self._settings.issuer)
        page = consent_page(
            action=self._settings.endpoint_url("/decide"),
            ticket=name,
            client=ticket.client.name,
            client_id=ticket.client.client_id,
            redirect_uri=ticket.back.uri,
            scopes=ticket.ask.scopes,
            resource=ticket.ask.resource,
            trouble=trouble,
        )
        secure = "; Secure" if endpoint_url.scheme == "https" else ""
        cookie = f"{_COOKIE}={ticket.browser}; Path={endpoint_url.path or '/'}; HttpOnly; SameSite=Lax{secure}"
        return evolve(page, headers={**page.headers, "set-cookie": cookie}, error="access_denied" if trouble else None)


def _cookie_of(request: EndpointRequest) -> str | None:
    """Return the cookie of a browser; None at its first request."""
    for pair in re.split(r"[;,] *", request.headers.get("cookie", "")):
        name, _, value = pair.partition("=")
        if name == _COOKIE and _RANDOM.fullmatch(value):
            return value
    return None


def _is_of(request: EndpointRequest, ticket: _Ticket) -> bool:
    return hmac.compare_digest((_cookie_of(request) or "").encode(), ticket.browser.encode())


def consent_page(
    *,
    action: str,
    ticket: str,
    client: str,
    client_id: str,
    redirect_uri: str,
    scopes: tuple[str, ...],
    resource: str | None,
    trouble: str | None,
) -> EndpointResponse:
    """Return the page on which a user signs in, and allows or denies a request.

    Args:
        action: the URL that the form is sent to.
        ticket: identifies the request, in the form.
        trouble: the error of the previous attempt; None at first.
    """
    wanted = "".join(f"<li><code>{escape(scope)}</code></li>" for scope in scopes) or "<li>no specific scope</li>"
    warned = f'<p class="error" role="alert">{escape(trouble)}</p>' if trouble else ""
    body = (
        f"<h1>Allow {escape(client)}?</h1>{warned}"
        f"<p><strong>{escape(client)}</strong> (<code>{escape(client_id)}</code>) requests access to "
        f"<code>{escape(resource or 'an unnamed server')}</code> on your behalf:</p><ul>{wanted}</ul>"
        f"<p>After your decision, the browser is redirected to <code>{escape(redirect_uri)}</code>.</p>"
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="ticket" value="{escape(ticket)}">'
        '<label>User name <input name="username" autocomplete="username"></label>'
        '<label>Password <input name="password" type="password" autocomplete="current-password"></label>'
        '<button name="decision" value="allow">Allow</button>'
        '<button name="decision" value="deny">Deny</button></form>'
    )
    # browsers apply this rule to a redirect after a form, too
    targets = f"form-action 'self' {urlsplit(redirect_uri).scheme}:"
    return _page("Sign in and consent", body, targets, status=403 if trouble else 200)
