"""A server of Trio as an ASGI application for asyncio, and what its handlers use of the event loop that hosts it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, Unpack

from attrs import define, field

import trio_mcp

from ..abc import HttpAnswerer
from ..server import HttpOptions
from ._run import EnteredBlock, current_run, hosting_run

__all__ = ["AsyncioApp", "AsyncioHttpApp", "asyncio_app", "http_app", "run_asyncio"]

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[object]]
"""An ASGI 3 application of asyncio."""


@define(eq=False)
class AsyncioHttpApp:
    """A server as an ASGI 3 application for an event loop of asyncio. Made by `http_app`.

    Served by itself (``uvicorn module:app``), it runs with the lifespan of the ASGI server. Mounted in an application
    of Starlette or FastAPI, it is run by that one: ``FastAPI(lifespan=app.lifespan)``.
    """

    _app: trio_mcp.HttpApp = field(alias="app")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request, one WebSocket, or the lifespan, as ASGI defines it."""
        run = await current_run()
        await run.wait(partial(self._app, scope, run.callback(receive), run.callback(send)))

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """Run the server for as long as the block lasts: the lifespan of an application of Starlette or FastAPI.

        Args:
            app: the application, which passes itself; it is not used.
        """
        del app
        entered, _ = await EnteredBlock.enter(await current_run(), self._app.run)
        try:
            yield
        finally:
            await entered.leave(None)


def http_app(server: HttpAnswerer, **options: Unpack[HttpOptions]) -> AsyncioHttpApp:
    """Return *server* as an ASGI 3 application for uvicorn, Hypercorn's worker of asyncio, and FastAPI.

    The handlers of the server run on Trio, in the thread of the event loop; `run_asyncio` awaits something of asyncio
    in one.

    Args:
        server: the server.
        options: see `trio_mcp.http_app`, which raises the same exceptions.
    """
    return AsyncioHttpApp(trio_mcp.http_app(server, **options))


async def run_asyncio(awaitable: Awaitable[T]) -> T:
    """Await a coroutine of asyncio in a handler of a server that asyncio hosts: it runs in a task of the event loop.

    If the handler is cancelled, so is the task, and the handler waits for its end.

    Args:
        awaitable: the coroutine, or any other awaitable of asyncio.

    Raises:
        RuntimeError: the caller is not such a handler, or the task was cancelled by someone else.
    """
    try:
        run = hosting_run("run_asyncio()")
    except RuntimeError:
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        raise
    return await run.run_on_loop(lambda: awaitable)  # type: ignore[no-any-return]


@define(eq=False)
class AsyncioApp:
    """An ASGI 3 application for Trio that runs an application of asyncio, such as FastAPI. Made by `asyncio_app`."""

    _app: App = field(alias="app")
    openapi: Callable[[], Any] | None = field(init=False)
    """Returns the OpenAPI description of the application; None if it does not describe itself."""

    def __attrs_post_init__(self) -> None:
        self.openapi = getattr(self._app, "openapi", None)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Call the application in a task of the event loop, which is cancelled with the caller.

        Raises:
            RuntimeError: asyncio does not host the caller, or the task was cancelled by someone else.
        """
        run = hosting_run("asyncio_app()")

        async def send_on_trio(message: Message) -> None:
            await run.wait(partial(send, message))

        await run.run_on_loop(partial(self._app, scope, partial(run.wait, receive), send_on_trio))


def asyncio_app(app: App) -> AsyncioApp:
    """Return an ASGI application of asyncio as one for Trio: it runs in tasks of the event loop that hosts Trio.

    An application of FastAPI that hosts a server offers its own routes as tools of that server::

        add_asgi(server, asyncio_app(app), include=["tag:orders"])

    In a test on asyncio, a client calls an application without a socket::

        async with open_http_client("http://localhost/mcp", engine=AsgiEngine(asyncio_app(app))) as client:
            ...

    Args:
        app: the application. Its lifespan belongs to its host.
    """
    return AsyncioApp(app)
