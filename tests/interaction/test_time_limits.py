"""The timeouts of a client, as its callers see them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.openers import HTTP_OPENERS
from tests.interaction.scripted_peers import MODERN, Json
from trio_mcp import Client, Context, Limits, RequestTimedOut, Server, TimeLimits, open_client, types
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_server

ASKING = "2025-11-25"
QUESTION: Json = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}

FOUR_OPENERS: dict[str, Callable[..., Any]] = {
    "memory": open_client,
    "bytes": open_memory_client,
    "http": HTTP_OPENERS["http"],
    "http session": partial(HTTP_OPENERS["http-resumable"], revision=ASKING),
}
everywhere = pytest.mark.parametrize("opener", FOUR_OPENERS.values(), ids=FOUR_OPENERS)


class ReportingServer:
    """A server that reports progress at given times, and records when its handler was stopped."""

    def __init__(self) -> None:
        self.server = Server("watched")
        self.stopped_at = math.inf
        self.server.tool(self.work)

    async def work(self, naps: list[float], ctx: Context) -> str:
        try:
            for done, nap in enumerate(naps):
                await trio.sleep(nap)
                await ctx.report_progress(done + 1)
        except trio.Cancelled:
            self.stopped_at = trio.current_time()
            raise
        return "done"


async def ignore(_: object) -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.requirement("B.13-P1a", "B.13-P1b")
@everywhere
async def test_the_idle_limit_ends_a_silent_call_and_stops_its_handler(
    opener: Callable[..., Any], autojump_clock: object
) -> None:
    reporting = ReportingServer()
    async with opener(reporting.server, time_limits=TimeLimits(idle=10)) as client:
        began = trio.current_time()
        with pytest.raises(
            RequestTimedOut, match=r"'tools/call': the server sent nothing for 10 s \(TimeLimits.idle\)"
        ):
            await client.call_tool("work", {"naps": [100]})
        assert trio.current_time() - began == 10
        await trio.testing.wait_all_tasks_blocked()
        assert reporting.stopped_at - began == 10


@pytest.mark.requirement("B.13-P3")
@everywhere
@pytest.mark.complaint(20)
async def test_requested_progress_restarts_the_idle_limit(opener: Callable[..., Any], autojump_clock: object) -> None:
    async with opener(ReportingServer().server, time_limits=TimeLimits(idle=10)) as client:
        result = await client.call_tool("work", {"naps": [9, 9, 9]}, on_progress=ignore)
        assert result.content == [types.TextContent(text="done")]
        async with client.open_call("work", {"naps": [9, 9, 9]}) as unread:
            assert (await unread.result()).content == [types.TextContent(text="done")]
        with pytest.raises(RequestTimedOut, match="idle"):
            await client.call_tool("work", {"naps": [9, 9, 9]})


async def test_the_idle_limit_counts_from_the_last_update(autojump_clock: object) -> None:
    async with open_client(ReportingServer().server, time_limits=TimeLimits(idle=10)) as client:
        began = trio.current_time()
        async with client.open_call("work", {"naps": [7, 100]}) as call:
            with pytest.raises(RequestTimedOut):
                await call.result()
        assert trio.current_time() - began == 17


@pytest.mark.requirement("B.13-P3")
@everywhere
@pytest.mark.complaint(20)
async def test_the_total_limit_ends_a_call_that_keeps_reporting(
    opener: Callable[..., Any], autojump_clock: object
) -> None:
    reporting = ReportingServer()
    async with opener(reporting.server, time_limits=TimeLimits(idle=10, total=25)) as client:
        began = trio.current_time()
        with pytest.raises(RequestTimedOut, match=r"took longer than 25 s in all \(TimeLimits.total\)"):
            await client.call_tool("work", {"naps": [9] * 9}, on_progress=ignore)
        assert trio.current_time() - began == 25
        await trio.testing.wait_all_tasks_blocked()
        assert reporting.stopped_at - began == 25


async def test_the_idle_limit_does_not_count_the_time_of_a_callback(autojump_clock: object) -> None:
    async def ponder(_: object) -> None:
        await trio.sleep(1000)

    async with open_client(ReportingServer().server, time_limits=TimeLimits(idle=10)) as client:
        result = await client.call_tool("work", {"naps": [1, 1]}, on_progress=ponder)
        assert result.content == [types.TextContent(text="done")]


async def test_the_idle_limit_does_not_count_the_time_that_the_caller_takes_between_two_updates(
    autojump_clock: object,
) -> None:
    opening = open_client(ReportingServer().server, time_limits=TimeLimits(idle=10))
    async with opening as client, client.open_call("work", {"naps": [1, 1]}) as call:
        async for _ in call.updates:
            await trio.sleep(1000)
        assert (await call.result()).content == [types.TextContent(text="done")]


async def test_each_of_many_calls_times_out_at_its_own_time(autojump_clock: object) -> None:
    async def call(client: Client, delay: float) -> None:
        await trio.sleep(delay)
        began = trio.current_time()
        with pytest.raises(RequestTimedOut):
            await client.call_tool("work", {"naps": [100]})
        assert trio.current_time() - began == 10

    async with (
        open_client(ReportingServer().server, time_limits=TimeLimits(idle=10)) as client,
        trio.open_nursery() as nursery,
    ):
        for delay in (0, 8, 4, 2):
            nursery.start_soon(call, client, delay)
        await client.call_tool("work", {"naps": [1]})


async def test_a_call_whose_total_limit_passed_unnoticed_times_out_at_the_next_wait(autojump_clock: object) -> None:
    opening = open_client(ReportingServer().server, time_limits=TimeLimits(total=10))
    async with opening as client, client.open_call("work", {"naps": [100]}) as call:
        await trio.sleep(10)
        with pytest.raises(RequestTimedOut, match="total"):
            await call.result()


async def test_a_result_that_came_in_time_may_be_read_at_any_time(autojump_clock: object) -> None:
    opening = open_client(ReportingServer().server, time_limits=TimeLimits(idle=5, total=10))
    async with opening as client, client.open_call("work", {"naps": [1]}) as call:
        for _ in range(2):
            await trio.sleep(100)
            assert (await call.result()).content == [types.TextContent(text="done")]
        assert [update.progress async for update in call.updates] == [1]


async def test_an_idle_client_is_woken_once_and_then_never(autojump_clock: object) -> None:
    async with open_client(ReportingServer().server, time_limits=TimeLimits(idle=10)) as client:
        for _ in range(3):
            await client.call_tool("work", {"naps": [1]})
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline <= 10
        await trio.sleep(10)
        assert math.isinf(trio.lowlevel.current_statistics().seconds_to_next_deadline)


async def test_without_limits_a_client_waits_for_ever(autojump_clock: object) -> None:
    limits = TimeLimits(idle=math.inf, total=math.inf)
    async with open_client(ReportingServer().server, time_limits=limits) as client:
        await client.call_tool("work", {"naps": [10**9]})


@pytest.mark.requirement("B.13-P2")
async def test_a_deadline_of_the_caller_raises_a_different_error(autojump_clock: object) -> None:
    async with open_client(ReportingServer().server, time_limits=TimeLimits(idle=10)) as client:
        with pytest.raises(trio.TooSlowError), trio.fail_after(5):
            await client.call_tool("work", {"naps": [100]})


async def asking_server(
    test: Callable[[Client, ScriptedPeer], Awaitable[None]], user: Callable[[Any], Awaitable[Any]], limits: TimeLimits
) -> None:
    """Run *test* with a scripted server that can request elicitation and sampling."""
    options = {"revision": ASKING, "on_elicit": user, "on_sample": user, "time_limits": limits}
    async with open_scripted_server(partial(ScriptedPeer.welcome, revision=ASKING), **options) as (client, server):  # type: ignore[arg-type] # by name
        await test(client, server)


@pytest.mark.requirement("B.10-P1")
@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
async def test_every_timeout_is_paused_while_the_user_is_asked(method: str, autojump_clock: object) -> None:
    params: Json = QUESTION if method == "elicitation/create" else {"messages": [], "maxTokens": 1}

    async def think(_: object) -> Any:
        await trio.sleep(1000)
        if method == "elicitation/create":
            return types.ElicitResult(action="decline")
        return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="hi"))

    async def test(client: Client, server: ScriptedPeer) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_time_out, client, "idle")  # a question must pause every call
            nursery.start_soon(expect_time_out, client, "idle")
            await server.receive()
            await server.receive()
            await trio.sleep(7)
            await server.request(method, params)
            assert trio.current_time() - began == 1007
        assert trio.current_time() - began == 1010

    await asking_server(test, think, TimeLimits(idle=10, total=100))


async def cancel_late(_: object) -> Any:
    """Answer a question after 1000 seconds."""
    await trio.sleep(1000)
    return types.ElicitResult(action="cancel")


async def expect_time_out(client: Client, limit: str) -> None:
    with pytest.raises(RequestTimedOut, match=f"TimeLimits.{limit}"):
        await client.call_tool("x", on_progress=ignore)


@pytest.mark.requirement("B.10-P1")
async def test_the_total_limit_resumes_when_the_user_has_answered(autojump_clock: object) -> None:
    async def test(client: Client, server: ScriptedPeer) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_time_out, client, "total")
            await server.receive()
            await trio.sleep(30)
            async with trio.open_nursery() as questions:  # two concurrent questions pause the timeout once
                for id in ("a", "b"):
                    question = {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": QUESTION}
                    await server.send(question)
                questions.start_soon(server.receive)
            await server.receive()
            assert trio.current_time() - began == 1030
        assert trio.current_time() - began == 1050

    await asking_server(test, cancel_late, TimeLimits(idle=100, total=50))


async def test_a_call_that_begins_while_the_user_is_asked_has_its_full_time(autojump_clock: object) -> None:
    async def test(client: Client, server: ScriptedPeer) -> None:
        began = trio.current_time()
        await server.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": QUESTION})
        await trio.sleep(400)
        await expect_time_out(client, "idle")
        assert trio.current_time() - began == 1010

    await asking_server(test, cancel_late, TimeLimits(idle=10, total=100))


async def test_a_call_that_is_not_awaited_while_the_user_is_asked_loses_no_time(autojump_clock: object) -> None:
    async def test(client: Client, server: ScriptedPeer) -> None:
        async with client.open_call("x") as call:
            request = await server.receive()
            await server.request("elicitation/create", QUESTION)
            await server.send({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
            assert (await call.result()).content == []

    await asking_server(test, cancel_late, TimeLimits(idle=10, total=100))


async def test_an_unread_update_restarts_the_idle_limit_when_timeouts_resume(autojump_clock: object) -> None:
    async def test(client: Client, server: ScriptedPeer) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_unread, client)
            token = (await server.receive())["params"]["_meta"]["progressToken"]
            await trio.sleep(5)
            progress = {"progressToken": token, "progress": 1}
            await server.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
            await trio.sleep(2)
            await server.request("elicitation/create", QUESTION)
        assert trio.current_time() - began == 1015

    async def wait_unread(client: Client) -> None:
        async with client.open_call("x") as call:
            with pytest.raises(RequestTimedOut, match="idle"):
                await call.result()

    await asking_server(test, cancel_late, TimeLimits(idle=10, total=100))


@pytest.mark.requirement("B.5-C5a", "B.12-P5a", "B.13-P1b")
async def test_a_timed_out_call_is_cancelled_on_the_wire() -> None:
    connected = open_scripted_server(
        partial(ScriptedPeer.welcome, revision=MODERN), revision=MODERN, time_limits=TimeLimits(idle=0.01)
    )
    async with connected as (client, server):
        with pytest.raises(RequestTimedOut):
            await client.call_tool("x")
        request, cancelled = await server.receive(), await server.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == request["id"]


async def test_the_total_limit_covers_the_wait_for_a_server_that_does_not_read(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server, limits, times = ScriptedPeer(theirs), Limits(outbox_bytes=1), TimeLimits(idle=5, total=10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.welcome, revision="2025-11-25"))
        async with open_client(ours, revision="2025-11-25", limits=limits, time_limits=times) as client:
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            async with client.open_call("first"):
                with pytest.raises(RequestTimedOut, match="'tools/call' took longer than 10 s in all"):
                    await client.call_tool("second")
            assert trio.current_time() - began == pytest.approx(10)


async def test_a_call_that_waited_for_the_server_to_read_continues_when_it_does(autojump_clock: object) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    server = ScriptedPeer(theirs)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.welcome, revision="2025-11-25"))
        async with open_client(ours, revision="2025-11-25", limits=Limits(outbox_bytes=1)) as client:
            await trio.testing.wait_all_tasks_blocked()
            async with client.open_call("first"), trio.open_nursery() as calls:
                calls.start_soon(client.call_tool, "second")
                await trio.testing.wait_all_tasks_blocked()
                assert (await server.receive())["params"]["name"] == "first"
                assert (await server.answer({"content": []}))["params"]["name"] == "second"
