"""Serving over a byte stream, and over this process's own standard input and output.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import trio

from .._util import owned_nursery
from ..abc import Answerer, Serving
from ..peer import Link
from ..transports import claim_stdio, server_link

__all__ = ["serve_stdio", "serve_stream"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve_stream(server: Answerer | Serving, stream: trio.abc.Stream) -> None:
    """Serve one connection over any byte stream: a socket, a TLS stream, a pipe.

    Returns when the client's input has ended and the requests accepted until then are answered, or after
    `Limits.drain_seconds`. Closes the stream, also when cancelled.

    To serve many connections with one lifespan, open the serving yourself::

        async with server.serving() as serving:
            await trio.serve_tcp(partial(serve_stream, serving), 8000)

    Args:
        server: a `Server`, for a serving of its own, or one that is being served already.
        stream: carries newline-delimited JSON. The caller gives it up.
    """
    async with _serving(server) as serving:
        await server_link(stream, serving).run(drain=True)


async def serve_stdio(
    server: Answerer, *, signals: bool = True, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve over standard input and output, which are this function's own until it returns.

    Returns when the input has ended, or after one SIGINT or SIGTERM: no more is accepted, requests under way are
    answered for `Limits.drain_seconds` at most, and the rest is told that the server stops. Meanwhile a stray
    `print` goes to standard error, and is reported there.

    Args:
        signals: listen for SIGINT and SIGTERM, if this is the main thread and the function was not started through
            `nursery.start`, whose program has its own way to stop.

    Raises:
        OSError: standard input or output is closed.
        trio.BusyResourceError: standard input and output are being served already.
    """
    listen = signals and task_status is trio.TASK_STATUS_IGNORED
    listen = listen and threading.current_thread() is threading.main_thread()
    links: list[Link] = []
    opening = trio.CancelScope()

    def stop() -> None:
        """Stop accepting; or, while the lifespan is still being entered, give that up."""
        if links:
            links[0].stop()
        else:
            opening.cancel(reason="stopped by a signal")

    async with owned_nursery() as nursery:
        if listen:
            await nursery.start(_call_on_signal, stop)
        with opening:
            async with claim_stdio() as stream, server.serving() as serving:  # a lifespan may print, too
                links.append(server_link(stream, serving))
                task_status.started()
                await links[0].run(drain=True)


async def _call_on_signal(stop: Callable[[], None], *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(*_STOP_SIGNALS) as received:
        task_status.started()
        async for _ in received:
            stop()


def _serving(server: Answerer | Serving) -> AbstractAsyncContextManager[Serving]:
    return server.serving() if isinstance(server, Answerer) else nullcontext(server)
