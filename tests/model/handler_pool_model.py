"""A model of a handler pool without tasks: time is a number, and the queues are plain lists."""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import Any

from attrs import define, field

__all__ = [
    "ASK_SECONDS",
    "GRACE",
    "MAX_PARKED",
    "MAX_RUNNING",
    "Call",
    "Connection",
    "HandlerPoolModel",
    "Phase",
    "Work",
]

ASK_SECONDS, GRACE = 60.0, 5.0
MAX_PARKED, MAX_RUNNING = 2, 3


class Phase(Enum):
    """The states of the work for a request."""

    QUEUED = auto()
    WORKING = auto()
    ASKING = auto()
    """The handler has asked, and the outbox has no room for the question."""
    PARKED = auto()
    EXPIRED = auto()
    """The questions have expired, and the handler has the grace period to clean up."""
    RESUMED = auto()
    """The answers have arrived, and the handler waits for a slot."""
    DONE = auto()
    """The handler has ended, and the outbox has no room for the response."""
    CLEANING = auto()
    """The handler was cancelled, and cleans up in a shielded scope."""
    OVER = auto()


@define(eq=False)
class Connection:
    """The slots of one connection."""

    max_running: int
    max_queued: int
    running: int = 0
    queue: list[Work] = field(factory=list["Work"])


@define(eq=False)
class Call:
    """One request, and all messages that should have been sent about it."""

    connection: Connection
    full: bool
    work: Work | None = None
    sent: list[Any] = field(factory=list[Any])
    updates: list[int] = field(factory=list[int])
    endings: int = 0


@define(eq=False)
class Work:
    """One handler."""

    call: Call | None
    connection: Connection
    stubborn: bool
    phase: Phase = Phase.QUEUED
    has_slot: bool = False
    parked: bool = False
    """True if it counts as parked: from its question until a retry or its end."""
    open: list[str] = field(factory=list[str])
    """Questions without an answer."""
    questions: list[str] = field(factory=list[str])
    answers: dict[str, Any] = field(factory=dict[str, Any])
    given: dict[str, Any] = field(factory=dict[str, Any])
    expires: float = math.inf
    outcome: Any = None
    outcomes: list[Any] = field(factory=list[Any])
    """The outcomes of its questions."""


