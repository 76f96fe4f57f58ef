"""Servers of several processes behind a round-robin balancer, in this process: each request goes to the next one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Unpack

import trio
from attrs import define, field

from trio_mcp import Client, ClientOptions, MemoryShared, Server, http_app, open_http_client
from trio_mcp.server import HttpOptions
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import HttpResponse

__all__ = ["Process", "RoundRobin", "cluster", "over_cluster"]

URL = "http://localhost/mcp"


@define(eq=False)
class RoundRobin:
    """An HTTP engine that sends each request to the next of several applications."""

    engines: Sequence[AsgiEngine]
    _next: cycle[AsgiEngine] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._next = cycle(self.engines)

    def turn_to(self, other: RoundRobin) -> None:
        """Send further requests to the applications of another one."""
        self.engines, self._next = other.engines, other._next

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        return next(self._next).request(method, url, headers, content, on_sent=on_sent)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


@define(eq=False)
class Process:
    """One process of a service, which the test stops."""

    server: Server
    options: HttpOptions
    stop: trio.Event = field(factory=trio.Event, init=False)
    stopped: trio.Event = field(factory=trio.Event, init=False)

    async def run(self, *, task_status: trio.TaskStatus[AsgiEngine]) -> None:
        engine = AsgiEngine(http_app(self.server, **self.options))
        async with engine.lifespan():
            task_status.started(engine)
            await self.stop.wait()
        self.stopped.set()


@asynccontextmanager
async def cluster(
    make: Callable[[], Server], nodes: int = 3, **serving: Unpack[HttpOptions]
) -> AsyncGenerator[RoundRobin]:
    """Serve as many nodes of one service."""
    serving.setdefault("shared", MemoryShared())
    async with AsyncExitStack() as stack:
        engines: list[AsgiEngine] = []
        for _ in range(nodes):
            engine = AsgiEngine(http_app(make(), **serving))
            await stack.enter_async_context(engine.lifespan())
            engines.append(engine)
        yield RoundRobin(engines)


@asynccontextmanager
async def over_cluster(
    make: Callable[[], Server], options: ClientOptions, **serving: Unpack[HttpOptions]
) -> AsyncGenerator[Client]:
    """Serve a server as three nodes, and open a client whose requests go to them in turn.

    The nodes have one `Server`, so that what a handler keeps in it is found again.
    """
    server = make()
    async with cluster(lambda: server, **serving) as engine, open_http_client(URL, engine=engine, **options) as client:
        yield client
