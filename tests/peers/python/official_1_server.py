"""A server of the tour (see `tour.py`) made with the official SDK 1.x: ``python official_1_server.py MODE``.

MODE is "stdio", or for HTTP "sessions", "stateless" or "json" (stateless, without event streams). Over HTTP it prints
its URL.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import sys
from typing import Any

# By name, because type checkers run where this SDK is not installed.
fastmcp = importlib.import_module("mcp.server.fastmcp")
pydantic = importlib.import_module("pydantic")
uvicorn = importlib.import_module("uvicorn")

tour_tools = importlib.import_module("tour_tools")

Person: type = pydantic.create_model("Person", name=(str, ...))


async def ask(context: Any) -> str:
    """Ask the user for a name."""
    answer = await context.elicit("Your name?", Person)
    name: str = answer.data.name
    return name


def make_server(mode: str) -> Any:
    """Return the server."""
    server = fastmcp.FastMCP("tour", stateless_http=mode in {"stateless", "json"}, json_response=mode == "json")
    tour_tools.register(server, fastmcp.Context, ask)
    return server


async def serve_http(server: Any) -> None:
    """Serve on a free port, and print the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
        await uvicorn.Server(config).serve(sockets=[listening])


def main(mode: str) -> None:
    """Serve."""
    server = make_server(mode)
    logging.disable()
    if mode == "stdio":
        server.run("stdio")
    else:
        asyncio.run(serve_http(server))


if __name__ == "__main__":
    main(*sys.argv[1:])
