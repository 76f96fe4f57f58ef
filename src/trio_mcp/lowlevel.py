"""The low-level API, for transports and frameworks that are built on the engine."""

from __future__ import annotations

from ._util import owned_nursery, succeeds
from .abc import Answerer, Transport, TransportOpener
from .peer import (
    Admission,
    ClientSession,
    ConnectionStatistics,
    ExchangeContext,
    HandlerPool,
    HandlerRun,
    IncomingRequest,
    Limits,
    Link,
    OutgoingRequest,
    Peer,
    ServerSession,
)
from .server import ActiveServer, ServerStatistics
from .transports import stream_transport

__all__ = [
    "ActiveServer",
    "Admission",
    "Answerer",
    "ClientSession",
    "ConnectionStatistics",
    "ExchangeContext",
    "HandlerPool",
    "HandlerRun",
    "IncomingRequest",
    "Limits",
    "Link",
    "OutgoingRequest",
    "Peer",
    "ServerSession",
    "ServerStatistics",
    "Transport",
    "TransportOpener",
    "owned_nursery",
    "stream_transport",
    "succeeds",
]
