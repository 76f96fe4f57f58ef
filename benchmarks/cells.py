"""The cells of the benchmark: each is a piece of work and a contender."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from attrs import frozen

__all__ = [
    "CELLS",
    "CONTENDERS",
    "FIGURES",
    "IMPORTS",
    "SMOKE",
    "SMOKE_WITHOUT",
    "WORKS",
    "Cell",
    "Contender",
    "Figure",
    "Work",
    "chosen",
    "plan",
]


@frozen
class Figure:
    """The name of a figure in a table, and its significant decimals."""

    label: str
    digits: int
    more_is_better: bool = False


FIGURES = {
    "p50_us": Figure("p50 µs", 0),
    "p99_us": Figure("p99 µs", 0),
    "max_us": Figure("max µs", 0),
    "rate": Figure("calls/s", 0, more_is_better=True),
    "client_cpu_us": Figure("client CPU µs", 1),
    "server_cpu_us": Figure("server CPU µs", 1),
    "p50_ms": Figure("p50 ms", 1),
    "max_ms": Figure("max ms", 1),
    "per_update_us": Figure("µs per update", 1),
    "late_updates": Figure("updates after the result", 0),
    "open_ms": Figure("open ms", 2),
    "first_call_ms": Figure("open and first call ms", 2),
    "client_kb": Figure("KB per client", 1),
    "server_kb": Figure("KB per session, server", 1),
    "pair_kb": Figure("KB per pair", 1),
    "growth_mb": Figure("growth MB", 2),
    "growth_kb": Figure("growth KB per session", 2),
    "rss_mb": Figure("memory MB", 1),
    "modules": Figure("modules", 0),
    "p50_times": Figure("p50, times that of the other", 2),
    "rate_times": Figure("calls/s, times that of the other", 2, more_is_better=True),
    "p99_times": Figure("p99, times that of one task", 2),
    "task_kb": Figure("KB per task beyond its handler", 2),
}
"""The figures, by the names that the cells print."""


@frozen
class Contender:
    """A contender: an adapter in an era of the protocol, run by the interpreter in a home folder."""

    adapter: str
    era: str
    home: str
    """The name of the folder of the peer's environment; empty for this project."""


CONTENDERS = {
    "floor": Contender("floor", "none", ""),
    "floor-h11": Contender("floor-h11", "none", ""),
    "floor-httptools": Contender("floor-httptools", "none", ""),
    "ours/2025": Contender("ours", "2025", ""),
    "ours/2026": Contender("ours", "2026", ""),
    "ours-asyncio/2025": Contender("ours-asyncio", "2025", ""),
    "ours-asyncio/2026": Contender("ours-asyncio", "2026", ""),
    "ours-sync/2025": Contender("ours-sync", "2025", ""),
    "ours-sync/2026": Contender("ours-sync", "2026", ""),
    "ours-tasks/2026": Contender("ours-tasks", "2026", ""),
    "ours-nodes/2025": Contender("ours-nodes", "2025", ""),
    "ours-nodes/2026": Contender("ours-nodes", "2026", ""),
    "ours-hop/2025": Contender("ours-hop", "2025", ""),
    "ours-hop/2026": Contender("ours-hop", "2026", ""),
    "official/2025": Contender("official", "2025", "official"),
    "official/2026": Contender("official", "2026", "official"),
    "fastmcp/2025": Contender("fastmcp", "2025", "fastmcp"),
    "fastmcp/2026": Contender("fastmcp", "2026", "fastmcp"),
    "fastmcp-hop/2025": Contender("fastmcp-hop", "2025", "fastmcp"),
    "fastmcp-hop/2026": Contender("fastmcp-hop", "2026", "fastmcp"),
    "ts/2025": Contender("ts", "2025", "typescript"),
    "ts/2026": Contender("ts", "2026", "typescript"),
}

