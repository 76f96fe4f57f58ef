"""HTTP+SSE at the client: the fallback from a refused POST, the single stream, and the end of the stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import FlakyEngine
from tests.transports.http.scripted_server import (
    ClientStub,
    ReceivedRequest,
    ScriptedHttpServer,
    error,
    initialize,
    notification,
    open_transport,
    result,
    start_request,
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


async def begin_stream(server: ScriptedHttpServer, endpoint: str = "/messages?id=7") -> ReceivedRequest:
    """Answer the request for the stream with the endpoint of messages; return the stream."""
    stream = await server.next("GET")
    await stream.begin()
    await stream.send(f"event: endpoint\ndata: {endpoint}\n\n".encode())
    return stream


async def answer_handshake(server: ScriptedHttpServer, stream: ReceivedRequest) -> ReceivedRequest:
    """Answer the handshake as an HTTP+SSE server does; return the `initialize` request."""
    request = await server.next(rpc="initialize")
    await request.answer(202, b"Accepted", kind="text/plain")
    await stream.event(result(request.message["id"], protocolVersion=REVISION))
    await (await server.next(rpc="notifications/initialized")).answer(202)
    return request


@asynccontextmanager
async def open_sse_session(
    server: ScriptedHttpServer, client: ClientStub | None = None, engine: HttpEngine | None = None
) -> AsyncGenerator[tuple[Transport, ReceivedRequest]]:
    """Open a transport, and perform the handshake over HTTP+SSE; yield the transport and the server's stream."""
    async with open_transport(server, client, engine=engine) as transport, owned_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await (await server.next(rpc="initialize")).answer(405)
        stream = await begin_stream(server)
        await answer_handshake(server, stream)
        await trio.testing.wait_all_tasks_blocked()
        yield transport, stream


