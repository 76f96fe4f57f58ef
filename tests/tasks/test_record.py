"""The record of a task: its status changes by the table, and its form on the wire is complete."""

from __future__ import annotations

import itertools
import re
from typing import get_args

import pytest
from attrs import evolve

from trio_mcp.tasks import TaskRecord, TaskReplay, TaskStatus
from trio_mcp.wire import decode, encode

STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
FINAL = {"completed", "failed", "cancelled"}


def a_record(status: TaskStatus = "working") -> TaskRecord:
    return TaskRecord(
        owner="o",
        principal=None,
        status=status,
        created_at=1_700_000_000.0,
        updated_at=1_700_000_000.25,
        ttl=60.0,
        poll_interval=0.5,
        expires_at=1_700_000_060.0,
    )


@pytest.mark.parametrize(("before", "after"), [*itertools.product(STATUSES, STATUSES)])
def test_a_status_changes_unless_it_is_final(before: TaskStatus, after: TaskStatus) -> None:
    record = a_record(before)

    changed = record.changed(1_700_000_001.0, after, {"x": 1}, "m")

    assert (changed is record) == (before in FINAL)
    assert changed.status == (before if before in FINAL else after)


def test_a_final_record_takes_no_message() -> None:
    assert a_record("completed").told(2.0, "late").message is None
    assert a_record().told(2.0, "half").message == "half"


def test_ids_cannot_be_guessed() -> None:
    ids = {a_record().id for _ in range(1000)}

    assert len(ids) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{48}", id) for id in ids)


def test_the_form_on_the_wire_has_times_in_milliseconds_and_timestamps_in_iso_8601() -> None:
    record = evolve(a_record(), id="t", message="half")

    assert record.to_wire() == {
        "taskId": "t",
        "status": "working",
        "statusMessage": "half",
        "createdAt": "2023-11-14T22:13:20.000Z",
        "lastUpdatedAt": "2023-11-14T22:13:20.250Z",
        "ttlMs": 60_000,
        "pollIntervalMs": 500,
    }


def test_a_task_without_expiry_says_null() -> None:
    assert evolve(a_record(), ttl=None).to_wire()["ttlMs"] is None


@pytest.mark.parametrize(
    ("status", "member"), [("input_required", "inputRequests"), ("completed", "result"), ("failed", "error")]
)
def test_the_outcome_is_in_the_member_of_its_status(status: TaskStatus, member: str) -> None:
    changed = a_record().changed(1.0, status, {"x": 1}, None)

    assert changed.to_wire_in_detail()[member] == {"x": 1}
    assert {"inputRequests", "result", "error"} & changed.to_wire_in_detail().keys() == {member}
    assert member not in changed.to_wire()


def test_a_task_whose_questions_all_have_an_answer_works_for_its_client() -> None:
    asked = a_record().changed(1.0, "input_required", {"p": {"x": 1}, "q": {"x": 2}}, None)

    half = asked.answered(2.0, {"p": None})
    assert half.to_wire_in_detail()["inputRequests"] == {"q": {"x": 2}}
    assert half.to_wire()["status"] == "input_required"
    answered = half.answered(3.0, {"q": 7})
    assert answered.to_wire_in_detail() == {**answered.to_wire(), "status": "working"}


def test_a_record_is_the_same_after_it_was_stored() -> None:
    replay = TaskReplay(params={"name": "t", "arguments": {"n": 2**70}}, state="s", answers={"a": None})
    for record in (a_record(), evolve(a_record(), replay=replay, outcome={"q": {}}, answers={"q": 1})):
        assert TaskRecord.from_stored(decode(encode(record.to_stored()))) == record


@pytest.mark.parametrize(("ttl", "kept"), [(60.0, 60.0), (7200.0, 300.0), (0.001, 1.0)])
def test_an_overdue_task_fails_and_is_kept_a_little_longer(ttl: float, kept: float) -> None:
    overdue = evolve(a_record(), ttl=ttl).overdue(1000.0, -32603)

    assert overdue.status == "failed"
    assert overdue.outcome == {"code": -32603, "message": f"the task did not end within {ttl:g} s and was cancelled"}
    assert overdue.expires_at == 1000.0 + kept
