"""The doors to a client: `open_*` for a block, `start_*` for a nursery of the caller's.

All of them run the same supervised coroutine. A failure to connect is raised bare by the door; a connection that
is lost later fails the calls that need it, and never the block.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

import trio

from .. import transports
from .._util import owned_nursery
from ..abc import Answerer, ClientAuth, TransportOpener
from ._client import Client
from ._supervisor import ClientOptions, run_client

if TYPE_CHECKING:
    from ..transports import HttpEngine, HttpxClient

__all__ = [
    "Target",
    "open_client",
    "open_http_client",
    "open_memory_client",
    "open_stdio_client",
    "open_stream_client",
    "start_client",
    "start_http_client",
    "start_memory_client",
    "start_stdio_client",
    "start_stream_client",
]

Target: TypeAlias = (
    "str | Sequence[str | os.PathLike[str]] | Mapping[str, Any] | trio.abc.Stream | Answerer | TransportOpener"
)
"""What `open_client` connects to: a URL, a command, one entry of an ``mcpServers`` table, a byte stream, a server in
this process, or whatever an `abc.TransportOpener` of the caller's own connects to."""


@asynccontextmanager
async def open_client(target: Target, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect to a server, for as long as the block lasts.

    Leave the block in the task that entered it, innermost first; where that is too strict, use `start_client`.
    Inside an async generator, close the generator with `contextlib.aclosing`. The block sees its own exception bare.

    Args:
        target: a text is a URL, a list is a command to run, a mapping is one entry of an ``mcpServers`` table, a
            `trio.abc.Stream` is a link, a `Server` is in memory, and a function is an `abc.TransportOpener`: the door
            for your own transport.
        options: see `ClientOptions`.

    Raises:
        OSError: the command cannot be started.
        UnsupportedRevision: there is no revision that both sides speak.
        ServerExited: the server process ended while connecting.
        ConnectionBroken: the connection ended while connecting, or the URL cannot be reached.
        HttpStatusError: what is at the URL, or a proxy before it, answers as no MCP server does, or wants to know who
            asks.
        AuthorizationFailed: it wants to know who asks, and what `open_http_client` was given as `auth` cannot show it.
        RequestTimedOut: the server did not answer in time.
        ErrorResponse: the server refused the handshake.
        RemoteProtocolError: the server's answer breaks the protocol.
        TypeError: *target* is nothing that can be connected to.
        ValueError: it is a text and no ``http`` or ``https`` URL, or an entry that makes no sense.
    """
    async with _opened(_opener_for(target), options) as client:
        yield client


async def start_client(nursery: trio.Nursery, target: Target, **options: Unpack[ClientOptions]) -> Client:
    """Connect to a server in a task of *nursery*, until `Client.aclose` or the nursery's end.

    Takes what `open_client` takes, and raises what it raises. Clients may be closed in any order, from any task.
    """
    return await _started(nursery, _opener_for(target), options)


@asynccontextmanager
async def open_stdio_client(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Run a server as a child process and connect to it; see `open_client`.

    Args:
        command: the program and its arguments; no shell is involved.
        env: environment variables to add to the few that are handed on (PATH, HOME, LANG and the like).
        cwd: the child's working directory; this process's by default.
    """
    async with _opened(
        transports.stdio_transport(transports.StdioServer(command, env=env, cwd=cwd)), options
    ) as client:
        yield client


async def start_stdio_client(
    nursery: trio.Nursery,
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Unpack[ClientOptions],
) -> Client:
    """Run a server as a child process and connect to it in a task of *nursery*; see `open_stdio_client`."""
    return await _started(
        nursery, transports.stdio_transport(transports.StdioServer(command, env=env, cwd=cwd)), options
    )


@asynccontextmanager
async def open_http_client(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Connect to a server by its URL; see `open_client`. What the server speaks is found out, HTTP+SSE included.

    An HTTP exchange that breaks fails the one request that it carried, with `ResponseLost`; others go on. Redirects are
    not followed.

    Args:
        url: where the server is: ``"https://example.org/mcp"``.
        headers: fields to send with each request, such as ``{"X-Tenant": "a"}``.
        auth: shows the server who asks: `OAuth`, `ClientCredentials`, `Bearer` and so on, or an `abc.ClientAuth` of
            your own. It is asked when the server wants to know, and as often as tokens have to be renewed. While a
            person signs in, no time limit runs.
        http_client: a `httpx2.AsyncClient` that carries the requests, for proxies and certificates of your own. It is
            not closed. By default each client has one made for it, which does as the environment says.
        engine: what carries them in place of that, such as `testing.AsgiEngine`: an ASGI application in this process.

    Raises:
        ValueError: *url* is no ``http`` or ``https`` URL, or holds a password; or a header is none, or says what *auth*
            is there to say. Otherwise it raises what `open_client` does.
    """
    opener = transports.http_transport(url, headers=headers, auth=auth, http_client=http_client, engine=engine)
    async with _opened(opener, options) as client:
        yield client


async def start_http_client(
    nursery: trio.Nursery,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
    **options: Unpack[ClientOptions],
) -> Client:
    """Connect to a server by its URL in a task of *nursery*; see `open_http_client`."""
    opener = transports.http_transport(url, headers=headers, auth=auth, http_client=http_client, engine=engine)
    return await _started(nursery, opener, options)


@asynccontextmanager
async def open_stream_client(stream: trio.abc.Stream, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect over a byte stream (a socket, a TLS stream, pipes), which is closed at the end; see `open_client`."""
    async with _opened(transports.stream_transport(stream), options) as client:
        yield client


async def start_stream_client(
    nursery: trio.Nursery, stream: trio.abc.Stream, **options: Unpack[ClientOptions]
) -> Client:
    """Connect over a byte stream in a task of *nursery*; see `open_stream_client`."""
    return await _started(nursery, transports.stream_transport(stream), options)


@asynccontextmanager
async def open_memory_client(server: Answerer, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Serve *server* in this process and connect to it without bytes in between; see `open_client`."""
    async with _opened(transports.memory_transport(server), options) as client:
        yield client


async def start_memory_client(nursery: trio.Nursery, server: Answerer, **options: Unpack[ClientOptions]) -> Client:
    """Serve *server* in this process and connect to it in a task of *nursery*; see `open_memory_client`."""
    return await _started(nursery, transports.memory_transport(server), options)


@asynccontextmanager
async def _opened(opener: TransportOpener, options: ClientOptions) -> AsyncGenerator[Client]:
    client: Client | None = None

    async def close() -> None:
        if client is not None:  # None: it could not be opened
            await client.aclose()

    async with owned_nursery(close) as nursery:
        client = await _started(nursery, opener, options)
        yield client


async def _started(nursery: trio.Nursery, opener: TransportOpener, options: ClientOptions) -> Client:
    client: Client = await nursery.start(partial(run_client, opener, options), name="trio-mcp client")
    return client


def _opener_for(target: Any) -> TransportOpener:
    if isinstance(target, str):
        if "://" not in target:
            raise ValueError(f"{target!r} is no URL; a command is a list of the program and its arguments")
        return transports.http_transport(target)
    if isinstance(target, trio.abc.Stream):
        return transports.stream_transport(target)
    if isinstance(target, Mapping):
        from ._server_entry import opener_from_entry  # noqa: PLC0415 # few programs have entries

        return opener_from_entry(cast("Mapping[str, Any]", target))
    if isinstance(target, Sequence) and not isinstance(target, bytes):
        return transports.stdio_transport(transports.StdioServer(cast("Sequence[str]", target)))
    if isinstance(target, Answerer):
        return transports.memory_transport(target)
    if callable(target):
        return cast("TransportOpener", target)
    raise TypeError(f"cannot connect to {target!r}: expected a URL, a command, a mapping, a stream or a server")
