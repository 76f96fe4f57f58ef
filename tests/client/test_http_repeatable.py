"""Answers that are lost on the way: what is asked once more, and what is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client.http_origin import LEGACY, MODERN, Answer, Cut, Got, HttpOrigin, Json, connected, modern
from trio_mcp import Client, ResponseLost, types

Ask = Callable[[Client], Awaitable[Any]]
DONE: Json = {"content": []}
PROMPT = types.PromptReference(name="p")

READING: dict[str, tuple[Ask, Json]] = {
    "completion/complete": (lambda client: client.complete(PROMPT, "a", "v"), {"completion": {"values": []}}),
    "prompts/get": (lambda client: client.get_prompt("p"), {"messages": []}),
    "prompts/list": (lambda client: client.list_prompts(), {"prompts": []}),
    "resources/list": (lambda client: client.list_resources(), {"resources": []}),
    "resources/read": (lambda client: client.read_resource("a:b"), {"contents": []}),
    "resources/templates/list": (lambda client: client.list_resource_templates(), {"resourceTemplates": []}),
    "tools/list": (lambda client: client.list_tools(), {"tools": []}),
}
OF_MODERN: dict[str, tuple[Ask, Json]] = {
    "server/discover": (lambda client: client.discover(), {"supportedVersions": [MODERN], "capabilities": {}}),
}
OF_SESSIONS: dict[str, tuple[Ask, Json]] = {
    "logging/setLevel": (lambda client: client.set_log_level("info"), {}),
    "ping": (lambda client: client.ping(), {}),
    "resources/subscribe": (lambda client: client.subscribe_resource("a:b"), {}),
    "resources/unsubscribe": (lambda client: client.unsubscribe_resource("a:b"), {}),
}
CASES = [
    *((MODERN, method, ask, result) for method, (ask, result) in (READING | OF_MODERN).items()),
    *((LEGACY, method, ask, result) for method, (ask, result) in (READING | OF_SESSIONS).items()),
]


def losing(count: int, result: Json) -> Callable[[Got], Answer]:
    """Lose the first answers, and give the rest."""
    answers: list[Answer] = [Cut()] * count

    def reply(got: Got) -> Answer:
        return answers.pop() if answers else result

    return reply


@pytest.mark.requirement("B.8-C4")
@pytest.mark.parametrize(
    ("revision", "method", "ask", "result"), CASES, ids=lambda value: value if isinstance(value, str) else "-"
)
async def test_idempotent_requests_are_repeated_once(revision: str, method: str, ask: Ask, result: Json) -> None:
    origin = HttpOrigin(revision)
    result = modern(**result) if revision == MODERN else result

    async with connected(origin) as client:
        before = len(origin.of(method))
        origin.replies[method] = losing(1, result)
        await ask(client)
        assert len(origin.of(method)) == before + 2
        origin.replies[method] = losing(2, result)
        with pytest.raises(ResponseLost) as lost:
            await ask(client)
        await ask(client)

    assert lost.value.sent


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_tool_is_called_once_unless_the_caller_says_that_twice_does_no_harm(revision: str) -> None:
    origin = HttpOrigin(revision, {"tools/call": losing(1, modern(**DONE))})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost):
            await client.call_tool("book")
        assert len(origin.of("tools/call")) == 1

        origin.replies["tools/call"] = losing(1, modern(**DONE))
        assert (await client.call_tool("book", repeatable=True)).content == []
        assert len(origin.of("tools/call")) == 3

        origin.replies["tools/call"] = losing(1, modern(**DONE))
        async with client.open_call("book", repeatable=True) as call:
            assert (await call.result()).content == []


async def test_a_request_of_the_application_s_own_is_made_once() -> None:
    origin = HttpOrigin(replies={"com.example/go": losing(1, modern())})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost):
            await client.request("com.example/go", {}, dict)

    assert len(origin.of("com.example/go")) == 1


@pytest.mark.parametrize("repeatable", [False, True])
async def test_the_answers_to_a_round_of_questions_are_sent_once_more_only_if_the_caller_says_so(
    repeatable: bool,
) -> None:
    asked = modern(resultType="input_required", requestState="sealed")
    answers: list[Answer] = [asked, Cut(), modern(**DONE)]
    origin = HttpOrigin(replies={"tools/call": lambda _: answers.pop(0)})

    async with connected(origin) as client:
        if repeatable:
            assert (await client.call_tool("book", repeatable=True)).content == []
        else:
            with pytest.raises(ResponseLost):
                await client.call_tool("book")

    assert len(origin.of("tools/call")) == (3 if repeatable else 2)


async def test_a_prompt_s_answers_are_not_sent_once_more() -> None:
    answers: list[Answer] = [modern(resultType="input_required", requestState="sealed"), Cut(), modern(messages=[])]
    origin = HttpOrigin(replies={"prompts/get": lambda _: answers.pop(0)})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost):
            await client.get_prompt("p")
        assert (await client.get_prompt("p")).messages == []
