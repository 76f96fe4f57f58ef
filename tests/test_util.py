"""Tests of nurseries that do not wrap the exceptions of their body or jobs."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.interaction.not_exceptions import raise_it
from trio_mcp._util import WIND_DOWN_SECONDS, exc_info_of, failure_of, owned_nursery, run_all

NESTED_TWICE = 2


async def pump(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """A task that stands for a reader or writer: it runs until it is cancelled."""
    task_status.started()
    await trio.sleep_forever()


async def buggy_pump() -> None:
    """A task that stands for a reader with a bug: it fails when it is cancelled."""
    try:
        await trio.sleep_forever()
    finally:
        raise RuntimeError("a bug of ours")


@contextlib.asynccontextmanager
async def opened() -> AsyncGenerator[trio.Nursery]:
    """A block that stands for an opener: its nursery has a task that runs until the block ends."""
    async with owned_nursery() as nursery:
        nursery.start_soon(pump)
        yield nursery


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [
        KeyError("key"),
        ValueError("value"),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        StopAsyncIteration(),
        StopIteration(),
        Odd(),
        trio.TooSlowError(),
        ExceptionGroup("the user's own", [ValueError()]),
        BaseExceptionGroup("the user's own", [KeyboardInterrupt()]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("depth", [1, NESTED_TWICE, 3])
async def test_an_exception_of_the_body_is_raised_unchanged(error: BaseException, depth: int) -> None:
    async def inside(levels: int) -> None:
        async with opened():
            if levels > 1:
                await inside(levels - 1)
            raise error

    caught: BaseException | None = None
    try:
        await inside(depth)
    except BaseException as exc:  # noqa: BLE001 # the very thing under test
        caught = exc

    # A coroutine may not raise StopIteration: Python itself turns it into a RuntimeError.
    assert caught is error or (isinstance(error, StopIteration) and isinstance(caught, RuntimeError))


async def test_a_body_that_ends_without_an_exception_cancels_the_tasks() -> None:
    async with opened() as nursery:
        assert len(nursery.child_tasks) == 1

    assert len(nursery.child_tasks) == 0


async def test_a_failure_of_only_a_task_is_a_group() -> None:
    with pytest.RaisesGroup(RuntimeError):
        async with owned_nursery() as nursery:
            nursery.start_soon(buggy_pump)
            await wait_all_tasks_blocked()


async def test_a_failure_of_a_task_cancels_the_body() -> None:
    async def bug() -> None:
        await wait_all_tasks_blocked()
        raise RuntimeError("a bug of ours")

    with pytest.RaisesGroup(RuntimeError):
        async with owned_nursery() as nursery:
            nursery.start_soon(bug)
            await trio.sleep_forever()


async def test_failures_of_the_body_and_a_task_make_a_group_of_both() -> None:
    with pytest.RaisesGroup(KeyError, RuntimeError, match="the block failed, and so did the connection"):
        async with owned_nursery() as nursery:
            nursery.start_soon(buggy_pump)
            await wait_all_tasks_blocked()
            raise KeyError("key")


async def test_failures_of_two_tasks_are_grouped_with_the_failure_of_the_body() -> None:
    with pytest.RaisesGroup(KeyError, RuntimeError, RuntimeError):
        async with owned_nursery() as nursery:
            nursery.start_soon(buggy_pump)
            nursery.start_soon(buggy_pump)
            await wait_all_tasks_blocked()
            raise KeyError("key")


async def test_an_outer_deadline_during_the_wind_down_does_not_hide_the_failure_of_the_body(
    autojump_clock: MockClock,
) -> None:
    async def slow_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)

    with pytest.raises(KeyError), trio.fail_after(1):  # the test is about the block
        async with owned_nursery() as nursery:
            nursery.start_soon(slow_end)
            await wait_all_tasks_blocked()
            raise KeyError("key")


async def test_an_outer_cancellation_passes_through_the_block(autojump_clock: MockClock) -> None:
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        async with opened():
            await trio.sleep_forever()


async def test_an_outer_cancellation_is_caught_by_its_own_scope_between_two_blocks() -> None:
    async with opened():
        with trio.CancelScope() as scope:
            async with opened():
                scope.cancel()
                await trio.sleep_forever()

        assert scope.cancelled_caught


async def test_a_group_with_cancelled_inside_keeps_its_depth(autojump_clock: MockClock) -> None:
    """The user's own nursery inside the block fails while an outer deadline cancels it."""

    async def fails_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("key")

    with pytest.RaisesGroup(KeyError), trio.move_on_after(1):  # one level: as without the block
        async with opened(), trio.open_nursery() as users_own:
            users_own.start_soon(fails_at_the_end)
            await trio.sleep_forever()


