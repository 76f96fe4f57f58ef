"""The client for programs without async.

The openers have the names, the signatures and the results of those of `trio_mcp`, and so have the objects that they
yield: what Trio awaits, blocks here; asynchronous iterators and blocks are plain ones, and callbacks are plain
functions, which run in worker threads. Trio runs in a thread of its own; any number of threads may use one client.
The openers that take a nursery of Trio (`trio_mcp.start_client` and its siblings) and `trio_mcp.open_stream_client`
have no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._classes import Call as Call
    from ._classes import Changes as Changes
    from ._classes import Client as Client
    from ._classes import ClientOptions as ClientOptions
    from ._classes import Clients as Clients
    from ._classes import ClientSkill as ClientSkill
    from ._classes import Consent as Consent
    from ._classes import CustomHandler as CustomHandler
    from ._classes import ManualCall as ManualCall
    from ._classes import OnElicit as OnElicit
    from ._classes import OnElicitComplete as OnElicitComplete
    from ._classes import OnLog as OnLog
    from ._classes import OnProgress as OnProgress
    from ._classes import OnSample as OnSample
    from ._classes import Roots as Roots
    from ._classes import ServerChanges as ServerChanges
    from ._classes import TaskHandle as TaskHandle
    from ._classes import TaskStates as TaskStates
    from ._classes import Updates as Updates
    from ._client import open_client as open_client
    from ._client import open_clients as open_clients
    from ._client import open_http_client as open_http_client
    from ._client import open_memory_client as open_memory_client
    from ._client import open_stdio_client as open_stdio_client
    from ._llm import Approve as Approve
    from ._llm import OnCallProgress as OnCallProgress
    from ._llm import Toolkit as Toolkit
    from ._llm import load_toolkit as load_toolkit
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_classes": (
                "Call", "Changes", "Client", "ClientOptions", "ClientSkill", "Clients", "Consent",
                "CustomHandler", "ManualCall", "OnElicit", "OnElicitComplete", "OnLog", "OnProgress",
                "OnSample", "Roots", "ServerChanges", "TaskHandle", "TaskStates", "Updates",
            ),
            "_client": (
                "open_client", "open_clients", "open_http_client", "open_memory_client",
                "open_stdio_client",
            ),
            "_llm": (
                "Approve", "OnCallProgress", "Toolkit", "load_toolkit",
            ),
        },
    )  # fmt: skip
