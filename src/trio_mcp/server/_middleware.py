"""Middleware: the application's functions around every request and notification that a server is sent.

Rules of this file:

1. The first one registered is the outermost. Each decides whether, with what params and how often the next is called.
2. What the innermost raises is the handler's own; all the others' failures are theirs, and answered as a bug.
3. Whatever goes wrong in one of them costs the message it works on, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from attrs import define, evolve, field, frozen

from .. import types
from .._errors import McpError
from .._user_types import is_async
from ..peer import ExchangeContext, HandlerRun, IncomingRequest, OutOfTimeError
from ..wire import INTERNAL_ERROR, JsonObject, decode, encode
from ._context import Context, pin_request
from ._error_responses import DELIBERATE, explain
from ._extensions import ExtensionResult
from .features import legacy_messages, legacy_result

if TYPE_CHECKING:
    from ._serving import ActiveServer

__all__ = ["CallNext", "Middleware", "MiddlewarePass", "MiddlewareRun", "Request", "check_middleware"]


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
class MiddlewarePass:
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


# A request that passes the middleware: in a task of the hall, whatever it asks, because middleware may wait.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses

_log = logging.getLogger("trio_mcp.server")

Answer: TypeAlias = "Callable[[ActiveServer, IncomingRequest, HandlerRun, Context, Any], Awaitable[Any]]"
"""Answers a request in a task, as dispatch does; of a list, and of a tool's data, it returns the JSON form."""


@define(eq=False)
class MiddlewareRun:
    """One request, its way through the middleware, and its result."""

    _serving: ActiveServer
    _exchange: IncomingRequest
    _read: Callable[[Mapping[str, Any]], Any]
    """Makes typed params of JSON, or raises the refusal."""
    _answer: Answer
    _offered: Any = field(default=None, init=False)
    _refusal: McpError | None = field(default=None, init=False)
    _passage: MiddlewarePass = field(init=False)
    _page: JsonObject = field(init=False)
    _typed_page: Any = field(default=None, init=False)
    """What middleware sees of `_page`; if it hands on just that, the page is sent as it was put together."""

    def offer(self, params: Any, refusal: McpError | None) -> None:
        """Take the params, typed; or as they came, and what calling the handler with just those raises."""
        self._offered, self._refusal = params, refusal

    async def go(self, run: HandlerRun, view: Context) -> Any:
        """Return the result, typed or as a page; raises what the handler or the middleware raises."""
        method, rows = self._exchange.method, types.METHODS[run.context.revision]
        pin_request(view)

        async def arrive(params: Any) -> Any:
            result = await self._answer(self._serving, self._exchange, run, view, params)
            if method not in rows or not isinstance(result, dict):
                return result
            if method == "tools/call":  # it may be changed where it is
                return types.structure(result, types.CallToolResult)
            self._page = cast("JsonObject", result)
            self._typed_page = types.structure(decode(encode(self._page)), rows[method].results[0])
            return self._typed_page

        middleware = self._serving.server.all_middleware
        self._passage = MiddlewarePass(
            middleware, self._exchange.params or {}, self._read, arrive, self._offered, self._refusal
        )
        outcome = await self._passage.go(method, view)
        if outcome is not None and outcome is self._typed_page:
            return self._page
        return self._checked(outcome, run.context) if method in rows else outcome

    def explain(self, failure: Exception) -> types.CallToolResult | McpError:
        """Return the answer that stands for a failure: the handler's is explained as ever, the middleware's is a bug.

        Raises whatever the explanation itself raises.
        """
        method, passage = self._exchange.method, self._passage
        if failure is passage.handlers or isinstance(failure, (*DELIBERATE, OutOfTimeError)):
            return explain(self._serving.server, method, passage.params, self._exchange.context, failure)
        _log.error("answering %r failed outside of its handler", method, exc_info=failure)
        return McpError(INTERNAL_ERROR, f"{method!r} failed; the server's log says why")

    def _checked(self, outcome: Any, context: ExchangeContext) -> Any:
        """Return a result of the specification's, whoever made it."""
        method, revision = self._exchange.method, context.revision
        kinds = types.METHODS[revision][method].results
        if isinstance(outcome, Mapping):
            outcome = types.structure(dict(cast("Mapping[str, Any]", outcome)), kinds[0])
        empty = (types.EmptyResult,) if types.Result in kinds else ()
        if not isinstance(outcome, (*kinds, *empty, ExtensionResult)):
            raise TypeError(f"middleware answered {method!r} with {outcome!r}, which is no result of it")
        name = getattr(self._passage.params, "name", "")
        if isinstance(outcome, types.CallToolResult) and not context.modern:
            return legacy_result(outcome, revision, name)
        if isinstance(outcome, types.GetPromptResult):
            return legacy_messages(outcome, revision, name)
        return outcome
