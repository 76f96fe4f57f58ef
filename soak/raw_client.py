"""A client that sends raw messages and reads on demand, and the faults that such a client causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from trio_mcp.testing import ScriptedPeer
from trio_mcp.wire import decode, encode

from .accounting import CANCEL
from .book import Book, WrongAnswerError
from .load import LARGE
from .places import ERAS

__all__ = ["RawClient", "leave_at_work", "read_late"]

_CALLS = 16


@define(eq=False)
class RawClient:
    """A client of the newest revision that sends what it is told, and reads only while `receive_all` runs.

    Args:
        book: records faults.
        send: sends the bytes of one message.
        messages: the received messages, until the server ends them.
    """

    _book: Book
    _send: Callable[[bytes], Awaitable[None]]
    _messages: AsyncIterable[bytes]
    _received: dict[int, Any] = field(factory=dict[int, Any], init=False)
    """The answers read so far, by request id."""
    _arrived: defaultdict[int, trio.Event] = field(factory=lambda: defaultdict(trio.Event), init=False)
    """The event that is set when the answer arrives, by request id."""
    _sending: trio.Lock = field(factory=trio.Lock, init=False)

    async def call(self, n: int, tool: str, **arguments: Any) -> None:
        """Call a tool; the number of the call is the id of the request."""
        params = {"name": tool, "arguments": {"n": n, **arguments}, "_meta": ScriptedPeer.envelope(ERAS[0])}
        async with self._sending:
            await self._send(encode({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}))

    async def receive_all(self) -> None:
        """Read until the server ends the connection."""
        async for received in self._messages:
            message: Any = decode(received)
            if "id" not in message:  # the answer to a message that could not be read
                continue
            if message["id"] in self._received:
                self._book.fault(f"call {message['id']} was answered twice")
            self._received[message["id"]] = message
            self._arrived[message["id"]].set()
        for arrived in self._arrived.values():
            arrived.set()

    async def answer(self, n: int, size: int) -> None:
        """Wait for the answer of a call and check that it is complete.

        Raises:
            WrongAnswerError: it is not.
        """
        await self._arrived[n].wait()
        if n not in self._received:
            raise WrongAnswerError(f"{n} was called, and the server ended the connection")
        message = self._received[n]
        content = message.get("result", {}).get("structuredContent", {})
        if content != {"n": n, "fill": "x" * size}:
            raise WrongAnswerError(f"{n} was called, and the answer was {str(message)[:200]}")


@asynccontextmanager
async def read_late(peer: RawClient, book: Book, size: int = LARGE) -> AsyncGenerator[None]:
    """Request answers larger than the buffers of the system, and read them after the block: they are complete."""

    async def ask_and_wait(n: int) -> None:
        await peer.call(n, "echo", size=size)
        await peer.answer(n, size)

    async with trio.open_nursery() as readers:
        async with trio.open_nursery() as calls:
            for _ in range(_CALLS):
                calls.start_soon(book.ask, "slow", ask_and_wait)
            await trio.sleep(0.5)
            yield
            readers.start_soon(peer.receive_all)
        readers.cancel_scope.cancel()


async def leave_at_work(peer: RawClient, book: Book) -> None:
    """Make calls and wait for none: the caller disconnects with them in flight."""
    for tool, arguments in (("hang", {}), ("nap", {"seconds": 0.3}), ("echo", {"size": LARGE})):
        with trio.CancelScope() as scope:

            async def call_and_leave(
                n: int, tool: str = tool, arguments: Mapping[str, Any] = arguments, scope: trio.CancelScope = scope
            ) -> None:
                await peer.call(n, tool, **arguments)
                scope.cancel()
                await trio.lowlevel.checkpoint()

            await book.ask("abandoned", call_and_leave, peril=CANCEL)
