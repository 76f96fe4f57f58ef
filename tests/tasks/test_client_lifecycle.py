"""A client on its whole way through the tasks of a foreign server, over HTTP.

The conformance suite has no released scenario for a client with tasks. The server here plays the part that its draft
gives the suite: it answers each tool in its own way, and keeps every request for the checks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from attrs import define, field, frozen

from tests.tasks.helpers import DECLARED, MODERN, TASKS
from trio_mcp import Client, ErrorResponse, RemoteProtocolError, TaskCancelled, open_client
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiMessage, Scope, http_transport

POLL_MS = 300
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TIMES = {"createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z", "ttlMs": 60_000}
TOOLS = ("quick_task", "sync_echo", "failing_task", "cancel_task")


@frozen
class Received:
    """A request that the server has received."""

    at: float
    method: str
    name: str | None
    """The name in the header, which is the id of the task in requests about tasks."""
    params: dict[str, Any]


def task(id: str, status: str, **members: Any) -> dict[str, Any]:
    """Return the state of a task."""
    return {"taskId": id, "status": status, "pollIntervalMs": POLL_MS, **TIMES, **members}


@define(eq=False)
class LifecycleServer:
    """An ASGI application that speaks 2026-07-28 with tasks, without any code of the package."""

    received: list[Received] = field(factory=list[Received])
    _cancelled: bool = False

    async def __call__(self, scope: Scope, receive: Callable[[], Any], send: Callable[[AsgiMessage], Any]) -> None:
        message: Any = await receive()
        body: bytes = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        request = json.loads(body)
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        self.received.append(
            Received(trio.current_time(), request["method"], headers.get("mcp-name"), request.get("params", {}))
        )
        answer = {"jsonrpc": "2.0", "id": request["id"], **self.answer(request["method"], request["params"])}
        fields = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode(), "more_body": False})

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result or the error of a request."""
        match method:
            case "server/discover":
                info = {"name": "lifecycle", "version": "1"}
                capabilities = {"tools": {}, "resources": {}, "extensions": DECLARED}
                result = {"supportedVersions": [MODERN], "serverInfo": info, "capabilities": capabilities}
                return {"result": {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
                return {"result": {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}}
            case "tools/call" if params["name"] == "sync_echo":
                content = [{"type": "text", "text": params["arguments"]["text"]}]
                return {"result": {"resultType": "complete", "content": content}}
            case "tools/call":
                return {"result": {"resultType": "task", **task(params["name"], "working")}}
            case "tasks/get":
                return {"result": {"resultType": "complete", **self.state(params["taskId"])}}
            case "tasks/cancel":
                self._cancelled = True
                return {"result": {"resultType": "complete"}}
            case "resources/read" | "acme/ping":  # only a call of a tool may become a task
                return {"result": {"resultType": "task", **task("stray", "working")}}
            case _:
                return {"error": {"code": -32601, "message": f"{method} is not a method of this server"}}

    def state(self, id: str) -> dict[str, Any]:
        """Return the state of a task when it is asked for."""
        asked = len(self.of("tasks/get", id))
        match id:
            case "quick_task" if asked < 2:
                return task(id, "working", statusMessage="half done")
            case "quick_task":
                result = {"resultType": "complete", "content": [{"type": "text", "text": "quick"}]}
                return task(id, "completed", result=result)
            case "failing_task":
                return task(id, "failed", error={"code": -32000, "message": "no quota", "data": {"left": 0}})
            case "cancel_task" if self._cancelled:
                return task(id, "cancelled")
            case _:
                return task(id, "working")

    def of(self, method: str, name: str | None = None) -> list[Received]:
        """Return the requests of a method, or those about one task or tool."""
        return [each for each in self.received if each.method == method and name in {None, each.name}]


@asynccontextmanager
async def opened() -> AsyncGenerator[tuple[Client, LifecycleServer]]:
    """Open a client of a new server."""
    server = LifecycleServer()
    transport = http_transport("http://server.test/mcp", engine=AsgiEngine(server))
    async with open_client(transport, tasks=True) as client:
        yield client, server


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


async def test_a_client_goes_through_the_life_of_every_kind_of_task(autojump_clock: object) -> None:
    async with opened() as (client, server):
        assert tuple([tool.name async for tool in client.tools()]) == TOOLS

        assert text_of(await client.call_tool("quick_task")) == "quick"
        assert len(server.of("tasks/get", "quick_task")) == 2

        assert text_of(await client.call_tool("sync_echo", {"text": "at once"})) == "at once"

        with pytest.raises(ErrorResponse) as failure:
            await client.call_tool("failing_task")
        assert (failure.value.code, failure.value.message, failure.value.data) == (-32000, "no quota", {"left": 0})

        handle = await client.start_task("cancel_task")
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result()
        assert len(server.of("tasks/cancel", "cancel_task")) == 1
        assert server.of("tasks/get", "cancel_task")[-1].at >= server.of("tasks/cancel")[0].at

    assert server.of("notifications/cancelled") == []  # a task is cancelled by a request of its own


async def test_every_request_declares_tasks_and_names_its_tool_or_task_in_a_header(autojump_clock: object) -> None:
    async with opened() as (client, server):
        await client.call_tool("quick_task")

    (call,), polls = server.of("tools/call"), server.of("tasks/get")
    assert call.name == "quick_task"
    assert "task" not in call.params  # only the experimental tasks have this member
    for request in (call, *polls):
        assert TASKS in request.params["_meta"][CAPABILITIES]["extensions"]
    assert [request.name for request in polls] == [request.params["taskId"] for request in polls]


async def test_a_client_polls_no_sooner_than_it_may_and_stops_at_the_end(autojump_clock: object) -> None:
    async with opened() as (client, server):
        await client.call_tool("quick_task")
        await trio.sleep(60)

    times = [server.of("tools/call")[0].at, *(each.at for each in server.of("tasks/get"))]
    assert len(times) == 3
    assert all(round(later - earlier, 3) >= POLL_MS / 1000 for earlier, later in pairwise(times))


async def test_a_task_in_answer_to_another_request_is_an_invalid_response_that_is_not_polled(
    autojump_clock: object,
) -> None:
    async with opened() as (client, server):
        for answer in (client.read_resource("any://one"), client.request("acme/ping", {}, dict)):
            with pytest.raises(RemoteProtocolError, match="'task', which this client does not know"):
                await answer
        await trio.sleep(60)

        assert server.of("tasks/get") == []
        assert text_of(await client.call_tool("sync_echo", {"text": "go on"})) == "go on"
