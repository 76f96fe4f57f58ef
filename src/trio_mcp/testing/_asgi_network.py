"""A network in one process: what a client asks of several hosts goes to several ASGI applications."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import trio

from ..transports import AsgiApp, EngineError, HttpResponse
from ._asgi_bridge import AsgiEngine

__all__ = ["AsgiNetwork"]


class AsgiNetwork:
    """Carries the requests of HTTP clients to several ASGI applications in this process, by their origins.

    To be given to a client, as with `AsgiEngine`::

        network = AsgiNetwork({"https://mcp.example": app, "https://auth.example": auth})
        async with network.lifespan(), open_http_client("https://mcp.example/mcp", engine=network) as client:
            ...

    Requests to other origins cannot be made: there is nobody to connect to.

    Args:
        apps: ASGI 3 applications that run under Trio, by origin: scheme, host, and the port where it is not the usual.
        client: the address that requests come from, as the applications see it.

    Raises:
        ValueError: a key is no origin, or two are the same.
    """

    def __init__(self, apps: Mapping[str, AsgiApp], *, client: tuple[str, int] | None = ("127.0.0.1", 50_000)) -> None:
        self._engines = {_origin_of(url): AsgiEngine(app, client=client) for url, app in apps.items()}
        if len(self._engines) < len(apps) or any(urlsplit(url).path.strip("/") for url in apps):
            raise ValueError("AsgiNetwork: each key is another origin, such as 'https://mcp.example', without a path")

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Run the lifespans of all applications for as long as the block lasts; see `AsgiEngine.lifespan`."""
        async with AsyncExitStack() as stack:
            for engine in self._engines.values():
                await stack.enter_async_context(engine.lifespan())
            yield

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
        """Call the application that stands at the origin of *url*; see `HttpEngine.request`.

        Raises:
            EngineError: there is none.
        """
        engine = self._engines.get(_origin_of(url))
        if engine is None:
            await trio.lowlevel.checkpoint()
            raise EngineError(f"nobody listens at {'://'.join(_origin_of(url)[:2])}", sent=False)
        async with engine.request(method, url, headers, content, on_sent=on_sent) as response:
            yield response

    async def aclose(self) -> None:
        """There are no connections to close."""
        await trio.lowlevel.checkpoint()


def _origin_of(url: str) -> tuple[str, str, int]:
    """Return what tells origins apart; raises ValueError where there is none."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    if usual is None or not parts.hostname:
        raise ValueError(f"{url!r} has no origin of http or https")
    return parts.scheme, parts.hostname, parts.port or usual
