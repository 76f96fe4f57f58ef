"""The deadlines of connections over HTTP/1.1: when silent clients are disconnected, and what is left of closed ones."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.transports.http.socket_clients import OK, App, answer, get, read_all, read_until
from trio_mcp.transports import HttpListening, Receive, Scope, Send
from trio_mcp.transports.http.hypercorn._connection import Connections

HEAD, KEEP_ALIVE = 10.0, 60.0


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """A clock that jumps when nothing has happened for a moment, which the system may need to deliver bytes."""
    return trio.testing.MockClock(autojump_threshold=0.02)


@define(eq=False)
class Running:
    """Connections whose deadlines are watched, and their clients."""

    connections: Connections
    nursery: trio.Nursery
    _listener: trio.SocketListener
    _clients: list[trio.SocketStream] = field(factory=list[trio.SocketStream], init=False)

    @property
    def alarms(self) -> int:
        """The number of alarms that are set."""
        return len(self.connections.deadlines._alarms)

    async def connect(self) -> trio.SocketStream:
        """Return the client's end of a new connection."""
        port = self._listener.socket.getsockname()[1]
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        self._clients.append(stream)
        self.nursery.start_soon(self.connections.serve, await self._listener.accept())
        return stream

    def close(self) -> None:
        for stream in self._clients:
            stream.socket.close()


@asynccontextmanager
async def running(app: Any = None, **settings: Any) -> AsyncGenerator[Running]:
    options: dict[str, Any] = {"head_seconds": HEAD, "keep_alive_seconds": KEEP_ALIVE, **settings}
    connections = Connections(app or App(), HttpListening(**options), {})
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(connections.watch)
        found = Running(connections, nursery, listener)
        yield found
        found.close()
        connections.abort()


async def request(stream: trio.SocketStream) -> None:
    """Make a request that is answered."""
    await stream.send_all(get("/"))
    assert (await read_until(stream, b"fine")).startswith(OK)


async def seconds_to_end(stream: trio.SocketStream) -> float:
    """Return the time until the server closes the connection."""
    before = trio.current_time()
    assert await read_all(stream) in {b"", b"[reset]"}
    return trio.current_time() - before


