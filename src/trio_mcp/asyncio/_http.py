"""A server of Trio as an ASGI application for servers on asyncio, such as uvicorn, and for FastAPI."""

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

__all__ = ["AsyncioHttpApp", "http_app", "run_asyncio"]

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


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
