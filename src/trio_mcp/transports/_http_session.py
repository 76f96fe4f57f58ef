"""A conversation over HTTP whose messages come in POSTs: what its two kinds have in common.

Rules of this file:

1. An HTTP request of the client's that is being answered, a POST or a stream, is a *visit*. A session is at rest when
   there is none, and nothing of it is worked on.
2. A session belongs to who has begun it, and nobody else may know that it is there.
3. The end of a session is synchronous: its handlers are stopped, whoever waits is told, its streams end.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import abc
import math
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Self

import trio
from attrs import define, evolve, field, frozen

from .._errors import AskExpired, ConnectionBroken, ConnectionLost
from ..abc import EventLog, HttpServing
from ..peer import NO_ENVELOPE, Correspondent, Envelope, ExchangeByMessage, ExchangeContext, Lane
from ..wire import LISTEN, ExchangeState, JsonObject, Refusal, Request
from ._asgi import HttpRequest
from ._http_admission import Admission, messages_in
from ._http_lanes import HttpLane
from ._http_response import Responding

__all__ = ["HttpSession", "SessionHost"]


@frozen(eq=False)
class SessionHost:
    """What sessions are part of."""

    serving: HttpServing
    admission: Admission
    """Judges who asks."""
    nursery: trio.Nursery
    """For their tasks, which end with them."""
    events: EventLog | None
    """Where what goes out is kept; None where it is not."""
    idle_seconds: float
    """How long a session may rest."""
    half_open_seconds: float
    """Likewise, while its handshake is not complete."""
    retry_ms: int
    """After how many milliseconds clients come back, unless a handler says otherwise."""
    rested: Callable[[HttpSession], None]
    """Told when a session has come to rest."""
    ended: Callable[[HttpSession], None]
    """Told when one has ended."""


@define(eq=False)
class HttpSession(Correspondent):
    """One session; see also `Correspondent`. Made by `begin`."""

    host: SessionHost
    principal: str | None
    """Whose it is (rule 2)."""
    id: str = field(factory=lambda: secrets.token_urlsafe(32), init=False)
    """What the client calls it: 43 visible characters that nobody can guess."""
    unheard: int = field(default=0, init=False)
    """Answers that nobody was there to take."""
    resting_since: float = field(factory=trio.current_time, init=False)
    """On Trio's clock; infinite while it is not at rest."""
    envelope: Envelope = field(default=NO_ENVELOPE, init=False)
    """What the messages came in that are being taken."""
    _visits: int = field(default=0, init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @classmethod
    def begin(cls, host: SessionHost, principal: str | None) -> Self:
        """Return a new session."""

        def notified(method: str, params: JsonObject) -> None:
            serving.notified(method, params, session, session.envelope)

        serving = host.serving
        session = cls(serving.gate(), serving.answer, notified, serving.limits, host, principal)
        return session

    @property
    @abc.abstractmethod
    def lane(self) -> HttpLane:
        """Where what belongs to no request goes out."""

    @property
    def deadline(self) -> float:
        """When it ends by itself, on Trio's clock, unless somebody uses it."""
        host = self.host
        return self.resting_since + (host.idle_seconds if self.gate.operating else host.half_open_seconds)

    def speaks_in(self, responding: Responding) -> None:
        """Have errors be as the session's revision wants them, once a handshake has settled on one."""
        if self.gate.revision is not None:
            responding.null_ids = not self.gate.omits_unknown_id

    @contextmanager
    def visit(self) -> Generator[None]:
        """Count an HTTP request of its client's for as long as it is being answered (rule 1)."""
        self._visits += 1
        self.resting_since = math.inf
        try:
            yield
        finally:
            self._visits -= 1
            self._rest()

    def _rest(self) -> None:
        if self._visits:
            return
        if self._left:
            self._left.unpark_all()
        if not self.ledger.answering and self.lost is None:
            self.resting_since = trio.current_time()
            self.host.rested(self)

    async def forget(self) -> None:
        """Forget what is kept of it, when it has ended, and the last visit has, too."""
        while self._visits:
            await self._left.park()

    def close(self, reason: ConnectionLost) -> None:
        """End the session, now; harmless when it has ended (rule 3)."""
        if self.lost is None:
            for exchange in list(self.ledger.answering.values()):
                exchange.lose()
            self.lose(reason)
            self.lane.end(reason)
            self.host.ended(self)

    async def room_in(self, lane: Lane) -> None:
        """Wait until a question may be queued in a lane.

        Raises:
            ConnectionLost: the session has ended, or nobody reads that lane any more.
        """
        await super().room_in(lane)
        assert isinstance(lane, HttpLane)
        if lane.is_abandoned:
            raise _nobody_to_ask()

    def abandon_lane(self, lane: HttpLane) -> None:
        """Nobody will read a lane any more: its exchanges go on, but nothing can be asked there."""
        self.desert(lane, _nobody_to_ask())
        lane.abandon()

    def refusal(self, value: object, request: HttpRequest) -> Refusal | None:
        """Return what a POST gets whose messages need more than was granted; None where they do not.

        A request to listen, which no session knows, is refused later: to look at what thousands of them name, in one
        array, would take too long.
        """
        posted = messages_in(value, self.limits)
        messages = [each for each in posted if not isinstance(each, Request) or each.method != LISTEN]
        return self.host.admission.refusal(messages, request, self.host.serving)

    def take_value(self, value: Any, size: int, lane: Lane) -> None:
        """Take what was posted, all of it at once; its answers go out by a lane."""
        assert isinstance(lane, HttpLane)
        self.envelope = lane.envelope
        super().take_value(value, size, lane)

    def _admit(self, request: Request, lane: Lane) -> ExchangeContext:
        context = super()._admit(request, lane)
        assert isinstance(lane, HttpLane)
        return evolve(context, access=lane.envelope.access, headers=lane.envelope.headers)

    def begun(self, exchange: ExchangeByMessage) -> None:
        """Owe an answer to a request."""
        assert isinstance(exchange.lane, HttpLane)
        exchange.lane.expect()

    def ended(self, exchange: ExchangeByMessage) -> None:
        """Owe it no longer."""
        super().ended(exchange)
        lane = exchange.lane
        assert isinstance(lane, HttpLane)
        if lane.is_abandoned and exchange.state is ExchangeState.ANSWERED:
            self.unheard += 1
        lane.settle()
        if lane.is_complete:
            self._withdraw_questions(lane)
        self._rest()

    def _withdraw_questions(self, lane: HttpLane) -> None:
        """Take back what is still asked by a lane that ends in this step: later nobody reads there any more."""
        for asked in list(self.ledger.asked.values()):
            if asked.goes_by(lane):
                self.ledger.forget(asked.id)
                asked.withdraw()
                asked.finish(AskExpired("the call is over"))


def _nobody_to_ask() -> ConnectionBroken:
    return ConnectionBroken("the client has closed the response that the question belongs to")
