"""Responses that are not read, over real sockets: the slowest reader is cut although the server is writing to it."""

from __future__ import annotations

import socket
from contextlib import suppress

import h2.events
import h2.settings
import pytest
import trio
import trio.testing

from tests.transports.http.asgi_caller import call, request
from tests.transports.http.socket_clients import (
    OK,
    Http2Client,
    Served,
    read_until,
    serving,
)
from trio_mcp import Server, http_app
from trio_mcp.transports import HttpApp
from trio_mcp.wire import JsonObject, encode, request_fields

ANSWER, BUDGET = 8_000_000, 20_000_000  # bytes: two unread answers fit, and one exceeds the buffers of the system
LONG_SECONDS = 1000.0
LARGE_WINDOW = 2**30


def make_app(*turns: trio.Event) -> HttpApp:
    server = Server("large")

    @server.tool
    async def fill(size: int) -> str:
        return "x" * (size // 2)  # the answer has it twice, as text and as data

    @server.tool
    async def fill_later(size: int, turn: int) -> str:
        await turns[turn].wait()
        return "x" * (size // 2)

    return http_app(server, max_buffer_bytes=BUDGET)


FILL = call("fill", {"size": ANSWER})
SECOND, THIRD = (call("fill_later", {"size": ANSWER, "turn": turn}) for turn in range(2))
PING = request("tools/list")


def fields_of(message: JsonObject) -> dict[str, str]:
    return {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **request_fields(message["method"], message["params"]),
    }


def post(message: JsonObject) -> bytes:
    body = encode(message)
    fields = {"host": "localhost", "content-length": str(len(body)), **fields_of(message)}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def wait_for_bytes(app: HttpApp, least: int, most: int = BUDGET) -> None:
    """Wait until the application holds that many bytes."""
    while not least <= app.buffer_bytes <= most:  # noqa: ASYNC110  # sockets raise no event
        await trio.sleep(0.001)


async def open_reader(served: Served, app: HttpApp) -> trio.SocketStream:
    """Call a tool, and read only the beginning of the response."""
    stream = await served.connect()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
    await stream.send_all(post(FILL))
    assert (await stream.receive_some(len(OK))) == OK
    return stream


async def count_rest(stream: trio.SocketStream, most: int = 2 * ANSWER) -> int:
    """Read until the connection ends, or until that many bytes have been received; return their number."""
    received = 0
    with suppress(trio.BrokenResourceError):
        while received < most and (chunk := await stream.receive_some()):
            received += len(chunk)
    return received


@pytest.mark.parametrize("is_direct", [False, True])
async def test_over_http1_the_slowest_reader_loses_its_connection_during_a_write(is_direct: bool) -> None:
    app = make_app()
    async with serving(app, direct=app if is_direct else None, write_seconds=LONG_SECONDS) as served:
        readers: list[trio.SocketStream] = []
        for _ in range(5):
            readers.append(await open_reader(served, app))
            assert app.buffer_bytes <= BUDGET
        for cut in readers[:3]:
            assert await count_rest(cut) < ANSWER
        await wait_for_bytes(app, ANSWER)
        async with await served.connect() as other:
            await other.send_all(post(PING))
            assert (await read_until(other, b'"tools"')).startswith(OK)
        for reading in readers[3:]:
            assert await count_rest(reading, ANSWER) >= ANSWER
        await wait_for_bytes(app, 0, 0)


def queue(client: Http2Client, message: JsonObject) -> int:
    number = client.wire.get_next_available_stream_id()
    head = {":method": "POST", ":path": "/mcp", ":scheme": "http", ":authority": "localhost", **fields_of(message)}
    client.wire.send_headers(number, list(head.items()))
    client.wire.send_data(number, encode(message), end_stream=True)
    return number


async def send(client: Http2Client, message: JsonObject) -> int:
    number = queue(client, message)
    await client.flush()
    return number


async def test_over_http2_the_slowest_stream_is_reset_and_the_connection_goes_on() -> None:
    app = make_app()
    async with serving(app, write_seconds=LONG_SECONDS) as served:
        client = Http2Client(await served.connect())
        await client.start()
        client.wire.increment_flow_control_window(LARGE_WINDOW)  # that of each stream stays small
        numbers: list[int] = []
        for _ in range(5):
            numbers.append(await send(client, FILL))
            await client.next_event(h2.events.ResponseReceived, numbers[-1])
            await trio.testing.wait_all_tasks_blocked()  # until the window of the stream is used up
            assert app.buffer_bytes <= BUDGET
        for number in numbers[:3]:
            await client.next_event(h2.events.StreamReset, number)
        listing = await send(client, PING)
        await client.next_event(h2.events.StreamEnded, listing)
        await wait_for_bytes(app, 2 * ANSWER)


async def test_over_http2_a_client_that_takes_nothing_of_any_stream_loses_its_connection() -> None:
    """The application of a later stream waits for the head of its response to be written, which is not cancelled."""
    turns = trio.Event(), trio.Event()
    app = make_app(*turns)
    async with serving(app, write_seconds=LONG_SECONDS) as served:
        stream = await served.connect()
        client = Http2Client(stream)
        client.wire.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: LARGE_WINDOW}
        )
        await client.start()
        client.wire.increment_flow_control_window(LARGE_WINDOW)
        for message in (FILL, SECOND, SECOND, THIRD):
            queue(client, message)
        await client.flush()
        await wait_for_bytes(app, ANSWER)
        await trio.testing.wait_all_tasks_blocked(0.1)  # the system takes no more of the first response
        turns[0].set()
        await wait_for_bytes(app, 2 * ANSWER)
        await trio.testing.wait_all_tasks_blocked(0.1)  # two streams wait for the heads of their responses
        turns[1].set()
        await wait_for_bytes(app, 0, 0)
        assert await count_rest(stream) < ANSWER
