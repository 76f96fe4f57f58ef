"""The renewal of a legacy session: one new session is opened, and requests that were not accepted are repeated."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import FlakyEngine
from tests.transports.http.scripted_server import (
    LEGACY,
    ClientStub,
    Pending,
    ReceivedRequest,
    ScriptedHttpServer,
    answer_handshake,
    error,
    notification,
    open_session,
    result,
    start_request,
)
from trio_mcp import (
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    HttpStatusError,
    RemoteProtocolError,
    ResponseLost,
)
from trio_mcp.wire import JsonObject

NOT_FOUND = error(-32001, "Session not found", id=None)


async def reject_session(server: ScriptedHttpServer, rpc: str = "tools/list") -> ReceivedRequest:
    """Answer the next request as a server that does not know the session."""
    request = await server.next(rpc=rpc)
    await request.answer(404, NOT_FOUND)
    return request


async def test_many_requests_with_an_unknown_session_open_one_new_session(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        calling = start_request(nursery, transport, "tools/call", modern=False)
        reading = [start_request(nursery, transport, rpc, modern=False) for rpc in ("tools/list", "ping")]
        before = await server.next_by_method(3)
        for request in before.values():
            await request.answer(404, NOT_FOUND)

        begin = await server.next(rpc="initialize")
        late = start_request(nursery, transport, "prompts/list", modern=False)  # waits for the session
        await server.expect_nothing(10)
        answer = result(begin.message["id"], protocolVersion=LEGACY)
        await begin.answer(200, answer, headers={"mcp-session-id": "s2"})
        initialized = await server.next(rpc="notifications/initialized")
        await server.expect_nothing(10)
        assert client.renewals == 0
        await initialized.answer(202)

        after = await server.next_by_method(4)
        for rpc, request in after.items():
            await request.result(method=rpc)
        outcomes = [(await each.outcome())["method"] for each in (calling, *reading, late)]
        assert outcomes == ["tools/call", "tools/list", "ping", "prompts/list"]
        assert client.renewals == 1

    assert "mcp-session-id" not in begin.headers
    assert begin.message["params"] == server.requests[0].message["params"]
    later = (initialized, *after.values(), server.requests[-1])
    assert {request.headers["mcp-session-id"] for request in later} == {"s2"}
    ids = [request.message["id"] for request in (server.requests[0], *before.values(), begin, *after.values())]
    assert len({*ids}) == len(ids)


async def test_requests_in_flight_are_lost_or_repeated_in_the_new_session(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(answers=False)
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        calling = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        await request.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        reading = start_request(nursery, transport, "prompts/list", modern=False, repeatable=True)
        await server.next(rpc="prompts/list")
        start_request(nursery, transport, modern=False)
        await reject_session(server)
        forgotten = trio.current_time()
        with pytest.raises(ResponseLost, match="the session was lost before the answer to 'tools/call'") as caught:
            await calling.outcome()
        assert caught.value.sent
        assert not client.questions[0].open  # its answer is no longer expected
        await answer_handshake(server, id="s2")
        after = await server.next_by_method(2)
        assert trio.current_time() - forgotten < 1  # a repeatable request does not wait for a refusal
        await after["tools/list"].result()
        again = after["prompts/list"]
        await again.begin()
        await again.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})  # another question with the same id
        await again.event(result(again.message["id"], prompts=[]))
        await again.end()
        assert await reading.outcome() == {"prompts": []}
        client.questions[1].respond({})
        await (await server.next()).answer(202)


async def test_a_request_that_is_rejected_twice_is_lost(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        for id in ("s2", "s3"):
            await reject_session(server, "tools/call")
            await answer_handshake(server, id=id)
        with pytest.raises(
            ResponseLost, match="no longer knows the session, and did not accept 'tools/call'"
        ) as caught:
            await pending.outcome()
        assert not caught.value.sent
        await server.expect_nothing()
        assert client.renewals == 2


async def test_requests_in_flight_wait_some_seconds_for_the_server_to_refuse_them(autojump_clock: object) -> None:
    """Another request may be refused first, although the server is about to refuse these as well."""
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        names = ("refused", "answered", "silent", "slow")
        pending = {name: start_request(nursery, transport, f"test/{name}", modern=False) for name in names}
        requests = await server.next_by_method(len(names))
        start_request(nursery, transport, modern=False)
        await reject_session(server)
        await answer_handshake(server, id="s2")
        await (await server.next(rpc="tools/list")).result()
        await trio.sleep(4)
        await requests["test/refused"].answer(404, NOT_FOUND)
        await requests["test/answered"].result(well=True)
        await requests["test/slow"].begin()
        await (await server.next(rpc="test/refused")).result(well=True)

        for name in ("refused", "answered"):
            assert await pending[name].outcome() == {"well": True}
        for name in ("silent", "slow"):
            with pytest.raises(ResponseLost, match="the session was lost before the answer to 'test/") as caught:
                await pending[name].outcome()
            assert caught.value.sent
            await requests[f"test/{name}"].left.wait()
        await server.expect_nothing()


@pytest.mark.parametrize("as_sent", [int, str])  # the type of its id
async def test_a_late_response_is_read_only_for_the_answer(as_sent: type[Any], autojump_clock: object) -> None:
    """The old session must not answer, cancel or replace questions of the new one, which have the same ids."""
    server, client = ScriptedHttpServer(), ClientStub(answers=False)
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        late = Pending(transport.ask("test/late", {}, wants_updates=True))
        nursery.start_soon(late.run)
        old = await server.next(rpc="test/late")
        new = start_request(nursery, transport, modern=False)
        await reject_session(server)
        await answer_handshake(server, id="s2")
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})

        await old.begin()
        await old.event()
        await old.send(b"data: no JSON\n\n")
        outgoing = late.outgoing
        messages: tuple[JsonObject, ...] = (
            notification("notifications/cancelled", requestId=1),
            notification("notifications/tools/list_changed"),
            {"jsonrpc": "2.0", "id": outgoing.id, "method": "elicitation/create", "params": {}},
            {"jsonrpc": "2.0", "id": outgoing.id},
            {"jsonrpc": "2.0", "method": "notifications/progress"},
            result(as_sent(request.message["id"]), forged=True),
            notification("notifications/progress", progressToken=outgoing.id, progress=1),
        )
        for message in messages:
            await old.event(message)
        await trio.testing.wait_all_tasks_blocked()
        assert await outgoing.next_update() == ("notifications/progress", {"progressToken": outgoing.id, "progress": 1})
        await old.event(result(as_sent(outgoing.id), well=True))
        await old.end()
        assert await late.outcome() == {"well": True}

        assert [(question.method, question.open) for question in client.questions] == [("ping", True)]
        assert client.notifications == []
        assert not new.is_done
        assert ("received", b"no JSON") in client.seen  # the tap sees every message
        client.questions[0].respond({})
        reply = await server.next()
        assert (reply.message["id"], reply.headers["mcp-session-id"]) == (1, "s2")
        await reply.answer(202)
        await request.event(result(request.message["id"], tools=[]))
        await request.end()
        assert await new.outcome() == {"tools": []}
        await server.expect_nothing()


async def test_a_late_body_is_read_only_for_the_answer(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = {name: start_request(nursery, transport, f"test/{name}", modern=False) for name in ("batch", "other")}
        requests = await server.next_by_method(2)
        start_request(nursery, transport, modern=False)
        await reject_session(server)
        await answer_handshake(server, id="s2")
        await (await server.next(rpc="tools/list")).result()
        question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = error(-32000, "well", id=pending["batch"].outgoing.id)
        await requests["test/batch"].answer(200, [question, notification("notifications/x"), answer])
        await requests["test/other"].answer(200, question)

        with pytest.raises(ErrorResponse, match="well"):
            await pending["batch"].outcome()
        with pytest.raises(RemoteProtocolError, match="holds no answer to it"):
            await pending["other"].outcome()
        assert (client.questions, client.notifications) == ([], [])
        await server.expect_nothing()


async def test_the_standalone_stream_is_opened_in_the_new_session_too(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        old = await server.next("GET")
        await old.begin()
        start_request(nursery, transport, modern=False)
        await reject_session(server)
        await old.left.wait()
        await answer_handshake(server, id="s2")
        new = await server.next("GET")
        assert client.renewals == 0
        await new.begin()
        await new.event(notification("notifications/tools/list_changed"))
        await (await server.next(rpc="tools/list")).result()
        await trio.testing.wait_all_tasks_blocked()
        assert client.renewals == 1
        assert client.notifications == ["notifications/tools/list_changed"]

    assert new.headers["mcp-session-id"] == "s2"


async def test_a_standalone_stream_with_an_unknown_session_opens_a_new_session(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        old = await server.next("GET")
        await old.begin()
        old.cut()
        await (await server.next("GET")).answer(404)
        await answer_handshake(server, id="s2")
        await (await server.next("GET")).begin()
        await trio.testing.wait_all_tasks_blocked()
        assert client.renewals == 1


async def test_a_reply_with_an_unknown_session_opens_a_new_session_and_is_not_repeated(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub(answers=False)
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, "tools/call", modern=False)
        request = await server.next(rpc="tools/call")
        await request.begin()
        for id in (1, 2):
            await request.event({"jsonrpc": "2.0", "id": id, "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        for question in client.questions:
            question.respond({})
        await (await server.next()).answer(404, NOT_FOUND)
        await answer_handshake(server, id="s2")
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await server.expect_nothing()
        assert client.renewals == 1


async def test_a_notification_with_an_unknown_session_is_repeated_once_in_the_new_session(
    autojump_clock: object,
) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            await reject_session(server, "notifications/roots/list_changed")
            await answer_handshake(server, id="s2")
            await (await server.next(rpc="notifications/roots/list_changed")).answer(202)
            for id in ("s3", "s4"):
                await reject_session(server, "notifications/roots/list_changed")
                await answer_handshake(server, id=id)

        nursery.start_soon(serve)
        await transport.notify("notifications/roots/list_changed", None)
        with pytest.raises(ResponseLost, match="did not accept 'notifications/roots/list_changed'") as caught:
            await transport.notify("notifications/roots/list_changed", None)
        assert not caught.value.sent


async def test_a_notification_that_is_refused_for_another_reason_is_not_repeated(autojump_clock: object) -> None:
    """The session is lost meanwhile; but the status of a proxy does not say whether the server has accepted it."""
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await server.next(rpc="notifications/x")
            start_request(nursery, transport, modern=False)
            await reject_session(server)
            await answer_handshake(server, id="s2")
            await (await server.next(rpc="tools/list")).result()
            await request.answer(502)
            await server.expect_nothing()

        nursery.start_soon(serve)
        with pytest.raises(HttpStatusError, match="502"):
            await transport.notify("notifications/x", None)


async def test_a_request_that_was_repeated_before_is_repeated_in_the_new_session(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        reading = start_request(nursery, transport, "prompts/list", modern=False, repeatable=True)
        request = await server.next(rpc="prompts/list")
        await request.begin()
        request.cut()
        await server.next(rpc="prompts/list")
        start_request(nursery, transport, modern=False)
        await reject_session(server)
        await answer_handshake(server, id="s2")
        after = await server.next_by_method(2)
        await after["tools/list"].result()
        await after["prompts/list"].result(prompts=[])
        assert await reading.outcome() == {"prompts": []}


async def test_two_notifications_that_are_refused_together_renew_the_session_once(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        for method in ("notifications/a", "notifications/b"):
            nursery.start_soon(transport.notify, method, None)
        first, second = (await server.next_by_method(2)).values()
        await first.answer(404)
        await answer_handshake(server, id="s2")
        await second.answer(404)
        for request in (await server.next_by_method(2)).values():
            await request.answer(202)
        await server.expect_nothing()
        assert client.renewals == 1


async def test_a_session_that_is_lost_while_closing_is_not_replaced(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with trio.open_nursery() as nursery:
        async with open_session(server) as transport:
            pending = start_request(nursery, transport, modern=False)
            await server.next(rpc="tools/list")
            nursery.start_soon(reject_session, server, "notifications/cancelled")
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionClosed):
            await pending.outcome()
    assert [request.method for request in server.requests] == ["POST"] * 4  # no DELETE


async def test_a_request_that_is_cancelled_during_the_renewal_is_not_repeated(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False, repeatable=True)
        await reject_session(server)
        await trio.sleep(1)
        pending.scope.cancel()
        await answer_handshake(server, id="s2")
        await server.expect_nothing()


async def test_a_404_for_an_unknown_method_does_not_renew_the_session(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_session(server, client) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        await request.answer(404, error(-32601, id=request.message["id"]))
        with pytest.raises(ErrorResponse):
            await pending.outcome()
        assert client.renewals == 0


async def test_a_404_without_a_session_id_is_a_status_error(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server, id=None) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        await (await server.next(rpc="tools/list")).answer(404)
        with pytest.raises(HttpStatusError, match="404"):
            await pending.outcome()
        await server.expect_nothing()


async def test_a_handshake_in_flight_is_lost_when_the_session_is_renewed(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        again = start_request(nursery, transport, "initialize", modern=False)
        request = await server.next(rpc="initialize")
        await request.begin({"mcp-session-id": "s2"})
        other = start_request(nursery, transport, modern=False)
        await reject_session(server)
        with pytest.raises(ResponseLost):
            await again.outcome()
        await answer_handshake(server, id="s3")
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await other.outcome() == {"tools": []}


# Failed renewals.


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (
            200,
            {"result": {"protocolVersion": "2025-03-26"}},
            "the session had revision 2025-11-25, and the new one has 2025-0",
        ),
        (200, {"error": {"code": -32603, "message": "no more"}}, "no more"),
        (410, b"", "HTTP status 410"),
    ],
)
async def test_a_server_that_opens_no_new_session_breaks_the_connection(
    status: int, body: Any, reason: str, autojump_clock: object
) -> None:
    server, disconnects = ScriptedHttpServer(), list[object]()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        transport.on_disconnect(disconnects.append)
        nursery.start_soon(transport.open_standalone_stream)
        stream = await server.next("GET")
        await stream.begin()
        pending = start_request(nursery, transport, modern=False, repeatable=True)
        await reject_session(server)
        request = await server.next(rpc="initialize")
        message = body and {"jsonrpc": "2.0", "id": request.message["id"], **body}
        await request.answer(status, message)
        with pytest.raises(ConnectionBroken, match=f"no longer knows the session, and opens no new one: {reason}"):
            await pending.outcome()
        with pytest.raises(ConnectionBroken, match="opens no new one"):
            await transport.notify("notifications/x", None)
        with pytest.raises(ConnectionBroken):
            await transport.open_standalone_stream()
        assert len(disconnects) == 1
        await server.expect_nothing()


async def test_a_server_that_refuses_the_initialized_notification_breaks_the_connection(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False, repeatable=True)
        await reject_session(server)
        begin = await server.next(rpc="initialize")
        await begin.result(protocolVersion=LEGACY)
        await (await server.next(rpc="notifications/initialized")).answer(400)
        with pytest.raises(ConnectionBroken, match="HTTP status 400"):
            await pending.outcome()


@pytest.mark.parametrize("status", [401, 503, None])
async def test_the_next_request_tries_again_to_open_a_session_at_a_server_in_trouble(
    status: int | None, autojump_clock: object
) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    engine = FlakyEngine(server)
    async with open_session(server, client, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        engine.is_up = status is not None
        await request.answer(404, NOT_FOUND)
        async with trio.open_nursery() as refusing:
            if status is not None:
                refusing.start_soon(refuse_sessions, server, status)
            with pytest.raises((ResponseLost, HttpStatusError)):
                await pending.outcome()
            refusing.cancel_scope.cancel()
        await trio.sleep(60)
        engine.is_up = True
        following = start_request(nursery, transport, modern=False)
        await answer_handshake(server, id="s2")
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await following.outcome() == {"tools": []}
        assert client.renewals == 1


async def refuse_sessions(server: ScriptedHttpServer, status: int) -> None:
    """Refuse every session, until cancelled."""
    while True:
        await (await server.next(rpc="initialize")).answer(status)


async def test_a_request_of_which_nothing_was_sent_waits_for_a_server_that_opens_no_session_yet(
    autojump_clock: object,
) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False)
        await reject_session(server)
        await (await server.next(rpc="initialize")).answer(503)
        await answer_handshake(server, id="s2")
        await (await server.next(rpc="tools/list")).result(tools=[])

        assert await pending.outcome() == {"tools": []}


async def test_every_message_that_waits_for_an_unreachable_server_fails(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    engine = FlakyEngine(server)
    async with open_session(server, client, engine=engine) as transport, trio.open_nursery() as nursery:
        start_request(nursery, transport, modern=False)
        request = await server.next(rpc="tools/list")
        engine.is_up = False
        await request.answer(404, NOT_FOUND)
        waiting = [start_request(nursery, transport, modern=False) for _ in range(3)]
        for pending in waiting:
            with pytest.raises(ResponseLost, match="cannot be reached to open a new one") as caught:
                await pending.outcome()
            assert not caught.value.sent
        with pytest.raises(ResponseLost, match="cannot be reached"):
            await transport.notify("notifications/roots/list_changed", None)
        await transport.open_standalone_stream()  # it is opened in the next session
        engine.is_up = True
        start_request(nursery, transport, modern=False)
        await answer_handshake(server, id="s2")
        await (await server.next("GET")).answer(405)
        await (await server.next(rpc="tools/list")).result()


async def test_a_renewal_without_an_answer_times_out_and_is_tried_again(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_session(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport, modern=False, repeatable=True)
        await reject_session(server)
        begun = trio.current_time()
        first = await server.next(rpc="initialize")
        await first.left.wait()
        assert trio.current_time() - begun == pytest.approx(30, abs=0.5)
        await answer_handshake(server, id="s2")  # for the second attempt of the request
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await pending.outcome() == {"tools": []}


async def test_closing_during_the_renewal_ends_all_requests(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with trio.open_nursery() as nursery:
        async with open_session(server) as transport:
            pending = start_request(nursery, transport, modern=False, repeatable=True)
            await reject_session(server)
            begin = await server.next(rpc="initialize")
        with pytest.raises(ConnectionClosed):
            await pending.outcome()
    assert begin.left.is_set()
    assert not [request for request in server.requests if request.method == "DELETE"]