async def test_the_failure_of_a_task_is_raised_even_if_the_body_is_cancelled(autojump_clock: MockClock) -> None:
    with pytest.RaisesGroup(RuntimeError), trio.move_on_after(1):
        async with owned_nursery() as nursery:
            nursery.start_soon(buggy_pump)
            await trio.sleep_forever()


async def test_failures_of_a_cancelled_body_and_of_a_task_are_both_raised(autojump_clock: MockClock) -> None:
    async def fails_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("key")

    with pytest.RaisesGroup(pytest.RaisesGroup(KeyError), RuntimeError), trio.move_on_after(1):
        async with owned_nursery() as nursery:
            nursery.start_soon(buggy_pump)
            async with trio.open_nursery() as users_own:
                users_own.start_soon(fails_at_the_end)
                await trio.sleep_forever()


async def test_an_opener_inside_an_async_generator_may_be_closed_early() -> None:
    async def items() -> AsyncGenerator[int]:
        async with opened():
            yield 1
            yield 2

    async with contextlib.aclosing(items()) as generator:
        async for item in generator:
            assert item == 1
            break


async def test_cancelling_the_nursery_from_outside_ends_the_block_without_an_exception() -> None:
    async with owned_nursery() as nursery:
        nursery.start_soon(pump)
        nursery.cancel_scope.cancel()
        await trio.Event().wait()

    assert nursery.cancel_scope.cancelled_caught


async def test_the_wind_down_is_awaited_while_the_tasks_still_run() -> None:
    seen: list[int] = []

    async def wind_down() -> None:
        await trio.lowlevel.checkpoint()
        seen.append(len(nursery.child_tasks))

    async with owned_nursery(wind_down) as nursery:
        nursery.start_soon(pump)

    assert seen == [1]


async def test_the_wind_down_is_shielded_and_bounded(autojump_clock: MockClock) -> None:
    began = trio.current_time()

    with trio.CancelScope() as outer:
        async with owned_nursery(trio.sleep_forever):
            outer.cancel()

    assert trio.current_time() - began == WIND_DOWN_SECONDS


async def test_the_wind_down_follows_a_failure_of_the_body_but_not_its_cancellation() -> None:
    wound_down: list[str] = []

    async def wind_down() -> None:
        await trio.lowlevel.checkpoint()
        wound_down.append("once")

    with pytest.raises(KeyError):
        async with owned_nursery(wind_down):
            raise KeyError("key")
    with trio.CancelScope() as outer:
        async with owned_nursery(wind_down):
            outer.cancel()
            await trio.sleep_forever()

    assert outer.cancelled_caught
    assert wound_down == ["once"]


async def test_a_failure_of_the_wind_down_is_grouped_like_that_of_a_task() -> None:
    async def wind_down() -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("a bug of ours")

    with pytest.RaisesGroup(RuntimeError):
        async with owned_nursery(wind_down):
            pass
    with pytest.RaisesGroup(KeyError, RuntimeError):
        async with owned_nursery(wind_down):
            raise KeyError("key")


@pytest.mark.filterwarnings("ignore::trio.TrioDeprecationWarning")
def test_exceptions_are_the_same_without_strict_exception_groups() -> None:
    async def main() -> None:
        async with owned_nursery() as nursery:
            nursery.start_soon(buggy_pump)
            await wait_all_tasks_blocked()
            raise KeyError("key")

    with pytest.RaisesGroup(KeyError, RuntimeError):
        trio.run(main, strict_exception_groups=False)


async def test_no_traceback_keeps_the_frame_of_the_block_alive() -> None:
    with pytest.raises(KeyError) as caught:
        async with opened():
            raise KeyError("key")

    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


# Concurrent jobs.

LOG = logging.getLogger(__name__)


