"""The experimental tasks of 2025-11-25, as a client speaks them with servers that have them.

They differ from the extension: the client requests a task, the result of a task has a method of its own, and questions
arrive as requests of the server while the client waits for that result.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

from attrs import frozen

from .. import Client, LocalProtocolError, RemoteProtocolError, RequestTimedOut, StructureError, types
from ..wire import JsonObject, is_object
from ._watch import TaskState, interval_of

__all__ = ["LEGACY_REVISION", "LegacyMethods", "read_created", "takes_legacy_tasks"]

LEGACY_REVISION = "2025-11-25"
"""The only revision that has them."""


async def takes_legacy_tasks(client: Client, tool: str) -> bool:
    """Return True if the server of a client can make tasks, in this way, of the calls of a tool.

    A client must not request a task for any other tool, so the tools are listed, unless the list is cached.
    """
    declared = client.server_capabilities.tasks if client.revision == LEGACY_REVISION else None
    if declared is None or declared.requests is None or not _has_calls(types.unstructure(declared.requests)):
        return False
    async for each in client.tools():
        if each.name == tool:
            return each.execution is not None and each.execution.task_support in {"optional", "required"}
    return False


def _has_calls(requests: JsonObject) -> bool:
    tools = requests.get("tools")
    return is_object(tools) and "call" in tools


def read_created(json: JsonObject) -> TaskState | None:
    """Return the state of the task that a call has become; None if the server has answered the call at once."""
    return _state(json["task"]) if is_object(json.get("task")) else None


def _state(json: JsonObject) -> TaskState:
    try:
        task = types.structure(json, types.Task, revision=LEGACY_REVISION)
    except StructureError as error:
        raise RemoteProtocolError(f"the state of a task does not fit: {'; '.join(error.faults)}") from error
    return TaskState(
        id=task.task_id,
        status=task.status,
        message=task.status_message,
        created_at=task.created_at,
        updated_at=task.last_updated_at,
        ttl=None if task.ttl is None else task.ttl / 1000,
        poll_interval=interval_of(task.poll_interval),
    )


@frozen(eq=False)
class LegacyMethods:
    """The methods of 2025-11-25, for one task."""

    _client: Client
    _id: str

    async def get(self) -> TaskState:
        """Return the state."""
        return _state(await self._request("tasks/get"))

    async def result_of(self, state: TaskState) -> JsonObject:
        """Wait for the result, while the server asks its questions; raise the error of a failed task."""
        del state
        while True:
            try:
                return await self._request("tasks/result")
            except RequestTimedOut:  # a task may take longer than a request
                await self.get()

    def asks_in_result(self, state: TaskState) -> bool:
        """Return True if the task waits for answers."""
        return state.status == "input_required"

    async def answer(self, answers: JsonObject) -> None:
        """Refuse: the server asks in requests of its own, which the callbacks of the client answer."""
        del answers
        raise LocalProtocolError(f"in revision {LEGACY_REVISION}, only the callbacks of the client answer a task")

    async def cancel(self) -> None:
        """Ask the server to cancel the task."""
        await self._request("tasks/cancel")

    def listen(self) -> None:
        """Return None: the notifications are optional and not subscribed to, and requests for the state suffice."""

    async def _request(self, method: str) -> JsonObject:
        return await self._client.request(method, {"taskId": self._id}, dict)
