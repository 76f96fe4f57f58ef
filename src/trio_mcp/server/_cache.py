"""What a server says about keeping its results: for how long, and by whom.

Only revisions from 2026-07-28 on carry it, on complete results of six methods. Where nothing is said, a result is out
of date at once and nobody else's, which is always right.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

from attrs import Attribute, field, frozen

from ..wire import JsonObject

__all__ = ["NOT_KEPT", "CacheHint", "CacheableMethod", "check_hint", "check_hints"]

CacheableMethod: TypeAlias = Literal[
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
]
"""The requests whose results may be kept."""

_SCOPES = ("private", "public")
_MOST_MILLISECONDS = 2**53 - 1
"""The largest whole number that every reader of JSON gets right."""


def _duration(_: object, attribute: Attribute[Any], value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= cast("float", value) * 1000 <= _MOST_MILLISECONDS:  # so NaN and infinity are out, too
        raise ValueError(f"CacheHint({attribute.name}={value!r}): must be a number of seconds, 0 or more")


def _scope(_: object, attribute: Attribute[Any], value: object) -> None:
    if value not in _SCOPES:
        raise ValueError(f"CacheHint({attribute.name}={value!r}): must be 'private' or 'public'")


@frozen(kw_only=True)
class CacheHint:
    """For how long clients may keep a result, and for whom.

    Raises:
        ValueError: *ttl* is no number of seconds, or *scope* is none.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """

    ttl: float = field(default=0.0, validator=_duration)
    """Seconds for which the result need not be asked for again; 0: it is out of date at once. To the millisecond.

    A client that listens is told of changes all the same, and asks again."""
    scope: Literal["private", "public"] = field(default="private", validator=_scope)
    """Who may be shown it: ``"private"``, nobody but the caller, or ``"public"``, anybody, whoever they are.

    It is no access control: say ``"public"`` of nothing that depends on who asks."""

    @property
    def ttl_ms(self) -> int:
        """`ttl` in milliseconds, as it goes over the wire."""
        return round(self.ttl * 1000)

    def to_wire(self) -> JsonObject:
        """Return the members of a result that say so."""
        return {"ttlMs": self.ttl_ms, "cacheScope": self.scope}


NOT_KEPT = CacheHint()
"""What is said where the author has said nothing."""


def check_hint(where: str, hint: object) -> CacheHint | None:
    """Return *hint*, which may be None.

    Raises:
        TypeError: it is none.
    """
    if hint is not None and not isinstance(hint, CacheHint):
        raise TypeError(f"{where}: cache={hint!r} must be a CacheHint")
    return hint


def check_hints(hints: object) -> Mapping[str, CacheHint]:
    """Return the hints of a server by method; none for None.

    Raises:
        ValueError: there is no such method, or its results are not kept.
        TypeError: *hints* is no mapping, or holds something else.
    """
    if hints is None:
        return {}
    if not isinstance(hints, Mapping):
        raise TypeError(f"cache={hints!r} must be a mapping of methods, such as {{'tools/list': CacheHint(ttl=60)}}")
    known, checked = get_args(CacheableMethod), dict[str, CacheHint]()
    for method, hint in cast("Mapping[object, object]", hints).items():
        if method not in known:
            raise ValueError(f"cache: results of {method!r} cannot be kept; those of {', '.join(known)} can")
        if not isinstance(hint, CacheHint):
            raise TypeError(f"cache[{method!r}]={hint!r} must be a CacheHint")
        checked[str(method)] = hint
    return checked
