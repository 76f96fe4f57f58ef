"""Asking in rounds, where each interim result ends its exchange, as 2026-07-28 specifies it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.interaction.asking import (
    CAPABLE,
    TWO,
    Json,
    Round,
    Wire,
    asking,
    attempt,
    capable,
    count_of,
    everywhere,
    first_round,
    happens,
    in_both_modes,
    success_text,
)
from tests.interaction.asking_server import Mode, caller, make_server
from trio_mcp import Client, ConnectionClosed, ErrorResponse, open_client, serve_stream, types
from trio_mcp.abc import Serving
from trio_mcp.testing import open_scripted_client

NO_ELICITATION = types.ClientCapabilities(roots=types.RootsCapability())
BAD_STATE = "$.requestState: it is invalid or has expired; send the request again without it"


async def refused(outcome: Any) -> None:
    """Await a request that must be refused because of its state."""
    with pytest.raises(ErrorResponse) as caught:
        await outcome
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, BAD_STATE, None)


# An interim result ends its exchange.


@everywhere
async def test_the_deadline_of_the_first_request_does_not_apply_to_the_retry(where: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path) as client:
        with trio.fail_after(30) as deadline:
            first = await first_round(client, "book", {"show": "Hamlet"})
        deadline.cancel()
        assert success_text(await first.retry()) == "2 seats for Hamlet; begun 1"


async def test_a_late_cancellation_of_the_first_request_does_nothing() -> None:
    call: Json = {"name": "book", "arguments": {"show": "Hamlet"}, "_meta": CAPABLE}
    async with open_scripted_client(make_server()) as client:
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        interim = (await client.expect_response(1))["result"]
        await client.notify("notifications/cancelled", {"requestId": 1})
        answers = {key: {"action": "accept", "content": {"count": 2}} for key in interim["inputRequests"]}
        retry: Json = {**call, "requestState": interim["requestState"], "inputResponses": answers}
        await client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": retry})
        result = (await client.expect_response(2))["result"]
        assert result["content"][0]["text"] == "2 seats for Hamlet; begun 1"


@in_both_modes
@everywhere
async def test_progress_and_log_messages_go_to_the_request_in_flight(where: str, mode: Mode, tmp_path: Path) -> None:
    wire = Wire()
    tokens: list[Any] = []
    async with asking(where, tmp_path, mode=mode, tap=wire) as client:
        first = await first_round(client, "one_by_one", {"questions": ["a?"]}, meta=LOGGED)
        updates = wire.received("notifications/progress")
        success_text(await first.retry(meta=LOGGED))
        tokens = [params["_meta"]["progressToken"] for params in wire.sent("tools/call")]

    assert [(each["progressToken"], each["progress"]) for each in updates] == [(tokens[0], 1)]
    later = wire.received("notifications/progress")[1:]
    assert {each["progressToken"] for each in later} == {tokens[1]}
    assert later[-1]["progress"] == 2
    assert tokens[0] != tokens[1]
    assert [each["data"] for each in wire.received("notifications/message")] == ["a? was answered"]


LOGGED = {"io.modelcontextprotocol/logLevel": "debug"}


@everywhere
async def test_the_log_level_of_the_first_request_does_not_apply_to_the_retry(where: str, tmp_path: Path) -> None:
    wire = Wire()
    async with asking(where, tmp_path, tap=wire) as client:
        first = await first_round(client, "one_by_one", {"questions": ["a?", "b?"]}, meta=LOGGED)
        second = await first.next_round()
        success_text(await second.retry(meta=LOGGED))

    assert [each["data"] for each in wire.received("notifications/message")] == ["b? was answered"]


@pytest.mark.requirement("B.9-S5")
@everywhere
async def test_messages_of_a_parked_handler_are_dropped(where: str, tmp_path: Path) -> None:
    wire = Wire()
    async with asking(where, tmp_path, tap=wire) as client:
        first = await first_round(client, "noisy", meta=LOGGED)
        await client.call_tool("set_event", {"event": "make noise"})
        await happens(client, "noise was made")
        success_text(await first.retry(meta=LOGGED))

    assert [each["progress"] for each in wire.received("notifications/progress")] == [1, 3]
    assert wire.received("notifications/message") == []


@everywhere
async def test_cancelling_the_retry_cancels_the_handler(where: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path) as client:
        first = await first_round(client, "linger", {"key": "one"})
        call = client.open_call(
            "linger", {"key": "one"}, manual_input=True, input_responses=first.answers(), request_state=first.state
        )
        async with call as retry:
            assert (await anext(retry.updates)).progress == 1
        await happens(client, "one stopped")
        await refused(first.retry())


# The content of an interim result.


@in_both_modes
@everywhere
async def test_an_interim_result_carries_every_question_open_when_it_is_written(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        first = await first_round(client, "at_once", {"questions": ["a?", "b?", "c?"]})
        assert first.messages == ["a?", "b?", "c?"]
        assert success_text(await first.retry()) == '{"a?":2,"b?":2,"c?":2}'


@pytest.mark.requirement("B.9-S4b")
@in_both_modes
@everywhere
async def test_unanswered_questions_are_asked_again_and_unknown_answers_are_ignored(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        first = await first_round(client, "at_once", {"questions": ["a?", "b?", "c?"]})
        answered = first.keys[0]
        second = await first.next_round({answered: TWO, "unknown key": TWO})
        assert sorted(second.keys) == sorted(set(first.keys) - {answered})
        third = await second.next_round({})
        assert sorted(third.keys) == sorted(second.keys)
        assert success_text(await third.retry()) == '{"a?":2,"b?":2,"c?":2}'


@in_both_modes
@everywhere
async def test_a_question_is_identified_by_its_key_or_content_never_by_its_position(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        one_way, other_way = [
            await first_round(client, "at_once", {"questions": questions}) for questions in (["a?", "b?"], ["b?", "a?"])
        ]
        assert keys_by_message(one_way) == keys_by_message(other_way)

        adults = await first_round(client, "by_key")
        children = await adults.next_round()
        third = await children.next_round()
        assert len({*adults.keys, *children.keys, *third.keys}) == 3
        assert success_text(await third.retry()) == "[2,2,2]"

        twice = await first_round(client, "one_by_one", {"questions": ["a?", "a?"]})
        second = await twice.next_round()
        assert second.keys != twice.keys
        assert success_text(await second.retry({second.keys[0]: types.ElicitResult(action="decline")})) == "[2,0]"


def keys_by_message(questions: Any) -> dict[str, str]:
    return {question.params.message: key for key, question in questions.interim.input_requests.items()}


@pytest.mark.requirement("B.9-S2", "B.1-S4")
@in_both_modes
@everywhere
async def test_capabilities_of_the_answered_request_are_checked_when_an_interim_result_is_written(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    elicitation = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    async with asking(where, tmp_path, mode=mode) as client:
        with pytest.raises(ErrorResponse, match=r"has not declared 'elicitation\.form'"):
            await attempt(client, "seats_then_roots", capabilities=NO_ELICITATION)

        first = await first_round(client, "seats_then_roots", capabilities=elicitation)
        with pytest.raises(ErrorResponse, match="has not declared 'roots'") as caught:
            await first.retry(capabilities=elicitation)
        assert caught.value.data == {"requiredCapabilities": {"roots": {}}}

        first = await first_round(client, "seats_then_roots", capabilities=elicitation)
        second = await first.next_round(capabilities=NO_ELICITATION)  # the server asks the retry for roots
        assert success_text(await second.retry({second.keys[0]: types.ListRootsResult(roots=[])})) == "2 0"


# States.


@everywhere
async def test_a_state_is_accepted_once(where: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path) as client:
        first = await first_round(client, "one_by_one", {"questions": ["a?", "b?"]})
        second = await first.next_round()
        await refused(first.retry())
        success_text(await second.retry())
        await refused(second.retry())
        assert await count_of(client, "one_by_one") == 1


@pytest.mark.requirement("B.9-S3b")
@in_both_modes
@everywhere
async def test_a_state_is_accepted_only_for_the_same_method_name_and_arguments_and_a_refusal_does_not_use_it_up(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        begun = await count_of(client, "book")
        for name, arguments in (("book", {"show": "Faust"}), ("book", {}), ("try_to_book", {"show": "Hamlet"})):
            await refused(attempt(client, name, arguments, answers=first.answers(), state=first.state))
        params = {"name": "invitation", "requestState": first.state}
        await refused(client.request("prompts/get", params, types.GetPromptResult))
        assert await count_of(client, "book") == begun

        assert success_text(await first.retry()).startswith("2 seats for Hamlet")


@pytest.mark.requirement("B.23-S5")
@in_both_modes
@everywhere
async def test_a_malformed_retry_is_refused_and_does_not_use_the_state_up(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode) as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        wrong = types.ElicitResult(action="accept", content={"count": 10})
        with pytest.raises(ErrorResponse, match=r"\$\.content\.count: .*9") as caught:
            await first.retry(first.answers(wrong))
        assert caught.value.code == -32602
        bad_ones: list[Any] = [{"action": "maybe"}, {"roots": []}]
        for bad in bad_ones:
            with pytest.raises(ErrorResponse) as caught:
                await raw_retry(client, first, dict.fromkeys(first.keys, bad))
            assert caught.value.code == -32602

        assert success_text(await first.retry()).startswith("2 seats for Hamlet")


async def raw_retry(client: Any, first: Any, answers: Any) -> None:
    params = {
        "name": "book",
        "arguments": {"show": "Hamlet"},
        "requestState": first.state,
        "inputResponses": answers,
    }
    await client.request("tools/call", params, types.CallToolResult)


@in_both_modes
async def test_a_state_that_is_not_a_string_is_refused(mode: Mode, tmp_path: Path) -> None:
    async with asking("bytes", tmp_path, mode=mode) as client:
        with pytest.raises(ErrorResponse, match="requestState") as caught:
            await client.request("tools/call", {"name": "book", "requestState": 5}, types.CallToolResult)
        assert caught.value.code == -32602


@asynccontextmanager
async def connection(serving: Serving) -> AsyncGenerator[Client]:
    """Open one more client of a serving."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, serving, theirs)
        async with open_client(ours, **capable()) as client:
            yield client


