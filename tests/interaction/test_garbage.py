"""What has ended is free at once, without the garbage collector, which would have to interrupt everybody for it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import pytest
import trio

from tests.garbage import collector_disabled, garbage_of
from trio_mcp import Client, Context, Server, open_client, open_http_client, serve_http

USED = frozenset({"_Connection", "Http1", "AppTasks", "Responding", "HttpRequest", "HandlerRun", "IncomingHttpRequest"})
"""The classes of what connections, requests and handlers consist of."""
LEGACY_USED = frozenset({"HttpOutlet", "Outbox", "IncomingMessageRequest"})
RUN = frozenset({"HandlerRun"})
TIMES = 5
MANY_CALLS = 30

Use: TypeAlias = Callable[[str], Awaitable[None]]


def make_server(begun: list[trio.Event]) -> Server:
    server = Server("garbage", version="1")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def give_way() -> None:
        await trio.lowlevel.checkpoint()

    @server.tool
    async def fail() -> None:
        raise ValueError("always")

    @server.tool
    async def report(ctx: Context) -> None:
        await ctx.report_progress(1)

    @server.tool
    async def wait() -> None:
        begun[-1].set()
        begun.append(trio.Event())
        await trio.sleep_forever()

    return server


def alive(kinds: frozenset[str]) -> Counter[str]:
    """Count the objects of these classes of the package."""
    found: Iterator[type] = map(type, gc.get_objects())
    return Counter(kind.__name__ for kind in found if kind.__name__ in kinds and kind.__module__.startswith("trio_mcp"))


async def until_gone(kinds: frozenset[str], before: Counter[str]) -> None:
    """Wait until there are no more objects of these classes than before, but for one that a frame may still refer to.

    If each use left some to the garbage collector, there would be `TIMES` more.
    """
    with trio.fail_after(60):
        while any(number > before[kind] + 1 for kind, number in alive(kinds).items()):  # noqa: ASYNC110
            await trio.sleep(0.01)  # the server notices a while later that a client has left


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[str, list[trio.Event]]]:
    """Serve over HTTP; the block gets the URL, and events, of which the next call that begins sets the last."""
    begun = [trio.Event()]
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, make_server(begun), port=0, websocket=True))
        yield bound.url, begun
        nursery.cancel_scope.cancel()


async def say_nothing(url: str) -> None:
    """Connect, and leave."""
    host, _, port = url.split("/")[2].partition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    await stream.aclose()


async def call(url: str, *, revision: str) -> None:
    async with open_http_client(url, revision=revision) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3}


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(say_nothing, id="connection"),
        pytest.param(partial(call, revision="2026-07-28"), id="call"),
        pytest.param(partial(call, revision="2025-11-25"), id="legacy call"),
    ],
)
async def test_what_a_client_used_is_free_when_it_has_left(use: Use) -> None:
    async with served() as (url, _):
        await use(url)  # loads modules
        with collector_disabled():
            before = alive(USED | LEGACY_USED)
            for _ in range(TIMES):
                await use(url)
            await until_gone(USED | LEGACY_USED, before)


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_what_a_cancelled_call_used_is_free(revision: str) -> None:
    async with served() as (url, begun), open_http_client(url, revision=revision) as client:
        with collector_disabled():
            before = alive(RUN)
            for _ in range(TIMES):
                async with trio.open_nursery() as nursery:
                    beginning = begun[-1]
                    nursery.start_soon(client.call_tool, "wait")
                    await beginning.wait()
                    assert alive(RUN) > before
                    nursery.cancel_scope.cancel()
            await until_gone(RUN, before)


async def ignore(_: object) -> None:
    await trio.lowlevel.checkpoint()


CALLS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "answered at once": lambda client: client.call_tool("add", {"a": 1, "b": 2}),
    "answered later": lambda client: client.call_tool("give_way"),
    "failed": lambda client: client.call_tool("fail"),
    "with progress": lambda client: client.call_tool("report", on_progress=ignore),
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_a_call_leaves_nothing_to_the_garbage_collector(revision: str, scheme: str, kind: str) -> None:
    use = CALLS[kind]
    async with served() as (url, _), open_client(url.replace("http", scheme, 1), revision=revision) as client:
        assert await garbage_of(partial(use, client), MANY_CALLS) < MANY_CALLS
