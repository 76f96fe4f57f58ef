"""The token endpoint of the development authorization server: codes, refresh tokens, assertions, DPoP and scopes.

Specification: https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1#section-3.2,
https://www.rfc-editor.org/rfc/rfc9449#section-4.3, https://www.rfc-editor.org/rfc/rfc8707,
https://www.rfc-editor.org/rfc/rfc7523, https://www.rfc-editor.org/rfc/rfc8693 and
https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, evolve, field, frozen
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from joserfc.jws import extract_compact

from ...wire import is_object
from ._clients import ClientCheck, presents_credentials, put_bounded
from ._http import EndpointRequest, EndpointResponse, OAuthError, json_answer
from ._keys import Jwt, SigningKeys, is_for, read_jwt, read_keys, unverified_claims
from ._options import ID_JAG_TYPE, JWT_BEARER, TOKEN_EXCHANGE, AccessAsk, KnownClient, Settings

__all__ = [
    "AccessToken",
    "AuthorizationCode",
    "Exchanges",
    "GrantBook",
    "ProofCheck",
    "RefreshToken",
    "TokenEndpoint",
    "TokenFamily",
    "asked_resource",
    "asked_scopes",
    "granted_scopes",
    "may_refresh",
    "require_grant",
]

_MOST = 100_000
"""The limit of codes, and that of tokens."""


@define(eq=False, kw_only=True)
class TokenFamily:
    """One grant, and all tokens that are derived from it."""

    client_id: str
    subject: str
    scopes: tuple[str, ...]
    resource: str | None
    key_thumbprint: str | None = None
    """The thumbprint of the key that its tokens are bound to."""
    is_revoked: bool = False


@frozen(kw_only=True)
class AuthorizationCode:
    """An authorization code, and its grant."""

    family: TokenFamily
    redirect_uri: str
    challenge: str
    """The PKCE challenge."""
    expires_at: float


@define(eq=False)
class RefreshToken:
    """A refresh token."""

    family: TokenFamily
    is_used: bool = False


@frozen
class AccessToken:
    """An access token."""

    family: TokenFamily
    expires_at: float


def _digest(secret: str) -> str:
    """Return the digest under which a secret is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


