"""The development authorization server on a socket of this machine: for browsers, and for other processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Unpack

import trio

from .._util import owned_nursery
from ..transports import HttpListening, HttpSockets, bind_sockets, open_fetch, serve_asgi
from ._authorization_options import AuthorizationServerOptions
from ._authorization_redirects import THIS_MACHINE
from ._authorization_server import AuthorizationServer

__all__ = ["open_authorization_server"]


@asynccontextmanager
async def open_authorization_server(
    *, host: str = "127.0.0.1", port: int = 0, path: str = "", **options: Unpack[AuthorizationServerOptions]
) -> AsyncGenerator[AuthorizationServer]:
    """Serve an `AuthorizationServer` over HTTP for as long as the block lasts.

    Not for production. With it, and a server of your own::

        async with open_authorization_server(auto_consent=True) as auth:
            protection = ResourceServer("http://127.0.0.1:8000/mcp", issuers=[auth.issuer])

    It reads client ID metadata documents, those that are on this machine too, unless *fetch* is given as None.

    Args:
        host: ``"127.0.0.1"``, ``"localhost"`` (at each of its addresses) or ``"::1"``.
        port: 0 takes any that is free.
        path: of the issuer, as with several authorization servers on one host: ``"/tenant1"``.
        options: see `AuthorizationServerOptions`.

    Raises:
        OSError: the address cannot be taken.
        ValueError: others than this machine could reach *host*.
    """
    if host not in THIS_MACHINE:
        raise ValueError(f"open_authorization_server(host={host!r}): it is for development, on this machine alone")
    listening = HttpListening(host=host, port=port)
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(await bind_sockets(listening))
        if "fetch" not in options:
            options["fetch"] = await stack.enter_async_context(open_fetch(trusted_hosts=[*THIS_MACHINE]))
        auth = AuthorizationServer(f"http://{_in_brackets(host)}:{sockets.bound.port}{path}", **options)
        await stack.enter_async_context(_served(auth, listening, sockets))
        yield auth


@asynccontextmanager
async def _served(auth: AuthorizationServer, listening: HttpListening, sockets: HttpSockets) -> AsyncGenerator[None]:
    stop, ended = trio.Event(), trio.Event()

    async def serve(task_status: trio.TaskStatus[object]) -> None:
        await serve_asgi(
            auth,
            listening,
            stopping=stop.wait,
            drain=trio.lowlevel.checkpoint,
            drain_seconds=1.0,
            sockets=sockets,
            task_status=task_status,
        )
        ended.set()

    async def wind_down() -> None:
        stop.set()
        await ended.wait()

    async with owned_nursery(wind_down) as nursery:
        await nursery.start(serve)
        yield


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host
