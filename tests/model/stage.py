"""A Trio event loop that a test runs step by step: one action, and then everything that follows from it.

The loop is a guest of the thread of the test, so that the plain functions of a state machine can drive it.
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
    """Return the number of examples that a test runs: *usual*, scaled by the profile of hypothesis (100 by default)."""
    assert settings.default is not None
    return usual * settings.default.max_examples // 100


@define(eq=False)
class Stage:
    """A guest run of Trio with a mock clock that stands still, and a nursery in it."""

    clock: MockClock = field(factory=MockClock)
    nursery: trio.Nursery = field(init=False)
    _todo: SimpleQueue[Callable[[], object]] = field(factory=SimpleQueue[Callable[[], object]], init=False)
    _token: trio.lowlevel.TrioToken = field(init=False)
    _ended: outcome.Outcome[None] | None = field(default=None, init=False)
    _is_idle: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._todo.put,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
            clock=self.clock,
        )
        self._run_until(lambda: self._is_idle)

    async def _main(self) -> None:
        async with trio.open_nursery() as self.nursery:
            self._token = trio.lowlevel.current_trio_token()
            self.nursery.start_soon(self._detect_idle)
            await trio.sleep_forever()

    async def _detect_idle(self) -> None:
        await wait_all_tasks_blocked()
        self._is_idle = True

    def _done(self, ended: outcome.Outcome[None]) -> None:
        self._ended = ended

    def _run_until(self, until: Callable[[], bool]) -> None:
        while not until():
            self._todo.get()()
            if self._ended is not None:
                self._ended.unwrap()
                return

    def do(self, function: Callable[..., T], *args: Any) -> T:
        """Call *function* inside Trio, wait until all tasks are blocked, and return its result.

        An exception that a task raises is raised by the step in which it happened.
        """
        done: list[outcome.Outcome[T]] = []

        def step() -> None:
            done.append(outcome.capture(function, *args))
            self.nursery.start_soon(self._detect_idle)

        self._is_idle = False
        self._token.run_sync_soon(step)
        self._run_until(lambda: self._is_idle)
        return done[0].unwrap()

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and run the tasks that waited for it."""
        self.do(self.clock.jump, seconds)

    def end(self) -> None:
        """Cancel the remaining tasks, skip the time that their clean-up takes, and end the run."""
        if self._ended is None:
            self._token.run_sync_soon(self._cancel)
            self._run_until(lambda: False)

    def _cancel(self) -> None:
        self.nursery.cancel_scope.cancel()
        self.clock.autojump_threshold = 0
