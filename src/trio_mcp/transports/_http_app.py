"""MCP over HTTP as an ASGI 3 application: every revision at one path, under any server that runs applications on Trio.

Rules of this file:

1. An application may be run by the lifespan events of its server, by the application that it is mounted in, or by its
   owner, but only once at a time. Once a run has ended, or failed, nothing is served any more until the next one.
2. Where it is mounted is the host's to say: `root_path` is what to take off, whether the host has left it in the path
   or not.
3. To a WebSocket nothing is sent: on Hypercorn 0.18 a reply, or an early return, lets one request end the server.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from ..abc import HttpAnswerer
from ..wire import Refusal
from ._asgi import AsgiApp, HttpRequest, Receive, Scope, Send, path_below, path_of, refuse_without_trio
from ._http_door import Door, HttpSettings, Running
from ._http_lifespan import no_host, serve_lifespan
from ._http_posts import Posts
from ._http_response import Responding
from ._http_sessions import open_sessions

__all__ = ["HttpApp"]


@define(eq=False)
class HttpApp:
    """A server as an ASGI 3 application. Made by `http_app`; call it as ASGI servers do, or mount it.

    Under a server that passes on lifespan events (`hypercorn -k trio module:app`) it runs itself. Mounted in another
    application, it is run by that one: in Starlette by ``lifespan=app.lifespan``, in any other by serving `wrap` of
    it, or by ``async with app.run()``. What nobody runs still answers clients of the current revision, each request by
    itself: without the server's lifespan, background tasks, and sessions of older clients.
    """

    _answerer: HttpAnswerer
    _settings: HttpSettings
    _door: Door = field(init=False)
    _runs: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._door = Door(self._answerer, self._settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request, one WebSocket, or the lifespan, as ASGI wants it."""
        if not trio.lowlevel.in_trio_task():
            await refuse_without_trio(scope, receive, send)
            return
        match scope["type"]:
            case "http":
                stall_seconds = self._answerer.limits.stall_seconds
                responding = Responding(send, receive, self._settings.keep_alive, stall_seconds)
                if self._is_about_protection(scope):
                    await self._door.admission.describe(HttpRequest.of(scope), responding)
                elif self._is_asked(scope):
                    await self._door.take(HttpRequest.of(scope), receive, responding)
                else:
                    await responding.refuse(Refusal(404))
            case "lifespan":
                await serve_lifespan(self._run_unless_running, no_host, scope, receive, send)
            case "websocket":
                while (await receive())["type"] != "websocket.disconnect":
                    pass  # rule 3
            case unknown:
                raise ValueError(f"ASGI scope of the type {unknown!r}: this application takes HTTP")

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Run the application for as long as the block lasts: the server's lifespan, its hall, its sessions.

        At the end nothing more is accepted, streams end, requests under way are answered for `Limits.drain_seconds` at
        most, and the rest is told that the server stops. A block that is cancelled does not wait for that.

        Raises:
            RuntimeError: it is being run already.
        """
        if self._runs:
            raise RuntimeError("this HTTP application is being run already")
        self._runs, self._door.closed = True, "the server is starting; try again"
        try:
            admission = self._door.admission
            async with (
                admission.running(),
                self._answerer.serving(asking=self._settings.asking) as serving,
                open_sessions(serving, self._answerer.revisions, self._settings.sessions, admission) as sessions,
            ):
                self._door.running = running = Running(serving, Posts(serving, admission), sessions)
                self._door.closed = None
                try:
                    yield
                    self.stop()
                    await running.drained()
                finally:
                    self.stop()
                    running.posts.close()
                    self._door.running = None
        finally:
            self._runs, self._door.closed = False, "the server has stopped"

    @asynccontextmanager
    async def _run_unless_running(self) -> AsyncGenerator[None]:
        """Run the application, unless its owner does so already."""
        if self._runs:
            yield
            return
        async with self.run():
            yield

    @asynccontextmanager
    async def lifespan(self, host: object) -> AsyncGenerator[None]:
        """Run the application for as long as *host* lives, as in ``Starlette(..., lifespan=app.lifespan)``."""
        del host
        async with self.run():
            yield

    def wrap(self, host: AsgiApp) -> AsgiApp:
        """Return an application that is this one at its path, and where its protection is described, else *host*.

        Lifespan events go to both. *host* is any ASGI application on Trio, with lifespan or without.

        Raises:
            ValueError: this application has no path of its own.
        """
        if self._settings.path is None:
            raise ValueError("with path=None the HTTP application answers everywhere: nothing is left for another one")

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan" and trio.lowlevel.in_trio_task():
                await serve_lifespan(self._run_unless_running, host, scope, receive, send)
            elif scope["type"] == "lifespan" or self._is_asked(scope) or self._is_about_protection(scope):
                await self(scope, receive, send)
            else:
                await host(scope, receive, send)

        return both

    def stop(self) -> None:
        """Accept no more, and end what does not end by itself; synchronous, and harmless when repeated.

        New requests are told that the server stops, questions that are open expire, streams that listen end. Wait for
        the rest with `drained`, then leave `run`.
        """
        if self._door.running is not None and self._door.closed is None:
            self._door.closed = "the server stops"
            self._door.running.stop()

    async def drained(self) -> None:
        """Wait, after `stop`, until all responses have ended; bounded as the end of `run` is."""
        if self._door.running is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._door.running.drained()

    def _is_about_protection(self, scope: Scope) -> bool:
        """Tell whether a request is for what clients read of a protected server, before they know anything of it."""
        places = self._door.admission.metadata_paths
        return bool(places) and scope["type"] == "http" and not {path_of(scope), path_below(scope)}.isdisjoint(places)

    def _is_asked(self, scope: Scope) -> bool:
        """Tell whether a request is for this application, be it with a slash at the end."""
        settings, path = self._settings, path_below(scope)  # rule 2
        places = (settings.path, settings.sessions.sse_path)
        return settings.path is None or path.rstrip("/") in [place.rstrip("/") for place in places if place]
