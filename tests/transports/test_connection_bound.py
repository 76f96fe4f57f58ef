"""The bound on open connections: the order in which they give way, exhausted descriptors, and the log."""

from __future__ import annotations

import errno
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.transports.http.socket_clients import OK, get, read_all, read_until
from trio_mcp.transports import (
    BoundedListener,
    ConnectionBound,
    TurnListener,
    _connection_bound,
    bounded,
    default_max_connections,
    has_unread_data,
    socket_of,
)

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "few_descriptors.py"
TIMEOUT_SECONDS = 60  # seconds: far more than any test needs, so that a test that hangs fails


@define(eq=False)
class Connection:
    """A connection that records whether it was closed."""

    is_idle: bool = True
    aborted: int = field(default=0, init=False)

    def abort(self) -> None:
        self.aborted += 1


def filled(sender_of_each: str, *, idle: Sequence[int] = ()) -> tuple[ConnectionBound[Connection], list[Connection]]:
    """Return a full bound with a connection for each letter, which names its sender; those in *idle* are idle."""
    bound = ConnectionBound[Connection](len(sender_of_each))
    connections = [Connection(number in idle) for number in range(len(sender_of_each))]
    for sender, each in zip(sender_of_each, connections, strict=True):
        assert bound.admit(sender, each)
    return bound, connections


async def test_the_connection_that_is_idle_longest_gives_way() -> None:
    bound, connections = filled("abcde", idle=[1, 2])
    bound.used(connections[1])
    assert bound.admit("a", Connection())
    assert [each.aborted for each in connections] == [0, 0, 1, 0, 0]
    assert len(bound) == 5


async def test_without_an_idle_one_the_oldest_connection_of_the_address_with_the_most_gives_way() -> None:
    bound, connections = filled("baaa")
    assert bound.admit("b", Connection())
    assert [each.aborted for each in connections] == [0, 1, 0, 0]


async def test_an_address_with_more_than_half_of_the_places_takes_no_idle_connection_of_another() -> None:
    bound, connections = filled("baaa", idle=[0])
    assert not bound.admit("a", Connection())
    connections[2].is_idle = True
    assert bound.admit("a", Connection())
    assert [each.aborted for each in connections] == [0, 0, 1, 0]


async def test_an_address_with_half_of_the_places_takes_an_idle_connection_of_another() -> None:
    bound, connections = filled("aabb", idle=[2])
    assert bound.admit("a", Connection())
    assert [each.aborted for each in connections] == [0, 0, 1, 0]


async def test_of_an_address_with_many_places_the_connection_that_is_idle_longest_gives_way() -> None:
    bound, connections = filled("baaa", idle=[1, 2])
    bound.used(connections[1])
    assert bound.admit("b", Connection())
    assert [each.aborted for each in connections] == [0, 0, 1, 0]


async def test_idle_connections_of_an_address_with_more_than_a_quarter_of_the_places_give_way_first() -> None:
    bound, connections = filled("bcdeffaa", idle=[0, 1, 7])
    bound.remove(connections[4])
    assert bound.admit("a", Connection(is_idle=False))  # it takes the free place, and has three of eight
    assert bound.admit("f", Connection())
    assert bound.admit("g", Connection())
    assert [each.aborted for each in connections] == [1, 0, 0, 0, 0, 0, 0, 1]


async def test_a_search_for_an_idle_connection_looks_at_a_few_and_goes_on_where_the_last_one_ended() -> None:
    bound, connections = filled(20 * "abcde", idle=[70])
    assert not bound.make_room("a search that ends before the idle connection")
    assert bound.make_room("a search that goes on")
    assert [number for number, each in enumerate(connections) if each.aborted] == [70]


@pytest.mark.parametrize("address", ["a", "b"])
async def test_without_an_idle_one_a_newcomer_whose_address_has_as_many_is_refused(address: str) -> None:
    bound, connections = filled("aabb")
    newcomer = Connection()
    assert not bound.admit(address, newcomer)
    bound.used(newcomer)
    bound.remove(newcomer)
    assert [each.aborted for each in connections] == [0, 0, 0, 0]
    assert len(bound) == 4


async def test_a_connection_that_has_left_makes_room() -> None:
    bound, connections = filled("aa")
    bound.remove(connections[0])
    assert bound.admit("a", Connection(is_idle=False))
    assert not bound.admit("a", Connection())


