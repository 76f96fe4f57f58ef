"""The memory of a gateway: it does not grow with calls, with callers that come and go, or with lists that change."""

from __future__ import annotations

import gc
import logging
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.gateway.upstreams import CountedServer, echo, gateway_of, served, tools_of
from trio_mcp.gateway import Gateway

SLACK = 100
"""The number of objects by which a count may differ: those of caches."""
_OF_DEADLINES = {"CancelScope", "CancelReason", "tuple"}
"""The types of what Trio keeps of deadlines that were not reached, until there are a thousand of them."""


async def growth(work: Callable[[int], Awaitable[object]], warm_up: int, rounds: int) -> int:
    """Return the number of objects that so many rounds leave behind, after a warm-up."""
    for number in range(warm_up):
        await work(number)
    before = await objects()
    for number in range(warm_up, warm_up + rounds):
        await work(number)
    return await objects() - before


async def objects() -> int:
    await wait_all_tasks_blocked()
    gc.collect()
    gc.collect()
    return sum(type(each).__name__ not in _OF_DEADLINES for each in gc.get_objects())


@pytest.fixture(autouse=True)
def without_log(caplog: pytest.LogCaptureFixture) -> None:
    """Have pytest keep no records of the log."""
    caplog.set_level(logging.CRITICAL, "trio_mcp.gateway")


async def test_calls_leave_nothing(autojump_clock: object) -> None:
    async with served(gateway_of(CountedServer(), max_concurrency=2)) as front, front.client() as client:
        assert await growth(lambda _: echo(client), warm_up=500, rounds=3000) < SLACK


@pytest.mark.parametrize("share", ["session", "principal", "all"])
async def test_sessions_leave_nothing(share: str, autojump_clock: object) -> None:
    upstream = CountedServer()

    async with served(gateway_of(upstream, share=share, idle=30)) as front:

        async def session(number: int) -> None:
            async with front.client(f"user {number % 3}") as client:
                await tools_of(client)
                assert await echo(client) == "here"

        assert await growth(session, warm_up=40, rounds=200) < SLACK
        assert upstream.opened == {"session": 240, "principal": 3, "all": 1}[share]


async def test_principals_leave_nothing_once_they_are_idle(autojump_clock: object) -> None:
    upstream = CountedServer()

    async with served(gateway_of(upstream, share="principal", idle=5)) as front:

        async def work(number: int) -> None:
            async with (
                front.client(f"user {number}") as client,
                client.listen(tools=True, resources=["notes://one"]),
            ):
                assert await echo(client) == "here"
            await trio.sleep(0.5)

        assert await growth(work, warm_up=40, rounds=200) < SLACK
        assert upstream.opened == 240
        assert upstream.open < 15


async def test_lists_that_change_leave_nothing(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream)) as front, front.client() as client:
        await tools_of(client)
        server = upstream.servers[0]

        async def change(number: int) -> None:
            async def passing() -> None: ...

            server.tool(name=f"tool-{number}")(passing)
            await wait_all_tasks_blocked()
            assert len(await tools_of(client)) == 4
            server.tools.remove(f"tool-{number}")
            await wait_all_tasks_blocked()

        assert await growth(change, warm_up=250, rounds=500) < SLACK


async def test_servers_that_are_added_and_removed_leave_nothing(autojump_clock: object) -> None:
    gateway = Gateway("front")
    async with served(gateway) as front, front.client() as client:

        async def change(number: int) -> None:
            gateway.mount(CountedServer(), name=f"server {number}", max_concurrency=1)
            assert await echo(client) == "here"
            gateway.unmount(f"server {number}")
            await wait_all_tasks_blocked()

        assert await growth(change, warm_up=20, rounds=100) < SLACK


async def test_restarts_leave_nothing(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream)) as front, front.client() as client:

        async def restart(_: int) -> None:
            await front.gateway.upstreams["crm"].restart()
            assert await echo(client) == "here"
            await upstream.crash()
            await trio.sleep(100)

        assert await growth(restart, warm_up=20, rounds=100) < SLACK
