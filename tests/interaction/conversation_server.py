"""The server of the conversation tests, in this process or as a child: `python conversation_server.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import trio
from attrs import define, field, frozen

from trio_mcp import Context, Limits, McpError, Server, ToolError, serve_stdio, types

SMALL = Limits(max_in_flight=4, max_queued=2, max_message_bytes=100_000)


@frozen
class Point:
    x: int
    y: int


@define
class State:
    """The state that the handlers of one server share, in all of its servings."""

    stopped: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    """For each key, an event that is set when the handler with this key was stopped."""
    met: int = 0
    all_here: trio.Event = field(factory=trio.Event)


states: WeakKeyDictionary[Server, State] = WeakKeyDictionary()


@asynccontextmanager
async def lifespan(server: Server) -> AsyncGenerator[State]:
    yield states.setdefault(server, State())


class FullyDeclaringServer(Server):
    """A server that declares every capability, even without the feature."""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return types.ServerCapabilities(
            completions={},
            logging={},
            prompts=types.PromptsCapability(list_changed=True),
            resources=types.ResourcesCapability(list_changed=True, subscribe=True),
            tools=types.ToolsCapability(list_changed=True),
        )


def make_server(  # noqa: C901 # a list of tools, not a decision
    *, limits: Limits | None = None, revisions: Sequence[str] = types.REVISIONS, make: type[Server] = Server
) -> Server:
    server = make(
        "conversation",
        version="1.0",
        instructions="Talk to me.",
        lifespan=lifespan,
        limits=limits,
        revisions=revisions,
    )

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def point(x: int, y: int) -> Point:
        return Point(x, y)

    @server.tool
    def shout(text: str) -> str:
        return text.upper()

    @server.tool
    async def fail() -> None:
        raise ToolError("out of paper")

    @server.tool
    async def refuse() -> None:
        raise McpError(-5, "not today", {"until": "tomorrow"})

    @server.tool
    async def count(steps: int, ctx: Context) -> str:
        for done in range(1, steps + 1):
            await ctx.report_progress(done, total=steps, message=f"step {done}")
        return "counted"

    @server.tool
    async def hang(key: str, ctx: Context) -> None:
        """Report once, and work until stopped."""
        try:
            await ctx.report_progress(1)
            await trio.sleep_forever()
        finally:
            ctx.state.stopped[key].set()

    @server.tool
    async def when_stopped(key: str, ctx: Context) -> str:
        """Wait until the `hang` of this key was stopped."""
        await ctx.state.stopped[key].wait()
        return f"{key} was stopped"

    @server.tool
    async def meet(party: int, ctx: Context) -> int:
        """Wait until this number of calls is in flight at once."""
        ctx.state.met += 1
        if ctx.state.met == party:
            ctx.state.all_here.set()
        await ctx.state.all_here.wait()
        return party

    @server.tool(timeout=0.02)
    async def hurry() -> None:
        await trio.sleep_forever()

    @server.tool
    async def say(level: types.LoggingLevel, text: str, ctx: Context) -> None:
        await ctx.log(level, {"text": text}, logger="voice")

    @server.resource("memo://today", mime_type="text/markdown")
    async def memo() -> str:
        return "# Today"

    @server.resource("picture://{name}")
    async def picture(name: str) -> bytes:
        return name.encode()

    @server.prompt
    def review(code: str, style: str = "kind") -> str:
        """Ask for a review."""
        return f"A {style} review of {code}, please."

    add_change_tools(server)
    return server


Kind: TypeAlias = Literal["tools", "prompts", "resources", "templates"]


def add_change_tools(server: Server) -> None:
    """Add tools that announce changes and leave the server as it was."""

    @server.tool
    async def change(kind: Kind) -> None:
        add_and_remove(server, kind)

    @server.tool
    def add_in_a_thread() -> None:
        server.tool(name="passing")(lambda: None)

    @server.tool
    def remove_in_a_thread() -> None:
        server.tools.remove("passing")

    @server.tool
    async def touch(uris: list[str], ctx: Context) -> None:
        for uri in uris:
            ctx.resource_updated(uri)

    @server.tool
    def touch_in_a_thread(uris: list[str]) -> None:
        for uri in uris:
            server.resource_updated(uri)


def passing(who: str) -> str:
    return who


def add_and_remove(server: Server, kind: Kind) -> None:
    if kind == "tools":
        server.tool(name="passing")(lambda: None)
        server.tools.remove("passing")
    elif kind == "prompts":
        server.prompt(name="passing")(lambda: "")
        server.prompts.remove("passing")
    elif kind == "resources":
        server.resources.add_static("passing:by", "", name="passing")
        server.resources.remove("passing:by")
    else:
        server.resource("passing:{who}", name="passing")(passing)
        server.resources.remove("passing:{who}")


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(limits=SMALL))
