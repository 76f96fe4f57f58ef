"""What the HTTP floors have in common: two calls as JSON-RPC, and nothing else of the benchmark's tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from ..adapters.sides import Session
from ..adapters.tools import usage
from ..adapters.trio_loop import TrioLoop

__all__ = ["CallsOnly", "CallsOnlySession", "answer", "request"]


def request(id: int, name: str, arguments: dict[str, Any]) -> bytes:
    """The body of a call."""
    params = {"name": name, "arguments": arguments}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})


def answer(body: bytes) -> bytes:
    """The body of the answer to a call."""
    message = msgspec.json.decode(body)
    params = message["params"]
    arguments = params["arguments"]
    value = arguments["a"] + arguments["b"] if params["name"] == "add" else usage(arguments["settle"])
    result = {"content": [{"type": "text", "text": str(value)}], "structuredContent": {"result": value}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})


class CallsOnlySession:
    """See `sides.Session`; a subclass sends the bodies."""

    last_id = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """The wrapped value."""
        self.last_id += 1
        body = await self.post(request(self.last_id, name, arguments))
        return msgspec.json.decode(body)["result"]["structuredContent"]["result"]

    async def post(self, body: bytes) -> bytes:
        """The body of the answer to a body."""
        raise NotImplementedError

    async def tools(self) -> list[str]:
        """There is no list."""
        return []

    async def text(self, size: int) -> str:
        """Not here."""
        raise LookupError(f"this floor makes no text of {size}")

    async def blob(self) -> str:
        """Not here."""
        raise LookupError("this floor has no blob")

    async def storm(self, count: int, heard: Callable[[float], None]) -> Any:
        """Not here."""
        raise LookupError(f"this floor reports no progress to {heard}, {count} times")

    async def wait(self) -> None:
        """Not here."""
        raise LookupError("this floor does not wait")


class CallsOnly:
    """See `sides.Adapter`; what a subclass leaves is not there."""

    loop = TrioLoop()

    def stdio(self, command: Sequence[str], era: str) -> AbstractAsyncContextManager[Session]:
        """Not here."""
        raise LookupError(f"this floor has no stdio ({command}, {era})")

    def memory(self, server: Any, era: str) -> AbstractAsyncContextManager[Session]:
        """Not here."""
        raise LookupError(f"this floor has no memory ({server}, {era})")

    def server(self, dummies: int) -> None:
        """There is nothing to prepare."""
        assert dummies == 0

    def serve_stdio(self, server: Any) -> None:
        """Not here."""
        raise LookupError(f"this floor has no stdio ({server})")
