"""The client for programs on asyncio, and servers in ASGI applications of asyncio.

The openers have the names, the signatures and the results of those of `trio_mcp`, and so have the objects that they
yield: what Trio awaits, asyncio awaits here. Callbacks are coroutine functions of asyncio. Trio runs as a guest of the
running event loop, in its thread, and ends when the loop shuts down. The openers that take a nursery of Trio
(`trio_mcp.start_client` and its siblings) and `trio_mcp.open_stream_client` have no counterpart.
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
    from ._http import AsyncioApp as AsyncioApp
    from ._http import AsyncioHttpApp as AsyncioHttpApp
    from ._http import asyncio_app as asyncio_app
    from ._http import http_app as http_app
    from ._http import run_asyncio as run_asyncio
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
            "_http": (
                "AsyncioApp", "AsyncioHttpApp", "asyncio_app", "http_app", "run_asyncio",
            ),
            "_llm": (
                "Approve", "OnCallProgress", "Toolkit", "load_toolkit",
            ),
        },
    )  # fmt: skip
