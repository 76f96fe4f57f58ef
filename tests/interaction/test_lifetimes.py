"""Start and end of clients and servings, and the effects of a lost connection."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.conftest import conversation_program
from tests.interaction.conversation_server import make_server
from tests.interaction.openers import HTTP_OPENERS, Opener
from tests.interaction.over_http import URL, bridged
from tests.interaction.scripted_peers import ENVELOPE, MODERN
from trio_mcp import (
    Client,
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    Limits,
    Server,
    ServerExited,
    open_client,
    open_memory_client,
    open_stdio_client,
    open_stream_client,
    serve_stream,
    start_client,
    start_http_client,
    start_memory_client,
    start_stdio_client,
    start_stream_client,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_scripted_client, open_scripted_server
from trio_mcp.testing import open_memory_client as open_client_over_bytes


def child() -> list[str]:
    return [sys.executable, conversation_program()]


BOUND_OPENERS: dict[str, Opener] = {
    "direct": lambda: open_memory_client(make_server()),
    "bytes": lambda: open_client_over_bytes(make_server()),
    "child": lambda: open_stdio_client(child()),
    "http": lambda: HTTP_OPENERS["http"](make_server()),
    "http session": lambda: HTTP_OPENERS["http-resumable"](make_server(), revision="2025-11-25"),
}


async def add(client: Client) -> None:
    called = await client.call_tool("add", {"a": 1, "b": 2})
    assert called.content == [types.TextContent(text="3")]


@asynccontextmanager
async def served_stream() -> AsyncGenerator[trio.abc.Stream]:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, make_server(), theirs)
        yield ours


# Openers.


@pytest.mark.complaint(1)
async def test_clients_are_closed_in_any_order_from_any_task() -> None:
    with trio.fail_after(60):
        async with (
            served_stream() as stream,
            bridged("http", make_server()) as engine,
            trio.open_nursery() as nursery,
        ):
            clients = [
                await start_client(nursery, make_server()),
                await start_stream_client(nursery, stream),
                await start_http_client(nursery, URL, engine=engine),
                await start_stdio_client(nursery, child()),
                await start_memory_client(nursery, make_server()),
                await start_http_client(nursery, URL, engine=engine, revision="2025-11-25"),
            ]
            for index in (1, 0, 5, 4, 2, 3):
                async with trio.open_nursery() as other:
                    other.start_soon(clients[index].aclose)
                with pytest.raises(ConnectionClosed):
                    await clients[index].list_tools()
                clients[index] = None  # type: ignore[call-overload]  # mark as closed
                for client in filter(None, clients):
                    await add(client)


@pytest.mark.complaint(1)
async def test_a_client_may_be_closed_many_times_at_once(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        client = await start_client(nursery, make_server())
        async with trio.open_nursery() as closing:
            for _ in range(5):
                closing.start_soon(client.aclose)
        await client.aclose()


async def test_clients_close_when_their_nursery_ends(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        client = await start_client(nursery, make_server())
        nursery.cancel_scope.cancel()
    with pytest.raises(ConnectionClosed):
        await client.list_tools()
    await client.aclose()


@pytest.mark.parametrize("opener", BOUND_OPENERS)
async def test_a_client_is_closed_after_its_block(opener: str) -> None:
    with trio.fail_after(60):
        async with BOUND_OPENERS[opener]() as client:
            await add(client)
        with pytest.raises(ConnectionClosed):
            await client.list_tools()
        with pytest.raises(ConnectionClosed):
            async with client.open_call("add"):
                pass
        await client.aclose()


@pytest.mark.parametrize("opener", BOUND_OPENERS)
async def test_a_client_can_be_closed_inside_its_block(opener: str) -> None:
    with trio.fail_after(60):
        async with BOUND_OPENERS[opener]() as client:
            await client.aclose()


@pytest.mark.parametrize("opener", BOUND_OPENERS)
async def test_waiting_calls_raise_when_the_client_is_closed(opener: str) -> None:
    errors: list[str] = []

    async def wait(client: Client) -> None:
        try:
            await client.call_tool("hang", {"key": "k"}, on_progress=on_progress)
        except ConnectionClosed as exc:
            errors.append(str(exc))

    async def on_progress(_: object) -> None:
        await trio.lowlevel.checkpoint()
        began.set()

    with trio.fail_after(60):
        async with BOUND_OPENERS[opener]() as client, trio.open_nursery() as nursery:
            for _ in range(3):
                began = trio.Event()
                nursery.start_soon(wait, client)
                await began.wait()
            await client.aclose()
    assert errors == ["this side closed the connection"] * 3


ERRORS: tuple[BaseException, ...] = (
    KeyError("mine"),
    ExceptionGroup("mine", [KeyError("mine")]),
    ConnectionBroken("mine"),
    ServerExited(1),
    trio.TooSlowError(),
    StopAsyncIteration("mine"),
    KeyboardInterrupt(),
    SystemExit(3),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("opener", BOUND_OPENERS)
@pytest.mark.complaint(3)
async def test_the_exception_of_a_block_is_raised_unchanged(opener: str, error: BaseException) -> None:
    with trio.fail_after(60):
        with pytest.raises(type(error)) as raised:
            async with BOUND_OPENERS[opener]() as client, client.open_call("hang", {"key": "k"}):
                raise error
        assert raised.value is error


async def test_an_exception_passes_through_two_clients_and_a_call_unchanged(autojump_clock: object) -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as raised:
        async with (
            open_client(make_server()) as one,
            BOUND_OPENERS["bytes"]() as two,
            one.open_call("hang", {"key": "k"}),
        ):
            await add(two)
            raise error
    assert raised.value is error


async def test_a_client_inside_an_async_generator_is_closed_with_it(autojump_clock: object) -> None:
    async def names() -> AsyncGenerator[str]:
        async with open_client(make_server()) as client:
            async for tool in client.tools():
                yield tool.name

    async with aclosing(names()) as generator:
        async for name in generator:
            assert name == "add"
            break


class NoDatabaseError(Exception):
    pass


@asynccontextmanager
async def failing_lifespan(_: Server) -> AsyncGenerator[None]:
    await trio.lowlevel.checkpoint()
    raise NoDatabaseError
    yield


def without_database() -> Server:
    return Server("s", lifespan=failing_lifespan)


@pytest.mark.parametrize(
    ("target", "failure", "text"),
    [
        (["/no/such/program"], FileNotFoundError, "cannot start '/no/such/program'"),
        ([], ValueError, "expected a list of the program"),
        ({"comand": "x"}, ValueError, "'comand' is not supported"),
        ("http://127.0.0.1:1/mcp", ConnectionBroken, "cannot connect to http://127.0.0.1:1/mcp"),
        ("localhost", ValueError, "'localhost' is not a URL"),
        (7, TypeError, "cannot connect to 7"),
        ([sys.executable, "-c", "import sys; sys.exit('sorry')"], ServerExited, "sorry"),
    ],
)
@pytest.mark.complaint(3)
async def test_a_target_that_cannot_be_opened_raises_without_an_exception_group(
    target: Any, failure: type[Exception], text: str
) -> None:
    with trio.fail_after(60):
        with pytest.raises(failure, match=text):
            async with open_client(target):
                pass
        raised: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            try:
                await start_client(nursery, target)
            except failure as exc:
                raised.append(exc)
        assert len(raised) == 1


async def test_a_failing_lifespan_fails_the_in_memory_opener_without_an_exception_group() -> None:
    with pytest.raises(NoDatabaseError):
        async with open_client(without_database()):
            pass


async def test_a_failing_lifespan_fails_the_serving_without_an_exception_group() -> None:
    with pytest.raises(NoDatabaseError):
        await serve_stream(without_database(), trio.testing.memory_stream_pair()[0])


# Lost connections.


@pytest.mark.requirement("B.2-P2")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.complaint(5)
async def test_a_lost_connection_fails_the_calls_and_not_the_block(revision: str) -> None:
    lost: list[str] = []

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionBroken) as caught:
            await client.call_tool("x")
        lost.append(str(caught.value))

    welcome = partial(ScriptedPeer.welcome, revision=revision)
    async with open_scripted_server(welcome, revision=revision, roots=[]) as (client, server):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call, client)
                await server.receive()
            await server.stream.aclose()
        await call(client)  # a later call fails too
        with pytest.raises(ConnectionBroken):
            async with client.open_call("x"):
                pass
        if revision != MODERN:
            with pytest.raises(ConnectionBroken):
                await client.roots_changed()
        assert client.statistics().outgoing == 0
    assert lost == ["the peer ended the connection"] * 4
    with pytest.raises(ConnectionBroken):  # the first reason is kept
        await client.list_tools()


async def test_every_call_raises_its_own_exception() -> None:
    caught: list[Exception] = []

    async def call(client: Client) -> None:
        try:
            await client.call_tool("x")
        except ConnectionBroken as exc:
            caught.append(exc)

    connected = open_scripted_server(partial(ScriptedPeer.welcome, revision=MODERN), revision=MODERN)
    async with connected as (client, server), trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(call, client)
            await server.receive()
        await server.stream.aclose()
    assert caught[0] is not caught[1]


async def test_updates_received_before_the_loss_can_still_be_read() -> None:
    connected = open_scripted_server(partial(ScriptedPeer.welcome, revision=MODERN), revision=MODERN)
    async with connected as (client, server), client.open_call("x") as call:
        request = await server.receive()
        params = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1}
        await server.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await server.stream.aclose()
        assert [update.progress async for update in call.updates] == [1]
        with pytest.raises(ConnectionBroken):
            await call.result()


async def test_a_cancelled_caller_is_cancelled_even_if_the_connection_is_also_lost() -> None:
    async with open_scripted_server(partial(ScriptedPeer.welcome, revision=MODERN), revision=MODERN) as (
        client,
        server,
    ):
        with trio.CancelScope() as scope:
            async with client.open_call("x") as call:
                await server.receive()
                await server.stream.aclose()
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                await call.result()
        assert scope.cancelled_caught


async def test_two_tasks_may_not_read_from_one_call(autojump_clock: object) -> None:
    async with open_client(make_server()) as client, client.open_call("hang", {"key": "k"}) as call:
        await anext(call.updates)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(suppressed, call.result)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await call.result()
            nursery.cancel_scope.cancel()


async def suppressed(wait: Callable[[], Any]) -> None:
    with suppress(Exception):
        await wait()


async def test_a_call_that_was_left_has_no_result(autojump_clock: object) -> None:
    async with open_client(make_server()) as client:
        async with client.open_call("hang", {"key": "k"}) as call:
            pass
        with pytest.raises(trio.ClosedResourceError):
            await call.result()


# Servings.


def call(revision: str, id: int, tool: str, **arguments: object) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    params |= {"_meta": ENVELOPE} if revision == MODERN else {}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


@pytest.mark.requirement("B.2-P2")
@pytest.mark.complaint(12)
async def test_the_server_answers_accepted_calls_after_the_end_of_the_input(
    revision: str, autojump_clock: object
) -> None:
    server = make_server()

    @server.tool
    async def nap(seconds: float) -> str:
        await trio.sleep(seconds)
        return f"{seconds:g}"

    async with open_scripted_client(server, revision) as client:
        await client.send(call(revision, 1, "nap", seconds=4), call(revision, 2, "nap", seconds=2))
        await client.send_eof()
        assert [message["id"] for message in await client.rest()] == [2, 1]


async def test_calls_that_exceed_the_drain_time_get_an_error_and_are_cancelled(autojump_clock: object) -> None:
    server, stopped = make_server(limits=Limits(drain_seconds=3)), trio.Event()

    @server.tool
    async def stay() -> None:
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with open_scripted_client(server, MODERN) as client:
        await client.send(call(MODERN, 1, "stay"))
        began = trio.current_time()
        await client.send_eof()
        (message,) = await client.rest()
        assert message["error"]["message"] == "the server stopped before the request was done"
        assert trio.current_time() - began == pytest.approx(3)
    assert stopped.is_set()


async def test_a_cancelled_serving_notifies_its_clients(autojump_clock: object) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    serving = trio.CancelScope()

    async def serve() -> None:
        with serving:
            await serve_stream(make_server(), theirs)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with open_stream_client(ours) as client, client.open_call("hang", {"key": "k"}) as waiting:
            await anext(waiting.updates)
            serving.cancel()
            with pytest.raises(ErrorResponse, match="the server stopped"):
                await waiting.result()


async def test_one_serving_answers_many_connections_with_one_lifespan(autojump_clock: object) -> None:
    lifespans: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[str]:
        lifespans.append("entered")
        yield "shared"
        lifespans.append("left")

    server = make_server()
    server.lifespan = lifespan
    async with server.serving() as serving, trio.open_nursery() as nursery:
        for _ in range(3):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve_stream, serving, theirs)
            async with open_client(ours) as client:
                await add(client)
        assert lifespans == ["entered"]
    assert lifespans == ["entered", "left"]


async def test_an_abandoned_thread_counts_against_the_limit_until_it_ends() -> None:
    server = Server("threads", limits=Limits(max_threads=1))
    began, release = trio.Event(), threading.Event()
    order: list[str] = []

    @server.tool
    def block() -> None:
        trio.from_thread.run_sync(began.set)
        release.wait(20)
        order.append("blocked")

    @server.tool
    def quick() -> None:
        order.append("quick")

    with trio.fail_after(60):
        async with server.serving() as serving:
            ours, theirs = trio.testing.memory_stream_pair()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve_stream, serving, theirs)
                async with open_client(ours) as client:
                    async with client.open_call("block"):
                        await began.wait()
                    await client.list_tools()  # the server has handled the cancellation
                    assert serving.statistics().threads == 1
                    assert serving.statistics().running == 0
                    async with trio.open_nursery() as waiting:
                        waiting.start_soon(client.call_tool, "quick")
                        await client.list_tools()
                        assert order == []
                        release.set()
    assert order == ["blocked", "quick"]


async def test_the_concurrency_limit_of_a_tool_applies_across_all_connections(
    autojump_clock: object,
) -> None:
    server, at_work = Server("s"), [0, 0]

    @server.tool(max_concurrency=2)
    async def work() -> None:
        at_work[0] += 1
        at_work[1] = max(at_work)
        await trio.sleep(1)
        at_work[0] -= 1

    async with open_client(server) as one, open_client_over_bytes(server) as two, trio.open_nursery() as nursery:
        for client in (one, two) * 5:
            nursery.start_soon(client.call_tool, "work")
    assert at_work == [0, 2]
    assert trio.current_time() >= 5
