"""The record of a task: its status and everything that is stored of it, and its forms in stores and on the wire.

Rules of this file:

1. A status changes only as the table says; a final status never changes.
2. A record is complete: `tasks/get`, `notifications/tasks` and the result that creates the task are made from it alone.
3. A record is kept until its expiry. If the task has not ended by then, it fails, and is kept a little longer so that
   its client can read why.
4. Answers that were given elsewhere than at the handler are in the record until the owner has taken them, so a state
   that the owner stores has to keep those whose questions are still open in it (`TaskRecord.keeping`). An answered
   question is not open any more for clients. The first answer to it is the only one.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

from attrs import asdict, evolve, field, frozen

from ..wire import JsonObject

__all__ = ["CHANGED", "EXTENSION", "FINAL", "LISTENED", "TRANSITIONS", "TaskRecord", "TaskReplay", "TaskStatus"]

EXTENSION = "io.modelcontextprotocol/tasks"
"""The id of the extension."""

CHANGED = "notifications/tasks"
"""The notification of a changed task."""
LISTENED = "taskIds"
"""The member of the filter of `subscriptions/listen` that names tasks."""

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The status of a task, as the specification names it; the last three are final."""

_ENDED = frozenset[TaskStatus]()
TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    "working": frozenset(get_args(TaskStatus)),
    "input_required": frozenset(get_args(TaskStatus)),
    "completed": _ENDED,
    "failed": _ENDED,
    "cancelled": _ENDED,
}
"""The statuses that may follow each status."""
FINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
"""The statuses of a task that has ended."""

_LONGEST_AFTERLIFE = 300.0
"""The most seconds for which a task that failed because of its expiry is kept."""
_OUTCOME_MEMBERS: Mapping[TaskStatus, str] = {
    "completed": "result",
    "failed": "error",
}


@frozen(kw_only=True)
class TaskReplay:
    """The data with which any process runs the handler of a task again, with the answers to its questions."""

    params: JsonObject
    """The params of the call, without those of a single request."""
    state: str
    """The sealed state of the handler; see `Server(asking="replayed")`."""
    answers: JsonObject = field(factory=dict[str, Any])
    """The answers that have arrived, by the key of the question."""


