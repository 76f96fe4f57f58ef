"""The listening sockets of an HTTP server, and its limits for a connection.

The sockets are bound before anything else happens, and listen from then on. So the owner of the address is certain from
the start, and clients that connect while the application starts wait for it.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio
from attrs import Attribute, define, field, frozen

from ..._connection_bound import default_max_connections

__all__ = ["Bound", "HttpListening", "HttpSockets", "bind_sockets"]


def _positive(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"HttpListening({attribute.name}={value!r}): must be a number above 0")


def _port(_: object, attribute: Attribute[Any], value: int) -> None:
    if type(value) is not int or not 0 <= value <= 65_535:
        raise ValueError(f"{attribute.name}={value!r}: must be an integer from 0 to 65535")


@frozen(kw_only=True)
class HttpListening:
    """The settings of an HTTP server's sockets: the address, TLS, and the limits of a connection.

    Sizes are bytes, times are seconds; `math.inf` disables a timeout. By default, only this machine is served.

    Raises:
        ValueError: a number is out of range, or there is a key without a certificate.
    """

    host: str = "127.0.0.1"
    """A name or an address. A name with several addresses, such as `localhost`, is bound at each of them; `0.0.0.0` is
    every IPv4 address of this machine, and `::` every IPv6 address."""
    port: int = field(default=8000, validator=_port)
    """0 chooses a free port; `Bound.port` holds it."""
    unix_socket: str | os.PathLike[str] | None = None
    """The path of a Unix socket, in place of host and port. A stale one is replaced."""
    certfile: str | os.PathLike[str] | None = None
    """The certificate of this server and its chain, as PEM. With it, only TLS is spoken."""
    keyfile: str | os.PathLike[str] | None = None
    """The private key of the certificate, as PEM; by default in the file of the certificate."""
    keyfile_password: str | None = field(default=None, repr=False)
    """The password of the encrypted key."""
    http2: bool = True
    """True to speak HTTP/2 as well: if TLS negotiates it, and without TLS to clients that start with it."""
    backlog: int = field(default=1024, validator=_positive)
    """The number of connections that may wait to be accepted; the system may have a lower limit."""
    max_connections: int = field(factory=default_max_connections, validator=_positive)
    """The maximum number of open connections; by default three quarters of the descriptors that the process may have,
    and at most 16,384. Beyond it, a new connection replaces the one that is idle longest, or else one of the address
    that has the most; if that is its own address, the new one is closed. Idle connections of an address with more than
    a quarter of all are replaced first, and one with more than half replaces only its own."""
    head_seconds: float = field(default=15.0, validator=_positive)
    """The maximum time for the head of a request: for the first one from the connection on, including TLS; for the next
    ones from their first byte on."""
    keep_alive_seconds: float = field(default=75.0, validator=_positive)
    """The maximum time that a connection may be idle between two requests."""
    write_seconds: float = field(default=30.0, validator=_positive)
    """A client that takes less than 64 KiB of waiting data in that time loses its connection; over HTTP/2, a stream
    that is granted no window for that long is reset."""
    max_head_bytes: int = field(default=16 * 2**10, validator=_positive)
    """The maximum size of the head of a request; a larger one is refused with 431, and over HTTP/2 ends the connection.
    """

    def __attrs_post_init__(self) -> None:
        if self.keyfile is not None and self.certfile is None:
            raise ValueError(f"HttpListening(keyfile={os.fspath(self.keyfile)!r}): needs a certfile")

    @property
    def is_encrypted(self) -> bool:
        """True if TLS is spoken."""
        return self.certfile is not None


_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""The errors of an address in a family that this machine does not use."""
_TRIES = 10
"""The number of attempts to find a port that is free at every address."""


@frozen
class Bound:
    """The addresses that a server is bound to."""

    urls: tuple[str, ...]
    """One for each address, without a path, such as `http://127.0.0.1:8000`; `unix:` and the path of a Unix socket."""
    port: int | None
    """None for a Unix socket."""


