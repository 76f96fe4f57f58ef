"""The client for programs without async.

The openers have the names, the signatures and the results of those of `trio_mcp`, and so have the objects that they
yield: what Trio awaits, blocks here; asynchronous iterators and blocks are plain ones, and callbacks are plain
functions, which run in worker threads. Trio runs in a thread of its own; any number of threads may use one client.
The openers that take a nursery of Trio (`trio_mcp.start_client` and its siblings) and `trio_mcp.open_stream_client`
have no counterpart.
"""

from __future__ import annotations

from .._facade import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "_client": (
            "Changes", "Client", "Clients", "TaskHandle", "open_client", "open_clients", "open_http_client",
            "open_memory_client", "open_stdio_client",
        ),
    },
)  # fmt: skip
