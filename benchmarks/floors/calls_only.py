"""The base of the HTTP floors: two calls as JSON-RPC, and none of the other tools of the benchmark."""

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
    """Return the body of a call."""
    params = {"name": name, "arguments": arguments}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})


def answer(body: bytes) -> bytes:
    """Return the body of the response to a call."""
    message = msgspec.json.decode(body)
    params = message["params"]
    arguments = params["arguments"]
    value = arguments["a"] + arguments["b"] if params["name"] == "add" else usage(arguments["collect"])
    result = {"content": [{"type": "text", "text": str(value)}], "structuredContent": {"result": value}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})


class CallsOnlySession:
    """See `sides.Session`; a subclass sends the bodies."""

    last_id = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the wrapped value."""
        self.last_id += 1
        body = await self.post(request(self.last_id, name, arguments))
        return msgspec.json.decode(body)["result"]["structuredContent"]["result"]

    async def post(self, body: bytes) -> bytes:
        """Return the response body to a request body."""
        raise NotImplementedError

    async def tools(self) -> list[str]:
        """Raise, because there is no list."""
        return []

    async def text(self, size: int) -> str:
        """Raise, because the floor does not support it."""
        raise LookupError(f"this floor makes no text of {size}")

    async def blob(self) -> str:
        """Raise, because the floor does not support it."""
        raise LookupError("this floor has no blob")

    async def storm(self, count: int, on_progress: Callable[[float], None]) -> Any:
        """Raise, because the floor does not support it."""
        raise LookupError(f"this floor reports no progress to {on_progress}, {count} times")

    async def wait(self) -> None:
        """Raise, because the floor does not support it."""
        raise LookupError("this floor does not wait")


class CallsOnly:
    """See `sides.Adapter`; the methods that a subclass does not override are unsupported."""

    loop = TrioLoop()

    def stdio(self, command: Sequence[str], era: str) -> AbstractAsyncContextManager[Session]:
        """Raise, because the floor does not support it."""
        raise LookupError(f"this floor has no stdio ({command}, {era})")

    def memory(self, server: Any, era: str) -> AbstractAsyncContextManager[Session]:
        """Raise, because the floor does not support it."""
        raise LookupError(f"this floor has no memory ({server}, {era})")

    def server(self, dummies: int) -> None:
        """Do nothing: no preparation is needed."""
        assert dummies == 0

    def serve_stdio(self, server: Any) -> None:
        """Raise, because the floor does not support it."""
        raise LookupError(f"this floor has no stdio ({server})")
