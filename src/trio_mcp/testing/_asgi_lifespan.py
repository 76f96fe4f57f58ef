"""The lifespan of an ASGI application, run as a server runs it.

Specification: https://asgi.readthedocs.io/en/stable/specs/lifespan.html
"""

from __future__ import annotations

from typing import Any

import trio
from attrs import define, field

from .._util import WIND_DOWN_SECONDS
from ..transports import AsgiApp, AsgiMessage

__all__ = ["ASGI", "AsgiLifespan"]

ASGI = {"version": "3.0", "spec_version": "2.4"}


@define(eq=False)
class AsgiLifespan:
    """One call of an application in which it starts, lasts and shuts down."""

    state: dict[str, Any] = field(factory=dict[str, Any], init=False)
    _stopping: trio.Event = field(factory=trio.Event, init=False)
    _over: trio.Event = field(factory=trio.Event, init=False)
    """Set when the application has returned."""
    _has_started: bool = field(default=False, init=False)
    _has_ended: bool = field(default=False, init=False)
    """Whether it has shut down in time."""
    _running: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Shielded once it has started: it is told when it ends, and not cancelled."""
    _failure: Exception | None = field(default=None, init=False)
    """What it raised, or said, instead of shutting down."""
    _is_asked: bool = field(default=False, init=False)

    async def run(self, app: AsgiApp, task_status: trio.TaskStatus[None]) -> None:
        """Call the application; it has started when it says so."""

        async def send(message: AsgiMessage) -> None:
            await trio.lowlevel.checkpoint()
            match message["type"]:
                case "lifespan.startup.complete":
                    self._has_started = self._running.shield = True
                    task_status.started()
                case "lifespan.startup.failed":
                    raise RuntimeError(f"the application could not start: {message.get('message', '')}")
                case "lifespan.shutdown.failed":
                    self._failure = RuntimeError(f"the application could not shut down: {message.get('message', '')}")
                case _:
                    pass  # that it has shut down shows when it returns

        try:
            with self._running:
                await app({"type": "lifespan", "asgi": ASGI, "state": self.state}, self._receive, send)
        except Exception as exc:
            if not self._stopping.is_set():
                raise
            self._failure = exc
        finally:
            self._over.set()
        if not self._has_started:
            raise RuntimeError("the application has returned without saying that it has started")

    async def stop(self) -> None:
        """Have the application shut down, within a bounded time."""
        self._stopping.set()
        with trio.move_on_after(WIND_DOWN_SECONDS, shield=True):
            await self._over.wait()
        self._has_ended = self._over.is_set()
        self._running.cancel()

    def check(self) -> None:
        """Raise what went wrong when it should shut down."""
        if self._failure is not None:
            raise self._failure
        if not self._has_ended:
            raise RuntimeError(f"the application has not shut down within {WIND_DOWN_SECONDS:g} s")

    async def _receive(self) -> AsgiMessage:
        await trio.lowlevel.checkpoint()
        if not self._is_asked:
            self._is_asked = True
            return {"type": "lifespan.startup"}
        await self._stopping.wait()
        return {"type": "lifespan.shutdown"}
