"""This project with its client for asyncio. The server is the same, on Trio."""

from __future__ import annotations

import trio_mcp.asyncio

from .asyncio_loop import AsyncioLoop
from .ours import Ours

__all__ = ["OursAsyncio"]


class OursAsyncio(Ours):
    """See `sides.Adapter`."""

    loop = AsyncioLoop()
    openers = trio_mcp.asyncio