@define(eq=False)
class GrantBook:
    """All grants that may still be valid."""

    _settings: Settings
    _keys: SigningKeys
    refreshes: int = field(default=0, init=False)
    """The number of refreshes."""
    reuses: int = field(default=0, init=False)
    """The number of refresh tokens that were presented again after their use."""
    _codes: dict[str, AuthorizationCode] = field(factory=dict[str, AuthorizationCode], init=False)
    _used_codes: dict[str, TokenFamily] = field(factory=dict[str, TokenFamily], init=False)
    _refresh: dict[str, RefreshToken] = field(factory=dict[str, RefreshToken], init=False)
    _access: dict[str, AccessToken] = field(factory=dict[str, AccessToken], init=False)

    def issue_code(self, family: TokenFamily, *, redirect_uri: str, challenge: str) -> str:
        """Return a code for a grant."""
        code = secrets.token_urlsafe(32)
        expires_at = self._settings.clock() + self._settings.code_seconds
        known = AuthorizationCode(family=family, redirect_uri=redirect_uri, challenge=challenge, expires_at=expires_at)
        put_bounded(self._codes, _digest(code), known, _MOST)
        return code

    def redeem_code(self, code: str) -> AuthorizationCode:
        """Use up a code, and return its grant.

        Raises:
            OAuthError: the code is unknown, expired or used.
        """
        digest = _digest(code)
        used = self._used_codes.get(digest)
        if used is not None:
            used.is_revoked = True  # the code may be stolen, so everything that was issued for it is revoked
        known = self._codes.pop(digest, None)
        if known is None or known.expires_at <= self._settings.clock():
            raise OAuthError("invalid_grant", "the code is invalid, expired or used")
        put_bounded(self._used_codes, digest, known.family, _MOST)
        return known

    def issue_tokens(self, family: TokenFamily, scopes: tuple[str, ...], *, refreshable: bool) -> dict[str, Any]:
        """Return the members of a response with tokens.

        Args:
            scopes: the scopes of the access token: those of the family, or fewer.
            refreshable: True to include a refresh token.
        """
        seconds = self._settings.token_seconds
        members: dict[str, Any] = {
            "access_token": self.access_token(family, scopes, seconds),
            "token_type": "Bearer" if family.key_thumbprint is None else "DPoP",
            "expires_in": int(seconds),
            "scope": " ".join(scopes),
        }
        if refreshable:
            members["refresh_token"] = token = secrets.token_urlsafe(32)
            put_bounded(self._refresh, _digest(token), RefreshToken(family), _MOST)
        return members

    def access_token(
        self, family: TokenFamily, scopes: tuple[str, ...], seconds: float, claims: Mapping[str, Any] | None = None
    ) -> str:
        """Return an access token, as a JWT (RFC 9068)."""
        now, number = self._settings.clock(), secrets.token_urlsafe(16)
        put_bounded(self._access, number, AccessToken(family, now + seconds), _MOST)
        bound = {} if family.key_thumbprint is None else {"cnf": {"jkt": family.key_thumbprint}}
        usual = {
            "iss": self._settings.issuer,
            "sub": family.subject,
            "aud": family.resource or self._settings.issuer,
            "client_id": family.client_id,
            "scope": " ".join(scopes),
            "iat": int(now),
            "exp": int(now + seconds),
            "jti": number,
        }
        return self._keys.sign({**usual, **bound, **(claims or {})}, typ="at+jwt")

    def find_refresh(self, token: str, client_id: str, key_thumbprint: str | None) -> RefreshToken:
        """Return the record of a refresh token.

        Raises:
            OAuthError: it is invalid; if it was used before, its whole family is revoked.
        """
        known = self._refresh.get(_digest(token))
        if known is None or known.family.is_revoked or known.family.client_id != client_id:
            raise OAuthError("invalid_grant", "the refresh token is invalid")
        if known.is_used:
            self.reuses += 1
            known.family.is_revoked = True
            raise OAuthError("invalid_grant", "the refresh token was used before")
        if known.family.key_thumbprint != key_thumbprint:
            raise OAuthError("invalid_dpop_proof", "the refresh token is bound to another key")
        return known

    def use_up(self, refresh: RefreshToken) -> None:
        """Use up a refresh token."""
        refresh.is_used = True
        self.refreshes += 1

    def introspect(self, token: str) -> dict[str, Any]:
        """Return the introspection response of a token (RFC 7662)."""
        refresh = self._refresh.get(_digest(token))
        if refresh is not None:
            return {"active": not refresh.is_used and not refresh.family.is_revoked, "token_type": "refresh_token"}
        read = self._keys.read(token)
        known = None if read is None else self._access.get(str(read.claims.get("jti")))
        if read is None or known is None or known.family.is_revoked or known.expires_at <= self._settings.clock():
            return {"active": False}
        kind = "Bearer" if known.family.key_thumbprint is None else "DPoP"
        return {"active": True, "token_type": kind, **read.claims}

    def revoke(self, token: str, client_id: str) -> None:
        """Revoke a client's token; a refresh token includes its whole family (RFC 7009)."""
        refresh = self._refresh.get(_digest(token))
        if refresh is not None and refresh.family.client_id == client_id:
            refresh.family.is_revoked = True
        read = self._keys.read(token)
        if read is not None and read.claims.get("client_id") == client_id:
            self._access.pop(str(read.claims.get("jti")), None)

    def expire(self) -> None:
        """Expire all access tokens now, for introspection; refresh tokens stay valid."""
        self._access.clear()

    def revoke_all(self) -> None:
        """Revoke everything that was granted so far."""
        books: tuple[Mapping[str, AuthorizationCode | RefreshToken | AccessToken], ...] = (
            self._codes,
            self._refresh,
            self._access,
        )
        for known in (each for book in books for each in book.values()):
            known.family.is_revoked = True
        self._codes.clear()


