"""The sockets an HTTP server listens on: bound before anything else happens, and gone when it ends.

They listen from the start. So it is certain from the start whose address it is, and clients that come while the
application starts wait for it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import trio
from attrs import define, field, frozen

from ._hypercorn_listening import HttpListening

__all__ = ["Bound", "HttpSockets", "bind_sockets"]

_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""A name may have an address in a family that this machine does not use."""
_TRIES = 10
"""How often a free port is looked for that is free at every address."""


@frozen
class Bound:
    """Where a server can be reached."""

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
        """Take over sockets that are bound."""
        scheme = "https" if listening.is_encrypted else "http"
        ports = [int(each.getsockname()[1]) for each in sockets if not _is_unix(each)]
        bound = Bound(tuple(_url(each, scheme) for each in sockets), ports[0] if ports else None)
        return cls(sockets, bound)

    def owns_file(self, path: Path) -> None:
        """Remove the file of a Unix socket at the end, unless somebody has put another one there."""
        self._file = path
        self._identity = _identity(path)

    def close(self) -> None:
        """Close the sockets and remove the file that is theirs."""
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
    """Bind what *listening* names, and listen there.

    Raises:
        OSError: that is impossible; the text names the address and says why. Its `errno` is the system's.
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
    """Return what tells a file from others, also from one that has got the number of a file that is gone."""
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
    """Bind each address with the same port, leaving out those that this machine does not have."""
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
        if sys.platform == "win32":  # pragma: no cover # there, SO_REUSEADDR would take the port from its owner
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
    """Make room at *path* if what is there is a socket that nobody listens to."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "there is a file already, and it is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # somebody listens, and has much to do
    raise OSError(errno.EADDRINUSE, "another process listens there")
