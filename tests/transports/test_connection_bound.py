"""The bound on open connections: the order in which they give way, exhausted descriptors, and the log."""

from __future__ import annotations

import errno
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.transports.http.socket_clients import OK, get, read_all, read_until
from trio_mcp.transports import BoundedListener, ConnectionBound, default_max_connections, socket_of

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
