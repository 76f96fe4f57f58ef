"""The same stop on every transport: accept nothing more, expire questions, drain, flush, and exit with 0."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from trio_mcp import (
    Client,
    ConnectionBroken,
    ConnectionLost,
    ErrorResponse,
    ResponseLost,
    ServerExited,
    open_client,
    types,
)
from trio_mcp.wire import encode

PROGRAM = Path(__file__).with_name("stopping_server.py")
LEGACY, MODERN = types.REVISIONS[-2], types.REVISIONS[-1]


@define(eq=False)
class Stoppable:
    """A server in a separate process, and a client of it."""

    client: Client
    folder: Path
    pid: int = 0
    process: trio.Process | None = None
    """The process of the server, unless it is the client's own child."""
    stream: trio.SocketStream | None = None
    """The connection, over sockets."""
    url: str = ""
    """The URL of the server, over HTTP."""

    def release(self) -> None:
        """Let the calls of `finish` end."""
        (self.folder / "release").touch()

    async def status(self) -> int:
        """Wait until the server has exited without output; return its exit status."""
        if self.process is None:
            with pytest.raises(ServerExited) as exited:
                while True:
                    await self.client.list_tools()
            assert exited.value.stderr_tail == ()
            return exited.value.status
        status = await self.process.wait()
        assert self.process.stderr is not None
        assert b"".join([bytes(chunk) async for chunk in self.process.stderr]) == b""
        return status


@asynccontextmanager
async def over_stdio(folder: Path, **options: Any) -> AsyncGenerator[Stoppable]:
    async with open_client([sys.executable, str(PROGRAM), str(folder)], **options) as client:
        stoppable = Stoppable(client, folder)
        stoppable.pid = (await client.call_tool("pid")).structured_content["result"]
        yield stoppable


@asynccontextmanager
async def over_socket(folder: Path, kind: str, **options: Any) -> AsyncGenerator[Stoppable]:
    command = [sys.executable, str(PROGRAM), str(folder), kind]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        output = b""
        while not output.endswith(b"\n"):
            output += await process.stdout.receive_some()
        address = output.decode().strip()
        url = address.removeprefix("serving at ")
        stream = await connected(folder, address) if url == address else None
        async with open_client(url if stream is None else stream, **options) as client:
            yield Stoppable(client, folder, process.pid, process, stream, url)
    finally:
        process.kill()
        await process.wait()


async def connected(folder: Path, address: str) -> trio.SocketStream:
    if address == "ready":
        return await trio.open_unix_socket(str(folder / "socket"))
    return await trio.open_tcp_stream("127.0.0.1", int(address))


@asynccontextmanager
async def stoppable_over(transport: str, folder: Path, **options: Any) -> AsyncGenerator[Stoppable]:
    opened = over_stdio(folder, **options) if transport == "stdio" else over_socket(folder, transport, **options)
    with trio.fail_after(30):
        async with opened as stoppable:
            yield stoppable


@pytest.fixture(params=["stdio", "unix", "tcp", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.complaint(11)
async def test_after_a_signal_the_server_answers_accepted_calls_and_exits_with_0(
    transport: str, number: int, tmp_path: Path
) -> None:
    async with stoppable_over(transport, tmp_path) as server:
        async with server.client.open_call("finish") as first, server.client.open_call("finish") as second:
            await anext(first.updates)
            await anext(second.updates)
            os.kill(server.pid, number)
            server.release()
            assert (await first.result()).structured_content == {"result": "done"}
            assert (await second.result()).structured_content == {"result": "done"}
        assert await server.status() == 0


async def test_after_the_end_of_input_the_server_answers_accepted_calls(tmp_path: Path) -> None:
    async with stoppable_over("unix", tmp_path) as server, server.client.open_call("finish") as call:
        await anext(call.updates)
        assert server.stream is not None
        await server.stream.send_eof()
        server.release()
        assert (await call.result()).structured_content == {"result": "done"}


@pytest.mark.complaint(12)
async def test_after_the_end_of_standard_input_the_server_answers_accepted_calls_and_exits_with_0(
    tmp_path: Path,
) -> None:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    request = types.unstructure(types.CallToolRequestParams(name="finish", meta=meta))
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + encode(request) + b"}\n"
    (tmp_path / "release").touch()
    with trio.fail_after(30):
        ended = await trio.run_process(
            [sys.executable, str(PROGRAM), str(tmp_path)], stdin=line, capture_stdout=True, capture_stderr=True
        )
    assert ended.returncode == 0
    assert b'"result":"done"' in ended.stdout
    assert ended.stderr == b""


@pytest.mark.parametrize("transport", ["unix", "tcp"])
async def test_a_stopping_server_accepts_no_connection_and_no_request(transport: str, tmp_path: Path) -> None:
    async with stoppable_over(transport, tmp_path) as server, server.client.open_call("finish") as call:
        await anext(call.updates)
        os.kill(server.pid, signal.SIGTERM)
        assert server.stream is not None
        address: Any = server.stream.socket.getpeername()
        with pytest.raises(OSError):  # noqa: PT011 # each kind of socket refuses with its own error
            while True:
                await (await again(address)).aclose()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(unanswered, server.client)
            server.release()
            assert (await call.result()).structured_content == {"result": "done"}
        assert await server.status() == 0


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_over_http_a_stopping_server_accepts_no_connection_and_no_request(revision: str, tmp_path: Path) -> None:
    async with stoppable_over("http", tmp_path, revision=revision) as server:
        async with server.client.open_call("finish") as call:
            await anext(call.updates)
            os.kill(server.pid, signal.SIGTERM)
            with pytest.raises((ResponseLost, ErrorResponse)) as unanswered:
                while True:
                    await server.client.call_tool("pid")
            assert isinstance(unanswered.value, ResponseLost) or "the server stops" in str(unanswered.value)
            with pytest.raises(ConnectionBroken, match="cannot connect"):
                async with open_client(server.url, revision=revision):
                    pass
            server.release()
            assert (await call.result()).content == [types.TextContent(text="done")]
        assert await server.status() == 0


async def again(address: Any) -> trio.SocketStream:
    if isinstance(address, str):
        return await trio.open_unix_socket(address)
    return await trio.open_tcp_stream(*address)


async def unanswered(client: Client) -> None:
    with pytest.raises(ConnectionLost):
        await client.list_tools()


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_after_a_signal_open_questions_expire_and_their_handlers_clean_up(
    transport: str, revision: str, tmp_path: Path
) -> None:
    has_asked = trio.Event()

    async def answer(_: object) -> types.ElicitResult:
        has_asked.set()
        await trio.sleep_forever()
        raise AssertionError

    async def call(client: Client) -> None:
        if revision == MODERN:  # its call has been answered with the question, so no request waits for the handler
            with pytest.raises(ConnectionBroken):
                await client.call_tool("ask")
        else:
            assert (await client.call_tool("ask")).is_error

    async with stoppable_over(transport, tmp_path, revision=revision, on_elicit=answer) as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, server.client)
            await has_asked.wait()
            os.kill(server.pid, signal.SIGTERM)
            if revision == MODERN:
                assert await server.status() == 0
                nursery.cancel_scope.cancel()
        assert (tmp_path / "expired").read_text() == "cleaned up"
        assert await server.status() == 0
