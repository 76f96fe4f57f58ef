"""The backend in memory: the contract, which finds mistakes of others, and what only it has."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from trio_mcp import MemoryShared, SqliteShared
from trio_mcp.abc import Shared, SharedState, StreamPart
from trio_mcp.testing import SharedContract


class TestMemory(SharedContract):
    def new_backend(self) -> Shared:
        return MemoryShared()


async def test_what_has_expired_is_dropped_now_and_then(autojump_clock: MockClock) -> None:
    shared = MemoryShared()
    async with shared.open() as state:
        for number in range(300):
            await state.swap(f"key {number}", None, b"1", seconds=1)
            await state.append(f"stream {number}", [b"1"], at_most=1, seconds=1)
            await state.lease("group", f"{number}", b"1", seconds=1)
        await state.swap("key", None, b"1")
        await state.append("stream", [b"1"], at_most=1)
        await state.lease("long", "name", b"1", seconds=math.inf)
        await trio.sleep(2)
        for _ in range(3000):
            await state.append("stream", [b"1"], at_most=1)

        data = shared._data
        assert {*data._values} == {"key"}
        assert {*data._streams} == {"stream"}
        assert {*data._leases} == {"long"}
        assert await state.last("stream") == 3001


async def test_a_stream_that_has_expired_begins_anew_and_its_followers_learn_it(autojump_clock: MockClock) -> None:
    async with MemoryShared().open() as state, state.follow("stream") as parts:
        await state.append("stream", [b"1", b"2"], at_most=5, seconds=10)
        await anext(parts)
        await trio.sleep(11)
        assert await state.last("stream") == 0
        with trio.move_on_after(5):
            await anext(parts)
            raise AssertionError

        assert await state.append("stream", [b"a"], at_most=5) == 1
        assert await anext(parts) == StreamPart(1, (b"a",), is_gap=True)
        assert await state.read("stream", 2) == StreamPart(2, (), is_gap=True)


async def test_a_follower_that_leaves_is_not_remembered() -> None:
    shared = MemoryShared()
    async with shared.open() as state, state.follow("stream") as parts, state.follow("stream") as others:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(anext, parts)
            nursery.start_soon(anext, others)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert shared._data._followers == {}


@pytest.fixture(params=["memory", "sqlite"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    return MemoryShared() if request.param == "memory" else SqliteShared(tmp_path / "shared.db")


@pytest.mark.parametrize("name", ["", "x" * 201, "ü", "a\nb", "\x7f"])
async def test_invalid_names_are_refused(shared: Shared, name: str) -> None:
    async with shared.open() as state:
        for refused in (
            state.get(name),
            state.swap(name, None, b""),
            state.append(name, [b""], at_most=1),
            state.read(name, 0),
            state.last(name),
            state.lease(name, "name", b"", seconds=1),
            state.lease("group", name, b"", seconds=1),
            state.release(name, "name"),
            state.release("group", name),
            state.leases(name),
        ):
            with pytest.raises(ValueError, match="printable ASCII characters"):
                await refused
        with pytest.raises(ValueError, match="printable ASCII characters"):
            async with state.follow(name):
                raise AssertionError


async def test_times_and_lengths_must_be_above_0(shared: Shared) -> None:
    async with shared.open() as state:
        for seconds in (0.0, -1.0, math.nan):
            for refused in (
                state.swap("key", None, b"", seconds=seconds),
                state.append("stream", [b""], at_most=1, seconds=seconds),
                state.lease("group", "name", b"", seconds=seconds),
            ):
                with pytest.raises(ValueError, match="above 0 seconds"):
                    await refused
        with pytest.raises(ValueError, match="at least 1 entry"):
            await state.append("stream", [b""], at_most=0)


async def test_an_append_of_nothing_changes_nothing(shared: Shared) -> None:
    async with shared.open() as state, state.follow("stream") as parts:
        assert await state.append("stream", [], at_most=1) == 0
        assert await state.append("stream", [b"1"], at_most=1) == 1
        assert await state.append("stream", [], at_most=1) == 1
        assert await anext(parts) == StreamPart(1, (b"1",))


# --- The contract finds mistakes ---


@define
class _Wrong:
    """A state with a mistake: the methods that are given here replace those of the right one."""

    _right: SharedState
    _mistakes: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name in self._mistakes:
            return partial(self._mistakes[name], self._right)
        return getattr(self._right, name)


@define
class WrongContract(SharedContract):
    """The contract of a backend with a mistake."""

    __test__ = False

    mistakes: dict[str, Any] = field(factory=dict[str, Any])

    def new_backend(self) -> Shared:
        return _WrongShared(self.mistakes)


@define
class _WrongShared:
    mistakes: dict[str, Any]
    _shared: MemoryShared = field(factory=MemoryShared)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedState]:
        async with self._shared.open() as state:
            wrong: Any = _Wrong(state, self.mistakes)
            yield wrong


async def _swap_always(state: SharedState, key: str, old: bytes | None, new: bytes | None, **options: float) -> bool:
    while not await state.swap(key, await state.get(key), new, **options):
        pass
    return True


async def _swap_later(state: SharedState, key: str, old: bytes | None, new: bytes | None, **options: float) -> bool:
    if await state.get(key) != old:
        return False
    await trio.sleep(1)
    return await _swap_always(state, key, old, new, **options)


async def _swap_for_ever(state: SharedState, key: str, old: bytes | None, new: bytes | None, **_: float) -> bool:
    return await state.swap(key, old, new)


async def _append_one_by_one(
    state: SharedState, stream: str, entries: Sequence[bytes], at_most: int, **_: float
) -> int:
    last = 0
    for entry in entries:
        last = await state.append(stream, [entry], at_most=at_most)
    return last


def _follow_once(state: SharedState, stream: str) -> Any:
    return _Once(state, stream)


def _follow_from_start(state: SharedState, stream: str) -> Any:
    return _FromStart(state, stream)


@define
class _FromStart:
    """A follower that begins with the first entry."""

    _state: SharedState
    _stream: str

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamPart:
        return await self._state.read(self._stream, 0)


class _Once(_FromStart):
    """A follower that ends after it has seen something."""

    async def __anext__(self) -> StreamPart:
        if await self._state.last(self._stream) > 3:
            raise StopAsyncIteration
        return StreamPart(2, ())


MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "a swap that does not compare": (
        "test_a_value_is_swapped_only_if_it_is_the_old_one",
        {"swap": _swap_always},
    ),
    "a swap that is not atomic": ("test_of_competing_swaps_exactly_one_wins", {"swap": _swap_later}),
    "a value that does not expire": ("test_a_value_expires", {"swap": _swap_for_ever}),
    "an append that is not atomic": (
        "test_a_cancelled_append_has_appended_all_entries_or_none",
        {"append": _append_one_by_one},
    ),
    "a follower that ends": (
        "test_a_follower_gets_what_is_appended_after_its_block_was_entered",
        {"follow": _follow_once},
    ),
    "a follower that begins at the start": (
        "test_a_follower_gets_what_is_appended_after_its_block_was_entered",
        {"follow": _follow_from_start},
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_the_contract_finds_a_mistake(mistake: str, autojump_clock: MockClock) -> None:
    clause, mistakes = MISTAKES[mistake]
    with pytest.raises((AssertionError, ExceptionGroup)):
        await getattr(WrongContract(mistakes), clause)()


def test_the_contract_asks_for_a_backend() -> None:
    with pytest.raises(NotImplementedError, match="SharedContract must implement `new_backend`"):
        SharedContract().new_backend()
