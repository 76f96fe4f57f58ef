"""Background tasks: their start, their owner, their failures and their end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp import Client, ConnectionLost, Context, Limits, Server, TooManyTasks, open_client, serve_stream
from trio_mcp.server import ActiveServer

PROGRAM = str(Path(__file__).with_name("background_program.py"))


@asynccontextmanager
async def served(server: Server) -> AsyncGenerator[tuple[ActiveServer, Client]]:
    """Open a serving that the test can inspect, and a client over byte streams."""
    async with server.serving() as serving, trio.open_nursery() as nursery:
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(serve_stream, serving, theirs)
        async with open_client(ours) as client:
            yield serving, client


def server_that_starts(
    async_fn: Callable[..., Any], *args: Any, limits: Limits | None = None, **options: Any
) -> Server:
    """Return a server with a tool `begin` that starts *async_fn* as a background task."""
    server = Server("background", limits=limits)

    @server.tool
    async def begin() -> None:
        server.background.start_soon(async_fn, *args, **options)

    return server


async def fail(error: BaseException) -> NoReturn:
    raise error


def record(into: list[str], what: str) -> Callable[[], Any]:
    async def work() -> None:
        await trio.lowlevel.checkpoint()
        into.append(what)

    return work


# --- Tasks outlive their call ---


async def test_a_background_task_continues_after_its_call_was_answered() -> None:
    go, done = trio.Event(), trio.Event()

    async def work() -> None:
        await go.wait()
        done.set()

    async with served(server_that_starts(work)) as (serving, client):
        await client.call_tool("begin", raise_on_error=True)
        assert (serving.statistics().running, serving.statistics().background) == (0, 1)
        go.set()
        await done.wait()
        await wait_all_tasks_blocked()
        assert serving.statistics().background == 0


async def test_a_background_task_continues_after_its_call_was_cancelled_or_its_connection_lost(
    autojump_clock: MockClock,
) -> None:
    server, go, done = Server("s"), trio.Event(), list[str]()

    async def work(name: str) -> None:
        await go.wait()
        done.append(name)

    @server.tool
    async def begin(ctx: Context, name: str) -> None:
        server.background.start_soon(work, name)
        await ctx.report_progress(1)
        await trio.sleep_forever()

    async with served(server) as (serving, client):
        async with client.open_call("begin", {"name": "cancelled"}) as call:
            await anext(call.updates)
        async with trio.open_nursery() as nursery:
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve_stream, serving, theirs)
            async with open_client(ours) as other, other.open_call("begin", {"name": "lost"}) as call:
                await anext(call.updates)
                await theirs.aclose()
                with pytest.raises(ConnectionLost):
                    await call.result()
        await wait_all_tasks_blocked()
        assert (serving.statistics().running, serving.statistics().background) == (0, 2)
        go.set()
        await wait_all_tasks_blocked()

    assert sorted(done) == ["cancelled", "lost"]


async def test_progress_and_logs_that_a_task_sends_after_its_call_are_dropped() -> None:
    server, go, reported = Server("s"), trio.Event(), trio.Event()

    async def work(ctx: Context) -> None:
        await go.wait()
        await ctx.report_progress(2)
        await ctx.log("error", "too late")
        reported.set()

    @server.tool
    async def begin(ctx: Context) -> None:
        await ctx.report_progress(1)
        server.background.start_soon(work, ctx)

    async with open_client(server) as client, client.open_call("begin") as call:
        await call.result()
        go.set()
        await reported.wait()
        assert [update.progress async for update in call.updates] == [1]


async def test_a_task_has_the_context_variables_of_its_caller() -> None:
    owner: ContextVar[str] = ContextVar("owner", default="none")
    server, seen = Server("s"), list[str]()

    async def work() -> None:
        seen.append(owner.get())

    @server.tool
    async def begin() -> None:
        owner.set("the handler")
        server.background.start_soon(work)

    async with open_client(server) as client:
        await client.call_tool("begin", raise_on_error=True)
        await wait_all_tasks_blocked()

    assert seen == ["the handler"]


# --- Tasks belong to a serving ---


async def test_a_lifespan_may_start_tasks_and_wait_for_them() -> None:
    order: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        ready = trio.Event()

        async def work() -> None:
            ready.set()
            try:
                await trio.sleep_forever()
            finally:
                order.append("task")

        server.background.start_soon(work)
        await ready.wait()
        yield "state"
        order.append("lifespan")

    async with Server("s", lifespan=lifespan, limits=Limits(drain_seconds=0.01)).serving() as serving:
        assert serving.state == "state"
        assert serving.statistics().background == 1

    assert order == ["task", "lifespan"]  # the lifespan ends after the last task


async def test_a_lifespan_that_fails_cancels_its_tasks() -> None:
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(True)

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        server.background.start_soon(work)
        await wait_all_tasks_blocked()
        raise ValueError("no database")
        yield

    server = Server("s", lifespan=lifespan)
    with pytest.raises(ValueError, match="no database"):
        async with server.serving():
            pass

    assert cancelled == [True]
    with pytest.raises(RuntimeError, match="background tasks belong to a serving"):
        server.background.start_soon(work)


async def test_each_serving_has_its_own_tasks() -> None:
    server = server_that_starts(trio.sleep_forever, limits=Limits(drain_seconds=0.01))

    async with served(server) as (one, first), served(server) as (two, second):
        await first.call_tool("begin", raise_on_error=True)
        assert (one.statistics().background, two.statistics().background) == (1, 0)
        await second.call_tool("begin", raise_on_error=True)
        await second.call_tool("begin", raise_on_error=True)
        assert (one.statistics().background, two.statistics().background) == (1, 2)


async def test_a_handler_that_another_server_calls_can_use_the_background_of_both_servers() -> None:
    soon, clients = Limits(drain_seconds=0.01), list[Client]()
    front, back = Server("front", limits=soon), Server("back", limits=soon)

    @back.tool
    async def begin() -> int:
        back.background.start_soon(trio.sleep_forever)
        front.background.start_soon(trio.sleep_forever)  # a handler of `front` is the caller, so this is its serving
        return 1

    @front.tool
    async def pass_on(ctx: Context) -> int:
        await clients[0].call_tool("begin", raise_on_error=True)
        serving: Any = ctx._serving
        return int(serving.statistics().background)

    async with open_client(back) as inner, open_client(front) as client, served(front) as (other, _):
        clients.append(inner)
        content: Any = (await client.call_tool("pass_on", raise_on_error=True)).structured_content
        assert content == {"result": 1}
        assert other.statistics().background == 0


async def test_a_task_may_start_another() -> None:
    done: list[str] = []
    server = Server("s")

    async def first() -> None:
        server.background.start_soon(record(done, "second"))

    @server.tool
    async def begin() -> None:
        server.background.start_soon(first)

    async with open_client(server) as client:
        await client.call_tool("begin", raise_on_error=True)

    assert done == ["second"]


async def test_a_plain_handler_starts_tasks_through_trio_and_its_error_says_how() -> None:
    server, done = Server("s"), list[str]()

    @server.tool
    def begin() -> None:
        trio.from_thread.run_sync(partial(server.background.start_soon, record(done, "done"), name="from a thread"))

    @server.tool
    def begin_wrongly() -> None:
        server.background.start_soon(record(done, "wrong"))

    async with open_client(server) as client:
        await client.call_tool("begin", raise_on_error=True)
        wrong: Any = (await client.call_tool("begin_wrongly")).content[0]

    assert done == ["done"]
    assert "trio.from_thread.run_sync(server.background.start_soon, async_fn)" in wrong.text


async def test_background_tasks_are_refused_outside_of_a_serving() -> None:
    server = Server("lonely")

    with pytest.raises(RuntimeError, match="server 'lonely': background tasks belong to a serving"):
        server.background.start_soon(trio.sleep_forever)
    async with server.serving() as serving:
        with pytest.raises(RuntimeError, match="background tasks belong to a serving"):
            server.background.start_soon(trio.sleep_forever)
    with pytest.raises(RuntimeError, match="server 'lonely': it is stopping"):
        serving.background.start_soon(trio.sleep_forever)


def test_background_tasks_are_refused_in_another_trio_run() -> None:
    servings: list[ActiveServer] = []

    async def first() -> None:
        async with Server("s").serving() as serving:
            servings.append(serving)

    async def second() -> None:
        servings[0].background.start_soon(trio.sleep_forever)

    trio.run(first)
    with pytest.raises(RuntimeError, match="this Trio run is not the one"):
        trio.run(second)


@pytest.mark.parametrize("given", ["a coroutine", "None"])
async def test_a_background_task_that_is_not_a_function_is_refused_at_once(given: str) -> None:
    coroutine = record([], "never")()
    wrong: Any = coroutine if given == "a coroutine" else None

    with pytest.raises(TypeError, match="is not an async function") as caught:
        async with Server("s").serving() as serving:
            serving.background.start_soon(wrong)
    coroutine.close()

    assert ("pass the function and its arguments" in str(caught.value)) == (given == "a coroutine")


async def test_a_background_task_beyond_the_limit_is_refused() -> None:
    async with served(server_that_starts(trio.sleep_forever, limits=Limits(max_background=2, drain_seconds=0.01))) as (
        serving,
        client,
    ):
        for _ in range(2):
            await client.call_tool("begin", raise_on_error=True)
        refused: Any = (await client.call_tool("begin")).content[0]
        with pytest.raises(TooManyTasks):
            serving.background.start_soon(trio.sleep_forever)
        assert serving.statistics().background == 2

    assert refused.text == "2 background tasks are running already (Limits.max_background)"


# --- Failures ---


class WorkError(Exception):
    """The error that background tasks of these tests raise."""


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (WorkError("it failed"), "the background task fail failed"),
        (ExceptionGroup("two", [WorkError("one"), WorkError("two")]), "the background task fail failed"),
        (SystemExit(3), "the background task fail failed"),
        (BaseExceptionGroup("two", [SystemExit(3), WorkError("one")]), "the background task fail failed"),
        (KeyboardInterrupt(), "the background task fail failed"),
        (asyncio.CancelledError(), "the background task fail failed"),
    ],
    ids=["an exception", "a group", "an exit", "an exit in a group", "an interrupt", "another library"],
)
async def test_a_task_that_fails_is_logged_and_affects_no_other_task(
    error: BaseException, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(server_that_starts(fail, error)) as (serving, client):
        go = trio.Event()
        serving.background.start_soon(go.wait)
        await client.call_tool("begin", raise_on_error=True)
        await wait_all_tasks_blocked()
        assert serving.statistics().background == 1
        assert (await client.list_tools()).tools
        go.set()

    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("trio_mcp.server", logging.ERROR, logged)
    ]


def test_a_real_interrupt_that_strikes_a_task_is_raised_in_the_main_task() -> None:
    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    async def main() -> None:
        async with Server("s").serving() as serving:
            serving.background.start_soon(interrupted)
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)


async def test_a_function_that_is_not_async_is_logged_as_a_failed_task(caplog: pytest.LogCaptureFixture) -> None:
    wrong: Any = len

    async with Server("s").serving() as serving:
        serving.background.start_soon(wrong, "string", name="counting")

    assert "the background task counting failed" in caplog.text
    assert "TypeError" in caplog.text


async def test_a_restarted_task_waits_longer_after_each_failure(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def longest(_: float, most: float) -> float:
        return most

    monkeypatch.setattr("random.uniform", longest)
    begun: list[float] = []

    async def work() -> None:
        begun.append(trio.current_time())
        if len(begun) == 9:
            await trio.sleep(100)
        if len(begun) < 11:
            raise WorkError("again")

    start = trio.current_time()
    async with Server("s").serving() as serving:
        serving.background.start_soon(work, restart=True, name="stubborn")
        await trio.sleep(1000)
        assert serving.statistics().background == 0  # the task has returned

    pauses = [later - earlier for earlier, later in zip([start, *begun], begun, strict=False)]
    assert pauses == pytest.approx([0, 1, 2, 4, 8, 16, 32, 60, 60, 101, 2])
    assert caplog.text.count("the background task stubborn failed") == 10


async def test_tasks_that_fail_together_do_not_restart_together(autojump_clock: MockClock) -> None:
    begun: list[float] = []

    async def work() -> None:
        begun.append(trio.current_time())
        raise WorkError("all of them")

    async with Server("s").serving() as serving:
        for _ in range(10):
            serving.background.start_soon(work, restart=True)
        await trio.sleep(1.001)

    assert len(set(begun)) >= 11  # the first ten at once, each restart at its own time
    assert all(0.5 <= at - begun[0] <= 1.001 for at in begun[10:])


# --- The end of tasks ---


async def test_tasks_have_the_drain_time_to_finish_when_the_serving_stops(autojump_clock: MockClock) -> None:
    done: list[str] = []

    async def work(seconds: float) -> None:
        try:
            await trio.sleep(seconds)
            done.append(f"{seconds} done")
        except trio.Cancelled:
            done.append(f"{seconds} cancelled")
            raise

    start = trio.current_time()
    async with Server("s", limits=Limits(drain_seconds=3)).serving() as serving:
        for seconds in (1, 2, 5):
            serving.background.start_soon(work, seconds)

    assert done == ["1 done", "2 done", "5 cancelled"]
    assert trio.current_time() - start == pytest.approx(3)


async def test_a_restarted_task_is_cancelled_when_the_other_tasks_have_ended(
    autojump_clock: MockClock,
) -> None:
    order: list[str] = []

    async def consumer() -> None:
        try:
            await trio.sleep_forever()
        finally:
            order.append("consumer")

    async def producer() -> None:
        await trio.sleep(1)
        order.append("producer")

    start = trio.current_time()
    async with Server("s").serving() as serving:
        serving.background.start_soon(consumer, restart=True)
        serving.background.start_soon(producer)

    assert order == ["producer", "consumer"]
    assert trio.current_time() - start == pytest.approx(1)


async def test_tasks_end_at_once_when_the_serving_is_cancelled(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    with trio.CancelScope() as scope:
        async with Server("s").serving() as serving:
            serving.background.start_soon(trio.sleep_forever)
            await wait_all_tasks_blocked()
            scope.cancel()

    assert trio.current_time() == start


async def test_a_clean_up_that_fails_is_logged_and_the_next_task_still_cleans_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []

    async def untidy() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise WorkError("the clean-up failed")

    async def tidy() -> None:
        try:
            await trio.sleep_forever()
        finally:
            done.append("tidy")

    async with Server("s", limits=Limits(drain_seconds=0.01)).serving() as serving:
        serving.background.start_soon(untidy)
        serving.background.start_soon(tidy)

    assert done == ["tidy"]
    assert "failed while it was cancelled" in caplog.text


async def test_a_shielded_clean_up_keeps_the_lifespan_waiting_for_a_bounded_time(autojump_clock: MockClock) -> None:
    order: list[tuple[str, float]] = []
    start = trio.current_time()

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        yield
        order.append(("lifespan", trio.current_time() - start))

    async def stubborn() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(30)
            order.append(("task", trio.current_time() - start))

    async with Server("s", lifespan=lifespan, limits=Limits(drain_seconds=1)).serving() as serving:
        serving.background.start_soon(stubborn)

    assert [name for name, _ in order] == ["lifespan", "task"]
    assert [at for _, at in order] == pytest.approx([11, 31])


# --- In a child process ---


@asynccontextmanager
async def program(file: Path) -> AsyncGenerator[Client]:
    with trio.fail_after(60):
        async with open_client([sys.executable, PROGRAM, str(file)]) as client:
            yield client


async def running(client: Client) -> int:
    content: Any = (await client.call_tool("running", raise_on_error=True)).structured_content
    return int(content["result"])


@pytest.mark.skipif(sys.platform == "win32", reason="a server on standard input needs POSIX")
async def test_a_stdio_server_continues_the_tasks_of_answered_and_cancelled_calls(tmp_path: Path) -> None:
    async with program(tmp_path / "file") as client:
        await client.call_tool("begin", {"then_wait": False}, raise_on_error=True)
        async with client.open_call("begin", {"then_wait": True}) as call:
            await anext(call.updates)
        assert await running(client) == 2
        await client.call_tool("finish_work")
        while await running(client):
            await trio.lowlevel.checkpoint()

    assert (tmp_path / "file").read_text().splitlines() == ["work done", "work done", "lifespan left"]


@pytest.mark.skipif(sys.platform == "win32", reason="a server on standard input needs POSIX")
async def test_a_stdio_server_finishes_its_tasks_after_the_connection_has_ended(tmp_path: Path) -> None:
    async with program(tmp_path / "file") as client:
        await client.call_tool("begin", {"then_wait": False}, raise_on_error=True)
        await client.call_tool("finish_work")

    assert (tmp_path / "file").read_text().splitlines() == ["work done", "lifespan left"]
