"""The connections of a gateway to its servers: when they are opened, who shares them, and when they are closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.gateway.upstreams import CountedServer, Front, echo, gateway_of, served, text_of, tools_of
from trio_mcp import Client, ConnectionClosed, ErrorResponse, ResourceUpdated, Server, open_client
from trio_mcp.gateway import Gateway

ALL = ["echo", "wait", "doze"]


@asynccontextmanager
async def clients(front: Front, *principals: str | None) -> AsyncGenerator[list[Client]]:
    """Open a connection for each of these callers."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(front.client(each)) for each in principals]


# --- When they are opened ---


async def test_a_server_is_connected_when_the_gateway_is_served(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream)):
        await wait_all_tasks_blocked()
        assert upstream.open == 1
    assert upstream.open == 0


@pytest.mark.parametrize("first", ["list", "call", "read"])
async def test_a_server_may_be_connected_on_first_use(first: str, autojump_clock: object) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, at_start=False)
    async with served(gateway) as front, front.client() as client:
        await trio.sleep(100)
        assert (upstream.opened, gateway.status["crm"].state) == (0, "idle")
        if first == "list":
            assert await tools_of(client) == ALL
        elif first == "call":
            assert await echo(client) == "here"
        else:
            await client.read_resource("notes://one")
        assert (upstream.opened, gateway.status["crm"].state) == (1, "connected")


async def test_a_server_that_is_mounted_while_the_gateway_is_served_is_connected_and_shown(
    autojump_clock: object,
) -> None:
    upstream, gateway = CountedServer(), Gateway("front")
    async with served(gateway) as front, front.client() as client:
        async with client.listen(tools=True) as changes:
            assert await tools_of(client) == []
            gateway.mount(upstream, name="crm")
            await anext(changes)
            assert await tools_of(client) == ALL
            gateway.unmount("crm")
            await anext(changes)
            assert await tools_of(client) == []
        await wait_all_tasks_blocked()
        assert (upstream.opened, upstream.open) == (1, 0)


async def test_a_call_in_flight_fails_when_its_server_is_removed_and_one_that_waits_opens_nothing(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, max_concurrency=1)
    answers: list[str] = []

    async def wait(client: Client) -> None:
        answers.append(text_of(await client.call_tool("wait")))

    async with served(gateway) as front, front.client() as client:
        assert await tools_of(client) == ALL
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, client)
            nursery.start_soon(wait, client)
            await wait_all_tasks_blocked()
            gateway.unmount("crm")
        with pytest.raises(ErrorResponse, match="no tool 'echo'"):
            await echo(client)
    assert (
        answers
        == ["the server 'crm' behind this gateway is not connected, or the connection was lost before it answered"] * 2
    )
    assert upstream.opened == 1


async def test_a_server_that_is_removed_while_it_connects_is_gone(autojump_clock: object) -> None:
    upstream = CountedServer(hangs_while_connecting=True)
    gateway = gateway_of(upstream)
    async with served(gateway) as front, front.client() as client, trio.open_nursery() as nursery:
        await wait_all_tasks_blocked()
        nursery.start_soon(tools_of, client)
        await wait_all_tasks_blocked()
        before = trio.current_time()
        gateway.unmount("crm")
        assert await tools_of(client) == []
        assert (gateway.status, trio.current_time()) == ({}, before)
    assert len(upstream.attempts) == 1


async def test_a_server_that_is_removed_before_it_begins_to_connect_is_never_connected(
    autojump_clock: object,
) -> None:
    upstream, gateway = CountedServer(), Gateway("front")
    async with served(gateway):
        gateway.mount(upstream, name="crm")
        gateway.unmount("crm")
        await wait_all_tasks_blocked()
        assert (upstream.opened, upstream.open) == (0, 0)


# --- Who shares them ---


@pytest.mark.parametrize(("share", "connections"), [("all", 1), ("principal", 3), ("session", 5)])
async def test_callers_share_connections_as_the_mount_says(
    share: str, connections: int, autojump_clock: object
) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, share=share)
    callers = ("ada", "ada", "bob", None, None)
    async with served(gateway) as front, clients(front, *callers) as opened:
        for _ in range(2):
            for client in opened:
                assert await echo(client) == "here"
        status = gateway.status["crm"]
        assert (upstream.opened, upstream.open, status.connections) == (connections, connections, connections)
        assert (status.state, status.tools, status.in_flight) == ("connected", 3, 0)


async def test_a_connection_is_closed_when_the_session_that_has_it_ends(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream, share="session")) as front, front.client() as staying:
        assert await echo(staying) == "here"
        for number in range(3):
            async with front.client("ada") as client:
                assert await echo(client) == "here"
                assert (upstream.opened, upstream.open) == (2 + number, 2)
            await wait_all_tasks_blocked()
            assert upstream.open == 1
        assert await echo(staying) == "here"
    assert upstream.open == 0


async def test_a_session_that_ends_while_its_server_connects_or_works_leaves_nothing(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream, share="session")) as front:
        for hangs in (True, False):
            upstream.hangs_while_connecting = hangs
            with trio.move_on_after(1):
                async with front.client() as client:
                    await client.call_tool("wait")
            await wait_all_tasks_blocked()
            assert upstream.open == 0
        assert front.gateway.status["crm"].state == "idle"


async def test_each_principal_sees_its_own_lists(autojump_clock: object) -> None:
    names = iter(["first", "second"])

    def register(server: Server) -> None:
        @server.tool(name=next(names))
        async def mine() -> str:
            return "mine"

    gateway = gateway_of(CountedServer(register), share="principal")
    async with served(gateway) as front, clients(front, "ada", "bob") as (ada, bob):
        assert (await tools_of(ada), await tools_of(bob)) == (["first"], ["second"])
        assert text_of(await bob.call_tool("second")) == "mine"
        with pytest.raises(ErrorResponse, match="no tool 'first' on the servers of this gateway"):
            await bob.call_tool("first")


