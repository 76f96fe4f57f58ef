"""The consent hook: the requests that it sees, edits and refuses."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve

from tests.client.scripted_questions import (
    DONE,
    HI,
    HOW_MANY,
    ROOTS,
    SAMPLE,
    TWO,
    VISIT_URL,
    Json,
    answer_two,
    fail_if_asked,
    in_background,
    interim,
    scripted_server,
)
from trio_mcp import ConsentRefused, LocalProtocolError, MissingCapability, RequestTimedOut, TimeLimits, types
from trio_mcp.client import Consentable
from trio_mcp.testing import ScriptedPeer, open_scripted_server

LEGACY = "2025-11-25"


class Hook:
    """A consent hook that records requests and applies the given edits."""

    def __init__(self, **edits: Any) -> None:
        self.seen: list[Consentable] = []
        self.edits = edits

    async def __call__(self, request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        self.seen.append(request)
        return evolve(request, **self.edits)


async def refuse(_: object) -> Consentable:
    await trio.lowlevel.checkpoint()
    raise ConsentRefused("not today")


# Tool calls.


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_hook_sees_and_edits_a_tool_call_before_it_is_sent(revision: str) -> None:
    hook = Hook(name="harmless", arguments={"path": "/tmp"})  # no file is touched
    async with (
        scripted_server(revision=revision, consent=hook) as (client, server),
        in_background(lambda: client.call_tool("delete", {"path": "/"}, meta={"mine": 1})) as outcome,
    ):
        request = await server.answer(DONE, method="tools/call")

    assert hook.seen == [types.CallToolRequestParams(name="delete", arguments={"path": "/"}, meta={"mine": 1})]
    assert request["params"]["name"] == "harmless"
    assert request["params"]["arguments"] == {"path": "/tmp"}  # no file is touched
    assert request["params"]["_meta"]["mine"] == 1
    assert isinstance(outcome[0], types.CallToolResult)


async def test_a_failure_of_an_edited_call_names_the_tool_that_was_called() -> None:
    async with scripted_server(consent=Hook(name="other")) as (client, server), client.open_call("one") as call:
        await server.answer({**DONE, "isError": True})
        with pytest.raises(Exception, match="tool 'other' failed"):
            await call.result(raise_on_error=True)


async def test_a_refused_call_raises_in_the_caller_and_is_not_sent() -> None:
    async with scripted_server(consent=refuse) as (client, server):
        with pytest.raises(ConsentRefused, match="not today"):
            await client.call_tool("t")
        with pytest.raises(ConsentRefused, match="not today"):
            async with client.open_call("t"):
                raise AssertionError
        with pytest.raises(ConsentRefused, match="not today"):
            await client.request("tools/call", {"name": "t"}, types.CallToolResult)
        async with in_background(client.list_tools):
            await server.answer({"tools": []}, method="tools/list")


async def test_consent_is_not_asked_again_for_the_retries_of_a_call() -> None:
    hook = Hook()
    async with (
        scripted_server(consent=hook, on_elicit=answer_two) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim("s", a=HOW_MANY))
        await server.answer(interim("s", a=HOW_MANY))
        await server.answer(DONE)
    assert [type(each).__name__ for each in hook.seen] == ["CallToolRequestParams", *["ElicitRequestFormParams"] * 2]


async def test_the_hook_sees_the_answers_of_a_manually_continued_call() -> None:
    hook = Hook()
    async with (
        scripted_server(consent=hook) as (client, server),
        client.open_call("t", manual_input=True, input_responses={"a": TWO}, request_state="s") as call,
    ):
        request = await server.answer(DONE)
        await call.result()
    assert hook.seen == [
        types.CallToolRequestParams(
            name="t",
            input_responses={"a": types.ElicitResult(action="accept", content={"count": 2})},
            request_state="s",
        )
    ]
    assert request["params"]["inputResponses"] == {"a": TWO}


async def test_consent_is_not_asked_for_an_invalid_call() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer(
            {"supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"},
            method="server/discover",
        )

    async with open_scripted_server(script, revision="2026-07-28", consent=fail_if_asked) as (client, _):
        with pytest.raises(MissingCapability):
            await client.call_tool("t")
        with pytest.raises(
            LocalProtocolError, match=r"the params of 'tools/call' do not fit: \$: required member 'name'"
        ):
            await client.request("tools/call", {}, types.CallToolResult)


async def test_a_call_is_sent_as_the_hook_saw_it_even_if_the_caller_changes_its_arguments() -> None:
    arguments: Json = {"path": {"name": "harmless"}}

    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        arguments["path"]["name"] = "other"
        return request

    async with (
        scripted_server(consent=consent) as (client, server),
        in_background(lambda: client.call_tool("delete", arguments)),
    ):
        request = await server.answer(DONE)
    assert request["params"]["arguments"] == {"path": {"name": "harmless"}}


async def test_consent_is_not_asked_for_a_call_that_is_not_json() -> None:
    async with scripted_server(consent=fail_if_asked) as (client, _):
        with pytest.raises(LocalProtocolError, match="the params of 'tools/call' cannot be sent: "):
            await client.call_tool("t", {"a": float("nan")})


async def test_a_hook_that_returns_a_wrong_type_fails_the_call() -> None:
    async def confuse(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        return True

    async with scripted_server(consent=confuse) as (client, _):
        with pytest.raises(
            TypeError, match="consent must return the CallToolRequestParams that may proceed, and returned True"
        ):
            await client.call_tool("t")


async def test_any_other_exception_of_a_hook_is_raised_in_the_caller() -> None:
    async def fail(_: object) -> Consentable:
        await trio.lowlevel.checkpoint()
        raise KeyError("hook")

    async with scripted_server(consent=fail) as (client, _):
        with pytest.raises(KeyError):
            await client.call_tool("t")


# Questions.


@pytest.mark.requirement("B.9-C4")
async def test_the_hook_sees_and_edits_questions_inside_results() -> None:
    questions: list[Any] = []

    async def on_elicit(request: Any) -> types.ElicitResult:
        questions.append(request)
        if isinstance(request, types.ElicitRequestURLParams):
            return types.ElicitResult(action="accept")
        return await answer_two(request)

    async def on_sample(request: Any) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        questions.append(request)
        return HI

    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        match request:
            case types.ElicitRequestFormParams() | types.ElicitRequestURLParams():
                return evolve(request, message=f"{request.message} (the server says)")
            case types.CreateMessageRequestParams():
                return evolve(request, max_tokens=1)
            case _:
                return request

    async with (
        scripted_server(
            consent=consent, on_elicit=on_elicit, elicit_modes=("form", "url"), on_sample=on_sample, roots=ROOTS
        ) as (
            client,
            server,
        ),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim("s", a=HOW_MANY))
        await server.answer(interim("s", a=VISIT_URL))
        await server.answer(interim("s", a=SAMPLE))
        await server.answer(interim("s", a={"method": "roots/list"}))  # the hook is not called for it
        await server.answer(DONE)
    assert [getattr(each, "message", None) for each in questions[:2]] == [
        "How many? (the server says)",
        "Log in (the server says)",
    ]
    assert questions[2].max_tokens == 1


async def test_an_answer_is_validated_against_the_unedited_form() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={})

    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        if isinstance(request, types.ElicitRequestFormParams):
            return evolve(request, requested_schema=types.ElicitRequestedSchema(properties={}))
        return request

    async with (
        scripted_server(consent=consent, on_elicit=on_elicit) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.answer(interim("s", a=HOW_MANY))
    assert isinstance(outcome[0], LocalProtocolError)


async def only_calls(request: Consentable) -> Consentable:
    await trio.lowlevel.checkpoint()
    if isinstance(request, types.CallToolRequestParams):
        return request
    raise ConsentRefused("not today")


async def test_a_refused_question_to_the_user_is_declined_and_the_user_is_not_asked() -> None:
    async with (
        scripted_server(consent=only_calls, on_elicit=fail_if_asked) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim("s", a=HOW_MANY))
        retry = await server.answer(DONE)
    assert retry["params"]["inputResponses"] == {"a": {"action": "decline"}}


async def test_a_refused_question_to_the_model_ends_the_call() -> None:
    async with (
        scripted_server(consent=only_calls, on_sample=fail_if_asked) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.answer(interim("s", a=SAMPLE))
    assert repr(outcome[0]) == "ConsentRefused('not today')"


async def test_legacy_questions_are_refused_without_telling_the_server_the_reason() -> None:
    async with scripted_server(
        revision=LEGACY, consent=only_calls, on_elicit=fail_if_asked, on_sample=fail_if_asked
    ) as (_, server):
        assert (await server.request("elicitation/create", HOW_MANY["params"]))["result"] == {"action": "decline"}
        answer = await server.request("sampling/createMessage", SAMPLE["params"])
    assert answer["error"] == {"code": -1, "message": "the user has refused this request"}


async def test_the_hook_edits_legacy_questions() -> None:
    seen: list[types.CreateMessageRequestParams] = []

    async def on_sample(request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        seen.append(request)
        return HI

    async with scripted_server(revision=LEGACY, consent=Hook(system_prompt="be brief"), on_sample=on_sample) as (
        _,
        server,
    ):
        assert "result" in await server.request("sampling/createMessage", SAMPLE["params"])
    assert seen[0].system_prompt == "be brief"


async def test_a_hook_that_fails_on_a_question_leads_to_an_error_response(caplog: pytest.LogCaptureFixture) -> None:
    async def confuse(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        raise KeyError("secret")

    async with scripted_server(revision=LEGACY, consent=confuse, on_elicit=fail_if_asked) as (_, server):
        error: Json = (await server.request("elicitation/create", HOW_MANY["params"]))["error"]
    assert error == {"code": -32603, "message": "this client failed to answer 'elicitation/create'"}
    assert "secret" in caplog.text


async def test_time_limits_are_paused_while_the_hook_runs(autojump_clock: object) -> None:
    async def think(request: Consentable) -> Consentable:
        await trio.sleep(1000)
        return request

    limits = TimeLimits(idle=10, total=20)
    async with scripted_server(revision=LEGACY, consent=think, on_elicit=answer_two, time_limits=limits) as (
        client,
        server,
    ):
        began = trio.current_time()
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.expect_request("tools/call")
            assert trio.current_time() - began == 1000
            await server.request("elicitation/create", HOW_MANY["params"])
            assert trio.current_time() - began == 2000
        assert isinstance(outcome[0], RequestTimedOut)
        assert trio.current_time() - began == 2010
