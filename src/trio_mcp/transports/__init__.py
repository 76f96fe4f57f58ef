"""BINDINGS: how exchanges travel. One file per binding and side.

Names only, each imported from its home when it is first used: few programs travel in more than one way.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._asgi import AsgiApp as AsgiApp
    from ._asgi import AsgiMessage as AsgiMessage
    from ._asgi import HttpRequest as HttpRequest
    from ._asgi import Receive as Receive
    from ._asgi import Scope as Scope
    from ._asgi import Send as Send
    from ._asgi import read_body as read_body
    from ._event_store import MemoryEventStore as MemoryEventStore
    from ._event_store_sqlite import SqliteEventStore as SqliteEventStore
    from ._http_app import HttpApp as HttpApp
    from ._http_client import http_transport as http_transport
    from ._http_door import HttpSettings as HttpSettings
    from ._http_engine import EngineError as EngineError
    from ._http_engine import HttpEngine as HttpEngine
    from ._http_engine import HttpResponse as HttpResponse
    from ._http_fetch import engine_fetch as engine_fetch
    from ._http_sessions import SessionSettings as SessionSettings
    from ._httpx_engine import HttpxClient as HttpxClient
    from ._httpx_fetch import open_fetch as open_fetch
    from ._hypercorn_inherited import Inheritance as Inheritance
    from ._hypercorn_inherited import take_inheritance as take_inheritance
    from ._hypercorn_listening import HttpListening as HttpListening
    from ._hypercorn_serve import serve_asgi as serve_asgi
    from ._hypercorn_sockets import Bound as Bound
    from ._hypercorn_sockets import HttpSockets as HttpSockets
    from ._hypercorn_sockets import bind_sockets as bind_sockets
    from ._hypercorn_tls import tls_context as tls_context
    from ._hypercorn_workers import serve_workers as serve_workers
    from ._memory import memory_transport as memory_transport
    from ._stdio_client import StdioServer as StdioServer
    from ._stdio_client import stdio_transport as stdio_transport
    from ._stdio_descriptors import claim_stdio as claim_stdio
    from ._stream import server_link as server_link
    from ._stream import stream_transport as stream_transport
    from ._tap import guarded_tap as guarded_tap

_HOMES = {
    "_asgi": ("AsgiApp", "AsgiMessage", "HttpRequest", "Receive", "Scope", "Send", "read_body"),
    "_event_store": ("MemoryEventStore",),
    "_event_store_sqlite": ("SqliteEventStore",),
    "_http_app": ("HttpApp",),
    "_http_client": ("http_transport",),
    "_http_door": ("HttpSettings",),
    "_http_engine": ("EngineError", "HttpEngine", "HttpResponse"),
    "_http_fetch": ("engine_fetch",),
    "_http_sessions": ("SessionSettings",),
    "_httpx_engine": ("HttpxClient",),
    "_httpx_fetch": ("open_fetch",),
    "_hypercorn_inherited": ("Inheritance", "take_inheritance"),
    "_hypercorn_listening": ("HttpListening",),
    "_hypercorn_serve": ("serve_asgi",),
    "_hypercorn_sockets": ("Bound", "HttpSockets", "bind_sockets"),
    "_hypercorn_tls": ("tls_context",),
    "_hypercorn_workers": ("serve_workers",),
    "_memory": ("memory_transport",),
    "_stdio_client": ("StdioServer", "stdio_transport"),
    "_stdio_descriptors": ("claim_stdio",),
    "_stream": ("server_link", "stream_transport"),
    "_tap": ("guarded_tap",),
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
