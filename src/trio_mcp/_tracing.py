"""OpenTelemetry spans of requests, in both roles, where the application has set a tracer provider; nothing otherwise.

Rules of this file:

1. OpenTelemetry is never imported here before the application has: one that traces has its interface loaded and a
   provider set. Everybody else pays for one look at a table.
2. A span stands for one request: one attempt, where a client has to ask again. It begins when the request is made or
   comes in, and ends with its answer.
3. The context travels in `params._meta` (`traceparent` and what else the application's propagators write), both ways.
4. What is recorded is names, numbers and the peer's error message: no arguments, no results, no exceptions.

Specification: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import define

from ._errors import ErrorResponse, McpError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["TRACING_MODULE", "RequestSpan", "client_span", "server_span"]

TRACING_MODULE = "opentelemetry.trace"
"""The module that an application which traces has imported. A caller may skip `client_span` and `server_span` while it
is not in `sys.modules`: this spares each call of a link two calls of functions."""
_ABOUT_RESOURCES = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


def client_span(method: str, params: Mapping[str, Any] | None, revision: str) -> RequestSpan | None:
    """Begin the span of a request that this side makes; None where nobody traces.

    Args:
        params: of the request, as they go over the wire.
        revision: the protocol revision.
    """
    tracer = _tracer() if TRACING_MODULE in sys.modules else None
    if tracer is None:
        return None
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 # rule 1

    attributes = _attributes(method, params or {}, revision)
    return RequestSpan(tracer.start_span(_name(method, attributes), kind=SpanKind.CLIENT, attributes=attributes))


def server_span(
    method: str, params: Mapping[str, Any] | None, meta: Mapping[str, Any], revision: str, id: str | int
) -> RequestSpan | None:
    """Begin the span of a request that came in; None where nobody traces.

    Its parent is what the request names; the context around is linked to.

    Args:
        meta: the request's `_meta`.
        id: the request's, as the other side calls it.
    """
    tracer = _tracer() if TRACING_MODULE in sys.modules else None
    if tracer is None:
        return None
    from opentelemetry.context import Context  # noqa: PLC0415 # rule 1
    from opentelemetry.propagate import extract  # noqa: PLC0415
    from opentelemetry.trace import Link, SpanKind, get_current_span  # noqa: PLC0415

    texts = {key: value for key, value in meta.items() if type(value) is str}  # propagators trust what they find
    around = get_current_span().get_span_context()
    attributes = _attributes(method, params or {}, revision) | {"jsonrpc.request.id": str(id)}
    span = tracer.start_span(
        _name(method, attributes),
        context=extract(texts, Context()),
        kind=SpanKind.SERVER,
        attributes=attributes,
        links=[Link(around)] if around.is_valid else [],
    )
    return RequestSpan(span)


@define(eq=False)
class RequestSpan:
    """The span of one request, until it ends."""

    _span: Span
    _ended: bool = False

    def inject(self, params: dict[str, Any] | None) -> dict[str, Any]:
        """Return *params* with the context of this span in their `_meta`."""
        from opentelemetry.propagate import inject  # noqa: PLC0415 # rule 1
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        carrier: dict[str, str] = {}
        inject(carrier, set_span_in_context(self._span))
        params = params or {}
        return {**params, "_meta": {**params.get("_meta", {}), **carrier}}

    @contextmanager
    def active(self) -> Generator[None]:
        """Make it the current span, for whatever is begun in the block."""
        from opentelemetry.trace import use_span  # noqa: PLC0415 # rule 1

        with use_span(self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield

    def sent(self, id: str | int) -> None:
        """The request has gone out with this id."""
        self._span.set_attribute("jsonrpc.request.id", str(id))

    def answered(self, outcome: Mapping[str, Any] | McpError | ErrorResponse) -> None:
        """The request has been answered: the span ends, unless it has ended before."""
        if self._ended:
            return
        if isinstance(outcome, McpError | ErrorResponse):
            self._span.set_attribute("rpc.response.status_code", str(outcome.code))
            self.failed(str(outcome.code), outcome.message)
        elif outcome.get("isError") is True:
            self.failed("tool_error")
        else:
            self._end()

    def failed(self, kind: str, text: str | None = None) -> None:
        """The request has failed, or there is no answer: the span ends, unless it has ended before.

        Args:
            kind: names the failure; one of few.
            text: for people.
        """
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 # rule 1

        if not self._ended:
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, text))
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._span.end()


def _tracer() -> Tracer | None:
    api: Any = sys.modules[TRACING_MODULE]
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    tracer: Tracer = provider.get_tracer("trio_mcp")
    return tracer


def _attributes(method: str, params: Mapping[str, Any], revision: str) -> dict[str, str]:
    attributes = {"mcp.method.name": method, "mcp.protocol.version": revision}
    name, uri = params.get("name"), params.get("uri")
    if method == "tools/call" and type(name) is str:
        attributes |= {"gen_ai.tool.name": name, "gen_ai.operation.name": "execute_tool"}
    elif method == "prompts/get" and type(name) is str:
        attributes["gen_ai.prompt.name"] = name
    elif method in _ABOUT_RESOURCES and type(uri) is str:
        attributes["mcp.resource.uri"] = uri
    return attributes


def _name(method: str, attributes: Mapping[str, str]) -> str:
    target = attributes.get("gen_ai.tool.name") or attributes.get("gen_ai.prompt.name")
    return method if target is None else f"{method} {target}"
