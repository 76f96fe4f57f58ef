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
from typing import TypeVar

from .._errors import LocalProtocolError

__all__ = ["ANSWERING", "ASKING", "ExchangeEvent", "ExchangeState", "advance"]


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
