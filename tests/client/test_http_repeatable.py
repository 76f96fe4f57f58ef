"""Responses that are lost: the requests that the client repeats, and those that it does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client.http_origin import LEGACY, MODERN, Answer, Cut, HttpOrigin, Json, ReceivedRequest, connected, modern
from trio_mcp import Client, ResponseLost, types

RequestFunction = Callable[[Client], Awaitable[Any]]
DONE: Json = {"content": []}
PROMPT = types.PromptReference(name="p")

READING: dict[str, tuple[RequestFunction, Json]] = {
    "completion/complete": (lambda client: client.complete(PROMPT, "a", "v"), {"completion": {"values": []}}),
    "prompts/get": (lambda client: client.get_prompt("p"), {"messages": []}),
    "prompts/list": (lambda client: client.list_prompts(), {"prompts": []}),
    "resources/list": (lambda client: client.list_resources(), {"resources": []}),
    "resources/read": (lambda client: client.read_resource("a:b"), {"contents": []}),
    "resources/templates/list": (lambda client: client.list_resource_templates(), {"resourceTemplates": []}),
    "tools/list": (lambda client: client.list_tools(), {"tools": []}),
}
OF_MODERN: dict[str, tuple[RequestFunction, Json]] = {
    "server/discover": (lambda client: client.discover(), {"supportedVersions": [MODERN], "capabilities": {}}),
}
OF_SESSIONS: dict[str, tuple[RequestFunction, Json]] = {
    "logging/setLevel": (lambda client: client.set_log_level("info"), {}),
    "ping": (lambda client: client.ping(), {}),
    "resources/subscribe": (lambda client: client.subscribe_resource("a:b"), {}),
    "resources/unsubscribe": (lambda client: client.unsubscribe_resource("a:b"), {}),
}
CASES = [
    *((MODERN, method, send, result) for method, (send, result) in (READING | OF_MODERN).items()),
    *((LEGACY, method, send, result) for method, (send, result) in (READING | OF_SESSIONS).items()),
]


def losing(count: int, result: Json) -> Callable[[ReceivedRequest], Answer]:
    """Return a reply that loses the first *count* responses and sends *result* afterwards."""
    answers: list[Answer] = [Cut()] * count

    def reply(request: ReceivedRequest) -> Answer:
        return answers.pop() if answers else result

    return reply


@pytest.mark.requirement("B.8-C4")
@pytest.mark.parametrize(
    ("revision", "method", "send", "result"), CASES, ids=lambda value: value if isinstance(value, str) else "-"
)
async def test_idempotent_requests_are_repeated_once(
    revision: str, method: str, send: RequestFunction, result: Json
) -> None:
    origin = HttpOrigin(revision)
    result = modern(**result) if revision == MODERN else result

    async with connected(origin) as client:
        before = len(origin.of(method))
        origin.replies[method] = losing(1, result)
        await send(client)
        assert len(origin.of(method)) == before + 2
        origin.replies[method] = losing(2, result)
        with pytest.raises(ResponseLost) as lost:
            await send(client)
        await send(client)

    assert lost.value.sent


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_tool_call_is_repeated_only_if_the_caller_declares_it_repeatable(revision: str) -> None:
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


async def test_a_custom_request_is_not_repeated() -> None:
    origin = HttpOrigin(replies={"com.example/go": losing(1, modern())})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost):
            await client.request("com.example/go", {}, dict)

    assert len(origin.of("com.example/go")) == 1


@pytest.mark.parametrize("repeatable", [False, True])
async def test_answers_to_questions_are_repeated_only_if_the_call_is_repeatable(
    repeatable: bool,
) -> None:
    question = modern(resultType="input_required", requestState="sealed")
    answers: list[Answer] = [question, Cut(), modern(**DONE)]
    origin = HttpOrigin(replies={"tools/call": lambda _: answers.pop(0)})

    async with connected(origin) as client:
        if repeatable:
            assert (await client.call_tool("book", repeatable=True)).content == []
        else:
            with pytest.raises(ResponseLost):
                await client.call_tool("book")

    assert len(origin.of("tools/call")) == (3 if repeatable else 2)


async def test_answers_to_the_questions_of_a_prompt_are_not_repeated() -> None:
    answers: list[Answer] = [modern(resultType="input_required", requestState="sealed"), Cut(), modern(messages=[])]
    origin = HttpOrigin(replies={"prompts/get": lambda _: answers.pop(0)})

    async with connected(origin) as client:
        with pytest.raises(ResponseLost):
            await client.get_prompt("p")
        assert (await client.get_prompt("p")).messages == []
