"""Writing an HTTP response: forms, keep-alives, the end, and clients that disconnect or do not read."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest
import trio

from tests.transports.http.asgi_caller import NEVER, AsgiCaller, scope_of
from trio_mcp import McpError
from trio_mcp.transports import AsgiChannel, AsgiMessage, Receive, Scope, Send
from trio_mcp.transports.http.server._asgi import Responding
from trio_mcp.wire import Refusal, decode

KEEP_ALIVE, STALL = 15.0, 100.0
Respond = Callable[[Responding], Awaitable[None]]


class RespondingApp:
    """An application that answers every request with a function of the test."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.responding: Responding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        self.responding = Responding(AsgiChannel(scope, receive, send), KEEP_ALIVE, STALL)
        await self.respond(self.responding)


async def respond(answer: Respond) -> AsgiCaller:
    return await AsgiCaller(scope_of()).run(RespondingApp(answer))


async def streaming(responding: Responding) -> None:
    """Stream one event, and then wait forever."""
    async with responding.attending(), responding.stream() as stream:
        await stream.send(b"data: 1\n\n")
        await trio.sleep(math.inf)


async def test_json_is_one_body_of_known_length() -> None:
    response = await respond(lambda responding: responding.json(b'{"a":1}', status=404, headers={"x-more": "1"}))

    assert (response.status, response.body, response.complete) == (404, b'{"a":1}', True)
    assert response.headers == {
        "content-type": "application/json",
        "content-length": "7",
        "cache-control": "no-store",
        "x-more": "1",
    }


async def test_a_large_body_is_sent_in_parts() -> None:
    body = bytes(200_000)

    response = await respond(lambda responding: responding.json(body))

    assert response.body == body
    assert [len(message["body"]) for message in response.sent[1:]] == [65_536, 65_536, 65_536, 3_392]
    assert [message["more_body"] for message in response.sent[1:]] == [True, True, True, False]


@pytest.mark.parametrize(
    ("status", "headers"),
    [(202, {"content-length": "0", "x-more": "1"}), (204, {"x-more": "1"})],
)
async def test_a_status_alone_has_no_body(status: int, headers: dict[str, str]) -> None:
    response = await respond(lambda responding: responding.empty(status, {"x-more": "1"}))

    assert (response.status, response.headers, response.body, response.complete) == (status, headers, b"", True)


async def test_a_refusal_sends_its_error_and_its_header_fields() -> None:
    refusal = Refusal(503, McpError(-32603, "no"), 7, {"retry-after": "1"})

    response = await respond(lambda responding: responding.refuse(refusal))

    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert decode(response.body) == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "no"}}


async def test_a_refusal_without_an_error_sends_only_its_status() -> None:
    response = await respond(lambda responding: responding.refuse(Refusal(405, headers={"allow": "POST"})))

    assert (response.status, response.headers["allow"], response.body) == (405, "POST", b"")


async def test_a_stream_ends_with_its_block() -> None:
    async def answer(responding: Responding) -> None:
        assert not responding.begun
        async with responding.attending(), responding.stream({"x-more": "1"}) as stream:
            assert responding.begun
            await stream.send(b"data: 1\n\n")
            await stream.send(b"data: 2\n\n")
        assert not responding.left

    response = await respond(answer)

    assert response.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "x-more": "1",
    }
    assert (response.body, response.complete) == (b"data: 1\n\ndata: 2\n\n", True)


async def test_a_stream_whose_block_raises_is_broken_off() -> None:
    async def answer(responding: Responding) -> None:
        async with responding.attending(), responding.stream() as stream:
            await stream.send(b"data: 1\n\n")
            raise ZeroDivisionError

    caller = AsgiCaller(scope_of())
    with pytest.raises(ZeroDivisionError):
        await caller.run(RespondingApp(answer))

    assert caller.body == b"data: 1\n\n"
    assert not caller.complete


