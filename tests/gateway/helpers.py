"""Gateways in front of one server, over every transport and in every era, and what tests ask of them."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Unpack

import pytest
import trio
from attrs import define, field, frozen

from tests.gateway.upstream_server import make_server
from tests.interaction.over_http import over_http, over_http_socket, served_at_socket
from tests.interaction.serving_with_principal import ServingWithPrincipal
from trio_mcp import Client, ClientOptions, Server, open_client, types
from trio_mcp.abc import Serving
from trio_mcp.gateway import Gateway
from trio_mcp.testing import open_memory_client

LEGACY, MODERN = "2025-11-25", "2026-07-28"
PROGRAM: Final = str(Path(__file__).with_name("upstream_server.py"))

Upstream: TypeAlias = Literal["memory", "http", "stdio"]
Downstream: TypeAlias = Literal["memory", "bytes", "http", "socket"]


@frozen
class Way:
    """The way from a client through a gateway to a server: the revisions and the transports of both sides."""

    upstream: str
    """The revision that the server behind the gateway speaks."""
    downstream: str
    """The revision that the client speaks."""
    up_by: Upstream = "memory"
    """The transport between the gateway and the server."""
    down_by: Downstream = "memory"
    """The transport between the client and the gateway."""

    def __str__(self) -> str:
        return f"{self.upstream}:{self.up_by}-{self.downstream}:{self.down_by}"

    @property
    def is_modern(self) -> bool:
        """True if the client is modern."""
        return self.downstream == MODERN

    @property
    def oldest(self) -> str:
        """The older one of both revisions, which decides what can pass."""
        return min(self.upstream, self.downstream)


ERAS: Final = tuple(Way(upstream, downstream) for upstream in (LEGACY, MODERN) for downstream in (LEGACY, MODERN))
"""All combinations of eras, within this process."""
OLDER: Final = (
    Way("2024-11-05", "2025-06-18", down_by="bytes"),
    Way("2025-03-26", MODERN, down_by="bytes"),
    Way("2025-06-18", "2025-03-26", down_by="http"),
    Way(MODERN, "2024-11-05", down_by="bytes"),
)
"""Combinations with each of the older revisions, on both sides."""
BRIDGED: Final = (Way(LEGACY, MODERN, down_by="http"), Way(MODERN, LEGACY, down_by="http"))
"""HTTP on the side of the client, without sockets."""
SOCKETS: Final = (Way(LEGACY, LEGACY, "http", "socket"), Way(MODERN, MODERN, "http", "socket"))
PROCESSES: Final = (Way(LEGACY, MODERN, "stdio", "memory"), Way(MODERN, LEGACY, "stdio", "socket"))
"""A child process takes longer to start than most tests take."""

in_all_eras = pytest.mark.parametrize("way", list(ERAS), ids=str)
everywhere = pytest.mark.parametrize("way", [*ERAS, *OLDER, *BRIDGED, *SOCKETS], ids=str)
in_processes_too = pytest.mark.parametrize("way", [*ERAS, *OLDER, *BRIDGED, *SOCKETS, *PROCESSES], ids=str)
in_this_process = pytest.mark.parametrize("way", [*ERAS, *OLDER, *BRIDGED], ids=str)
"""For tests that use the clock of the test, or objects of this process."""


def front(*targets: Any, **options: Any) -> Gateway:
    """Return a gateway with these servers."""
    gateway = Gateway("gate", **options)
    for target in targets:
        gateway.mount(target)
    return gateway


def opened(server: Server, way: Way, **options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
    """Open a client of a gateway, or of any server, by the transport and in the revision of the client's side."""
    options.setdefault("revision", way.downstream)
    openers: dict[Downstream, Callable[[], AbstractAsyncContextManager[Client]]] = {
        "memory": lambda: open_client(server, **options),
        "bytes": lambda: open_memory_client(server, **options),
        "http": lambda: over_http("http", server, options),
        "socket": lambda: over_http_socket(server, options),
    }
    return openers[way.down_by]()


@asynccontextmanager
async def behind(way: Way) -> AsyncGenerator[Any]:
    """Yield what a gateway mounts to reach a server of the standard kind by the transport of *way*."""
    match way.up_by:
        case "memory":
            yield make_server(way.upstream)
        case "stdio":
            yield [sys.executable, PROGRAM, way.upstream]
        case "http":
            async with served_at_socket(make_server(way.upstream)) as bound:
                yield bound.url


@asynccontextmanager
async def through(way: Way, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Open a client of a gateway in front of a server of the standard kind."""
    async with AsyncExitStack() as stack:
        if way in {*SOCKETS, *PROCESSES}:
            stack.enter_context(trio.fail_after(60))
        target = await stack.enter_async_context(behind(way))
        yield await stack.enter_async_context(opened(front(target), way, **options))


def server_of(revision: str, name: str = "other", **options: Any) -> Server:
    """Return a server of one revision, without anything."""
    return Server(name, revisions=[revision], **options)


def text(result: Any) -> str:
    """Return the text of a result with one block, which must not be an error."""
    assert isinstance(result, types.CallToolResult), result
    assert not result.is_error, result
    return text_of(result)


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result with one block."""
    (block,) = result.content
    assert isinstance(block, types.TextContent), block
    return block.text


def contents(result: types.ReadResourceResult) -> str:
    """Return the text of a resource with one part."""
    (part,) = result.contents
    assert isinstance(part, types.TextResourceContents), part
    return part.text


async def names(client: Client) -> list[str]:
    """Return the names of all tools, in the order in which they are listed."""
    return [tool.name async for tool in client.tools()]


async def uris(client: Client) -> list[str]:
    """Return the URIs of all resources, in the order in which they are listed."""
    return [each.uri async for each in client.resources()]


@define(eq=False)
class Heard:
    """The log messages that a client has heard, in order."""

    messages: list[types.LoggingMessageNotificationParams] = field(
        factory=list[types.LoggingMessageNotificationParams], init=False
    )
    _more: trio.Event = field(factory=trio.Event, init=False)

    async def hear(self, message: types.LoggingMessageNotificationParams) -> None:
        """Take a message: the `on_log` of a client."""
        await trio.lowlevel.checkpoint()
        self.messages.append(message)
        self._more.set()
        self._more = trio.Event()

    async def levels(self, number: int) -> list[str]:
        """Return the levels of all messages, when there are so many: a client hands some on after the result."""
        with trio.fail_after(60):
            while len(self.messages) < number:
                await self._more.wait()
        return [message.level for message in self.messages]


def client_of(
    serving: Serving, way: Way, principal: str | None = None, **options: Unpack[ClientOptions]
) -> AbstractAsyncContextManager[Client]:
    """Open a client of a gateway that is served already, for a principal if one is given."""
    options.setdefault("revision", way.downstream)
    return open_client(ServingWithPrincipal(serving, principal), **options)


@asynccontextmanager
async def two_principals(
    gateway: Gateway, way: Way, **options: Unpack[ClientOptions]
) -> AsyncGenerator[tuple[Client, Client]]:
    """Open a client of each of two principals, ``ada`` and ``bob``, in one serving of a gateway."""
    async with (
        gateway.serving() as serving,
        client_of(serving, way, "ada", **options) as ada,
        client_of(serving, way, "bob", **options) as bob,
    ):
        yield ada, bob
