"""The token endpoint of the development authorization server: what clients get in exchange for what.

Specification: https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1#section-3.2
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from attrs import define

from ._authorization_client_check import ClientCheck
from ._authorization_dpop import ProofCheck
from ._authorization_exchange import Exchanges
from ._authorization_grants import Family, GrantBook
from ._authorization_http import Answer, Asked, OAuthError, json_answer
from ._authorization_metadata import JWT_BEARER, TOKEN_EXCHANGE
from ._authorization_options import AccessAsk, KnownClient, Settings
from ._authorization_rules import asked_resource, asked_scopes, granted_scopes, may_refresh, require_grant

__all__ = ["TokenEndpoint"]


@define(eq=False)
class TokenEndpoint:
    """Gives tokens."""

    _settings: Settings
    _check: ClientCheck
    _proofs: ProofCheck
    _book: GrantBook
    _exchanges: Exchanges

    async def answer(self, asked: Asked) -> Answer:
        """Give tokens.

        Raises:
            OAuthError: there are none for this.
        """
        members = await self._members(asked)
        return json_answer(self._settings.changed("token", members), headers=self._proofs.fields)

    async def _members(self, asked: Asked) -> dict[str, Any]:
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

    def _proven(self, asked: Asked) -> str | None:
        return self._proofs.check(asked.headers.get("dpop"))

    def _exchange_code(self, asked: Asked, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
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

    def _refresh(self, asked: Asked, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
        refresh = self._book.find_refresh(asked.form.get("refresh_token", ""), client.client_id, thumbprint)
        family = refresh.family
        scopes = asked_scopes(self._settings, {"scope": " ".join(family.scopes), **asked.form})
        if not {*scopes} <= {*family.scopes}:
            raise OAuthError("invalid_scope", "this was not granted")
        self._require_resource(asked, family)
        self._book.use_up(refresh)
        return self._book.give_tokens(family, scopes, refreshable=True)

    def _give_client(self, asked: Asked, client: KnownClient, thumbprint: str | None) -> dict[str, Any]:
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
        family = Family(
            client_id=client.client_id,
            subject=client.client_id,
            scopes=granted_scopes(self._settings, ask, refusal="unauthorized_client"),
            resource=ask.resource,
            key_thumbprint=thumbprint,
        )
        return self._book.give_tokens(family, family.scopes, refreshable=False)

    def _require_resource(self, asked: Asked, family: Family) -> None:
        resource = asked_resource(self._settings, asked.form)
        if resource is not None and resource != family.resource:
            raise OAuthError("invalid_target", "the grant is for another resource")


def _challenge_of(verifier: str) -> bytes:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
