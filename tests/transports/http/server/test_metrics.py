"""The page of an HTTP application for Prometheus: what is counted, by which labels, and the text format."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.raw_http_client import RawHttpClient
from tests.transports.http.asgi_caller import MODERN, AsgiCaller, call, request, scope_of
from trio_mcp import Context, HttpRequest, Limits, McpError, Server, ToolError, http_app, types
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiChannel, HttpApp
from trio_mcp.wire import CAPABILITIES_KEY, DEADLINE_KEY

ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}
LISTEN = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
BOUNDS = (
    *("0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"),
    *("1", "2", "5", "10", "30", "60", "120", "300", "+Inf"),
)
LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")


def make_server() -> Server:
    server = Server("counted", limits=Limits(drain_seconds=1000))

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> None:
        raise ToolError("no")

    @server.tool
    async def refuse() -> None:
        raise McpError(-32050, "never")

    @server.tool
    async def wait(ctx: Context) -> None:
        del ctx
        await trio.sleep(10)

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.list_roots())[0].uri)

    @server.tool(visible=lambda _entry, _caller: False)
    async def hidden() -> None:
        pass

    @server.method("com.example/double")
    async def double(params: dict[str, int]) -> dict[str, int]:
        return {"value": 2 * params["value"]}

    return server


@pytest.fixture
def app() -> HttpApp:
    return http_app(make_server(), metrics_path="/metrics", websocket=True)


async def page(app: HttpApp) -> Mapping[str, float]:
    """Return the values on the page by their names with labels; the lines of comments are checked only."""
    caller = await AsgiCaller(scope_of("GET", "/metrics", {"host": "10.0.0.7:9100"})).run(app)
    assert (caller.status, caller.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found: dict[str, float] = {}
    *lines, last = caller.body.decode().split("\n")
    assert last == ""
    family = ""
    for line in lines:
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert line.endswith(".")
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
            assert line.split()[3] in {"counter", "gauge", "histogram"}
        else:
            assert line.startswith(family)
            assert LINE.fullmatch(line), line
            name, value = line.rsplit(" ", 1)
            assert name not in found
            found[name] = float(value)
    return found


async def post(app: HttpApp, message: Any, **headers: str) -> None:
    await AsgiCaller.post(message, headers).run(app)


def part(found: Mapping[str, float], name: str) -> dict[str, float]:
    """Return the values whose names begin so, by the rest of the name."""
    return {key.removeprefix(name): value for key, value in found.items() if key.startswith(name)}


async def test_requests_are_counted_by_method_and_outcome_and_calls_by_tool(
    app: HttpApp, autojump_clock: object
) -> None:
    async with app.run():
        for tool in ("add", "add", "fail", "refuse"):
            await post(app, call(tool, {"a": 1, "b": 2} if tool == "add" else {}))
        await post(app, call("ask", None, **ROOTS))
        await post(app, request("tools/list"))
        await post(app, request("com.example/double", {"value": 2}))
        found = await page(app)

    assert part(found, "trio_mcp_requests_total") == {
        '{method="tools/call",outcome="ok"}': 2,
        '{method="tools/call",outcome="tool_error"}': 1,
        '{method="tools/call",outcome="error"}': 1,
        '{method="tools/call",outcome="input_required"}': 1,
        '{method="tools/list",outcome="ok"}': 1,
        '{method="com.example/double",outcome="ok"}': 1,
    }
    assert part(found, "trio_mcp_tool_calls_total") == {
        '{tool="add",outcome="ok"}': 2,
        '{tool="fail",outcome="tool_error"}': 1,
        '{tool="refuse",outcome="error"}': 1,
        '{tool="ask",outcome="input_required"}': 1,
    }
    assert part(found, "trio_mcp_http_responses_total") == {'{status="200"}': 7}


async def test_methods_and_tools_that_the_server_does_not_know_are_counted_as_others(app: HttpApp) -> None:
    async with app.run():
        for method in ("com.example/one", "com.example/two"):
            await post(app, request(method))
        for tool in ("unknown", "hidden", 'evil"} 1\n'):
            await post(app, call(tool))
        await post(app, request("tools/call", {"name": 7}))
        found = await page(app)

    assert part(found, "trio_mcp_requests_total") == {
        '{method="other",outcome="error"}': 2,
        '{method="tools/call",outcome="error"}': 4,
    }
    assert part(found, "trio_mcp_tool_calls_total") == {'{tool="other",outcome="error"}': 4}


async def test_the_number_of_tools_on_the_page_is_bounded() -> None:
    server = Server("many")
    app = http_app(server, metrics_path="/metrics")
    async with app.run():
        for number in range(1002):
            server.tool(name=f"tool-{number}")(lambda: None)
            await post(app, call(f"tool-{number}"))
        await post(app, call("tool-0"))
        calls = part(await page(app), "trio_mcp_tool_calls_total")

    assert len(calls) == 1001
    assert calls['{tool="other",outcome="ok"}'] == calls['{tool="tool-0",outcome="ok"}'] == 2


async def test_the_name_of_a_tool_is_escaped(app: HttpApp) -> None:
    metrics = app._router.metrics
    assert metrics is not None
    metrics.begun("tools/call", lambda: 'a"b\\c\nd', MODERN).answered({})

    assert part(await page(app), "trio_mcp_tool_calls_total") == {r'{tool="a\"b\\c\nd",outcome="ok"}': 1}


async def test_the_durations_of_a_method_are_a_histogram(app: HttpApp, autojump_clock: object) -> None:
    async with app.run():
        await post(app, call("add", {"a": 1, "b": 2}))
        await post(app, call("wait"))
        times = part(await page(app), "trio_mcp_request_duration_seconds")

    buckets = part(times, '_bucket{method="tools/call",le=')
    assert buckets == {f'"{bound}"}}': 2 if bound == "+Inf" or float(bound) >= 10 else 1 for bound in BOUNDS}
    assert times['_count{method="tools/call"}'] == 2
    assert times['_sum{method="tools/call"}'] == 10


async def test_the_page_tells_what_is_in_flight_and_what_is_open(app: HttpApp, autojump_clock: object) -> None:
    engine = AsgiEngine(app)
    async with engine.lifespan(), trio.open_nursery() as nursery:
        idle = await page(app)
        listener, slow = AsgiCaller.post(LISTEN), AsgiCaller.post(call("wait"))
        nursery.start_soon(listener.run, app)
        nursery.start_soon(slow.run, app)
        await RawHttpClient(engine, "2025-11-25").greet()
        await trio.testing.wait_all_tasks_blocked()
        busy = await page(app)
        slow.disconnect()
        await slow.returned.wait()
        listener.disconnect()
        await listener.returned.wait()
        after = await page(app)

    names = ("requests_in_flight", "running_handlers", "parked_handlers", "listeners", "sessions", "websockets")
    assert [[found[f"trio_mcp_{name}"] for name in names] for found in (idle, busy, after)] == [
        [0, 0, 0, 0, 0, 0],
        [2, 2, 0, 2, 1, 0],
        [0, 0, 0, 1, 1, 0],
    ]
    assert after['trio_mcp_requests_total{method="tools/call",outcome="cancelled"}'] == 1
    assert after['trio_mcp_requests_total{method="subscriptions/listen",outcome="cancelled"}'] == 1
    assert after["trio_mcp_buffer_bytes"] == 0


async def test_a_request_whose_deadline_has_passed_is_counted_once(app: HttpApp, autojump_clock: object) -> None:
    async with app.run():
        await post(app, call("wait", None, **{DEADLINE_KEY: 5}))
        found = await page(app)

    assert part(found, "trio_mcp_requests_total") == {'{method="tools/call",outcome="cancelled"}': 1}
    assert found["trio_mcp_requests_in_flight"] == 0


async def test_the_page_tells_whether_new_requests_are_taken(app: HttpApp) -> None:
    ready: list[float] = []

    async def look() -> None:
        ready.append((await page(app))["trio_mcp_ready"])

    async with app.run():
        await look()
        app.announce_stop()
        await look()
    await look()

    assert ready == [1, 0, 0]


async def test_an_application_that_is_not_run_counts_as_well(app: HttpApp) -> None:
    await post(app, call("add", {"a": 1, "b": 2}))
    found = await page(app)

    assert found['trio_mcp_requests_total{method="tools/call",outcome="ok"}'] == 1
    assert found["trio_mcp_sessions"] == 0


async def test_every_response_is_counted_by_its_status(app: HttpApp) -> None:
    async with app.run():
        await post(app, call("add", {"a": 1, "b": 2}), host="evil.example")
        await AsgiCaller(scope_of("GET", "/nothing")).run(app)
        left = AsgiCaller(scope_of("POST"), ())
        left.disconnect()
        await left.run(app)
        found = await page(app)

    assert part(found, "trio_mcp_http_responses_total") == {
        '{status="403"}': 1,
        '{status="404"}': 1,
        '{status="none"}': 1,
    }


@pytest.mark.parametrize("tool", ["add", "wait"])
async def test_a_request_that_is_answered_at_once_is_counted_like_any_other(
    app: HttpApp, tool: str, autojump_clock: object
) -> None:
    caller = AsgiCaller.post(call(tool, {"a": 1, "b": 2} if tool == "add" else {}))
    async with app.run():
        given = HttpRequest.of(caller.scope)
        begun = app.begin(given, b"".join(caller.pieces))
        assert begun is not None
        answer = begun.take_answer(10_000)
        if answer is None:

            async def go_on(scope: object, receive: Any, send: Any) -> None:
                await app.go_on(begun, given, AsgiChannel(caller.scope, receive, send))

            await caller.run(go_on)
        found = await page(app)

    assert (answer is None) == (tool == "wait")
    assert found['trio_mcp_http_responses_total{status="200"}'] == 1
    assert found[f'trio_mcp_tool_calls_total{{tool="{tool}",outcome="ok"}}'] == 1


class ForeignServing:
    """A serving of another author, which cannot be observed."""

    limits = Limits()

    def stop(self) -> None:
        """Do nothing."""


class ForeignServer:
    """A server of another author."""

    revisions = types.REVISIONS
    limits = Limits()

    @asynccontextmanager
    async def serving(self, **_: object) -> AsyncGenerator[ForeignServing]:
        yield ForeignServing()

    serving_one = serving


async def test_a_serving_of_another_author_is_not_counted() -> None:
    app = http_app(ForeignServer(), metrics_path="/metrics")  # type: ignore[arg-type] # it serves nothing
    async with app.run():
        found = await page(app)

    assert found["trio_mcp_running_handlers"] == 0


def test_the_page_tells_when_the_process_began() -> None:
    program = (
        "import trio; from trio_mcp import Server, http_app; app = http_app(Server('x'), metrics_path='/m'); "
        "print(app._router.metrics.page(None, 0, is_ready=True))"
    )
    before = time.time()
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8")
    after = time.time()

    found = re.search(r"^process_start_time_seconds (\S+)$", done.stdout, re.MULTILINE)
    assert found is not None
    assert before - 1 <= float(found[1]) <= after + 1  # the system counts in hundredths


async def test_a_system_that_does_not_tell_the_start_of_a_process_has_that_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)

    app = http_app(Server("x"), metrics_path="/metrics")
    assert 0 < (await page(app))["process_start_time_seconds"] <= time.time()
