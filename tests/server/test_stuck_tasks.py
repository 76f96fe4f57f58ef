"""What does not end after a stop is named, to the log and to the host, which goes on; and what a guard decides."""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio

from tests.server.helpers import SharedServing
from trio_mcp import Limits, Server, StuckTask, open_client
from trio_mcp.server._stopping import StopGuard, place_in_thread, place_of, stopped_by_signals

FILE = Path(__file__)


async def stay(release: trio.Event, *, task_status: Any = None) -> None:
    """Swallow a cancellation, and go on until *release*."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await release.wait()  # it stands here


def here() -> str:
    lines = FILE.read_text().splitlines()
    return f"{FILE}:{next(number for number, each in enumerate(lines, 1) if each.endswith('# it stands here'))} in stay"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


class Host:
    """A host program that serves a server with something that does not end."""

    def __init__(self, **options: Any) -> None:
        self.release, self.began, self.was_told = trio.Event(), trio.Event(), trio.Event()
        self.told: list[Sequence[StuckTask]] = []
        self.server = Server("stuck", on_stuck=self.on_stuck, **options)

        @self.server.tool
        async def swallow() -> None:
            self.began.set()
            await stay(self.release)

        @self.server.resource("a://{name}")
        async def resource(name: str) -> str:
            self.began.set()
            await stay(self.release)
            return name

        @self.server.tool
        async def children() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stay, self.release)
                self.began.set()

        @self.server.tool
        async def starting() -> None:
            """Leave a nursery in which another task is about to start one."""
            async with trio.open_nursery() as outer, trio.open_nursery() as inner:
                outer.start_soon(inner.start, stay, self.release)
                await trio.testing.wait_all_tasks_blocked()
                self.began.set()

        @self.server.tool
        async def starts() -> None:
            self.server.background.start_soon(stay, self.release, name="of mine")

        @self.server.tool
        async def cleans_up() -> None:
            self.began.set()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.5)

    def on_stuck(self, tasks: Sequence[StuckTask]) -> None:
        self.told.append(tasks)
        self.was_told.set()

    async def serve(self, call: Callable[[Any], Any]) -> None:
        """Serve, make a call, and stop as soon as it has begun."""
        async with self.server.serving() as serving, trio.open_nursery() as nursery:

            async def make_call() -> None:
                with suppress(Exception):
                    async with open_client(SharedServing(serving)) as client:
                        await call(client)

            nursery.start_soon(make_call)
            await self.began.wait()
            nursery.cancel_scope.cancel()


CALLS: dict[str, Callable[[Any], Any]] = {
    "tools/call 'swallow' (request 2)": lambda client: client.call_tool("swallow"),
    "tools/call 'children' (request 2)": lambda client: client.call_tool("children"),
    "resources/read 'a://b' (request 2)": lambda client: client.read_resource("a://b"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_host_is_told_once_of_a_handler_that_does_not_end_and_goes_on(
    name: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(limits=Limits(stop_seconds=0.1))

    async def goes_on() -> None:
        await host.was_told.wait()
        await trio.sleep(1000)  # far beyond `Limits.stop_seconds`
        host.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(goes_on)
        await host.serve(CALLS[name])

    assert host.told == [[StuckTask(name, here())]]
    assert errors(caplog) == [f"{name} does not end; it stands at {here()}"]


async def test_a_handler_that_waits_for_a_task_about_to_start_is_named_with_its_own_line(
    autojump_clock: trio.testing.MockClock,
) -> None:
    host = Host()

    async def release() -> None:
        await host.was_told.wait()
        host.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        await host.serve(lambda client: client.call_tool("starting"))

    assert [task.place.rpartition(".")[2] for tasks in host.told for task in tasks] == ["starting"]


async def test_a_handler_that_cleans_up_in_time_is_not_named(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host()
    await host.serve(lambda client: client.call_tool("cleans_up"))
    await trio.sleep(1000)

    assert host.told == []
    assert errors(caplog) == []


async def test_a_cancelled_host_waits_for_the_handler_and_is_told(autojump_clock: trio.testing.MockClock) -> None:
    host = Host()

    async def cancel(scope: trio.CancelScope) -> None:
        await host.began.wait()
        scope.cancel()
        await host.was_told.wait()
        host.release.set()

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel, scope)
            async with open_client(host.server) as client:
                await client.call_tool("swallow")

    assert scope.cancelled_caught
    assert [task.place for tasks in host.told for task in tasks] == [here()]


async def test_a_host_whose_callback_fails_goes_on_and_finds_the_failure_in_the_log(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host()

    def fail(_: object) -> None:
        host.release.set()
        raise SystemExit("a bug")

    host.server.on_stuck = fail
    await host.serve(CALLS["tools/call 'swallow' (request 2)"])

    assert errors(caplog)[-1] == "reporting what does not end has failed"


async def test_a_host_whose_log_fails_is_told_nevertheless(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host()

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the disk is full")

    async def release() -> None:
        await host.was_told.wait()
        host.release.set()

    failing, logger = Failing(), logging.getLogger("trio_mcp.server")
    logger.addHandler(failing)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(release)
            await host.serve(CALLS["tools/call 'swallow' (request 2)"])
    finally:
        logger.removeHandler(failing)

    assert len(host.told) == 1


async def test_a_host_without_a_callback_finds_the_handler_in_the_log(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host()
    host.server.on_stuck = None

    async def release() -> None:
        await trio.sleep(1000)
        host.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        await host.serve(CALLS["tools/call 'swallow' (request 2)"])

    assert len(errors(caplog)) == 1


@asynccontextmanager
async def slow_lifespan(_: Server) -> AsyncGenerator[None]:
    yield
    with trio.CancelScope(shield=True):
        await trio.sleep(100)


async def test_a_host_is_told_of_background_tasks_and_of_the_lifespan(autojump_clock: trio.testing.MockClock) -> None:
    host = Host(lifespan=slow_lifespan)

    async def release() -> None:
        await trio.sleep(1000)
        host.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        async with open_client(host.server) as client:
            await client.call_tool("starts")

    (task,), (left,) = host.told  # the task goes on longer than the lifespan, but is named once
    assert task == StuckTask("background task of mine", here())
    assert left.name == "the lifespan"
    assert left.place.endswith(" in slow_lifespan")


async def test_a_background_task_that_ends_after_the_lifespan_has_begun_to_end_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    host = Host(lifespan=slow_lifespan)

    async def release() -> None:
        await host.was_told.wait()
        await trio.sleep(20)
        host.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        async with open_client(host.server) as client:
            await client.call_tool("starts")

    assert [task.name for tasks in host.told for task in tasks] == ["background task of mine", "the lifespan"]


# The guard of a process


class Guarded:
    """A guard whose exit is recorded, and the time at which it is looked at."""

    def __init__(self, **limits: Any) -> None:
        self.statuses: list[int] = []
        self.guard = StopGuard(Limits(**limits), self.statuses.append)
        self.now = 0.0

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.guard.look(self.now, at_least=1)


async def test_a_blocked_event_loop_is_named_when_the_drain_is_over_and_the_process_ends_after_the_stop_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guarded = Guarded(drain_seconds=5, stop_seconds=10)
    guarded.look_after(0)
    guarded.look_after(6)
    assert errors(caplog) == []
    guarded.look_after(1)
    blocked, announced = errors(caplog)
    assert blocked.startswith(f"the event loop is blocked at {FILE}:")
    assert announced == "the next SIGINT or SIGTERM ends this process, or 10 s"
    guarded.look_after(10)
    assert guarded.statuses == []
    guarded.look_after(1)
    assert guarded.statuses == [199]


async def test_a_process_that_was_suspended_is_not_blocked(caplog: pytest.LogCaptureFixture) -> None:
    guarded = Guarded(drain_seconds=5, stop_seconds=10)
    guarded.look_after(0)
    guarded.guard.look(1000)  # the thread runs before the event loop does
    await trio.testing.wait_all_tasks_blocked()
    for number in range(1000, 1020):
        guarded.guard.look(number)
        await trio.testing.wait_all_tasks_blocked()
    assert errors(caplog) == []
    for number in range(1020, 1040):
        guarded.guard.look(number)
    assert len(errors(caplog)) == 2


async def test_an_event_loop_that_reacts_again_ends_the_alarm(caplog: pytest.LogCaptureFixture) -> None:
    guarded = Guarded(drain_seconds=5, stop_seconds=10)
    guarded.look_after(0)
    guarded.look_after(7)
    assert len(errors(caplog)) == 2
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(10):
        guarded.look_after(5)
        await trio.testing.wait_all_tasks_blocked()
    assert guarded.statuses == []
    guarded.look_after(0)
    guarded.look_after(7)
    assert len(errors(caplog)) == 4


async def test_an_event_loop_that_reacts_again_does_not_end_the_alarm_for_a_handler() -> None:
    guarded = Guarded(drain_seconds=5, stop_seconds=10)
    guarded.now = time.monotonic()
    guarded.guard.raise_alarm()
    guarded.look_after(1)
    await trio.testing.wait_all_tasks_blocked()
    guarded.look_after(10)
    assert guarded.statuses == [199]


async def test_infinite_limits_wait_forever(caplog: pytest.LogCaptureFixture) -> None:
    guarded = Guarded(drain_seconds=math.inf)
    guarded.look_after(0)
    guarded.look_after(1e9)
    assert errors(caplog) == []
    guarded = Guarded(stop_seconds=math.inf)
    guarded.guard.raise_alarm()
    guarded.look_after(1e9)
    assert guarded.statuses == []


async def test_the_guard_looks_until_it_has_ended_the_process() -> None:
    guarded = Guarded(stop_seconds=1e-9)
    guarded.guard.raise_alarm()
    await trio.to_thread.run_sync(guarded.guard.run)
    assert guarded.statuses == [199]


def test_the_guard_ends_with_the_event_loop() -> None:
    async def make() -> Guarded:
        return Guarded()

    guarded = trio.run(make)
    guarded.guard.run()
    assert guarded.statuses == []


async def test_a_log_that_takes_nothing_does_not_keep_the_process_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    class Blocked(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            released.wait()

    blocked = Blocked()
    guarded = Guarded(drain_seconds=5, stop_seconds=10)
    logger = logging.getLogger("trio_mcp.server")
    logger.addHandler(blocked)
    try:
        for seconds in (0, 7, 11):
            guarded.look_after(seconds)
        assert guarded.statuses == [199]
    finally:
        released.set()
        logger.removeHandler(blocked)


async def test_a_system_without_threads_does_not_keep_the_process_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", fail)
    monkeypatch.setattr(threading.Thread, "start", fail)
    guarded = Guarded(stop_seconds=math.inf)
    guarded.guard.signalled()
    guarded.guard.raise_alarm()
    assert guarded.statuses == []
    guarded.guard.signalled()
    assert guarded.statuses == [199]


async def test_the_last_words_are_flushed_and_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    guarded = Guarded(stop_seconds=1e-9)
    guarded.guard.raise_alarm()
    guarded.look_after(time.monotonic())
    assert guarded.statuses == [199]


async def test_only_the_serving_that_a_process_exists_for_may_end_it(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler may serve another server in memory, whose handlers are no reason to end the process."""
    statuses: list[int] = []
    outer, inner = Server("outer"), Host()

    @outer.tool
    async def nested() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(release)
            await inner.serve(CALLS["tools/call 'swallow' (request 2)"])

    async def release() -> None:
        await inner.was_told.wait()
        inner.release.set()

    with stopped_by_signals(lambda: None, listen=True) as guard:
        assert guard is not None
        guard._exit = statuses.append
        async with open_client(outer) as client:
            await client.call_tool("nested")
            guard.look(time.monotonic())
            await trio.testing.wait_all_tasks_blocked()
            guard.look(time.monotonic() + 1000)

    assert len(inner.told) == 1
    assert [words for words in errors(caplog) if "ends this process" in words] == []
    assert statuses == []