# --- Proofs of possession ---

_LEEWAY_SECONDS = 300.0
_MAX_PROOFS = 10_000


@define(eq=False)
class ProofCheck:
    """Checks the proofs of possession in token requests."""

    _settings: Settings
    nonce: str = field(factory=lambda: secrets.token_urlsafe(16), init=False)
    """The required nonce; None if none is required."""
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)

    def renew_nonce(self) -> None:
        """Refuse proofs with an earlier nonce."""
        self.nonce = secrets.token_urlsafe(16)

    def check(self, proof: str | None) -> str | None:
        """Return the thumbprint of a request's key; None if it has no proof.

        Raises:
            OAuthError: the proof is invalid or missing.
        """
        if self._settings.dpop == "off" or (proof is None and self._settings.dpop == "allowed"):
            return None
        read = None if proof is None else _read(proof)
        if read is None or not self._holds(read[0]):
            raise OAuthError("invalid_dpop_proof", "the DPoP header is missing or contains an invalid proof")
        decoded, thumbprint = read
        if self._settings.dpop_nonces and decoded.claims.get("nonce") != self.nonce:
            raise OAuthError(
                "use_dpop_nonce", "the proof must contain the current nonce of this server", headers=self.fields
            )
        return thumbprint

    @property
    def fields(self) -> Mapping[str, str]:
        """The header field that gives a nonce to a client."""
        return {"dpop-nonce": self.nonce} if self._settings.dpop_nonces else {}

    def _holds(self, proof: Jwt) -> bool:
        claims, number = proof.claims, proof.claims.get("jti")
        issued, target = claims.get("iat"), claims.get("htu")
        if proof.header.get("typ") != "dpop+jwt" or claims.get("htm") != "POST" or not isinstance(target, str):
            return False
        if not _is_same_place(target, self._settings.endpoint_url("/token")):
            return False
        if not isinstance(issued, int | float) or not _is_near(issued, self._settings.clock()):
            return False
        if not isinstance(number, str) or number in self._seen:
            return False
        put_bounded(self._seen, number, None, _MAX_PROOFS)
        return True


def _read(proof: str) -> tuple[Jwt, str] | None:
    """Parse a proof, and check its signature; return its content and the thumbprint of its key, or None."""
    try:
        jwk = extract_compact(proof.encode()).headers().get("jwk")
        if not is_object(jwk) or "d" in jwk:
            return None
        key = ECKey.import_key(jwk)
    except (JoseError, ValueError, TypeError):
        return None
    decoded = read_jwt(proof, [key], ("ES256",))
    return None if decoded is None else (decoded, key.thumbprint())


def _is_near(issued: float, now: float) -> bool:
    return abs(issued - now) <= _LEEWAY_SECONDS  # false for NaN


def _is_same_place(one: str, other: str) -> bool:
    try:
        first, second = urlsplit(one), urlsplit(other)
        ports = [each.port or {"http": 80, "https": 443}.get(each.scheme) for each in (first, second)]
    except ValueError:
        return False
    same_origin = first.scheme == second.scheme and first.hostname == second.hostname and ports[0] == ports[1]
    return same_origin and first.path == second.path


# --- Scopes and resources ---


def require_grant(client: KnownClient, grant_type: str) -> None:
    """Check that a client may use a grant type.

    Raises:
        OAuthError: it has not registered for it.
    """
    if not client.may_use(grant_type):
        raise OAuthError("unauthorized_client", "the client has not registered for this grant_type")


