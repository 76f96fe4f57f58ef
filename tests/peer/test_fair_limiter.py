"""The limiter that gives its places to the waiting group that has the fewest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trio_mcp.peer import FairLimiter, HandlerSlots


class Order:
    """A recorder of the order in which waiters get their places."""

    def __init__(self, limiter: FairLimiter) -> None:
        self.limiter = limiter
        self.begun: list[str] = []
        self.holders: list[str] = []
        """The group of each place, in the order in which they were taken."""

    def take(self, group: str = "x") -> bool:
        """Take a place if *group* may have one now."""
        taken = self.limiter.take(group)
        if taken:
            self.holders.append(group)
        return taken

    def release(self) -> None:
        """Release the place that was taken first."""
        self.limiter.release(self.holders.pop(0))

    def wait(self, name: str) -> Callable[[], object]:
        """Wait as a member of the group that the name begins with, without a task."""

        def begin() -> None:
            self.begun.append(name)
            self.holders.append(name[0])

        self.limiter.wait(name[0], begin)
        return begin

    async def work(self, name: str) -> None:
        """Wait as a member of the group that the name begins with, in a task."""
        await self.limiter.acquire(name[0])
        self.begun.append(name)
        self.holders.append(name[0])


def figures(limiter: FairLimiter) -> tuple[int, int, int]:
    return limiter.taken, limiter.waiting, limiter.groups


def test_places_can_be_taken_up_to_the_capacity() -> None:
    limiter = FairLimiter(2)

    assert [limiter.take("a"), limiter.take("b"), limiter.has_place("a"), limiter.take("a")] == [
        True,
        True,
        False,
        False,
    ]
    limiter.release("a")
    assert (limiter.has_place("b"), limiter.take("b")) == (True, True)


def test_groups_get_places_in_turn_regardless_of_how_many_waiters_each_has() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    order.take()
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        order.wait(name)
    assert figures(limiter) == (1, 7, 3)

    for _ in range(3):
        order.release()
    order.wait("c2")  # in time for the next round, but behind the others
    for _ in range(5):
        order.release()

    assert order.begun == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "a4"]
    assert figures(limiter) == (1, 0, 0)
    order.release()
    assert figures(limiter) == (0, 0, 0)


def test_a_released_place_goes_to_a_waiter_at_once_and_not_to_a_newcomer() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    order.take()
    order.wait("a1")

    order.release()

    assert order.begun == ["a1"]
    assert not order.take()


def test_a_forgotten_waiter_gets_no_place_and_leaves_nothing() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    order.take()
    first, second, _ = (order.wait(name) for name in ("a1", "a2", "b1"))

    limiter.forget("a", first)
    limiter.forget("a", first)  # harmless, like the next two
    limiter.forget("b", first)
    limiter.forget("unknown", first)
    assert figures(limiter) == (1, 2, 2)
    limiter.forget("a", second)
    assert figures(limiter) == (1, 1, 1)

    order.release()
    order.release()
    assert order.begun == ["b1"]
    assert figures(limiter) == (0, 0, 0)


def test_a_waiter_that_waits_twice_is_queued_once() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    order.take()
    begin = order.wait("a1")
    limiter.wait("a", begin)
    assert figures(limiter) == (1, 1, 1)

    order.release()
    order.release()

    assert order.begun == ["a1"]
    assert figures(limiter) == (0, 0, 0)


def test_a_waiter_that_got_a_place_may_wait_for_another_at_once() -> None:
    limiter = FairLimiter(1)
    begun: list[str] = []

    def begin() -> None:
        begun.append("a")
        if len(begun) < 4:
            limiter.wait("a", begin)

    limiter.take("x")
    limiter.wait("a", begin)
    limiter.wait("b", lambda: begun.append("b"))
    for holder in "xaba":
        limiter.release(holder)

    assert begun == ["a", "b", "a", "a"]


async def test_tasks_wait_for_places(nursery: trio.Nursery) -> None:
    limiter = FairLimiter(2)
    order = Order(limiter)
    for name in ("a1", "a2", "a3", "a4", "b1"):
        nursery.start_soon(order.work, name)
        await wait_all_tasks_blocked()
    assert order.begun == ["a1", "a2"]
    assert figures(limiter) == (2, 3, 2)

    for _ in range(3):
        order.release()
        await wait_all_tasks_blocked()

    assert order.begun == ["a1", "a2", "b1", "a3", "a4"]
    assert figures(limiter) == (2, 0, 0)


async def test_a_task_cancelled_while_it_waits_has_no_place_and_leaves_nothing(nursery: trio.Nursery) -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    order.take()

    async def cancelled(scope: trio.CancelScope) -> None:
        with scope:
            await order.work("a1")

    scope = trio.CancelScope()
    nursery.start_soon(cancelled, scope)
    await wait_all_tasks_blocked()
    nursery.start_soon(order.work, "b1")
    await wait_all_tasks_blocked()
    assert figures(limiter) == (1, 2, 2)
    scope.cancel()
    assert figures(limiter) == (1, 1, 1)

    order.release()
    await wait_all_tasks_blocked()
    assert order.begun == ["b1"]
    order.release()
    assert figures(limiter) == (0, 0, 0)


async def test_a_task_cancelled_after_it_got_a_place_keeps_the_place(nursery: trio.Nursery) -> None:
    limiter, scope, outcome = FairLimiter(1), trio.CancelScope(), list[str]()
    limiter.take("x")

    async def work() -> None:
        with scope:
            await limiter.acquire("a")
            outcome.append("has it")

    nursery.start_soon(work)
    await wait_all_tasks_blocked()
    limiter.release("x")
    scope.cancel()
    await wait_all_tasks_blocked()

    assert outcome == ["has it"]
    assert figures(limiter) == (1, 0, 0)


async def test_a_task_that_is_cancelled_already_takes_no_place() -> None:
    limiter = FairLimiter(1)

    with trio.CancelScope() as scope:
        scope.cancel()
        await limiter.acquire("a")

    assert scope.cancelled_caught
    assert figures(limiter) == (0, 0, 0)


STEPS = st.one_of(
    st.tuples(st.just("come"), st.sampled_from("abcd")),
    st.tuples(st.just("end"), st.just("")),
    st.tuples(st.just("leave"), st.integers(0, 30).map(str)),
)


@settings(max_examples=200)
@given(st.integers(1, 9), st.booleans(), st.lists(STEPS, max_size=80))
def test_a_free_place_goes_to_the_waiting_group_that_has_the_fewest(
    capacity: int, leaves_places: bool, steps: list[tuple[str, str]]
) -> None:
    limiter = FairLimiter(capacity, leaves_places=leaves_places)
    order = Order(limiter)
    waiting: dict[str, Callable[[], object]] = {}

    def may_have_one(group: str) -> bool:
        free, count = capacity - len(order.holders), order.holders.count(group)
        return free > 0 and (not leaves_places or count == 0 or count + 1 <= 3 * (free - 1))

    for number, (step, what) in enumerate(steps):
        begun = len(order.begun)
        if step == "come":
            possible = may_have_one(what)
            assert order.take(what) is possible
            if not possible:
                name = f"{what}{number}"
                waiting[name] = order.wait(name)
        elif step == "end" and order.holders:
            counts = {name[0]: order.holders[1:].count(name[0]) for name in waiting}
            order.release()
            for name in order.begun[begun:]:
                del waiting[name]
                assert counts[name[0]] == min(counts.values())
                assert not [other for other in waiting if other[0] == name[0] and int(other[1:]) < int(name[1:])]
                counts = {other[0]: order.holders.count(other[0]) for other in waiting}
        elif step == "leave" and waiting:
            name = list(waiting)[int(what) % len(waiting)]
            limiter.forget(name[0], waiting.pop(name))
        assert limiter.taken == len(order.holders) <= capacity
        assert limiter.waiting == len(waiting)
        assert limiter.groups == len({name[0] for name in waiting})
        assert not any(may_have_one(name[0]) for name in waiting)


def test_one_group_leaves_a_quarter_of_the_places_to_others() -> None:
    limiter = FairLimiter(50, leaves_places=True)
    taken = {group: sum(limiter.take(group) for _ in range(50)) for group in ("a", "b", "c", "d")}

    assert taken == {"a": 37, "b": 9, "c": 3, "d": 1}


def test_a_group_with_all_its_places_waits_until_enough_are_free() -> None:
    limiter = FairLimiter(4, leaves_places=True)
    order = Order(limiter)
    assert [order.take("a") for _ in range(4)] == [True, True, True, False]
    order.wait("a4")
    assert order.take("b")

    order.release()
    assert order.begun == []
    order.release()
    order.release()

    assert order.begun == ["a4"]


@pytest.mark.parametrize(("is_alone", "most"), [(True, 8), (False, 6)])
def test_a_connection_without_an_address_may_take_all_places(is_alone: bool, most: int) -> None:
    slots, limiter = HandlerSlots(9, 9, is_alone=is_alone), FairLimiter(8, leaves_places=True)

    assert sum(limiter.take(slots) for _ in range(9)) == most
