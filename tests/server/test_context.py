"""The context of a handler: its attributes, progress, logs and streams."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, assert_type

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from trio_mcp import Context, Limits, Resolve, Server, open_client, serve_stream, types
from trio_mcp.testing import open_memory_client, open_scripted_client
from trio_mcp.wire import CAPABILITIES_KEY, REVISION_KEY, encode_request

INFO = types.Implementation(name="tester", version="7")


@pytest.mark.requirement("A.7-P1")
async def test_the_context_shows_the_client_and_the_terms_of_the_request() -> None:
    server, seen = Server("s"), dict[str, Any]()

    @server.tool
    async def look(ctx: Context) -> None:
        for name in ("revision", "client_info", "client_capabilities", "principal", "headers"):
            seen[name] = getattr(ctx, name)
        seen["mine"] = ctx.meta["mine"]

    async with open_client(server, revision="2025-11-25", info=INFO, roots=[]) as client:
        await client.call_tool("look", meta={"mine": 1})

    assert seen == {
        "revision": "2025-11-25",
        "client_info": INFO,
        "client_capabilities": types.ClientCapabilities(roots=types.RootsCapability(list_changed=True)),
        "principal": None,
        "headers": {},
        "mine": 1,
    }


@pytest.mark.requirement("G.3")
async def test_the_client_info_is_none_if_the_client_sent_none() -> None:
    server, seen = Server("s"), list[object]()

    @server.tool
    async def look(ctx: Context) -> None:
        seen.append(ctx.client_info)

    ours, theirs = memory_stream_pair()
    meta: dict[str, Any] = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        await ours.send_all(encode_request(1, "tools/call", {"name": "look", "_meta": meta}))
        await ours.receive_some()
        await ours.aclose()

    assert seen == [None]


async def test_the_state_is_the_value_of_the_lifespan_which_is_entered_once_per_serving() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        events.append(f"enter {server.info.name}")
        yield "the state"
        events.append("leave")

    server = Server("s", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.state)

    async with open_client(server) as client:
        for _ in range(2):
            assert (await client.call_tool("state")).structured_content == {"result": "the state"}
    assert events == ["enter s", "leave"]


async def test_the_deadline_is_that_of_the_tool_timeout(autojump_clock: object) -> None:
    server, seen = Server("s"), list[float]()

    @server.tool(timeout=7)
    async def bounded(ctx: Context) -> None:
        seen.append(ctx.deadline - trio.current_time())

    @server.tool
    async def unbounded(ctx: Context) -> None:
        seen.append(ctx.deadline)

    async with open_client(server) as client:
        await client.call_tool("bounded")
        await client.call_tool("unbounded")

    assert seen == [pytest.approx(7), math.inf]


@pytest.mark.requirement("B.14-P3a")
async def test_progress_that_does_not_increase_is_not_sent() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        for value in (1, 1, 0.5, 2, 2.5):
            await ctx.report_progress(value, total=3, message="step")

    async with open_client(server) as client, client.open_call("work") as call:
        updates = [(update.progress, update.total, update.message) async for update in call.updates]

    assert updates == [(1, 3, "step"), (2, 3, "step"), (2.5, 3, "step")]


@pytest.mark.requirement("A.6-P1")
async def test_progress_has_no_message_in_the_oldest_revision() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1, message="step")

    async with open_client(server, revision="2024-11-05") as client, client.open_call("work") as call:
        (update,) = [update async for update in call.updates]

    assert (update.progress, update.total, update.message) == (1, None, None)


@pytest.mark.parametrize("values", [(math.nan, None), (1, math.inf)])
async def test_progress_that_is_not_finite_raises_in_the_handler(values: tuple[float, float | None]) -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        with pytest.raises(ValueError, match="finite"):
            await ctx.report_progress(*values)

    async with open_client(server) as client:
        assert not (await client.call_tool("work")).is_error


async def test_progress_and_logs_are_checkpoints_even_if_the_client_requested_neither() -> None:
    server, ended = Server("s"), trio.Event()

    @server.tool
    async def work(ctx: Context) -> None:
        try:
            with trio.CancelScope() as scope:
                scope.cancel()
                await ctx.report_progress(1)
            assert scope.cancelled_caught
            with trio.CancelScope() as scope:
                scope.cancel()
                await ctx.log("debug", "quiet")
            assert scope.cancelled_caught
        finally:
            ended.set()

    async with open_client(server) as client:
        assert not (await client.call_tool("work")).is_error
    assert ended.is_set()


@pytest.mark.requirement("B.18-S2", "B.18-S4b")
async def test_log_messages_below_the_level_of_the_client_are_not_sent() -> None:
    server, got = Server("s"), list[tuple[str, Any, str | None]]()
    arrived = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        got.append((message.level, message.data, message.logger))
        if message.level == "error":
            arrived.set()

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("debug", "hidden")
        await ctx.log("warning", {"disk": 99}, logger="disk")
        await ctx.log("error", "the end")

    for revision in ("2024-11-05", "2025-11-25", "2026-07-28"):
        got.clear()
        arrived = trio.Event()
        async with open_memory_client(server, revision=revision, on_log=on_log) as client:
            await client.set_log_level("warning")
            await client.call_tool("work")
            await arrived.wait()
        assert got == [("warning", {"disk": 99}, "disk"), ("error", "the end", None)]


@pytest.mark.requirement("B.18-S4a")
async def test_a_modern_request_without_a_log_level_gets_no_log_messages() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("emergency", "the end")

    async with open_scripted_client(server) as client:
        for _ in range(2):
            assert "result" in await client.request("tools/call", {"name": "work"})


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_client_with_a_callback_gets_messages_of_all_levels_until_it_sets_one(revision: str) -> None:
    server, got = Server("s"), list[str]()
    arrived = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        got.append(message.level)
        arrived.set()

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("debug", "hidden later")

    async with open_memory_client(server, revision=revision, on_log=on_log) as client:
        await client.call_tool("work")
        await arrived.wait()
        await client.set_log_level("info")
        await client.call_tool("work")

    assert got == ["debug"]


async def test_an_unknown_log_level_raises_in_the_handler() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("loud", "x")  # type: ignore[arg-type]  # an unknown level on purpose

    async with open_client(server) as client:
        assert (await client.call_tool("work")).is_error


@pytest.mark.requirement("B.5-S3c", "B.14-P4")
async def test_progress_and_logs_of_a_cancelled_call_are_dropped() -> None:
    server, done = Server("s"), trio.Event()

    @server.tool
    async def work(ctx: Context) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await ctx.report_progress(1)
                await ctx.log("error", "late")
            done.set()

    async with open_memory_client(server) as client:
        async with client.open_call("work"):
            await trio.testing.wait_all_tasks_blocked()
        await done.wait()
        assert client.statistics().unmatched_responses == 0


async def test_invalid_members_of_the_client_info_are_left_out() -> None:
    server, seen = Server("s"), list[object]()

    @server.tool
    async def look(ctx: Context) -> None:
        seen.append(ctx.client_info)

    info = types.Implementation(name="odd", version="1", extra={"icons": 3})
    async with open_memory_client(server, revision="2026-07-28", info=info) as client:
        await client.call_tool("look")

    assert seen == [types.Implementation(name="odd", version="1")]


async def test_a_log_message_arrives_after_progress_that_the_client_does_not_read() -> None:
    server, logged = Server("s", limits=Limits(max_progress_per_second=math.inf)), list[Any]()

    @server.tool
    async def work(ctx: Context) -> str:
        for each in range(100):
            await ctx.report_progress(each)
        await ctx.log("info", "done")
        return "done"

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        logged.append(message.data)

    async with open_client(server, revision="2025-11-25", on_log=on_log) as client, client.open_call("work") as call:
        assert (await call.result()).structured_content == {"result": "done"}
        await wait_all_tasks_blocked()
    assert logged == ["done"]


@pytest.mark.parametrize("asking", ["never", "", None])
def test_an_unknown_asking_mode_is_refused(asking: Any) -> None:
    with pytest.raises(ValueError, match="parked, replayed"):
        Server("s", asking=asking)


@pytest.mark.parametrize("opener", [open_client, open_memory_client])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_closing_the_stream_has_no_effect_on_a_shared_link(opener: Any, revision: str) -> None:
    server = Server("s")

    @server.tool
    async def long(ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.close_stream(retry=1.0)
        await ctx.report_progress(2)
        return "done"

    received: list[float] = []

    async def record(update: types.ProgressNotificationParams) -> None:
        received.append(update.progress)

    async with opener(server, revision=revision) as client:
        result = await client.call_tool("long", on_progress=record)

    assert received == [1, 2]
    assert result.structured_content == {"result": "done"}


async def test_closing_the_stream_after_the_call_was_cancelled_has_no_effect() -> None:
    server, begun, left = Server("s"), trio.Event(), trio.Event()

    @server.tool
    async def stubborn(ctx: Context) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await ctx.close_stream()
            left.set()

    async with open_memory_client(server) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "stubborn")
            await begun.wait()
            nursery.cancel_scope.cancel()
        await left.wait()


@pytest.mark.parametrize("retry", [-1.0, math.inf, math.nan])
async def test_an_invalid_retry_pause_raises_in_the_handler(retry: float) -> None:
    server = Server("s")

    @server.tool
    async def long(ctx: Context) -> None:
        await ctx.close_stream(retry=retry)

    async with open_client(server) as client:
        result = await client.call_tool("long")

    assert result.is_error


async def test_a_handler_that_cannot_wait_has_no_deadline_but_that_of_its_caller() -> None:
    server = Server("s")

    @server.tool
    async def read(ctx: Context) -> bool:
        return math.isinf(ctx.deadline)

    with trio.fail_after(30):  # a deadline of the server, in whose task the handler runs, and not of the caller
        async with open_scripted_client(server) as client:
            answer = await client.request("tools/call", {"name": "read"})
    assert answer["result"]["structuredContent"] == {"result": True}


@define
class Shop:
    """The state of a server."""

    stock: dict[str, int] = field(factory=dict[str, int])


@asynccontextmanager
async def open_shop(_: Server) -> AsyncGenerator[Shop]:
    yield Shop({"tea": 3})


async def stock_of(ctx: Context[Shop]) -> dict[str, int]:
    """Both type checkers read this file in the project's gates; a wrong `assert_type` fails there."""
    return assert_type(ctx.state, Shop).stock


