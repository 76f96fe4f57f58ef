"""HTTP connections: timeouts, stopped processes, clients that do not read or that disconnect, and bugs."""

from __future__ import annotations

import errno
import math
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.transports.http.socket_clients import (
    OK,
    App,
    Http2Client,
    answer,
    begin,
    get,
    read_all,
    read_until,
    reset,
    send_part,
    serving,
    wait_for_disconnect,
)
from trio_mcp.transports import HttpListening, HttpRequest, Receive, Scope, Send, bind_sockets, serve_asgi
from trio_mcp.transports.http.hypercorn import _connection as _hypercorn_connection
from trio_mcp.transports.http.hypercorn._connection import Connections, _Deadlines
from trio_mcp.transports.http.server import CUT_EXTENSION, HttpChannel

SHORT_SECONDS, LONG_SECONDS = 0.4, 1000.0  # seconds: a timeout that tests wait for, and one that never expires


@pytest.mark.parametrize("start", [b"", b"GET / HT"], ids=["nothing", "a part of a head"])
async def test_a_client_that_does_not_finish_its_first_head_is_disconnected(start: bytes) -> None:
    async with serving(App(), head_seconds=SHORT_SECONDS) as served, await served.connect() as stream:
        await stream.send_all(start)

        assert await read_all(stream) == b""


async def test_a_client_that_sends_a_later_head_too_slowly_is_disconnected() -> None:
    async with (
        serving(App(), head_seconds=SHORT_SECONDS, keep_alive_seconds=LONG_SECONDS) as served,
        await served.connect() as stream,
    ):
        await stream.send_all(get("/"))
        await read_until(stream, b"fine")
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                for byte in get("/" + "x" * 1000):
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(SHORT_SECONDS / 10)

            nursery.start_soon(trickle)
            assert await read_all(stream) in {b"", b"[reset]"}
            nursery.cancel_scope.cancel()


async def test_a_connection_may_be_idle_for_longer_than_the_timeout_of_a_head() -> None:
    limits = {"head_seconds": SHORT_SECONDS, "keep_alive_seconds": LONG_SECONDS}
    async with serving(App(), **limits) as served, await served.connect() as stream:
        for _ in range(2):
            await stream.send_all(get("/"))
            assert (await read_until(stream, b"fine")).startswith(OK)
            await trio.sleep(2 * SHORT_SECONDS)


async def test_a_connection_that_is_idle_for_too_long_is_closed() -> None:
    async with serving(App(), keep_alive_seconds=SHORT_SECONDS) as served, await served.connect() as stream:
        await stream.send_all(get("/"))
        await read_until(stream, b"fine")

        assert await read_all(stream) == b""


async def test_requests_that_arrive_while_the_process_is_blocked_are_served() -> None:
    async def answer_soon(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(SHORT_SECONDS / 2)
        await begin(send)
        await send({"type": "http.response.body", "body": b"fine"})

    async with serving(App({"/": answer_soon}), keep_alive_seconds=SHORT_SECONDS) as served:
        streams = [await served.connect() for _ in range(8)]
        for stream in streams:
            await stream.send_all(get("/"))
        for stream in streams:
            await read_until(stream, b"0\r\n\r\n")
        for stream in streams:
            os.write(stream.socket.fileno(), get("/"))  # the server learns of it when it runs again
        time.sleep(2 * SHORT_SECONDS)  # noqa: ASYNC251 # as in a process that is stopped, or on a machine that sleeps

        assert [(await read_until(stream, b"0\r\n\r\n"))[: len(OK)] for stream in streams] == [OK] * 8


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "a later one"])
async def test_a_request_that_arrives_while_the_process_is_stopped_in_its_wait_is_served(is_first: bool) -> None:
    """A signal ends the wait of the process after the deadline, before the process has looked for received data."""
    limit = 3 * SHORT_SECONDS
    limits = {"head_seconds": limit if is_first else LONG_SECONDS, "keep_alive_seconds": limit}
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


async def test_a_client_that_never_stops_sending_is_disconnected_soon_after_its_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_hypercorn_connection, "_LATE_SECONDS", SHORT_SECONDS)
    async with serving(App(), head_seconds=SHORT_SECONDS) as served, trio.open_nursery() as nursery:
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


