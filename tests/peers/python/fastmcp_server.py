"""A server of the tour (see `tour.py`) made with FastMCP: ``python fastmcp_server.py stdio|http [TOKEN]``.

Over HTTP it prints its URL; if a token is given, requests need it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import sys
import warnings
from typing import Any

os.environ |= {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_SHOW_SERVER_BANNER": "false"}
warnings.simplefilter("ignore")  # the SDK deprecates the legacy era
# By name, because type checkers run where FastMCP is not installed.
fastmcp = importlib.import_module("fastmcp")
verifiers = importlib.import_module("fastmcp.server.auth.providers.jwt")

tour_tools = importlib.import_module("tour_tools")


async def ask(context: Any) -> str:
    """Ask the user for a name."""
    answer = await context.elicit("Your name?", str)
    name: str = answer.data
    return name


def make_server(token: str | None) -> Any:
    """Return the server, which needs *token* if there is one."""
    auth = None
    if token is not None:
        auth = verifiers.StaticTokenVerifier(tokens={token: {"client_id": "ada", "scopes": list[str]()}})
    server = fastmcp.FastMCP("tour", auth=auth)
    tour_tools.register(server, fastmcp.Context, ask)
    return server


async def serve_http(server: Any) -> None:
    """Serve on a free port, and print the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        await server.run_http_async(show_banner=False, sockets=[listening], log_level="error")


def main(transport: str, token: str | None = None) -> None:
    """Serve."""
    logging.disable()
    server = make_server(token)
    if transport == "stdio":
        server.run("stdio", show_banner=False)
    else:
        asyncio.run(serve_http(server))


if __name__ == "__main__":
    main(*sys.argv[1:])
