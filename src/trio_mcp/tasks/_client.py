"""Tasks of a client: calls that follow a task to its end, and handles of tasks that run on.

Rules of this file:

1. A cancelled call cancels its task.
2. A handle whose methods are cancelled does not: its task goes on.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio
from attrs import define, field, frozen

from .. import Changes, Client, ErrorResponse, LocalProtocolError, TrioMcpError, types
from ..lowlevel import ClientExtensionPoints
from ..wire import JsonObject
from ._legacy import LEGACY_REVISION, LegacyMethods, read_created, takes_legacy_tasks
from ._record import EXTENSION, LISTENED, TaskStatus
from ._watch import TaskMethods, TaskState, TaskWatch, read_state

__all__ = ["FollowedTask", "TaskHandle", "TaskStates", "open_task", "start_task"]

_DECLARED: Mapping[str, Mapping[str, Any]] = {EXTENSION: {}}
"""The extension that every request about a task declares."""
_SECONDS_TO_CANCEL = 5.0
"""The time within which the server must confirm that a task is cancelled; then the client stops waiting for that."""


@frozen(eq=False)
class ExtensionMethods:
    """The methods of the extension, for one task."""

    _client: Client
    _id: str

    async def get(self) -> TaskState:
        """Return the state."""
        return read_state(await self._request("tasks/get"), self._client.revision)

    async def result_of(self, state: TaskState) -> JsonObject:
        """Return the result; raise the error of a failed task as if the call had been answered with it."""
        outcome = state.outcome or {}
        if state.status == "failed":
            raise ErrorResponse(outcome.get("code", 0), outcome.get("message", ""), outcome.get("data"))
        return outcome

    def asks_in_result(self, state: TaskState) -> bool:
        """Return False: questions are members of the state."""
        del state
        return False

    async def answer(self, answers: JsonObject) -> None:
        """Send answers to questions."""
        await self._request("tasks/update", inputResponses=answers)

    async def cancel(self) -> None:
        """Ask the server to cancel the task."""
        await self._request("tasks/cancel")

    def listen(self) -> AbstractAsyncContextManager[Changes]:
        """Return a subscription to changes of the task."""
        return self._client.listen(custom={LISTENED: [self._id]}, extensions=_DECLARED)

    async def _request(self, method: str, **params: Any) -> JsonObject:
        return await self._client.request(method, {"taskId": self._id, **params}, dict, extensions=_DECLARED)


@define(eq=False)
class FollowedTask:
    """A task that a call follows to its end: the `ResultInProgress` of a result of the type ``task``."""

    _client: Client
    _created: JsonObject
    _methods: ExtensionMethods = field(init=False)
    _watch: TaskWatch = field(init=False)
    _number: int = field(default=0, init=False)
    """The number of updates; a message alone does not say how far the task is."""
    _message: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        state = read_state(self._created, self._client.revision)
        self._methods = ExtensionMethods(self._client, state.id)
        self._watch = TaskWatch(self._client, self._methods, state)

    async def next_update(self) -> types.ProgressNotificationParams | None:
        """Return the next message of the task as an update of the call; None when the task has ended."""
        state = self._watch.state
        while state is not None and not state.is_final:
            state = await self._watch.next_state()
            if state.message is not None and state.message != self._message and not state.is_final:
                self._message, self._number = state.message, self._number + 1
                return types.ProgressNotificationParams(
                    progress_token=state.id, progress=self._number, message=state.message
                )
        return None

    async def result(self) -> JsonObject:
        """Return the JSON of the result of the call."""
        return await self._watch.result()

    async def aclose(self) -> None:
        """Cancel the task if it has not ended (rule 1)."""
        await self._watch.aclose()
        state = self._watch.state
        if state is None or not state.is_final:
            await _cancel_in_time(self._methods)


async def _cancel_in_time(methods: TaskMethods) -> None:
    """Ask the server to cancel a task, and wait for a bounded time for it to confirm."""
    with trio.move_on_after(_SECONDS_TO_CANCEL):
        try:
            await methods.cancel()
        except TrioMcpError:
            return  # the connection is gone, or the task has ended and is forgotten


@define(eq=False)
class TaskStates(AsyncIterator[TaskState]):
    """The states of one task, as `TaskHandle.states` yields them; for one task of the program at a time."""

    _handle: TaskHandle
    _watch: TaskWatch | None

    async def __anext__(self) -> TaskState:
        watch = self._watch
        if watch is None:
            raise StopAsyncIteration
        self._handle.state = state = await watch.next_state()
        if state.is_final:
            await self.aclose()
        return state

    async def aclose(self) -> None:
        """End the iteration, and the notifications of the server."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.aclose()


