"""What one owner has in an event log, when the log is slow, and when nothing is to be kept any more."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import MemoryEventStore
from trio_mcp.transports.http.server._event_store import EventRecord


class Slow:
    """A log that takes its time."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.go = trio.Event()

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        await self.go.wait()
        self.said.append("appended")

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        raise AssertionError

    async def forget(self, owner: str) -> None:
        self.said.append("forgotten")


async def test_events_being_stored_are_deleted_too(nursery: trio.Nursery) -> None:
    log = Slow()
    record = EventRecord(log)
    nursery.start_soon(record.append, 1, 1, [b"a"])
    await wait_all_tasks_blocked()
    nursery.start_soon(record.forget)
    await wait_all_tasks_blocked()
    assert log.said == []

    log.go.set()
    await wait_all_tasks_blocked()

    assert log.said == ["appended", "forgotten"]


async def test_nothing_is_stored_for_a_deleted_owner() -> None:
    async with MemoryEventStore().open() as log:
        record = EventRecord(log)
        await record.append(1, 1, [b"a"])
        await record.forget()
        await record.append(1, 2, [b"b"])

        assert await record.read(1, 0) == (1, [])


async def test_owners_of_one_log_have_names_of_their_own() -> None:
    async with MemoryEventStore().open() as log:
        first, second = EventRecord(log), EventRecord(log)
        await first.append(1, 1, [b"a"])

        assert await first.read(1, 0) == (1, [b"a"])
        assert await second.read(1, 0) == (1, [])
