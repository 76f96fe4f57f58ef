"""Requests to token endpoints: what goes along with each of them, and what makes a response good.

Called by all grants. Rules of this file:

1. A request is sent once. It is sent once more only where the server wants its nonce in the proof of possession.
2. A response is taken as a whole or not at all, and a token is of the type that was asked for.
3. A token's life is counted from before the request, so that nobody takes it for longer than it is.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-5
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, quote_plus

from attrs import field, frozen

from ..._errors import AuthorizationFailed
from ...wire import JsonObject, Undecodable, decode, is_object
from .._dpop import NONCE_FIELD, PROOF_FIELD, DpopProver
from .._urls import shown_text, shown_url
from ._discovery import ServerMetadata, TokenIssuer
from ._flow import CallFailed, Flow, HttpReply, now, post_form

__all__ = [
    "ASSERTION_TYPE",
    "AuthMethod",
    "ClientAuthentication",
    "PrivateKey",
    "Registration",
    "TokenAsk",
    "TokenType",
    "Tokens",
    "authenticate",
    "error_code_of",
    "is_showable",
    "json_object_of",
    "post_token_request",
    "refusal",
    "refusal_of",
    "request_tokens",
    "scope_member",
    "string_member",
]

AuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client authenticates at a token endpoint."""
TokenType: TypeAlias = Literal["Bearer", "DPoP"]


@frozen
class PrivateKey:
    """The private key by which a client authenticates (`private_key_jwt`).

    Args:
        pem: the key, as PEM (PKCS #8).
        algorithm: of the signature: ``"ES256"``, ``"RS256"`` and so on; no symmetric one.
        key_id: by which the authorization server knows the public half, if it has several.
    """

    pem: str = field(repr=False)
    algorithm: str = "ES256"
    key_id: str | None = None


@frozen
class Registration:
    """How a client is known to an authorization server.

    Args:
        client_id: its name there.
        secret: what proves that this is the client, where it has a secret.
        private_key: what proves it, in place of a secret.
        method: how it authenticates; None: as the server likes best, of what its secret or key allows.
        issuer: the one authorization server that knows it; None: whichever the MCP server names first.
        redirect_uri: where browsers are sent back to, as it was registered; None where it has said nothing of that.
        secret_expires_at: when the secret ends, as `time.time` counts; None: never.
    """

    client_id: str
    secret: str | None = field(default=None, kw_only=True, repr=False)
    private_key: PrivateKey | None = field(default=None, kw_only=True)
    method: AuthMethod | None = field(default=None, kw_only=True)
    issuer: str | None = field(default=None, kw_only=True)
    redirect_uri: str | None = field(default=None, kw_only=True)
    secret_expires_at: float | None = field(default=None, kw_only=True)


@frozen(kw_only=True)
class Tokens:
    """A token to be shown, and what came with it."""

    access_token: str = field(repr=False)
    token_type: TokenType
    expires_at: float | None
    """When it ends, as `time.time` counts; None where nobody said."""
    refresh_token: str | None = field(repr=False)
    scopes: tuple[str, ...] | None
    """What was granted; None where nobody said, so that it is what was asked for."""
    client: Registration | None = field(default=None, repr=False)
    """As whom they were obtained, where a program has registered it: the refresh token is good for no other."""


@frozen(kw_only=True)
class TokenAsk:
    """What a token is wanted for."""

    token_issuer: TokenIssuer
    scopes: tuple[str, ...] | None
    """What to ask for; None: whatever the authorization server gives to those who name none."""
    proofs: DpopProver | None
    """Makes the proofs of possession; None where tokens are for their bearer."""
    client: Registration | None = None
    """As whom the tokens were obtained that are to be refreshed; None where the grant knows that by itself."""


_SHOWABLE = re.compile(r"[!-~]+")


def is_showable(token: str) -> bool:
    """Tell whether a token can stand in a header field: visible ASCII alone, and not empty."""
    return _SHOWABLE.fullmatch(token) is not None


# How a client proves at a token endpoint that it is the one that was registered.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration,
# https://www.rfc-editor.org/rfc/rfc6749#section-2.3 and https://www.rfc-editor.org/rfc/rfc7523#section-2.2

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_ASSERTION_SECONDS = 60  # that an assertion holds: it is made for one request
_KEY_TYPES: Mapping[str, Literal["EC", "OKP", "RSA"]] = {
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("PS256", "PS384", "PS512", "RS256", "RS384", "RS512"), "RSA"),
    "Ed25519": "OKP",
}
"""What kind of key an algorithm signs with. None is symmetric: an authorization server has only the public half."""


