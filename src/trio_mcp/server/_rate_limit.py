"""A limit on how often requests are made, as middleware: one token bucket for each caller, method and tool.

A bucket that nobody has used until it was full again is forgotten: it would not differ from a new one.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import trio

from .. import types
from .._errors import McpError
from .._extensions import is_specified
from ..peer import BUSY
from ._context import server_of
from ._middleware import CallNext, Request
from ._progress import TokenBucket

__all__ = ["RateLimit"]

Part: TypeAlias = Literal["principal", "method", "tool"]
_PARTS: Final[tuple[Part, ...]] = ("principal", "method", "tool")
_Key: TypeAlias = "tuple[str | None, ...]"
_REST: Final[_Key] = ("", "", "", "")
"""Longer than any other key: what has no bucket of its own, because there are too many, shares this one."""
_ROUNDING: Final = 1e-6
"""Seconds that arithmetic may lose."""
_Buckets: TypeAlias = "OrderedDict[_Key, TokenBucket]"
"""The one that was not used for longest comes first."""


class RateLimit:
    """Middleware that refuses requests made too often, with the error `BUSY` (-31000).

    Each bucket holds *burst* requests and is filled at *per_second*. The error's data say when to try again:
    ``{"retryAfterSeconds": 0.4}``. Notifications are not counted, nor is the answer to a question with which a parked
    handler goes on; one with which a handler begins anew is.

    ::

        server = Server("demo", middleware=[RateLimit(per_second=5, burst=20)])

    Args:
        per_second: requests that each bucket allows in a second, on average.
        burst: requests that it allows at once; *per_second* by default, at least 1.
        by: what gets a bucket of its own: each authenticated caller (all who are not authenticated are one), each
            method, each tool. Methods that the server does not have are one, and so are tools.
        methods: the requests that are counted; all of them by default.
        max_buckets: how many callers, methods and tools are told apart at once; beyond it the new ones share a bucket.

    Raises:
        ValueError: a number makes no sense, or *by* names something else.
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: int | None = None,
        by: Collection[Part] = _PARTS,
        methods: Collection[str] | None = None,
        max_buckets: int = 10_000,
    ) -> None:
        if not (0 < per_second < math.inf):
            raise ValueError(f"per_second={per_second!r} must be a number above 0")
        burst = max(1, math.floor(per_second)) if burst is None else burst
        for name, number in (("burst", burst), ("max_buckets", max_buckets)):
            if type(number) is not int or number < 1:
                raise ValueError(f"{name}={number!r} must be a whole number of at least 1")
        if isinstance(by, str) or not set(by) <= set(_PARTS):
            raise ValueError(f"by={by!r} must be some of {', '.join(map(repr, _PARTS))}")
        if isinstance(methods, str):
            raise ValueError(f"methods={methods!r} must be a list of methods")
        self._per_second, self._burst, self._max_buckets = per_second, burst, max_buckets
        self._by = frozenset(by)
        self._methods = None if methods is None else frozenset(methods)
        # By Trio run: a server may be served in several, and each has a clock of its own.
        self._buckets: WeakKeyDictionary[trio.lowlevel.TrioToken, _Buckets] = WeakKeyDictionary()

    async def __call__(self, request: Request, call_next: CallNext) -> Any:
        """Hand the request on, or refuse it."""
        counts = self._methods is None or request.method in self._methods
        if counts and not request.is_notification:
            seconds = self._take(self._key(request))
            if seconds > 0:
                seconds = math.ceil(seconds * 1000 - _ROUNDING) / 1000  # never too early
                raise McpError(BUSY, f"too many requests; try again in {seconds:g} s", {"retryAfterSeconds": seconds})
        return await call_next(request)

    @property
    def buckets(self) -> int:
        """How many callers, methods and tools are told apart now, in this Trio run."""
        return len(self._ours())

    def _ours(self) -> _Buckets:
        return self._buckets.setdefault(trio.lowlevel.current_trio_token(), OrderedDict())

    def _key(self, request: Request) -> _Key:
        values: dict[Part, str | None] = {
            "principal": request.context.principal,
            "method": _known_method(request),
            "tool": _known_tool(request),
        }
        return tuple(values[part] for part in _PARTS if part in self._by)

    def _take(self, key: _Key) -> float:
        """Take a token; return the seconds until there is one, 0 where there was."""
        now, buckets = trio.current_time(), self._ours()
        self._forget_full(buckets, now)
        if key not in buckets and len(buckets) >= self._max_buckets:
            key = _REST
        if key not in buckets:
            buckets[key] = TokenBucket(self._per_second, self._burst)
        buckets.move_to_end(key)
        bucket = buckets[key]
        due = bucket.due(now)
        if due - now > _ROUNDING:
            return due - now
        bucket.take(due)
        return 0.0

    def _forget_full(self, buckets: _Buckets, now: float) -> None:
        while buckets:
            key, bucket = next(iter(buckets.items()))
            if not bucket.is_full(now):
                break
            del buckets[key]


# A name that a caller has made up gets no bucket: the caller could make as many requests as it knows names, and others
# would find no place for theirs.


def _known_method(request: Request) -> str | None:
    method = request.method
    return method if is_specified(method) or method in server_of(request.context).own.methods else None


def _known_tool(request: Request) -> str | None:
    if not isinstance(request.params, types.CallToolRequestParams):
        return None
    name = request.params.name
    return name if server_of(request.context).tools.catalog.get(name) is not None else None
