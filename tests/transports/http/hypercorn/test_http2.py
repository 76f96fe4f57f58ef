"""HTTP/2 over real sockets: one stream does not hurt another, and a client costs no more than it may."""

from __future__ import annotations

import h2.errors
import h2.events
import pytest
import trio
import trio.testing
from hyperframe.frame import DataFrame

from tests.transports.http.socket_clients import (
    ROOM,
    App,
    Http2Client,
    Served,
    answer,
    begin,
    part,
    read_body,
    serving,
    until_left,
)
from trio_mcp.transports import Receive, Scope, Send


async def open_client(served: Served) -> Http2Client:
    client = Http2Client(await served.connect())
    await client.start()
    return client


async def is_answered(client: Http2Client) -> bool:
    """Whether this connection is still good."""
    number = await client.ask("/")
    return bool((await client.until(h2.events.DataReceived, number)).data == b"fine")


async def test_requests_run_beside_one_another() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["http_version"] == "2"
        assert scope["headers"] == [(b"host", b"here")]
        await answer(send, await read_body(receive))

    async with serving(App({"/echo": echo})) as served:
        client = await open_client(served)
        first = await client.ask("/echo", method="POST", end=False)
        assert await is_answered(client)
        client.wire.send_data(first, b"hello", end_stream=True)
        await client.flush()

        head = await client.until(h2.events.ResponseReceived, first)
        assert dict(head.headers)[":status"] == "200"
        assert "server" not in dict(head.headers)
        assert (await client.until(h2.events.DataReceived, first)).data == b"hello"
        await client.until(h2.events.StreamEnded, first)