@frozen(kw_only=True)
class TaskRecord:
    """Everything that is stored of one task. Times are seconds, as `time.time` counts them."""

    id: str = field(factory=lambda: secrets.token_hex(24))
    """Its name, which cannot be guessed: 192 random bits."""
    owner: str
    """The serving that runs its handler, or that ran it last; see `TaskStore.owner`."""
    principal: str | None
    """The authenticated principal whose call it is; None without authentication."""
    status: TaskStatus = "working"
    """The status of the task."""
    message: str | None = None
    """One line about the state, for the user."""
    created_at: float
    """The time of its creation."""
    updated_at: float
    """The time of its latest change."""
    ttl: float | None
    """The seconds from the creation for which it is kept; None for ever."""
    poll_interval: float
    """The seconds that a client waits between two requests for the state."""
    expires_at: float | None
    """The time at which it is deleted, or fails if it has not ended; None for never."""
    outcome: JsonObject | None = None
    """The questions by key, the result or the error, as the status says; None if the status has none."""
    answers: JsonObject = field(factory=dict[str, Any])
    """The answers that wait for the owner, by the key of the question (rule 4); none if the handler is replayed."""
    replay: TaskReplay | None = None
    """Set while a task whose handler is replayed waits for answers."""

    @property
    def is_final(self) -> bool:
        """True if the task has ended."""
        return self.status in FINAL

    @property
    def open_questions(self) -> JsonObject:
        """The questions without an answer, by key."""
        questions = (self.outcome or {}) if self.status == "input_required" else {}
        return {key: each for key, each in questions.items() if key not in self.answers}

    def changed(self, now: float, status: TaskStatus, outcome: JsonObject | None, message: str | None) -> TaskRecord:
        """Return the record with another status; the same record if the task has ended (rule 1).

        Args:
            now: the time, as `time.time` counts it.
            status: the new status.
            outcome: the questions by key, the result or the error, as the status requires; None for none.
            message: one line about the state, for the user.
        """
        if status not in TRANSITIONS[self.status]:
            return self
        return evolve(self, status=status, outcome=outcome, message=message, updated_at=now, answers={}, replay=None)

    def told(self, now: float, message: str) -> TaskRecord:
        """Return the record with another *message* at the time *now*; the same record if the task has ended."""
        return self if self.is_final else evolve(self, message=message, updated_at=now)

    def answered(self, now: float, answers: JsonObject) -> TaskRecord:
        """Return the record at the time *now* with further *answers*, by key, to questions that have none yet."""
        return evolve(self, answers={**self.answers, **answers}, updated_at=now)

    def keeping(self, stored: TaskRecord) -> TaskRecord:
        """Return the record with those answers of the *stored* one whose questions are open in it (rule 4)."""
        kept = {key: stored.answers[key] for key in self.open_questions if key in stored.answers}
        return evolve(self, answers={**self.answers, **kept}) if kept else self

    def is_change_by_other(self, stored: TaskRecord) -> bool:
        """Return True if the owner of the *stored* record has to learn that this one takes its place."""
        return (self.is_final and self.owner != stored.owner) or not self.answers.keys() <= stored.answers.keys()

    def failed(self, now: float, message: str, code: int) -> TaskRecord:
        """Return the record of the task as failed for a reason that its handler did not give.

        Args:
            now: the time, as `time.time` counts it.
            message: the message of the JSON-RPC error.
            code: its number.
        """
        return self.changed(now, "failed", {"code": code, "message": message}, message)

    def overdue(self, now: float, code: int) -> TaskRecord:
        """Return the record of a task as failed because it has not ended by its expiry (rule 3).

        Args:
            now: the time, as `time.time` counts it.
            code: the number of the JSON-RPC error.
        """
        ttl = self.ttl or 0.0
        failed = self.failed(now, f"the task did not end within {ttl:g} s and was cancelled", code)
        return evolve(failed, expires_at=now + min(max(ttl, 1.0), _LONGEST_AFTERLIFE))

    def to_wire(self) -> JsonObject:
        """Return the task without its outcome, as the result that creates it carries it."""
        json: JsonObject = {"taskId": self.id, "status": self._shown_status}
        if self.message is not None:
            json["statusMessage"] = self.message
        json["createdAt"] = _timestamp(self.created_at)
        json["lastUpdatedAt"] = _timestamp(self.updated_at)
        json["ttlMs"] = None if self.ttl is None else _milliseconds(self.ttl)
        json["pollIntervalMs"] = _milliseconds(self.poll_interval)
        return json

    def to_wire_in_detail(self) -> JsonObject:
        """Return the task with its outcome: the content of `tasks/get` and of `notifications/tasks` (rule 2)."""
        json, status = self.to_wire(), self._shown_status
        if status == "input_required":
            json["inputRequests"] = self.open_questions
        elif status in _OUTCOME_MEMBERS:
            json[_OUTCOME_MEMBERS[status]] = self.outcome
        return json

    @property
    def _shown_status(self) -> TaskStatus:
        """The status for clients: a task works as soon as each of its questions has an answer (rule 4)."""
        return "working" if self.answers and not self.open_questions else self.status

    def to_stored(self) -> JsonObject:
        """Return the JSON from which `from_stored` makes the same record."""
        return asdict(self)

    @classmethod
    def from_stored(cls, json: JsonObject) -> TaskRecord:
        """Return the record of which `to_stored` has returned *json*."""
        members: dict[str, Any] = dict(json)
        if (replay := members["replay"]) is not None:
            members["replay"] = TaskReplay(**replay)
        return cls(**members)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
