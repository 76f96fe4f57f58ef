"""What handshaken connections are told of changes, on the wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define

from trio_mcp import Context, Limits, Server, types
from trio_mcp._util import owned_nursery
from trio_mcp.lowlevel import ActiveServer, Link
from trio_mcp.peer import BUSY
from trio_mcp.testing import ScriptedPeer
from trio_mcp.transports import server_link

LEGACY = types.REVISIONS[:-1]
NEWEST = LEGACY[-1]
CONFIG, NOTE = "file:///config.json", "note:7"


def list_changed(kind: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": {}}


def updated(uri: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}


def text(of: str) -> str:
    return of


class Dynamic(Server):
    """A server with one tool, some resources and no prompt."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__("s", limits=limits)
        self.tool(name="add")(self.add)
        self.resource(CONFIG, name="config")(lambda: "{}")
        self.resource("note:{of}", name="note")(text)

    async def add(self, name: str, ctx: Context) -> None:
        self.tool(name=name)(lambda: None)
        ctx.resource_updated(CONFIG)


@define
class Bench:
    """A server's link, and a client by hand at its other end."""

    server: Server
    serving: ActiveServer
    link: Link
    client: ScriptedPeer
    scope: trio.CancelScope

    async def subscribe(self, uri: str) -> Any:
        return await self.client.request("resources/subscribe", {"uri": uri})


@asynccontextmanager
async def bench(revision: str = NEWEST, limits: Limits | None = None, *, greets: bool = True) -> AsyncGenerator[Bench]:
    ours, theirs = trio.testing.memory_stream_pair()
    server = Dynamic(limits)
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        if greets:
            await client.greet(revision)
            await trio.testing.wait_all_tasks_blocked()
        yield Bench(server, serving, link, client, nursery.cancel_scope)


@pytest.mark.requirement("B.11-L2")
@pytest.mark.parametrize("revision", LEGACY)
async def test_lists_are_told_of_without_asking(revision: str) -> None:
    async with bench(revision) as b:
        b.server.tool(name="t")(lambda: None)
        assert await b.client.receive() == list_changed("tools")
        b.server.resources.remove(CONFIG)
        assert await b.client.receive() == list_changed("resources")
        b.server.resources.remove("note:{of}")
        assert await b.client.receive() == list_changed("resources")


@pytest.mark.requirement("B.2-P1b", "B.11-L2")
async def test_what_was_not_declared_in_the_handshake_is_not_told_of(autojump_clock: object) -> None:
    async with bench() as b:
        b.server.prompt(name="p")(lambda: "")  # the first one
        await b.client.expect_silence()

        other = ScriptedPeer((pair := trio.testing.memory_stream_pair())[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(server_link(pair[1], b.serving).run, drain=True))
            await other.greet(NEWEST)
            await trio.testing.wait_all_tasks_blocked()
            b.server.prompts.remove("p")
            assert await other.receive() == list_changed("prompts")
            await other.stream.aclose()
        await b.client.expect_silence()


@pytest.mark.requirement("B.2-S3")
async def test_nothing_is_told_before_the_handshake_is_complete(autojump_clock: object) -> None:
    async with bench(greets=False) as b:
        b.server.tool(name="before")(lambda: None)
        params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "0"}}
        declared = (await b.client.request("initialize", params))["result"]["capabilities"]
        assert declared["tools"] == {"listChanged": True}
        assert declared["resources"] == {"subscribe": True, "listChanged": True}
        b.server.tool(name="between")(lambda: None)
        await b.client.expect_silence()
        await b.client.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        b.server.tool(name="after")(lambda: None)
        assert await b.client.receive() == list_changed("tools")


@pytest.mark.requirement("B.11-L1")
@pytest.mark.parametrize("revision", LEGACY)
async def test_resources_are_told_of_to_those_who_subscribed(revision: str, autojump_clock: object) -> None:
    async with bench(revision) as b:
        for uri in (CONFIG, NOTE):
            b.server.resource_updated(uri)
        await b.client.expect_silence()

        assert (await b.subscribe(NOTE))["result"] == {}
        assert (await b.subscribe(NOTE))["result"] == {}
        for uri in (CONFIG, NOTE, "note:8"):
            b.server.resource_updated(uri)
        assert await b.client.receive() == updated(NOTE)
        await b.client.expect_silence()

        assert (await b.client.request("resources/unsubscribe", {"uri": NOTE}))["result"] == {}
        b.server.resource_updated(NOTE)
        await b.client.expect_silence()