async def refusal_of_initialize(
    server: ScriptedHttpServer, transport: Transport, status: int, body: object = b""
) -> None:
    """Start the handshake and refuse its POST; raise the exception that the client gets."""
    async with trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(status, body)
    await pending.outcome()


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_client_opens_the_stream_of_a_server_that_refuses_its_post(status: int, autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_transport(server, client) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(initialize, transport)
        await (await server.next(rpc="initialize")).answer(status, error(-32600) if status == 400 else b"")
        stream = await begin_stream(server)
        again = await answer_handshake(server, stream)
        assert again.scope["path"] == "/messages"
        assert again.scope["query_string"] == b"id=7"
        assert stream.headers["accept"] == "text/event-stream"

        await transport.open_standalone_stream()  # notifications arrive on the same stream
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        assert request.headers["mcp-protocol-version"] == REVISION
        await request.answer(202)
        await stream.event(notification("notifications/x"))
        await stream.send(b"event: ping\ndata: now\n\n")
        await stream.event(result(request.message["id"], tools=[]))
        assert await pending.outcome() == {"tools": []}
        assert client.notifications == ["notifications/x"]

    assert stream.left.is_set()
    assert [each.method for each in server.requests] == ["POST", "GET", "POST", "POST", "POST"]


async def test_an_answer_may_arrive_before_the_post_is_accepted(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_sse_session(server) as (transport, stream), trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await stream.event(result(request.message["id"], tools=[]))
        assert await pending.outcome() == {"tools": []}
        await request.answer(202)


async def test_questions_are_answered_by_posts_to_the_endpoint(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_sse_session(server) as (_, stream):
        await stream.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        reply = await server.next()
        await reply.answer(202)

    assert reply.message == result("q")
    assert reply.scope["path"] == "/messages"


async def test_a_cancelled_request_sends_a_cancellation_notification(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_sse_session(server) as (transport, _), trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.answer(202)
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        cancelled = await server.next(rpc="notifications/cancelled")
        await cancelled.answer(202)
        assert cancelled.message["params"] == {"requestId": request.message["id"]}


async def test_a_post_that_is_refused_fails_one_request(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_sse_session(server) as (transport, stream), trio.open_nursery() as nursery:
        unaffected, failing = (
            start_request(nursery, transport, modern=False),
            start_request(nursery, transport, "tools/call", modern=False),
        )
        requests = await server.next_by_method(2)
        await requests["tools/list"].answer(202)
        await requests["tools/call"].answer(500)
        with pytest.raises(HttpStatusError, match="500"):
            await failing.outcome()
        await stream.event(result(requests["tools/list"].message["id"], tools=[]))
        assert await unaffected.outcome() == {"tools": []}


async def test_closing_ends_the_stream_after_the_last_messages(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with trio.open_nursery() as nursery:
        async with open_sse_session(server) as (transport, stream):
            pending = start_request(nursery, transport, "tools/call", modern=False)
            await (await server.next(rpc="tools/call")).answer(202)
            await trio.testing.wait_all_tasks_blocked()

            async def answer_delete() -> None:
                cancelled = await server.next(rpc="notifications/cancelled")
                assert not stream.left.is_set()
                await cancelled.answer(202)

            nursery.start_soon(answer_delete)
        with pytest.raises(ConnectionClosed):
            await pending.outcome()
    assert stream.left.is_set()


# Servers without HTTP+SSE.


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
    server = ScriptedHttpServer()
    async with open_transport(server) as transport:
        with pytest.raises(expected):
            await refusal_of_initialize(server, transport, status, body)
        await server.expect_nothing()


@pytest.mark.parametrize("status", [405, 200, None])
async def test_without_an_event_stream_the_first_refusal_is_raised(status: int | None, autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server, down_for="GET", is_up=status is not None)
    async with open_transport(server, engine=engine) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            if status is not None:
                await (await server.next("GET")).answer(status, b"<html>", kind="text/html")

        nursery.start_soon(serve)
        with pytest.raises(HttpStatusError, match="404: no such page"):
            await refusal_of_initialize(server, transport, 404, error(-1, "no such page", id=99))


@pytest.mark.parametrize("begins", [True, False])
async def test_a_stream_that_names_no_address_in_time_opens_no_session(begins: bool, autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
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
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(404)
        stream = await server.next("GET")
        await stream.begin()
        await stream.end()
        with pytest.raises(HttpStatusError, match="404"):
            await pending.outcome()


@pytest.mark.parametrize(
    ("event", "message"),
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
async def test_an_endpoint_that_is_invalid_or_of_another_origin_is_refused(
    event: bytes, message: str, autojump_clock: object
) -> None:
    server = ScriptedHttpServer()
    async with (
        open_transport(server, ClientStub(Limits(max_message_bytes=1000))) as transport,
        trio.open_nursery() as nursery,
    ):
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(405)
        stream = await server.next("GET")
        await stream.begin()
        await stream.send(event)
        with pytest.raises(RemoteProtocolError, match=message):
            await pending.outcome()
        await server.expect_nothing()


# The end of the stream.


@pytest.mark.parametrize("ending", ["end", "cut", "unreadable"])
async def test_the_session_ends_with_its_stream_and_is_renewed(ending: str, autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(Limits(max_message_bytes=1000))
    async with open_sse_session(server, client) as (transport, stream), trio.open_nursery() as nursery:
        calling = start_request(nursery, transport, "tools/call", modern=False)
        reading = start_request(nursery, transport, modern=False, repeatable=True)
        for request in (await server.next_by_method(2)).values():
            await request.answer(202)
        await trio.testing.wait_all_tasks_blocked()
        match ending:
            case "end":
                await stream.end()
            case "cut":
                stream.cut()
            case _:
                await stream.send(b"data: " + b"x" * 2000)
        with pytest.raises(ResponseLost, match="the session was lost before the answer to 'tools/call'"):
            await calling.outcome()
        other = await begin_stream(server, "/others")
        begin = await answer_handshake(server, other)
        assert begin.scope["path"] == "/others"
        request = await server.next(rpc="tools/list")
        await request.answer(202)
        await other.event(result(request.message["id"], tools=[]))
        assert await reading.outcome() == {"tools": []}
        assert client.renewals == 1


async def test_the_next_request_tries_again_to_open_a_lost_stream(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server)
    async with open_sse_session(server, engine=engine) as (transport, stream), trio.open_nursery() as nursery:
        engine.is_up = False
        stream.cut()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ResponseLost, match="cannot be reached to open a new one"):
            await start_request(nursery, transport, modern=False).outcome()
        engine.is_up = True
        pending = start_request(nursery, transport, modern=False)
        other = await begin_stream(server)
        await answer_handshake(server, other)
        request = await server.next(rpc="tools/list")
        await request.answer(202)
        await other.event(result(request.message["id"]))
        assert await pending.outcome() == {}


async def test_a_reopened_stream_with_an_endpoint_of_another_origin_breaks_the_connection(
    autojump_clock: object,
) -> None:
    server = ScriptedHttpServer()
    async with open_sse_session(server) as (transport, stream), trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        await (await server.next(rpc="tools/list")).answer(202)
        stream.cut()
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await begin_stream(server, "https://evil.test/")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionBroken, match="another origin"):
            await transport.notify("notifications/x", None)
