"""A server whose tools call the test before they wait: `python inspected_server.py`, or for `trio-mcp serve`."""

from __future__ import annotations

import os

import trio

from tests.server.isolated_tools import connect
from trio_mcp import Server, serve_stdio

server = Server("inspected", version="2")


@server.tool
async def pid() -> int:
    """Return the id of this process."""
    return os.getpid()


@server.tool
async def rest(path: str, secret: str) -> None:
    """Wait for ever."""
    with connect(path):
        await trio.sleep_forever()


@server.tool
async def block(path: str) -> None:
    """Block the event loop until the test hangs up."""
    with connect(path) as line:
        line.recv(1)


@server.tool
async def stubborn(path: str) -> None:
    """Swallow the cancellation until the test hangs up."""
    with connect(path) as line, trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(line.recv, 1)


@server.tool
async def tidy() -> None:
    """Start a background task."""
    server.background.start_soon(trio.sleep_forever, name="tidying", restart=True)


if __name__ == "__main__":
    trio.run(serve_stdio, server)
