"""Modern requests of an HTTP client to a scripted server: sending, answers, failures and limits."""

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
    ClientStub,
    ReceivedRequest,
    ScriptedHttpServer,
    error,
    notification,
    open_transport,
    result,
    start_request,
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

# Sending.


async def test_a_request_is_posted_with_the_header_fields_that_mirror_its_body(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server, headers={"X-Mine": "a"}) as transport, trio.open_nursery() as nursery:
        pending = start_request(
            nursery, transport, "tools/call", fields={"mcp-param-city": "Bonn"}, name="weather", arguments={}
        )
        request = await server.next(rpc="tools/call")
        await request.result(content=[])
        assert await pending.outcome() == {"content": []}

    assert request.headers == {
        "host": "server.test",
        "x-mine": "a",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "weather",
        "mcp-param-city": "Bonn",
    }
    assert request.message == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "weather", "arguments": {}, "_meta": META},
    }
    assert b"\n" not in request.body


async def test_nothing_is_sent_by_opening_and_closing(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport:
        await transport.open_standalone_stream()  # a server without a handshake has none
        assert transport.has_fields

    assert server.requests == []


async def test_a_request_that_cannot_be_encoded_is_not_sent(autojump_clock: object) -> None:
    async with open_transport(ScriptedHttpServer()) as transport:
        with pytest.raises(LocalProtocolError, match=r"'caf\\xe9/order|café/order"):
            async with transport.ask("café/order", {"_meta": META}):
                pass
        with pytest.raises(LocalProtocolError, match="cannot be sent"):
            async with transport.ask("tools/list", {"_meta": META, "x": object()}):
                pass
        assert transport.statistics().outgoing == 0


async def test_a_notification_is_posted_with_its_header_fields(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    client = ClientStub()
    client.admission.agree("2026-07-28", {}, None)
    async with open_transport(server, client) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        request = await server.next(rpc="notifications/mine")
        await request.answer(202)
        nursery.start_soon(transport.notify, "notifications/bare", None)  # names no revision
        bare = await server.next(rpc="notifications/bare")
        await bare.answer(202)

    assert request.headers["mcp-method"] == "notifications/mine"
    assert request.headers["mcp-protocol-version"] == bare.headers["mcp-protocol-version"] == "2026-07-28"
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
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:

        async def refuse() -> None:
            await (await server.next(rpc="notifications/mine")).answer(status, body)

        nursery.start_soon(refuse)
        with pytest.raises(type(expected)) as caught:
            await transport.notify("notifications/mine", {"_meta": META})

    assert str(caught.value) == str(expected)


# Answers.


async def test_a_request_that_is_answered_by_events_gets_its_updates_first(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await server.next(rpc="tools/call")
            await request.begin()
            await request.send(b": still there\n\nevent: other\ndata: {}\n\n")  # neither carries a message
            await request.event(notification("notifications/progress", progressToken=1, progress=0.5))
            await request.event()
            await request.event(result(1, content=[]))
            await request.end()

        nursery.start_soon(serve)
        params = {"name": "x", "arguments": {}, "_meta": META}
        async with transport.ask("tools/call", params, wants_updates=True) as outgoing:
            assert await outgoing.next_update() == ("notifications/progress", {"progressToken": 1, "progress": 0.5})
            assert await outgoing.next_update() is None
            assert await outgoing.result() == {"content": []}
        assert transport.statistics().malformed == 0


async def test_the_tap_sees_each_message_and_nothing_else(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_transport(server, client) as transport, trio.open_nursery() as nursery:
        first = start_request(nursery, transport)
        request = await server.next(rpc="tools/list")
        await request.answer(400, error(-32602, id=1))
        with pytest.raises(ErrorResponse):
            await first.outcome()
        second = start_request(nursery, transport)
        again = await server.next(rpc="tools/list")
        await again.begin()
        await again.event(result(2))
        await again.end()
        await second.outcome()
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        await (await server.next(rpc="notifications/mine")).answer(202, b"thank you", kind="text/plain")

    assert [(direction, json.loads(message)) for direction, message in client.seen] == [
        ("sent", request.message),
        ("received", error(-32602, id=1)),
        ("sent", again.message),
        ("received", result(2)),
        ("sent", notification("notifications/mine", _meta=META)),
    ]


async def test_a_client_without_a_tap_works(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server, ClientStub(taps=False)) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        await (await server.next(rpc="tools/list")).result(tools=[])
        assert await pending.outcome() == {"tools": []}


async def test_the_tap_sees_the_message_that_refuses_a_notification(autojump_clock: object) -> None:
    server, client = ScriptedHttpServer(), ClientStub()
    async with open_transport(server, client) as transport, trio.open_nursery() as nursery:

        async def refuse() -> None:
            await (await server.next(rpc="notifications/mine")).answer(400, error(-32600))

        nursery.start_soon(refuse)
        with pytest.raises(ErrorResponse):
            await transport.notify("notifications/mine", {"_meta": META})

    assert [direction for direction, _ in client.seen] == ["sent", "received"]


@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize("members", [{"id": 1}, {"id": None}, {}], ids=["own id", "null id", "no id"])
async def test_an_error_message_with_or_without_an_id_answers_its_request(
    status: int, members: JsonObject, autojump_clock: object
) -> None:
    with pytest.raises(ErrorResponse, match="no such thing") as caught:
        await answered_with(lambda request: request.answer(status, error(-32601, "no such thing", **members)))

    assert caught.value.code == -32601


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
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
async def test_a_response_without_a_message_raises_its_status(
    status: int, body: bytes, kind: str | None, message: str, autojump_clock: object
) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda request: request.answer(status, body, kind=kind))

    assert (caught.value.status, caught.value.text) == (status, message)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_401_or_403_raises_its_status_even_if_it_carries_a_message(status: int, autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda request: request.answer(status, error(-32000, "who are you?", id=1)))

    assert (caught.value.status, caught.value.text) == (status, "who are you?")


async def test_a_refusal_with_the_id_of_another_request_raises_its_status(autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError, match="HTTP status 400: mixed up"):
        await answered_with(lambda request: request.answer(400, error(-32600, "mixed up", id=99)))


async def test_the_client_waits_five_seconds_for_the_body_of_a_refusal(autojump_clock: object) -> None:
    async def stall(request: ReceivedRequest) -> None:
        await request._start(503, {"content-type": "text/plain"})
        await request.left.wait()

    begun = trio.current_time()
    with pytest.raises(HttpStatusError, match=r"HTTP status 503$"):
        await answered_with(stall)
    assert trio.current_time() - begun == 5


async def test_a_refusal_that_breaks_off_raises_its_status(autojump_clock: object) -> None:
    async def cut(request: ReceivedRequest) -> None:
        await request._start(500, {"content-type": "text/plain"})
        await request.send(b"the dog ate")
        request.cut()

    with pytest.raises(HttpStatusError, match=r"HTTP status 500$"):
        await answered_with(cut)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://server.test:81/", "redirects to http://server.test:81/; redirects are not followed: connect to that"),
        ("http://me:pw@server.test/", "redirects to http://server.test/; redirects are not followed"),
        ("https://me:pw@evil.test/?q=1", "redirects to https://evil.test/; redirects are not followed"),
        ("https://server.test/mcp", "redirects to https://server.test/mcp: connect to the https address"),
        ("http://[", "redirects to an invalid address"),
    ],
)
async def test_a_redirect_is_reported_and_not_followed(location: str, message: str, autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda request: request.answer(307, headers={"location": location}))

    assert caught.value.text.startswith(message)


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_may_change_the_method_is_not_followed(status: int, autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError, match=r"redirects to http://server\.test/mcp/; redirects are not followed"):
        await answered_with(lambda request: request.answer(status, headers={"location": "/mcp/"}))


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_of_the_same_request_within_the_origin_is_followed_and_logged_once(
    status: int, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server, headers={"x-mine": "a"}) as transport, trio.open_nursery() as nursery:
        for _ in range(2):
            pending = start_request(nursery, transport)
            first = await server.next(rpc="tools/list")
            await first.answer(status, headers={"location": "/mcp/?key=secret#part"})
            second = await server.next(rpc="tools/list")
            await second.result(tools=[])
            assert await pending.outcome() == {"tools": []}
            assert (second.body, second.headers) == (first.body, first.headers)

    assert [record.message for record in caplog.records if record.name == "trio_mcp.transports"] == [
        (
            "http://server.test/mcp redirects each request to http://server.test/mcp/: connect to that address, which "
            "is faster"
        )
    ]


async def test_a_notification_follows_a_redirect_too(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.notify, "notifications/mine", {"_meta": META})
        await (await server.next(rpc="notifications/mine")).answer(307, headers={"location": "/mcp/"})
        await (await server.next(rpc="notifications/mine")).answer(202)


async def test_a_redirect_without_end_is_an_error(autojump_clock: object) -> None:
    async def around(request: ReceivedRequest) -> None:
        await request.answer(307, headers={"location": "/mcp"})

    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        for _ in range(4):
            await around(await server.next(rpc="tools/list"))
        with pytest.raises(HttpStatusError, match="redirects more than 3 times"):
            await pending.outcome()


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", None])
@pytest.mark.parametrize("body", [{"jsonrpc": "2.0", "id": 1, "result": {}}, []])
async def test_json_under_a_wrong_content_type_is_named(kind: str | None, body: Any, autojump_clock: object) -> None:
    with pytest.raises(HttpStatusError) as caught:
        await answered_with(lambda request: request.answer(200, json.dumps(body).encode(), kind=kind))

    under = "without a Content-Type" if kind is None else f"under the Content-Type {kind!r}"
    assert caught.value.text == f"the answer is JSON {under}; it must be 'application/json'"


async def test_a_refusal_with_the_id_as_a_string_is_understood_and_logged(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ErrorResponse, match="too much"):
        await answered_with(lambda request: request.answer(400, error(-32600, "too much", id="1")))

    assert "a response has the id of its request as a string: '1' instead of 1" in caplog.text


# Failures.


@pytest.mark.parametrize("properly", [True, False])
async def test_a_stream_that_ends_before_the_answer_loses_the_response(properly: bool, autojump_clock: object) -> None:
    async def leave(request: ReceivedRequest) -> None:
        await request.begin()
        await request.event(notification("notifications/progress", progressToken=1, progress=0.5))
        if properly:
            await request.end()
        else:
            request.cut()

    with pytest.raises(ResponseLost, match="tools/list") as caught:
        await answered_with(leave)
    assert caught.value.sent


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the answer to 'tools/list' is not JSON"),
        (result(99), "the response to 'tools/list' holds no answer to it"),
        (notification("notifications/x"), "the response to 'tools/list' holds no answer to it"),
        ([], "the response to 'tools/list' holds no answer to it"),
        ({"jsonrpc": "2.0", "id": 1, "result": 7}, "the response breaks the protocol"),
    ],
)
async def test_json_that_does_not_answer_the_request_is_a_protocol_error(
    body: Any, message: str, autojump_clock: object
) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        await answered_with(lambda request: request.answer(200, body, kind="application/json"))