IMPORTS = {
    "python": ("", "pass"),
    "trio": ("", "import trio"),
    "ours-client": ("", "from trio_mcp import open_client"),
    "ours-http-client": ("", "from trio_mcp import open_http_client"),
    "ours-asyncio-client": ("", "from trio_mcp.asyncio import open_client"),
    "ours-sync-client": ("", "from trio_mcp.sync import open_client"),
    "ours-server": ("", "from trio_mcp import Server, serve_stdio"),
    "official-client": ("official", "from mcp import Client"),
    "official-server": ("official", "from mcp.server.mcpserver import MCPServer"),
    "fastmcp-client": ("fastmcp", "from fastmcp import Client"),
    "fastmcp-server": ("fastmcp", "from fastmcp import FastMCP"),
}
"""The imported packages, each with the home of its interpreter and the import statement."""

SDKS = tuple(name for name in CONTENDERS if not name.startswith(("floor", "ours-", "fastmcp-hop")))
WITH_FLOOR = ("floor", *SDKS)
IN_MEMORY = tuple(
    name for name in WITH_FLOOR if name != "ts/2026"
)  # its pair of transports supports the legacy era only
FIRST_OVER_STDIO = tuple(name for name in WITH_FLOOR if not name.startswith("ts/"))
"""Without TypeScript, which drops progress that it reads together with the result."""
CANCEL_OVER_HTTP = tuple(name for name in SDKS if name != "ts/2025")
"""Without a server that keeps no session, in which a cancellation would find its request."""
OURS = ("ours/2025", "ours/2026")
WITH_BRIDGES = tuple(
    name for name in CONTENDERS if name in WITH_FLOOR or name.startswith(("ours-asyncio/", "ours-sync/"))
)
"""The clients for asyncio and without async beside the client for Trio."""
HOPS = ("ours-hop/2025", "ours-hop/2026")
"""This project with a gateway in between."""
WITH_PROXY = (*OURS, *HOPS, "fastmcp-hop/2025", "fastmcp-hop/2026")
OVER_HTTP = ("floor-h11", "floor-httptools", *SDKS)


@frozen
class Work:
    """One piece of work."""

    name: str
    title: str
    main: str
    """The figure by which contenders are compared."""
    contenders: tuple[str, ...]
    once: bool = False
    """True if one round is enough, because the work measures memory, which has no noise, or takes very long."""
    needs: str = ""
    """The program without which the work is left out."""


def _calls(kind: str, title: str, contenders: tuple[str, ...], numbers: Sequence[int]) -> Iterator[Work]:
    for number in numbers:
        how = "one call after the other" if number == 1 else f"{number} calls in flight"
        yield Work(f"{kind}-{number}", f"{title}, {how}", "p50_us" if number == 1 else "rate", contenders)


def _of_service(name: str, title: str, main: str, era: str) -> Work:
    return Work(name, title, main, (f"ours-nodes/{era}",), needs="redis-server")


