"""Validation of questions before a callback runs, and of the callback's answers before they are sent."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client.scripted_questions import (
    DONE,
    HI,
    HOW_MANY,
    SAMPLE,
    TWO,
    URL_PARAMS,
    VISIT_URL,
    Json,
    answer_hi,
    answer_two,
    fail_if_asked,
    in_background,
    interim,
    scripted_server,
)
from trio_mcp import (
    Context,
    ErrorResponse,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    Server,
    open_memory_client,
    types,
)

LEGACY = "2025-11-25"


def accepting(content: Any, action: Any = "accept") -> Any:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action=action, content=content)

    return on_elicit


def returning(answer: Any) -> Any:
    async def on_sample(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        return answer

    return on_sample


def form(properties: Json, required: list[str] | None = None, more: Json | None = None) -> Json:
    schema = (
        {"type": "object", "properties": properties}
        | (more or {})
        | ({} if required is None else {"required": required})
    )
    return {"message": "?", "requestedSchema": schema}


async def answer_to(params: Json, method: str = "elicitation/create", revision: str = LEGACY, **options: Any) -> Json:
    """Return the client's answer to a request of the server."""
    async with scripted_server(revision=revision, **options) as (client, server):
        answer = await server.request(method, params)
        async with in_background(client.list_tools):  # the connection works after any answer
            await server.answer({"tools": []}, method="tools/list")
    del answer["jsonrpc"], answer["id"]
    return answer


async def outcome_of(question: Json, **options: Any) -> Any:
    """Return the client's answer to a question inside a result, or the exception of the call."""
    answers: list[Any] = []
    async with (
        scripted_server(**options) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
        trio.open_nursery() as nursery,
    ):

        async def serve() -> None:
            await server.answer(interim("s", q=question))
            answers.append((await server.answer(DONE))["params"]["inputResponses"]["q"])

        nursery.start_soon(serve)
        while not (outcome or answers):
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return answers[0] if answers else outcome[0]


# Answers to forms.

UNFIT: dict[str, tuple[Any, str]] = {
    "a wrong type": ({"count": "two"}, "$.count: expected integer, got string"),
    "out of bounds": ({"count": 0}, "$.count: 0 is less than the minimum of 1"),
    "left out": ({}, "$.count: required, but missing"),
    "no content": (None, "$.count: required, but missing"),
}


