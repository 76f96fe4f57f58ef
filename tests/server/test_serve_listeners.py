"""`serve_listeners`: many connections of one serving, their failures and the shutdown."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair

from tests.transports.http.socket_clients import reset
from trio_mcp import ConnectionLost, Context, Server, open_client, serve_listeners


@define(eq=False)
class Listener(trio.abc.Listener[trio.abc.Stream]):
    """A listener that accepts the streams and raises the exceptions of the test."""

    closed: bool = field(default=False, init=False)
    _send: trio.MemorySendChannel[trio.abc.Stream | Exception] = field(init=False)
    _receive: trio.MemoryReceiveChannel[trio.abc.Stream | Exception] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[trio.abc.Stream | Exception](10)

    def connect(self) -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        self._send.send_nowait(theirs)
        return ours

    def put(self, accepted: trio.abc.Stream | Exception) -> None:
        self._send.send_nowait(accepted)

    async def accept(self) -> trio.abc.Stream:
        accepted = await self._receive.receive()
        if isinstance(accepted, Exception):
            raise accepted
        return accepted

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


class FailingListener(Listener):
    """A listener that fails to accept; its methods contain no checkpoint."""

    async def accept(self) -> trio.abc.Stream:
        raise OSError("no more")

    async def aclose(self) -> None:
        self.closed = True


class Broken(trio.abc.Stream):
    """A stream of another class, with a bug."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise ValueError("a bug")

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise ValueError("a bug")

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def make_server(log: list[str]) -> Server:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[str]:
        log.append("entered")
        try:
            yield "shared"
        finally:
            log.append("left")

    server = Server("many", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.state)

    return server


async def test_all_connections_share_one_lifespan(nursery: trio.Nursery) -> None:
    log: list[str] = []
    listener = Listener()
    assert await nursery.start(serve_listeners, make_server(log), [listener]) == [listener]
    async with open_client(listener.connect()) as one, open_client(listener.connect()) as other:
        for client in (one, other):
            assert (await client.call_tool("state")).structured_content == {"result": "shared"}
    assert log == ["entered"]
    nursery.cancel_scope.cancel()


async def test_a_failed_connection_does_not_affect_the_others(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    await nursery.start(serve_listeners, make_server([]), [listener])
    async with open_client(listener.connect()) as client:
        listener.put(Broken())
        await client.list_tools()
        await client.list_tools()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == ["a connection failed"]
    nursery.cancel_scope.cancel()


async def test_the_exception_of_a_listener_ends_the_serving() -> None:
    log: list[str] = []
    listener = Listener()
    listener.put(OSError("no more"))
    with pytest.raises(OSError, match="no more"):
        await serve_listeners(make_server(log), [listener])
    assert log == ["entered", "left"]
    assert listener.closed


async def test_the_exceptions_of_two_listeners_are_raised_as_a_group() -> None:
    with pytest.raises(ExceptionGroup) as group:
        await serve_listeners(make_server([]), [FailingListener(), FailingListener()])
    assert len(group.value.exceptions) == 2


async def test_a_lifespan_that_fails_closes_the_listeners() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        raise ValueError("no database")
        yield

    listener = Listener()
    with pytest.raises(ValueError, match="no database"):
        await serve_listeners(Server("s", lifespan=lifespan), [listener])
    assert listener.closed


async def test_a_signal_while_the_lifespan_is_entered_ends_the_serving(autojump_clock: object) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep_forever()
        yield

    listener = Listener()
    await serve_listeners(Server("s", lifespan=lifespan), [listener])
    assert listener.closed


async def test_a_connection_that_arrives_while_the_server_stops_is_closed() -> None:
    log: list[str] = []
    listener = Listener()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_listeners, make_server(log), [listener])
        async with open_client(listener.connect()) as client:
            await client.list_tools()
            late = listener.connect()
            signal.raise_signal(signal.SIGTERM)
            assert await late.receive_some() == b""
    assert log == ["entered", "left"]


def make_waiting_server(begun: trio.Event) -> Server:
    server = Server("waiting")

    @server.tool
    async def wait() -> None:
        begun.set()
        await trio.sleep_forever()

    @server.tool
    async def state() -> str:
        return "served"

    return server


@pytest.mark.parametrize("kind", ["sockets", "other streams"])
async def test_beyond_the_bound_the_connection_whose_last_request_is_longest_ago_is_closed(
    kind: str, nursery: trio.Nursery
) -> None:
    begun = trio.Event()
    server = make_waiting_server(begun)
    memory = Listener()
    listeners: list[trio.abc.Listener[trio.abc.Stream]] = [memory]
    port = 0
    if kind == "sockets":
        (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = tcp.socket.getsockname()[1]
        listeners = [cast("trio.abc.Listener[trio.abc.Stream]", tcp)]

    async def connect() -> trio.abc.Stream:
        return await trio.open_tcp_stream("127.0.0.1", port) if port else memory.connect()

    await nursery.start(partial(serve_listeners, server, listeners, max_connections=3))
    with trio.fail_after(60):
        async with (
            open_client(await connect()) as busy,
            open_client(await connect()) as second,
            open_client(await connect()) as third,
        ):
            nursery.start_soon(busy.call_tool, "wait")
            await begun.wait()
            await third.call_tool("state")
            await second.call_tool("state")
            async with open_client(await connect()) as newcomer:
                await newcomer.call_tool("state")
                await second.call_tool("state")
                with pytest.raises(ConnectionLost):
                    await third.call_tool("state")
            nursery.cancel_scope.cancel()


async def test_a_connection_beyond_the_bound_is_closed_if_none_is_idle(nursery: trio.Nursery) -> None:
    begun = trio.Event()
    listener = Listener()
    await nursery.start(partial(serve_listeners, make_waiting_server(begun), [listener], max_connections=1))
    with trio.fail_after(60):
        async with open_client(listener.connect()) as client:
            nursery.start_soon(client.call_tool, "wait")
            await begun.wait()
            assert await listener.connect().receive_some() == b""
            await client.call_tool("state")
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("most", [0, -1])
async def test_a_bound_on_connections_that_is_not_above_zero_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match=r"max_connections=.*must be above 0"):
        await serve_listeners(make_server([]), [Listener()], max_connections=most)


async def test_a_client_that_resets_before_it_is_accepted_affects_no_other(nursery: trio.Nursery) -> None:
    (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = tcp.socket.getsockname()[1]
    await reset(await trio.open_tcp_stream("127.0.0.1", port))
    listeners: list[trio.abc.Listener[trio.abc.Stream]] = [cast("trio.abc.Listener[trio.abc.Stream]", tcp)]
    await nursery.start(partial(serve_listeners, make_server([]), listeners))
    with trio.fail_after(60):
        async with open_client(await trio.open_tcp_stream("127.0.0.1", port)) as client:
            await client.call_tool("state")
        nursery.cancel_scope.cancel()
