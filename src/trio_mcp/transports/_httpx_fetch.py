"""Requests beside those of the protocol, over httpx2: each goes to the address that was checked, and nowhere else.

Rules of this file:

1. What a client of the user's adds to its requests (fields, cookies, credentials) is meant for the MCP server, and goes
   to nobody else.
2. With a client of our own, the address that was found to be good is the one that is connected to: a name that stands
   for another a moment later leads nowhere else. TLS still verifies the name. Through a proxy, or a client of the
   user's, the name is looked up once more by others: there it is checked, and that is all that can be done.
3. No connection is kept: it belongs to a name, but would be kept under an address, which may have many.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any
from urllib.request import getproxies

import httpx2
import trio
from attrs import frozen

from ..abc import Fetch
from ..auth import CallFailed, HttpCall
from ._http_engine import EngineError, HttpResponse
from ._http_fetch import FETCH_SECONDS, HttpFetch, shown
from ._http_fetch_addresses import AddressGuard
from ._httpx_engine import HttpxClient, HttpxEngine, Sending, new_httpx_client, user_agent

__all__ = ["open_client_fetch", "open_fetch"]

_MOST_ADDRESSES = 3
"""How many addresses of a host are tried, one after the other."""
_TIMEOUT = httpx2.Timeout(FETCH_SECONDS, connect=FETCH_SECONDS / _MOST_ADDRESSES)
_PROXIED = ("http", "https", "all")


@asynccontextmanager
async def open_fetch(*, trusted_hosts: Sequence[str] | None = None) -> AsyncGenerator[Fetch]:
    """Open what makes requests beside those of the protocol, for as long as the block lasts.

    Args:
        trusted_hosts: names of the hosts that may be in private networks, and on this machine, though a server has
            named them; None: all may be, because whoever names them is trusted.
    """
    trusted = None if trusted_hosts is None else [each.lower() for each in trusted_hosts]
    guard = None if trusted is None else AddressGuard(trusted, None, lambda: None)
    async with _own(guard) as fetch:
        yield fetch


@asynccontextmanager
async def open_client_fetch(url: str, engine: HttpxEngine, http_client: HttpxClient | None) -> AsyncGenerator[Fetch]:
    """Open what makes the requests of a client beside those to its server.

    Args:
        url: of the server.
        engine: carries the requests to the server.
        http_client: the user's, if there is one; not closed.
    """
    host = httpx2.URL(url).raw_host.decode("ascii").lower()
    if http_client is not None:
        yield HttpFetch(_Sender(http_client, AddressGuard([host], host, lambda: None), pins=False))
        return
    pins = not _has_proxies()
    guard = AddressGuard([host], host, lambda: engine.reached_at if pins else None)  # else it is that of a proxy
    async with _own(guard) as fetch:
        yield fetch


@asynccontextmanager
async def _own(guard: AddressGuard | None) -> AsyncGenerator[Fetch]:
    client = new_httpx_client(most_idle=0)
    try:
        yield HttpFetch(_Sender(client, guard, pins=not _has_proxies()))
    finally:
        with trio.CancelScope(shield=True):  # there is nothing left in it that could wait
            await client.aclose()


def _has_proxies() -> bool:
    proxies = getproxies()
    return any(proxies.get(scheme) for scheme in _PROXIED)


@frozen
class _Sender:
    """Sends single requests; see `Sender`."""

    _client: httpx2.AsyncClient
    _guard: AddressGuard | None
    """None: hosts may be anywhere."""
    pins: bool
    """Whether the address that was checked is the one to connect to."""

    @asynccontextmanager
    async def __call__(self, call: HttpCall) -> AsyncGenerator[HttpResponse]:
        addresses = await self._addresses(call)
        async with AsyncExitStack() as stack:
            yield await self._send(call, addresses, stack)

    async def _addresses(self, call: HttpCall) -> Sequence[str | None]:
        """Return what to connect to, in this order; None: to what the name stands for."""
        if call.named_by == "user" or self._guard is None:
            return [None]
        try:
            url = httpx2.URL(call.url)
        except httpx2.InvalidURL as exc:  # such as 0177.0.0.1
            raise CallFailed(f"{shown(call.url)} is no address: {exc}") from None
        addresses = await self._guard.addresses(url.raw_host.decode("ascii"), _port(url))
        if addresses is None or not self.pins:
            return [None]
        if not addresses:
            raise CallFailed(f"{shown(call.url)}: the host is not found")
        return addresses[:_MOST_ADDRESSES]

    async def _send(self, call: HttpCall, addresses: Sequence[str | None], stack: AsyncExitStack) -> HttpResponse:
        *others, last = addresses
        for address in others:
            try:
                return await self._enter(call, address, stack)
            except EngineError as exc:
                if exc.sent:
                    raise
        return await self._enter(call, last, stack)

    async def _enter(self, call: HttpCall, address: str | None, stack: AsyncExitStack) -> HttpResponse:
        build = partial(_request, call, address)
        return await stack.enter_async_context(Sending(self._client, call.url, build, auth=None))


def _port(url: httpx2.URL) -> int:
    return url.port or {"http": 80, "https": 443}[url.scheme]


def _request(call: HttpCall, address: str | None) -> httpx2.Request:
    """Return the request, made by hand and not by the client: see rule 1."""
    url = httpx2.URL(call.url)
    extensions: dict[str, Any] = {"timeout": _TIMEOUT.as_dict()}
    fields = {"host": url.netloc.decode("ascii"), "user-agent": user_agent(), **call.headers}
    if address is not None:
        extensions["sni_hostname"] = url.raw_host.decode("ascii")
        url = url.copy_with(host=address)
    return httpx2.Request(call.method, url, headers=fields, content=call.body, extensions=extensions)
