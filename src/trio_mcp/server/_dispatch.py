"""Method -> params -> handler -> result: how a server begins to answer an exchange, whatever carried it.

Small answers are given on the spot, by whoever received the request; everything else runs in the hall, and so does
everything that passes middleware. The order of refusals is the specification's: unknown method, then params, then the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from .. import types
from .._errors import McpError, StructureError
from ..peer import Exchange, Run, Slots
from ..wire import INVALID_PARAMS, LISTEN, METHOD_NOT_FOUND, JsonObject
from ._asking import resume
from ._cache import NOT_KEPT
from ._context import Context, finish
from ._custom import ExtensionResult, settled
from ._explain import explain
from ._passing import Passing
from ._replay import Past
from ._results import finish_result, not_to_be_kept
from ._routes import ROUTES, Responder, Route, answers_at_once
from ._subscriptions import listen, listen_in

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["dispatch"]


def dispatch(serving: Serving, exchange: Exchange) -> None:
    """Answer *exchange*, now or from a task of the hall."""
    server = serving.server
    if server.all_middleware:
        _pass_on(serving, exchange)
        return
    route, past = ROUTES[exchange.context.revision][exchange.method], None
    try:
        params = _read_params(serving, exchange, route, exchange.params or {})
        if route is None:
            responder: Responder = server.own.methods[exchange.method]
        elif route.at_once is not None:
            result = route.at_once(serving, exchange, params)
            exchange.respond(finish_result(result, exchange.context, server.info_json))
            return
        elif route.find is None:
            listen(serving, exchange, params)
            return
        else:
            if route.may_come_back and _brings_answers(params):
                past = resume(serving, exchange, params.request_state)
                if past is None:  # its handler was parked, and goes on
                    return
            responder = route.find(server, params)
    except McpError as error:
        exchange.respond(error)
        return
    answering = _Answering(serving, exchange, route, params, past)
    if responder.waits or past is not None:
        serving.hall.begin(exchange, answering.handle, answering.explain)
    else:
        answering.responder = responder
        serving.hall.begin(exchange, answering.handle, answering.explain, waits=False)
        answering.responder = None  # if it has to wait for its slot, what is registered then counts


def _pass_on(serving: Serving, exchange: Exchange) -> None:
    """Have *exchange* answered from a task of the hall, through the middleware."""
    route, past = ROUTES[exchange.context.revision][exchange.method], None
    params: Any = exchange.params or {}
    refusal: McpError | None = None
    try:
        params = _read_params(serving, exchange, route, params)
        if route is not None and route.may_come_back and _brings_answers(params):
            past = resume(serving, exchange, params.request_state)
            if past is None:  # its handler was parked, and goes on, within the middleware that it was called from
                return
    except McpError as error:
        refusal = error
    answer_it = partial(_answer_anew, refusal) if refusal and isinstance(params, types.Model) else _answer
    passing = Passing(serving, exchange, partial(_read_params, serving, exchange, route), answer_it)
    passing.offer(params, refusal)
    answering = _Answering(serving, exchange, route, params, past, passing)
    serving.hall.begin(exchange, answering.handle, answering.explain, _slots(serving, exchange))


@define(eq=False)
class _Answering:
    """A request that is answered in the hall."""

    _serving: Serving
    _exchange: Exchange
    _route: Route | None
    """None for a method of the application's."""
    _params: Any
    """Typed; or as they came, where the middleware is to see what is refused."""
    _past: Past | None
    """What a handler that begins anew was told before."""
    _passing: Passing | None = None
    """Its way through the middleware, if there is any."""
    responder: Responder | None = field(default=None, init=False)
    """What answers it, as long as that need not be looked for."""

    async def handle(self, run: Run) -> JsonObject:
        """Return the result; raises what is to be explained."""
        serving, exchange, past = self._serving, self._exchange, self._past
        serving.background.adopt()
        view = Context(run, serving, past)
        try:
            if self.responder is not None:
                outcome = await self.responder.call(serving, run, view, self._params)
            elif self._passing is not None:
                outcome = await self._passing.go(run, view)
            else:
                outcome = await _answer(serving, exchange, run, view, self._params)
        finally:
            finish(view)
        server, route = serving.server, self._route
        if route is None or isinstance(outcome, ExtensionResult):
            outcome = settled(server, run, outcome)
        hint = server.cache.get(exchange.method, NOT_KEPT) if route is None or route.is_kept else None
        result = finish_result(outcome, exchange.context, server.info_json, hint)
        if serving.changes.unsaid:
            serving.changes.tell_now()
        return result if past is None and run.waiting is None else not_to_be_kept(result)

    def explain(self, failure: Exception) -> JsonObject | McpError:
        """Return the answer that stands for a failure."""
        server, exchange = self._serving.server, self._exchange
        self._serving.changes.tell_now()
        answer: Any
        if self._passing is not None:
            answer = self._passing.explain(failure)
        else:
            answer = explain(server, exchange.method, self._params, exchange.context, failure)
        return answer if isinstance(answer, McpError) else finish_result(answer, exchange.context, server.info_json)


def _slots(serving: Serving, exchange: Exchange) -> Slots | None:
    """Return where a request that passes middleware takes its slot; None for where most do."""
    if exchange.method == LISTEN:
        return exchange.peer.listens
    return serving.small_answers.of(exchange.peer, exchange.method) if answers_at_once(exchange.method) else None


def _brings_answers(params: Any) -> bool:
    """Tell whether a request comes back with answers to questions."""
    return params.request_state is not None or bool(params.input_responses)


def _read_params(serving: Serving, exchange: Exchange, route: Route | None, params: Mapping[str, Any]) -> Any:
    """Return the typed params of a request this server answers; raises the refusal of any other."""
    method, server = exchange.method, serving.server
    if route is not None and server.offers(route.feature):
        try:
            return route.read(params)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
    revision = exchange.context.revision
    own = server.own.method(method, revision)
    if own is None:
        raise McpError(METHOD_NOT_FOUND, f"this server has no method {method!r} in revision {revision}")
    return own.read(dict(params), exchange.context)


async def _answer(serving: Serving, exchange: Exchange, run: Run, context: Context, params: Any) -> Any:
    """Answer in a task what this server offers; what is answered at once comes here only where there is middleware."""
    route = ROUTES[exchange.context.revision][exchange.method]
    if route is None:
        return await serving.server.own.methods[exchange.method].call(serving, run, context, params)
    if route.find is not None:
        return await route.find(serving.server, params).call(serving, run, context, params)
    if route.at_once is not None:
        return route.at_once(serving, exchange, params)
    return await listen_in(run, serving, exchange, params)


async def _answer_anew(
    refusal: McpError, serving: Serving, exchange: Exchange, run: Run, context: Context, params: Any
) -> Any:
    """Answer a retry that was refused for its state or its answers, if middleware has taken these out."""
    if params.request_state is not None:
        raise refusal
    return await _answer(serving, exchange, run, context, params)
