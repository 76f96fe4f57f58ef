"""The token endpoint of the development authorization server: what clients get in exchange for what.

Specification: https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1#section-3.2
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Any

from attrs import define, evolve, field

from ._clients import ClientCheck, keep, presents_credentials
from ._grants import (
    GrantBook,
    ProofCheck,
    TokenFamily,
    asked_resource,
    asked_scopes,
    granted_scopes,
    may_refresh,
    require_grant,
)
from ._http import EndpointRequest, EndpointResponse, OAuthError, json_answer
from ._options import (
    ID_JAG_TYPE,
    JWT_BEARER,
    TOKEN_EXCHANGE,
    AccessAsk,
    Jwt,
    KnownClient,
    Settings,
    SigningKeys,
    is_for,
    read_jwt,
    read_keys,
    unverified_claims,
)

__all__ = ["Exchanges", "TokenEndpoint"]


# Assertions at the development authorization server: ID-JAGs, made and taken, and identities of workloads.
#
# Specification: https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization,
# https://www.rfc-editor.org/rfc/rfc7523 and https://www.rfc-editor.org/rfc/rfc8693

_ID_JAG = "oauth-id-jag+jwt"
_ID_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 # a name
_ID_JAG_SECONDS = 300.0
_MAX_ASSERTIONS = 10_000


@define(eq=False)
class Exchanges:
    """Gives tokens and assertions in exchange for assertions."""

    _settings: Settings
    _keys: SigningKeys
    _check: ClientCheck
    _book: GrantBook
    _seen: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """ID-JAGs, each of which holds once."""

    async def take(self, asked: EndpointRequest, thumbprint: str | None) -> dict[str, Any]:
        """Give a token for an assertion of a trusted issuer (the grant jwt-bearer).

        A workload need not authenticate beside it; the client of an ID-JAG has to.

        Raises:
            OAuthError: the assertion does not hold, or is another client's.
        """
        assertion = self._asserted(asked)
        is_id_jag = assertion.header.get("typ") == _ID_JAG
        if is_id_jag or presents_credentials(asked):
            client = await self._check.check(asked)
            require_grant(client, JWT_BEARER)
            client_id = client.client_id
        else:
            client_id = asked.form.get("client_id", assertion.claims["sub"])
        return self._give(
            self._narrowed(asked, assertion, client_id) if is_id_jag else asked, assertion, client_id, thumbprint
        )

    def _asserted(self, asked: EndpointRequest) -> Jwt:
        """Return the assertion, if it holds."""
        text, places = asked.form.get("assertion", ""), (self._settings.issuer, self._settings.place("/token"))
        issuer = unverified_claims(text).get("iss")
        keys = self._settings.trusted_issuers.get(issuer) if isinstance(issuer, str) else None
        assertion = None if keys is None else read_jwt(text, read_keys(keys))
        if assertion is None or not is_for(assertion.claims, places, self._settings.clock()):
            raise OAuthError("invalid_grant", "the assertion does not hold")
        if not isinstance(assertion.claims.get("sub"), str):
            raise OAuthError("invalid_grant", "the assertion does not say about whom it is")
        return assertion

    def _narrowed(self, asked: EndpointRequest, assertion: Jwt, client_id: str) -> EndpointRequest:
        """Return a request that asks for what an ID-JAG allows, and use that up."""
        claims, form, number = assertion.claims, asked.form, assertion.claims.get("jti")
        if claims.get("client_id") != client_id:
            raise OAuthError("invalid_grant", "the assertion is for another client")
        if not isinstance(number, str) or number in self._seen:
            raise OAuthError("invalid_grant", "the assertion was used before")
        allowed = {name: value for name in ("scope", "resource") if isinstance(value := claims.get(name), str)}
        if "scope" in allowed and not {*form.get("scope", "").split()} <= {*allowed["scope"].split()}:
            raise OAuthError("invalid_scope", "the assertion does not allow this")
        if form.get("resource", allowed.get("resource")) != allowed.get("resource"):
            raise OAuthError("invalid_target", "the assertion is for another resource")
        keep(self._seen, number, None, _MAX_ASSERTIONS)
        return evolve(asked, form={**allowed, **form})

    def _give(self, asked: EndpointRequest, assertion: Jwt, client_id: str, thumbprint: str | None) -> dict[str, Any]:
        ask = AccessAsk(
            grant_type=JWT_BEARER,
            client_id=client_id,
            subject=assertion.claims["sub"],
            scopes=asked_scopes(self._settings, asked.form),
            resource=asked_resource(self._settings, asked.form),
        )
        scopes = granted_scopes(self._settings, ask, refusal="unauthorized_client")
        family = TokenFamily(
            client_id=client_id,
            subject=ask.subject,
            scopes=scopes,
            resource=ask.resource,
            key_thumbprint=thumbprint,
        )
        return self._book.give_tokens(family, scopes, refreshable=False)

    def give_id_jag(self, asked: EndpointRequest, client: KnownClient) -> dict[str, Any]:
        """Give an ID-JAG for an ID token of this server (the grant token-exchange).

        Raises:
            OAuthError: the token does not hold, or something else is asked for.
        """
        require_grant(client, TOKEN_EXCHANGE)
        form = asked.form
        if form.get("requested_token_type") != ID_JAG_TYPE or form.get("subject_token_type") != _ID_TOKEN_TYPE:
            raise OAuthError("invalid_request", "ID tokens are exchanged for ID-JAGs, and nothing else for anything")
        audience = form.get("audience")
        if audience is None:
            raise OAuthError("invalid_target", "audience has to be the issuer of the ID-JAG's authorization server")
        subject = self._keys.read(form.get("subject_token", ""))
        if subject is None or not is_for(subject.claims, (client.client_id,), self._settings.clock()):
            raise OAuthError("invalid_grant", "subject_token is no ID token of this client's")
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
    """Gives tokens."""

    _settings: Settings
    _check: ClientCheck
    _proofs: ProofCheck
    _book: GrantBook
    _exchanges: Exchanges

    async def answer(self, asked: EndpointRequest) -> EndpointResponse:
        """Give tokens.

        Raises:
            OAuthError: there are none for this.
        """
        members = await self._members(asked)
        return json_answer(self._settings.changed("token", members), headers=self._proofs.fields)

    async def _members(self, asked: EndpointRequest) -> dict[str, Any]:
        kind = asked.form.get("grant_type")
        if kind == JWT_BEARER:
            return await self._exchanges.take(asked, self._proven(asked))
        client = await self._check.check(asked)
        thumbprint = self._proven(asked)
        match kind:
            case "authorization_code":
                return self._exchange_code(asked, client, thumbprint)
            case "refresh_token":
                return self._refresh(asked, client, thumbprint)
            case "client_credentials":
                return self._give_client(asked, client, thumbprint)
            case _ if kind == TOKEN_EXCHANGE:
                return self._exchanges.give_id_jag(asked, client)
            case _:
                raise OAuthError("unsupported_grant_type", "this grant_type is not known here")

    def _proven(self, asked: EndpointRequest) -> str | None:
        return self._proofs.check(asked.headers.get("dpop"))

    def _exchange_code(self, asked: EndpointRequest, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        code, form = self._book.take_code(asked.form.get("code", "")), asked.form
        family = code.family
        if family.client_id != client.client_id:
            raise OAuthError("invalid_grant", "the code is another client's")
        if form.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
            raise OAuthError("invalid_grant", "redirect_uri is not the one that the code was sent to")
        if not hmac.compare_digest(_challenge_of(form.get("code_verifier", "")), code.challenge.encode()):
            raise OAuthError("invalid_grant", "code_verifier does not match")
        if family.key_thumbprint not in {None, thumbprint}:
            raise OAuthError("invalid_dpop_proof", "the code is bound to another key")
        self._require_resource(asked, family)
        family.key_thumbprint = thumbprint
        refreshable = may_refresh(self._settings, client, family.scopes)
        return self._book.give_tokens(family, family.scopes, refreshable=refreshable)

    def _refresh(self, asked: EndpointRequest, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        refresh = self._book.find_refresh(asked.form.get("refresh_token", ""), client.client_id, thumbprint)
        family = refresh.family
        scopes = asked_scopes(self._settings, {"scope": " ".join(family.scopes), **asked.form})
        if not {*scopes} <= {*family.scopes}:
            raise OAuthError("invalid_scope", "this was not granted")
        self._require_resource(asked, family)
        self._book.use_up(refresh)
        return self._book.give_tokens(family, scopes, refreshable=True)

    def _give_client(self, asked: EndpointRequest, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        require_grant(client, "client_credentials")
        if client.is_public:
            raise OAuthError("unauthorized_client", "a client without credentials has none to show")
        ask = AccessAsk(
            grant_type="client_credentials",
            client_id=client.client_id,
            subject=client.client_id,
            scopes=asked_scopes(self._settings, asked.form),
            resource=asked_resource(self._settings, asked.form),
        )
        family = TokenFamily(
            client_id=client.client_id,
            subject=client.client_id,
            scopes=granted_scopes(self._settings, ask, refusal="unauthorized_client"),
            resource=ask.resource,
            key_thumbprint=thumbprint,
        )
        return self._book.give_tokens(family, family.scopes, refreshable=False)

    def _require_resource(self, asked: EndpointRequest, family: TokenFamily) -> None:
        resource = asked_resource(self._settings, asked.form)
        if resource is not None and resource != family.resource:
            raise OAuthError("invalid_target", "the grant is for another resource")


def _challenge_of(verifier: str) -> bytes:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
