"""A session that the server has forgotten: another one is begun, once, and what was not taken goes into it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.faulty_engines import Flaky
from tests.transports.http.scripted_server import (
    LEGACY,
    Caller,
    HttpScript,
    Pending,
    Visit,
    ask,
    error,
    notice,
    opened_in_session,
    result,
    welcome,
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


async def forget(server: HttpScript, rpc: str = "tools/list") -> Visit:
    """Say that the session is not known."""
    visit = await server.next(rpc=rpc)
    await visit.answer(404, NOT_FOUND)
    return visit


async def test_many_who_find_out_have_one_other_session_begun(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        calling = ask(nursery, transport, "tools/call", modern=False)
        reading = [ask(nursery, transport, rpc, modern=False) for rpc in ("tools/list", "ping")]
        before = await server.take(3)
        for visit in before.values():
            await visit.answer(404, NOT_FOUND)

        begin = await server.next(rpc="initialize")
        late = ask(nursery, transport, "prompts/list", modern=False)  # waits for the session
        await server.silence(10)
        answer = result(begin.message["id"], protocolVersion=LEGACY)
        await begin.answer(200, answer, headers={"mcp-session-id": "s2"})
        initialized = await server.next(rpc="notifications/initialized")
        await server.silence(10)
        assert caller.renewals == 0
        await initialized.answer(202)

        after = await server.take(4)
        for rpc, visit in after.items():
            await visit.result(method=rpc)
        outcomes = [(await each.outcome())["method"] for each in (calling, *reading, late)]
        assert outcomes == ["tools/call", "tools/list", "ping", "prompts/list"]
        assert caller.renewals == 1

    assert "mcp-session-id" not in begin.headers
    assert begin.message["params"] == server.visits[0].message["params"]
    later = (initialized, *after.values(), server.visits[-1])
    assert {visit.headers["mcp-session-id"] for visit in later} == {"s2"}
    ids = [visit.message["id"] for visit in (server.visits[0], *before.values(), begin, *after.values())]
    assert len({*ids}) == len(ids)


async def test_what_was_under_way_is_lost_or_sent_again(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(answers=False)
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        calling = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        await visit.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        reading = ask(nursery, transport, "prompts/list", modern=False, repeatable=True)
        await server.next(rpc="prompts/list")
        ask(nursery, transport, modern=False)
        await forget(server)
        forgotten = trio.current_time()
        with pytest.raises(ResponseLost, match="the session was lost before the answer to 'tools/call'") as caught:
            await calling.outcome()
        assert caught.value.sent
        assert not caller.questions[0].open  # nobody waits for that answer any more
        await welcome(server, id="s2")
        after = await server.take(2)
        assert trio.current_time() - forgotten < 1  # what may be repeated need not wait to be refused
        await after["tools/list"].result()
        again = after["prompts/list"]
        await again.begin()
        await again.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})  # which is another question
        await again.event(result(again.message["id"], prompts=[]))
        await again.end()
        assert await reading.outcome() == {"prompts": []}
        caller.questions[1].respond({})
        await (await server.next()).answer(202)


async def test_a_request_that_is_rejected_twice_is_lost(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        for id in ("s2", "s3"):
            await forget(server, "tools/call")
            await welcome(server, id=id)
        with pytest.raises(
            ResponseLost, match="no longer knows the session, and did not accept 'tools/call'"
        ) as caught:
            await pending.outcome()
        assert not caught.value.sent
        await server.silence()
        assert caller.renewals == 2


async def test_what_is_under_way_is_waited_for_to_be_refused(autojump_clock: object) -> None:
    """Somebody else may find out first, though the server is about to say that it has done nothing."""
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        names = ("refused", "answered", "silent", "slow")
        pending = {name: ask(nursery, transport, f"test/{name}", modern=False) for name in names}
        visits = await server.take(len(names))
        ask(nursery, transport, modern=False)
        await forget(server)
        await welcome(server, id="s2")
        await (await server.next(rpc="tools/list")).result()
        await trio.sleep(4)
        await visits["test/refused"].answer(404, NOT_FOUND)
        await visits["test/answered"].result(well=True)
        await visits["test/slow"].begin()
        await (await server.next(rpc="test/refused")).result(well=True)

        for name in ("refused", "answered"):
            assert await pending[name].outcome() == {"well": True}
        for name in ("silent", "slow"):
            with pytest.raises(ResponseLost, match="the session was lost before the answer to 'test/") as caught:
                await pending[name].outcome()
            assert caught.value.sent
            await visits[f"test/{name}"].left.wait()
        await server.silence()


async def test_a_late_response_is_read_only_for_the_answer(autojump_clock: object) -> None:
    """Servers count their questions from 1: the old session must not answer, cancel or shadow those of the new one."""
    server, caller = HttpScript(), Caller(answers=False)
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        late = Pending(transport.ask("test/late", {}, wants_updates=True))
        nursery.start_soon(late.run)
        old = await server.next(rpc="test/late")
        new = ask(nursery, transport, modern=False)
        await forget(server)
        await welcome(server, id="s2")
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})

        await old.begin()
        await old.event()
        await old.send(b"data: no JSON\n\n")
        asked = late.asked
        messages: tuple[JsonObject, ...] = (
            notice("notifications/cancelled", requestId=1),
            notice("notifications/tools/list_changed"),
            {"jsonrpc": "2.0", "id": asked.id, "method": "elicitation/create", "params": {}},
            {"jsonrpc": "2.0", "id": asked.id},
            {"jsonrpc": "2.0", "method": "notifications/progress"},
            result(visit.message["id"], forged=True),
            notice("notifications/progress", progressToken=asked.id, progress=1),
        )
        for message in messages:
            await old.event(message)
        await trio.testing.wait_all_tasks_blocked()
        assert await asked.next_update() == ("notifications/progress", {"progressToken": asked.id, "progress": 1})
        await old.event(result(asked.id, well=True))
        await old.end()
        assert await late.outcome() == {"well": True}

        assert [(question.method, question.open) for question in caller.questions] == [("ping", True)]
        assert caller.news == []
        assert not new.is_settled
        assert ("received", b"no JSON") in caller.seen  # the wire is shown as it is
        caller.questions[0].respond({})
        reply = await server.next()
        assert (reply.message["id"], reply.headers["mcp-session-id"]) == (1, "s2")
        await reply.answer(202)
        await visit.event(result(visit.message["id"], tools=[]))
        await visit.end()
        assert await new.outcome() == {"tools": []}
        await server.silence()


async def test_a_late_body_is_read_only_for_the_answer(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = {name: ask(nursery, transport, f"test/{name}", modern=False) for name in ("batch", "other")}
        visits = await server.take(2)
        ask(nursery, transport, modern=False)
        await forget(server)
        await welcome(server, id="s2")
        await (await server.next(rpc="tools/list")).result()
        question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = error(-32000, "well", id=pending["batch"].asked.id)
        await visits["test/batch"].answer(200, [question, notice("notifications/x"), answer])
        await visits["test/other"].answer(200, question)

        with pytest.raises(ErrorResponse, match="well"):
            await pending["batch"].outcome()
        with pytest.raises(RemoteProtocolError, match="holds no answer to it"):
            await pending["other"].outcome()
        assert (caller.questions, caller.news) == ([], [])
        await server.silence()


async def test_the_standalone_stream_is_opened_in_the_new_session_too(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        old = await server.next("GET")
        await old.begin()
        ask(nursery, transport, modern=False)
        await forget(server)
        await old.left.wait()
        await welcome(server, id="s2")
        new = await server.next("GET")
        assert caller.renewals == 0
        await new.begin()
        await new.event(notice("notifications/tools/list_changed"))
        await (await server.next(rpc="tools/list")).result()
        await trio.testing.wait_all_tasks_blocked()
        assert caller.renewals == 1
        assert caller.news == ["notifications/tools/list_changed"]

    assert new.headers["mcp-session-id"] == "s2"


async def test_a_standalone_stream_finds_out_that_the_session_is_lost(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.open_standalone_stream)
        old = await server.next("GET")
        await old.begin()
        old.cut()
        await (await server.next("GET")).answer(404)
        await welcome(server, id="s2")
        await (await server.next("GET")).begin()
        await trio.testing.wait_all_tasks_blocked()
        assert caller.renewals == 1


async def test_a_reply_finds_out_and_is_not_sent_again(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller(answers=False)
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", modern=False)
        visit = await server.next(rpc="tools/call")
        await visit.begin()
        for id in (1, 2):
            await visit.event({"jsonrpc": "2.0", "id": id, "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        for question in caller.questions:
            question.respond({})
        await (await server.next()).answer(404, NOT_FOUND)
        await welcome(server, id="s2")
        with pytest.raises(ResponseLost):
            await pending.outcome()
        await server.silence()
        assert caller.renewals == 1


async def test_a_notification_that_finds_out_goes_into_the_next_session_once(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            await forget(server, "notifications/roots/list_changed")
            await welcome(server, id="s2")
            await (await server.next(rpc="notifications/roots/list_changed")).answer(202)
            for id in ("s3", "s4"):
                await forget(server, "notifications/roots/list_changed")
                await welcome(server, id=id)

        nursery.start_soon(serve)
        await transport.notify("notifications/roots/list_changed", None)
        with pytest.raises(ResponseLost, match="did not accept 'notifications/roots/list_changed'") as caught:
            await transport.notify("notifications/roots/list_changed", None)
        assert not caught.value.sent


async def test_a_notification_that_is_refused_for_another_reason_is_not_sent_again(autojump_clock: object) -> None:
    """Though the session is lost meanwhile: a proxy's word says nothing of what has become of it."""
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            visit = await server.next(rpc="notifications/x")
            ask(nursery, transport, modern=False)
            await forget(server)
            await welcome(server, id="s2")
            await (await server.next(rpc="tools/list")).result()
            await visit.answer(502)
            await server.silence()

        nursery.start_soon(serve)
        with pytest.raises(HttpStatusError, match="502"):
            await transport.notify("notifications/x", None)


