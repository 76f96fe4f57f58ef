"""The transport of `examples/custom_transport.py` fulfils the transport contract."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio.testing

from trio_mcp import ConnectionBroken, Limits, Server, open_client, types
from trio_mcp.abc import Answerer, Transport, TransportOpener
from trio_mcp.testing import RemoteTransportContract

PROGRAM = Path(__file__).parents[2] / "examples" / "custom_transport.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("custom_transport", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load()


class TestFramed(RemoteTransportContract):
    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        async with trio.open_nursery() as nursery:
            self.server_port = port_of(await nursery.start(partial(example.serve_framed, server, 0)))
            self.lines: list[trio.SocketStream] = []
            relay = partial(trio.serve_tcp, self.relay, 0, host="127.0.0.1")
            yield example.framed_transport("127.0.0.1", port_of(await nursery.start(relay)))
            nursery.cancel_scope.cancel()

    async def relay(self, near: trio.SocketStream) -> None:
        """Relay a connection that the test can cut."""
        async with near, await trio.open_tcp_stream("127.0.0.1", self.server_port) as far:
            self.lines += [near, far]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pump, near, far)
                nursery.start_soon(pump, far, near)

    async def cut(self, transport: Transport) -> None:
        for line in self.lines:
            await trio.aclose_forcefully(line)


def port_of(listeners: list[trio.SocketListener]) -> int:
    return int(listeners[0].socket.getsockname()[1])


async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    """Copy one direction of a connection; if it is reset, reset the other side too."""
    try:
        async for chunk in source:
            await sink.send_all(chunk)
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await trio.aclose_forcefully(sink)


def test_the_program_runs_unchanged() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "2026-07-28 {'result': 3}\n", "")


async def test_received_frames_may_contain_newlines_and_arrive_in_chunks_of_any_size() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream, message = example.FramedStream(ours), b'{\n  "a": 1\n}'
    for byte in len(message).to_bytes(4, "big") + message:
        await theirs.send_all(bytes([byte]))

    received = b""
    while not received.endswith(b"\n"):
        received += await stream.receive_some(5)
    await theirs.aclose()

    assert received == b'{   "a": 1 }\n'
    assert await stream.receive_some() == b""


async def test_lines_may_be_sent_in_chunks_of_any_size() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream = example.FramedStream(ours)

    for part in (b"[1]\n[", memoryview(b"2"), b"2]\n\n[3]"):
        await stream.send_all(part)
        await stream.wait_send_all_might_not_block()
    await stream.aclose()

    assert await theirs.receive_some() == b"\0\0\0\3[1]\0\0\0\4[22]\0\0\0\0"


async def test_a_frame_that_is_too_long_is_skipped_and_the_next_one_is_read() -> None:
    server = Server("s", limits=Limits(max_message_bytes=1000))

    @server.tool
    async def size(text: str) -> int:
        return len(text)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(example.serve_framed, server, 0))
            opener = example.framed_transport("127.0.0.1", listeners[0].socket.getsockname()[1])
            async with open_client(opener) as client:
                with trio.move_on_after(0.05) as scope:  # the error response has no id, so the request gets no answer
                    await client.call_tool("size", {"text": "x" * 5000})
                assert scope.cancelled_caught
                assert (await client.call_tool("size", {"text": "xyz"})).content == [types.TextContent(text="3")]
            nursery.cancel_scope.cancel()


async def test_a_connection_that_ends_inside_a_frame_raises_connection_broken() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def send_half_a_frame() -> None:
            await theirs.receive_some()
            await theirs.send_all(b'\0\0\0\xff{"jsonrpc"')
            await theirs.aclose()

        nursery.start_soon(send_half_a_frame)
        raised: list[ConnectionBroken] = []
        try:
            async with open_client(example.FramedStream(ours)):
                pass
        except ConnectionBroken as exc:
            raised.append(exc)
    assert len(raised) == 1
