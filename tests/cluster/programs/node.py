"""A process of a service that a load runs on: ``node.py PORT SHARED JOURNAL [--replayed]``."""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Accepted, Context, RedisShared, Server, SqliteShared, serve_http
from trio_mcp.cluster import _forwarding, _links

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("shared", help="the path of a file, or a URL of Redis")
parser.add_argument("journal", type=Path, help="the file that gets a line for each call that begins")
parser.add_argument("--replayed", action="store_true")
parser.add_argument("--drain-delay", type=float, default=None)
chosen = parser.parse_args()
server = Server("fleet", asking="replayed" if chosen.replayed else "parked")
streams: list[trio.abc.Stream] = []
"""The connections to other processes."""


async def dial(*arguments: Any) -> trio.abc.Stream:
    stream = await _links.dial(*arguments)
    streams.append(stream)
    return stream


setattr(_forwarding, "dial", dial)  # noqa: B010 # mypy does not know the module as one that has it
journal = os.open(chosen.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@server.tool
async def process() -> int:
    return os.getpid()


@server.tool
async def echo(number: int, seconds: float) -> int:
    os.write(journal, f"{number}\n".encode())
    await trio.sleep(seconds)
    return number


@server.tool
async def steps(number: int, count: int, ctx: Context) -> int:
    os.write(journal, f"{number}\n".encode())
    for step in range(count):
        await ctx.report_progress(step + 1, count)
        await trio.sleep(0.001)
    return number


@server.tool
async def ask(question: str, ctx: Context) -> str:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    answer = await ctx.elicit(question, schema)
    return f"{answer.value['answer']}" if isinstance(answer, Accepted) else "nothing"


@server.tool
async def cut() -> int:
    """Break the connections that this process has made to the others."""
    broken, streams[:] = [*streams], []
    for stream in broken:
        await trio.aclose_forcefully(stream)
    return len(broken)


@server.tool
async def touch(name: str, ctx: Context) -> None:
    ctx.resource_updated(f"state://{name}")


@server.resource("state://{name}")
async def state(name: str) -> str:
    return f"the state of {name}"


shared = RedisShared(chosen.shared) if "://" in chosen.shared else SqliteShared(chosen.shared)
options = {} if chosen.drain_delay is None else {"drain_delay": chosen.drain_delay, "ready_path": "/readyz"}
trio.run(partial(serve_http, server, port=chosen.port, shared=shared, **options))