@frozen(kw_only=True)
class ClientAuthentication:
    """What a token request carries besides what it asks for."""

    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """By lower-case name."""
    form: Mapping[str, str] = field(factory=dict[str, str], repr=False)


def authenticate(registration: Registration, server: ServerMetadata, now: float) -> ClientAuthentication:
    """Return what proves a client at the token endpoint of *server*, made for one request.

    Args:
        registration: how the client is known there.
        server: which lists the ways that it takes.
        now: the time, as `time.time` counts.

    Raises:
        AuthorizationFailed: the registration says how, but lacks the secret or the key for that, or its key is unfit.
    """
    client_id, secret, key = registration.client_id, registration.secret, registration.private_key
    method = registration.method or _choose(registration, server.token_endpoint_auth_methods_supported)
    if method == "none":
        return ClientAuthentication(form={"client_id": client_id})
    if method == "private_key_jwt" and key is not None:
        assertion = _assertion(client_id, key, server.issuer, now)
        return ClientAuthentication(form={"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion})
    if method == "client_secret_basic" and secret is not None:
        # A blank as %20, and the name once more in the form: there are servers that do not read "+", or that look for
        # the name there first. Both are allowed, and no other server minds.
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
        shown = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return ClientAuthentication(headers=shown, form={"client_id": client_id})
    if method == "client_secret_post" and secret is not None:
        return ClientAuthentication(form={"client_id": client_id, "client_secret": secret})
    lacking = "private key" if method == "private_key_jwt" else "secret"
    raise AuthorizationFailed(
        f"the client {shown_text(client_id)!r} is to authenticate with {shown_text(method)}, but has no {lacking}"
    )


def _choose(registration: Registration, listed: Sequence[str] | None) -> AuthMethod:
    """Return the first way of those that are listed for which the client has what it takes, or else its most usual."""
    able: list[AuthMethod] = []
    if registration.private_key is not None:
        able.append("private_key_jwt")
    if registration.secret is not None:
        able.extend(("client_secret_basic", "client_secret_post"))
    liked = sorted(set(able) & set(listed or ()), key=(listed or ()).index)
    if liked:
        return liked[0]
    if not able or (registration.private_key is None and listed is not None and "none" in listed):
        return "none"
    return able[0]


def _assertion(client_id: str, key: PrivateKey, audience: str, now: float) -> str:
    """Return the signed statement of a client that it is itself, for one authorization server."""
    issued_at = int(now)
    claims: dict[str, Any] = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": secrets.token_urlsafe(18),
        "iat": issued_at,
        "exp": issued_at + _ASSERTION_SECONDS,
    }
    signed = _sign(claims, key)
    if signed is None:
        raise AuthorizationFailed(
            f"the private key of the client {shown_text(client_id)!r} cannot sign with {shown_text(key.algorithm)}: "
            f"a key in PEM, without password, is needed, and one of the algorithms {', '.join(_KEY_TYPES)} that fits it"
        )
    return signed


def _sign(claims: dict[str, Any], key: PrivateKey) -> str | None:
    """Return claims with a signature; None where the key cannot make one."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 # heavy
    from joserfc import jwt  # noqa: PLC0415 # heavy
    from joserfc.errors import JoseError  # noqa: PLC0415 # heavy
    from joserfc.jwk import import_key  # noqa: PLC0415 # heavy

    header = {"alg": key.algorithm, "typ": "JWT", **({} if key.key_id is None else {"kid": key.key_id})}
    try:
        signing = import_key(key.pem, _KEY_TYPES[key.algorithm])
        return jwt.encode(header, claims, signing, algorithms=[key.algorithm])
    except (JoseError, UnsupportedAlgorithm, LookupError, ValueError, TypeError):  # LookupError: a strange name
        return None


# How authorization servers say no, as `AuthorizationFailed`: with their code, and their words cut short.
#
# Rule of this file: a server may repeat what it was sent, so whatever was secret there is taken out of its words.
#
# Specification: https://www.rfc-editor.org/rfc/rfc6749#section-5.2

_SHORTEST_SECRET = 4
"""Characters. What is shorter stands in any text by chance, and is no secret either."""


def json_object_of(reply: HttpReply) -> JsonObject | None:
    """Return the JSON object that a response carries; None where it carries none."""
    try:
        value = decode(reply.body)
    except Undecodable:
        return None
    return value if is_object(value) else None


def error_code_of(reply: HttpReply) -> str | None:
    """Return the code by which a response says that the request was wrong; None where it says something else.

    A server that is out of order, or has too much to do, has not judged the request.
    """
    if not 400 <= reply.status < 500 or reply.status == 429:
        return None
    code = (json_object_of(reply) or {}).get("error")
    return code if isinstance(code, str) and code else None


def refusal_of(step: str, reply: HttpReply, secrets: Iterable[str] = ()) -> AuthorizationFailed:
    """Return what a response that is no success means.

    Args:
        step: what was attempted, as the beginning of a sentence.
        reply: with any status and content.
        secrets: what was sent, and may not be shown.
    """
    code = error_code_of(reply)
    if code is None:
        return AuthorizationFailed(f"{step} failed with HTTP status {reply.status}")
    description = (json_object_of(reply) or {}).get("error_description")
    return refusal(step, code, description if isinstance(description, str) else None, secrets)


def refusal(step: str, code: str, description: str | None, secrets: Iterable[str] = ()) -> AuthorizationFailed:
    """Return what an error code of an authorization server means; see `refusal_of`."""
    raw = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    kept = [*raw, *map(quote_plus, raw)]  # as it stood in the form
    code = _without(kept, code)
    said = f" ({_without(kept, description)})" if description else ""
    return AuthorizationFailed(f"{step} was refused: {code}{said}", error=code)


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return shown_text(text)


_SECRET_MEMBERS = ("code", "code_verifier", "refresh_token", "assertion", "subject_token", "client_secret")
_CAN_BE_SHOWN = re.compile(r"[!-~]+")  # characters that a header field takes, and that end no token in it
_MAX_LIFETIME = 10 * 365 * 86_400.0  # seconds; nobody means more, and clocks cannot tell more


def request_tokens(ask: TokenAsk, registration: Registration | None, form: Mapping[str, str]) -> Flow[Tokens]:
    """Ask the authorization server of *ask* for tokens.

    Args:
        ask: what they are for.
        registration: as whom; None where the form alone says it.
        form: of the grant; the resource, and what proves the client, are added here.

    Raises:
        AuthorizationFailed: they were refused (`error` has the code of it), could not be asked for, or are no good.
    """
    identifier = ask.token_issuer.identifier
    whole = {**form} if identifier is None else {**form, "resource": identifier}
    sent_at = yield from now()
    members = yield from post_token_request(ask.token_issuer.server, registration, whole, proofs=ask.proofs)
    wanted: TokenType = "Bearer" if ask.proofs is None else "DPoP"
    try:
        return _read_tokens(members, wanted, sent_at)
    except _BadMemberError as fault:
        raise AuthorizationFailed(f"{_step(ask.token_issuer.server, form)} brought no good token: {fault}") from None


def post_token_request(
    server: ServerMetadata,
    registration: Registration | None,
    form: Mapping[str, str],
    *,
    proofs: DpopProver | None,
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
    proofs: DpopProver | None,
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


def string_member(members: Mapping[str, Any], name: str) -> str | None:
    """Return a member of a response that is a text with something in it; None where it is anything else."""
    value = members.get(name)
    return value if isinstance(value, str) and value else None


def _read_tokens(members: JsonObject, wanted: TokenType, sent_at: float) -> Tokens:
    token = string_member(members, "access_token")
    if token is None or not _CAN_BE_SHOWN.fullmatch(token):
        raise _BadMemberError("access_token is missing, or is none that a header can carry")
    token_type = string_member(members, "token_type") or ""
    if token_type.lower() != wanted.lower():
        raise _BadMemberError(f"its token_type is {shown_text(token_type)!r}, and {wanted!r} was asked for")
    return Tokens(
        access_token=token,
        token_type=wanted,
        expires_at=_expiry(members.get("expires_in"), sent_at),
        refresh_token=_optional_string(members, "refresh_token"),
        scopes=_scopes(_optional_string(members, "scope")),
    )


def _expiry(seconds: Any, sent_at: float) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, str) and re.fullmatch(r"[0-9]{1,15}", seconds):
        seconds = int(seconds)  # some servers write it so, and nothing else can be meant
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise _BadMemberError("expires_in is no number of seconds")
    return sent_at + min(seconds, _MAX_LIFETIME)


def _optional_string(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise _BadMemberError(f"{name} is no text")
    return value or None


def _scopes(scope: str | None) -> tuple[str, ...] | None:
    """Read a list of scopes; one with nothing in it is how some servers say that they do not say."""
    return None if scope is None else tuple(dict.fromkeys(scope.split())) or None
