"""Token requests: client authentication, the request to the token endpoint, and the check of its response.

All grants use this module. Its rules:

1. A request is sent once. It is sent once more only if the server requires its nonce in the proof of possession.
2. A response is accepted as a whole or not at all, and the token must have the requested type.
3. A token's lifetime is counted from before the request, so that it is never overestimated.
4. Error messages contain the server's error code and a shortened description. Secrets of the request are removed from
   it, because a server may repeat its input.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-5, https://www.rfc-editor.org/rfc/rfc7523#section-2.2 and
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
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
from ._steps import CallFailed, Flow, HttpReply, now, post_form

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
"""The authentication method of a client at a token endpoint."""
TokenType: TypeAlias = Literal["Bearer", "DPoP"]


@frozen
class PrivateKey:
    """A private key that authenticates the client (`private_key_jwt`).

    Args:
        pem: the key, as PEM (PKCS #8).
        algorithm: the algorithm of the signature, such as ``"ES256"`` or ``"RS256"``; not a symmetric one.
        key_id: the id of the public key at the authorization server, if it knows several.
    """

    pem: str = field(repr=False)
    algorithm: str = "ES256"
    key_id: str | None = None


@frozen
class Registration:
    """A client's registration at an authorization server.

    Args:
        client_id: the client's id there.
        secret: the client's secret, if it has one.
        private_key: the client's key, instead of a secret.
        method: the authentication method; None means the one that the server prefers, of those that the secret or key
            allows.
        issuer: the authorization server that knows the client; None means the first one that the MCP server names.
        redirect_uri: the registered redirect URI; None if the registration names none.
        secret_expires_at: the expiry of the secret, as `time.time` counts; None means never.
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
    """An access token, and the values that were issued with it."""

    access_token: str = field(repr=False)
    token_type: TokenType
    expires_at: float | None
    """The expiry, as `time.time` counts; None if unknown."""
    refresh_token: str | None = field(repr=False)
    scopes: tuple[str, ...] | None
    """The granted scopes; None if the server did not say, which means the requested ones."""
    client: Registration | None = field(default=None, repr=False)
    """The dynamic registration that obtained the tokens; the refresh token is valid only for this client."""


@frozen(kw_only=True)
class TokenAsk:
    """The description of a token to obtain."""

    token_issuer: TokenIssuer
    scopes: tuple[str, ...] | None
    """The scopes to request; None leaves the choice to the authorization server."""
    proofs: DpopProver | None
    """Makes the proofs of possession; None for bearer tokens."""
    client: Registration | None = None
    """The client that obtained the tokens to refresh; None if the grant knows it."""


_SHOWABLE = re.compile(r"[!-~]+")


def is_showable(token: str) -> bool:
    """Return True if a header field can carry a token: visible ASCII only, and not empty."""
    return _SHOWABLE.fullmatch(token) is not None


ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_ASSERTION_SECONDS = 60  # the lifetime of an assertion, which is made for one request
_KEY_TYPES: Mapping[str, Literal["EC", "OKP", "RSA"]] = {
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("PS256", "PS384", "PS512", "RS256", "RS384", "RS512"), "RSA"),
    "Ed25519": "OKP",
}
"""The key type of each algorithm. None is symmetric: an authorization server has only the public key."""


@frozen(kw_only=True)
class ClientAuthentication:
    """The header fields and form members that authenticate a client."""

    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """The header fields, by lower-case name."""
    form: Mapping[str, str] = field(factory=dict[str, str], repr=False)


