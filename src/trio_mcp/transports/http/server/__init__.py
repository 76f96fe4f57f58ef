"""The server side of HTTP, as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._app import HttpApp as HttpApp
    from ._app import HttpSettings as HttpSettings
    from ._asgi import CUT_EXTENSION as CUT_EXTENSION
    from ._asgi import AsgiApp as AsgiApp
    from ._asgi import AsgiMessage as AsgiMessage
    from ._asgi import HttpRequest as HttpRequest
    from ._asgi import Receive as Receive
    from ._asgi import Scope as Scope
    from ._asgi import Send as Send
    from ._asgi import read_body as read_body
    from ._event_store import MemoryEventStore as MemoryEventStore
    from ._event_store import SqliteEventStore as SqliteEventStore
    from ._legacy_session_manager import SessionSettings as SessionSettings
    from ._routes import HttpRoute as HttpRoute
    from ._routes import RouteTable as RouteTable
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_app": ("HttpApp", "HttpSettings"),
            "_asgi": (
                "CUT_EXTENSION", "AsgiApp", "AsgiMessage", "HttpRequest", "Receive", "Scope", "Send", "read_body",
            ),
            "_event_store": ("MemoryEventStore", "SqliteEventStore"),
            "_legacy_session_manager": ("SessionSettings",),
            "_routes": ("HttpRoute", "RouteTable"),
        },
    )  # fmt: skip
