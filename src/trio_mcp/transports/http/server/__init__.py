"""The server side of HTTP, as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._app import HttpApp as HttpApp
    from ._app import HttpSettings as HttpSettings
    from ._asgi import BegunRequest as BegunRequest
    from ._asgi import HttpRequest as HttpRequest
    from ._asgi import json_fields as json_fields
    from ._asgi import read_body as read_body
    from ._channel import CUT_EXTENSION as CUT_EXTENSION
    from ._channel import AsgiApp as AsgiApp
    from ._channel import AsgiChannel as AsgiChannel
    from ._channel import AsgiMessage as AsgiMessage
    from ._channel import HttpChannel as HttpChannel
    from ._channel import Receive as Receive
    from ._channel import ResponseHead as ResponseHead
    from ._channel import Scope as Scope
    from ._channel import Send as Send
    from ._channel import UpgradableChannel as UpgradableChannel
    from ._channel import as_bytes as as_bytes
    from ._channel import as_text as as_text
    from ._event_store import MemoryEventStore as MemoryEventStore
    from ._event_store import SqliteEventStore as SqliteEventStore
    from ._legacy_session_manager import SessionSettings as SessionSettings
    from ._nodes import ForwardedApp as ForwardedApp
    from ._nodes import ForwardedExchange as ForwardedExchange
    from ._nodes import HttpNodes as HttpNodes
    from ._nodes import NodesOpener as NodesOpener
    from ._routes import HttpRoute as HttpRoute
    from ._routes import RouteTable as RouteTable
    from ._session_moves import LeftSession as LeftSession
    from ._websocket import read_opening as read_opening
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_app": ("HttpApp", "HttpSettings"),
            "_asgi": ("BegunRequest", "HttpRequest", "json_fields", "read_body"),
            "_channel": (
                "CUT_EXTENSION", "AsgiApp", "AsgiChannel", "AsgiMessage", "HttpChannel", "Receive", "ResponseHead",
                "Scope", "Send", "UpgradableChannel", "as_bytes", "as_text",
            ),
            "_event_store": ("MemoryEventStore", "SqliteEventStore"),
            "_legacy_session_manager": ("SessionSettings",),
            "_nodes": ("ForwardedApp", "ForwardedExchange", "HttpNodes", "NodesOpener"),
            "_routes": ("HttpRoute", "RouteTable"),
            "_session_moves": ("LeftSession",),
            "_websocket": ("read_opening",),
        },
    )  # fmt: skip
