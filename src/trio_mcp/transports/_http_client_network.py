"""What carries the requests of a client: those to its server, and those beside them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from ..abc import Fetch
from ._http_engine import HttpEngine
from ._http_fetch import engine_fetch

if TYPE_CHECKING:
    from ._httpx_engine import HttpxClient

__all__ = ["Network", "open_network"]


@frozen
class Network:
    """What a client reaches others by."""

    engine: HttpEngine
    """Carries requests to the server."""
    fetch: Fetch | None
    """Makes requests to others; None where nobody wants any."""


@asynccontextmanager
async def open_network(
    url: str, engine: HttpEngine | None, http_client: HttpxClient | None, *, fetches: bool
) -> AsyncGenerator[Network]:
    """Open what a client of the server at *url* needs.

    Args:
        engine: carries everything, if it is given; not closed.
        http_client: else it does, if it is given; not closed.
        fetches: whether there are to be requests to others: what makes them takes its time to open.
    """
    if engine is not None:
        yield Network(engine, engine_fetch(engine))
        return
    from ._httpx_engine import HttpxEngine, new_httpx_client  # noqa: PLC0415 # takes its time to load
    from ._httpx_fetch import open_client_fetch  # noqa: PLC0415 # likewise

    own = HttpxEngine(http_client or new_httpx_client(), closes=http_client is None, notes_address=fetches)
    try:
        async with open_client_fetch(url, own, http_client) if fetches else nullcontext() as fetch:
            yield Network(own, fetch)
    finally:
        with trio.CancelScope(shield=True):  # there is nothing left in it that could wait
            await own.aclose()
