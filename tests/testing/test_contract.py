"""The transport contract, kept by the transports of this package."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing

from trio_mcp import open_client
from trio_mcp.abc import Answerer, Transport, TransportClient, TransportOpener
from trio_mcp.testing import (
    FaultyStream,
    RemoteTransportContract,
    StreamContract,
    TransportContract,
    contract_server,
)
from trio_mcp.testing._contract import call, text_of
from trio_mcp.transports import StdioServer, memory_transport, stdio_transport

PROGRAM = Path(__file__).parent / "programs" / "contract_program.py"


class TestMemory(TransportContract):
    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        yield memory_transport(server)


class TestAskingTheUser(TransportContract):
    """A transport that asks the user before it is connected."""

    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        @asynccontextmanager
        async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
            with client.asking_person():
                await trio.lowlevel.checkpoint()
            async with memory_transport(server)(client) as transport:
                yield transport

        yield connect


class TestStdio(RemoteTransportContract):
    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        yield stdio_transport(StdioServer([sys.executable, PROGRAM]))

    async def cut(self, transport: Transport) -> None:
        os.kill(int(text_of(await call(transport, "pid"))), signal.SIGKILL)


class TestBytes(StreamContract):
    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        return trio.testing.memory_stream_pair()


class TestLockstep(StreamContract):
    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        return trio.testing.lockstep_stream_pair()


class TestRepackaged(StreamContract):
    """A stream without half-close that delivers one message at a time."""

    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        ours, theirs = trio.testing.memory_stream_pair()
        return FaultyStream(ours), FaultyStream(theirs)


class TestUnixSocket(StreamContract):
    async def connected(self) -> tuple[trio.abc.Stream, trio.abc.Stream]:
        ours, theirs = trio.socket.socketpair()
        return trio.SocketStream(ours), trio.SocketStream(theirs)


async def test_the_server_of_the_contract_reports_its_process() -> None:
    async with open_client(contract_server()) as client:
        result = await client.call_tool("pid")

    assert result.structured_content == {"result": os.getpid()}
