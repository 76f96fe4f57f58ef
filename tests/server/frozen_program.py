"""A server over stdio whose tool says how many objects of its process are frozen."""

from __future__ import annotations

import gc

import trio

from trio_mcp import Server, serve_stdio

server = Server("frozen", version="1")


@server.tool
def frozen_objects() -> int:
    return gc.get_freeze_count()


if __name__ == "__main__":
    trio.run(serve_stdio, server)
