"""Engines of HTTP that reach a server by hand only when the test says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from tests.transports.http.scripted_server import HttpScript
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import EngineError, HttpResponse

__all__ = ["Flaky", "Gated"]


@define(eq=False)
class Flaky:
    """Reaches the server only while it is up."""

    server: HttpScript
    is_up: bool = True
    down_for: str = ""
    """The method of the only requests that it does not reach it with, if not all."""
    refused: list[float] = field(factory=list[float], init=False)
    """When it could not be reached."""

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Pass it on, or fail."""
        if not self.is_up and self.down_for in {"", method}:
            await trio.lowlevel.checkpoint()
            self.refused.append(trio.current_time())
            raise EngineError("cannot connect", sent=False)
        async with AsgiEngine(self.server).request(method, url, headers, content, on_sent=on_sent) as response:
            yield response

    async def aclose(self) -> None:
        """Nobody may call it."""
        raise AssertionError("an engine of the caller's is not closed")


@define(eq=False)
class Gated:
    """Reaches the server when the gate is open; with a failure, never."""

    server: HttpScript
    held: str = "tools/call"
    """What requests that have to wait hold in their bodies."""
    failure: EngineError | None = None
    admission: trio.Event = field(factory=trio.Event)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Pass it on in time."""
        if self.held.encode() in content:
            await self.admission.wait()
            if self.failure is not None:
                raise self.failure
        async with AsgiEngine(self.server).request(method, url, headers, content, on_sent=on_sent) as response:
            yield response

    async def aclose(self) -> None:
        """Nobody may call it."""
        raise AssertionError("an engine of the caller's is not closed")
