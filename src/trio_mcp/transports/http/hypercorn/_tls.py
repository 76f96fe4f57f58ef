"""TLS of an HTTP server: its certificate, and the renewal of it while the server runs.

Rules of this file:

1. The files are looked at when a client connects, at most once in `LOOK_SECONDS`. Nothing happens while no client does.
2. A changed pair is loaded into a context of its own, so that a pair that cannot be used leaves the old one as it is.
3. A connection keeps the certificate that it began with.
"""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import TypeAlias, TypeVar

import trio
from attrs import define, field

from ._sockets import HttpListening

__all__ = ["RenewedContext", "TlsListener", "tls_context"]

_log = logging.getLogger("trio_mcp.transports")

LOOK_SECONDS = 60.0
"""The time between two looks at the files of the certificate."""

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2 that HTTP/2 allows (RFC 9113, 9.2.2). TLS 1.3 has no others."""


def tls_context(listening: HttpListening) -> ssl.SSLContext | None:
    """Return the TLS context of the server's connections; None without TLS.

    Raises:
        OSError: a file cannot be read; the message names it.
        ValueError: the certificate or the key cannot be used; the message names the files.
    """
    if listening.certfile is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION  # RFC 9113, 9.2.1
    context.set_alpn_protocols(["h2", "http/1.1"] if listening.http2 else ["http/1.1"])
    _load(context, os.fspath(listening.certfile), os.fspath(listening.keyfile or listening.certfile), listening)
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str, listening: HttpListening) -> None:
    files = " and ".join(dict.fromkeys([certificate, key]))
    is_encrypted = False

    def password() -> str:
        """Return the password. Called only for an encrypted key; without it, OpenSSL would ask at the terminal."""
        nonlocal is_encrypted
        is_encrypted = True
        if listening.keyfile_password is None:
            raise ValueError(f"cannot use {files} for TLS: the key is encrypted; give keyfile_password")
        return listening.keyfile_password

    for path in (certificate, key):
        with Path(path).open("rb"):
            pass  # unlike `load_cert_chain`, this names the file in its error
    try:
        context.load_cert_chain(certificate, key, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = "the key does not belong to the certificate"
        elif is_encrypted:
            reason = "keyfile_password is wrong"
        else:
            reason = "it needs a certificate and a private key, both as PEM"
        raise ValueError(f"cannot use {files} for TLS: {reason}") from error


_Stamp: TypeAlias = "tuple[tuple[int, ...] | None, ...]"
"""The times and identities of files; None for one that cannot be read."""
S = TypeVar("S", bound=trio.abc.Stream)


@define(eq=False)
class RenewedContext:
    """The TLS context of a server, whose certificate is that of the files when they were last looked at.

    Raises:
        OSError: a file cannot be read; the message names it.
        ValueError: the certificate or the key cannot be used; the message names the files.
    """

    _listening: HttpListening
    _stamp: _Stamp = field(init=False)
    _context: ssl.SSLContext = field(init=False)
    _next_look: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stamp = self._read_stamp()  # first: a change while the files are loaded is then seen later
        self._context = self._load()
        self._next_look = trio.current_time() + LOOK_SECONDS

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection; synchronous, because it takes a millisecond at most."""
        now = trio.current_time()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._look()
        return self._context

    def _look(self) -> None:
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = self._load()
        except (OSError, ValueError) as error:
            _log.warning("the files of the certificate have changed, and the old certificate stays: %s", error)
        else:
            _log.info("new connections get the certificate that is in %s now", self._listening.certfile)

    def _load(self) -> ssl.SSLContext:
        context = tls_context(self._listening)
        assert context is not None
        return context

    def _read_stamp(self) -> _Stamp:
        files = (self._listening.certfile, self._listening.keyfile)
        return tuple(_stamp_of(Path(file)) for file in files if file is not None)


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()  # of what a symbolic link leads to: some programs renew by a new link
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)


@define(eq=False)
class TlsListener(trio.abc.Listener[trio.SSLStream[S]]):
    """A listener whose connections are encrypted, each with the context of its time."""

    _plain: trio.abc.Listener[S]
    _context: RenewedContext

    async def accept(self) -> trio.SSLStream[S]:
        """Accept a connection; its handshake is made when it is first used."""
        stream = await self._plain.accept()
        return trio.SSLStream(stream, self._context.current(), server_side=True)

    async def aclose(self) -> None:
        """Close the listener."""
        await self._plain.aclose()
