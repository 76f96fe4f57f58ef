"""How long a connection waits for its client, and what its end leaves behind."""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from tests.transports.http.socket_clients import (
    OK,
    App,
    Http2Client,
    begin,
    get,
    part,
    read_all,
    read_until,
    reset,
    serving,
    until_left,
)
from trio_mcp.transports import HttpListening, Receive, Scope, Send, bind_sockets, serve_asgi
from trio_mcp.transports.http.hypercorn import _connection as _hypercorn_connection
from trio_mcp.transports.http.hypercorn._connection import Connections

SLOW, LONG = 0.1, 1000.0  # seconds: what a test waits for, and what it never does


@pytest.mark.parametrize("start", [b"", b"GET / HT"], ids=["nothing", "a part of it"])
async def test_a_client_that_does_not_finish_its_first_head_is_cut_off(start: bytes) -> None:
    async with serving(App(), head_seconds=SLOW) as served, await served.connect() as stream:
        await stream.send_all(start)

        assert await read_all(stream) == b""


async def test_a_client_that_does_not_finish_a_later_head_is_cut_off_however_often_it_sends() -> None:
    async with serving(App(), head_seconds=SLOW, keep_alive_seconds=LONG) as served, await served.connect() as stream:
        await stream.send_all(get("/"))
        await read_until(stream, b"fine")
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                for byte in get("/" + "x" * 1000):
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(SLOW / 10)

            nursery.start_soon(trickle)
            assert await read_all(stream) in {b"", b"[reset]"}
            nursery.cancel_scope.cancel()


async def test_a_connection_may_lie_idle_for_longer_than_a_head_may_take() -> None:
    limits = {"head_seconds": SLOW, "keep_alive_seconds": LONG}
    async with serving(App(), **limits) as served, await served.connect() as stream:
        for _ in range(2):
            await stream.send_all(get("/"))
            assert (await read_until(stream, b"fine")).startswith(OK)
            await trio.sleep(2 * SLOW)


async def test_a_connection_that_lies_idle_for_too_long_is_closed() -> None:
    async with serving(App(), keep_alive_seconds=SLOW) as served, await served.connect() as stream:
        await stream.send_all(get("/"))
        await read_until(stream, b"fine")

        assert await read_all(stream) == b""


async def test_what_comes_while_the_process_stands_still_is_served() -> None:
    async def answer_soon(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(SLOW / 2)
        await begin(send)
        await send({"type": "http.response.body", "body": b"fine"})

    async with serving(App({"/": answer_soon}), keep_alive_seconds=SLOW) as served:
        streams = [await served.connect() for _ in range(8)]
        for stream in streams:
            await stream.send_all(get("/"))
        for stream in streams:
            await read_until(stream, b"0\r\n\r\n")
        for stream in streams:
            os.write(stream.socket.fileno(), get("/"))  # the server learns of it when it wakes up
        time.sleep(2 * SLOW)  # noqa: ASYNC251 # so does a process that is stopped, or on a machine that sleeps

        assert [(await read_until(stream, b"0\r\n\r\n"))[: len(OK)] for stream in streams] == [OK] * 8


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "a later one"])
async def test_what_comes_while_the_process_is_stopped_in_its_wait_is_served(is_first: bool) -> None:
    """A signal ends the wait of the process for everything, and no time is left to look whether something is there."""
    limit = 3 * SLOW
    limits = {"head_seconds": limit if is_first else LONG, "keep_alive_seconds": limit}
    async with serving(App(), **limits) as served, await served.connect() as stream:
        if not is_first:
            await stream.send_all(get("/"))
            await read_until(stream, b"fine")

        def stand_still(*_: object) -> None:
            os.write(stream.socket.fileno(), get("/"))
            time.sleep(1.1 * limit)

        before = signal.signal(signal.SIGALRM, stand_still)
        try:
            signal.setitimer(signal.ITIMER_REAL, limit / 10)
            assert (await read_until(stream, b"fine")).startswith(OK)
        finally:
            signal.signal(signal.SIGALRM, before)


async def test_a_client_that_never_stops_sending_gains_no_more_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hypercorn_connection, "_LATE_SECONDS", SLOW)
    async with serving(App(), head_seconds=SLOW) as served, trio.open_nursery() as nursery:
        client = Http2Client(await served.connect())
        await client.start()

        async def flood_with_pings() -> None:
            with suppress(trio.BrokenResourceError):
                while True:
                    for _ in range(100):
                        client.wire.ping(bytes(8))
                    await client.flush()

        nursery.start_soon(flood_with_pings)
        assert (await read_all(client.stream)).startswith(b"\x00")
        nursery.cancel_scope.cancel()


async def test_a_stream_without_a_word_from_its_client_goes_on() -> None:
    async def stream_slowly(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await trio.sleep(4 * SLOW)
        await send({"type": "http.response.body", "body": b"late"})

    limits = {"head_seconds": 3 * SLOW, "keep_alive_seconds": SLOW, "write_seconds": SLOW}
    async with serving(App({"/stream": stream_slowly}), **limits) as served, await served.connect() as stream:
        await stream.send_all(get("/stream"))

        assert b"late" in await read_until(stream, b"0\r\n\r\n")


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send)
    while True:
        await part(send, bytes(1_000_000))


class Flood:
    """Sends for ever, until its client has gone; then says so."""

    def __init__(self) -> None:
        self.left = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, scope, receive, send)
            await until_left(receive)
            nursery.cancel_scope.cancel()
        self.left.set()