async def test_a_stream_continues_while_its_client_sends_nothing() -> None:
    async def stream_slowly(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await trio.sleep(4 * SHORT_SECONDS)
        await send({"type": "http.response.body", "body": b"late"})

    limits = {"head_seconds": 3 * SHORT_SECONDS, "keep_alive_seconds": SHORT_SECONDS, "write_seconds": SHORT_SECONDS}
    async with serving(App({"/stream": stream_slowly}), **limits) as served, await served.connect() as stream:
        await stream.send_all(get("/stream"))

        assert b"late" in await read_until(stream, b"0\r\n\r\n")


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send)
    while True:
        await send_part(send, bytes(1_000_000))


class FloodingApp:
    """An application that sends until its client has disconnected, and then sets `left`."""

    def __init__(self) -> None:
        self.left = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, scope, receive, send)
            await wait_for_disconnect(receive)
            nursery.cancel_scope.cancel()
        self.left.set()


async def test_a_client_that_reads_nothing_is_disconnected_and_the_application_is_notified() -> None:
    flooding = FloodingApp()
    async with (
        serving(App({"/flood": flooding}), write_seconds=SHORT_SECONDS) as served,
        await served.connect() as stream,
    ):
        await stream.send_all(get("/flood"))

        await flooding.left.wait()
        assert (await read_all(stream)).endswith(b"[reset]")