async def _long_body(request: ReceivedRequest) -> None:
    await request.answer(200, result(1, message="x" * 1000))


async def _long_declared_body(request: ReceivedRequest) -> None:
    await request._start(200, {"content-type": "application/json", "content-length": "1001"})
    await request.left.wait()  # the body is not read at all


async def _long_event(request: ReceivedRequest) -> None:
    await request.begin()
    await request.event(result(1, message="x" * 1000))
    await request.left.wait()


async def _compressed(request: ReceivedRequest) -> None:
    body = gzip.compress(json.dumps(result(1)).encode())
    await request.answer(200, body, kind="application/json", headers={"content-encoding": "gzip"})


async def _compressed_events(request: ReceivedRequest) -> None:
    await request.begin({"content-encoding": "deflate"})
    await request.left.wait()


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        (_long_body, r"more than 1000 bytes \(Limits.max_message_bytes\)"),
        (_long_declared_body, "more than 1000 bytes"),
        (_long_event, "more than 1000 bytes"),
        (_compressed, r"compressed \('gzip'\)"),
        (_compressed_events, r"compressed \('deflate'\)"),
    ],
)
async def test_a_response_that_is_too_large_or_compressed_fails_one_request_and_no_other(
    respond: Callable[[ReceivedRequest], Any], message: str, autojump_clock: object
) -> None:
    server = ScriptedHttpServer()
    async with (
        open_transport(server, ClientStub(Limits(max_message_bytes=1000))) as transport,
        trio.open_nursery() as nursery,
    ):
        failing = start_request(nursery, transport)
        first = await server.next(rpc="tools/list")
        unaffected = start_request(nursery, transport)
        second = await server.next(rpc="tools/list")
        nursery.start_soon(respond, first)
        with pytest.raises(RemoteProtocolError, match=message):
            await failing.outcome()
        await second.result(tools=[])
        assert await unaffected.outcome() == {"tools": []}


