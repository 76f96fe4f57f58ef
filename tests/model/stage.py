"""A Trio that moves only when it is told to: one step of a test, and then all that follows from it.

It is a guest of the test's own thread, so that the rules of a state machine, which are plain functions, can drive it.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import outcome
import trio
from attrs import define, field
from hypothesis import settings
from trio.testing import MockClock, wait_all_tasks_blocked

__all__ = ["Stage", "examples"]

T = TypeVar("T")


def examples(usual: int) -> int:
    """Return how many examples a test runs: *usual*, or more under a profile with more than hypothesis's own 100."""
    assert settings.default is not None
    return usual * settings.default.max_examples // 100


@define(eq=False)
class Stage:
    """One run of Trio under a clock that stands still, and its nursery."""

    clock: MockClock = field(factory=MockClock)
    nursery: trio.Nursery = field(init=False)
    _todo: SimpleQueue[Callable[[], object]] = field(factory=SimpleQueue[Callable[[], object]], init=False)
    _token: trio.lowlevel.TrioToken = field(init=False)
    _ended: outcome.Outcome[None] | None = field(default=None, init=False)
    _resolved: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._todo.put,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
            clock=self.clock,
        )
        self._go_on(lambda: self._resolved)

    async def _main(self) -> None:
        async with trio.open_nursery() as self.nursery:
            self._token = trio.lowlevel.current_trio_token()
            self.nursery.start_soon(self._resolve)
            await trio.sleep_forever()

    async def _resolve(self) -> None:
        await wait_all_tasks_blocked()
        self._resolved = True

    def _done(self, ended: outcome.Outcome[None]) -> None:
        self._ended = ended

    def _go_on(self, until: Callable[[], bool]) -> None:
        while not until():
            self._todo.get()()
            if self._ended is not None:
                self._ended.unwrap()
                return

    def do(self, function: Callable[..., T], *args: Any) -> T:
        """Call *function* inside Trio; return what it returns when all that follows has happened.

        Whatever a task raises comes out of the step that it happened in.
        """
        done: list[outcome.Outcome[T]] = []

        def step() -> None:
            done.append(outcome.capture(function, *args))
            self.nursery.start_soon(self._resolve)

        self._resolved = False
        self._token.run_sync_soon(step)
        self._go_on(lambda: self._resolved)
        return done[0].unwrap()

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on, and what waited for it happen."""
        self.do(self.clock.jump, seconds)

    def end(self) -> None:
        """Cancel what is left, let the time pass that it may take to clean up, and end the run."""
        if self._ended is None:
            self._token.run_sync_soon(self._cancel)
            self._go_on(lambda: False)

    def _cancel(self) -> None:
        self.nursery.cancel_scope.cancel()
        self.clock.autojump_threshold = 0
