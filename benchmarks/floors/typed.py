"""The reference floor with the tools of the benchmark: the least cost of a typed, cancellable peer."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio
import trio.testing

from ..adapters.tools import BLOB, Cancellations, dummy_description, dummy_name, usage
from ..adapters.trio_loop import TrioLoop
from .typed_messages import (
    Blob,
    CallParams,
    CallResult,
    ListResult,
    ReadParams,
    ReadResult,
    Text,
    Tool,
    converter,
)
from .typed_peer import Handler, Peer

__all__ = ["TypedFloor", "TypedSession"]

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
    "required": ["name"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}


class TypedSession:
    """See `sides.Session`."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the wrapped value."""
        return (await self._called(name, arguments)).structured["result"]

    async def text(self, size: int) -> str:
        """Return the text of the only block."""
        (block,) = (await self._called("text", {"size": size})).content
        return block.text

    async def blob(self) -> str:
        """Return the only contents."""
        params = converter.unstructure(ReadParams("blob://ten"))
        result = converter.structure(await self.peer.request("resources/read", params), ReadResult)
        return result.contents[0].blob

    async def tools(self) -> list[str]:
        """List all tools, in one page."""
        result = converter.structure(await self.peer.request("tools/list", {}), ListResult)
        assert all(tool.input_schema["type"] == "object" for tool in result.tools)
        return [tool.name for tool in result.tools]

    async def storm(self, count: int, on_progress: Callable[[float], None]) -> Any:
        """Call with a callback that runs in the reader of notifications."""
        return (await self._called("storm", {"count": count}, on_progress)).structured["result"]

    async def wait(self) -> None:
        """Call until cancelled."""
        await self._called("wait", {})

    async def _called(
        self, name: str, arguments: dict[str, Any], on_progress: Callable[[float], None] | None = None
    ) -> CallResult:
        params = converter.unstructure(CallParams(name, arguments))
        return converter.structure(await self.peer.request("tools/call", params, on_progress), CallResult)


class TypedFloor:
    """See `sides.Adapter`; it has no HTTP."""

    loop = TrioLoop()

    @asynccontextmanager
    async def stdio(self, command: Sequence[str], era: str) -> AsyncGenerator[TypedSession]:
        """Connect to a child process, which ends with its input."""
        del era
        process = await trio.lowlevel.open_process(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        async with _running(trio.StapledStream(process.stdin, process.stdout)) as session:
            yield session
        await process.wait()

    @asynccontextmanager
    async def memory(self, server: Handler, era: str) -> AsyncGenerator[TypedSession]:
        """Connect through bytes: passing objects would share them."""
        del era
        ours, theirs = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Peer(theirs, server).run)
            async with _running(ours) as session:
                yield session

    def http(self, url: str, era: str) -> AbstractAsyncContextManager[TypedSession]:
        """Raise: the HTTP floors do it."""
        raise LookupError(f"this floor has no HTTP ({url}, {era})")

    def server(self, dummies: int) -> Handler:
        """Return the handler of requests."""
        return Tools(dummies).answer

    def serve_stdio(self, server: Handler) -> None:
        """Serve until the input ends."""
        stream = trio.lowlevel.FdStream

        async def main() -> None:
            await Peer(trio.StapledStream(stream(os.dup(1)), stream(os.dup(0))), server).run()

        trio.run(main)

    def serve_http(self, server: Handler, announce: Callable[[str], None]) -> None:
        """Raise: the HTTP floors do it."""
        raise LookupError(f"this floor has no HTTP ({server}, {announce})")


class Tools:
    """The tools, as one handler."""

    def __init__(self, dummies: int) -> None:
        self.cancellations = Cancellations()
        self.by_name: dict[str, Callable[[Peer, int, dict[str, Any]], Awaitable[CallResult]]] = {
            "add": self.add,
            "add_later": self.add_later,
            "text": self.text,
            "storm": self.storm,
            "wait": self.wait,
            "cancelled": self.cancelled,
            "usage": self.usage,
        }
        described = dict.fromkeys(self.by_name, "A tool of the benchmark.")
        described |= {dummy_name(number): dummy_description(number) for number in range(dummies)}
        self.tools = [Tool(name, text, SCHEMA, OUTPUT_SCHEMA) for name, text in described.items()]

    async def answer(self, peer: Peer, id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of any request."""
        result: object
        match method:
            case "tools/call":
                call = converter.structure(params, CallParams)
                result = await self.by_name[call.name](peer, id, call.arguments)
            case "tools/list":
                result = ListResult(self.tools)
            case "resources/read":
                uri = converter.structure(params, ReadParams).uri
                result = ReadResult([Blob(uri, base64.b64encode(BLOB).decode())])
            case _:
                raise LookupError(method)
        json: dict[str, Any] = converter.unstructure(result)
        return json

    async def add(self, _peer: Peer, _id: int, arguments: dict[str, Any]) -> CallResult:
        """Return the sum."""
        return _wrapped(arguments["a"] + arguments["b"])

    async def add_later(self, _peer: Peer, _id: int, arguments: dict[str, Any]) -> CallResult:
        """Return the sum after a checkpoint."""
        await trio.lowlevel.checkpoint()
        return _wrapped(arguments["a"] + arguments["b"])

    async def text(self, _peer: Peer, _id: int, arguments: dict[str, Any]) -> CallResult:
        """Return a long string."""
        return CallResult([Text("x" * arguments["size"])])

    async def storm(self, peer: Peer, id: int, arguments: dict[str, Any]) -> CallResult:
        """Report progress, with a checkpoint after each report."""
        count = arguments["count"]
        for number in range(1, count + 1):
            peer.report(id, number, count)
            await trio.lowlevel.checkpoint()
        return _wrapped(count)

    async def wait(self, _peer: Peer, _id: int, _arguments: dict[str, Any]) -> CallResult:
        """Sleep until cancelled."""
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.cancellations.took()
            raise

    async def cancelled(self, _peer: Peer, _id: int, _arguments: dict[str, Any]) -> CallResult:
        """Return the time of the cancellation."""
        return _wrapped(self.cancellations.times)

    async def usage(self, _peer: Peer, _id: int, arguments: dict[str, Any]) -> CallResult:
        """Return the resource usage of this process."""
        return _wrapped(usage(arguments["collect"]))


def _wrapped(value: Any) -> CallResult:
    return CallResult([Text(str(value))], {"result": value})


@asynccontextmanager
async def _running(stream: trio.abc.Stream) -> AsyncGenerator[TypedSession]:
    peer = Peer(stream)
    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(peer.run)
        yield TypedSession(peer)
        nursery.cancel_scope.cancel()
