"""URLs of authorization: parsing, safety, canonical forms, and well-known URLs of metadata.

Rules of this file:

1. A URL is ``http`` or ``https``, absolute, and made of the characters of RFC 3986. A string that two parsers could
   read in two ways (with a backslash, a space, a control character, two ``@``, an escape in the host) is refused.
2. Scheme and host are compared without regard to case, and the default port of the scheme may be left out. Paths are
   compared unchanged, by whole segments.
3. Only this machine, and hosts that the user trusts by name, may be reached without TLS.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#canonical-server-uri
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from attrs import frozen

from .._errors import AuthorizationFailed

__all__ = [
    "Url",
    "checked_endpoint",
    "covers",
    "is_local_host",
    "is_loopback",
    "origin_of",
    "read_url",
    "resource_of",
    "server_metadata_urls",
    "shown_text",
    "shown_url",
    "well_known_urls",
]


# --- Strings of a peer in messages ---

_LONGEST = 200  # characters


def shown_text(text: str) -> str:
    """Return *text* for a message: ``?`` replaces characters that are not printable, and ``...`` a long rest."""
    head = "".join(char if char.isprintable() else "?" for char in text[:_LONGEST])
    return head if len(text) <= _LONGEST else f"{head}..."


def shown_url(url: str) -> str:
    """Return a URL for a message, without user name, query and fragment."""
    scheme, separator, rest = url.partition("?")[0].partition("#")[0].rpartition("://")
    authority, slash, path = rest.partition("/")
    return shown_text(f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}")


_LONGEST_URL = 2048  # characters of a URL that a peer has named
_LEGAL = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
_PARTS = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#@]*)@)?(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._\-]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOCAL = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@frozen(kw_only=True)
class Url:
    """The parts of a URL. A missing part is None, which differs from an empty one."""

    scheme: str
    """In lower case."""
    user: str | None
    host: str
    """In lower case; an IPv6 address has no brackets."""
    port: int
    path: str
    """Unchanged; empty, or starting with ``/``."""
    query: str | None
    fragment: str | None

    @property
    def origin(self) -> str:
        """Scheme, host and port, as in RFC 6454: without the default port of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def read_url(text: str) -> Url | None:
    """Parse a URL (rule 1); return None if it is invalid."""
    found = _PARTS.fullmatch(text) if _LEGAL.fullmatch(text) else None
    if found is None:
        return None
    scheme = found["scheme"].lower()
    port = int(found["port"] or _DEFAULT_PORTS[scheme])
    host = _read_host(found["host"].lower())
    if port > 65535 or host is None:
        return None
    path = found["path"] or ""
    query, fragment = found["query"], found["fragment"]
    return Url(scheme=scheme, user=found["user"], host=host, port=port, path=path, query=query, fragment=fragment)


def _read_host(text: str) -> str | None:
    """Return a name or an address in its canonical form, without brackets; None if it is invalid."""
    if not text.startswith("["):
        return text
    address = _address(text[1:-1])
    return str(address) if isinstance(address, ipaddress.IPv6Address) else None


def is_local_host(host: str) -> bool:
    """Return True if the host of a URL is this machine: ``localhost``, 127.0.0.0/8 or ``::1``.

    Names are not resolved: any other name counts as remote.
    """
    host = host.lower().removeprefix("[").removesuffix("]")
    address = _address(host)
    return host == "localhost" if address is None else any(address in network for network in _LOCAL)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def checked_endpoint(url: str, what: str, trusted_hosts: Sequence[str]) -> str:
    """Return *url* if requests with secrets, or a browser, may be sent there (rule 3).

    Args:
        url: an absolute URL, without user name and fragment.
        what: the name of the URL, for the message: ``"token endpoint"``.
        trusted_hosts: names of hosts, without port, that may be reached without TLS.

    Raises:
        AuthorizationFailed: the URL is not safe; the message names *what*, and the reason.
    """
    parts = read_url(url) if len(url) <= _LONGEST_URL else None
    if parts is None:
        raise AuthorizationFailed(f"the {what} {shown_url(url)!r} is not an http or https URL")
    if parts.user is not None or parts.fragment is not None:
        raise AuthorizationFailed(f"the {what} {shown_url(url)!r} has a user name or a fragment, which is not allowed")
    trusted = {host.lower().strip("[]") for host in trusted_hosts}
    if parts.scheme != "https" and not is_local_host(parts.host) and parts.host not in trusted:
        raise AuthorizationFailed(
            f"the {what} {shown_url(url)!r} is without TLS, and neither on this machine nor on a trusted host"
        )
    return url


def origin_of(url: str) -> str:
    """Return the origin of a URL, in its canonical form.

    Raises:
        ValueError: it is not an http or https URL.
    """
    return _parts_of(url).origin


def resource_of(url: str) -> str:
    """Return the canonical URI of the server at *url*: the same for all spellings of one URL (rule 2).

    It has no fragment, and its path does not end with a slash.

    Raises:
        ValueError: it is not an http or https URL.
    """
    parts = _parts_of(url)
    query = "" if parts.query is None else f"?{parts.query}"
    return f"{parts.origin}{parts.path.rstrip('/')}{query}"


def covers(resource: str, url: str) -> bool:
    """Return True if *resource*, which metadata names, includes the server at *url* (rule 2).

    It is the server's URL, one above it at the same origin, or the origin. A slash at the end of its path is ignored; a
    query must equal that of *url*.
    """
    claimed, actual = read_url(resource) if len(resource) <= _LONGEST_URL else None, read_url(url)
    if claimed is None or actual is None or claimed.user is not None or claimed.fragment is not None:
        return False
    if claimed.origin != actual.origin or claimed.query not in {None, actual.query}:
        return False
    return f"{actual.path.rstrip('/')}/".startswith(f"{claimed.path.rstrip('/')}/")


def well_known_urls(url: str, name: str) -> list[str]:
    """Return the well-known URLs of the metadata of *url*, the most likely one first, without duplicates.

    The path of *url* follows the well-known path, unchanged or without the slash at its end; or it is left out.

    Args:
        url: the URL of a server, or an issuer.
        name: the name of the document, such as ``"oauth-protected-resource"``.

    Raises:
        ValueError: it is not an http or https URL.
    """
    parts = _parts_of(url)
    root = f"{parts.origin}/.well-known/{name}"
    path = "" if parts.path == "/" else parts.path
    query = "" if parts.query is None else f"?{parts.query}"
    return list(dict.fromkeys([f"{root}{path}{query}", f"{root}{path.rstrip('/')}{query}", root]))


def server_metadata_urls(issuer: str) -> list[str]:
    """Return the URLs at which an authorization server may publish its metadata, in the order of lookup.

    Raises:
        ValueError: *issuer* is not an http or https URL.
    """
    parts = _parts_of(issuer)
    path = parts.path.rstrip("/")
    root = f"{parts.origin}/.well-known"
    places = [f"{root}/oauth-authorization-server{path}", f"{root}/openid-configuration{path}"]
    return [*places, f"{parts.origin}{path}/.well-known/openid-configuration"] if path else places


def _parts_of(url: str) -> Url:
    parts = read_url(url)
    if parts is None:
        raise ValueError(f"{shown_url(url)!r} is not an http or https URL")
    return parts


def is_loopback(redirect_uri: str) -> bool:
    """Return True if a redirect URI is an http URL of this machine."""
    url = read_url(redirect_uri)
    return url is not None and url.scheme == "http" and is_local_host(url.host)