@define(eq=False)
class HandlerPoolModel:
    """All connections of one pool."""

    connections: list[Connection]
    now: float = 0.0
    taken: int = 0
    waiting_line: list[Connection] = field(factory=list[Connection])
    works: list[Work] = field(factory=list[Work])
    closing: bool = False
    places: list[Work] = field(factory=list[Work])
    """The parked work that counts against the limit, the oldest first."""

    def in_phase(self, *phases: Phase) -> list[Work]:
        """Return the work in one of *phases*."""
        return [work for work in self.works if work.phase in phases]

    @property
    def parked(self) -> int:
        """The number of handlers that count as parked."""
        return sum(work.parked for work in self.works)

    @property
    def running(self) -> int:
        """The number of handlers that have begun and not ended."""
        return sum(work.phase not in {Phase.QUEUED, Phase.OVER} for work in self.works)

    # Slots.

    def begin(self, call: Call, *, stubborn: bool) -> Work:
        """Receive a request."""
        call.work = work = Work(call, call.connection, stubborn)
        self.works.append(work)
        if not self._take(work):
            work.phase, work.call, call.work = Phase.OVER, None, None
            call.sent.append("busy")
        return work

    def is_full(self, connection: Connection) -> bool:
        """Return True if another request of *connection* would be refused."""
        startable = connection.running < connection.max_running and self.taken < MAX_RUNNING
        return not startable and len(connection.queue) >= connection.max_queued

    def _take(self, work: Work) -> bool:
        connection = work.connection
        if self.is_full(connection):
            return False
        if connection.running < connection.max_running and self.taken < MAX_RUNNING:
            self.taken += 1
            self._start(work)
        else:
            connection.queue.append(work)
            self._join_waiting_line(connection)
        return True

    def _join_waiting_line(self, connection: Connection) -> None:
        if connection.queue and connection.running < connection.max_running and connection not in self.waiting_line:
            self.waiting_line.append(connection)

    def _release(self, work: Work) -> None:
        """Release a slot, and give it to the connection that has waited longest."""
        if not work.has_slot:
            return
        work.has_slot = False
        work.connection.running -= 1
        self._join_waiting_line(work.connection)
        if not self.waiting_line:
            self.taken -= 1
            return
        connection = self.waiting_line.pop(0)
        following = connection.queue.pop(0)
        connection.running += 1
        self._join_waiting_line(connection)
        connection.running -= 1  # `_start` counts it
        self._start(following)

    def _leave_queue(self, work: Work) -> None:
        connection = work.connection
        if work in connection.queue:
            connection.queue.remove(work)
            if not connection.queue and connection in self.waiting_line:
                self.waiting_line.remove(connection)

    def _start(self, work: Work) -> None:
        work.connection.running += 1
        work.has_slot = True
        if work.phase is Phase.RESUMED:
            self._continue(work)
        else:
            work.phase = Phase.WORKING

    # Questions.

    def ask(self, work: Work, keys: list[str]) -> None:
        """Ask questions as the handler."""
        if work.phase in {Phase.EXPIRED, Phase.CLEANING}:  # no request can carry the question
            work.outcomes.append("AskExpired")
            return
        work.questions, work.open, work.answers = keys, list(keys), {}
        self._send_questions(work)

    def _send_questions(self, work: Work) -> None:
        assert work.call is not None
        if work.call.full:
            work.phase = Phase.ASKING
        elif self.closing or not self._make_room_to_park(work):
            work.phase, work.open = Phase.WORKING, []
            work.outcomes.append("AskExpired" if self.closing else "TooManyParked")
        else:
            work.call.sent.append(sorted(work.open))
            work.call.work, work.call = None, None
            work.phase, work.parked, work.expires = Phase.PARKED, True, self.now + ASK_SECONDS
            self.places.append(work)
            self._release(work)

    def _make_room_to_park(self, work: Work) -> bool:
        """Let the oldest question of the connection with the most give way; False if that has not more than *work*'s.

        There are only two places, so the connection with the most has both.
        """
        if len(self.places) < MAX_PARKED:
            return True
        oldest = self.places[0]
        if oldest.connection is work.connection or any(
            each.connection is not oldest.connection for each in self.places
        ):
            return False
        self.places.remove(oldest)
        oldest.expires = min(oldest.expires, self.now)
        if oldest.phase is Phase.PARKED:  # else it has expired already, and its handler cleans up
            self._expire(oldest)
        return True

    def _leave_place(self, work: Work) -> None:
        if work in self.places:
            self.places.remove(work)

    def retry(self, work: Work, call: Call, answers: dict[str, Any]) -> str:
        """Receive a retry with answers; return what becomes of it."""
        if not work.parked or work.expires <= self.now:
            return "unknown"
        given = {key: answers[key] for key in work.open if key in answers}
        if None in given.values():
            return "no answer"
        if self.is_full(call.connection):
            return "busy"
        self._leave_place(work)
        work.parked, work.expires, work.given = False, math.inf, given
        work.call, work.connection, call.work = call, call.connection, work
        work.phase = Phase.RESUMED
        self._take(work)
        return "resumed"

    def _continue(self, work: Work) -> None:
        work.answers |= work.given
        work.open = [key for key in work.open if key not in work.given]
        work.given = {}
        if work.open:
            self._send_questions(work)
        else:
            work.phase = Phase.WORKING
            work.outcomes.append([work.answers[key] for key in work.questions])

    # The end of a handler.

    def finish(self, work: Work, outcome: Any) -> None:
        """End the handler with a result or a failure."""
        if work.call is not None and work.call.full and work.phase is Phase.WORKING:
            work.phase, work.outcome = Phase.DONE, outcome
            return
        if work.call is not None:
            work.call.sent.append(outcome)
            work.call.work, work.call = None, None
        self._end(work)

    def _end(self, work: Work) -> None:
        self._leave_place(work)
        work.phase, work.parked = Phase.OVER, False
        self._release(work)

    def make_room(self, call: Call) -> None:
        """Make room in the outbox, because the client reads again."""
        call.full, work = False, call.work
        if work is not None and work.phase is Phase.DONE:
            self.finish(work, work.outcome)
        elif work is not None and work.phase is Phase.ASKING:
            self._send_questions(work)

    def cancel(self, call: Call) -> None:
        """Cancel or lose a request."""
        work = call.work
        if call.sent or call.endings:
            return
        call.endings += 1
        assert work is not None
        call.work, work.call = None, None
        self._leave_queue(work)
        if work.phase is Phase.QUEUED:
            work.phase = Phase.OVER
        elif work.phase is not Phase.CLEANING:
            self._stop(work)

    def _stop(self, work: Work) -> None:
        if work.stubborn and work.phase is not Phase.DONE:
            work.phase = Phase.CLEANING
        else:
            self._end(work)

    def pass_time(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds
        for work in self.in_phase(Phase.PARKED, Phase.EXPIRED):
            if work.expires + GRACE <= self.now:
                self._stop(work)
            elif work.expires <= self.now and work.phase is Phase.PARKED:
                self._expire(work)

    def _expire(self, work: Work) -> None:
        work.phase = Phase.EXPIRED
        work.outcomes.append("AskExpired")

    def close(self) -> None:
        """Close the pool, as a server does when it stops: no question can be asked any more."""
        self.closing = True
        for work in self.works:
            if work.parked:
                work.expires = min(work.expires, self.now)
            if work.phase is Phase.PARKED:
                self._expire(work)
