"""A server of ours that changes on request; `python changing_server.py` serves it over stdio."""

from __future__ import annotations

import os
import signal

import trio

from trio_mcp import Context, Server, serve_stdio

server = Server("changing")


@server.resource("memo://{name}")
async def memo(name: str) -> str:
    return name


@server.prompt
def first() -> str:
    return "first"


@server.tool
async def touch(uri: str, ctx: Context) -> None:
    """Announce a change of a resource."""
    ctx.resource_updated(uri)


@server.tool
async def grow(kind: str) -> None:
    """Add to one of the lists."""
    match kind:
        case "tools":
            server.tools.add(lambda: None, name=f"tool-{os.urandom(4).hex()}")
        case "prompts":
            server.prompts.add(lambda: "more", name=f"prompt-{os.urandom(4).hex()}")
        case _:
            name = os.urandom(4).hex()
            server.resources.add_static(f"static://{name}", name, name=name)


@server.tool
async def finish() -> None:
    """Stop this process in order."""
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    trio.run(serve_stdio, server)
