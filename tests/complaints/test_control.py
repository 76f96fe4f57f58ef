"""Cancellation, timeouts, progress and flow control: ordering, bounds and freedom from deadlocks."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.conftest import connected
from tests.interaction.scripted_peers import MODERN
from trio_mcp import Client, ClientOptions, Context, Limits, RequestTimedOut, Server, TimeLimits, open_client, types
from trio_mcp.schema import _validate as _schema
from trio_mcp.testing import open_memory_client

LEGACY = "2025-11-25"


# Complaint 19.


@pytest.mark.complaint(19)
@pytest.mark.parametrize("transport", ["memory", "bytes", "lockstep", "unix"])
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_progress_is_handled_in_order_and_before_the_result_even_if_the_callback_is_slow(
    transport: str, revision: str, tmp_path: Path
) -> None:
    """The callback takes longest for the first update, which reverses the order in some SDKs."""
    server, events = Server("s"), list[object]()

    @server.tool
    async def count(ctx: Context) -> str:
        for done in range(6):
            await ctx.report_progress(done, total=6)
        return "done"

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        for _ in range(int(60 - 10 * update.progress)):
            await trio.lowlevel.checkpoint()
        events.append(update.progress)

    server.limits = Limits(max_progress_per_second=1e9)
    async with connected(transport, lambda: server, [], tmp_path, {"revision": revision}) as client:
        await client.call_tool("count", on_progress=on_progress)
        events.append("result")

    assert events == [0, 1, 2, 3, 4, 5, "result"]


# Complaint 20.


@pytest.mark.complaint(20)
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_progress_keeps_a_call_alive_up_to_the_total_timeout(revision: str, autojump_clock: object) -> None:
    server = Server("s")

    @server.tool
    async def work(steps: int, ctx: Context) -> str:
        for done in range(steps):
            await trio.sleep(9)
            await ctx.report_progress(done)
        return "done"

    async def on_progress(_: object) -> None:
        await trio.lowlevel.checkpoint()

    options: ClientOptions = {"time_limits": TimeLimits(idle=10, total=100), "revision": revision}
    async with open_memory_client(server, **options) as client:
        done = await client.call_tool("work", {"steps": 10}, on_progress=on_progress)
        assert done.structured_content == {"result": "done"}
        began = trio.current_time()
        with pytest.raises(RequestTimedOut, match=r"100 s in all"):
            await client.call_tool("work", {"steps": 1000}, on_progress=on_progress)
        assert trio.current_time() - began == pytest.approx(100)
        began = trio.current_time()
        with pytest.raises(RequestTimedOut, match=r"the server sent nothing for 10 s"):  # without progress
            await client.call_tool("work", {"steps": 1000})
        assert trio.current_time() - began == pytest.approx(10)


# Complaint 21.


@pytest.mark.complaint(21)
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_streams_without_buffers_do_not_deadlock_under_calls_updates_and_cancellations(
    revision: str, autojump_clock: object
) -> None:
    """Every byte waits for its receiver, in both directions. The HTTP tests cover the flow control of HTTP."""
    server, done = Server("s"), list[int]()

    @server.tool
    async def work(number: int, ctx: Context) -> int:
        for step in range(10):
            await ctx.report_progress(step, message="x" * 1000)
        return number

    async def call(client: Client, number: int) -> None:
        if number % 5 == 0:
            async with client.open_call("work", {"number": number}):
                return  # cancelled at once
        async with client.open_call("work", {"number": number}) as opened:
            if number % 3 == 0:
                assert [update.progress async for update in opened.updates][-1] == 9
            await opened.result()
            done.append(number)

    limits = Limits(outbox_bytes=1, max_in_flight=8)
    server.limits = limits
    async with open_memory_client(server, lockstep=True, revision=revision, limits=limits) as client:
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(call, client, number)
        assert client.statistics().outgoing == 0

    assert sorted(done) == [number for number in range(200) if number % 5]


@pytest.mark.complaint(21)
async def test_a_client_that_does_not_read_updates_does_not_delay_its_other_calls(autojump_clock: object) -> None:
    server = Server("s", limits=Limits(max_progress_per_second=1e9))

    @server.tool
    async def chatter(ctx: Context) -> None:
        for step in range(20_000):
            await ctx.report_progress(step)

    @server.tool
    async def quick() -> str:
        return "quick"

    async with open_memory_client(server) as client, client.open_call("chatter") as unread:
        for _ in range(50):
            assert (await client.call_tool("quick")).structured_content == {"result": "quick"}
        await unread.result()
        assert unread.skipped > 0


# Complaint 22.


@pytest.mark.complaint(22)
async def test_plain_functions_in_all_threads_delay_only_plain_functions() -> None:
    """All other requests are answered while every thread of the server and of Trio's default limiter is busy.

    The first call of a tool compiles its schema, which the SDK must do without a worker thread.
    """
    server, release, at_work = Server("s", limits=Limits(max_threads=3)), threading.Event(), trio.Semaphore(0)

    @server.tool
    def block() -> str:
        trio.from_thread.run_sync(at_work.release)
        release.wait(30)
        return "released"

    @server.tool
    async def typed(number: int, words: list[str]) -> dict[str, int]:
        return dict.fromkeys(words, number)

    @server.tool(input_schema={"type": "object", "properties": {"n": {"pattern": "^(?=a)a+$"}}})
    async def raw(**arguments: str) -> str:
        return arguments["n"]

    @server.resource("memo://{name}")
    async def memo(name: str) -> str:
        return name

    @server.prompt
    async def prompt(number: int) -> str:
        return str(number)

    limiter = trio.to_thread.current_default_thread_limiter()
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    for borrower in borrowers:
        limiter.acquire_on_behalf_of_nowait(borrower)
    with trio.fail_after(30):
        async with open_memory_client(server) as client, trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.call_tool, "block")
            for _ in range(3):
                await at_work.acquire()
            listed = [tool.name async for tool in client.tools()]
            called = await client.call_tool("typed", {"number": 1, "words": ["a"]})
            bad = await client.call_tool("typed", {"number": "one", "words": "a"})
            matched = await client.call_tool("raw", {"n": "aaa"})
            read = await client.read_resource("memo://x")
            got = await client.get_prompt("prompt", {"number": "7"})
            assert at_work.value == 0
            release.set()
    for borrower in borrowers:
        limiter.release_on_behalf_of(borrower)

    assert listed == ["block", "typed", "raw"]
    assert called.structured_content == {"a": 1}
    assert bad.is_error
    assert matched.structured_content == {"result": "aaa"}
    assert len(read.contents) == len(got.messages) == 1


@pytest.mark.complaint(22)
async def test_schemas_are_compiled_and_validated_in_the_thread_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = set[int]()
    compile_schema, faults = _schema.compile_schema, _schema.Validator.faults

    def record_compile(*arguments: Any, **options: Any) -> _schema.Validator:
        threads.add(threading.get_ident())
        return compile_schema(*arguments, **options)

    def record_validation(self: _schema.Validator, value: Any) -> list[str]:
        threads.add(threading.get_ident())
        return faults(self, value)

    monkeypatch.setattr(_schema, "compile_schema", record_compile)
    monkeypatch.setattr(_schema.Validator, "faults", record_validation)
    server = Server("s")

    @server.tool
    def plain(number: int) -> int:
        assert threading.get_ident() not in threads
        return number

    async with open_client(server) as client:
        await client.list_tools()
        assert (await client.call_tool("plain", {"number": 1})).structured_content == {"result": 1}

    assert threads == {threading.get_ident()}


@pytest.mark.complaint(22)
async def test_a_plain_function_that_waits_for_its_concurrency_limit_occupies_no_thread() -> None:
    """A tool with a limit on its concurrency cannot starve other tools of threads."""
    server, release = Server("s", limits=Limits(max_threads=2)), threading.Event()

    @server.tool(max_concurrency=1)
    def slow() -> None:
        release.wait(30)

    @server.tool
    def quick() -> str:
        return "quick"

    with trio.fail_after(30):
        async with open_memory_client(server) as client, trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(client.call_tool, "slow")
            await client.list_tools()
            assert (await client.call_tool("quick")).structured_content == {"result": "quick"}
            release.set()


# Complaint 23.


@pytest.mark.complaint(23)
async def test_a_tool_has_its_own_timeout_and_concurrency_limit(autojump_clock: object) -> None:
    server, at_work, most = Server("s"), 0, 0

    @server.tool(timeout=5, max_concurrency=2)
    async def work(seconds: float) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            await trio.sleep(seconds)
        finally:
            at_work -= 1
        return "done"

    results: dict[int, bool | None] = {}

    async def call(client: Client, number: int) -> None:
        results[number] = (await client.call_tool("work", {"seconds": 4 if number % 2 else 60})).is_error

    async with open_memory_client(server) as client, trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(call, client, number)

    assert {number for number, failed in results.items() if failed} == {0, 2, 4, 6, 8}
    assert (most, at_work) == (2, 0)


# Complaint 24.


@pytest.mark.complaint(24)
@pytest.mark.parametrize("transport", ["memory", "bytes", "lockstep", "unix"])
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_a_request_of_a_handler_whose_callback_calls_the_server_does_not_deadlock(
    kind: str, revision: str, transport: str, tmp_path: Path
) -> None:
    """The client's callback calls the server before it responds. Middleware and lifespans have separate tests."""
    server = Server("s")

    async def list_uris(ctx: Context) -> str:
        return ", ".join(root.uri for root in await ctx.list_roots())

    server.tool(name="ask")(list_uris)
    server.prompt(name="ask")(list_uris)
    server.resource("ask://roots")(list_uris)

    @server.tool
    async def echo(text: str) -> str:
        return text

    async def roots() -> list[types.Root]:
        answer: Any = await clients[0].call_tool("echo", {"text": "file:///srv"})
        return [types.Root(uri=answer.structured_content["result"])]

    clients: list[Client] = []
    options: ClientOptions = {"revision": revision, "roots": roots, "limits": Limits(max_in_flight=2)}
    async with connected(transport, lambda: server, [], tmp_path, options) as client:
        clients.append(client)
        requests: dict[str, Callable[[], Awaitable[object]]] = {
            "tool": lambda: client.call_tool("ask", raise_on_error=True),
            "prompt": lambda: client.get_prompt("ask"),
            "resource": lambda: client.read_resource("ask://roots"),
        }
        for _ in range(3):
            assert "file:///srv" in str(await requests[kind]())


