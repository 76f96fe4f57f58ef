"""Large results: which ones are large, and the turns in which they are written."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from trio_mcp import McpError
from trio_mcp.peer import FairLimiter, LargeResults, is_large

HALF = "x" * 2**19


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": HALF}], "structuredContent": {"result": HALF}},
        {"contents": [{"uri": "a:b", "blob": HALF}, {"uri": "a:c", "text": HALF}]},
        {"structuredContent": {"result": [HALF, HALF]}},
    ],
)
def test_a_result_with_a_mebibyte_of_text_is_large(result: dict[str, Any]) -> None:
    assert is_large(result)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": [{"type": "text", "text": HALF}], "structuredContent": {"result": 1, "more": [None, True, 0.5]}},
        {"content": [{"text": ""}] * 32 + [{"text": HALF}, {"text": HALF}]},  # only the first items are looked at
        {"a": {"b": {"c": {"d": 2 * HALF}}}},
        McpError(1, 2 * HALF),
    ],
)
def test_other_results_are_not_large(result: object) -> None:
    assert not is_large(result)


@define(eq=False)
class Writers:
    """Tasks that write large results, each of which takes a while on a clock of their own."""

    seconds: float
    now: float = 0.0
    order: list[str] = field(factory=list[str])
    turns: LargeResults = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.turns = LargeResults(FairLimiter(1), lambda: self.now)

    async def write(self, name: str) -> None:
        """Write a result of the sender that the name begins with."""
        async with self.turns.turn(name[0]):
            self.order.append(f"{name} at {trio.current_time():g}")
            self.now += self.seconds

    async def write_all(self, *names: str) -> None:
        """Write results in tasks that begin in this order."""
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(self.write, name)
                await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def clock(autojump_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """A clock that begins at 0."""
    return autojump_clock


async def test_senders_write_large_results_in_turn_with_a_pause_of_three_times_the_time_that_each_took(
    clock: trio.testing.MockClock,
) -> None:
    writers = Writers(seconds=0.5)
    await writers.write_all("a1", "a2", "a3", "b1")

    assert writers.order == ["a1 at 0", "a2 at 1.5", "b1 at 3", "a3 at 4.5"]


async def test_there_is_no_pause_after_a_result_that_took_no_time(clock: trio.testing.MockClock) -> None:
    writers = Writers(seconds=0.004)
    await writers.write_all("a1", "a2", "b1")

    assert writers.order == ["a1 at 0", "a2 at 0", "b1 at 0"]


async def test_a_cancelled_writer_leaves_its_turn_to_the_next(clock: trio.testing.MockClock) -> None:
    writers = Writers(seconds=0.5)
    await writers.write("a1")
    with trio.move_on_after(1):
        await writers.write("a2")
    await writers.write("b1")

    assert writers.order == ["a1 at 0", "b1 at 1.5"]
