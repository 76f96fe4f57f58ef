"""Helpers of the surface tests: the members that each revision has, and tests that share one connection."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias, TypeVar, Unpack

import trio
from attrs import define, field

from tests.interaction.conftest import surface_program
from tests.interaction.openers import Opener
from tests.interaction.over_http import OVER_SOCKETS
from tests.interaction.surface_server import make_server
from trio_mcp import Client, ClientOptions, open_client, types
from trio_mcp.wire import is_array, is_object

MODERN = "2026-07-28"
FIRST_STRUCTURED = "2025-06-18"
FIRST_WITH_LINKS = "2025-06-18"
FIRST_WITH_SOUND = "2025-03-26"

SINCE = {
    "title": "2025-06-18",
    "_meta": "2025-06-18",
    "lastModified": "2025-06-18",
    "outputSchema": "2025-06-18",
    "icons": "2025-11-25",
}
"""Members of what servers list and send that came after the first revision."""

ICON = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
NOTES = {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-11-20T12:00:00Z"}
META = {"example.com/colour": "red"}
ABOUT = {"title": "A title", "description": "A description.", "icons": [ICON], "_meta": META}
INFO = {
    "name": "surface",
    "version": "1.0",
    "title": "Surface",
    "description": "One of everything.",
    "websiteUrl": "https://example.com",
    "icons": [ICON],
}

SurfaceTest: TypeAlias = Callable[[Opener, str], Awaitable[None]]
PageOpener: TypeAlias = Callable[["int | None", ClientOptions], AbstractAsyncContextManager[Client]]
"""Opens a client of a new server, whose lists have pages of this size."""
Test = TypeVar("Test", bound=SurfaceTest)
Json = TypeVar("Json")


def known(revision: str, value: Json) -> Json:
    """Return a JSON value of the newest revision without the members that *revision* lacks."""
    known_value: Any = _known(revision, value)
    return known_value  # type: ignore[no-any-return] # of the same type as the value


def _known(revision: str, value: Any) -> Any:
    if is_object(value):
        return {name: _known(revision, each) for name, each in value.items() if SINCE.get(name, "") <= revision}
    return [_known(revision, each) for each in value] if is_array(value) else value


def result(
    revision: str,
    members: dict[str, Any],
    *,
    meta: dict[str, Any] | None = None,
    kept: tuple[int, str] | None = None,
) -> dict[str, Any]:
    """Return a whole result: *members*, and what *revision* adds to each.

    Args:
        meta: what the handler has put into its `_meta`; every revision carries that.
        kept: the cache lifetime in milliseconds and the cache scope, if the result is cacheable.
    """
    if revision != MODERN:
        return members | ({} if meta is None else {"_meta": meta})
    added: dict[str, Any] = {
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO, **(meta or {})},
    }
    return members | added | ({} if kept is None else {"ttlMs": kept[0], "cacheScope": kept[1]})


PRIVATE = (0, "private")


@define
class SharedTests:
    """The tests of one file, which also run over slow transports with one shared connection."""

    _tests: list[SurfaceTest] = field(factory=list[SurfaceTest], init=False)

    def add(self, test: Test) -> Test:
        """Add a test and return it unchanged."""
        self._tests.append(test)
        return test

    async def run_over_stdio(self, revision: str) -> None:
        await self._play(over_stdio, revision)

    async def run_over_a_socket(self, transport: str, revision: str) -> None:
        await self._play(partial(over_a_socket, transport), revision)

    async def _play(self, opener: PageOpener, revision: str) -> None:
        with trio.fail_after(60):
            async with _shared(opener, revision) as surface:
                for test in self._tests:
                    await test(surface, revision)


def over_stdio(page_size: int | None, options: ClientOptions) -> AbstractAsyncContextManager[Client]:
    return open_client([sys.executable, *surface_program(page_size)], **options)


def over_a_socket(transport: str, page_size: int | None, options: ClientOptions) -> AbstractAsyncContextManager[Client]:
    return OVER_SOCKETS[transport](make_server(page_size=page_size), options)


@asynccontextmanager
async def _shared(opener: PageOpener, revision: str) -> AsyncGenerator[Opener]:
    """Yield an opener that returns the shared client, or a new one if it is called with options."""
    shared: dict[int | None, Client] = {}
    async with AsyncExitStack() as stack:

        async def opened(page_size: int | None) -> Client:
            if page_size not in shared:
                shared[page_size] = await stack.enter_async_context(opener(page_size, {"revision": revision}))
            return shared[page_size]

        @asynccontextmanager
        async def connect(page_size: int | None = None, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
            if options:
                options.setdefault("revision", revision)
                opening = opener(page_size, options)
            else:
                opening = nullcontext(await opened(page_size))
            async with opening as client:
                yield client

        yield connect


def plain(value: Any) -> Any:
    """Return what *value* looks like on the wire, with everything the peer has sent."""
    return types.unstructure(value)
