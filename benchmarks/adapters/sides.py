"""The interface of an adapter, so that the work is written once. It uses only the standard library.

A cell runs in its adapter's own interpreter, where this project may not be installed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

__all__ = ["Adapter", "Doing", "Loop", "Session"]

Doing = Callable[[], Awaitable[None]]
"""A function that runs in a task of its own."""


class Loop(Protocol):
    """The interface of an event loop."""

    def run(self, main: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
        """Run *main* and return its figures."""
        ...

    async def together(self, doings: Sequence[Doing]) -> None:
        """Run all functions concurrently."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        ...

    async def cancelled_after(self, doing: Doing, seconds: float) -> float:
        """Run a function, cancel it after *seconds*, and return the time of the cancellation by `time.perf_counter`."""
        ...


class Session(Protocol):
    """An open connection to one server, whose tools are those of `tools.py`."""

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the structured result of a tool."""
        ...

    async def text(self, size: int) -> str:
        """Return the only text block of the result of `text`."""
        ...

    async def blob(self) -> str:
        """Return the base64 of the resource ``blob://ten``."""
        ...

    async def tools(self) -> list[str]:
        """Return the names of all tools after a check of their schemas, without a cache."""
        ...

    async def storm(self, count: int, on_progress: Callable[[float], None]) -> Any:
        """Return the result of `storm`; *on_progress* is called with each progress, in the order of the SDK."""
        ...

    async def wait(self) -> None:
        """Call `wait`, which never returns."""
        ...


class Adapter(Protocol):
    """One SDK or floor. An unsupported operation raises `LookupError`."""

    @property
    def loop(self) -> Loop:
        """The event loop of its client."""
        ...

    def stdio(self, command: Sequence[str], era: str) -> AbstractAsyncContextManager[Session]:
        """Start a server with this command and connect to it."""
        ...

    def memory(self, server: Any, era: str) -> AbstractAsyncContextManager[Session]:
        """Connect to a server in this process."""
        ...

    def http(self, url: str, era: str) -> AbstractAsyncContextManager[Session]:
        """Connect to the server at a URL; one of the scheme ``ws`` is that of a WebSocket."""
        ...

    def server(self, dummies: int) -> Any:
        """Return a server with the tools, and so many more that do nothing."""
        ...

    def serve_stdio(self, server: Any) -> None:
        """Serve it over standard input and output, to the end of the input."""
        ...

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve it over HTTP until this process ends; *announce* is called with the URL."""
        ...
