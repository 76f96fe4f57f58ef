"""Authorization servers that bend the rules as real ones do, on sockets: what a client and a server accept of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.auth.protected_server import protected_server, serving_protected
from trio_mcp import AuthorizationFailed, Bearer, ClientCredentials, OAuth, open_http_client
from trio_mcp.auth import Registration
from trio_mcp.testing import AuthorizationServer, KnownClient, open_authorization_server

DESK = KnownClient("desk", redirect_uris=["http://127.0.0.1/callback"])
ROBOT = KnownClient("robot", secret="s3cret")


def without_pkce(endpoint: str, members: dict[str, Any]) -> dict[str, Any]:
    """Leave out the announcement of PKCE from the metadata, as Entra ID does."""
    return {name: value for name, value in members.items() if name != "code_challenge_methods_supported"}


@asynccontextmanager
async def entra() -> AsyncGenerator[tuple[AuthorizationServer, str]]:
    """Serve an authorization server like Entra ID: it refuses `resource`, and says nothing of PKCE.

    Yields it, and the URL of a server that accepts its tokens.
    """
    async with open_authorization_server(
        clients=[DESK, ROBOT], registration=False, auto_consent=True, resources=[], change=without_pkce
    ) as authority:
        # Without a resource, this one issues tokens for its own issuer, as Entra ID does for the id of an application.
        options: dict[str, Any] = {"audiences": [authority.issuer], "scopes": ["api://shop/read"]}
        implied = {"read": ["api://shop/read"]}
        async with serving_protected(authority.issuer, implied_scopes=implied, **options) as url:
            yield authority, url


def desk(authority: AuthorizationServer, **options: Any) -> OAuth:
    return OAuth(
        client=Registration("desk"), visit=authority.visit, redirect_uri="http://127.0.0.1/callback", **options
    )


async def whoami(url: str, auth: Any) -> Any:
    async with open_http_client(url, auth=auth) as client:
        return (await client.call_tool("whoami")).structured_content


async def test_users_sign_in_where_no_resource_is_accepted_and_pkce_is_not_announced() -> None:
    async with entra() as (authority, url):
        issuers = [authority.issuer]
        auth = desk(authority, issuers_with_pkce=issuers, issuers_without_resource=issuers)

        assert await whoami(url, auth) == {"result": "user"}
    requests = [*authority.asked("authorize"), *authority.asked("token")]
    assert ["resource" in request.parameters for request in requests] == [False, False]
    assert requests[0].parameters["code_challenge_method"] == "S256"


async def test_a_parameter_that_only_the_provider_knows_reaches_its_page() -> None:
    async with (
        open_authorization_server(clients=[DESK], auto_consent=True) as authority,
        serving_protected(authority.issuer) as url,
    ):
        auth = desk(authority, authorization_parameters={"access_type": "offline", "prompt": "consent"})
        await whoami(url, auth)

    ((request,), (exchange,)) = authority.asked("authorize"), authority.asked("token")
    assert (request.parameters["access_type"], request.parameters["prompt"]) == ("offline", "consent")
    assert "access_type" not in exchange.parameters


async def test_programs_sign_in_where_no_resource_is_accepted() -> None:
    async with entra() as (authority, url):
        auth = ClientCredentials("robot", secret="s3cret", issuers_without_resource=[authority.issuer])

        assert await whoami(url, auth) == {"result": "client robot"}


@pytest.mark.parametrize(("known", "reason"), [(True, "invalid_target"), (False, r"pass OAuth\(issuers_with_pkce=")])
async def test_without_these_options_the_sign_in_is_refused(known: bool, reason: str) -> None:
    async with entra() as (authority, url):
        auth = desk(authority, issuers_with_pkce=[authority.issuer if known else "https://other.example"])

        with pytest.raises(AuthorizationFailed, match=reason):
            await whoami(url, auth)


async def test_scopes_that_the_provider_shortens_in_tokens_are_named_in_full_by_the_server() -> None:
    async with entra() as (authority, url):
        token = authority.issue_token(resource=authority.issuer, claims={"scope": None, "scp": "read"}, subject="ada")

        assert await whoami(url, Bearer(token)) == {"result": "ada"}


async def test_a_token_with_the_claims_of_keycloak_is_accepted() -> None:
    async with (
        open_authorization_server() as authority,
        serving_protected(authority.issuer, server=protected_server(), scopes=["mcp:tools"]) as url,
    ):
        claims = {"typ": "Bearer", "azp": "desk", "client_id": None, "aud": [url, "account"], "session_state": "x"}
        token = authority.issue_token(resource=url, scopes=["mcp:tools", "profile"], subject="ada", claims=claims)

        assert await whoami(url, Bearer(token)) == {"result": "ada"}
