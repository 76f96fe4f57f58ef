"""Open a connection to a server over HTTP.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial

import httpx2
import trio
from attrs import frozen

from ...._util import owned_nursery
from ....abc import ClientAuth, Fetch, Transport, TransportClient, TransportOpener
from ....peer import PausableTimeouts
from .._engine import HttpEngine, HttpxClient, HttpxEngine, checked_fields, checked_url, new_httpx_client
from .._fetch import engine_fetch, open_client_fetch
from ._legacy_session import SessionManager
from ._transport import HttpSender, HttpTransport

__all__ = ["http_transport"]

_CLOSING_SECONDS = 2.0
"""How long it may take to tell the server that this side leaves."""
CREDENTIAL_FIELDS = ("authorization", "dpop")
"""The header fields that show who asks."""


def http_transport(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
) -> TransportOpener:
    """Return an opener that speaks to the server at *url*.

    Opening it sends nothing: that an address leads nowhere is found out by the first request. Such a connection is lost
    only when it is closed, or when a server that has forgotten a session begins no other.

    Args:
        url: ``http`` or ``https``.
        headers: fields to send with each request.
        auth: shows the server who asks; None: nothing does, but for what *headers* say.
        http_client: carries the requests in place of a client of our own; not closed.
        engine: carries them in place of httpx2; not closed.

    Raises:
        ValueError: *url* is no address of a server, or holds a password; or a header is none. Or both *http_client* and
            *engine* are given, or both *auth* and a header ``Authorization``.
    """
    if http_client is not None and engine is not None:
        raise ValueError("http_client and engine both carry the requests: give one of them")
    address, fields = checked_url(url), checked_fields(headers or {})
    if auth is not None:
        if not fields.keys().isdisjoint(CREDENTIAL_FIELDS):
            raise ValueError("auth and headers both show who asks: give one of them")
        address = _ascii_url(address)

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        fetches = auth is not None
        async with _open_network(address, engine, http_client, fetches=fetches) as network, owned_nursery() as nursery:
            sender = HttpSender(network.engine, address, client.tap, fields)
            transport = HttpTransport(
                client.admission, client.answer, client.notified, client.limits, sender, client.renewed, SessionManager
            )
            with trio.CancelScope(shield=True):  # it takes no time; cancelled, it would wait for that shielded task
                await nursery.start(transport.run)
            asking_person = partial(_asking_person, client, transport.timeouts)
            try:
                if auth is not None:
                    assert network.fetch is not None  # it was wanted
                    sender.source = auth.source(
                        address, fetch=network.fetch, nursery=transport.nursery, asking_person=asking_person
                    )
                yield transport
            finally:
                try:
                    with trio.move_on_after(_CLOSING_SECONDS, shield=True):
                        await transport.close()
                finally:  # an engine of the caller's may raise what it likes
                    transport.stop()

    return connect


def _ascii_url(url: str) -> str:
    """Return an address in ASCII: tokens are made for that, and proofs are about it."""
    try:
        return str(httpx2.URL(url))
    except httpx2.InvalidURL as exc:
        raise ValueError(f"{url!r} is no address of a server: {exc}") from None


@contextmanager
def _asking_person(client: TransportClient, timeouts: PausableTimeouts) -> Generator[None]:
    """Have all time limits of the connection stand still."""
    with client.asking_person(), timeouts.paused():
        yield


@frozen
class _HttpNetwork:
    """What a client reaches others by."""

    engine: HttpEngine
    """Carries requests to the server."""
    fetch: Fetch | None
    """Makes requests to others; None where nobody wants any."""


@asynccontextmanager
async def _open_network(
    url: str, engine: HttpEngine | None, http_client: HttpxClient | None, *, fetches: bool
) -> AsyncGenerator[_HttpNetwork]:
    """Open what a client of the server at *url* needs.

    Args:
        engine: carries everything, if it is given; not closed.
        http_client: else it does, if it is given; not closed.
        fetches: whether there are to be requests to others: what makes them takes its time to open.
    """
    if engine is not None:
        yield _HttpNetwork(engine, engine_fetch(engine))
        return
    own = HttpxEngine(http_client or new_httpx_client(), closes=http_client is None, notes_address=fetches)
    try:
        async with open_client_fetch(url, own, http_client) if fetches else nullcontext() as fetch:
            yield _HttpNetwork(own, fetch)
    finally:
        with trio.CancelScope(shield=True):  # there is nothing left in it that could wait
            await own.aclose()
