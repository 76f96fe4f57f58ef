"""Open a connection to a server by its URL.

Speaks Streamable HTTP of every revision, HTTP+SSE with servers that have nothing newer, and WebSocket.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from ...._util import owned_nursery
from ....abc import ClientAuth, Fetch, KnownOpener, Transport, TransportClient, TransportOpener
from ....peer import PausableTimeouts
from .._engine import HttpEngine, checked_fields, checked_url, place_of
from .._fetch import engine_fetch, has_proxies, open_client_fetch
from .._http1_engine import Http1Engine
from ._legacy_session import SessionManager
from ._sender import HttpSender
from ._transport import HttpTransport

if TYPE_CHECKING:
    from .._httpx_engine import HttpxClient

__all__ = ["http_transport"]

_CLOSING_SECONDS = 2.0
"""The time that closing may take to tell the server that the client leaves."""
_WEBSOCKET_SCHEMES = {"ws": "http", "wss": "https"}
"""The scheme of the HTTP equivalent of each scheme of a WebSocket."""
CREDENTIAL_FIELDS = ("authorization", "dpop")
"""The header fields that carry credentials."""


def http_transport(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
) -> KnownOpener:
    """Return an opener that connects to the server at *url*.

    Opening sends nothing: the first request finds out whether the address is right. The connection is lost only when it
    is closed, or when a server that no longer knows its session opens no new one.

    Args:
        url: ``http`` or ``https``; or ``ws`` or ``wss``, for a WebSocket.
        headers: header fields to send with each request, or when the WebSocket is opened.
        auth: provides the credentials of each request; None: only *headers* may hold some.
        http_client: makes the requests in place of a client of our own; not closed.
        engine: makes the requests in place of our own; not closed.

    Raises:
        ValueError: *url* is not the address of a server, or holds a password; or a header field is invalid. Or both
            *http_client* and *engine* are given, or one of them for a WebSocket, or both *auth* and a header
            ``Authorization``.
    """
    if http_client is not None and engine is not None:
        raise ValueError("http_client and engine exclude each other: give one of them")
    scheme = url.partition(":")[0].lower()
    is_websocket = scheme in _WEBSOCKET_SCHEMES
    if is_websocket:
        if http_client is not None or engine is not None:
            raise ValueError("http_client and engine make HTTP requests, and the URL is that of a WebSocket")
        url = _WEBSOCKET_SCHEMES[scheme] + url[len(scheme) :]
    address, fields = checked_url(url), checked_fields(headers or {})
    if auth is not None:
        _check_auth(auth)
        if not fields.keys().isdisjoint(CREDENTIAL_FIELDS):
            raise ValueError("auth and an Authorization header exclude each other: give one of them")
        address = _ascii_url(address)
    if is_websocket:
        return KnownOpener(_websocket_opener(address, fields, auth), ("websocket", address))

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        fetches = auth is not None
        async with _open_network(address, engine, http_client, fetches=fetches) as network, owned_nursery() as nursery:
            sender = HttpSender(network.engine, address, client.tap, fields)
            transport = HttpTransport(
                client.admission, client.answer, client.notified, client.limits, sender, client.renewed, SessionManager
            )
            with trio.CancelScope(shield=True):  # starting takes no time, and the task is shielded itself
                await nursery.start(transport.run)
            asking_person = partial(_asking_person, client, transport.timeouts)
            try:
                if auth is not None:
                    assert network.fetch is not None  # because auth was given
                    sender.source = auth.source(
                        address, fetch=network.fetch, nursery=transport.nursery, asking_person=asking_person
                    )
                yield transport
            finally:
                try:
                    with trio.move_on_after(_CLOSING_SECONDS, shield=True):
                        await transport.close()
                finally:  # a custom engine may raise any exception
                    transport.stop()

    return KnownOpener(connect, ("url", address) if engine is None else None)


def _websocket_opener(address: str, fields: Mapping[str, str], auth: ClientAuth | None) -> TransportOpener:
    """Return an opener that connects over a WebSocket, at the HTTP equivalent of its URL."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        from ._websocket import open_websocket  # noqa: PLC0415 # it loads wsproto

        async with _open_network(address, None, None, fetches=auth is not None) as network, owned_nursery() as nursery:
            source = None
            if auth is not None:
                assert network.fetch is not None  # because auth was given
                source = auth.source(address, fetch=network.fetch, nursery=nursery, asking_person=client.asking_person)
            async with open_websocket(address, fields, source, client) as link:
                yield link

    return connect


def _check_auth(auth: object) -> None:
    """Raise TypeError if *auth* is not a `ClientAuth`. The message does not show it: it may be a token."""
    if not callable(getattr(auth, "source", None)):
        cure = "; a token is given as Bearer(token)" if isinstance(auth, str) else ""
        raise TypeError(f"auth: expected OAuth(...), Bearer(...) or the like, and got {type(auth).__name__}{cure}")


def _ascii_url(url: str) -> str:
    """Return a URL in ASCII, which is the form that tokens are bound to and proofs name."""
    try:
        return place_of(url).url
    except ValueError as exc:
        raise ValueError(f"{url!r} is not the address of a server: {exc}") from None


@contextmanager
def _asking_person(client: TransportClient, timeouts: PausableTimeouts) -> Generator[None]:
    """Pause every timeout of the connection."""
    with client.asking_person(), timeouts.paused():
        yield


@frozen
class _HttpNetwork:
    """The HTTP access of a client."""

    engine: HttpEngine
    """Makes the requests to the server."""
    fetch: Fetch | None
    """Makes the requests to other hosts; None if the client needs none."""


@asynccontextmanager
async def _open_network(
    url: str, engine: HttpEngine | None, http_client: HttpxClient | None, *, fetches: bool
) -> AsyncGenerator[_HttpNetwork]:
    """Open the HTTP access of a client of the server at *url*.

    Args:
        url: the address of the server.
        engine: makes all requests, if it is given; not closed.
        http_client: makes them otherwise, if it is given; not closed.
        fetches: True if the client makes requests to other hosts, whose fetcher takes time to open.
    """
    if engine is not None:
        yield _HttpNetwork(engine, engine_fetch(engine))
        return
    if http_client is None and not has_proxies():
        engine = own = Http1Engine()
    else:
        from .._httpx_engine import HttpxEngine, new_httpx_client  # noqa: PLC0415 # it loads httpx2

        own, engine = None, HttpxEngine(http_client or new_httpx_client(), closes=http_client is None)
    try:
        async with open_client_fetch(url, own, http_client) if fetches else nullcontext() as fetch:
            yield _HttpNetwork(engine, fetch)
    finally:
        with trio.CancelScope(shield=True):  # no request is open, so closing does not block
            await engine.aclose()
