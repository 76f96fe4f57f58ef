"""The life of an exchange, seen from either end, as one table each.

Rules of this file:

1. An exchange has one response. The answering end sends it once, and nothing after it.
2. Cancelled by whoever asked, an exchange is over at both ends: nothing more is sent for it, and what still
   arrives for it is dropped.
3. A move that is not in the table is a bug of this package, and raises `LocalProtocolError`. What the *peer* does at
   the wrong moment (a response nobody waits for, a cancellation too late) never reaches the table: the
   ledger does not find it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Generic, TypeVar

from attrs import define, field

from .._errors import LocalProtocolError
from ._jsonrpc import RequestId

__all__ = ["ANSWERING", "ASKING", "ExchangeEvent", "ExchangeState", "Ledger", "advance"]


class ExchangeState(Enum):
    """Where an exchange stands."""

    __hash__ = object.__hash__  # the one of Enum is a Python function, and every message looks some up

    OPEN = auto()
    """Asked, not answered."""
    ANSWERED = auto()
    """Its response was sent, or has arrived."""
    CANCELLED = auto()
    """Whoever asked does not want the answer any more."""
    LOST = auto()
    """The connection went away before the answer."""


class ExchangeEvent(Enum):
    """What can happen to an exchange."""

    __hash__ = object.__hash__

    RESPONSE = auto()
    """The response is sent (answering end) or has arrived (asking end)."""
    CANCEL = auto()
    """The asking end leaves, or its notice of that has arrived."""
    LOSS = auto()
    """The connection ends."""


_E, _S = ExchangeEvent, ExchangeState

ASKING: Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]] = {
    _S.OPEN: {_E.RESPONSE: _S.ANSWERED, _E.CANCEL: _S.CANCELLED, _E.LOSS: _S.LOST},
    _S.ANSWERED: {_E.CANCEL: _S.ANSWERED, _E.LOSS: _S.ANSWERED},
    _S.CANCELLED: {_E.LOSS: _S.CANCELLED},
    _S.LOST: {_E.CANCEL: _S.LOST, _E.LOSS: _S.LOST},
}
"""The end that sent the request. Leaving an answered or lost exchange changes nothing: there is nobody to tell."""

ANSWERING: Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]] = {
    _S.OPEN: {_E.RESPONSE: _S.ANSWERED, _E.CANCEL: _S.CANCELLED, _E.LOSS: _S.LOST},
    _S.ANSWERED: {_E.CANCEL: _S.ANSWERED, _E.LOSS: _S.ANSWERED},
    _S.CANCELLED: {_E.CANCEL: _S.CANCELLED, _E.LOSS: _S.CANCELLED},
    _S.LOST: {_E.CANCEL: _S.LOST, _E.LOSS: _S.LOST},
}
"""The end that received the request. Only an open exchange may respond or notify."""

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def advance(table: Mapping[_State, Mapping[_Event, _State]], state: _State, event: _Event) -> _State:
    """Return the state that *event* leads to; raises `LocalProtocolError` where the table has no such move."""
    try:
        return table[state][event]
    except KeyError:
        raise LocalProtocolError(f"{event.name} is not possible in state {state.name}") from None


# The record of ids of one connection: which are pending on our side, which run on theirs, which were never known.
#
# Ids we issue count up and are never used again, which satisfies every revision. Ids the peer issues mean something
# only on its own connection and only while its request runs.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#requests

Asked = TypeVar("Asked")
Answering = TypeVar("Answering")


@define(eq=False)
class Ledger(Generic[Asked, Answering]):
    """Who waits for which id."""

    asked: dict[RequestId, Asked] = field(factory=dict[RequestId, Asked], init=False)
    """Our requests that wait for a response."""
    answering: dict[RequestId, Answering] = field(factory=dict[RequestId, Answering], init=False)
    """The peer's requests that wait for ours."""
    unmatched: int = field(default=0, init=False)
    """Responses that nobody waited for: late ones, and ones never asked for."""
    _issued: int = field(default=0, init=False)

    def issue(self, asked: Asked) -> int:
        """Record a request of ours; return its new id."""
        self._issued += 1
        self.asked[self._issued] = asked
        return self._issued

    def resolve(self, id: RequestId) -> Asked | None:
        """Strike out a request of ours that was answered; None (and a count) where nobody waits for *id*."""
        asked = self.asked.pop(id, None)
        if asked is None:
            self.unmatched += 1
        return asked

    def forget(self, id: RequestId) -> None:
        """Strike out a request of ours that its caller left."""
        self.asked.pop(id, None)

    def begin(self, id: RequestId, answering: Answering) -> bool:
        """Record a request of the peer; False, and nothing recorded, where *id* is running already."""
        return self.answering.setdefault(id, answering) is answering

    def end(self, id: RequestId) -> None:
        """Strike out a request of the peer that was answered or cancelled."""
        self.answering.pop(id, None)
