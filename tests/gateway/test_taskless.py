"""Requests that a gateway passes on without a task: their results, their ends, and what needs a task after all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.gateway.helpers import MODERN
from tests.gateway.upstreams import CountedServer, echo, gateway_of
from trio_mcp import Client, Context, Limits, LocalProtocolError, Server, open_client, serve_stream, types
from trio_mcp.gateway import Gateway
from trio_mcp.lowlevel import ClientExtensionPoints
from trio_mcp.testing import ScriptedPeer
from trio_mcp.wire import DEADLINE_KEY, LOG_LEVEL_KEY


class Desk:
    """A server that is reached by bytes in memory, and a gateway in front of it."""

    def __init__(self, nursery: trio.Nursery, timeout: float | None = None) -> None:
        self.server = Server("desk")
        self.stopped: list[str] = []
        self.gateway = Gateway("front")
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve_stream, self.server, theirs)
        self.gateway.mount(ours, name="desk", timeout=timeout, restart=None)

        @self.server.tool
        async def echo(text: str) -> str:
            return text

        @self.server.tool
        async def large(size: int) -> list[types.TextContent]:
            return [types.TextContent(text="x" * size)]

        @self.server.tool
        async def wait(seconds: float) -> str:
            try:
                await trio.sleep(seconds)
            except trio.Cancelled:
                self.stopped.append("wait")
                raise
            return "waited"


@asynccontextmanager
async def desk(seconds: float | None = None) -> AsyncGenerator[tuple[Desk, Client]]:
    async with trio.open_nursery() as nursery:
        made = Desk(nursery, seconds)
        async with open_client(made.gateway) as client:
            assert [tool.name async for tool in client.tools()] == ["echo", "large", "wait"]
            yield made, client
        nursery.cancel_scope.cancel()


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_long_result_arrives_as_it_is() -> None:
    async with desk() as (_, client):
        assert len(text_of(await client.call_tool("large", {"size": 300_000}))) == 300_000


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    async with desk() as (made, client):
        with trio.move_on_after(0):
            await client.call_tool("echo", {"text": "never sent"})
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                await client.call_tool("wait", {"seconds": 50})

            nursery.start_soon(call)
            await wait_all_tasks_blocked()
            assert made.gateway.status["desk"].in_flight == 1
            nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert made.stopped == ["wait"]
        assert made.gateway.status["desk"].in_flight == 0
        assert text_of(await client.call_tool("echo", {"text": "still here"})) == "still here"


async def test_a_call_that_is_not_answered_in_time_fails(autojump_clock: object) -> None:
    async with desk(5) as (made, client):
        failed = await client.call_tool("wait", {"seconds": 50})
        assert failed.is_error
        assert "did not answer in time" in text_of(failed)
        assert text_of(await client.call_tool("wait", {"seconds": 1})) == "waited"
        await wait_all_tasks_blocked()
    assert made.stopped == ["wait"]


async def test_each_call_has_a_time_limit_of_its_own(autojump_clock: object) -> None:
    failed: list[float] = []
    async with desk(5) as (_, client):
        began = trio.current_time()

        async def call() -> None:
            result = await client.call_tool("wait", {"seconds": 50})
            assert result.is_error
            failed.append(trio.current_time() - began)

        async with trio.open_nursery() as calls:
            for _ in range(2):
                calls.start_soon(call)
                await trio.sleep(2)
    assert failed == pytest.approx([5, 7], abs=0.5)


async def test_a_call_of_a_server_that_is_lost_fails() -> None:
    async with trio.open_nursery() as nursery:
        made = Desk(nursery)
        async with open_client(made.gateway) as client:
            [tool async for tool in client.tools()]
            failed: list[types.CallToolResult] = []

            async def call() -> None:
                failed.append(await client.call_tool("wait", {"seconds": 50}))

            async with trio.open_nursery() as calls:
                calls.start_soon(call)
                await wait_all_tasks_blocked()
                made.gateway.unmount("desk")
            assert failed[0].is_error
        nursery.cancel_scope.cancel()


async def test_arguments_that_are_nested_too_deep_to_be_sent_are_refused() -> None:
    nested: list[object] = []
    for _ in range(200):
        nested = [nested]
    async with desk() as (_, client):
        result = await client.call_tool("echo", {"text": nested})
        assert result.is_error


async def test_answers_wait_for_a_caller_that_does_not_read() -> None:
    async with trio.open_nursery() as nursery:
        made = Desk(nursery)
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve_stream, made.gateway, theirs)
        async with open_client(ours) as client:
            [tool async for tool in client.tools()]
            sizes: list[int] = []

            async def call() -> None:
                sizes.append(len(text_of(await client.call_tool("large", {"size": 900_000}))))

            async with trio.open_nursery() as calls:
                for _ in range(40):
                    calls.start_soon(call)
        assert sizes == [900_000] * 40
        nursery.cancel_scope.cancel()


LISTED = {"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {"_meta": ScriptedPeer.envelope(MODERN)}}


def large_call(id: int) -> dict[str, Any]:
    params = {"name": "large", "arguments": {"size": 3_000_000}, "_meta": ScriptedPeer.envelope(MODERN)}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


@pytest.mark.parametrize("reads", [True, False])
async def test_results_wait_for_a_caller_that_does_not_read(reads: bool) -> None:
    async with trio.open_nursery() as nursery:
        made = Desk(nursery)
        ours, theirs = lockstep_stream_pair()
        nursery.start_soon(serve_stream, made.gateway, theirs)
        caller = ScriptedPeer(ours)
        await caller.send(LISTED)
        assert (await caller.receive())["id"] == "list"
        for id in range(10):
            await caller.send(large_call(id))
        await wait_all_tasks_blocked()
        assert made.gateway.status["desk"].in_flight == 0
        if reads:
            assert sorted([(await caller.receive())["id"] for _ in range(10)]) == [*range(10)]
        await ours.aclose()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_calls_wait_for_a_server_that_does_not_read() -> None:
    upstream, text, answers = CountedServer(), "x" * 3_000_000, list[str]()
    async with open_client(gateway_of(upstream)) as client:
        assert await echo(client) == "here"
        upstream.hang()

        async def call() -> None:
            answers.append(await echo(client, text))

        async with trio.open_nursery() as calls:
            for _ in range(10):
                calls.start_soon(call)
            await wait_all_tasks_blocked()
            assert answers == []
            upstream.answers.set()
        assert answers == [text] * 10


# Deadlines of callers.


@asynccontextmanager
async def raw_caller(gateway: Gateway, pair: Any = memory_stream_pair) -> AsyncGenerator[ScriptedPeer]:
    """Connect a caller that says what it is told to, after it has listed the tools."""
    async with trio.open_nursery() as nursery:
        ours, theirs = pair()
        nursery.start_soon(serve_stream, gateway, theirs)
        caller = ScriptedPeer(ours)
        await caller.send(LISTED)
        assert (await caller.receive())["id"] == "list"
        yield caller
        await ours.aclose()
        nursery.cancel_scope.cancel()


def call_with_deadline(id: int, tool: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
    meta = {**ScriptedPeer.envelope(MODERN), DEADLINE_KEY: seconds}
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta},
    }


PASSED = "cancelled, because the deadline of the caller has passed"


async def test_a_call_is_answered_at_the_deadline_of_its_caller_though_the_server_hangs(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    async with raw_caller(gateway_of(upstream)) as caller:
        await caller.send(call_with_deadline(1, "echo", {"text": "in time"}, 2))
        assert (await caller.receive())["result"]["content"][0]["text"] == "in time"
        upstream.hang()
        began = trio.current_time()
        for id, seconds in ((2, 3), (3, 2)):
            await caller.send(call_with_deadline(id, "echo", {"text": "late"}, seconds))
        for id, seconds in ((3, 2), (2, 3)):
            answer = await caller.receive()
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (id, PASSED)
            assert trio.current_time() - began == pytest.approx(seconds, abs=0.5)


async def test_a_call_whose_deadline_passes_while_it_waits_is_not_forwarded(
    autojump_clock: object,
) -> None:
    upstream = CountedServer()
    gateway = Gateway("front", limits=Limits(max_in_flight=1))
    gateway.mount(upstream, name="crm")
    async with raw_caller(gateway) as caller:
        await caller.send(call_with_deadline(1, "doze", {"seconds": 5}, 60))
        await caller.send(call_with_deadline(2, "doze", {"seconds": 0}, 2))
        assert (await caller.receive())["result"]["content"][0]["text"] == "awake"
        assert (await caller.receive())["result"]["content"][0]["text"] == PASSED


async def test_a_server_that_is_silent_for_too_long_is_told_from_a_deadline(autojump_clock: object) -> None:
    upstream = CountedServer()
    async with raw_caller(gateway_of(upstream, timeout=2)) as caller:
        upstream.hang()
        await caller.send(call_with_deadline(1, "echo", {"text": "late"}, 60))
        assert "did not answer in time" in (await caller.receive())["result"]["content"][0]["text"]


async def test_a_request_that_cannot_be_sent_without_a_task_is_sent_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LocalProtocolError("not now")

    async with desk() as (made, client):
        monkeypatch.setattr(ClientExtensionPoints, "request_nowait", refuse)
        assert text_of(await client.call_tool("echo", {"text": "sent"})) == "sent"
        assert made.gateway.status["desk"].in_flight == 0


async def test_a_call_can_be_cancelled_while_its_log_messages_wait_for_its_caller() -> None:
    def register(server: Server) -> None:
        @server.tool
        async def say(ctx: Context) -> None:
            for _ in range(3):
                await ctx.log("info", "x" * 50_000)

    gateway = Gateway("front", limits=Limits(outbox_bytes=1000))
    gateway.mount(CountedServer(register), name="crm")
    async with raw_caller(gateway, lockstep_stream_pair) as caller:
        meta = {**ScriptedPeer.envelope(MODERN), LOG_LEVEL_KEY: "debug"}
        call = {"name": "say", "arguments": {}, "_meta": meta}
        await caller.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        await wait_all_tasks_blocked()
        assert gateway.status["crm"].in_flight == 1
        cancelled = {"requestId": 1, "_meta": ScriptedPeer.envelope(MODERN)}
        await caller.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        await wait_all_tasks_blocked()
        assert gateway.status["crm"].in_flight == 0
        await caller.send({**LISTED, "id": "last"})
        received = [await caller.receive()]
        while "id" not in received[-1]:
            received.append(await caller.receive())
        assert received[-1]["id"] == "last"
