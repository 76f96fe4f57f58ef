"""The budget of speed and size: ratios of figures of one run, each with a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from .cells import FIGURES, WORKS
from .results import Results

__all__ = ["ROWS", "Row", "markdown"]

Measure: TypeAlias = "Callable[[Results], float | None]"
ERAS = ("2025", "2026")


@frozen
class Row:
    """One limit of the budget."""

    name: str
    measure: Measure
    """A function that returns the value in a run; None if the cells that it needs were not measured."""
    bound: float | None
    """The limit; None if the row is only shown."""
    at_least: bool
    unit: str = "x"

    def holds(self, results: Results) -> bool | None:
        """Return True if the limit holds in this run; None if it cannot be decided."""
        value = self.measure(results)
        if value is None or self.bound is None:
            return None
        return value >= self.bound if self.at_least else value <= self.bound


def _ratio(work: str, over: str, under: str) -> Measure:
    """Return the ratio by which *under* is better than *over*."""
    figure = WORKS[work].main
    if FIGURES[figure].more_is_better:
        over, under = under, over
    return lambda results: results.ratio(work, figure, over, under)


def _value(work: str, contender: str, figure: str) -> Measure:
    def measure(results: Results) -> float | None:
        spread = results.spread(work, contender, figure)
        return None if spread is None else spread.median

    return measure


def _beats_official(name: str, work: str, bounds: Sequence[float | None]) -> Iterator[Row]:
    for era, bound in zip(ERAS, bounds, strict=True):
        measure = _ratio(work, f"official/{era}", f"ours/{era}")
        yield Row(f"{name}, {era}: times faster than official", measure, bound, at_least=True)


def _near_floor(name: str, work: str, floor: str, bound: float, *, throughput: bool = False) -> Iterator[Row]:
    for era in ERAS:
        if throughput:
            measure = _ratio(work, floor, f"ours/{era}")
            yield Row(f"{name}, {era}: of what {floor} does", measure, bound, at_least=True)
        else:
            measure = _ratio(work, f"ours/{era}", floor)
            yield Row(f"{name}, {era}: times as long as {floor}", measure, bound, at_least=False)


def _near_typescript(name: str, work: str) -> Iterator[Row]:
    for era in ERAS:
        measure = _ratio(work, f"ours/{era}", f"ts/{era}")
        yield Row(f"{name}, {era}: times as long as TypeScript", measure, 1, at_least=False)


def _near_direct(name: str, work: str, bound: float, *, throughput: bool = False) -> Iterator[Row]:
    for era in ERAS:
        if throughput:
            measure = _ratio(work, f"ours/{era}", f"ours-hop/{era}")
            yield Row(f"{name}, {era}: of what a direct connection does", measure, bound, at_least=True)
        else:
            measure = _ratio(work, f"ours-hop/{era}", f"ours/{era}")
            yield Row(f"{name}, {era}: times as long as without", measure, bound, at_least=False)


def _beats_proxy(name: str, work: str, bound: float) -> Iterator[Row]:
    for era in ERAS:
        measure = _ratio(work, f"fastmcp-hop/{era}", f"ours-hop/{era}")
        yield Row(f"{name}, {era}: times faster than FastMCP's proxy", measure, bound, at_least=True)


def _of_gateway(name: str, work: str, figure: str, bound: float, unit: str) -> Iterator[Row]:
    for era in ERAS:
        yield Row(f"{name}, {era}", _value(work, f"ours-hop/{era}", figure), bound, at_least=False, unit=unit)


def _beside_trio(client: str, times: float | None, part: float | None) -> Iterator[Row]:
    for era in ERAS:
        bridged, direct = f"ours-{client}/{era}", f"ours/{era}"
        name, measure = f"Client of `trio_mcp.{client}`, p50, {era}", _ratio("stdio-1", bridged, direct)
        yield Row(f"{name}: times as long as on Trio", measure, times, at_least=False)
        name, measure = f"Client of `trio_mcp.{client}`, 64 in flight, {era}", _ratio("stdio-64", direct, bridged)
        yield Row(f"{name}: of what one on Trio does", measure, part, at_least=True)


def _client_beats_official(client: str, bounds: Sequence[float | None]) -> Iterator[Row]:
    for era in ERAS:
        for work, how, bound in zip(("stdio-1", "stdio-64"), ("p50", "64 in flight"), bounds, strict=True):
            name = f"Client of `trio_mcp.{client}`, {how}, {era}: times faster than official"
            yield Row(name, _ratio(work, f"official/{era}", f"ours-{client}/{era}"), bound, at_least=True)


def _at_most(name: str, work: str, figure: str, bound: float, unit: str) -> Iterator[Row]:
    for era in ERAS:
        yield Row(f"{name}, {era}", _value(work, f"ours/{era}", figure), bound, at_least=False, unit=unit)


def _of_stdio(name: str, work: str, over: str, figure: str, bound: float) -> Iterator[Row]:
    for era in ERAS:
        contender = f"ours/{era}"

        def measure(results: Results, contender: str = contender) -> float | None:
            stdio, other = (results.spread(each, contender, figure) for each in (work, over))
            if stdio is None or other is None:
                return None
            ratio = other.median / stdio.median
            return 1 / ratio if FIGURES[figure].more_is_better else ratio

        yield Row(f"{name}, {era}: times as long as over stdio", measure, bound, at_least=False)


ROWS = (
    *_beats_official("stdio, p50", "stdio-1", (3.5, 3.5)),
    *_near_floor("stdio, p50", "stdio-1", "floor", 1.4),
    *_near_typescript("stdio, p50", "stdio-1"),
    *_beats_official("stdio, 64 in flight", "stdio-64", (15, 15)),
    *_near_floor("stdio, 64 in flight", "stdio-64", "floor", 0.65, throughput=True),
    *_beside_trio("asyncio", 2, 0.5),
    *_client_beats_official("asyncio", (2.5, 2.5)),
    *_beside_trio("sync", 2, None),
    *_client_beats_official("sync", (2.5, None)),
    # In memory, the modern era of the official SDK passes objects, not messages; the limit is about the legacy era.
    *_beats_official("In memory, p50", "memory-1", (3, None)),
    *_beats_official("In memory, 64 in flight", "memory-64", (9, None)),
    *_beats_official("`tools/list` of 200 tools", "list", (5, 5)),
    *_beats_official("Text of 1 MB", "text", (2.2, 2.2)),
    *_beats_official("Blob of 10 MB", "blob", (5, 5)),
    *_beats_official("Progress, per update", "storm", (7, 7)),
    *_at_most("Progress after the result", "storm", "late_updates", 0, "updates"),
    *_beats_official("Cancelling to the handler", "cancel", (1.8, 1.8)),
    *_near_direct("Gateway, p50", "hop-1", 2.2),
    *_near_direct("Gateway, 64 in flight", "hop-64", 0.45, throughput=True),
    *_near_direct("Gateway, text of 10 MB", "hop-large", 1.6),
    *_beats_proxy("Gateway, p50", "hop-1", 6),
    *_beats_proxy("Gateway, 64 in flight", "hop-64", 6),
    *_of_gateway("Gateway, `tools/list` of 50 servers", "hop-lists", "p50_ms", 10, "ms"),
    *_of_gateway("Gateway, growth from 10,000 to 50,000 calls", "growth", "growth_mb", 0.1, "MB"),
    Row("Import of the client: of bare Trio", _ratio("import", "ours-client", "trio"), 180 / 97, at_least=False),
    Row("Import: times faster than official", _ratio("import", "official-client", "ours-client"), 2.9, at_least=True),
    Row(
        "Import of the client for asyncio: of the client's",
        _ratio("import", "ours-asyncio-client", "ours-client"),
        1.5,
        at_least=False,
    ),
    Row("Import: memory", _value("import", "ours-client", "rss_mb"), 35, at_least=False, unit="MB"),
    Row(
        "Import of the HTTP client: of the client's",
        _ratio("import", "ours-http-client", "ours-client"),
        1.15,
        at_least=False,
    ),
    *_near_floor("HTTP, p50", "http-1", "floor-httptools", 1.9),
    *_beats_official("HTTP, p50", "http-1", (10, 7)),
    *_near_floor("HTTP, 64 in flight", "http-64", "floor-httptools", 0.4, throughput=True),
    *_beats_official("HTTP, 64 in flight", "http-64", (None, 10)),
    *_beats_official("100 HTTP clients", "clients", (None, 8)),
    *_of_stdio("First progress over HTTP", "first", "http-first", "p50_us", 2),
    *_of_stdio("Cancelling to the handler over HTTP", "cancel", "http-cancel", "p50_us", 2),
    *_of_stdio("Progress over HTTP, per update", "storm", "http-storm", "per_update_us", 2),
    *_of_stdio("WebSocket, p50", "stdio-1", "websocket-1", "p50_us", 1.4),
    *_of_stdio("WebSocket, 64 in flight", "stdio-64", "websocket-64", "rate", 1.4),
    Row("HTTP client: open, 2025", _value("clients", "ours/2025", "open_ms"), 1, at_least=False, unit="ms"),
    Row("HTTP client: open, 2026", _value("clients", "ours/2026", "open_ms"), 0.6, at_least=False, unit="ms"),
    *_at_most("HTTP client: memory", "clients", "client_kb", 60, "KB"),
    *_at_most("Idle HTTP session, server", "clients", "server_kb", 40, "KB"),
    *_at_most("Idle pair in memory", "idle", "pair_kb", 50, "KB"),
    *_at_most("Growth from 10,000 to 50,000 calls", "growth", "growth_mb", 0.1, "MB"),
    *_at_most("Growth per session", "cycles", "growth_kb", 0.2, "KB"),
    Row("`tasks/get` p99, 10,000 open: of one", _value("tasks", "ours-tasks/2026", "p99_times"), 2, at_least=False),
    Row(
        "Process with Redis, 64 in flight: of what one without does",
        _value("service-64", "ours-nodes/2026", "rate_times"),
        0.95,
        at_least=True,
    ),
    Row(
        "Change to a listener of another process, Redis",
        _value("service-change", "ours-nodes/2026", "p50_ms"),
        5,
        at_least=False,
        unit="ms",
    ),
    Row(
        "Change to a listener of another process, SQLite",
        _value("service-change-sqlite", "ours-nodes/2026", "p50_ms"),
        None,
        at_least=False,
        unit="ms",
    ),
    Row(
        "Forwarded call, p50: times as long as a direct one",
        _value("service-forwarded-1", "ours-nodes/2025", "p50_times"),
        2.5,
        at_least=False,
    ),
    Row(
        "Forwarded calls, 64 in flight: of what direct ones do",
        _value("service-forwarded-64", "ours-nodes/2025", "rate_times"),
        None,
        at_least=True,
    ),
    Row(
        "Four processes, 64 in flight: of what one does",
        _value("service-four-64", "ours-nodes/2026", "rate_times"),
        1,
        at_least=True,
    ),
    Row("Open task: memory", _value("tasks", "ours-tasks/2026", "task_kb"), 4, at_least=False, unit="KB"),
)


def markdown(results: Results) -> str:
    """Return the rows as a table."""
    lines = ["| budget | bound | measured | holds |", "| --- | --: | --: | --- |"]
    for row in ROWS:
        value = row.measure(results)
        sign = "≥" if row.at_least else "≤"
        bound = "none" if row.bound is None else f"{sign} {_number(row.bound)} {row.unit}"
        measured = "not measured" if value is None else f"{_number(value)} {row.unit}"
        verdict = {True: "yes", False: "**no**", None: ""}[row.holds(results)]
        lines.append(f"| {row.name} | {bound} | {measured} | {verdict} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
