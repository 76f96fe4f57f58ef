"""This project with a gateway between the client and the server, each a process of its own."""

from __future__ import annotations

import sys

from trio_mcp import Server
from trio_mcp.gateway import Gateway

from .ours import Ours
from .tools import dummy_description, dummy_name, usage

__all__ = ["OursHop"]

TOOLS_PER_SERVER = 40


class OursHop(Ours):
    """See `sides.Adapter`."""

    def server(self, dummies: int) -> Server:
        """Return a gateway in front of a server process or, with dummies, of servers in this process that share them.

        In front of a process, the tool `usage` is the gateway's own, and tells what it uses itself.
        """
        gateway = Gateway("bench", version="1")
        if dummies == 0:
            gateway.tool(name="usage")(_usage)
            gateway.mount([sys.executable, "-m", "benchmarks.serve", "ours", "stdio", "0"], name="behind")
        for first in range(0, dummies, TOOLS_PER_SERVER):
            server = Server(f"server-{first}", version="1")
            for number in range(first, first + TOOLS_PER_SERVER):
                server.tool(name=dummy_name(number), description=dummy_description(number))(_dummy)
            gateway.mount(server)
        return gateway


async def _usage(collect: bool) -> list[float]:
    return usage(collect)


async def _dummy(name: str, limit: int = 10) -> int:
    return len(name) + limit
