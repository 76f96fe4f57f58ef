"""HTTP/2 over real sockets: independent streams, flow control, limits, and malformed requests."""

from __future__ import annotations

import h2.errors
import h2.events
import pytest
import trio
import trio.testing
from hyperframe.frame import DataFrame
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection

from tests.transports.http.socket_clients import (
    WINDOW_BYTES,
    App,
    Http2Client,
    Served,
    answer,
    begin,
    read_body,
    send_part,
    serving,
    wait_for_disconnect,
)
from trio_mcp.transports import Receive, Scope, Send


async def open_client(served: Served) -> Http2Client:
    client = Http2Client(await served.connect())
    await client.start()
    return client


async def is_answered(client: Http2Client) -> bool:
    """Return True if the connection still answers requests."""
    number = await client.send_request("/")
    return bool((await client.next_event(h2.events.DataReceived, number)).data == b"fine")


async def test_requests_run_concurrently() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["http_version"] == "2"
        assert scope["headers"] == [(b"host", b"here")]
        await answer(send, await read_body(receive))

    async with serving(App({"/echo": echo})) as served:
        client = await open_client(served)
        first = await client.send_request("/echo", method="POST", end=False)
        assert await is_answered(client)
        client.wire.send_data(first, b"hello", end_stream=True)
        await client.flush()

        head = await client.next_event(h2.events.ResponseReceived, first)
        assert dict(head.headers)[":status"] == "200"
        assert "server" not in dict(head.headers)
        assert (await client.next_event(h2.events.DataReceived, first)).data == b"hello"
        await client.next_event(h2.events.StreamEnded, first)


async def test_a_stream_whose_window_stays_closed_blocks_its_application_and_is_reset_in_the_end() -> None:
    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        while not left and len(sent) < 10_000:
            await send_part(send, bytes(1000))
            sent.append(1000)
        ended.set()

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, scope, receive, send)
            await wait_for_disconnect(receive)
            left.append(True)

    sent: list[int] = []
    left: list[bool] = []
    ended = trio.Event()
    async with serving(App({"/flood": watch}), write_seconds=0.2) as served:
        client = await open_client(served)
        number = await client.send_request("/flood")

        assert (await client.next_event(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.CANCEL
        await ended.wait()
        await client.acknowledge()
        assert sum(sent) < WINDOW_BYTES + 100_000
        assert await is_answered(client)


async def test_the_end_of_a_response_waits_for_the_window_no_longer_than_other_parts() -> None:
    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(WINDOW_BYTES + 1))
        ended.set()

    ended = trio.Event()
    async with serving(App({"/much": send_much}), write_seconds=0.2) as served:
        client = await open_client(served)
        number = await client.send_request("/much")

        assert (await client.next_event(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.CANCEL
        await ended.wait()
        await client.acknowledge()
        assert await is_answered(client)


async def test_a_large_response_arrives_as_its_client_opens_the_window() -> None:
    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(1_000_000))

    async with serving(App({"/much": send_much})) as served:
        client = await open_client(served)
        number = await client.send_request("/much")
        received = 0
        while received < 1_000_000:
            event = await client.next_event(h2.events.DataReceived, number)
            received += len(event.data)
            client.wire.acknowledge_received_data(event.flow_controlled_length, number)
            await client.flush()

        await client.next_event(h2.events.StreamEnded, number)
        assert received == 1_000_000


async def test_an_application_that_waits_for_the_window_continues_when_the_client_disconnects() -> None:
    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, bytes(1_000_000))
        ended[0].set()

    async def end_late(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(WINDOW_BYTES))
        ended[1].set()

    ended = [trio.Event(), trio.Event()]
    async with serving(App({"/much": send_much, "/late": end_late}), write_seconds=1000) as served:
        client = await open_client(served)
        await client.send_request("/much")
        await client.send_request("/late")
        received = 0
        while received < WINDOW_BYTES:
            received += len((await client.next_event(h2.events.DataReceived)).data)
        await client.stream.aclose()

        for event in ended:
            await event.wait()


@pytest.mark.parametrize("after_the_answer", [True, False])
async def test_a_response_before_the_end_of_the_body_ends_the_stream_and_later_data_are_dropped(
    after_the_answer: bool,
) -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"too large", 413)

    async with serving(App({"/upload": refuse})) as served:
        client = await open_client(served)
        number = await client.send_request("/upload", method="POST", end=False)
        if after_the_answer:
            await client.next_event(h2.events.StreamEnded, number)
        # A raw frame, because the client's own state may not allow more data after the response.
        await client.stream.send_all(DataFrame(number, b"still coming").serialize() * 3)

        assert (await client.next_event(h2.events.StreamReset, number)).error_code == h2.errors.ErrorCodes.NO_ERROR
        assert await is_answered(client)


