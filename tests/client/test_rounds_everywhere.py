"""Questions inside results through every interface: one client, many clients, and tools of a language model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.client.scripted_questions import answer_two
from trio_mcp import Accepted, ClientOptions, ConsentRefused, Context, Server, open_client, open_clients, types
from trio_mcp.client import Consentable
from trio_mcp.llm import load_toolkit
from trio_mcp.testing import open_memory_client

ASKING = {"command": sys.executable, "args": [str(Path(__file__).parents[1] / "cli" / "programs" / "asking_server.py")]}


def make_server() -> Server:
    server = Server("asking")

    @server.tool
    async def book(ctx: Context) -> str:
        await ctx.report_progress(1)
        form = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
        answer = await ctx.elicit("How many?", form)
        await ctx.report_progress(2)
        return str(answer.value["count"]) if isinstance(answer, Accepted) else type(answer).__name__

    return server


@pytest.mark.parametrize("opener", [open_client, open_memory_client])
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_call_that_asks_has_one_sequence_of_updates_and_one_result_in_every_revision(
    opener: Any, revision: str
) -> None:
    updates: list[float] = []
    questions: list[Consentable] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update.progress)

    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        questions.append(request)
        return request

    async with opener(make_server(), revision=revision, on_elicit=answer_two, consent=consent) as client:
        result = await client.call_tool("book", on_progress=on_progress)
    assert result.content == [types.TextContent(text="2")]
    assert updates == [1, 2]
    assert [type(each) for each in questions] == [types.CallToolRequestParams, types.ElicitRequestFormParams]


@pytest.mark.parametrize("opener", [open_client, open_memory_client])
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_question_without_consent_is_declined_in_every_revision(opener: Any, revision: str) -> None:
    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        if isinstance(request, types.CallToolRequestParams):
            return request
        raise ConsentRefused("no")

    async with opener(make_server(), revision=revision, on_elicit=answer_two, consent=consent) as client:
        assert (await client.call_tool("book")).content == [types.TextContent(text="Declined")]


@pytest.mark.parametrize("opener", [open_client, open_memory_client])
async def test_a_manual_call_is_finished_with_its_answers(opener: Any) -> None:
    can = types.ClientCapabilities(elicitation=types.ElicitationCapability(form={}))
    async with opener(make_server()) as client:
        async with client.open_call("book", manual_input=True, capabilities=can) as call:
            asking = await call.result()
        assert isinstance(asking, types.InputRequiredResult)
        answers = {
            key: types.ElicitResult(action="accept", content={"count": 3}) for key in asking.input_requests or {}
        }
        async with client.open_call(
            "book", manual_input=True, input_responses=answers, request_state=asking.request_state
        ) as call:
            assert (await call.result()).content == [types.TextContent(text="3")]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_many_clients_and_the_tools_of_a_language_model_use_the_same_callbacks(revision: str) -> None:
    function = {"name": "book", "arguments": json.dumps({})}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    options = ClientOptions(revision=revision, on_elicit=answer_two)
    with trio.fail_after(60):
        async with open_clients({"mcpServers": {"theatre": ASKING}}, **options) as clients:
            result = await clients.call_tool("book")
            assert result.content == [types.TextContent(text="2 seats")]
            (answer,) = await (await load_toolkit(clients)).answer(message)
    assert "2 seats" in answer["content"]


async def test_a_refused_call_is_reported_to_the_language_model() -> None:
    async def consent(_: object) -> Consentable:
        await trio.lowlevel.checkpoint()
        raise ConsentRefused("not on Sundays")

    function = {"name": "book", "arguments": "{}"}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    async with open_client(make_server(), consent=consent) as client:
        (answer,) = await (await load_toolkit(client)).answer(message)
    assert "not on Sundays" in answer["content"]