@pytest.mark.requirement("B.23-C3")
@pytest.mark.parametrize("case", UNFIT)
async def test_accepted_content_that_does_not_match_the_form_is_not_sent(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, fault = UNFIT[case]
    message = f"on_elicit accepted a form with invalid content: {fault}"
    for revision in ("2025-06-18", LEGACY):
        caplog.clear()
        answer = await answer_to(HOW_MANY["params"], revision=revision, on_elicit=accepting(content))
        assert answer == {"error": {"code": -32603, "message": message}}
        assert message in caplog.text
    outcome = await outcome_of(HOW_MANY, on_elicit=accepting(content))
    assert isinstance(outcome, LocalProtocolError)
    assert str(outcome) == message


FIT: dict[str, tuple[Json, Any, Json]] = {
    "it fits": (HOW_MANY["params"], {"count": 2}, TWO),
    "a whole number with a fraction of zero": (
        HOW_MANY["params"],
        {"count": 2.0},
        {"action": "accept", "content": {"count": 2.0}},
    ),
    "a form without fields": (form({}), None, {"action": "accept"}),
    "a form without required fields": (form({"a": {"type": "string"}}), {}, {"action": "accept", "content": {}}),
    "choices": (
        form(
            {
                "one": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
                "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
                "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
            }
        ),
        {"one": "b", "titled": "a", "many": ["a", "b"]},
        {"action": "accept", "content": {"one": "b", "titled": "a", "many": ["a", "b"]}},
    ),
    "a form of an unknown dialect cannot be checked": (
        form({"a": {"type": "string"}}, more={"$schema": "urn:odd"}),
        {"a": "x"},
        {"action": "accept", "content": {"a": "x"}},
    ),
}


@pytest.mark.requirement("B.23-C3")
@pytest.mark.parametrize("case", FIT)
async def test_accepted_content_that_matches_the_form_is_sent_unchanged(case: str) -> None:
    params, content, answer = FIT[case]
    assert await answer_to(params, on_elicit=accepting(content)) == {"result": answer}
    assert await outcome_of({"method": "elicitation/create", "params": params}, on_elicit=accepting(content)) == answer


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_content_is_sent_only_with_an_accepted_form(action: str) -> None:
    on_elicit = accepting({"count": "secret"}, action)
    assert await answer_to(HOW_MANY["params"], on_elicit=on_elicit) == {"result": {"action": action}}
    assert await outcome_of(HOW_MANY, on_elicit=on_elicit) == {"action": action}


PREFILLED = form(
    {
        "count": {"type": "integer", "default": 1, "minimum": 1},
        "where": {"type": "string", "enum": ["stalls", "circle"], "default": "circle"},
        "sure": {"type": "boolean", "default": False},
        "odd": {"type": "string", "maxLength": 1, "default": "too long"},
        "note": {"type": "string"},
    },
    ["count"],
)


@pytest.mark.parametrize(
    ("content", "filled"),
    [
        (None, {"count": 1, "where": "circle", "sure": False}),
        ({"count": 2, "sure": True, "note": "x"}, {"count": 2, "where": "circle", "sure": True, "note": "x"}),
    ],
)
async def test_apply_form_defaults_adds_valid_defaults_of_missing_fields(content: Any, filled: Json) -> None:
    options: Json = {"on_elicit": accepting(content), "apply_form_defaults": True}
    accepted = {"action": "accept", "content": filled}
    assert await answer_to(PREFILLED, **options) == {"result": accepted}
    assert await outcome_of({"method": "elicitation/create", "params": PREFILLED}, **options) == accepted


async def test_without_apply_form_defaults_no_default_is_added() -> None:
    answer = await answer_to(PREFILLED, on_elicit=accepting({"count": 3}))
    assert answer == {"result": {"action": "accept", "content": {"count": 3}}}


async def test_defaults_are_not_added_to_a_declined_form() -> None:
    answer = await answer_to(PREFILLED, on_elicit=accepting(None, "decline"), apply_form_defaults=True)
    assert answer == {"result": {"action": "decline"}}


@pytest.mark.parametrize("answer", [None, {"action": "accept"}, HI])
async def test_a_callback_that_returns_a_wrong_type_is_an_error(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    refused = {"error": {"code": -32603, "message": "this client failed to answer 'elicitation/create'"}}
    assert await answer_to(HOW_MANY["params"], on_elicit=returning(answer)) == refused
    assert "on_elicit returned" in caplog.text
    outcome = await outcome_of(HOW_MANY, on_elicit=returning(answer))
    assert isinstance(outcome, TypeError)
    assert str(outcome).endswith("expected types.ElicitResult")


# URLs to visit.


async def test_a_url_elicitation_is_answered_without_content() -> None:
    seen: list[Any] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        seen.append(request)
        return types.ElicitResult(action="accept", content={"a": "b"})

    options: Json = {"on_elicit": on_elicit, "elicit_modes": ("url",)}
    assert await answer_to({**URL_PARAMS, "elicitationId": "1"}, **options) == {"result": {"action": "accept"}}
    assert await outcome_of(VISIT_URL, **options) == {"action": "accept"}
    assert [each.url for each in seen] == ["https://example.com/login"] * 2


async def test_a_form_is_refused_if_only_url_elicitation_is_declared() -> None:
    answer = await answer_to(HOW_MANY["params"], on_elicit=fail_if_asked, elicit_modes=("url",))
    assert answer["error"]["code"] == -32602
    assert "'elicitation.form'" in answer["error"]["message"]


def complete(elicitation: Any) -> Json:
    params = {"elicitationId": elicitation}
    return {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}


@pytest.mark.requirement("B.23-L2")
async def test_on_elicit_complete_is_called_once_and_only_for_known_elicitations(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []
    all_received = trio.Event()

    async def on_elicit_complete(visit: types.ElicitationCompleteNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        done.append(visit.elicitation_id)
        if visit.elicitation_id == "broken":
            raise KeyError("mine")
        if visit.elicitation_id == "last":
            all_received.set()

    required = [{**URL_PARAMS, "elicitationId": each} for each in ("error", "last")]
    options: Any = {"on_elicit": accepting(None), "elicit_modes": ("url",), "on_elicit_complete": on_elicit_complete}
    async with scripted_server(revision=LEGACY, **options) as (client, server):
        for name in ("asked", "broken"):
            await server.request("elicitation/create", {**URL_PARAMS, "elicitationId": name})
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.refuse(-32042, {"elicitations": required})
        error = outcome[0]
        assert isinstance(error, ErrorResponse)
        data = types.structure(error.data, types.URLElicitationRequiredErrorData)
        assert [each.elicitation_id for each in data.elicitations] == ["error", "last"]
        for each in ("unknown", 7, None, "asked", "asked", "broken", "error", "last"):
            await server.send(complete(each))
        await server.send({"jsonrpc": "2.0", "method": "notifications/elicitation/complete"})
        await all_received.wait()
    assert done == ["asked", "broken", "error", "last"]
    assert "on_elicit_complete failed" in caplog.text


async def test_on_elicit_complete_that_never_returns_is_cancelled_and_loses_only_one_notification(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    last = trio.Event()

    async def on_elicit_complete(visit: types.ElicitationCompleteNotificationParams) -> None:
        if visit.elicitation_id == "hangs":
            await trio.sleep_forever()
        last.set()

    options: Any = {"on_elicit": accepting(None), "elicit_modes": ("url",), "on_elicit_complete": on_elicit_complete}
    async with scripted_server(revision=LEGACY, **options) as (_, server):
        for name in ("hangs", "last"):
            await server.request("elicitation/create", {**URL_PARAMS, "elicitationId": name})
            await server.send(complete(name))
        await last.wait()
    assert "on_elicit_complete was cancelled: it did not return within 60 s" in caplog.text


@pytest.mark.requirement("B.23-L2")
async def test_completed_elicitations_are_ignored_without_a_callback() -> None:
    async with scripted_server(revision=LEGACY, on_elicit=accepting(None), elicit_modes=("url",)) as (client, server):
        await server.request("elicitation/create", {**URL_PARAMS, "elicitationId": "1"})
        await server.send(complete("1"))
        async with in_background(client.list_tools):
            await server.answer({"tools": []})


@pytest.mark.parametrize("data", [None, 7, {}, {"elicitations": [{"url": 7}]}])
async def test_an_error_with_an_invalid_list_of_elicitations_is_raised_unchanged(
    data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        scripted_server(revision=LEGACY, on_elicit=fail_if_asked, elicit_modes=("url",)) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.refuse(-32042, data)
    assert outcome[0].data == data
    assert "error -32042 of the server lists no valid pages" in caplog.text


async def test_the_client_forgets_the_oldest_of_too_many_elicitations() -> None:
    done: list[str] = []
    all_received = trio.Event()

    async def on_elicit_complete(visit: types.ElicitationCompleteNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        done.append(visit.elicitation_id)
        all_received.set()

    options: Any = {"on_elicit": fail_if_asked, "elicit_modes": ("url",), "on_elicit_complete": on_elicit_complete}
    required = [{**URL_PARAMS, "elicitationId": str(number)} for number in range(1025)]
    async with scripted_server(revision=LEGACY, **options) as (client, server):
        async with in_background(lambda: client.call_tool("t")):
            await server.refuse(-32042, {"elicitations": required})
        await server.send(complete("0"), complete("1"))
        await all_received.wait()
    assert done == ["1"]


# Sampling requests.

USE: Json = {"type": "tool_use", "id": "u1", "name": "add", "input": {}}
USE_2: Json = {**USE, "id": "u2"}
RESULT: Json = {"type": "tool_result", "toolUseId": "u1", "content": []}
RESULT_2: Json = {**RESULT, "toolUseId": "u2"}
TEXT: Json = {"type": "text", "text": "?"}


def sampling_params(*contents: Any) -> Json:
    roles = ["user", "assistant"] * len(contents)
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    return {"messages": messages, "maxTokens": 5, "tools": []}


BROKEN_CONVERSATIONS: dict[str, tuple[Json, str]] = {
    "a result beside something else": (sampling_params(TEXT, USE, [RESULT, TEXT]), "$.messages[2]"),
    "a result that is missing": (sampling_params(TEXT, [USE, USE_2], RESULT), "'u2'"),
    "no result at all": (sampling_params(TEXT, USE, TEXT), "'u1'"),
    "a tool use at the end": (sampling_params(TEXT, USE), "'u1'"),
    "a result without a tool use": (sampling_params(RESULT), "'u1'"),
}


@pytest.mark.requirement("B.24-P1")
@pytest.mark.parametrize("case", BROKEN_CONVERSATIONS)
async def test_a_conversation_whose_tool_results_do_not_match_the_tool_uses_is_refused(case: str) -> None:
    params, name = BROKEN_CONVERSATIONS[case]
    options: Json = {"on_sample": fail_if_asked, "sample_with_tools": True}
    error = (await answer_to(params, "sampling/createMessage", **options))["error"]
    assert error["code"] == -32602
    assert name in error["message"]
    outcome = await outcome_of({"method": "sampling/createMessage", "params": params}, **options)
    assert isinstance(outcome, RemoteProtocolError)
    assert name in str(outcome)


@pytest.mark.requirement("B.24-P1")
async def test_a_conversation_with_tools_reaches_on_sample_and_its_tool_uses_reach_the_server() -> None:
    result = types.CreateMessageResult(
        role="assistant",
        model="m",
        content=[types.TextContent(text="hm"), types.ToolUseContent(id="u3", name="add", input={"a": 1})],
        stop_reason="toolUse",
    )
    params = sampling_params(TEXT, [USE, USE_2], [RESULT_2, RESULT]) | {"toolChoice": {"mode": "required"}}
    options: Json = {"on_sample": returning(result), "sample_with_tools": True}
    answer = {
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "hm"},
            {"type": "tool_use", "id": "u3", "name": "add", "input": {"a": 1}},
        ],
        "stopReason": "toolUse",
    }
    assert await answer_to(params, "sampling/createMessage", **options) == {"result": answer}
    assert await outcome_of({"method": "sampling/createMessage", "params": params}, **options) == answer


BLOCKS: dict[str, tuple[Any, str]] = {
    "TextContent": (types.TextContent(text="hi"), "2024-11-05"),
    "AudioContent": (types.AudioContent(data="", mime_type="audio/wav"), "2025-03-26"),
    "ToolUseContent": (types.ToolUseContent(id="1", name="n", input={}), "2025-11-25"),
}


@pytest.mark.parametrize("revision", [each for each in types.REVISIONS if each <= LEGACY])
@pytest.mark.parametrize("name", BLOCKS)
async def test_the_content_of_on_sample_is_sent_in_the_form_of_the_revision_or_refused(
    name: str, revision: str
) -> None:
    block, since = BLOCKS[name]

    async def sample(content: Any) -> Json:
        answer = types.CreateMessageResult(role="assistant", model="m", content=content)
        return await answer_to(
            SAMPLE["params"], "sampling/createMessage", revision=revision, on_sample=returning(answer)
        )

    if revision < since:
        message = f"on_sample returned {name}, which revision {revision} does not have"
        assert await sample(block) == {"error": {"code": -32603, "message": message}}
        assert await sample([block]) == {"error": {"code": -32603, "message": message}}
    else:
        wire = types.unstructure(block)
        has_lists = revision == LEGACY
        assert (await sample(block))["result"]["content"] == wire
        assert (await sample([block]))["result"]["content"] == ([wire] if has_lists else wire)
        several = await sample([block, block])
        if has_lists:
            assert several["result"]["content"] == [wire, wire]
        else:
            message = f"on_sample returned 2 blocks of content; revision {revision} has room for one"
            assert several == {"error": {"code": -32603, "message": message}}


# Options.


@pytest.mark.parametrize("modes", ["form", [], ["form", "smoke"]])
async def test_unknown_elicit_modes_are_rejected(modes: Any) -> None:
    with pytest.raises(ValueError, match=r"elicit_modes=.*: expected a list of one or both of"):
        async with scripted_server(on_elicit=answer_two, elicit_modes=modes):
            raise AssertionError


async def test_a_request_for_context_is_answered_with_sample_with_context() -> None:
    params = {**SAMPLE["params"], "includeContext": "thisServer"}
    assert "result" in await answer_to(params, "sampling/createMessage", on_sample=answer_hi, sample_with_context=True)


async def test_the_limits_of_the_client_bound_concurrent_callbacks() -> None:
    working, most = 0, 0

    async def on_elicit(_: object) -> types.ElicitResult:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await trio.testing.wait_all_tasks_blocked()
        working -= 1
        return types.ElicitResult(action="decline")

    server = Server("s")

    @server.tool
    async def ask_five(ctx: Context) -> None:
        schema: Json = {"type": "object", "properties": {}}
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ctx.elicit, "?", schema)

    limits = Limits(max_running=2)
    async with open_memory_client(server, revision=LEGACY, on_elicit=on_elicit, limits=limits) as client:
        await client.call_tool("ask_five", raise_on_error=True)

    assert most == 2