@pytest.mark.parametrize("length", [WINDOW_BYTES, WINDOW_BYTES + 1])
async def test_a_stream_is_not_reset_after_an_early_response_if_the_client_can_send_the_rest_at_once(
    length: int,
) -> None:
    """Curl 7.88 takes a reset for a failure, and drops the response."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"forbidden", 403)

    async with serving(App({"/upload": refuse})) as served:
        client = await open_client(served)
        number = await client.send_request("/upload", method="POST", end=False, length=length)
        await client.next_event(h2.events.StreamEnded, number)
        if length > WINDOW_BYTES:
            await client.next_event(h2.events.StreamReset, number)
        else:
            for start in range(0, length, 2**14):
                piece = min(2**14, length - start)
                client.wire.send_data(number, bytes(piece), end_stream=start + piece == length)
            await client.flush()

        assert await is_answered(client)
        assert not any(isinstance(event, h2.events.StreamReset) for event in client.events)


async def test_unread_data_of_an_answered_stream_are_dropped() -> None:
    """The data exceed the mailbox of the application, which answers without receiving them."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.testing.wait_all_tasks_blocked(0.01)
        await answer(send, b"too large", 413)

    async with serving(App({"/upload": refuse})) as served:
        client = await open_client(served)
        await client.next_event(h2.events.SettingsAcknowledged)
        number = await client.send_request("/upload", method="POST", end=False)
        for _ in range(500):
            client.wire.send_data(number, b"x")
        await client.flush()

        await client.next_event(h2.events.StreamEnded, number)
        assert await is_answered(client)


async def test_the_stream_of_an_application_that_raises_during_its_response_is_reset() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"half")
        raise ValueError

    async with serving(App({"/fail": fail})) as served:
        client = await open_client(served)
        number = await client.send_request("/fail")

        assert (
            await client.next_event(h2.events.StreamReset, number)
        ).error_code == h2.errors.ErrorCodes.INTERNAL_ERROR
        assert await is_answered(client)


async def test_the_stream_of_a_response_that_http2_does_not_allow_is_reset(caplog: pytest.LogCaptureFixture) -> None:
    async def send_nonsense(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"te", b"gzip")]})
        await send({"type": "http.response.body", "body": b"body"})

    async with serving(App({"/nonsense": send_nonsense})) as served:
        client = await open_client(served)
        number = await client.send_request("/nonsense")

        assert (
            await client.next_event(h2.events.StreamReset, number)
        ).error_code == h2.errors.ErrorCodes.INTERNAL_ERROR
        assert await is_answered(client)

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/nonsense'"]


@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_a_response_to_a_client_that_has_disconnected_is_not_an_error(
    ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        requested.set()
        await wait_for_disconnect(receive)
        await answer(send)
        ended.set()

    requested, ended = trio.Event(), trio.Event()
    async with serving(App({"/wait": wait})) as served:
        client = await open_client(served)
        number = await client.send_request("/wait", end=False)
        await requested.wait()
        if ending == "reset":
            client.wire.reset_stream(number)
            await client.flush()
        else:
            await client.stream.aclose()
        await ended.wait()

    assert caplog.records == []


@pytest.mark.parametrize("field", [(b"two\nlines", b""), (b"x", b"1\r\nset-cookie: 2")], ids=["name", "value"])
async def test_a_header_field_with_a_line_break_is_logged_as_a_failure_of_the_application(
    field: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def inject(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [field]})

    async with serving(App({"/inject": inject})) as served:
        client = await open_client(served)
        number = await client.send_request("/inject")

        assert dict((await client.next_event(h2.events.ResponseReceived, number)).headers)[":status"] == "500"
        assert await is_answered(client)

    assert [record.getMessage() for record in caplog.records] == ["the application failed at GET '/inject'"]


async def test_a_stream_that_its_client_resets_ends_only_its_own_request() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"first")
        await wait_for_disconnect(receive)
        await send_part(send, b"not read")
        left.set()

    left = trio.Event()
    async with serving(App({"/stream": stream})) as served:
        client = await open_client(served)
        number = await client.send_request("/stream", end=False)
        await client.next_event(h2.events.DataReceived, number)
        client.wire.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        await client.flush()
        await left.wait()

        assert await is_answered(client)


