"""HTTP+SSE, the oldest form: how the client comes to it, its one stream, and what the end of that means."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import Flaky
from tests.transports.http.scripted_server import (
    Caller,
    HttpScript,
    Visit,
    ask,
    error,
    initialize,
    notice,
    opened,
    result,
)
from trio_mcp import (
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    HttpStatusError,
    Limits,
    RemoteProtocolError,
    ResponseLost,
)
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Transport
from trio_mcp.transports import HttpEngine

REVISION = "2024-11-05"


async def begin_stream(server: HttpScript, endpoint: str = "/messages?id=7") -> Visit:
    """Take the request for the stream, and name the address of messages."""
    stream = await server.next("GET")
    await stream.begin()
    await stream.send(f"event: endpoint\ndata: {endpoint}\n\n".encode())
    return stream


async def welcome(server: HttpScript, stream: Visit) -> Visit:
    """Answer the handshake as an old server does; return the `initialize` that it took."""
    visit = await server.next(rpc="initialize")
    await visit.answer(202, b"Accepted", kind="text/plain")
    await stream.event(result(visit.message["id"], protocolVersion=REVISION))
    await (await server.next(rpc="notifications/initialized")).answer(202)
    return visit


@asynccontextmanager
async def opened_legacy(
    server: HttpScript, caller: Caller | None = None, engine: HttpEngine | None = None
) -> AsyncGenerator[tuple[Transport, Visit]]:
    """A transport whose handshake is done with an old server, and the server's stream."""
    async with opened(server, caller, engine=engine) as transport, owned_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await (await server.next(rpc="initialize")).answer(405)
        stream = await begin_stream(server)
        await welcome(server, stream)
        await trio.testing.wait_all_tasks_blocked()
        yield transport, stream