async def fail(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


async def fail_when_stopped(error: BaseException) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise error


async def test_all_jobs_or_a_limited_number_run_concurrently() -> None:
    running, most, done = 0, 0, list[int]()

    async def job(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await wait_all_tasks_blocked()
        running -= 1
        done.append(number)

    for at_once, expected in ((None, 10), (3, 3), (20, 10)):
        most = 0
        done.clear()
        await run_all([partial(job, number) for number in range(10)], log=LOG, at_once=at_once)
        assert most == expected
        assert sorted(done) == [*range(10)]
    await run_all([], log=LOG)


@pytest.mark.parametrize(
    "error",
    [ValueError(), KeyboardInterrupt(), SystemExit(3), Odd(), BaseExceptionGroup("own", [KeyboardInterrupt()])],
    ids=repr,
)
@pytest.mark.parametrize("others", [0, 2])
async def test_the_exception_of_a_job_is_raised_unchanged_and_the_others_are_cancelled(
    error: BaseException, others: int
) -> None:
    with pytest.raises(type(error)) as raised:
        await run_all([*[pump] * others, partial(fail, error)], log=LOG)
    assert raised.value is error


async def test_a_second_failure_during_the_cancellation_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def in_a_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_stopped, OSError("second"))
            nursery.start_soon(pump)

    with pytest.raises(KeyError, match="first"):
        await run_all([in_a_nursery, partial(fail, KeyError("first"))], log=LOG)
    assert "OSError: second" in caplog.text


async def test_a_failure_during_an_outer_cancellation_is_raised(autojump_clock: MockClock) -> None:
    with pytest.raises(OSError, match="at the end"), trio.move_on_after(1):
        await run_all([partial(fail_when_stopped, OSError("at the end")), pump], log=LOG)
    with trio.move_on_after(1) as scope:
        await run_all([pump, pump], log=LOG)
    assert scope.cancelled_caught


def test_a_keyboard_interrupt_of_the_calling_task_is_raised_unchanged() -> None:
    async def interrupt() -> None:
        await wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(interrupt)
        await run_all([pump, pump], log=LOG)

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)


async def test_a_cancellation_of_another_task_in_a_job_is_replaced() -> None:
    with pytest.raises(RuntimeError, match="but was not cancelled"):
        await run_all([partial(raise_it, "cancelled"), trio.sleep_forever], log=LOG)


def test_a_coroutine_that_is_closed_after_its_run_ends_silently() -> None:
    async def closed() -> None:
        try:
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        except BaseException as exc:  # noqa: BLE001 # the subject of the test
            raise failure_of(exc, "the handler", LOG) from None

    coroutine = closed()
    coroutine.send(None)
    coroutine.close()


async def test_the_exceptions_in_a_nested_group_are_named_once() -> None:
    group = BaseExceptionGroup("all", [BaseExceptionGroup("two", [SystemExit(1), SystemExit(2)]), KeyError()])
    assert str(failure_of(group, "the handler", LOG)) == "a task of the handler raised SystemExit, KeyError"


async def test_a_failure_without_code_of_the_application_is_shown_whole() -> None:
    run = partial(run_all, [partial(trio.sleep, -1)], log=LOG)
    with pytest.raises(ValueError, match="non-negative") as raised:
        await run()
    failure = raised.value
    assert failure.__traceback__ is not None
    failure.__traceback__ = failure.__traceback__.tb_next  # without the frame of this test

    assert exc_info_of(failure) == (ValueError, failure, failure.__traceback__)


class Large:
    """An object that takes much memory, such as a response that nobody reads."""


async def end_by_cancellation(references: list[weakref.ref[Large]]) -> None:
    async def hold() -> None:
        large = Large()
        references.append(weakref.ref(large))
        async with owned_nursery():
            await trio.sleep_forever()

    with trio.CancelScope() as scope:
        scope.cancel()
        await hold()


async def end_by_nested_cancellation(references: list[weakref.ref[Large]]) -> None:
    with trio.CancelScope():
        async with owned_nursery() as nursery:
            nursery.cancel_scope.cancel()
            await end_by_cancellation(references)


async def end_by_two_failures(references: list[weakref.ref[Large]]) -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError

    async def hold() -> None:
        large = Large()
        references.append(weakref.ref(large))
        async with owned_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            await wait_all_tasks_blocked()
            raise ValueError

    with contextlib.suppress(BaseExceptionGroup):
        await hold()


@pytest.mark.parametrize("end", [end_by_cancellation, end_by_nested_cancellation, end_by_two_failures])
async def test_what_a_block_held_is_free_without_the_garbage_collector(
    end: Callable[[list[weakref.ref[Large]]], Awaitable[None]],
) -> None:
    references: list[weakref.ref[Large]] = []
    gc.disable()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end, references)
        assert references[0]() is None
    finally:
        gc.enable()
