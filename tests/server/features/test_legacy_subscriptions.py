"""Change notifications of legacy sessions, on the wire."""

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


def note(of: str) -> str:
    return of


class Dynamic(Server):
    """A server with one tool, some resources and no prompt."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__("s", limits=limits)
        self.tool(name="add")(self.add)
        self.resource(CONFIG, name="config")(lambda: "{}")
        self.resource("note:{of}", name="note")(note)

    async def add(self, name: str, ctx: Context) -> None:
        self.tool(name=name)(lambda: None)
        ctx.resource_updated(CONFIG)


@define
class Bench:
    """A server's link with a scripted client at its other end."""

    server: Server
    serving: ActiveServer
    link: Link
    client: ScriptedPeer
    scope: trio.CancelScope

    async def subscribe(self, uri: str) -> Any:
        return await self.client.request("resources/subscribe", {"uri": uri})


@asynccontextmanager
async def bench(
    revision: str = NEWEST, limits: Limits | None = None, *, handshake: bool = True
) -> AsyncGenerator[Bench]:
    ours, theirs = trio.testing.memory_stream_pair()
    server = Dynamic(limits)
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        if handshake:
            await client.greet(revision)
            await trio.testing.wait_all_tasks_blocked()
        yield Bench(server, serving, link, client, nursery.cancel_scope)


@pytest.mark.requirement("B.11-L2")
@pytest.mark.parametrize("revision", LEGACY)
async def test_changes_of_lists_are_sent_without_a_subscription(revision: str) -> None:
    async with bench(revision) as b:
        b.server.tool(name="t")(lambda: None)
        assert await b.client.receive() == list_changed("tools")
        b.server.resources.remove(CONFIG)
        assert await b.client.receive() == list_changed("resources")
        b.server.resources.remove("note:{of}")
        assert await b.client.receive() == list_changed("resources")


@pytest.mark.requirement("B.2-P1b", "B.11-L2")
async def test_changes_of_features_that_were_not_declared_in_the_handshake_are_not_sent(autojump_clock: object) -> None:
    async with bench() as b:
        b.server.prompt(name="p")(lambda: "")  # the first prompt
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
async def test_no_change_is_sent_before_the_handshake_is_complete(autojump_clock: object) -> None:
    async with bench(handshake=False) as b:
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
async def test_updates_of_resources_are_sent_only_to_subscribers(revision: str, autojump_clock: object) -> None:
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


async def test_another_handshake_keeps_the_subscriptions_and_declares_new_lists(autojump_clock: object) -> None:
    async with bench() as b:
        await b.subscribe(NOTE)
        b.server.prompt(name="p")(lambda: "")  # not declared in the first handshake
        await b.client.greet(NEWEST)

        b.server.resource_updated(NOTE)
        assert await b.client.receive() == updated(NOTE)
        b.server.prompts.remove("p")
        assert await b.client.receive() == list_changed("prompts")
        await b.client.expect_silence()
        assert b.serving.statistics().listening == 1


async def test_a_subscription_to_an_unknown_resource_is_refused() -> None:
    async with bench() as b:
        error = (await b.subscribe("file:///other"))["error"]
        assert (error["code"], error["data"]) == (-32002, {"uri": "file:///other"})
        assert (await b.client.request("resources/unsubscribe", {"uri": "file:///other"}))["result"] == {}


async def test_a_connection_may_subscribe_to_a_limited_number_of_resources() -> None:
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


async def test_changes_by_a_handler_are_sent_before_its_result() -> None:
    async with bench() as b:
        await b.subscribe(CONFIG)
        for number in range(10):
            id = await b.client.begin("tools/call", {"name": "add", "arguments": {"name": f"t{number}"}})
            assert await b.client.receive() == list_changed("tools")
            assert await b.client.receive() == updated(CONFIG)
            await b.client.expect_response(id)


async def test_repeated_changes_between_two_checkpoints_are_sent_once(autojump_clock: object) -> None:
    async with bench() as b:
        await b.subscribe(CONFIG)
        for number in range(100):
            b.server.resource_updated(CONFIG)
            b.server.tool(name=f"t{number}")(lambda: None)
        assert await b.client.receive() == updated(CONFIG)
        assert await b.client.receive() == list_changed("tools")
        await b.client.expect_silence()


async def test_changes_for_a_client_that_does_not_read_are_merged_into_one_of_each_kind(autojump_clock: object) -> None:
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

        received: list[str] = []
        with trio.move_on_after(1):
            while True:
                received.append((await client.receive())["params"].get("uri", "tools"))
        assert len(received) < 10
        assert {"tools", CONFIG, NOTE} == set(received[-3:])


async def test_an_update_that_waits_is_dropped_if_the_client_unsubscribes(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server = Dynamic(Limits(outbox_bytes=1))
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        await client.greet(NEWEST)
        await client.request("resources/subscribe", {"uri": CONFIG})
        server.tool(name="t")(lambda: None)  # fills the outbox
        await trio.testing.wait_all_tasks_blocked()
        server.resource_updated(CONFIG)
        await trio.testing.wait_all_tasks_blocked()

        id = await client.begin("resources/unsubscribe", {"uri": CONFIG})
        assert await client.receive() == list_changed("tools")
        await client.expect_response(id)
        await client.expect_silence()


@pytest.mark.parametrize("waits", [False, True])
async def test_the_end_of_a_connection_ends_its_notifications(waits: bool, autojump_clock: object) -> None:
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


async def test_a_refused_handshake_begins_no_notifications() -> None:
    async with bench(handshake=False) as b:
        assert "error" in await b.client.request("initialize", {"protocolVersion": NEWEST})
        assert b.serving.statistics().listening == 0
