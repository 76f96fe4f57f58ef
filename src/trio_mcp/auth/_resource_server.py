"""`ResourceServer`: whose tokens a protected server takes, what for, and how it tells clients so.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization and
https://www.rfc-editor.org/rfc/rfc9728
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote

from attrs import define, field

from ..abc import Fetch, TokenVerifier
from ..wire import encode
from ._guard import Guard
from ._introspection import IntrospectionVerifier
from ._issuer import check_option
from ._jws import ASYMMETRIC
from ._jwt_verifier import JwtVerifier
from ._urls import read_url, well_known_urls

__all__ = ["ResourceServer"]

_DOCUMENT = "oauth-protected-resource"
_SCOPE = re.compile(r"[!#-\[\]-~]+")
_FOR_CLIENTS_ALONE = "offline_access"
"""A scope that is between a client and the authorization server: no server of resources asks for it."""
_DPOP_MODES = ("allowed", "required", "off")


def _texts(values: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts, for which a text by itself is easily mistaken."""
    if isinstance(values, str):
        raise ValueError(f"{values!r:.80}: must be a list of texts, not one text")
    return tuple(values)


def _texts_or_none(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else _texts(values)


def _spellings(url: str) -> frozenset[str]:
    """Return a URL as it stands, and as clients write it when they have read it: that is what they ask tokens for.

    Many of them put a slash where there is no path, and write host and port in the usual way. It stays the same URL.
    """
    parts = read_url(url)
    assert parts is not None  # it has been checked
    paths = ("", "/") if parts.path in {"", "/"} else (parts.path,)
    return frozenset({url, *(parts.origin + path for path in paths)})


@define(eq=False)
class ResourceServer:
    """What protects a server: pass it as `auth` to `http_app` or `serve_http`.

    ::

        ResourceServer("https://example.com/mcp", issuers=["https://login.example.com"], scopes=["read"])

    Each request then has to show a token of one of *issuers*, made for *resource*; handlers see whose it is in
    `Context.access`, whose `principal` is the token's subject (with several issuers, the issuer and a blank before it).
    Tokens are used here and passed on to nobody. One `ResourceServer` may protect several applications.

    Args:
        resource: the URL by which clients reach the server, as ``"https://example.com/mcp"``: what tokens are made for.
        issuers: the authorization servers whose tokens are taken, each as its own metadata spell it.
        verifier: says what a token is: `JwtVerifier`, `IntrospectionVerifier`, or yours. Who issued a token, whom it is
            for and how long it holds is checked in any case.
        scopes: what every request needs.
        scopes_supported: what clients are told that they may ask for; by default *scopes*.
        implied_scopes: what a scope includes besides itself: ``{"admin": ["read", "write"]}``.
        audiences: what tokens may be made for, in place of *resource* alone; compared as they stand.
        dpop: whether tokens that are bound to a key of the client's (RFC 9449) are taken, or are the only ones taken.
            Each application, in each process, remembers by itself which proofs it has seen.
        name: of the server, for people.
        documentation: a URL where developers read about it.
        trusted_hosts: names of hosts, without port, that may be reached without TLS, besides this machine.
        fetch: makes the requests to authorization servers, in place of the application's own HTTP client.
        clock: tells the time, as `time.time` does.

    Raises:
        ValueError: an option makes no sense; the text names it.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#protocol-requirements
    """

    resource: str
    issuers: Sequence[str] = field(kw_only=True, converter=_texts)
    verifier: TokenVerifier = field(factory=JwtVerifier, kw_only=True)
    scopes: Sequence[str] = field(default=(), kw_only=True, converter=_texts)
    scopes_supported: Sequence[str] | None = field(default=None, kw_only=True, converter=_texts_or_none)
    implied_scopes: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]], kw_only=True)
    audiences: Sequence[str] | None = field(default=None, kw_only=True, converter=_texts_or_none)
    dpop: Literal["allowed", "required", "off"] = field(default="allowed", kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    documentation: str | None = field(default=None, kw_only=True)
    trusted_hosts: Sequence[str] = field(default=(), kw_only=True, converter=_texts)
    fetch: Fetch | None = field(default=None, kw_only=True, repr=False)
    clock: Callable[[], float] = field(default=time.time, kw_only=True, repr=False)
    accepted_audiences: frozenset[str] = field(init=False, repr=False)
    """What tokens may be made for: *audiences*, or else *resource*, in each of the ways to write that URL."""

    def __attrs_post_init__(self) -> None:
        self._check_urls()
        self._check_scopes()
        if self.audiences is not None and not self.audiences:
            raise ValueError("audiences: there must be one at least, or no token is taken")
        self.accepted_audiences = _spellings(self.resource) if self.audiences is None else frozenset(self.audiences)
        if self.dpop not in _DPOP_MODES:
            raise ValueError(f"dpop={self.dpop!r}: must be one of {', '.join(_DPOP_MODES)}")
        if isinstance(self.verifier, JwtVerifier | IntrospectionVerifier):
            hosts, clock = self.trusted_hosts, self.clock
            self.verifier = self.verifier.serving(self.issuers, trusted_hosts=hosts, clock=clock)

    def _check_urls(self) -> None:
        if not self.issuers or len(set(self.issuers)) != len(self.issuers):
            raise ValueError("issuers: there must be one at least, and none twice")
        for url, name in [(self.resource, "resource"), *((issuer, "issuer") for issuer in self.issuers)]:
            check_option(url, name, self.trusted_hosts)
            parts = read_url(url)
            if parts is None or parts.query is not None:
                raise ValueError(f"the {name} {url!r} has a query, which names no server")

    def _check_scopes(self) -> None:
        implied = [name for names in self.implied_scopes.values() for name in _texts(names)]
        for name in (*self.scopes, *(self.scopes_supported or ()), *self.implied_scopes, *implied):
            if not _SCOPE.fullmatch(name):
                raise ValueError(f"{name!r} is no scope: one has no blanks, quotes or backslashes")
        if _FOR_CLIENTS_ALONE in self.scopes:
            raise ValueError(f"scopes: {_FOR_CLIENTS_ALONE!r} is for authorization servers; no request needs it")

    @property
    def metadata_url(self) -> str:
        """Where clients find the metadata: what challenges name."""
        return well_known_urls(self.resource, _DOCUMENT)[0]

    @property
    def metadata_paths(self) -> tuple[str, ...]:
        """The paths, as ASGI has them, at which the metadata are to be served to everybody."""
        parts = [read_url(url) for url in well_known_urls(self.resource, _DOCUMENT)]
        return tuple(unquote(part.path) for part in parts if part is not None)

    def document(self) -> bytes:
        """Return the metadata, which are JSON."""
        supported = self.scopes if self.scopes_supported is None else self.scopes_supported
        members: dict[str, Any] = {
            "resource": self.resource,
            "authorization_servers": list(self.issuers),
            "scopes_supported": [name for name in supported if name != _FOR_CLIENTS_ALONE],
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
            "resource_documentation": self.documentation,
            "dpop_signing_alg_values_supported": [] if self.dpop == "off" else list(ASYMMETRIC),
            "dpop_bound_access_tokens_required": self.dpop == "required" or None,
        }
        return encode({name: value for name, value in members.items() if value})

    def granted_by(self, scopes: Collection[str]) -> frozenset[str]:
        """Return scopes with all that they imply."""
        granted: set[str] = set()
        waiting = list(scopes)
        while waiting:
            name = waiting.pop()
            if name not in granted:
                granted.add(name)
                waiting += self.implied_scopes.get(name, ())
        return frozenset(granted)

    def guard(self, fetch: Fetch) -> Guard:
        """Return what checks the requests of one application.

        Args:
            fetch: makes the requests to authorization servers, unless there is one of the user's.
        """
        return Guard(self, self.fetch or fetch)
