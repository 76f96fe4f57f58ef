"""The lifespan of an ASGI application, around the time in which it is served.

Stands in for Hypercorn's, which takes an application that fails at its start for one that knows no lifespan. Here it
is one if it fails, or returns, before it asks what there is to do.

Specification: https://asgi.readthedocs.io/en/latest/specs/lifespan.html
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio

from .._util import owned_nursery
from ._asgi import AsgiApp, AsgiMessage
from ._hypercorn_tasks import contained

__all__ = ["lifespan_of"]

_log = logging.getLogger("trio_mcp.transports")


@asynccontextmanager
async def lifespan_of(app: AsgiApp) -> AsyncGenerator[dict[str, Any]]:
    """Start the application; at the end of the block, shut it down. The block gets the state for its requests.

    Raises:
        BaseException: whatever the application raised when it started or was shut down, as it is.
        RuntimeError: it said that it failed, and raised nothing.

    A failure between the two is logged. Cancellation, or an exception in the block, cancels the application.
    """
    lifespan = _Lifespan(app)
    try:
        async with owned_nursery() as nursery:
            nursery.start_soon(lifespan.run, name="the application's lifespan")
            await lifespan.start()
            yield lifespan.state
            await lifespan.shut_down()
    finally:
        lifespan.report()


_ANSWERS = {f"{stage}.{result}" for stage in ("startup", "shutdown") for result in ("complete", "failed")}


class _Lifespan:
    def __init__(self, app: AsgiApp) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._told = ""
        """What the application was told last: nothing, `startup` or `shutdown`."""
        self._answer: str | None = None
        self._complaint = ""
        self._error: BaseException | None = None
        self._has_ended = False
        self._is_awaited = False
        self._news = trio.lowlevel.ParkingLot()
        self._ending = trio.Event()

    async def run(self) -> None:
        """The application's own task."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            with contained(self._keep):
                await self._app(scope, self._receive, self._send)
        finally:
            self._has_ended = True
            self._news.unpark_all()

    async def start(self) -> None:
        """Wait until the application is ready."""
        await self._answered()
        if self._error is not None and not self._told:
            _log.info("the application has no lifespan", exc_info=self._error)
            self._error = None
        self._raise_failure()

    async def shut_down(self) -> None:
        """Tell the application to end, and wait until it has."""
        if not self._has_ended:
            self._answer = None
            self._ending.set()
            await self._answered()
            self._raise_failure()

    async def _answered(self) -> None:
        self._is_awaited = True
        try:
            while self._answer is None and not self._has_ended:
                await self._news.park()
        finally:
            self._is_awaited = False

    def _keep(self, error: BaseException) -> None:
        """Keep an exception for whoever waits, who will raise it."""
        self._error = error
        if not self._is_awaited:
            self.report()

    def report(self) -> None:
        """Log an exception that nobody will raise."""
        if self._error is not None:
            _log.error("the application failed outside of its requests", exc_info=self._error)
            self._error = None

    def _raise_failure(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback refers to this frame
        if self._answer is not None and self._answer.endswith("failed"):
            raise RuntimeError(f"the application says that its {self._told} failed: {self._complaint}")

    async def _receive(self) -> AsgiMessage:
        if self._told == "":
            await trio.lowlevel.checkpoint()
            self._told = "startup"
        else:
            await self._ending.wait()
            if self._told == "shutdown":
                await trio.sleep_forever()  # there is no more to say
            self._told = "shutdown"
        return {"type": f"lifespan.{self._told}"}

    async def _send(self, event: AsgiMessage) -> None:
        answer = str(event["type"]).removeprefix("lifespan.")
        if answer not in _ANSWERS:
            raise ValueError(f"{event['type']!r} is no answer in a lifespan")
        self._answer = answer
        self._complaint = str(event.get("message", ""))
        self._news.unpark_all()
