"""The openers of clients for asyncio, and the mirrors that they yield."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from outcome import Value

import trio_mcp

from .._mirrors import Mirrors, usage_of
from .._misuse import AsyncWithOnly
from ._run import EnteredBlock, current_run

__all__ = [
    "MIRRORS",
    "open_client",
    "open_clients",
    "open_http_client",
    "open_memory_client",
    "open_stdio_client",
]


def _coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def call(self: Any, *args: Any, **options: Any) -> Any:
        bridge, mirrors = self._bridge, self._mirrors
        perform = partial(function, self._subject, *args, **mirrors.given(bridge, options))
        return mirrors.shown(bridge, await bridge.wait(perform))

    return call


def _itself(self: Any) -> Any:
    return self


async def _next(self: Any) -> Any:
    if self._unread is None:
        read = self._bridge.begin(self._subject.__anext__)
        try:
            await read.wait_finished()
        except asyncio.CancelledError:
            if isinstance(read.outcome, Value):  # for the next reader
                self._unread = read
            raise
    else:
        read, self._unread = self._unread, None
    return self._mirrors.shown(self._bridge, read.result())


async def _enter(self: Any) -> Any:
    self._entered, value = await EnteredBlock.enter(self._bridge, lambda: self._subject)
    return self._mirrors.shown(self._bridge, value)


async def _leave(self: Any, _: object, raised: BaseException | None, __: object) -> None:
    await self._entered.leave(raised)


MIRRORS = Mirrors(
    "trio_mcp.asyncio",
    _coroutine,
    {"__aiter__": _itself, "__anext__": _next, "_unread": None},
    {"__aenter__": _enter, "__aexit__": _leave},
)


class OpenedByAsyncio(AsyncWithOnly, AbstractAsyncContextManager[Any]):
    """The block of an opener: it starts Trio when it is entered, if Trio does not run yet on this loop."""

    def __init__(self, opener: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._call = opener, args, options
        self._usage = usage_of(opener, "async with")
        self._entered: EnteredBlock | None = None

    async def __aenter__(self) -> Any:
        """Open the client."""
        run = await current_run()
        opener, args, options = self._call
        self._entered, value = await EnteredBlock.enter(run, partial(opener, *args, **MIRRORS.given(run, options)))
        return MIRRORS.shown(run, value)

    async def __aexit__(self, _: object, raised: BaseException | None, __: object) -> None:
        """Close the client."""
        assert self._entered is not None
        await self._entered.leave(raised)


def _opener(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def open_block(*args: Any, **options: Any) -> OpenedByAsyncio:
        return OpenedByAsyncio(function, args, options)

    open_block.__module__ = "trio_mcp.asyncio"
    return open_block


if TYPE_CHECKING:  # with the same signatures as here
    from trio_mcp import open_client, open_clients, open_http_client, open_memory_client, open_stdio_client
else:
    open_client = _opener(trio_mcp.open_client)
    open_clients = _opener(trio_mcp.open_clients)
    open_http_client = _opener(trio_mcp.open_http_client)
    open_memory_client = _opener(trio_mcp.open_memory_client)
    open_stdio_client = _opener(trio_mcp.open_stdio_client)
