"""HTTP engines that fail, or hold requests back, until the test lets them reach a scripted server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from tests.transports.http.scripted_server import ScriptedHttpServer
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import EngineError, HttpResponse

__all__ = ["BlockedEngine", "FlakyEngine"]


@define(eq=False)
class FlakyEngine:
    """An engine that reaches the server only while `is_up` is set."""

    server: ScriptedHttpServer
    is_up: bool = True
    down_for: str = ""
    """The HTTP method of the requests that fail while the server is down; empty: all of them."""
    refused: list[float] = field(factory=list[float], init=False)
    """The times at which a request failed."""

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
        """Pass the request on, or fail."""
        if not self.is_up and self.down_for in {"", method}:
            await trio.lowlevel.checkpoint()
            self.refused.append(trio.current_time())
            raise EngineError("cannot connect", sent=False)
        async with AsgiEngine(self.server).request(method, url, headers, content, on_sent=on_sent) as response:
            yield response

    async def aclose(self) -> None:
        """Fail: the transport must not close an engine that it did not open."""
        raise AssertionError("an engine of the caller's is not closed")


@define(eq=False)
class BlockedEngine:
    """An engine that holds requests back until `release` is set; then it passes them on, or raises `failure`."""

    server: ScriptedHttpServer
    blocked_content: str = "tools/call"
    """A string in the bodies of the requests that are held back."""
    failure: EngineError | None = None
    release: trio.Event = field(factory=trio.Event)

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
        """Pass the request on once it is released."""
        if self.blocked_content.encode() in content:
            await self.release.wait()
            if self.failure is not None:
                raise self.failure
        async with AsgiEngine(self.server).request(method, url, headers, content, on_sent=on_sent) as response:
            yield response

    async def aclose(self) -> None:
        """Fail: the transport must not close an engine that it did not open."""
        raise AssertionError("an engine of the caller's is not closed")
