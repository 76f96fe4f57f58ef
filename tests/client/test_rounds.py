"""Requests that a modern server answers with questions first: retries, progress, limits, failures and timeouts."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.client.scripted_questions import (
    DONE,
    FORM,
    HOW_MANY,
    LIST_ROOTS,
    META,
    MODERN,
    ROOTS,
    SAMPLE,
    TWO,
    VISIT_URL,
    Json,
    answer_hi,
    answer_two,
    fail_if_asked,
    in_background,
    interim,
    params_of,
    scripted_server,
)
from trio_mcp import (
    Client,
    ClientOptions,
    ConnectionBroken,
    ErrorResponse,
    Limits,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestTimedOut,
    TimeLimits,
    ToolFailed,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_scripted_server

ODD_STATE = ' opaque {"a": 1} \u2028 \x00 \U0001f600 == '

READ_RESULT: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "contents": []}
PROMPT_RESULT: Json = {"resultType": "complete", "messages": []}
REQUESTS_THAT_CAN_ASK: dict[str, tuple[Callable[[Client], Awaitable[Any]], Json]] = {
    "tools/call": (lambda client: client.call_tool("t", {"a": 1}, meta={"mine": 1}), DONE),
    "prompts/get": (lambda client: client.get_prompt("p", {"a": "1"}, meta={"mine": 1}), PROMPT_RESULT),
    "resources/read": (lambda client: client.read_resource("a:b", meta={"mine": 1}), READ_RESULT),
}


@pytest.mark.requirement("B.9-C1", "B.9-C2a", "B.9-C3a")
@pytest.mark.parametrize("method", REQUESTS_THAT_CAN_ASK)
async def test_a_retry_has_a_new_id_the_same_params_the_answers_and_the_unchanged_state(method: str) -> None:
    ask, result = REQUESTS_THAT_CAN_ASK[method]
    async with (
        scripted_server(on_elicit=answer_two) as (client, server),
        in_background(lambda: ask(client)) as outcome,
    ):
        first = await server.answer(interim(ODD_STATE, seats=HOW_MANY), method=method)
        retry = await server.answer(result, method=method)

    assert isinstance(outcome[0], types.CallToolResult | types.GetPromptResult | types.ReadResourceResult)
    assert retry["id"] != first["id"]
    assert params_of(retry) == {**params_of(first), "inputResponses": {"seats": TWO}, "requestState": ODD_STATE}
    assert first["params"]["_meta"]["mine"] == 1


@pytest.mark.requirement("B.9-C2b")
async def test_a_retry_carries_the_answers_and_the_state_of_only_the_latest_round(autojump_clock: object) -> None:
    async with (
        scripted_server(on_elicit=answer_two) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        rounds = [interim("one", a=HOW_MANY), interim(b=HOW_MANY), interim("three"), interim("", c=HOW_MANY), DONE]
        params = [params_of(await server.answer(each)) for each in rounds]

    assert outcome[0].content == [types.TextContent(text="done")]
    base = params[0]
    assert params[1:] == [
        {**base, "inputResponses": {"a": TWO}, "requestState": "one"},
        {**base, "inputResponses": {"b": TWO}},
        {**base, "requestState": "three"},
        {**base, "inputResponses": {"c": TWO}, "requestState": ""},
    ]


async def test_a_request_that_began_with_answers_and_state_is_retried_with_only_the_newer_ones() -> None:
    params: Json = {"name": "t", "inputResponses": {"old": TWO}, "requestState": "old"}
    async with (
        scripted_server(on_elicit=answer_two) as (client, server),
        in_background(lambda: client.request("tools/call", params, types.CallToolResult)),
    ):
        first = await server.answer(interim(a=HOW_MANY))
        second = await server.answer(interim("new"))
        third = await server.answer(DONE)

    began = params_of(first)
    assert began["inputResponses"] == {"old": TWO}
    assert began["requestState"] == "old"
    assert params_of(second) == {"_meta": began["_meta"], "name": "t", "inputResponses": {"a": TWO}}
    assert params_of(third) == {"_meta": began["_meta"], "name": "t", "requestState": "new"}


@pytest.mark.requirement("B.9-C3b")
async def test_other_requests_do_not_carry_the_answers_and_the_state() -> None:
    async with scripted_server(on_elicit=answer_two) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "asks")
        asking = await server.expect_request()
        nursery.start_soon(client.call_tool, "other")
        other = await server.expect_request()
        await server.respond(asking, interim("secret", seats=HOW_MANY))
        retry = await server.expect_request()
        nursery.start_soon(client.call_tool, "later")
        later = await server.expect_request()
        for request in (other, retry, later):
            await server.respond(request, DONE)

    assert retry["params"].keys() == {"_meta", "name", "inputResponses", "requestState"}
    assert other["params"].keys() == later["params"].keys() == {"_meta", "name"}


@pytest.mark.requirement("B.9-C1", "B.9-C4")
async def test_callbacks_of_one_round_run_concurrently_and_all_finish_before_the_retry() -> None:
    at_once, waiting = trio.Event(), set[str]()

    async def meet(name: str) -> None:
        waiting.add(name)
        if len(waiting) == 4:
            at_once.set()
        await at_once.wait()

    async def on_elicit(request: object) -> types.ElicitResult:
        assert isinstance(request, types.ElicitRequestFormParams | types.ElicitRequestURLParams)
        await meet(request.message)
        return await answer_two(request)

    async def on_sample(request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        await meet("sample")
        return await answer_hi(request)

    async def roots() -> list[types.Root]:
        await meet("roots")
        return ROOTS

    given = ClientOptions(on_elicit=on_elicit, elicit_modes=("form", "url"), on_sample=on_sample, roots=roots)
    async with (
        scripted_server(**given) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim(a=HOW_MANY, b=SAMPLE, c=LIST_ROOTS, d=VISIT_URL))
        retry = await server.answer(DONE)

    assert retry["params"]["inputResponses"] == {
        "a": TWO,
        "b": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}},
        "c": {"roots": [{"uri": "file:///home", "name": "home"}]},
        "d": {"action": "accept"},
    }


async def test_a_declined_question_is_sent_as_an_answer() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="decline")

    async with (
        scripted_server(on_elicit=on_elicit) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer(interim(seats=HOW_MANY))
        retry = await server.answer(DONE)

    assert retry["params"]["inputResponses"] == {"seats": {"action": "decline"}}


# Progress.


def numbers(updates: list[types.ProgressNotificationParams]) -> list[float]:
    return [update.progress for update in updates]


async def report_and_answer(server: ScriptedPeer, progress: list[int], result: Json) -> Json:
    request = await server.expect_request("tools/call")
    for each in progress:
        await server.report(request, each)
    await server.respond(request, result)
    return request


@pytest.mark.parametrize("how", ["callback", "iterated", "iterated after the result"])
async def test_updates_of_all_attempts_arrive_in_order_as_those_of_one_call(how: str) -> None:
    updates: list[types.ProgressNotificationParams] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update)

    async def call(client: Client) -> object:
        if how == "callback":
            return await client.call_tool("t", on_progress=on_progress)
        async with client.open_call("t") as call:
            if how == "iterated after the result":
                await call.result()
            async for update in call.updates:
                updates.append(update)  # noqa: PERF401 # it may fail in the middle
            assert call.skipped == 0
            return await call.result()

    async with (
        scripted_server(on_elicit=answer_two) as (client, server),
        in_background(lambda: call(client)) as outcome,
    ):
        attempts = [
            await report_and_answer(server, [1, 2], interim(a=HOW_MANY)),
            await report_and_answer(server, [], interim(b=HOW_MANY)),
            await report_and_answer(server, [1, 3], interim(c=HOW_MANY)),
            await report_and_answer(server, [4], DONE),
        ]

    assert isinstance(outcome[0], types.CallToolResult)
    assert numbers(updates) == [1, 2, 1, 3, 4]
    tokens = [attempt["params"]["_meta"]["progressToken"] for attempt in attempts]
    assert len(set(tokens)) == 4


async def test_dropped_updates_are_counted_over_all_attempts() -> None:
    async with (
        scripted_server(on_elicit=answer_two, limits=Limits(max_updates=2)) as (client, server),
        client.open_call("t") as call,
    ):
        async with in_background(call.result):
            await report_and_answer(server, [1, 2, 3], interim(a=HOW_MANY))
            await report_and_answer(server, [4, 5, 6, 7], interim(b=HOW_MANY))
            await report_and_answer(server, [8], DONE)
        assert call.skipped == 3
        assert numbers([update async for update in call.updates]) == [2, 3, 6, 7, 8]
        assert call.skipped == 3


async def test_unread_updates_are_dropped_with_the_call() -> None:
    async with scripted_server(on_elicit=answer_two) as (client, server):
        async with (
            client.open_call("t") as call,
            in_background(call.result),
        ):
            await report_and_answer(server, [1, 2], interim(a=HOW_MANY))
            await report_and_answer(server, [3], DONE)
        async with in_background(lambda: client.call_tool("next")) as outcome:
            await server.answer(DONE)
        assert isinstance(outcome[0], types.CallToolResult)


# Limits.


async def test_a_server_that_exceeds_max_rounds_fails_the_call() -> None:
    async with scripted_server(on_elicit=answer_two, limits=Limits(max_rounds=3)) as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            for _ in range(4):
                await server.answer(interim(a=HOW_MANY))
        assert str(outcome[0]) == "'tools/call': the server has asked 3 times (Limits.max_rounds)"
        assert isinstance(outcome[0], RemoteProtocolError)
        assert client.statistics().outgoing == 0


async def test_the_number_of_rounds_is_bounded_by_default(autojump_clock: object) -> None:
    async with scripted_server() as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            for _ in range(33):
                await server.answer(interim("again"))
        assert isinstance(outcome[0], RemoteProtocolError)


async def test_retries_without_questions_wait_longer_each_time(autojump_clock: object) -> None:
    asks_nothing: Json = {"resultType": "input_required", "inputRequests": {}}
    results = [*[interim("busy")] * 8, interim(a=HOW_MANY), asks_nothing, DONE]
    longest = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 0, 0.1]  # a question is answered at once
    pauses: list[float] = []
    requests: list[Json] = []

    async with (
        scripted_server(on_elicit=answer_two) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        for result in results:
            answered_at = trio.current_time()
            requests.append(await server.expect_request())
            pauses.append(trio.current_time() - answered_at)
            await server.respond(requests[-1], result)

    assert isinstance(outcome[0], types.CallToolResult)
    assert all(each / 2 <= pause <= each for pause, each in zip(pauses[1:], longest, strict=True))
    assert requests[-1]["params"]["inputResponses"] == {}


async def test_a_wait_that_is_cancelled_repeatedly_counts_as_one_round_and_one_pause(autojump_clock: object) -> None:
    times: list[object] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        times.append(request)
        if len(times) <= 10:
            await trio.sleep_forever()
        return await answer_two(request)

    async with (
        scripted_server(on_elicit=on_elicit, limits=Limits(max_rounds=2)) as (client, server),
        client.open_call("t") as call,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        for _ in range(10):
            with trio.move_on_after(1):
                await call.result()
        nursery.start_soon(server.answer, interim("busy"))
        began = trio.current_time()
        for _ in range(20):
            with trio.move_on_after(0.01):
                await call.result()
        assert (await server.expect_request())["params"]["requestState"] == "busy"
        assert trio.current_time() - began <= 0.2


async def test_max_in_flight_limits_the_concurrent_questions_of_a_round() -> None:
    asking, most = 0, 0

    async def on_elicit(request: object) -> types.ElicitResult:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await trio.testing.wait_all_tasks_blocked()
        asking -= 1
        return await answer_two(request)

    keys = [str(number) for number in range(10)]
    async with (
        scripted_server(on_elicit=on_elicit, limits=Limits(max_in_flight=4)) as (client, server),
        in_background(lambda: client.call_tool("t")),
    ):
        await server.answer({"resultType": "input_required", "inputRequests": dict.fromkeys(keys, HOW_MANY)})
        retry = await server.answer(DONE)
    assert most == 4
    assert retry["params"]["inputResponses"] == dict.fromkeys(keys, TWO)


# Invalid questions.

BROKEN: dict[str, tuple[Json, str]] = {
    "neither questions nor a state": (
        interim(),
        "'tools/call' asks for input, with neither 'inputRequests' nor 'requestState'",
    ),
    "a state that is not a string": (
        interim() | {"requestState": 7},
        r"\$\.requestState: expected string, got integer",
    ),
    "questions that are a list": (interim() | {"inputRequests": []}, r"\$\.inputRequests: expected object, got array"),
    "an unknown method": (
        interim(a={"method": "ping"}),
        r"\$\.inputRequests\.a\.method: expected one of .*, got 'ping'",
    ),
    "a question without params": (
        interim(a={"method": "elicitation/create"}),
        r"\$\.inputRequests\.a: required member 'params' is missing",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_an_invalid_round_fails_only_its_own_call(case: str) -> None:
    result, message = BROKEN[case]
    async with scripted_server(on_elicit=fail_if_asked, on_sample=fail_if_asked) as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.answer(result)
        assert pytest.RaisesExc(RemoteProtocolError, match=message).matches(outcome[0])
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.answer(DONE)
        assert isinstance(outcome[0], types.CallToolResult)


async def test_a_question_in_the_result_of_a_list_request_is_a_protocol_error() -> None:
    async with scripted_server(on_elicit=fail_if_asked) as (client, server):
        async with in_background(client.list_tools) as outcome:
            await server.answer(interim("s", a=HOW_MANY), method="tools/list")
        assert isinstance(outcome[0], RemoteProtocolError)


async def test_in_a_legacy_revision_a_result_with_questions_is_an_ordinary_result() -> None:
    async with scripted_server(on_elicit=fail_if_asked, revision="2025-11-25") as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.answer(interim("s", a=HOW_MANY) | {"content": []})
        assert outcome[0].extra["requestState"] == "s"


UNDECLARED: dict[str, tuple[ClientOptions, Json, str]] = {
    "elicitation": (ClientOptions(on_sample=answer_hi, roots=ROOTS), HOW_MANY, "elicitation"),
    "elicitation by URL": (ClientOptions(on_elicit=answer_two), VISIT_URL, "elicitation.url"),
    "elicitation by form": (ClientOptions(on_elicit=answer_two, elicit_modes=["url"]), HOW_MANY, "elicitation.form"),
    "sampling": (ClientOptions(on_elicit=answer_two, roots=ROOTS), SAMPLE, "sampling"),
    "sampling with tools": (
        ClientOptions(on_sample=answer_hi),
        {**SAMPLE, "params": {**SAMPLE["params"], "tools": []}},
        "sampling.tools",
    ),
    "sampling with a choice of tools": (
        ClientOptions(on_sample=answer_hi),
        {**SAMPLE, "params": {**SAMPLE["params"], "toolChoice": {}}},
        "sampling.tools",
    ),
    "roots": (ClientOptions(on_elicit=answer_two, on_sample=answer_hi), LIST_ROOTS, "roots"),
}


@pytest.mark.requirement("G.19")
@pytest.mark.parametrize("case", UNDECLARED)
async def test_a_question_without_the_declared_capability_fails_the_call_and_names_the_capability(
    case: str,
) -> None:
    options, question, name = UNDECLARED[case]
    async with scripted_server(**options) as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.answer(interim("s", q=question))
        assert isinstance(outcome[0], RemoteProtocolError)
        assert f"has not declared {name!r}" in str(outcome[0])
        async with in_background(client.list_tools):
            await server.answer({"tools": []}, method="tools/list")  # the next request is not a retry


async def test_no_callback_is_called_if_one_question_of_a_round_is_invalid() -> None:
    async with scripted_server(on_elicit=fail_if_asked) as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.answer(interim("s", fine=HOW_MANY, q=LIST_ROOTS))
        assert str(outcome[0]) == (
            "'tools/call' asks 'q', which cannot be answered: 'roots/list': this client has not declared 'roots'"
        )


# Declared capabilities.

DECLARED: dict[str, tuple[ClientOptions, Json]] = {
    "nothing": (ClientOptions(), {}),
    "forms": (ClientOptions(on_elicit=answer_two), {"elicitation": {"form": {}}}),
    "forms and URLs": (
        ClientOptions(on_elicit=answer_two, elicit_modes=("form", "url")),
        {"elicitation": {"form": {}, "url": {}}},
    ),
    "URLs": (ClientOptions(on_elicit=answer_two, elicit_modes=("url",)), {"elicitation": {"url": {}}}),
    "modes without a callback": (ClientOptions(elicit_modes=("url",), sample_with_tools=True), {}),
    "sampling": (ClientOptions(on_sample=answer_hi), {"sampling": {}}),
    "sampling with tools": (ClientOptions(on_sample=answer_hi, sample_with_tools=True), {"sampling": {"tools": {}}}),
    "sampling with context": (
        ClientOptions(on_sample=answer_hi, sample_with_context=True),
        {"sampling": {"context": {}}},
    ),
    "no roots for now": (ClientOptions(roots=[]), {"roots": {}}),
    "all": (
        ClientOptions(on_elicit=answer_two, on_sample=answer_hi, roots=ROOTS),
        {"elicitation": {"form": {}}, "sampling": {}, "roots": {}},
    ),
}


@pytest.mark.requirement("B.23-C1e", "B.24-C4", "B.25-C1b", "G.17")
@pytest.mark.parametrize("case", DECLARED)
async def test_every_modern_request_declares_the_capabilities_of_the_callbacks(case: str) -> None:
    options, declared = DECLARED[case]
    seen: list[Json] = []

    async def script(server: ScriptedPeer) -> None:
        seen.append(await server.answer_discover(MODERN))

    async with open_by_script(script, options) as (client, server):
        for ask, result in REQUESTS_THAT_CAN_ASK.values():
            async with in_background(partial(ask, client)):
                seen.append(await server.answer(interim("s")))
                seen.append(await server.answer(result))
    assert [each["params"]["_meta"][META + "clientCapabilities"] for each in seen] == [declared] * 7


@pytest.mark.parametrize("revision", [each for each in types.REVISIONS if each != MODERN])
async def test_a_handshake_declares_only_capabilities_of_its_revision(revision: str) -> None:
    seen: list[Json] = []

    async def script(server: ScriptedPeer) -> None:
        seen.append((await server.answer_initialize(revision))["params"]["capabilities"])

    every = ClientOptions(
        on_elicit=answer_two, elicit_modes=("form", "url"), on_sample=answer_hi, sample_with_tools=True
    )
    urls_only = ClientOptions(
        on_elicit=answer_two, elicit_modes=("url",), on_sample=answer_hi, sample_with_context=True
    )
    for options in (every, urls_only):
        async with open_by_script(script, options, revision=revision):
            pass
    if revision == "2025-11-25":
        assert seen == [
            {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}},
            {"elicitation": {"url": {}}, "sampling": {"context": {}}},
        ]
    else:  # these revisions have only forms, not URLs
        forms: Json = {"elicitation": {}} if revision == "2025-06-18" else {}
        assert seen == [{**forms, "sampling": {}}, {"sampling": {}}]


def open_by_script(script: Any, options: ClientOptions, revision: str = MODERN) -> Any:
    given = options.copy()
    given["revision"] = revision
    return open_scripted_server(script, **given)


# Failures.


async def test_an_exception_of_a_callback_is_raised_unwrapped_without_a_retry() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        raise KeyError("mine")

    async with scripted_server(on_elicit=on_elicit) as (client, server):
        for questions in ({"a": HOW_MANY}, {"a": HOW_MANY, "b": HOW_MANY}):
            async with in_background(lambda: client.call_tool("t")) as outcome:
                await server.answer(interim("s", **questions))
            assert type(outcome[0]) is KeyError
        async with in_background(client.list_tools):
            await server.answer({"tools": []}, method="tools/list")


async def test_an_mcp_error_of_a_callback_is_raised_unchanged() -> None:
    async def on_sample(_: object) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        raise McpError(-1, "the user refused")

    async with (
        scripted_server(on_sample=on_sample) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.answer(interim("s", a=SAMPLE))
    assert type(outcome[0]) is McpError
    assert outcome[0].code == -1


async def test_a_system_exit_in_a_callback_is_raised_unwrapped() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        raise SystemExit(7)

    async with scripted_server(on_elicit=on_elicit) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        with pytest.raises(SystemExit, match="7"):
            await client.call_tool("t")


def test_a_keyboard_interrupt_during_a_question_is_raised_unwrapped() -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        await trio.sleep_forever()
        raise AssertionError

    async def interrupt() -> None:
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        async with scripted_server(on_elicit=on_elicit) as (client, server), client.open_call("t") as call:
            await server.answer(interim("s", a=HOW_MANY, b=HOW_MANY))
            trio.lowlevel.spawn_system_task(interrupt)
            await call.result()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)


async def test_the_first_failed_question_cancels_the_others(caplog: pytest.LogCaptureFixture) -> None:
    stopped: list[str] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        assert isinstance(request, types.ElicitRequestFormParams)
        if request.message == "fails":
            await trio.testing.wait_all_tasks_blocked()
            raise KeyError("first")
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(request.message)
            if request.message == "fails too":
                raise OSError("second")
        raise AssertionError

    def question(message: str) -> Json:
        return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": FORM}}

    async with (
        scripted_server(on_elicit=on_elicit) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.answer(interim("s", a=question("waits"), b=question("fails too"), c=question("fails")))
    assert repr(outcome[0]) == "KeyError('first')"
    assert sorted(stopped) == ["fails too", "waits"]
    assert "another job failed as well" in caplog.text


async def test_an_exception_group_of_a_callback_is_raised_unchanged() -> None:
    for group in (ExceptionGroup("mine", [KeyError()]), BaseExceptionGroup("mine", [KeyboardInterrupt()])):

        async def on_elicit(_: object, group: BaseException = group) -> types.ElicitResult:
            await trio.lowlevel.checkpoint()
            raise group

        async with scripted_server(on_elicit=on_elicit) as (client, server), trio.open_nursery() as nursery:
            nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
            with pytest.raises(BaseExceptionGroup) as raised:
                await client.call_tool("t")
            assert raised.value is group


async def test_a_cancelled_question_that_fails_in_a_nursery_hides_no_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail_when_stopped() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("second")

    async def on_elicit(request: Any) -> types.ElicitResult:
        if request.message == "Log in":
            await trio.testing.wait_all_tasks_blocked()
            raise KeyError("first")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_stopped)
            nursery.start_soon(trio.sleep_forever)
        raise AssertionError

    async with (
        scripted_server(on_elicit=on_elicit, elicit_modes=("form", "url")) as (client, server),
        in_background(lambda: client.call_tool("t")) as outcome,
    ):
        await server.answer(interim("s", a=HOW_MANY, b=VISIT_URL))
    assert repr(outcome[0]) == "KeyError('first')"
    assert "OSError: second" in caplog.text


async def test_an_exception_of_a_cancelled_callback_is_raised(autojump_clock: object) -> None:
    async def on_elicit(_: object) -> types.ElicitResult:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("at the end")

    async with scripted_server(on_elicit=on_elicit) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        with pytest.raises(OSError, match="at the end"), trio.move_on_after(5):
            await client.call_tool("t")


async def test_a_failed_question_is_raised_for_later_waiters() -> None:
    times: list[object] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        times.append(request)
        raise KeyError

    async with (
        scripted_server(on_elicit=on_elicit) as (client, server),
        client.open_call("t") as call,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        with pytest.raises(KeyError):
            async for _ in call.updates:
                pass
        for _ in range(2):
            with pytest.raises(KeyError):
                await call.result()
        assert [update async for update in call.updates] == []
    assert len(times) == 1


async def test_an_error_response_to_a_retry_is_the_outcome() -> None:
    updates: list[types.ProgressNotificationParams] = []

    async with scripted_server(on_elicit=answer_two) as (client, server), client.open_call("t") as call:

        async def read() -> None:
            updates.extend([update async for update in call.updates])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await report_and_answer(server, [1], interim("s", a=HOW_MANY))
            await server.refuse(-32000)
        with pytest.raises(ErrorResponse, match="no"):
            await call.result()
    assert numbers(updates) == [1]


# Cancellation and concurrent waiters.


async def test_a_deadline_cancels_the_question_without_a_message_to_the_server(autojump_clock: object) -> None:
    stopped: list[float] = []

    async def on_elicit(_: object) -> types.ElicitResult:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(trio.current_time())
        raise AssertionError

    async with scripted_server(on_elicit=on_elicit) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        began = trio.current_time()
        with pytest.raises(trio.TooSlowError), trio.fail_after(5):
            await client.call_tool("t")
        assert stopped == [began + 5]
        await server.expect_silence(100)
        assert client.statistics().outgoing == 0


async def test_a_deadline_during_a_retry_cancels_the_retry_on_the_wire(autojump_clock: object) -> None:
    async with scripted_server(on_elicit=answer_two) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        with trio.move_on_after(5):
            await client.call_tool("t")
        retry = await server.expect_request()
        cancelled = await server.expect_notification("notifications/cancelled")
        assert cancelled["params"]["requestId"] == retry["id"]


async def test_a_cancelled_wait_continues_where_the_round_stopped(autojump_clock: object) -> None:
    times: list[object] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        times.append(request)
        if len(times) == 1:
            await trio.sleep_forever()
        return await answer_two(request)

    async with (
        scripted_server(on_elicit=on_elicit) as (client, server),
        client.open_call("t") as call,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
        with trio.move_on_after(5):
            await call.result()
        nursery.start_soon(server.answer, DONE)
        assert (await call.result()).content == [types.TextContent(text="done")]
    assert len(times) == 2


async def test_answers_that_were_not_sent_before_a_deadline_are_kept_for_the_next_wait(autojump_clock: object) -> None:
    times: list[object] = []

    def fill(client: Client, size: int) -> None:
        client._connection.transport.outbox.size += size  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage] # full

    connected: list[Client] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        times.append(request)
        fill(connected[0], 1)
        return await answer_two(request)

    async with scripted_server(on_elicit=on_elicit, limits=Limits(outbox_bytes=1)) as (client, server):
        connected.append(client)

        async with client.open_call("t") as call, trio.open_nursery() as nursery:
            nursery.start_soon(server.answer, interim("s", a=HOW_MANY))
            with trio.move_on_after(5):
                await call.result()
            fill(client, -1)
            nursery.start_soon(server.answer, DONE)
            assert (await call.result()).content == [types.TextContent(text="done")]
    assert len(times) == 1


async def test_a_question_is_cancelled_when_the_connection_is_lost(autojump_clock: object) -> None:
    cancelled_at: list[float] = []

    async def on_elicit(_: object) -> types.ElicitResult:
        try:
            await trio.sleep_forever()
        finally:
            cancelled_at.append(trio.current_time())
        raise AssertionError

    async with scripted_server(on_elicit=on_elicit) as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            await server.answer(interim("s", a=HOW_MANY))
            await trio.sleep(5)
            await server.stream.aclose()
            lost = trio.current_time()
        assert isinstance(outcome[0], ConnectionBroken)
        assert cancelled_at == [lost]


async def test_no_callback_is_called_after_the_connection_is_lost() -> None:
    async with (
        scripted_server(on_elicit=fail_if_asked) as (client, server),
        client.open_call("t") as call,
    ):
        await server.answer(interim("s", a=HOW_MANY))
        await server.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            with pytest.raises(ConnectionBroken):
                await call.result()


async def test_only_one_task_may_wait_while_questions_are_asked(autojump_clock: object) -> None:
    async def on_elicit(request: object) -> types.ElicitResult:
        await trio.sleep(10)
        return await answer_two(request)

    async with (
        scripted_server(on_elicit=on_elicit) as (client, server),
        client.open_call("t") as call,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.result)
            await server.answer(interim("s", a=HOW_MANY))
            await trio.sleep(5)
            with pytest.raises(trio.BusyResourceError, match="answering the server's questions"):
                await call.result()
            await server.answer(DONE)
        assert (await call.result()).content == [types.TextContent(text="done")]


# Timeouts.


@pytest.mark.requirement("B.13-P1a")
async def test_timeouts_do_not_count_the_time_in_which_the_user_is_asked_between_attempts(
    autojump_clock: object,
) -> None:
    async def on_elicit(request: object) -> types.ElicitResult:
        await trio.sleep(1000)
        return await answer_two(request)

    async with scripted_server(on_elicit=on_elicit, time_limits=TimeLimits(idle=10, total=30)) as (client, server):
        async with in_background(lambda: client.call_tool("t")) as outcome:
            began = trio.current_time()
            for _ in range(3):
                request = await server.expect_request()
                await trio.sleep(9)
                await server.respond(request, interim("s", a=HOW_MANY))
            await server.expect_request()  # the server does not answer
        assert isinstance(outcome[0], RequestTimedOut)
        assert trio.current_time() - began == 3 * 1009 + 10


async def test_the_time_of_cancelled_questions_does_not_count_against_the_total_limit(autojump_clock: object) -> None:
    times: list[object] = []

    async def on_elicit(request: object) -> types.ElicitResult:
        times.append(request)
        if len(times) < 3:
            await trio.sleep_forever()
        return await answer_two(request)

    async with (
        scripted_server(on_elicit=on_elicit, time_limits=TimeLimits(total=30)) as (client, server),
        client.open_call("t") as call,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(report_and_answer, server, [1, 2], interim("s", a=HOW_MANY))
        with trio.move_on_after(1000):
            await call.result()
        with trio.move_on_after(1000):
            assert numbers([update async for update in call.updates]) == [1, 2]
        nursery.start_soon(server.answer, DONE)
        assert (await call.result()).content == [types.TextContent(text="done")]
    assert len(times) == 3


async def test_timeouts_of_other_requests_continue_while_the_user_is_asked(autojump_clock: object) -> None:
    async def on_elicit(request: object) -> types.ElicitResult:
        await trio.sleep(1000)
        return await answer_two(request)

    async with (
        scripted_server(on_elicit=on_elicit, time_limits=TimeLimits(idle=10)) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.call_tool, "t")
        await server.answer(interim("s", a=HOW_MANY))
        began = trio.current_time()
        with pytest.raises(RequestTimedOut):
            await client.list_tools()
        assert trio.current_time() - began == 10
        await server.expect_request("tools/list")
        await server.expect_notification("notifications/cancelled")
        await server.answer(DONE)


# Manual calls.


async def test_a_manual_call_returns_its_questions_and_another_client_continues_it() -> None:
    async with (
        scripted_server(on_elicit=fail_if_asked) as (client, server),
        client.open_call("book", {"show": "Hamlet"}, manual_input=True) as call,
    ):
        first = await report_and_answer(server, [1], interim(ODD_STATE, seats=HOW_MANY))
        assert numbers([update async for update in call.updates]) == [1]
        asking = await call.result()
    assert isinstance(asking, types.InputRequiredResult)
    assert asking.request_state == ODD_STATE
    assert types.unstructure(asking.input_requests["seats"] if asking.input_requests else None) == HOW_MANY
    async with scripted_server() as (other, server):
        answers: dict[str, Any] = {
            "seats": types.ElicitResult(action="accept", content={"count": 2}),
            "json": {"action": "cancel"},
        }
        plan = other.open_call(
            "book",
            {"show": "Hamlet"},
            manual_input=True,
            input_responses=answers,
            request_state=asking.request_state,
            capabilities=types.ClientCapabilities(elicitation=types.ElicitationCapability(form={})),
        )
        async with plan as call:
            retry = await server.answer(DONE)
            result = await call.result()
    assert isinstance(result, types.CallToolResult)
    assert {**retry["params"], "_meta": None} == {
        **first["params"],
        "_meta": None,
        "inputResponses": {"seats": TWO, "json": {"action": "cancel"}},
        "requestState": ODD_STATE,
    }
    assert retry["params"]["_meta"][META + "clientCapabilities"] == {"elicitation": {"form": {}}}


async def test_a_manual_call_raises_protocol_errors_and_tool_failures() -> None:
    async with scripted_server() as (client, server):
        async with client.open_call("t", manual_input=True) as call:
            await server.answer(interim())
            with pytest.raises(RemoteProtocolError, match="neither"):
                await call.result()
        async with client.open_call("t", manual_input=True) as call:
            await server.answer({**DONE, "isError": True})
            with pytest.raises(ToolFailed, match="tool 't' failed: done"):
                await call.result(raise_on_error=True)


@pytest.mark.parametrize("given", [None, {}, {"com.example/other": {}}])
async def test_a_manual_call_declares_the_extensions_of_its_client_by_default(given: Any) -> None:
    usual: Json = {"com.example/rooms": {"size": 1}}
    declared = types.ClientCapabilities(roots=types.RootsCapability(), extensions=given, experimental=given)
    async with (
        scripted_server(extensions=usual, experimental=usual, on_elicit=answer_two) as (client, server),
        client.open_call("t", manual_input=True, capabilities=declared) as call,
    ):
        request = await server.answer(DONE)
        await call.result()
    extensions = usual if given is None else given
    capabilities = request["params"]["_meta"][META + "clientCapabilities"]
    assert capabilities == {"roots": {}, "extensions": extensions, "experimental": extensions}


async def test_a_manual_call_in_a_legacy_revision_asks_the_callbacks_and_carries_no_answers() -> None:
    async with scripted_server(on_elicit=answer_two, revision="2025-11-25") as (client, server):
        declared = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        async with client.open_call("t", manual_input=True, capabilities=declared) as call:
            request = await server.expect_request()
            assert (await server.request("elicitation/create", HOW_MANY["params"]))["result"] == TWO
            await server.respond(request, {"content": []})
            assert (await call.result()) == types.CallToolResult(content=[])
        more: list[Any] = [{"input_responses": {}}, {"request_state": ""}]
        for each in more:
            refused = client.open_call("t", manual_input=True, **each)
            with pytest.raises(LocalProtocolError, match="calls of revision 2025-11-25 carry no answers"):
                await refused.__aenter__()


@pytest.mark.parametrize("more", [{"input_responses": {}}, {"request_state": ""}, {"capabilities": object()}])
async def test_arguments_of_manual_calls_are_rejected_for_other_calls(more: Any) -> None:
    async with scripted_server() as (client, _):
        with pytest.raises(TypeError, match="need manual_input=True"):
            client.open_call("t", **more)
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            await client.call_tool("t", **more)
