"""The Trio tasks in which calls from asyncio run: one does several calls in a row, each as a new task would."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
import trio

from trio_mcp.asyncio._run import MOST_IDLE, AsyncioRun, current_run

SECONDS = 60.0
caller: ContextVar[str] = ContextVar("caller", default="nobody")


def in_run(main: Callable[[AsyncioRun], Awaitable[Any]]) -> None:
    """Run an async function of a new run, with a time limit."""

    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await main(await current_run())

    asyncio.run(limited())


async def this_task() -> trio.lowlevel.Task:
    await trio.lowlevel.checkpoint()
    return trio.lowlevel.current_task()


def test_a_task_that_has_ended_a_call_does_the_next_one() -> None:
    async def main(run: AsyncioRun) -> None:
        first = await run.wait(this_task)

        assert await run.wait(this_task) is first

    in_run(main)


def test_calls_at_the_same_time_have_tasks_of_their_own_and_few_of_these_are_kept() -> None:
    async def main(run: AsyncioRun) -> None:
        together = MOST_IDLE + 10
        tasks = await asyncio.gather(*(run.wait(this_task) for _ in range(together)))
        assert len(set(tasks)) == together

        again = await asyncio.gather(*(run.wait(this_task) for _ in range(together)))
        assert len(set(tasks) & set(again)) == MOST_IDLE

    in_run(main)


class Work:
    async def __call__(self) -> None:
        await trio.lowlevel.checkpoint()


def test_a_task_that_waits_for_the_next_call_keeps_nothing_of_the_last_one() -> None:
    async def main(run: AsyncioRun) -> None:
        work = Work()
        reference = weakref.ref(work)

        await run.wait(work)
        del work
        await asyncio.sleep(0)  # the task waits by now

        assert reference() is None

    in_run(main)


def test_a_call_has_the_context_of_its_caller_and_leaves_none_behind() -> None:
    async def see_and_change() -> str:
        await trio.lowlevel.checkpoint()
        seen = caller.get()
        caller.set("a change")
        return seen

    async def main(run: AsyncioRun) -> None:
        for name in ("Ada", "Bob"):
            caller.set(name)
            assert await run.wait(see_and_change) == name
            assert caller.get() == name

    in_run(main)


def test_a_cancelled_call_cancels_no_later_one() -> None:
    async def main(run: AsyncioRun) -> None:
        first = run.begin(trio.sleep_forever)
        first.cancel()
        await first.wait_finished()
        with pytest.raises(trio.RunFinishedError):
            first.result()

        ended = run.begin(this_task)
        await ended.wait_finished()
        later = run.begin(this_task)
        ended.cancel()
        await later.wait_finished()
        assert later.result() is ended.result()

    in_run(main)


def test_an_exception_of_a_call_leaves_its_task_for_the_next_one() -> None:
    async def fail() -> None:
        raise LookupError(id(await this_task()))

    async def main(run: AsyncioRun) -> None:
        with pytest.raises(LookupError) as raised:
            await run.wait(fail)

        assert id(await run.wait(this_task)) == raised.value.args[0]

    in_run(main)