async def test_what_was_repeated_before_goes_on_in_the_new_session(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        reading = ask(nursery, transport, "prompts/list", modern=False, repeatable=True)
        visit = await server.next(rpc="prompts/list")
        await visit.begin()
        visit.cut()
        await server.next(rpc="prompts/list")
        ask(nursery, transport, modern=False)
        await forget(server)
        await welcome(server, id="s2")
        after = await server.take(2)
        await after["tools/list"].result()
        await after["prompts/list"].result(prompts=[])
        assert await reading.outcome() == {"prompts": []}


async def test_a_session_is_lost_only_once(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        for method in ("notifications/a", "notifications/b"):
            nursery.start_soon(transport.notify, method, None)
        first, second = (await server.take(2)).values()
        await first.answer(404)
        await welcome(server, id="s2")
        await second.answer(404)
        for visit in (await server.take(2)).values():
            await visit.answer(202)
        await server.silence()
        assert caller.renewals == 1


async def test_a_session_that_is_lost_while_closing_is_not_begun_again(autojump_clock: object) -> None:
    server = HttpScript()
    async with trio.open_nursery() as nursery:
        async with opened_in_session(server) as transport:
            pending = ask(nursery, transport, modern=False)
            await server.next(rpc="tools/list")
            nursery.start_soon(forget, server, "notifications/cancelled")
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionClosed):
            await pending.outcome()
    assert [visit.method for visit in server.visits] == ["POST"] * 4  # and nothing is deleted


async def test_a_request_that_is_left_meanwhile_is_not_sent_again(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False, repeatable=True)
        await forget(server)
        await trio.sleep(1)
        pending.scope.cancel()
        await welcome(server, id="s2")
        await server.silence()


async def test_an_unknown_method_is_no_lost_session(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened_in_session(server, caller) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        await visit.answer(404, error(-32601, id=visit.message["id"]))
        with pytest.raises(ErrorResponse):
            await pending.outcome()
        assert caller.renewals == 0


async def test_without_a_session_id_no_session_can_be_lost(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server, id=None) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        await (await server.next(rpc="tools/list")).answer(404)
        with pytest.raises(HttpStatusError, match="404"):
            await pending.outcome()
        await server.silence()


async def test_a_session_that_is_lost_before_it_was_agreed_on_is_only_lost(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        again = ask(nursery, transport, "initialize", modern=False)
        visit = await server.next(rpc="initialize")
        await visit.begin({"mcp-session-id": "s2"})
        other = ask(nursery, transport, modern=False)
        await forget(server)
        with pytest.raises(ResponseLost):
            await again.outcome()
        await welcome(server, id="s3")
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await other.outcome() == {"tools": []}


# Where there is no other session.


@pytest.mark.parametrize(
    ("status", "body", "text"),
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
async def test_a_server_that_begins_no_other_ends_the_connection(
    status: int, body: Any, text: str, autojump_clock: object
) -> None:
    server, told = HttpScript(), list[object]()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        transport.on_disconnect(told.append)
        nursery.start_soon(transport.open_standalone_stream)
        news = await server.next("GET")
        await news.begin()
        pending = ask(nursery, transport, modern=False, repeatable=True)
        await forget(server)
        visit = await server.next(rpc="initialize")
        message = body and {"jsonrpc": "2.0", "id": visit.message["id"], **body}
        await visit.answer(status, message)
        with pytest.raises(ConnectionBroken, match=f"no longer knows the session, and opens no new one: {text}"):
            await pending.outcome()
        with pytest.raises(ConnectionBroken, match="opens no new one"):
            await transport.notify("notifications/x", None)
        with pytest.raises(ConnectionBroken):
            await transport.open_standalone_stream()
        assert len(told) == 1
        await server.silence()


async def test_a_server_that_does_not_take_the_end_of_the_handshake_ends_the_connection(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False, repeatable=True)
        await forget(server)
        begin = await server.next(rpc="initialize")
        await begin.result(protocolVersion=LEGACY)
        await (await server.next(rpc="notifications/initialized")).answer(400)
        with pytest.raises(ConnectionBroken, match="HTTP status 400"):
            await pending.outcome()


@pytest.mark.parametrize("status", [401, 503, None])
async def test_a_server_in_trouble_is_asked_again_by_the_next_request(
    status: int | None, autojump_clock: object
) -> None:
    server, caller = HttpScript(), Caller()
    engine = Flaky(server)
    async with opened_in_session(server, caller, engine=engine) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        engine.is_up = status is not None
        await visit.answer(404, NOT_FOUND)
        if status is not None:
            await (await server.next(rpc="initialize")).answer(status)
        with pytest.raises((ResponseLost, HttpStatusError)):
            await pending.outcome()
        await trio.sleep(60)
        engine.is_up = True
        next_one = ask(nursery, transport, modern=False)
        await welcome(server, id="s2")
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await next_one.outcome() == {"tools": []}
        assert caller.renewals == 1


async def test_what_waits_for_a_server_in_trouble_fails_by_itself(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    engine = Flaky(server)
    async with opened_in_session(server, caller, engine=engine) as transport, trio.open_nursery() as nursery:
        ask(nursery, transport, modern=False)
        visit = await server.next(rpc="tools/list")
        engine.is_up = False
        await visit.answer(404, NOT_FOUND)
        waiting = [ask(nursery, transport, modern=False) for _ in range(3)]
        for pending in waiting:
            with pytest.raises(ResponseLost, match="cannot be reached to open a new one") as caught:
                await pending.outcome()
            assert not caught.value.sent
        with pytest.raises(ResponseLost, match="cannot be reached"):
            await transport.notify("notifications/roots/list_changed", None)
        await transport.open_standalone_stream()  # as soon as there is a session again
        engine.is_up = True
        ask(nursery, transport, modern=False)
        await welcome(server, id="s2")
        await (await server.next("GET")).answer(405)
        await (await server.next(rpc="tools/list")).result()


async def test_a_server_that_answers_nothing_is_given_up_for_now(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened_in_session(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, modern=False, repeatable=True)
        await forget(server)
        begun = trio.current_time()
        first = await server.next(rpc="initialize")
        await first.left.wait()
        assert trio.current_time() - begun == pytest.approx(30, abs=0.5)
        await welcome(server, id="s2")  # of the second attempt of the request
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await pending.outcome() == {"tools": []}


async def test_closing_in_the_middle_of_it_ends_everything(autojump_clock: object) -> None:
    server = HttpScript()
    async with trio.open_nursery() as nursery:
        async with opened_in_session(server) as transport:
            pending = ask(nursery, transport, modern=False, repeatable=True)
            await forget(server)
            begin = await server.next(rpc="initialize")
        with pytest.raises(ConnectionClosed):
            await pending.outcome()
    assert begin.left.is_set()
    assert not [visit for visit in server.visits if visit.method == "DELETE"]
