"""Clients and servers over real sockets that break, stall, trickle and vanish: which calls fail with which error.

Hypercorn, which serves HTTP here, has thirteen known traps. The tests listed behind each prove that the package avoids
it; they are in the folders that mirror the sources:

 1. one request for a WebSocket ends the whole server
    server/test_serve_http.py::test_a_websocket_is_refused_without_effect_on_other_connections
    transports/http/server/test_app.py::test_nothing_is_sent_to_a_websocket
    transports/http/server/test_websocket.py::test_a_client_that_leaves_during_the_handshake_affects_no_other
 2. a client that stops reading makes the server unstoppable
    transports/http/hypercorn/test_connection.py::test_a_client_that_reads_nothing_is_disconnected_and_the_application_is_notified
    transports/http/hypercorn/test_connection.py::test_a_client_that_reads_nothing_does_not_delay_the_shutdown
    interaction/test_http_faults.py::test_a_client_that_reads_nothing_delays_neither_others_nor_the_shutdown
 3. data sent to a client that has disconnected is lost without an error
    transports/http/server/test_response.py::test_a_client_that_disconnects_cancels_the_block
    server/test_serve_http.py::test_a_handler_is_cancelled_when_its_client_disconnects
 4. a cancelled scope cannot find out whether a client has disconnected
    transports/http/hypercorn/test_tasks.py::test_a_cancelled_scope_receives_waiting_events
 5. a stop waits for open streams and does not notify them
    server/test_serve_http_many.py::test_all_1000_subscriptions_end_at_once_when_the_server_stops
    transports/http/hypercorn/test_serve.py::test_a_stop_drains_the_application_then_ends_the_lifespan
 6. cancellation does not stop the server, and there are no signal handlers
    transports/http/hypercorn/test_serve.py::test_cancellation_closes_all_connections_and_sockets_at_once
    server/test_serve_http.py::test_a_signal_stops_the_server
 7. errors of the lifespan are swallowed
    server/test_serve_http.py::test_an_exception_of_the_lifespan_is_raised_unchanged
    transports/http/server/test_app.py::test_an_application_whose_lifespan_has_failed_refuses_requests
 8. a read timeout ends streams; without one, bodies have no limit of time or size
    transports/http/hypercorn/test_connection.py::test_a_stream_continues_while_its_client_sends_nothing
    interaction/test_http_faults.py::test_the_server_gives_up_clients_that_trickle_and_others_are_not_delayed
    server/test_serve_http.py::test_a_body_above_the_limit_is_refused_before_it_is_sent
 9. SystemExit in an application ends the server
    interaction/test_http_faults.py::test_a_tool_that_exits_ends_only_its_own_call
    transports/http/hypercorn/test_tasks.py::test_an_exception_in_an_application_is_logged_and_ends_only_its_request
10. after a pipelined request, a disconnect of the client is not noticed
    transports/http/hypercorn/test_http1.py::test_requests_sent_ahead_are_answered_in_order
    interaction/test_http_faults.py::test_the_server_notices_that_a_client_with_pipelined_requests_disconnects
11. its defaults do not suit this server
    transports/http/hypercorn/test_http1.py::test_the_requests_on_one_connection_are_not_limited
    transports/http/hypercorn/test_connection.py::test_a_connection_may_be_idle_for_longer_than_the_timeout_of_a_head
    transports/http/hypercorn/test_tasks.py::test_the_connection_waits_while_the_mailbox_is_full
12. an operating system error at the end of a connection is not handled
    transports/http/hypercorn/test_connection.py::test_a_connection_whose_close_raises_is_closed
    transports/http/hypercorn/test_connection.py::test_clients_that_reset_their_connection_affect_no_other_connection
13. the path keeps the prefix that an application is mounted under
    transports/http/server/test_app.py::test_a_mounted_application_is_found_below_its_root_path
    transports/http/server/test_mounted.py::test_a_starlette_mount_serves_the_application
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest
import trio
from attrs import define, field

from tests.interaction.wire_cutter import wire_cutter
from tests.server.raw_http_client import connected, head_of, served
from tests.transports.http.asgi_caller import call
from trio_mcp import (
    Client,
    Context,
    ErrorResponse,
    HttpBound,
    Limits,
    MemoryEventStore,
    ResponseLost,
    Server,
    SessionSettings,
    ToolFailed,
    open_http_client,
    serve_http,
    types,
)
from trio_mcp.server import HttpService

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = pytest.mark.parametrize("revision", [MODERN, LEGACY])
TESTS = Path(__file__).parent.parent
CUT_HERE = "cut here"


def test_every_listed_test_of_a_trap_exists() -> None:
    assert __doc__ is not None
    traps = re.split(r"^ ?\d+\. ", __doc__, flags=re.MULTILINE)[1:]

    assert len(traps) == 13
    for trap in traps:
        tests = re.findall(r"(\S+\.py)::(\w+)", trap)
        assert tests
        for module, name in tests:
            assert re.search(rf"^(async )?def {name}\(", (TESTS / module).read_text(), re.MULTILINE), name


@ERAS
async def test_a_socket_that_breaks_in_mid_response_fails_only_its_call(revision: str) -> None:
    server, go, stopped = Server("s"), trio.Event(), trio.Event()

    @server.tool
    async def doomed(ctx: Context) -> str:
        try:
            await ctx.report_progress(1, message=CUT_HERE)
            await go.wait()
        except trio.Cancelled:
            stopped.set()
            raise
        return "too late"

    @server.tool
    async def sibling(ctx: Context) -> str:
        await ctx.report_progress(1)
        await go.wait()
        return "well"

    results: list[str] = []
    streaming = trio.Event()

    async def on_progress(_: types.ProgressNotificationParams) -> None:
        streaming.set()

    async def ask_sibling(client: Client) -> None:
        result = await client.call_tool("sibling", on_progress=on_progress)
        results.append(result.structured_content["result"])

    async with served(server) as bound:
        assert bound.port is not None
        async with (
            wire_cutter(bound.port, CUT_HERE.encode()) as (url, cutter),
            open_http_client(url, revision=revision) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ask_sibling, client)
            await streaming.wait()
            with pytest.raises(ResponseLost, match="'tools/call'") as lost:
                await client.call_tool("doomed", on_progress=on_progress)
            assert lost.value.sent
            if revision == MODERN:  # where leaving the call cancels the request
                await stopped.wait()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["doomed", "sibling"]
            go.set()

    assert (results, cutter.cuts) == (["well"], 1)


async def test_a_stored_response_resumes_where_its_socket_broke() -> None:
    server = Server("s")

    @server.tool
    async def long(ctx: Context) -> str:
        for step, message in enumerate(["one", CUT_HERE, "three"]):
            await ctx.report_progress(step, message=message)
        return "whole"

    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)

    sessions = SessionSettings(event_store=MemoryEventStore(), retry_seconds=0.01)
    async with served(server, sessions=sessions) as bound:
        assert bound.port is not None
        async with (
            wire_cutter(bound.port, CUT_HERE.encode()) as (url, cutter),
            open_http_client(url, revision=LEGACY) as client,
        ):
            result = await client.call_tool("long", on_progress=on_progress)

    assert result.structured_content == {"result": "whole"}
    assert (messages[-1], cutter.cuts) == ("three", 1)


@define(eq=False)
class ServerAndReplacement:
    """A server and its replacement: the first one answers nothing once it has received every call."""

    calls: int
    made: Counter[str] = field(factory=Counter[str], init=False)
    all_made: trio.Event = field(factory=trio.Event, init=False)

    def server(self, edition: str) -> Server:
        server = Server("s")
        work = partial(self._work, edition)

        @server.tool
        async def book() -> str:
            return await work("booking")

        @server.tool
        async def look() -> str:
            return await work("look")

        @server.resource("a:b")
        async def page() -> str:
            return await work("page")

        @server.prompt
        async def hint() -> str:
            return await work("hint")

        return server

    async def _work(self, edition: str, what: str) -> str:
        self.made[f"{edition} {what}"] += 1
        if edition == "first":
            if self.made.total() == self.calls:
                self.all_made.set()
            await trio.sleep_forever()
        return f"{what} of the {edition}"


async def book(client: Client) -> str:
    try:
        return str((await client.call_tool("book")).structured_content)
    except ResponseLost as exc:
        return f"lost, sent: {exc.sent}, named: {'tools/call' in str(exc)}"


async def look(client: Client) -> str:
    return str((await client.call_tool("look", repeatable=True)).structured_content["result"])


async def page(client: Client) -> str:
    (content,) = (await client.read_resource("a:b")).contents
    return str(getattr(content, "text", None))


async def hint(client: Client) -> str:
    (message,) = (await client.get_prompt("hint")).messages
    return str(getattr(message.content, "text", None))


@ERAS
async def test_a_server_restart_fails_only_the_calls_that_must_not_be_repeated(revision: str, tmp_path: Path) -> None:
    each, path, came = 25, tmp_path / "s", Counter[str]()
    servers = ServerAndReplacement(4 * each)

    async def ask(kind: Callable[[Client], Awaitable[str]], client: Client) -> None:
        came[await kind(client)] += 1

    http_transport = httpx2.AsyncHTTPTransport(uds=str(path), limits=httpx2.Limits(max_connections=None))
    with trio.fail_after(60):
        async with httpx2.AsyncClient(transport=http_transport) as http_client, trio.open_nursery() as nursery:
            first = await nursery.start(_serve_until_cancelled, servers.server("first"), path)
            opening = open_http_client("http://localhost/mcp", http_client=http_client, revision=revision)
            async with opening as client:
                async with trio.open_nursery() as calls:
                    for kind in (book, look, page, hint) * each:
                        calls.start_soon(ask, kind, client)
                    await servers.all_made.wait()
                    first.cancel()
                    second = await nursery.start(_serve_until_cancelled, servers.server("second"), path)
                assert (await client.call_tool("book")).structured_content == {"result": "booking of the second"}
            second.cancel()

    answered = {f"{what} of the second": each for what in ("look", "page", "hint")}
    assert came == {"lost, sent: True, named: True": each, **answered}
    assert servers.made["second booking"] == 1


async def _serve_until_cancelled(server: Server, path: Path, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
    """Serve until cancelled, as a killed process; start while the process before may still be ending."""
    with trio.CancelScope() as scope:
        while True:
            try:
                async with trio.open_nursery() as nursery:
                    await nursery.start(partial(serve_http, server, unix_socket=path))
                    task_status.started(scope)
            except* OSError:  # the process before still listens
                await trio.lowlevel.checkpoint()


async def test_the_server_gives_up_clients_that_trickle_and_others_are_not_delayed() -> None:
    server, made = Server("s"), 0

    @server.tool
    async def count() -> int:
        nonlocal made
        made += 1
        return made

    async with served(server, head_seconds=1, body_seconds=1) as bound, trio.open_nursery() as nursery:
        ends: list[bytes] = []

        async def trickle(start: bytes) -> None:
            async with connected(bound) as client:
                await client.stream.send_all(start)
                ends.append((await client.rest())[:12])

        for _ in range(10):
            nursery.start_soon(trickle, b"POST /mcp HTTP/1.1\r\nhost: local")
            nursery.start_soon(trickle, head_of(call("count")) + b'{"jsonrpc"')
        async with open_http_client(bound.url) as client:
            assert (await client.call_tool("count")).structured_content == {"result": 1}
        while len(ends) < 20:
            await trio.testing.wait_all_tasks_blocked(0.01)

    assert Counter(ends) == {b"": 10, b"HTTP/1.1 408": 10}
    assert made == 1


@ERAS
async def test_a_client_whose_body_is_too_long_gets_the_error_although_its_body_was_not_read(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def measure(text: str) -> int:
        return len(text)

    async with (
        served(server, max_body_bytes=10_000) as bound,
        open_http_client(bound.url, revision=revision) as client,
    ):
        with pytest.raises(ErrorResponse, match="10000 bytes"):
            await client.call_tool("measure", {"text": "x" * 20_000_000})
        assert (await client.call_tool("measure", {"text": "x"})).structured_content == {"result": 1}


async def test_a_client_that_reads_nothing_delays_neither_others_nor_the_shutdown() -> None:
    limits = Limits(max_progress_per_second=10_000, drain_seconds=0.1)
    server, flooding, gone = Server("s", limits=limits), trio.Event(), trio.Event()

    @server.tool
    async def flood(ctx: Context) -> None:
        step = 0
        try:
            while True:
                step += 1
                await ctx.report_progress(step, message="x" * 100_000)
                flooding.set()
        finally:
            gone.set()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with served(server, write_seconds=1) as bound, connected(bound) as stalled:
        stalled.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await stalled.post(call("flood", progressToken=1))
        await flooding.wait()
        async with open_http_client(bound.url) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        await gone.wait()

    flooding, gone = trio.Event(), trio.Event()
    service = HttpService.of(server, "127.0.0.1", 0, {"write_seconds": 1000.0})
    service.drain_seconds = 0.2
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            bounds: list[HttpBound] = []
            nursery.start_soon(partial(service.run, signals=False, on_bound=bounds.append))
            while not bounds:
                await trio.testing.wait_all_tasks_blocked()
            async with connected(bounds[0]) as stalled:
                stalled.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await stalled.post(call("flood", progressToken=1))
                await flooding.wait()
                await bounds[0].stop()
                assert gone.is_set()


async def test_a_tool_that_exits_ends_only_its_own_call() -> None:
    server = Server("s")

    @server.tool
    async def leave() -> str:
        raise SystemExit(3)

    @server.tool
    async def stay() -> str:
        return "here"

    async with served(server) as bound, open_http_client(bound.url) as client:
        with pytest.raises(ToolFailed):
            await client.call_tool("leave", raise_on_error=True)
        assert (await client.call_tool("stay")).structured_content == {"result": "here"}


async def test_the_server_notices_that_a_client_with_pipelined_requests_disconnects() -> None:
    server, begun, stopped = Server("s"), trio.Event(), trio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with served(server, keep_alive=0.1) as bound:
        async with connected(bound) as client:
            await client.post(call("wait"))
            await begun.wait()
            await client.post(call("wait"))
        await stopped.wait()
