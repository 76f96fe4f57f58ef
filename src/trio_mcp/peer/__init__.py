"""The engine: exchanges, handler runs and their pool, and connections made of messages. Uses Trio, but no transport.

Contains only names, each imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._connection import ConnectionStatistics as ConnectionStatistics
    from ._connection import Ledger as Ledger
    from ._connection import MessageConnection as MessageConnection
    from ._connection import Outlet as Outlet
    from ._connection import QueuedMessage as QueuedMessage
    from ._context import NO_HEADERS as NO_HEADERS
    from ._context import NO_ORIGIN as NO_ORIGIN
    from ._context import Access as Access
    from ._context import Admission as Admission
    from ._context import Arrival as Arrival
    from ._context import ExchangeContext as ExchangeContext
    from ._context import HeaderFields as HeaderFields
    from ._context import MessageOrigin as MessageOrigin
    from ._context import ObservableServing as ObservableServing
    from ._context import Peer as Peer
    from ._context import RequestObserver as RequestObserver
    from ._context import RequestWatch as RequestWatch
    from ._context import ServingStatistics as ServingStatistics
    from ._context import note_arrival as note_arrival
    from ._exchange import ANSWERING as ANSWERING
    from ._exchange import ASKING as ASKING
    from ._exchange import ExchangeEvent as ExchangeEvent
    from ._exchange import ExchangeState as ExchangeState
    from ._exchange import IncomingMessageRequest as IncomingMessageRequest
    from ._exchange import IncomingRequest as IncomingRequest
    from ._exchange import OutgoingMessageRequest as OutgoingMessageRequest
    from ._exchange import OutgoingRequest as OutgoingRequest
    from ._exchange import ResponseBatch as ResponseBatch
    from ._exchange import Update as Update
    from ._exchange import UpdateBudget as UpdateBudget
    from ._exchange import UpdateListener as UpdateListener
    from ._exchange import advance as advance
    from ._handler_pool import CallerDeadlineError as CallerDeadlineError
    from ._handler_pool import Explain as Explain
    from ._handler_pool import Forwarding as Forwarding
    from ._handler_pool import ForwardingRun as ForwardingRun
    from ._handler_pool import Handler as Handler
    from ._handler_pool import HandlerPool as HandlerPool
    from ._handler_pool import HandlerRun as HandlerRun
    from ._handler_pool import OutOfTimeError as OutOfTimeError
    from ._holds import Hold as Hold
    from ._holds import Holds as Holds
    from ._limits import BUSY as BUSY
    from ._limits import Limits as Limits
    from ._limits import PausableTimeouts as PausableTimeouts
    from ._link import READER_PASS as READER_PASS
    from ._link import Link as Link
    from ._link import Outbox as Outbox
    from ._pacing import Cancellations as Cancellations
    from ._pacing import LargeResults as LargeResults
    from ._pacing import is_large as is_large
    from ._parking import GATHER_SECONDS as GATHER_SECONDS
    from ._parking import GRACE_SECONDS as GRACE_SECONDS
    from ._parking import ParkedRuns as ParkedRuns
    from ._parking import PendingQuestions as PendingQuestions
    from ._parking import Question as Question
    from ._parking import QuestionBatch as QuestionBatch
    from ._session import HANDSHAKE as HANDSHAKE
    from ._session import ClientSession as ClientSession
    from ._session import HandshakeEvent as HandshakeEvent
    from ._session import HandshakeState as HandshakeState
    from ._session import ServerSession as ServerSession
    from ._slots import FairLimiter as FairLimiter
    from ._slots import HandlerSlots as HandlerSlots
    from ._slots import SenderSlots as SenderSlots
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_connection": ("ConnectionStatistics", "Ledger", "MessageConnection", "Outlet", "QueuedMessage"),
            "_context": (
                "NO_HEADERS", "NO_ORIGIN", "Access", "Admission", "Arrival", "ExchangeContext", "HeaderFields",
                "MessageOrigin", "ObservableServing", "Peer", "RequestObserver", "RequestWatch", "ServingStatistics",
                "note_arrival",
            ),
            "_exchange": (
                "ANSWERING", "ASKING", "ExchangeEvent", "ExchangeState", "IncomingMessageRequest", "IncomingRequest",
                "OutgoingMessageRequest", "OutgoingRequest", "ResponseBatch", "Update", "UpdateBudget",
                "UpdateListener", "advance",
            ),
            "_handler_pool": (
                "CallerDeadlineError", "Explain", "Forwarding", "ForwardingRun", "Handler", "HandlerPool", "HandlerRun",
                "OutOfTimeError",
            ),
            "_holds": ("Hold", "Holds"),
            "_limits": ("BUSY", "Limits", "PausableTimeouts"),
            "_link": ("Link", "Outbox", "READER_PASS"),
            "_pacing": ("Cancellations", "LargeResults", "is_large"),
            "_parking": (
                *("GATHER_SECONDS", "GRACE_SECONDS", "ParkedRuns"),
                *("PendingQuestions", "Question", "QuestionBatch"),
            ),
            "_session": ("HANDSHAKE", "ClientSession", "HandshakeEvent", "HandshakeState", "ServerSession"),
            "_slots": ("FairLimiter", "HandlerSlots", "SenderSlots"),
        },
    )  # fmt: skip
