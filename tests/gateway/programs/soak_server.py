"""A server that a load runs on: ``soak_server.py NAME [--legacy] [--port PORT]``."""

import argparse
import os

import trio

from trio_mcp import Accepted, Context, Server, types

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--legacy", action="store_true")
parser.add_argument("--port", type=int)
chosen = parser.parse_args()
server = Server(chosen.name, revisions=types.REVISIONS[:-1] if chosen.legacy else types.REVISIONS)
extras: list[str] = []


@server.tool
async def process() -> int:
    return os.getpid()


@server.tool
async def echo(number: int, seconds: float) -> int:
    await trio.sleep(seconds)
    return number


@server.tool
async def steps(number: int, ctx: Context) -> int:
    for step in range(number):
        await ctx.report_progress(step + 1, number)
        await trio.sleep(0.001)
    return number


@server.tool
async def ask(question: str, ctx: Context) -> str:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    answer = await ctx.elicit(question, schema)
    return f"{answer.value['answer']}" if isinstance(answer, Accepted) else "nothing"


@server.tool
async def touch(ctx: Context) -> None:
    ctx.resource_updated(f"state://{chosen.name}")


@server.tool
async def extend(name: str) -> list[str]:
    """Add a tool, and remove the one before the last."""

    async def extra() -> str:
        return name

    server.tool(name=name)(extra)
    extras.append(name)
    if len(extras) > 2:
        server.tools.remove(extras.pop(0))
    return extras


@server.resource(f"state://{chosen.name}")
async def state() -> str:
    return f"the state of {chosen.name}"


server.run(http=chosen.port)
