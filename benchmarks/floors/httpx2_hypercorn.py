"""The cost of this project's HTTP libraries alone: httpx2 to Hypercorn on Trio, without MCP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import trio
from hypercorn.config import Config
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType] # its parameters have no types

from .calls_only import CallsOnly, CallsOnlySession, answer

__all__ = ["Httpx2Floor"]


class Httpx2Session(CallsOnlySession):
    """A session with a default client of httpx2."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url

    async def post(self, body: bytes) -> bytes:
        """Send one request."""
        response = await self.client.post(self.url, content=body, headers={"Content-Type": "application/json"})
        return response.content


class Httpx2Floor(CallsOnly):
    """See `sides.Adapter`."""

    @asynccontextmanager
    async def http(self, url: str, era: str) -> AsyncGenerator[Httpx2Session]:
        """Connect without limits of the client."""
        del era
        async with httpx2.AsyncClient() as client:
            yield Httpx2Session(client, url)

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve with the unchanged Trio worker of Hypercorn."""
        del server
        config = Config()
        config.bind = ["127.0.0.1:0"]
        config.errorlog = None

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                binds: list[str] = await nursery.start(partial(serve, _app, config, mode="asgi"))
                announce(binds[0])

        trio.run(main)


async def _app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    content = answer(body)
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": content})
