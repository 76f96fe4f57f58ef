"""The states of a task as its client sees them, and the way to its end.

A client learns the state of a task by asking for it, never more often than the server wants, and from the server's
notifications if the server sends any. It still asks now and then, because notifications may be lost.

Rules of this file:

1. The next request for the state is made `TaskState.poll_interval` after the last one, or after the task was created.
   While notifications arrive, requests are rarer: `_RARELY` times the interval.
2. A question of a task is answered once, however often it is seen.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import trio
from attrs import define, evolve, field, frozen

from .. import (
    Change,
    Changes,
    Client,
    CustomChange,
    ErrorResponse,
    MissingCapability,
    RemoteProtocolError,
    StructureError,
    TaskCancelled,
    TrioMcpError,
)
from ..lowlevel import ClientExtensionPoints
from ..types import structure
from ..wire import JsonObject
from . import types
from ._record import CHANGED, FINAL, TaskStatus

__all__ = ["TaskMethods", "TaskState", "TaskWatch", "interval_of", "read_state"]

_RARELY = 30.0
"""How many intervals pass between two requests for the state of a task whose notifications arrive."""
_USUAL_INTERVAL = 1.0
"""The seconds between two requests for the state if the server names none."""
_SHORTEST_INTERVAL = 0.02


@frozen(kw_only=True)
class TaskState:
    """The state of a task, as its server reported it."""

    id: str
    """The id of the task, with which `Client.task` finds it again."""
    status: TaskStatus
    """The status of the task."""
    message: str | None = None
    """One line about the state, for the user."""
    created_at: str
    """A timestamp of the server (ISO 8601)."""
    updated_at: str
    """A timestamp of the server (ISO 8601)."""
    ttl: float | None
    """The seconds from its creation for which the server keeps the task; None for no limit."""
    poll_interval: float = _USUAL_INTERVAL
    """The seconds between two requests for its state."""
    questions: Mapping[str, Any] = field(factory=dict[str, Any])
    """The JSON of the open questions, by key."""
    outcome: JsonObject | None = None
    """The JSON of the result of a task that is completed, and of the error of one that has failed."""

    @property
    def is_final(self) -> bool:
        """True if the task has ended."""
        return self.status in FINAL


def read_state(json: JsonObject, revision: str) -> TaskState:
    """Return the state in a result or a notification.

    Raises:
        RemoteProtocolError: it is not the state of a task.
    """
    kind: Any = types.Task if json.get("resultType") == "task" else types.DetailedTask
    try:
        task = structure(json, kind, revision=revision)
    except StructureError as error:
        raise RemoteProtocolError(f"the state of a task does not fit: {'; '.join(error.faults)}") from error
    outcome: JsonObject | None = json.get("result") or json.get("error")
    return TaskState(
        id=task.task_id,
        status=task.status,
        message=task.status_message,
        created_at=task.created_at,
        updated_at=task.last_updated_at,
        ttl=None if task.ttl_ms is None else task.ttl_ms / 1000,
        poll_interval=interval_of(task.poll_interval_ms),
        questions=json.get("inputRequests") or {},
        outcome=outcome,
    )


def interval_of(milliseconds: int | None) -> float:
    """Return the seconds between two requests for a state."""
    return _USUAL_INTERVAL if milliseconds is None else max(milliseconds / 1000, _SHORTEST_INTERVAL)


class TaskMethods(Protocol):
    """The methods by which a client reaches one task; they differ between the extension and the legacy experiment."""

    async def get(self) -> TaskState:
        """Return the state."""
        ...

    async def result_of(self, state: TaskState) -> JsonObject:
        """Return the JSON of the result of a task that has ended; raise the error if it has failed."""
        ...

    def asks_in_result(self, state: TaskState) -> bool:
        """Return True if the questions of the task arrive as requests of the server while `result_of` waits."""
        ...

    async def answer(self, answers: JsonObject) -> None:
        """Send answers to questions."""
        ...

    async def cancel(self) -> None:
        """Ask the server to cancel the task."""
        ...

    def listen(self) -> AbstractAsyncContextManager[Changes] | None:
        """Return a subscription to changes of the task; None if there is none."""
        ...


@define(eq=False)
class TaskWatch:
    """The way of one task to its end: each new state, once, in order. One task at a time uses it."""

    _client: Client
    _methods: TaskMethods
    state: TaskState | None
    """The latest state; None before the first."""
    _is_answering: bool = True
    """True to answer questions with the callbacks of the client."""
    _asked_at: float = field(factory=trio.current_time, init=False)
    """The time of the last request for the state, or of the creation."""
    _answered: set[str] = field(factory=set[str], init=False)
    """The keys of the questions that were answered (rule 2)."""
    _listening: AbstractAsyncContextManager[Changes] | None = field(default=None, init=False)
    _changes: Changes | None = field(default=None, init=False)
    """The notifications of the server; None if it sends none."""
    _has_tried: bool = field(default=False, init=False)
    _is_current: bool = field(default=False, init=False)
    """True if no change can have been missed: the state was asked for after the notifications had begun."""

    async def next_state(self) -> TaskState:
        """Return the next state, which differs from the latest in more than its time; call it until it is final.

        Raises:
            ErrorResponse: the server does not know the task any more.
            ConnectionLost: the connection is gone.
            Exception: any exception of a callback that answers a question.
        """
        if self.state is None:
            self.state = await self._ask()
            return self.state
        await self._listen()
        while True:
            if self._is_answering and self.state.questions.keys() - self._answered:
                await self._answer(self.state)
            seen = await self._news(self.state) or await self._ask()
            is_news = evolve(seen, updated_at=self.state.updated_at) != self.state
            self.state = seen
            if is_news:
                return seen

    async def _answer(self, state: TaskState) -> None:
        asked = {key: each for key, each in state.questions.items() if key not in self._answered}
        answers = await ClientExtensionPoints(self._client).answer_questions(asked, "tasks/get")
        await self._methods.answer(answers)
        self._answered |= answers.keys()

    async def _news(self, state: TaskState) -> TaskState | None:
        """Wait until the state may be asked for again; return the state if a notification brings it before."""
        interval = state.poll_interval * (_RARELY if self._changes is not None and self._is_current else 1)
        with trio.CancelScope(deadline=self._asked_at + interval):
            while self._changes is not None:
                change = await self._next_change(self._changes)
                if isinstance(change, CustomChange) and change.method == CHANGED:
                    return read_state(change.params, self._client.revision)
            await trio.sleep_until(self._asked_at + state.poll_interval)
        return None

    async def _next_change(self, changes: Changes) -> Change | None:
        try:
            return await anext(changes)
        except (TrioMcpError, StopAsyncIteration):  # the stream alone may be lost: ask for the state instead
            self._changes = None
            return None

    async def _ask(self) -> TaskState:
        self._asked_at = trio.current_time()
        state = await self._methods.get()
        self._is_current = self._changes is not None
        return state

    async def _listen(self) -> None:
        """Subscribe to the task; a server that sends no notifications refuses, or agrees to none."""
        if self._has_tried:
            return
        self._has_tried = True
        self._listening = self._methods.listen()
        if self._listening is None:
            return
        try:
            changes = await self._listening.__aenter__()
        except (ErrorResponse, RemoteProtocolError, MissingCapability):
            self._listening = None
            return
        if any(changes.honored.custom.values()):
            self._changes = changes
        else:
            await self.aclose()

    async def aclose(self) -> None:
        """End the subscription, without waiting for the server."""
        listening, self._listening, self._changes = self._listening, None, None
        if listening is not None:
            await listening.__aexit__(None, None, None)

    async def result(self) -> JsonObject:
        """Return the JSON of the result, when the task has ended.

        Raises:
            TaskCancelled: the task was cancelled.
            ErrorResponse: the task failed with this error, or the server does not know it any more.
        """
        while self.state is None or not (self.state.is_final or self._methods.asks_in_result(self.state)):
            await self.next_state()
        if self.state.status == "cancelled":
            raise TaskCancelled(self.state.message or "the task was cancelled")
        return await self._methods.result_of(self.state)
