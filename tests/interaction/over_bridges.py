"""Clients for asyncio and for programs without async, driven by tests of Trio: the way there and back.

The client runs in another thread, on a loop of asyncio or without async. The test gets an object that looks like the
Trio client again: each call goes to the mirror in that thread, and each callback comes back to the test.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from typing import Any, Unpack, cast

import trio
from attrs import define, evolve

from tests.interaction.openers import OPENERS, Opener
from trio_mcp import Client, ClientOptions, Extension, Server, serve_stream
from trio_mcp._mirrors import CALLBACKS, Mirror
from trio_mcp.asyncio import open_client as open_on_asyncio
from trio_mcp.sync import open_client as open_without_async

__all__ = ["ALL_OPENERS", "OVER_BRIDGES"]


class World(ABC):
    """The thread of a mirror."""

    @abstractmethod
    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of a mirror, and return its result."""

    @abstractmethod
    def callback(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callback of that world that calls one of the test."""

    @abstractmethod
    def is_awaited(self, kind: type, name: str) -> bool:
        """Return True if the Trio client awaits the method."""

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {name: self._option(name, value) for name, value in options.items()}

    def _option(self, name: str, value: Any) -> Any:
        if name in CALLBACKS and callable(value):
            return self.callback(value)
        if name in {"methods", "notifications"} and value is not None:
            return {each: self.callback(function) for each, function in value.items()}
        if name == "extensions" and isinstance(value, Sequence):
            extensions = cast("Sequence[Extension]", value)
            return [
                evolve(each, result_types={name: self.callback(take) for name, take in each.result_types.items()})
                for each in extensions
            ]
        return value


@define(eq=False)
class Asyncio(World):
    loop: asyncio.AbstractEventLoop
    token: trio.lowlevel.TrioToken

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        waiting = trio.lowlevel.current_task()
        cancellations: list[Callable[[], Any]] = []
        tasks: list[asyncio.Task[Any]] = []

        def start() -> None:
            coroutine: Coroutine[Any, Any, Any] = function(*args, **self.options(options))
            tasks.append(self.loop.create_task(coroutine))
            tasks[0].add_done_callback(wake)

        def cancel() -> None:
            tasks[0].cancel()

        def wake(_: object) -> None:
            self.token.run_sync_soon(trio.lowlevel.reschedule, waiting)

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            cancellations.append(raise_cancel)
            self.loop.call_soon_threadsafe(cancel)
            return trio.lowlevel.Abort.FAILED

        self.loop.call_soon_threadsafe(start)
        await trio.lowlevel.wait_task_rescheduled(abort)
        if tasks[0].cancelled():
            cancellations[0]()
        return tasks[0].result()

    def callback(self, function: Callable[..., Any]) -> Callable[..., Any]:
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

    def callback(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*values: Any) -> Any:
            return trio.from_thread.run(function, *values, trio_token=self.token)

        return call

    def is_awaited(self, kind: type, name: str) -> bool:
        member: Any = inspect.getattr_static(kind, name)
        return inspect.iscoroutinefunction(inspect.unwrap(member))


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

    def _method(self, name: str) -> Any:
        """Return a special method: blocks of each kind also have those of the other, which name the cure."""
        return getattr(self._mirror, name.replace("__a", "__") if isinstance(self._world, Threads) else name)

    def __aiter__(self) -> Back:
        return self

    async def __anext__(self) -> Any:
        return self._back(await self._world.call(self._method("__anext__")))

    async def __aenter__(self) -> Any:
        return self._back(await self._world.call(self._method("__aenter__")))

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await self._world.call(self._method("__aexit__"), None, None, None)


@asynccontextmanager
async def _served(server: Server) -> AsyncGenerator[trio.SocketStream]:
    """Serve *server* in the Trio run of the test, at one end of a pair of sockets; yield the other end."""
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in socket.socketpair())
    async with trio.open_nursery() as nursery, server.serving() as serving:
        nursery.start_soon(serve_stream, serving, theirs)
        yield ours
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def over_asyncio(server: Server, options: ClientOptions) -> AsyncGenerator[Client]:
    """Serve *server*, and open a client for asyncio on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    world = Asyncio(loop, trio.lowlevel.current_trio_token())
    try:
        async with _served(server) as stream:
            block = open_on_asyncio(stream, **cast("Any", world.options(dict(options))))
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
    """Serve *server*, and open a client without async, which is used from worker threads."""
    world = Threads(trio.lowlevel.current_trio_token())
    async with _served(server) as stream:
        block = open_without_async(stream, **cast("Any", world.options(dict(options))))
        async with Back(world, block) as client:
            yield client


OVER_BRIDGES = {"asyncio": over_asyncio, "sync": over_sync}
"""Functions that serve a server and open a client of a bridge, by the name of the bridge."""


def _opener(bridge: str) -> Opener:
    def open_it(server: Server, **options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
        return OVER_BRIDGES[bridge](server, options)

    return open_it


ALL_OPENERS: dict[str, Opener] = {**OPENERS, **{bridge: _opener(bridge) for bridge in OVER_BRIDGES}}
"""The openers for Trio, and those of the bridges."""
