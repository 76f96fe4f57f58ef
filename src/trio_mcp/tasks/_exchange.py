"""The exchange of a handler whose call has become a task: what it reports, asks and returns goes to the task.

The request of the call was answered with the id of the task, so there is no connection behind this exchange. Its peer
is the record of the task, which clients read with `tasks/get`, and whose questions they answer with `tasks/update`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import trio
from attrs import define, field

from .. import ConnectionLost, LocalProtocolError, McpError
from ..lowlevel import ExchangeContext, HandlerSlots, IncomingRequest, OutgoingRequest, ServerSession
from ..types import REVISIONS
from ..wire import JsonObject, decode

__all__ = ["TaskEvents", "TaskExchange", "TaskPeer", "context_of_task", "line_of"]

_PROGRESS_TOKEN = "task"  # noqa: S105 # the handler reports progress only to a client that has asked for it


class TaskEvents(Protocol):
    """The receiver of what happens in the exchange of a task. Its methods are synchronous and never raise."""

    @property
    def parks(self) -> bool:
        """True if the handler waits in memory for the answers to its questions; False if it is replayed."""
        ...

    @property
    def seconds_left(self) -> float:
        """The seconds until the task expires; infinite if it never does."""
        ...

    def on_questions(self, questions: Mapping[str, JsonObject]) -> None:
        """Take the open questions of the handler by key; an empty map if none is open."""
        ...

    def on_report(self, message: str) -> None:
        """Take a report of progress."""
        ...

    def on_outcome(self, outcome: JsonObject | McpError) -> None:
        """Take the result of the call, questions before the handler is replayed, or an error."""
        ...


def context_of_task(context: ExchangeContext) -> ExchangeContext:
    """Return the context of a request as it applies to its task: with progress, and without log messages.

    Specification: https://modelcontextprotocol.io/extensions/tasks/overview
    """
    return ExchangeContext(
        revision=context.revision,
        capabilities=context.capabilities,
        peer_info=context.peer_info,
        meta=context.meta,
        progress_token=_PROGRESS_TOKEN,
        log_level=None,
        access=context.access,
        headers=context.headers,
    )


@define(eq=False)
class TaskPeer:
    """The peer of the tasks of one principal: it has room for everything, and is never disconnected.

    The tasks take no slots of requests, because they last; the number of tasks is bounded by the store.
    """

    admission: ServerSession = field(factory=lambda: ServerSession(REVISIONS), init=False)
    slots: HandlerSlots = field(factory=lambda: HandlerSlots(sys.maxsize, 0, listens=True), init=False)
    listens: HandlerSlots = field(factory=lambda: HandlerSlots(0, 0, listens=True), init=False)

    def has_room(self) -> bool:
        """Return True."""
        return True

    async def room(self) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        """Drop a notification, because a task has no stream for it."""

    def standalone_request(self, method: str, params: JsonObject) -> None:
        """Return None, because a task cannot send requests."""

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Never call *callback*."""


@define(eq=False)
class TaskExchange(IncomingRequest):
    """The exchange of a handler whose call has become a task."""

    outlasts: ClassVar[bool] = True
    """True: when the server stops, it waits for the handlers of tasks as it waits for background tasks."""

    _events: TaskEvents

    @property
    def shows_questions(self) -> bool:
        """True if the handler waits in memory: clients see its questions in the task."""
        return self._events.parks

    @property
    def question_seconds(self) -> float:
        """The seconds for which its questions stay open: until the task expires."""
        return self._events.seconds_left

    def questions_changed(self) -> None:
        """Show the open questions in the task."""
        if self.open and self.run is not None:
            questions = {each.key: each.request for asking in self.run.open for each in asking.unanswered}
            self._events.on_questions(questions)

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Give the handler the answers to its open questions, by key; others are ignored.

        Raises:
            McpError: an answer is not valid. Then none is given.
        """
        batches = () if self.run is None else self.run.open
        given = [
            (each, each.read(answers[each.key]))
            for asking in batches
            for each in asking.unanswered
            if each.key in answers
        ]
        for question, answer in given:
            question.answer = answer
        for asking in batches:
            asking.answered()
        self.questions_changed()

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Refuse to send a request to the client: only revisions without tasks have such requests."""
        del params
        raise LocalProtocolError(f"{method!r}: a task cannot send requests to its client")

    def has_room(self) -> bool:
        """Return True."""
        return True

    async def room(self) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    def _send(self, outcome: JsonObject | McpError) -> None:
        line, outcome = self._encoded(outcome)
        # A copy, because the objects of the handler may change.
        self._events.on_outcome(outcome if isinstance(outcome, McpError) else decode(line)["result"])

    def _notify(self, method: str, params: JsonObject) -> None:
        if method == "notifications/progress":
            self._events.on_report(line_of(params))

    def _end(self) -> None:
        """Do nothing: whoever ended the exchange without a response knows the outcome of the task."""


def line_of(progress: JsonObject) -> str:
    """Return the line that stands for a report of progress in a task."""
    message, total = progress.get("message"), progress.get("total")
    if isinstance(message, str):
        return message
    return f"{progress['progress']:g}" if total is None else f"{progress['progress']:g} of {total:g}"
