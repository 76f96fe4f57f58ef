"""The client over HTTP, as far as each request says everything about itself: against a server by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.transports.http.scripted_server import (
    META,
    URL,
    Caller,
    HttpScript,
    Visit,
    ask,
    error,
    notice,
    opened,
    result,
)
from trio_mcp import (
    ConnectionClosed,
    ErrorResponse,
    HttpStatusError,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    ResponseLost,
    types,
)
from trio_mcp.transports import EngineError, HttpResponse, http_transport
from trio_mcp.wire import REVISION_KEY, JsonObject

# What is posted.


async def test_a_request_is_posted_with_the_fields_that_repeat_what_it_says(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server, headers={"X-Mine": "a"}) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport, "tools/call", fields={"mcp-param-city": "Bonn"}, name="weather", arguments={})
        visit = await server.next(rpc="tools/call")
        await visit.result(content=[])
        assert await pending.outcome() == {"content": []}

    assert visit.headers == {
        "host": "server.test",
        "x-mine": "a",
        "content-type": "application/json",
        "content-length": str(len(visit.body)),
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "weather",
        "mcp-param-city": "Bonn",
    }
    assert visit.message == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "weather", "arguments": {}, "_meta": META},
    }
    assert b"\n" not in visit.body


async def test_nothing_is_sent_by_opening_and_closing(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport:
        await transport.open_standalone_stream()  # of which a server without handshake has none
        assert transport.has_fields

    assert server.visits == []


async def test_what_cannot_stand_in_a_header_field_is_not_sent(autojump_clock: object) -> None:
    async with opened(HttpScript()) as transport:
        with pytest.raises(LocalProtocolError, match=r"'caf\\xe9/order|café/order"):
            async with transport.ask("café/order", {"_meta": META}):
                pass
        with pytest.raises(LocalProtocolError, match="cannot be sent"):
            async with transport.ask("tools/list", {"_meta": META, "x": object()}):
                pass
        assert transport.statistics().outgoing == 0


async def test_a_notification_is_posted_and_waited_for(autojump_clock: object) -> None:
    server = HttpScript()
    caller = Caller()
    caller.admission.agree("2026-07-28", {}, None)
    async with opened(server, caller) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        visit = await server.next(rpc="notifications/mine")
        await visit.answer(202)
        nursery.start_soon(transport.notify, "notifications/bare", None)  # says nothing of a revision
        bare = await server.next(rpc="notifications/bare")
        await bare.answer(202)

    assert visit.headers["mcp-method"] == "notifications/mine"
    assert visit.headers["mcp-protocol-version"] == bare.headers["mcp-protocol-version"] == "2026-07-28"
    assert "mcp-session-id" not in bare.headers


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error(-32020, "mismatch"), ErrorResponse(-32020, "mismatch")),
        (500, b"", HttpStatusError(500)),
    ],
)
async def test_a_notification_that_is_refused_is_an_error(
    status: int, body: Any, expected: Exception, autojump_clock: object
) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:

        async def refuse() -> None:
            await (await server.next(rpc="notifications/mine")).answer(status, body)

        nursery.start_soon(refuse)
        with pytest.raises(type(expected)) as caught:
            await transport.notify("notifications/mine", {"_meta": META})

    assert str(caught.value) == str(expected)


# What is answered.


async def test_a_request_answered_by_events_gets_its_updates_first(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            visit = await server.next(rpc="tools/call")
            await visit.begin()
            await visit.send(b": still there\n\nevent: other\ndata: {}\n\n")  # neither is a message
            await visit.event(notice("notifications/progress", progressToken=1, progress=0.5))
            await visit.event()
            await visit.event(result(1, content=[]))
            await visit.end()

        nursery.start_soon(serve)
        params = {"name": "x", "arguments": {}, "_meta": META}
        async with transport.ask("tools/call", params, wants_updates=True) as asked:
            assert await asked.next_update() == ("notifications/progress", {"progressToken": 1, "progress": 0.5})
            assert await asked.next_update() is None
            assert await asked.result() == {"content": []}
        assert transport.statistics().malformed == 0


async def test_the_tap_sees_each_message_and_nothing_else(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened(server, caller) as transport, trio.open_nursery() as nursery:
        first = ask(nursery, transport)
        visit = await server.next(rpc="tools/list")
        await visit.answer(400, error(-32602, id=1))
        with pytest.raises(ErrorResponse):
            await first.outcome()
        second = ask(nursery, transport)
        again = await server.next(rpc="tools/list")
        await again.begin()
        await again.event(result(2))
        await again.end()
        await second.outcome()
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        await (await server.next(rpc="notifications/mine")).answer(202, b"thank you", kind="text/plain")

    assert [(direction, json.loads(message)) for direction, message in caller.seen] == [
        ("sent", visit.message),
        ("received", error(-32602, id=1)),
        ("sent", again.message),
        ("received", result(2)),
        ("sent", notice("notifications/mine", _meta=META)),
    ]


async def test_a_session_expires_without_any_request(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server, Caller(taps=False)) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await pending.outcome() == {"tools": []}


async def test_a_notification_that_is_refused_by_a_message_shows_it_to_the_tap(autojump_clock: object) -> None:
    server, caller = HttpScript(), Caller()
    async with opened(server, caller) as transport, trio.open_nursery() as nursery:

        async def refuse() -> None:
            await (await server.next(rpc="notifications/mine")).answer(400, error(-32600))

        nursery.start_soon(refuse)
        with pytest.raises(ErrorResponse):
            await transport.notify("notifications/mine", {"_meta": META})

    assert [direction for direction, _ in caller.seen] == ["sent", "received"]


@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize("members", [{"id": 1}, {"id": None}, {}], ids=["own id", "null id", "no id"])
async def test_an_error_that_answers_a_request_is_that_requests(
    status: int, members: JsonObject, autojump_clock: object
) -> None:
    with pytest.raises(ErrorResponse, match="no such thing") as caught:
        await answered_with(lambda visit: visit.answer(status, error(-32601, "no such thing", **members)))

    assert caught.value.code == -32601


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (500, b"out of\n  order \x07", "text/plain; charset=utf-8", "out of order"),
        (404, b"", None, ""),
        (502, b"<html>bad gateway", "text/html", "<html>bad gateway"),
        (503, b"\x00\x01", "application/octet-stream", ""),
        (400, b'{"detail": "none"}', "application/problem+json", '{"detail": "none"}'),
        (413, b"x" * 1000, "text/plain", "x" * 200),
        (200, b"<html>log in", "text/html", "<html>log in"),
        (202, b"", None, ""),
        (304, b"", None, ""),
    ],
)
async def test_a_response_without_a_message_is_its_status(
    status: int, body: bytes, kind: str | None, text: str, autojump_clock: object
) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda visit: visit.answer(status, body, kind=kind))

    assert (caught.value.status, caught.value.text) == (status, text)


@pytest.mark.parametrize("status", [401, 403])
async def test_authentication_depends_on_the_status_and_not_on_the_message(status: int, autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda visit: visit.answer(status, error(-32000, "who are you?", id=1)))

    assert (caught.value.status, caught.value.text) == (status, "who are you?")


async def test_a_refusal_that_answers_another_request_is_only_a_status(autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError, match="HTTP status 400: mixed up"):
        await answered_with(lambda visit: visit.answer(400, error(-32600, "mixed up", id=99)))


async def test_the_body_of_a_refusal_is_not_waited_for_long(autojump_clock: object) -> None:
    async def stall(visit: Visit) -> None:
        await visit._start(503, {"content-type": "text/plain"})
        await visit.left.wait()

    begun = trio.current_time()
    with pytest.raises(HttpStatusError, match=r"HTTP status 503$"):
        await answered_with(stall)
    assert trio.current_time() - begun == 5


async def test_a_refusal_that_breaks_off_is_its_status_all_the_same(autojump_clock: object) -> None:
    async def cut(visit: Visit) -> None:
        await visit._start(500, {"content-type": "text/plain"})
        await visit.send(b"the dog ate")
        visit.cut()

    with pytest.raises(HttpStatusError, match=r"HTTP status 500$"):
        await answered_with(cut)


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("/mcp/", "redirects to http://server.test/mcp/; redirects are not followed: connect to that address"),
        ("https://me:pw@evil.test/?q=1", "redirects to https://evil.test/; redirects are not followed"),
        ("https://server.test/mcp", "redirects to https://server.test/mcp: connect to the https address"),
        ("http://[", "redirects to an invalid address"),
    ],
)
async def test_a_redirect_is_named_and_not_followed(location: str, text: str, autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda visit: visit.answer(307, headers={"location": location}))

    assert caught.value.text.startswith(text)


# What breaks.


@pytest.mark.parametrize("properly", [True, False])
async def test_a_stream_that_ends_before_the_answer_is_the_loss_of_it(properly: bool, autojump_clock: object) -> None:
    async def leave(visit: Visit) -> None:
        await visit.begin()
        await visit.event(notice("notifications/progress", progressToken=1, progress=0.5))
        if properly:
            await visit.end()
        else:
            visit.cut()

    with pytest.raises(ResponseLost, match="tools/list") as caught:
        await answered_with(leave)
    assert caught.value.sent


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "the answer to 'tools/list' is not JSON"),
        (result(99), "the response to 'tools/list' holds no answer to it"),
        (notice("notifications/x"), "the response to 'tools/list' holds no answer to it"),
        ([], "the response to 'tools/list' holds no answer to it"),
        ({"jsonrpc": "2.0", "id": 1, "result": 7}, "the response breaks the protocol"),
    ],
)
async def test_json_that_is_no_answer_breaks_the_protocol(body: Any, text: str, autojump_clock: object) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        await answered_with(lambda visit: visit.answer(200, body, kind="application/json"))


async def _long_body(visit: Visit) -> None:
    await visit.answer(200, result(1, text="x" * 1000))


async def _long_declared_body(visit: Visit) -> None:
    await visit._start(200, {"content-type": "application/json", "content-length": "1001"})
    await visit.left.wait()  # it is not read at all


async def _long_event(visit: Visit) -> None:
    await visit.begin()
    await visit.event(result(1, text="x" * 1000))
    await visit.left.wait()


async def _compressed(visit: Visit) -> None:
    body = gzip.compress(json.dumps(result(1)).encode())
    await visit.answer(200, body, kind="application/json", headers={"content-encoding": "gzip"})


async def _compressed_events(visit: Visit) -> None:
    await visit.begin({"content-encoding": "deflate"})
    await visit.left.wait()


@pytest.mark.parametrize(
    ("respond", "text"),
    [
        (_long_body, r"more than 1000 bytes \(Limits.max_message_bytes\)"),
        (_long_declared_body, "more than 1000 bytes"),
        (_long_event, "more than 1000 bytes"),
        (_compressed, r"compressed \('gzip'\)"),
        (_compressed_events, r"compressed \('deflate'\)"),
    ],
)
async def test_what_is_too_much_fails_one_request_and_no_other(
    respond: Callable[[Visit], Any], text: str, autojump_clock: object
) -> None:
    server = HttpScript()
    async with (
        opened(server, Caller(Limits(max_message_bytes=1000))) as transport,
        trio.open_nursery() as nursery,
    ):
        failing = ask(nursery, transport)
        first = await server.next(rpc="tools/list")
        going = ask(nursery, transport)
        second = await server.next(rpc="tools/list")
        nursery.start_soon(respond, first)
        with pytest.raises(RemoteProtocolError, match=text):
            await failing.outcome()
        await second.result(tools=[])
        assert await going.outcome() == {"tools": []}


# Who leaves.


async def test_leaving_a_request_closes_its_response(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        for begun in (False, True):
            pending = ask(nursery, transport)
            visit = await server.next(rpc="tools/list")
            if begun:
                await visit.begin()
                await trio.testing.wait_all_tasks_blocked()
            pending.scope.cancel()
            await visit.left.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.visits) == 2  # nothing else was said
        assert transport.statistics().outgoing == 0


async def test_a_request_that_is_left_before_it_went_out_does_not(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport:
        async with transport.ask("tools/list", {"_meta": META}):
            pass
        await trio.testing.wait_all_tasks_blocked()

    assert server.visits == []


async def test_the_end_of_a_response_is_waited_for_a_moment(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server) as transport, trio.open_nursery() as nursery:
        pending = ask(nursery, transport)
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event(result(1))
        await pending.outcome()
        answered = trio.current_time()
        await visit.left.wait()
        assert trio.current_time() - answered == 1

        pending = ask(nursery, transport)
        visit = await server.next(rpc="tools/list")
        await visit.begin()
        await visit.event(result(2))
        await pending.outcome()
        await visit.send(b": bye\n\n")
        await visit.end()
        await trio.sleep(2)
        assert not visit.left.is_set()


async def test_a_response_that_breaks_after_the_answer_breaks_nothing(autojump_clock: object) -> None:
    async def respond(visit: Visit) -> None:
        await visit.begin()
        await visit.event(result(1, tools=[]))
        visit.cut()

    assert await answered_with(respond) == {"tools": []}


async def test_listening_lasts_and_its_end_without_a_result_is_reported(autojump_clock: object) -> None:
    class Ears:
        def __init__(self) -> None:
            self.told: list[object] = []

        def on_notification(self, method: str, params: JsonObject) -> None:
            self.told.append(method)

        def on_outcome(self, outcome: JsonObject | Exception) -> None:
            self.told.append(type(outcome))

    server, ears = HttpScript(), Ears()
    async with opened(server, Caller(Limits(max_posts=1))) as transport, trio.open_nursery() as nursery:
        asked = transport.ask("subscriptions/listen", {"notifications": {}, "_meta": META})
        asked.listener = ears
        async with asked:
            visit = await server.next(rpc="subscriptions/listen")
            await visit.begin()
            key = "io.modelcontextprotocol/subscriptionId"
            for method in ("notifications/subscriptions/acknowledged", "notifications/tools/list_changed"):
                await visit.event(notice(method, _meta={key: 1}))
            other = ask(nursery, transport)  # for which there is a place
            await (await server.next(rpc="tools/list")).result()
            await other.outcome()
            await trio.sleep(3600)
            visit.cut()
            with pytest.raises(ResponseLost, match="subscriptions/listen"):
                await asked.result()

    assert ears.told == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        ResponseLost,
    ]


async def test_closing_ends_what_is_under_way(autojump_clock: object) -> None:
    server = HttpScript()
    async with trio.open_nursery() as nursery:
        async with opened(server) as transport:
            told: list[object] = []
            transport.on_disconnect(told.append)
            waiting = [ask(nursery, transport) for _ in range(3)]
            visits = [await server.next(rpc="tools/list") for _ in waiting]
            await visits[0].begin()
            await trio.testing.wait_all_tasks_blocked()
        for pending in waiting:
            with pytest.raises(ConnectionClosed):
                await pending.outcome()
        assert all(visit.left.is_set() for visit in visits)
    assert len(told) == 1
    for attempt in (transport.open_standalone_stream(), transport.notify("notifications/x", None)):
        with pytest.raises(ConnectionClosed):
            await attempt
    with pytest.raises(ConnectionClosed):
        async with transport.ask("tools/list", {"_meta": META}):
            pass


async def test_closing_ends_the_notifications_of_others(autojump_clock: object) -> None:
    server, told = HttpScript(), list[str]()
    async with trio.open_nursery() as nursery:
        async with opened(server) as transport:

            async def notify() -> None:
                with pytest.raises(ConnectionClosed):
                    await transport.notify("notifications/x", {"_meta": META})
                told.append("the end")

            nursery.start_soon(notify)
            visit = await server.next(rpc="notifications/x")
        with trio.fail_after(60):
            await visit.left.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["the end"]


# How many at once.


async def test_more_requests_than_may_be_under_way_wait_for_a_place(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server, Caller(Limits(max_posts=2))) as transport, trio.open_nursery() as nursery:
        for _ in range(2):
            ask(nursery, transport)
        first, second = await server.next(rpc="tools/list"), await server.next(rpc="tools/list")
        left = ask(nursery, transport)
        await server.silence()
        ask(nursery, transport)
        assert not transport.ask("tools/list", {"_meta": META}).begin_nowait()
        listening = transport.ask("subscriptions/listen", {"_meta": META})
        assert listening.begin_nowait()
        listening.leave()
        left.scope.cancel()
        await first.begin()
        await first.event(result(first.message["id"]))  # the place is free before the response has ended
        third = await server.next(rpc="tools/list")
        for visit in (second, third):
            await visit.result()
        await server.silence()
        await first.end()


async def test_a_request_that_cannot_be_sent_hands_its_place_on(autojump_clock: object) -> None:
    server = HttpScript()
    async with opened(server, Caller(Limits(max_posts=1))) as transport, trio.open_nursery() as nursery:
        ask(nursery, transport)
        visit = await server.next(rpc="tools/list")
        broken = ask(nursery, transport, what=object())
        await trio.testing.wait_all_tasks_blocked()
        ask(nursery, transport, "prompts/list")
        await trio.testing.wait_all_tasks_blocked()
        await visit.result()
        with pytest.raises(LocalProtocolError, match="'tools/list' cannot be sent"):
            await broken.outcome()
        with trio.fail_after(60):
            await (await server.next(rpc="prompts/list")).result()


async def test_requests_that_wait_for_a_slot_fail_with_the_connection(autojump_clock: object) -> None:
    server = HttpScript()
    async with trio.open_nursery() as nursery:
        async with opened(server, Caller(Limits(max_posts=1))) as transport:
            pending = [ask(nursery, transport) for _ in range(3)]
            await server.next(rpc="tools/list")
            await trio.testing.wait_all_tasks_blocked()
        for each in pending:
            with pytest.raises(ConnectionClosed):
                await each.outcome()


class Unsent:
    """An engine whose requests never leave."""

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        await trio.sleep(3600)
        raise EngineError("it takes too long", sent=False)
        yield

    async def aclose(self) -> None:
        raise AssertionError("an engine of the caller's is not closed")


async def test_what_has_not_left_yet_is_counted(autojump_clock: object) -> None:
    async with (
        http_transport(URL, engine=Unsent())(Caller()) as transport,
        trio.open_nursery() as nursery,
    ):
        pending = ask(nursery, transport)
        await trio.testing.wait_all_tasks_blocked()
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        size = len(json.dumps(request, separators=(",", ":"))) + 1
        assert transport.statistics().outbox_bytes == size
        with pytest.raises(ResponseLost, match="'tools/list': it takes too long") as caught:
            await pending.outcome()
        assert not caught.value.sent
        with pytest.raises(ResponseLost, match="it takes too long"):
            await transport.notify("notifications/x", {"_meta": {REVISION_KEY: types.REVISIONS[-1]}})
        assert transport.statistics().outbox_bytes == 0


async def answered_with(respond: Callable[[Visit], Any]) -> JsonObject:
    """Ask for the tools of a server that responds so, and return the result; nothing is left behind."""
    server = HttpScript()
    async with opened(server) as transport:
        async with trio.open_nursery() as nursery:
            pending = ask(nursery, transport)
            await respond(await server.next(rpc="tools/list"))
        assert transport.statistics().outgoing == 0
        return await pending.outcome()
