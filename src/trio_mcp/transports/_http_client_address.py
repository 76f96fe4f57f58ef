"""Where a client may send to, and what header fields of the caller's it sends along: checked before anything leaves.

An address that the other side names (an endpoint, a redirect) is one of the same origin, or it is refused: else a
server could have the client's credentials sent anywhere, and the client's network looked around in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from .._errors import RemoteProtocolError
from ..wire import LAST_EVENT_FIELD, METHOD_FIELD, NAME_FIELD, PARAM_PREFIX, SESSION_FIELD, VERSION_FIELD

__all__ = ["checked_endpoint", "checked_fields", "checked_url", "origin_of", "redirection", "split_url"]

_PORTS = {"http": 80, "https": 443}
_NOT_IN_URLS = re.compile(r"[\x00-\x20\x7f]")
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_OURS = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "transfer-encoding"),
    *(LAST_EVENT_FIELD, METHOD_FIELD, NAME_FIELD, SESSION_FIELD, VERSION_FIELD),
}
"""What the protocol says in header fields, for which there is nothing to add."""
_SHOWN = 200
"""Characters of an address of the other side's that an error shows."""


def checked_url(url: str) -> str:
    """Return the address of a server without its fragment.

    Raises:
        ValueError: it is none of ``http`` or ``https``, or holds a password.
    """
    try:
        parts = split_url(url)
    except ValueError as exc:
        raise ValueError(f"{_CREDENTIALS.sub('', url)!r} is no address of a server: {exc}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"the address of {parts.hostname!r} holds a user name or a password, and addresses are written to logs; "
            "send credentials in headers={'Authorization': ...}"
        )
    return urlunsplit(parts._replace(fragment=""))


def split_url(url: str) -> SplitResult:
    """Divide a complete address; raises `ValueError` with what is wrong."""
    if _NOT_IN_URLS.search(url):
        raise ValueError("it holds a space or a control character")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("it does not begin with http:// or https://")
    if not parts.hostname:
        raise ValueError("it names no host")
    _ = parts.port  # which raises for what is no port
    return parts


def origin_of(parts: SplitResult) -> tuple[str, str | None, int]:
    """Return what must be the same for an address to be as trusted as another."""
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def checked_endpoint(url: str, reference: str) -> str:
    """Return the address that a server at *url* names for messages, which may be relative to its own.

    Raises:
        RemoteProtocolError: it is no address, or one of another origin.
    """
    try:
        endpoint = urljoin(url, reference)
        parts = split_url(endpoint)
    except ValueError as exc:
        raise RemoteProtocolError(f"the server names {reference[:_SHOWN]!r} as its endpoint: {exc}") from None
    if origin_of(parts) != origin_of(urlsplit(url)):
        raise RemoteProtocolError(f"the server names an endpoint of another origin, {reference[:_SHOWN]!r}: refused")
    return endpoint


def redirection(url: str, location: str) -> str:
    """Say where a redirect leads, and what to make of it; none is followed."""
    try:
        target, source = split_url(urljoin(url, location)), urlsplit(url)
    except ValueError:
        return "redirects to what is no address"
    place = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}"[:_SHOWN]
    if target.hostname == source.hostname and (source.scheme, target.scheme) == ("http", "https"):
        return f"redirects to {place}: connect to the https address"
    return f"redirects to {place}; redirects are not followed: connect to that address if it is the right one"


def checked_fields(headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields of the caller's by lower-case name.

    Raises:
        ValueError: one is no header field, or the protocol's own.
    """
    fields: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"headers: {name!r} is no name of a header field")
        if lower in _OURS or lower.startswith(PARAM_PREFIX):
            raise ValueError(f"headers: {name!r} is a field of the protocol, which the client sets itself")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"headers: the value of {name!r} holds characters that no header field may have")
        fields[lower] = value
    return fields
