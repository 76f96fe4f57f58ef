"""A backend that can be interrupted, and can lose its data."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from trio_mcp import MemoryShared, SharedUnavailable
from trio_mcp.abc import SharedState, StreamPart

__all__ = ["InterruptedShared"]

MESSAGE = "the backend 'test' cannot be reached"


@define(eq=False)
class InterruptedShared:
    """A `MemoryShared` that some processes reach over a line, which can be interrupted."""

    shared: MemoryShared = field(factory=MemoryShared)
    """The data. Another object in its place has lost it; those who follow a stream do not notice that."""
    is_down: bool = False
    """True while all calls fail. Those who follow a stream follow it nevertheless."""
    before: Callable[[str, str], Awaitable[None]] | None = None
    """Awaited before each call, with its method and its key, group or stream."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedState]:
        if self.is_down:
            raise SharedUnavailable(MESSAGE)
        yield _InterruptedState(self)

    @asynccontextmanager
    async def reach(self, method: str, name: str) -> AsyncGenerator[SharedState]:
        """Yield the state for one call, if the backend can be reached."""
        if self.before is not None:
            await self.before(method, name)
        if self.is_down:
            await trio.lowlevel.checkpoint()
            raise SharedUnavailable(MESSAGE)
        async with self.shared.open() as state:
            yield state


@define(eq=False)
class _InterruptedState:
    _line: InterruptedShared

    @property
    def host(self) -> str:
        return "127.0.0.1"

    async def get(self, key: str) -> bytes | None:
        async with self._line.reach("get", key) as state:
            return await state.get(key)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, *, seconds: float = math.inf) -> bool:
        async with self._line.reach("swap", key) as state:
            return await state.swap(key, old, new, seconds=seconds)

    async def append(self, stream: str, entries: Sequence[bytes], *, at_most: int, seconds: float = math.inf) -> int:
        async with self._line.reach("append", stream) as state:
            return await state.append(stream, entries, at_most=at_most, seconds=seconds)

    async def read(self, stream: str, after: int) -> StreamPart:
        async with self._line.reach("read", stream) as state:
            return await state.read(stream, after)

    async def last(self, stream: str) -> int:
        async with self._line.reach("last", stream) as state:
            return await state.last(stream)

    @asynccontextmanager
    async def follow(self, stream: str) -> AsyncGenerator[AsyncIterator[StreamPart]]:
        async with self._line.reach("follow", stream) as state, state.follow(stream) as parts:
            yield parts

    async def lease(self, group: str, name: str, value: bytes, *, seconds: float) -> None:
        async with self._line.reach("lease", group) as state:
            await state.lease(group, name, value, seconds=seconds)

    async def release(self, group: str, name: str) -> None:
        async with self._line.reach("release", group) as state:
            await state.release(group, name)

    async def leases(self, group: str) -> Mapping[str, bytes]:
        async with self._line.reach("leases", group) as state:
            return await state.leases(group)
