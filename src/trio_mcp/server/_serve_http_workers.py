"""A server over HTTP in several processes behind one address, any of which may get the next request of a client.

Rules of this file:

1. What one process has sealed, cursors and the states of questions, any other can open: they have a key in common,
   made by the parent for as long as it runs.
2. Nothing is remembered from one request to the next: handlers that ask are replayed, and there are no sessions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import trio

from .._util import owned_nursery
from ..transports import Inheritance, serve_workers
from ._cursors import keys_by_default
from ._serve_http import HttpBound, HttpService, Report
from ._stopping import stopped_by_signals

__all__ = ["serve_as_worker", "serve_in_workers", "shared_key"]

_KEY = "TRIO_MCP_HTTP_KEY"
"""The variable of a worker's environment in which the common key stands."""


async def serve_in_workers(
    service: HttpService, command: Sequence[str], workers: int, on_bound: Callable[[HttpBound], None]
) -> None:
    """Serve in so many processes until a signal comes; then wait for them to end.

    Args:
        service: what each of them serves; here it is not run.
        command: what each of them runs. It takes its `transports.Inheritance`, makes its server inside of
            `shared_key`, and calls `serve_as_worker`.
        on_bound: told where they can be reached, when all of them serve.

    Raises what `transports.serve_workers` raises.
    """
    stop = trio.Event()
    async with stopped_by_signals(stop.set, listen=True):
        await serve_workers(
            command,
            service.listening,
            workers=workers,
            stopping=stop.wait,
            drain_seconds=service.drain_seconds,
            env={_KEY: os.urandom(32).hex()},
            task_status=Report(service, on_bound),
        )


@contextmanager
def shared_key() -> Generator[None]:
    """Let servers that are made in the block, without keys, seal with what the workers have in common, if this is one.

    What is found is not handed on to the processes that this one starts.
    """
    text = os.environ.pop(_KEY, None)
    token = keys_by_default.set((bytes.fromhex(text),) if text else ())
    try:
        yield
    finally:
        keys_by_default.reset(token)


async def serve_as_worker(service: HttpService, inheritance: Inheritance) -> None:
    """Serve in one of the processes until a signal comes, or its parent wants it to end, or is gone."""

    async def obey() -> None:
        await inheritance.wait_dismissed()
        service.stop()

    async with owned_nursery() as nursery:

        def report(_: HttpBound) -> None:
            nursery.start_soon(inheritance.report_ready)

        nursery.start_soon(obey)
        await service.run(signals=True, sockets=inheritance.sockets, on_bound=report)
