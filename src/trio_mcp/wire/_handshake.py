"""The handshake of the legacy revisions (2024-11-05 to 2025-11-25), as a table.

Rules of this file:

1. `initialize` is the first request, is asked once, and is never cancelled.
2. Before it is answered neither side asks for anything but `ping`.
3. The server answers with the asked revision if it speaks it, otherwise with the newest one it speaks; the client
   goes on only if it speaks the answer.
4. The client ends the handshake with `notifications/initialized`. The server asks for nothing but `ping` before
   that. It serves requests already, because clients are seen to send them at once.
5. A refused `initialize` may be tried again.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from .._errors import UnsupportedRevision

__all__ = ["HANDSHAKE", "HandshakeEvent", "HandshakeState", "check_answer", "choose_answer"]


class HandshakeState(Enum):
    """How far the handshake has come; the same for both sides."""

    NOT_BEGUN = auto()
    ASKED = auto()
    """`initialize` is on its way, or being answered."""
    ANSWERED = auto()
    """Both sides know revision and capabilities; `initialized` is missing."""
    OPERATING = auto()


class HandshakeEvent(Enum):
    """What moves the handshake on."""

    ASK = auto()
    ANSWER = auto()
    REFUSE = auto()
    INITIALIZED = auto()


_E, _S = HandshakeEvent, HandshakeState

HANDSHAKE: Mapping[HandshakeState, Mapping[HandshakeEvent, HandshakeState]] = {
    _S.NOT_BEGUN: {_E.ASK: _S.ASKED},
    _S.ASKED: {_E.ANSWER: _S.ANSWERED, _E.REFUSE: _S.NOT_BEGUN},
    _S.ANSWERED: {_E.INITIALIZED: _S.OPERATING},
    _S.OPERATING: {},
}


def choose_answer(requested: str, spoken: Sequence[str]) -> str:
    """Return the revision a server answers `initialize` with (rule 3); *spoken* is its own, oldest first, not empty."""
    return requested if requested in spoken else spoken[-1]


def check_answer(requested: str, answered: str, spoken: Sequence[str]) -> str:
    """Return *answered* if the client speaks it; raises `UnsupportedRevision` otherwise (rule 3)."""
    if answered not in spoken:
        raise UnsupportedRevision(requested, [answered])
    return answered
