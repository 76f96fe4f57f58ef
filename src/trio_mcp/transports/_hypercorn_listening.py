"""What an HTTP server is told: where it listens, and what one connection may cost."""

from __future__ import annotations

import math
import os
from typing import Any

from attrs import Attribute, field, frozen

__all__ = ["HttpListening"]


def _positive(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"HttpListening({attribute.name}={value!r}): must be a number above 0")


def _port(_: object, attribute: Attribute[Any], value: int) -> None:
    if isinstance(value, bool) or not 0 <= value <= 65_535:
        raise ValueError(f"HttpListening({attribute.name}={value!r}): must be from 0 to 65535")


@frozen(kw_only=True)
class HttpListening:
    """Where an HTTP server listens, and what one connection may cost.

    Sizes are bytes, times are seconds; `math.inf` lifts a time limit. The defaults serve this machine alone.

    Raises:
        ValueError: a number is out of its range, or there is a key without a certificate.
    """

    host: str = "127.0.0.1"
    """A name or an address. A name with several addresses, such as `localhost`, is listened to at each of them;
    `0.0.0.0` is every IPv4 address of this machine, and `::` every IPv6 one."""
    port: int = field(default=8000, validator=_port)
    """0 takes any that is free; `Bound.port` tells which."""
    unix_socket: str | os.PathLike[str] | None = None
    """The path of a Unix socket, in place of host and port. One that nobody listens to any more is replaced."""
    certfile: str | os.PathLike[str] | None = None
    """The certificate of this server, and those that lead to its authority, as PEM. With it TLS is spoken, and
    nothing else."""
    keyfile: str | os.PathLike[str] | None = None
    """The private key of the certificate, as PEM; by default in the file of the certificate."""
    keyfile_password: str | None = field(default=None, repr=False)
    """What the key is encrypted with."""
    http2: bool = True
    """Speak HTTP/2 as well: where TLS settles on it, and without TLS to clients that begin with it."""
    backlog: int = field(default=1024, validator=_positive)
    """Connections that may wait to be accepted; the system may have a lower limit."""
    head_seconds: float = field(default=15.0, validator=_positive)
    """How long a client may take for the head of a request: for the first one from the connection on, TLS included;
    for the next ones from their first byte on."""
    keep_alive_seconds: float = field(default=75.0, validator=_positive)
    """How long a connection may lie idle between two requests."""
    write_seconds: float = field(default=30.0, validator=_positive)
    """A client that takes less than 64 KiB of what waits for it in that time loses its connection; over HTTP/2, one
    that grants a stream no room for that long loses that stream."""
    max_head_bytes: int = field(default=16 * 2**10, validator=_positive)
    """The longest head of a request; a longer one is refused with 431, and over HTTP/2 costs the connection."""

    def __attrs_post_init__(self) -> None:
        if self.keyfile is not None and self.certfile is None:
            raise ValueError(f"HttpListening(keyfile={os.fspath(self.keyfile)!r}): there is no certfile to go with it")

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.certfile is not None
