"""A listening client receives changes in every revision over every transport."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.openers import Opener
from trio_mcp import Change, ChangeFilter, ListChanged, ResourceUpdated, ServerExited, open_client, types

MEMO, PICTURE = "memo://today", "picture://cat"
MODERN = types.REVISIONS[-1]
EVERYTHING: dict[str, Any] = {"tools": True, "prompts": True, "resource_list": True, "resources": [MEMO, PICTURE]}


@pytest.mark.requirement("B.11-L1", "B.11-L2", "B.11-S6", "B.5-C6")
async def test_a_listening_client_receives_every_kind_of_change(connect: Opener) -> None:
    changes_by_kind: dict[str, tuple[str, dict[str, Any], Change]] = {
        "a tool": ("change", {"kind": "tools"}, ListChanged("tools")),
        "a prompt": ("change", {"kind": "prompts"}, ListChanged("prompts")),
        "a resource": ("change", {"kind": "resources"}, ListChanged("resources")),
        "a template": ("change", {"kind": "templates"}, ListChanged("resources")),
        "a tool that a thread adds": ("add_in_a_thread", {}, ListChanged("tools")),
        "a tool that a thread removes": ("remove_in_a_thread", {}, ListChanged("tools")),
        "what a resource holds": ("touch", {"uris": [MEMO]}, ResourceUpdated(MEMO)),
        "what a resource of a template holds": ("touch", {"uris": [PICTURE]}, ResourceUpdated(PICTURE)),
        "the same, in a thread": ("touch_in_a_thread", {"uris": [PICTURE]}, ResourceUpdated(PICTURE)),
    }

    async with connect() as client, client.listen(**EVERYTHING) as changes:
        for what, (tool, arguments, change) in changes_by_kind.items():
            await client.call_tool(tool, arguments, raise_on_error=True)
            assert await anext(changes) == change, what


@pytest.mark.requirement("B.11-S2")
async def test_a_client_receives_only_the_changes_it_subscribed_to(connect: Opener) -> None:
    async with connect() as client, client.listen(prompts=True, resources=[MEMO]) as changes:
        for kind in ("tools", "resources", "templates"):
            await client.call_tool("change", {"kind": kind})
        await client.call_tool("touch", {"uris": [PICTURE, MEMO]})
        assert await anext(changes) == ResourceUpdated(MEMO)
        await client.call_tool("change", {"kind": "prompts"})
        assert await anext(changes) == ListChanged("prompts")


@pytest.mark.requirement("B.11-S1", "B.11-C1")
async def test_the_server_confirms_the_subscriptions_that_it_can_serve(connect: Opener) -> None:
    async with connect() as client:
        async with client.listen(**EVERYTHING) as changes:
            assert changes.honored == ChangeFilter(**EVERYTHING)
        async with client.listen(tools=True, resources=["memo://never", MEMO]) as changes:
            assert changes.honored == ChangeFilter(tools=True, resources=[MEMO])


async def test_an_unread_change_is_delivered_once(connect: Opener) -> None:
    async with connect() as client, client.listen(**EVERYTHING) as changes:
        for _ in range(20):
            await client.call_tool("touch", {"uris": [MEMO, PICTURE]})
        await client.call_tool("change", {"kind": "prompts"})
        await client.call_tool("touch", {"uris": [MEMO]})

        assert [await anext(changes) for _ in range(3)] == [
            ResourceUpdated(MEMO),
            ResourceUpdated(PICTURE),
            ListChanged("prompts"),
        ]


async def test_listening_clients_do_not_disturb_each_other(connect: Opener) -> None:
    async with connect() as client, client.listen(tools=True, resources=[MEMO]) as first:
        async with client.listen(prompts=True, resources=[MEMO]) as second:
            await client.call_tool("touch", {"uris": [MEMO]})
            await client.call_tool("change", {"kind": "tools"})
            await client.call_tool("change", {"kind": "prompts"})
            assert [await anext(second), await anext(second)] == [ResourceUpdated(MEMO), ListChanged("prompts")]
        assert [await anext(first), await anext(first)] == [ResourceUpdated(MEMO), ListChanged("tools")]

        await client.call_tool("touch", {"uris": [MEMO]})
        assert await anext(first) == ResourceUpdated(MEMO)


async def test_a_client_that_listens_again_receives_later_changes(connect: Opener) -> None:
    async with connect() as client, client.listen(tools=True) as always:
        for _ in range(2):
            async with client.listen(tools=True, resources=[MEMO]) as changes:
                await client.call_tool("touch", {"uris": [MEMO]})
                assert await anext(changes) == ResourceUpdated(MEMO)
            await client.call_tool("touch", {"uris": [MEMO]})
            await client.call_tool("change", {"kind": "tools"})
            assert await anext(always) == ListChanged("tools")  # over HTTP a change can arrive after the answer


async def test_listening_clients_do_not_count_against_the_limit_of_calls(connect: Opener) -> None:
    async with connect() as client, AsyncExitStack() as stack:  # the server runs four handlers at once
        listening = [await stack.enter_async_context(client.listen(**EVERYTHING)) for _ in range(6)]
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(client.call_tool, "meet", {"party": 4})

        await client.call_tool("change", {"kind": "tools"})
        for changes in listening:
            assert await anext(changes) == ListChanged("tools")


async def test_a_cancelled_reader_loses_no_change(connect: Opener) -> None:
    async with connect() as client, client.listen(tools=True) as changes:
        with trio.move_on_after(0) as scope:
            await anext(changes)
        assert scope.cancelled_caught
        await client.call_tool("change", {"kind": "tools"})
        assert await anext(changes) == ListChanged("tools")


async def test_a_left_listen_block_releases_its_subscription(connect: Opener) -> None:
    async with connect() as client:
        async with client.listen(**EVERYTHING):
            pass
        with trio.CancelScope() as scope:
            async with client.listen(**EVERYTHING) as changes:
                scope.cancel()
                await anext(changes)
        assert scope.cancelled_caught
        with trio.fail_after(60):
            while (held := client.statistics()).outgoing or held.running or held.outbox_bytes:
                await trio.lowlevel.checkpoint()  # the server handles the cancellation asynchronously


@pytest.mark.requirement("B.11-S5a")
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_an_orderly_stop_of_the_server_process_ends_a_subscription_without_an_error(
    revision: str, how: signal.Signals, tmp_path: Path
) -> None:
    command = [sys.executable, str(Path(__file__).with_name("process_server.py")), str(tmp_path / "cleaned up")]
    with trio.fail_after(30):
        async with open_client(command, revision=revision) as client, client.listen(tools=True) as changes:
            (block,) = (await client.call_tool("pid")).content
            assert isinstance(block, types.TextContent)
            os.kill(int(block.text), how)
            if how == signal.SIGTERM and revision == MODERN:
                assert [change async for change in changes] == []
            else:  # in the legacy era listening is not a request, so the server cannot end it
                with pytest.raises(ServerExited):
                    await anext(changes)


MORTAL = """
import os, trio
from trio_mcp import Context, Server, serve_stdio
server = Server("mortal")
server.resources.add_static("memo://today", "x", name="memo")

