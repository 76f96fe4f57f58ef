"""`serve_listeners`: many connections of one serving, their failures and the shutdown."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import define, field
from trio.testing import memory_stream_pair

from trio_mcp import Context, Server, open_client, serve_listeners


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
