"""`subscriptions/listen` on the wire: its notifications, their order and id, and its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define

from tests.peer.fake_exchange import exchange
from trio_mcp import Context, Limits, ResourceUpdated, Server, serve_stream, types
from trio_mcp._util import owned_nursery
from trio_mcp.lowlevel import ActiveServer, Link
from trio_mcp.peer import BUSY
from trio_mcp.server.features import ChangeHub
from trio_mcp.testing import ScriptedPeer
from trio_mcp.transports import server_link
from trio_mcp.wire import encode

MODERN = types.REVISIONS[-1]
ACK = "notifications/subscriptions/acknowledged"
ID = "io.modelcontextprotocol/subscriptionId"
TOOLS, UPDATED = "notifications/tools/list_changed", "notifications/resources/updated"
CONFIG, NOTE = "file:///config.json", "note:7"


def note(of: str) -> str:
    return of


def make_server(limits: Limits | None = None) -> Server:
    server = Server("s", version="1", limits=limits)

    @server.tool
    async def touch(uri: str, ctx: Context) -> None:
        ctx.resource_updated(uri)

    @server.tool
    async def report(ctx: Context) -> None:
        await ctx.report_progress(1)
        await ctx.log("error", "logged")

    @server.tool
    async def add(name: str) -> None:
        server.tool(name=name)(lambda: None)

    @server.tool
    async def fail_to_add(name: str) -> None:
        server.tool(name=name)(lambda: None)
        raise ValueError("half done")

    server.resource(CONFIG, name="config")(lambda: "{}")
    server.resource("note:{of}", name="note")(note)
    return server


@define
class Bench:
    """A server's link with a scripted client at its other end."""

    server: Server
    serving: ActiveServer
    link: Link
    client: ScriptedPeer
    ended: trio.Event

    async def listen(self, id: Any = 1, **wanted: Any) -> Any:
        """Open a subscription, and return the acknowledged filters."""
        await self.client.send(listen(id, **wanted))
        acknowledged = await self.client.expect_notification(ACK)
        assert acknowledged["params"]["_meta"] == {ID: id}
        assert type(acknowledged["params"]["_meta"][ID]) is type(id)
        return acknowledged["params"]["notifications"]

    def is_idle(self) -> bool:
        link = self.link.statistics()
        counts = (link.incoming, link.running, link.queued, link.outbox_bytes)
        statistics = self.serving.statistics()
        return counts == (0, 0, 0, 0) and (statistics.running, statistics.listening) == (0, 0)


def listen(id: Any, **wanted: Any) -> dict[str, Any]:
    params = {"_meta": ScriptedPeer.envelope(MODERN), "notifications": wanted}
    return {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}


def notification(method: str, id: Any, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {ID: id}}}


def ending(id: Any) -> list[dict[str, Any]]:
    """Return the messages with which a server ends a subscription."""
    cancelled = {"requestId": id, "reason": "the server stops"}
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}, ID: id}
    result = {"resultType": "complete", "_meta": meta}
    return [{"jsonrpc": "2.0", "id": id, "result": result}, notification("notifications/cancelled", id, **cancelled)]


@asynccontextmanager
async def bench(limits: Limits | None = None) -> AsyncGenerator[Bench]:
    ours, theirs = trio.testing.memory_stream_pair()
    server, ended = make_server(limits), trio.Event()
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        await client.greet(MODERN)

        async def run() -> None:
            await link.run(drain=True)
            ended.set()

        nursery.start_soon(run)
        yield Bench(server, serving, link, client, ended)


@pytest.mark.requirement("B.11-S1", "B.11-S3")
@pytest.mark.parametrize("id", [7, "7", "listen-1", 0, -1, ""])
async def test_the_acknowledgement_is_sent_first_and_every_message_carries_the_unchanged_id(id: int | str) -> None:
    async with bench() as b:
        assert await b.listen(id, toolsListChanged=True, resourceSubscriptions=[CONFIG]) == {
            "toolsListChanged": True,
            "resourceSubscriptions": [CONFIG],
        }
        b.server.resource_updated(CONFIG)
        b.server.tools.remove("report")
        messages = [await b.client.receive() for _ in range(2)]
        b.link.stop()
        messages += await b.client.rest()

    assert encode(messages) == encode(  # as JSON, because 1 and "1" are different
        [notification(UPDATED, id, uri=CONFIG), notification(TOOLS, id), *ending(id)]
    )


@pytest.mark.requirement("B.11-S1")
async def test_only_filters_for_features_of_the_server_are_acknowledged() -> None:
    async with bench() as b:
        assert await b.listen(
            toolsListChanged=True,
            promptsListChanged=True,  # the server has no prompts
            resourcesListChanged=False,
            resourceSubscriptions=["file:///other", NOTE, CONFIG, NOTE],
        ) == {"toolsListChanged": True, "resourceSubscriptions": [NOTE, CONFIG]}
        assert await b.listen(2, promptsListChanged=True) == {}
        assert await b.listen(3) == {}


