"""Sockets by which functions in other processes report to the test, and by which the test notices their end."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Client


class Calls:
    """A listener for connections of functions in other processes."""

    def __init__(self, path: str, listening: trio.SocketListener) -> None:
        self.path = path
        self._listening = listening

    async def take(self) -> tuple[trio.SocketStream, str]:
        """Accept the next connection; return it with its first message."""
        line = await self._listening.accept()
        return line, (await line.receive_some()).decode()


async def hang_up(line: trio.SocketStream) -> None:
    """Wait until the process at the other end of a connection has ended."""
    with suppress(trio.BrokenResourceError):
        assert await line.receive_some() == b""
    await line.aclose()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@asynccontextmanager
async def taking_calls(path: Path) -> AsyncGenerator[Calls]:
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(str(path))
    listening.listen()
    async with trio.SocketListener(listening) as listener:
        yield Calls(str(path), listener)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 # what ends in another process raises no event here
        await trio.sleep(0.005)


async def value_of(client: Client, tool: str, arguments: dict[str, Any] | None = None) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content: Any = result.structured_content
    return content["result"] if set(content) == {"result"} else content
