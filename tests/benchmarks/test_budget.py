"""The budget: the cells that its rows compare, and the verdict of each row."""

from __future__ import annotations

import pytest

from benchmarks.budget import ROWS, Row, markdown
from benchmarks.cells import CELLS, Cell
from benchmarks.results import Results


def row(name: str) -> Row:
    (found,) = (each for each in ROWS if each.name == name)
    return found


def results(**figures: dict[str, float]) -> Results:
    """Return results from figures by cell, with ``__`` for ``:`` in the name of a cell.

    A last ``_`` of the contender is ``/``, the others are ``-``.
    """
    made = Results({})
    for name, values in figures.items():
        work, _, contender = name.partition("__")
        made.add(Cell(work.replace("_", "-"), "/".join(contender.rsplit("_", 1)).replace("_", "-")), values)
    return made


def test_every_row_reads_existing_cells() -> None:
    recording = RecordingResults({})
    for each in ROWS:
        each.measure(recording)
    assert recording.cells <= set(CELLS)
    assert len({each.name for each in ROWS}) == len(ROWS)


class RecordingResults(Results):
    """Results that record the cells that a row reads."""

    def __init__(self, about: dict[str, str]) -> None:
        super().__init__(dict(about))
        self.cells: set[Cell] = set()

    def ratio(self, work: str, figure: str, over: str, under: str) -> float | None:
        self.cells |= {Cell(work, over), Cell(work, under)}
        return super().ratio(work, figure, over, under)

    def spread(self, work: str, contender: str, figure: str) -> None:
        self.cells.add(Cell(work, contender))


@pytest.mark.parametrize(("official", "holds"), [(350.0, True), (349.0, False)])
def test_a_time_must_beat_the_official_sdk_by_the_limit(official: float, *, holds: bool) -> None:
    run = results(stdio_1__ours_2025={"p50_us": 100}, stdio_1__official_2025={"p50_us": official})
    assert row("stdio, p50, 2025: times faster than official").holds(run) is holds


@pytest.mark.parametrize(("ours", "holds"), [(30_000.0, True), (29_000.0, False)])
def test_a_throughput_must_beat_the_official_sdk_by_the_limit(ours: float, *, holds: bool) -> None:
    run = results(stdio_64__ours_2026={"rate": ours}, stdio_64__official_2026={"rate": 2000})
    assert row("stdio, 64 in flight, 2026: times faster than official").holds(run) is holds


@pytest.mark.parametrize(("ours", "holds"), [(140.0, True), (141.0, False)])
def test_a_time_must_be_near_the_floor(ours: float, *, holds: bool) -> None:
    run = results(stdio_1__ours_2025={"p50_us": ours}, stdio_1__floor={"p50_us": 100})
    assert row("stdio, p50, 2025: times as long as floor").holds(run) is holds


@pytest.mark.parametrize(("ours", "holds"), [(650.0, True), (649.0, False)])
def test_a_throughput_must_be_near_the_floor(ours: float, *, holds: bool) -> None:
    run = results(stdio_64__ours_2025={"rate": ours}, stdio_64__floor={"rate": 1000})
    assert row("stdio, 64 in flight, 2025: of what floor does").holds(run) is holds


@pytest.mark.parametrize(("bridged", "holds"), [(200.0, True), (201.0, False)])
def test_a_call_on_asyncio_must_take_at_most_twice_as_long_as_on_trio(bridged: float, *, holds: bool) -> None:
    run = results(stdio_1__ours_asyncio_2026={"p50_us": bridged}, stdio_1__ours_2026={"p50_us": 100})
    assert row("Client of `trio_mcp.asyncio`, p50, 2026: times as long as on Trio").holds(run) is holds


@pytest.mark.parametrize(("bridged", "holds"), [(20_000.0, True), (19_900.0, False)])
def test_clients_on_asyncio_must_make_at_least_half_as_many_calls_as_on_trio(bridged: float, *, holds: bool) -> None:
    run = results(stdio_64__ours_asyncio_2025={"rate": bridged}, stdio_64__ours_2025={"rate": 40_000})
    name = "Client of `trio_mcp.asyncio`, 64 in flight, 2025: of what one on Trio does"
    assert row(name).holds(run) is holds