# --- When they are idle ---


async def test_an_idle_server_is_closed_and_opened_again_by_the_next_call_and_its_lists_are_known_meanwhile(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, idle=5)
    async with served(gateway) as front, front.client() as client:
        assert await echo(client) == "here"
        await trio.sleep(4)
        assert await echo(client) == "here"
        await trio.sleep(4)
        assert upstream.open == 1
        await trio.sleep(2)
        assert (upstream.open, gateway.status["crm"].state, gateway.status["crm"].tools) == (0, "idle", 3)

        for _ in range(10):
            await trio.sleep(100)
            assert await tools_of(client) == ALL
        assert (upstream.opened, upstream.open) == (1, 0)
        assert await echo(client) == "here"
        assert (upstream.opened, upstream.open) == (2, 1)


async def test_the_lists_of_an_idle_server_are_read_again_when_they_are_old(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream, idle=5)) as front, front.client() as client:
        assert await tools_of(client) == ALL
        await trio.sleep(3700)
        assert await tools_of(client) == ALL
        await wait_all_tasks_blocked()
        assert upstream.opened == 2


@pytest.mark.parametrize("share", ["principal", "session"])
async def test_a_connection_of_one_caller_is_closed_when_it_was_idle_for_five_minutes(
    share: str, autojump_clock: object
) -> None:
    upstream = CountedServer()
    gateway = gateway_of(upstream, share=share)
    async with served(gateway) as front, front.client("ada") as client:
        for opened in (1, 2, 3):
            assert await echo(client) == "here"
            await trio.sleep(299)
            assert (upstream.opened, upstream.open) == (opened, 1)
            await trio.sleep(2)
            assert (upstream.opened, upstream.open) == (opened, 0)
            assert gateway.status["crm"].state == "idle"


@pytest.mark.parametrize("limit", [{}, {"max_concurrency": 1}, {"per_second": 0.01}])
async def test_calls_keep_a_connection_from_being_idle_also_while_they_wait(
    limit: dict[str, float], autojump_clock: object
) -> None:
    upstream, results = CountedServer(), list[str]()

    async def doze(client: Client) -> None:
        results.append(text_of(await client.call_tool("doze", {"seconds": 60})))

    gateway = gateway_of(upstream, share="principal", idle=5, **limit)
    async with served(gateway) as front, front.client("ada") as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(doze, client)
            nursery.start_soon(doze, client)
            await wait_all_tasks_blocked()
            assert gateway.status["crm"].in_flight == (1 if limit else 2)
        assert (results, upstream.opened, upstream.open) == (["awake"] * 2, 1, 1)
        await trio.sleep(6)
        assert upstream.open == 0


async def test_subscriptions_keep_a_connection_from_being_idle(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with served(gateway_of(upstream, idle=5)) as front, front.client() as client:
        async with client.listen(resources=["notes://one"]) as changes:
            await trio.sleep(1000)
            upstream.servers[0].resource_updated("notes://one")
            assert await anext(changes) == ResourceUpdated("notes://one")
        await trio.sleep(6)
        assert (upstream.opened, upstream.open) == (1, 0)


async def test_a_connection_is_not_idle_while_its_lists_are_waited_for(autojump_clock: object) -> None:
    slow, quick = CountedServer(hangs_while_connecting=True), CountedServer()
    gateway = gateway_of(quick, share="principal", idle=1)
    gateway.mount(slow, name="slow", share="principal", idle=1)
    async with served(gateway) as front, front.client("ada") as client:
        assert await tools_of(client) == ALL
        assert (quick.opened, quick.open) == (1, 1)


@pytest.mark.parametrize("share", ["all", "principal"])
async def test_a_call_that_begins_while_an_idle_connection_is_being_closed_gets_a_new_one(
    share: str, autojump_clock: object
) -> None:
    upstream = CountedServer(leaving_seconds=3)
    gateway = gateway_of(upstream, share=share, idle=5)
    async with served(gateway) as front, front.client("ada") as client:
        assert await echo(client) == "here"
        await trio.sleep(6)
        assert (upstream.opened, upstream.open, gateway.status["crm"].state) == (1, 1, "idle")
        began = trio.current_time()
        assert await echo(client) == "here"
        assert (upstream.opened, upstream.open, trio.current_time()) == (2, 2, began)
        await trio.sleep(4)
        assert await echo(client) == "here"
        status = gateway.status["crm"]
        assert (upstream.opened, upstream.open, status.connections, status.tools) == (2, 1, 1, 3)
        await trio.sleep(20)
        assert upstream.open == 0


async def test_a_session_that_ends_with_the_gateway_leaves_nothing(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with open_client(gateway_of(upstream, share="session")) as client:
        assert await echo(client) == "here"
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await echo(client)
    assert upstream.open == 0


async def test_a_principal_who_uses_other_servers_only_leaves_nothing(autojump_clock: object) -> None:
    gateway = gateway_of(CountedServer())
    gateway.mount(own := CountedServer(lambda _: None), name="own", share="principal", idle=5)
    async with served(gateway) as front:
        async with front.client("first") as client:
            assert await tools_of(client) == ALL
        await trio.sleep(10)
        for number in range(20):
            async with front.client(f"user {number}") as client:
                assert await echo(client) == "here"
        assert own.opened == 1
        (serving,) = gateway._active
        assert [client.mount.name for client in serving._clients.values()] == ["crm"]
