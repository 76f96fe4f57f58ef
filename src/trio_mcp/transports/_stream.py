"""Links over any `trio.abc.Stream`: sockets, TLS, pipes, memory streams; newline-delimited JSON, as on stdio.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

from .._errors import ConnectionLost
from .._util import owned_nursery
from ..abc import Client, Serving, Transport, TransportOpener
from ..peer import Link
from ..wire import JsonObject
from ._pipes import ImmediateStream
from ._tap import tapped

__all__ = ["connect_link", "server_link", "stream_transport"]


def stream_transport(stream: trio.abc.Stream) -> TransportOpener:
    """Return an opener that speaks over *stream*, once; the stream is closed at the end."""

    @asynccontextmanager
    async def connect(client: Client) -> AsyncGenerator[Transport]:
        async with connect_link(stream, client) as link:
            yield link

    return connect


@asynccontextmanager
async def connect_link(
    stream: trio.abc.Stream, client: Client, why_lost: Callable[[], ConnectionLost] | None = None
) -> AsyncGenerator[Link]:
    """Run the client's end of a link over *stream* for as long as the block lasts.

    Args:
        why_lost: names the reason when the other side's output has ended.
    """
    stream = tapped(stream, client.tap, client.limits.max_message_bytes)
    link = Link(client.gate, client.answer, client.notified, client.limits, stream, send_now=_sender(stream))
    async with owned_nursery() as nursery:
        nursery.start_soon(lambda: link.run(drain=False, why_lost=why_lost), name="link")
        yield link


def server_link(stream: trio.abc.Stream, serving: Serving) -> Link:
    """Return the server's end of a link over *stream*, which it will close."""

    def notified(method: str, params: JsonObject) -> None:
        serving.notified(method, params, link)

    link = Link(serving.gate(), serving.answer, notified, serving.limits, stream, send_now=_sender(stream))
    return link


def _sender(stream: trio.abc.Stream) -> Callable[[bytes | memoryview], int] | None:
    """Return what sends without waiting; None where the stream has nothing of the kind."""
    return stream.send_now if isinstance(stream, ImmediateStream) else None
