"""For those who build transports or frameworks on the engine: names only."""

from __future__ import annotations

from .abc import Answerer, Transport, TransportOpener
from .peer import (
    Asked,
    ClientSession,
    ConnectionStatistics,
    Exchange,
    ExchangeContext,
    Gate,
    Hall,
    Limits,
    Link,
    Peer,
    Run,
    ServerSession,
)
from .server import ServerStatistics, Serving
from .transports import stream_transport

__all__ = [
    "Answerer",
    "Asked",
    "ClientSession",
    "ConnectionStatistics",
    "Exchange",
    "ExchangeContext",
    "Gate",
    "Hall",
    "Limits",
    "Link",
    "Peer",
    "Run",
    "ServerSession",
    "ServerStatistics",
    "Serving",
    "Transport",
    "TransportOpener",
    "stream_transport",
]
