"""HTTP requests beside those of the protocol, for authorization: each has one short answer, within bounds.

Rules of this file:

1. One request, with its redirects, is bounded in time. Its answer is bounded in size and not compressed.
2. A GET follows redirects of the same origin. A POST follows none, and gets the redirect as its answer.
3. An address with a user name or a password is not requested: a server could make the client send them.
4. A host that a server has named is looked up before anything is sent, and all its addresses must be public.
5. A server on this machine may name hosts on this machine and in private networks. A server in a private network may
   name hosts in private networks. The location of a server is the address to which a connection was made, because the
   server chooses what its name resolves to later.
6. Hosts that the user has named, including that of the server, may have any address.
7. The header fields, cookies and credentials of a user's client are meant for the MCP server, and are sent to no other
   host.
8. With a client of our own, the address that was checked is the one that is connected to, so a name that resolves
   differently a moment later cannot redirect the request. TLS still verifies the name. A proxy, or a user's client,
   looks the name up again; then the check is all that can be done.
9. A client keeps no connection. A server keeps some for a few seconds, because it may ask about each token; each one
   belongs to a name, and is used for that name alone, although an address may have many names.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

import trio
from attrs import define, evolve, frozen

from ..._errors import RemoteProtocolError
from ...abc import Fetch
from ...auth import CallFailed, HttpCall, HttpReply, Unreadable
from ._engine import (
    EngineError,
    HttpEngine,
    HttpResponse,
    may_have_proxies,
    origin_of,
    place_of,
    read_at_most,
    split_url,
)
from ._http1_engine import Http1Engine

if TYPE_CHECKING:
    from ._httpx_engine import HttpxClient

__all__ = [
    "FETCH_SECONDS",
    "AddressGuard",
    "HttpFetch",
    "Network",
    "Sender",
    "engine_fetch",
    "has_proxies",
    "network_of",
    "open_client_fetch",
    "open_fetch",
    "shown",
]

Sender: TypeAlias = "Callable[[HttpCall], AbstractAsyncContextManager[HttpResponse]]"
"""Sends one request and follows no redirect; raises `EngineError`, or `CallFailed` if the address is not allowed."""

FETCH_SECONDS = 15.0
"""The maximum time of one request, with its redirects."""
_MOST_BYTES = 256 * 1024
"""The maximum size of a body."""
_MOST_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_SHOWN = 200
"""The number of characters of an address that an error shows."""


def engine_fetch(engine: HttpEngine) -> Fetch:
    """Return an `abc.Fetch` over *engine*. Hosts are not looked up: they may be applications in this process."""
    return HttpFetch(lambda call: engine.request(call.method, call.url, call.headers, call.body))


def shown(url: str) -> str:
    """Return an address as errors name it: without password and query, which may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:_SHOWN]


@define(eq=False)
class HttpFetch:
    """An `abc.Fetch`, which any number of tasks may call."""

    _send: Sender

    async def __call__(self, call: HttpCall) -> HttpReply:
        """Make one request; see `abc.Fetch`."""
        with trio.move_on_after(FETCH_SECONDS):
            return await self._follow(call)
        raise CallFailed(f"{shown(call.url)} has not answered within {FETCH_SECONDS:g} s")

    async def _follow(self, call: HttpCall) -> HttpReply:
        first = call.url
        for _ in range(_MOST_REDIRECTS + 1):
            reply = await self._request(call)
            if call.method != "GET" or reply.status not in _REDIRECTS or "location" not in reply.headers:
                return reply
            call = evolve(call, url=_redirected(call.url, reply.headers["location"]))
        raise Unreadable(f"{shown(first)} redirects more than {_MOST_REDIRECTS} times")

    async def _request(self, call: HttpCall) -> HttpReply:
        _check(call.url)
        place = shown(call.url)
        try:
            async with self._send(evolve(call, headers={**call.headers, "accept-encoding": "identity"})) as response:
                body = await read_at_most(response, _MOST_BYTES)
                if body is None:
                    raise Unreadable(f"{place} answers with more than {_MOST_BYTES} bytes")
                return HttpReply(status=response.status, headers=dict(response.headers), body=body)
        except (EngineError, RemoteProtocolError) as exc:
            raise CallFailed(f"{exc}" if place in f"{exc}" else f"{place}: {exc}") from exc


