"""OpenTelemetry spans of requests, on both sides, if the application has set a tracer provider.

Rules of this file:

1. OpenTelemetry is never imported here before the application imports it. An application that traces has loaded its
   API and set a provider. All other applications pay for one lookup in `sys.modules`.
2. A span stands for one request, or for one attempt if a client repeats the request. It starts when the request is made
   or arrives, and ends with the response.
3. The trace context travels in `params._meta` (`traceparent` and what the propagators of the application add), in both
   directions.
4. A span records names, numbers and the error message of the peer, but no arguments, results or exceptions.

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
"""The module that an application with tracing has imported. While it is not in `sys.modules`, callers may skip
`client_span` and `server_span`, which then return None."""
_ABOUT_RESOURCES = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


def client_span(method: str, params: Mapping[str, Any] | None, revision: str) -> RequestSpan | None:
    """Start the span of a request that this side makes; return None unless the application traces.

    Args:
        params: the params of the request, as they are sent.
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
    """Start the span of a request that arrived; return None unless the application traces.

    Its parent is the span that the request names. The current span, if there is one, is linked.

    Args:
        meta: the `_meta` of the request.
        id: the id of the request.
    """
    tracer = _tracer() if TRACING_MODULE in sys.modules else None
    if tracer is None:
        return None
    from opentelemetry.context import Context  # noqa: PLC0415 # rule 1
    from opentelemetry.propagate import extract  # noqa: PLC0415
    from opentelemetry.trace import Link, SpanKind, get_current_span  # noqa: PLC0415

    strings = {key: value for key, value in meta.items() if type(value) is str}  # propagators expect strings
    current = get_current_span().get_span_context()
    attributes = _attributes(method, params or {}, revision) | {"jsonrpc.request.id": str(id)}
    span = tracer.start_span(
        _name(method, attributes),
        context=extract(strings, Context()),
        kind=SpanKind.SERVER,
        attributes=attributes,
        links=[Link(current)] if current.is_valid else [],
    )
    return RequestSpan(span)


@define(eq=False)
class RequestSpan:
    """The span of one request."""

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
        """Make it the current span for the duration of the block."""
        from opentelemetry.trace import use_span  # noqa: PLC0415 # rule 1

        with use_span(self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield

    def sent(self, id: str | int) -> None:
        """Record the id with which the request was sent."""
        self._span.set_attribute("jsonrpc.request.id", str(id))

    def answered(self, outcome: Mapping[str, Any] | McpError | ErrorResponse) -> None:
        """End the span with the response of the request, unless it has ended before."""
        if self._ended:
            return
        if isinstance(outcome, McpError | ErrorResponse):
            self._span.set_attribute("rpc.response.status_code", str(outcome.code))
            self.failed(str(outcome.code), outcome.message)
        elif outcome.get("isError") is True:
            self.failed("tool_error")
        else:
            self._end()

    def failed(self, kind: str, description: str | None = None) -> None:
        """End the span with a failure, unless it has ended before.

        Args:
            kind: the kind of the failure, one of a small set of names.
            description: a description for humans.
        """
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 # rule 1

        if not self._ended:
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, description))
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