def authenticate(registration: Registration, server: ServerMetadata, now: float) -> ClientAuthentication:
    """Return the authentication of a client for one request to the token endpoint of *server*.

    Args:
        registration: the client's registration there.
        server: the metadata, which lists the supported methods.
        now: the time, as `time.time` counts.

    Raises:
        AuthorizationFailed: the registration lacks the secret or key that its method needs, or the key is unusable.
    """
    client_id, secret, key = registration.client_id, registration.secret, registration.private_key
    method = registration.method or _choose(registration, server.token_endpoint_auth_methods_supported)
    if method == "none":
        return ClientAuthentication(form={"client_id": client_id})
    if method == "private_key_jwt" and key is not None:
        assertion = _assertion(client_id, key, server.issuer, now)
        return ClientAuthentication(form={"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion})
    if method == "client_secret_basic" and secret is not None:
        # A space as %20, and the client id in the form, too: some servers do not read "+", or look for the id there
        # first. Both are allowed, and no other server minds.
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
        shown = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return ClientAuthentication(headers=shown, form={"client_id": client_id})
    if method == "client_secret_post" and secret is not None:
        return ClientAuthentication(form={"client_id": client_id, "client_secret": secret})
    lacking = "private key" if method == "private_key_jwt" else "secret"
    raise AuthorizationFailed(
        f"the client {shown_text(client_id)!r} must authenticate with {shown_text(method)}, but has no {lacking}"
    )


def _choose(registration: Registration, listed: Sequence[str] | None) -> AuthMethod:
    """Return the first listed method that the client can use, or else the client's most usual method."""
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
    """Return a signed assertion of the client's identity, for one authorization server."""
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
            f"the private key of the client {shown_text(client_id)!r} cannot sign with {shown_text(key.algorithm)}; "
            f"pass a key in PEM, without password, and one of the algorithms {', '.join(_KEY_TYPES)} that fits it"
        )
    return signed


def _sign(claims: dict[str, Any], key: PrivateKey) -> str | None:
    """Return signed claims; None if the key cannot sign them."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 # heavy
    from joserfc import jwt  # noqa: PLC0415 # heavy
    from joserfc.errors import JoseError  # noqa: PLC0415 # heavy
    from joserfc.jwk import import_key  # noqa: PLC0415 # heavy

    header = {"alg": key.algorithm, "typ": "JWT", **({} if key.key_id is None else {"kid": key.key_id})}
    try:
        signing = import_key(key.pem, _KEY_TYPES[key.algorithm])
        return jwt.encode(header, claims, signing, algorithms=[key.algorithm])
    except (JoseError, UnsupportedAlgorithm, LookupError, ValueError, TypeError):  # LookupError: an unknown name
        return None


_SHORTEST_SECRET = 4
"""Characters. A shorter secret occurs in any string by chance."""


def json_object_of(reply: HttpReply) -> JsonObject | None:
    """Return the JSON object in the body of a response; None if there is none."""
    try:
        value = decode(reply.body)
    except Undecodable:
        return None
    return value if is_object(value) else None


def error_code_of(reply: HttpReply) -> str | None:
    """Return the error code of a response that judges the request as wrong; None for any other response.

    A server that fails or is overloaded has not judged the request.
    """
    if not 400 <= reply.status < 500 or reply.status == 429:
        return None
    code = (json_object_of(reply) or {}).get("error")
    return code if isinstance(code, str) and code else None


def refusal_of(step: str, reply: HttpReply, secrets: Iterable[str] = ()) -> AuthorizationFailed:
    """Return the exception for a response that reports no success.

    Args:
        step: the failed action, as the subject of a sentence.
        reply: any response.
        secrets: secrets of the request, which the message must not contain.
    """
    code = error_code_of(reply)
    if code is None:
        return AuthorizationFailed(f"{step} failed with HTTP status {reply.status}")
    description = (json_object_of(reply) or {}).get("error_description")
    return refusal(step, code, description if isinstance(description, str) else None, secrets)


def refusal(step: str, code: str, description: str | None, secrets: Iterable[str] = ()) -> AuthorizationFailed:
    """Return the exception for an error code of an authorization server; see `refusal_of`."""
    raw = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    kept = [*raw, *map(quote_plus, raw)]  # as encoded in the form
    code = _without(kept, code)
    said = f" ({_without(kept, description)})" if description else ""
    return AuthorizationFailed(f"{step} was refused: {code}{said}", error=code)


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return shown_text(text)


_SECRET_MEMBERS = ("code", "code_verifier", "refresh_token", "assertion", "subject_token", "client_secret")
_CAN_BE_SHOWN = re.compile(r"[!-~]+")  # characters that a header field can carry
_MAX_LIFETIME = 10 * 365 * 86_400.0  # seconds; a longer lifetime is never meant


def request_tokens(ask: TokenAsk, registration: Registration | None, form: Mapping[str, str]) -> Flow[Tokens]:
    """Request tokens from the authorization server of *ask*.

    Args:
        ask: the token to obtain.
        registration: the client; None if the form alone identifies it.
        form: the members of the grant. The resource and the client's authentication are added here.

    Raises:
        AuthorizationFailed: the request failed, was refused (`error` has the error code), or returned an invalid token.
    """
    whole = {**form, **ask.token_issuer.resource_member}
    sent_at = yield from now()
    members = yield from post_token_request(ask.token_issuer.server, registration, whole, proofs=ask.proofs)
    wanted: TokenType = "Bearer" if ask.proofs is None else "DPoP"
    try:
        return _read_tokens(members, wanted, sent_at)
    except _BadMemberError as fault:
        raise AuthorizationFailed(
            f"{_step(ask.token_issuer.server, form)} returned an invalid token: {fault}"
        ) from None


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
        AuthorizationFailed: the request failed, or was refused (`error` has the error code).
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
        raise AuthorizationFailed(f"{step} failed: the response is not a JSON object")
    return members


def _send(
    server: ServerMetadata,
    registration: Registration | None,
    form: Mapping[str, str],
    proofs: DpopProver | None,
    named_by: Literal["user", "server"],
) -> Flow[HttpReply]:
    """Send the form with new proofs, which may be used only once."""
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
        raise AuthorizationFailed(f"{_step(server, form)} failed: {failure}") from failure
    if proofs is not None:
        proofs.note(server.token_endpoint, reply.headers)
    return reply


def _step(server: ServerMetadata, form: Mapping[str, str]) -> str:
    grant = form["grant_type"].rpartition(":")[2]
    return f"the token request ({grant}) to {shown_url(server.token_endpoint)}"


def scope_member(scopes: tuple[str, ...] | None) -> dict[str, str]:
    """Return the `scope` parameter of a request; no parameter if there are no scopes."""
    return {"scope": " ".join(scopes)} if scopes else {}


class _BadMemberError(ValueError):
    """A member of a response is missing or invalid."""


def string_member(members: Mapping[str, Any], name: str) -> str | None:
    """Return a member of a response that is a non-empty string; None if it is anything else."""
    value = members.get(name)
    return value if isinstance(value, str) and value else None


def _read_tokens(members: JsonObject, wanted: TokenType, sent_at: float) -> Tokens:
    token = string_member(members, "access_token")
    if token is None or not _CAN_BE_SHOWN.fullmatch(token):
        raise _BadMemberError("access_token is missing, or a header field cannot carry it")
    token_type = string_member(members, "token_type") or ""
    if token_type.lower() != wanted.lower():
        raise _BadMemberError(f"its token_type is {shown_text(token_type)!r}, but {wanted!r} was requested")
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
        seconds = int(seconds)  # some servers write a number as a string
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise _BadMemberError("expires_in is not a number of seconds")
    return sent_at + min(seconds, _MAX_LIFETIME)


def _optional_string(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise _BadMemberError(f"{name} is not a string")
    return value or None


def _scopes(scope: str | None) -> tuple[str, ...] | None:
    """Read a list of scopes. Some servers send an empty one instead of leaving it out."""
    return None if scope is None else tuple(dict.fromkeys(scope.split())) or None
