"""Revisions times transports: `connect` opens a client of the conversation server over one of each."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias, Unpack

import pytest
import trio

from tests.interaction.conversation_server import SMALL, make_server
from trio_mcp import Client, ClientOptions, open_client, serve_stream, types
from trio_mcp.testing import open_memory_client

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]

IN_MEMORY = ("memory", "bytes", "lockstep")
TRANSPORTS = (*IN_MEMORY, "stdio", "unix")


@pytest.fixture(params=types.REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(transport: str, revision: str, tmp_path: Path) -> Connect:
    """Return what opens a client of the conversation server, in its own serving, and bounds the time it may be open."""

    @asynccontextmanager
    async def opened(**options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
        options.setdefault("revision", revision)
        doors: dict[str, Callable[[], AbstractAsyncContextManager[Client]]] = {
            "memory": partial(open_client, make_server(limits=SMALL), **options),
            "bytes": partial(open_memory_client, make_server(limits=SMALL), **options),
            "lockstep": partial(open_memory_client, make_server(limits=SMALL), lockstep=True, **options),
            "stdio": partial(open_client, [sys.executable, conversation_program()], **options),
            "unix": partial(over_unix_socket, tmp_path / "socket", options),
        }
        with trio.fail_after(30):
            async with doors[transport]() as client:
                yield client

    return opened


def conversation_program() -> str:
    return str(Path(__file__).with_name("conversation_server.py"))


@asynccontextmanager
async def over_unix_socket(path: Path, options: ClientOptions) -> AsyncGenerator[Client]:
    listening = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listening.bind(str(path))
    listening.listen()
    listener = trio.SocketListener(listening)
    async with trio.open_nursery() as nursery, make_server(limits=SMALL).serving() as serving:
        await nursery.start(trio.serve_listeners, partial(serve_stream, serving), [listener])
        async with open_client(await trio.open_unix_socket(path), **options) as client:
            yield client
        nursery.cancel_scope.cancel()
