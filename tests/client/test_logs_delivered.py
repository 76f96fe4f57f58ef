"""Waiting until `on_log` has taken the log messages that came before a result, as a gateway does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Client, Context, Server, open_client
from trio_mcp.lowlevel import ClientExtensionPoints
from trio_mcp.types import LoggingMessageNotificationParams


@define(eq=False)
class SlowLog:
    """A callback for log messages that takes none until it may."""

    may_take: trio.Event = field(factory=trio.Event, init=False)
    taken: list[object] = field(factory=list[object], init=False)

    async def take(self, message: LoggingMessageNotificationParams) -> None:
        await self.may_take.wait()
        self.taken.append(message.data)


@asynccontextmanager
async def logging_client(log: SlowLog) -> AsyncGenerator[Client]:
    server = Server("chatty")

    @server.tool
    async def say(words: list[str], ctx: Context) -> None:
        for word in words:
            await ctx.log("info", word)

    async with open_client(server, on_log=log.take) as client:
        await client.set_log_level("debug")
        yield client


async def test_a_function_is_called_at_once_if_no_log_message_waits() -> None:
    called: list[str] = []
    async with logging_client(SlowLog()) as client:
        ClientExtensionPoints(client).after_logs(lambda: called.append("now"))
        assert called == ["now"]


async def test_a_function_is_called_when_all_log_messages_were_taken() -> None:
    log, called = SlowLog(), list[int]()
    async with logging_client(log) as client:
        points = ClientExtensionPoints(client)
        await client.call_tool("say", {"words": ["one", "two"]})
        assert points.has_logs
        points.after_logs(lambda: called.append(len(log.taken)))
        await wait_all_tasks_blocked()
        assert called == []
        log.may_take.set()
        await points.logs_delivered()
        assert log.taken == ["one", "two"]
    assert called == [2]


@pytest.mark.parametrize("words", [["one"], ["one", "two"]])
async def test_nobody_waits_for_log_messages_of_a_client_that_was_closed(words: list[str]) -> None:
    called: list[str] = []
    async with logging_client(SlowLog()) as client:
        points = ClientExtensionPoints(client)
        await client.call_tool("say", {"words": words})
        await wait_all_tasks_blocked()
        points.after_logs(lambda: called.append("closed"))
        assert called == []
    assert called == ["closed"]
    with trio.fail_after(60):
        await points.logs_delivered()
    assert not points.has_logs
