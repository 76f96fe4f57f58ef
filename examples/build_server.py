"""A server that builds projects: a build is a task, which asks before it deploys and survives its connection.

Tasks are kept in ``builds.db``, or the file that the environment variable ``BUILDS`` names. `docs/tasks.md` has a
client.
"""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Server, SqliteTaskStore, TaskSettings, ToolError

STEPS = ("fetching", "compiling", "testing")
SECONDS = float(os.environ.get("SECONDS_OF_A_STEP", "2"))
PROJECTS = {"shop": "main", "docs": "main"}

server = Server(
    "builds",
    version="1.0",
    instructions="Builds projects. A build takes some seconds, and asks the user before it deploys.",
    tasks=TaskSettings(after=0.5, ttl=86_400, store=SqliteTaskStore(os.environ.get("BUILDS", "builds.db"))),
)


@frozen
class Deployment:
    """The decision of the user."""

    target: Annotated[str, msgspec.Meta(description="where to deploy: staging or live, or nowhere")]


@server.tool(task="optional")
async def build(project: str, ctx: Context) -> str:
    """Build a project, and deploy it where the user wants.

    Args:
        project: the name of a project
    """
    if project not in PROJECTS:
        raise ToolError(f"there is no project {project!r}; there are {', '.join(PROJECTS)}")
    for number, step in enumerate(STEPS, 1):
        await ctx.report_progress(number, total=len(STEPS), message=f"{step} {project}")
        await trio.sleep(SECONDS)
    match await ctx.elicit(f"{project} is built. Where shall it be deployed?", Deployment):
        case Accepted(value=Deployment(target=target)) if target != "nowhere":
            return f"{project} is built and deployed to {target}"
        case _:
            return f"{project} is built and not deployed"


if __name__ == "__main__":
    server.run()