@pytest.mark.complaint(24)
@pytest.mark.parametrize("transport", ["memory", "bytes", "lockstep", "unix"])
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_callbacks_of_the_client_may_call_the_server(revision: str, transport: str, tmp_path: Path) -> None:
    server, received = Server("s"), trio.Event()

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.log("info", "working")
        await ctx.report_progress(1)
        return "done"

    @server.tool
    async def echo(text: str) -> str:
        return text

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await clients[0].call_tool("echo", {"text": str(message.data)})
        received.set()

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await clients[0].call_tool("echo", {"text": str(update.progress)})

    clients: list[Client] = []
    async with connected(transport, lambda: server, [], tmp_path, {"revision": revision, "on_log": on_log}) as client:
        clients.append(client)
        await client.set_log_level("debug")
        assert (await client.call_tool("report", on_progress=on_progress)).is_error is not True
        await received.wait()


@pytest.mark.complaint(24)
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_lifespan_may_use_clients_of_other_servers(revision: str) -> None:
    """In some SDKs, awaiting in a lifespan blocks the loop that reads from the connection."""
    inner = Server("inner")

    @inner.tool
    async def secret() -> str:
        return "42"

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[tuple[str, Client]]:
        async with open_memory_client(inner, lockstep=True, revision=revision) as client:
            answer: Any = await client.call_tool("secret")
            yield answer.structured_content["result"], client

    outer = Server("outer", lifespan=lifespan)

    @outer.tool
    async def known(ctx: Context) -> str:
        word, client = ctx.state
        again: Any = await client.call_tool("secret")
        return str(word + again.structured_content["result"])

    with trio.fail_after(30):
        async with open_memory_client(outer, lockstep=True, revision=revision) as client:
            assert (await client.call_tool("known")).structured_content == {"result": "4242"}
