"""Generated from schema/extensions/tasks.json by `python -m codegen`: do not edit. The messages of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from trio_mcp.types import NO_EXTRA, Error, InputRequests, InputResponses, JSONObject, Method, Model, RequestId


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskRequest(Model):
    """The request of a client to cancel a task.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: CancelTaskRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskRequestParams(Model):
    """The task to cancel.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelTaskResult(Model):
    """The acknowledgement of a cancellation. The task may still end in another way.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    result_type: Literal["complete"] = "complete"
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CancelledTask(Model):
    """A task that was cancelled.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["cancelled"] = "cancelled"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CompletedTask(Model):
    """A task that has its result.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    result: JSONObject
    """The result that the request would have had without a task."""
    status: Literal["completed"] = "completed"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class CreateTaskResult(Model):
    """The first result of a request that goes on as a task: the task, not yet its outcome.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    result_type: Literal["task"] = "task"
    status: TaskStatus
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class FailedTask(Model):
    """A task that ended with an error of JSON-RPC.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    error: Error
    """The error that the request would have ended with without a task."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["failed"] = "failed"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskRequest(Model):
    """The request of a client for the state of a task.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskRequestParams(Model):
    """The task to look up.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResultCancelled(Model):
    """The state of a task that was cancelled.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    result_type: Literal["complete"] = "complete"
    status: Literal["cancelled"] = "cancelled"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResultCompleted(Model):
    """The state of a task that has its result.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    result: JSONObject
    """The result that the request would have had without a task."""
    result_type: Literal["complete"] = "complete"
    status: Literal["completed"] = "completed"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResultFailed(Model):
    """The state of a task that ended with an error of JSON-RPC.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    error: Error
    """The error that the request would have ended with without a task."""
    last_updated_at: str
    """An ISO 8601 time."""
    result_type: Literal["complete"] = "complete"
    status: Literal["failed"] = "failed"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResultInputRequired(Model):
    """The state of a task that waits for answers of the client.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    input_requests: InputRequests
    """The open questions by their keys, which the task never uses again."""
    last_updated_at: str
    """An ISO 8601 time."""
    result_type: Literal["complete"] = "complete"
    status: Literal["input_required"] = "input_required"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class GetTaskResultWorking(Model):
    """The state of a task that is still worked on.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    result_type: Literal["complete"] = "complete"
    status: Literal["working"] = "working"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class InputRequiredTask(Model):
    """A task that waits for answers of the client.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    input_requests: InputRequests
    """The open questions by their keys, which the task never uses again."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["input_required"] = "input_required"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Task(Model):
    """The state of a task in any status, without what the status adds.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: TaskStatus
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotification(Model):
    """The notice of a server of the new state of a task.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: TaskStatusNotificationParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotificationParamsCancelled(Model):
    """The new state of a task that was cancelled.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["cancelled"] = "cancelled"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotificationParamsCompleted(Model):
    """The new state of a task that has its result.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    result: JSONObject
    """The result that the request would have had without a task."""
    status: Literal["completed"] = "completed"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotificationParamsFailed(Model):
    """The new state of a task that ended with an error of JSON-RPC.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    error: Error
    """The error that the request would have ended with without a task."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["failed"] = "failed"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotificationParamsInputRequired(Model):
    """The new state of a task that waits for answers of the client.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    input_requests: InputRequests
    """The open questions by their keys, which the task never uses again."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["input_required"] = "input_required"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskStatusNotificationParamsWorking(Model):
    """The new state of a task that is still worked on.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["working"] = "working"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskSubscriptionAcknowledgedNotifications(Model):
    """The tasks whose changes the server has agreed to send.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    task_ids: Sequence[str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class TaskSubscriptionNotifications(Model):
    """The tasks whose changes a client wants to be notified of.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    task_ids: Sequence[str] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UpdateTaskRequest(Model):
    """The answers of a client to the questions of a task.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    id: RequestId
    jsonrpc: Literal["2.0"] = "2.0"
    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateTaskRequestParams
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UpdateTaskRequestParams(Model):
    """The task, and the answers to some or all of its questions.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    input_responses: InputResponses
    """The answers by the keys of their questions."""
    task_id: str
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class UpdateTaskResult(Model):
    """The acknowledgement of answers. The task may show their effect later.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    result_type: Literal["complete"] = "complete"
    meta: JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    extra: Mapping[str, Any] = NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class WorkingTask(Model):
    """A task that is still worked on.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """

    created_at: str
    """An ISO 8601 time."""
    last_updated_at: str
    """An ISO 8601 time."""
    status: Literal["working"] = "working"
    task_id: str
    ttl_ms: int | None
    """The time that the task is kept after its creation, in milliseconds; None for no limit."""
    poll_interval_ms: int | None = None
    """The time to wait between two polls of the task, in milliseconds; None if any is suitable."""
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


DetailedTask: TypeAlias = WorkingTask | InputRequiredTask | CompletedTask | FailedTask | CancelledTask
"""The state of a task with what its status adds, such as its result.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""


GetTaskResult: TypeAlias = (
    GetTaskResultWorking
    | GetTaskResultInputRequired
    | GetTaskResultCompleted
    | GetTaskResultFailed
    | GetTaskResultCancelled
)
"""The state of a task, as a client has requested it.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""


TaskStatus: TypeAlias = Literal["cancelled", "completed", "failed", "input_required", "working"]
"""The status of a task; `completed`, `failed` and `cancelled` are final.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""


TaskStatusNotificationParams: TypeAlias = (
    TaskStatusNotificationParamsWorking
    | TaskStatusNotificationParamsInputRequired
    | TaskStatusNotificationParamsCompleted
    | TaskStatusNotificationParamsFailed
    | TaskStatusNotificationParamsCancelled
)
"""The new state of a task, with what its status adds.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""


TasksExtensionCapability: TypeAlias = Mapping[str, Any]
"""The settings with which a side declares that it supports tasks; there are none.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

__all__ = [
    "CancelTaskRequest",
    "CancelTaskRequestParams",
    "CancelTaskResult",
    "CancelledTask",
    "CompletedTask",
    "CreateTaskResult",
    "DetailedTask",
    "EXTENSION",
    "FailedTask",
    "GetTaskRequest",
    "GetTaskRequestParams",
    "GetTaskResult",
    "GetTaskResultCancelled",
    "GetTaskResultCompleted",
    "GetTaskResultFailed",
    "GetTaskResultInputRequired",
    "GetTaskResultWorking",
    "InputRequiredTask",
    "METHODS",
    "Task",
    "TaskStatus",
    "TaskStatusNotification",
    "TaskStatusNotificationParams",
    "TaskStatusNotificationParamsCancelled",
    "TaskStatusNotificationParamsCompleted",
    "TaskStatusNotificationParamsFailed",
    "TaskStatusNotificationParamsInputRequired",
    "TaskStatusNotificationParamsWorking",
    "TaskSubscriptionAcknowledgedNotifications",
    "TaskSubscriptionNotifications",
    "TasksExtensionCapability",
    "UpdateTaskRequest",
    "UpdateTaskRequestParams",
    "UpdateTaskResult",
    "WorkingTask",
]
EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The name under which both sides declare the extension."""
METHODS: Final[Mapping[str, Method]] = {
    "notifications/tasks": Method(
        "notification", "server", "trio_mcp.tasks.types.TaskStatusNotificationParams", True, ()
    ),
    "tasks/cancel": Method(
        "request",
        "client",
        "trio_mcp.tasks.types.CancelTaskRequestParams",
        True,
        ("trio_mcp.tasks.types.CancelTaskResult",),
    ),
    "tasks/get": Method(
        "request", "client", "trio_mcp.tasks.types.GetTaskRequestParams", True, ("trio_mcp.tasks.types.GetTaskResult",)
    ),
    "tasks/update": Method(
        "request",
        "client",
        "trio_mcp.tasks.types.UpdateTaskRequestParams",
        True,
        ("trio_mcp.tasks.types.UpdateTaskResult",),
    ),
}
"""Every method of the extension, by its name on the wire."""
