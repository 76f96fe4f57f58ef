"""Timeouts that are paused while the user answers a question."""

from __future__ import annotations

import math

import trio

from trio_mcp.peer import PausableTimeouts


async def test_a_block_is_cancelled_after_its_seconds(autojump_clock: object) -> None:
    timeouts, began = PausableTimeouts(), trio.current_time()

    with timeouts.within(5) as scope:
        await trio.sleep_forever()

    assert scope.cancelled_caught
    assert trio.current_time() - began == 5


async def test_a_block_that_ends_in_time_is_left_alone(autojump_clock: object) -> None:
    timeouts = PausableTimeouts()

    with timeouts.within(5) as scope:
        await trio.sleep(4)
    with timeouts.paused():
        await trio.sleep(100)

    assert not scope.cancelled_caught
    assert not scope.cancel_called


async def test_paused_time_does_not_count(autojump_clock: object) -> None:
    timeouts, began = PausableTimeouts(), trio.current_time()

    async def ask() -> None:
        await trio.sleep(3)
        with timeouts.paused():
            await trio.sleep(100)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with timeouts.within(5) as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught
        assert trio.current_time() - began == 105
        assert timeouts.pauses == 1


async def test_a_block_that_starts_during_a_pause_has_all_its_time_afterwards(autojump_clock: object) -> None:
    timeouts, began = PausableTimeouts(), trio.current_time()

    async def wait() -> None:
        with timeouts.within(5):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with timeouts.paused():
            nursery.start_soon(wait)
            await trio.sleep(100)

    assert trio.current_time() - began == 105


async def test_overlapping_pauses_last_until_the_last_one_ends(autojump_clock: object) -> None:
    timeouts, began = PausableTimeouts(), trio.current_time()

    async def ask(delay: float, seconds: float) -> None:
        await trio.sleep(delay)
        with timeouts.paused():
            await trio.sleep(seconds)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, 1, 50)
        nursery.start_soon(ask, 20, 100)
        with timeouts.within(5):
            await trio.sleep_forever()

    assert trio.current_time() - began == 124
    assert timeouts.pauses == 1


async def test_an_infinite_timeout_stays_infinite(autojump_clock: object) -> None:
    timeouts = PausableTimeouts()

    with timeouts.within(math.inf) as scope:
        with timeouts.paused():
            await trio.sleep(10)
        await trio.sleep(1000)

    assert scope.deadline == math.inf


async def test_a_cancellation_from_outside_passes_through(autojump_clock: object) -> None:
    timeouts = PausableTimeouts()

    with trio.move_on_after(1) as outside, timeouts.within(5) as inside:
        await trio.sleep_forever()

    assert outside.cancelled_caught
    assert not inside.cancelled_caught
