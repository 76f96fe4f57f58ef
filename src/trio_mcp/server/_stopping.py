"""Signals that ask a serving to stop: SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

from .._util import owned_nursery

__all__ = ["stopped_by_signals"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@asynccontextmanager
async def stopped_by_signals(stop: Callable[[], None], *, listen: bool) -> AsyncGenerator[None]:
    """Call *stop* at each signal to stop, if that is wanted and this is the main thread."""
    async with owned_nursery() as nursery:
        if listen and threading.current_thread() is threading.main_thread():
            await nursery.start(_call_on_signal, stop)
        yield


async def _call_on_signal(stop: Callable[[], None], *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(*_STOP_SIGNALS) as received:
        task_status.started()
        async for _ in received:
            stop()
