"""Floods of messages between clients and servers: order holds, memory is bounded, and other peers are answered.

``pytest -s`` prints the memory that they take: the growth of the process, both sides together.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair

from tests.interaction.openers import HTTP_OPENERS
from tests.interaction.over_http import URL, bridged
from tests.interaction.raw_http_client import RawHttpClient
from tests.wire_validity.tap import RECORDS
from trio_mcp import Client, Context, Limits, Server, open_client, open_http_client, serve_stream, types
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_server
from trio_mcp.wire import encode

MODERN = types.REVISIONS[-1]
UPDATES, UNREAD_UPDATES, CALLS = 10_000, 300_000, 50_000
POURED = 4_000
KEPT = Limits().max_updates
OVER_HTTP = [("http", MODERN), ("http", types.REVISIONS[-2]), ("http-resumable", types.REVISIONS[-2])]
MEBIBYTE = 2**20
ROOT = Path(__file__).parents[2]


@define
class Peak:
    """The peak growth of this process's memory in a block, in bytes, sampled every few milliseconds.

    The kernel's figure is used, because tracing each allocation makes these tests ten times slower.
    """

    bytes: int = field(default=0, init=False)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def watched(what: str) -> Generator[Peak]:
    peak, over = Peak(), threading.Event()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # otherwise memory freed by an earlier test hides the growth
    before = resident()

    def watch() -> None:
        while not over.wait(0.005):
            peak.bytes = max(peak.bytes, resident() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
        peak.bytes = max(peak.bytes, resident() - before)
    finally:
        over.set()
        watcher.join()
    sys.stdout.write(f"\n{what}: at most {peak.bytes / MEBIBYTE:.1f} MiB more\n")


def by_itself(scenario: str) -> int:
    """Run a function of this module in a fresh process, and return its result.

    Memory that earlier tests left in this process can double the measured figure.
    """
    program = (
        "import trio, trio.testing; from tests.interaction import test_floods; "
        f"print(trio.run(test_floods.{scenario}, clock=trio.testing.MockClock(autojump_threshold=0)))"
    )
    unwatched = {
        name: value for name, value in os.environ.items() if name != RECORDS
    }  # the judge would record every message
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=unwatched, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    return int(done.stdout.split()[-1])


def progress(token: object, first: int, number: int) -> bytes:
    """Return *number* updates as lines."""
    return b"".join(
        encode(
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": each},
            }
        )
        + b"\n"
        for each in range(first, first + number)
    )


async def reporting(peer: ScriptedPeer, number: int) -> None:
    """Answer one call with *number* updates and a result, and each later request with an empty list of tools."""
    call = await peer.expect_request("tools/call")
    token = call["params"]["_meta"]["progressToken"]
    turn = trio.Lock()  # two tasks send
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listing, peer, turn)
        for first in range(0, number, 1000):
            async with turn:
                await peer.stream.send_all(progress(token, first, 1000))
        async with turn:
            await peer.send({"jsonrpc": "2.0", "id": call["id"], "result": {"resultType": "complete", "content": []}})


@asynccontextmanager
async def client_of_reporting(number: int) -> AsyncGenerator[Client]:
    async with open_scripted_server(revision=MODERN) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(reporting, peer, number)
        yield client
        nursery.cancel_scope.cancel()


async def listing(peer: ScriptedPeer, turn: trio.Lock) -> None:
    while (request := await peer.receive()) is not None:
        result: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": []}
        async with turn:
            await peer.send({"jsonrpc": "2.0", "id": request["id"], "result": result})


async def test_ten_thousand_updates_arrive_in_order_before_the_result_at_a_caller_that_sleeps_first(
    autojump_clock: MockClock,
) -> None:
    async with (
        client_of_reporting(UPDATES) as client,
        client.open_call("work") as call,
    ):
        await trio.sleep(60)
        assert [int(update.progress) async for update in call.updates] == list(range(UPDATES))
        assert (await call.result()).content == []
        assert call.skipped == 0


def make_server(limits: Limits | None = None) -> Server:
    server = Server("flooded", limits=limits)

    @server.tool
    async def report(number: int, ctx: Context) -> str:
        for each in range(number):
            await ctx.report_progress(each)
        return "done"

    @server.tool
    async def big() -> str:
        await trio.lowlevel.checkpoint()
        return "x" * 20_000

    return server


UNTHROTTLED = Limits(max_progress_per_second=float("inf"))


async def test_in_memory_ten_thousand_updates_arrive_in_order_before_the_result(
    autojump_clock: MockClock,
) -> None:
    async with (
        open_client(make_server(UNTHROTTLED)) as client,
        client.open_call("report", {"number": UPDATES}) as call,
    ):
        await trio.sleep(60)
        assert [int(update.progress) async for update in call.updates] == list(range(UPDATES))
        assert (await call.result()).structured_content == {"result": "done"}
        assert call.skipped == 0


@pytest.mark.parametrize(("transport", "revision"), OVER_HTTP)
async def test_over_http_ten_thousand_updates_arrive_in_order_before_the_result(
    transport: str, revision: str, autojump_clock: MockClock
) -> None:
    async with (
        HTTP_OPENERS[transport](make_server(UNTHROTTLED), revision=revision) as client,
        client.open_call("report", {"number": UPDATES}) as call,
    ):
        await trio.sleep(60)
        assert [int(update.progress) async for update in call.updates] == list(range(UPDATES))
        assert (await call.result()).content == [types.TextContent(text="done")]
        assert call.skipped == 0


async def never_returning(entered: trio.Event, _: object) -> None:
    entered.set()
    await trio.sleep_forever()


async def updates_for_a_consumer_that_never_returns() -> int:
    entered, peak = trio.Event(), Peak()
    async with client_of_reporting(UNREAD_UPDATES) as client:
        with watched(f"{UNREAD_UPDATES} unread updates") as peak:
            async with client.open_call("work") as call, trio.open_nursery() as nursery:
                nursery.start_soon(never_returning, entered, await anext(call.updates))
                await answered_while_updates_come(client)
                assert (await call.result()).content == []
                nursery.cancel_scope.cancel()
            assert call.skipped == UNREAD_UPDATES - 1 - KEPT
    assert entered.is_set()
    return peak.bytes


def test_updates_for_a_callback_that_never_returns_are_counted_and_other_calls_are_answered() -> None:
    assert by_itself("updates_for_a_consumer_that_never_returns") < 64 * MEBIBYTE


async def answered_while_updates_come(client: Client) -> None:
    for _ in range(20):
        assert (await client.list_tools()).tools == []


async def test_the_client_keeps_the_newest_of_too_many_updates(autojump_clock: MockClock) -> None:
    async with client_of_reporting(UNREAD_UPDATES) as client, client.open_call("work") as call:
        await call.result()
        kept = [int(update.progress) async for update in call.updates]
        assert kept == list(range(UNREAD_UPDATES - KEPT, UNREAD_UPDATES))
        assert call.skipped == UNREAD_UPDATES - KEPT


async def test_in_memory_a_callback_that_never_returns_takes_bounded_memory() -> None:
    peak = Peak()
    async with open_client(make_server(UNTHROTTLED)) as client:
        with watched(f"{UNREAD_UPDATES} unread updates in memory") as peak:
            async with client.open_call("report", {"number": UNREAD_UPDATES}) as call:
                await anext(call.updates)
                assert len((await client.list_tools()).tools) == 2
                assert (await call.result()).structured_content == {"result": "done"}
                kept = [int(update.progress) async for update in call.updates]
    assert kept == list(range(UNREAD_UPDATES - KEPT, UNREAD_UPDATES))
    assert peak.bytes < 64 * MEBIBYTE


@pytest.mark.parametrize(("transport", "revision"), OVER_HTTP)
async def test_over_http_a_client_that_never_reads_takes_bounded_memory_and_does_not_delay_others(
    transport: str, revision: str, autojump_clock: MockClock
) -> None:
    """The handler waits until the client counts as disconnected, which cancels only a modern request."""
    server, ended, poured = make_server(), trio.Event(), 0

    @server.tool
    async def pour(ctx: Context) -> None:
        nonlocal poured
        try:
            while poured < POURED:
                await ctx.notify("notifications/acme/pour", {"text": "x" * 1000})
                poured += 1
        finally:
            ended.set()

    async with bridged(transport, server) as engine, trio.open_nursery() as nursery:
        raw = RawHttpClient(engine, revision)
        if revision != MODERN:
            await raw.greet()
        with watched("an unread stream") as peak:
            nursery.start_soon(raw.post_and_never_read, raw.call("pour"))
            async with open_http_client(URL, engine=engine, revision=revision) as client:
                for _ in range(20):
                    assert len((await client.list_tools()).tools) == 3
                assert poured < POURED / 2
                await ended.wait()
                assert (poured == POURED) == (revision != MODERN)
                assert len((await client.list_tools()).tools) == 3
        nursery.cancel_scope.cancel()
    assert peak.bytes < 8 * MEBIBYTE


@asynccontextmanager
async def two_connections(server: Server) -> AsyncGenerator[tuple[trio.abc.Stream, Client]]:
    """Serve *server* to a raw stream, which buffers nothing, and to a client."""
    raw, served = lockstep_stream_pair()
    ours, theirs = memory_stream_pair()
    async with server.serving() as serving, trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, serving, served)
        nursery.start_soon(serve_stream, serving, theirs)
        async with open_client(ours, revision=MODERN) as client:
            yield raw, client
        nursery.cancel_scope.cancel()


def call(id: int, tool: str, **arguments: object) -> bytes:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": meta}
    return encode({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}) + b"\n"


def test_a_client_that_floods_calls_and_never_reads_takes_bounded_memory_and_does_not_delay_others() -> None:
    assert by_itself("calls_with_unread_answers") < 64 * MEBIBYTE


async def calls_with_unread_answers() -> int:
    """The link of the flooding peer breaks in the end; the test does not check when."""
    async with two_connections(make_server()) as (raw, client), trio.open_nursery() as nursery:

        async def flood() -> None:
            try:
                for first in range(0, CALLS, 100):
                    await raw.send_all(b"".join(call(first + number, "big") for number in range(100)))
            except trio.BrokenResourceError:
                pass
            sent.set()

        sent = trio.Event()
        await client.call_tool("big")  # the first call loads modules, which must not count
        with watched(f"{CALLS} calls with unread results of 20 KB") as peak:
            nursery.start_soon(flood)
            for _ in range(20):
                assert len((await client.list_tools()).tools) == 2
            await sent.wait()
            assert len((await client.list_tools()).tools) == 2
    return peak.bytes


async def test_a_listening_client_that_never_reads_takes_bounded_memory_and_does_not_delay_others(
    autojump_clock: MockClock,
) -> None:
    server = make_server()

    @server.resource("number://{n}")
    async def number(n: int) -> str:
        return str(n)

    uris = [f"number://{n}" for n in range(500)]
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"notifications": {"resourceSubscriptions": uris}, "_meta": meta}
    listen = encode({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}) + b"\n"
    async with two_connections(server) as (raw, client):
        await raw.send_all(listen)
        with watched("100,000 unread changes of 500 resources") as peak:
            async with client.listen(resources=uris[:1]) as changes:
                for round_ in range(200):
                    for uri in uris:
                        server.resource_updated(uri)
                    assert (await anext(changes)) is not None, round_
        assert len((await client.list_tools()).tools) == 2
    assert peak.bytes < 8 * MEBIBYTE


async def test_a_peer_that_stops_reading_for_a_minute_receives_everything_afterwards(
    autojump_clock: MockClock,
) -> None:
    answers = 200
    async with two_connections(make_server(Limits(stall_seconds=120))) as (raw, client):
        for number in range(answers):
            await raw.send_all(call(number, "big"))
        with watched(f"{answers} answers of 20 KB for a peer that does not read for a minute") as peak:
            for _ in range(60):
                await trio.sleep(1)
                assert len((await client.list_tools()).tools) == 2
        peer = ScriptedPeer(raw)
        assert {(await peer.receive())["id"] for _ in range(answers)} == set(range(answers))
    assert peak.bytes < 16 * MEBIBYTE


async def test_client_and_server_that_flood_each_other_over_narrow_pipes_do_not_deadlock(
    autojump_clock: MockClock,
) -> None:
    """A hundred calls at once, each with progress, a question of 4 KB and a result of 20 KB, in lockstep."""
    limits = Limits(outbox_bytes=8 * 1024)
    server, answered = make_server(limits), 0

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1)
        answer = await ctx.sample("y" * 4096, max_tokens=1)
        assert isinstance(answer.content, types.TextContent)
        return answer.content.text * 5

    async def sample(params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        content = params.messages[0].content
        assert isinstance(content, types.TextContent)
        return types.CreateMessageResult(role="assistant", content=content, model="echo")

    async def calls(client: Client) -> None:
        nonlocal answered
        for _ in range(3):
            result = await client.call_tool("ask", on_progress=nothing)
            assert result.structured_content == {"result": "y" * 4096 * 5}
            answered += 1

    for revision in types.REVISIONS[-2:]:
        async with open_memory_client(
            server, lockstep=True, revision=revision, limits=limits, on_sample=sample
        ) as client:
            with trio.fail_after(1000):
                async with trio.open_nursery() as nursery:
                    for _ in range(100):
                        nursery.start_soon(calls, client)
            facts = client.statistics()
            assert (facts.outgoing, facts.incoming) == (0, 0)
    assert answered == 600


async def nothing(_: object) -> None:
    await trio.lowlevel.checkpoint()
