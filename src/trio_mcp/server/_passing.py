"""A request that passes the middleware: in a task of the hall, whatever it asks, because middleware may wait.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from attrs import define, field

from .. import types
from .._errors import McpError
from ..peer import Exchange, ExchangeContext, OutOfTimeError, Run
from ..wire import INTERNAL_ERROR, JsonObject, decode, encode
from ._content import older_messages, older_result
from ._context import Context, pin_request
from ._custom import ExtensionResult
from ._explain import DELIBERATE, explain
from ._middleware import Passage

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["Passing"]

_log = logging.getLogger("trio_mcp.server")

Answer: TypeAlias = "Callable[[Serving, Exchange, Run, Context, Any], Awaitable[Any]]"
"""Answers a request in a task, as dispatch does; of a list, and of a tool's data, it returns the JSON form."""


@define(eq=False)
class Passing:
    """One request, its way through the middleware, and its result."""

    _serving: Serving
    _exchange: Exchange
    _read: Callable[[Mapping[str, Any]], Any]
    """Makes typed params of JSON, or raises the refusal."""
    _answer: Answer
    _offered: Any = field(default=None, init=False)
    _refusal: McpError | None = field(default=None, init=False)
    _passage: Passage = field(init=False)
    _page: JsonObject = field(init=False)
    _typed_page: Any = field(default=None, init=False)
    """What middleware sees of `_page`; if it hands on just that, the page is sent as it was put together."""

    def offer(self, params: Any, refusal: McpError | None) -> None:
        """Take the params, typed; or as they came, and what calling the handler with just those raises."""
        self._offered, self._refusal = params, refusal

    async def go(self, run: Run, view: Context) -> Any:
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
        self._passage = Passage(
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
            return older_result(outcome, revision, name)
        if isinstance(outcome, types.GetPromptResult):
            return older_messages(outcome, revision, name)
        return outcome
