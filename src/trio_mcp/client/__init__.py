"""The client: openers, negotiation of a revision, requests, callbacks, the cache, and clients of many servers.

Names only, each imported from its module when it is first used: most programs have one server and no `mcpServers` file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._answer import ResultInProgress as ResultInProgress
    from ._cache import CacheOption as CacheOption
    from ._cache import CacheStatistics as CacheStatistics
    from ._cache import ResponseCache as ResponseCache
    from ._cache import ServerCache as ServerCache
    from ._callbacks import Consent as Consent
    from ._callbacks import Consentable as Consentable
    from ._callbacks import ElicitMode as ElicitMode
    from ._callbacks import OnElicit as OnElicit
    from ._callbacks import OnElicitComplete as OnElicitComplete
    from ._callbacks import OnLog as OnLog
    from ._callbacks import OnSample as OnSample
    from ._callbacks import Roots as Roots
    from ._client import Call as Call
    from ._client import Client as Client
    from ._client import ManualCall as ManualCall
    from ._client import OnProgress as OnProgress
    from ._client import OpenCall as OpenCall
    from ._client import Updates as Updates
    from ._custom import ClientExtensionPoints as ClientExtensionPoints
    from ._listen import Changes as Changes
    from ._many import MAX_NAME_LENGTH as MAX_NAME_LENGTH
    from ._many import Clients as Clients
    from ._many import Prefix as Prefix
    from ._many import ServerTool as ServerTool
    from ._many import assign_names as assign_names
    from ._many import open_clients as open_clients
    from ._many import qualified_name as qualified_name
    from ._many import sanitized_name as sanitized_name
    from ._many import start_clients as start_clients
    from ._many import unique_names as unique_names
    from ._mcp_json import ServerTable as ServerTable
    from ._mcp_json import TableSource as TableSource
    from ._mcp_json import load_server_table as load_server_table
    from ._mcp_json import read_server_table as read_server_table
    from ._open import ClientOptions as ClientOptions
    from ._open import CustomHandler as CustomHandler
    from ._open import Extension as Extension
    from ._open import Resolve as Resolve
    from ._open import Target as Target
    from ._open import check_options as check_options
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
    from ._supervision import Restart as Restart
    from ._supervision import ServerChanges as ServerChanges
    from ._supervision import ServerState as ServerState
    from ._supervision import ServerStatus as ServerStatus
    from ._supervision import SupervisedServer as SupervisedServer
    from ._timing import TimeLimits as TimeLimits
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_answer": ("ResultInProgress",),
            "_cache": ("CacheOption", "CacheStatistics", "ResponseCache", "ServerCache"),
            "_callbacks": (
                "Consent", "Consentable", "ElicitMode", "OnElicit", "OnElicitComplete", "OnLog", "OnSample", "Roots",
            ),
            "_client": ("Call", "Client", "ManualCall", "OnProgress", "OpenCall", "Updates"),
            "_custom": ("ClientExtensionPoints",),
            "_listen": ("Changes",),
            "_many": (
                "MAX_NAME_LENGTH", "Clients", "Prefix", "ServerTool", "assign_names", "open_clients",
                "qualified_name", "sanitized_name", "start_clients", "unique_names",
            ),
            "_mcp_json": ("ServerTable", "TableSource", "load_server_table", "read_server_table"),
            "_open": (
                "ClientOptions", "CustomHandler", "Extension", "Resolve", "Target", "check_options", "open_client",
                "open_http_client", "open_memory_client", "open_stdio_client", "open_stream_client", "start_client",
                "start_http_client", "start_memory_client", "start_stdio_client", "start_stream_client",
            ),
            "_supervision": ("Restart", "ServerChanges", "ServerState", "ServerStatus", "SupervisedServer"),
            "_timing": ("TimeLimits",),
        },
    )  # fmt: skip
