"""Questions of servers behind a gateway: the caller's client answers them, in every combination of eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Unpack

import pytest
import trio
from attrs import evolve

from tests.gateway.helpers import (
    ERAS,
    LEGACY,
    MODERN,
    Way,
    behind,
    client_of,
    contents,
    everywhere,
    front,
    in_all_eras,
    in_processes_too,
    opened,
    server_of,
    text,
    text_of,
    through,
)
from tests.gateway.upstream_server import make_server
from trio_mcp import Accepted, Client, ClientOptions, Context, ErrorResponse, McpError, types

ROOTS = [types.Root(uri="file:///home", name="home")]


async def accept(question: Any) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    if isinstance(question, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content={"count": 2})


async def decline(_: Any) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="decline")


async def cancel(_: Any) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="cancel")


async def sample(question: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    await trio.lowlevel.checkpoint()
    content: Any = types.TextContent(text=f"fine, in {question.max_tokens} words")
    if question.tools:
        content = types.ToolUseContent(id="1", name=question.tools[0].name, input={"city": "Graz"})
    return types.CreateMessageResult(role="assistant", model="m", content=content)


CAPABLE: ClientOptions = {
    "on_elicit": accept,
    "elicit_modes": ["form", "url"],
    "on_sample": sample,
    "sample_with_tools": True,
    "roots": ROOTS,
}


def capable(**options: Unpack[ClientOptions]) -> ClientOptions:
    """Return the options of a client that answers every question, with others."""
    return {**CAPABLE, **options}


ASKING_WAYS = everywhere.args[1]


def has(way: Way, since: str) -> bool:
    """Return True if both revisions have what came with the revision *since*."""
    return way.oldest >= since


def with_forms(ways: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """Return those of the ways whose two revisions have forms."""
    return pytest.mark.parametrize("way", [way for way in ways.args[1] if has(way, "2025-06-18")], ids=str)


# Each kind of question.


@with_forms(in_processes_too)
async def test_a_form_is_filled_in_by_the_caller(way: Way) -> None:
    async with through(way, **CAPABLE) as client:
        assert text(await client.call_tool("ask", {"question": "How many?"})) == "2 for How many?"


@with_forms(everywhere)
async def test_prompts_and_resources_can_ask(way: Way) -> None:
    async with through(way, **CAPABLE) as client:
        prompt = await client.get_prompt("invitation")
        resource = await client.read_resource("table://reserved")

    assert prompt.messages[0].content == types.TextContent(text="Invite 2 for How many guests?.")
    assert contents(resource) == "A table: 2 for How many seats?."


@in_all_eras
async def test_a_page_is_visited(way: Way) -> None:
    seen: list[Any] = []

    async def visit(question: Any) -> types.ElicitResult:
        seen.append((question.message, question.url))
        return await accept(question)

    async with through(way, **capable(on_elicit=visit)) as client:
        assert text(await client.call_tool("visit")) == "Accepted"

    assert seen == [("Please pay.", "https://example.com/pay")]


@pytest.mark.parametrize("revision", [LEGACY, MODERN, "2025-06-18"])
async def test_a_caller_is_told_that_its_user_has_finished_on_a_page(revision: str) -> None:
    server, done = server_of(LEGACY), list[str]()
    finished = trio.Event()

    @server.tool
    async def pay(number: int, ctx: Context) -> None:
        answer = await ctx.elicit("Please pay.", url="https://example.com/pay", elicitation_id=f"visit-{number}")
        assert isinstance(answer, Accepted)

    @server.tool
    async def finish(ctx: Context) -> None:
        for number in (0, 50, 50, 119):  # the first was too long ago, and a visit is finished once
            await ctx.elicitation_complete(f"visit-{number}")

    async def completed(visit: types.ElicitationCompleteNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        done.append(visit.elicitation_id)
        if len(done) == 2:
            finished.set()

    async def visit(question: Any) -> types.ElicitResult:
        del question
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept")

    options: Any = {"on_elicit": visit, "elicit_modes": ["url"], "on_elicit_complete": completed}
    async with opened(front(server), Way(LEGACY, revision, down_by="bytes"), **options) as client:
        if revision == "2025-06-18":  # which has no pages
            assert (await client.call_tool("pay", {"number": 1})).is_error
            await client.call_tool("finish")
        else:
            for number in range(120):
                assert not (await client.call_tool("pay", {"number": number})).is_error
            await client.call_tool("finish")
        if revision == LEGACY:
            with trio.fail_after(60):
                await finished.wait()
        await client.list_tools()
    assert done == (["visit-50", "visit-119"] if revision == LEGACY else [])


@everywhere
async def test_the_model_of_the_caller_is_asked(way: Way) -> None:
    seen: list[Any] = []

    async def thinking(question: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        seen.append((question.system_prompt, question.max_tokens, question.messages[0].content))
        return await sample(question)

    async with through(way, **capable(on_sample=thinking)) as client:
        assert text(await client.call_tool("think")) == "m: fine, in 7 words"

    assert seen == [("Be short.", 7, types.TextContent(text="What is the answer?"))]


@in_all_eras
async def test_the_model_of_the_caller_may_use_tools(way: Way) -> None:
    async with through(way, **CAPABLE) as client:
        assert text(await client.call_tool("think_with_tools")) == "weather {'city': 'Graz'}"


@everywhere
async def test_the_roots_of_the_caller_are_listed(way: Way) -> None:
    async with through(way, **CAPABLE) as client:
        assert text(await client.call_tool("where")) == '["file:///home"]'


@with_forms(in_processes_too)
async def test_several_questions_are_asked_at_once(way: Way) -> None:
    async with through(way, **CAPABLE) as client:
        assert text(await client.call_tool("several")) == "2 1 m"


@with_forms(everywhere)
async def test_questions_follow_one_another(way: Way) -> None:
    asked: list[str] = []

    async def answer(question: Any) -> types.ElicitResult:
        asked.append(question.message)
        return await accept(question)

    async with through(way, **capable(on_elicit=answer)) as client:
        result = await client.call_tool("rounds")

    assert "2 for third?" in str(result.content)
    assert asked == ["first?", "second?", "third?"]


# Answers that are none.


@in_all_eras
@pytest.mark.parametrize(("answer", "said"), [(decline, "Declined"), (cancel, "Dismissed")])
async def test_a_question_can_be_declined_and_dismissed(way: Way, answer: Any, said: str) -> None:
    async with through(way, **capable(on_elicit=answer)) as client:
        assert text(await client.call_tool("ask", {"question": "How many?"})) == said


NEEDS: dict[str, dict[str, Any]] = {
    "ask": {"elicitation": {"form": {}}},
    "think": {"sampling": {}},
    "where": {"roots": {}},
}


@in_all_eras
@pytest.mark.parametrize("tool", NEEDS)
async def test_a_client_that_cannot_answer_is_told_which_capability_it_lacks(way: Way, tool: str) -> None:
    async with through(way) as client:
        arguments = {"question": "How many?"} if tool == "ask" else None
        (capability,) = NEEDS[tool]
        if way.is_modern:
            with pytest.raises(ErrorResponse, match=capability) as refused:
                await client.call_tool(tool, arguments)
            assert refused.value.code == -32021
            assert capability in refused.value.data["requiredCapabilities"]
        else:
            failed = await client.call_tool(tool, arguments)
            assert failed.is_error
            assert capability in text_of(failed)


@in_all_eras
async def test_a_prompt_that_asks_a_client_that_cannot_answer_is_refused(way: Way) -> None:
    async with through(way) as client:
        with pytest.raises(ErrorResponse, match="elicitation") as refused:
            await client.get_prompt("invitation")

    assert refused.value.code == (-32021 if way.is_modern else -32603)


@in_all_eras
async def test_a_client_that_lacks_one_way_to_ask_can_answer_in_another(way: Way) -> None:
    async with through(way, on_elicit=accept) as client:
        assert text(await client.call_tool("ask", {"question": "How many?"})) == "2 for How many?"


@in_all_eras
async def test_an_error_in_place_of_an_answer_ends_the_call(way: Way) -> None:
    async def refuse(_: Any) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        raise McpError(-7, "not now")

    async with through(way, **capable(on_elicit=refuse)) as client:
        if way.is_modern:  # the client raises what its callback raises
            with pytest.raises(McpError, match="not now"):
                await client.call_tool("ask", {"question": "How many?"})
        elif way.upstream == MODERN:  # a modern server cannot be told of an error
            with pytest.raises(ErrorResponse, match="not now") as failed:
                await client.call_tool("ask", {"question": "How many?"})
            assert failed.value.code == -7
        else:
            result = await client.call_tool("ask", {"question": "How many?"})
            assert result.is_error
            assert "not now" in text_of(result)
        assert text(await client.call_tool("nothing")) == "nothing was needed"


# Two callers at once.


@asynccontextmanager
async def two_callers(way: Way, first: Any, second: Any) -> AsyncGenerator[tuple[Client, Client]]:
    """Open two clients of one gateway, each with its own answer."""
    async with (
        front(make_server(way.upstream)).serving() as serving,
        client_of(serving, way, "ada", on_elicit=first) as ada,
        client_of(serving, way, "bob", on_elicit=second) as bob,
    ):
        yield ada, bob


def answering(count: int) -> Any:
    async def answer(_: Any) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={"count": count})

    return answer


@in_all_eras
async def test_two_callers_one_after_the_other_are_each_asked_their_own_questions(way: Way) -> None:
    async with two_callers(way, answering(1), answering(2)) as (ada, bob):
        assert text(await ada.call_tool("ask", {"question": "a?"})) == "1 for a?"
        assert text(await bob.call_tool("ask", {"question": "b?"})) == "2 for b?"


@in_all_eras
async def test_two_callers_at_once_never_answer_each_other_s_questions(way: Way) -> None:
    """A modern server says which request asks. A legacy one does not, so that its question cannot be passed on."""
    asked: list[str] = []

    async def ask(client: Client, who: str) -> None:
        result = await client.call_tool("ask", {"question": who})
        if way.upstream == MODERN:
            assert text(result) == f"{1 if who == 'ada' else 2} for {who}"
        elif result.is_error:
            assert "calls of several callers are in flight" in text_of(result)

    def noting(who: str, count: int) -> Any:
        async def answer(question: Any) -> types.ElicitResult:
            asked.append(f"{who} was asked {question.message}")
            given: types.ElicitResult = await answering(count)(question)
            return given

        return answer

    async with two_callers(way, noting("ada", 1), noting("bob", 2)) as (ada, bob):
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, ada, "ada")
                nursery.start_soon(ask, bob, "bob")

    assert set(asked) <= {"ada was asked ada", "bob was asked bob"}


@pytest.mark.parametrize("way", [evolve(way, up_by="http") for way in ERAS], ids=str)
async def test_over_http_two_callers_at_once_are_always_asked(way: Way) -> None:
    """A question that comes in the response to a call belongs to it."""
    async with (
        behind(way) as target,
        front(target).serving() as serving,
        client_of(serving, way, "ada", on_elicit=answering(1)) as ada,
        client_of(serving, way, "bob", on_elicit=answering(2)) as bob,
    ):
        answers: list[str] = []

        async def ask(client: Client, who: str) -> None:
            answers.append(text(await client.call_tool("ask", {"question": who})))

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, ada, "ada")
                nursery.start_soon(ask, bob, "bob")

    assert sorted(answers) == ["1 for ada"] * 3 + ["2 for bob"] * 3


@in_all_eras
async def test_with_connections_of_their_own_two_callers_at_once_are_always_asked(way: Way) -> None:
    gateway = front()
    gateway.mount(make_server(way.upstream), share="principal")
    answers: list[str] = []

    async def ask(client: Client, who: str) -> None:
        answers.append(text(await client.call_tool("ask", {"question": who})))

    async with (
        gateway.serving() as serving,
        client_of(serving, way, "ada", on_elicit=answering(1)) as ada,
        client_of(serving, way, "bob", on_elicit=answering(2)) as bob,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ask, ada, "ada")
        nursery.start_soon(ask, bob, "bob")

    assert sorted(answers) == ["1 for ada", "2 for bob"]


@in_all_eras
async def test_one_caller_can_be_asked_by_several_calls_at_once(way: Way) -> None:
    answers: list[str] = []

    async def ask(question: str) -> None:
        answers.append(text(await client.call_tool("ask", {"question": question})))

    async with (
        opened(front(make_server(way.upstream)), way, on_elicit=accept) as client,
        trio.open_nursery() as nursery,
    ):
        for question in ("a?", "b?", "c?"):
            nursery.start_soon(ask, question)

    assert sorted(answers) == ["2 for a?", "2 for b?", "2 for c?"]


# The rounds of a modern caller.


@pytest.mark.parametrize(
    "way",
    [each for each in ASKING_WAYS if each.is_modern and each.up_by == "memory" and has(each, "2025-06-18")],
    ids=str,
)
async def test_a_modern_caller_gets_the_questions_in_the_result_and_its_state_is_for_this_call_alone(way: Way) -> None:
    async with through(way, **CAPABLE) as client:

        async def attempt(tool: str, arguments: Any, **more: Any) -> Any:
            async with client.open_call(tool, arguments, manual_input=True, **more) as call:
                return await call.result()

        interim = await attempt("ask", {"question": "a?"})
        assert isinstance(interim, types.InputRequiredResult)
        ((key, question),) = (interim.input_requests or {}).items()
        assert isinstance(question, types.ElicitRequest)
        assert question.params.message == "a?"
        answers = {key: types.ElicitResult(action="accept", content={"count": 5})}
        with pytest.raises(ErrorResponse):
            await attempt("ask", {"question": "b?"}, input_responses=answers, request_state=interim.request_state)
        with pytest.raises(ErrorResponse):
            await attempt("ask", {"question": "a?"}, input_responses=answers, request_state="made up")
        done = await attempt("ask", {"question": "a?"}, input_responses=answers, request_state=interim.request_state)
        assert text(done) == "5 for a?"
