"""The limit of log messages: a handler that logs in a loop does not flood its client."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Context, Limits, Server, types
from trio_mcp.server._progress import LogRate
from trio_mcp.testing import open_memory_client


def test_a_burst_of_one_second_is_admitted_at_once_and_then_the_rate_applies() -> None:
    rate = LogRate(2)

    assert [rate.admit(100.0) for _ in range(4)] == [0, 0, None, None]
    assert rate.admit(100.4) is None
    assert rate.admit(100.5) == 3
    assert [rate.admit(1000.0) for _ in range(3)] == [0, 0, None]


def test_a_rate_below_one_per_second_is_possible() -> None:
    rate = LogRate(0.1)

    assert [rate.admit(0.0), rate.admit(9.0), rate.admit(10.0)] == [0, None, 1]


def test_an_infinite_rate_admits_everything() -> None:
    rate = LogRate(math.inf)

    assert [rate.admit(0.0) for _ in range(1000)] == [0] * 1000


@pytest.mark.requirement("B.18-P2")
async def test_log_messages_beyond_the_rate_are_dropped_and_counted(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s", limits=Limits(max_logs_per_second=3))

    @server.tool
    async def chatter(ctx: Context) -> None:
        for n in range(10):
            await ctx.log("info", n)
        await trio.sleep(1)
        await ctx.log("error", "last")

    received: list[Any] = []

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        received.append((message.level, message.logger, message.data))

    async with open_memory_client(server, revision="2025-11-25", on_log=on_log) as client:
        await client.call_tool("chatter")
        await trio.testing.wait_all_tasks_blocked()

    notice = "7 log messages were dropped: more than 3 in a second"
    assert received == [*(("info", None, n) for n in range(3)), ("error", "trio_mcp", notice), ("error", None, "last")]
