"""A scripted server with the experimental tasks of 2025-11-25."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from trio_mcp.testing import ScriptedPeer

REVISION = "2025-11-25"
TASKS: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@define
class LegacyPeer:
    """A scripted server with one task, which ends when the test says so."""

    peer: ScriptedPeer
    support: str | None = "optional"
    state: dict[str, Any] = field(factory=dict[str, Any])
    calls: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    cancelled: bool = False
    outcome: dict[str, Any] = field(factory=lambda: {"result": {"content": [{"type": "text", "text": "done"}]}})
    is_slow: bool = False
    answers_at_once: bool = False
    question: Any = None
    """The id of the question that the server has asked."""

    def task(self) -> dict[str, Any]:
        times = {"createdAt": "2025-11-25T10:00:00Z", "lastUpdatedAt": "2025-11-25T10:00:00Z"}
        return {"taskId": "t", "status": "working", "ttl": 60_000, "pollInterval": 500, **times, **self.state}

    async def serve(self) -> None:
        while (message := await self.peer.receive()) is not None:
            if "method" in message and "id" in message:
                await self.answer(message["id"], message["method"], message.get("params", {}))
            elif message.get("id") == self.question and self.question is not None:
                self.state = {"status": "completed"}
                await self.peer.send({"jsonrpc": "2.0", "id": self.waiting, **self.outcome})

    waiting: Any = None
    """The id of the request for the result that waits."""

    async def answer(self, id: Any, method: str, params: dict[str, Any]) -> None:
        result: dict[str, Any] = {}
        match method:
            case "tools/list":
                execution = {} if self.support is None else {"execution": {"taskSupport": self.support}}
                result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}, **execution}]}
            case "tools/call":
                self.calls.append(params)
                becomes_task = "task" in params and not self.answers_at_once
                result = {"task": self.task()} if becomes_task else {"content": [{"type": "text", "text": "plain"}]}
            case "tasks/get":
                result = self.task()
            case "tasks/cancel":
                self.cancelled, self.state = True, {"status": "cancelled", "statusMessage": "as you wish"}
                result = self.task()
            case "tasks/result" if self.task()["status"] == "input_required":
                self.waiting, self.question = id, "q"
                form: dict[str, Any] = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
                await self.peer.send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})
                return
            case "tasks/result" if self.is_slow:
                self.is_slow = False
                return
            case "tasks/result":
                await self.peer.send({"jsonrpc": "2.0", "id": id, **self.outcome})
                return
            case _:
                raise AssertionError(method)
        await self.peer.send({"jsonrpc": "2.0", "id": id, "result": result})
