"""An HTTP client in a legacy session: handshake, cancellation, questions of the server, and closing."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import BlockedEngine, FlakyEngine
from tests.transports.http.scripted_server import (
    LEGACY,
    ClientStub,
    ReceivedRequest,
    ScriptedHttpServer,
    answer_handshake,
    error,
    initialize,
    open_session,
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
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import EngineError
from trio_mcp.wire import JsonObject


def question(id: int, method: str = "ping") -> JsonObject:
    """Return a request of the server."""
    return {"jsonrpc": "2.0", "id": id, "method": method}


# The handshake and the header fields after it.


async def test_every_request_after_the_handshake_names_the_session_and_the_revision(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server, revision="2025-06-18") as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.result(tools=[])
        assert await pending.outcome() == {"tools": []}

    named = {"mcp-session-id": "s1", "mcp-protocol-version": "2025-06-18"}
    fields = [{name: request.headers.get(name) for name in named} for request in server.requests]
    assert fields == [dict.fromkeys(named), named, named, named]
    assert [request.method for request in server.requests] == ["POST", "POST", "POST", "DELETE"]
    assert "mcp-method" not in server.requests[2].headers


async def test_requests_to_a_server_without_sessions_name_only_the_revision(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server, id=None) as transport, trio.open_nursery() as nursery:
        start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.result()

    assert request.headers["mcp-protocol-version"] == LEGACY
    assert "mcp-session-id" not in request.headers
    assert [request.method for request in server.requests] == ["POST"] * 3  # there is nothing to delete


async def test_a_modern_request_on_a_transport_with_a_session_does_not_name_the_session(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        start_request(nursery, transport)
        request = await server.next(rpc="tools/list")
        await request.result()

    assert "mcp-session-id" not in request.headers
    assert request.headers["mcp-protocol-version"] == "2026-07-28"


@pytest.mark.parametrize("id", ["two words", "", "x" * 1025, "caf\u00e9"])
async def test_a_session_id_that_could_not_be_sent_back_is_refused(id: str, autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await server.next(rpc="initialize")
            await request.answer(200, result(1), headers={"mcp-session-id": id})

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="has assigned an invalid session id"):
            await initialize(transport)


async def test_a_handshake_result_without_a_revision_is_returned_to_the_client(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).result(protocolVersion=7)
        assert await pending.outcome() == {"protocolVersion": 7}
        start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.result()

    assert "mcp-protocol-version" not in request.headers


async def test_a_cancelled_handshake_sends_no_cancellation_to_the_server(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        request = await server.next(rpc="initialize")
        pending.scope.cancel()
        await request.left.wait()
        await server.expect_nothing()


@pytest.mark.parametrize("status", [500, 401, 400])
async def test_a_notification_that_is_refused_is_an_error(status: int, autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:

        async def refuse() -> None:
            await (await server.next(rpc="notifications/roots/list_changed")).answer(status)

        nursery.start_soon(refuse)
        with pytest.raises(HttpStatusError, match=f"HTTP status {status}"):
            await transport.notify("notifications/roots/list_changed", None)


# Cancellation.


async def test_a_cancelled_request_notifies_the_server_and_then_closes_the_response(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        pending.scope.cancel()
        cancelled = await server.next(rpc="notifications/cancelled")
        await trio.testing.wait_all_tasks_blocked()
        assert not request.left.is_set()
        await cancelled.answer(202)
        await request.left.wait()

    assert cancelled.message["params"] == {"requestId": request.message["id"]}
    assert cancelled.headers["mcp-session-id"] == "s1"


async def test_the_response_of_a_cancelled_request_is_closed_even_if_the_server_does_not_accept_the_notification(
    autojump_clock: object,
) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        pending.scope.cancel()
        await server.next(rpc="notifications/cancelled")
        left = trio.current_time()
        await request.left.wait()
        assert trio.current_time() - left == 5


async def test_a_cancellation_never_overtakes_its_request(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = BlockedEngine(server)
    async with open_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        await server.expect_nothing(4)
        engine.release.set()
        request = await server.next(rpc="tools/call")
        await (await server.next(rpc="notifications/cancelled")).answer(202)
        await request.left.wait()


@pytest.mark.parametrize("fails", [True, False])
async def test_a_request_that_was_never_sent_is_not_cancelled_at_the_server(
    fails: bool, autojump_clock: object
) -> None:
    server = ScriptedHttpServer()
    engine = BlockedEngine(server, failure=EngineError("no way", sent=False))
    async with open_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        if fails:
            engine.release.set()
        await server.expect_nothing(10)


async def test_a_request_that_is_cancelled_between_two_attempts_is_not_repeated(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    engine = FlakyEngine(server)
    async with open_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        engine.is_up = False
        pending = start_request(nursery, transport, modern=False, repeatable=True)
        await trio.sleep(1)
        engine.is_up = True
        pending.scope.cancel()
        await server.expect_nothing()


async def test_a_request_that_is_cancelled_before_it_was_sent_is_not_sent(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport:
        async with transport.ask("tools/list", None):
            pass
        await server.expect_nothing()


# Questions of the server.


async def test_questions_from_any_stream_are_answered_in_the_session(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        stream = await server.next("GET")
        await stream.begin()
        await stream.event(question(7))
        by_stream = await server.next()
        await by_stream.answer(202)
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        await request.event(question(8))
        by_call = await server.next()
        await by_call.answer(202)
        await request.event(result(request.message["id"]))
        await request.end()
        await pending.outcome()
        stream.cut()

    assert [by_stream.message, by_call.message] == [result(7), result(8)]
    assert by_call.headers["mcp-session-id"] == "s1"
    assert [exchange.method for exchange in client.questions] == ["ping", "ping"]


async def test_messages_of_one_question_stay_in_order_and_delay_no_other_question(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(answers=False)
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        requests: list[ReceivedRequest] = []
        for id in (1, 2):
            start_request(nursery, transport, "tools/call", modern=False)
            requests.append(await server.next(rpc="tools/call"))
            await requests[-1].begin()
            await requests[-1].event(question(id, "sampling/createMessage"))
            await trio.testing.wait_all_tasks_blocked()
        first, second = client.questions
        first.notify("notifications/progress", {"progressToken": "t", "progress": 1})
        first.respond({"role": "assistant"})
        progress = await server.next(rpc="notifications/progress")
        second.respond({"role": "user"})
        other = await server.next()
        assert other.message["result"] == {"role": "user"}
        assert transport.statistics().outbox_bytes > len(progress.body + other.body)
        await server.expect_nothing()
        await progress.answer(202)
        assert (await server.next()).message["result"] == {"role": "assistant"}
        for request in server.requests:
            request.cut()


@pytest.mark.parametrize("reached", [True, False])
async def test_a_response_that_is_not_accepted_is_logged(
    reached: bool, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server = ScriptedHttpServer()
    engine = BlockedEngine(server, failure=EngineError("no way", sent=False), blocked_content='"result":{}')
    engine.release.set()
    async with (
        open_session(server, engine=AsgiEngine(server) if reached else engine) as transport,
        trio.open_nursery() as nursery,
    ):
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        await request.event(question(7))
        if reached:
            await (await server.next()).answer(500, b"full up", kind="text/plain")
        await trio.testing.wait_all_tasks_blocked()
        await request.event(result(2))
        await request.end()
        await pending.outcome()

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    expected = (
        "refused a response or a notification: HTTP status 500: full up" if reached else "not have arrived: no way"
    )
    assert expected in record.getMessage()


async def test_a_reply_that_is_never_accepted_delays_the_next_one_for_a_bounded_time(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server, client = ScriptedHttpServer(), ClientStub(Limits(stall_seconds=20))
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        for id in (1, 2):
            await request.event(question(id))
        first = await server.next()
        begun = trio.current_time()
        await (await server.next()).answer(202)
        assert trio.current_time() - begun == 20
        assert first.left.is_set()
        await request.event(result(request.message["id"]))
        await request.end()
        await pending.outcome()

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "has not confirmed a response" in record.getMessage()


async def test_a_server_that_accepts_no_replies_loses_the_connection(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(Limits(outbox_bytes=1, outbox_urgent_bytes=100))
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        for id in range(10):
            await request.event(question(id))
        with pytest.raises(ConnectionBroken, match="bytes of replies to it wait"):
            await pending.outcome()
        with pytest.raises(ConnectionBroken):
            await transport.notify("notifications/x", None)


# Closing.


async def test_closing_cancels_requests_in_flight_and_then_deletes_the_session(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with trio.open_nursery() as nursery:
        async with open_transport(server) as transport:
            nursery.start_soon(answer_handshake, server)
            await initialize(transport)
            pending = [start_request(nursery, transport, "tools/call", modern=False) for _ in range(2)]
            requests = [await server.next(rpc="tools/call") for _ in pending]
            nursery.start_soon(answer_shutdown, server, 2)
        for each in pending:
            with pytest.raises(ConnectionClosed):
                await each.outcome()
        assert all(request.left.is_set() for request in requests)

    cancelled_ids = [request.message["params"]["requestId"] for request in server.requests[4:6]]
    assert sorted(cancelled_ids) == sorted(request.message["id"] for request in requests)
    assert server.requests[6].method == "DELETE"


async def answer_shutdown(server: ScriptedHttpServer, count: int) -> None:
    """Accept notifications of cancellations, then answer the DELETE of the session."""
    for _ in range(count):
        await (await server.next(rpc="notifications/cancelled")).answer(202)
    await answer_delete(server)


async def answer_delete(server: ScriptedHttpServer) -> None:
    """Answer the DELETE of the session as a server that does not support it."""
    await (await server.next("DELETE")).answer(405)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_server_that_does_not_answer_delays_closing_by_two_seconds(
    cancelled: bool, autojump_clock: object
) -> None:
    server, left = ScriptedHttpServer(), 0.0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery, open_transport(server) as transport:
            nursery.start_soon(answer_handshake, server)
            await initialize(transport)
            left = trio.current_time()
            if cancelled:
                scope.cancel()
    assert trio.current_time() - left == 2
    assert server.requests[-1].method == "DELETE"


async def test_closing_succeeds_if_the_session_cannot_be_deleted(autojump_clock: object) -> None:
    server = ScriptedHttpServer()

    engine = FlakyEngine(server, down_for="DELETE")
    async with open_session(server, engine=engine):
        engine.is_up = False
    assert len(engine.refused) == 1


async def test_closing_stops_the_handlers_of_the_servers_questions(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(answers=False)
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        await request.event(question(1, "sampling/createMessage"))
        await request.event(result(request.message["id"]))
        await request.end()
    assert [exchange.open for exchange in client.questions] == [False]
    assert transport.statistics().incoming == 0


async def test_an_error_response_to_the_handshake_is_raised_to_the_client(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(200, error(-32602, "what", id=1))
        with pytest.raises(ErrorResponse, match="what"):
            await pending.outcome()


async def test_a_lost_response_fails_one_request(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        lost, unaffected = (start_request(nursery, transport, modern=False) for _ in range(2))
        first, second = await server.next(rpc="tools/list"), await server.next(rpc="tools/list")
        by_id = {request.message["id"]: request for request in (first, second)}
        await by_id[lost.outgoing.id].begin()
        by_id[lost.outgoing.id].cut()
        with pytest.raises(ResponseLost):
            await lost.outcome()
        await by_id[unaffected.outgoing.id].result(tools=[])
        assert await unaffected.outcome() == {"tools": []}


async def test_a_revision_that_is_not_a_valid_header_value_is_not_sent(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "initialize", modern=False)
        request = await server.next(rpc="initialize")
        await request.answer(200, result(request.message["id"], protocolVersion="1\r\nX-Evil: 1"))
        await pending.outcome()
        start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        assert "mcp-protocol-version" not in request.headers
        await request.result()