@define(eq=False)
class TaskHandle:
    """A task on a server: a call that was started and runs on, also without its client.

    `Client.start_task` and `Client.task` make it. Its methods may be used by several tasks of the program at once.
    Cancelling them does not cancel the task on the server; `cancel` does.
    """

    _client: Client
    id: str | None
    """The id, with which another client, or this one after a restart, finds the task; None if the call was answered at
    once, so that there is no task."""
    tool: str | None
    """The name of the tool; None if it is unknown."""
    _methods: TaskMethods | None
    state: TaskState | None
    """The latest state that this handle has seen; None if it has seen none."""
    _complete: JsonObject | None = field(default=None, kw_only=True, alias="complete")
    """The result of a call that was answered at once."""

    @property
    def status(self) -> TaskStatus | None:
        """The status in the latest state; None if this handle has seen none."""
        if self._complete is not None:
            return "completed"
        return None if self.state is None else self.state.status

    @property
    def message(self) -> str | None:
        """The line about the latest state, for the user; None if there is none."""
        return None if self.state is None else self.state.message

    async def refresh(self) -> TaskState:
        """Ask the server for the state, and return it. Ask no more often than `TaskState.poll_interval`.

        Raises:
            ErrorResponse: the server does not know the task, or not any more.
            LocalProtocolError: the call was answered at once, so that there is no task.
        """
        self.state = await self._of_task().get()
        return self.state

    def states(self, *, answering: bool = True) -> TaskStates:
        """Iterate over the states of the task with ``async for``, each once, until it has ended; the last one is final.

        States come from the notifications of the server where it sends any, and from requests otherwise, as rarely as
        the server wants. A state that does not last is not seen. There is none if the call was answered at once. After
        a loop that was left early, the server goes on sending notifications until `TaskStates.aclose` is called, the
        task has ended, or the client is closed.

        Args:
            answering: True to answer the questions of the task with the callbacks of this client. Otherwise use
                `answer`.

        Raises:
            ErrorResponse: the server does not know the task, or not any more.
            ConnectionLost: the connection is gone; the task goes on, and `Client.task` finds it again.
            Exception: any exception of a callback.
        """
        watch = None if self._methods is None else TaskWatch(self._client, self._methods, None, answering)
        return TaskStates(self, watch)

    async def result(self, *, raise_on_error: bool = False) -> types.CallToolResult:
        """Wait until the task has ended, and return the result of the call; the callbacks answer its questions.

        Args:
            raise_on_error: raise `ToolFailed` instead of returning a result that says `is_error`.

        Raises:
            TaskCancelled: the task was cancelled.
            ErrorResponse: the task failed with this error, or the server does not know it any more.
            ToolFailed: the tool failed, and *raise_on_error* is set.
            ConnectionLost: the connection is gone; the task goes on, and `Client.task` finds it again.
            Exception: any exception of a callback.
        """
        json = self._complete
        if json is None:
            watch = TaskWatch(self._client, self._of_task(), self.state)
            try:
                json = await watch.result()
            finally:
                self.state = watch.state
                await watch.aclose()
        points = ClientExtensionPoints(self._client)
        return points.read_tool_result(json, name=self.tool, raise_on_error=raise_on_error)

    async def answer(self, answers: Mapping[str, Any]) -> None:
        """Answer questions of the task, `TaskState.questions`, by key.

        Args:
            answers: `types.ElicitResult`, `types.CreateMessageResult` or `types.ListRootsResult`, or their JSON.
                Answers to questions that are not open are ignored by the server.

        Raises:
            ErrorResponse: an answer is not valid, or the server does not know the task.
            LocalProtocolError: the call was answered at once, or the server asks in requests of its own (2025-11-25).
        """
        revision = self._client.revision
        await self._of_task().answer({key: types.unstructure(each, revision=revision) for key, each in answers.items()})

    async def cancel(self) -> None:
        """Ask the server to cancel the task. It may end in another way all the same; harmless if it has ended.

        Raises:
            ErrorResponse: the server does not know the task.
            LocalProtocolError: the call was answered at once, so that there is no task.
        """
        await self._of_task().cancel()

    def _of_task(self) -> TaskMethods:
        if self._methods is None:
            raise LocalProtocolError("the call was answered at once, without a task; its result is in `result()`")
        return self._methods


async def start_task(
    client: Client, name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> TaskHandle:
    """Call a tool; return when the server has made a task of the call, or has answered it; see `Client.start_task`.

    Args:
        client: a client of the server.
        name: the name of the tool.
        arguments: the arguments of the tool, as JSON; None for none.
        meta: the `_meta` of the request; None for none.
    """
    points = ClientExtensionPoints(client)
    members: dict[str, Any] = {} if meta is None else {"_meta": dict(meta)}
    if await takes_legacy_tasks(client, name):
        json = await points.call_tool_json(name, arguments, members={**members, "task": {}})
        state = read_created(json)
        if state is not None:
            return TaskHandle(client, state.id, name, LegacyMethods(client, state.id), state)
        return TaskHandle(client, None, name, None, None, complete=json)
    json = await points.call_tool_json(name, arguments, members=members, extensions=_DECLARED)
    if json.get("resultType") != "task":
        return TaskHandle(client, None, name, None, None, complete=json)
    state = read_state(json, client.revision)
    return TaskHandle(client, state.id, name, ExtensionMethods(client, state.id), state)


def open_task(client: Client, id: str) -> TaskHandle:
    """Return the handle of a task that was started before; see `Client.task`. Sends nothing.

    Args:
        client: a client of the server that has the task.
        id: the id of the task.
    """
    is_legacy = client.revision == LEGACY_REVISION
    methods = LegacyMethods(client, id) if is_legacy else ExtensionMethods(client, id)
    return TaskHandle(client, id, None, methods, None)
