"""The handover of sessions: a process that stops gives them to the other processes of its service.

Rules of this file:

1. A process that stops begins no more requests of its sessions. They wait until the session was handed over, and are
   answered by the process that continues it. Answers and cancellations reach the handlers that still run.
2. A session is handed over when it is at rest: its requests are answered, or have failed because the process stops.
   From that moment on every message waits.
3. The first process that gets a request of the session continues it, unless it stops as well. Only one does.
4. A session ends if it cannot be handed over, because the backend cannot be reached, or not in time. Others do not.

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
_HANDOVER_SECONDS, _SESSIONS_PER_SECOND, _LONGEST_SECONDS = 4.0, 250, 20.0
"""The time for handing over the last session after its requests were answered: more for many sessions, up to a bound.
A process hands over about a thousand sessions a second."""
_MOST_AT_ONCE = 16
_MOST_BYTES, _MOST_BYTES_OF_ALL = 2**20, 2**26
"""The bytes of events that are handed over with one session, and with all together."""


class LeftSession(Protocol):
    """A session that a process has handed over, and that no other process continues yet."""

    @property
    def record(self) -> JsonObject:
        """Its contents, as its `to_json` has returned them."""
        ...

    async def claim(self) -> bool:
        """Let this process continue it; return False if another one does already, or it has expired.

        Raises:
            SharedUnavailable: the backend cannot be reached; no process may continue the session then.
        """
        ...


class SessionMoves(Protocol):
    """The sessions of a service, as far as they have left the process that began them."""

    def new_id(self) -> str:
        """Return an id for a session of this process. It cannot be guessed, and names this process."""
        ...

    async def hand_over(self, id: str, record: JsonObject, *, seconds: float) -> None:
        """Leave a session to the other processes.

        Args:
            record: what it consists of.
            seconds: the time for which it is kept.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        ...

    async def find_session(self, id: str) -> str | LeftSession | None:
        """Return the name of the other process that continues a session, or the session; None if there is neither.

        There is neither if it has ended, and if this process was the last to continue it.

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

    async def to_json(self, most_bytes: int) -> JsonObject | None:
        """End its streams, and return what it consists of; None if it has not begun, or has ended.

        Args:
            most_bytes: the maximum size of its events.
        """
        ...


@define(eq=False)
class StoppingSessions:
    """The handover of the sessions of a process that stops, which begins now.

    Args:
        kept_seconds: the time for which each of them is kept.
        count: their number.
        drain_seconds: the time for which their requests may go on.
    """

    _moves: SessionMoves
    _kept_seconds: float
    _count: int
    _drain_seconds: float
    _deadline: float = field(init=False)
    """The time on Trio's clock by which all must be handed over."""
    _turns: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_MOST_AT_ONCE), init=False)
    _failures: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        seconds = min(_HANDOVER_SECONDS + self._count / _SESSIONS_PER_SECOND, _LONGEST_SECONDS)
        self._deadline = trio.current_time() + self._drain_seconds + seconds

    async def hand_over(self, session: MovableSession) -> None:
        """Hand a session over that is at rest (rule 2), unless it ends meanwhile (rule 4)."""
        with trio.CancelScope(deadline=self._deadline) as handing_over:
            async with self._turns:
                try:
                    await self._hand_over(session)
                except SharedUnavailable as error:
                    self._failed(str(error))
                except Exception:  # noqa: BLE001 # the other sessions are handed over nevertheless
                    _log.exception("a session cannot be handed over")
        if handing_over.cancelled_caught:
            self._failed("they were not handed over in time")

    async def _hand_over(self, session: MovableSession) -> None:
        most_bytes = min(_MOST_BYTES, _MOST_BYTES_OF_ALL // self._count)
        record = await session.to_json(most_bytes)
        if record is not None:
            await self._moves.hand_over(session.id, record, seconds=self._kept_seconds)

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.warning("sessions end with this process: %s", why)
