"""Requests to token endpoints: what goes along with each of them, and what makes a response good.

Called by all grants. Rules of this file:

1. A request is sent once. It is sent once more only where the server wants its nonce in the proof of possession.
2. A response is taken as a whole or not at all, and a token is of the type that was asked for.
3. A token's life is counted from before the request, so that nobody takes it for longer than it is.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-5
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from .._errors import AuthorizationFailed
from ..wire import JsonObject
from ._client_authentication import authenticate
from ._dpop import NONCE_FIELD, PROOF_FIELD, Proofs
from ._grant import TokenAsk
from ._metadata import ServerMetadata
from ._refusals import error_code_of, json_object_of, refusal_of
from ._shown import shown_text, shown_url
from ._steps import CallFailed, Flow, HttpReply, now, post_form
from ._tokens import Registration, Tokens, TokenType

__all__ = ["post_token_request", "request_tokens", "scope_member", "text_member"]

_SECRET_MEMBERS = ("code", "code_verifier", "refresh_token", "assertion", "subject_token", "client_secret")
_CAN_BE_SHOWN = re.compile(r"[!-~]+")  # characters that a header field takes, and that end no token in it
_LONGEST_LIFE = 10 * 365 * 86_400.0  # seconds; nobody means more, and clocks cannot tell more


def request_tokens(ask: TokenAsk, registration: Registration | None, form: Mapping[str, str]) -> Flow[Tokens]:
    """Ask the authorization server of *ask* for tokens.

    Args:
        ask: what they are for.
        registration: as whom; None where the form alone says it.
        form: of the grant; the resource, and what proves the client, are added here.

    Raises:
        AuthorizationFailed: they were refused (`error` has the code of it), could not be asked for, or are no good.
    """
    identifier = ask.place.identifier
    whole = {**form} if identifier is None else {**form, "resource": identifier}
    sent_at = yield from now()
    members = yield from post_token_request(ask.place.server, registration, whole, proofs=ask.proofs)
    wanted: TokenType = "Bearer" if ask.proofs is None else "DPoP"
    try:
        return _read_tokens(members, wanted, sent_at)
    except _BadMemberError as fault:
        raise AuthorizationFailed(f"{_step(ask.place.server, form)} brought no good token: {fault}") from None


def post_token_request(
    server: ServerMetadata,
    registration: Registration | None,
    form: Mapping[str, str],
    *,
    proofs: Proofs | None,
    named_by: Literal["user", "server"] = "server",
) -> Flow[JsonObject]:
    """Send a form to a token endpoint, and return the members of the successful response.

    Raises:
        AuthorizationFailed: it was refused (`error` has the code of it), or could not be sent.
    """
    reply = yield from _send(server, registration, form, proofs, named_by)
    if proofs is not None and error_code_of(reply) == "use_dpop_nonce" and NONCE_FIELD in reply.headers:
        reply = yield from _send(server, registration, form, proofs, named_by)
    step = _step(server, form)
    if reply.status != 200:
        secrets = [form[name] for name in _SECRET_MEMBERS if name in form]
        if registration is not None and registration.secret:
            secrets.append(registration.secret)
        raise refusal_of(step, reply, secrets)
    members = json_object_of(reply)
    if members is None:
        raise AuthorizationFailed(f"{step} was answered with something that is no JSON object")
    return members


def _send(
    server: ServerMetadata,
    registration: Registration | None,
    form: Mapping[str, str],
    proofs: Proofs | None,
    named_by: Literal["user", "server"],
) -> Flow[HttpReply]:
    """Send the form with fresh proofs, none of which may be seen twice."""
    time = yield from now()
    headers: dict[str, str] = {}
    whole = {**form}
    if registration is not None:
        shown = authenticate(registration, server, time)
        headers.update(shown.headers)
        whole.update(shown.form)
    if proofs is not None:
        headers[PROOF_FIELD] = proofs.proof("POST", server.token_endpoint, now=time)
    try:
        reply = yield from post_form(server.token_endpoint, whole, headers, named_by=named_by)
    except CallFailed as failure:
        raise AuthorizationFailed(f"{_step(server, form)} could not be made: {failure}") from failure
    if proofs is not None:
        proofs.note(server.token_endpoint, reply.headers)
    return reply


def _step(server: ServerMetadata, form: Mapping[str, str]) -> str:
    grant = form["grant_type"].rpartition(":")[2]
    return f"the token request ({grant}) to {shown_url(server.token_endpoint)}"


def scope_member(scopes: tuple[str, ...] | None) -> dict[str, str]:
    """Return the `scope` parameter of a request; nothing where nothing is to be asked for."""
    return {"scope": " ".join(scopes)} if scopes else {}


class _BadMemberError(ValueError):
    """A member of a response is not what it has to be."""


def text_member(members: Mapping[str, Any], name: str) -> str | None:
    """Return a member of a response that is a text with something in it; None where it is anything else."""
    value = members.get(name)
    return value if isinstance(value, str) and value else None


def _read_tokens(members: JsonObject, wanted: TokenType, sent_at: float) -> Tokens:
    token = text_member(members, "access_token")
    if token is None or not _CAN_BE_SHOWN.fullmatch(token):
        raise _BadMemberError("access_token is missing, or is none that a header can carry")
    token_type = text_member(members, "token_type") or ""
    if token_type.lower() != wanted.lower():
        raise _BadMemberError(f"its token_type is {shown_text(token_type)!r}, and {wanted!r} was asked for")
    return Tokens(
        access_token=token,
        token_type=wanted,
        expires_at=_end_of_life(members.get("expires_in"), sent_at),
        refresh_token=_optional_text(members, "refresh_token"),
        scopes=_scopes(_optional_text(members, "scope")),
    )


def _end_of_life(seconds: Any, sent_at: float) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, str) and re.fullmatch(r"[0-9]{1,15}", seconds):
        seconds = int(seconds)  # some servers write it so, and nothing else can be meant
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise _BadMemberError("expires_in is no number of seconds")
    return sent_at + min(seconds, _LONGEST_LIFE)


def _optional_text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise _BadMemberError(f"{name} is no text")
    return value or None


def _scopes(scope: str | None) -> tuple[str, ...] | None:
    """Read a list of scopes; one with nothing in it is how some servers say that they do not say."""
    return None if scope is None else tuple(dict.fromkeys(scope.split())) or None
