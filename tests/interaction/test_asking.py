"""Asking the user during a call, as the handler and the client see it, in every revision."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interaction.asking import (
    ROOTS,
    WITH_ELICITATION,
    Wire,
    asking,
    count_of,
    everywhere,
    first_round,
    in_both_eras,
    in_both_modes,
    success_text,
    text,
)
from tests.interaction.asking_server import Mode
from tests.interaction.scripted_peers import MODERN
from trio_mcp import ErrorResponse, types

LEGACY = WITH_ELICITATION[:-1]

# The handler is straight-line code.


@in_both_modes
@everywhere
@pytest.mark.parametrize("revision", WITH_ELICITATION)
async def test_the_handler_asks_in_straight_line_code(where: str, mode: Mode, revision: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path, mode=mode, revision=revision) as client:
        begun = 2 if (mode, revision) == ("replayed", MODERN) else 1
        assert success_text(await client.call_tool("book", {"show": "Hamlet"})) == f"2 seats for Hamlet; begun {begun}"
        assert success_text(await client.call_tool("one_by_one", {"questions": ["a?", "b?"]})) == "[2,2]"


@everywhere
@pytest.mark.parametrize("revision", LEGACY)
async def test_in_the_legacy_era_the_server_sends_a_nested_request(where: str, revision: str, tmp_path: Path) -> None:
    wire = Wire()
    async with asking(where, tmp_path, revision=revision, tap=wire) as client:
        success_text(await client.call_tool("book", {"show": "Hamlet"}))

    assert wire.requests_received == ["elicitation/create"]
    (params,) = wire.received("elicitation/create")
    assert params["message"] == "How many seats for Hamlet?"
    assert len(wire.sent("tools/call")) == 1


@pytest.mark.requirement("B.9-S1a")
@in_both_modes
@everywhere
async def test_in_the_modern_era_the_call_returns_its_questions_and_the_client_retries_with_the_answers(
    where: str, mode: Mode, tmp_path: Path
) -> None:
    wire = Wire()
    async with asking(where, tmp_path, mode=mode, tap=wire) as client:
        success_text(await client.call_tool("book", {"show": "Hamlet"}))

    assert wire.requests_received == []
    _, retry = wire.sent("tools/call")
    interims = [message["result"] for _, message in wire.messages if "input_required" in str(message)]
    (interim,) = interims
    ((key, question),) = interim["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "How many seats for Hamlet?"
    assert retry["inputResponses"].keys() == {key}
    assert retry["requestState"] == interim["requestState"]
    assert "ttlMs" not in interim


@everywhere
async def test_a_parked_handler_resumes_exactly_once_at_its_question(where: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path) as client:
        first = await first_round(client, "book", {"show": "Hamlet"})
        assert await count_of(client, "book") == 1
        assert success_text(await first.retry()) == "2 seats for Hamlet; begun 1"
        assert await count_of(client, "book") == 1


@everywhere
async def test_a_replayed_handler_runs_again_from_the_top_and_answered_questions_return_at_once(
    where: str, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode="replayed") as client:
        questions = ["a?", "b?", "c?"]
        rounds = await first_round(client, "one_by_one", {"questions": questions})
        for number, question in enumerate(questions[1:]):
            rounds = await rounds.next_round()
            assert rounds.messages == [question]
            assert await count_of(client, "one_by_one") == number + 2
        assert success_text(await rounds.retry()) == "[2,2,2]"


# Kinds of handlers that can ask.


@pytest.mark.requirement("B.9-S1b")
@in_both_modes
@everywhere
@in_both_eras
async def test_prompts_and_resources_can_ask(where: str, mode: Mode, revision: str, tmp_path: Path) -> None:
    async with asking(where, tmp_path, mode=mode, revision=revision) as client:
        prompt = await client.get_prompt("invitation")
        resource = await client.read_resource("table://reserved")

    assert prompt.messages[0].content == types.TextContent(text="Invite 2 guests.")
    (contents,) = resource.contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.text == "A table for 2."


@in_both_modes
@everywhere
@in_both_eras
async def test_plain_functions_can_ask_from_their_worker_thread(
    where: str, mode: Mode, revision: str, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode, revision=revision) as client:
        begun = 2 if (mode, revision) == ("replayed", MODERN) else 1
        assert success_text(await client.call_tool("book_in_a_thread")) == f"2; begun {begun}"


@in_both_modes
@everywhere
@in_both_eras
async def test_ask_all_asks_in_one_round(where: str, mode: Mode, revision: str, tmp_path: Path) -> None:
    wire = Wire()
    async with asking(where, tmp_path, mode=mode, revision=revision, tap=wire) as client:
        assert success_text(await client.call_tool("everything")) == "2 1 m"

    methods = {"elicitation/create", "roots/list", "sampling/createMessage"}
    if revision == MODERN:
        (interim,) = (message["result"] for _, message in wire.messages if "input_required" in str(message))
        assert {question["method"] for question in interim["inputRequests"].values()} == methods
    else:
        assert set(wire.requests_received) == methods


@in_both_modes
@everywhere
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_handler_can_ask_for_sampling_and_roots_in_every_revision(
    where: str, mode: Mode, revision: str, tmp_path: Path
) -> None:
    async with asking(where, tmp_path, mode=mode, revision=revision) as client:
        assert success_text(await client.call_tool("mood")) == "fine"
        assert text(await client.call_tool("where")) == f'["{ROOTS[0].uri}"]'


# Clients that cannot be asked.


@in_both_modes
@everywhere
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_client_without_the_capability_is_not_asked_and_the_handler_fails_as_specified(
    where: str, mode: Mode, revision: str, tmp_path: Path
) -> None:
    wire = Wire()
    async with asking(where, tmp_path, mode=mode, revision=revision, on_elicit=None, tap=wire) as client:
        if revision == MODERN:
            with pytest.raises(ErrorResponse, match=r"has not declared 'elicitation\.form'") as caught:
                await client.call_tool("book", {"show": "Hamlet"})
            assert caught.value.code == -32021
            assert caught.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        else:
            result = await client.call_tool("book", {"show": "Hamlet"})
            assert result.is_error
            assert "elicitation" in text(result) or "no questions to the user" in text(result)
    assert wire.requests_received == []


@in_both_modes
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_prompt_that_cannot_ask_fails_with_an_error(mode: Mode, revision: str, tmp_path: Path) -> None:
    async with asking("memory", tmp_path, mode=mode, revision=revision, on_elicit=None) as client:
        with pytest.raises(ErrorResponse) as caught:
            await client.get_prompt("invitation")
    assert caught.value.code == (-32021 if revision == MODERN else -32603)
