"""A server of 2025-11-25 that asks while no call is in flight, to mount over streams in memory or as a program.

As a program: ``python asking_upstream.py roots/list ping``. It sends these requests as soon as it is initialized.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from attrs import define, field
from trio.testing import memory_stream_pair

from trio_mcp.abc import Transport, TransportClient
from trio_mcp.lowlevel import owned_nursery, stream_transport

PARAMS: Final[dict[str, dict[str, Any]]] = {
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}],
        "maxTokens": 7,
    },
    "elicitation/create": {
        "message": "How many?",
        "requestedSchema": {"type": "object", "properties": {"count": {"type": "integer"}}},
    },
    "visit": {"mode": "url", "message": "Please pay.", "url": "https://example.com/pay", "elicitationId": "visit-1"},
}
"""The params of each kind of question."""
TOOLS: Final = ("answers", "ask", "ask_and_leave", "finish")


@define(eq=False)
class AskingServer:
    """The messages of the server: takes those of its client, and returns its own."""

    questions: Sequence[str] = ()
    """The kinds of the questions that it asks when it is initialized."""
    answers: list[dict[str, Any]] = field(factory=list[dict[str, Any]], init=False)
    """The results and errors that it has got, in the order in which they came."""
    _asked: int = field(default=0, init=False)
    _waiting: list[tuple[Any, int]] = field(factory=list[tuple[Any, int]], init=False)
    """The calls that are answered when there are so many answers."""

    def take(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        match message:
            case {"method": "notifications/initialized"}:
                return [self._question(kind) for kind in self.questions]
            case {"method": "acme/ask", "params": {"kind": str(kind)}}:
                return [self._question(kind)]
            case {"method": str(method), "id": id}:
                return self._answer(method, id, message.get("params", {}))
            case {"id": _}:
                self.answers.append(message.get("error") or message["result"])
                done = [each for each in self._waiting if len(self.answers) >= each[1]]
                self._waiting = [each for each in self._waiting if each not in done]
                return [self._told(id) for id, _ in done]
            case _:
                return []

    def _answer(self, method: str, id: Any, params: dict[str, Any]) -> list[dict[str, Any]]:
        result: dict[str, Any]
        match method:
            case "initialize":
                info = {"name": "asking", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
            case "tools/call":
                return self._call(params["name"], id, params.get("arguments", {}).get("kind", ""))
            case _:
                error = {"code": -32601, "message": "unknown"}
                return [{"jsonrpc": "2.0", "id": id, "error": error}]
        return [{"jsonrpc": "2.0", "id": id, "result": result}]

    def _call(self, tool: str, id: Any, kind: str) -> list[dict[str, Any]]:
        match tool:
            case "ask_and_leave":  # it asks in the call, and does not wait for the answer
                return [self._question(kind), self._told(id)]
            case "ask":
                question = self._question(kind)
                self._waiting.append((id, self._asked))
                return [question]
            case "finish":
                done = {"method": "notifications/elicitation/complete", "params": {"elicitationId": "visit-1"}}
                return [{"jsonrpc": "2.0", **done}, self._told(id)]
            case _:
                if len(self.answers) >= self._asked:
                    return [self._told(id)]
                self._waiting.append((id, self._asked))
                return []

    def _question(self, kind: str) -> dict[str, Any]:
        self._asked += 1
        method = "elicitation/create" if kind == "visit" else kind
        return {"jsonrpc": "2.0", "id": f"q{self._asked}", "method": method, "params": PARAMS.get(kind, {})}

    def _told(self, id: Any) -> dict[str, Any]:
        block = {"type": "text", "text": json.dumps(self.answers)}
        return {"jsonrpc": "2.0", "id": id, "result": {"content": [block]}}


@define(eq=False)
class AskingUpstream:
    """An opener of connections over streams in memory, each with an `AskingServer` of its own."""

    questions: Sequence[str] = ()
    open: int = field(default=0, init=False)
    """The number of connections that are open."""

    @asynccontextmanager
    async def __call__(self, client: TransportClient) -> AsyncGenerator[Transport]:
        near, far = memory_stream_pair()
        async with owned_nursery() as nursery:
            nursery.start_soon(serve, AskingServer(self.questions), far)
            self.open += 1
            try:
                async with stream_transport(near)(client) as transport:
                    yield transport
            finally:
                self.open -= 1
                nursery.cancel_scope.cancel()


async def serve(server: AskingServer, stream: trio.abc.Stream) -> None:
    buffer = b""
    async for chunk in stream:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            for message in server.take(json.loads(line)):
                await stream.send_all(json.dumps(message).encode() + b"\n")


def main() -> None:
    server = AskingServer(sys.argv[1:])
    for line in sys.stdin:
        for message in server.take(json.loads(line)):
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
