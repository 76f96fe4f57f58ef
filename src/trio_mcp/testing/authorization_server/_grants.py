"""What the development authorization server has granted: codes, families of tokens, and which of them still hold.

Specification: https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1#section-4.3
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field, frozen
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from joserfc.jws import extract_compact

from ...wire import is_object
from ._clients import keep
from ._http import OAuthError
from ._options import AccessAsk, Jwt, KnownClient, Settings, SigningKeys, read_jwt

__all__ = [
    "AccessToken",
    "AuthorizationCode",
    "GrantBook",
    "ProofCheck",
    "RefreshToken",
    "TokenFamily",
    "asked_resource",
    "asked_scopes",
    "granted_scopes",
    "may_refresh",
    "require_grant",
]

_MOST = 100_000
"""How many codes, and how many tokens, are known at once."""


@define(eq=False, kw_only=True)
class TokenFamily:
    """What was granted once, and all tokens that come of it."""

    client_id: str
    subject: str
    scopes: tuple[str, ...]
    resource: str | None
    key_thumbprint: str | None = None
    """Of the key that its tokens are bound to."""
    is_revoked: bool = False


@frozen(kw_only=True)
class AuthorizationCode:
    """An authorization code, and what was granted by it."""

    family: TokenFamily
    redirect_uri: str
    challenge: str
    """Of PKCE."""
    ends: float


@define(eq=False)
class RefreshToken:
    """A refresh token."""

    family: TokenFamily
    is_used: bool = False


@frozen
class AccessToken:
    """An access token."""

    family: TokenFamily
    ends: float


def _digest(secret: str) -> str:
    """Return what stands for a secret in the books."""
    return hashlib.sha256(secret.encode()).hexdigest()


@define(eq=False)
class GrantBook:
    """Everything that was granted and may still hold."""

    _settings: Settings
    _keys: SigningKeys
    refreshes: int = field(default=0, init=False)
    """How often tokens were refreshed."""
    reuses: int = field(default=0, init=False)
    """How often a refresh token was shown that had been used already."""
    _codes: dict[str, AuthorizationCode] = field(factory=dict[str, AuthorizationCode], init=False)
    _used_codes: dict[str, TokenFamily] = field(factory=dict[str, TokenFamily], init=False)
    _refresh: dict[str, RefreshToken] = field(factory=dict[str, RefreshToken], init=False)
    _access: dict[str, AccessToken] = field(factory=dict[str, AccessToken], init=False)

    def give_code(self, family: TokenFamily, *, redirect_uri: str, challenge: str) -> str:
        """Return a code for what was granted."""
        code = secrets.token_urlsafe(32)
        ends = self._settings.clock() + self._settings.code_seconds
        known = AuthorizationCode(family=family, redirect_uri=redirect_uri, challenge=challenge, ends=ends)
        keep(self._codes, _digest(code), known, _MOST)
        return code

    def take_code(self, code: str) -> AuthorizationCode:
        """Return what was granted by a code, which is then used up.

        Raises:
            OAuthError: there is no such code, or it does not hold any more.
        """
        digest = _digest(code)
        used = self._used_codes.get(digest)
        if used is not None:
            used.is_revoked = True  # somebody has got hold of it: nobody keeps what came of it
        known = self._codes.pop(digest, None)
        if known is None or known.ends <= self._settings.clock():
            raise OAuthError("invalid_grant", "the code does not hold")
        keep(self._used_codes, digest, known.family, _MOST)
        return known

    def give_tokens(self, family: TokenFamily, scopes: tuple[str, ...], *, refreshable: bool) -> dict[str, Any]:
        """Return the members of an answer with tokens.

        Args:
            scopes: of the access token: those of the family, or fewer.
            refreshable: whether a refresh token is among them.
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
            keep(self._refresh, _digest(token), RefreshToken(family), _MOST)
        return members

    def access_token(
        self, family: TokenFamily, scopes: tuple[str, ...], seconds: float, claims: Mapping[str, Any] | None = None
    ) -> str:
        """Return an access token, a JWT (RFC 9068)."""
        now, number = self._settings.clock(), secrets.token_urlsafe(16)
        keep(self._access, number, AccessToken(family, now + seconds), _MOST)
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
        """Return what is known of a refresh token that a client shows.

        Raises:
            OAuthError: it does not hold; where it was used before, nothing of its family does any more.
        """
        known = self._refresh.get(_digest(token))
        if known is None or known.family.is_revoked or known.family.client_id != client_id:
            raise OAuthError("invalid_grant", "the refresh token does not hold")
        if known.is_used:
            self.reuses += 1
            known.family.is_revoked = True
            raise OAuthError("invalid_grant", "the refresh token was used before")
        if known.family.key_thumbprint != key_thumbprint:
            raise OAuthError("invalid_dpop_proof", "the refresh token is bound to another key")
        return known

    def use_up(self, refresh: RefreshToken) -> None:
        """Let a refresh token be used: it does not hold any more."""
        refresh.is_used = True
        self.refreshes += 1

    def introspect(self, token: str) -> dict[str, Any]:
        """Return what is known about a token (RFC 7662)."""
        refresh = self._refresh.get(_digest(token))
        if refresh is not None:
            return {"active": not refresh.is_used and not refresh.family.is_revoked, "token_type": "refresh_token"}
        read = self._keys.read(token)
        known = None if read is None else self._access.get(str(read.claims.get("jti")))
        if read is None or known is None or known.family.is_revoked or known.ends <= self._settings.clock():
            return {"active": False}
        kind = "Bearer" if known.family.key_thumbprint is None else "DPoP"
        return {"active": True, "token_type": kind, **read.claims}

    def revoke(self, token: str, client_id: str) -> None:
        """Revoke a token of a client's: with a refresh token, its whole family (RFC 7009)."""
        refresh = self._refresh.get(_digest(token))
        if refresh is not None and refresh.family.client_id == client_id:
            refresh.family.is_revoked = True
        read = self._keys.read(token)
        if read is not None and read.claims.get("client_id") == client_id:
            self._access.pop(str(read.claims.get("jti")), None)

    def expire(self) -> None:
        """Let all access tokens end now, as far as introspection tells; refresh tokens go on."""
        self._access.clear()

    def revoke_all(self) -> None:
        """Let nothing hold that was granted so far."""
        books: tuple[Mapping[str, AuthorizationCode | RefreshToken | AccessToken], ...] = (
            self._codes,
            self._refresh,
            self._access,
        )
        for known in (each for book in books for each in book.values()):
            known.family.is_revoked = True
        self._codes.clear()


