"""One end of a connection by hand, so that it may say what no program of ours would."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeAlias, Unpack

import trio
import trio.testing
from attrs import define, field

from trio_mcp import Client, ClientOptions, Server, open_stream_client, serve_stream
from trio_mcp.types import METHODS

Json: TypeAlias = dict[str, Any]
Script: TypeAlias = "Callable[[Raw], Awaitable[object]]"

MODERN = "2026-07-28"
INFO = {"name": "raw", "version": "0"}
META = "io.modelcontextprotocol/"
EVERYTHING: Json = {"completions": {}, "logging": {}, "prompts": {}, "resources": {"subscribe": True}, "tools": {}}
"""What a server by hand declares."""
ENVELOPE: Json = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}


@define(eq=False)
class Raw:
    """Messages in and out of one end of a stream, as plain JSON values."""

    stream: trio.abc.HalfCloseableStream
    _unread: bytearray = field(factory=bytearray, init=False)
    _ids: count[int] = field(factory=lambda: count(1000), init=False)

    async def send(self, *messages: Any) -> None:
        """Send each as a line; bytes go as they are."""
        for message in messages:
            await self.stream.send_all(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    async def receive(self) -> Any:
        """Return the next message, None at the end."""
        while (end := self._unread.find(b"\n")) < 0:
            chunk = await self.stream.receive_some()
            if not chunk:
                assert not self._unread, "the last line is incomplete"
                return None
            self._unread += chunk
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return json.loads(line)

    async def rest(self) -> list[Any]:
        """Return all messages until the end."""
        messages: list[Any] = []
        while (message := await self.receive()) is not None:
            messages.append(message)
        return messages

    # As a client.

    async def greet(self, revision: str) -> None:
        """Make the handshake of a legacy revision; a modern one has none."""
        if "initialize" not in METHODS[revision]:
            return
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}
        answer = await self.request(MODERN, "initialize", params, envelope={})
        assert answer["result"]["protocolVersion"] == revision
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def request(self, revision: str, method: str, params: Json | None, *, envelope: Json = ENVELOPE) -> Any:
        """Send a request with what its revision adds, and return the next message, which must be its response."""
        id = next(self._ids)
        if revision == MODERN and envelope:
            params = {"_meta": envelope, **(params or {})}
        await self.send({"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params}))
        answer = await self.receive()
        assert answer["id"] == id, answer
        return answer

    # As a server.

    async def answer(self, result: Json, *, method: str | None = None) -> Json:
        """Receive a request and send its result; return the request."""
        request: Json = await self.receive()
        assert method in (None, request["method"]), request
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        return request

    async def refuse(self, code: int, data: Any = None, *, method: str | None = None) -> Json:
        """Receive a request and answer with an error; return the request."""
        request: Json = await self.receive()
        assert method in (None, request["method"]), request
        error: Json = {"code": code, "message": "no"} | ({} if data is None else {"data": data})
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return request

    async def answer_discover(self, *versions: str) -> Json:
        """Answer the probe as a server of *versions*."""
        result: Json = {"resultType": "complete", "supportedVersions": versions, "capabilities": EVERYTHING, "ttlMs": 0}
        return await self.answer(result | {"cacheScope": "private"}, method="server/discover")

    async def answer_initialize(self, revision: str) -> Json:
        """Answer the handshake with *revision*, and take the client's last word in it."""
        result: Json = {"protocolVersion": revision, "capabilities": EVERYTHING, "serverInfo": INFO}
        request = await self.answer(result, method="initialize")
        assert (await self.receive())["method"] == "notifications/initialized"
        return request

    async def welcome(self, revision: str) -> None:
        """Agree on a revision that the client has pinned."""
        if "initialize" in METHODS[revision]:
            await self.answer_initialize(revision)
        else:
            await self.answer_discover(revision)


@asynccontextmanager
async def raw_client(server: Server, revision: str) -> AsyncGenerator[Raw]:
    """Serve *server*, and yield a client by hand that has greeted it. The server's end must come in peace."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, server, theirs)
        client = Raw(ours)
        await client.greet(revision)
        yield client
        await ours.aclose()


@asynccontextmanager
async def raw_server(script: Script, **options: Unpack[ClientOptions]) -> AsyncGenerator[tuple[Client, Raw]]:
    """Connect a client to a server by hand that follows *script* meanwhile; yield both when it is through."""
    ours, theirs = trio.testing.memory_stream_pair()
    server, followed = Raw(theirs), trio.Event()

    async def follow() -> None:
        await script(server)
        followed.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        async with open_stream_client(ours, **options) as client:
            await followed.wait()
            yield client, server
