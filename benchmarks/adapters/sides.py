"""What an adapter has to offer, so that the work can be written once. Uses the standard library alone.

A cell runs in its adapter's own interpreter, where this project may not be installed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

__all__ = ["Adapter", "Doing", "Loop", "Session"]

Doing = Callable[[], Awaitable[None]]
"""Something to be done in a task of its own."""


class Loop(Protocol):
    """What the work needs of an event loop."""

    def run(self, main: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
        """Run *main* and return its figures."""
        ...

    async def together(self, doings: Sequence[Doing]) -> None:
        """Do all of it at once."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def cancelled_after(self, doing: Doing, seconds: float) -> float:
        """Do something, cancel it after *seconds*, and return when that was, by `time.perf_counter`."""
        ...


class Session(Protocol):
    """An open connection to one server, whose tools are those of `tools.py`."""

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """What a tool with structured output returns."""
        ...

    async def text(self, size: int) -> str:
        """The only text block of the result of `text`."""
        ...

    async def blob(self) -> str:
        """The base64 of the resource ``blob://ten``."""
        ...

    async def tools(self) -> list[str]:
        """The names of all tools, whose schemas are found to be those of objects. Never from a cache."""
        ...

    async def storm(self, count: int, heard: Callable[[float], None]) -> Any:
        """What `storm` returns; *heard* is called with each progress, in the SDK's own order."""
        ...

    async def wait(self) -> None:
        """Call `wait`, which never returns."""
        ...


class Adapter(Protocol):
    """One SDK or floor. What it does not have raises `LookupError`."""

    @property
    def loop(self) -> Loop:
        """The event loop its client runs on."""
        ...

    def stdio(self, command: Sequence[str], era: str) -> AbstractAsyncContextManager[Session]:
        """Start a server with this command and connect to it."""
        ...

    def memory(self, server: Any, era: str) -> AbstractAsyncContextManager[Session]:
        """Connect to a server in this process."""
        ...

    def http(self, url: str, era: str) -> AbstractAsyncContextManager[Session]:
        """Connect to the server at a URL."""
        ...

    def server(self, dummies: int) -> Any:
        """A server with the tools, and so many more that do nothing."""
        ...

    def serve_stdio(self, server: Any) -> None:
        """Serve it over standard input and output, to the end of the input."""
        ...

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve it over HTTP until this process is ended; *announce* is given the URL."""
        ...
