"""An authorization server behind the routes of the official SDK; it remembers the tokens it issues.

Run by that SDK's own interpreter, never imported by ours. It knows one user, who allows everything.
"""

from __future__ import annotations

import importlib
import secrets
import time
from typing import Any

# By name, because type checkers run where the official SDK is not installed.
httpx2 = importlib.import_module("httpx2")
jwt = importlib.import_module("jwt")
provider_module = importlib.import_module("mcp.server.auth.provider")
shared = importlib.import_module("mcp.shared.auth")

USER = "the official user"
LIFE = 600  # seconds until a token expires


class Provider:
    """An `OAuthAuthorizationServerProvider` for the routes of the SDK."""

    def __init__(self, issuer: str, trusts: str | None, knows: list[str] | None) -> None:
        self.issuer = issuer
        self.trusts = trusts
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}
        self.refresh_tokens: dict[str, Any] = {}
        self.grants: list[str] = []
        if knows is not None:
            client_id, secret = knows
            self.clients[client_id] = shared.OAuthClientInformationFull(
                client_id=client_id,
                client_secret=secret,
                grant_types=[shared.JWT_BEARER_GRANT_TYPE],
                token_endpoint_auth_method="client_secret_basic",
            )

    def expire(self) -> None:
        """Make every access token expire."""
        for token in self.tokens.values():
            token.expires_at = int(time.time()) - 1

    def issued(self) -> dict[str, Any]:
        """The authentication methods of registered clients, and the grants of the issued tokens."""
        return {
            "methods": [client.token_endpoint_auth_method for client in self.clients.values()],
            "grants": self.grants,
        }

    async def get_client(self, client_id: str) -> Any:
        """The client of an id; None if there is none."""
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        """Register a client."""
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        """The URL that the user's browser visits."""
        code = provider_module.AuthorizationCode(
            code=secrets.token_urlsafe(32),
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + LIFE,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=USER,
        )
        self.codes[code.code] = code
        uri: str = provider_module.construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)
        return uri

    async def load_authorization_code(self, _client: Any, code: str) -> Any:
        """A code that was not used yet."""
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: Any) -> Any:
        """Tokens for a code, once."""
        del self.codes[code.code]
        return self.give("authorization_code", client, code.scopes, code.resource, code.subject)

    async def load_refresh_token(self, _client: Any, token: str) -> Any:
        """A refresh token that was not used yet."""
        return self.refresh_tokens.get(token)

    async def exchange_refresh_token(self, client: Any, token: Any, scopes: list[str]) -> Any:
        """Tokens for a refresh token, once."""
        del self.refresh_tokens[token.token]
        return self.give("refresh_token", client, scopes, token.resource, token.subject)

    async def load_access_token(self, token: str) -> Any:
        """The access token with its scopes."""
        return self.tokens.get(token)

    async def exchange_identity_assertion(self, client: Any, params: Any) -> Any:
        """An access token for an assertion of the trusted identity provider about its user."""
        async with httpx2.AsyncClient() as http:
            (key,) = jwt.PyJWKSet.from_dict((await http.get(f"{self.trusts}/jwks")).json()).keys
        claims = jwt.decode(params.assertion, key, algorithms=["ES256"], audience=self.issuer, issuer=self.trusts)
        if (claims["client_id"], claims["resource"]) != (client.client_id, params.resource):
            raise provider_module.TokenError("invalid_grant", "the assertion is for others")
        tokens = self.give("id-jag", client, claims["scope"].split(), claims["resource"], claims["sub"])
        tokens.refresh_token = None
        return tokens

    def give(self, grant: str, client: Any, scopes: list[str], resource: str, subject: str) -> Any:
        """New, unique tokens."""
        self.grants.append(grant)
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        known = {"client_id": client.client_id, "scopes": scopes, "resource": resource, "subject": subject}
        ends = int(time.time()) + LIFE
        self.tokens[access] = provider_module.AccessToken(token=access, expires_at=ends, **known)
        self.refresh_tokens[refresh] = provider_module.RefreshToken(token=refresh, **known)
        return shared.OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFE, scope=" ".join(scopes))
