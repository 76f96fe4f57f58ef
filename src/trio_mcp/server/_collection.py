"""Full garbage collections in a process that exists to serve: they do not visit again what they know to stay.

A full collection of Python visits every container object of the process, and nobody is served meanwhile. That takes
50 milliseconds for the modules alone, and 200 with 2,000 calls in flight. A client that makes calls makes collections.

Rules of this file:

1. The objects that exist when the serving begins are frozen (`gc.freeze`), and so are those that survive a collection
   that took long. Collections do not visit frozen objects. Full collections are therefore short, and made more often
   than usual, so that each has less to visit.
2. A frozen object is freed as ever when the last reference to it is gone. Only reference cycles of frozen objects stay.
   So everything is visited again when there are twice as many frozen objects as at the last time, and many; and once
   an hour, because it is the pause that this file avoids.
3. This is for the process of a server (`stopped_by_signals`). A host program decides for itself.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from attrs import define, field

__all__ = ["FrozenHeap", "frozen_heap"]

_LONG_SECONDS = 0.005
_MIDDLE_COLLECTIONS = 3
"""The number of collections of the middle generation after which there may be a full one; Python's default is 10."""
_THAW_SECONDS = 3600.0
_COUNT_SECONDS = 10.0
_GROWTH = 2
_MANY = 500_000  # about a hundred megabytes
_FULL = 2
"""The generation of a full collection."""


@contextmanager
def frozen_heap(*, is_own_process: bool) -> Generator[None]:
    """Apply the rules of this file for the duration of the block, unless the process is that of a host program.

    A collector that is disabled stays so.
    """
    if not is_own_process:
        yield
        return
    heap = FrozenHeap()
    gc.freeze()
    gc.callbacks.append(heap.on_collection)
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, min(old, _MIDDLE_COLLECTIONS))
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.callbacks.remove(heap.on_collection)
        gc.unfreeze()


@define(eq=False)
class FrozenHeap:
    """The frozen objects of this process.

    Args:
        clock: returns the time in seconds.
        many: the number of frozen objects below which their growth does not matter.
    """

    _clock: Callable[[], float] = time.perf_counter
    _many: int = field(default=_MANY, alias="many")
    _began: float = field(default=0.0, init=False)
    """The time at which the current collection began."""
    _most: int = field(init=False)
    """The number of frozen objects above which all are visited again."""
    _until: float = field(init=False)
    """The time at which all are visited again."""
    _count_at: float = field(init=False)
    """The time at which the frozen objects are counted again."""
    _is_thawed: bool = field(default=False, init=False)
    """True if the next full collection visits everything."""

    def __attrs_post_init__(self) -> None:
        self._most = self._many
        now = self._clock()
        self._until, self._count_at = now + _THAW_SECONDS, now + _COUNT_SECONDS

    def on_collection(self, phase: str, info: dict[str, Any]) -> None:
        """Look at a collection; `gc` calls this at its start and at its end."""
        if info["generation"] != _FULL:
            return
        now = self._clock()
        if phase == "start":
            self._began = now
        elif now - self._began >= _LONG_SECONDS:
            self._after_long_collection(now)

    def _after_long_collection(self, now: float) -> None:
        gc.freeze()
        if self._is_thawed:
            self._is_thawed = False
            self._most = max(self._many, _GROWTH * gc.get_freeze_count())
            self._until = now + _THAW_SECONDS
        elif now >= self._until or self._has_grown(now):
            gc.unfreeze()
            self._is_thawed = True

    def _has_grown(self, now: float) -> bool:
        """Return True if too many objects are frozen. They are counted now and then, because that visits them all."""
        if now < self._count_at:
            return False
        self._count_at = now + _COUNT_SECONDS
        return gc.get_freeze_count() > self._most
