"""Middleware: the application's functions around every request and notification that a server is sent.

Rules of this file:

1. The first one registered is the outermost. Each decides whether, with what params and how often the next is called.
2. What the innermost raises is the handler's own; all the others' failures are theirs, and answered as a bug.
3. Whatever goes wrong in one of them costs the message it works on, and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from attrs import define, evolve, field, frozen

from .._errors import McpError
from .._typed import is_async
from ..wire import JsonObject

if TYPE_CHECKING:
    from ._context import Context

__all__ = ["CallNext", "Middleware", "Passage", "Request", "check_middleware"]


@frozen(kw_only=True, eq=False)
class Request:
    """A request or notification on its way to its handler, as middleware sees it."""

    method: str
    """What is asked, such as ``"tools/call"``: one of the specification's, one registered here, or an unknown one."""
    params: Any
    """Typed, as the handler will get them: a class of `trio_mcp.types`, or what the handler's annotation says.

    Where the method is unknown, or they do not fit it, they are the JSON object that came; calling the next one then
    raises the `McpError` that is the refusal, unless it is given others.
    """
    context: Context
    """Who asks, and on what terms."""
    is_notification: bool = False
    """Whether it is a notification: nobody waits for its answer."""

    def with_params(self, params: Any) -> Self:
        """Return the same with other params: typed, or a JSON object of their type, where `_meta` may be left out."""
        return evolve(self, params=params)


CallNext: TypeAlias = Callable[[Request], Awaitable[Any]]
"""Hands a request on, and returns the typed result or raises what the handler raised; None for a notification."""
Middleware: TypeAlias = Callable[[Request, CallNext], Awaitable[Any]]
"""Works on a request; what it returns is the result."""


def check_middleware(middleware: Middleware) -> Middleware:
    """Return *middleware*; raise TypeError where it is none."""
    if not is_async(middleware):
        raise TypeError(f"{middleware!r} is no middleware: expected an async function of a request and the next one")
    return middleware


@define(eq=False)
class Passage:
    """One message on its way through the middleware."""

    _middleware: Sequence[Middleware]
    _came: JsonObject
    """The params as they came."""
    _read: Callable[[Mapping[str, Any]], Any]
    """Makes typed params of JSON, or raises the refusal."""
    _handle: Callable[[Any], Awaitable[Any]]
    """Does the work, given typed params."""
    _offered: Any
    """The same typed, or as they came where there is a refusal."""
    _refusal: McpError | None
    """What calling the handler with just those raises."""
    params: Any = field(init=False)
    """What the handler was given last; until then what came."""
    handlers: Exception | None = field(default=None, init=False)
    """What the handler raised last: no failure of the middleware's."""

    async def go(self, method: str, context: Context, *, is_notification: bool = False) -> Any:
        """Return the result; raises what the handler or the middleware raises."""
        self.params = self._offered
        request = Request(method=method, params=self._offered, context=context, is_notification=is_notification)
        return await self._go_on(0, request)

    async def _go_on(self, place: int, request: Request) -> Any:
        if place == len(self._middleware):
            return await self._arrive(request)

        async def call_next(following: Request) -> Any:
            return await self._go_on(place + 1, following)

        return await self._middleware[place](request, call_next)

    def _accepted(self, params: Any) -> Any:
        """Return what the handler gets; raises the refusal."""
        if params is not self._offered:
            if not isinstance(params, Mapping):
                return params
            meta = {"_meta": self._came["_meta"]} if "_meta" in self._came else {}  # it is the request's, if not said
            return self._read(meta | dict(cast("Mapping[str, Any]", params)))
        if self._refusal is not None:
            raise self._refusal
        return params

    async def _arrive(self, request: Request) -> Any:
        params = request.params  # outside: what is no request is the middleware's mistake
        try:
            self.params = self._accepted(params)
            return await self._handle(self.params)
        except Exception as failure:
            self.handlers = failure
            raise