async def test_a_silent_stream_sends_keep_alives(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    async def answer(responding: Responding) -> None:
        async with responding.attending(), responding.stream() as stream:
            await trio.sleep(10)
            await stream.send(b"data: 1\n\n")
            await trio.sleep(14.9)
            assert caller.comments == 0
            await trio.sleep(0.2)
            assert caller.comments == 1
            await trio.sleep(15)
            assert caller.comments == 2

    caller = AsgiCaller(scope_of())
    await caller.run(RespondingApp(answer))
    await trio.sleep(NEVER)

    assert (caller.comments, caller.complete) == (2, True)


async def test_no_keep_alive_is_sent_inside_of_an_event(autojump_clock: trio.testing.MockClock) -> None:
    event = b"data: " + b"x" * 200_000 + b"\n\n"

    async def answer(responding: Responding) -> None:
        async with responding.attending(), responding.stream() as stream:
            caller.stop_reading()
            await stream.send(event)

    caller = AsgiCaller(scope_of())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, RespondingApp(answer))
        await trio.sleep(4 * KEEP_ALIVE)
        caller.resume_reading()

    assert (caller.body, caller.complete) == (event, True)


async def test_an_event_waits_for_a_keep_alive_that_is_being_sent(autojump_clock: trio.testing.MockClock) -> None:
    async def answer(responding: Responding) -> None:
        async with responding.attending(), responding.stream() as stream:
            caller.stop_reading()
            await trio.sleep(KEEP_ALIVE + 1)
            await stream.send(b"data: 1\n\n")

    caller = AsgiCaller(scope_of())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, RespondingApp(answer))
        await trio.sleep(KEEP_ALIVE + 2)
        caller.resume_reading()

    assert caller.body == b":\n\ndata: 1\n\n"


async def test_the_end_of_a_stream_waits_for_a_keep_alive_that_is_being_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cut: list[AsgiMessage] = []

    async def answer(responding: Responding) -> None:
        async with responding.attending(), responding.stream():
            caller.stop_reading()
            await trio.sleep(KEEP_ALIVE + 1)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: AsgiMessage) -> None:
            try:
                await send(message)
            except trio.Cancelled:
                cut.append(message)
                raise

        await RespondingApp(answer)(scope, receive, sending)

    caller = AsgiCaller(scope_of())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, application)
        await trio.sleep(KEEP_ALIVE + 2)
        caller.resume_reading()

    assert cut == []
    assert (caller.body, caller.complete) == (b":\n\n", True)


async def test_a_client_that_disconnects_cancels_the_block(nursery: trio.Nursery) -> None:
    app, caller = RespondingApp(streaming), AsgiCaller(scope_of())
    nursery.start_soon(caller.run, app)
    await trio.testing.wait_all_tasks_blocked()
    assert not app.responding.left

    caller.disconnect()
    await caller.returned.wait()

    assert app.responding.left
    assert not caller.complete


async def test_a_client_that_disconnects_before_the_first_event_cancels_the_block(nursery: trio.Nursery) -> None:
    async def answer(responding: Responding) -> None:
        async with responding.attending():
            await trio.sleep(math.inf)

    app, caller = RespondingApp(answer), AsgiCaller(scope_of())
    nursery.start_soon(caller.run, app)
    await trio.testing.wait_all_tasks_blocked()

    caller.disconnect()
    await caller.returned.wait()

    assert app.responding.left
    assert caller.sent == []


async def test_received_events_other_than_a_disconnect_are_ignored() -> None:
    messages: list[AsgiMessage] = [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        await trio.lowlevel.checkpoint()
        return messages.pop(0)

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    responding = Responding(AsgiChannel({}, receive, send), KEEP_ALIVE, STALL)
    await streaming(responding)

    assert responding.left
    assert messages == []


async def test_a_client_that_reads_nothing_counts_as_disconnected(autojump_clock: trio.testing.MockClock) -> None:
    app, caller = RespondingApp(streaming), AsgiCaller(scope_of())
    caller.stop_reading()
    began = trio.current_time()

    await caller.run(app)

    assert app.responding.left
    assert trio.current_time() - began == STALL


async def test_a_keep_alive_that_is_not_read_ends_the_stream(autojump_clock: trio.testing.MockClock) -> None:
    app, caller = RespondingApp(streaming), AsgiCaller(scope_of())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, app)
        await caller.wait_for_messages(1)
        caller.stop_reading()
        began = trio.current_time()

    assert app.responding.left
    assert trio.current_time() - began == KEEP_ALIVE + STALL


async def test_a_send_that_raises_an_oserror_means_a_disconnected_client() -> None:
    async def receive() -> AsgiMessage:
        await trio.sleep(math.inf)
        raise AssertionError

    async def send(_: AsgiMessage) -> None:
        raise ConnectionResetError

    streamed, single = (Responding(AsgiChannel({}, receive, send), KEEP_ALIVE, STALL) for _ in range(2))
    await streaming(streamed)
    await single.json(b"{}")

    assert streamed.left
    assert single.left
