"""The transports, one folder or file each; every name is imported from its module on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._connection_bound import BoundedListener as BoundedListener
    from ._connection_bound import ConnectionBound as ConnectionBound
    from ._connection_bound import TurnListener as TurnListener
    from ._connection_bound import bounded as bounded
    from ._connection_bound import default_max_connections as default_max_connections
    from ._connection_bound import has_unread_data as has_unread_data
    from ._connection_bound import socket_of as socket_of
    from ._memory import memory_transport as memory_transport
    from ._stream import guarded_tap as guarded_tap
    from ._stream import sender_at as sender_at
    from ._stream import server_link as server_link
    from ._stream import stream_link as stream_link
    from ._stream import stream_transport as stream_transport
    from .http import AsgiApp as AsgiApp
    from .http import AsgiChannel as AsgiChannel
    from .http import AsgiMessage as AsgiMessage
    from .http import BegunRequest as BegunRequest
    from .http import Bound as Bound
    from .http import EngineError as EngineError
    from .http import ForwardedApp as ForwardedApp
    from .http import ForwardedExchange as ForwardedExchange
    from .http import HttpApp as HttpApp
    from .http import HttpChannel as HttpChannel
    from .http import HttpEngine as HttpEngine
    from .http import HttpListening as HttpListening
    from .http import HttpNodes as HttpNodes
    from .http import HttpRequest as HttpRequest
    from .http import HttpResponse as HttpResponse
    from .http import HttpRoute as HttpRoute
    from .http import HttpSettings as HttpSettings
    from .http import HttpSockets as HttpSockets
    from .http import HttpxClient as HttpxClient
    from .http import Inheritance as Inheritance
    from .http import LeftSession as LeftSession
    from .http import MemoryEventStore as MemoryEventStore
    from .http import NodesOpener as NodesOpener
    from .http import Receive as Receive
    from .http import ResponseHead as ResponseHead
    from .http import RouteTable as RouteTable
    from .http import Scope as Scope
    from .http import Send as Send
    from .http import SessionSettings as SessionSettings
    from .http import SqliteEventStore as SqliteEventStore
    from .http import UpgradableChannel as UpgradableChannel
    from .http import WebSocketStream as WebSocketStream
    from .http import bind_sockets as bind_sockets
    from .http import engine_fetch as engine_fetch
    from .http import http_transport as http_transport
    from .http import inheritance_variables as inheritance_variables
    from .http import json_fields as json_fields
    from .http import open_fetch as open_fetch
    from .http import read_body as read_body
    from .http import read_opening as read_opening
    from .http import serve_asgi as serve_asgi
    from .http import serve_workers as serve_workers
    from .http import take_inheritance as take_inheritance
    from .http import tls_context as tls_context
    from .stdio import DescendantMark as DescendantMark
    from .stdio import StderrTarget as StderrTarget
    from .stdio import StdioServer as StdioServer
    from .stdio import check_stderr as check_stderr
    from .stdio import claim_stdio as claim_stdio
    from .stdio import kill_group as kill_group
    from .stdio import stdio_transport as stdio_transport
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_connection_bound": (
                "BoundedListener", "ConnectionBound", "TurnListener", "bounded", "default_max_connections",
                "has_unread_data", "socket_of",
            ),
            "_memory": ("memory_transport",),
            "_stream": ("guarded_tap", "sender_at", "server_link", "stream_link", "stream_transport"),
            "http": (
                "AsgiApp", "AsgiChannel", "AsgiMessage", "BegunRequest", "Bound", "EngineError", "ForwardedApp",
                "ForwardedExchange", "HttpApp", "HttpChannel", "HttpEngine", "HttpListening", "HttpNodes",
                "HttpRequest", "HttpResponse", "HttpRoute", "HttpSettings", "HttpSockets", "HttpxClient", "Inheritance",
                "LeftSession", "MemoryEventStore", "NodesOpener", "Receive", "ResponseHead", "RouteTable", "Scope",
                "Send", "SessionSettings", "SqliteEventStore", "UpgradableChannel", "WebSocketStream", "bind_sockets",
                "engine_fetch", "http_transport", "inheritance_variables", "json_fields", "open_fetch", "read_body",
                "read_opening", "serve_asgi", "serve_workers", "take_inheritance", "tls_context",
            ),
            "stdio": (
                "DescendantMark", "StderrTarget", "StdioServer", "check_stderr", "claim_stdio", "kill_group",
                "stdio_transport",
            ),
        },
    )  # fmt: skip
