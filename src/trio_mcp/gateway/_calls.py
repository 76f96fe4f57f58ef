"""The requests that a server has not answered yet, and the messages of the server that belong to one of them.

Rules of this file:

1. A message of a server that names no request belongs to the call in flight. If there are several, it belongs to the
   latest of them, provided that all are of one caller; otherwise nobody may get it. Over HTTP, a message that comes in
   the response to a request belongs to that request.
2. A question that comes while no call is in flight belongs to the session of a caller, if the connection is that of one
   session. Otherwise it is refused at once.
3. If the call that a question was asked for ends before the answer, the question was that of another one, and is asked
   for that one: one of the same caller that was in flight when the question came, or else its session.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from attrs import define, field

from .. import McpError, types
from ..wire import INTERNAL_ERROR, JsonObject

__all__ = ["CallInFlight", "CallerAsker", "CallsInFlight", "SessionAsker", "current_call"]

_log = logging.getLogger("trio_mcp.gateway")

T = TypeVar("T")

_MOST_VISITS: Final = 100


class CallerAsker(Protocol):
    """A way to ask a caller the questions of a server. Each method raises `McpError` if that is not possible."""

    async def elicit(self, question: Any) -> types.ElicitResult:
        """Ask the caller's user."""
        ...

    async def sample(self, question: Any) -> types.CreateMessageResult:
        """Ask the caller's model."""
        ...

    async def roots(self) -> Sequence[types.Root]:
        """Ask the caller for its roots."""
        ...

    async def visit_completed(self, id: str) -> None:
        """Tell the caller that its user has finished on a page, also after the request; it may be gone."""
        ...


class SessionAsker(CallerAsker, Protocol):
    """A way to ask a caller while no call of it is in flight, for the connection of one session."""

    def roots_told(self, roots: Sequence[types.Root]) -> None:
        """Take note of the roots that the caller has listed in a call."""
        ...


class CallInFlight(CallerAsker, Protocol):
    """A request that a gateway has forwarded, as far as its connection needs to know it."""

    @property
    def caller(self) -> Hashable:
        """The caller: requests of one caller may get each other's messages."""
        ...

    @property
    def may_ask(self) -> bool:
        """True if its caller may be asked questions for it."""
        ...

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Send the caller a log message, if it wants messages of this level."""
        ...

    def notify(self, method: str, params: JsonObject) -> bool:
        """Send the caller a notification, if that needs no waiting; return False otherwise."""
        ...


current_call: ContextVar[CallInFlight | None] = ContextVar("trio_mcp_gateway_call", default=None)
"""The call in whose task the present code runs; None in the tasks of a connection."""


@define(eq=False)
class CallsInFlight:
    """The requests in flight on one connection to a server, in the order in which they were sent.

    Args:
        server: the name of the server, for the log.
    """

    _server: str
    session: SessionAsker | None = field(default=None, init=False)
    """The session that the connection belongs to; None if it belongs to several (rule 2)."""
    _calls: dict[CallInFlight, None] = field(factory=dict[CallInFlight, None], init=False)
    """An ordered set."""
    _visits: OrderedDict[str, CallerAsker] = field(factory=OrderedDict[str, "CallerAsker"], init=False)
    """The latest pages that callers were sent to, by the id of the visit."""

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, call: CallInFlight) -> None:
        """Note that a request is sent."""
        self._calls[call] = None

    def end(self, call: CallInFlight) -> None:
        """Note that a request was answered, or given up."""
        del self._calls[call]

    async def elicit(self, question: Any) -> types.ElicitResult:
        """Ask the user of a caller; raises `McpError` if that is not possible."""
        id = getattr(question, "elicitation_id", None)

        async def elicit(asker: CallerAsker) -> types.ElicitResult:
            if id is not None:
                self._visits[id] = asker
                if len(self._visits) > _MOST_VISITS:
                    self._visits.popitem(last=False)
            return await asker.elicit(question)

        return await self._ask(elicit)

    async def visit_completed(self, visit: types.ElicitationCompleteNotificationParams) -> None:
        """Tell a caller that its user has finished on a page."""
        asker = self._visits.pop(visit.elicitation_id, None)
        if asker is not None:
            await asker.visit_completed(visit.elicitation_id)

    async def sample(self, question: Any) -> types.CreateMessageResult:
        """Ask the model of a caller; raises `McpError` if that is not possible."""
        return await self._ask(lambda asker: asker.sample(question))

    async def roots(self) -> Sequence[types.Root]:
        """Ask a caller for its roots; raises `McpError` if that is not possible."""
        roots = await self._ask(lambda asker: asker.roots())
        if self.session is not None:
            self.session.roots_told(roots)
        return roots

    async def _ask(self, ask: Callable[[CallerAsker], Awaitable[T]]) -> T:
        """Ask the caller that a message belongs to, for one call after the other (rule 3)."""
        calls = self._that_may_ask()
        while calls:
            call = calls.pop()
            try:
                return await ask(call)
            except McpError:
                calls = [each for each in calls if each in self._calls]
                if call in self._calls or not (calls or self.session):
                    raise
        assert self.session is not None
        return await ask(self.session)

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Send a caller a log message."""
        call = self._current() or next(reversed(self._of_message()), None)
        if call is None:
            _log.debug("server %r: a log message that belongs to no caller", self._server)
            return
        await call.log(message)

    def notified(self, method: str, params: JsonObject) -> None:
        """Send a caller a custom notification of the server."""
        call = next(reversed(self._of_message()), None)
        if call is None or not call.notify(method, params):
            why = "belongs to no caller" if call is None else "was dropped: its caller reads too slowly"
            _log.debug("server %r: the notification %r %s", self._server, method, why)

    def _that_may_ask(self) -> list[CallInFlight]:
        """Return the calls that a question may belong to, the likeliest last; none if it belongs to the session.

        Raises:
            McpError: there is neither.
        """
        current = self._current()
        calls = [current] if current is not None else [each for each in self._of_message() if each.may_ask]
        if not (calls or self.session):
            why = "calls of several callers are in flight" if len(self._calls) > 1 else "no call is in flight"
            raise McpError(INTERNAL_ERROR, f"this gateway cannot tell whom to ask: {why}")
        return calls

    def _current(self) -> CallInFlight | None:
        """Return the call in whose task this runs; None if it is one of another gateway in this process."""
        call = current_call.get()
        return call if call in self._calls else None

    def _of_message(self) -> Sequence[CallInFlight]:
        """Return the calls that a message which names none may belong to (rule 1)."""
        return [*self._calls] if len({each.caller for each in self._calls}) == 1 else []
