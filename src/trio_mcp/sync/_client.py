"""The openers of clients for programs without async, and the mirrors that they yield."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn

import trio_mcp

from .._mirrors import Mirrors, usage_of
from ._run import ThreadBlock, shared_run

__all__ = [
    "MIRRORS",
    "open_client",
    "open_clients",
    "open_http_client",
    "open_memory_client",
    "open_stdio_client",
]


def _blocking(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        bridge, mirrors = self._bridge, self._mirrors
        perform = partial(function, self._subject, *args, **mirrors.given(bridge, options))
        return mirrors.shown(bridge, bridge.wait(perform))

    return call


def _itself(self: Any) -> Any:
    return self


def _next(self: Any) -> Any:
    try:
        return self._mirrors.shown(self._bridge, self._bridge.wait(self._subject.__anext__))
    except StopAsyncIteration:
        raise StopIteration from None


def _enter(self: Any) -> Any:
    self._entered, value = ThreadBlock.enter(self._bridge, lambda: self._subject)
    return self._mirrors.shown(self._bridge, value)


def _leave(self: Any, _: object, raised: BaseException | None, __: object) -> None:
    self._entered.leave(raised)


MIRRORS = Mirrors(
    "trio_mcp.sync",
    _blocking,
    {"__iter__": _itself, "__next__": _next},
    {"__enter__": _enter, "__exit__": _leave},
)


class OpenedByThread(AbstractContextManager[Any]):
    """The block of an opener: it starts the thread of Trio when it is entered, if that does not run yet."""

    def __init__(self, opener: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._call = opener, args, options
        self._usage = usage_of(opener, "with")
        self._entered: ThreadBlock | None = None

    if not TYPE_CHECKING:  # type checkers refuse these uses by themselves

        def __aenter__(self) -> NoReturn:
            raise TypeError(
                f"this is a block without async: write `{self._usage}`; trio_mcp and trio_mcp.asyncio have those for "
                "`async with`"
            )

        __aexit__ = __await__ = __aenter__  # Python looks for both before it calls one

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"this is a block, and has no attribute {name!r}: write `{self._usage}`")

    def __enter__(self) -> Any:
        """Open the client."""
        run = shared_run()
        opener, args, options = self._call
        self._entered, value = ThreadBlock.enter(run, partial(opener, *args, **MIRRORS.given(run, options)))
        return MIRRORS.shown(run, value)

    def __exit__(self, _: object, raised: BaseException | None, __: object) -> None:
        """Close the client."""
        assert self._entered is not None
        self._entered.leave(raised)


def _opener(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def open_block(*args: Any, **options: Any) -> OpenedByThread:
        return OpenedByThread(function, args, options)

    open_block.__module__ = "trio_mcp.sync"
    return open_block


open_client = _opener(trio_mcp.open_client)
open_clients = _opener(trio_mcp.open_clients)
open_http_client = _opener(trio_mcp.open_http_client)
open_memory_client = _opener(trio_mcp.open_memory_client)
open_stdio_client = _opener(trio_mcp.open_stdio_client)
