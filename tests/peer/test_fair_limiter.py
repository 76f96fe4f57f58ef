"""The limiter that gives its places to the waiting groups in turn."""

from __future__ import annotations

from collections.abc import Callable

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trio_mcp.peer import FairLimiter


class Order:
    """A recorder of the order in which waiters get their places."""

    def __init__(self, limiter: FairLimiter) -> None:
        self.limiter = limiter
        self.begun: list[str] = []

    def wait(self, name: str) -> Callable[[], object]:
        """Wait as a member of the group that the name begins with, without a task."""

        def begin() -> None:
            self.begun.append(name)

        self.limiter.wait(name[0], begin)
        return begin

    async def work(self, name: str) -> None:
        """Wait as a member of the group that the name begins with, in a task."""
        await self.limiter.acquire(name[0])
        self.begun.append(name)


def figures(limiter: FairLimiter) -> tuple[int, int, int]:
    return limiter.taken, limiter.waiting, limiter.groups


def test_places_can_be_taken_up_to_the_capacity() -> None:
    limiter = FairLimiter(2)

    assert [limiter.take(), limiter.free, limiter.take(), limiter.free, limiter.take()] == [
        True,
        True,
        True,
        False,
        False,
    ]
    limiter.release()
    assert (limiter.free, limiter.take()) == (True, True)


def test_groups_get_places_in_turn_regardless_of_how_many_waiters_each_has() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    limiter.take()
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        order.wait(name)
    assert figures(limiter) == (1, 7, 3)

    for _ in range(3):
        limiter.release()
    order.wait("c2")  # in time for the next round, but behind the others
    for _ in range(5):
        limiter.release()

    assert order.begun == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "a4"]
    assert figures(limiter) == (1, 0, 0)
    limiter.release()
    assert figures(limiter) == (0, 0, 0)


def test_a_released_place_goes_to_a_waiter_at_once_and_not_to_a_newcomer() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    limiter.take()
    order.wait("a1")

    limiter.release()

    assert order.begun == ["a1"]
    assert not limiter.take()


def test_a_forgotten_waiter_gets_no_place_and_leaves_nothing() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    limiter.take()
    first, second, _ = (order.wait(name) for name in ("a1", "a2", "b1"))

    limiter.forget("a", first)
    limiter.forget("a", first)  # harmless, like the next two
    limiter.forget("b", first)
    limiter.forget("unknown", first)
    assert figures(limiter) == (1, 2, 2)
    limiter.forget("a", second)
    assert figures(limiter) == (1, 1, 1)

    limiter.release()
    limiter.release()
    assert order.begun == ["b1"]
    assert figures(limiter) == (0, 0, 0)


def test_a_waiter_that_waits_twice_is_queued_once() -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    limiter.take()
    begin = order.wait("a1")
    limiter.wait("a", begin)
    assert figures(limiter) == (1, 1, 1)

    limiter.release()
    limiter.release()

    assert order.begun == ["a1"]
    assert figures(limiter) == (0, 0, 0)


def test_a_waiter_that_got_a_place_may_wait_for_another_at_once() -> None:
    limiter = FairLimiter(1)
    begun: list[str] = []

    def begin() -> None:
        begun.append("a")
        if len(begun) < 4:
            limiter.wait("a", begin)

    limiter.take()
    limiter.wait("a", begin)
    limiter.wait("b", lambda: begun.append("b"))
    for _ in range(4):
        limiter.release()

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
        limiter.release()
        await wait_all_tasks_blocked()

    assert order.begun == ["a1", "a2", "a3", "b1", "a4"]
    assert figures(limiter) == (2, 0, 0)


async def test_a_task_cancelled_while_it_waits_has_no_place_and_leaves_nothing(nursery: trio.Nursery) -> None:
    limiter = FairLimiter(1)
    order = Order(limiter)
    limiter.take()

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

    limiter.release()
    await wait_all_tasks_blocked()
    assert order.begun == ["b1"]
    limiter.release()
    assert figures(limiter) == (0, 0, 0)


async def test_a_task_cancelled_after_it_got_a_place_keeps_the_place(nursery: trio.Nursery) -> None:
    limiter, scope, outcome = FairLimiter(1), trio.CancelScope(), list[str]()
    limiter.take()

    async def work() -> None:
        with scope:
            await limiter.acquire("a")
            outcome.append("has it")

    nursery.start_soon(work)
    await wait_all_tasks_blocked()
    limiter.release()
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
@given(st.integers(1, 4), st.lists(STEPS, max_size=80))
def test_the_limiter_is_fair_and_within_its_capacity_in_any_order_of_operations(
    capacity: int, steps: list[tuple[str, str]]
) -> None:
    limiter = FairLimiter(capacity)
    order, working, begun = Order(limiter), 0, 0
    waiting: dict[str, Callable[[], object]] = {}
    passed: dict[str, list[str]] = {}  # by waiter: the groups that got a place meanwhile

    for number, (step, what) in enumerate(steps):
        if step == "come":
            name = f"{what}{number}"
            if limiter.take():
                assert not waiting
                working += 1
            else:
                waiting[name], passed[name] = order.wait(name), []
        elif step == "end" and working:
            limiter.release()
            if waiting:
                (name,) = order.begun[begun:]
                begun += 1
                del waiting[name]
                for other in waiting:
                    passed[other].append(name[0])
                ahead = [other for other in waiting if other[0] == name[0] and int(other[1:]) < int(name[1:])]
                assert not ahead  # first come, first served
            else:
                working -= 1
        elif step == "leave" and waiting:
            name = list(waiting)[int(what) % len(waiting)]
            limiter.forget(name[0], waiting.pop(name))
        assert limiter.taken == working <= capacity
        assert limiter.waiting == len(waiting)
        assert limiter.groups == len({name[0] for name in waiting})

    for name, groups in passed.items():
        of_its_group = groups.count(name[0])
        assert all(groups.count(group) <= of_its_group + 1 for group in set(groups) - {name[0]})
