"""This project with tasks: a server for many tasks, and a session that follows them as a polling client does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio
import trio.testing

from trio_mcp import Limits, Server, TaskSettings, open_stdio_client

from .ours import REVISIONS, Ours, OursSession

__all__ = ["OursTasks", "TasksSession"]

MANY = 100_000
"""More tasks and calls than any work has at once, so that no limit is reached."""
TASKS: dict[str, dict[str, Any]] = {"io.modelcontextprotocol/tasks": {}}


class TasksSession(OursSession):
    """A session with requests about tasks."""

    async def begin(self) -> str:
        """Start a task; return its id."""
        id = (await self.client.start_task("wait_as_task")).id
        assert id is not None
        return id

    async def status(self, id: str) -> Any:
        """Ask for the status of a task."""
        return (await self.client.request("tasks/get", {"taskId": id}, dict[str, Any], extensions=TASKS))["status"]

    @asynccontextmanager
    async def waiting(self, count: int) -> AsyncGenerator[None]:
        """Have so many calls in flight that wait as the tasks do, but are none."""
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(self.wait)
            await trio.testing.wait_all_tasks_blocked()  # they are sent
            yield
            nursery.cancel_scope.cancel()


class OursTasks(Ours):
    """See `sides.Adapter`."""

    def stdio(self, command: Sequence[str], era: str) -> AbstractAsyncContextManager[TasksSession]:
        """Connect to a child process."""
        return self._session(command, era)

    @asynccontextmanager
    async def _session(self, command: Sequence[str], era: str) -> AsyncGenerator[TasksSession]:
        async with open_stdio_client(command, revision=REVISIONS[era]) as client:
            yield TasksSession(client)

    def new_server(self) -> Server:
        """Return a server that keeps its tasks in memory, with a tool that can only be a task."""
        limits = Limits(max_in_flight=MANY, max_queued=MANY, max_running=MANY)
        server = Server("bench", version="1", limits=limits, tasks=TaskSettings(ttl=None, max_tasks=MANY))

        @server.tool(task="required")
        async def wait_as_task() -> int:
            await trio.sleep_forever()

        return server
