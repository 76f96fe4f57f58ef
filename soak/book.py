"""The client's half of the accounts: numbers for calls, what came of each, and what passed its connections."""

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

__all__ = ["PATIENCE", "Book", "WrongAnswerError"]

PATIENCE = 60.0
"""Seconds after which a call that has come to nothing is lost."""
_REMEMBERED = 256
"""Answers of one connection among which a second one of the same request is looked for."""


class WrongAnswerError(Exception):
    """An answer is there, and not that of the call."""


@define(eq=False)
class Book:
    """Gives out numbers, and writes down what becomes of them."""

    journal: Journal
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    async def ask(self, kind: str, call: Callable[[int], Awaitable[None]], *, peril: str = SAFE) -> None:
        """Make one call, which gets a number; what it raises is its outcome, and goes no further.

        Args:
            kind: what kind of call that is, for the report.
            call: makes it, and raises `WrongAnswerError` if what it gets is not the answer.
            peril: what is going to be done to it; see `accounting`.
        """
        number = next(self._numbers)
        self.journal.write(number, ASKED, f"{peril} {kind}")
        outcome = "cancelled"
        try:
            outcome = await _outcome_of(call, number)
        finally:
            self.journal.write(number, GOT, outcome)

    def fault(self, what: str) -> None:
        """Write down that something went wrong that no call stands for."""
        self.journal.fault(what)

    async def answer(self, request: types.ElicitRequestParams) -> types.ElicitResult:
        """Be the user."""
        number = int(request.message.rpartition(" ")[2])
        self.journal.write(number, QUESTIONED)
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={"n": number})

    def witness(self) -> Callable[[Literal["sent", "received"], bytes], None]:
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
        with trio.fail_after(PATIENCE):
            await call(number)
    except (ConnectionLost, ResponseLost) as exc:
        return f"lost: {type(exc).__name__}: {exc}"
    except trio.TooSlowError:
        return f"silence: nothing came of it in {PATIENCE:g} s"
    except (WrongAnswerError, TrioMcpError) as exc:
        return f"{type(exc).__name__}: {exc}"
    return "answered"