async def test_a_stream_without_room_keeps_its_application_waiting_and_is_reset_in_the_end() -> None:
    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        while not left and len(sent) < 10_000:
            await part(send, bytes(1000))
            sent.append(1000)
        ended.set()

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, scope, receive, send)
            await until_left(receive)
            left.append(True)

    sent: list[int] = []
    left: list[bool] = []
    ended = trio.Event()
    async with serving(App({"/flood": watch}), write_seconds=0.2) as served:
        client = await open_client(served)
        number = await client.ask("/flood")

        assert (await client.until(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.CANCEL
        await ended.wait()
        await client.grant_room()
        assert sum(sent) < ROOM + 100_000
        assert await is_answered(client)


async def test_the_end_of_an_answer_waits_for_room_no_longer_than_any_other_part() -> None:
    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(ROOM + 1))
        ended.set()

    ended = trio.Event()
    async with serving(App({"/much": send_much}), write_seconds=0.2) as served:
        client = await open_client(served)
        number = await client.ask("/much")

        assert (await client.until(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.CANCEL
        await ended.wait()
        await client.grant_room()
        assert await is_answered(client)


async def test_a_large_answer_arrives_as_its_client_grants_room() -> None:
    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(1_000_000))

    async with serving(App({"/much": send_much})) as served:
        client = await open_client(served)
        number = await client.ask("/much")
        received = 0
        while received < 1_000_000:
            event = await client.until(h2.events.DataReceived, number)
            received += len(event.data)
            client.wire.acknowledge_received_data(event.flow_controlled_length, number)
            await client.flush()

        await client.until(h2.events.StreamEnded, number)
        assert received == 1_000_000


async def test_who_waits_for_room_goes_on_when_the_client_leaves() -> None:
    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await part(send, bytes(1_000_000))
        ended[0].set()

    async def end_late(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(ROOM))
        ended[1].set()

    ended = [trio.Event(), trio.Event()]
    async with serving(App({"/much": send_much, "/late": end_late}), write_seconds=1000) as served:
        client = await open_client(served)
        await client.ask("/much")
        await client.ask("/late")
        received = 0
        while received < ROOM:
            received += len((await client.until(h2.events.DataReceived)).data)
        await client.stream.aclose()

        for event in ended:
            await event.wait()


@pytest.mark.parametrize("after_the_answer", [True, False])
async def test_an_answer_before_the_body_ends_the_stream_and_what_still_comes_is_dropped(
    after_the_answer: bool,
) -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"too large", 413)

    async with serving(App({"/upload": refuse})) as served:
        client = await open_client(served)
        number = await client.ask("/upload", method="POST", end=False)
        if after_the_answer:
            await client.until(h2.events.StreamEnded, number)
        # By hand, because the client's own side may have heard already that nothing more is wanted.
        await client.stream.send_all(DataFrame(number, b"still coming").serialize() * 3)

        assert (await client.until(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.NO_ERROR
        assert await is_answered(client)


async def test_unread_data_of_an_answered_stream_are_dropped() -> None:
    """More than fits into the mailbox of the application, which answers without having looked into it."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.testing.wait_all_tasks_blocked(0.01)
        await answer(send, b"too large", 413)

    async with serving(App({"/upload": refuse})) as served:
        client = await open_client(served)
        await client.until(h2.events.SettingsAcknowledged)
        number = await client.ask("/upload", method="POST", end=False)
        for _ in range(500):
            client.wire.send_data(number, b"x")
        await client.flush()

        await client.until(h2.events.StreamEnded, number)
        assert await is_answered(client)


async def test_an_application_that_fails_in_mid_answer_has_its_stream_reset() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await part(send, b"half")
        raise ValueError

    async with serving(App({"/fail": fail})) as served:
        client = await open_client(served)
        number = await client.ask("/fail")

        assert (await client.until(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.INTERNAL_ERROR
        assert await is_answered(client)


async def test_an_answer_that_http2_does_not_allow_has_its_stream_reset(caplog: pytest.LogCaptureFixture) -> None:
    async def send_nonsense(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"te", b"gzip")]})
        await send({"type": "http.response.body", "body": b"body"})

    async with serving(App({"/nonsense": send_nonsense})) as served:
        client = await open_client(served)
        number = await client.ask("/nonsense")

        assert (await client.until(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.INTERNAL_ERROR
        assert await is_answered(client)

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/nonsense'"]


@pytest.mark.parametrize("way", ["reset", "close"])
async def test_an_answer_to_a_client_that_has_left_is_not_an_error(way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await until_left(receive)
        await answer(send)
        ended.set()

    asked, ended = trio.Event(), trio.Event()
    async with serving(App({"/wait": wait})) as served:
        client = await open_client(served)
        number = await client.ask("/wait", end=False)
        await asked.wait()
        if way == "reset":
            client.wire.reset_stream(number)
            await client.flush()
        else:
            await client.stream.aclose()
        await ended.wait()

    assert caplog.records == []


@pytest.mark.parametrize("field", [(b"two\nlines", b""), (b"x", b"1\r\nset-cookie: 2")], ids=["name", "value"])
async def test_a_header_field_with_a_line_break_is_the_fault_of_its_application(
    field: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def inject(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [field]})

    async with serving(App({"/inject": inject})) as served:
        client = await open_client(served)
        number = await client.ask("/inject")

        assert dict((await client.until(h2.events.ResponseReceived, number)).headers)[":status"] == "500"
        assert await is_answered(client)

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/inject'"]


async def test_a_stream_that_its_client_resets_ends_its_request_alone() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await part(send, b"first")
        await until_left(receive)
        await part(send, b"nobody reads this")
        left.set()

    left = trio.Event()
    async with serving(App({"/stream": stream})) as served:
        client = await open_client(served)
        number = await client.ask("/stream", end=False)
        await client.until(h2.events.DataReceived, number)
        client.wire.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        await client.flush()
        await left.wait()

        assert await is_answered(client)


async def test_requests_that_are_reset_at_once_are_bounded_too() -> None:
    running = 0

    async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running
        running += 1
        await go_on.wait()

    go_on = trio.Event()
    async with serving(App({"/deaf": deaf})) as served:
        client = await open_client(served)
        await client.until(h2.events.SettingsAcknowledged)
        for _ in range(500):
            client.wire.reset_stream(await client.ask("/deaf"), h2.errors.ErrorCodes.CANCEL)
        await client.flush()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert running == 200
        go_on.set()

        assert await is_answered(client)
        assert running == 500


async def test_priorities_are_ignored() -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        for number in range(1, 4001, 2):
            client.wire.prioritize(number, weight=5)
        await client.flush()

        assert await is_answered(client)


async def test_a_head_that_is_too_long_costs_the_connection() -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        await client.until(h2.events.SettingsAcknowledged)
        number = client.wire.get_next_available_stream_id()
        head = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "here"), ("x", "y" * 20_000)]
        client.wire.send_headers(number, head, end_stream=True)
        await client.flush()

        await client.until(h2.events.ConnectionTerminated)
        await client.until_end()
        assert await served.is_well()


@pytest.mark.parametrize("path", [[(":path", "/caf\xe9")], []], ids=["not ASCII", "missing"])
async def test_a_request_that_cannot_be_read_is_refused_and_no_other(path: list[tuple[str, str]]) -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        number = client.wire.get_next_available_stream_id()
        kind = [(":method", "GET"), (":scheme", "http")] if path else [(":method", "CONNECT")]
        client.wire.config.validate_outbound_headers = False
        client.wire.send_headers(number, [*kind, *path, (":authority", "here")], end_stream=True)
        await client.flush()

        assert (await client.until(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.PROTOCOL_ERROR
        assert await is_answered(client)


async def test_what_is_no_http2_costs_the_connection() -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        await client.until(h2.events.SettingsAcknowledged)
        await client.stream.send_all(bytes(100))

        await client.until(h2.events.ConnectionTerminated)
        await client.until_end()
        assert await served.is_well()


async def test_a_connection_that_lies_idle_is_closed_with_a_farewell() -> None:
    async with serving(App(), keep_alive_seconds=0.1) as served:
        client = await open_client(served)
        assert await is_answered(client)

        farewell = await client.until(h2.events.ConnectionTerminated)
        assert (farewell.error_code, farewell.last_stream_id) == (h2.errors.ErrorCodes.NO_ERROR, 1)
        await client.until_end()


async def test_a_connection_that_asks_nothing_is_closed_soon() -> None:
    async with serving(App(), head_seconds=0.1) as served:
        client = await open_client(served)

        await client.until(h2.events.ConnectionTerminated)
        await client.until_end()


async def test_a_stopping_server_completes_streams_and_refuses_new_ones_as_retryable() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await part(send, b"first")
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"last"})

    async def drain() -> None:
        draining.set()
        await go_on.wait()

    draining, go_on = trio.Event(), trio.Event()
    async with serving(App({"/stream": stream}), drain=drain, drain_seconds=1000) as served:
        client = await open_client(served)
        number = await client.ask("/stream")
        await client.until(h2.events.DataReceived, number)
        served.stop.set()
        await draining.wait()
        refused = await client.ask("/")
        assert (await client.until(h2.events.StreamReset, refused)).error_code == h2.errors.ErrorCodes.REFUSED_STREAM
        go_on.set()

        assert (await client.until(h2.events.DataReceived, number)).data == b"last"
        await client.until(h2.events.StreamEnded, number)
        await client.until(h2.events.ConnectionTerminated)
        await client.until_end()
        await served.ended.wait()
