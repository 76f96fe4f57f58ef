"""Requirements for servers that ask, beyond the rounds: forms, URLs, models and roots."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.interaction.asking import (
    PAGE,
    WITH_ELICITATION,
    Wire,
    capable,
    in_all_legacy,
    in_both_modes,
    serve,
    success_text,
    visited,
    with_elicitation,
    work,
)
from tests.interaction.asking_server import Mode, Seats
from tests.interaction.scripted_peers import MODERN
from trio_mcp import (
    Accepted,
    AskExpired,
    Context,
    Declined,
    Dismissed,
    Elicit,
    ErrorResponse,
    LocalProtocolError,
    McpError,
    MissingCapability,
    RemoteProtocolError,
    Server,
    StructureError,
    Visit,
    open_client,
    serve_stream,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_memory_client

# Declared capabilities.


@pytest.mark.requirement("B.2-P1e", "B.10-S1", "B.25-S1")
@in_all_legacy
async def test_the_server_does_not_ask_for_undeclared_capabilities(revision: str) -> None:
    wire = Wire()

    async def handler(ctx: Context) -> list[str]:
        lacking: list[str] = []
        for ask in (
            lambda: ctx.elicit("How many?", Seats),
            lambda: ctx.elicit("Pay", url=PAGE),
            lambda: ctx.sample("Hi", max_tokens=1),
            ctx.list_roots,
            lambda: ctx.ask_all(Visit("Pay", PAGE)),
        ):
            with pytest.raises(MissingCapability) as caught:
                await ask()
            lacking += caught.value.required
        return lacking

    async with open_memory_client(serve(handler), revision=revision, tap=wire) as client:
        assert success_text(await work(client)) == '["elicitation","elicitation","sampling","roots","elicitation"]'
    assert wire.requests_received == []


@pytest.mark.requirement("B.23-S1")
@with_elicitation
async def test_the_server_does_not_use_an_undeclared_elicitation_mode(revision: str) -> None:
    async def handler(ctx: Context) -> dict[str, Any]:
        outcome: dict[str, Any] = {}
        for mode, ask in (
            ("form", lambda: ctx.elicit("How many?", {"type": "object", "properties": {}})),
            ("url", lambda: ctx.elicit("Pay", url=PAGE)),
        ):
            try:
                outcome[mode] = type(await ask()).__name__
            except MissingCapability as exc:
                outcome[mode] = exc.required
        return outcome

    with_urls = revision >= "2025-11-25"
    async with open_client(serve(handler), revision=revision, on_elicit=visited) as client:
        assert (await work(client)).structured_content == {
            "form": "Accepted",
            "url": {"elicitation": {"url": {}}},
        }
    if with_urls:
        async with open_client(serve(handler), revision=revision, on_elicit=visited, elicit_modes=["url"]) as client:
            assert (await work(client)).structured_content == {
                "form": {"elicitation": {"form": {}}},
                "url": "Accepted",
            }


@pytest.mark.requirement("B.24-S1a")
@in_both_modes
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_server_sends_no_tools_to_a_client_that_has_not_declared_sampling_tools(
    mode: Mode, revision: str
) -> None:
    tool = types.Tool(name="look", input_schema={"type": "object"})

    async def handler(ctx: Context) -> str:
        try:
            answer: Any = await ctx.sample("Hi", max_tokens=1, tools=[tool], tool_choice=types.ToolChoice(mode="auto"))
        except MissingCapability as exc:
            return f"missing: {exc.required}"
        return str(answer.content.text)

    missing = "missing: {'sampling': {'tools': {}}}"
    with_tools = revision >= "2025-11-25"
    async with open_client(serve(handler, mode), **capable(revision=revision)) as client:
        assert success_text(await work(client)) == missing
    async with open_client(serve(handler, mode), **capable(revision=revision, sample_with_tools=True)) as client:
        assert success_text(await work(client)) == ("fine" if with_tools else missing)


@pytest.mark.requirement("B.24-S1b")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_sampling_request_does_not_include_context_by_default(revision: str) -> None:
    requests: list[types.CreateMessageRequestParams] = []

    async def on_sample(request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        requests.append(request)
        await trio.lowlevel.checkpoint()
        return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="hi"))

    async def handler(ctx: Context) -> str:
        answer = await ctx.sample(
            [types.SamplingMessage(role="user", content=[types.TextContent(text="Hi")])],
            max_tokens=7,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["."],
            metadata={"a": 1},
        )
        return answer.model

    async with open_memory_client(
        serve(handler), revision=revision, on_sample=on_sample, sample_with_context=True
    ) as client:
        assert success_text(await work(client)) == "m"
    (request,) = requests
    assert request.include_context in {None, "none"}
    assert (request.max_tokens, request.system_prompt, request.temperature) == (7, "Be brief.", 0.5)


@pytest.mark.requirement("B.24-P1")
@in_both_modes
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_the_server_does_not_send_a_conversation_that_every_client_must_reject(mode: Mode, revision: str) -> None:
    use = types.ToolUseContent(id="1", name="look", input={})
    result = types.ToolResultContent(tool_use_id="1", content=[])
    used = types.SamplingMessage(role="assistant", content=[use])
    mixed = types.SamplingMessage(role="user", content=[result, types.TextContent(text="and?")])
    conversations = [[used], [used, mixed], [types.SamplingMessage(role="user", content=[result])]]

    async def handler(ctx: Context) -> str:
        for conversation in conversations:
            with pytest.raises(ValueError, match="the messages cannot be sent"):
                await ctx.sample(conversation, max_tokens=1)
        return "fine"

    wire = Wire()
    async with open_memory_client(serve(handler, mode), **capable(revision=revision, tap=wire)) as client:
        assert success_text(await work(client)) == "fine"
    assert wire.requests_received == []


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_server_does_not_send_content_that_the_revision_cannot_carry(revision: str) -> None:
    blocks = [types.TextContent(text="Hi"), types.TextContent(text="there")]
    wire = Wire()

    async def handler(ctx: Context) -> str:
        try:
            await ctx.sample([types.SamplingMessage(role="user", content=blocks)], max_tokens=1)
        except StructureError as exc:
            return exc.faults[0]
        return "asked"

    with_lists = revision >= "2025-11-25"
    async with open_memory_client(serve(handler), **capable(revision=revision, tap=wire)) as client:
        outcome = success_text(await work(client))
    assert outcome == "asked" if with_lists else outcome.startswith("$.messages[0].content: ")
    assert with_lists or wire.requests_received == []


@pytest.mark.requirement("B.10-S2")
@in_all_legacy
async def test_the_context_of_a_finished_call_cannot_ask(revision: str) -> None:
    wire = Wire()
    kept: list[Context] = []

    async def handler(ctx: Context) -> None:
        kept.append(ctx)

    async with open_memory_client(serve(handler), **capable(revision=revision, tap=wire)) as client:
        await work(client)
        with pytest.raises(AskExpired, match="the call is over"):
            await kept[0].list_roots()
    assert wire.requests_received == []


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_completion_can_ask_only_a_legacy_client(revision: str) -> None:
    server = Server("s")
    refusals: list[str] = []

    @server.prompt
    def greet(name: str) -> str:
        return name

    @server.completion(prompt="greet", argument="name")
    async def names(_: str, ctx: Context) -> list[str]:
        try:
            return [root.uri for root in await ctx.list_roots()]
        except LocalProtocolError as exc:
            refusals.append(str(exc))
            return []

    async with open_client(server, **capable(revision=revision)) as client:
        completed = await client.complete(types.PromptReference(name="greet"), "name", "A")
    assert list(completed.values) == ([] if revision == MODERN else ["file:///home"])
    assert len(refusals) == (revision == MODERN)


# Answers.


@pytest.mark.requirement("B.23-S6")
@in_both_modes
@with_elicitation
async def test_the_handler_receives_declined_dismissed_and_failed_answers(mode: Mode, revision: str) -> None:
    async def handler(ctx: Context) -> str:
        try:
            match await ctx.elicit("How many?", Seats):
                case Accepted(value=seats):
                    return f"accepted {seats.count}"
                case Declined():
                    return "declined"
                case Dismissed():
                    return "dismissed"
        except ErrorResponse as exc:
            return f"failed: {exc.message}"

    outcomes: list[types.ElicitResult | Exception] = [
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="cancel"),
        types.ElicitResult(action="accept", content={"count": 3}),
        McpError(-1, "the user has left"),
    ]

    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with open_client(serve(handler, mode), revision=revision, on_elicit=on_elicit) as client:
        assert [success_text(await work(client)) for _ in range(3)] == ["declined", "dismissed", "accepted 3"]
        if revision == MODERN:  # a modern client that cannot answer does not retry
            with pytest.raises(McpError, match="the user has left"):
                await work(client)
        else:
            assert success_text(await work(client)) == "failed: the user has left"


@pytest.mark.requirement("B.23-S5")
@pytest.mark.parametrize("revision", WITH_ELICITATION[:-1])
async def test_an_invalid_answer_is_reported_as_the_fault_of_the_legacy_client(revision: str) -> None:
    """This test uses a scripted client because our client checks its answers."""

    async def handler(ctx: Context) -> str:
        with pytest.raises(RemoteProtocolError) as caught:
            await ctx.elicit("How many?", Seats)
        return str(caught.value)

    async with greeted(serve(handler), revision) as client:
        for content in ({"count": 10}, {"count": "2"}, {}, {"count": None}):
            await client.send(call(1))
            question = await client.expect_request("elicitation/create")
            answer = {"action": "accept", "content": content}
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            result = (await client.expect_response(1))["result"]
            assert "the answer does not fit" in result["content"][0]["text"]


def call(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "work"}}


@asynccontextmanager
async def greeted(server: Server, revision: str, *, initialized: bool = True) -> AsyncGenerator[ScriptedPeer]:
    """Yield a scripted client that declares forms and roots."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        client = ScriptedPeer(ours)
        capabilities: dict[str, Any] = {"elicitation": {}, "roots": {}}
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client.INFO}
        await client.request("initialize", params, envelope=None)
        if initialized:
            await client.notify("notifications/initialized")
        yield client
        await ours.aclose()


