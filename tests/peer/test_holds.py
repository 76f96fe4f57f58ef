"""Resources that a handler holds: released while a question is open, and taken again before it continues."""

from __future__ import annotations

import math
from functools import partial

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp.peer import FairLimiter, Hold, Holds


@define(eq=False)
class Bench:
    """One handler that holds the only place of a limiter."""

    limiter: FairLimiter = field(factory=lambda: FairLimiter(1))
    holds: Holds = field(factory=Holds)
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    hold: Hold = field(init=False)

    def __attrs_post_init__(self) -> None:
        assert self.limiter.take("us")
        self.hold = Hold(self.take, partial(self.limiter.release, "us"))
        self.holds.add(self.hold)

    async def take(self) -> None:
        await self.limiter.acquire("us")

    def ask(self) -> None:
        self.holds.give_back(self.scope)

    async def continue_(self) -> None:
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

    await bench.continue_()
    assert bench.limiter.taken == 1
    bench.holds.drop(bench.hold)
    assert bench.limiter.taken == 0


async def test_a_handler_that_continues_waits_for_a_place_behind_others(bench: Bench, nursery: trio.Nursery) -> None:
    bench.ask()
    assert bench.limiter.take("others")  # another handler
    nursery.start_soon(bench.continue_)
    await wait_all_tasks_blocked()
    assert bench.limiter.waiting == 1

    bench.limiter.release("others")
    await wait_all_tasks_blocked()
    assert (bench.limiter.taken, bench.limiter.waiting) == (1, 0)
    bench.holds.drop(bench.hold)
    assert bench.limiter.taken == 0


async def test_only_one_of_several_tasks_that_continue_takes_the_place(bench: Bench) -> None:
    bench.ask()
    bench.holds.start_clock(bench.scope)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(bench.take_again)

    assert bench.limiter.taken == 1


async def test_no_place_is_taken_while_another_task_has_an_open_question(bench: Bench) -> None:
    bench.ask()
    bench.ask()
    await bench.continue_()
    assert bench.limiter.taken == 0

    await bench.continue_()
    assert bench.limiter.taken == 1


async def test_a_resource_that_arrives_after_another_task_asked_is_released_again(
    bench: Bench, nursery: trio.Nursery
) -> None:
    bench.ask()
    assert bench.limiter.take("others")  # another handler
    nursery.start_soon(bench.continue_)
    await wait_all_tasks_blocked()
    bench.ask()
    bench.limiter.release("others")
    await wait_all_tasks_blocked()

    assert (bench.limiter.taken, bench.limiter.waiting) == (0, 0)
    await bench.continue_()
    assert bench.limiter.taken == 1


async def test_a_handler_cancelled_while_it_waits_for_its_resource_holds_nothing(
    bench: Bench, autojump_clock: MockClock
) -> None:
    bench.ask()
    assert bench.limiter.take("others")  # another handler
    with trio.move_on_after(1):
        await bench.continue_()
    bench.holds.drop(bench.hold)

    assert (bench.limiter.taken, bench.limiter.waiting) == (1, 0)


async def test_a_resource_that_was_dropped_during_the_wait_is_released_again(
    bench: Bench, nursery: trio.Nursery
) -> None:
    bench.ask()
    assert bench.limiter.take("others")  # another handler
    nursery.start_soon(bench.continue_)
    await wait_all_tasks_blocked()
    bench.holds.drop(bench.hold)
    bench.limiter.release("others")
    await wait_all_tasks_blocked()
    assert bench.limiter.taken == 0

    await bench.hold.take_again()
    assert bench.limiter.taken == 0


async def test_a_resource_that_is_given_back_twice_is_released_once(bench: Bench) -> None:
    bench.hold.give_back()
    bench.hold.give_back()

    assert bench.limiter.taken == 0


async def test_the_deadline_is_paused_while_a_question_is_open(bench: Bench, autojump_clock: MockClock) -> None:
    bench.scope.deadline = trio.current_time() + 30
    await trio.sleep(10)
    bench.ask()
    assert bench.scope.deadline == math.inf
    await trio.sleep(500)
    bench.ask()
    await trio.sleep(500)
    await bench.continue_()
    assert bench.scope.deadline == math.inf
    await bench.continue_()

    assert bench.scope.deadline == trio.current_time() + 20


async def test_the_deadline_is_paused_while_the_handler_waits_for_its_resources(
    bench: Bench, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    bench.scope.deadline = trio.current_time() + 30
    bench.ask()
    assert bench.limiter.take("others")  # another handler
    nursery.start_soon(bench.continue_)
    await trio.sleep(500)
    assert bench.scope.deadline == math.inf

    bench.limiter.release("others")
    await wait_all_tasks_blocked()
    assert bench.scope.deadline == trio.current_time() + 30


async def test_the_deadline_can_be_shortened_whether_or_not_it_is_paused(
    bench: Bench, autojump_clock: MockClock
) -> None:
    bench.scope.deadline = trio.current_time() + 30
    bench.holds.shorten(bench.scope, 50)
    assert bench.scope.deadline == trio.current_time() + 30
    bench.ask()
    bench.holds.shorten(bench.scope, 5)
    assert bench.scope.deadline == math.inf
    await trio.sleep(100)
    await bench.continue_()
    assert bench.scope.deadline == trio.current_time() + 5

    bench.holds.shorten(bench.scope, 2)
    assert bench.scope.deadline == trio.current_time() + 2


async def test_a_handler_without_resources_takes_none(bench: Bench) -> None:
    holds = Holds()
    holds.give_back(bench.scope)
    holds.start_clock(bench.scope)
    await holds.take_again(bench.scope)

    assert bench.scope.deadline == math.inf