async def test_a_client_that_reads_slowly_keeps_its_connection() -> None:
    size, timeout = 6_000_000, 0.8

    async def send_much(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        start = trio.current_time()
        await send_part(send, bytes(size))
        assert trio.current_time() - start > timeout
        await send({"type": "http.response.body", "body": b"end"})

    async with serving(App({"/much": send_much}), write_seconds=timeout) as served, await served.connect() as stream:
        await stream.send_all(get("/much", "connection: close"))
        received = bytearray()
        for pause in range(1, 16):
            await trio.sleep(0.15)
            while len(received) < size * pause / 15:
                received += await stream.receive_some()

        assert (received + await read_all(stream)).endswith(b"3\r\nend\r\n0\r\n\r\n")


@pytest.mark.parametrize("ending", ["a stop", "cancellation"])
async def test_a_client_that_reads_nothing_does_not_delay_the_shutdown(ending: str) -> None:
    flooding = FloodingApp()
    async with trio.open_nursery() as nursery:
        async with serving(
            App({"/flood": flooding}), write_seconds=LONG_SECONDS, drain_seconds=SHORT_SECONDS
        ) as served:
            stream = await served.connect()
            await stream.send_all(get("/flood"))
            await trio.testing.wait_all_tasks_blocked(SHORT_SECONDS)
            with trio.fail_after(60):
                if ending == "a stop":
                    served.stop.set()
                    await served.ended.wait()
                else:
                    served.nursery.cancel_scope.cancel()
                    await flooding.left.wait()
        nursery.cancel_scope.cancel()


async def test_a_client_that_disconnects_before_it_is_accepted_causes_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
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


async def test_clients_that_reset_their_connection_affect_no_other_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stream_for_ever(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"first")
        await wait_for_disconnect(receive)
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
        assert await served.serves_others()

    assert caplog.records == []


class BrokenSocket:
    """A socket whose other end is unreachable, which a test cannot achieve with a real one."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self.closed = 0

    def getpeername(self) -> object:
        raise OSError(errno.ENOTCONN, "not connected")

    getsockname = getpeername

    def close(self) -> None:
        self.closed += 1


class BrokenStream(trio.abc.Stream):
    """A stream that delivers requests, ends after the answer, and raises when it is closed."""

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


async def test_a_connection_whose_close_raises_is_closed(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_a_connection_that_is_accepted_during_the_stop_is_closed() -> None:
    connections = Connections(App(), HttpListening(), {})
    await connections.stop()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listeners[0] as listener:
        port = listener.socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            with trio.fail_after(60):
                await connections.serve(await listener.accept())
                assert await read_all(client) == b""


class BuggyStream(BrokenStream):
    """A stream that raises an unexpected exception, as a bug does."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("a bug")


async def test_an_unexpected_exception_closes_its_own_connection(caplog: pytest.LogCaptureFixture) -> None:
    stream: Any = BuggyStream()
    connections = Connections(App(), HttpListening(), {})

    await connections.serve(stream)

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("trio_mcp.transports", "WARNING")
    assert record.getMessage() == "the connection from None failed and is closed"
    assert stream.socket.closed


async def test_beyond_the_bound_the_connection_that_is_idle_longest_is_closed() -> None:
    async with serving(App(), max_connections=3) as served:
        streams = [await served.connect() for _ in range(3)]
        for stream in (*streams, streams[0]):
            await stream.send_all(get("/"))
            await read_until(stream, b"fine")

        assert await served.serves_others()
        assert await read_all(streams[1]) == b""
        await streams[0].send_all(get("/"))
        assert (await read_until(streams[0], b"fine")).startswith(OK)


@define(eq=False)
class Program:
    """Serves directly, with a context variable that each request sets."""

    seen: list[str | None] = field(factory=list[str | None])

    def answers_directly(self, request: HttpRequest) -> bool:
        return True

    async def answer(self, request: HttpRequest, channel: HttpChannel) -> None:
        self.seen.append(LATEST.get())
        LATEST.set(request.path)
        channel.put((200, [("content-length", "0")]), b"", more=False)


LATEST: ContextVar[str | None] = ContextVar("LATEST", default=None)


async def test_the_context_variables_of_a_request_are_not_seen_by_the_next_on_the_same_connection() -> None:
    program = Program()
    async with serving(App(), direct=program) as served, await served.connect() as stream:
        for path in ("/first", "/second"):
            await stream.send_all(get(path))
            await read_until(stream, b"\r\n\r\n")

    assert program.seen == [None, None]


async def test_a_connection_that_is_closed_before_its_task_begins_affects_no_other(nursery: trio.Nursery) -> None:
    connections = Connections(App(), HttpListening(max_connections=1), {})
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            accepted = await listener.accept()
            accepted.socket.close()
            await connections.serve(accepted)
            assert await read_all(client) in {b"", b"[reset]"}
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            nursery.start_soon(connections.serve, await listener.accept())
            await client.send_all(get("/"))
            assert (await read_until(client, b"fine")).startswith(OK)
        connections.abort()


@pytest.mark.parametrize("method", ["recv", "send"])
async def test_a_system_that_would_block_after_all_is_asked_again(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(socket.socket, method)

    def block_once(*_: object) -> int:
        monkeypatch.setattr(socket.socket, method, original)
        raise BlockingIOError

    async with serving(App()) as served, await served.connect() as stream:
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(socket.socket, method, block_once)
        os.write(stream.socket.fileno(), get("/"))
        assert (await read_until(stream, b"fine")).startswith(OK)


async def test_a_complete_response_is_sent_whole_to_a_client_that_has_ended_its_side() -> None:
    body = bytes(8_000_000)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        sending.set()
        await answer(send, body)

    sending = trio.Event()
    async with serving(App({"/large": respond})) as served, await served.connect() as stream:
        await stream.send_all(get("/large"))
        await sending.wait()
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_eof()
        reply = await read_all(stream)

    assert reply.partition(b"\r\n\r\n")[2] == body


async def test_a_connection_with_a_request_that_was_sent_ahead_is_not_idle() -> None:
    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await answer(send)

    begun, go_on = trio.Event(), trio.Event()
    async with serving(App({"/wait": wait}), max_connections=1) as served, await served.connect() as stream:
        await stream.send_all(get("/") + get("/wait"))
        await read_until(stream, b"fine")
        await begun.wait()
        assert await read_all(await served.connect()) in {b"", b"[reset]"}
        go_on.set()
        assert (await read_until(stream, b"fine")).startswith(OK)


async def test_a_connection_with_a_part_of_a_head_that_was_sent_ahead_is_idle() -> None:
    async with serving(App(), max_connections=1) as served, await served.connect() as stream:
        await stream.send_all(get("/") + b"GET /rest")
        await read_until(stream, b"fine")
        await trio.testing.wait_all_tasks_blocked()

        assert await served.serves_others()
        assert await read_all(stream) in {b"", b"[reset]"}


async def test_a_connection_without_a_whole_first_head_is_idle() -> None:
    async with serving(App(), max_connections=1) as served, await served.connect() as stream:
        await stream.send_all(b"GET / HT")

        assert await served.serves_others()
        assert await read_all(stream) in {b"", b"[reset]"}


async def test_a_request_that_has_arrived_is_answered_although_a_newcomer_needs_the_place(
    nursery: trio.Nursery,
) -> None:
    connections = Connections(App(), HttpListening(max_connections=1), {})
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            nursery.start_soon(connections.serve, await listener.accept())
            await client.send_all(get("/"))
            assert (await read_until(client, b"fine")).startswith(OK)
            async with await trio.open_tcp_stream("127.0.0.1", port) as newcomer:
                accepted = await listener.accept()
                os.write(client.socket.fileno(), get("/"))  # and no checkpoint, so the server has not read it
                await connections.serve(accepted)
                assert (await read_until(client, b"fine")).startswith(OK)
                assert await read_all(newcomer) in {b"", b"[reset]"}
        connections.abort()


async def test_if_all_connections_are_in_use_the_address_with_the_most_gives_way() -> None:
    async def hold(scope: Scope, receive: Receive, send: Send) -> None:
        await begin(send)
        await send_part(send, b"begun")
        await wait_for_disconnect(receive)

    async with serving(App({"/hold": hold}), max_connections=4) as served:

        async def connect_from(address: str) -> trio.SocketStream:
            assert served.bound.port is not None
            stream = await trio.open_tcp_stream("127.0.0.1", served.bound.port, local_address=address)
            served.clients.append(stream)
            await stream.send_all(get("/hold"))
            return stream

        greedy = [await connect_from("127.0.0.2") for _ in range(4)]
        for stream in greedy:
            await read_until(stream, b"begun")
        refused = await connect_from("127.0.0.2")
        assert await read_all(refused) in {b"", b"[reset]"}
        other = [await connect_from("127.0.0.3") for _ in range(2)]
        for stream in other:
            await read_until(stream, b"begun")

        for stream in greedy[:2]:
            assert await read_all(stream) in {b"", b"[reset]"}
        assert await read_all(await connect_from("127.0.0.3")) in {b"", b"[reset]"}


class Passes(trio.abc.Instrument):
    """An instrument that counts the passes of the event loop."""

    def __init__(self) -> None:
        self.number = 0

    def before_io_wait(self, timeout: float) -> None:
        """Count a pass."""
        self.number += 1


async def test_the_requests_of_clients_that_leave_together_end_in_many_passes_of_the_event_loop() -> None:
    passes, left = Passes(), Counter[int]()
    waiting, clients = 0, 60

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal waiting
        waiting += 1
        while (await receive())["type"] != "http.disconnect":
            pass
        left[passes.number] += 1

    async with serving(App({"/": wait})) as served:
        streams = [await served.connect() for _ in range(clients)]
        for stream in streams:
            await stream.send_all(get("/"))
        while waiting < clients:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.add_instrument(passes)
        for stream in streams:
            stream.socket.close()  # without a pass in between
        while left.total() < clients:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(passes)

    assert max(left.values()) <= 16


async def test_a_response_may_be_cut_after_its_connection_has_ended() -> None:
    cuts: list[Callable[[], None]] = []

    async def keep_cut(scope: Scope, receive: Receive, send: Send) -> None:
        cuts.append(scope["extensions"][CUT_EXTENSION])
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serving(App({"/": keep_cut})) as served, await served.connect() as stream:
        await stream.send_all(get("/"))
        while not cuts:
            await trio.lowlevel.checkpoint()
    cuts[0]()


async def test_a_connection_that_may_be_idle_for_ever_has_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    enter = _Deadlines.enter

    def note(self: _Deadlines, connection: Any) -> None:
        enter(self, connection)
        times.append(connection.deadline)

    monkeypatch.setattr(_Deadlines, "enter", note)
    options = {"keep_alive_seconds": math.inf, "head_seconds": 0.01}
    async with serving(App(), **options) as served, await served.connect() as stream:
        for _ in range(3):
            await stream.send_all(get("/"))
            await read_until(stream, b"fine")
            await trio.sleep(0.02)
    assert len(times) == 1
    assert times[0] < math.inf