WORKS = {
    work.name: work
    for work in (
        *_calls("stdio", "stdio", WITH_BRIDGES, (1, 16, 64, 256)),
        *_calls("waiting", "stdio, handlers that wait", WITH_FLOOR, (1, 64)),
        *_calls("memory", "In memory", IN_MEMORY, (1, 16, 64, 256)),
        *_calls("hop", "stdio, a gateway in between", WITH_PROXY, (1, 64)),
        Work("hop-large", "A text of 10 MB, stdio, a gateway in between", "p50_ms", WITH_PROXY),
        Work("hop-lists", "`tools/list` of 50 servers with 40 tools each", "p50_ms", HOPS),
        Work("list", "`tools/list` of 200 tools, stdio", "p50_ms", WITH_FLOOR),
        Work("text", "A text of 1 MB, stdio", "p50_ms", WITH_FLOOR),
        Work("blob", "A blob of 10 MB, stdio", "p50_ms", WITH_FLOOR),
        Work("storm", "1,000 progress updates of one call, stdio", "per_update_us", WITH_FLOOR),
        Work("first", "From a call to its first progress, stdio", "p50_us", FIRST_OVER_STDIO),
        Work("cancel", "From cancelling to the handler, stdio", "p50_us", WITH_FLOOR),
        *_calls("http", "HTTP", OVER_HTTP, (1, 64)),
        *_calls("websocket", "WebSocket", OURS, (1, 64)),
        Work("http-storm", "1,000 progress updates of one call, HTTP", "per_update_us", SDKS),
        Work("http-first", "From a call to its first progress, HTTP", "p50_us", SDKS),
        Work("http-cancel", "From cancelling to the handler, HTTP", "p50_us", CANCEL_OVER_HTTP),
        Work("clients", "100 HTTP clients of one server", "rate", OVER_HTTP),
        Work("import", "A process that imports and ends", "p50_ms", tuple(IMPORTS)),
        Work("idle", "1,000 idle sessions in memory", "pair_kb", IN_MEMORY, once=True),
        Work("growth", "Memory from 10,000 to 50,000 calls", "growth_mb", (*IN_MEMORY, *HOPS), once=True),
        Work("cycles", "Memory from 500 to 2,000 sessions", "growth_kb", IN_MEMORY, once=True),
        Work("tasks", "`tasks/get` with 10,000 open tasks, stdio", "p50_us", ("ours-tasks/2026",)),
        _of_service("service-64", "A process with Redis, the other without, 64 calls in flight", "rate", "2026"),
        _of_service("service-forwarded-1", "Forwarded calls, the other direct, one after the other", "p50_us", "2025"),
        _of_service("service-forwarded-64", "Forwarded calls, the other direct, 64 in flight", "rate", "2025"),
        _of_service("service-four-64", "Four processes, the other alone, 64 calls in flight", "rate", "2026"),
        _of_service("service-change", "From a change to a listener of another process, Redis", "p50_ms", "2026"),
        Work("service-change-sqlite", "The same, SQLite", "p50_ms", ("ours-nodes/2026",)),
    )
}


@frozen(order=True)
class Cell:
    """One piece of work done by one contender."""

    work: str
    contender: str

    def __str__(self) -> str:
        return f"{self.work}:{self.contender}"

    @property
    def home(self) -> str:
        """The home folder of its interpreter."""
        return IMPORTS[self.contender][0] if self.work == "import" else CONTENDERS[self.contender].home

    @property
    def needs(self) -> str:
        """The program that must be on the path; empty if it needs none."""
        return WORKS[self.work].needs


CELLS = tuple(Cell(work.name, contender) for work in WORKS.values() for contender in work.contenders)

SMOKE = (
    *("*:ours/2026", "*:ours-*", "*:floor*"),
    *("stdio-1:ours/2025", "memory-1:ours/2025", "http-1:ours/2025", "clients:ours/2025", "storm:ours/2025"),
    *("stdio-1:official/2025", "memory-1:official/2026", "http-1:official/2026"),
)
"""The cells of a smoke run: all works of this project and the floors, and one call over each transport by others."""
SMOKE_WITHOUT = ("stdio-16", "stdio-256", "memory-16", "memory-256")
"""The works that differ from others only in a number."""


def chosen(patterns: Iterable[str], cells: Iterable[Cell] = CELLS) -> list[Cell]:
    """Return the cells that match any pattern: ``stdio-*``, ``*:ours/*``, ``list:floor``, or the name of a work.

    Raises:
        LookupError: no cell fits one of the patterns.
    """
    cells, found = tuple(cells), set[Cell]()
    for pattern in patterns:
        whole = pattern if ":" in pattern else f"{pattern}:*"
        fitting = {cell for cell in cells if fnmatchcase(str(cell), whole)}
        if not fitting:
            raise LookupError(f"no cell fits {pattern!r}; --list shows all")
        found |= fitting
    return [cell for cell in cells if cell in found]


def plan(cells: Sequence[Cell], rounds: int) -> Iterator[Cell]:
    """Return the order of all runs: the contenders of a work run together, in reverse in every second round.

    So compared figures are measured within minutes, and no contender always runs after the same neighbour.
    """
    works = list(dict.fromkeys(cell.work for cell in cells))
    for number in range(rounds):
        for work in works:
            if number == 0 or not WORKS[work].once:
                yield from [cell for cell in cells if cell.work == work][:: 1 if number % 2 == 0 else -1]
