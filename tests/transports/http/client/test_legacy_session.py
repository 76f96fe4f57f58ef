"""The client over HTTP in a session of the older revisions: its id, its order, its questions, its end."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import Flaky, Gated
from tests.transports.http.scripted_server import (
    LEGACY,
    Caller,
    HttpScript,
    Visit,
    ask,
    error,
    initialize,
    opened,
    opened_in_session,
    result,
    welcome,
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
    """A request of the server's."""
    return {"jsonrpc": "2.0", "id": id, "method": method}


# The handshake, and what follows from it.


async def test_everything_after_the_handshake_names_the_session_and_the_revision(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server, revision="2025-06-18") as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.result(tools=[])
        assert await pending.outcome() == {"tools": []}

    named = {"mcp-session-id": "s1", "mcp-protocol-version": "2025-06-18"}
    fields = [{name: visit.headers.get(name) for name in named} for visit in server.visits]
    assert fields == [dict.fromkeys(named), named, named, named]
    assert [visit.method for visit in server.visits] == ["POST", "POST", "POST", "DELETE"]
    assert "mcp-method" not in server.visits[2].headers


async def test_a_server_without_sessions_gets_the_revision_alone(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server, id=None) as transport, trio.open_nursery() as nursery:
        ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.result()

    assert visit.headers["mcp-protocol-version"] == LEGACY
    assert "mcp-session-id" not in visit.headers
    assert [visit.method for visit in server.visits] == ["POST"] * 3  # there is nothing to delete


