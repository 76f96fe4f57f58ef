"""The HTTP transports: client, server, Hypercorn, and the HTTP engine and fetcher that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._engine import EngineError as EngineError
    from ._engine import HttpEngine as HttpEngine
    from ._engine import HttpResponse as HttpResponse
    from ._fetch import engine_fetch as engine_fetch
    from ._fetch import open_fetch as open_fetch
    from ._httpx_engine import HttpxClient as HttpxClient
    from .client import http_transport as http_transport
    from .hypercorn import Bound as Bound
    from .hypercorn import HttpListening as HttpListening
    from .hypercorn import HttpSockets as HttpSockets
    from .hypercorn import Inheritance as Inheritance
    from .hypercorn import bind_sockets as bind_sockets
    from .hypercorn import inheritance_variables as inheritance_variables
    from .hypercorn import serve_asgi as serve_asgi
    from .hypercorn import serve_workers as serve_workers
    from .hypercorn import take_inheritance as take_inheritance
    from .hypercorn import tls_context as tls_context
    from .server import AsgiApp as AsgiApp
    from .server import AsgiChannel as AsgiChannel
    from .server import AsgiMessage as AsgiMessage
    from .server import BegunRequest as BegunRequest
    from .server import ForwardedApp as ForwardedApp
    from .server import ForwardedExchange as ForwardedExchange
    from .server import HttpApp as HttpApp
    from .server import HttpChannel as HttpChannel
    from .server import HttpNodes as HttpNodes
    from .server import HttpRequest as HttpRequest
    from .server import HttpRoute as HttpRoute
    from .server import HttpSettings as HttpSettings
    from .server import LeftSession as LeftSession
    from .server import MemoryEventStore as MemoryEventStore
    from .server import NodesOpener as NodesOpener
    from .server import Receive as Receive
    from .server import ResponseHead as ResponseHead
    from .server import RouteTable as RouteTable
    from .server import Scope as Scope
    from .server import Send as Send
    from .server import SessionSettings as SessionSettings
    from .server import SqliteEventStore as SqliteEventStore
    from .server import UpgradableChannel as UpgradableChannel
    from .server import json_fields as json_fields
    from .server import read_body as read_body
    from .server import read_opening as read_opening
    from .ws import WebSocketStream as WebSocketStream
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_engine": ("EngineError", "HttpEngine", "HttpResponse"),
            "_fetch": ("engine_fetch", "open_fetch"),
            "_httpx_engine": ("HttpxClient",),
            "client": ("http_transport",),
            "hypercorn": (
                "Bound", "HttpListening", "HttpSockets", "Inheritance", "bind_sockets", "inheritance_variables",
                "serve_asgi", "serve_workers", "take_inheritance", "tls_context",
            ),
            "server": (
                "AsgiApp", "AsgiChannel", "AsgiMessage", "BegunRequest", "ForwardedApp", "ForwardedExchange", "HttpApp",
                "HttpChannel", "HttpNodes", "HttpRequest", "HttpRoute", "HttpSettings", "LeftSession",
                "MemoryEventStore", "NodesOpener", "Receive", "ResponseHead", "RouteTable", "Scope", "Send",
                "SessionSettings", "SqliteEventStore", "UpgradableChannel", "json_fields", "read_body", "read_opening",
            ),
            "ws": ("WebSocketStream",),
        },
    )  # fmt: skip