@define(eq=False)
class HttpSockets:
    """Listening sockets, to be closed once. Use it as a context manager."""

    sockets: Sequence[socket.socket]
    bound: Bound
    _file: Path | None = field(default=None, init=False)
    _identity: tuple[int, ...] | None = field(default=None, init=False)

    @classmethod
    def of(cls, sockets: Sequence[socket.socket], listening: HttpListening) -> HttpSockets:
        """Take over bound sockets."""
        scheme = "https" if listening.is_encrypted else "http"
        ports = [int(each.getsockname()[1]) for each in sockets if not _is_unix(each)]
        bound = Bound(tuple(_url(each, scheme) for each in sockets), ports[0] if ports else None)
        return cls(sockets, bound)

    def owns_file(self, path: Path) -> None:
        """Remove the file of a Unix socket at the end, unless it was replaced by another one."""
        self._file = path
        self._identity = _identity(path)

    def close(self) -> None:
        """Close the sockets and remove their file."""
        for each in self.sockets:
            each.close()
        if self._file is not None:
            with suppress(OSError):
                if _identity(self._file) == self._identity:
                    self._file.unlink()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def bind_sockets(listening: HttpListening) -> HttpSockets:
    """Bind the address in *listening*, and listen there.

    Raises:
        OSError: that is impossible; the message names the address and the reason. Its `errno` is the system's.
    """
    if listening.unix_socket is not None:
        path = Path(listening.unix_socket)
        sockets = HttpSockets.of([_bind_unix(path, listening.backlog)], listening)
        sockets.owns_file(path)
        return sockets
    place = f"{_in_brackets(listening.host)}:{listening.port}"
    try:
        addresses = await _addresses(listening)
        tries = _TRIES if listening.port == 0 and len(addresses) > 1 else 1
        return HttpSockets.of(_bind_all(addresses, listening.backlog, tries), listening)
    except OSError as error:
        raise _cannot_listen(place, error) from None


def _identity(path: Path) -> tuple[int, ...]:
    """Return the identity of a file, also different for one that reuses the inode of a removed file."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _cannot_listen(place: object, error: OSError) -> OSError:
    return type(error)(error.errno, f"cannot listen on {place}: {error.strerror or error}")


def _is_unix(bound: socket.socket) -> bool:
    return isinstance(bound.getsockname(), (str, bytes))


def _url(bound: socket.socket, scheme: str) -> str:
    name = bound.getsockname()
    return f"unix:{os.fsdecode(name)}" if _is_unix(bound) else f"{scheme}://{_in_brackets(name[0])}:{name[1]}"


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


_Address = tuple[socket.AddressFamily, tuple[str, int]]


async def _addresses(listening: HttpListening) -> list[_Address]:
    found = await trio.socket.getaddrinfo(
        listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    addresses = [(family, (str(address[0]), int(address[1]))) for family, _, _, _, address in found]
    return [*dict.fromkeys(addresses)]


def _bind_all(addresses: Sequence[_Address], backlog: int, tries: int) -> list[socket.socket]:
    """Bind each address with the same port, except those that this machine does not have."""
    bound: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, (host, asked) in addresses:
            port = asked or (int(bound[0].getsockname()[1]) if bound else 0)
            try:
                bound.append(_bind_tcp(family, (host, port), backlog))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
    except OSError as error:
        for each in bound:
            each.close()
        if tries > 1 and error.errno == errno.EADDRINUSE:
            return _bind_all(addresses, backlog, tries - 1)
        raise
    if not bound and missing is not None:
        raise missing
    return bound


def _bind_tcp(family: socket.AddressFamily, address: tuple[str, int], backlog: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # pragma: no cover # on Windows, SO_REUSEADDR would take over a port in use
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


def _bind_unix(path: Path, backlog: int) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):  # pragma: no cover # Windows
        raise OSError(errno.EAFNOSUPPORT, f"cannot listen on {path}: Python has no Unix sockets on this system")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listener.bind(str(path))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise _cannot_listen(path, error) from None
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the file at *path* if it is a socket that no process listens on."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "the file exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # a process listens, and its backlog is full
    raise OSError(errno.EADDRINUSE, "another process listens on it")
