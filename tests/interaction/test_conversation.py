"""The same conversation in every revision, over every transport."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trio

from tests.interaction.conftest import IN_MEMORY
from tests.interaction.openers import Opener
from trio_mcp import Client, ErrorResponse, LocalProtocolError, RequestTimedOut, TimeLimits, ToolFailed, types

FIRST_STRUCTURED = "2025-06-18"
MODERN = "2026-07-28"


def texts(result: types.CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


@pytest.mark.requirement("B.5-P3a", "B.5-C7a")
async def test_the_client_learns_the_name_and_the_capabilities_of_the_server(connect: Opener, revision: str) -> None:
    async with connect() as client:
        assert client.revision == revision
        assert client.server_info == types.Implementation(name="conversation", version="1.0")
        assert client.instructions == "Talk to me."
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.completions is None
        tools = {tool.name: tool async for tool in client.tools()}
        assert tools["add"].description == "Add two numbers."
        assert set(tools["add"].input_schema["properties"]) == {"a", "b"}
        assert (tools["add"].output_schema is not None) == (revision >= FIRST_STRUCTURED)


@pytest.mark.requirement("B.2-P1d", "B.5-P2", "B.20-S5b")
async def test_calls_return_content_and_structured_content_where_the_revision_has_it(
    connect: Opener, revision: str
) -> None:
    async with connect() as client:
        await client.list_tools()  # so that the client validates structured content
        added = await client.call_tool("add", {"a": 1, "b": 2})
        assert texts(added) == ["3"]
        point = await client.call_tool("point", {"x": 1, "y": 2})
        assert texts(point) == ['{"x":1,"y":2}']
        assert texts(await client.call_tool("shout", {"text": "grüß dich\n"})) == ["GRÜSS DICH\n"]
        structured = [added.structured_content, point.structured_content]
        expected: list[Any] = [{"result": 3}, {"x": 1, "y": 2}] if revision >= FIRST_STRUCTURED else [types.UNSET] * 2
        assert structured == expected


@pytest.mark.requirement("B.20-S6a", "B.20-S6b", "B.20-S6c")
async def test_tool_failures_are_results_and_refusals_are_errors(connect: Opener) -> None:
    async with connect() as client:
        failed = await client.call_tool("fail")
        assert failed.is_error
        assert texts(failed) == ["out of paper"]
        with pytest.raises(ToolFailed, match="out of paper"):
            await client.call_tool("fail", raise_on_error=True)
        wrong = await client.call_tool("add", {"a": "x", "c": 1})
        assert wrong.is_error
        assert all(name in texts(wrong)[0] for name in ("a", "b", "c"))
        with pytest.raises(ErrorResponse) as refused:
            await client.call_tool("refuse")
        assert (refused.value.code, refused.value.message, refused.value.data) == (
            -5,
            "not today",
            {"until": "tomorrow"},
        )
        with pytest.raises(ErrorResponse, match="no tool 'nothing'") as unknown:
            await client.call_tool("nothing")
        assert unknown.value.code == -32602


@pytest.mark.complaint(19)
async def test_progress_arrives_in_order_and_before_the_result(connect: Opener, revision: str) -> None:
    log: list[Any] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        log.append((update.progress, update.total, update.message))

    expected = [(n, 100, None if revision == "2024-11-05" else f"step {n}") for n in range(1, 101)]
    async with connect() as client:
        log.append(texts(await client.call_tool("count", {"steps": 100}, on_progress=on_progress)))
        assert log == [*expected, ["counted"]]
        async with client.open_call("count", {"steps": 100}) as call:
            assert [(update.progress, update.total, update.message) async for update in call.updates] == expected
            assert texts(await call.result()) == ["counted"]
            assert texts(await call.result()) == ["counted"]
            assert call.skipped == 0
        async with client.open_call("count", {"steps": 100}) as unread:
            assert texts(await unread.result()) == ["counted"]
        assert client.statistics().update_bytes == 0


@pytest.mark.requirement("B.5-S3b", "B.12-P2a", "B.13-P2")
@pytest.mark.complaint(17)
@pytest.mark.cancels
async def test_a_deadline_stops_the_handler(connect: Opener) -> None:
    async with connect() as client:
        with trio.CancelScope() as scope:

            async def give_up(_: types.ProgressNotificationParams) -> None:
                await trio.lowlevel.checkpoint()
                scope.deadline = trio.current_time()

            await client.call_tool("hang", {"key": "deadline"}, on_progress=give_up)
        assert scope.cancelled_caught
        assert texts(await client.call_tool("when_stopped", {"key": "deadline"})) == ["deadline was stopped"]


@pytest.mark.requirement("B.5-S3b")
@pytest.mark.complaint(17)
async def test_leaving_an_open_call_stops_the_handler(connect: Opener) -> None:
    async with connect() as client:
        async with client.open_call("hang", {"key": "left"}) as call:
            async for _ in call.updates:
                break
        assert texts(await client.call_tool("when_stopped", {"key": "left"})) == ["left was stopped"]
        with pytest.raises(KeyError, match="mine"):
            async with client.open_call("hang", {"key": "raised"}) as call:
                await anext(call.updates)
                raise KeyError("mine")
        assert texts(await client.call_tool("when_stopped", {"key": "raised"})) == ["raised was stopped"]


async def test_a_time_limit_of_the_client_stops_the_handler(connect: Opener) -> None:
    async with connect(time_limits=TimeLimits(idle=0.1)) as client:
        with pytest.raises(RequestTimedOut, match=r"'tools/call'.*0\.1 s"):
            await client.call_tool("hang", {"key": "idle"})
        assert texts(await call_persistently(client, "when_stopped", {"key": "idle"})) == ["idle was stopped"]


async def test_the_server_stops_a_tool_that_exceeds_its_timeout(connect: Opener) -> None:
    async with connect() as client:
        late = await client.call_tool("hurry")
        assert late.is_error
        assert texts(late) == ["hurry timed out after 0.02 s"]


@pytest.mark.one_process
@pytest.mark.requirement("B.1-P10c", "B.20-S1d")
@pytest.mark.cancels
async def test_requests_beyond_the_limits_wait_or_get_a_busy_error(connect: Opener) -> None:
    answers: list[str] = []

    async def call(key: str) -> None:
        try:
            await client.call_tool("hang", {"key": key})
        except ErrorResponse as error:
            answers.append(error.message)
            assert error.code == -31000
            nursery.cancel_scope.cancel()

    async with connect() as client:
        async with client.open_call("hang", {"key": "first"}) as first:
            await anext(first.updates)
            async with trio.open_nursery() as nursery:  # 4 run, 2 wait, 1 exceeds the limits
                for number in range(6):
                    nursery.start_soon(call, str(number))
        busy = "of this client's requests, 4 run (Limits.max_in_flight) and 2 wait (Limits.max_queued)"
        assert answers == [f"too busy: {busy}; try again later"]
        assert texts(await call_persistently(client, "when_stopped", {"key": "first"})) == ["first was stopped"]
        assert texts(await call_persistently(client, "add", {"a": 1, "b": 1})) == ["2"]


async def call_persistently(client: Client, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """Call a tool until it succeeds: a timeout may be too short for a slow machine, or an earlier request still runs.

    Over HTTP the cancellation of a request uses its own connection and may arrive after the next request.
    """
    while True:
        try:
            return await client.call_tool(tool, arguments)
        except RequestTimedOut:
            pass
        except ErrorResponse as busy:
            assert busy.code == -31000


@pytest.mark.requirement("B.3-S3a")
async def test_concurrent_calls_run_at_the_same_time(connect: Opener) -> None:
    async with connect() as client, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(client.call_tool, "meet", {"party": 4})


@pytest.mark.requirement("B.15-P1a")
async def test_the_server_gives_a_sign_of_life_in_every_revision(connect: Opener) -> None:
    async with connect() as client:
        await client.ping()
        await client.ping()


@pytest.mark.requirement("B.2-P1a", "B.2-P1b", "B.3-S8")
async def test_the_server_answers_a_discovery_where_the_revision_has_it(connect: Opener, revision: str) -> None:
    async with connect() as client:
        if revision == MODERN:
            assert (await client.discover()).supported_versions == list(types.REVISIONS)
        else:
            with pytest.raises(LocalProtocolError, match="no request 'server/discover'"):
                await client.discover()


@pytest.mark.requirement("B.21-S2c", "B.21-S3a", "B.21-S3b", "B.21-S3c")
async def test_resources_are_listed_and_read(connect: Opener, revision: str) -> None:
    async with connect() as client:
        assert [each.uri for each in (await client.list_resources()).resources] == ["memo://today"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["picture://{name}"]
        (memo,) = (await client.read_resource("memo://today")).contents
        assert memo == types.TextResourceContents(uri="memo://today", mime_type="text/markdown", text="# Today")
        (picture,) = (await client.read_resource("picture://cat")).contents
        assert isinstance(picture, types.BlobResourceContents)
        assert base64.b64decode(picture.blob) == b"cat"
        with pytest.raises(ErrorResponse, match="no resource") as missing:
            await client.read_resource("memo://yesterday")
        assert missing.value.code == (-32602 if revision == MODERN else -32002)
        assert missing.value.data == {"uri": "memo://yesterday"}


@pytest.mark.requirement("B.22-S2a")
async def test_prompts_are_listed_and_rendered(connect: Opener) -> None:
    async with connect() as client:
        (prompt,) = (await client.list_prompts()).prompts
        assert prompt.description == "Ask for a review."
        assert [(each.name, each.required) for each in prompt.arguments or ()] == [("code", True), ("style", False)]
        (message,) = (await client.get_prompt("review", {"code": "x=1"})).messages
        assert message == types.PromptMessage(
            role="user", content=types.TextContent(text="A kind review of x=1, please.")
        )
        with pytest.raises(ErrorResponse, match="code: required, but missing") as missing:
            await client.get_prompt("review")
        assert missing.value.code == -32602


@pytest.mark.requirement("B.18-S2")
async def test_log_messages_of_the_requested_levels_reach_the_callback(connect: Opener) -> None:
    got: list[Any] = []
    last = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        got.append((message.level, message.data, message.logger))
        if message.level == "emergency":
            last.set()

    async with connect(on_log=on_log) as client:
        await client.set_log_level("warning")
        for level in ("info", "warning", "emergency"):
            await client.call_tool("say", {"level": level, "text": "hey"})
        await last.wait()
    assert got == [("warning", {"text": "hey"}, "voice"), ("emergency", {"text": "hey"}, "voice")]


@pytest.mark.requirement("B.19-S3a")
async def test_a_request_for_a_feature_that_the_server_lacks_is_an_unknown_method(connect: Opener) -> None:
    reference, argument = {"type": "ref/prompt", "name": "review"}, {"name": "style", "value": "k"}

    async with connect() as client:
        with pytest.raises(ErrorResponse, match="has no method") as refused:
            await client.request("completion/complete", {"ref": reference, "argument": argument}, types.EmptyResult)
        assert refused.value.code == -32601


async def test_after_a_whole_conversation_neither_side_holds_any_state(connect: Opener, transport: str) -> None:
    async with connect() as client:
        with trio.CancelScope() as scope:
            async with client.open_call("hang", {"key": "x"}) as call:
                await anext(call.updates)
                scope.cancel()
                await call.result()
        await client.call_tool("when_stopped", {"key": "x"})
        await client.call_tool("count", {"steps": 10})
        held = client.statistics()
        assert (held.outgoing, held.incoming, held.queued, held.update_bytes) == (0, 0, 0, 0)
        if transport in IN_MEMORY:
            assert (held.running, held.outbox_bytes, held.unmatched_responses, held.malformed) == (0, 0, 0, 0)
