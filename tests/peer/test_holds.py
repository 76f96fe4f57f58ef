"""Resources that a handler holds: released while a question is open, and taken again before it continues."""

from __future__ import annotations

import math

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp.peer import FairLimiter, Hold, Holds


@define(eq=False)
class Bench:
    """One handler that holds one turn of a number."""

    limiter: FairLimiter = field(factory=lambda: FairLimiter(1))
    holds: Holds = field(factory=Holds)
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    hold: Hold = field(init=False)

    def __attrs_post_init__(self) -> None:
        assert self.limiter.take()
        self.hold = Hold(self.take, self.limiter.release)
        self.holds.add(self.hold)

    async def take(self) -> None:
        await self.limiter.acquire("us")

    def ask(self) -> None:
        self.holds.give_back(self.scope)

    async def go_on(self) -> None:
        self.holds.start_clock(self.scope)
        await self.take_again()

    async def take_again(self) -> None:
        await self.holds.take_again(self.scope)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_held_resources_are_released_while_a_question_is_open_and_taken_again(bench: Bench) -> None:
    bench.ask()
    assert bench.limiter.taken == 0

    await bench.go_on()
    assert bench.limiter.taken == 1
    bench.holds.drop(bench.hold)
    assert bench.limiter.taken == 0


async def test_going_on_waits_for_those_who_came_meanwhile(bench: Bench, nursery: trio.Nursery) -> None:
    bench.ask()
    assert bench.limiter.take()  # somebody else
    nursery.start_soon(bench.go_on)
    await wait_all_tasks_blocked()
    assert bench.limiter.waiting == 1

    bench.limiter.release()
    await wait_all_tasks_blocked()
    assert (bench.limiter.taken, bench.limiter.waiting) == (1, 0)
    bench.holds.drop(bench.hold)
    assert bench.limiter.taken == 0


async def test_of_several_tasks_that_go_on_one_takes(bench: Bench) -> None:
    bench.ask()
    bench.holds.start_clock(bench.scope)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(bench.take_again)

    assert bench.limiter.taken == 1


async def test_while_another_task_asks_nothing_is_taken(bench: Bench) -> None:
    bench.ask()
    bench.ask()
    await bench.go_on()
    assert bench.limiter.taken == 0

    await bench.go_on()
    assert bench.limiter.taken == 1


async def test_a_resource_that_arrives_after_another_task_asked_is_released_again(
    bench: Bench, nursery: trio.Nursery
) -> None:
    bench.ask()
    assert bench.limiter.take()  # somebody else
    nursery.start_soon(bench.go_on)
    await wait_all_tasks_blocked()
    bench.ask()
    bench.limiter.release()
    await wait_all_tasks_blocked()

    assert (bench.limiter.taken, bench.limiter.waiting) == (0, 0)
    await bench.go_on()
    assert bench.limiter.taken == 1


async def test_if_cancelled_while_it_waits_nothing_is_held(bench: Bench, autojump_clock: MockClock) -> None:
    bench.ask()
    assert bench.limiter.take()  # somebody else
    with trio.move_on_after(1):
        await bench.go_on()
    bench.holds.drop(bench.hold)

    assert (bench.limiter.taken, bench.limiter.waiting) == (1, 0)


async def test_what_was_dropped_meanwhile_is_not_kept(bench: Bench, nursery: trio.Nursery) -> None:
    bench.ask()
    assert bench.limiter.take()  # somebody else
    nursery.start_soon(bench.go_on)
    await wait_all_tasks_blocked()
    bench.holds.drop(bench.hold)
    bench.limiter.release()
    await wait_all_tasks_blocked()
    assert bench.limiter.taken == 0

    await bench.hold.take_again()
    assert bench.limiter.taken == 0


async def test_giving_back_twice_gives_back_once(bench: Bench) -> None:
    bench.hold.give_back()
    bench.hold.give_back()

    assert bench.limiter.taken == 0


async def test_the_clock_is_stopped_while_a_question_is_open(bench: Bench, autojump_clock: MockClock) -> None:
    bench.scope.deadline = trio.current_time() + 30
    await trio.sleep(10)
    bench.ask()
    assert bench.scope.deadline == math.inf
    await trio.sleep(500)
    bench.ask()
    await trio.sleep(500)
    await bench.go_on()
    assert bench.scope.deadline == math.inf
    await bench.go_on()

    assert bench.scope.deadline == trio.current_time() + 20


async def test_the_clock_is_stopped_while_the_run_waits_for_its_resources(
    bench: Bench, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    bench.scope.deadline = trio.current_time() + 30
    bench.ask()
    assert bench.limiter.take()  # somebody else
    nursery.start_soon(bench.go_on)
    await trio.sleep(500)
    assert bench.scope.deadline == math.inf

    bench.limiter.release()
    await wait_all_tasks_blocked()
    assert bench.scope.deadline == trio.current_time() + 30


async def test_time_can_be_shortened_whether_the_clock_stands_or_runs(bench: Bench, autojump_clock: MockClock) -> None:
    bench.scope.deadline = trio.current_time() + 30
    bench.holds.shorten(bench.scope, 50)
    assert bench.scope.deadline == trio.current_time() + 30
    bench.ask()
    bench.holds.shorten(bench.scope, 5)
    assert bench.scope.deadline == math.inf
    await trio.sleep(100)
    await bench.go_on()
    assert bench.scope.deadline == trio.current_time() + 5

    bench.holds.shorten(bench.scope, 2)
    assert bench.scope.deadline == trio.current_time() + 2


async def test_a_run_without_resources_takes_none(bench: Bench) -> None:
    holds = Holds()
    holds.give_back(bench.scope)
    holds.start_clock(bench.scope)
    await holds.take_again(bench.scope)

    assert bench.scope.deadline == math.inf