async def test_a_resource_that_is_not_there_cannot_be_subscribed_to() -> None:
    async with bench() as b:
        error = (await b.subscribe("file:///other"))["error"]
        assert (error["code"], error["data"]) == (-32002, {"uri": "file:///other"})
        assert (await b.client.request("resources/unsubscribe", {"uri": "file:///other"}))["result"] == {}


async def test_a_connection_may_subscribe_to_so_many_resources() -> None:
    async with bench(limits=Limits(max_subscriptions=2)) as b:
        for uri in ("note:1", "note:2", "note:1"):
            assert "result" in await b.subscribe(uri)
        error = (await b.subscribe("note:3"))["error"]
        assert error == {
            "code": BUSY,
            "message": "this connection has 2 subscriptions already (Limits.max_subscriptions)",
        }
        await b.client.request("resources/unsubscribe", {"uri": "note:1"})
        assert "result" in await b.subscribe("note:3")


async def test_what_a_handler_changes_is_told_before_its_result() -> None:
    async with bench() as b:
        await b.subscribe(CONFIG)
        for number in range(10):
            id = await b.client.begin("tools/call", {"name": "add", "arguments": {"name": f"t{number}"}})
            assert await b.client.receive() == list_changed("tools")
            assert await b.client.receive() == updated(CONFIG)
            await b.client.expect_response(id)


async def test_what_changes_in_one_go_is_told_once(autojump_clock: object) -> None:
    async with bench() as b:
        await b.subscribe(CONFIG)
        for number in range(100):
            b.server.resource_updated(CONFIG)
            b.server.tool(name=f"t{number}")(lambda: None)
        assert await b.client.receive() == updated(CONFIG)
        assert await b.client.receive() == list_changed("tools")
        await b.client.expect_silence()


async def test_a_client_that_reads_nothing_costs_no_more_than_a_note_of_each_change(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server = Dynamic(Limits(outbox_bytes=500))
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        await client.greet(NEWEST)
        for uri in (CONFIG, NOTE):
            await client.request("resources/subscribe", {"uri": uri})
        for number in range(2000):
            server.resource_updated((CONFIG, NOTE)[number % 2])
            server.tool(name=f"t{number}")(lambda: None)
            await trio.testing.wait_all_tasks_blocked()
        assert link.statistics().outbox_bytes < 1000

        heard: list[str] = []
        with trio.move_on_after(1):
            while True:
                heard.append((await client.receive())["params"].get("uri", "tools"))
        assert len(heard) < 10
        assert {"tools", CONFIG, NOTE} == set(heard[-3:])


async def test_what_is_unsubscribed_while_it_waits_is_not_told(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server = Dynamic(Limits(outbox_bytes=1))
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        await client.greet(NEWEST)
        await client.request("resources/subscribe", {"uri": CONFIG})
        server.tool(name="t")(lambda: None)  # fills the room
        await trio.testing.wait_all_tasks_blocked()
        server.resource_updated(CONFIG)
        await trio.testing.wait_all_tasks_blocked()

        id = await client.begin("resources/unsubscribe", {"uri": CONFIG})
        assert await client.receive() == list_changed("tools")
        await client.expect_response(id)
        await client.expect_silence()


@pytest.mark.parametrize("waits", [False, True])
async def test_the_end_of_a_connection_ends_what_it_is_told(waits: bool, autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server = Dynamic(Limits(outbox_bytes=1))
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        await client.greet(NEWEST)
        await trio.testing.wait_all_tasks_blocked()
        assert serving.statistics().listening == 1
        if waits:
            for number in range(3):
                server.tool(name=f"t{number}")(lambda: None)
                await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()
        await trio.sleep(10)
        assert serving.statistics().listening == 0
        server.tool(name="t")(lambda: None)


async def test_a_handshake_that_is_refused_begins_nothing() -> None:
    async with bench(greets=False) as b:
        assert "error" in await b.client.request("initialize", {"protocolVersion": NEWEST})
        assert b.serving.statistics().listening == 0
