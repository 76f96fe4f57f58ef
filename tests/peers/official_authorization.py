"""The authentication of the official SDK's client, for the plans that use it.

Used by `official_client.py`, in that SDK's own interpreter; never imported by ours.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from typing import Any
from urllib.parse import parse_qsl, urlsplit

# By name, because type checkers run where the official SDK is not installed.
httpx2 = importlib.import_module("httpx2")
auth = importlib.import_module("mcp.client.auth")
client_credentials = importlib.import_module("mcp.client.auth.extensions.client_credentials")
identity_assertion = importlib.import_module("mcp.client.auth.extensions.identity_assertion")
shared = importlib.import_module("mcp.shared.auth")

REDIRECT_URI = "http://127.0.0.1:53682/callback"
"""No server listens there: the user agent reads the redirect and does not follow it."""


class Storage:
    """A storage of the client's credentials for one server that outlives a connection."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client_info: Any = None

    async def get_tokens(self) -> Any:
        """The tokens; None if there are none yet."""
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        """Store the tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        """The registration of the client; None before it is registered."""
        return self.client_info

    async def set_client_info(self, client_info: Any) -> None:
        """Store the registration."""
        self.client_info = client_info


STORAGES: defaultdict[str, Storage] = defaultdict(Storage)
"""By the URL of the server."""


class ScriptedUserAgent:
    """A user whose browser follows redirects, and who allows everything."""

    def __init__(self) -> None:
        self.came_back_to = ""

    async def visit(self, url: str) -> None:
        """Visit the authorization server and store its redirect."""
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            response = await browser.get(url)
            self.came_back_to = response.headers["location"]

    async def answer(self) -> Any:
        """The parameters of the redirect."""
        return shared.AuthorizationCodeResult(**dict(parse_qsl(urlsplit(self.came_back_to).query)))


def provider(server: str, credentials: dict[str, str] | None) -> Any:
    """Return the HTTP authentication for a server: that of a user who signs in, or the client's own credentials.

    The credentials may contain the `assertion` of an identity provider about its user.
    """
    if credentials is not None and "assertion" in credentials:
        known = {name: value for name, value in credentials.items() if name != "assertion"}

        async def assertion(_audience: str, _resource: str) -> str:
            return credentials["assertion"]

        return identity_assertion.IdentityAssertionOAuthProvider(
            server, STORAGES[server], assertion_provider=assertion, **known
        )
    if credentials is not None:
        return client_credentials.ClientCredentialsOAuthProvider(server, STORAGES[server], **credentials)
    agent = ScriptedUserAgent()
    client_metadata = shared.OAuthClientMetadata(client_name="the official client", redirect_uris=[REDIRECT_URI])
    return auth.OAuthClientProvider(server, client_metadata, STORAGES[server], agent.visit, agent.answer)
