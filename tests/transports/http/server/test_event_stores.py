"""The contract of event stores, for the store in memory and the SQLite store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import frozen

from trio_mcp.abc import EventLog, EventStore
from trio_mcp.transports import MemoryEventStore, SqliteEventStore

KIB = 1024


@frozen
class Kind:
    """A kind of event store."""

    make: Callable[..., EventStore]
    """Make a store with bounds as keyword arguments."""

    @asynccontextmanager
    async def open(self, **bounds: float) -> AsyncGenerator[EventLog]:
        """Open a new store of this kind."""
        async with self.make(**bounds).open() as log:
            yield log


@pytest.fixture(params=["memory", "sqlite"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(MemoryEventStore if request.param == "memory" else partial(SqliteEventStore, tmp_path / "events.db"))


async def all_of(log: EventLog, owner: str, stream: int, after: int = 0) -> dict[int, bytes]:
    """Read a stream completely; return its events by number."""
    events: dict[int, bytes] = {}
    while True:
        first, page = await log.read(owner, stream, after)
        if not page:
            return events
        events |= dict(enumerate(page, first))
        after = first + len(page) - 1


async def test_events_after_a_number_are_returned_in_order(kind: Kind) -> None:
    async with kind.open() as log:
        await log.append("a", 1, 1, [b"one", b"two"])
        await log.append("a", 1, 3, [b"three", b""])

        assert await log.read("a", 1, 0) == (1, [b"one", b"two", b"three", b""])
        assert await log.read("a", 1, 2) == (3, [b"three", b""])
        assert (await log.read("a", 1, 4))[1] == []


async def test_streams_and_owners_are_independent(kind: Kind) -> None:
    async with kind.open() as log:
        await log.append("a", 1, 1, [b"a1"])
        await log.append("a", 2, 1, [b"a2"])
        await log.append("b", 1, 1, [b"b1"])

        assert await all_of(log, "a", 1) == {1: b"a1"}
        assert await all_of(log, "a", 2) == {1: b"a2"}
        assert await all_of(log, "b", 1) == {1: b"b1"}
        assert await all_of(log, "b", 2) == {}
        assert await all_of(log, "c", 1) == {}


async def test_many_events_are_read_in_pages_and_a_long_event_alone(kind: Kind) -> None:
    events = [bytes([number]) * 30 * KIB for number in range(10)] + [b"x" * 200 * KIB, b"end"]
    async with kind.open() as log:
        await log.append("a", 1, 1, events)

        assert list((await all_of(log, "a", 1)).values()) == events
        assert len((await log.read("a", 1, 0))[1]) == 3
        assert (await log.read("a", 1, 10))[1] == events[10:11]


async def test_a_deleted_owner_has_no_events_and_may_store_new_ones(kind: Kind) -> None:
    async with kind.open() as log:
        await log.append("a", 1, 1, [b"a"])
        await log.append("b", 1, 1, [b"b"])

        await log.forget("a")
        await log.forget("unknown")

        assert await all_of(log, "a", 1) == {}
        assert await all_of(log, "b", 1) == {1: b"b"}
        await log.append("a", 1, 1, [b"again"])
        assert await all_of(log, "a", 1) == {1: b"again"}


async def test_too_many_events_evict_the_oldest_ones_of_their_owner(kind: Kind) -> None:
    async with kind.open(max_events=10) as log:
        for number in range(1, 8):
            await log.append("talker", 1 + number % 2, (number + 1) // 2, [b"%d" % number])
        await log.append("other", 1, 1, [b"x", b"y", b"z"])
        await log.append("talker", 1, 4, [b"8"])

        assert await all_of(log, "other", 1) == {1: b"x", 2: b"y", 3: b"z"}
        kept = [*(await all_of(log, "talker", 1)).values(), *(await all_of(log, "talker", 2)).values()]
        assert b"8" in kept
        assert b"1" not in kept
        assert len(kept) <= 7


async def test_too_many_bytes_evict_events_of_the_owner_with_most(kind: Kind) -> None:
    async with kind.open(max_bytes=100) as log:
        await log.append("small", 1, 1, [b"s" * 10])
        await log.append("large", 1, 1, [b"l" * 40, b"m" * 40])
        await log.append("small", 1, 2, [b"t" * 20])

        assert await all_of(log, "small", 1) == {1: b"s" * 10, 2: b"t" * 20}
        assert await all_of(log, "large", 1) == {2: b"m" * 40}


async def test_an_event_larger_than_the_store_is_not_stored(kind: Kind) -> None:
    async with kind.open(max_bytes=100) as log:
        await log.append("a", 1, 1, [b"x" * 101])
        await log.append("a", 1, 2, [b"small"])

        assert await all_of(log, "a", 1) == {2: b"small"}


async def test_the_remaining_events_of_a_stream_are_found_from_a_number_before_the_gap(kind: Kind) -> None:
    async with kind.open(max_events=4) as log:
        await log.append("a", 1, 1, [b"1", b"2", b"3", b"4", b"5"])

        assert max(await all_of(log, "a", 1)) == 5
        assert min(await all_of(log, "a", 1)) > 1
        assert await all_of(log, "a", 1, after=0) == await all_of(log, "a", 1, after=1)


async def test_many_owners_within_the_bounds_keep_all_their_events(kind: Kind) -> None:
    async with kind.open(max_events=50) as log:
        for number in range(40):
            await log.append(f"owner {number}", 1, 1, [b"x"])

        assert [await all_of(log, f"owner {number}", 1) for number in range(40)] == [{1: b"x"}] * 40


async def test_streams_are_appended_to_and_read_at_the_same_time(kind: Kind) -> None:
    async with kind.open() as log:

        async def talk(stream: int) -> None:
            for number in range(1, 11):
                await log.append("a", stream, number, [b"%d" % number])
                assert len(await all_of(log, "a", stream)) == number

        async with trio.open_nursery() as nursery:
            for stream in range(5):
                nursery.start_soon(talk, stream)

        assert [len(await all_of(log, "a", stream)) for stream in range(5)] == [10] * 5


async def test_a_closed_store_can_be_opened_again(kind: Kind) -> None:
    store = kind.make()
    async with store.open() as log:
        await log.append("a", 1, 1, [b"x"])
    async with store.open() as log:
        await log.append("b", 1, 1, [b"y"])

        assert await all_of(log, "b", 1) == {1: b"y"}


@pytest.mark.parametrize("bounds", [{"max_events": 0}, {"max_bytes": -1}, {"max_age": float("nan")}])
def test_an_invalid_bound_is_refused_by_name(kind: Kind, bounds: dict[str, float]) -> None:
    (name,) = bounds

    with pytest.raises(ValueError, match=name):
        kind.make(**bounds)


async def test_events_in_memory_that_are_too_old_are_not_returned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with MemoryEventStore(max_age=100.0).open() as log:
        await log.append("a", 1, 1, [b"old"])
        await trio.sleep(60)
        await log.append("a", 1, 2, [b"new"])
        await trio.sleep(60)

        assert await all_of(log, "a", 1) == {2: b"new"}
        await trio.sleep(60)
        assert await all_of(log, "a", 1) == {}


async def test_old_events_are_deleted_when_any_owner_appends(autojump_clock: trio.testing.MockClock) -> None:
    async with MemoryEventStore(max_age=100.0, max_events=2).open() as log:
        await log.append("silent", 1, 1, [b"old"])
        await trio.sleep(150)
        await log.append("talker", 1, 1, [b"x"])
        await log.append("talker", 1, 2, [b"y"])

        assert await all_of(log, "talker", 1) == {1: b"x", 2: b"y"}, "the old event does not count"
