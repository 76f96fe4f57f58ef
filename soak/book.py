"""The client's records: the number and outcome of each call, and the answers on its connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Literal

import trio
from attrs import define, field

from trio_mcp import ConnectionLost, ResponseLost, TrioMcpError, types
from trio_mcp.wire import decode, is_object

from .accounting import SAFE
from .journal import ASKED, GOT, QUESTIONED, Journal

__all__ = ["TIMEOUT_SECONDS", "Book", "WrongAnswerError"]

TIMEOUT_SECONDS = 60.0
"""The seconds after which a call without an outcome counts as lost."""
_REMEMBERED = 256
"""The number of recent answers of a connection among which duplicates are detected."""


class WrongAnswerError(Exception):
    """An answer does not belong to its call."""


@define(eq=False)
class Book:
    """A register that numbers calls and records their outcomes."""

    journal: Journal
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    async def ask(self, kind: str, call: Callable[[int], Awaitable[None]], *, peril: str = SAFE) -> None:
        """Make one numbered call. An exception of the call is its outcome and does not propagate.

        Args:
            kind: the kind of call, for the report.
            call: makes the call, and raises `WrongAnswerError` for a wrong answer.
            peril: the fault that will be applied to the call; see `accounting`.
        """
        number = next(self._numbers)
        self.journal.write(number, ASKED, f"{peril} {kind}")
        outcome = "cancelled"
        try:
            outcome = await _outcome_of(call, number)
        finally:
            self.journal.write(number, GOT, outcome)

    def fault(self, what: str) -> None:
        """Record a fault that belongs to no call."""
        self.journal.fault(what)

    async def answer(self, request: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a question as the user."""
        number = int(request.message.rpartition(" ")[2])
        self.journal.write(number, QUESTIONED)
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={"n": number})

    def duplicate_detector(self) -> Callable[[Literal["sent", "received"], bytes], None]:
        """Return a tap for one connection that notices when a request is answered twice."""
        answered: deque[Any] = deque(maxlen=_REMEMBERED)

        def see(direction: Literal["sent", "received"], data: bytes) -> None:
            if direction == "sent":
                return
            message = decode(data)
            if not is_object(message) or "method" in message:
                return
            if message.get("id") in answered:
                self.fault(f"the request {message['id']!r} of one connection was answered twice")
            answered.append(message.get("id"))

        return see


async def _outcome_of(call: Callable[[int], Awaitable[None]], number: int) -> str:
    try:
        with trio.fail_after(TIMEOUT_SECONDS):
            await call(number)
    except (ConnectionLost, ResponseLost) as exc:
        return f"lost: {type(exc).__name__}: {exc}"
    except trio.TooSlowError:
        return f"silence: no response within {TIMEOUT_SECONDS:g} s"
    except (WrongAnswerError, TrioMcpError) as exc:
        return f"{type(exc).__name__}: {exc}"
    return "answered"
