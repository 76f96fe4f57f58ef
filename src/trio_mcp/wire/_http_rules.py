"""The rules by which a server of Streamable HTTP reads or refuses a request, of either era.

There are two steps, because a refusal that does not need the body shall not wait for it:

1. `check_head`: method (405), `Host`, `Origin` and `Sec-Fetch-Site` (403), `Content-Type` (415), `Accept` (406), size
   (413).
2. `read_post`: JSON (400, -32700), then the era, then the rules of the era. After both the server checks the
   authorization, the session, and what else it knows.

The era of a POST is that of the first condition that holds:

1. The envelope names a revision: modern.
2. The request names a session: legacy.
3. The version header names no legacy revision, or `_meta` holds another part of an envelope: modern.
4. Anything else, above all `initialize`: legacy.

A server with revisions of one era only treats every POST as of that era.

The check of `Host` and `Origin` is the defence against DNS rebinding: a page of a foreign site can make a browser
connect to a server on the user's machine, by a name that then resolves to 127.0.0.1. The browser sends that name as
`Host` and the site of the page as `Origin`, and a server that knows its own names refuses both. Its rules:

1. An entry for hosts is a name or an address, IPv6 in brackets, and optionally a port: `localhost:*`, `127.0.0.1:8000`,
   `[::1]:*`, `example.com`. An entry for origins also has a scheme: `https://example.com`, `http://localhost:*`.
2. The port `*` matches any port, and no port. An entry without port matches only values without port; an origin counts
   as such if the port is the default of its scheme.
3. Names are compared without regard to case. Malformed values, and the opaque origin `null`, match nothing.

Two rules are for what a page of another site requests without an `Origin`, as an image or a script:

1. A request that the browser marks as from another site or origin (`Sec-Fetch-Site`) needs an allowed `Origin`. Clients
   that are not browsers send neither field.
2. A GET opens an event stream, and must list its type in `Accept` literally, as the specification demands: an image is
   requested with `*/*`.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http and
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

from attrs import frozen

from .._errors import McpError
from ._http_legacy import LegacyPost, names_session, read_legacy
from ._http_messages import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    Headers,
    ModernPost,
    Post,
    Refusal,
    accepts,
    is_json,
    names_type,
    read_modern,
    refusal_of,
)
from ._jsonrpc import INVALID_REQUEST, PARSE_ERROR, Undecodable, decode, is_array, parse_message
from ._revisions import is_modern

__all__ = [
    "HttpPolicy",
    "check_head",
    "check_place",
    "host_is_allowed",
    "is_host_entry",
    "is_origin_entry",
    "origin_is_allowed",
    "read_post",
]


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\s,*]+)(?::([0-9]*|\*))?", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ANY = "*"


@frozen
class _HostPort:
    """A host with its port, and its scheme if it is an origin. All in lower case; empty if missing."""

    scheme: str
    host: str
    port: str

    def covers(self, other: _HostPort) -> bool:
        """Return True if this entry matches *other*."""
        return self.scheme == other.scheme and self.host == other.host and self.port in {_ANY, other.port}


def host_is_allowed(host: str | None, allowed: Sequence[str]) -> bool:
    """Return True if one of the entries *allowed* matches the `Host` of a request."""
    return _host_is_allowed(host or "", tuple(allowed))


@lru_cache(maxsize=64)  # most requests name the same host
def _host_is_allowed(host: str, allowed: Sequence[str]) -> bool:
    place = _read_host(host)
    return place is not None and place.port != _ANY and _is_covered(place, map(_read_host, allowed))


def origin_is_allowed(origin: str, allowed: Sequence[str]) -> bool:
    """Return True if one of the entries *allowed* matches the `Origin` of a request."""
    place = _read_origin(origin)
    return place is not None and place.port != _ANY and _is_covered(place, map(_read_origin, allowed))


def is_host_entry(entry: str) -> bool:
    """Return True if *entry* is valid in a list of hosts."""
    return _read_host(entry) is not None


def is_origin_entry(entry: str) -> bool:
    """Return True if *entry* is valid in a list of origins."""
    return _read_origin(entry) is not None


def _is_covered(place: _HostPort, entries: Iterable[_HostPort | None]) -> bool:
    return any(entry is not None and entry.covers(place) for entry in entries)


def _read_host(text: str) -> _HostPort | None:
    found = _HOST.fullmatch(text)
    return None if found is None else _HostPort("", found[1].lower(), found[2] or "")


def _read_origin(text: str) -> _HostPort | None:
    scheme, separator, rest = text.lower().partition("://")
    place = _read_host(rest)
    if not separator or not _SCHEME.fullmatch(scheme) or place is None:
        return None
    port = "" if place.port == _DEFAULT_PORTS.get(scheme) else place.port
    return _HostPort(scheme, place.host, port)


@frozen(eq=False)
class HttpPolicy:
    """The requests that a server accepts.

    Raises:
        ValueError: an entry of a list is not valid, or the server serves no era.
    """

    allowed_hosts: Sequence[str] | None
    """The allowed hosts, as `localhost:*`, `127.0.0.1:8000`, `[::1]:*`, `example.com`; None for any."""
    allowed_origins: Sequence[str] | None
    """The allowed origins of web pages, as `https://example.com`, `http://localhost:*`; None for any."""
    max_body_bytes: int
    legacy: bool
    """True if it serves the revisions up to 2025-11-25."""
    modern: bool
    """True if it serves the revisions from 2026-07-28 on."""

    def __attrs_post_init__(self) -> None:
        if not (self.legacy or self.modern):
            raise ValueError("a server serves at least one era")
        _check_entries("allowed_hosts", self.allowed_hosts, is_host_entry, "example.com, localhost:*")
        _check_entries("allowed_origins", self.allowed_origins, is_origin_entry, "https://example.com")


def _check_entries(name: str, entries: Sequence[str] | None, is_entry: Callable[[str], bool], examples: str) -> None:
    if isinstance(entries, str):
        raise ValueError(f"{name} is a list of strings, not the string {entries!r}")
    for entry in entries or ():
        if not is_entry(entry):
            raise ValueError(f"{name}: {entry!r} is not of the form {examples}")


@frozen
class _Head:
    method: str
    headers: Headers
    policy: HttpPolicy


def check_head(http_method: str, headers: Headers, policy: HttpPolicy) -> Refusal | None:
    """Return the refusal of a request before its body is read; None if it passes.

    Args:
        http_method: the method in upper case, as in ASGI.
        headers: the header fields of the request.
        policy: the requests that the server accepts.
    """
    looked_at = http_method, *map(headers.get, _LOOKED_AT)
    if sum(map(len, filter(None, looked_at))) <= _LONGEST_KNOWN and _is_known_to_pass(looked_at, policy):
        return None
    return _first_refusal(_Head(http_method, headers, policy))


def _first_refusal(head: _Head) -> Refusal | None:
    return next(filter(None, (rule(head) for rule in _HEAD_RULES)), None)


@lru_cache(maxsize=256)  # a client sends the same fields with each request
def _is_known_to_pass(looked_at: Sequence[str | None], policy: HttpPolicy) -> bool:
    method, *values = looked_at
    assert method is not None
    fields = {name: value for name, value in zip(_LOOKED_AT, values, strict=True) if value is not None}
    return _first_refusal(_Head(method, fields, policy)) is None


def check_place(headers: Headers, policy: HttpPolicy) -> Refusal | None:
    """Return the refusal of a request beside the endpoint, by its host, its origin and the length of its body.

    Args:
        headers: the header fields of the request.
        policy: the requests that the server accepts.
    """
    head = _Head("", headers, policy)
    return _host_is_ours(head) or _origin_is_welcome(head) or _body_is_small(head)


def _method_is_served(head: _Head) -> Refusal | None:
    served = ("GET", "POST", "DELETE") if head.policy.legacy else ("POST",)
    return None if head.method in served else Refusal(405, headers={"allow": ", ".join(served)})


def _host_is_ours(head: _Head) -> Refusal | None:
    host, allowed = head.headers.get("host"), head.policy.allowed_hosts
    if allowed is None or host_is_allowed(host, allowed):
        return None
    return _refused(403, f"Host {_shown(host)} is not a name of this server (see allowed_hosts)")


def _origin_is_welcome(head: _Head) -> Refusal | None:
    origin, allowed = head.headers.get("origin"), head.policy.allowed_origins
    if origin is None or allowed is None or origin_is_allowed(origin, allowed):
        return None
    return _refused(403, f"pages of Origin {_shown(origin)} may not use this server (see allowed_origins)")


def _page_is_welcome(head: _Head) -> Refusal | None:
    site = head.headers.get("sec-fetch-site", "").strip().lower()
    if site not in _FOREIGN_SITES or "origin" in head.headers or head.policy.allowed_origins is None:
        return None
    return _refused(403, f"pages of another site may not use this server without an Origin (Sec-Fetch-Site: {site})")


def _body_is_json(head: _Head) -> Refusal | None:
    sent = head.headers.get("content-type")
    if head.method != "POST" or is_json(sent):
        return None
    return _refused(415, f"Content-Type must be {JSON_TYPE}, not {_shown(sent)}")


def _response_is_accepted(head: _Head) -> Refusal | None:
    accept = head.headers.get("accept")
    accepted = names_type if head.method == "GET" else accepts
    lacking = [each for each in _RESPONSE_TYPES[head.method] if not accepted(accept, each)]
    return _refused(406, f"Accept must list {' and '.join(lacking)}") if lacking else None


def _body_is_small(head: _Head) -> Refusal | None:
    limit, length = head.policy.max_body_bytes, head.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()) or (len(length) <= _LONGEST_SIZE and int(length) <= limit):
        return None  # without a length it is measured while it is read
    return _refused(413, f"the body is longer than {limit} bytes")


_HEAD_RULES: Sequence[Callable[[_Head], Refusal | None]] = (
    _method_is_served,
    _host_is_ours,
    _origin_is_welcome,
    _page_is_welcome,
    _body_is_json,
    _response_is_accepted,
    _body_is_small,
)
_LOOKED_AT = ("host", "origin", "sec-fetch-site", "content-type", "accept", "content-length")
"""The header fields that the rules look at."""
_LONGEST_KNOWN = 512
"""The number of characters in these fields above which the verdict is not remembered."""
_RESPONSE_TYPES = {"POST": (JSON_TYPE, EVENT_STREAM_TYPE), "GET": (EVENT_STREAM_TYPE,), "DELETE": ()}
_FOREIGN_SITES = ("cross-site", "same-site")
_LONGEST_SIZE = 18  # digits: int() refuses numbers with thousands of them


def read_post(
    headers: Headers, body: bytes, policy: HttpPolicy, supported: Sequence[str]
) -> ModernPost | LegacyPost | Refusal:
    """Return the content of a POST: a modern message, messages of a session, or a refusal.

    Never raises. A refusal carries the id of the request if it could be read.

    Args:
        headers: the header fields of the request; `check_head` has passed them.
        body: the whole body.
        policy: the requests that the server accepts.
        supported: the revisions that the server speaks, oldest first; those of an unserved era are not offered.
    """
    try:
        value = decode(body)
    except Undecodable as exc:
        return refusal_of(None, McpError(PARSE_ERROR, f"not a JSON message: {exc}"))
    offer = _offer(tuple(supported), policy.modern, policy.legacy)
    post = Post(headers, value, None if is_array(value) else parse_message(value), offer.revisions)
    return read_modern(post) if _is_modern_post(post, offer) else read_legacy(post)


@frozen
class _RevisionOffer:
    """The revisions that a server speaks of the eras that it serves."""

    revisions: Sequence[str]
    is_modern: bool | None
    """True if all are modern, False if all are legacy, None for both."""


@cache  # one for each policy
def _offer(supported: Sequence[str], modern: bool, legacy: bool) -> _RevisionOffer:
    revisions = [revision for revision in supported if (modern if is_modern(revision) else legacy)]
    eras = {is_modern(revision) for revision in revisions}
    return _RevisionOffer(revisions, eras.pop() if len(eras) == 1 else None)


def _is_modern_post(post: Post, offer: _RevisionOffer) -> bool:
    if offer.is_modern is not None:
        return offer.is_modern
    return post.names_its_revision or (post.looks_modern and not names_session(post.headers))


def _refused(status: int, sentence: str) -> Refusal:
    return Refusal(status, McpError(INVALID_REQUEST, sentence))


def _shown(value: str | None) -> str:
    return "(none)" if value is None else repr(value[:100])