async def test_requests_that_are_reset_at_once_count_against_the_limit() -> None:
    running = 0

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running
        running += 1
        await go_on.wait()

    go_on = trio.Event()
    async with serving(App({"/wait": wait})) as served:
        client = await open_client(served)
        await client.next_event(h2.events.SettingsAcknowledged)
        for _ in range(500):
            client.wire.reset_stream(await client.send_request("/wait"), h2.errors.ErrorCodes.CANCEL)
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


async def test_a_head_that_is_too_long_closes_the_connection() -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        await client.next_event(h2.events.SettingsAcknowledged)
        number = client.wire.get_next_available_stream_id()
        head = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "here"), ("x", "y" * 20_000)]
        client.wire.send_headers(number, head, end_stream=True)
        await client.flush()

        await client.next_event(h2.events.ConnectionTerminated)
        await client.read_until_closed()
        assert await served.serves_others()


@pytest.mark.parametrize("path", [[(":path", "/caf\xe9")], []], ids=["not ASCII", "missing"])
async def test_a_malformed_request_resets_its_own_stream_alone(path: list[tuple[str, str]]) -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        number = client.wire.get_next_available_stream_id()
        kind = [(":method", "GET"), (":scheme", "http")] if path else [(":method", "CONNECT")]
        client.wire.config.validate_outbound_headers = False
        client.wire.send_headers(number, [*kind, *path, (":authority", "here")], end_stream=True)
        await client.flush()

        assert (
            await client.next_event(h2.events.StreamReset, number)
        ).error_code == h2.errors.ErrorCodes.PROTOCOL_ERROR
        assert await is_answered(client)


async def test_data_that_are_not_http2_close_the_connection() -> None:
    async with serving(App()) as served:
        client = await open_client(served)
        await client.next_event(h2.events.SettingsAcknowledged)
        await client.stream.send_all(bytes(100))

        await client.next_event(h2.events.ConnectionTerminated)
        await client.read_until_closed()
        assert await served.serves_others()


async def test_an_idle_connection_is_closed_with_a_goaway_frame() -> None:
    async with serving(App(), keep_alive_seconds=1) as served:
        client = await open_client(served)
        assert await is_answered(client)

        goaway = await client.next_event(h2.events.ConnectionTerminated)
        assert (goaway.error_code, goaway.last_stream_id) == (h2.errors.ErrorCodes.NO_ERROR, 1)
        await client.read_until_closed()


async def test_a_connection_without_a_request_is_closed_after_the_head_timeout() -> None:
    async with serving(App(), head_seconds=0.1) as served:
        client = await open_client(served)

        await client.next_event(h2.events.ConnectionTerminated)
        await client.read_until_closed()


async def test_a_stopping_server_completes_streams_and_refuses_new_ones_as_retryable() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"first")
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"last"})

    async def drain() -> None:
        draining.set()
        await go_on.wait()

    draining, go_on = trio.Event(), trio.Event()
    async with serving(App({"/stream": stream}), drain=drain, drain_seconds=1000) as served:
        client = await open_client(served)
        number = await client.send_request("/stream")
        await client.next_event(h2.events.DataReceived, number)
        served.stop.set()
        await draining.wait()
        refused = await client.send_request("/")
        assert (
            await client.next_event(h2.events.StreamReset, refused)
        ).error_code == h2.errors.ErrorCodes.REFUSED_STREAM
        go_on.set()

        assert (await client.next_event(h2.events.DataReceived, number)).data == b"last"
        await client.next_event(h2.events.StreamEnded, number)
        await client.next_event(h2.events.ConnectionTerminated)
        await client.read_until_closed()
        await served.ended.wait()


async def test_a_websocket_that_the_client_closes_is_closed_in_both_directions() -> None:
    async def accept(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        left.set()

    left, frames = trio.Event(), Connection(ConnectionType.CLIENT)
    async with serving(App({"/socket": accept})) as served:
        client = await open_client(served)
        await client.next_event(h2.events.RemoteSettingsChanged)
        number = client.wire.get_next_available_stream_id()
        head = [(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/socket")]
        head += [(":scheme", "http"), (":authority", "here"), ("sec-websocket-version", "13")]
        client.wire.send_headers(number, head)
        await client.flush()
        await client.next_event(h2.events.ResponseReceived, number)
        client.wire.send_data(number, frames.send(CloseConnection(1000)))
        await client.flush()

        frames.receive_data((await client.next_event(h2.events.DataReceived, number)).data)
        await client.next_event(h2.events.StreamEnded, number)
        await left.wait()
        assert await is_answered(client)

    assert [event.code for event in frames.events() if isinstance(event, CloseConnection)] == [1000]
