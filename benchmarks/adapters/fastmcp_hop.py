"""FastMCP with its proxy between the client and the server, each a process of its own."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .fastmcp import FastMcp, transports
from .tools import usage

# Imported by name, because the type checkers run where it is not installed.
proxies = importlib.import_module("fastmcp.server")

__all__ = ["FastMcpHop"]


class FastMcpHop(FastMcp):
    """See `sides.Adapter`."""

    def server(self, dummies: int) -> Any:
        """Return a proxy in front of a server process. The tool `usage` tells what the proxy uses itself."""
        if dummies:
            raise LookupError("the lists of a proxy are not compared")
        command = ["-m", "benchmarks.serve", "fastmcp", "stdio", "0"]
        proxy = proxies.create_proxy(transports.StdioTransport(sys.executable, command), name="bench")
        proxy.tool(_usage, name="usage")
        return proxy


async def _usage(collect: bool) -> list[float]:
    return usage(collect)
