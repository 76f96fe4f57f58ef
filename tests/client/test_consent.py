"""The consent hook: what it sees before it happens, what its edits change, and what becomes of what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve

from tests.client.asking_server import (
    DONE,
    HI,
    HOW_MANY,
    LOG_IN,
    ROOTS,
    THINK,
    TWO,
    Json,
    asked,
    in_background,
    interim,
    no,
    two,
)
from trio_mcp import ConsentRefused, LocalProtocolError, MissingCapability, RequestTimedOut, TimeLimits, types
from trio_mcp.client import Consentable
from trio_mcp.testing import ScriptedPeer, open_scripted_server

LEGACY = "2025-11-25"


class Hook:
    """A consent hook that remembers what it saw, and does as it was told."""

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
async def test_a_tool_call_is_shown_before_it_is_sent_and_sent_as_it_was_edited(revision: str) -> None:
    hook = Hook(name="harmless", arguments={"path": "/tmp"})  # no file is touched
    async with (
        asked(revision=revision, consent=hook) as (client, server),
        in_background(lambda: client.call_tool("delete", {"path": "/"}, meta={"mine": 1})) as outcome,
    ):
        request = await server.answer(DONE, method="tools/call")

    assert hook.seen == [types.CallToolRequestParams(name="delete", arguments={"path": "/"}, meta={"mine": 1})]
    assert request["params"]["name"] == "harmless"
    assert request["params"]["arguments"] == {"path": "/tmp"}  # no file is touched
    assert request["params"]["_meta"]["mine"] == 1
    assert isinstance(outcome[0], types.CallToolResult)


async def test_the_result_of_an_edited_call_is_that_of_the_tool_that_was_called() -> None:
    async with asked(consent=Hook(name="other")) as (client, server), client.open_call("one") as call:
        await server.answer({**DONE, "isError": True})
        with pytest.raises(Exception, match="tool 'other' failed"):
            await call.result(raise_on_error=True)


async def test_a_refused_call_is_raised_at_its_caller_and_nothing_is_sent() -> None:
    async with asked(consent=refuse) as (client, server):
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
        asked(consent=hook, on_elicit=two) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim("s", a=HOW_MANY))
        await server.answer(interim("s", a=HOW_MANY))
        await server.answer(DONE)
    assert [type(each).__name__ for each in hook.seen] == ["CallToolRequestParams", *["ElicitRequestFormParams"] * 2]


async def test_a_manually_continued_call_is_shown_with_its_answers() -> None:
    hook = Hook()
    async with (
        asked(consent=hook) as (client, server),
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

    async with open_scripted_server(script, revision="2026-07-28", consent=no) as (client, _):
        with pytest.raises(MissingCapability):
            await client.call_tool("t")
        with pytest.raises(
            LocalProtocolError, match=r"the params of 'tools/call' do not fit: \$: required member 'name'"
        ):
            await client.request("tools/call", {}, types.CallToolResult)


async def test_the_call_that_was_shown_is_sent_even_if_the_caller_changes_its_arguments() -> None:
    arguments: Json = {"path": {"name": "harmless"}}

    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        arguments["path"]["name"] = "other"
        return request

    async with (
        asked(consent=consent) as (client, server),
        in_background(lambda: client.call_tool("delete", arguments)),
    ):
        request = await server.answer(DONE)
    assert request["params"]["arguments"] == {"path": {"name": "harmless"}}


async def test_consent_is_not_asked_for_a_call_that_is_not_json() -> None:
    async with asked(consent=no) as (client, _):
        with pytest.raises(LocalProtocolError, match="the params of 'tools/call' cannot be sent: "):
            await client.call_tool("t", {"a": float("nan")})


async def test_a_hook_that_returns_a_wrong_type_is_an_error_of_the_call() -> None:
    async def confuse(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        return True

    async with asked(consent=confuse) as (client, _):
        with pytest.raises(
            TypeError, match="consent must return the CallToolRequestParams that may proceed, and returned True"
        ):
            await client.call_tool("t")


async def test_any_other_exception_of_a_hook_is_raised_at_the_caller() -> None:
    async def fail(_: object) -> Consentable:
        await trio.lowlevel.checkpoint()
        raise KeyError("hook")

    async with asked(consent=fail) as (client, _):
        with pytest.raises(KeyError):
            await client.call_tool("t")


# Questions.


@pytest.mark.requirement("B.9-C4")
async def test_a_question_inside_a_result_is_shown_and_edited_like_any_other() -> None:
    asked_for: list[Any] = []

    async def on_elicit(request: Any) -> types.ElicitResult:
        asked_for.append(request)
        if isinstance(request, types.ElicitRequestURLParams):
            return types.ElicitResult(action="accept")
        return await two(request)

    async def on_sample(request: Any) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        asked_for.append(request)
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
        asked(consent=consent, on_elicit=on_elicit, elicit_modes=("form", "url"), on_sample=on_sample, roots=ROOTS) as (
            client,
            server,
        ),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim("s", a=HOW_MANY))
        await server.answer(interim("s", a=LOG_IN))
        await server.answer(interim("s", a=THINK))
        await server.answer(interim("s", a={"method": "roots/list"}))  # not among what consent is asked for
        await server.answer(DONE)
    assert [getattr(each, "message", None) for each in asked_for[:2]] == [
        "How many? (the server says)",
        "Log in (the server says)",
    ]
    assert asked_for[2].max_tokens == 1


async def test_an_answer_is_compared_with_the_form_that_the_server_knows() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={})

    async def consent(request: Consentable) -> Consentable:
        await trio.lowlevel.checkpoint()
        if isinstance(request, types.ElicitRequestFormParams):
            return evolve(request, requested_schema=types.ElicitRequestedSchema(properties={}))
        return request

    async with (
        asked(consent=consent, on_elicit=on_elicit) as (client, server),
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
        asked(consent=only_calls, on_elicit=no) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim("s", a=HOW_MANY))
        retry = await server.answer(DONE)
    assert retry["params"]["inputResponses"] == {"a": {"action": "decline"}}


async def test_a_refused_question_to_the_model_ends_the_call() -> None:
    async with (
        asked(consent=only_calls, on_sample=no) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.answer(interim("s", a=THINK))
    assert repr(outcome[0]) == "ConsentRefused('not today')"


async def test_legacy_questions_are_refused_without_telling_the_server_the_reason() -> None:
    async with asked(revision=LEGACY, consent=only_calls, on_elicit=no, on_sample=no) as (_, server):
        assert (await server.request("elicitation/create", HOW_MANY["params"]))["result"] == {"action": "decline"}
        answer = await server.request("sampling/createMessage", THINK["params"])
    assert answer["error"] == {"code": -1, "message": "the user has refused this request"}


async def test_legacy_questions_are_edited_too() -> None:
    seen: list[types.CreateMessageRequestParams] = []

    async def on_sample(request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        seen.append(request)
        return HI

    async with asked(revision=LEGACY, consent=Hook(system_prompt="be brief"), on_sample=on_sample) as (_, server):
        assert "result" in await server.request("sampling/createMessage", THINK["params"])
    assert seen[0].system_prompt == "be brief"


async def test_a_hook_that_fails_on_a_question_is_an_error_for_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def confuse(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        raise KeyError("secret")

    async with asked(revision=LEGACY, consent=confuse, on_elicit=no) as (_, server):
        error: Json = (await server.request("elicitation/create", HOW_MANY["params"]))["error"]
    assert error == {"code": -32603, "message": "this client failed to answer 'elicitation/create'"}
    assert "secret" in caplog.text


async def test_time_limits_are_paused_while_the_hook_runs(autojump_clock: object) -> None:
    async def think(request: Consentable) -> Consentable:
        await trio.sleep(1000)
        return request

    limits = TimeLimits(idle=10, total=20)
    async with asked(revision=LEGACY, consent=think, on_elicit=two, time_limits=limits) as (client, server):
        began = trio.current_time()
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.expect_request("tools/call")
            assert trio.current_time() - began == 1000
            await server.request("elicitation/create", HOW_MANY["params"])
            assert trio.current_time() - began == 2000
        assert isinstance(outcome[0], RequestTimedOut)
        assert trio.current_time() - began == 2010
