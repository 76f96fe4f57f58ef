"""OpenTelemetry spans of requests, on both sides, and durations of those that arrive, if the application wants them.

It wants spans if it has set a tracer provider, and durations if it has set a meter provider.

Rules of this file:

1. OpenTelemetry is never imported here before the application imports it. An application that traces has loaded its
   API and set a provider. All other applications pay for one lookup in `sys.modules`.
2. A span stands for one request, or for one attempt if a client repeats the request. It starts when the request is made
   or arrives, and ends with the response.
3. The trace context travels in `params._meta` (`traceparent` and what the propagators of the application add), in both
   directions.
4. A span records names, numbers and the error message of the peer, but no arguments, results or exceptions.
5. A measure has attributes with a bounded number of values. A serving looks for the meter provider once, after it has
   entered the lifespan of its server, so that a request costs nothing if there is none.

Specification: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ._errors import ErrorResponse, McpError

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, UpDownCounter
    from opentelemetry.trace import Span, Tracer

__all__ = [
    "METRICS_MODULE",
    "OPERATION_BOUNDS",
    "TRACING_MODULE",
    "RequestMeter",
    "RequestSpan",
    "client_span",
    "request_meter",
    "server_span",
]

TRACING_MODULE = "opentelemetry.trace"
"""The module that an application with tracing has imported. While it is not in `sys.modules`, callers may skip
`client_span` and `server_span`, which then return None."""
METRICS_MODULE = "opentelemetry.metrics"
"""The module that an application with metrics has imported. While it is not in `sys.modules`, callers must not call
`request_meter`."""
OPERATION_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The bounds of the histogram of durations, in seconds, that the conventions recommend."""
_RESERVED_CODES = range(-32768, -31999)
"""The error codes that JSON-RPC reserves."""
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


# --- Measures ---


def request_meter() -> RequestMeter | None:
    """Return what measures the requests of a serving; None unless the application has set a meter provider."""
    api: Any = sys.modules[METRICS_MODULE]
    provider = api.get_meter_provider()
    if type(provider).__module__.startswith(METRICS_MODULE):  # it only stands for one that was not set
        return None
    meter = provider.get_meter("trio_mcp")
    durations = meter.create_histogram(
        "mcp.server.operation.duration",
        unit="s",
        description="The time from the arrival of a request to its answer.",
        explicit_bucket_boundaries_advisory=OPERATION_BOUNDS,
    )
    active = meter.create_up_down_counter(
        "trio_mcp.server.active_requests",
        unit="{request}",
        description="The requests that have arrived and are not answered.",
    )
    return RequestMeter(durations, active)


@define(eq=False)
class RequestMeter:
    """The measures of requests that arrive. Made by `request_meter`."""

    durations: Histogram
    active: UpDownCounter

    def begun(self, method: str, tool: Callable[[], str] | None, revision: str) -> _MeasuredRequest:
        """Begin to measure a request; see `peer.RequestObserver`."""
        self.active.add(1, {"mcp.method.name": method})
        return _MeasuredRequest(self, method, tool, revision)


@define(eq=False)
class _MeasuredRequest:
    """The measure of one request; see `peer.RequestWatch`."""

    _meter: RequestMeter
    _method: str
    _tool: Callable[[], str] | None
    _revision: str
    _began: float = field(factory=time.perf_counter, init=False)
    _has_ended: bool = field(default=False, init=False)

    def answered(self, outcome: Mapping[str, Any] | McpError) -> None:
        if isinstance(outcome, McpError):
            code = str(outcome.code) if outcome.code in _RESERVED_CODES else "_OTHER"
            self._end({"error.type": code, "rpc.response.status_code": code})
        else:
            self._end({"error.type": "tool_error"} if outcome.get("isError") is True else {})

    def failed(self, kind: str, description: str | None = None) -> None:
        del description
        self._end({"error.type": kind})

    def _end(self, ending: dict[str, str]) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        attributes = {"mcp.method.name": self._method, "mcp.protocol.version": self._revision, **ending}
        if self._tool is not None:
            attributes |= {"gen_ai.tool.name": self._tool(), "gen_ai.operation.name": "execute_tool"}
        self._meter.active.add(-1, {"mcp.method.name": self._method})
        self._meter.durations.record(time.perf_counter() - self._began, attributes)
