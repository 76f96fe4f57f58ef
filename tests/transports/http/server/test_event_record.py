"""The event record of one session: slow logs, deletion, and the names of owners."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import MemoryEventStore
from trio_mcp.transports.http.server._event_store import EventGuard, EventRecord


class SlowLog:
    """An event log that appends once the test sets `go`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go = trio.Event()

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        await self.go.wait()
        self.calls.append("appended")

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        raise AssertionError

    async def forget(self, owner: str) -> None:
        self.calls.append("forgotten")


async def test_events_being_stored_are_deleted_too(nursery: trio.Nursery) -> None:
    log = SlowLog()
    record = EventRecord(EventGuard(log, nursery))
    nursery.start_soon(record.append, 1, 1, [b"a"])
    await wait_all_tasks_blocked()
    nursery.start_soon(record.forget)
    await wait_all_tasks_blocked()
    assert log.calls == []

    log.go.set()
    await wait_all_tasks_blocked()

    assert log.calls == ["appended", "forgotten"]


async def test_nothing_is_stored_for_a_deleted_owner(nursery: trio.Nursery) -> None:
    async with MemoryEventStore().open() as log:
        record = EventRecord(EventGuard(log, nursery))
        await record.append(1, 1, [b"a"])
        await record.forget()
        await record.append(1, 2, [b"b"])

        assert await record.read(1, 0) == (1, [])


async def test_records_of_one_log_have_different_owners(nursery: trio.Nursery) -> None:
    async with MemoryEventStore().open() as log:
        guard = EventGuard(log, nursery)
        first, second = EventRecord(guard), EventRecord(guard)
        await first.append(1, 1, [b"a"])

        assert await first.read(1, 0) == (1, [b"a"])
        assert await second.read(1, 0) == (1, [])
