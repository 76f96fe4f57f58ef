"""The lifespan events of ASGI, for an application that is run meanwhile, and perhaps for another one beside it.

Rules of this file:

1. A start that fails is reported as failed: an exception would be taken for an application without lifespan, and be
   served all the same.
2. What is run is entered before the other application starts, and left after that has shut down; the server hears of
   the end of both.
3. An application may ignore lifespan events, raise at them, or return at any time. It is served all the same.

Specification: https://asgi.readthedocs.io/en/stable/specs/lifespan.html
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from attrs import define, field

from ._asgi import AsgiApp, AsgiMessage, Receive, Scope, Send

__all__ = ["no_host", "serve_lifespan"]

_log = logging.getLogger("trio_mcp.transports")


async def no_host(scope: Scope, receive: Receive, send: Send) -> None:
    """Stand for the other application where there is none."""


async def serve_lifespan(
    run: Callable[[], AbstractAsyncContextManager[object]], host: AsgiApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Keep *run* entered from the startup event to the shutdown event, and pass these events to *host*."""
    events = _Events(receive, send)
    failure: Exception | None = None
    try:
        async with run():
            await events.pass_to(host, scope)
    except _HostFailedError as exc:
        failure = exc
    except Exception as exc:  # noqa: BLE001 # the one boundary between the application and the server
        failure = exc
        _log.exception("the HTTP application %s", "failed" if events.started else "could not start")
    await events.finish(failure)


class _HostFailedError(Exception):
    """The other application has said that it could not start, and why."""


@define(eq=False)
class _Events:
    """What was said between the server and its applications."""

    _receive: Receive
    _send: Send
    _heard: set[str] = field(factory=set[str], init=False)
    """Events of the server."""
    started: bool = field(default=False, init=False)
    """Whether the server knows that the start has succeeded."""
    _last: AsgiMessage = field(factory=lambda: {"type": "lifespan.shutdown.complete"}, init=False)
    """What the server will be told at the end."""

    async def pass_to(self, host: AsgiApp, scope: Scope) -> None:
        """Let *host* take part; return when the server wants to shut down, and *host* has done so."""
        refused: list[str] = []

        async def send(message: AsgiMessage) -> None:
            match message["type"]:
                case "lifespan.startup.complete":
                    await self._start()
                case "lifespan.startup.failed":
                    refused.append(message.get("message", ""))
                case _:
                    self._last = message

        try:
            await host(scope, self._hear, send)
        except Exception:  # noqa: BLE001 # rule 3
            if self.started:
                _log.exception("the lifespan of the other application failed")
            else:
                _log.debug("the other application takes no lifespan events", exc_info=True)
        if refused:
            raise _HostFailedError(refused[0])
        await self._hear_of("lifespan.startup")
        if not self.started:
            await self._start()
        await self._hear_of("lifespan.shutdown")

    async def finish(self, failure: Exception | None) -> None:
        """Tell the server how it ended."""
        if failure is None:
            await self._send(self._last)
            return
        message = str(failure) if isinstance(failure, _HostFailedError) else f"{type(failure).__name__}: {failure}"
        step = "shutdown" if self.started else "startup"
        await self._hear_of(f"lifespan.{step}")
        await self._send({"type": f"lifespan.{step}.failed", "message": message})

    async def _start(self) -> None:
        self.started = True
        await self._send({"type": "lifespan.startup.complete"})

    async def _hear(self) -> AsgiMessage:
        message = await self._receive()
        self._heard.add(message["type"])
        return message

    async def _hear_of(self, event: str) -> None:
        while event not in self._heard:
            await self._hear()
