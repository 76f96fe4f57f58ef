"""A server process that is killed and restarted, as clients in a session see it, over real sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Client, open_http_client

PROGRAM = Path(__file__).parents[2] / "programs" / "counting_server.py"
CONCURRENT_CALLS = 8


@contextmanager
def reserved_port() -> Generator[int]:
    """Reserve a port: other processes do not get it by chance, and the server can listen on it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@asynccontextmanager
async def server_process(port: int) -> AsyncGenerator[None]:
    """Run the server until the block is left; then it is killed."""
    process = await trio.lowlevel.open_process([sys.executable, str(PROGRAM), str(port)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with process.stdout:
            assert (await process.stdout.receive_some()).startswith(b"ready")
            yield
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def count(client: Client) -> int:
    content: Any = (await client.call_tool("count")).structured_content
    return int(content["result"])


async def test_calls_that_a_restarted_server_did_not_accept_are_repeated_once() -> None:
    counts: list[int] = []

    async def note_count(client: Client) -> None:
        counts.append(await count(client))

    with reserved_port() as port, trio.fail_after(60):
        async with AsyncExitStack() as stack:
            async with server_process(port):
                opening = [open_http_client(f"http://127.0.0.1:{port}/mcp", revision="2025-11-25") for _ in range(3)]
                one, listening, many = [await stack.enter_async_context(each) for each in opening]
                changes = await stack.enter_async_context(listening.listen(tools=True))
                assert [await count(client) for client in (one, listening, many)] == [1, 2, 3]
            async with server_process(port):
                async with trio.open_nursery() as nursery:
                    for client in (one, listening, *[many] * CONCURRENT_CALLS):
                        nursery.start_soon(note_count, client)
                    await anext(changes)  # some changes may have been missed
                await stack.aclose()

    assert sorted(counts) == [*range(1, CONCURRENT_CALLS + 3)]


async def test_the_first_call_during_a_restart_waits_for_the_server() -> None:
    counts: list[int] = []

    async def note_count(client: Client) -> None:
        counts.append(await count(client))

    with reserved_port() as port, trio.fail_after(60):
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            opening = open_http_client(f"http://127.0.0.1:{port}/mcp", revision="2025-11-25")
            async with server_process(port):
                client = await stack.enter_async_context(opening)
                assert await count(client) == 1
            nursery.start_soon(note_count, client)  # nobody listens at the port
            await wait_all_tasks_blocked()
            async with server_process(port):
                while not counts:
                    await wait_all_tasks_blocked(0.01)
                await stack.aclose()

    assert counts == [1]
