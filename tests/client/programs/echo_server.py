"""A server whose tools return what they get, and the number of its process."""

import os

import trio

from trio_mcp import Server

server = Server("echo")


@server.tool
async def echo(number: int, seconds: float) -> int:
    await trio.sleep(seconds)
    return number


@server.tool
async def process() -> int:
    return os.getpid()


server.run()