async def test_a_first_head_has_to_arrive_in_time(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        stream = await server.connect()
        assert await seconds_to_end(stream) == pytest.approx(HEAD, abs=0.5)


async def test_the_parts_of_a_head_do_not_move_its_deadline(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        stream = await server.connect()
        for _ in range(3):
            await stream.send_all(b"G")
            await trio.sleep(3)
        assert await seconds_to_end(stream) == pytest.approx(HEAD - 9, abs=0.5)


async def test_an_idle_connection_is_closed_in_time_and_each_request_moves_that(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        stream = await server.connect()
        for _ in range(10):
            await request(stream)
            await trio.sleep(KEEP_ALIVE - 1)
        assert await seconds_to_end(stream) == pytest.approx(1, abs=0.5)


async def test_a_later_head_that_has_begun_has_to_arrive_in_time(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        stream = await server.connect()
        await request(stream)
        await trio.sleep(KEEP_ALIVE / 2)
        await stream.send_all(b"G")
        assert await seconds_to_end(stream) == pytest.approx(HEAD, abs=0.5)
        await trio.sleep(KEEP_ALIVE)
        assert server.alarms == 0


async def test_a_head_in_parts_is_served_and_leaves_no_early_deadline(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        stream = await server.connect()
        for _ in range(3):
            await stream.send_all(get("/")[:5])
            await trio.sleep(HEAD - 1)
            await stream.send_all(get("/")[5:])
            await read_until(stream, b"fine")
        assert await seconds_to_end(stream) == pytest.approx(KEEP_ALIVE, abs=0.5)


async def test_many_connections_are_closed_each_at_its_own_time(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        begun, ended = list[float](), dict[int, float]()

        async def wait(number: int, stream: trio.SocketStream) -> None:
            assert await read_all(stream) == b""
            ended[number] = trio.current_time()

        async with trio.open_nursery() as waiting:
            streams = [await server.connect() for _ in range(20)]
            for number, stream in enumerate(reversed(streams)):
                await request(stream)
                begun.append(trio.current_time())
                waiting.start_soon(wait, number, stream)
                await trio.sleep(0.4)
        assert list(ended) == list(range(20))
        for number, time in enumerate(begun):
            assert ended[number] - time == pytest.approx(KEEP_ALIVE, abs=0.5)
        await trio.sleep(HEAD)
        assert server.alarms == 0


async def test_a_request_in_progress_has_no_deadline(clock: trio.testing.MockClock) -> None:
    async def answer_late(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(10 * KEEP_ALIVE)
        await answer(send)

    async with running(App({"/": answer_late})) as server:
        stream = await server.connect()
        await request(stream)
        assert server.alarms <= 1
        assert await seconds_to_end(stream) == pytest.approx(KEEP_ALIVE, abs=0.5)


async def test_a_connection_has_one_alarm_however_many_requests_it_makes(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        stream = await server.connect()
        for _ in range(100):
            await request(stream)
        assert server.alarms == 1


async def test_a_stop_ends_connections_that_wait_at_once(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        streams = [await server.connect() for _ in range(3)]
        for stream in streams[:2]:
            await request(stream)
        before = trio.current_time()
        await server.connections.stop()
        for stream in streams:
            assert await read_all(stream) == b""
        await server.connections.wait_left()
        assert trio.current_time() - before < 1


async def test_a_watch_that_begins_after_the_end_returns(clock: trio.testing.MockClock) -> None:
    connections = Connections(App(), HttpListening(), {})
    connections.abort()
    with trio.fail_after(1):
        await connections.watch()


@pytest.mark.parametrize("is_first", [True, False])
async def test_the_alarm_of_a_closed_connection_holds_nothing(is_first: bool, clock: trio.testing.MockClock) -> None:
    async with running(head_seconds=1e6, keep_alive_seconds=1e6) as server:
        stream = await server.connect()
        if not is_first:
            await request(stream)
        await trio.testing.wait_all_tasks_blocked()
        (connection,) = server.connections._open
        found = weakref.ref(connection)
        del connection
        await stream.aclose()
        await server.connections.wait_left()
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()

        assert server.alarms == 0
        assert found() is None


async def test_the_alarm_of_a_closed_connection_is_passed_over_when_others_are_due(
    clock: trio.testing.MockClock,
) -> None:
    async with running() as server:
        streams = [await server.connect() for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        await streams.pop(1).aclose()
        for stream in streams:
            assert await read_all(stream) in {b"", b"[reset]"}
        await server.connections.wait_left()

        assert server.alarms == 0


async def test_alarms_of_closed_connections_are_no_more_than_those_of_open_ones(clock: trio.testing.MockClock) -> None:
    async with running(head_seconds=1e6, keep_alive_seconds=1e6) as server:
        streams = [await server.connect() for _ in range(6)]
        await trio.testing.wait_all_tasks_blocked()
        alarms: list[int] = []
        for stream in streams[:5]:
            await stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            alarms.append(server.alarms)

        assert alarms == [6, 6, 6, 2, 2]


async def test_the_alarm_of_a_closed_connection_is_removed_before_it_goes_off(clock: trio.testing.MockClock) -> None:
    async with running() as server:
        streams: list[trio.SocketStream] = []
        for _ in range(4):
            streams.append(await server.connect())
            await trio.sleep(1)
        await streams.pop(1).aclose()
        before, alarms = trio.current_time(), list[int]()
        for stream, age in zip(streams, (4, 2, 1), strict=True):
            assert await read_all(stream) in {b"", b"[reset]"}
            assert trio.current_time() - before == pytest.approx(HEAD - age, abs=0.5)
            await trio.testing.wait_all_tasks_blocked()
            alarms.append(server.alarms)

        assert alarms == [2, 1, 0]