# How the development authorization server checks that a client has the key that its tokens are to be bound to.
#
# Specification: https://www.rfc-editor.org/rfc/rfc9449#section-4.3

_LEEWAY_SECONDS = 300.0
_MAX_PROOFS = 10_000


@define(eq=False)
class ProofCheck:
    """Checks the proofs of possession that come with requests for tokens."""

    _settings: Settings
    nonce: str = field(factory=lambda: secrets.token_urlsafe(16), init=False)
    """The one that proofs have to carry, where they have to carry one."""
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)

    def renew_nonce(self) -> None:
        """Refuse proofs with the nonce of before."""
        self.nonce = secrets.token_urlsafe(16)

    def check(self, proof: str | None) -> str | None:
        """Return the thumbprint of the key that a request shows to have; None where it shows none.

        Raises:
            OAuthError: the proof does not hold, or is missing.
        """
        if self._settings.dpop == "off" or (proof is None and self._settings.dpop == "allowed"):
            return None
        read = None if proof is None else _read(proof)
        if read is None or not self._holds(read[0]):
            raise OAuthError("invalid_dpop_proof", "the DPoP field is missing, or its proof does not hold")
        decoded, thumbprint = read
        if self._settings.dpop_nonces and decoded.claims.get("nonce") != self.nonce:
            raise OAuthError("use_dpop_nonce", "the proof needs a nonce of this server", headers=self.fields)
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
        if not _is_same_place(target, self._settings.place("/token")):
            return False
        if not isinstance(issued, int | float) or not _is_near(issued, self._settings.clock()):
            return False
        if not isinstance(number, str) or number in self._seen:
            return False
        keep(self._seen, number, None, _MAX_PROOFS)
        return True


def _read(proof: str) -> tuple[Jwt, str] | None:
    """Return what is in a proof that its own key has signed, and the thumbprint of that; None where it is none."""
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
    return abs(issued - now) <= _LEEWAY_SECONDS  # which NaN is not


def _is_same_place(one: str, other: str) -> bool:
    try:
        first, second = urlsplit(one), urlsplit(other)
        ports = [each.port or {"http": 80, "https": 443}.get(each.scheme) for each in (first, second)]
    except ValueError:
        return False
    same_origin = first.scheme == second.scheme and first.hostname == second.hostname and ports[0] == ports[1]
    return same_origin and first.path == second.path


# Which scopes the development authorization server grants, and for which servers.
#
# Specification: https://www.rfc-editor.org/rfc/rfc6749#section-3.3 and https://www.rfc-editor.org/rfc/rfc8707


def require_grant(client: KnownClient, grant_type: str) -> None:
    """Make sure that a client may use a grant.

    Raises:
        OAuthError: it has not registered for it.
    """
    if not client.may_use(grant_type):
        raise OAuthError("unauthorized_client", "the client has not registered for this grant_type")


def asked_scopes(settings: Settings, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is asked for, in its order and each once.

    Raises:
        OAuthError: there is no such scope.
    """
    named = parameters.get("scope")
    scopes = tuple(settings.default_scopes) if named is None else tuple(dict.fromkeys(named.split()))
    offline = ["offline_access"] if settings.refresh_tokens == "offline_access" else []
    if settings.scopes is not None and not {*scopes} <= {*settings.scopes, *offline}:
        raise OAuthError("invalid_scope", "there is no such scope")
    return scopes


def asked_resource(settings: Settings, parameters: Mapping[str, str]) -> str | None:
    """Return the server that a token is asked for; None where it is not said.

    Raises:
        OAuthError: that is no server, or none that there are tokens for.
    """
    resource = parameters.get("resource")
    if resource is None:
        return None
    try:
        parts = urlsplit(resource)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or not parts.netloc or "#" in resource:
        raise OAuthError("invalid_target", "resource has to be a URL without a fragment")
    if settings.resources is not None and resource not in settings.resources:
        raise OAuthError("invalid_target", "there are no tokens for this resource")
    return resource


def granted_scopes(settings: Settings, ask: AccessAsk, *, refusal: str) -> tuple[str, ...]:
    """Return what the policy grants.

    Raises:
        OAuthError: it grants nothing; *refusal* is the code.
    """
    granted = settings.policy(ask)
    if granted is None:
        raise OAuthError(refusal, "access is denied")
    return tuple(dict.fromkeys(granted))


def may_refresh(settings: Settings, client: KnownClient, scopes: tuple[str, ...]) -> bool:
    """Tell whether a client gets refresh tokens for what was granted to it."""
    if settings.refresh_tokens == "never" or not client.may_use("refresh_token"):
        return False
    return settings.refresh_tokens == "always" or "offline_access" in scopes
