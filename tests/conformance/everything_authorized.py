"""The actions of the conformance client in the authorization scenarios.

No user and no browser take part: the authorization endpoint of the suite redirects at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import httpx2

from trio_mcp import (
    AuthorizationFailed,
    Client,
    ClientCredentials,
    EnterpriseManaged,
    HttpStatusError,
    OAuth,
    PrivateKey,
    Registration,
    WorkloadIdentity,
    open_http_client,
)
from trio_mcp.abc import ClientAuth

__all__ = ["act_for"]

METADATA_URL = "https://conformance-test.local/client-metadata.json"
REDIRECT_URI = "http://localhost:3000/callback"

Act: TypeAlias = Callable[[str], Awaitable[None]]
"""A function that takes the URL of the server."""


async def visit(url: str) -> str:
    """Visit the authorization server as the browser of a user who agrees to everything."""
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(url)
    return response.headers["location"]


def context() -> Any:
    """Return the context that the scenario provides."""
    return json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])


def signing_in(**options: Any) -> OAuth:
    return OAuth(
        client_name="everything-client",
        client_metadata_url=METADATA_URL,
        redirect_uri=REDIRECT_URI,
        visit=visit,
        **options,
    )


def pre_registered() -> OAuth:
    given = context()
    return signing_in(client=Registration(given["client_id"], secret=given["client_secret"]))


def by_secret() -> ClientCredentials:
    given = context()
    return ClientCredentials(given["client_id"], secret=given["client_secret"])


def by_key() -> ClientCredentials:
    given = context()
    key = PrivateKey(given["private_key_pem"], given["signing_algorithm"])
    return ClientCredentials(given["client_id"], private_key=key)


def by_enterprise() -> EnterpriseManaged:
    given = context()
    return EnterpriseManaged(
        Registration(given["client_id"], secret=given["client_secret"]),
        id_token=given["idp_id_token"],
        idp_client_id=given["idp_client_id"],
        idp_issuer=given["idp_issuer"],
        idp_token_endpoint=given["idp_token_endpoint"],
    )


def by_workload() -> WorkloadIdentity:
    given = context()
    return WorkloadIdentity(given["valid_jwt"], client_id=given["client_id"])


HOW: Mapping[str, Callable[[], ClientAuth]] = {
    "auth/client-credentials-basic": by_secret,
    "auth/client-credentials-jwt": by_key,
    "auth/dpop": lambda: signing_in(dpop=True),
    "auth/dpop-nonce": lambda: signing_in(dpop=True),
    "auth/enterprise-managed-authorization": by_enterprise,
    "auth/pre-registration": pre_registered,
    "auth/wif-jwt-bearer": by_workload,
}
"""The credentials by scenario; by default a user signs in."""

REFUSED: Mapping[str, type[Exception]] = {
    "auth/iss-normalized": AuthorizationFailed,
    "auth/iss-supported-missing": AuthorizationFailed,
    "auth/iss-unexpected": AuthorizationFailed,
    "auth/iss-wrong-issuer": AuthorizationFailed,
    "auth/metadata-issuer-mismatch": AuthorizationFailed,
    "auth/resource-mismatch": AuthorizationFailed,
    "auth/scope-retry-limit": HttpStatusError,
}
"""Scenarios in which the client must be refused, with the message of its error."""


def act_for(scenario: str) -> Act:
    """Return the action for a scenario about authorization."""

    async def act(url: str) -> None:
        auth, expected = HOW.get(scenario, signing_in)(), REFUSED.get(scenario)
        try:
            async with open_http_client(url, auth=auth) as client:
                await use(client)
        except Exception as exc:
            if expected is None or type(exc) is not expected:
                raise
        else:
            if expected is not None:
                raise RuntimeError(f"{scenario}: the client was let in")

    return act


async def use(client: Client) -> None:
    """Use the protected server more than once."""
    tools = await client.list_tools()
    await client.call_tool(tools.tools[0].name, {})
    await client.list_tools()
