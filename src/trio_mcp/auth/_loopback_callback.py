"""Where a browser can be sent back to on this machine: redirect URIs, and the sockets behind them.

Specification: https://www.rfc-editor.org/rfc/rfc8252#section-7.3
"""

from __future__ import annotations

import errno
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

import trio
from attrs import frozen

__all__ = ["USUAL", "Callback", "close_all", "listen"]

_NO_SUCH_FAMILY = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


@frozen
class Callback:
    """A redirect URI of this machine."""

    uri: str
    host: str
    port: int
    """0 for any."""
    path: str

    @classmethod
    def read(cls, uri: str) -> Callback | None:
        """Return what a redirect URI says; None where browsers would be led away from this machine."""
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname or "", parts.port or 0
        except ValueError:
            return None
        if parts.scheme != "http" or parts.fragment or "@" in parts.netloc or not _addresses(host):
            return None
        return cls(uri, host, port, parts.path or "/")

    @property
    def addresses(self) -> list[str]:
        """Where to listen."""
        return _addresses(self.host)

    def at(self, port: int) -> Callback:
        """Return the same with the port that was found; to the letter where that is its own."""
        if port == self.port:
            return self
        parts = urlsplit(self.uri)
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return Callback(parts._replace(netloc=f"{shown}:{port}").geturl(), self.host, port, self.path)


def _addresses(host: str) -> list[str]:
    """Return the addresses of a host's name; none where it is not this machine for sure.

    A browser may try either address of ``localhost``, so nobody else may sit at the other.
    """
    if host == "localhost":
        return ["127.0.0.1", "::1"]
    with suppress(ValueError):
        if ip_address(host).is_loopback:
            return [host]
    return []


USUAL = Callback("http://127.0.0.1/callback", "127.0.0.1", 0, "/callback")
"""Where nothing else is known."""


async def listen(addresses: list[str], port: int) -> list[trio.SocketListener]:
    """Listen at all addresses, at the same port; 0 for any.

    Raises:
        OSError: the port cannot be had at one of them.
    """
    listeners = await trio.open_tcp_listeners(port, host=addresses[0])
    port = listeners[0].socket.getsockname()[1]
    for address in addresses[1:]:
        try:
            listeners += await trio.open_tcp_listeners(port, host=address)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno in _NO_SUCH_FAMILY:
                continue  # a machine without IPv6 has one address
            close_all(listeners)
            raise
    return listeners


def close_all(listeners: list[trio.SocketListener]) -> None:
    """Listen no more; synchronous."""
    for listener in listeners:
        listener.socket.close()
