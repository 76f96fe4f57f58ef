"""A contract of every backend of shared state (`abc.Shared`), as a base class of tests.

Rules of this file:

1. A clause demands what the protocol says, and nothing more: what a backend *may* drop, it may also keep.
2. Times are real, because a backend has its own clock. A clause may take longer on a slow machine, but does not fail.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ClassVar

import trio

from ..abc import Shared, SharedState, StreamPart
from ._contract import check, until, within
from ._faults import cancel_everywhere

__all__ = ["SharedContract"]

_EARLY = 0.9
"""The part of its time after which a thing may expire: clocks differ a little."""


class SharedContract:
    """The contract of a backend of shared state: it keeps what `abc.Shared` and `abc.SharedState` say.

    Implement `new_backend`; pytest then collects the clauses like any tests::

        class TestMyShared(SharedContract):
            def new_backend(self) -> Shared:
                return MyShared(f"http://localhost:2379/{uuid.uuid4()}")

    If pytest-trio's `trio_mode` is off, mark the class: ``pytestmark = pytest.mark.trio``.
    """

    seconds: ClassVar[float] = 60.0
    """The time limit of a clause, in seconds."""
    short: ClassVar[float] = 0.2
    """A time after which things shall expire, in seconds."""
    large: ClassVar[int] = 1_048_576
    """The size of a large value or entry, in bytes."""

    def new_backend(self) -> Shared:
        """Return a new backend without any data. It is opened twice, once for each of two processes."""
        raise NotImplementedError(f"{type(self).__name__} must implement `new_backend`, which returns the backend")

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[SharedState, SharedState]]:
        with within(self.seconds):
            backend = self.new_backend()
            async with backend.open() as first, backend.open() as second:
                yield first, second

    def _contents(self) -> list[bytes]:
        return [b"", b"\0", bytes(range(256)), b"\r\n", "é\U0001f600".encode(), bytes(range(256)) * (self.large // 256)]

    # Opening and closing.

    async def test_a_backend_is_opened_several_times_and_each_state_is_closed_with_its_block(self) -> None:
        """A state works on after another one of the same backend was closed, also if that one was opened first."""
        with within(self.seconds):
            backend = self.new_backend()
            async with backend.open() as state:
                async with backend.open() as other:
                    check(await other.swap("key", None, b"1"), True, "the swap")
                check(await state.get("key"), b"1", "the value")
            async with backend.open() as state:
                await state.get("key")

    async def test_the_host_is_an_address(self) -> None:
        """The host of a state is an IP address."""
        async with self._opened() as (state, _):
            ipaddress.ip_address(state.host)

    async def test_opening_can_be_cancelled_at_any_step(self) -> None:
        """After a cancelled opening, the backend can be opened."""
        with within(self.seconds):
            backend = self.new_backend()

            async def attempt() -> None:
                async with backend.open() as state, state.follow("stream"):
                    pass

            await cancel_everywhere(attempt)
            await attempt()

    async def test_names_are_printable_ascii_of_up_to_200_characters(self) -> None:
        """Keys, streams, groups and leases of any valid names are different ones, and those of one kind from others."""
        printable = "".join(map(chr, range(32, 127)))
        names = [*printable, *(f"{{{each}}}" for each in "a}{:"), "a:b", "a%7D", printable, "x" * 200]
        async with self._opened() as (state, other):
            for name in names:
                check(await state.swap(name, None, name.encode()), True, f"the swap of {name!r}")
                check(await state.append(name, [name.encode()], at_most=5), 1, f"the number in {name!r}")
                await state.lease("group", name, name.encode(), seconds=60)
                await state.lease(name, "lease", name.encode(), seconds=60)
            for name in names:
                check(await other.get(name), name.encode(), f"the value of {name!r}")
                check([*(await other.read(name, 0)).entries], [name.encode()], f"the entries of {name!r}")
                check({**await other.leases(name)}, {"lease": name.encode()}, f"the leases of {name!r}")
            check(sorted(await other.leases("group")), sorted(names), "the names of leases")

    # Values.

    async def test_a_value_is_read_as_it_was_written_by_all(self) -> None:
        """Any bytes are a value, also none at all; another process reads the same."""
        async with self._opened() as (state, other):
            check(await state.get("key"), None, "a value that was never set")
            old = None
            for content in self._contents():
                check(await state.swap("key", old, content), True, "the swap")
                check(await other.get("key") == content, True, f"the value of {len(content)} bytes came back")
                old = content

    async def test_a_value_is_swapped_only_if_it_is_the_old_one(self) -> None:
        """A swap compares the whole value; no value is another one than an empty value."""
        async with self._opened() as (state, other):
            check(await state.swap("key", b"", b"x"), False, "the swap of a value that is missing")
            check(await state.swap("key", None, None), True, "the swap of no value for none")
            check(await state.get("key"), None, "the value")
            check(await state.swap("key", None, b""), True, "the first swap")
            check(await other.swap("key", None, b"x"), False, "the swap of an empty value for none")
            check(await other.swap("key", b"", b"x\0y"), True, "the swap of the right value")
            check(await state.swap("key", b"x", b"z"), False, "the swap of the beginning of the value")
            check(await state.swap("key", b"z", None), False, "the removal of another value")
            check(await state.get("key"), b"x\0y", "the value")
            check(await state.swap("key", b"x\0y", None), True, "the removal")
            check(await other.get("key"), None, "the removed value")

    async def test_of_competing_swaps_exactly_one_wins(self) -> None:
        """Many tasks of two processes swap the same value at once: one of them succeeds, and its value is kept."""
        async with self._opened() as states:
            for round_ in range(5):
                won: list[bytes] = []

                async def compete(state: SharedState, key: str, content: bytes, won: list[bytes] = won) -> None:
                    if await state.swap(key, None, content):
                        won.append(content)

                async with trio.open_nursery() as nursery:
                    for number in range(20):
                        nursery.start_soon(compete, states[number % 2], f"key {round_}", b"%d" % number)
                check(len(won), 1, "winners")
                check(await states[0].get(f"key {round_}"), won[0], "the value of the winner")

    async def test_no_update_by_swaps_is_lost(self) -> None:
        """Tasks that count by swaps, and try again when they lose, count to the right number."""
        async with self._opened() as states:

            async def count(state: SharedState) -> None:
                for _ in range(5):
                    while not await state.swap("n", old := await state.get("n"), b"%d" % (int(old or b"0") + 1)):
                        pass

            async with trio.open_nursery() as nursery:
                for state in (*states, *states):
                    nursery.start_soon(count, state)
            check(await states[0].get("n"), b"20", "the number")

    async def test_a_value_expires(self) -> None:
        """A value is gone after its time, and not much before; a swap counts it as no value."""
        async with self._opened() as (state, other):
            begun = trio.current_time()
            await state.swap("key", None, b"1", seconds=self.short)
            await state.swap("for swap", None, b"1", seconds=self.short)
            await state.swap("long", None, b"1", seconds=3600)
            await self._until_gone(lambda: _is_none(other.get("key")), begun)
            check(await other.get("long"), b"1", "the value that lasts longer")
            await until(lambda: other.swap("for swap", None, b"2"), lambda: "the value still counts", self.seconds / 2)
            check(await state.get("for swap"), b"2", "the value in its place")

    async def test_the_time_of_a_value_is_that_of_its_latest_swap(self) -> None:
        """A new value has the time that its own swap gives, or does not expire."""
        async with self._opened() as (state, other):
            begun = trio.current_time()
            for key, seconds in (("for ever", math.inf), ("long", 3600.0)):
                await state.swap(key, None, b"1", seconds=self.short)
                replace = partial(_replace, other, key, b"2", seconds)
                await until(replace, lambda: "nobody else changes the value", self.seconds / 2)
            await state.swap("short", None, b"1")
            await state.swap("short", b"1", b"2", seconds=self.short)
            await self._until_gone(lambda: _is_none(other.get("short")), begun)
            check(await state.get("for ever"), b"2", "the value without a time")
            check(await state.get("long"), b"2", "the value with a longer time")

    async def _until_gone(self, is_gone: Callable[[], Awaitable[bool]], begun: float) -> None:
        await until(is_gone, lambda: "it has not expired", self.seconds / 2)
        passed = trio.current_time() - begun
        check(passed >= self.short * _EARLY, True, f"it expired in time, and not after {passed:.3f} s")

    # Streams.

    async def test_the_entries_of_a_stream_are_numbered_from_1(self) -> None:
        """`append` returns the number of its last entry, whoever appended before; `last` returns the same."""
        async with self._opened() as (state, other):
            check(await state.last("stream"), 0, "the last number of a stream that never was")
            check(await state.read("stream", 0), StreamPart(1, ()), "what is read of it")
            check(await state.append("stream", [b"a"], at_most=100), 1, "the number of the first entry")
            check(await other.append("stream", [b"b", b"c", b"d"], at_most=100), 4, "the number of the fourth")
            check(await state.append("stream", [b"e"], at_most=100), 5, "the number of the fifth")
            check(await other.append("another", [b"x"], at_most=100), 1, "the number in another stream")
            check(await other.last("stream"), 5, "the last number")

    async def test_entries_are_read_after_a_number(self) -> None:
        """`read` returns the entries after a number in order; if there are none, the number of the next one."""
        async with self._opened() as (state, other):
            await state.append("stream", [b"a", b"b", b"c"], at_most=100)
            check(_shown(await other.read("stream", 0)), (1, [b"a", b"b", b"c"], False), "all entries")
            check(_shown(await other.read("stream", 2)), (3, [b"c"], False), "the entries after the second")
            check(await other.read("stream", 3), StreamPart(4, ()), "the entries after the last")

    async def test_entries_are_any_bytes(self) -> None:
        """Entries are read as they were appended, with any bytes, empty or large."""
        async with self._opened() as (state, other):
            contents = self._contents()
            await state.append("stream", contents, at_most=100)
            check([*await _all(other, "stream")] == contents, True, "the entries came back")

    async def test_a_long_stream_is_read_in_parts(self) -> None:
        """Each part begins where the one before ends, and has at least one entry, however many and large they are."""
        async with self._opened() as (state, other):
            many = [b"%d" % number for number in range(3000)]
            for at in range(0, 3000, 1000):
                await state.append("many", many[at : at + 1000], at_most=5000)
            check(await _all(other, "many") == many, True, "the entries came back")
            large = [bytes([number]) * self.large for number in range(4)]
            await state.append("large", large, at_most=10)
            check(await _all(other, "large") == large, True, "the large entries came back")

    async def test_a_stream_keeps_as_many_entries_as_it_is_told(self) -> None:
        """The latest entries are kept, with their numbers; a reader that has missed others learns it."""
        async with self._opened() as (state, other):
            for number in range(1, 11):
                await state.append("stream", [b"%d" % number], at_most=3)
            part = await other.read("stream", 0)
            _check_numbers(part)
            check([*part.entries[-3:]], [b"8", b"9", b"10"], "the latest entries")
            check(part.is_gap, part.first != 1, "whether entries are missing")
            check((await other.read("stream", 7)).is_gap, False, "whether entries are missing after the seventh")
            check(await state.append("stream", [b"%d" % number for number in range(11, 31)], at_most=3), 30, "the last")
            part = await other.read("stream", 27)
            check(_shown(part), (28, [b"28", b"29", b"30"], False), "the entries of an append of more than that")

    async def test_a_stream_is_not_dropped_before_its_time(self) -> None:
        """The time counts from the latest append. After it, what is appended has the next number, or begins anew."""
        async with self._opened() as (state, other):
            await state.append("long", [b"1"], at_most=10, seconds=self.short)
            number = await state.append("long", [b"2"], at_most=10, seconds=3600)
            await state.append("short", [b"1"], at_most=10, seconds=self.short)
            await trio.sleep(self.short * 1.5)
            check(await other.last("long"), number, "the last number of the stream that lasts")
            last = await other.append("short", [b"2"], at_most=10)
            check(last in {1, 2}, True, f"the number after the time is the next or the first, and not {last}")
            part = await state.read("short", last - 1)
            check(_shown(part), (last, [b"2"], False), "the entry after the time")

    async def test_competing_appends_have_their_own_numbers_and_stay_together(self) -> None:
        """Entries of one append follow one another, and those of one task are in order, whoever appends at once."""
        async with self._opened() as states:
            numbers: list[int] = []

            async def append(state: SharedState, who: int) -> None:
                for turn in range(5):
                    entries = [b"%d %d %d" % (who, turn, part) for part in range(3)]
                    last = await state.append("stream", entries, at_most=1000)
                    numbers.extend(range(last - 2, last + 1))

            async with trio.open_nursery() as nursery:
                for who in range(8):
                    nursery.start_soon(append, states[who % 2], who)
            check(sorted(numbers), [*range(1, 121)], "the numbers")
            entries = [tuple(map(int, entry.split())) for entry in await _all(states[0], "stream")]
            for at in range(0, 120, 3):
                who, turn, _ = entries[at]
                check(entries[at : at + 3], [(who, turn, part) for part in range(3)], "the entries of one append")
            for who in range(8):
                turns = [turn for each, turn, part in entries if each == who and part == 0]
                check(turns, [*range(5)], "the turns of one task")

    # Following.

    async def test_a_follower_gets_what_is_appended_after_its_block_was_entered(self) -> None:
        """It gets nothing from before, and everything after, also what is appended before it waits."""
        async with self._opened() as (state, other):
            await other.append("stream", [b"before"], at_most=100)
            async with state.follow("stream") as parts, state.follow("new") as new_parts:
                await other.append("stream", [b"2", b"3"], at_most=100)
                await state.append("stream", [b"4"], at_most=100)
                await other.append("new", [b"1"], at_most=100)
                check(await _followed(parts, 3), [(2, b"2"), (3, b"3"), (4, b"4")], "what is followed")
                check(await _followed(new_parts, 1), [(1, b"1")], "what is followed of the stream that was not there")
                await other.append("stream", [b"5"], at_most=100)
                check(await _followed(parts, 1), [(5, b"5")], "what is followed later")

    async def test_a_waiting_follower_is_woken_by_an_append_of_anybody(self) -> None:
        """All followers of a stream get the same entries in the same order, while they wait for them."""
        async with self._opened() as (state, other), trio.open_nursery() as nursery:
            for follower in (state, other, state):
                await nursery.start(_follow, follower, "stream", 40)
            for number in range(1, 41):
                await (state, other)[number % 2].append("stream", [b"%d" % number], at_most=100)

    async def test_a_follower_sees_only_its_own_stream(self) -> None:
        """Entries of other streams are not seen."""
        async with self._opened() as (state, other), trio.open_nursery() as nursery:
            for name in ("a", "b", "c"):
                await nursery.start(_follow, state, name, 10)
            for number in range(1, 11):
                for name in ("a", "b", "c", "d"):
                    await other.append(name, [b"%d" % number], at_most=100)

    async def test_a_follower_gets_large_and_many_entries(self) -> None:
        """A follower that is behind gets everything that is still kept."""
        async with self._opened() as (state, other), state.follow("stream") as parts:
            many = [b"%d" % number for number in range(2000)]
            large = [bytes([number]) * self.large for number in range(3)]
            await other.append("stream", many, at_most=10_000)
            await other.append("stream", large, at_most=10_000)
            found = await _followed(parts, 2003)
            check([entry for _, entry in found] == [*many, *large], True, "all entries came")
            check([number for number, _ in found] == [*range(1, 2004)], True, "their numbers")

    async def test_a_slow_follower_learns_that_it_has_missed_entries(self) -> None:
        """A follower that is too slow gets the entries that are left, after a gap."""
        async with self._opened() as (state, other), state.follow("stream") as parts:
            for number in range(1, 101):
                await other.append("stream", [b"%d" % number], at_most=2)
            seen = 0
            while seen < 100:
                part = await anext(parts)
                _check_numbers(part)
                check(part.is_gap or part.first == seen + 1, True, "the part is next, or has a gap before it")
                seen = part.first + len(part.entries) - 1
            check(seen, 100, "the last number")

    async def test_a_cancelled_wait_of_a_follower_loses_nothing(self) -> None:
        """The iterator goes on after a wait was cancelled, at whatever step."""
        async with self._opened() as (state, other), state.follow("stream") as parts:
            found: list[int] = []
            with trio.move_on_after(0.01):
                await anext(parts)
            await other.append("stream", [b"1"], at_most=1000)

            async def attempt() -> None:
                part = await anext(parts)
                _check_numbers(part)
                check(part.is_gap, False, "whether entries are missing")
                found.extend(range(part.first, part.first + len(part.entries)))

            async def append() -> None:
                last = await other.last("stream")
                await other.append("stream", [b"%d" % (last + 1)], at_most=1000)

            await cancel_everywhere(attempt, append)
            last = await other.last("stream")
            while len(found) < last:
                await attempt()
            check(found, [*range(1, last + 1)], "the numbers")

    # Leases.

    async def test_a_lease_is_seen_by_all_until_it_is_released(self) -> None:
        """All see the leases of a group with their values; a lease is renewed with another value, by anybody."""
        async with self._opened() as (state, other):
            check({**await state.leases("group")}, {}, "the leases of a group that never was")
            await state.release("group", "a")
            for number, content in enumerate(self._contents()):
                await state.lease("group", f"{number}", content, seconds=3600)
            found = await other.leases("group")
            check([found[name] for name in sorted(found)] == self._contents(), True, "the values came back")
            await other.lease("group", "0", b"new", seconds=3600)
            check((await state.leases("group"))["0"], b"new", "the value of the renewed lease")
            check({**await state.leases("other group")}, {}, "the leases of another group")
            for number in range(len(found)):
                await other.release("group", f"{number}")
            check({**await state.leases("group")}, {}, "the leases after all were released")
            await state.lease("group", "0", b"again", seconds=3600)
            check({**await other.leases("group")}, {"0": b"again"}, "the leases after one was taken again")

    async def test_a_lease_expires_unless_it_is_renewed(self) -> None:
        """A lease is gone after the time that was given when it was renewed last, and not much before."""
        async with self._opened() as (state, other):
            begun = trio.current_time()
            await state.lease("group", "renewed", b"1", seconds=self.short)
            await state.lease("group", "renewed", b"2", seconds=3600)
            await state.lease("group", "long", b"3", seconds=3600)
            await state.lease("group", "shortened", b"4", seconds=3600)
            await state.lease("group", "shortened", b"5", seconds=self.short)
            await state.lease("alone", "short", b"6", seconds=self.short)
            await self._until_gone(lambda: _lacks(other, "group", "shortened"), begun)
            await self._until_gone(lambda: _lacks(other, "alone", "short"), begun)
            check(dict(sorted((await other.leases("group")).items())), {"long": b"3", "renewed": b"2"}, "the leases")

    # Cancellation.

    async def test_a_cancelled_swap_has_set_the_value_or_not(self) -> None:
        """A swap that is cancelled at any step has done all or nothing, and the state can be used further."""
        async with self._opened() as (state, other):

            async def settle() -> None:
                found = await other.get("key")
                check(found in {None, b"1"}, True, "it is one of the two values")
                check(await other.swap("key", found, None), True, "nobody else changes the value")
                check(await state.get("key"), None, "the value")

            await cancel_everywhere(lambda: state.swap("key", None, b"1"), settle)

    async def test_a_cancelled_append_has_appended_all_entries_or_none(self) -> None:
        """An append that is cancelled at any step has appended all of its entries or none, and the numbers go on."""
        async with self._opened() as (state, other):
            last = 0

            async def settle() -> None:
                nonlocal last
                found = await other.last("stream")
                check(found - last in {0, 2}, True, f"{found - last} entries are none or both")
                last = found

            await cancel_everywhere(lambda: state.append("stream", [b"a", b"b"], at_most=1000), settle)
            check(last >= 2, True, "the last append was not cancelled")
            check(await _all(other, "stream"), [b"a", b"b"] * (last // 2), "the entries")

    async def test_a_cancelled_lease_is_held_or_not(self) -> None:
        """A lease is taken and released as a whole if that is cancelled at any step."""
        async with self._opened() as (state, other):

            async def settle() -> None:
                found = {**await other.leases("group")}
                check(found in ({}, {"a": b"1"}), True, f"the lease is held or not: {found}")

            async def attempt() -> None:
                await state.lease("group", "a", b"1", seconds=3600)
                await state.release("group", "a")

            await cancel_everywhere(attempt, settle)
            check({**await other.leases("group")}, {}, "the leases in the end")

    async def test_cancelled_questions_change_nothing(self) -> None:
        """Questions can be cancelled at any step; the state can be used further."""
        async with self._opened() as (state, _):
            await state.swap("key", None, b"1")

            async def ask() -> None:
                check(await state.get("key"), b"1", "the value")
                check(await state.last("stream"), 0, "the last number")
                await state.read("stream", 0)
                await state.leases("group")

            await cancel_everywhere(ask, ask)


async def _is_none(value: Awaitable[bytes | None]) -> bool:
    return await value is None


async def _replace(state: SharedState, key: str, value: bytes, seconds: float) -> bool:
    return await state.swap(key, await state.get(key), value, seconds=seconds)


async def _lacks(state: SharedState, group: str, name: str) -> bool:
    return name not in await state.leases(group)


def _shown(part: StreamPart) -> tuple[int, list[bytes], bool]:
    return part.first, [*part.entries], part.is_gap


def _check_numbers(part: StreamPart) -> None:
    """Check entries that are their own numbers."""
    check([*part.entries], [b"%d" % (part.first + at) for at in range(len(part.entries))], "entries and their numbers")


async def _all(state: SharedState, stream: str) -> list[bytes]:
    """Return all entries of a stream, part by part."""
    found: list[bytes] = []
    while (part := await state.read(stream, len(found))).entries:
        check((part.first, part.is_gap), (len(found) + 1, False), "the beginning of the next part")
        found += part.entries
    check(part.first, len(found) + 1, "the number after the last")
    return found


async def _followed(parts: AsyncIterator[StreamPart], count: int) -> list[tuple[int, bytes]]:
    """Return so many entries and their numbers, which come without a gap."""
    found: list[tuple[int, bytes]] = []
    async for part in parts:
        check(part.is_gap, False, "whether entries are missing")
        found += enumerate(part.entries, part.first)
        if len(found) >= count:
            return found
    raise AssertionError("the iterator of a follower has ended")


async def _follow(state: SharedState, stream: str, count: int, task_status: trio.TaskStatus[None]) -> None:
    """Follow a stream until so many entries have come, which are their own numbers."""
    async with state.follow(stream) as parts:
        task_status.started()
        expected = [(number, b"%d" % number) for number in range(1, count + 1)]
        check(await _followed(parts, count), expected, "what is followed")
