"""A link under test, and a raw peer at the other end of its stream that writes and reads lines."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field
from trio.testing import memory_stream_pair

from trio_mcp import ConnectionLost, McpError
from trio_mcp._util import owned_nursery
from trio_mcp.peer import (
    Admission,
    ClientSession,
    HandlerPool,
    HandlerRun,
    IncomingRequest,
    Limits,
    Link,
    ServerSession,
)
from trio_mcp.testing import ScriptedPeer
from trio_mcp.transports.stdio import ImmediateStream
from trio_mcp.transports.stdio._pipes import PipeStream
from trio_mcp.types import REVISIONS
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REVISION_KEY,
    JsonObject,
    encode,
)

Pair = Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]]
Handlers = Mapping[str, Callable[[HandlerRun], Awaitable[JsonObject]]]
NEVER = 10_000.0
"""A number of seconds of the mock clock that no test reaches."""


def pipe_pair() -> tuple[trio.abc.Stream, trio.abc.Stream]:
    """Return two streams that are connected by real pipes."""
    (our_input, their_output), (their_input, our_output) = (map(trio.lowlevel.FdStream, os.pipe()) for _ in range(2))
    return PipeStream(our_output, our_input), trio.StapledStream(their_output, their_input)


@define(eq=False)
class RawPeer(ScriptedPeer):
    """A scripted peer at the other end of a link's stream, which writes several messages at once."""

    async def send(self, *messages: Any) -> None:
        """Send each message as one line, and bytes unchanged, in a single write."""
        await self.stream.send_all(
            b"".join(message if isinstance(message, bytes) else encode(message) + b"\n" for message in messages)
        )

    async def exchange(self, *messages: Any) -> Any:
        """Send *messages*, and return the next line that is received."""
        await self.send(*messages)
        return await self.receive()


@define(eq=False)
class Bench:
    """A link, the peer at its other end, and the notifications that its owner received."""

    peer: RawPeer
    pool: HandlerPool
    connection: trio.Nursery
    """The nursery in which the link runs; cancel its scope to cancel the link."""
    handlers: Handlers
    waits: bool
    """True if the handlers may wait."""
    link: Link = field(init=False)
    notifications: list[tuple[str, JsonObject]] = field(factory=list[tuple[str, JsonObject]], init=False)
    ended: trio.Event = field(factory=trio.Event, init=False)

    def answer(self, exchange: IncomingRequest) -> None:
        handler = self.handlers.get(exchange.method)
        if handler is not None:
            self.pool.begin(exchange, handler, explain, waits=self.waits)
        elif exchange.method in {"initialize", "ping"}:
            exchange.respond({"revision": exchange.context.revision})
        else:
            exchange.respond(McpError(METHOD_NOT_FOUND, f"no method {exchange.method}"))

    def notified(self, method: str, params: JsonObject) -> None:
        self.notifications.append((method, params))

    async def run(self, *, drain: bool, disconnect_reason: Callable[[], ConnectionLost] | None) -> None:
        try:
            await self.link.run(drain=drain, disconnect_reason=disconnect_reason)
        finally:
            self.ended.set()

    def holds_nothing(self) -> bool:
        """Return True if the link remembers no exchange and nothing waits in it."""
        facts = self.link.statistics()
        return (facts.outgoing, facts.incoming, facts.running, facts.queued, facts.update_bytes) == (0, 0, 0, 0, 0)


def explain(failure: Exception) -> JsonObject | McpError:
    return failure if isinstance(failure, McpError) else McpError(INTERNAL_ERROR, repr(failure))


@asynccontextmanager
async def linked(
    handlers: Handlers | None = None,
    *,
    admission: Admission | None = None,
    limits: Limits | None = None,
    pair: Pair = memory_stream_pair,
    drain: bool = True,
    never_wait: bool = False,
    disconnect_reason: Callable[[], ConnectionLost] | None = None,
) -> AsyncGenerator[Bench]:
    """Run a link whose other end is a `RawPeer`; it is a server's link by default, or that of *admission*."""
    ours, theirs = pair()
    async with owned_nursery() as serving, owned_nursery() as connection:
        bench = Bench(RawPeer(theirs), HandlerPool(serving), connection, handlers or {}, not never_wait)
        bench.link = Link(
            admission or ServerSession(list(REVISIONS)),
            bench.answer,
            bench.notified,
            limits or Limits(),
            ours,
            send_now=ours.send_now if isinstance(ours, ImmediateStream) else None,
        )

        async def run() -> None:
            await bench.run(drain=drain, disconnect_reason=disconnect_reason)

        connection.start_soon(run)
        yield bench


def client_admission(revision: str | None) -> ClientSession:
    """Return the session of a client after agreement on *revision*, or before the agreement if that is None."""
    admission = ClientSession()
    if revision is not None:
        admission.agree(revision, {}, None)
    return admission


def modern(id: int | str, method: str, params: JsonObject | None = None, **meta: Any) -> JsonObject:
    """Return a request of the modern era."""
    envelope: JsonObject = {REVISION_KEY: REVISIONS[-1], CAPABILITIES_KEY: {}, **meta}
    return request(id, method, {**(params or {}), "_meta": envelope})


def request(id: Any, method: str, params: Any = None) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: Any = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def cancelled(id: Any, **more: Any) -> JsonObject:
    return notification("notifications/cancelled", {"requestId": id, **more})


def result(id: Any, result: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def initialize(id: int, revision: str, **more: Any) -> JsonObject:
    info = {"name": "raw", "version": "1"}
    return request(id, "initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": info, **more})


async def handshake(bench: Bench, revision: str) -> None:
    """Go through the handshake for *revision*."""
    assert await bench.peer.exchange(initialize(0, revision)) == result(0, {"revision": revision})
    await bench.peer.send(notification("notifications/initialized"))
