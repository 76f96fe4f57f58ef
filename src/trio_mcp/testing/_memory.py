"""A client and a server in one test, with real bytes between them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Unpack

import trio
import trio.testing

from .._util import owned_nursery
from ..abc import Answerer
from ..client import Client, ClientOptions, open_stream_client
from ..server import serve_stream

__all__ = ["open_memory_client"]


@asynccontextmanager
async def open_memory_client(
    server: Answerer,
    *,
    lockstep: bool = False,
    wrap: Callable[[trio.abc.Stream], trio.abc.Stream] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Serve *server* and connect to it through bytes in memory: every rule of the wire is applied.

    Works with pytest-trio's ``autojump_clock``, plain `def` handlers included. The block sees its own exception bare.

    Args:
        lockstep: hand over each byte only when it is taken, which brings out deadlocks that buffers hide.
        wrap: is given the client's end of the bytes, and returns what the client uses in its place: a `FaultyStream`,
            say. Closing that must close what it was given.
        options: see `trio_mcp.ClientOptions`.
    """
    pair = trio.testing.lockstep_stream_pair() if lockstep else trio.testing.memory_stream_pair()
    ours, theirs = pair
    client_end = ours if wrap is None else wrap(ours)
    async with server.serving() as serving, owned_nursery() as nursery:
        ended = trio.Event()

        async def serve() -> None:
            await serve_stream(serving, theirs)
            ended.set()

        nursery.start_soon(serve)
        async with open_stream_client(client_end, **options) as client:
            yield client
        await ended.wait()  # the server has seen the end, so its lifespan is over when the test goes on
