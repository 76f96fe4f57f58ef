"""The lifespan events of ASGI, for an HTTP application and for the application that it is combined with.

Rules of this file:

1. A failing startup is reported as failed. An exception would be taken for an application without lifespan, which is
   then served.
2. The application starts before the other application, and shuts down after it. The server hears of the shutdown of
   both.
3. The other application may ignore lifespan events, raise, or return at any time. It is served all the same.

Specification: https://asgi.readthedocs.io/en/stable/specs/lifespan.html
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from attrs import define, field

from ._channel import AsgiApp, AsgiMessage, Receive, Scope, Send

__all__ = ["no_host", "serve_lifespan"]

_log = logging.getLogger("trio_mcp.transports")


async def no_host(scope: Scope, receive: Receive, send: Send) -> None:
    """Replace the other application if there is none."""


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
    except Exception as exc:  # noqa: BLE001 # the boundary between the application and the server
        failure = exc
        _log.exception("the HTTP application %s", "failed" if events.started else "could not start")
    await events.finish(failure)


class _HostFailedError(Exception):
    """The other application has reported that it could not start."""


@define(eq=False)
class _Events:
    """The lifespan events exchanged between the server and its applications."""

    _receive: Receive
    _send: Send
    _received: set[str] = field(factory=set[str], init=False)
    """The events that the server has sent."""
    started: bool = field(default=False, init=False)
    """True once the server has been told that the startup is complete."""
    _last: AsgiMessage = field(factory=lambda: {"type": "lifespan.shutdown.complete"}, init=False)
    """The message that the server gets at the end."""

    async def pass_to(self, host: AsgiApp, scope: Scope) -> None:
        """Pass the events to *host*; return when the server shuts down and *host* has done so."""
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
            await host(scope, self._receive_event, send)
        except Exception:  # noqa: BLE001 # rule 3
            if self.started:
                _log.exception("the lifespan of the other application failed")
            else:
                _log.debug("the other application does not support lifespan events", exc_info=True)
        if refused:
            raise _HostFailedError(refused[0])
        await self._wait_for("lifespan.startup")
        if not self.started:
            await self._start()
        await self._wait_for("lifespan.shutdown")

    async def finish(self, failure: Exception | None) -> None:
        """Report the end to the server."""
        if failure is None:
            await self._send(self._last)
            return
        message = str(failure) if isinstance(failure, _HostFailedError) else f"{type(failure).__name__}: {failure}"
        step = "shutdown" if self.started else "startup"
        await self._wait_for(f"lifespan.{step}")
        await self._send({"type": f"lifespan.{step}.failed", "message": message})

    async def _start(self) -> None:
        self.started = True
        await self._send({"type": "lifespan.startup.complete"})

    async def _receive_event(self) -> AsgiMessage:
        message = await self._receive()
        self._received.add(message["type"])
        return message

    async def _wait_for(self, event: str) -> None:
        while event not in self._received:
            await self._receive_event()
