"""The event record of one session: slow logs, deletion, and the names of owners."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import MemoryEventStore
from trio_mcp.transports.http.server import _event_store
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


async def test_the_latest_events_of_a_record_are_restored_in_another_one(nursery: trio.Nursery) -> None:
    async with MemoryEventStore().open() as log, MemoryEventStore().open() as other_log:
        record, other = EventRecord(EventGuard(log, nursery)), EventRecord(EventGuard(other_log, nursery))
        await record.append(0, 1, [b"a", b"b"])
        await record.append(4, 1, [b"c"])
        await other.restore(await record.to_json(0, 1000))
        await other.append(0, 3, [b"d"])

        assert await other.read(0, 0) == (1, [b"a", b"b", b"d"])
        assert await other.read(4, 0) == (1, [b"c"])


async def test_what_is_restored_is_bounded_and_the_first_stream_comes_first(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_event_store, "_MOST_MOVED_STREAMS", 3)
    async with MemoryEventStore().open() as log:
        record = EventRecord(EventGuard(log, nursery))
        await record.append(0, 1, [b"1234", b"5678"])
        for stream in range(1, 6):
            await record.append(stream, 1, [b"x", b"yz"])

        assert await record.to_json(0, 10) == {
            "0": {"first": 1, "events": ["1234", "5678"]},
            "5": {"first": 2, "events": ["yz"]},
        }


async def test_only_events_without_a_gap_are_restored(nursery: trio.Nursery) -> None:
    async with MemoryEventStore(max_events=10).open() as log:
        record = EventRecord(EventGuard(log, nursery))
        for number in range(1, 15):
            await record.append(0, number, [b"%d" % number])
        kept = await record.to_json(0, 1000)

        assert kept["0"]["first"] == 15 - len(kept["0"]["events"]) > 1
        assert kept["0"]["events"][-1] == "14"
