"""Plain functions in worker threads: cancellation, the limit of threads and the test clock."""

from __future__ import annotations

import math
import threading

import trio
from trio.testing import MockClock

from tests.peer.fake_exchange import exchange
from trio_mcp import Server, open_client
from trio_mcp.peer import FairLimiter, HandlerPool, HandlerRun
from trio_mcp.server._threads import Threads, take_place
from trio_mcp.wire import JsonObject


async def nothing(_: HandlerRun) -> JsonObject:
    raise NotImplementedError


def refuse(failure: Exception) -> JsonObject:
    raise NotImplementedError from failure


def run(nursery: trio.Nursery) -> HandlerRun:
    """Return the run of a handler, to which the thread belongs."""
    incoming = exchange()
    return HandlerRun(
        HandlerPool(nursery),
        incoming,
        incoming.context,
        incoming.peer,
        incoming.method,
        incoming.peer.slots,
        handler=nothing,
        explain=refuse,
    )


async def test_a_cancelled_call_abandons_its_thread_which_counts_until_it_ends() -> None:
    threads, began, release = Threads(5), trio.Event(), threading.Event()
    ended = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def work() -> None:
        trio.from_thread.run_sync(began.set)
        release.wait(10)
        token.run_sync_soon(ended.set)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, work, run(nursery))
        await began.wait()
        nursery.cancel_scope.cancel()

    assert threads.working == 1
    release.set()
    with trio.fail_after(60):
        while threads.working:
            await ended.wait()
            await trio.lowlevel.checkpoint()


async def test_a_handler_in_a_thread_can_check_for_its_cancellation() -> None:
    server, began, stopped = Server("s"), trio.Event(), threading.Event()

    @server.tool
    def work() -> None:
        trio.from_thread.run_sync(began.set)
        try:
            while True:
                trio.from_thread.check_cancelled()
        except trio.Cancelled:
            stopped.set()
            raise

    async with open_client(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await began.wait()
        nursery.cancel_scope.cancel()

    assert await trio.to_thread.run_sync(stopped.wait, 10)


async def test_the_test_clock_pauses_while_threads_work(autojump_clock: MockClock) -> None:
    threads, release = Threads(5), threading.Event()

    async def two_at_once() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(threads.run, lambda: release.wait(10), run(nursery))
            nursery.start_soon(threads.run, lambda: release.wait(10), run(nursery))
            await trio.testing.wait_all_tasks_blocked()
            assert autojump_clock.autojump_threshold == math.inf
            release.set()

    with trio.fail_after(5):
        await two_at_once()

    assert autojump_clock.autojump_threshold == 0
    assert trio.current_time() < 5


async def test_a_place_is_released_if_the_call_is_cancelled_before_it_gets_a_thread() -> None:
    threads, limiter, release, began = Threads(1), FairLimiter(1), threading.Event(), trio.Event()

    def work() -> None:
        trio.from_thread.run_sync(began.set)
        release.wait(10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, work, run(nursery))
        await began.wait()
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_when_blocked, scope)
            await threads.run(lambda: None, run(nursery), limiter=limiter)
        assert scope.cancelled_caught
        assert limiter.taken == 0
        release.set()


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)
    scope.cancel()


async def test_a_place_that_was_taken_before_is_given_back_when_the_thread_ends_or_does_not_start() -> None:
    limiter, threads = FairLimiter(1), Threads(1)

    async with trio.open_nursery() as nursery:
        of_thread = run(nursery)
        hold = await take_place(of_thread, limiter)
        assert await threads.run(lambda: limiter.taken, of_thread, hold=hold) == 1
        assert limiter.taken == 0

        hold = await take_place(of_thread, limiter)
        with trio.CancelScope() as scope:
            scope.cancel()
            await threads.run(lambda: None, of_thread, hold=hold)
        assert limiter.taken == 0