@server.tool
async def touch(ctx: Context) -> None:
    ctx.resource_updated("memo://today")

@server.tool
async def die() -> None:
    os._exit(9)

trio.run(serve_stdio, server)
"""


@pytest.mark.requirement("B.5-C4b")
async def test_a_new_client_subscribes_again_after_the_server_restarts(revision: str) -> None:
    """A client is one connection and does not reconnect: the block of a new client subscribes again."""
    methods: list[str] = []

    def tap(direction: str, message: bytes) -> None:
        method = json.loads(message).get("method", "")
        if direction == "sent" and method in {"subscriptions/listen", "resources/subscribe"}:
            methods.append(method)

    with trio.fail_after(60):
        for start in (1, 2):
            async with open_client([sys.executable, "-c", MORTAL], revision=revision, tap=tap) as client:
                async with client.listen(resources=[MEMO]) as changes:
                    await client.call_tool("touch", raise_on_error=True)
                    assert await anext(changes) == ResourceUpdated(MEMO)
                    assert len(methods) == start
                    with pytest.raises(ServerExited):
                        await client.call_tool("die")
                    with pytest.raises(ServerExited):
                        await anext(changes)
                with pytest.raises(ServerExited):  # the old client does not listen again by itself
                    async with client.listen(resources=[MEMO]):
                        pass
    assert len(methods) == 2
