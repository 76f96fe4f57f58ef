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
    from trio_mcp import Changes as Changes  # with the same signatures as here
    from trio_mcp import Client as Client
    from trio_mcp import Clients as Clients
    from trio_mcp import TaskHandle as TaskHandle
    from trio_mcp import open_client as open_client
    from trio_mcp import open_clients as open_clients
    from trio_mcp import open_http_client as open_http_client
    from trio_mcp import open_memory_client as open_memory_client
    from trio_mcp import open_stdio_client as open_stdio_client

    from ._http import AsyncioHttpApp as AsyncioHttpApp
    from ._http import http_app as http_app
    from ._http import run_asyncio as run_asyncio
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_client": (
                "Changes", "Client", "Clients", "TaskHandle", "open_client", "open_clients", "open_http_client",
                "open_memory_client", "open_stdio_client",
            ),
            "_http": ("AsyncioHttpApp", "http_app", "run_asyncio"),
        },
    )  # fmt: skip
