"""The adapters by their names, each imported only by a process that uses it."""

from __future__ import annotations

import importlib

from .sides import Adapter

__all__ = ["choose"]

HOMES = {
    "ours": ("benchmarks.adapters.ours", "Ours"),
    "ours-asyncio": ("benchmarks.adapters.ours_asyncio", "OursAsyncio"),
    "ours-sync": ("benchmarks.adapters.ours_sync", "OursSync"),
    "ours-tasks": ("benchmarks.adapters.ours_tasks", "OursTasks"),
    "ours-nodes": ("benchmarks.adapters.ours_nodes", "OursNodes"),
    "ours-hop": ("benchmarks.adapters.ours_hop", "OursHop"),
    "official": ("benchmarks.adapters.official", "Official"),
    "fastmcp": ("benchmarks.adapters.fastmcp", "FastMcp"),
    "fastmcp-hop": ("benchmarks.adapters.fastmcp_hop", "FastMcpHop"),
    "floor": ("benchmarks.floors.typed", "TypedFloor"),
    "floor-h11": ("benchmarks.floors.h11_pair", "H11Floor"),
    "floor-httptools": ("benchmarks.floors.httptools_pair", "HttptoolsFloor"),
}


def choose(name: str) -> Adapter:
    """Make the adapter of this name."""
    module, kind = HOMES[name]
    adapter: Adapter = getattr(importlib.import_module(module), kind)()
    return adapter
