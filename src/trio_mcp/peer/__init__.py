"""ENGINE: exchanges, runs, the hall and links made of messages. Trio, but no transport.

Names only, each imported from its home when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._connection import IncomingMessageRequest as IncomingMessageRequest
    from ._connection import MessageConnection as MessageConnection
    from ._connection import OutgoingMessageRequest as OutgoingMessageRequest
    from ._context import NO_HEADERS as NO_HEADERS
    from ._context import NO_ORIGIN as NO_ORIGIN
    from ._context import Access as Access
    from ._context import Admission as Admission
    from ._context import ExchangeContext as ExchangeContext
    from ._context import MessageOrigin as MessageOrigin
    from ._context import Peer as Peer
    from ._handler_pool import GRACE_SECONDS as GRACE_SECONDS
    from ._handler_pool import HandlerPool as HandlerPool
    from ._handler_pool import ParkedRuns as ParkedRuns
    from ._handler_pool import PendingQuestions as PendingQuestions
    from ._incoming import IncomingRequest as IncomingRequest
    from ._limits import ConnectionStatistics as ConnectionStatistics
    from ._limits import Limits as Limits
    from ._link import Link as Link
    from ._outbox import Outbox as Outbox
    from ._outbox import Outlet as Outlet
    from ._outbox import QueuedMessage as QueuedMessage
    from ._outgoing import OutgoingRequest as OutgoingRequest
    from ._outgoing import PausableTimeouts as PausableTimeouts
    from ._outgoing import Update as Update
    from ._outgoing import UpdateBudget as UpdateBudget
    from ._outgoing import UpdateListener as UpdateListener
    from ._questions import Question as Question
    from ._questions import QuestionBatch as QuestionBatch
    from ._run import Explain as Explain
    from ._run import Handler as Handler
    from ._run import HandlerRun as HandlerRun
    from ._run import Hold as Hold
    from ._run import OutOfTimeError as OutOfTimeError
    from ._scheduler import BUSY as BUSY
    from ._scheduler import FairLimiter as FairLimiter
    from ._scheduler import HandlerSlots as HandlerSlots
    from ._session import ClientSession as ClientSession
    from ._session import ServerSession as ServerSession
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_connection": ("IncomingMessageRequest", "MessageConnection", "OutgoingMessageRequest"),
            "_context": ("NO_HEADERS", "NO_ORIGIN", "Access", "Admission", "ExchangeContext", "MessageOrigin", "Peer"),
            "_handler_pool": ("GRACE_SECONDS", "HandlerPool", "ParkedRuns", "PendingQuestions"),
            "_incoming": ("IncomingRequest",),
            "_limits": ("ConnectionStatistics", "Limits"),
            "_link": ("Link",),
            "_outbox": ("Outbox", "Outlet", "QueuedMessage"),
            "_outgoing": ("OutgoingRequest", "PausableTimeouts", "Update", "UpdateBudget", "UpdateListener"),
            "_questions": ("Question", "QuestionBatch"),
            "_run": ("Explain", "Handler", "HandlerRun", "Hold", "OutOfTimeError"),
            "_scheduler": ("BUSY", "FairLimiter", "HandlerSlots"),
            "_session": ("ClientSession", "ServerSession"),
        },
    )  # fmt: skip
