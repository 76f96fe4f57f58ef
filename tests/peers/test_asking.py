"""The documented program that asks its user during a call, with the official client in both eras, over stdio and HTTP,
parked and replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.peers.test_official_client import Play, Step, call, era, over, play_with, value

__all__ = ["era", "over", "play_with"]  # fixtures

SERVER = str(Path(__file__).with_name("asking_server.py"))
ACCEPT = {"action": "accept", "content": {"count": 2}}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "short"}, "model": "tiny"}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}


def answers(**given: Any) -> dict[str, Any]:
    return {"do": "answers", **given}


PLAN: dict[str, Step] = {
    "accepting": answers(elicitation=ACCEPT, sampling=MODEL, list_roots=ROOTS),
    "booked": call("book", show="Tosca"),
    "questions": {"do": "received_questions"},
    "careful": call("careful", trip=""),
    "summary": call("summarise", text="much"),
    "everything": call("everything"),
    "prompt": {"do": "prompt", "name": "plan", "arguments": {}},
    "resource": {"do": "read", "uri": "seats://free"},
    "declining": answers(elicitation={"action": "decline"}),
    "declined": call("book", show="Tosca"),
    "cancelling": answers(elicitation={"action": "cancel"}),
    "cancelled": call("book", show="Tosca"),
}
"""The plan of a client that answers every question. It is one client, because its start takes longest."""


@pytest.fixture(scope="module", params=["parked", "replayed"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def play_asking(play_with: Callable[..., Play], mode: str) -> Play:
    return play_with("asking", SERVER, mode, url=f"asking-{mode}")


@pytest.fixture(scope="module")
def played(play_asking: Play, era: tuple[str, str], mode: str) -> dict[str, Any]:
    """The outcome of each step of the plan."""
    plan = PLAN | {"careful": call("careful", trip=f"{era[0]} {mode}")}  # over HTTP it is one server for all
    return dict(zip(plan, play_asking(*plan.values()), strict=True))


def test_the_promised_program_books_the_number_that_the_user_of_the_official_client_enters(
    played: dict[str, Any],
) -> None:
    assert value(played["booked"]) == "2 seats for Tosca"
    questions = played["questions"]
    assert [question["message"] for question in questions] == ["How many seats for Tosca?"]
    assert questions[0]["requestedSchema"]["properties"]["count"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "how many",
    }


@pytest.mark.parametrize("outcome", ["declined", "cancelled"])
def test_the_promised_program_books_nothing_if_the_user_does_not_accept(played: dict[str, Any], outcome: str) -> None:
    assert value(played[outcome]) == "nothing booked"


def test_the_promised_program_names_the_capability_that_the_official_client_lacks(
    play_asking: Play, request: pytest.FixtureRequest
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


def test_code_before_a_question_runs_once_if_parked_and_each_round_if_replayed_but_once_runs_once(
    played: dict[str, Any], mode: str, request: pytest.FixtureRequest
) -> None:
    replayed = mode == "replayed" and "2026" in request.node.name
    assert value(played["careful"]) == ("3 1" if replayed else "1 1")


def test_the_server_asks_the_official_client_for_sampling_and_roots(played: dict[str, Any]) -> None:
    assert value(played["summary"]) == "tiny: short"
    assert value(played["everything"]) == "Accepted(value=Seats(count=2)) ['file:///home/ada']"


def test_prompts_and_resources_can_ask_the_official_client(played: dict[str, Any]) -> None:
    assert played["prompt"][0]["content"]["text"] == "Plan an evening for 2."
    assert played["resource"][0]["text"] == "1 roots"
