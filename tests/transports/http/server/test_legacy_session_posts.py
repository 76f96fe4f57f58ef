"""POSTs of legacy sessions: the handshake, the form of responses, and the messages that they carry."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.server.raw_session_client import (
    LATEST,
    SESSION,
    VERSION,
    ToolServer,
    call,
    initialize,
    logged,
    message,
    open_session_client,
    session_statistics,
    text_of,
)
from trio_mcp import CallNext, Request
from trio_mcp.peer import Access
from trio_mcp.transports import HttpRequest
from trio_mcp.transports.http.server._asgi import Responding
from trio_mcp.wire import INVALID_PARAMS, INVALID_REQUEST, LEGACY_REVISIONS, METHOD_NOT_FOUND, PARSE_ERROR

ELICITS: dict[str, Any] = {"elicitation": {}}


@pytest.fixture
def tool_server() -> ToolServer:
    return ToolServer()


# The handshake.


@pytest.mark.requirement("B.6-S9a", "B.6-S9b")
async def test_only_the_answer_to_initialize_names_a_new_session(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        begun = [await client.post(initialize(revision)) for revision in LEGACY_REVISIONS]
        client.headers[SESSION] = begun[-1].headers[SESSION]
        others = [await client.post(body) for body in (message("notifications/initialized"), message("ping", id=2))]

    assert [each.answer["result"]["protocolVersion"] for each in begun] == list(LEGACY_REVISIONS)
    ids = {each.headers[SESSION] for each in begun}
    assert len(ids) == len(begun)
    assert all(len(id) > 40 and all("\x21" <= character <= "\x7e" for character in id) for id in ids)
    assert [each.status for each in others] == [202, 200]
    assert not any(SESSION in each.headers for each in others)
    assert others[-1].answer == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("version", [LATEST, "2025-03-26", ""])
async def test_initialize_may_name_any_revision_in_its_header_field(tool_server: ToolServer, version: str) -> None:
    async with open_session_client(tool_server) as client:
        begun = await client.post(initialize(), mcp_protocol_version=version)

    assert begun.answer["result"]["protocolVersion"] == LATEST


async def test_a_refused_initialize_leaves_no_session(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        refused = await client.post(message("initialize", {"protocolVersion": 7}, id="x"))

        assert (refused.code, refused.answer["id"]) == (INVALID_PARAMS, "x")
        assert SESSION not in refused.headers
        assert session_statistics(client).sessions == 0


async def test_the_session_of_a_client_that_disconnects_during_the_handshake_ends(tool_server: ToolServer) -> None:
    @tool_server.server.middleware
    async def hold(request: Request, call_next: CallNext) -> Any:
        await tool_server.go.wait()
        return await call_next(request)

    async with open_session_client(tool_server) as client:
        beginning = client.start(initialize())
        await wait_all_tasks_blocked()
        assert session_statistics(client).sessions == 1

        beginning.disconnect()
        await beginning.returned.wait()

        assert session_statistics(client).sessions == 0


async def test_an_initialize_that_sends_updates_first_streams_and_names_the_session(tool_server: ToolServer) -> None:
    @tool_server.server.middleware
    async def talk(request: Request, call_next: CallNext) -> Any:
        await request.context.log("info", "beginning")
        return await call_next(request)

    async with open_session_client(tool_server, resumable=True) as client:
        begun = await client.post(initialize())
        client.headers[SESSION] = begun.headers[SESSION]
        pinged = await client.post(message("ping", id=2))

    assert begun.is_stream
    assert logged(begun) == ["beginning"]
    assert begun.answer["result"]["protocolVersion"] == LATEST
    assert pinged.answer["result"] == {}


async def test_a_second_initialize_opens_a_second_session_or_is_refused_in_the_first(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        first = await client.post(initialize())
        second = await client.post(initialize())
        inside = await client.post(initialize(), mcp_session_id=first.headers[SESSION])
        after = await client.post(message("ping", id=3), mcp_session_id=first.headers[SESSION])

    assert first.headers[SESSION] != second.headers[SESSION]
    assert inside.code == INVALID_REQUEST
    assert SESSION not in inside.headers
    assert after.status == 200


@pytest.mark.requirement("B.6-S10", "B.6-S11", "B.6-S13")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({SESSION: ""}, 400),
        ({SESSION: "made-up"}, 404),
        ({VERSION: "2025-06-18"}, 400),
        ({VERSION: "2024-01-01"}, 400),
    ],
)
async def test_a_request_with_an_invalid_session_or_revision_is_refused_with_its_id(
    tool_server: ToolServer, headers: dict[str, str], status: int
) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        posted = await client.post(message("ping", id="p"), **headers)
        others = [await client.request(method, **headers) for method in ("GET", "DELETE")]
        accepted = await client.post(message("ping", id=2))

    assert (posted.status, posted.code, posted.answer["id"]) == (status, INVALID_REQUEST, "p")
    assert [(each.status, each.code) for each in others] == [(status, INVALID_REQUEST)] * 2
    assert accepted.answer["result"] == {}


async def test_a_request_without_a_revision_has_that_of_its_session(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin("2025-03-26")
        del client.headers[VERSION]
        answered = await client.post([message("ping", id=2)])

    assert answered.answer == {"jsonrpc": "2.0", "id": 2, "result": {}}


async def test_requests_are_served_before_the_initialized_notification(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        client.headers[SESSION] = (await client.post(initialize())).headers[SESSION]
        answered = await client.post(call("add", a=1, b=2))

    assert text_of(answered) == "3"


@pytest.mark.requirement("B.6-S12")
async def test_a_session_is_not_found_by_other_principals(
    tool_server: ToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = HttpRequest.of

    def signed_in(scope: Any) -> Any:
        request = make(scope)
        user = request.headers.get("x-user")
        return evolve(request, access=None if user is None else Access(user))

    monkeypatch.setattr(HttpRequest, "of", signed_in)
    async with open_session_client(tool_server) as client:
        client.headers["x-user"] = "ada"
        await client.begin()
        own = await client.post(call("show_context"))
        others = [await client.post(message("ping", id=2), x_user=user) for user in ("eve", "")]
        opened = [await client.request(method, x_user="eve") for method in ("GET", "DELETE")]
        accepted = await client.post(message("ping", id=2))

    assert text_of(own).startswith("ada ")
    assert [each.status for each in [*others, *opened]] == [404] * 4
    assert accepted.status == 200


async def test_handlers_see_the_header_fields_of_their_own_post_without_credentials(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        one = await client.post(call("show_context"), x_color="blue", authorization="Bearer s3cret", cookie="a=b")
        other = await client.post(call("show_context"))

    assert "'x-color'" in text_of(one)
    assert "authorization" not in text_of(one)
    assert "cookie" not in text_of(one)
    assert "x-color" not in text_of(other)
    assert text_of(other).startswith("None ")


# The form of the response.


@pytest.mark.requirement("B.6-S4")
async def test_a_response_with_nothing_but_the_answer_is_json(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        at_once = await client.post(message("ping", id=2))
        later = await client.post(call("add", a=1, b=2))
        refused = await client.post(message("rooms/list", id=3))

    assert not any(each.is_stream for each in (at_once, later, refused))
    assert text_of(later) == "3"
    assert (refused.status, refused.code) == (200, METHOD_NOT_FOUND)


@pytest.mark.requirement("B.6-S5a", "B.6-S5d")
async def test_a_response_with_messages_before_the_answer_is_a_stream(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        calling = client.start(call("log_twice", words=["a", "b"]))
        await calling.wait_for_messages(2)
        assert calling.is_stream
        assert not calling.complete

        tool_server.go.set()
        await calling.returned.wait()

    assert logged(calling) == ["a", "b", "a again", "b again"]
    assert text_of(calling) == "logged"
    assert calling.complete
    assert b"id:" not in calling.body


async def test_a_response_that_is_complete_before_it_is_sent_is_a_stream_as_well(tool_server: ToolServer) -> None:
    tool_server.go.set()
    async with open_session_client(tool_server) as client:
        await client.begin()
        calling = await client.post(call("log_twice", words=["a"]))

    assert calling.is_stream
    assert logged(calling) == ["a", "a again"]


async def test_a_long_request_starts_a_stream_with_keep_alives(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server, keep_alive=10.0) as client:
        await client.begin()
        calling = client.start(call("wait"))
        await wait_all_tasks_blocked()
        assert calling.sent == []

        await trio.sleep(35)
        assert calling.is_stream
        assert calling.comments == 2

        tool_server.go.set()
        await calling.returned.wait()

    assert text_of(calling) == "done"


@pytest.mark.requirement("B.6-S3")
async def test_notifications_and_responses_are_accepted_with_an_empty_body(tool_server: ToolServer) -> None:
    valid: list[Any] = [
        message("notifications/roots/list_changed"),
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "no"}},
    ]
    broken: list[Any] = [b"{", {"jsonrpc": "2.0"}, []]
    async with open_session_client(tool_server) as client:
        await client.begin()
        accepted = [await client.post(body) for body in valid]
        refused = [await client.post(body) for body in broken]

    assert [(each.status, each.body) for each in accepted] == [(202, b"")] * 3
    assert [(each.status, each.code) for each in refused] == [
        (400, PARSE_ERROR),
        (400, INVALID_REQUEST),
        (400, INVALID_REQUEST),
    ]


async def test_an_array_of_2025_03_26_is_answered_by_an_array(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin("2025-03-26")
        mixed = await client.post([call("add", 2, a=1, b=2), message("notifications/x"), message("ping", id=3), {}])
        notified = await client.post([message("notifications/x")])

    assert not mixed.is_stream
    assert mixed.body.startswith(b"[")
    assert {each.get("id") for each in mixed.messages} == {2, 3, None}
    assert (notified.status, notified.body) == (202, b"")


async def test_an_array_whose_requests_send_updates_streams_and_its_answers_come_together(
    tool_server: ToolServer,
) -> None:
    tool_server.go.set()
    async with open_session_client(tool_server) as client:
        await client.begin("2025-03-26")
        calling = await client.post([call("log_twice", 2, words=["a"]), call("add", 3, a=1, b=2)])

    assert calling.is_stream
    assert logged(calling) == ["a", "a again"]
    assert {each["id"] for each in calling.answer} == {2, 3}


@pytest.mark.parametrize("revision", ["2025-06-18", LATEST])
async def test_an_array_of_any_other_revision_is_refused(tool_server: ToolServer, revision: str) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin(revision)
        del client.headers[VERSION]
        refused = await client.post([message("ping", id=2)])

    assert (refused.status, refused.code) == (400, INVALID_REQUEST)
    assert revision in refused.answer["error"]["message"]


async def test_an_id_that_is_in_use_is_refused_and_the_first_request_continues(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        first = client.start(call("wait", 7))
        await wait_all_tasks_blocked()
        second = await client.post(call("wait", 7))
        tool_server.go.set()
        await first.returned.wait()

    assert second.code == INVALID_REQUEST
    assert text_of(first) == "done"


async def test_a_session_serves_many_requests_at_once(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        waiting = [client.start(call("wait", id)) for id in range(100, 120)]
        await wait_all_tasks_blocked()
        concurrent = await client.post(call("add", a=1, b=2))
        tool_server.go.set()
        for each in waiting:
            await each.returned.wait()

    assert text_of(concurrent) == "3"
    assert [each.answer["id"] for each in waiting] == list(range(100, 120))


# Questions, cancellation and slow clients.


async def test_a_question_is_sent_on_the_response_and_answered_by_a_post(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin(**ELICITS)
        standalone = client.get()
        calling = client.start(call("elicit_seats"))
        await calling.wait_for_messages(1)
        (question,) = calling.messages
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"count": 3}}}
        accepted = await client.post(reply)
        await calling.returned.wait()

        assert question["method"] == "elicitation/create"
        assert accepted.status == 202
        assert "count=3" in text_of(calling)
        assert standalone.messages == []
        standalone.disconnect()


async def test_cancelling_by_a_post_stops_the_handler_and_ends_both_responses(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        waiting_call = client.start(call("wait", "w"))
        streaming = client.start(call("log_twice", "s", words=["a"]))
        await streaming.wait_for_messages(1)

        for id in ("w", "s"):
            cancelled = await client.post(message("notifications/cancelled", {"requestId": id, "reason": "enough"}))
            assert cancelled.status == 202
        await waiting_call.returned.wait()
        await streaming.returned.wait()

    assert tool_server.log == ["cancelled", "cancelled"]
    assert (waiting_call.status, waiting_call.body) == (202, b"")
    assert streaming.complete
    assert len(streaming.messages) == 1


async def test_a_cancelled_handler_ends_before_any_response_is_sent(
    tool_server: ToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[list[str]]()
    empty = Responding.empty

    async def record(responding: Responding, *arguments: Any) -> None:
        seen.append([*tool_server.log])
        await empty(responding, *arguments)

    async with open_session_client(tool_server) as client:
        await client.begin()
        calling = client.start(call("wait", "w"))
        await wait_all_tasks_blocked()
        monkeypatch.setattr(Responding, "empty", record)
        await client.post(message("notifications/cancelled", {"requestId": "w"}))
        await calling.returned.wait()

    assert seen == [["cancelled"]] * 2


async def test_a_cancellation_that_overtakes_its_request_drops_it(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        for id in (7, "7"):
            assert (await client.post(message("notifications/cancelled", {"requestId": id}))).status == 202
        dropped = [await client.post(call("add", id=id, a=1, b=2)) for id in ("7", 7)]
        again = await client.post(call("add", id=7, a=1, b=2))
        await client.post(message("notifications/cancelled", {"requestId": 8}))
        await trio.sleep(11)
        late = await client.post(call("add", id=8, a=1, b=2))

    assert [(each.status, each.body) for each in dropped] == [(202, b"")] * 2
    assert [text_of(each) for each in (again, late)] == ["3", "3"]


async def test_the_number_of_cancellations_that_wait_for_their_request_is_bounded(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        for id in range(100, 357):
            await client.post(message("notifications/cancelled", {"requestId": id}))
        served, dropped = [await client.post(call("add", id=id, a=1, b=2)) for id in (100, 101)]

    assert (served.status, dropped.status) == (200, 202)


async def test_long_ids_of_cancellations_are_not_remembered(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        longest, longer = ("x" * 256, 2**256 - 1), ("x" * 257, 2**256)
        for id in (*longest, *longer):
            await client.post(message("notifications/cancelled", {"requestId": id}))
        statuses = [(await client.post(call("add", id=id, a=1, b=2))).status for id in (*longest, *longer)]

    assert statuses == [202, 202, 200, 200]


@pytest.mark.parametrize("resumable", [False, True])
async def test_the_question_of_a_cancelled_call_is_withdrawn_on_its_stream(resumable: bool) -> None:
    for _ in range(8):  # the order in which the handler and the response learn of it is random
        tool_server = ToolServer()
        async with open_session_client(tool_server, resumable=resumable) as client:
            await client.begin(**ELICITS)
            asking, other = client.start(call("elicit_seats", "b")), client.start(call("elicit_seats", "c"))
            await asking.wait_for_messages(1)
            await other.wait_for_messages(1)
            await client.post(message("notifications/cancelled", {"requestId": "b"}))
            await asking.returned.wait()

            question, withdrawal = asking.messages
            assert withdrawal["method"] == "notifications/cancelled"
            assert withdrawal["params"] == {"requestId": question["id"]}
            await wait_all_tasks_blocked()
            assert tool_server.log == []
            for sent_question in (question, other.messages[0]):
                answer = {"jsonrpc": "2.0", "id": sent_question["id"], "result": {"action": "decline"}}
                assert (await client.post(answer)).status == 202
            await other.returned.wait()
            assert tool_server.log == ["answered"]


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_handler_waits_for_a_client_that_reads_slowly_and_others_do_not(
    tool_server: ToolServer, resumable: bool
) -> None:
    async with open_session_client(tool_server, resumable=resumable) as client:
        await client.begin()
        slow = client.caller(call("flood", 9, count=300))
        slow.stop_reading()
        client.nursery.start_soon(slow.run, client.app)
        await wait_all_tasks_blocked()
        logged_lines = len(tool_server.log)
        assert 0 < logged_lines < 300

        quick = await client.post(call("add", a=1, b=2))
        assert text_of(quick) == "3"
        slow.resume_reading()
        await slow.returned.wait()

    assert len(logged(slow)) == 300
    assert text_of(slow) == "300"


# Clients that disconnect, without an event store.


@pytest.mark.requirement("B.6-S5e")
async def test_a_client_that_disconnects_cancels_nothing_and_its_answer_counts_as_undelivered(
    tool_server: ToolServer,
) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        calling = client.start(call("wait"))
        await wait_all_tasks_blocked()
        calling.disconnect()
        await calling.returned.wait()
        assert tool_server.log == []

        tool_server.go.set()
        await wait_all_tasks_blocked()

        assert tool_server.log == ["done"]
        assert session_statistics(client).undelivered == 1
        assert calling.sent == []


async def test_an_unsent_answer_to_a_client_that_disconnects_counts_as_undelivered(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        calling = client.caller(call("log_twice", words=["a"]))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        tool_server.go.set()
        await wait_all_tasks_blocked()
        assert session_statistics(client).outbox_bytes > 0
        calling._disconnected.set()  # while it still does not read
        await calling.returned.wait()

        assert session_statistics(client).undelivered == 1
        assert session_statistics(client).outbox_bytes == 0


async def test_a_handler_does_not_wait_for_a_client_that_has_disconnected(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin()
        calling = client.caller(call("flood", 9, count=300))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        calling.disconnect()
        await wait_all_tasks_blocked()

        assert len(tool_server.log) == 300
        assert session_statistics(client).undelivered == 1
        assert session_statistics(client).outbox_bytes == 0


async def test_a_question_to_a_client_that_has_disconnected_fails(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin(**ELICITS)
        calling = client.start(call("elicit_seats", late=True))
        await wait_all_tasks_blocked()
        calling.disconnect()
        await calling.returned.wait()
        tool_server.go.set()
        await wait_all_tasks_blocked()

    assert tool_server.log == ["ConnectionBroken: the client has closed the response that the question belongs to"]


async def test_an_unsent_question_to_a_client_that_disconnects_fails(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin(**ELICITS)
        calling = client.caller(call("elicit_seats", after="a word"))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        calling._disconnected.set()  # while it still does not read
        await calling.returned.wait()
        await wait_all_tasks_blocked()

    assert tool_server.log == ["ConnectionBroken: the client has closed the response that the question belongs to"]


async def test_a_question_that_is_cancelled_before_it_was_sent_is_never_sent(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin(**ELICITS)
        calling = client.caller(call("elicit_seats", "b", after="a word"))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        await client.post(message("notifications/cancelled", {"requestId": "b"}))
        await wait_all_tasks_blocked()
        calling.resume_reading()
        await calling.returned.wait()

    assert calling.complete
    assert [each["method"] for each in calling.messages] == ["notifications/message"]


async def test_a_question_that_was_sent_may_be_answered_after_the_client_has_disconnected(
    tool_server: ToolServer,
) -> None:
    async with open_session_client(tool_server) as client:
        await client.begin(**ELICITS)
        calling = client.start(call("elicit_seats"))
        await calling.wait_for_messages(1)
        calling.disconnect()
        await calling.returned.wait()
        reply = {"jsonrpc": "2.0", "id": calling.messages[0]["id"], "result": {"action": "decline"}}
        await client.post(reply)
        await wait_all_tasks_blocked()

        assert tool_server.log == ["answered"]
        assert session_statistics(client).undelivered == 1
