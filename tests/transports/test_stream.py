"""Connections over arbitrary streams."""

from __future__ import annotations

import ssl
import sys
from functools import partial

import pytest
import trio
import trio.testing

from trio_mcp import Server, open_client, serve_stream, start_stream_client, types
from trio_mcp.transports import server_link


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@pytest.mark.requirement("B.5-P2")
async def test_a_server_can_listen_on_tcp_for_many_clients(server: Server) -> None:
    with trio.fail_after(60):
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


async def accepted(listener: trio.SocketListener, local_address: str) -> tuple[trio.SocketStream, trio.SocketStream]:
    """Connect from an address of this machine; return the server's and the client's end."""
    host, port = listener.socket.getsockname()
    client = await trio.open_tcp_stream(host, port, local_address=local_address)
    return await listener.accept(), client


async def test_connections_from_one_address_share_their_handler_slots(server: Server) -> None:
    async with server.serving() as serving, (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] as listener:
        pairs = [await accepted(listener, address) for address in ("127.0.0.1", "127.0.0.1", "127.0.0.2")]
        first, second, other = (server_link(each, serving) for each, _ in pairs)
        behind_tls = trio.SSLStream(pairs[0][0], ssl.create_default_context(), server_hostname="localhost")
        over_tls = server_link(behind_tls, serving)

        assert first.slots is second.slots is over_tls.slots is not other.slots
        assert first.listens is second.listens is not other.listens
        assert not first.slots.is_alone
        for each in [end for pair in pairs for end in pair]:
            await each.aclose()


async def test_connections_over_unix_sockets_of_one_user_share_their_handler_slots(server: Server) -> None:
    pairs = [trio.socket.socketpair() for _ in range(2)]
    async with server.serving() as serving:
        links = [server_link(trio.SocketStream(ours), serving) for ours, _ in pairs]
        assert links[0].slots is links[1].slots
        assert links[0].slots.is_alone is (sys.platform != "linux")
        for each in [end for pair in pairs for end in pair]:
            each.close()


async def test_a_connection_without_an_address_has_handler_slots_of_its_own(server: Server) -> None:
    in_memory, _ = trio.testing.memory_stream_pair()
    left = trio.socket.socket()
    async with server.serving() as serving:
        links = [server_link(in_memory, serving), server_link(trio.SocketStream(left), serving)]
        assert links[0].slots is not links[1].slots
        assert all(link.slots.is_alone for link in links)
        left.close()
