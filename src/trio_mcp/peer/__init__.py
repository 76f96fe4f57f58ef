"""ENGINE: exchanges, runs, the hall and links made of messages. Trio, but no transport.

Names only, each imported from its home when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._asked import Asked as Asked
    from ._asked import Listener as Listener
    from ._asked import Update as Update
    from ._asked import UpdateBudget as UpdateBudget
    from ._context import NO_ENVELOPE as NO_ENVELOPE
    from ._context import NO_HEADERS as NO_HEADERS
    from ._context import Access as Access
    from ._context import Envelope as Envelope
    from ._context import ExchangeContext as ExchangeContext
    from ._correspondent import Correspondent as Correspondent
    from ._exchange import Exchange as Exchange
    from ._gate import Gate as Gate
    from ._hall import Hall as Hall
    from ._holds import Hold as Hold
    from ._lane import Lane as Lane
    from ._limits import Limits as Limits
    from ._link import Link as Link
    from ._message_exchanges import AskedByMessage as AskedByMessage
    from ._message_exchanges import ExchangeByMessage as ExchangeByMessage
    from ._outbox import Entry as Entry
    from ._outbox import Outbox as Outbox
    from ._parking import GRACE_SECONDS as GRACE_SECONDS
    from ._parking import Parking as Parking
    from ._parking import Waiting as Waiting
    from ._patience import Patience as Patience
    from ._peer import Peer as Peer
    from ._questions import Asking as Asking
    from ._questions import Question as Question
    from ._run import Explain as Explain
    from ._run import Handler as Handler
    from ._run import OutOfTimeError as OutOfTimeError
    from ._run import Run as Run
    from ._session import ClientSession as ClientSession
    from ._session import ServerSession as ServerSession
    from ._slots import BUSY as BUSY
    from ._slots import Slots as Slots
    from ._statistics import ConnectionStatistics as ConnectionStatistics
    from ._turns import Turns as Turns

_HOMES = {
    "_asked": ("Asked", "Listener", "Update", "UpdateBudget"),
    "_context": ("NO_ENVELOPE", "NO_HEADERS", "Access", "Envelope", "ExchangeContext"),
    "_correspondent": ("Correspondent",),
    "_exchange": ("Exchange",),
    "_gate": ("Gate",),
    "_hall": ("Hall",),
    "_holds": ("Hold",),
    "_lane": ("Lane",),
    "_limits": ("Limits",),
    "_link": ("Link",),
    "_message_exchanges": ("AskedByMessage", "ExchangeByMessage"),
    "_outbox": ("Entry", "Outbox"),
    "_parking": ("GRACE_SECONDS", "Parking", "Waiting"),
    "_patience": ("Patience",),
    "_peer": ("Peer",),
    "_questions": ("Asking", "Question"),
    "_run": ("Explain", "Handler", "OutOfTimeError", "Run"),
    "_session": ("ClientSession", "ServerSession"),
    "_slots": ("BUSY", "Slots"),
    "_statistics": ("ConnectionStatistics",),
    "_turns": ("Turns",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll] # derived; a test compares

if not TYPE_CHECKING:  # which would take every name to be here

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return [*__all__]