async def test_any_connection_of_a_serving_may_send_the_retry() -> None:
    server = make_server()
    async with server.serving() as serving, connection(serving) as other:
        async with connection(serving) as one:
            first = await first_round(one, "book", {"show": "Hamlet"})
        async with open_client(server, **capable()) as other_server:  # another serving, with the same keys
            await refused(first.retry(client=other_server))
        assert success_text(await first.retry(client=other)) == "2 seats for Hamlet; begun 1"


async def test_a_broken_connection_of_the_retry_cancels_the_handler() -> None:
    async with make_server().serving() as serving, connection(serving) as other:
        async with connection(serving) as one, trio.open_nursery() as nursery:
            first = await first_round(one, "linger", {"key": "one"})
            nursery.start_soon(expect_loss, first)
            async with one.open_call("count_of", {"what": "book"}) as call:  # the retry has left before this one
                await call.result()
            await one.aclose()
        await happens(other, "one stopped")
        await refused(first.retry(client=other))


async def expect_loss(first: Round) -> None:
    with pytest.raises(ConnectionClosed):
        await first.retry()


# The rest of the handler run.


async def test_the_handler_keeps_the_context_variables_of_the_first_request(tmp_path: Path) -> None:
    async with asking("memory", tmp_path) as client:
        caller.set("the first")
        first = await first_round(client, "whose_call")
        caller.set("the second")
        assert success_text(await first.retry()) == '["the first","the first"]'


@everywhere
async def test_the_retry_receives_the_outcome_of_a_handler_that_ended_while_parked(where: str, tmp_path: Path) -> None:
    """The deadlines of a parked handler continue; a question with a timeout of zero would never be parked."""
    async with asking(where, tmp_path) as client:
        first = await first_round(client, "hasty", {"key": "one", "seconds": 0.2})
        await happens(client, "one gave up")
        assert success_text(await first.retry()) == "gave up"
        await refused(first.retry())


@everywhere
async def test_beyond_max_parked_the_new_question_fails_and_nothing_is_evicted(where: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path) as client:
        parked = [await first_round(client, "book", {"show": show}) for show in "abc"]
        assert "Limits.max_parked" in success_text(await attempt(client, "try_to_book"))
        with pytest.raises(ErrorResponse, match="too busy") as caught:
            await attempt(client, "book", {"show": "d"})
        assert caught.value.code == -31000

        for first, show in zip(parked, "abc", strict=True):
            assert success_text(await first.retry()).startswith(f"2 seats for {show}")
        await first_round(client, "try_to_book")
