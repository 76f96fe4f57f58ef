"""Requests about tasks, as a client without the extension's help sends them."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Client
from trio_mcp.lowlevel import ClientExtensionPoints

TASKS = "io.modelcontextprotocol/tasks"
DECLARED: dict[str, dict[str, Any]] = {TASKS: {}}
REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
LEGACY, MODERN = "2025-11-25", "2026-07-28"


@frozen
class RawTasks:
    """The tasks of a server, in the form on the wire."""

    client: Client

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
        """Call a tool with the extension declared; return the result as it is."""
        points = ClientExtensionPoints(self.client)
        return await points.call_tool_json(name, arguments, members=members, extensions=DECLARED)

    async def begin(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        """Call a tool whose call becomes a task; return the id."""
        created = await self.call(name, arguments)
        assert created["resultType"] == "task"
        id: str = created["taskId"]
        await wait_all_tasks_blocked()  # the handler has come to its first pause
        return id

    async def get(self, id: str) -> dict[str, Any]:
        return await self.client.request("tasks/get", {"taskId": id}, dict, extensions=DECLARED)

    async def update(self, id: str, answers: dict[str, Any]) -> dict[str, Any]:
        params = {"taskId": id, "inputResponses": answers}
        return await self.client.request("tasks/update", params, dict, extensions=DECLARED)

    async def cancel(self, id: str) -> dict[str, Any]:
        return await self.client.request("tasks/cancel", {"taskId": id}, dict, extensions=DECLARED)


def accepted(**content: Any) -> dict[str, Any]:
    """Return the answer of a user who fills in a form."""
    return {"action": "accept", "content": content}
