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
    bound, connections = filled("abc", idle=[1, 2])
    bound.used(connections[1])
    assert bound.admit("a", Connection())
    assert [each.aborted for each in connections] == [0, 0, 1]
    assert len(bound) == 3


async def test_without_an_idle_one_the_oldest_connection_of_the_address_with_the_most_gives_way() -> None:
    bound, connections = filled("baaa")
    assert bound.admit("b", Connection())
    assert [each.aborted for each in connections] == [0, 1, 0, 0]


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


async def hosts_of_accepted(listener: trio.abc.Listener[trio.SocketStream], times: int) -> list[int]:
    """Accept so many connections; return the numbers of the hosts that they come from, in order."""
    hosts: list[int] = []
    for _ in range(times):
        async with await listener.accept() as stream:
            hosts.append(int(stream.socket.getpeername()[0].rpartition(".")[2]))
    return hosts


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no address but 127.0.0.1")


@linux_only
async def test_connections_that_have_arrived_are_served_in_turns_by_address() -> None:
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        listener = TurnListener(clients.listener, bound)
        await clients.connect(2, 2, 2, 2, 3, 3, 4)
        assert await hosts_of_accepted(listener, 3) == [2, 3, 4]
        await clients.connect(5)
        assert await hosts_of_accepted(listener, 5) == [2, 3, 5, 2, 2]
        assert len(bound) == 0


@linux_only
async def test_connections_are_accepted_in_the_order_of_their_arrival_if_there_is_no_room_to_wait() -> None:
    async with connecting() as clients:
        await clients.connect(2, 2, 2, 3)
        assert await hosts_of_accepted(TurnListener(clients.listener, ConnectionBound[Connection](7)), 4) == [
            2,
            2,
            2,
            3,
        ]


@linux_only
async def test_a_connection_that_waits_gives_way_like_any_other() -> None:
    bound = ConnectionBound[Connection](11)
    async with connecting() as clients:
        listener = TurnListener(clients.listener, bound)
        await clients.connect(2, 2, 2, 2)
        assert await hosts_of_accepted(listener, 1) == [2]  # the others wait
        for _ in range(8):
            assert bound.admit(None, Connection(is_idle=False))
        assert bound.admit("elsewhere", Connection(is_idle=False))
        assert await clients.streams[1].receive_some() == b""
        assert await hosts_of_accepted(listener, 2) == [2, 2]


async def test_connections_that_wait_are_closed_with_the_listener() -> None:
    bound = ConnectionBound[Connection](100)
    async with connecting() as clients:
        await clients.connect(1, 1)
        (listener,) = bounded([clients.listener], bound)
        async with listener:
            await hosts_of_accepted(listener, 1)
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
    async with connecting() as clients:
        listener = TurnListener(clients.listener, ConnectionBound[Connection](100))
        nursery.start_soon(clients.connect, 1)
        assert await hosts_of_accepted(listener, 1) == [1]


async def test_a_cancelled_listener_takes_no_turn() -> None:
    async with connecting() as clients:
        listener = TurnListener(clients.listener, ConnectionBound[Connection](100))
        await clients.connect(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await listener.accept()
        assert scope.cancelled_caught
        assert await hosts_of_accepted(listener, 1) == [1]


class AbortedOnce:
    """A listening socket whose first connection was aborted by its client."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.was_aborted = False

    def accept(self) -> tuple[socket.socket, object]:
        if self.was_aborted:
            return self.listening.accept()
        self.was_aborted = True
        raise ConnectionAbortedError


async def test_a_connection_that_was_aborted_before_it_was_accepted_affects_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aborted: list[AbortedOnce] = []
    share: Any = vars(_connection_bound)["_sharing_descriptor"]

    @contextmanager
    def sharing(of: trio.socket.SocketType) -> Generator[AbortedOnce]:
        with share(of) as listening:
            aborted.append(AbortedOnce(listening))
            yield aborted[-1]

    monkeypatch.setattr(_connection_bound, "_sharing_descriptor", sharing)
    async with connecting() as clients:
        await clients.connect(1)
        assert await hosts_of_accepted(TurnListener(clients.listener, ConnectionBound[Connection](100)), 1) == [1]
    assert aborted[0].was_aborted
