"""Protected servers made with the official SDK, run by the interpreter of that SDK.

Usage: ``python official_protected_servers.py``. Each line of standard input is a JSON object that asks for another
server, and gets its URL as a line of standard output. `issuer` is the authorization server whose tokens it accepts; the
server introspects each token there as the client `introspects` (an id and a secret). Without `issuer` the server is its
own authorization server, of `official_provider.py`, which accepts an ID-JAG of `trusts` from the client `knows` (an id
and a secret). All servers require the scopes of `scopes`. The program serves until standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import socket
import sys
from typing import Any

# By name, because type checkers run where the official SDK is not installed.
auth_context = importlib.import_module("mcp.server.auth.middleware.auth_context")
httpx2 = importlib.import_module("httpx2")
mcpserver = importlib.import_module("mcp.server.mcpserver")
official_provider = importlib.import_module("official_provider")
provider_module = importlib.import_module("mcp.server.auth.provider")
settings = importlib.import_module("mcp.server.auth.settings")
uvicorn = importlib.import_module("uvicorn")


class Introspection:
    """A `TokenVerifier` of the SDK that introspects tokens at an authorization server."""

    def __init__(self, issuer: str, credentials: list[str]) -> None:
        self.issuer = issuer
        self.credentials = credentials

    async def verify_token(self, token: str) -> Any:
        """The access token; None if it is not active."""
        async with httpx2.AsyncClient(auth=tuple(self.credentials)) as client:
            token_info = (await client.post(f"{self.issuer}/introspect", data={"token": token})).json()
        if not token_info["active"]:
            return None
        return provider_module.AccessToken(
            token=token,
            client_id=token_info["client_id"],
            scopes=token_info["scope"].split(),
            expires_at=token_info["exp"],
            resource=token_info["aud"],
            subject=token_info["sub"],
            claims={"iss": token_info["iss"]},
        )


def whoami() -> str:
    """The user and the scopes of the token."""
    token = auth_context.get_access_token()
    return f"{token.subject} with {' '.join(token.scopes)}"


def make_app(url: str, order: dict[str, Any]) -> Any:
    """A protected server at a URL."""
    origin, scopes = url.removesuffix("/mcp"), order["scopes"]
    options: dict[str, Any] = {"resource_server_url": url, "validate_token_resource": True, "required_scopes": scopes}
    if "issuer" in order:
        verifier = Introspection(order["issuer"], order["introspects"])
        server = mcpserver.MCPServer(
            "protected",
            token_verifier=verifier,
            auth=settings.AuthSettings(issuer_url=order["issuer"], **options),
        )
    else:
        provider = official_provider.Provider(origin, order.get("trusts"), order.get("knows"))
        registering = settings.ClientRegistrationOptions(enabled=True, valid_scopes=scopes)
        server = mcpserver.MCPServer(
            "complete",
            auth_server_provider=provider,
            auth=settings.AuthSettings(
                issuer_url=origin,
                client_registration_options=registering,
                identity_assertion_enabled="trusts" in order,
                **options,
            ),
        )
        server.add_tool(provider.expire)
        server.add_tool(provider.issued)
    server.add_tool(whoami)
    return server.streamable_http_app()


async def main() -> None:
    """Serve the requested servers."""
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        serving: list[Any] = []
        while line := await asyncio.to_thread(sys.stdin.readline):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            server = uvicorn.Server(uvicorn.Config(make_app(url, json.loads(line)), log_level="error"))
            serving.append(group.create_task(server.serve([listening])))
            sys.stdout.write(json.dumps(url) + "\n")
            sys.stdout.flush()
        for task in serving:
            task.cancel()


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main())
