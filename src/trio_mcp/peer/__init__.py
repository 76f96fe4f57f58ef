"""ENGINE: exchanges, runs, the hall and links made of messages. Trio, but no transport.

Names only, each imported from its home when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._connection import AskedByMessage as AskedByMessage
    from ._connection import Correspondent as Correspondent
    from ._connection import ExchangeByMessage as ExchangeByMessage
    from ._context import NO_ENVELOPE as NO_ENVELOPE
    from ._context import NO_HEADERS as NO_HEADERS
    from ._context import Access as Access
    from ._context import Envelope as Envelope
    from ._context import ExchangeContext as ExchangeContext
    from ._context import Gate as Gate
    from ._context import Peer as Peer
    from ._handler_pool import GRACE_SECONDS as GRACE_SECONDS
    from ._handler_pool import Hall as Hall
    from ._handler_pool import Parking as Parking
    from ._handler_pool import Waiting as Waiting
    from ._incoming import Exchange as Exchange
    from ._limits import ConnectionStatistics as ConnectionStatistics
    from ._limits import Limits as Limits
    from ._link import Link as Link
    from ._outbox import Entry as Entry
    from ._outbox import Lane as Lane
    from ._outbox import Outbox as Outbox
    from ._outgoing import Asked as Asked
    from ._outgoing import Listener as Listener
    from ._outgoing import Patience as Patience
    from ._outgoing import Update as Update
    from ._outgoing import UpdateBudget as UpdateBudget
    from ._questions import Asking as Asking
    from ._questions import Question as Question
    from ._run import Explain as Explain
    from ._run import Handler as Handler
    from ._run import Hold as Hold
    from ._run import OutOfTimeError as OutOfTimeError
    from ._run import Run as Run
    from ._scheduler import BUSY as BUSY
    from ._scheduler import Slots as Slots
    from ._scheduler import Turns as Turns
    from ._session import ClientSession as ClientSession
    from ._session import ServerSession as ServerSession
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_connection": ("AskedByMessage", "Correspondent", "ExchangeByMessage"),
            "_context": ("Access", "Envelope", "ExchangeContext", "Gate", "NO_ENVELOPE", "NO_HEADERS", "Peer"),
            "_handler_pool": ("GRACE_SECONDS", "Hall", "Parking", "Waiting"),
            "_incoming": ("Exchange",),
            "_limits": ("ConnectionStatistics", "Limits"),
            "_link": ("Link",),
            "_outbox": ("Entry", "Lane", "Outbox"),
            "_outgoing": ("Asked", "Listener", "Patience", "Update", "UpdateBudget"),
            "_questions": ("Asking", "Question"),
            "_run": ("Explain", "Handler", "Hold", "OutOfTimeError", "Run"),
            "_scheduler": ("BUSY", "Slots", "Turns"),
            "_session": ("ClientSession", "ServerSession"),
        },
    )  # fmt: skip
