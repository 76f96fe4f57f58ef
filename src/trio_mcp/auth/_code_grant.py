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

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote_plus, urlencode

from attrs import evolve

from .._errors import AuthorizationFailed
from ._client_profile import ClientProfile
from ._grant import TokenAsk
from ._metadata import ServerMetadata
from ._pkce import Pkce, check_pkce
from ._refusals import refusal
from ._registering import Known, forget, known_client, make_known
from ._shown import shown_text
from ._steps import Flow, Visit
from ._token_requests import request_tokens, scope_member
from ._tokens import Tokens

__all__ = ["authorize", "refresh"]

_STATE_BYTES = 24
_MOST_PARAMETERS = 50  # of a response
_LONGEST_RESPONSE = 65_536  # characters of the URL that the browser comes back to
_READ = ("state", "iss", "error", "error_description", "code")
_CLIENT_IS_UNKNOWN = {"invalid_client", "unauthorized_client", "invalid_redirect_uri", "invalid_scope"}
"""Codes after which a registration that was made here is of no more use."""


def authorize(ask: TokenAsk, profile: ClientProfile) -> Flow[Tokens]:
    """Have a person authorize a client, and get its tokens.

    Raises:
        AuthorizationFailed: a step failed, the text says which; `error` has the code of who said no.
    """
    server = ask.place.server
    endpoint = server.authorization_endpoint
    if endpoint is None:
        raise AuthorizationFailed(f"{shown_text(server.issuer)} has no page where people could allow it")
    check_pkce(ask.place)
    known = yield from make_known(ask.place, profile, ask.scopes, dpop=ask.proofs is not None)
    pkce, state = Pkce.make(), secrets.token_urlsafe(_STATE_BYTES)
    url = _with_query(endpoint, _request(ask, known, pkce, state))
    try:
        came_back_to: str = yield Visit(url, known.redirect_uri)
    except AuthorizationFailed:
        # Nobody comes back either where the server shows the person that it does not know the client any more.
        if not known.is_new:
            yield from forget(known)
        raise
    try:
        code = _code_of(came_back_to, server, state)
    except AuthorizationFailed as failure:
        yield from _forget_after(failure, known)
        raise
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": known.redirect_uri,
        "code_verifier": pkce.verifier,
    }
    tokens = yield from _request_tokens(ask, known, form)
    return tokens if known.key is None else evolve(tokens, client=known.registration)


def refresh(ask: TokenAsk, profile: ClientProfile, refresh_token: str) -> Flow[Tokens]:
    """Get tokens for a refresh token, which stands in the result until the server replaces it.

    Raises:
        AuthorizationFailed: it was refused (`error` has the code of it), or could not be asked for.
    """
    known = yield from known_client(ask.place, profile, ask.client)
    if known is None:
        issuer = shown_text(ask.place.server.issuer)
        raise AuthorizationFailed(
            f"the refresh token cannot be used: the registration at {issuer} is gone", error="invalid_client"
        )
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    tokens = yield from _request_tokens(ask, known, form)
    return tokens if tokens.refresh_token is not None else evolve(tokens, refresh_token=refresh_token)


def _request_tokens(ask: TokenAsk, known: Known, form: Mapping[str, str]) -> Flow[Tokens]:
    try:
        return (yield from request_tokens(ask, known.registration, form))
    except AuthorizationFailed as failure:
        yield from _forget_after(failure, known)
        raise


def _forget_after(failure: AuthorizationFailed, known: Known) -> Flow[None]:
    """Drop a registration that was made here, where another one may do better."""
    if failure.error in _CLIENT_IS_UNKNOWN:
        yield from forget(known)


def _request(ask: TokenAsk, known: Known, pkce: Pkce, state: str) -> dict[str, str]:
    """Return the parameters of the authorization request."""
    identifier = ask.place.identifier
    parameters = {
        "response_type": "code",
        "client_id": known.registration.client_id,
        "redirect_uri": known.redirect_uri,
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


def _code_of(url: str, server: ServerMetadata, state: str) -> str:
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
        if len(query) > _LONGEST_RESPONSE:
            raise ValueError("too long")  # noqa: TRY301 # handled as what it is: a response that cannot be read
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
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