async def refusal_of_initialize(server: HttpScript, transport: Transport, status: int, body: object = b"") -> None:
    """Ask for the handshake; have its post refused. Raises whatever comes of it."""
    async with trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(status, body)
    await pending.outcome()


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_that_takes_no_post_is_asked_for_its_stream(status: int, autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened(server, caller) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await (await server.next(rpc="initialize")).answer(status, error(-32600) if status == 400 else b"")
        stream = await begin_stream(server)
        again = await welcome(server, stream)
        assert again.scope["path"] == "/messages"
        assert again.scope["query_string"] == b"id=7"
        assert stream.headers["accept"] == "text/event-stream"

        await transport.open_standalone_stream()  # which come by that very stream
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        assert visit.headers["mcp-protocol-version"] == REVISION
        await visit.answer(202)
        await stream.event(notice("notifications/x"))
        await stream.send(b"event: ping\ndata: now\n\n")
        await stream.event(result(visit.message["id"], tools=[]))
        assert await pending.outcome() == {"tools": []}
        assert caller.news == ["notifications/x"]

    assert stream.left.is_set()
    assert [each.method for each in server.visits] == ["POST", "GET", "POST", "POST", "POST"]


async def test_an_answer_may_come_before_the_post_is_accepted(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_legacy(server) as (transport, stream), trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await stream.event(result(visit.message["id"], tools=[]))
        assert await pending.outcome() == {"tools": []}
        await visit.answer(202)


async def test_questions_are_answered_where_messages_go(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_legacy(server) as (_, stream):
        await stream.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        reply = await server.next()
        await reply.answer(202)

    assert reply.message == result("q")
    assert reply.scope["path"] == "/messages"


async def test_a_request_that_is_left_is_cancelled_by_a_notice(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_legacy(server) as (transport, _), trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.answer(202)
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        cancelled = await server.next(rpc="notifications/cancelled")
        await cancelled.answer(202)
        assert cancelled.message["params"] == {"requestId": visit.message["id"]}


async def test_a_post_that_is_refused_fails_one_request(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_legacy(server) as (transport, stream), trio.open_nursery() as nursery:
        going, failing = ask(nursery, transport, modern=False), ask(nursery, transport, "tools/call", modern=False)
        visits = await server.take(2)
        await visits["tools/list"].answer(202)
        await visits["tools/call"].answer(500)
        with pytest.raises(HttpStatusError, match="500"):
            await failing.outcome()
        await stream.event(result(visits["tools/list"].message["id"], tools=[]))
        assert await going.outcome() == {"tools": []}


async def test_closing_leaves_the_stream_after_the_last_words(autojump_clock: object) -> None:
    server = HttpScript()
    async with trio.open_nursery() as nursery:
        async with opened_legacy(server) as (transport, stream):
            pending = ask(nursery, transport, "tools/call", modern=False)
            await (await server.next(rpc="tools/call")).answer(202)
            await trio.testing.wait_all_tasks_blocked()

            async def bury() -> None:
                cancelled = await server.next(rpc="notifications/cancelled")
                assert not stream.left.is_set()
                await cancelled.answer(202)

            nursery.start_soon(bury)
        with pytest.raises(ConnectionClosed):
            await pending.outcome()
    assert stream.left.is_set()


# Where there is no such thing.


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (500, b"", HttpStatusError),
        (403, b"", HttpStatusError),
        (400, error(-32022, "speak 2026-07-28"), ErrorResponse),
        (400, error(-32020, "headers"), ErrorResponse),
    ],
)
async def test_only_the_answers_of_a_legacy_server_lead_to_sse(
    status: int, body: object, expected: type[Exception], autojump_clock: object
) -> None:
    server = HttpScript()
    async with opened(server) as transport:
        with pytest.raises(expected):
            await refusal_of_initialize(server, transport, status, body)
        await server.silence()


@pytest.mark.parametrize("status", [405, 200, None])
async def test_without_such_a_stream_the_first_refusal_stands(status: int | None, autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server, down_for="GET", is_up=status is not None)
    async with opened(server, engine=engine) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            if status is not None:
                await (await server.next("GET")).answer(status, b"<html>", kind="text/html")

        nursery.start_soon(serve)
        with pytest.raises(HttpStatusError, match="404: no such page"):
            await refusal_of_initialize(server, transport, 404, error(-1, "no such page", id=99))


@pytest.mark.parametrize("begins", [True, False])
async def test_a_stream_that_names_no_address_in_time_opens_no_session(begins: bool, autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(404)
        begun = trio.current_time()
        stream = await server.next("GET")
        if begins:
            await stream.begin()
        with pytest.raises(HttpStatusError, match="404"):
            await pending.outcome()
        assert trio.current_time() - begun == 10
        assert stream.left.is_set()


async def test_a_stream_that_ends_at_once_opens_no_session(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(404)
        stream = await server.next("GET")
        await stream.begin()
        await stream.end()
        with pytest.raises(HttpStatusError, match="404"):
            await pending.outcome()


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (b"event: endpoint\ndata: https://evil.test/messages\n\n", "an endpoint of another origin: 'https://evil.test"),
        (b"event: endpoint\ndata: //evil.test/messages\n\n", "another origin"),
        (b"event: endpoint\ndata: http://server.test:81/\n\n", "another origin"),
        (b"event: endpoint\ndata: file:///etc/passwd\n\n", "it does not begin with http"),
        (b"event: endpoint\ndata: a b\n\n", "it holds a space"),
        (b"event: endpoint\ndata: http://[server.test/\n\n", "(?i)as its endpoint: .*ipv6"),
        (b"event: hello\ndata: /messages\n\n", "begins with 'hello' instead of 'endpoint'"),
        (b"data: {}\n\n", "begins with 'message'"),
        (b"data: " + b"x" * 2000 + b"\n\n", "more than 1000 bytes"),
    ],
)
async def test_messages_are_sent_nowhere_else(event: bytes, text: str, autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server, Caller(Limits(max_message_bytes=1000))) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(405)
        stream = await server.next("GET")
        await stream.begin()
        await stream.send(event)
        with pytest.raises(RemoteProtocolError, match=text):
            await pending.outcome()
        await server.silence()


# The end of the stream.


@pytest.mark.parametrize("how", ["end", "cut", "unreadable"])
async def test_the_end_of_the_stream_is_that_of_the_session(how: str, autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(Limits(max_message_bytes=1000))
    async with opened_legacy(server, caller) as (transport, stream), trio.open_nursery() as nursery:
        calling = ask(nursery, transport, "tools/call", modern=False)
        reading = ask(nursery, transport, modern=False, repeatable=True)
        for visit in (await server.take(2)).values():
            await visit.answer(202)
        await trio.testing.wait_all_tasks_blocked()
        match how:
            case "end":
                await stream.end()
            case "cut":
                stream.cut()
            case _:
                await stream.send(b"data: " + b"x" * 2000)
        with pytest.raises(ResponseLost, match="the session was lost before the answer to 'tools/call'"):
            await calling.outcome()
        other = await begin_stream(server, "/others")
        begin = await welcome(server, other)
        assert begin.scope["path"] == "/others"
        visit = await server.next(rpc="tools/list")
        await visit.answer(202)
        await other.event(result(visit.message["id"], tools=[]))
        assert await reading.outcome() == {"tools": []}
        assert caller.renewals == 1


async def test_a_stream_that_cannot_be_opened_again_is_tried_by_the_next_request(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server)
    async with opened_legacy(server, engine=engine) as (transport, stream), trio.open_nursery() as nursery:
        engine.is_up = False
        stream.cut()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ResponseLost, match="cannot be reached to open a new one"):
            await ask(nursery, transport, modern=False).outcome()
        engine.is_up = True
        pending = ask(nursery, transport, modern=False)
        other = await begin_stream(server)
        await welcome(server, other)
        visit = await server.next(rpc="tools/list")
        await visit.answer(202)
        await other.event(result(visit.message["id"]))
        assert await pending.outcome() == {}


async def test_a_stream_that_names_another_origin_later_ends_the_connection(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_legacy(server) as (transport, stream), trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        await (await server.next(rpc="tools/list")).answer(202)
        stream.cut()
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await begin_stream(server, "https://evil.test/")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionBroken, match="another origin"):
            await transport.notify("notifications/x", None)