def _check(url: str) -> None:
    try:
        parts = split_url(url)
    except ValueError as exc:
        raise CallFailed(
            f"{url.partition('?')[0].rpartition('@')[2][:_SHOWN]!r} is not a valid address: {exc}"
        ) from None
    if parts.username is not None or parts.password is not None:
        raise CallFailed(f"{shown(url)} holds a user name or a password; such an address is not requested")


def _redirected(url: str, location: str) -> str:
    """Return the target of a redirect; raises `Unreadable` if it is another origin or not a URL."""
    try:
        target = urljoin(url, location)
        is_there = origin_of(split_url(target)) == origin_of(urlsplit(url))
    except ValueError:
        raise Unreadable(f"{shown(url)} redirects to an invalid address") from None
    if not is_there:
        raise Unreadable(f"{shown(url)} redirects to another origin ({shown(target)}), which is not followed")
    return target


Network: TypeAlias = Literal["public", "private", "loopback", "other"]
"""The network of an address; *other* are addresses of no public service: link-local, multicast, reserved."""

_LOOPBACK = [*map(ip_network, ("127.0.0.0/8", "::1/128"))]
_PRIVATE = [*map(ip_network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))]
"""Private networks, including the shared addresses of carriers and overlay networks."""
_OF_NO_SERVICE = [
    *map(
        ip_network,
        (
            *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24"),
            *("192.88.99.0/24", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
            *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
        ),
    )
]
"""The other networks of the IANA's registries of special-purpose addresses, and multicast and reserved addresses.

Also those that the registries call globally reachable are networks of protocols, and of no service that a server may
name; cloud services use some of them for metadata. The versions of Python know different parts of the registries, so
none of them is asked. https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry."""
_GLOBAL = ip_network("2000::/3")
"""The IPv6 addresses that are assigned as public ones; all others are special or reserved (RFC 4291, 2.4)."""
_TRANSLATED = ip_network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 addresses (RFC 6052)."""
_REACHABLE: dict[Network, tuple[Network, ...]] = {
    "public": ("public",),
    "private": ("public", "private"),
    "loopback": ("public", "private", "loopback"),
    "other": ("public",),
}
"""The networks of the hosts that a server may name, by the server's own network."""


def network_of(address: str) -> Network:
    """Return the network of an address; raises `ValueError` if it is not an address."""
    found = _plain(ip_address(address))
    if _is_in(found, _LOOPBACK):
        return "loopback"
    if _is_in(found, _PRIVATE):
        return "private"
    is_assigned = isinstance(found, IPv4Address) or found in _GLOBAL
    return "public" if is_assigned and not _is_in(found, _OF_NO_SERVICE) else "other"


def _is_in(address: IPv4Address | IPv6Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, if there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


@frozen
class AddressGuard:
    """Decides which hosts a server may name.

    Args:
        named: the hosts that the user has named, in lower case.
        host: the host of the server, in lower case; None if there is no server.
        reached_at: returns the address of the server's connection; None if it is unknown.
    """

    _named: Collection[str]
    _host: str | None
    _reached_at: Callable[[], str | None]

    async def addresses(self, host: str, port: int) -> list[str] | None:
        """Return the addresses to connect to for a host that the server has named; None for any.

        The list is empty if the host is not found.

        Raises:
            CallFailed: the server may not name it.
        """
        if host.lower() in self._named:
            await trio.lowlevel.checkpoint()
            return None
        try:
            found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return []
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        reachable = _REACHABLE[self._own_network()]
        for address in addresses:
            if network_of(address) not in reachable:
                raise CallFailed(
                    f"{host!r} has the address {address}, which this server may not name; "
                    "to allow it, name the host in trusted_hosts"
                )
        return addresses

    def _own_network(self) -> Network:
        if self._host == "localhost":
            return "loopback"
        for address in (self._host, self._reached_at()):
            if address is not None:
                with suppress(ValueError):  # the host is a name: see rule 5
                    return network_of(address)
        return "public"


_MOST_ADDRESSES = 3
"""The number of addresses of a host that are tried, one after the other."""
_MOST_IDLE = 32
"""The number of idle connections of a fetcher that keeps some."""
_PROXIED = ("http", "https", "all")
_CallAt: TypeAlias = "Callable[[HttpCall, str | None], AbstractAsyncContextManager[HttpResponse]]"
"""Sends one request to a checked address; None if the host is looked up."""


@asynccontextmanager
async def open_fetch(*, trusted_hosts: Sequence[str] | None = None) -> AsyncGenerator[Fetch]:
    """Open a fetcher for requests beside those of the protocol, for as long as the block lasts.

    Args:
        trusted_hosts: the hosts that may be in private networks and on this machine although a server has named them;
            None: all hosts, because the source of the names is trusted.
    """
    trusted = None if trusted_hosts is None else [each.lower() for each in trusted_hosts]
    guard = None if trusted is None else AddressGuard(trusted, None, lambda: None)
    async with _own(guard, most_idle=_MOST_IDLE) as fetch:
        yield fetch


@asynccontextmanager
async def open_client_fetch(
    url: str, engine: Http1Engine | None, http_client: HttpxClient | None
) -> AsyncGenerator[Fetch]:
    """Open the fetcher for the requests of a client to hosts other than its server.

    Args:
        url: the address of the server.
        engine: makes the requests to the server; None if a proxy or *http_client* does, so that the address of the
            server is unknown.
        http_client: the user's client, if there is one; not closed.
    """
    host = place_of(url).host
    if http_client is not None:
        yield HttpFetch(_Sender(_unpinned(http_client), AddressGuard([host], host, lambda: None), pins=False))
        return
    guard = AddressGuard([host], host, lambda: None if engine is None else engine.reached_at)
    async with _own(guard, most_idle=0) as fetch:
        yield fetch


_CALL_SECONDS = (FETCH_SECONDS, FETCH_SECONDS / _MOST_ADDRESSES)
"""The maximum times to wait for a step of a request, and for a connection."""


@asynccontextmanager
async def _own(guard: AddressGuard | None, *, most_idle: int) -> AsyncGenerator[Fetch]:
    """Open a fetcher with connections of its own, which keeps at most *most_idle* of them for later requests."""
    if has_proxies():
        from ._httpx_engine import new_httpx_client  # noqa: PLC0415 # it loads httpx2

        client = new_httpx_client(most_idle=most_idle)
        sender, close = _Sender(_unpinned(client), guard, pins=False), client.aclose
    else:
        engine = Http1Engine(most_idle=most_idle, connect_seconds=_CALL_SECONDS[1], cookies=False)

        def send(call: HttpCall, address: str | None) -> AbstractAsyncContextManager[HttpResponse]:
            return engine.request(call.method, call.url, call.headers, call.body, address=address)

        sender, close = _Sender(send, guard, pins=True), engine.aclose
    try:
        yield HttpFetch(sender)
    finally:
        with trio.CancelScope(shield=True):  # no request is open, so closing does not block
            await close()


def _unpinned(client: HttpxClient) -> _CallAt:
    """Return a function that sends requests with httpx2, which looks up every host itself."""
    from ._httpx_engine import without_defaults  # noqa: PLC0415 # it loads httpx2

    send = without_defaults(client, _CALL_SECONDS)
    return lambda call, _: send(call.method, call.url, call.headers, call.body)


def has_proxies() -> bool:
    """Return True if the environment, or the settings of the system, name a proxy."""
    if not may_have_proxies():
        return False
    proxies = getproxies()
    return any(proxies.get(scheme) for scheme in _PROXIED)


@frozen
class _Sender:
    """Sends single requests; see `Sender`."""

    _call: _CallAt
    _guard: AddressGuard | None
    """Checks hosts; None if they may have any address."""
    pins: bool
    """True if the checked address is the one to connect to."""

    @asynccontextmanager
    async def __call__(self, call: HttpCall) -> AsyncGenerator[HttpResponse]:
        addresses = await self._addresses(call)
        async with AsyncExitStack() as stack:
            yield await self._send(call, addresses, stack)

    async def _addresses(self, call: HttpCall) -> Sequence[str | None]:
        """Return the addresses to try, in order; None stands for a regular lookup of the name."""
        if call.named_by == "user" or self._guard is None:
            return [None]
        try:
            place = place_of(call.url)
        except ValueError as exc:  # such as 0177.0.0.1
            raise CallFailed(f"{shown(call.url)} is not a valid address: {exc}") from None
        addresses = await self._guard.addresses(place.host, place.port)
        if addresses is None or not self.pins:
            return [None]
        if not addresses:
            raise CallFailed(f"{shown(call.url)}: the host is not found")
        return addresses[:_MOST_ADDRESSES]

    async def _send(self, call: HttpCall, addresses: Sequence[str | None], stack: AsyncExitStack) -> HttpResponse:
        *others, last = addresses
        for address in others:
            try:
                return await stack.enter_async_context(self._call(call, address))
            except EngineError as exc:
                if exc.sent:
                    raise
        return await stack.enter_async_context(self._call(call, last))
