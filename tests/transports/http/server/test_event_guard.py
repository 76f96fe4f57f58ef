"""The event store as all sessions use it: one that fails, is slow or hangs delays them once, and is left alone."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.interaction.not_exceptions import KINDS, raise_it
from trio_mcp import MemoryEventStore, SqliteEventStore
from trio_mcp.abc import EventLog
from trio_mcp.transports.http.server._event_store import PATIENCE, REST_SECONDS, EventGuard, EventRecord

MOST_DELAY = 0.2
"""The seconds that a failing store may delay all sessions together."""

Behaviour: TypeAlias = Callable[[], Awaitable[None]]


class Store:
    """An event log that behaves as the test says, and counts its calls."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.calls = 0

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        self.calls += 1
        await self.behaviour()

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        self.calls += 1
        await self.behaviour()
        return 1, [b"a"]

    async def forget(self, owner: str) -> None:
        self.calls += 1
        await self.behaviour()


async def works() -> None:
    await trio.lowlevel.checkpoint()


async def fails() -> None:
    await trio.lowlevel.checkpoint()
    raise OSError("no space left on device")


async def hangs() -> None:
    await trio.sleep_forever()


async def ignores_cancellation() -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 100):
        await trio.sleep_forever()


async def use(guard: EventGuard, times: int = 1) -> float:
    """Append from several sessions at once, and return the time that all of it took."""
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(times):
            nursery.start_soon(EventRecord(guard).append, 1, 1, [b"a"])
    return trio.current_time() - begun


@pytest.mark.parametrize("behaviour", [fails, hangs, ignores_cancellation])
async def test_a_store_that_does_not_work_delays_all_sessions_together_once(
    behaviour: Behaviour, nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(behaviour)
    guard = EventGuard(store, nursery)
    record = EventRecord(guard)
    delays = [await use(guard, 8), await use(guard, 8), await use(guard)]
    begun = trio.current_time()
    assert await record.read(1, 0) == (0, ())
    await record.forget()

    assert sum(delays) + trio.current_time() - begun <= MOST_DELAY
    assert store.calls <= 8
    assert caplog.text.count("the event store") == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_a_store_raises_is_its_failure(
    kind: str, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    guard = EventGuard(Store(partial(raise_it, kind)), nursery)
    await use(guard)

    assert "the event store fails" in caplog.text


async def test_a_store_that_failed_is_tried_again_after_some_seconds_by_one_session(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(hangs)
    guard = EventGuard(store, nursery)
    await use(guard, 8)
    await trio.sleep(REST_SECONDS)

    assert await use(guard, 8) <= MOST_DELAY
    assert store.calls == 8 + 1

    await trio.sleep(REST_SECONDS)
    store.behaviour = works
    await use(guard)
    await use(guard, 8)

    assert store.calls == 8 + 1 + 1 + 8
    assert await EventRecord(guard).read(1, 0) == (1, [b"a"])
    assert [each.levelno for each in caplog.records if "event store" in each.message] == [
        logging.ERROR,
        logging.WARNING,
    ]


async def test_a_store_in_which_an_operation_hangs_is_not_tried_before_that_has_ended(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    store = Store(ignores_cancellation)
    guard = EventGuard(store, nursery)
    await use(guard)
    for _ in range(10):
        await trio.sleep(REST_SECONDS)
        assert await use(guard) == 0
    assert store.calls == 1

    await trio.sleep(60)
    store.behaviour = works
    await use(guard)

    assert store.calls == 2


async def test_a_store_that_is_always_slow_is_left_alone_before_the_delays_add_up(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def is_slow() -> None:
        await trio.sleep(PATIENCE / 3)

    store = Store(is_slow)
    guard = EventGuard(store, nursery)
    delays = [await use(guard) for _ in range(20)]

    assert sum(delays) <= MOST_DELAY
    assert store.calls == 4


async def test_delays_of_sessions_at_the_same_time_count_once_and_are_forgotten(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def is_slow() -> None:
        await trio.sleep(PATIENCE / 3)

    store = Store(is_slow)
    guard = EventGuard(store, nursery)
    for _ in range(10):
        await use(guard, 20)
        await trio.sleep(10)

    assert store.calls == 200


async def test_a_session_that_is_cancelled_cancels_its_operation(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def is_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    store = Store(is_cancelled)
    guard = EventGuard(store, nursery)
    with trio.CancelScope() as scope:
        nursery.start_soon(wait_and_cancel, scope)
        await EventRecord(guard).append(1, 1, [b"a"])
    await ended.wait()
    store.behaviour = works
    await use(guard)

    assert store.calls == 2


async def wait_and_cancel(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin exclusive")
print("locked", flush=True)
sys.stdin.readline()
"""


@asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[None]:
    """Have another process lock a file exclusively until the block is left."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", LOCKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        async with process.stdout, process.stdin:
            assert (await process.stdout.receive_some()).startswith(b"locked")
            yield
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


class Watched:
    """An event log that notes what the appends of another one raise."""

    def __init__(self, log: EventLog) -> None:
        self.read, self.forget, self._append = log.read, log.forget, log.append
        self.failures: list[str] = []

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        try:
            await self._append(owner, stream, first, events)
        except sqlite3.OperationalError as exc:
            self.failures.append(str(exc))
            raise


async def test_a_file_that_another_process_has_locked_is_tried_once_and_left_alone(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    path = tmp_path / "events.db"
    async with SqliteEventStore(path).open() as log:
        watched = Watched(log)
        guard = EventGuard(watched, nursery)
        record = EventRecord(guard)
        await record.append(1, 1, [b"before"])
        async with locked(path):
            await use(guard, 8)
            await use(guard, 8)
            assert len(watched.failures) <= 2  # the next one may have begun when the first one failed
            assert set(watched.failures) <= {"database is locked"}
        await record.append(1, 2, [b"missed"])
        assert await record.read(1, 0) == (0, ())  # it is left alone

        guard._rests_until = 0.0
        while guard._running:
            await trio.lowlevel.checkpoint()
        assert await record.read(1, 0) == (1, [b"before"])


async def test_memory_is_never_too_slow_even_if_the_process_stood_still(nursery: trio.Nursery) -> None:
    async with MemoryEventStore().open() as log:
        guard = EventGuard(log, nursery)
        record = EventRecord(guard)
        guard._patience = 0.0  # every deadline has passed when it is set
        await record.append(1, 1, [b"a"])

        assert await record.read(1, 0) == (1, [b"a"])


async def test_a_client_with_many_events_delays_another_one_by_a_bounded_number_of_operations(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def takes_a_moment() -> None:
        await trio.sleep(0.001)

    guard = EventGuard(Store(takes_a_moment), nursery)
    many = EventRecord(guard, "192.0.2.1")
    async with trio.open_nursery() as attack:
        for number in range(1000):
            attack.start_soon(many.append, 1, number, [b"a"])
        await wait_all_tasks_blocked()
        begun = trio.current_time()
        await EventRecord(guard, "192.0.2.2").append(1, 1, [b"a"])
        assert trio.current_time() - begun == pytest.approx(0.001)
        attack.cancel_scope.cancel()


async def test_operations_that_wait_for_a_turn_end_with_the_store_that_hangs(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    store = Store(hangs)
    guard = EventGuard(store, nursery)

    assert await use(guard, 200) <= MOST_DELAY
    assert store.calls < 200
