"""Our client at protected servers made with the official SDK, with our authorization server and with that SDK's.

Those servers run in a separate process, `official_protected_servers.py`; our authorization server runs in this one.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
from attrs import define, field

from tests.peers.conftest import TIMEOUT, Protect
from trio_mcp import (
    Client,
    ClientCredentials,
    EnterpriseManaged,
    OAuth,
    Registration,
    open_http_client,
)
from trio_mcp.abc import ClientAuth
from trio_mcp.testing import AuthorizationServer, KnownClient, open_authorization_server

A_WHILE = 3600.0  # seconds, more than the lifetime of a token
REDIRECT_URI = (
    "http://127.0.0.1:53682/callback"  # no server listens there: `User` reads the redirect and does not follow it
)
REVISIONS = ["2025-11-25", "2026-07-28"]
CREDENTIALS = ["verifier", "the verifier's"]


@define(eq=False)
class User:
    """A user whose browser follows redirects, and who allows everything; with a clock."""

    visits: int = field(default=0, init=False)
    now: float = field(factory=time.time, init=False)

    async def visit(self, url: str) -> str:
        self.visits += 1
        async with httpx2.AsyncClient(trust_env=False) as browser:
            return (await browser.get(url)).headers["location"]

    def clock(self) -> float:
        return self.now

    def auth(self, **options: Any) -> OAuth:
        return OAuth(visit=self.visit, redirect_uri=REDIRECT_URI, clock=self.clock, **options)


@asynccontextmanager
async def connected(url: str, auth: ClientAuth, revision: str) -> AsyncGenerator[Client]:
    with trio.fail_after(TIMEOUT):
        async with open_http_client(url, auth=auth, revision=revision) as client:
            yield client


async def ask(client: Client, tool: str) -> Any:
    """Call a tool of the official server and return its value."""
    content = (await client.call_tool(tool, raise_on_error=True)).structured_content
    assert content is not None
    return content.get("result", content)


@asynccontextmanager
async def authorization_server(user: User, *clients: KnownClient) -> AsyncGenerator[AuthorizationServer]:
    """Serve our authorization server, where the official servers introspect tokens."""
    async with open_authorization_server(
        auto_consent=True,
        clock=user.clock,
        token_seconds=600,
        clients=[KnownClient(CREDENTIALS[0], secret=CREDENTIALS[1]), *clients],
    ) as authorization:
        yield authorization


def protected_server(authorization: AuthorizationServer, protection: Protect) -> str:
    """Start an official server that accepts the tokens of our authorization server; return its URL."""
    return protection(issuer=authorization.issuer, introspects=CREDENTIALS, scopes=["read"])


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_client_gets_and_refreshes_tokens_of_our_authorization_server(
    official_protection: Protect, revision: str
) -> None:
    user = User()
    async with authorization_server(user) as authorization:
        url = protected_server(authorization, official_protection)
        async with connected(url, user.auth(), revision) as client:
            assert await ask(client, "whoami") == "user with read"

            user.now += A_WHILE
            assert await ask(client, "whoami") == "user with read"
            assert (user.visits, authorization.refreshes) == (1, 1)

            authorization.expire_tokens()
            assert await ask(client, "whoami") == "user with read"
            assert (user.visits, authorization.refreshes) == (1, 2)

            authorization.revoke_all()
            assert await ask(client, "whoami") == "user with read"
            assert (user.visits, authorization.refreshes) == (2, 2)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_program_with_its_own_credentials_needs_no_user(official_protection: Protect, revision: str) -> None:
    service = KnownClient("service", secret="the service's")
    async with authorization_server(User(), service) as authorization:
        url = protected_server(authorization, official_protection)
        auth = ClientCredentials("service", secret=service.secret, issuer=authorization.issuer)
        async with connected(url, auth, revision) as client:
            assert await ask(client, "whoami") == "service with read"

            authorization.expire_tokens()
            assert await ask(client, "whoami") == "service with read"

        grants = [each.parameters["grant_type"] for each in authorization.asked("token")]
        assert grants == ["client_credentials"] * 2
        assert authorization.asked("authorize") == []


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_that_is_its_own_authorization_server_registers_the_client_and_refreshes_its_tokens(
    official_protection: Protect, revision: str
) -> None:
    user = User()
    url = official_protection(scopes=["read", "write"])
    async with connected(url, user.auth(), revision) as client:
        assert await ask(client, "whoami") == "the official user with read write"

        user.now += A_WHILE
        assert await ask(client, "whoami") == "the official user with read write"

        await client.call_tool("expire", raise_on_error=True)
        assert await ask(client, "whoami") == "the official user with read write"

        issued = await ask(client, "issued")
        assert issued["grants"] == ["authorization_code", "refresh_token", "refresh_token"]
        assert issued["methods"] == ["client_secret_basic"]
        assert user.visits == 1


async def test_the_official_server_accepts_an_identity_assertion_of_an_enterprise(official_protection: Protect) -> None:
    desk = KnownClient("desk", secret="the desk's", method="client_secret_basic")
    async with authorization_server(User(), desk) as provider:
        url = official_protection(scopes=["read"], trusts=provider.issuer, knows=["desk", "another of the desk's"])
        auth = EnterpriseManaged(
            Registration(
                "desk", secret="another of the desk's", method="client_secret_basic", issuer=url.removesuffix("/mcp")
            ),
            idp_client_id="desk",
            idp_secret=desk.secret,
            idp_issuer=provider.issuer,
            idp_token_endpoint=f"{provider.issuer}/token",
            id_token=provider.issue_id_token(subject="ada", client_id="desk"),
        )
        async with connected(url, auth, "2026-07-28") as client:
            assert await ask(client, "whoami") == "ada with read"
            assert (await ask(client, "issued"))["grants"] == ["id-jag"]


async def test_the_client_requests_scopes_that_the_official_server_does_not_name(official_protection: Protect) -> None:
    user = User()
    async with authorization_server(user) as authorization:
        url = official_protection(issuer=authorization.issuer, introspects=CREDENTIALS, scopes=["read", "write"])
        async with connected(url, user.auth(scopes=["read"]), "2026-07-28") as client:
            assert await ask(client, "whoami") == "user with read write"
        scopes = [request.parameters["scope"] for request in authorization.asked("authorize")]

    assert scopes == ["read", "read write"]
