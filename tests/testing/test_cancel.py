"""The test tool that cancels a function at every step."""

from __future__ import annotations

import pytest
import trio

from trio_mcp.testing import cancel_everywhere


async def test_each_step_is_cancelled_once_and_then_the_attempt_completes() -> None:
    reached: list[int] = []

    async def attempt() -> None:
        for step in range(4):
            reached.append(step)
            await trio.lowlevel.checkpoint()

    points = await cancel_everywhere(attempt)

    assert points >= 4
    assert reached[-4:] == [0, 1, 2, 3]
    assert reached.count(0) == points + 1


async def test_the_check_runs_after_each_attempt() -> None:
    counts = [0, 0]

    async def attempt() -> None:
        counts[0] += 1
        await trio.lowlevel.checkpoint()

    async def check() -> None:
        await trio.lowlevel.checkpoint()
        counts[1] += 1
        assert counts[0] == counts[1]

    points = await cancel_everywhere(attempt, check)

    assert counts[1] == points + 1


async def test_steps_of_other_tasks_count() -> None:
    async def attempt() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(trio.lowlevel.checkpoint)

    assert await cancel_everywhere(attempt) >= 4


async def test_a_failure_of_the_attempt_is_raised() -> None:
    async def attempt() -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await cancel_everywhere(attempt)


async def test_an_attempt_that_always_has_a_further_step_is_given_up() -> None:
    async def attempt() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(RuntimeError, match="not completed after 5 runs"):
        await cancel_everywhere(attempt, max_points=5)
