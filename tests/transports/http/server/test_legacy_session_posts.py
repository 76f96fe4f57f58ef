"""What a POST of a session gets: how a session begins, when a response is JSON, and what goes out by it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.server.scripted_client import (
    LATEST,
    SESSION,
    VERSION,
    Theatre,
    call,
    initialize,
    logged,
    message,
    open_theatre,
    sessions_of,
    text_of,
)
from trio_mcp import CallNext, Request
from trio_mcp.peer import Access
from trio_mcp.transports import HttpRequest
from trio_mcp.wire import INVALID_PARAMS, INVALID_REQUEST, LEGACY_REVISIONS, METHOD_NOT_FOUND, PARSE_ERROR

ELICITS: dict[str, Any] = {"elicitation": {}}


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


# How a session begins.


@pytest.mark.requirement("B.6-S9a", "B.6-S9b")
async def test_the_answer_to_initialize_names_a_new_session_and_no_other_does(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        begun = [await client.post(initialize(revision)) for revision in LEGACY_REVISIONS]
        client.headers[SESSION] = begun[-1].headers[SESSION]
        others = [await client.post(said) for said in (message("notifications/initialized"), message("ping", id=2))]

    assert [each.answer["result"]["protocolVersion"] for each in begun] == list(LEGACY_REVISIONS)
    ids = {each.headers[SESSION] for each in begun}
    assert len(ids) == len(begun)
    assert all(len(id) > 40 and all("\x21" <= sign <= "\x7e" for sign in id) for id in ids)
    assert [each.status for each in others] == [202, 200]
    assert not any(SESSION in each.headers for each in others)
    assert others[-1].answer == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("version", [LATEST, "2025-03-26", ""])
async def test_initialize_may_name_any_revision_in_its_head(theatre: Theatre, version: str) -> None:
    async with open_theatre(theatre) as client:
        begun = await client.post(initialize(), mcp_protocol_version=version)

    assert begun.answer["result"]["protocolVersion"] == LATEST


async def test_a_refused_initialize_leaves_no_session(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        refused = await client.post(message("initialize", {"protocolVersion": 7}, id="x"))

        assert (refused.code, refused.answer["id"]) == (INVALID_PARAMS, "x")
        assert SESSION not in refused.headers
        assert sessions_of(client).sessions == 0


async def test_a_client_that_leaves_before_it_knows_its_session_leaves_none(theatre: Theatre) -> None:
    @theatre.server.middleware
    async def hold(visit: Request, call_next: CallNext) -> Any:
        await theatre.go.wait()
        return await call_next(visit)

    async with open_theatre(theatre) as client:
        beginning = client.start(initialize())
        await wait_all_tasks_blocked()
        assert sessions_of(client).sessions == 1

        beginning.leave()
        await beginning.returned.wait()

        assert sessions_of(client).sessions == 0


async def test_an_initialize_that_sends_updates_first_streams_and_names_the_session(theatre: Theatre) -> None:
    @theatre.server.middleware
    async def talk(visit: Request, call_next: CallNext) -> Any:
        await visit.context.log("info", "beginning")
        return await call_next(visit)

    async with open_theatre(theatre, kept=True) as client:
        begun = await client.post(initialize())
        client.headers[SESSION] = begun.headers[SESSION]
        pinged = await client.post(message("ping", id=2))

    assert begun.streams
    assert logged(begun) == ["beginning"]
    assert begun.answer["result"]["protocolVersion"] == LATEST
    assert pinged.answer["result"] == {}


async def test_a_second_initialize_begins_a_second_session_or_is_refused_in_the_first(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
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
async def test_a_request_that_fits_no_session_is_refused_with_its_id(
    theatre: Theatre, headers: dict[str, str], status: int
) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        posted = await client.post(message("ping", id="p"), **headers)
        others = [await client.request(method, **headers) for method in ("GET", "DELETE")]
        still = await client.post(message("ping", id=2))

    assert (posted.status, posted.code, posted.answer["id"]) == (status, INVALID_REQUEST, "p")
    assert [(each.status, each.code) for each in others] == [(status, INVALID_REQUEST)] * 2
    assert still.answer["result"] == {}


async def test_without_a_version_the_revision_is_that_of_the_session(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin("2025-03-26")
        del client.headers[VERSION]
        answered = await client.post([message("ping", id=2)])

    assert answered.answer == {"jsonrpc": "2.0", "id": 2, "result": {}}


async def test_requests_are_served_before_the_initialized_notification(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        client.headers[SESSION] = (await client.post(initialize())).headers[SESSION]
        answered = await client.post(call("add", a=1, b=2))

    assert text_of(answered) == "3"


@pytest.mark.requirement("B.6-S12")
async def test_to_anybody_else_a_session_is_not_there(theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    make = HttpRequest.of

    def signed_in(scope: Any) -> Any:
        request = make(scope)
        user = request.headers.get("x-user")
        return evolve(request, access=None if user is None else Access(user))

    monkeypatch.setattr(HttpRequest, "of", signed_in)
    async with open_theatre(theatre) as client:
        client.headers["x-user"] = "ada"
        await client.begin()
        mine = await client.post(call("seen"))
        others = [await client.post(message("ping", id=2), x_user=user) for user in ("eve", "")]
        opened = [await client.request(method, x_user="eve") for method in ("GET", "DELETE")]
        still = await client.post(message("ping", id=2))

    assert text_of(mine).startswith("ada ")
    assert [each.status for each in [*others, *opened]] == [404] * 4
    assert still.status == 200


async def test_handlers_see_the_head_of_their_own_post_without_secrets(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        one = await client.post(call("seen"), x_color="blue", authorization="Bearer s3cret", cookie="a=b")
        other = await client.post(call("seen"))

    assert "'x-color'" in text_of(one)
    assert "authorization" not in text_of(one)
    assert "cookie" not in text_of(one)
    assert "x-color" not in text_of(other)
    assert text_of(other).startswith("None ")


# What the response is.


@pytest.mark.requirement("B.6-S4")
async def test_a_response_that_is_nothing_but_the_answer_is_json(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        at_once = await client.post(message("ping", id=2))
        later = await client.post(call("add", a=1, b=2))
        refused = await client.post(message("rooms/list", id=3))

    assert not any(each.streams for each in (at_once, later, refused))
    assert text_of(later) == "3"
    assert (refused.status, refused.code) == (200, METHOD_NOT_FOUND)


@pytest.mark.requirement("B.6-S5a", "B.6-S5d")
async def test_what_is_said_before_the_answer_makes_it_a_stream(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        calling = client.start(call("say", words=["a", "b"]))
        await calling.messages_are(2)
        assert calling.streams
        assert not calling.complete

        theatre.go.set()
        await calling.returned.wait()

    assert logged(calling) == ["a", "b", "a again", "b again"]
    assert text_of(calling) == "said"
    assert calling.complete
    assert b"id:" not in calling.body


async def test_what_was_said_and_answered_before_anybody_looked_streams_too(theatre: Theatre) -> None:
    theatre.go.set()
    async with open_theatre(theatre) as client:
        await client.begin()
        calling = await client.post(call("say", words=["a"]))

    assert calling.streams
    assert logged(calling) == ["a", "a again"]


async def test_silence_starts_a_stream_with_keep_alives(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre, keep_alive=10.0) as client:
        await client.begin()
        calling = client.start(call("wait"))
        await wait_all_tasks_blocked()
        assert calling.sent == []

        await trio.sleep(35)
        assert calling.streams
        assert calling.comments == 2

        theatre.go.set()
        await calling.returned.wait()

    assert text_of(calling) == "went"


@pytest.mark.requirement("B.6-S3")
async def test_notifications_and_responses_are_accepted_without_a_word(theatre: Theatre) -> None:
    told: list[Any] = [
        message("notifications/roots/list_changed"),
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "no"}},
    ]
    broken: list[Any] = [b"{", {"jsonrpc": "2.0"}, []]
    async with open_theatre(theatre) as client:
        await client.begin()
        accepted = [await client.post(said) for said in told]
        refused = [await client.post(said) for said in broken]

    assert [(each.status, each.body) for each in accepted] == [(202, b"")] * 3
    assert [(each.status, each.code) for each in refused] == [
        (400, PARSE_ERROR),
        (400, INVALID_REQUEST),
        (400, INVALID_REQUEST),
    ]


async def test_an_array_of_2025_03_26_is_answered_by_an_array(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin("2025-03-26")
        mixed = await client.post([call("add", 2, a=1, b=2), message("notifications/x"), message("ping", id=3), {}])
        silent = await client.post([message("notifications/x")])

    assert not mixed.streams
    assert mixed.body.startswith(b"[")
    assert {each.get("id") for each in mixed.messages} == {2, 3, None}
    assert (silent.status, silent.body) == (202, b"")


async def test_an_array_whose_requests_send_updates_streams_and_its_answers_come_together(theatre: Theatre) -> None:
    theatre.go.set()
    async with open_theatre(theatre) as client:
        await client.begin("2025-03-26")
        calling = await client.post([call("say", 2, words=["a"]), call("add", 3, a=1, b=2)])

    assert calling.streams
    assert logged(calling) == ["a", "a again"]
    assert {each["id"] for each in calling.answer} == {2, 3}


@pytest.mark.parametrize("revision", ["2025-06-18", LATEST])
async def test_an_array_of_any_other_revision_is_refused(theatre: Theatre, revision: str) -> None:
    async with open_theatre(theatre) as client:
        await client.begin(revision)
        del client.headers[VERSION]
        refused = await client.post([message("ping", id=2)])

    assert (refused.status, refused.code) == (400, INVALID_REQUEST)
    assert revision in refused.answer["error"]["message"]


async def test_an_id_that_is_in_use_is_refused_and_the_first_request_goes_on(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        first = client.start(call("wait", 7))
        await wait_all_tasks_blocked()
        second = await client.post(call("wait", 7))
        theatre.go.set()
        await first.returned.wait()

    assert second.code == INVALID_REQUEST
    assert text_of(first) == "went"


async def test_a_session_serves_many_requests_at_once(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        waiting = [client.start(call("wait", id)) for id in range(100, 120)]
        await wait_all_tasks_blocked()
        meanwhile = await client.post(call("add", a=1, b=2))
        theatre.go.set()
        for each in waiting:
            await each.returned.wait()

    assert text_of(meanwhile) == "3"
    assert [each.answer["id"] for each in waiting] == list(range(100, 120))


# What belongs to a request.


async def test_a_question_goes_out_by_the_response_and_its_answer_comes_by_a_post(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin(**ELICITS)
        standing = client.get()
        calling = client.start(call("book"))
        await calling.messages_are(1)
        (question,) = calling.messages
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"count": 3}}}
        accepted = await client.post(reply)
        await calling.returned.wait()

        assert question["method"] == "elicitation/create"
        assert accepted.status == 202
        assert "count=3" in text_of(calling)
        assert standing.messages == []
        standing.leave()


async def test_cancelling_by_a_post_stops_the_handler_and_ends_both_responses(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        silent = client.start(call("wait", "w"))
        talking = client.start(call("say", "s", words=["a"]))
        await talking.messages_are(1)

        for id in ("w", "s"):
            cancelled = await client.post(message("notifications/cancelled", {"requestId": id, "reason": "enough"}))
            assert cancelled.status == 202
        await silent.returned.wait()
        await talking.returned.wait()

    assert theatre.log == ["cancelled", "cancelled"]
    assert (silent.status, silent.body) == (202, b"")
    assert talking.complete
    assert len(talking.messages) == 1


@pytest.mark.parametrize("kept", [False, True])
async def test_a_question_of_a_cancelled_call_is_withdrawn_on_its_stream(kept: bool) -> None:
    for _ in range(8):  # whether the handler or the response hears of it first is random
        theatre = Theatre()
        async with open_theatre(theatre, kept=kept) as client:
            await client.begin(**ELICITS)
            asking, other = client.start(call("book", "b")), client.start(call("book", "c"))
            await asking.messages_are(1)
            await other.messages_are(1)
            await client.post(message("notifications/cancelled", {"requestId": "b"}))
            await asking.returned.wait()

            question, taken_back = asking.messages
            assert taken_back["method"] == "notifications/cancelled"
            assert taken_back["params"] == {"requestId": question["id"]}
            await wait_all_tasks_blocked()
            assert theatre.log == []
            for asked in (question, other.messages[0]):
                answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}
                assert (await client.post(answer)).status == 202
            await other.returned.wait()
            assert theatre.log == ["booked"]


@pytest.mark.parametrize("kept", [False, True])
async def test_a_handler_waits_for_a_client_that_reads_slowly_and_others_do_not(theatre: Theatre, kept: bool) -> None:
    async with open_theatre(theatre, kept=kept) as client:
        await client.begin()
        slow = client.caller(call("flood", 9, count=300))
        slow.stop_reading()
        client.nursery.start_soon(slow.run, client.app)
        await wait_all_tasks_blocked()
        said = len(theatre.log)
        assert 0 < said < 300

        quick = await client.post(call("add", a=1, b=2))
        assert text_of(quick) == "3"
        slow.read_on()
        await slow.returned.wait()

    assert len(logged(slow)) == 300
    assert text_of(slow) == "300"


# A client that leaves, without an event store.


@pytest.mark.requirement("B.6-S5e")
async def test_a_client_that_leaves_has_cancelled_nothing_and_its_answer_is_counted(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        calling = client.start(call("wait"))
        await wait_all_tasks_blocked()
        calling.leave()
        await calling.returned.wait()
        assert theatre.log == []

        theatre.go.set()
        await wait_all_tasks_blocked()

        assert theatre.log == ["gone"]
        assert sessions_of(client).undelivered == 1
        assert calling.sent == []


async def test_an_answer_that_had_not_left_when_the_client_did_is_counted(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        calling = client.caller(call("say", words=["a"]))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        theatre.go.set()
        await wait_all_tasks_blocked()
        assert sessions_of(client).outbox_bytes > 0
        calling._left.set()  # while it still takes nothing
        await calling.returned.wait()

        assert sessions_of(client).undelivered == 1
        assert sessions_of(client).outbox_bytes == 0


async def test_a_handler_whose_client_has_left_is_not_held_up(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin()
        calling = client.caller(call("flood", 9, count=300))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        calling.leave()
        await wait_all_tasks_blocked()

        assert len(theatre.log) == 300
        assert sessions_of(client).undelivered == 1
        assert sessions_of(client).outbox_bytes == 0


async def test_where_the_client_has_left_nothing_can_be_asked_any_more(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin(**ELICITS)
        calling = client.start(call("book", late=True))
        await wait_all_tasks_blocked()
        calling.leave()
        await calling.returned.wait()
        theatre.go.set()
        await wait_all_tasks_blocked()

    assert theatre.log == ["ConnectionBroken: the client has closed the response that the question belongs to"]


async def test_a_question_that_had_not_left_when_the_client_did_fails(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin(**ELICITS)
        calling = client.caller(call("book", after="a word"))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        calling._left.set()  # while it still takes nothing
        await calling.returned.wait()
        await wait_all_tasks_blocked()

    assert theatre.log == ["ConnectionBroken: the client has closed the response that the question belongs to"]


async def test_a_question_that_is_given_up_before_it_has_left_is_never_asked(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin(**ELICITS)
        calling = client.caller(call("book", "b", after="a word"))
        calling.stop_reading()
        client.nursery.start_soon(calling.run, client.app)
        await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        await client.post(message("notifications/cancelled", {"requestId": "b"}))
        await wait_all_tasks_blocked()
        calling.read_on()
        await calling.returned.wait()

    assert calling.complete
    assert [each["method"] for each in calling.messages] == ["notifications/message"]


async def test_a_question_that_has_left_may_still_be_answered(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        await client.begin(**ELICITS)
        calling = client.start(call("book"))
        await calling.messages_are(1)
        calling.leave()
        await calling.returned.wait()
        reply = {"jsonrpc": "2.0", "id": calling.messages[0]["id"], "result": {"action": "decline"}}
        await client.post(reply)
        await wait_all_tasks_blocked()

        assert theatre.log == ["booked"]
        assert sessions_of(client).undelivered == 1
