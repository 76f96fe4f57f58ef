"""Event streams of a legacy session that span several connections: the standalone stream and resumed answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import FlakyEngine
from tests.transports.http.scripted_server import (
    ClientStub,
    ReceivedRequest,
    ScriptedHttpServer,
    notification,
    open_session,
    result,
    start_request,
)
from trio_mcp import Limits, RemoteProtocolError, ResponseLost
from trio_mcp.abc import Transport

# The standalone stream.


async def opened_standalone_stream(
    server: ScriptedHttpServer, transport: Transport, nursery: trio.Nursery
) -> ReceivedRequest:
    """Have the transport open the standalone stream; return its request once the head is sent."""
    nursery.start_soon(transport.open_standalone_stream)
    request = await server.next("GET")
    await request.begin()
    return request


async def test_the_standalone_stream_is_open_before_it_is_reported_as_open(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    is_open = trio.Event()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:

        async def open_standalone_stream() -> None:
            await transport.open_standalone_stream()
            is_open.set()

        nursery.start_soon(open_standalone_stream)
        request = await server.next("GET")
        await trio.testing.wait_all_tasks_blocked()
        assert not is_open.is_set()
        await request.begin()
        await is_open.wait()
        await transport.open_standalone_stream()  # does nothing: it is open
        await request.send(b": alive\n\nevent: other\ndata: x\n\n")
        await request.event()
        await request.event(notification("notifications/tools/list_changed"))
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == ["notifications/tools/list_changed"]

    assert request.left.is_set()
    assert [each.method for each in server.requests] == ["POST", "POST", "GET", "DELETE"]
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize(
    ("status", "kind"), [(405, None), (404, None), (401, None), (503, None), (200, "text/html"), (202, None)]
)
async def test_a_standalone_stream_that_the_server_refuses_is_not_requested_again(
    status: int, kind: str | None, autojump_clock: object
) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        await (await server.next("GET")).answer(status, b"no", kind=kind)
        await trio.testing.wait_all_tasks_blocked()
        await transport.open_standalone_stream()
        await server.expect_nothing(3600)
        assert client.renewals == 0


async def test_opening_does_not_wait_for_a_server_that_delays_the_head_of_its_stream(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport:
        begun = trio.current_time()
        await transport.open_standalone_stream()
        assert trio.current_time() - begun == 2
        request = await server.next("GET")
        await request.begin()
        await request.event(notification("notifications/late"))
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == ["notifications/late"]


async def test_a_standalone_stream_that_ends_is_resumed_at_its_position(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        request = await opened_standalone_stream(server, transport, nursery)
        await request.event(notification("notifications/a"), id="e1", retry_ms=3000)
        await request.end()
        ended = trio.current_time()
        request = await server.next("GET")
        assert trio.current_time() - ended == 3
        assert request.headers["last-event-id"] == "e1"
        await request.begin()
        await request.event(notification("notifications/b"), id="e2")
        request.cut()
        request = await server.next("GET")
        assert trio.current_time() - ended == 6
        assert request.headers["last-event-id"] == "e2"
        assert client.notifications == ["notifications/a", "notifications/b"]


async def test_the_pauses_between_attempts_grow_until_an_event_arrives(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    pauses: list[float] = []
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        request = await opened_standalone_stream(server, transport, nursery)
        for status in (200, 503, 200, 502, 200, 200, 200, 200):
            if not request.over.is_set():
                await request.end()
            before = trio.current_time()
            request = await server.next("GET")
            pauses.append(trio.current_time() - before)
            if status == 200:
                await request.begin()
            else:
                await request.answer(status)
        await request.event(notification("notifications/x"))
        await request.end()
        before = trio.current_time()
        await server.next("GET")
        assert 0.5 <= trio.current_time() - before <= 1.01

    longest = [1, 2, 4, 8, 16, 30, 30, 30]
    assert all(0.5 * most <= pause <= 1.01 * most for pause, most in zip(pauses, longest, strict=True)), pauses


async def test_a_stream_that_lasted_long_is_resumed_after_a_short_pause(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        request = await opened_standalone_stream(server, transport, nursery)
        for _ in range(10):  # as a proxy does that ends silent streams
            await trio.sleep(31)
            await request.end()
            before = trio.current_time()
            request = await server.next("GET")
            assert trio.current_time() - before <= 1.01
            await request.begin()


async def test_the_standalone_stream_is_retried_if_the_server_cannot_be_reached(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    engine = FlakyEngine(server, down_for="GET")
    async with open_session(server, client, engine=engine) as transport:
        engine.is_up = False
        begun = trio.current_time()
        await transport.open_standalone_stream()
        assert trio.current_time() == begun
        await trio.sleep(3600)
        engine.is_up = True
        await (await server.next("GET")).begin()
        assert len(engine.refused) > 100


async def test_a_standalone_stream_that_is_refused_later_ends(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        await (await opened_standalone_stream(server, transport, nursery)).end()
        await (await server.next("GET")).answer(405)
        await server.expect_nothing(3600)


async def test_events_of_the_standalone_stream_that_cannot_be_read_are_skipped(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server, client = ScriptedHttpServer(), ClientStub(Limits(max_message_bytes=200))
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        request = await opened_standalone_stream(server, transport, nursery)
        await request.event(notification("notifications/a"), id="e1")
        await request.event(notification("notifications/long", text="x" * 200), id="e2")
        request = await server.next("GET")
        assert "last-event-id" not in request.headers  # or the same event would come again
        await request.begin()
        await request.event(notification("notifications/b"))
        await trio.testing.wait_all_tasks_blocked()
        assert client.notifications == ["notifications/a", "notifications/b"]

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "cannot be read and are skipped: the server sends a message of more than 200 bytes" in record.getMessage()


# Answers.


async def start_interrupted_request(
    server: ScriptedHttpServer, transport: Transport, nursery: trio.Nursery, **event: Any
) -> tuple[Callable[[], Any], int]:
    """Start a request whose stream ends after one event; return a function that waits for its outcome, and its id."""
    pending = start_request(nursery, transport, modern=False)
    request = await server.next(rpc="tools/list")
    await request.begin()
    await request.event(**event)
    await request.end()
    return pending.outcome, request.message["id"]


async def test_an_answer_is_resumed_after_the_pause_that_the_server_asks_for(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        outcome, id = await start_interrupted_request(server, transport, nursery, id="e1", retry_ms=500)
        for number in range(2, 12):  # not limited, because an event arrives each time
            before = trio.current_time()
            request = await server.next("GET")
            assert trio.current_time() - before == 0.5
            assert request.headers["last-event-id"] == f"e{number - 1}"
            assert request.headers["mcp-session-id"] == "s1"
            await request.begin()
            await request.event(id=f"e{number}")
            await request.end()
        request = await server.next("GET")
        await request.begin()
        await request.event(result(id, tools=[]))
        await request.end()
        assert await outcome() == {"tools": []}


async def test_an_answer_whose_stream_breaks_off_is_resumed(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server, down_for="GET")
    async with open_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event(id="e1")
        engine.is_up = False
        request.cut()
        await trio.sleep(2)
        engine.is_up = True
        await (await server.next("GET")).answer(503)
        request = await server.next("GET")
        await request.begin()
        request.cut()
        request = await server.next("GET")
        await request.begin()
        await request.event(result(pending.outgoing.id, tools=[]))
        await request.end()
        assert await pending.outcome() == {"tools": []}
        assert engine.refused


@pytest.mark.parametrize(
    "event", [{}, {"retry_ms": 10}, {"id": "caf\u00e9"}, {"id": ""}], ids=["none", "retry", "no field", "empty"]
)
async def test_a_stream_without_ids_is_not_resumed(event: dict[str, Any], autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        outcome, _ = await start_interrupted_request(server, transport, nursery, **event)
        with pytest.raises(ResponseLost, match="ended its response to 'tools/list' without an answer"):
            await outcome()
        await server.expect_nothing()


async def test_resuming_stops_after_five_attempts_without_an_event(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        outcome, _ = await start_interrupted_request(server, transport, nursery, id="e1")
        for _ in range(5):
            await (await server.next("GET")).answer(502)
        with pytest.raises(ResponseLost, match="without an answer"):
            await outcome()
        await server.expect_nothing()


@pytest.mark.parametrize("status", [404, 405, 200])
async def test_a_server_that_refuses_to_resume_a_stream_gets_no_second_attempt(
    status: int, autojump_clock: object
) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        outcome, _ = await start_interrupted_request(server, transport, nursery, id="e1")
        await (await server.next("GET")).answer(status, b"{}", kind="application/json")
        with pytest.raises(ResponseLost, match="without an answer"):
            await outcome()
        await server.expect_nothing()
        assert client.renewals == 0


async def test_a_404_from_a_server_that_has_resumed_a_stream_means_a_lost_session(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        outcome, _ = await start_interrupted_request(server, transport, nursery, id="e1")
        request = await server.next("GET")
        await request.begin()
        await request.end()
        await (await server.next("GET")).answer(404)
        with pytest.raises(ResponseLost, match="the session was lost"):
            await outcome()
        await server.next(rpc="initialize")


async def test_a_request_cancelled_in_a_pause_notifies_the_server_and_is_not_resumed(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event(id="e1", retry_ms=60_000)
        await request.end()
        await trio.sleep(1)
        pending.scope.cancel()
        await (await server.next(rpc="notifications/cancelled")).answer(202)
        await server.expect_nothing(3600)


async def test_an_answer_that_is_too_long_is_not_requested_again(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(Limits(max_message_bytes=200))
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event(id="e1")
        await request.event(result(pending.outgoing.id, text="x" * 200))
        with pytest.raises(RemoteProtocolError, match="more than 200 bytes"):
            await pending.outcome()
        await server.expect_nothing()
