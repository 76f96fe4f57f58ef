"""The URLs of authorization: which of them are safe, which stand for the same server, and where metadata is published.

Rules of this file:

1. A URL is ``http`` or ``https``, absolute, and made of the characters that RFC 3986 knows. Whatever two parsers could
   read in two ways (a backslash, a blank, a control character, two ``@``, an escape in the host) is none.
2. Scheme and host are compared without regard to case, and a port that is the scheme's own is as good as none. Paths
   are compared as they stand, by whole segments.
3. TLS is left out for this machine alone, and for hosts that the user trusts by name.

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
    "origin_of",
    "read_url",
    "resource_of",
    "server_metadata_urls",
    "shown_text",
    "shown_url",
    "well_known_urls",
]


# How words of another side get into a message of ours: short, printable, and without the parts that may be secret.

_LONGEST = 200  # characters


def shown_text(text: str) -> str:
    """Return *text* as a message may have it: ``?`` for what cannot be printed, and ``...`` for what is too much."""
    head = "".join(char if char.isprintable() else "?" for char in text[:_LONGEST])
    return head if len(text) <= _LONGEST else f"{head}..."


def shown_url(url: str) -> str:
    """Return a URL as it can stand in a message: without what names a user, without query and fragment."""
    scheme, separator, rest = url.partition("?")[0].partition("#")[0].rpartition("://")
    authority, slash, path = rest.partition("/")
    return shown_text(f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}")


_LONGEST_URL = 2048  # characters, of one that another side has named
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
    """The parts of a URL; None where it has no such part, which is not the same as an empty one."""

    scheme: str
    """Lower-case."""
    user: str | None
    host: str
    """Lower-case; an IPv6 address has no brackets."""
    port: int
    path: str
    """As it stands; empty, or begins with ``/``."""
    query: str | None
    fragment: str | None

    @property
    def origin(self) -> str:
        """Scheme, host and port, as RFC 6454 writes them: no port where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def read_url(text: str) -> Url | None:
    """Return the parts of a URL (rule 1); None where it is none."""
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
    """Return a name or an address, without brackets and in the one spelling of it; None where there is no such one."""
    if not text.startswith("["):
        return text
    address = _address(text[1:-1])
    return str(address) if isinstance(address, ipaddress.IPv6Address) else None


def is_local_host(host: str) -> bool:
    """Tell whether a host, as a URL names it, is this machine: ``localhost``, 127.0.0.0/8 or ``::1``.

    Nothing is resolved: a name that leads here without saying so is not local.
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
    """Return *url*, if requests with secrets may go there, or a browser may be led there (rule 3).

    Args:
        url: absolute, without user and fragment.
        what: it is, for the message: ``"token endpoint"``.
        trusted_hosts: names of hosts, without port, that may be reached without TLS.

    Raises:
        AuthorizationFailed: they may not; the text names *what* and why.
    """
    parts = read_url(url) if len(url) <= _LONGEST_URL else None
    if parts is None:
        raise AuthorizationFailed(f"the {what} {shown_url(url)!r} is no http or https URL")
    if parts.user is not None or parts.fragment is not None:
        raise AuthorizationFailed(f"the {what} {shown_url(url)!r} has a user name or a fragment, which it may not have")
    trusted = {host.lower().strip("[]") for host in trusted_hosts}
    if parts.scheme != "https" and not is_local_host(parts.host) and parts.host not in trusted:
        raise AuthorizationFailed(
            f"the {what} {shown_url(url)!r} is without TLS, and neither on this machine nor on a trusted host"
        )
    return url


def origin_of(url: str) -> str:
    """Return the origin of a URL, in the one spelling of it.

    Raises:
        ValueError: it is no http or https URL.
    """
    return _parts_of(url).origin


def resource_of(url: str) -> str:
    """Return the canonical URI of the server at *url*: the same for all spellings of one URL (rule 2).

    It has no fragment, and no slash at the end of its path.

    Raises:
        ValueError: it is no http or https URL.
    """
    parts = _parts_of(url)
    query = "" if parts.query is None else f"?{parts.query}"
    return f"{parts.origin}{parts.path.rstrip('/')}{query}"


def covers(resource: str, url: str) -> bool:
    """Tell whether *resource*, as metadata names it, stands for the server at *url* (rule 2).

    It does where it is the server's own URL, one above it on the same origin, or the origin. A slash at the end of its
    path means nothing; a query has to be that of *url*.
    """
    claimed, own = read_url(resource) if len(resource) <= _LONGEST_URL else None, read_url(url)
    if claimed is None or own is None or claimed.user is not None or claimed.fragment is not None:
        return False
    if claimed.origin != own.origin or claimed.query not in {None, own.query}:
        return False
    return f"{own.path.rstrip('/')}/".startswith(f"{claimed.path.rstrip('/')}/")


def well_known_urls(url: str, name: str) -> list[str]:
    """Return where the metadata of what is at *url* may be, the most likely place first and none twice.

    The path of *url* stands behind the well-known one, as it is or without the slash at its end; or nothing does.

    Args:
        url: of a server, or an issuer.
        name: of the document, such as ``"oauth-protected-resource"``.

    Raises:
        ValueError: it is no http or https URL.
    """
    parts = _parts_of(url)
    root = f"{parts.origin}/.well-known/{name}"
    path = "" if parts.path == "/" else parts.path
    query = "" if parts.query is None else f"?{parts.query}"
    return list(dict.fromkeys([f"{root}{path}{query}", f"{root}{path.rstrip('/')}{query}", root]))


def server_metadata_urls(issuer: str) -> list[str]:
    """Return where an authorization server publishes its metadata, in the order in which they are looked for.

    Raises:
        ValueError: *issuer* is no http or https URL.
    """
    parts = _parts_of(issuer)
    path = parts.path.rstrip("/")
    root = f"{parts.origin}/.well-known"
    places = [f"{root}/oauth-authorization-server{path}", f"{root}/openid-configuration{path}"]
    return [*places, f"{parts.origin}{path}/.well-known/openid-configuration"] if path else places


def _parts_of(url: str) -> Url:
    parts = read_url(url)
    if parts is None:
        raise ValueError(f"{shown_url(url)!r} is no http or https URL")
    return parts
