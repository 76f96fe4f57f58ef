"""The connections of the work: their transport and their server process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager

from ..adapters.sides import Adapter, Session

__all__ = ["connected", "http_server", "stdio_command"]


def stdio_command(name: str, dummies: int = 0) -> list[str]:
    """Return the command of a stdio server of the same adapter."""
    return [sys.executable, "-m", "benchmarks.serve", name, "stdio", str(dummies)]


@contextmanager
def http_server(name: str, variables: Mapping[str, str] | None = None) -> Generator[str]:
    """Run an HTTP server of the same adapter in a process of its own, perhaps with further variables; yield its URL."""
    command = [sys.executable, "-m", "benchmarks.serve", name, "http", "0"]
    environment = {**os.environ, **(variables or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the HTTP server of {name} did not start")
            yield url
        finally:
            process.kill()


@asynccontextmanager
async def connected(
    adapter: Adapter, name: str, era: str, transport: str, *, dummies: int = 0
) -> AsyncGenerator[Session]:
    """Open a session whose client has listed the tools, which it needs to check results."""
    if transport == "stdio":
        async with adapter.stdio(stdio_command(name, dummies), era) as session:
            await session.tools()
            yield session
    elif transport == "memory":
        async with adapter.memory(adapter.server(dummies), era) as session:
            await session.tools()
            yield session
    else:
        with http_server(name) as url:
            address = url.replace("http:", "ws:", 1) if transport == "websocket" else url
            async with adapter.http(address, era) as session:
                await session.tools()
                yield session
