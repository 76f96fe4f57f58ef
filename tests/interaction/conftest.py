"""Fixtures for every revision and transport: `connect` opens a client of the conversation server over one of each.

`surface` does the same with the surface server, and `connected` with any.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Unpack

import pytest
import trio

from tests.interaction.conversation_server import SMALL, make_server
from tests.interaction.openers import OPENERS, Opener
from tests.interaction.over_bridges import OVER_BRIDGES
from tests.interaction.over_cluster import over_cluster
from tests.interaction.over_http import IN_PROCESS, OVER_SOCKETS, carries, over_http
from tests.interaction.surface_server import make_server as make_surface_server
from trio_mcp import Client, ClientOptions, Server, open_client, serve_stream, types
from trio_mcp.server import HttpOptions
from trio_mcp.testing import open_memory_client

IN_MEMORY = ("memory", "bytes", "lockstep")
TRANSPORTS = (*IN_MEMORY, "stdio", "unix", *IN_PROCESS, *OVER_SOCKETS, "cluster", *OVER_BRIDGES)
BRIDGED_REVISIONS = {types.REVISIONS[0], "2025-11-25", types.REVISIONS[-1]}
"""The revisions of the tests that run through the clients for asyncio and without async."""

DIRECT = {"test_asking_keys", "test_asking_states", "test_asking_urls", "test_sampling_content"}
"""Modules whose tests call `open_client` or `open_memory_client` by themselves, and then also those of the bridges."""

SCRIPTED = "its peer is scripted byte by byte, below the client"
TIMED = "its clock jumps, and threads of a bridge do not stop for that"
OVER_HTTP = "it is about HTTP, which a bridge does not touch"
SIGNS_IN = "it signs in by an engine in the Trio run of the test, and a bridge has a run of its own"
INTERNAL = "it looks into clients for Trio"
SERVERS = "it is about servers"
UNBRIDGED = {
    "test_asking_races": "its questions are withdrawn, and callbacks of a bridge that run in threads go on",
    "test_asking_requirements": "its questions are withdrawn, and callbacks of a bridge that run in threads go on",
    "test_authorization": SIGNS_IN,
    "test_authorization_attacks": SIGNS_IN,
    "test_authorization_concurrency": SIGNS_IN,
    "test_authorization_forgeries": SIGNS_IN,
    "test_authorization_secrets": SIGNS_IN,
    "test_authorization_users": SIGNS_IN,
    "test_bad_input": SCRIPTED,
    "test_bad_server": SCRIPTED,
    "test_cancel_everywhere": TIMED,
    "test_client_requirements": SCRIPTED,
    "test_deadlines": TIMED,
    "test_eras": SCRIPTED,
    "test_feature_requirements": SERVERS,
    "test_floods": TIMED,
    "test_garbage": SCRIPTED,
    "test_http2_client": OVER_HTTP,
    "test_http_authorization": OVER_HTTP,
    "test_http_client_requirements": OVER_HTTP,
    "test_http_faults": OVER_HTTP,
    "test_http_hostile_servers": OVER_HTTP,
    "test_http_requirements": OVER_HTTP,
    "test_http_security": OVER_HTTP,
    "test_large_messages": "it measures the memory of the process, which has both ends and a bridge",
    "test_lifetimes": "it starts clients in nurseries and over streams, which the client for Trio alone can",
    "test_processes": "it is about child processes; tests of the bridges end some",
    "test_requirements": "it opens no client",
    "test_revisions": SCRIPTED,
    "test_schemas": INTERNAL,
    "test_security_model": "it opens no client",
    "test_server_requirements": SERVERS,
    "test_stopping": SERVERS,
    "test_time_limits": TIMED,
}
"""The modules of which no test runs through the clients for asyncio and without async, each with its reason."""

numbers = count()
"""Numbers of sockets, so that one test can open several."""


@pytest.fixture(params=types.REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[str(request.param)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have tests that open a client by themselves run through the bridges too."""
    if metafunc.definition.path.stem in DIRECT and {"open_client", "open_memory_client"} & set(
        metafunc.function.__code__.co_names
    ):
        metafunc.parametrize("opened_by", ["trio", *OVER_BRIDGES], indirect=True)


@pytest.fixture(autouse=True)
def opened_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return where the test opens its clients, and put the openers of a bridge into its module."""
    where = str(getattr(request, "param", "trio"))
    module: Any = getattr(request, "module", None)
    if where != "trio":
        for name in ("open_client", "open_memory_client"):
            monkeypatch.setattr(module, name, OPENERS[where], raising=False)
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Remove the combinations of transport and revision that do not exist."""
    items[:] = [item for item in items if _is_possible(item)]


def _is_possible(item: pytest.Item) -> bool:
    call: Any = getattr(item, "callspec", None)
    parameters: dict[str, object] = {} if call is None else call.params
    revision = str(parameters.get("revision", types.REVISIONS[-1]))
    if parameters.get("transport") == "cluster" and item.get_closest_marker("one_process") is not None:
        return False
    bridges = OVER_BRIDGES.keys() & {value for value in parameters.values() if isinstance(value, str)}
    if bridges and not (revision in BRIDGED_REVISIONS and _passes_bridges(item, bridges)):
        return False
    return all(carries(str(value), revision) for value in parameters.values() if value in IN_PROCESS)


def _passes_bridges(item: pytest.Item, bridges: AbstractSet[str]) -> bool:
    """Return True if a test can run through a client of these bridges; see the markers."""
    excluded = [*item.iter_markers("not_bridged"), *(item.iter_markers("cancels") if "sync" in bridges else ())]
    return not excluded and "autojump_clock" not in getattr(item, "fixturenames", ())
