"""Spans and durations by the OpenTelemetry conventions for MCP: their parents and their attributes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
import trio
from attrs import frozen
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from trio_mcp import (
    Accepted,
    ConnectionClosed,
    Context,
    ErrorResponse,
    LocalProtocolError,
    McpError,
    RequestTimedOut,
    Server,
    TimeLimits,
    open_client,
    types,
)
from trio_mcp._tracing import client_span, server_span
from trio_mcp.server._serving import ActiveServer
from trio_mcp.testing import open_memory_client

MODERN, LEGACY = types.REVISIONS[-1], types.REVISIONS[-2]


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Set a provider for one test; the public interface works only once in a process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture(params=[LEGACY, MODERN])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@frozen
class Name:
    name: str


def make_server() -> Server:
    server = Server("traced")

    @server.tool
    async def work(ctx: Context) -> str:
        with trace.get_tracer("of the tool").start_as_current_span("inner"):
            await ctx.report_progress(1)
        return "done"

    @server.tool
    async def greet(ctx: Context) -> str:
        match await ctx.elicit("Who are you?", Name):
            case Accepted(value=who):
                return f"hello, {who.name}"
            case _:
                return "hello"

    @server.tool
    async def fail() -> None:
        raise ValueError("secret")

    @server.tool
    async def refuse() -> None:
        raise McpError(7, "not today")

    @server.tool
    async def forever() -> None:
        await trio.sleep_forever()

    @server.prompt
    async def review() -> str:
        return "Please review."

    @server.resource("notes://{day}")
    async def notes(day: str) -> str:
        return day

    return server


async def answer(_: object) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


def spans(exporter: InMemorySpanExporter, kind: SpanKind) -> list[ReadableSpan]:
    """Return the finished spans of requests, without those of the handshake."""
    opening = {"initialize", "server/discover"}
    return [span for span in exporter.get_finished_spans() if span.kind is kind and span.name not in opening]


def one(found: Sequence[ReadableSpan]) -> ReadableSpan:
    [span] = found
    return span


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.parent is not None
    return span.parent.trace_id, span.parent.span_id


async def test_the_span_of_a_call_contains_the_span_of_the_server_which_contains_the_span_of_the_tool(
    exporter: InMemorySpanExporter, revision: str
) -> None:
    async with open_memory_client(make_server(), revision=revision) as client:
        with trace.get_tracer("of the caller").start_as_current_span("outer"):
            await client.call_tool("work")
    ours, theirs = one(spans(exporter, SpanKind.CLIENT)), one(spans(exporter, SpanKind.SERVER))
    by_name = {span.name: span for span in exporter.get_finished_spans() if span.kind is SpanKind.INTERNAL}
    assert ours.name == theirs.name == "tools/call work"
    assert parent_of(ours) == ids(by_name["outer"])
    assert parent_of(theirs) == ids(ours)
    assert parent_of(by_name["inner"]) == ids(theirs)
    expected = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.tool.name": "work",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": "2",
    }
    assert ours.attributes == theirs.attributes == expected
    assert ours.status.status_code is theirs.status.status_code is StatusCode.UNSET


async def test_prompts_and_resources_are_named_by_the_conventions(
    exporter: InMemorySpanExporter, revision: str
) -> None:
    async with open_client(make_server(), revision=revision) as client:
        await client.get_prompt("review")
        await client.read_resource("notes://today")
        await client.list_tools()
    prompt, resource, tools = spans(exporter, SpanKind.SERVER)
    assert prompt.name == "prompts/get review"
    assert prompt.attributes is not None
    assert prompt.attributes["gen_ai.prompt.name"] == "review"
    assert resource.name == "resources/read"  # a span name must not contain a URI: there are too many
    assert resource.attributes is not None
    assert resource.attributes["mcp.resource.uri"] == "notes://today"
    assert tools.name == "tools/list"


async def test_a_question_to_a_legacy_client_is_a_child_span_of_the_call(exporter: InMemorySpanExporter) -> None:
    async with open_memory_client(make_server(), revision=LEGACY, on_elicit=answer) as client:
        await client.call_tool("greet")
    question, called = spans(exporter, SpanKind.CLIENT)
    answered, worked = spans(exporter, SpanKind.SERVER)
    assert (question.name, called.name) == ("elicitation/create", "tools/call greet")
    assert parent_of(answered) == ids(question)
    assert parent_of(question) == ids(worked)
    assert parent_of(worked) == ids(called)


async def test_each_round_of_a_modern_call_is_a_span(exporter: InMemorySpanExporter) -> None:
    async with open_memory_client(make_server(), revision=MODERN, on_elicit=answer) as client:
        await client.call_tool("greet")
    first, second = spans(exporter, SpanKind.CLIENT)
    assert [parent_of(span) for span in spans(exporter, SpanKind.SERVER)] == [ids(first), ids(second)]


async def test_the_span_of_a_request_that_is_answered_at_once_has_its_id(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(make_server(), revision=LEGACY) as client:
        await client.ping()
    expected = {"mcp.method.name": "ping", "mcp.protocol.version": LEGACY, "jsonrpc.request.id": "2"}
    assert one(spans(exporter, SpanKind.CLIENT)).attributes == expected
    assert not caplog.records  # OpenTelemetry logs a change of a span that has ended


def test_a_late_answer_does_not_change_the_span(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    span = client_span("ping", None, MODERN)
    assert span is not None
    span.failed("timeout")
    span.answered({})
    assert one(spans(exporter, SpanKind.CLIENT)).status.status_code is StatusCode.ERROR
    assert not caplog.records


async def test_a_failed_tool_is_recorded_as_an_error_without_its_message(
    exporter: InMemorySpanExporter, revision: str
) -> None:
    async with open_memory_client(make_server(), revision=revision) as client:
        await client.call_tool("fail")
    for span in (one(spans(exporter, SpanKind.CLIENT)), one(spans(exporter, SpanKind.SERVER))):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes is not None
        assert span.attributes["error.type"] == "tool_error"
        assert "secret" not in span.to_json()


async def test_an_error_response_is_recorded_with_its_code_and_message(
    exporter: InMemorySpanExporter, revision: str
) -> None:
    async with open_memory_client(make_server(), revision=revision) as client:
        with pytest.raises(ErrorResponse):
            await client.call_tool("refuse")
    for span in (one(spans(exporter, SpanKind.CLIENT)), one(spans(exporter, SpanKind.SERVER))):
        assert span.attributes is not None
        assert span.attributes["rpc.response.status_code"] == span.attributes["error.type"] == "7"
        assert span.status.description == "not today"


async def test_a_cancelled_call_ends_both_spans(
    exporter: InMemorySpanExporter, revision: str, autojump_clock: object
) -> None:
    async with open_memory_client(make_server(), revision=revision) as client:
        with trio.move_on_after(1):
            await client.call_tool("forever")
        await client.call_tool("work")
    ours, theirs = spans(exporter, SpanKind.CLIENT)[0], spans(exporter, SpanKind.SERVER)[0]
    for span in (ours, theirs):
        assert span.attributes is not None
        assert span.attributes["error.type"] == "cancelled"


async def test_the_span_of_a_timed_out_call_records_the_timeout(
    exporter: InMemorySpanExporter, autojump_clock: object
) -> None:
    async with open_client(make_server(), time_limits=TimeLimits(idle=1)) as client:
        with pytest.raises(RequestTimedOut):
            await client.call_tool("forever")
    span = one(spans(exporter, SpanKind.CLIENT))
    assert span.attributes is not None
    assert span.attributes["error.type"] == "timeout"


async def test_a_lost_connection_is_recorded_as_the_failure_of_waiting_calls(
    exporter: InMemorySpanExporter, autojump_clock: object
) -> None:
    async with trio.open_nursery() as nursery, open_client(make_server()) as client:

        async def call() -> None:
            with pytest.raises(ConnectionClosed):
                await client.call_tool("forever")

        nursery.start_soon(call)
        await trio.sleep(1)
        await client.aclose()
    ours, theirs = one(spans(exporter, SpanKind.CLIENT)), one(spans(exporter, SpanKind.SERVER))
    assert ours.attributes is not None
    assert theirs.attributes is not None
    assert ours.attributes["error.type"] == "ConnectionClosed"
    assert theirs.attributes["error.type"] == "connection_lost"


async def test_a_request_that_cannot_be_sent_ends_its_span(exporter: InMemorySpanExporter) -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(LocalProtocolError):
            await client.call_tool("work", {"number": float("nan")})
    span = one(spans(exporter, SpanKind.CLIENT))
    assert span.attributes is not None
    assert span.attributes["error.type"] == "LocalProtocolError"
    assert "jsonrpc.request.id" not in span.attributes


@pytest.mark.requirement("A.7-P2")
async def test_the_trace_context_is_sent_in_meta_beside_the_members_of_the_caller(
    exporter: InMemorySpanExporter,
) -> None:
    server = Server("traced")
    seen: list[dict[str, Any]] = []

    @server.tool
    async def look(ctx: Context) -> None:
        seen.append(dict(ctx.meta))

    async with open_client(server) as client:
        await client.call_tool("look", meta={"com.example/mine": 1})
    trace_id, span_id = ids(one(spans(exporter, SpanKind.CLIENT)))
    assert re.fullmatch(f"00-{trace_id:032x}-{span_id:016x}-[0-9a-f]{{2}}", seen[0]["traceparent"])
    assert seen[0]["com.example/mine"] == 1


@pytest.mark.parametrize("value", [None, 7, ["00-1-2-3"], {"a": 1}, "", "garbage", "00-" + "f" * 10_000])
def test_an_invalid_trace_context_is_ignored(exporter: InMemorySpanExporter, value: object) -> None:
    meta = {"traceparent": value, "tracestate": value, "baggage": value}
    span = server_span("tools/call", {"name": value}, meta, MODERN, "one")
    assert span is not None
    span.answered({})
    assert one(spans(exporter, SpanKind.SERVER)).parent is None


async def test_the_surrounding_span_is_linked_if_the_request_names_another_parent(
    exporter: InMemorySpanExporter,
) -> None:
    with trace.get_tracer("of the process").start_as_current_span("serving") as around:
        async with open_client(make_server()) as client:
            await client.call_tool("work")
    theirs = one(spans(exporter, SpanKind.SERVER))
    ours = one(spans(exporter, SpanKind.CLIENT))
    assert parent_of(theirs) == ids(ours)
    assert [link.context.trace_id for link in theirs.links] == [around.get_span_context().trace_id]


def test_the_package_imports_no_tracing_library_without_tracing() -> None:
    program = """