async def test_both_kinds_of_requests_go_over_one_transport(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        ask(nursery, transport)
        visit = await server.next(rpc="tools/list")
        await visit.result()

    assert "mcp-session-id" not in visit.headers
    assert visit.headers["mcp-protocol-version"] == "2026-07-28"


@pytest.mark.parametrize("id", ["two words", "", "x" * 1025, "caf\u00e9"])
async def test_a_session_id_that_could_not_be_sent_back_is_refused(id: str, autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            visit = await server.next(rpc="initialize")
            await visit.answer(200, result(1), headers={"mcp-session-id": id})

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="has assigned an invalid session id"):
            await initialize(transport)


async def test_an_answer_to_the_handshake_without_revision_is_the_clients_to_judge(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).result(protocolVersion=7)
        assert await pending.outcome() == {"protocolVersion": 7}
        ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.result()

    assert "mcp-protocol-version" not in visit.headers


async def test_the_handshake_is_never_cancelled_on_the_other_side(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        visit = await server.next(rpc="initialize")
        pending.scope.cancel()
        await visit.left.wait()
        await server.silence()


@pytest.mark.parametrize("status", [500, 401, 400])
async def test_a_notification_that_is_refused_is_an_error(status: int, autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:

        async def refuse() -> None:
            await (await server.next(rpc="notifications/roots/list_changed")).answer(status)

        nursery.start_soon(refuse)
        with pytest.raises(HttpStatusError, match=f"HTTP status {status}"):
            await transport.notify("notifications/roots/list_changed", None)


# Leaving.


async def test_leaving_a_request_tells_the_server_and_then_closes_the_response(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        pending.scope.cancel()
        cancelled = await server.next(rpc="notifications/cancelled")
        await trio.testing.wait_all_tasks_blocked()
        assert not visit.left.is_set()
        await cancelled.answer(202)
        await visit.left.wait()

    assert cancelled.message["params"] == {"requestId": visit.message["id"]}
    assert cancelled.headers["mcp-session-id"] == "s1"


async def test_a_server_that_does_not_take_the_notice_is_left_all_the_same(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        pending.scope.cancel()
        await server.next(rpc="notifications/cancelled")
        left = trio.current_time()
        await visit.left.wait()
        assert trio.current_time() - left == 5


async def test_a_cancellation_never_overtakes_its_request(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Gated(server)
    async with opened_in_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        await server.silence(4)
        engine.admission.set()
        visit = await server.next(rpc="tools/call")
        await (await server.next(rpc="notifications/cancelled")).answer(202)
        await visit.left.wait()


@pytest.mark.parametrize("fails", [True, False])
async def test_a_request_that_never_went_out_is_not_cancelled(fails: bool, autojump_clock: object) -> None:
    server = HttpScript()
    engine = Gated(server, failure=EngineError("no way", sent=False))
    async with opened_in_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        await trio.testing.wait_all_tasks_blocked()
        pending.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        if fails:
            engine.admission.set()
        await server.silence(10)


async def test_a_request_that_is_left_in_a_pause_is_not_sent_again(autojump_clock: object) -> None:
    server = HttpScript()
    engine = Flaky(server)
    async with opened_in_session(server, engine=engine) as transport, trio.open_nursery() as nursery:
        engine.is_up = False
        pending = ask(nursery, transport, modern=False, repeatable=True)
        await trio.sleep(1)
        engine.is_up = True
        pending.scope.cancel()
        await server.silence()


async def test_a_request_that_is_left_before_its_turn_is_not_sent(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport:
        async with transport.ask("tools/list", None):
            pass
        await server.silence()


# What the server asks.


async def test_questions_are_answered_in_the_session_whichever_stream_they_come_by(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        news = await server.next("GET")
        await news.begin()
        await news.event(question(7))
        by_news = await server.next()
        await by_news.answer(202)
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        await visit.event(question(8))
        by_call = await server.next()
        await by_call.answer(202)
        await visit.event(result(visit.message["id"]))
        await visit.end()
        await pending.outcome()
        news.cut()

    assert [by_news.message, by_call.message] == [result(7), result(8)]
    assert by_call.headers["mcp-session-id"] == "s1"
    assert [exchange.method for exchange in caller.questions] == ["ping", "ping"]


async def test_what_belongs_to_one_question_stays_in_order_and_holds_up_no_other(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(answers=False)
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        visits: list[Visit] = []
        for id in (1, 2):
            ask(nursery, transport, "tools/call", modern=False)
            visits.append(await server.next(rpc="tools/call"))
            await visits[-1].begin()
            await visits[-1].event(question(id, "sampling/createMessage"))
            await trio.testing.wait_all_tasks_blocked()
        first, second = caller.questions
        first.notify("notifications/progress", {"progressToken": "t", "progress": 1})
        first.respond({"role": "assistant"})
        progress = await server.next(rpc="notifications/progress")
        second.respond({"role": "user"})
        other = await server.next()
        assert other.message["result"] == {"role": "user"}
        assert transport.statistics().outbox_bytes > len(progress.body + other.body)
        await server.silence()
        await progress.answer(202)
        assert (await server.next()).message["result"] == {"role": "assistant"}
        for visit in server.visits:
            visit.cut()


@pytest.mark.parametrize("reached", [True, False])
async def test_a_response_that_is_not_accepted_is_logged(
    reached: bool, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server = HttpScript()
    engine = Gated(server, failure=EngineError("no way", sent=False), held='"result":{}')
    engine.admission.set()
    async with (
        opened_in_session(server, engine=AsgiEngine(server) if reached else engine) as transport,
        trio.open_nursery() as nursery,
    ):
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        await visit.event(question(7))
        if reached:
            await (await server.next()).answer(500, b"full up", kind="text/plain")
        await trio.testing.wait_all_tasks_blocked()
        await visit.event(result(2))
        await visit.end()
        await pending.outcome()

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    said = "refused a response or a notification: HTTP status 500: full up" if reached else "not have arrived: no way"
    assert said in record.getMessage()


async def test_a_reply_that_is_never_accepted_holds_up_the_next_for_a_bounded_time(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server, caller = HttpScript(), Caller(Limits(stall_seconds=20))
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        for id in (1, 2):
            await visit.event(question(id))
        first = await server.next()
        begun = trio.current_time()
        await (await server.next()).answer(202)
        assert trio.current_time() - begun == 20
        assert first.left.is_set()
        await visit.event(result(visit.message["id"]))
        await visit.end()
        await pending.outcome()

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "has not confirmed a response" in record.getMessage()


async def test_a_server_that_takes_no_replies_loses_the_connection(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(Limits(outbox_bytes=1, outbox_urgent_bytes=100))
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        for id in range(10):
            await visit.event(question(id))
        with pytest.raises(ConnectionBroken, match="bytes of replies to it wait"):
            await pending.outcome()
        with pytest.raises(ConnectionBroken):
            await transport.notify("notifications/x", None)


# The end.


async def test_closing_cancels_what_is_under_way_and_then_ends_the_session(autojump_clock: object) -> None:
    server = HttpScript()
    async with trio.open_nursery() as nursery:
        async with opened(server) as transport:
            nursery.start_soon(welcome, server)
            await initialize(transport)
            pending = [ask(nursery, transport, "tools/call", modern=False) for _ in range(2)]
            visits = [await server.next(rpc="tools/call") for _ in pending]
            nursery.start_soon(take_farewells, server, 2)
        for each in pending:
            with pytest.raises(ConnectionClosed):
                await each.outcome()
        assert all(visit.left.is_set() for visit in visits)

    notices = [visit.message["params"]["requestId"] for visit in server.visits[4:6]]
    assert sorted(notices) == sorted(visit.message["id"] for visit in visits)
    assert server.visits[6].method == "DELETE"


async def take_farewells(server: HttpScript, count: int) -> None:
    """Take notices, and the end of the session."""
    for _ in range(count):
        await (await server.next(rpc="notifications/cancelled")).answer(202)
    await bury(server)


async def bury(server: HttpScript) -> None:
    """Take the end of the session, which this server does not know."""
    await (await server.next("DELETE")).answer(405)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_server_that_does_not_answer_holds_up_the_end_for_two_seconds(
    cancelled: bool, autojump_clock: object
) -> None:
    server, left = HttpScript(), 0.0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery, opened(server) as transport:
            nursery.start_soon(welcome, server)
            await initialize(transport)
            left = trio.current_time()
            if cancelled:
                scope.cancel()
    assert trio.current_time() - left == 2
    assert server.visits[-1].method == "DELETE"


async def test_a_session_that_cannot_be_ended_is_left(autojump_clock: object) -> None:
    server = HttpScript()

    engine = Flaky(server, down_for="DELETE")
    async with opened_in_session(server, engine=engine):
        engine.is_up = False
    assert len(engine.refused) == 1


async def test_closing_stops_what_answers_the_servers_questions(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(answers=False)
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        await visit.event(question(1, "sampling/createMessage"))
        await visit.event(result(visit.message["id"]))
        await visit.end()
    assert [exchange.open for exchange in caller.questions] == [False]
    assert transport.statistics().incoming == 0


async def test_an_error_of_the_handshake_is_the_clients(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        await (await server.next(rpc="initialize")).answer(200, error(-32602, "what", id=1))
        with pytest.raises(ErrorResponse, match="what"):
            await pending.outcome()


async def test_a_response_that_is_lost_fails_one_request(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        losing, going = (ask(nursery, transport, modern=False) for _ in range(2))
        first, second = await server.next(rpc="tools/list"), await server.next(rpc="tools/list")
        by_id = {visit.message["id"]: visit for visit in (first, second)}
        await by_id[losing.asked.id].begin()
        by_id[losing.asked.id].cut()
        with pytest.raises(ResponseLost):
            await losing.outcome()
        await by_id[going.asked.id].result(tools=[])
        assert await going.outcome() == {"tools": []}


async def test_a_revision_that_is_no_header_field_is_sent_in_none(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "initialize", modern=False)
        visit = await server.next(rpc="initialize")
        await visit.answer(200, result(visit.message["id"], protocolVersion="1\r\nX-Evil: 1"))
        await pending.outcome()
        ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        assert "mcp-protocol-version" not in visit.headers
        await visit.result()
