"""The promised program that asks its user in mid-call, with the official client in both eras, parked and replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.peers.test_official_client import Play, call, play_with, value

__all__ = ["play_with"]  # a fixture

SERVER = str(Path(__file__).with_name("asking_server.py"))
ACCEPT = {"action": "accept", "content": {"count": 2}}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "short"}, "model": "tiny"}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}


@pytest.fixture(params=["parked", "replayed"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def play_asking(play_with: Callable[..., Play], mode: str) -> Play:
    return play_with("asking", SERVER, mode)


def answers(**given: Any) -> dict[str, Any]:
    return {"do": "answers", **given}


def test_the_promised_program_books_what_the_user_of_the_official_client_says(play_asking: Play) -> None:
    booked, asked = play_asking(answers(elicitation=ACCEPT), call("book", show="Tosca"), {"do": "asked"})
    assert value(booked) == "2 seats for Tosca"
    assert [question["message"] for question in asked] == ["How many seats for Tosca?"]
    assert asked[0]["requestedSchema"]["properties"]["count"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "how many",
    }


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_the_promised_program_books_nothing_for_a_user_who_does_not_answer(play_asking: Play, action: str) -> None:
    [booked] = play_asking(answers(elicitation={"action": action}), call("book", show="Tosca"))
    assert value(booked) == "nothing booked"


def test_the_promised_program_says_what_the_official_client_would_have_to_declare(
    play_asking: Play, play_with: Callable[..., Play], request: pytest.FixtureRequest
) -> None:
    attempt = {"do": "attempt", "step": call("book", show="Tosca")}
    [outcome] = play_asking(attempt)
    if "2026" in request.node.name:
        assert outcome["code"] == -32021
        assert outcome["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    else:
        result = outcome["answered"]["result"]
        assert result["isError"]
        assert "elicitation" in result["content"][0]["text"]


def test_what_is_done_before_a_question_is_done_once_or_with_each_round_and_once_is_once(
    play_asking: Play, mode: str, request: pytest.FixtureRequest
) -> None:
    [outcome] = play_asking(answers(elicitation=ACCEPT), call("careful"))
    replayed = mode == "replayed" and "2026" in request.node.name
    assert value(outcome) == ("3 1" if replayed else "1 1")


def test_the_model_and_the_roots_of_the_official_client_are_asked(play_asking: Play) -> None:
    said, everything = play_asking(
        answers(elicitation=ACCEPT, sampling=MODEL, list_roots=ROOTS),
        call("summarise", text="much"),
        call("everything"),
    )
    assert value(said) == "tiny: short"
    assert value(everything) == "Accepted(value=Seats(count=2)) ['file:///home/ada']"


def test_prompts_and_resources_ask_the_official_client_as_well(play_asking: Play) -> None:
    prompt, resource = play_asking(
        answers(elicitation=ACCEPT, list_roots=ROOTS),
        {"do": "prompt", "name": "plan", "arguments": {}},
        {"do": "read", "uri": "seats://free"},
    )
    assert prompt[0]["content"]["text"] == "Plan an evening for 2."
    assert resource[0]["text"] == "1 roots"