def asked_scopes(settings: Settings, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return the requested scopes, in order and without duplicates.

    Raises:
        OAuthError: a scope does not exist.
    """
    named = parameters.get("scope")
    scopes = tuple(settings.default_scopes) if named is None else tuple(dict.fromkeys(named.split()))
    offline = ["offline_access"] if settings.refresh_tokens == "offline_access" else []
    if settings.scopes is not None and not {*scopes} <= {*settings.scopes, *offline}:
        raise OAuthError("invalid_scope", "a requested scope does not exist")
    return scopes


def asked_resource(settings: Settings, parameters: Mapping[str, str]) -> str | None:
    """Return the server that a token is requested for; None if it is not named.

    Raises:
        OAuthError: it is malformed, or no tokens are issued for it.
    """
    resource = parameters.get("resource")
    if resource is None:
        return None
    try:
        parts = urlsplit(resource)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or not parts.netloc or "#" in resource:
        raise OAuthError("invalid_target", "resource must be a URL without a fragment")
    if settings.resources is not None and resource not in settings.resources:
        raise OAuthError("invalid_target", "no tokens are issued for this resource")
    return resource


def granted_scopes(settings: Settings, ask: AccessAsk, *, refusal: str) -> tuple[str, ...]:
    """Return the scopes that the policy grants.

    Raises:
        OAuthError: it denies access; *refusal* is the error code.
    """
    granted = settings.policy(ask)
    if granted is None:
        raise OAuthError(refusal, "access is denied")
    return tuple(dict.fromkeys(granted))


def may_refresh(settings: Settings, client: KnownClient, scopes: tuple[str, ...]) -> bool:
    """Return True if a client gets refresh tokens for its scopes."""
    if settings.refresh_tokens == "never" or not client.may_use("refresh_token"):
        return False
    return settings.refresh_tokens == "always" or "offline_access" in scopes


# --- Assertions: ID-JAGs and workload identities ---

_ID_JAG = "oauth-id-jag+jwt"
_ID_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 # a name
_ID_JAG_SECONDS = 300.0
_MAX_ASSERTIONS = 10_000


@define(eq=False)
class Exchanges:
    """Issues tokens and assertions in exchange for assertions."""

    _settings: Settings
    _keys: SigningKeys
    _check: ClientCheck
    _grants: GrantBook
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """Used ID-JAGs, because each one is valid once."""

    async def take(self, request: EndpointRequest, thumbprint: str | None) -> dict[str, Any]:
        """Issue a token for an assertion of a trusted issuer (the grant type jwt-bearer).

        A workload need not authenticate in addition; the client of an ID-JAG must.

        Raises:
            OAuthError: the assertion is invalid, or belongs to another client.
        """
        assertion = self._asserted(request)
        is_id_jag = assertion.header.get("typ") == _ID_JAG
        if is_id_jag or presents_credentials(request):
            client = await self._check.check(request)
            require_grant(client, JWT_BEARER)
            client_id = client.client_id
        else:
            client_id = request.form.get("client_id", assertion.claims["sub"])
        return self._issue(
            self._narrowed(request, assertion, client_id) if is_id_jag else request, assertion, client_id, thumbprint
        )

    def _asserted(self, request: EndpointRequest) -> Jwt:
        """Return the assertion, if it is valid."""
        text, places = request.form.get("assertion", ""), (self._settings.issuer, self._settings.endpoint_url("/token"))
        issuer = unverified_claims(text).get("iss")
        keys = self._settings.trusted_issuers.get(issuer) if isinstance(issuer, str) else None
        assertion = None if keys is None else read_jwt(text, read_keys(keys))
        if assertion is None or not is_for(assertion.claims, places, self._settings.clock()):
            raise OAuthError("invalid_grant", "the assertion is invalid")
        if not isinstance(assertion.claims.get("sub"), str):
            raise OAuthError("invalid_grant", "the assertion has no subject")
        return assertion

    def _narrowed(self, request: EndpointRequest, assertion: Jwt, client_id: str) -> EndpointRequest:
        """Return a request that is limited to the content of an ID-JAG, and use up the ID-JAG."""
        claims, form, number = assertion.claims, request.form, assertion.claims.get("jti")
        if claims.get("client_id") != client_id:
            raise OAuthError("invalid_grant", "the assertion is for another client")
        if not isinstance(number, str) or number in self._seen:
            raise OAuthError("invalid_grant", "the assertion was used before")
        allowed = {name: value for name in ("scope", "resource") if isinstance(value := claims.get(name), str)}
        if "scope" in allowed and not {*form.get("scope", "").split()} <= {*allowed["scope"].split()}:
            raise OAuthError("invalid_scope", "the assertion does not allow the requested scope")
        if form.get("resource", allowed.get("resource")) != allowed.get("resource"):
            raise OAuthError("invalid_target", "the assertion is for another resource")
        put_bounded(self._seen, number, None, _MAX_ASSERTIONS)
        return evolve(request, form={**allowed, **form})

    def _issue(
        self, request: EndpointRequest, assertion: Jwt, client_id: str, thumbprint: str | None
    ) -> dict[str, Any]:
        ask = AccessAsk(
            grant_type=JWT_BEARER,
            client_id=client_id,
            subject=assertion.claims["sub"],
            scopes=asked_scopes(self._settings, request.form),
            resource=asked_resource(self._settings, request.form),
        )
        scopes = granted_scopes(self._settings, ask, refusal="unauthorized_client")
        family = TokenFamily(
            client_id=client_id,
            subject=ask.subject,
            scopes=scopes,
            resource=ask.resource,
            key_thumbprint=thumbprint,
        )
        return self._grants.issue_tokens(family, scopes, refreshable=False)

    def issue_id_jag(self, request: EndpointRequest, client: KnownClient) -> dict[str, Any]:
        """Issue an ID-JAG for an ID token of this server (the grant type token-exchange).

        Raises:
            OAuthError: the token is invalid, or another type is requested.
        """
        require_grant(client, TOKEN_EXCHANGE)
        form = request.form
        if form.get("requested_token_type") != ID_JAG_TYPE or form.get("subject_token_type") != _ID_TOKEN_TYPE:
            raise OAuthError("invalid_request", "only an ID token can be exchanged, and only for an ID-JAG")
        audience = form.get("audience")
        if audience is None:
            raise OAuthError(
                "invalid_target", "audience must be the issuer of the authorization server that will accept the ID-JAG"
            )
        subject = self._keys.read(form.get("subject_token", ""))
        if subject is None or not is_for(subject.claims, (client.client_id,), self._settings.clock()):
            raise OAuthError("invalid_grant", "subject_token is not a valid ID token of this client")
        ask = AccessAsk(
            grant_type=TOKEN_EXCHANGE,
            client_id=client.client_id,
            subject=str(subject.claims.get("sub")),
            scopes=asked_scopes(self._settings, form),
            resource=asked_resource(self._settings, form),
        )
        scopes = granted_scopes(self._settings, ask, refusal="access_denied")
        return {
            "issued_token_type": ID_JAG_TYPE,
            "access_token": self._id_jag(ask, scopes, audience, client.known_as.get(audience, client.client_id)),
            "token_type": "N_A",
            "expires_in": int(_ID_JAG_SECONDS),
            "scope": " ".join(scopes),
        }

    def _id_jag(self, ask: AccessAsk, scopes: tuple[str, ...], audience: str, client_id: str) -> str:
        now = self._settings.clock()
        claims = {
            "iss": self._settings.issuer,
            "sub": ask.subject,
            "aud": audience,
            "client_id": client_id,
            "jti": secrets.token_urlsafe(16),
            "iat": int(now),
            "exp": int(now + _ID_JAG_SECONDS),
            **({"scope": " ".join(scopes)} if scopes else {}),
            **({"resource": ask.resource} if ask.resource else {}),
        }
        return self._keys.sign(claims, typ=_ID_JAG)


@define(eq=False)
class TokenEndpoint:
    """The token endpoint."""

    _settings: Settings
    _check: ClientCheck
    _proofs: ProofCheck
    _grants: GrantBook
    _exchanges: Exchanges

    async def answer(self, request: EndpointRequest) -> EndpointResponse:
        """Issue tokens.

        Raises:
            OAuthError: the request is refused.
        """
        members = await self._members(request)
        return json_answer(self._settings.changed("token", members), headers=self._proofs.fields)

    async def _members(self, request: EndpointRequest) -> dict[str, Any]:
        kind = request.form.get("grant_type")
        if kind == JWT_BEARER:
            return await self._exchanges.take(request, self._proof_thumbprint(request))
        client = await self._check.check(request)
        thumbprint = self._proof_thumbprint(request)
        match kind:
            case "authorization_code":
                return self._exchange_code(request, client, thumbprint)
            case "refresh_token":
                return self._refresh(request, client, thumbprint)
            case "client_credentials":
                return self._issue_to_client(request, client, thumbprint)
            case _ if kind == TOKEN_EXCHANGE:
                return self._exchanges.issue_id_jag(request, client)
            case _:
                raise OAuthError("unsupported_grant_type", "this grant_type is not supported")

    def _proof_thumbprint(self, request: EndpointRequest) -> str | None:
        return self._proofs.check(request.headers.get("dpop"))

    def _exchange_code(self, request: EndpointRequest, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        code, form = self._grants.redeem_code(request.form.get("code", "")), request.form
        family = code.family
        if family.client_id != client.client_id:
            raise OAuthError("invalid_grant", "the code was issued to another client")
        if form.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
            raise OAuthError("invalid_grant", "redirect_uri differs from the one in the authorization request")
        if not hmac.compare_digest(_challenge_of(form.get("code_verifier", "")), code.challenge.encode()):
            raise OAuthError("invalid_grant", "code_verifier does not match")
        if family.key_thumbprint not in {None, thumbprint}:
            raise OAuthError("invalid_dpop_proof", "the code is bound to another key")
        self._require_resource(request, family)
        family.key_thumbprint = thumbprint
        refreshable = may_refresh(self._settings, client, family.scopes)
        return self._grants.issue_tokens(family, family.scopes, refreshable=refreshable)

    def _refresh(self, request: EndpointRequest, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        refresh = self._grants.find_refresh(request.form.get("refresh_token", ""), client.client_id, thumbprint)
        family = refresh.family
        scopes = asked_scopes(self._settings, {"scope": " ".join(family.scopes), **request.form})
        if not {*scopes} <= {*family.scopes}:
            raise OAuthError("invalid_scope", "a requested scope was not granted")
        self._require_resource(request, family)
        self._grants.use_up(refresh)
        return self._grants.issue_tokens(family, scopes, refreshable=True)

    def _issue_to_client(self, request: EndpointRequest, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        require_grant(client, "client_credentials")
        if client.is_public:
            raise OAuthError("unauthorized_client", "a client without credentials cannot use this grant_type")
        ask = AccessAsk(
            grant_type="client_credentials",
            client_id=client.client_id,
            subject=client.client_id,
            scopes=asked_scopes(self._settings, request.form),
            resource=asked_resource(self._settings, request.form),
        )
        family = TokenFamily(
            client_id=client.client_id,
            subject=client.client_id,
            scopes=granted_scopes(self._settings, ask, refusal="unauthorized_client"),
            resource=ask.resource,
            key_thumbprint=thumbprint,
        )
        return self._grants.issue_tokens(family, family.scopes, refreshable=False)

    def _require_resource(self, request: EndpointRequest, family: TokenFamily) -> None:
        resource = asked_resource(self._settings, request.form)
        if resource is not None and resource != family.resource:
            raise OAuthError("invalid_target", "the grant is for another resource")


def _challenge_of(verifier: str) -> bytes:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
