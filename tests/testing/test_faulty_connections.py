"""Faulty connections between a client and a server: a call succeeds, or fails with the right exception."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from trio_mcp import (
    Client,
    ConnectionBroken,
    ConnectionClosed,
    Limits,
    RequestTimedOut,
    TimeLimits,
    open_client,
    serve_stream,
    types,
)
from trio_mcp.lowlevel import ActiveServer
from trio_mcp.testing import (
    FaultyStream,
    WireRecorder,
    cut,
    delay,
    duplicate,
    open_memory_client,
    reorder,
    rewrite,
    stall,
)

ERAS = ("2025-11-25", "2026-07-28")


@pytest.fixture(params=ERAS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def add(client: Client, a: int = 1, b: int = 2) -> None:
    called = await client.call_tool("add", {"a": a, "b": b})
    assert called.content == [types.TextContent(text=str(a + b))]


async def expect_failure(client: Client, failure: type[Exception], tool: str = "hang", **arguments: Any) -> None:
    with pytest.raises(failure):
        await client.call_tool(tool, arguments or {"key": "k"})


def names(tool: str) -> Callable[[Any], bool]:
    return lambda message: message.get("params", {}).get("name") == tool


def is_result(text: str) -> Callable[[Any], bool]:
    return lambda message: f"'text': '{text}'" in str(message.get("result"))


# Delay.


async def test_a_slow_connection_delays_calls_and_changes_nothing_else(revision: str, autojump_clock: object) -> None:
    def slow(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, sending=[delay(2)], receiving=[delay(3)])

    limits = TimeLimits(probe=100)
    async with open_memory_client(make_server(), wrap=slow, revision=revision, time_limits=limits) as client:
        await add(client)  # it is sent after the last message of a handshake, if there is one
        began = trio.current_time()
        await add(client)
        assert trio.current_time() - began == pytest.approx(5)
        async with client.open_call("count", {"steps": 3}) as call:
            assert [update.progress async for update in call.updates] == [1, 2, 3]


async def test_a_call_that_is_delayed_beyond_its_timeout_fails_and_its_late_response_is_dropped(
    revision: str, autojump_clock: object
) -> None:
    def slow(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, receiving=[delay(20, is_result("3"))])

    limits = TimeLimits(idle=10)
    async with open_memory_client(make_server(), wrap=slow, revision=revision, time_limits=limits) as client:
        began = trio.current_time()
        await expect_failure(client, RequestTimedOut, "add", a=1, b=2)
        assert trio.current_time() - began == pytest.approx(10)
        await trio.sleep(15)
        assert client.statistics().unmatched_responses == 1
        await add(client, 2, 2)


# Cuts.


async def test_a_cut_inside_a_request_fails_all_calls_and_ends_the_server(
    revision: str, autojump_clock: object
) -> None:
    wire = WireRecorder()
    async with open_memory_client(make_server(), tap=wire, revision=revision) as client:
        await add(client)
    length = len(str(wire.select(method="tools/call").sent[0]))

    for place in range(0, length, 7):

        def cutting(stream: trio.abc.Stream, place: int = place) -> trio.abc.Stream:
            return FaultyStream(stream, sending=[cut(place, names("add"))])

        with trio.fail_after(10):  # the serving ends as well
            async with open_memory_client(make_server(), wrap=cutting, revision=revision) as client:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(expect_failure, client, ConnectionBroken)
                    await trio.testing.wait_all_tasks_blocked()
                    await expect_failure(client, ConnectionBroken, "add", a=1, b=2)
                await expect_failure(client, ConnectionBroken, "add", a=1, b=2)
                assert client.statistics().outgoing == 0


@pytest.mark.parametrize("broken", [False, True])
async def test_a_cut_inside_a_response_fails_all_calls(broken: bool, revision: str, autojump_clock: object) -> None:
    for place in range(0, 100, 7):

        def cutting(stream: trio.abc.Stream, place: int = place) -> trio.abc.Stream:
            return FaultyStream(stream, receiving=[cut(place, is_result("3"), broken=broken)])

        with trio.fail_after(10):
            async with open_memory_client(make_server(), wrap=cutting, revision=revision) as client:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(expect_failure, client, ConnectionBroken)
                    await trio.testing.wait_all_tasks_blocked()
                    await expect_failure(client, ConnectionBroken, "add", a=1, b=2)
                assert client.statistics().outgoing == 0


async def test_a_cut_connection_does_not_affect_other_connections_of_the_same_server(autojump_clock: object) -> None:
    @asynccontextmanager
    async def connected(serving: ActiveServer, *faults: Any) -> AsyncGenerator[Client]:
        ours, theirs = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, serving, FaultyStream(theirs, sending=faults))
            async with open_client(ours) as client:
                yield client

    async with make_server().serving() as serving, connected(serving) as whole:
        async with connected(serving, cut(20, is_result("3"))) as broken, trio.open_nursery() as nursery:
            nursery.start_soon(expect_failure, broken, ConnectionBroken)
            async with whole.open_call("hang", {"key": "other"}) as call:
                await anext(call.updates)
                await expect_failure(broken, ConnectionBroken, "add", a=1, b=2)
                await add(whole)
                await trio.sleep(100)  # only the handlers of the broken connection are stopped
                assert serving.statistics().running == 1
        await add(whole)
        await trio.testing.wait_all_tasks_blocked()
        assert serving.statistics().running == 0


# Duplicate and reordered messages.


async def test_a_duplicate_response_is_dropped(revision: str, autojump_clock: object) -> None:
    def doubling(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, receiving=[duplicate(is_result("3"))])

    async with open_memory_client(make_server(), wrap=doubling, revision=revision) as client:
        for _ in range(3):
            await add(client)
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().unmatched_responses == 3


async def test_a_duplicate_of_a_request_in_flight_is_refused(revision: str, autojump_clock: object) -> None:
    def doubling(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, sending=[duplicate(names("when_stopped"))])

    wire = WireRecorder()
    async with open_memory_client(make_server(), wrap=doubling, tap=wire, revision=revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "when_stopped", {"key": "k"})
            await trio.testing.wait_all_tasks_blocked()
            async with client.open_call("hang", {"key": "k"}) as call:
                await anext(call.updates)
        await add(client)
    (refusal,) = wire.select(where=lambda message: "error" in message).received
    assert refusal["error"]["code"] == -32600


async def test_duplicate_and_late_updates_are_harmless(revision: str, autojump_clock: object) -> None:
    def bad(stream: trio.abc.Stream) -> trio.abc.Stream:
        late = reorder(lambda message: message.get("params", {}).get("progress") == 3)
        return FaultyStream(stream, receiving=[duplicate("notifications/progress"), late])

    async with open_memory_client(make_server(), wrap=bad, revision=revision) as client:
        async with client.open_call("count", {"steps": 3}) as call:
            assert {update.progress async for update in call.updates} == {1, 2}
            assert (await call.result()).content == [types.TextContent(text="counted")]
        await add(client)


async def test_reordered_responses_reach_their_callers(revision: str, autojump_clock: object) -> None:
    def shuffling(stream: trio.abc.Stream) -> trio.abc.Stream:
        def odd(message: Any) -> bool:
            return type(message.get("id")) is int and message["id"] in range(5, 45, 2)

        return FaultyStream(stream, sending=[reorder(odd)], receiving=[reorder(odd)])

    async with open_memory_client(make_server(), wrap=shuffling, revision=revision) as client:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(add, client, number, 0)
        assert client.statistics().unmatched_responses == 0


async def test_a_cancellation_that_arrives_before_its_request_is_harmless(
    revision: str, autojump_clock: object
) -> None:
    def shuffling(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, sending=[reorder(names("add"))])

    async with open_memory_client(make_server(), wrap=shuffling, revision=revision) as client:
        with trio.move_on_after(1):
            await client.call_tool("add", {"a": 1, "b": 2})
        await trio.testing.wait_all_tasks_blocked()
        await client.list_tools()
        assert client.statistics().unmatched_responses == 1


async def test_many_simultaneous_faults_cost_only_time(revision: str, autojump_clock: object) -> None:
    def bad(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(
            stream,
            sending=[delay(0.5, 7), delay(0.1, "tools/call")],
            receiving=[duplicate(lambda message: "result" in message), delay(0.01), rewrite(lambda line: line + b"\r")],
        )

    async with open_memory_client(make_server(), wrap=bad, revision=revision) as client:
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(add, client, number, 1)
        assert client.statistics().malformed == 0


# Stalls.


async def test_calls_to_a_server_that_stops_sending_time_out_one_by_one(revision: str, autojump_clock: object) -> None:
    def silent(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, receiving=[stall(is_result("3"))])

    limits = TimeLimits(idle=60)
    async with open_memory_client(make_server(), wrap=silent, revision=revision, time_limits=limits) as client:
        for _ in range(2):
            began = trio.current_time()
            await expect_failure(client, RequestTimedOut, "add", a=1, b=2)
            assert trio.current_time() - began == pytest.approx(60)
        began = trio.current_time()
    assert trio.current_time() - began < 10  # closing waits for a bounded time


async def test_a_server_that_stops_reading_is_disconnected_after_the_stall_limit(
    revision: str, autojump_clock: object
) -> None:
    def stops_reading(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, sending=[stall(names("add"))])

    limits = Limits(stall_seconds=30)
    async with open_memory_client(make_server(), wrap=stops_reading, revision=revision, limits=limits) as client:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_failure, client, ConnectionBroken)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConnectionBroken, match="has read nothing for 30 s"):
                await client.call_tool("add", {"a": 1, "b": 2})
        assert trio.current_time() - began == pytest.approx(30)


async def test_a_client_of_a_server_that_stops_reading_closes_in_bounded_time(
    revision: str, autojump_clock: object
) -> None:
    def stops_reading(stream: trio.abc.Stream) -> trio.abc.Stream:
        return FaultyStream(stream, sending=[stall(names("add"))])

    async with open_memory_client(make_server(), wrap=stops_reading, revision=revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(expect_failure, client, ConnectionClosed, "add", a=1, b=2))
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            await client.aclose()
        assert trio.current_time() - began < 10
