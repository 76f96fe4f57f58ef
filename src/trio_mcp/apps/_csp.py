"""The content security policy of an app: the origins that it declares, and the header that a host makes of them.

Rules of this file:

1. A host may use a stricter policy than the app declares, and never a looser one. What is not declared is blocked.
2. What a server declares is hostile until it is checked: a semicolon or a keyword in an origin would change the rest of
   the policy. An entry that is not an origin is left out.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import Attribute, field, fields, frozen

from ..wire import JsonObject, is_array, is_object

__all__ = ["Csp", "is_origin"]

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ORIGIN = re.compile(
    r"(?:(?:https?|wss?)://)?"
    rf"(?:{_LABEL}(?:\.{_LABEL})*|\*\.{_LABEL}(?:\.{_LABEL})+)"  # a wildcard needs two labels, or it covers a registry
    r"(?::(?:[0-9]{1,5}|\*))?"
    r"(?:/[A-Za-z0-9._~%/-]*)?",
    re.IGNORECASE | re.ASCII,
)
_MOST_CHARACTERS = 300
_MOST_ORIGINS = 100
"""The number of origins in one list: a longer header would be refused by browsers and proxies."""
_SHOWN = 80
"""The number of characters of an entry in a message about it."""


def is_origin(entry: object) -> bool:
    """Return True if a policy may name *entry*: a host, with or without a scheme, a port and a path.

    The scheme is ``https``, ``http``, ``wss`` or ``ws``; the host may begin with ``*.``.
    """
    return isinstance(entry, str) and len(entry) <= _MOST_CHARACTERS and _ORIGIN.fullmatch(entry) is not None


def _origins(given: Iterable[str]) -> Sequence[str]:
    if isinstance(given, str):
        raise TypeError(f"Csp: expected a list of origins, such as [{given!r}], and got the string {given!r}")
    return tuple(given)


def _check(_: object, attribute: Attribute[Sequence[str]], origins: Sequence[str]) -> None:
    for each in origins:
        if not is_origin(each):
            raise ValueError(
                f"Csp({attribute.name}=): {each!r:.{_SHOWN}} is not an origin, such as 'https://api.example.com' or "
                "'https://*.example.com'"
            )
    if len(origins) > _MOST_ORIGINS:
        raise ValueError(f"Csp({attribute.name}=): {len(origins)} origins; at most {_MOST_ORIGINS} are possible")


def _member(name: str) -> Any:
    none: Sequence[str] = ()
    return field(default=none, converter=_origins, validator=_check, metadata={"wire": name})


@frozen(kw_only=True)
class Csp:
    """The origins that the page of an app may use, beside what it holds itself; by default none.

    An origin is ``"https://api.example.com"``, or ``"https://*.example.com"`` for all its subdomains. The schemes are
    ``https``, ``http``, ``wss`` and ``ws``.

    Raises:
        ValueError: an entry is not an origin, or a list has more than 100 of them.
        TypeError: a single string is given instead of a list.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    connect: Sequence[str] = _member("connectDomains")
    """Origins for requests: `fetch`, `XMLHttpRequest` and WebSockets."""
    resources: Sequence[str] = _member("resourceDomains")
    """Origins of scripts, styles, images, fonts and media."""
    frames: Sequence[str] = _member("frameDomains")
    """Origins of nested frames."""
    base_uris: Sequence[str] = _member("baseUriDomains")
    """Origins of the base URI of the document."""

    def to_wire(self) -> JsonObject:
        """Return the policy as a member of `_meta.ui`.

        The lists of requests and of resources are always there: an empty list says that nothing external is used.
        """
        lists = {name: [*getattr(self, attribute)] for attribute, name in _WIRE_NAMES.items()}
        return {name: each for name, each in lists.items() if each or name in _ALWAYS_SENT}

    @classmethod
    def from_wire(cls, declared: object) -> tuple[Csp, Sequence[str]]:
        """Return the policy that a server declares, and a description of each entry that is left out (rule 2).

        Args:
            declared: the member ``csp`` of `_meta.ui`; None if there is none.
        """
        if declared is None:
            return cls(), ()
        if not is_object(declared):
            return cls(), ("csp: it is not an object",)
        faults = list[str]()
        kept = {attribute: _kept(declared, name, faults) for attribute, name in _WIRE_NAMES.items()}
        return cls(**kept), faults

    def policy(self, *, frame_ancestors: str = "'none'") -> str:
        """Return the value of the header ``Content-Security-Policy`` for the page, or for the sandbox that holds it.

        Scripts and styles may be in the page itself. Forms cannot be submitted, because that would leave the sandbox.

        Args:
            frame_ancestors: the origin of the page that may hold this one in a frame; by default none may.

        Raises:
            ValueError: *frame_ancestors* is neither an origin nor ``'none'``.
        """
        if frame_ancestors != "'none'" and not is_origin(frame_ancestors):
            raise ValueError(f"frame_ancestors={frame_ancestors!r}: must be an origin, or \"'none'\"")
        in_page = ["'self'", "'unsafe-inline'", *self.resources]
        with_data = ["'self'", "data:", *self.resources]
        directives: Mapping[str, Sequence[str]] = {
            "default-src": ["'none'"],
            "script-src": in_page,
            "style-src": in_page,
            "img-src": with_data,
            "media-src": with_data,
            "font-src": ["'self'", *self.resources] if self.resources else ["'none'"],
            "connect-src": self.connect or ["'none'"],
            "frame-src": self.frames or ["'none'"],
            "object-src": ["'none'"],
            "base-uri": self.base_uris or ["'self'"],
            "form-action": ["'none'"],
            "frame-ancestors": [frame_ancestors],
        }
        return "; ".join(f"{name} {' '.join(sources)}" for name, sources in directives.items())


_WIRE_NAMES: Mapping[str, str] = {each.name: each.metadata["wire"] for each in fields(Csp)}
_ALWAYS_SENT = ("connectDomains", "resourceDomains")


def _kept(declared: JsonObject, name: str, faults: list[str]) -> list[str]:
    """Return the origins of one list, and add what is left out to *faults*."""
    entries: Any = declared.get(name)
    if entries is None:
        return []
    if not is_array(entries):
        faults.append(f"csp.{name}: it is not a list")
        return []
    faults += [f"csp.{name}: {each!r:.{_SHOWN}} is not an origin" for each in entries if not is_origin(each)]
    kept = [str(each) for each in entries if is_origin(each)]
    if len(kept) > _MOST_ORIGINS:
        faults.append(f"csp.{name}: only the first {_MOST_ORIGINS} of {len(kept)} origins are used")
    return kept[:_MOST_ORIGINS]
