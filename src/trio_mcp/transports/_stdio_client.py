"""A server as a child process, spoken to over its standard input and output.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from attrs import field, frozen

from ..abc import Client, Transport, TransportOpener
from ._child_process import open_child_process
from ._stream import connect_link

__all__ = ["StdioServer", "stdio_transport"]


def _as_command(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(command, str) or not command:
        raise ValueError(f"command {command!r}: expected a list of the program and its arguments")
    return tuple(os.fspath(part) for part in command)


@frozen
class StdioServer:
    """How a server is started."""

    command: tuple[str, ...] = field(converter=_as_command)
    """The program and its arguments; no shell is involved."""
    env: Mapping[str, str] | None = None
    """Environment variables to add to the few that are handed on."""
    cwd: str | os.PathLike[str] | None = None
    """The child's working directory; this process's by default."""


def stdio_transport(server: StdioServer) -> TransportOpener:
    """Return an opener that starts *server* anew each time, and winds it down with everything it has started."""

    @asynccontextmanager
    async def connect(client: Client) -> AsyncGenerator[Transport]:
        async with (
            open_child_process(server.command, env=server.env, cwd=server.cwd) as child,
            connect_link(child.stream, client, why_lost=child.exit_error) as link,
        ):
            yield link

    return connect