# Cancellation and closing.


async def test_cancelling_a_request_closes_its_response(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        for begun in (False, True):
            pending = start_request(nursery, transport)
            request = await server.next(rpc="tools/list")
            if begun:
                await request.begin()
                await trio.testing.wait_all_tasks_blocked()
            pending.scope.cancel()
            await request.left.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.requests) == 2  # no other request was sent
        assert transport.statistics().outgoing == 0


async def test_a_request_that_is_cancelled_before_it_was_sent_is_not_sent(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport:
        async with transport.ask("tools/list", {"_meta": META}):
            pass
        await trio.testing.wait_all_tasks_blocked()

    assert server.requests == []


async def test_the_client_waits_one_second_for_the_end_of_an_answered_response(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server) as transport, trio.open_nursery() as nursery:
        pending = start_request(nursery, transport)
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event(result(1))
        await pending.outcome()
        answered = trio.current_time()
        await request.left.wait()
        assert trio.current_time() - answered == 1

        pending = start_request(nursery, transport)
        request = await server.next(rpc="tools/list")
        await request.begin()
        await request.event(result(2))
        await pending.outcome()
        await request.send(b": bye\n\n")
        await request.end()
        await trio.sleep(2)
        assert not request.left.is_set()


async def test_a_response_that_breaks_off_after_the_answer_is_not_an_error(autojump_clock: object) -> None:
    async def respond(request: ReceivedRequest) -> None:
        await request.begin()
        await request.event(result(1, tools=[]))
        request.cut()

    assert await answered_with(respond) == {"tools": []}


async def test_a_listen_request_has_no_timeout_and_its_listener_gets_the_loss_of_its_stream(
    autojump_clock: object,
) -> None:
    class RecordingListener:
        def __init__(self) -> None:
            self.received: list[object] = []

        def on_notification(self, method: str, params: JsonObject) -> None:
            self.received.append(method)

        def on_outcome(self, outcome: JsonObject | Exception) -> None:
            self.received.append(type(outcome))

    server, listener = ScriptedHttpServer(), RecordingListener()
    async with open_transport(server, ClientStub(Limits(max_posts=1))) as transport, trio.open_nursery() as nursery:
        outgoing = transport.ask("subscriptions/listen", {"notifications": {}, "_meta": META})
        outgoing.listener = listener
        async with outgoing:
            request = await server.next(rpc="subscriptions/listen")
            await request.begin()
            key = "io.modelcontextprotocol/subscriptionId"
            for method in ("notifications/subscriptions/acknowledged", "notifications/tools/list_changed"):
                await request.event(notification(method, _meta={key: 1}))
            other = start_request(nursery, transport)  # the listen request takes no place
            await (await server.next(rpc="tools/list")).result()
            await other.outcome()
            await trio.sleep(3600)
            request.cut()
            with pytest.raises(ResponseLost, match="subscriptions/listen"):
                await outgoing.result()

    assert listener.received == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        ResponseLost,
    ]


