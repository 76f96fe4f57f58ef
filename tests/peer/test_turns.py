"""Turns that groups take one after the other."""

from __future__ import annotations

from collections.abc import Callable

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trio_mcp.peer import FairLimiter


class Order:
    """Notes whose turn has come, in the order in which they come."""

    def __init__(self, turns: FairLimiter) -> None:
        self.turns = turns
        self.begun: list[str] = []

    def wait(self, name: str) -> Callable[[], object]:
        """Wait on the account of the group that the name begins with."""

        def begin() -> None:
            self.begun.append(name)

        self.turns.wait(name[0], begin)
        return begin

    async def work(self, name: str) -> None:
        """Likewise, in a task."""
        await self.turns.acquire(name[0])
        self.begun.append(name)


def figures(turns: FairLimiter) -> tuple[int, int, int]:
    return turns.taken, turns.waiting, turns.groups


def test_turns_are_taken_until_there_are_no_more() -> None:
    turns = FairLimiter(2)

    assert [turns.take(), turns.free, turns.take(), turns.free, turns.take()] == [True, True, True, False, False]
    turns.release()
    assert (turns.free, turns.take()) == (True, True)


def test_groups_get_their_turns_one_after_the_other_however_many_of_one_wait() -> None:
    turns = FairLimiter(1)
    order = Order(turns)
    turns.take()
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        order.wait(name)
    assert figures(turns) == (1, 7, 3)

    for _ in range(3):
        turns.release()
    order.wait("c2")  # in time for the next round, but behind the others
    for _ in range(5):
        turns.release()

    assert order.begun == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "a4"]
    assert figures(turns) == (1, 0, 0)
    turns.release()
    assert figures(turns) == (0, 0, 0)


def test_a_turn_that_is_given_back_passes_on_at_once_and_cannot_be_taken_by_a_newcomer() -> None:
    turns = FairLimiter(1)
    order = Order(turns)
    turns.take()
    order.wait("a1")

    turns.release()

    assert order.begun == ["a1"]
    assert not turns.take()


def test_whoever_is_forgotten_gets_no_turn_and_leaves_nothing() -> None:
    turns = FairLimiter(1)
    order = Order(turns)
    turns.take()
    first, second, _ = (order.wait(name) for name in ("a1", "a2", "b1"))

    turns.forget("a", first)
    turns.forget("a", first)  # harmless, like the next two
    turns.forget("b", first)
    turns.forget("nobody", first)
    assert figures(turns) == (1, 2, 2)
    turns.forget("a", second)
    assert figures(turns) == (1, 1, 1)

    turns.release()
    turns.release()
    assert order.begun == ["b1"]
    assert figures(turns) == (0, 0, 0)


def test_waiting_twice_is_waiting_once() -> None:
    turns = FairLimiter(1)
    order = Order(turns)
    turns.take()
    begin = order.wait("a1")
    turns.wait("a", begin)
    assert figures(turns) == (1, 1, 1)

    turns.release()
    turns.release()

    assert order.begun == ["a1"]
    assert figures(turns) == (0, 0, 0)


def test_whose_turn_has_come_may_wait_for_another_one_at_once() -> None:
    turns = FairLimiter(1)
    begun: list[str] = []

    def begin() -> None:
        begun.append("a")
        if len(begun) < 4:
            turns.wait("a", begin)

    turns.take()
    turns.wait("a", begin)
    turns.wait("b", lambda: begun.append("b"))
    for _ in range(4):
        turns.release()

    assert begun == ["a", "b", "a", "a"]


async def test_tasks_wait_for_their_turns(nursery: trio.Nursery) -> None:
    turns = FairLimiter(2)
    order = Order(turns)
    for name in ("a1", "a2", "a3", "a4", "b1"):
        nursery.start_soon(order.work, name)
        await wait_all_tasks_blocked()
    assert order.begun == ["a1", "a2"]
    assert figures(turns) == (2, 3, 2)

    for _ in range(3):
        turns.release()
        await wait_all_tasks_blocked()

    assert order.begun == ["a1", "a2", "a3", "b1", "a4"]
    assert figures(turns) == (2, 0, 0)


async def test_a_task_that_is_cancelled_while_it_waits_has_no_turn_and_leaves_nothing(nursery: trio.Nursery) -> None:
    turns = FairLimiter(1)
    order = Order(turns)
    turns.take()

    async def cancelled(scope: trio.CancelScope) -> None:
        with scope:
            await order.work("a1")

    scope = trio.CancelScope()
    nursery.start_soon(cancelled, scope)
    await wait_all_tasks_blocked()
    nursery.start_soon(order.work, "b1")
    await wait_all_tasks_blocked()
    assert figures(turns) == (1, 2, 2)
    scope.cancel()
    assert figures(turns) == (1, 1, 1)

    turns.release()
    await wait_all_tasks_blocked()
    assert order.begun == ["b1"]
    turns.release()
    assert figures(turns) == (0, 0, 0)


async def test_a_task_that_is_cancelled_when_its_turn_has_come_has_it(nursery: trio.Nursery) -> None:
    turns, scope, outcome = FairLimiter(1), trio.CancelScope(), list[str]()
    turns.take()

    async def work() -> None:
        with scope:
            await turns.acquire("a")
            outcome.append("has it")

    nursery.start_soon(work)
    await wait_all_tasks_blocked()
    turns.release()
    scope.cancel()
    await wait_all_tasks_blocked()

    assert outcome == ["has it"]
    assert figures(turns) == (1, 0, 0)


async def test_a_task_that_is_cancelled_already_takes_no_turn() -> None:
    turns = FairLimiter(1)

    with trio.CancelScope() as scope:
        scope.cancel()
        await turns.acquire("a")

    assert scope.cancelled_caught
    assert figures(turns) == (0, 0, 0)


STEPS = st.one_of(
    st.tuples(st.just("come"), st.sampled_from("abcd")),
    st.tuples(st.just("end"), st.just("")),
    st.tuples(st.just("leave"), st.integers(0, 30).map(str)),
)


@settings(max_examples=200)
@given(st.integers(1, 4), st.lists(STEPS, max_size=80))
def test_whatever_comes_and_goes_it_is_fair_within_the_bound_and_ends_empty(
    capacity: int, steps: list[tuple[str, str]]
) -> None:
    turns = FairLimiter(capacity)
    order, working, begun = Order(turns), 0, 0
    waiting: dict[str, Callable[[], object]] = {}
    passed: dict[str, list[str]] = {}  # by who waits: the groups whose turns came meanwhile

    for number, (step, what) in enumerate(steps):
        if step == "come":
            name = f"{what}{number}"
            if turns.take():
                assert not waiting
                working += 1
            else:
                waiting[name], passed[name] = order.wait(name), []
        elif step == "end" and working:
            turns.release()
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
            turns.forget(name[0], waiting.pop(name))
        assert turns.taken == working <= capacity
        assert turns.waiting == len(waiting)
        assert turns.groups == len({name[0] for name in waiting})

    for name, groups in passed.items():
        own = groups.count(name[0])
        assert all(groups.count(group) <= own + 1 for group in set(groups) - {name[0]})