@pytest.mark.parametrize(("listen", "in_main_thread"), [(False, True), (True, False)])
def test_a_process_is_guarded_only_if_its_main_thread_listens_to_signals(listen: bool, in_main_thread: bool) -> None:
    async def guarded() -> tuple[object, object]:
        with stopped_by_signals(lambda: None, listen=listen) as guard:
            return guard, signal.getsignal(signal.SIGTERM)

    async def guarded_in_thread() -> tuple[object, object]:
        return await trio.to_thread.run_sync(trio.run, guarded)

    former = signal.getsignal(signal.SIGTERM)

    assert trio.run(guarded if in_main_thread else guarded_in_thread) == (None, former)


# Places


def frame_in(file: str) -> FrameType:
    """Return the frame of a function in a file of this name."""
    names: dict[str, Any] = {}
    exec(compile("import sys\ndef function(): return sys._getframe()", file, "exec"), names)
    frame: FrameType = names["function"]()
    return frame


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["app.py", "/x/site-packages/lib.py", "<frozen importlib>"], "app.py"),
        (["app.py", "/app/other.py"], "/app/other.py"),
        (["/x/site-packages/app.py", "/x/dist-packages/lib.py", trio.__file__], "/x/dist-packages/lib.py"),
        (["<string>", trio.__file__, logging.__file__], "<string>"),
        ([trio.__file__, logging.__file__], logging.__file__),
    ],
)
def test_the_named_line_is_the_innermost_of_the_application(files: list[str], named: str) -> None:
    frames = [(frame_in(file), number) for number, file in enumerate(files)]
    assert place_of(frames) == f"{named}:{files.index(named)} in function"


def test_a_thread_that_has_ended_stands_at_its_end() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert thread.ident is not None
    assert place_in_thread(thread.ident) == "its end"
