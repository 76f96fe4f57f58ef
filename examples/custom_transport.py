"""A transport of one's own, both sides: over TCP, each message is preceded by its length in four bytes.

``python custom_transport.py`` serves on a free port, connects to it, and calls a tool. What a transport has to keep is
written down, as tests, in `trio_mcp.testing.TransportContract`; this one keeps it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import trio

from trio_mcp import Server, open_client, serve_stream
from trio_mcp.abc import Answerer, Transport, TransportClient, TransportOpener
from trio_mcp.lowlevel import stream_transport

HEADER_BYTES = 4


class FramedStream(trio.abc.Stream):
    """Lines on this side, frames on the other: what a link sends as a line travels as a frame, and the reverse."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Take over *stream*."""
        self.stream = stream
        self.unsent = bytearray()  # a line whose end has not come yet
        self.header = bytearray()  # of the frame that comes next
        self.missing = 0  # bytes of the frame that comes now

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send a frame for each line; a link hands over several lines at once, or a long one in parts."""
        *lines, rest = bytes(self.unsent + data).split(b"\n")
        self.unsent = bytearray(rest)
        await self.stream.send_all(b"".join(len(line).to_bytes(HEADER_BYTES, "big") + line for line in lines))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there may be room."""
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return a part of a frame, with a newline where it ends. How long one may be is up to the link."""
        while not self.missing:
            chunk = await self.stream.receive_some(HEADER_BYTES - len(self.header))
            if not chunk:
                return b""
            self.header += chunk
            if len(self.header) == HEADER_BYTES:
                self.missing = int.from_bytes(self.header, "big")
                self.header.clear()
        part = await self.stream.receive_some(self.missing if max_bytes is None else min(self.missing, max_bytes))
        self.missing -= len(part)
        end = b"" if self.missing else b"\n"
        return bytes(part).replace(b"\n", b" ") + end if part else b""  # inside of JSON a newline is but a space

    async def aclose(self) -> None:
        """Close what was taken over."""
        await self.stream.aclose()


def framed_transport(host: str, port: int) -> TransportOpener:
    """Return what connects a client to `serve_framed`, anew each time."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        stream = FramedStream(await trio.open_tcp_stream(host, port))
        async with stream_transport(stream)(client) as transport:
            yield transport

    return connect


async def serve_framed(
    server: Answerer, port: int, *, task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve every connection to *port* of this machine, until cancelled."""
    async with server.serving() as serving:

        async def serve(stream: trio.SocketStream) -> None:
            await serve_stream(serving, FramedStream(stream))

        await trio.serve_tcp(serve, port, host="127.0.0.1", task_status=task_status)


async def main() -> None:
    """Serve, connect and call."""
    server = Server("framed")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(serve_framed, server, 0))
        port = listeners[0].socket.getsockname()[1]
        async with open_client(framed_transport("127.0.0.1", port)) as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            print(client.revision, result.structured_content)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