@pytest.mark.requirement("B.10-S2")
@in_all_legacy
async def test_the_server_does_not_ask_a_client_before_its_initialized_notification(revision: str) -> None:
    async def handler(ctx: Context) -> int:
        return len(await ctx.list_roots())

    async with greeted(serve(handler), revision, initialized=False) as client:
        await client.send(call(1))
        result = (await client.expect_response(1))["result"]
        assert "before its initialized notification" in result["content"][0]["text"]
        await client.notify("notifications/initialized")
        await client.send(call(2))
        question = await client.expect_request("roots/list")
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        assert (await client.expect_response(2))["result"]["content"][0]["text"] == "0"


async def test_a_legacy_client_that_fails_one_of_several_questions_is_not_asked_the_others() -> None:
    stopped = trio.Event()

    async def on_elicit(request: types.ElicitRequestParams) -> types.ElicitResult:
        if request.message == "fails":
            await wait_all_tasks_blocked()
            raise McpError(-1, "no")
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()
        raise AssertionError

    async def handler(ctx: Context) -> str:
        with pytest.raises(ErrorResponse, match="no"):
            await ctx.ask_all(Elicit("waits", Seats), Elicit("fails", Seats))
        return "fine"

    async with open_client(serve(handler), revision="2025-11-25", on_elicit=on_elicit) as client:
        assert success_text(await work(client)) == "fine"
        await stopped.wait()


# Mistakes of the handler.


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_an_invalid_question_raises_an_error_in_the_handler_that_asks_it(revision: str) -> None:
    async def handler(ctx: Context) -> str:
        elicit: Any = ctx.elicit
        with pytest.raises(TypeError, match="pass a form or url=, and not both"):
            await elicit("?")
        with pytest.raises(TypeError, match="pass a form or url=, and not both"):
            await elicit("?", Seats, url=PAGE)
        with pytest.raises(TypeError, match="pass at least one question"):
            await ctx.ask_all()
        with pytest.raises(TypeError, match="pass at least one visit"):
            ctx.url_elicitation_required()
        return "fine"

    async with open_client(serve(handler), **capable(revision=revision)) as client:
        assert success_text(await work(client)) == "fine"


@pytest.mark.requirement("B.25-S1")
@in_both_modes
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_client_may_have_no_roots(mode: Mode, revision: str) -> None:
    async def handler(ctx: Context) -> str:
        return f"{len(await ctx.list_roots())} roots"

    async with open_client(serve(handler, mode), **capable(revision=revision, roots=[])) as client:
        assert success_text(await work(client)) == "0 roots"
