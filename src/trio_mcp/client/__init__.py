"""ASKING: the client, its openers, and how it finds out what the other side speaks.

Names only, each imported from its home when it is first used: most programs have one server and no `mcpServers` file.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._cache import CacheOption as CacheOption
    from ._cache import CacheStatistics as CacheStatistics
    from ._cache import ResponseCache as ResponseCache
    from ._cache import ServerCache as ServerCache
    from ._callbacks import ElicitMode as ElicitMode
    from ._callbacks import OnElicit as OnElicit
    from ._callbacks import OnElicitComplete as OnElicitComplete
    from ._callbacks import OnLog as OnLog
    from ._callbacks import OnSample as OnSample
    from ._callbacks import Roots as Roots
    from ._calls import Call as Call
    from ._calls import ManualCall as ManualCall
    from ._calls import OnProgress as OnProgress
    from ._calls import OpenCall as OpenCall
    from ._calls import Updates as Updates
    from ._changes import Changes as Changes
    from ._client import Client as Client
    from ._consent import Consent as Consent
    from ._consent import Consentable as Consentable
    from ._custom import Extension as Extension
    from ._custom import OwnHandler as OwnHandler
    from ._custom import Resolve as Resolve
    from ._many import Clients as Clients
    from ._many import open_clients as open_clients
    from ._many import start_clients as start_clients
    from ._many_names import Prefix as Prefix
    from ._many_tools import ServerTool as ServerTool
    from ._open import Target as Target
    from ._open import open_client as open_client
    from ._open import open_http_client as open_http_client
    from ._open import open_memory_client as open_memory_client
    from ._open import open_stdio_client as open_stdio_client
    from ._open import open_stream_client as open_stream_client
    from ._open import start_client as start_client
    from ._open import start_http_client as start_http_client
    from ._open import start_memory_client as start_memory_client
    from ._open import start_stdio_client as start_stdio_client
    from ._open import start_stream_client as start_stream_client
    from ._server_table import ServerTable as ServerTable
    from ._server_table import TableSource as TableSource
    from ._server_table import read_server_table as read_server_table
    from ._supervisor import ClientOptions as ClientOptions
    from ._timing import TimeLimits as TimeLimits

_HOMES = {
    "_cache": ("CacheOption", "CacheStatistics", "ResponseCache", "ServerCache"),
    "_callbacks": ("ElicitMode", "OnElicit", "OnElicitComplete", "OnLog", "OnSample", "Roots"),
    "_calls": ("Call", "ManualCall", "OnProgress", "OpenCall", "Updates"),
    "_changes": ("Changes",),
    "_client": ("Client",),
    "_consent": ("Consent", "Consentable"),
    "_custom": ("Extension", "OwnHandler", "Resolve"),
    "_many": ("Clients", "open_clients", "start_clients"),
    "_many_names": ("Prefix",),
    "_many_tools": ("ServerTool",),
    "_open": (
        "Target", "open_client", "open_http_client", "open_memory_client", "open_stdio_client", "open_stream_client",
        "start_client", "start_http_client", "start_memory_client", "start_stdio_client", "start_stream_client",
    ),
    "_server_table": ("ServerTable", "TableSource", "read_server_table"),
    "_supervisor": ("ClientOptions",),
    "_timing": ("TimeLimits",),
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
