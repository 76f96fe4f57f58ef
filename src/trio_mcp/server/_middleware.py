"""Middleware: the application's functions around every request and notification, and a rate limit as one of them.

Rules of this file:

1. The function registered first is the outermost. Each function decides whether the next one is called, with which
   params, and how often.
2. An exception of the handler is explained as without middleware; any other exception of a middleware function is a
   bug.
3. A failure in a middleware function affects only the message that it works on.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias, cast
from weakref import WeakKeyDictionary

import trio
from attrs import define, evolve, field, frozen

from .. import types
from .._errors import McpError, SharedUnavailable
from .._extensions import is_specified
from .._misuse import unawaited
from .._user_types import is_async
from .._util import failure_of
from ..abc import SharedService
from ..peer import BUSY
from ..wire import JsonObject, is_modern
from ._context import Context, serving_of
from ._extensions import ExtensionResult
from ._progress import TokenBucket
from .features import legacy_messages, legacy_result

__all__ = ["CallNext", "Middleware", "MiddlewareChain", "RateLimit", "Request", "check_middleware", "checked_result"]

_log = logging.getLogger("trio_mcp.server")


@frozen(kw_only=True, eq=False)
class Request:
    """A request or notification on its way to its handler, as middleware sees it."""

    method: str
    """The method, such as ``"tools/call"``: a specified one, a registered custom one, or an unknown one."""
    params: Any
    """The typed params, as the handler will get them: a class of `trio_mcp.types`, or the type of its annotation.

    If the method is unknown or the params do not fit it, they are the JSON object that was received. Calling the next
    function then raises the `McpError` of the refusal, unless it is given other params.
    """
    context: Context
    """The facts of the request."""
    is_notification: bool = False
    """True if it is a notification, which has no answer."""

    def with_params(self, params: Any) -> Self:
        """Return a copy with other params: typed ones, or a JSON object of their type, which may omit `_meta`."""
        return evolve(self, params=params)


CallNext: TypeAlias = Callable[[Request], Awaitable[Any]]
"""Hands a request on. Returns the typed result, None for a notification; raises what the handler raised."""
Middleware: TypeAlias = Callable[[Request, CallNext], Awaitable[Any]]
"""Works on a request; its return value is the result."""


def check_middleware(middleware: Middleware) -> Middleware:
    """Return *middleware*; raise TypeError if it is not an async function."""
    if not is_async(middleware):
        raise TypeError(f"middleware {middleware!r}: must be an async function of a request and the next function")
    return middleware


@define(eq=False)
class MiddlewareChain:
    """The way of one message through the middleware functions to its handler."""

    _middleware: Sequence[Middleware]
    _received: JsonObject
    """The params as they were received."""
    _read: Callable[[Mapping[str, Any]], Any]
    """Makes typed params of JSON, or raises the refusal."""
    _handle: Callable[[Any], Awaitable[Any]]
    """Does the work, given typed params."""
    _offered: Any
    """The typed params, or the received ones if there is a refusal."""
    _refusal: McpError | None
    """The error that calling the handler with just these params raises."""
    params: Any = field(init=False)
    """The params that the handler was given last; until then the offered ones."""
    handler_failure: Exception | None = field(default=None, init=False)
    """The exception that the handler raised last: not a failure of the middleware."""

    async def run(self, method: str, context: Context, *, is_notification: bool = False) -> Any:
        """Return the result; raises what the handler or the middleware raises."""
        self.params = self._offered
        request = Request(method=method, params=self._offered, context=context, is_notification=is_notification)
        return await self._call(0, request)

    async def _call(self, index: int, request: Request) -> Any:
        if index == len(self._middleware):
            return await self._call_handler(request)

        async def call_next(following: Request) -> Any:
            return await self._call(index + 1, following)

        return await self._middleware[index](request, call_next)

    async def _call_handler(self, request: Request) -> Any:
        params = request.params  # outside of the block: an object that is not a request is the middleware's mistake
        try:
            self.params = self._accepted(params)
            return await self._handle(self.params)
        except BaseException as raised:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            self.handler_failure = failure_of(raised, "the handler", _log)
            raise self.handler_failure from self.handler_failure.__cause__

    def _accepted(self, params: Any) -> Any:
        """Return the params that the handler gets; raises the refusal."""
        if params is not self._offered:
            if not isinstance(params, Mapping):
                return params
            meta = {"_meta": self._received["_meta"]} if "_meta" in self._received else {}  # unless it says otherwise
            return self._read(meta | dict(cast("Mapping[str, Any]", params)))
        if self._refusal is not None:
            raise self._refusal
        return params


def checked_result(outcome: Any, method: str, revision: str, name: str) -> Any:
    """Return the result of a specified method that the middleware has returned, as a peer of *revision* can read it.

    Args:
        name: the name of the tool or prompt, for errors.

    Raises:
        TypeError: *outcome* is not a result of the method.
    """
    kinds = types.METHODS[revision][method].results
    if isinstance(outcome, Mapping):
        outcome = types.structure(dict(cast("Mapping[str, Any]", outcome)), kinds[0])
    empty = (types.EmptyResult,) if types.Result in kinds else ()
    if not isinstance(outcome, (*kinds, *empty, ExtensionResult)):
        fault = unawaited(outcome) or "which is no result of it"
        raise TypeError(f"middleware answered {method!r} with {outcome!r}, {fault}")
    if isinstance(outcome, types.CallToolResult) and not is_modern(revision):
        return legacy_result(outcome, revision, name)
    if isinstance(outcome, types.GetPromptResult):
        return legacy_messages(outcome, revision, name)
    return outcome


# --- Rate limit ---

Part: TypeAlias = Literal["principal", "method", "tool"]
_PARTS: Final[tuple[Part, ...]] = ("principal", "method", "tool")
_Key: TypeAlias = "tuple[str | None, ...]"
_REST: Final[_Key] = ("", "", "", "")
"""The key of the bucket that requests share if there are too many buckets; longer than any other key."""
_ROUNDING: Final = 1e-6
"""Seconds that rounding may lose."""
_Buckets: TypeAlias = "OrderedDict[_Key, TokenBucket]"
"""In the order of their last use, the oldest first."""


class RateLimit:
    """Middleware that refuses requests made too often, with the error `BUSY` (-31000).

    Each bucket holds *burst* requests and is filled at *per_second*. A bucket that is full again is forgotten, because
    it does not differ from a new one. The data of the error tell the client when to retry:
    ``{"retryAfterSeconds": 0.4}``. Notifications are not counted, and neither is a retry that continues a parked
    handler; a retry that replays a handler is counted.

    The processes of a service (``serve_http(shared=...)``) have each bucket in common: in any time *t*, they admit
    together at most ``burst + per_second * t`` requests of it, as one process would. Each process takes tokens in
    batches while there are many, so they may refuse a request a little earlier than one process would. Limits with the
    same settings have the same buckets. While the backend cannot be reached, each process has buckets of its own.

    ::

        server = Server("demo", middleware=[RateLimit(per_second=5, burst=20)])

    Args:
        per_second: the average number of requests per second that each bucket permits.
        burst: the number of requests that each bucket permits at once; by default *per_second*, at least 1.
        by: the parts of a request that have separate buckets: each authenticated caller, each method, each tool. All
            callers without authentication count as one; so do unknown methods, and unknown tools.
        methods: the methods that are counted; all by default.
        max_buckets: the number of separate buckets of a process; beyond it, new callers, methods and tools share one.
            It does not limit the buckets of a service, which the backend has.

    Raises:
        ValueError: a number is out of range, or *by* contains another name.
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
            raise ValueError(f"per_second={per_second!r}: must be a number above 0")
        burst = max(1, math.floor(per_second)) if burst is None else burst
        for name, number in (("burst", burst), ("max_buckets", max_buckets)):
            if type(number) is not int or number < 1:
                raise ValueError(f"{name}={number!r}: must be an integer of at least 1")
        if isinstance(by, str) or not set(by) <= set(_PARTS):
            raise ValueError(f"by={by!r}: must be some of {', '.join(map(repr, _PARTS))}")
        if isinstance(methods, str):
            raise ValueError(f"methods={methods!r}: must be a list of methods")
        self._per_second, self._burst, self._max_buckets = per_second, burst, max_buckets
        self._by = frozenset(by)
        self._methods = None if methods is None else frozenset(methods)
        self._settings = ascii((self._per_second, self._burst, sorted(self._by), methods and sorted(methods)))
        # By Trio run, because a server may be served in several, each with its own clock.
        self._buckets: WeakKeyDictionary[trio.lowlevel.TrioToken, _Buckets] = WeakKeyDictionary()

    async def __call__(self, request: Request, call_next: CallNext) -> Any:
        """Hand the request on, or refuse it."""
        counts = self._methods is None or request.method in self._methods
        if counts and not request.is_notification:
            key, shared = self._key(request), serving_of(request.context).shared
            seconds = self._take(key) if shared is None else await self._take_shared(key, shared)
            if seconds > 0:
                seconds = math.ceil(seconds * 1000 - _ROUNDING) / 1000  # round up
                raise McpError(BUSY, f"too many requests; try again in {seconds:g} s", {"retryAfterSeconds": seconds})
        return await call_next(request)

    @property
    def buckets(self) -> int:
        """The number of separate buckets in this Trio run, without those that several processes have in common."""
        return len(self._current())

    def _current(self) -> _Buckets:
        return self._buckets.setdefault(trio.lowlevel.current_trio_token(), OrderedDict())

    def _key(self, request: Request) -> _Key:
        values: dict[Part, str | None] = {
            "principal": request.context.principal,
            "method": _known_method(request),
            "tool": _known_tool(request),
        }
        return tuple(values[part] for part in _PARTS if part in self._by)

    async def _take_shared(self, key: _Key, shared: SharedService) -> float:
        """Take a token from the bucket of all processes; return 0, or the seconds until there may be one."""
        name = f"{self._settings} {key!a}"
        try:
            return await shared.take(name, per_second=self._per_second, burst=self._burst)
        except SharedUnavailable:
            return self._take(key)

    def _take(self, key: _Key) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        now, buckets = trio.current_time(), self._current()
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


# An unknown name has no bucket of its own: otherwise a caller could evade the limit by inventing names, and use up the
# buckets of other callers.


def _known_method(request: Request) -> str | None:
    method = request.method
    return method if is_specified(method) or serving_of(request.context).has_method(method) else None


def _known_tool(request: Request) -> str | None:
    if not isinstance(request.params, types.CallToolRequestParams):
        return None
    name = request.params.name
    return name if serving_of(request.context).has_tool(name, request.context.access) else None
