"""Servers behind a gateway that count their connections and fail as a test wants, and callers that share a serving."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio
from attrs import define, evolve, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.interaction.serving_with_principal import ServingWithPrincipal
from trio_mcp import Client, Server, open_client, serve_stream, types
from trio_mcp.abc import Serving, Transport, TransportClient
from trio_mcp.gateway import Gateway
from trio_mcp.lowlevel import owned_nursery, stream_transport


@define(eq=False)
class _Line(trio.abc.Stream):
    """The end of a stream at a server, which receives nothing while the server hangs."""

    _stream: trio.abc.Stream
    _server: CountedServer

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        await self._server.answers.wait()
        received = await self._stream.receive_some(max_bytes)
        await self._server.answers.wait()
        return received

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


def offer_little(server: Server) -> None:
    """Register what most tests need."""

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def wait() -> None:
        await trio.sleep_forever()

    @server.tool
    async def doze(seconds: float) -> str:
        await trio.sleep(seconds)
        return "awake"

    @server.resource("notes://one")
    async def note() -> str:
        return "one"


class QuietServer(Server):
    """A server that reports no changes of its lists."""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        declared = super().capabilities
        tools, resources = types.ToolsCapability(), types.ResourcesCapability(subscribe=True)
        return evolve(declared, tools=declared.tools and tools, resources=declared.resources and resources)


@define(eq=False)
class CountedServer:
    """A server to mount, over streams in memory: an opener of connections, each of which gets a `Server` of its own."""

    register: Callable[[Server], object] = offer_little
    """Registers what each server offers."""
    make: Callable[[], Server] = field(default=lambda: Server("counted"), kw_only=True)
    """Makes each server."""
    failures: list[Exception] = field(factory=list[Exception], kw_only=True)
    """The failures of the next attempts to connect."""
    refuses: bool = field(default=False, kw_only=True)
    """True to let all attempts fail."""
    hangs_while_connecting: bool = field(default=False, kw_only=True)
    leaving_seconds: float = field(default=0.0, kw_only=True)
    """The time that it takes to close a connection."""
    attempts: list[float] = field(factory=list[float], init=False)
    """The times of the attempts so far."""
    servers: list[Server] = field(factory=list[Server], init=False)
    """The servers of the connections that are open, the latest last."""
    opened: int = field(default=0, init=False)
    """The number of connections so far."""
    answers: trio.Event = field(factory=trio.Event, init=False)
    """Set while the servers receive messages."""
    _streams: list[trio.abc.Stream] = field(factory=list[trio.abc.Stream], init=False)

    def __attrs_post_init__(self) -> None:
        self.answers.set()

    def hang(self) -> None:
        """Receive no more messages, on any connection, until `answers` is set."""
        self.answers = trio.Event()

    @property
    def open(self) -> int:
        """The number of connections that are open."""
        return len(self.servers)

    @asynccontextmanager
    async def __call__(self, client: TransportClient) -> AsyncGenerator[Transport]:
        self.attempts.append(trio.current_time())
        if self.hangs_while_connecting:
            await trio.sleep_forever()
        if self.failures:
            raise self.failures.pop(0)
        if self.refuses:
            raise OSError("refused, and the password is s3cret")
        near, far = memory_stream_pair()
        server = self.make()
        self.register(server)
        async with owned_nursery() as nursery:
            nursery.start_soon(serve_stream, server, _Line(far, self))
            self.opened += 1
            self.servers.append(server)
            self._streams.append(far)
            try:
                async with stream_transport(near)(client) as transport:
                    yield transport
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.leaving_seconds)
                self.servers.remove(server)
                self._streams.remove(far)
                nursery.cancel_scope.cancel()

    async def say(self, line: bytes) -> None:
        """Send a line from the server of the latest connection; return when its client has taken it."""
        await self._streams[-1].send_all(line)
        await wait_all_tasks_blocked()

    async def crash(self) -> None:
        """End the latest connection without a word; return when its client knows."""
        await trio.aclose_forcefully(self._streams[-1])
        await wait_all_tasks_blocked()


@define(eq=False)
class Front:
    """One serving of a gateway, which many callers share."""

    gateway: Gateway
    _serving: Serving

    def client(self, principal: str | None = None, **options: Any) -> AbstractAsyncContextManager[Client]:
        """Return a connection to the gateway of a caller."""
        return open_client(ServingWithPrincipal(self._serving, principal), **options)


@asynccontextmanager
async def served(gateway: Gateway) -> AsyncGenerator[Front]:
    """Serve a gateway for the duration of the block."""
    async with gateway.serving() as serving:
        yield Front(gateway, serving)


def gateway_of(target: Any, **options: Any) -> Gateway:
    """Return a gateway with one server."""
    gateway = Gateway("front")
    gateway.mount(target, name="crm", **options)
    return gateway


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def echo(client: Client, text: str = "here", tool: str = "echo") -> str:
    """Return what a tool of a server says."""
    return text_of(await client.call_tool(tool, {"text": text}))


async def tools_of(client: Client) -> list[str]:
    """Return the names of the tools that a client lists now."""
    return [tool.name async for tool in client.tools(fresh=True)]