async def test_a_full_bound_is_one_line_of_the_log_in_a_minute(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    bound, _ = filled("aa")
    for _ in range(1000):
        assert not bound.admit("a", Connection())
    (line,) = caplog.messages
    assert "max_connections=2" in line
    await trio.sleep(61)
    assert not bound.make_room("another reason")
    assert [each.rpartition("(")[2] for each in caplog.messages] == ["so far 1 times)", "so far 1001 times)"]


@define(eq=False)
class ExhaustedListener(trio.abc.Listener[trio.abc.Stream]):
    """A listener that has no room for some connections, and then fails in another way."""

    failures: list[int]

    async def accept(self) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise OSError(self.failures.pop(0), "no room")

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_listener_without_descriptors_closes_idle_connections_and_then_waits(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bound, connections = filled("aab", idle=[1])
    inner = ExhaustedListener([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EPERM])
    async with BoundedListener(inner, bound.make_room) as listener:
        with pytest.raises(OSError, match="no room") as caught:
            await listener.accept()
    assert caught.value.errno == errno.EPERM
    assert [each.aborted for each in connections] == [0, 1, 0]
    assert trio.current_time() == pytest.approx(0.2)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("soft", "most"),
    [(256, 192), (1024, 768), (1_048_576, 16_384), (resource.RLIM_INFINITY, 16_384), (1, 1)],
)
def test_the_default_is_three_quarters_of_the_descriptors(
    soft: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limits_of(_: int) -> tuple[int, int]:
        return soft, soft

    monkeypatch.setattr(resource, "getrlimit", limits_of)
    assert default_max_connections() == most


@pytest.mark.parametrize("most", ["default", "more"])
async def test_idle_connections_that_take_all_descriptors_keep_nobody_out(most: str) -> None:
    """With the default the bound is reached first; with a greater one, the system has no descriptor left."""
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    clients: list[trio.SocketStream] = []
    with trio.fail_after(TIMEOUT_SECONDS):
        command = [sys.executable, str(PROGRAM), most]
        process = await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            port = int(await read_until(process.stdout, b"\n"))
            for _ in range(150):
                clients.append(await trio.open_tcp_stream("127.0.0.1", port))
                await clients[-1].send_all(get("/"))
                assert (await read_until(clients[-1], b"fine")).startswith(OK)
            await process.stdin.aclose()
            log = (await read_all(process.stderr)).decode()
        finally:
            for each in clients:
                each.socket.close()
            process.kill()
            await process.wait()
    (line,) = log.splitlines()
    assert {"default": "max_connections=75", "more": "Too many open files"}[most] in line


async def test_the_socket_of_a_stream_is_found_below_tls_too() -> None:
    ours, theirs = socket.socketpair()
    async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
        with theirs:
            assert socket_of(stream) is stream.socket
            assert socket_of(trio.SSLStream(stream, ssl.create_default_context())) is stream.socket
            assert socket_of(trio.testing.memory_stream_pair()[0]) is None


async def test_data_that_was_not_read_is_seen_as_long_as_the_socket_is_open() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
            assert not has_unread_data(stream)
            theirs.send(b"x")
            assert has_unread_data(stream)
        assert not has_unread_data(stream)
    assert not has_unread_data(trio.testing.memory_stream_pair()[0])


@define(eq=False)
class Clients:
    """Clients at several addresses of this machine, which connect to one listener."""

    listener: trio.SocketListener
    streams: list[trio.SocketStream] = field(factory=list[trio.SocketStream], init=False)

    async def connect(self, *hosts: int) -> None:
        """Connect once from 127.0.0.n for each number."""
        for host in hosts:
            client = trio.socket.socket()
            await client.bind((f"127.0.0.{host}", 0))
            await client.connect(self.listener.socket.getsockname())
            self.streams.append(trio.SocketStream(client))


@asynccontextmanager
async def connecting() -> AsyncGenerator[Clients]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    clients = Clients(listener)
    try:
        yield clients
    finally:
        for each in clients.streams:
            each.socket.close()
        await listener.aclose()


async def hosts_of_accepted(
    listener: trio.abc.Listener[trio.SocketStream], bound: ConnectionBound[Any], times: int
) -> list[int]:
    """Accept so many connections, and count each while it is open; return the numbers of their hosts, in order."""
    hosts: list[int] = []
    for _ in range(times):
        async with await listener.accept() as stream:
            served = Connection(is_idle=False)
            host = int(stream.socket.getpeername()[0].rpartition(".")[2])
            assert bound.admit(host, served, stream.socket)
            hosts.append(host)
            bound.remove(served)
    return hosts


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no address but 127.0.0.1")


@linux_only
async def test_connections_that_have_arrived_are_served_in_turns_by_address() -> None:
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        listener = TurnListener(clients.listener, bound)
        await clients.connect(2, 2, 2, 2, 3, 3, 4)
        assert await hosts_of_accepted(listener, bound, 3) == [2, 3, 4]
        await clients.connect(5)
        assert await hosts_of_accepted(listener, bound, 5) == [2, 3, 5, 2, 2]
        assert len(bound) == 0


async def test_a_burst_is_accepted_in_portions_so_that_other_tasks_run_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_connection_bound, "_MOST_AT_ONCE", 2)
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        listener = TurnListener(clients.listener, bound)
        await clients.connect(1, 1, 1)
        async with await listener.accept() as stream:
            assert len(bound) == 2
            assert bound.admit(1, Connection(), stream.socket)
        assert await hosts_of_accepted(listener, bound, 2) == [1, 1]


@linux_only
async def test_beyond_the_bound_a_burst_of_one_address_gives_way_to_a_newcomer() -> None:
    bound = ConnectionBound[Connection](3)
    async with connecting() as clients:
        await clients.connect(2, 2, 2, 2, 2, 3)
        assert await hosts_of_accepted(TurnListener(clients.listener, bound), bound, 3) == [3, 2, 2]
        for given_way in (0, 3, 4):  # the oldest to the newcomer; the last two exceeded the bound
            assert await read_all(clients.streams[given_way]) in {b"", b"[reset]"}


@linux_only
async def test_a_connection_that_waits_gives_way_like_any_other() -> None:
    bound = ConnectionBound[Connection](4)
    async with connecting() as clients:
        listener = TurnListener(clients.listener, bound)
        await clients.connect(2, 2, 2, 2)
        assert await hosts_of_accepted(listener, bound, 1) == [2]  # the others wait
        for _ in range(2):
            assert bound.admit(3, Connection(is_idle=False))
        assert await read_all(clients.streams[1]) == b""
        assert await hosts_of_accepted(listener, bound, 2) == [2, 2]


async def test_a_connection_that_gives_way_between_its_turn_and_its_task_is_not_served() -> None:
    bound = ConnectionBound[Connection](2)
    async with connecting() as clients:
        await clients.connect(1, 1)
        async with TurnListener(clients.listener, bound) as listener, await listener.accept() as stream:
            newcomer = Connection(is_idle=False)
            assert bound.admit("elsewhere", newcomer)
            bound.remove(newcomer)
            assert not bound.admit(1, Connection(), stream.socket)  # although there is room: its socket is closed
            assert len(bound) == 1


async def test_connections_that_wait_are_closed_with_the_listener() -> None:
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        await clients.connect(1, 1)
        (listener,) = bounded([clients.listener], bound)
        async with listener:
            await hosts_of_accepted(listener, bound, 1)
            assert len(bound) == 1
        assert await clients.streams[1].receive_some() == b""
        assert len(bound) == 0


async def test_a_listener_that_is_closed_accepts_nothing() -> None:
    async with connecting() as clients:
        listener = TurnListener(clients.listener, ConnectionBound[Connection](100))
        await listener.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()


async def test_a_listener_waits_until_a_connection_arrives(nursery: trio.Nursery) -> None:
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        nursery.start_soon(clients.connect, 1)
        assert await hosts_of_accepted(TurnListener(clients.listener, bound), bound, 1) == [1]


async def test_a_cancelled_listener_takes_no_turn() -> None:
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        listener = TurnListener(clients.listener, bound)
        await clients.connect(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await listener.accept()
        assert scope.cancelled_caught
        assert await hosts_of_accepted(listener, bound, 1) == [1]


@define(eq=False)
class FailingOnce:
    """A listening socket whose accepts fail once, after some have succeeded."""

    after: int
    error: OSError
    has_failed: bool = field(default=False, init=False)
    _listening: socket.socket = field(init=False)

    @contextmanager
    def sharing(self, of: trio.socket.SocketType) -> Generator[FailingOnce]:
        """Stand for `_sharing_descriptor`."""
        with _share(of) as self._listening:
            yield self

    def accept(self) -> tuple[socket.socket, object]:
        if self.after == 0 and not self.has_failed:
            self.has_failed = True
            raise self.error
        self.after -= 1
        return self._listening.accept()


_share: Any = vars(_connection_bound)["_sharing_descriptor"]


async def hosts_of_accepted_although(failure: FailingOnce, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Accept two connections; return the numbers of their hosts."""
    monkeypatch.setattr(_connection_bound, "_sharing_descriptor", failure.sharing)
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        await clients.connect(1, 1)
        return await hosts_of_accepted(TurnListener(clients.listener, bound), bound, 2)


async def test_a_connection_that_was_aborted_before_it_was_accepted_affects_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure = FailingOnce(0, ConnectionAbortedError())
    assert await hosts_of_accepted_although(failure, monkeypatch) == [1, 1]
    assert failure.has_failed


async def test_connections_that_wait_are_served_although_the_system_has_no_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure = FailingOnce(1, OSError(errno.EMFILE, "too many open files"))
    assert await hosts_of_accepted_although(failure, monkeypatch) == [1, 1]
    assert failure.has_failed


async def test_a_listener_that_has_accepted_nothing_reports_that_the_system_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(OSError, match="too many open files"):
        await hosts_of_accepted_although(FailingOnce(0, OSError(errno.EMFILE, "too many open files")), monkeypatch)
