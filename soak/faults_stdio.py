"""The faults over stdio: servers that are killed or suspended, and clients that do not read or disconnect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from trio_mcp import ConnectionLost
from trio_mcp.testing import ScriptedPeer

from .accounting import CANCEL, KILL, SAFE
from .book import Book, WrongAnswerError
from .load import LARGE, start_many_calls
from .places import ERAS, ROOT, Fault, Place, Watched, stdio_command
from .shared_faults import SHARED, inside, pid_of

__all__ = ["STDIO_FAULTS"]

_ENDS_WITHIN = 20.0
"""The seconds within which a server must exit after its client is gone."""


@asynccontextmanager
async def server_killed(place: Place) -> AsyncGenerator[Watched]:
    """Kill a server with calls in flight: each call fails, and the client survives."""
    async with place.client(place.rng.choice(ERAS)) as client:
        pid = await pid_of(client)
        async with trio.open_nursery() as nursery:
            start_many_calls(nursery, client, place.book, peril=KILL)
            await trio.sleep(place.rng.uniform(0, 0.2))
            os.kill(pid, signal.SIGKILL)
        try:
            await inside(client)
        except ConnectionLost:
            pass
        else:
            place.book.fault("a server that was killed still answers")
        yield {}


@asynccontextmanager
async def server_frozen(place: Place) -> AsyncGenerator[Watched]:
    """Suspend a server with calls in flight and resume it: every call is answered."""
    async with place.client(place.rng.choice(ERAS)) as client, trio.open_nursery() as nursery:
        pid = await pid_of(client)
        start_many_calls(nursery, client, place.book, peril=SAFE)
        await trio.sleep(place.rng.uniform(0, 0.1))
        os.kill(pid, signal.SIGSTOP)
        try:
            yield {"frozen server": pid}
        finally:
            os.kill(pid, signal.SIGCONT)


@define(eq=False)
class RawClient:
    """A server process with a client that writes raw bytes and reads on demand."""

    process: trio.Process
    _book: Book
    _received: dict[int, Any] = field(factory=dict[int, Any], init=False)
    """The answers read so far, by request id."""
    _arrived: defaultdict[int, trio.Event] = field(factory=lambda: defaultdict(trio.Event), init=False)
    """The event that is set when the answer arrives, by request id."""
    _waiting: bytes = field(default=b"", init=False)
    _writing: trio.Lock = field(factory=trio.Lock, init=False)

    async def call(self, n: int, tool: str, **arguments: Any) -> None:
        """Call a tool; the number of the call is the id of the request."""
        params = {"name": tool, "arguments": {"n": n, **arguments}, "_meta": ScriptedPeer.envelope(ERAS[0])}
        line = json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params})
        assert self.process.stdin is not None
        async with self._writing:
            await self.process.stdin.send_all(line.encode() + b"\n")

    async def receive_all(self) -> None:
        """Read until standard output ends."""
        assert self.process.stdout is not None
        async for chunk in self.process.stdout:
            *lines, self._waiting = (self._waiting + bytes(chunk)).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["id"] in self._received:
                    self._book.fault(f"call {message['id']} was answered twice")
                self._received[message["id"]] = message
                self._arrived[message["id"]].set()

    async def answer(self, n: int) -> None:
        """Wait for the answer of a call and check that it is complete.

        Raises:
            WrongAnswerError: it is not.
        """
        await self._arrived[n].wait()
        message = self._received[n]
        content = message.get("result", {}).get("structuredContent", {})
        if content != {"n": n, "fill": "x" * LARGE}:
            raise WrongAnswerError(f"{n} was called, and the answer was {str(message)[:200]}")


@asynccontextmanager
async def raw_client(place: Place) -> AsyncGenerator[RawClient]:
    """Run a server process; at the end the client disconnects and the process must exit."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = await trio.lowlevel.open_process(stdio_command(place.folder), cwd=ROOT, **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with process.stdin, process.stdout:
            yield RawClient(process, place.book)
        with trio.move_on_after(_ENDS_WITHIN):
            await process.wait()
        if process.returncode is None:
            place.book.fault(f"a server still ran {_ENDS_WITHIN:g} s after its client had disconnected")
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def slow_reader(place: Place) -> AsyncGenerator[Watched]:
    """Request an answer larger than the pipe buffer and read it much later: it is complete and not duplicated."""
    async with raw_client(place) as peer, trio.open_nursery() as readers:

        async def ask_and_wait(n: int) -> None:
            await peer.call(n, "echo", size=LARGE)
            await peer.answer(n)

        async with trio.open_nursery() as calls:
            for _ in range(16):
                calls.start_soon(place.book.ask, "slow", ask_and_wait)
            await trio.sleep(0.5)
            yield {"server that is not read": peer.process.pid}
            readers.start_soon(peer.receive_all)
        readers.cancel_scope.cancel()


@asynccontextmanager
async def hung_up(place: Place) -> AsyncGenerator[Watched]:
    """Disconnect without notice with calls in flight: the server and its handlers end."""
    async with raw_client(place) as peer:
        for tool, arguments in (("hang", {}), ("nap", {"seconds": 0.3}), ("echo", {"size": LARGE})):
            with trio.CancelScope() as scope:

                async def call_and_leave(
                    n: int, tool: str = tool, arguments: Mapping[str, Any] = arguments, scope: trio.CancelScope = scope
                ) -> None:
                    await peer.call(n, tool, **arguments)
                    scope.cancel()
                    await trio.lowlevel.checkpoint()

                await place.book.ask("abandoned", call_and_leave, peril=CANCEL)
        await trio.sleep(place.rng.uniform(0, 0.5))
    yield {}


STDIO_FAULTS: Mapping[str, Fault] = {
    "server killed": server_killed,
    "server frozen": server_frozen,
    "slow reader": slow_reader,
    "hung up": hung_up,
    **SHARED,
}