@pytest.mark.requirement("B.11-S2")
async def test_changes_outside_of_the_filters_are_not_sent(autojump_clock: object) -> None:
    async with bench() as b:
        b.server.tools.remove("report")
        b.server.resource_updated(CONFIG)
        await b.client.expect_silence()  # no subscription is open
        await b.listen(resourceSubscriptions=[CONFIG])
        b.server.tools.remove("add")
        b.server.resources.remove("note:{of}")
        b.server.resource_updated(NOTE)
        await b.client.expect_silence()


@pytest.mark.requirement("B.11-S4")
async def test_progress_and_log_messages_are_not_sent_in_a_subscription(autojump_clock: object) -> None:
    async with bench() as b:
        request = listen(1, toolsListChanged=True)
        request["params"]["_meta"] |= {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
        await b.client.send(request)
        await b.client.expect_notification(ACK)
        await b.client.request("tools/call", {"name": "report"})  # this request asks for neither
        b.server.tools.remove("report")
        assert await b.client.receive() == notification(TOOLS, 1)
        await b.client.expect_silence()


async def test_repeated_changes_between_two_checkpoints_are_sent_once() -> None:
    async with bench() as b:
        await b.listen(toolsListChanged=True, resourceSubscriptions=[CONFIG, NOTE])
        for number in range(100):
            b.server.tool(name=f"t{number}")(lambda: None)
            b.server.resource_updated(CONFIG)
        b.server.resource_updated(NOTE)
        b.link.stop()
        assert await b.client.rest() == [
            notification(TOOLS, 1), notification(UPDATED, 1, uri=CONFIG), notification(UPDATED, 1, uri=NOTE), *ending(1)
        ]  # fmt: skip


@pytest.mark.parametrize("tool", ["add", "fail_to_add"])
async def test_changes_by_a_handler_are_sent_before_its_result(tool: str) -> None:
    async with bench() as b:
        await b.listen(toolsListChanged=True)
        for number in range(10):
            id = await b.client.begin("tools/call", {"name": tool, "arguments": {"name": f"t{number}"}})
            assert await b.client.receive() == notification(TOOLS, 1)
            await b.client.expect_response(id)


@pytest.mark.requirement("B.11-S1")
async def test_no_change_after_the_request_is_lost(autojump_clock: object) -> None:
    async with bench(Limits(outbox_bytes=1)) as b:
        await b.client.send(listen(1, toolsListChanged=True))
        b.server.tools.remove("report")
        await trio.testing.wait_all_tasks_blocked()  # until the server has begun to listen
        b.server.tools.remove("add")
        await b.client.expect_notification(ACK)
        assert await b.client.receive() == notification(TOOLS, 1)


@pytest.mark.requirement("B.11-S1")
async def test_no_change_is_sent_before_the_acknowledgement_even_if_there_is_room_earlier() -> None:
    async with make_server().serving() as serving:
        incoming = exchange(method="subscriptions/listen")
        incoming.params = {"_meta": {}, "notifications": {"resourceSubscriptions": [CONFIG]}}
        incoming.full = True
        serving.answer(incoming)
        await trio.testing.wait_all_tasks_blocked()
        incoming.full = False  # the task that waits for room has not run yet
        serving.changes.notify_nowait(ResourceUpdated(CONFIG))
        serving.changes.notify_now()
        assert incoming.notifications == []
        incoming.emptied.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [method for method, _ in incoming.notifications] == [ACK, UPDATED]


@pytest.mark.requirement("B.12-P2a")
async def test_a_cancelled_subscription_gets_no_further_messages_and_no_response(autojump_clock: object) -> None:
    async with bench() as b:
        await b.listen(1, toolsListChanged=True)
        await b.client.notify("notifications/cancelled", {"requestId": 1})
        await trio.testing.wait_all_tasks_blocked()
        assert b.is_idle()
        b.server.tools.remove("report")
        await b.client.expect_silence()
        assert await b.listen(1, toolsListChanged=True) == {"toolsListChanged": True}  # the id may be used again


async def test_a_subscription_that_is_cancelled_at_once_is_not_acknowledged(autojump_clock: object) -> None:
    async with bench() as b:
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await b.client.send(encode(listen(1)) + b"\n" + encode(cancelled) + b"\n")
        await b.client.expect_silence()
        assert b.is_idle()


@pytest.mark.requirement("B.11-S5a", "B.11-S5b", "B.12-P1c")
async def test_a_server_that_stops_ends_subscriptions_at_once_and_drains_the_rest(autojump_clock: object) -> None:
    async with bench() as b:
        go_on = trio.Event()

        @b.server.tool
        async def slow() -> None:
            await go_on.wait()

        await b.listen("a", toolsListChanged=True)
        await b.listen("b", resourceSubscriptions=[CONFIG])
        call = await b.client.begin("tools/call", {"name": "slow"})
        await trio.testing.wait_all_tasks_blocked()
        b.link.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert [await b.client.receive() for _ in range(4)] == [*ending("a"), *ending("b")]
        assert not b.ended.is_set()
        go_on.set()
        await b.client.expect_response(call)
        await b.client.expect_end()


@pytest.mark.requirement("B.11-S1", "B.11-S5a")
async def test_a_server_that_stops_first_sends_an_acknowledgement_that_waits_for_room(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with make_server(Limits(outbox_bytes=1)).serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        await client.greet(MODERN)
        discovered = await client.begin("server/discover")
        await client.send(listen(1, toolsListChanged=True))
        await trio.testing.wait_all_tasks_blocked()
        link.stop()
        await client.expect_response(discovered)
        assert await client.rest() == [notification(ACK, 1, notifications={"toolsListChanged": True}), *ending(1)]


async def test_subscriptions_do_not_delay_a_server_whose_client_has_closed_its_stream(autojump_clock: object) -> None:
    async with bench() as b:
        await b.listen()
        began = trio.current_time()
        await b.client.send_eof()
        assert await b.client.rest() == ending(1)
        assert trio.current_time() == began


async def test_the_end_of_a_serving_completes_its_subscriptions() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    client = ScriptedPeer(ours)
    async with trio.open_nursery() as nursery:
        async with make_server().serving() as serving:
            nursery.start_soon(serve_stream, serving, theirs)
            await client.send(listen(1, toolsListChanged=True))
            await client.expect_notification(ACK)
        assert [await client.receive() for _ in range(2)] == ending(1)
        await ours.aclose()


async def test_the_end_of_a_connection_ends_its_subscriptions() -> None:
    async with bench() as b:
        await b.listen(toolsListChanged=True)
        await b.client.stream.aclose()
        await b.ended.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert b.serving.statistics().listening == 0


async def test_subscriptions_take_no_places_of_other_requests() -> None:
    async with bench(Limits(max_in_flight=1, max_queued=1, max_listens=3)) as b:
        for id in range(3):
            await b.listen(id, toolsListChanged=True)
        answer = await b.client.request("tools/call", {"name": "report"})
        assert not answer["result"].get("isError")


async def test_more_subscriptions_than_allowed_are_refused_as_busy() -> None:
    async with bench(Limits(max_listens=2)) as b:
        await b.listen(1)
        await b.listen(2)
        await b.client.send(listen(3))
        assert (await b.client.expect_response(3))["error"]["code"] == BUSY
        await b.client.notify("notifications/cancelled", {"requestId": 1})
        await trio.testing.wait_all_tasks_blocked()
        await b.listen(4)


async def test_a_subscription_to_more_resources_than_allowed_is_refused() -> None:
    async with bench(Limits(max_subscriptions=2)) as b:
        await b.client.send(listen(1, resourceSubscriptions=["note:1", "note:2", "note:3"]))
        error = (await b.client.expect_response(1))["error"]
        assert error["code"] == -32602
        assert "$.notifications.resourceSubscriptions: at most 2 resources, not 3" in error["message"]
        assert await b.listen(2, resourceSubscriptions=["note:1", "note:1", "note:2"]) == {
            "resourceSubscriptions": ["note:1", "note:2"]
        }


async def test_changes_for_a_client_that_does_not_read_are_merged_into_one_of_each_kind(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server = make_server(Limits(outbox_bytes=500))
    async with server.serving() as serving, owned_nursery() as nursery:
        link, client = server_link(theirs, serving), ScriptedPeer(ours)
        nursery.start_soon(partial(link.run, drain=True))
        await client.send(listen(1, toolsListChanged=True, resourceSubscriptions=[CONFIG, NOTE]))
        await client.expect_notification(ACK)
        for number in range(2000):
            server.resource_updated((CONFIG, NOTE)[number % 2])
            server.tool(name=f"t{number}")(lambda: None)
            await trio.testing.wait_all_tasks_blocked()
        assert link.statistics().outbox_bytes < 1000

        received: list[str] = []
        with trio.move_on_after(1):
            while True:
                message = await client.receive()
                received.append(message["params"].get("uri", "tools"))
        assert len(received) < 10
        assert {"tools", CONFIG, NOTE} == set(received[-3:])


async def test_a_subscription_that_fails_is_an_internal_error_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench() as b:

        def broken(*_: object) -> None:
            raise KeyError("a bug")

        monkeypatch.setattr(ChangeHub, "add", broken)
        await b.client.send(listen(1))
        error = (await b.client.expect_response(1))["error"]
        assert (error["code"], "a bug" in error["message"]) == (-32603, False)
    assert "a bug" in caplog.text
