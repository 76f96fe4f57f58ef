"""The place of an event loop in a program without async: its coroutines never suspend, and threads run many at once."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .sides import Doing

__all__ = ["ThreadsLoop"]


class ThreadsLoop:
    """See `sides.Loop`."""

    def run(self, main: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
        """Run it in this thread."""
        figures: dict[str, float] = _finished(main)
        return figures

    async def together(self, doings: Sequence[Doing]) -> None:
        """Run each in a thread of its own; a single one in this thread."""
        if len(doings) == 1:
            _finished(doings[0])
            return
        with ThreadPoolExecutor(len(doings)) as threads:
            for _ in threads.map(_finished, doings):
                pass

    async def sleep(self, seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)  # noqa: ASYNC251 # there is no event loop

    async def cancelled_after(self, doing: Doing, seconds: float) -> float:
        """Raise, because a call that blocks a thread cannot be cancelled."""
        raise LookupError(f"a thread cannot cancel {doing} after {seconds} s")


def _finished(function: Callable[[], Awaitable[Any]]) -> Any:
    """Return the result of a coroutine that blocks instead of suspending."""
    try:
        function().__await__().send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"{function} suspended, and there is no event loop")
