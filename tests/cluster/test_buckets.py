"""Buckets that processes share: together they take what one process could, and the backend is asked seldom."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.cluster.interrupted_backend import MESSAGE, InterruptedShared
from trio_mcp import MemoryShared, SharedUnavailable, SqliteShared
from trio_mcp.abc import Shared
from trio_mcp.cluster import _buckets
from trio_mcp.cluster._buckets import SharedBuckets

NAME = "service/bucket/test"
SLOW = 1e-6
"""A number of tokens per second that is as good as none."""


@asynccontextmanager
async def processes(shared: Shared, count: int = 1) -> AsyncGenerator[list[SharedBuckets]]:
    """Yield the buckets of as many processes, whose clock is that of the test."""
    async with AsyncExitStack() as stack:
        states = [await stack.enter_async_context(shared.open()) for _ in range(count)]
        yield [SharedBuckets(state, trio.current_time) for state in states]


async def drain(buckets: SharedBuckets, per_second: float = SLOW, burst: int = 100) -> int:
    """Take tokens until there are none; return their number."""
    taken = 0
    while await buckets.take(NAME, per_second, burst) == 0:
        taken += 1
    return taken


def excess(times: list[float], per_second: float, burst: int) -> float:
    """Return the greatest number of tokens that were taken in any time beyond ``burst + per_second * t``."""
    times = sorted(times)
    return max(
        (last - first + 1) - burst - per_second * (times[last] - times[first])
        for first in range(len(times))
        for last in range(first, len(times))
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("per_second", "burst"), [(5.0, 20), (40.0, 100), (0.5, 1), (300.0, 30)])
async def test_processes_together_never_take_more_than_one_could(
    seed: int, per_second: float, burst: int, autojump_clock: object
) -> None:
    times: list[float] = []
    rng = random.Random(seed)
    end = trio.current_time() + 300 / per_second

    async def caller(buckets: SharedBuckets) -> None:
        while trio.current_time() < end:
            for _ in range(rng.randrange(1, 60)):
                if await buckets.take(NAME, per_second, burst) == 0:
                    times.append(trio.current_time())
                await trio.sleep(rng.choice([0, 0, 0.001, 0.05 / per_second]))
            await trio.sleep(rng.choice([0.1, 1, 3, 7, 30]) * rng.random())

    async with processes(MemoryShared(), 3) as services, trio.open_nursery() as nursery:
        for buckets in services * 3:
            nursery.start_soon(caller, buckets)

    assert len(times) > burst
    assert excess(times, per_second, burst) <= 1e-6


async def test_processes_that_ask_all_the_time_get_nearly_all_tokens(autojump_clock: object) -> None:
    per_second, burst, taken = 50.0, 40, 0

    async def caller(buckets: SharedBuckets) -> None:
        nonlocal taken
        while trio.current_time() < end:
            seconds = await buckets.take(NAME, per_second, burst)
            taken += seconds == 0
            await trio.sleep(0.01)

    async with processes(MemoryShared(), 3) as services:
        end = trio.current_time() + 20
        async with trio.open_nursery() as nursery:
            for buckets in services * 2:
                nursery.start_soon(caller, buckets)

    assert 0.8 * (burst + per_second * 20) < taken <= burst + per_second * 20 + 1e-6


async def test_the_seconds_until_there_is_a_token_are_told(autojump_clock: object) -> None:
    async with processes(MemoryShared(), 2) as (one, other):
        assert [await one.take(NAME, 0.5, 2) for _ in range(2)] == [0, 0]
        seconds = await other.take(NAME, 0.5, 2)
        assert seconds == pytest.approx(2.0)
        await trio.sleep(seconds)

        assert await other.take(NAME, 0.5, 2) == 0
        assert await one.take(NAME, 0.5, 2) == pytest.approx(2.0)


async def test_tokens_are_taken_in_batches_while_there_are_many_and_one_by_one_when_there_are_few(
    autojump_clock: object,
) -> None:
    line, calls = InterruptedShared(), list[str]()

    async def count(method: str, name: str) -> None:
        calls.append(method)

    line.before = count
    async with processes(line) as (buckets,):
        for _ in range(800):
            assert await buckets.take(NAME, SLOW, 1000) == 0
        assert len(calls) < 30
        calls.clear()

        assert await drain(buckets, SLOW, 1000) == 200
        assert 7 < len(calls) < 30
        calls.clear()

        assert await buckets.take(NAME, SLOW, 1000) > 0
        assert calls == []  # a refusal costs nothing


async def test_tasks_that_ask_at_once_take_one_batch(autojump_clock: object) -> None:
    line, calls = InterruptedShared(), list[str]()

    async def count(method: str, name: str) -> None:
        calls.append(method)
        await trio.sleep(0.1)

    line.before = count
    async with processes(line) as (buckets,), trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(buckets.take, NAME, 1.0, 1000)

    assert calls == ["swap"]


async def test_a_reserve_goes_back_unless_the_bucket_has_forgotten_it(autojump_clock: object) -> None:
    async with processes(MemoryShared(), 2) as (one, other):
        for _ in range(20):
            await one.take(NAME, SLOW, 100)
        await trio.sleep(3)
        assert await one.take(NAME, SLOW, 100) == 0
        assert await drain(one) + 21 == 100

        assert await drain(other) == 0


async def test_a_reserve_that_the_bucket_has_forgotten_is_lost(autojump_clock: object) -> None:
    async with processes(MemoryShared(), 2) as (one, other):
        for _ in range(20):
            await one.take(NAME, SLOW, 100)
        await trio.sleep(5)
        left = await drain(other)

        assert 60 < left < 80
        assert await one.take(NAME, SLOW, 100) > 0


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"at":0,"left":"x","reserves":{}}',
        b'{"at":0,"left":1,"reserves":[]}',
        b'{"at":0,"left":1,"reserves":{"a":[1]}}',
    ],
)
async def test_a_value_of_another_program_is_replaced_by_a_full_bucket(value: bytes, autojump_clock: object) -> None:
    shared = MemoryShared()
    async with shared.open() as state, processes(shared) as (buckets,):
        assert await state.swap(NAME, None, value)

        assert await drain(buckets, SLOW, 7) == 7


async def test_a_clock_that_is_ahead_delays_the_others_until_the_bucket_would_be_full(autojump_clock: object) -> None:
    async with MemoryShared().open() as state:
        ahead = SharedBuckets(state, lambda: trio.current_time() + 3600)
        right = SharedBuckets(state, trio.current_time)
        assert [await ahead.take(NAME, 1.0, 10) for _ in range(10)] == [0] * 10
        assert await right.take(NAME, 1.0, 10) > 0
        await trio.sleep(5)
        assert await right.take(NAME, 1.0, 10) > 0
        await trio.sleep(10)

        assert await drain(right, 1.0, 10) == 10


async def test_a_backend_that_cannot_be_reached_is_left_alone_for_a_while_and_named_once_in_the_log(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.cluster")
    line, calls = InterruptedShared(), list[str]()

    async def count(method: str, name: str) -> None:
        calls.append(method)

    line.before = count
    async with processes(line) as (buckets,):
        line.is_down = True
        for _ in range(3):
            with pytest.raises(SharedUnavailable, match=MESSAGE):
                await buckets.take(NAME, SLOW, 5)
        assert calls == ["swap"]
        await trio.sleep(5)
        with pytest.raises(SharedUnavailable, match=MESSAGE):
            await buckets.take(NAME, SLOW, 5)
        assert calls == ["swap", "swap"]
        await trio.sleep(5)
        line.is_down = False

        assert await drain(buckets, SLOW, 5) == 5
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_buckets_that_were_not_used_for_long_are_forgotten_and_their_tokens_are_not(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr(_buckets, "_MOST_BUCKETS", 2)
    async with processes(MemoryShared()) as (buckets,):
        for _ in range(2):
            for name in "abc":
                assert await buckets.take(name, SLOW, 2) == 0

        assert [await buckets.take(name, SLOW, 2) > 0 for name in "abc"] == [True] * 3


async def test_real_processes_of_one_machine_share_a_bucket(tmp_path: Path) -> None:
    """The processes are threads here, each with a Trio run and a clock of its own."""
    path = tmp_path / "state.db"

    async def run() -> int:
        async with SqliteShared(path).open() as state:
            return await drain(SharedBuckets(state), SLOW, 60)

    taken: list[int] = []

    async def in_thread() -> None:
        taken.append(await trio.to_thread.run_sync(partial(trio.run, run)))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(in_thread)

    assert 45 <= sum(taken) <= 60  # the last reserves of the others may be unused
