"""How tests hear from functions in other processes, and of their end: each calls up the test at a socket."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Client


class Calls:
    """Where functions in other processes call up the test."""

    def __init__(self, path: str, listening: trio.SocketListener) -> None:
        self.path = path
        self._listening = listening

    async def take(self) -> tuple[trio.SocketStream, str]:
        """The next line, and what was said first on it."""
        line = await self._listening.accept()
        return line, (await line.receive_some()).decode()


async def hang_up(line: trio.SocketStream) -> None:
    """Wait until the other end of a line is dead."""
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
