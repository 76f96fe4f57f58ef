"""A protected server on a local socket, for clients in other processes and for browsers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from trio_mcp import Context, Server, http_app
from trio_mcp.auth import ResourceServer
from trio_mcp.transports import HttpListening, bind_sockets, serve_asgi

LISTENING = HttpListening(host="127.0.0.1", port=0)


def protected_server() -> Server:
    """Return a server with a tool for every authenticated user and a tool for users with the scope "write"."""
    server = Server("protected")

    @server.tool()
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool(scopes=["write"])
    async def erase(ctx: Context) -> str:
        return f"erased by {ctx.principal}"

    return server


@asynccontextmanager
async def serving_protected(issuer: str, *, server: Server | None = None, **options: Any) -> AsyncGenerator[str]:
    """Serve a server, by default a `protected_server`, that accepts the tokens of *issuer*; yield its URL.

    Further options are those of `ResourceServer`.
    """
    with trio.fail_after(120):
        sockets = await bind_sockets(LISTENING)
        url = f"http://127.0.0.1:{sockets.bound.port}/mcp"
        protection = ResourceServer(url, issuers=[issuer], **options)
        app = http_app(server or protected_server(), auth=protection)
        serve = partial(
            serve_asgi, app, LISTENING, stopping=trio.sleep_forever, drain=trio.sleep_forever, drain_seconds=0,
            sockets=sockets,
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            yield url
            nursery.cancel_scope.cancel()
