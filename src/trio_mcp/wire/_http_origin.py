"""Who a request thinks it talks to, and which web page sent it: the defence against DNS rebinding.

A page of a foreign site can make a browser talk to a server on the user's own machine, by a name that suddenly stands
for 127.0.0.1. The browser then sends that name as `Host`, and the page's site as `Origin`; a server that knows its own
names refuses both.

Rules of this file:

1. An entry for hosts is a name or an address, IPv6 in brackets, and perhaps a port: `localhost:*`, `127.0.0.1:8000`,
   `[::1]:*`, `example.com`. One for origins has a scheme before it: `https://example.com`, `http://localhost:*`.
2. The port `*` stands for any, and for none. Without port, only what has none fits; an origin has none either where
   it is the scheme's own.
3. Names are compared without regard to case. What is malformed, and the opaque origin `null`, fits nothing.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-&-endpoint
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from attrs import frozen

__all__ = ["host_is_allowed", "is_host_entry", "is_origin_entry", "origin_is_allowed"]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\s,*]+)(?::([0-9]*|\*))?", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ANY = "*"


@frozen
class _Place:
    """A host with its port, and its scheme where it is an origin. All lower-case; empty where there is none."""

    scheme: str
    host: str
    port: str

    def covers(self, other: _Place) -> bool:
        """Tell whether this entry stands for *other*."""
        return self.scheme == other.scheme and self.host == other.host and self.port in {_ANY, other.port}


def host_is_allowed(host: str | None, allowed: Sequence[str]) -> bool:
    """Tell whether one of the entries *allowed* stands for the `Host` of a request."""
    return _host_is_allowed(host or "", tuple(allowed))


@lru_cache(maxsize=64)  # most requests name the same
def _host_is_allowed(host: str, allowed: Sequence[str]) -> bool:
    place = _read_host(host)
    return place is not None and place.port != _ANY and _is_covered(place, map(_read_host, allowed))


def origin_is_allowed(origin: str, allowed: Sequence[str]) -> bool:
    """Tell whether one of the entries *allowed* stands for the `Origin` of a request."""
    place = _read_origin(origin)
    return place is not None and place.port != _ANY and _is_covered(place, map(_read_origin, allowed))


def is_host_entry(entry: str) -> bool:
    """Tell whether *entry* can stand in a list of hosts."""
    return _read_host(entry) is not None


def is_origin_entry(entry: str) -> bool:
    """Tell whether *entry* can stand in a list of origins."""
    return _read_origin(entry) is not None


def _is_covered(place: _Place, entries: Iterable[_Place | None]) -> bool:
    return any(entry is not None and entry.covers(place) for entry in entries)


def _read_host(text: str) -> _Place | None:
    found = _HOST.fullmatch(text)
    return None if found is None else _Place("", found[1].lower(), found[2] or "")


def _read_origin(text: str) -> _Place | None:
    scheme, separator, rest = text.lower().partition("://")
    place = _read_host(rest)
    if not separator or not _SCHEME.fullmatch(scheme) or place is None:
        return None
    port = "" if place.port == _DEFAULT_PORTS.get(scheme) else place.port
    return _Place(scheme, place.host, port)
