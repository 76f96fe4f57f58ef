"""Fairness between the connections of a serving: the flood of one connection does not starve the others."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Client, Context, ErrorResponse, Limits, Server, open_client, serve_stream, types

FLOOD = 200


@asynccontextmanager
async def shared(server: Server, clients: int) -> AsyncGenerator[tuple[list[Client], Callable[[], Any]]]:
    """Serve *server* once over *clients* connections; the function that it yields returns the statistics."""
    closing = trio.Event()
    async with server.serving() as serving, trio.open_nursery() as nursery, trio.open_nursery() as connections:

        async def connect(task_status: trio.TaskStatus[Client]) -> None:
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve_stream, serving, theirs)
            async with open_client(ours) as client:
                task_status.started(client)
                await closing.wait()

        yield [await connections.start(connect) for _ in range(clients)], serving.statistics
        closing.set()


class Barrier:
    """A barrier that holds handlers until it is opened, and records the order in which they began."""

    def __init__(self) -> None:
        self.worked: list[str] = []
        self.begun = trio.Event()
        self.opened = trio.Event()

    async def wait(self, name: str) -> None:
        self.worked.append(name)
        self.begun.set()
        await self.opened.wait()
        await trio.lowlevel.checkpoint()


async def flood_and_call(one: Client, other: Client, tool: str, barrier: Barrier, count: int = FLOOD) -> None:
    """Send *count* calls from one client and one call from the other, then open the barrier."""
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one.call_tool, tool, {"name": "flood"})
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(other.call_tool, tool, {"name": "single"})
        await trio.testing.wait_all_tasks_blocked()
        assert "single" not in barrier.worked
        barrier.opened.set()
    assert len(barrier.worked) == count + 1


async def test_a_flood_on_a_tool_with_one_slot_delays_another_connection_by_one_call() -> None:
    server, barrier = Server("s"), Barrier()

    @server.tool(max_concurrency=1)
    async def work(name: str) -> None:
        await barrier.wait(name)

    async with shared(server, 2) as ((one, other), _):
        await flood_and_call(one, other, "work", barrier)

    assert barrier.worked.index("single") <= 2


async def test_a_flood_of_all_running_places_delays_another_connection_by_the_running_calls() -> None:
    server, barrier = Server("s", limits=Limits(max_running=3)), Barrier()

    @server.tool
    async def work(name: str) -> None:
        await barrier.wait(name)

    async with shared(server, 2) as ((one, other), statistics):
        await flood_and_call(one, other, "work", barrier)
        assert statistics().running == 0

    assert barrier.worked.index("single") < 3 + 3  # three end at once, and Trio shuffles the next three


async def test_floods_of_many_connections_delay_another_connection_by_one_call_of_each() -> None:
    server, barrier = Server("s"), Barrier()

    @server.tool(max_concurrency=1)
    async def work(name: str) -> None:
        await barrier.wait(name)

    async with shared(server, 6) as ((other, *floods), _), trio.open_nursery() as nursery:
        for number, client in enumerate(floods):
            for _ in range(20):
                nursery.start_soon(client.call_tool, "work", {"name": str(number)})
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(other.call_tool, "work", {"name": "single"})
        await trio.testing.wait_all_tasks_blocked()
        barrier.opened.set()

    before = barrier.worked[: barrier.worked.index("single")]
    assert len(before) <= 1 + len(floods)
    assert len(barrier.worked) == 101


@pytest.mark.parametrize("bound", [Limits(max_threads=1), Limits(max_threads=2)])
async def test_a_flood_of_plain_functions_delays_another_connection_by_one_call(bound: Limits) -> None:
    server, releases = Server("s", limits=bound), threading.Semaphore(0)
    begin, began = trio.open_memory_channel[str](FLOOD)

    @server.tool
    def work(name: str) -> None:
        trio.from_thread.run_sync(begin.send_nowait, name)
        releases.acquire(timeout=20)

    async with shared(server, 2) as ((one, other), statistics):

        async def until_running(handlers: int) -> None:
            while statistics().running < handlers:
                await other.list_tools()
            await other.list_tools()

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one.call_tool, "work", {"name": "flood"})
            for _ in range(bound.max_threads):
                assert await began.receive() == "flood"
            await until_running(50)
            nursery.start_soon(other.call_tool, "work", {"name": "single"})
            await until_running(51)
            names = list[str]()
            while "single" not in names:  # one thread at a time ends, so that the system's scheduler decides nothing
                releases.release()
                names.append(await began.receive())
            releases.release(51)
        assert statistics().threads == 0

    assert len(names) <= 2
    assert began.statistics().current_buffer_used == 51 - bound.max_threads - len(names)


async def test_calls_that_are_cancelled_while_they_wait_release_their_places() -> None:
    server, barrier = Server("s", limits=Limits(max_running=4)), Barrier()

    @server.tool(max_concurrency=1)
    async def work(name: str) -> None:
        await barrier.wait(name)

    async with shared(server, 2) as ((one, other), statistics), trio.open_nursery() as nursery:
        nursery.start_soon(one.call_tool, "work", {"name": "first"})
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as leaving:  # some wait for the tool, others for a running place
            for client in (one, other) * 10:
                leaving.start_soon(client.call_tool, "work", {"name": "left"})
            await trio.testing.wait_all_tasks_blocked()
            assert statistics().running == 4
            leaving.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert statistics().running == 1
        nursery.start_soon(other.call_tool, "work", {"name": "second"})
        await trio.testing.wait_all_tasks_blocked()
        barrier.opened.set()

    assert barrier.worked == ["first", "second"]


async def test_a_busy_server_names_the_limit_and_serves_the_other_connections() -> None:
    server, barrier = Server("s", limits=Limits(max_running=2, max_queued=3)), Barrier()

    @server.tool
    async def work(name: str, ctx: Context) -> None:
        await barrier.wait(name)

    refused: list[tuple[int, str]] = []

    async def call(client: Client, name: str) -> None:
        try:
            await client.call_tool("work", {"name": name})
        except ErrorResponse as error:
            refused.append((error.code, error.message))

    async with shared(server, 2) as ((one, other), _), trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(call, one, "flood")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(call, other, "single")
        await trio.testing.wait_all_tasks_blocked()
        barrier.opened.set()

    busy = "of all requests, 2 run (Limits.max_running), and of this client's, 3 wait (Limits.max_queued)"
    assert refused == [(-31_000, f"too busy: {busy}; try again later")]
    assert barrier.worked.count("flood") == 5
    assert "single" in barrier.worked


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_call_that_waits_for_the_user_releases_its_places_and_acquires_them_again(
    revision: str, threaded: bool
) -> None:
    server = Server("s", limits=Limits(max_threads=1))
    working, most, questions, answer = 0, 0, 0, trio.Event()
    form: dict[str, Any] = {"type": "object", "properties": {}}

    def step(change: int) -> None:
        nonlocal working, most
        working += change
        most = max(most, working)

    if threaded:

        @server.tool(name="work")
        def in_a_thread(ctx: Context) -> None:
            step(1)
            step(-1)
            trio.from_thread.run(ctx.elicit, "Go on?", form)
            step(1)
            step(-1)

    else:

        @server.tool(name="work", max_concurrency=1)
        async def in_a_task(ctx: Context) -> None:
            step(1)
            await trio.lowlevel.checkpoint()
            step(-1)
            await ctx.elicit("Go on?", form)
            step(1)
            await trio.lowlevel.checkpoint()
            step(-1)

    async def on_elicit(_: object) -> types.ElicitResult:
        nonlocal questions
        questions += 1
        if questions == 5:
            answer.set()
        await answer.wait()
        return types.ElicitResult(action="accept", content={})

    with trio.fail_after(30):
        async with open_client(server, revision=revision, on_elicit=on_elicit) as client:
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(partial(client.call_tool, "work", raise_on_error=True))
            assert client.statistics().outgoing == 0

    assert (questions, working, most) == (5, 0, 1)