async def look_again(ctx: Context) -> object:
    return assert_type(ctx.state, Any)


async def test_a_context_with_the_type_of_its_state_is_recognised_in_every_handler() -> None:
    server = Server("shop", lifespan=open_shop)

    @server.tool
    async def count(name: str, ctx: Context[Shop], stock: Annotated[dict[str, int], Resolve(stock_of)]) -> int:
        assert await look_again(ctx) is ctx.state
        assert stock is ctx.state.stock
        return ctx.state.stock[name]

    @server.tool
    def maybe(ctx: Context[Shop] | None = None) -> int:
        assert ctx is not None
        return len(ctx.state.stock)

    @server.resource("shop://{name}")
    async def entry(name: str, ctx: Context[Shop]) -> str:
        return str(ctx.state.stock[name])

    @server.prompt
    async def sell(ctx: Context[Shop]) -> str:
        return ", ".join(ctx.state.stock)

    @server.completion(template="shop://{name}", argument="name")
    async def suggest(typed: str, ctx: Context[Shop]) -> list[str]:
        return [name for name in ctx.state.stock if name.startswith(typed)]

    @server.method("com.example/stock")
    async def stock(params: dict[str, Any], ctx: Context[Shop]) -> dict[str, int]:
        assert params == {}
        return ctx.state.stock

    async with open_client(server) as client:
        schemas = {tool.name: tool.input_schema async for tool in client.tools()}
        assert set(schemas["count"]["properties"]) == {"name"}
        assert schemas["maybe"].get("properties") is None
        assert await client.call_tool("count", {"name": "tea"}, returns=int) == 3
        assert await client.call_tool("maybe", returns=int) == 1
        contents = (await client.read_resource("shop://tea")).contents
        assert [each.text for each in contents if isinstance(each, types.TextResourceContents)] == ["3"]
        messages = (await client.get_prompt("sell")).messages
        assert [each.content for each in messages] == [types.TextContent(text="tea")]
        found = await client.complete(types.ResourceTemplateReference(uri="shop://{name}"), "name", "t")
        assert found.values == ["tea"]
        assert (await client.request("com.example/stock", {}, dict))["tea"] == 3
