"""Connections over arbitrary streams."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from trio_mcp import Server, open_client, serve_stream, start_stream_client, types


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@pytest.mark.requirement("B.5-P2")
async def test_a_server_can_listen_on_tcp_for_many_clients(server: Server) -> None:
    with trio.fail_after(10):
        async with server.serving() as serving, trio.open_nursery() as nursery:
            listeners = await nursery.start(
                partial(trio.serve_tcp, partial(serve_stream, serving), 0, host="127.0.0.1")
            )
            address = listeners[0].socket.getsockname()
            for _ in range(2):
                async with open_client(await trio.open_tcp_stream(*address)) as client:
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            nursery.cancel_scope.cancel()


async def test_both_ends_close_their_streams(server: Server) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        client = await start_stream_client(nursery, ours)
        await client.aclose()
    for stream in (ours, theirs):
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")


class OneByteStream(trio.abc.Stream):
    """A stream that receives one byte at a time."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        del max_bytes
        return await self._stream.receive_some(1)


@pytest.mark.requirement("B.5-P1b")
async def test_messages_may_arrive_in_chunks_of_any_size(server: Server) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, OneByteStream(theirs))
        async with open_client(OneByteStream(ours)) as client:
            called = await client.call_tool("add", {"a": 1, "b": 2})
    assert called.content == [types.TextContent(text="3")]
