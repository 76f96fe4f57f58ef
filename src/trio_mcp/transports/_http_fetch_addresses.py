"""Into which networks a server may lead its clients: none that it could not reach itself.

Rules of this file:

1. A host that a server has named is looked up before anything is sent, and all its addresses have to be public.
2. Whoever speaks to a server on this machine may be led to this machine, and to private networks; whoever speaks to one
   in a private network, to private networks. Where a server is, its address says, to which a connection was made: what
   its name resolves to at another time is the server's to choose.
3. Hosts that the user has named, the server's own among them, may be anywhere.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Literal, TypeAlias

import trio
from attrs import frozen

from ..auth import CallFailed

__all__ = ["AddressGuard", "Network", "network_of"]

Network: TypeAlias = Literal["public", "private", "loopback", "other"]
"""What an address belongs to; *other* are those that no service should have: link-local, multicast, reserved."""

_PRIVATE = [*map(ip_network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))]
"""Among them the addresses that carriers and overlay networks share."""
_ODD = [*map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))]
"""Addresses for protocols and examples, which not every version of Python tells apart; services of clouds are there."""
_TRANSLATED = ip_network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 ones, by RFC 6052."""
_REACHABLE: dict[Network, tuple[Network, ...]] = {
    "public": ("public",),
    "private": ("public", "private"),
    "loopback": ("public", "private", "loopback"),
    "other": ("public",),
}
"""Where a server may lead to, by where it is itself."""


def network_of(address: str) -> Network:
    """Return what an address belongs to; raises `ValueError` for what is none."""
    found = _plain(ip_address(address))
    if found.is_loopback:
        return "loopback"
    if any(found in network for network in _PRIVATE):
        return "private"
    is_odd = found.is_link_local or found.is_multicast or found.is_reserved or found.is_unspecified
    is_odd = is_odd or (isinstance(found, IPv6Address) and found.is_site_local)
    is_odd = is_odd or any(found in network for network in _ODD)
    return "public" if found.is_global and not is_odd else "other"


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 one stands for, if it stands for one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


@frozen
class AddressGuard:
    """Tells where a server may lead to.

    Args:
        named: hosts that the user has named, in lower case.
        host: of the server, in lower case; None where there is none.
        reached_at: returns the address at which it was reached; None where that is not known.
    """

    _named: Collection[str]
    _host: str | None
    _reached_at: Callable[[], str | None]

    async def addresses(self, host: str, port: int) -> list[str] | None:
        """Return at which addresses to reach a host that the server has named; None: wherever it is.

        The list is empty where the host is not found.

        Raises:
            CallFailed: it may not be reached.
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
                    f"{host!r} is at {address}, where a server on the internet may not lead to; "
                    "if it may, name the host in trusted_hosts"
                )
        return addresses

    def _own_network(self) -> Network:
        if self._host == "localhost":
            return "loopback"
        for address in (self._host, self._reached_at()):
            if address is not None:
                with suppress(ValueError):  # the host is a name: see rule 2
                    return network_of(address)
        return "public"
