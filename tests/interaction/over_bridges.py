"""Clients for asyncio and for programs without async, driven by tests of Trio: the way there and back.

The client runs in another thread, on a loop of asyncio or without async. The test gets an object that looks like the
Trio client again: each call goes to the mirror in that thread, and each callback comes back to the test.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, cast

import trio
from attrs import define

from trio_mcp import Client, ClientOptions, Server
from trio_mcp._mirrors import Mirror
from trio_mcp.asyncio import open_client as open_on_asyncio
from trio_mcp.sync import open_client as open_without_async

__all__ = ["over_asyncio", "over_sync"]

CALLBACKS = ("on_elicit", "on_sample", "on_log", "on_progress", "roots")


class World(ABC):
    """The thread of a mirror."""

    @abstractmethod
    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of a mirror, and return its result."""

    @abstractmethod
    def callback(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """Return a callback of that world that calls one of the test."""

    @abstractmethod
    def is_awaited(self, kind: type, name: str) -> bool:
        """Return True if the Trio client awaits the method."""

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self.callback(cast("Callable[..., Any]", value)) if name in CALLBACKS and callable(value) else value
            for name, value in options.items()
        }


@define(eq=False)
class Asyncio(World):
    loop: asyncio.AbstractEventLoop
    token: trio.lowlevel.TrioToken

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        coroutine: Coroutine[Any, Any, Any] = function(*args, **self.options(options))
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        waiting = trio.lowlevel.current_task()
        cancellations: list[Callable[[], Any]] = []

        def wake(_: object) -> None:
            self.token.run_sync_soon(trio.lowlevel.reschedule, waiting)

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            cancellations.append(raise_cancel)
            future.cancel()
            return trio.lowlevel.Abort.FAILED

        future.add_done_callback(wake)
        await trio.lowlevel.wait_task_rescheduled(abort)
        if future.cancelled():
            cancellations[0]()
        return future.result()

    def callback(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @wraps(function)
        async def call(*values: Any) -> Any:
            ask = partial(trio.from_thread.run, function, *values, trio_token=self.token)
            return await asyncio.to_thread(ask)

        return call

    def is_awaited(self, kind: type, name: str) -> bool:
        return inspect.iscoroutinefunction(inspect.getattr_static(kind, name))


@define(eq=False)
class Threads(World):
    token: trio.lowlevel.TrioToken

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def blocking() -> Any:
            try:
                return function(*args, **self.options(options))
            except StopIteration:
                raise StopAsyncIteration from None

        return await trio.to_thread.run_sync(blocking, abandon_on_cancel=True)

    def callback(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @wraps(function)
        def call(*values: Any) -> Any:
            return trio.from_thread.run(function, *values, trio_token=self.token)

        return call

    def is_awaited(self, kind: type, name: str) -> bool:
        return not isinstance(inspect.getattr_static(kind, name), property) and name not in {
            *("tools", "resources", "resource_templates", "prompts", "listen", "open_call", "statistics", "extension"),
        }


class Back:
    """An object of a mirror, as the Trio client would be."""

    def __init__(self, world: World, mirror: Any) -> None:
        self._world, self._mirror = world, mirror

    def __getattr__(self, name: str) -> Any:
        world, mirror = self._world, self._mirror
        kind: type[object] = mirror.__class__
        if isinstance(inspect.getattr_static(kind, name), property):
            return self._back(getattr(mirror, name))
        if world.is_awaited(kind, name):

            async def call(*args: Any, **options: Any) -> Any:
                return self._back(await world.call(getattr(mirror, name), *args, **options))

            return call

        def look(*args: Any, **options: Any) -> Any:
            return self._back(getattr(mirror, name)(*args, **options))

        return look

    def _back(self, value: Any) -> Any:
        return Back(self._world, value) if isinstance(value, Mirror) else value

    def _method(self, *names: str) -> Any:
        kind: type[object] = self._mirror.__class__
        return next(getattr(self._mirror, name) for name in names if hasattr(kind, name))

    def __aiter__(self) -> Back:
        return self

    async def __anext__(self) -> Any:
        return self._back(await self._world.call(self._method("__anext__", "__next__")))

    async def __aenter__(self) -> Any:
        return self._back(await self._world.call(self._method("__aenter__", "__enter__")))

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await self._world.call(self._method("__aexit__", "__exit__"), None, None, None)


@asynccontextmanager
async def over_asyncio(server: Server, options: ClientOptions) -> AsyncGenerator[Client]:
    """Open a client for asyncio, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    world = Asyncio(loop, trio.lowlevel.current_trio_token())
    block = open_on_asyncio(server, **cast("Any", world.options(dict(options))))
    try:
        async with Back(world, block) as client:
            yield client
    finally:
        with trio.CancelScope(shield=True):
            await world.call(loop.shutdown_asyncgens)
            loop.call_soon_threadsafe(loop.stop)
            await trio.to_thread.run_sync(thread.join)
        loop.close()


@asynccontextmanager
async def over_sync(server: Server, options: ClientOptions) -> AsyncGenerator[Client]:
    """Open a client without async, and use it from worker threads."""
    world = Threads(trio.lowlevel.current_trio_token())
    block = open_without_async(server, **cast("Any", world.options(dict(options))))
    async with Back(world, block) as client:
        yield client
