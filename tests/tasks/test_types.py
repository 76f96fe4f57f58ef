"""The generated types of the tasks extension."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import StructureError, types
from trio_mcp.tasks import types as task_types

STATE: dict[str, Any] = {
    "taskId": "1",
    "createdAt": "2026-11-26T12:00:00Z",
    "lastUpdatedAt": "2026-11-26T12:00:01Z",
    "ttlMs": None,
}
QUESTION = {"method": "roots/list"}


@pytest.mark.parametrize(
    ("added", "cls"),
    [
        ({"status": "working", "statusMessage": "compiling"}, task_types.GetTaskResultWorking),
        ({"status": "input_required", "inputRequests": {"q": QUESTION}}, task_types.GetTaskResultInputRequired),
        ({"status": "completed", "result": {"content": []}}, task_types.GetTaskResultCompleted),
        ({"status": "failed", "error": {"code": -32603, "message": "x"}}, task_types.GetTaskResultFailed),
        ({"status": "cancelled"}, task_types.GetTaskResultCancelled),
    ],
)
def test_the_status_of_a_task_decides_the_class_of_its_state(added: dict[str, Any], cls: type[types.Model]) -> None:
    value = {**STATE, **added, "resultType": "complete", "_meta": {"a": 1}, "pollIntervalMs": 500}

    state = types.structure(value, task_types.GetTaskResult)

    assert isinstance(state, cls)
    assert state.extra == {}
    assert types.unstructure(state) == value


def test_a_state_without_the_member_of_its_status_is_refused() -> None:
    with pytest.raises(StructureError, match=r"\$: required member 'inputRequests' is missing"):
        types.structure({**STATE, "status": "input_required"}, task_types.DetailedTask)


def test_the_questions_and_the_error_of_a_task_are_types_of_the_core() -> None:
    asking = types.structure(
        {**STATE, "status": "input_required", "inputRequests": {"q": QUESTION}}, task_types.DetailedTask
    )
    failed = types.structure(
        {**STATE, "status": "failed", "error": {"code": 1, "message": "x"}}, task_types.DetailedTask
    )

    assert asking.input_requests == {"q": types.ListRootsRequest()}
    assert failed.error == types.Error(code=1, message="x")


def test_the_time_to_live_is_required_and_may_be_null() -> None:
    task = types.structure({**STATE, "status": "working"}, task_types.Task)

    assert task.ttl_ms is None
    assert types.unstructure(task)["ttlMs"] is None
    with pytest.raises(StructureError, match="required member 'ttlMs' is missing"):
        types.structure({name: value for name, value in STATE.items() if name != "ttlMs"}, task_types.WorkingTask)


@pytest.mark.parametrize("revision", [None, *types.REVISIONS])
def test_a_task_is_never_read_by_the_rules_of_the_experimental_tasks_of_the_core(revision: str | None) -> None:
    value = {**STATE, "status": "working", "resultType": "task"}

    created = types.structure(value, task_types.CreateTaskResult, revision=revision)

    assert created.task_id == "1"
    assert types.unstructure(created, revision=revision) == value


def test_the_table_of_methods_leads_to_the_classes() -> None:
    methods = task_types.METHODS

    assert methods["tasks/get"].results == (task_types.GetTaskResult,)
    assert methods["tasks/update"].params is task_types.UpdateTaskRequestParams
    assert methods["notifications/tasks"].params == task_types.TaskStatusNotificationParams
    assert {name for name, row in methods.items() if row.direction == "server"} == {"notifications/tasks"}
