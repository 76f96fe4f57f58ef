"""`--answer FILE`: the answers of scripts to the questions of a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import PROGRAMS, raw
from tests.cli.conftest import Command, Done

ASKING = ["--", sys.executable, str(PROGRAMS / "asking_server.py")]
FORM: dict[str, Any] = {
    "message": "How many seats?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1},
            "where": {"type": "string", "enum": ["stalls", "circle"], "default": "circle"},
            "notes": {"type": "string"},
        },
        "required": ["count"],
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "answers.json"


def asked(command: Command, file: Path, answers: object, form: dict[str, Any] = FORM) -> Done:
    """Run a call whose result is the answer that the server received."""
    file.write_text(json.dumps(answers))
    return command("call", "book", "--answer", str(file), *raw(ask=form))


@pytest.mark.parametrize(
    ("answers", "received"),
    [
        ({"count": 2}, {"action": "accept", "content": {"count": 2, "where": "circle"}}),
        (
            {"count": 2, "where": "stalls", "notes": "x"},
            {"action": "accept", "content": {"count": 2, "where": "stalls", "notes": "x"}},
        ),
        ([{"count": 2}], {"action": "accept", "content": {"count": 2, "where": "circle"}}),
        ("decline", {"action": "decline"}),
        (["cancel", "decline"], {"action": "cancel"}),
    ],
)
def test_a_form_is_answered_from_the_file(answers: object, received: Any, file: Path, command: Command) -> None:
    done = asked(command, file, answers)

    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out) == received


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize(
    ("answers", "result"),
    [({"count": 2}, "2 seats, Accepted"), ([{"count": 3}, "decline"], "3 seats, Declined"), ("decline", "Declined")],
)
def test_several_questions_are_answered_in_every_revision(
    answers: object, result: str, revision: str, file: Path, command: Command
) -> None:
    file.write_text(json.dumps(answers))

    done = command("call", "pay", "--answer", str(file), "--revision", revision, *ASKING)

    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(f"{result}\n")


def test_a_form_without_fields_is_accepted(file: Path, command: Command) -> None:
    form: dict[str, Any] = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}

    assert json.loads(asked(command, file, "accept", form).out) == {"action": "accept", "content": {}}


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ({}, "the answer to 'How many seats?' does not fit: $.count: required, but missing"),
        ({"count": 0}, "the answer to 'How many seats?' does not fit: $.count: "),
        ([], " has 0 answers, but the server asks again: 'How many seats?'"),
        (["accept"], "$.count: required, but missing"),
    ],
)
def test_an_answer_that_does_not_fit_ends_the_command(
    answers: object, fault: str, file: Path, command: Command
) -> None:
    done = asked(command, file, answers)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"trio-mcp call: {file}")
    assert fault in done.err


def test_names_that_no_form_has_are_reported(file: Path, command: Command) -> None:
    done = asked(command, file, [{"count": 1, "cuont": 2}])

    assert (done.status, done.err) == (0, f"{file}: the server has not asked for cuont\n")


@pytest.mark.parametrize("content", ["{", '"maybe"', "[1]", "3"])
def test_a_file_of_another_form_is_refused(content: str, file: Path, command: Command) -> None:
    file.write_text(content)

    done = command("call", "book", "--answer", str(file), *raw())

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"trio-mcp call: {file}: ")


def test_a_file_that_does_not_exist_is_reported(command: Command) -> None:
    assert command("call", "book", "--answer", "none.json", *raw()).err == (
        "trio-mcp call: cannot read none.json: No such file or directory\n"
    )


def test_a_form_whose_schema_cannot_be_used_is_answered_without_a_check(file: Path, command: Command) -> None:
    form = {"message": "?", "requestedSchema": FORM["requestedSchema"] | {"$schema": "https://example.org/custom"}}

    assert json.loads(asked(command, file, {"count": 0}, form).out)["content"]["count"] == 0


def test_pages_to_visit_are_not_declared_with_a_file(file: Path, command: Command, tmp_path: Path) -> None:
    file.write_text("{}")

    command("tools", "--answer", str(file), "--trace", str(tmp_path / "wire"), *raw())

    sent = (tmp_path / "wire").read_text()
    assert '"elicitation":{"form":{}}' in sent or '"elicitation":{}' in sent
    assert '"url"' not in sent
