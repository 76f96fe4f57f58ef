"""A custom transport, client and server side: messages over TCP, each preceded by its length in four bytes.

``python custom_transport.py`` serves on a free port, connects to it, and calls a tool. The tests in
`trio_mcp.testing.TransportContract` define the requirements for a transport; this transport passes them.
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
    """A stream that converts the lines of a link to frames, and received frames to lines."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Wrap *stream*, and close it with this object."""
        self.stream = stream
        self.unsent = bytearray()  # an incomplete line
        self.header = bytearray()  # the incomplete header of the next frame
        self.missing = 0  # bytes of the present frame that have not arrived yet

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send a frame for each line; *data* may contain several lines, or a part of a long one."""
        *lines, rest = bytes(self.unsent + data).split(b"\n")
        self.unsent = bytearray(rest)
        await self.stream.send_all(b"".join(len(line).to_bytes(HEADER_BYTES, "big") + line for line in lines))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until sending might not block."""
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return a part of a frame, with a newline at the end of the frame. The link limits the length of a line."""
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
        return bytes(part).replace(b"\n", b" ") + end if part else b""  # a newline in JSON is equal to a space

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self.stream.aclose()


def framed_transport(host: str, port: int) -> TransportOpener:
    """Return an opener that connects a client to `serve_framed`."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        stream = FramedStream(await trio.open_tcp_stream(host, port))
        async with stream_transport(stream)(client) as transport:
            yield transport

    return connect


async def serve_framed(
    server: Answerer, port: int, *, task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve every connection to the local *port* until cancelled."""
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
