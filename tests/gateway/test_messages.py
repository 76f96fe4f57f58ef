"""What happens between a request and its result: progress, log messages, cancellation, and servers that die."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio
import trio.testing

from tests.gateway.helpers import (
    LEGACY,
    MODERN,
    PROGRAM,
    Heard,
    Way,
    behind,
    client_of,
    front,
    in_all_eras,
    in_processes_too,
    in_this_process,
    names,
    opened,
    text,
    text_of,
    through,
    two_principals,
)
from tests.gateway.upstream_server import make_server
from trio_mcp import ErrorResponse, Restart, types

# Progress.


@in_processes_too
async def test_progress_arrives_in_order_and_before_the_result(way: Way) -> None:
    log: list[Any] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        log.append((update.progress, update.total, update.message))

    async with through(way) as client:
        log.append(text(await client.call_tool("count", {"steps": 50}, on_progress=on_progress)))

    message = way.oldest != "2024-11-05"
    assert log == [*((n, 50, f"step {n}" if message else None) for n in range(1, 51)), "counted"]


@in_all_eras
async def test_a_caller_that_wants_no_progress_gets_none(way: Way) -> None:
    async with through(way) as client:
        assert text(await client.call_tool("count", {"steps": 50})) == "counted"
        assert client.statistics().update_bytes == 0


@in_all_eras
async def test_progress_of_two_calls_at_once_goes_to_the_right_one(way: Way) -> None:
    seen: dict[int, list[Any]] = {3: [], 5: []}

    async with through(way) as client, trio.open_nursery() as nursery:

        async def count(steps: int) -> None:
            async def on_progress(update: types.ProgressNotificationParams) -> None:
                await trio.lowlevel.checkpoint()
                seen[steps].append((update.progress, update.total))

            await client.call_tool("count", {"steps": steps}, on_progress=on_progress)

        for steps in seen:
            nursery.start_soon(count, steps)

    assert seen == {steps: [(n, steps) for n in range(1, steps + 1)] for steps in (3, 5)}


# Log messages.

ALL = ["debug", "info", "warning", "error"]


@in_processes_too
async def test_log_messages_arrive_with_their_level_their_data_and_their_logger(way: Way) -> None:
    heard = Heard()

    async with through(way, on_log=heard.hear) as client:
        await client.set_log_level("debug")
        assert text(await client.call_tool("say")) == "said"
        assert await heard.levels(4) == ALL

    assert [message.data for message in heard.messages] == [{"said": level} for level in ALL]
    assert {message.logger for message in heard.messages} == {"voice"}


@pytest.mark.parametrize("upstream", [LEGACY, MODERN])
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_log_messages_are_sent_before_the_result(upstream: str, revision: str) -> None:
    sent: list[str] = []

    def tap(direction: str, line: bytes) -> None:
        if direction == "received":
            sent.append("log" if b"notifications/message" in line else "other")

    way = Way(upstream, revision, down_by="bytes")
    async with through(way, on_log=Heard().hear, tap=tap) as client:
        await client.set_log_level("debug")
        await names(client)
        sent.clear()
        await client.call_tool("say")

    assert sent[:5] == ["log", "log", "log", "log", "other"]


@in_this_process
async def test_log_messages_below_the_level_of_the_caller_do_not_arrive(way: Way) -> None:
    heard = Heard()

    async with through(way, on_log=heard.hear) as client:
        await client.set_log_level("warning")
        await client.call_tool("say")
        await client.set_log_level("error")
        await client.call_tool("say")
        assert await heard.levels(3) == ["warning", "error", "error"]


@in_all_eras
async def test_log_messages_go_to_the_caller_alone(way: Way) -> None:
    by_first, by_second = Heard(), Heard()

    async with (
        front(make_server(way.upstream)).serving() as serving,
        client_of(serving, way, on_log=by_first.hear) as first,
        client_of(serving, way, on_log=by_second.hear) as second,
    ):
        await first.set_log_level("debug")
        await second.set_log_level("error")
        await first.call_tool("say")
        assert await by_first.levels(4) == ALL
        assert by_second.messages == []
        await second.call_tool("say")
        assert await by_second.levels(1) == ["error"]
        assert len(by_first.messages) == 4


@in_all_eras
async def test_what_is_logged_while_two_callers_wait_goes_to_no_wrong_caller(way: Way) -> None:
    """A connection does not tell which request a log message belongs to."""
    heard = Heard()
    async with two_principals(front(make_server(way.upstream)), way, on_log=heard.hear) as (ada, bob):
        await ada.set_log_level("error")
        await bob.set_log_level("error")
        async with ada.open_call("hang", {"key": "a"}) as hanging:
            await anext(hanging.updates)
            await bob.call_tool("say")
            await trio.testing.wait_all_tasks_blocked()
            assert heard.messages == []


@pytest.mark.parametrize("level", ["debug", "warning"])
@pytest.mark.parametrize(
    "way", [Way(upstream, down, up_by="http") for upstream in (LEGACY, MODERN) for down in (LEGACY, MODERN)], ids=str
)
async def test_what_is_logged_over_http_while_two_callers_wait_goes_to_the_right_one(way: Way, level: Any) -> None:
    """A response tells which request a log message belongs to."""
    hers, his = Heard(), Heard()
    async with (
        behind(way) as target,
        front(target).serving() as serving,
        client_of(serving, way, "ada", on_log=hers.hear) as ada,
        client_of(serving, way, "bob", on_log=his.hear) as bob,
    ):
        await ada.set_log_level("debug")
        await bob.set_log_level(level)
        async with ada.open_call("hang", {"key": "a"}) as hanging:
            await anext(hanging.updates)
            assert text(await bob.call_tool("say")) == "said"
            expected = ALL[ALL.index(level) :]
            assert await his.levels(len(expected)) == expected
    assert {message.logger for message in his.messages} == {"voice"}
    assert hers.messages == []


# Cancellation.


@in_processes_too
async def test_a_client_that_gives_up_cancels_the_handler(way: Way) -> None:
    async with through(way) as client:
        async with client.open_call("hang", {"key": "left"}) as call:
            await anext(call.updates)
        assert text(await client.call_tool("when_stopped", {"key": "left"})) == "left was stopped"


@in_all_eras
async def test_a_client_that_goes_away_cancels_the_handler(way: Way) -> None:
    async with front(make_server(way.upstream)).serving() as serving:
        with trio.CancelScope() as scope:
            async with client_of(serving, way) as client, client.open_call("hang", {"key": "gone"}) as call:
                await anext(call.updates)
                scope.cancel()
                await trio.lowlevel.checkpoint()
        async with client_of(serving, way) as other:
            assert text(await other.call_tool("when_stopped", {"key": "gone"})) == "gone was stopped"


@in_all_eras
async def test_a_call_that_ends_leaves_nothing_in_flight(way: Way) -> None:
    gateway = front(make_server(way.upstream))
    async with opened(gateway, way) as client:
        async with client.open_call("hang", {"key": "x"}) as call:
            await anext(call.updates)
            assert gateway.status["shelf"].in_flight == 1
        await client.call_tool("when_stopped", {"key": "x"})
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.status["shelf"].in_flight == 0
        assert gateway.upstreams["shelf"].name == "shelf"


# Servers that die.


@pytest.mark.parametrize("way", [Way(LEGACY, MODERN, "stdio"), Way(MODERN, LEGACY, "stdio")], ids=str)
async def test_the_calls_of_a_server_that_dies_fail_and_those_of_others_do_not(way: Way) -> None:
    gateway = front()
    gateway.mount([sys.executable, PROGRAM, way.upstream], name="mortal", prefix="mortal", restart=Restart(after=0.01))
    gateway.mount([sys.executable, PROGRAM, way.upstream], name="alive", prefix="alive")
    outcomes: dict[str, Any] = {}

    async def call(tool: str) -> None:
        outcomes[tool] = await client.call_tool(tool)

    with trio.fail_after(60):
        async with opened(gateway, way) as client:
            async with client.open_call("alive__hang", {"key": "x"}) as hanging:
                await anext(hanging.updates)
                await call("mortal__die")
                assert outcomes["mortal__die"].is_error
                assert text_of(outcomes["mortal__die"]) == (
                    "the server 'mortal' behind this gateway is not connected, "
                    "or the connection was lost before it answered"
                )
                assert text(await client.call_tool("mortal__nothing")) == "nothing was needed"
                assert gateway.status["alive"].in_flight == 1
            assert text(await client.call_tool("alive__when_stopped", {"key": "x"})) == "x was stopped"


async def test_requests_of_a_server_that_is_gone_for_good_fail_with_an_internal_error() -> None:
    gateway = front()
    (upstream,) = gateway.mount([sys.executable, PROGRAM, MODERN], restart=None)
    with trio.fail_after(60):
        async with opened(gateway, Way(MODERN, MODERN)) as client:
            await client.call_tool("die")
            for refused in (client.get_prompt("plan"), client.read_resource("notes://text")):
                with pytest.raises(ErrorResponse, match=f"the server '{upstream.name}' behind this gateway") as failed:
                    await refused
                assert failed.value.code == -32603
            lost = await client.call_tool("nothing")
            assert lost.is_error
            assert upstream.status.state == "failed"


async def test_a_server_that_does_not_answer_in_time_is_a_tool_error(autojump_clock: trio.testing.MockClock) -> None:
    gateway = front()
    gateway.mount(make_server(MODERN), timeout=5)
    async with opened(gateway, Way(MODERN, MODERN)) as client:
        late = await client.call_tool("hang", {"key": "x"})

    assert late.is_error
    assert text_of(late) == "the server 'shelf' behind this gateway did not answer in time"