@pytest.mark.parametrize(("bridged", "holds"), [(400.0, True), (401.0, False)])
def test_a_call_on_asyncio_must_beat_the_official_sdk_by_the_limit(bridged: float, *, holds: bool) -> None:
    run = results(stdio_1__ours_asyncio_2025={"p50_us": bridged}, stdio_1__official_2025={"p50_us": 1000})
    assert row("Client of `trio_mcp.asyncio`, p50, 2025: times faster than official").holds(run) is holds


@pytest.mark.parametrize(("bridged", "holds"), [(2500.0, True), (2400.0, False)])
def test_calls_in_flight_on_asyncio_must_beat_the_official_sdk_by_the_limit(bridged: float, *, holds: bool) -> None:
    run = results(stdio_64__ours_asyncio_2026={"rate": bridged}, stdio_64__official_2026={"rate": 1000})
    assert row("Client of `trio_mcp.asyncio`, 64 in flight, 2026: times faster than official").holds(run) is holds


@pytest.mark.parametrize(("late", "holds"), [(0.0, True), (1.0, False)])
def test_an_amount_must_not_exceed_the_limit(late: float, *, holds: bool) -> None:
    run = results(storm__ours_2025={"per_update_us": 9, "late_updates": late})
    assert row("Progress after the result, 2025").holds(run) is holds


@pytest.mark.parametrize(("rate", "holds"), [(0.95, True), (0.94, False)])
def test_a_process_with_a_backend_must_answer_about_as_many_calls(rate: float, *, holds: bool) -> None:
    run = results(service_64__ours_nodes_2026={"rate_times": rate})
    assert row("Process with Redis, 64 in flight: of what one without does").holds(run) is holds


@pytest.mark.parametrize(("times", "holds"), [(2.5, True), (2.6, False)])
def test_a_forwarded_call_must_not_take_much_longer(times: float, *, holds: bool) -> None:
    run = results(service_forwarded_1__ours_nodes_2025={"p50_times": times})
    assert row("Forwarded call, p50: times as long as a direct one").holds(run) is holds


@pytest.mark.parametrize(("delay", "holds"), [(5.0, True), (5.1, False)])
def test_a_change_must_reach_other_processes_soon(delay: float, *, holds: bool) -> None:
    run = results(service_change__ours_nodes_2026={"p50_ms": delay})
    assert row("Change to a listener of another process, Redis").holds(run) is holds


@pytest.mark.parametrize(("rate", "holds"), [(1.0, True), (0.99, False)])
def test_four_processes_must_answer_no_fewer_calls_than_one(rate: float, *, holds: bool) -> None:
    run = results(service_four_64__ours_nodes_2026={"rate_times": rate})
    assert row("Four processes, 64 in flight: of what one does").holds(run) is holds


def test_a_row_without_a_figure_or_a_limit_has_no_verdict() -> None:
    run = results(memory_1__ours_2026={"p50_us": 100}, memory_1__official_2026={"p50_us": 150})
    assert row("In memory, p50, 2025: times faster than official").holds(run) is None
    assert row("In memory, p50, 2026: times faster than official").holds(run) is None
    lines = markdown(run).splitlines()
    assert "| In memory, p50, 2025: times faster than official | ≥ 3 x | not measured |  |" in lines
    assert "| In memory, p50, 2026: times faster than official | none | 1.5 x |  |" in lines


def test_the_table_shows_which_rows_hold() -> None:
    run = results(clients__ours_2025={"open_ms": 0.75, "client_kb": 61.26, "server_kb": 40})
    lines = markdown(run).splitlines()
    assert "| HTTP client: open, 2025 | ≤ 1 ms | 0.75 ms | yes |" in lines
    assert "| HTTP client: memory, 2025 | ≤ 60 KB | 61.26 KB | **no** |" in lines
    assert "| Idle HTTP session, server, 2025 | ≤ 40 KB | 40 KB | yes |" in lines
