"""The Trio tasks in which calls of threads run: one does several calls in a row, each as a new task would."""

from __future__ import annotations

import weakref
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest
import trio
from outcome import Outcome

from trio_mcp.sync._run import MOST_IDLE, ThreadRun

SECONDS = 60.0
caller: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture
def run() -> Generator[ThreadRun]:
    """Return a run of its own, which ends with the test."""
    run = ThreadRun()
    run.start()
    yield run
    run.stop()


async def this_task() -> trio.lowlevel.Task:
    await trio.lowlevel.checkpoint()
    return trio.lowlevel.current_task()


def test_a_task_that_has_ended_a_call_does_the_next_one(run: ThreadRun) -> None:
    assert run.wait(this_task) is run.wait(this_task)


def test_calls_at_the_same_time_have_tasks_of_their_own_and_few_of_these_are_kept(run: ThreadRun) -> None:
    together = MOST_IDLE + 10

    def tasks_of_calls() -> set[trio.lowlevel.Task]:
        waiting = 0
        everybody = trio.Event()

        async def meet() -> trio.lowlevel.Task:
            nonlocal waiting
            waiting += 1
            if waiting == together:
                everybody.set()
            with trio.fail_after(SECONDS):
                await everybody.wait()
            return trio.lowlevel.current_task()

        with ThreadPoolExecutor(together) as pool:
            return set(pool.map(run.wait, [meet] * together))

    first, again = tasks_of_calls(), tasks_of_calls()

    assert len(first) == len(again) == together
    assert len(first & again) == MOST_IDLE


class Work:
    async def __call__(self) -> None:
        await trio.lowlevel.checkpoint()


def test_a_task_that_waits_for_the_next_call_keeps_nothing_of_the_last_one(run: ThreadRun) -> None:
    work = Work()
    reference = weakref.ref(work)

    run.wait(work)
    del work
    run.look(lambda: None)  # the task waits by now

    assert reference() is None


def test_a_call_has_the_context_of_its_caller_and_leaves_none_behind(run: ThreadRun) -> None:
    async def see_and_change() -> str:
        await trio.lowlevel.checkpoint()
        seen = caller.get()
        caller.set("a change")
        return seen

    for name in ("Ada", "Bob"):
        token = caller.set(name)
        assert run.wait(see_and_change) == name
        assert caller.get() == name
        caller.reset(token)


def test_a_cancelled_call_cancels_no_later_one(run: ThreadRun) -> None:
    outcomes: list[Outcome[None]] = []

    async def cancel_itself() -> None:
        scope.cancel()
        await trio.sleep_forever()

    async def wait_for_outcome() -> None:
        with trio.fail_after(SECONDS):
            while not outcomes:
                await trio.lowlevel.checkpoint()

    scope = trio.CancelScope()
    run.begin(cancel_itself, scope, outcomes.append)
    run.wait(wait_for_outcome)

    with pytest.raises(trio.Cancelled):
        outcomes[0].unwrap()
    assert isinstance(run.wait(this_task), trio.lowlevel.Task)
