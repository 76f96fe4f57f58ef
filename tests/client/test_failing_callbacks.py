"""Callbacks of a client that raise what is no `Exception`: the connection and its other calls go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio
import trio.testing

from tests.client.scripted_questions import HOW_MANY, in_background, interim, scripted_server
from tests.interaction.not_exceptions import KINDS, NOT_EXCEPTIONS, raise_it
from trio_mcp import Client, Context, Server, open_client, types
from trio_mcp.testing import ScriptedPeer

LEGACY = "2025-11-25"


def raising(kind: str) -> Any:
    async def callback(_: object) -> Any:
        await raise_it(kind)

    return callback


async def check_alive(client: Client, server: ScriptedPeer) -> None:
    async with in_background(client.list_tools) as outcome:
        await server.answer({"tools": []}, method="tools/list")
    assert isinstance(outcome[0], types.ListToolsResult)


async def test_a_cancellation_of_another_task_in_a_modern_callback_fails_its_call_alone() -> None:
    async with scripted_server(on_elicit=raising("cancelled")) as (client, server):
        for questions in ({"a": HOW_MANY}, {"a": HOW_MANY, "b": HOW_MANY}):
            async with in_background(lambda: client.call_tool("t")) as outcome:
                await server.answer(interim("s", **questions))
            assert type(outcome[0]) is RuntimeError
            assert "the application raised trio.Cancelled, but was not cancelled" in str(outcome[0])
        await check_alive(client, server)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_legacy_callback_that_raises_anything_is_answered_as_an_internal_error(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_server(revision=LEGACY, on_elicit=raising(kind)) as (client, server):
        answer = await server.request("elicitation/create", HOW_MANY["params"])
        assert answer["error"]["code"] == -32603
        await check_alive(client, server)

    assert "the callback for 'elicitation/create' failed" in caplog.text


@dataclass
class Amount:
    count: int


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("How many?", Amount)
        return str(answer)

    @server.tool
    async def wait() -> str:
        await trio.sleep_forever()
        raise AssertionError

    return server


@pytest.mark.parametrize("kind", NOT_EXCEPTIONS)
async def test_an_exception_of_a_legacy_callback_is_raised_bare_in_the_only_call(kind: str) -> None:
    expected = NOT_EXCEPTIONS[kind]()
    async with open_client(asking_server(), revision=LEGACY, on_elicit=raising(kind)) as client:
        with pytest.raises(type(expected)) as caught:
            await client.call_tool("ask")
        assert repr(caught.value) == repr(expected)
        await client.ping()


@pytest.mark.parametrize("kind", NOT_EXCEPTIONS)
async def test_an_exception_of_a_legacy_callback_leaves_the_block_bare(kind: str) -> None:
    expected = NOT_EXCEPTIONS[kind]()
    with pytest.raises(type(expected)) as caught:
        async with open_client(asking_server(), revision=LEGACY, on_elicit=raising(kind)) as client:
            await client.call_tool("ask")
    assert repr(caught.value) == repr(expected)


async def test_an_exception_of_a_legacy_callback_interrupts_none_of_several_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        open_client(asking_server(), revision=LEGACY, on_elicit=raising("native")) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.call_tool, "wait")
        await trio.testing.wait_all_tasks_blocked()
        asked = await client.call_tool("ask", raise_on_error=False)
        assert asked.is_error
        nursery.cancel_scope.cancel()

    assert "NativePanicError" in caplog.text


async def test_a_cancelled_legacy_callback_interrupts_no_call() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.sleep_forever()
        raise AssertionError

    async with open_client(asking_server(), revision=LEGACY, on_elicit=on_elicit) as client:
        with trio.move_on_after(0):
            await client.call_tool("ask")
        await client.ping()


@pytest.mark.parametrize("kind", KINDS)
async def test_callbacks_for_messages_of_the_server_may_raise_anything(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("chatty")

    @server.tool
    async def chat(ctx: Context) -> str:
        for _ in range(2):
            await ctx.log("info", "hello")
        return "done"

    count = 0

    async def on_log(_: object) -> None:
        nonlocal count
        count += 1
        await raise_it(kind)

    async with open_client(server, revision=LEGACY, on_log=on_log) as client:
        await client.call_tool("chat")
        await trio.testing.wait_all_tasks_blocked()
        await client.ping()

    assert count == 2
    assert caplog.text.count("on_log failed") == 2


async def test_the_cancellation_of_another_task_in_other_callbacks_fails_their_call_alone() -> None:
    server = Server("s")

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "done"

    async def on_progress(_: object) -> None:
        await raise_it("cancelled")

    async with open_client(server) as client:
        with pytest.raises(RuntimeError, match="on_progress raised trio"):
            await client.call_tool("report", on_progress=on_progress)
        assert (await client.list_tools()).tools
    async with open_client(server, consent=raising("cancelled")) as client:
        with pytest.raises(RuntimeError, match="the consent hook raised trio"):
            await client.call_tool("report")


@pytest.mark.parametrize("kind", NOT_EXCEPTIONS)
async def test_other_callbacks_raise_their_exceptions_unchanged(kind: str) -> None:
    expected = NOT_EXCEPTIONS[kind]()
    async with open_client(asking_server(), consent=raising(kind)) as client:
        with pytest.raises(type(expected)) as caught:
            await client.call_tool("wait")
        assert repr(caught.value) == repr(expected)


async def test_a_cancelled_callback_is_cancelled(autojump_clock: object) -> None:
    async def consent(_: object) -> Any:
        await trio.sleep_forever()

    async with open_client(asking_server(), consent=consent) as client:
        with trio.move_on_after(1) as scope:
            await client.call_tool("wait")
        assert scope.cancelled_caught