import sys, trio
from trio_mcp import Server, open_client

server = Server("untraced")

@server.tool
async def work() -> str:
    return "done"

async def main():
    async with open_client(server) as client:
        await client.call_tool("work")

trio.run(main)
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )  # our own
    assert ended.stdout == "[]\n"


@pytest.fixture(params=["proxy", "no-op"])
def no_tracing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = None if request.param == "proxy" else trace.NoOpTracerProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)


@pytest.mark.usefixtures("no_tracing")
async def test_without_a_provider_nothing_is_added_to_requests() -> None:
    server = Server("untraced")
    seen: list[dict[str, Any]] = []

    @server.tool
    async def look(ctx: Context) -> None:
        seen.append(dict(ctx.meta))

    async with open_client(server, revision=LEGACY) as client:
        await client.call_tool("look")
    assert seen == [{}]


# --- Durations ---


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    """Set a provider for one test, likewise."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    return reader


def points(reader: InMemoryMetricReader, name: str) -> list[Any]:
    """Return the points of a metric, without those of the handshake."""
    data: Any = reader.get_metrics_data()
    opening = {"initialize", "server/discover"}
    return [
        point
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == name
        for point in metric.data.data_points
        if point.attributes["mcp.method.name"] not in opening
    ]


@pytest.mark.parametrize(
    ("tool", "ending"),
    [
        ("work", {}),
        ("fail", {"error.type": "tool_error"}),
        ("refuse", {"error.type": "_OTHER", "rpc.response.status_code": "_OTHER"}),
    ],
)
async def test_the_duration_of_a_call_has_the_attributes_of_the_conventions(
    reader: InMemoryMetricReader, revision: str, tool: str, ending: dict[str, str]
) -> None:
    async with open_memory_client(make_server(), revision=revision) as client:
        with suppress(ErrorResponse):
            await client.call_tool(tool)

    (point,) = points(reader, "mcp.server.operation.duration")
    assert point.attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.tool.name": tool,
        "gen_ai.operation.name": "execute_tool",
        **ending,
    }
    assert point.count == 1
    assert 0 < point.sum < 60
    assert list(point.explicit_bounds) == [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]


async def test_an_error_of_the_protocol_is_recorded_by_its_code(reader: InMemoryMetricReader) -> None:
    async with open_memory_client(make_server()) as client:
        for name in ("unknown", "other-unknown"):
            with pytest.raises(ErrorResponse):
                await client.get_prompt(name)

    (point,) = points(reader, "mcp.server.operation.duration")
    assert point.count == 2
    assert point.attributes == {
        "mcp.method.name": "prompts/get",
        "mcp.protocol.version": MODERN,
        "error.type": "-32602",
        "rpc.response.status_code": "-32602",
    }


async def test_requests_are_active_until_they_end(reader: InMemoryMetricReader) -> None:
    async with open_memory_client(make_server()) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "forever")
        await trio.testing.wait_all_tasks_blocked()
        (during,) = points(reader, "trio_mcp.server.active_requests")
        nursery.cancel_scope.cancel()

    (after,) = points(reader, "trio_mcp.server.active_requests")
    (point,) = points(reader, "mcp.server.operation.duration")
    assert (during.value, after.value) == (1, 0)
    assert during.attributes == {"mcp.method.name": "tools/call"}
    assert point.attributes["error.type"] == "cancelled"


async def test_a_request_whose_deadline_has_passed_is_recorded_once(
    reader: InMemoryMetricReader, autojump_clock: object
) -> None:
    async with open_memory_client(make_server()) as client:
        with trio.move_on_after(5):
            await client.call_tool("forever")

    (point,) = points(reader, "mcp.server.operation.duration")
    assert (point.count, point.attributes["error.type"]) == (1, "cancelled")


async def test_a_provider_that_was_not_set_measures_nothing() -> None:
    metrics.get_meter_provider()
    server = make_server()
    async with server.serving() as serving:
        assert isinstance(serving, ActiveServer)
        assert serving.observers == ()


def test_without_opentelemetry_nothing_is_measured_or_loaded() -> None:
    program = """
import sys, trio
from trio_mcp import Server
server = Server("x")
async def main():
    async with server.serving() as serving:
        assert serving.observers == ()
trio.run(main)
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
