"""A server whose tools are named on its command line: `python tool_server.py NAME TOOL...`.

A tool returns the names of its server and itself; `crash` ends the process, `pid` returns its id, `more` adds a tool.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import trio

from trio_mcp import Server, serve_stdio

NAME, *TOOLS = sys.argv[1:]
server = Server(NAME)


def crash() -> None:
    sys.stderr.write(f"{NAME} has crashed\n")
    sys.stderr.flush()
    os._exit(3)


def pid() -> str:
    return str(os.getpid())


def more(name: str) -> None:
    server.tool(name=name)(plain(name))


def plain(tool: str) -> Callable[[], str]:
    return lambda: f"{NAME} {tool}"


HANDLERS: dict[str, Callable[..., object]] = {"crash": crash, "pid": pid, "more": more}
for each in TOOLS:
    server.tool(name=each)(HANDLERS.get(each) or plain(each))

trio.run(serve_stdio, server)
