"""The example with tasks: a build goes on without its connection, asks, and is found again by its id."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.examples.test_examples import EXAMPLES
from trio_mcp import open_stdio_client, types

BUILDS = [sys.executable, "-W", "error", str(EXAMPLES / "build_server.py")]


async def choose_staging(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"target": "staging"})


async def test_a_build_is_a_task_that_asks_before_it_deploys(tmp_path: Path) -> None:
    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)

    environment = {"BUILDS": str(tmp_path / "builds.db"), "SECONDS_OF_A_STEP": "0.6"}
    async with open_stdio_client(BUILDS, env=environment, tasks=True, on_elicit=choose_staging) as client:
        result = await client.call_tool("build", {"project": "shop"}, on_progress=on_progress)
        assert result.structured_content == {"result": "shop is built and deployed to staging"}
        assert (messages[0], messages[-1]) == (
            "fetching shop",
            "testing shop",
        )  # a state that does not last is not seen
        handle = await client.start_task("build", {"project": "docs"})
        assert handle.id is not None
        unknown = await client.call_tool("build", {"project": "x"})
        assert unknown.is_error

    async with open_stdio_client(BUILDS, env=environment) as client:
        result = await client.task(handle.id).result()
        assert "the server stops" in str(result.content)  # it asked where to deploy when the server was stopping
