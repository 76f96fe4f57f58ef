"""The handover of sessions: a process that stops gives them to the other processes of its service.

Rules of this file:

1. A process that stops begins no more requests of its sessions. They wait until the session was handed over, and are
   answered by the process that continues it. Answers and cancellations reach the handlers that still run.
2. A session is handed over when it is at rest: its requests are answered, or have failed because the process stops.
3. The first process that gets a request of the session from then on continues it. Only one does.
4. If the session cannot be handed over, because the backend cannot be reached in time, it has ended.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import logging
from typing import Protocol

import trio
from attrs import define, field

from ...._errors import SharedUnavailable
from ....wire import JsonObject

__all__ = ["MISDIRECTED", "LeftSession", "SessionMoves", "StoppingSessions"]

_log = logging.getLogger("trio_mcp.transports")

MISDIRECTED = 421
"""The status of the answer to a process that has forwarded a request of a session which is not here any more. No client
gets it."""
_HANDOVER_SECONDS = 4.0
"""The maximum time for handing over all sessions, after their requests were answered."""
_MOST_AT_ONCE = 16


class LeftSession(Protocol):
    """A session that a process has handed over, and that no other process continues yet."""

    @property
    def record(self) -> JsonObject:
        """What it consists of."""
        ...

    async def claim(self) -> bool:
        """Let this process continue it; return False if another one does already, or it has expired.

        Raises:
            SharedUnavailable: the backend cannot be reached; no process may continue the session then.
        """
        ...

    async def missed_changes(self) -> bool:
        """Return True if something may have changed since the session was handed over."""
        ...


class SessionMoves(Protocol):
    """The sessions of a service, as far as they have left the process that began them."""

    @property
    def changes_heard(self) -> int:
        """The number of changes of the service that this process has heard of."""
        ...

    def new_id(self) -> str:
        """Return an id for a session of this process. It cannot be guessed, and names this process."""
        ...

    async def hand_over(self, id: str, record: JsonObject, *, changes_heard: int, seconds: float) -> None:
        """Leave a session to the other processes.

        Args:
            record: what it consists of.
            changes_heard: when it was asked what it consists of.
            seconds: the time for which it is kept.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        ...

    async def find_session(self, id: str) -> str | LeftSession | None:
        """Return the name of the other process that continues a session, or the session; None if it was not left.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        ...

    async def session_ended(self, id: str) -> None:
        """Forget a session that this process has continued, and that has ended. Failures are of no consequence."""
        ...


class MovableSession(Protocol):
    """A session that can be handed over."""

    id: str

    async def to_json(self) -> JsonObject | None:
        """End its streams, and return what it consists of; None if it has not begun."""
        ...


@define(eq=False)
class StoppingSessions:
    """The handover of all sessions of a process that stops.

    Args:
        seconds: the time for which each of them is kept.
    """

    _moves: SessionMoves
    _seconds: float
    _turns: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_MOST_AT_ONCE), init=False)
    _deadline: float | None = field(default=None, init=False)
    """The time by which all must be handed over; None until the first one is."""
    _failures: int = field(default=0, init=False)

    async def hand_over(self, session: MovableSession) -> None:
        """Hand a session over that is at rest (rule 2). It ends in any case (rule 4)."""
        if self._deadline is None:
            self._deadline = trio.current_time() + _HANDOVER_SECONDS
        heard = self._moves.changes_heard
        with trio.CancelScope(deadline=self._deadline) as handing_over:
            async with self._turns:
                try:
                    record = await session.to_json()
                    if record is not None:
                        await self._moves.hand_over(session.id, record, changes_heard=heard, seconds=self._seconds)
                except SharedUnavailable as error:
                    self._failed(str(error))
        if handing_over.cancelled_caught:
            self._failed(f"they were not handed over within {_HANDOVER_SECONDS:g} s")

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.warning("sessions end with this process: %s", why)