async def test_closing_ends_requests_in_flight(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with trio.open_nursery() as nursery:
        async with open_transport(server) as transport:
            disconnects: list[object] = []
            transport.on_disconnect(disconnects.append)
            waiting = [start_request(nursery, transport) for _ in range(3)]
            requests = [await server.next(rpc="tools/list") for _ in waiting]
            await requests[0].begin()
            await trio.testing.wait_all_tasks_blocked()
        for pending in waiting:
            with pytest.raises(ConnectionClosed):
                await pending.outcome()
        assert all(request.left.is_set() for request in requests)
    assert len(disconnects) == 1
    for attempt in (transport.open_standalone_stream(), transport.notify("notifications/x", None)):
        with pytest.raises(ConnectionClosed):
            await attempt
    with pytest.raises(ConnectionClosed):
        async with transport.ask("tools/list", {"_meta": META}):
            pass


async def test_closing_ends_notifications_that_other_tasks_are_sending(autojump_clock: object) -> None:
    server, failed = ScriptedHttpServer(), list[str]()
    async with trio.open_nursery() as nursery:
        async with open_transport(server) as transport:

            async def notify() -> None:
                with pytest.raises(ConnectionClosed):
                    await transport.notify("notifications/x", {"_meta": META})
                failed.append("notifications/x")

            nursery.start_soon(notify)
            request = await server.next(rpc="notifications/x")
        with trio.fail_after(60):
            await request.left.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert failed == ["notifications/x"]


# Limits.


async def test_requests_beyond_the_limit_wait_for_a_place(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server, ClientStub(Limits(max_posts=2))) as transport, trio.open_nursery() as nursery:
        for _ in range(2):
            start_request(nursery, transport)
        first, second = await server.next(rpc="tools/list"), await server.next(rpc="tools/list")
        left = start_request(nursery, transport)
        await server.expect_nothing()
        start_request(nursery, transport)
        assert not transport.ask("tools/list", {"_meta": META}).begin_nowait()
        listening = transport.ask("subscriptions/listen", {"_meta": META})
        assert listening.begin_nowait()
        listening.leave()
        left.scope.cancel()
        await first.begin()
        await first.event(result(first.message["id"]))  # the place is free before the response has ended
        third = await server.next(rpc="tools/list")
        for request in (second, third):
            await request.result()
        await server.expect_nothing()
        await first.end()


async def test_a_request_that_cannot_be_encoded_passes_its_place_on(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with open_transport(server, ClientStub(Limits(max_posts=1))) as transport, trio.open_nursery() as nursery:
        start_request(nursery, transport)
        request = await server.next(rpc="tools/list")
        broken = start_request(nursery, transport, invalid=object())
        await trio.testing.wait_all_tasks_blocked()
        start_request(nursery, transport, "prompts/list")
        await trio.testing.wait_all_tasks_blocked()
        await request.result()
        with pytest.raises(LocalProtocolError, match="'tools/list' cannot be sent"):
            await broken.outcome()
        with trio.fail_after(60):
            await (await server.next(rpc="prompts/list")).result()


async def test_requests_that_wait_for_a_place_fail_with_the_connection(autojump_clock: object) -> None:
    server = ScriptedHttpServer()
    async with trio.open_nursery() as nursery:
        async with open_transport(server, ClientStub(Limits(max_posts=1))) as transport:
            pending = [start_request(nursery, transport) for _ in range(3)]
            await server.next(rpc="tools/list")
            await trio.testing.wait_all_tasks_blocked()
        for each in pending:
            with pytest.raises(ConnectionClosed):
                await each.outcome()


class StuckEngine:
    """An engine whose requests are never sent."""

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


async def test_the_bytes_of_unsent_requests_are_counted(autojump_clock: object) -> None:
    async with (
        http_transport(URL, engine=StuckEngine())(ClientStub()) as transport,
        trio.open_nursery() as nursery,
    ):
        pending = start_request(nursery, transport)
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


async def answered_with(respond: Callable[[ReceivedRequest], Any]) -> JsonObject:
    """Send a request to a server that responds this way; return the result, and check that no request remains."""
    server = ScriptedHttpServer()
    async with open_transport(server) as transport:
        async with trio.open_nursery() as nursery:
            pending = start_request(nursery, transport)
            await respond(await server.next(rpc="tools/list"))
        assert transport.statistics().outgoing == 0
        return await pending.outcome()
