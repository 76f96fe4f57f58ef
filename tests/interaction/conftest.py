"""Fixtures for every revision and transport: `connect` opens a client of the conversation server over one of each.

`surface` does the same with the surface server, and `connected` with any.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Unpack

import pytest
import trio

from tests.interaction.bridging import is_possible, opens_clients_itself
from tests.interaction.conversation_server import SMALL, make_server
from tests.interaction.openers import Opener
from tests.interaction.over_bridges import ALL_OPENERS, OVER_BRIDGES
from tests.interaction.over_cluster import over_cluster
from tests.interaction.over_http import IN_PROCESS, OVER_SOCKETS, over_http
from tests.interaction.surface_server import make_server as make_surface_server
from trio_mcp import Client, ClientOptions, Server, open_client, serve_stream, types
from trio_mcp.server import HttpOptions
from trio_mcp.testing import open_memory_client

FOLDER = Path(__file__).parent
IN_MEMORY = ("memory", "bytes", "lockstep")
TRANSPORTS = (*IN_MEMORY, "stdio", "unix", *IN_PROCESS, *OVER_SOCKETS, "cluster", *OVER_BRIDGES)
numbers = count()
"""Numbers of sockets, so that one test can open several."""


@pytest.fixture(params=types.REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=ALL_OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return ALL_OPENERS[str(request.param)]


@pytest.fixture(autouse=True)
def opened_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return where the test opens its clients, and put the openers of a bridge into its module."""
    where = str(getattr(request, "param", "trio"))
    module: Any = getattr(request, "module", None)
    if where != "trio":
        for name in ("open_client", "open_memory_client"):
            monkeypatch.setattr(module, name, ALL_OPENERS[where], raising=False)
    return where


@pytest.fixture
def connect(transport: str, revision: str, tmp_path: Path) -> Opener:
    """Return an opener of clients of the conversation server, each with its own serving and a timeout."""

    def opened(**options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
        options.setdefault("revision", revision)
        return connected(transport, partial(make_server, limits=SMALL), [conversation_program()], tmp_path, options)

    return opened


@pytest.fixture(params=("memory", "bytes", "unix", *IN_PROCESS, *OVER_BRIDGES))
def surface(request: pytest.FixtureRequest, revision: str, tmp_path: Path) -> Opener:
    """Return an opener of clients of the surface server, whose lists have pages of `page_size` if that is given.

    Child processes and sockets cost more, so there is one for many tests: see `SharedTests`.
    """
    transport = str(request.param)

    def opened(page_size: int | None = None, **options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
        options.setdefault("revision", revision)
        make = partial(make_surface_server, page_size=page_size)
        return connected(transport, make, surface_program(page_size), tmp_path, options)

    return opened


def surface_program(page_size: int | None) -> list[str]:
    return [str(Path(__file__).with_name("surface_server.py")), *([] if page_size is None else [str(page_size)])]


def conversation_program() -> str:
    return str(Path(__file__).with_name("conversation_server.py"))


@asynccontextmanager
async def connected(
    transport: str,
    make: Callable[[], Server],
    program: Sequence[str],
    folder: Path,
    options: ClientOptions,
    **serving: Unpack[HttpOptions],
) -> AsyncGenerator[Client]:
    """Open a client of a server over *transport*; a timeout bounds the block.

    Args:
        make: returns the server, for transports that end in this process.
        program: the Python program that serves the same over stdio, and its arguments.
        folder: where a socket may be made.
        options: of the client.
        serving: the options of a server at a socket over HTTP.
    """
    openers: dict[str, Callable[[], AbstractAsyncContextManager[Client]]] = {
        "memory": lambda: open_client(make(), **options),
        "bytes": lambda: open_memory_client(make(), **options),
        "lockstep": lambda: open_memory_client(make(), lockstep=True, **options),
        "stdio": lambda: open_client([sys.executable, *program], **options),
        "unix": lambda: over_unix_socket(make(), folder, options),
        "http": lambda: over_http("http", make(), options),
        "http-resumable": lambda: over_http("http-resumable", make(), options),
        "http-sse": lambda: over_http("http-sse", make(), options),
        "cluster": lambda: over_cluster(make, options, **serving),
        **{bridge: partial(over, make(), options) for bridge, over in OVER_BRIDGES.items() if bridge == transport},
    }
    over_socket = OVER_SOCKETS.get(transport)
    with trio.fail_after(30):
        async with openers[transport]() if over_socket is None else over_socket(make(), options, **serving) as client:
            yield client


@asynccontextmanager
async def over_unix_socket(server: Server, folder: Path, options: ClientOptions) -> AsyncGenerator[Client]:
    path = str(folder / f"socket-{next(numbers)}")
    async with trio.open_nursery() as nursery, server.serving() as serving:
        listening = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        await listening.bind(path)
        listening.listen()
        listener = trio.SocketListener(listening)
        await nursery.start(trio.serve_listeners, partial(serve_stream, serving), [listener])
        async with open_client(await trio.open_unix_socket(path), **options) as client:
            yield client
        nursery.cancel_scope.cancel()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have tests that open a client by themselves run through the bridges too."""
    if opens_clients_itself(metafunc):
        metafunc.parametrize("opened_by", ["trio", *OVER_BRIDGES], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Remove the combinations that do not exist; pytest passes the tests of all folders, and others are left alone."""
    items[:] = [item for item in items if FOLDER not in item.path.parents or is_possible(item)]