async def test_a_client_that_reads_nothing_loses_its_connection_and_its_application_learns_it() -> None:
    flooding = Flood()
    async with serving(App({"/flood": flooding}), write_seconds=SLOW) as served, await served.connect() as stream:
        await stream.send_all(get("/flood"))

        await flooding.left.wait()
        assert (await read_all(stream)).endswith(b"[reset]")


async def test_a_client_that_reads_slowly_keeps_its_connection() -> None:
    size, timeouts = 6_000_000, 0.8

    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        start = trio.current_time()
        await part(send, bytes(size))
        assert trio.current_time() - start > timeouts
        await send({"type": "http.response.body", "body": b"end"})

    async with serving(App({"/much": send_much}), write_seconds=timeouts) as served, await served.connect() as stream:
        await stream.send_all(get("/much", "connection: close"))
        received = bytearray()
        for pause in range(1, 16):
            await trio.sleep(0.15)
            while len(received) < size * pause / 15:
                received += await stream.receive_some()

        assert (received + await read_all(stream)).endswith(b"3\r\nend\r\n0\r\n\r\n")


@pytest.mark.parametrize("way", ["a stop", "cancellation"])
async def test_a_client_that_reads_nothing_holds_up_no_end(way: str) -> None:
    flooding = Flood()
    async with trio.open_nursery() as nursery:
        async with serving(App({"/flood": flooding}), write_seconds=LONG, drain_seconds=SLOW) as served:
            stream = await served.connect()
            await stream.send_all(get("/flood"))
            await trio.testing.wait_all_tasks_blocked(SLOW)
            with trio.fail_after(2):
                if way == "a stop":
                    served.stop.set()
                    await served.ended.wait()
                else:
                    served.nursery.cancel_scope.cancel()
                    await flooding.left.wait()
        nursery.cancel_scope.cancel()


async def test_a_client_that_has_left_before_it_is_served_causes_no_error(caplog: pytest.LogCaptureFixture) -> None:
    stop = trio.Event()
    with await bind_sockets(HttpListening(port=0)) as sockets:
        assert sockets.bound.port is not None
        await reset(await trio.open_tcp_stream("127.0.0.1", sockets.bound.port))
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[Any]) -> None:
                listening = HttpListening(port=0)
                await serve_asgi(
                    App(), listening, stopping=stop.wait, drain=stop.wait, drain_seconds=1, sockets=sockets,
                    task_status=task_status,
                )  # fmt: skip

            await nursery.start(serve)
            async with await trio.open_tcp_stream("127.0.0.1", sockets.bound.port) as stream:
                await stream.send_all(get("/"))
                assert (await read_until(stream, b"fine")).startswith(OK)
            stop.set()

    assert caplog.records == []


async def test_clients_that_leave_without_a_goodbye_cost_their_own_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stream_for_ever(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await part(send, b"first")
        await until_left(receive)
        left.append(scope["client"])

    left: list[object] = []
    async with serving(App({"/stream": stream_for_ever})) as served:
        for _ in range(30):
            stream = await served.connect()
            await stream.send_all(get("/stream"))
            await read_until(stream, b"first")
            await reset(stream)
        while len(left) < 30:  # noqa: ASYNC110  # sockets raise no event
            await trio.sleep(0.001)
        assert await served.is_well()

    assert caplog.records == []


class BrokenSocket:
    """A socket whose other end has become unreachable, which no test can do to a real one."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self.closed = 0

    def getpeername(self) -> object:
        raise OSError(errno.ENOTCONN, "not connected")

    getsockname = getpeername

    def close(self) -> None:
        self.closed += 1


class BrokenStream(trio.abc.Stream):
    """Brings a request, ends when the answer has been sent, and fails when it is closed."""

    def __init__(self, *requests: bytes) -> None:
        self.socket = BrokenSocket()
        self.sent = b""
        self._answered = trio.Event()
        self._requests = [*requests]

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._requests:
            await trio.lowlevel.checkpoint()
            return self._requests.pop()
        await self._answered.wait()
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.sent += bytes(data)
        self._answered.set()

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EHOSTUNREACH, "no route to host")


async def test_a_connection_that_cannot_even_be_closed_well_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (scope["client"], scope["server"]) == (None, None)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    stream: Any = BrokenStream(get("/"))
    connections = Connections(app, HttpListening(), {})

    await connections.serve(stream)
    await connections.wait_left()

    assert stream.sent.startswith(b"HTTP/1.1 204 ")
    assert stream.socket.closed
    assert caplog.records == []


async def test_a_connection_accepted_in_the_moment_of_the_stop_is_closed() -> None:
    connections = Connections(App(), HttpListening(), {})
    await connections.stop()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listeners[0] as listener:
        port = listener.socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            with trio.fail_after(5):
                await connections.serve(await listener.accept())
                assert await read_all(client) == b""


class BuggyStream(BrokenStream):
    """Stands for a bug that nobody knows yet."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("a bug")


async def test_a_bug_costs_the_connection_it_shows_on(caplog: pytest.LogCaptureFixture) -> None:
    stream: Any = BuggyStream()
    connections = Connections(App(), HttpListening(), {})

    await connections.serve(stream)

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("trio_mcp.transports", "WARNING")
    assert record.getMessage() == "the connection from None failed and is closed"
    assert stream.socket.closed
