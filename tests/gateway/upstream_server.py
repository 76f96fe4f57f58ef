"""A server to stand behind a gateway: one of everything that a gateway forwards.

Here, or as a child process: `python upstream_server.py REVISION`.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import trio
from attrs import define, field, frozen

from trio_mcp import (
    Accepted,
    CacheHint,
    CallNext,
    Context,
    Elicit,
    Limits,
    ListRoots,
    McpError,
    Request,
    Sample,
    Server,
    ToolError,
    User,
    serve_stdio,
    types,
)

PUBLIC = CacheHint(ttl=60, scope="public")
ICON = types.Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")
NOTES = types.Annotations(audience=["user"], priority=0.5, last_modified="2026-11-20T12:00:00Z")
META: dict[str, Any] = {"example.com/colour": "red"}
ABOUT: dict[str, Any] = {"title": "A title", "description": "A description.", "icons": [ICON], "meta": META}
"""The optional members of every kind of entry."""
HINTS = types.ToolAnnotations(title="Hinted", read_only_hint=True, destructive_hint=False, open_world_hint=False)
UNLISTED = "notes://unlisted"
"""A resource that no list and no template has."""


@frozen
class Point:
    x: int
    y: int


@frozen
class Form:
    count: int


@define
class State:
    """The state that the handlers of one serving share."""

    stopped: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    """For each key, an event that is set when the handler with this key was stopped."""


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[State]:
    yield State()


async def unlisted(request: Request, call_next: CallNext) -> Any:
    """Answer for a resource that no list has."""
    if request.method == "resources/read" and request.params.uri == UNLISTED:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=UNLISTED, text="not listed")])
    return await call_next(request)


def make_server(revision: str | None = None, *, name: str = "shelf") -> Server:
    server = Server(
        name,
        version="1.0",
        revisions=types.REVISIONS if revision is None else [revision],
        lifespan=lifespan,
        limits=Limits(max_logs_per_second=1000),
        middleware=[unlisted],
    )
    add_results(server)
    add_messages(server)
    add_questions(server)
    add_resources(server)
    add_prompts(server)
    add_changes(server)
    return server


def add_results(server: Server) -> None:  # noqa: C901 # a list of tools, not a decision
    """Add tools that return all kinds of results, and fail in all ways."""

    @server.tool(annotations=HINTS, **ABOUT)
    async def point(x: int, y: int) -> Point:
        return Point(x, y)

    @server.tool(output_schema={"type": "array", "items": {"type": "integer"}})
    async def array() -> list[int]:
        return [1, 2]

    @server.tool(output_schema={"type": "number"})
    async def scalar() -> float:
        return 2.5

    @server.tool
    async def whole(ctx: Context) -> types.CallToolResult:
        content: list[Any] = [types.TextContent(text="said", annotations=NOTES, meta=META)]
        if ctx.revision >= "2025-06-18":
            content.append(types.ResourceLink(uri="notes://text", name="link", annotations=NOTES, **ABOUT))
        content.append(
            types.EmbeddedResource(resource=types.TextResourceContents(uri=UNLISTED, text="within", meta=META))
        )
        return types.CallToolResult(content=content, structured_content={"a": [1]}, meta=META)

    @server.tool
    async def fail() -> None:
        raise ToolError("out of paper")

    @server.tool
    async def refuse() -> None:
        raise McpError(-5, "not today", {"until": "tomorrow"})

    @server.tool
    async def echo(value: Any = "nothing") -> dict[str, Any]:
        return {"value": value}

    @server.tool
    async def nothing() -> str:
        return "nothing was needed"

    @server.tool
    async def request_meta(ctx: Context) -> dict[str, Any]:
        """Return the `_meta` of the request, without the values that belong to its connection."""
        hidden = {"io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities", "progressToken"}
        return {name: None if name in hidden else each for name, each in ctx.meta.items()}

    @server.tool
    async def caller(ctx: Context) -> dict[str, Any]:
        assert ctx.client_info is not None
        capabilities: dict[str, Any] = types.unstructure(ctx.client_capabilities, revision=ctx.revision)
        return {"name": ctx.client_info.name, "capabilities": capabilities, "revision": ctx.revision}


def add_messages(server: Server) -> None:
    """Add tools that send messages before their result, and one that is cancelled."""

    @server.tool
    async def count(steps: int, ctx: Context) -> str:
        for done in range(1, steps + 1):
            await ctx.report_progress(done, total=steps, message=f"step {done}")
        return "counted"

    @server.tool
    async def say(ctx: Context) -> str:
        for level in ("debug", "info", "warning", "error"):
            await ctx.log(level, {"said": level}, logger="voice")
        return "said"

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
    async def die() -> None:
        """End the process at once."""
        os._exit(3)


def add_questions(server: Server) -> None:  # a list of tools, not a decision
    """Add tools that ask."""

    @server.tool
    async def ask(question: str, ctx: Context) -> str:
        return await _seats(ctx, question)

    @server.tool
    async def visit(ctx: Context) -> str:
        answer = await ctx.elicit("Please pay.", url="https://example.com/pay")
        return type(answer).__name__

    @server.tool
    async def think(ctx: Context) -> str:
        answer: Any = await ctx.sample("What is the answer?", max_tokens=7, system_prompt="Be short.")
        return f"{answer.model}: {answer.content.text}"

    @server.tool
    async def think_with_tools(ctx: Context) -> str:
        tool = types.Tool(name="weather", input_schema={"type": "object"})
        answer: Any = await ctx.sample("How is it outside?", max_tokens=7, tools=[tool])
        content: Any = [answer.content]
        (used,) = content[0] if isinstance(content[0], list) else content
        return f"{used.name} {used.input}"

    @server.tool
    async def where(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.list_roots()]

    @server.tool
    async def several(ctx: Context) -> str:
        form, roots, answer = await ctx.ask_all(Elicit("How many?", Form), ListRoots(), Sample("Why?", max_tokens=5))
        assert isinstance(form, Accepted)
        return f"{form.value.count} {len(roots)} {answer.model}"

    @server.tool
    async def rounds(ctx: Context) -> list[str]:
        return [await _seats(ctx, question) for question in ("first?", "second?", "third?")]

    @server.prompt
    async def invitation(ctx: Context) -> str:
        return f"Invite {await _seats(ctx, 'How many guests?')}."

    @server.resource("table://reserved")
    async def reserved(ctx: Context) -> str:
        return f"A table: {await _seats(ctx, 'How many seats?')}."


async def _seats(ctx: Context, question: str) -> str:
    answer = await ctx.elicit(question, Form)
    return f"{answer.value.count} for {question}" if isinstance(answer, Accepted) else type(answer).__name__


def add_resources(server: Server) -> None:
    server.resources.add_static("notes://text", "grüß", name="text", annotations=NOTES, **ABOUT)
    server.resources.add_static("notes://bytes", bytes(range(256)), name="bytes", mime_type="image/png")
    server.resources.add_static("notes://kept", "kept", name="kept", cache=PUBLIC)

    @server.resource("notes://named/{name}", mime_type="text/markdown", annotations=NOTES, **ABOUT)
    async def named(name: str) -> str:
        return f"named {name}"

    @server.completion(template="notes://named/{name}", argument="name")
    async def name(typed: str) -> types.Completion:
        return types.Completion(values=[typed + "a", typed + "b"], total=9, has_more=True)


def add_prompts(server: Server) -> None:
    @server.prompt(**ABOUT)
    async def plan(city: str, pace: Literal["slow", "fast"] = "slow") -> str:
        return f"a {pace} day in {city}"

    @server.prompt
    async def pages() -> types.GetPromptResult:
        shown = types.EmbeddedResource(resource=types.TextResourceContents(uri="notes://text", text="grüß"))
        messages = [User("Look at this."), types.PromptMessage(role="assistant", content=shown)]
        return types.GetPromptResult(description="Made now.", messages=messages, meta=META)

    @server.completion(prompt="plan", argument="city")
    async def city(typed: str, pace: str | None) -> list[str]:
        """Suggest cities; which ones depends on the pace, if it is known."""
        cities = {"slow": ["Graz", "Genoa"], "fast": ["Geneva"], None: ["Graz", "Genoa", "Geneva"]}
        return [name for name in cities[pace] if name.startswith(typed)]


def add_changes(server: Server) -> None:
    """Add tools that change the lists and the resources."""

    @server.tool
    async def learn(name: str) -> None:
        """Register a tool, a resource, a template and a prompt of this name."""
        server.tool(name=name)(lambda: f"I am {name}")
        server.resources.add_static(f"new://{name}", "", name=name)
        server.prompt(name=name)(lambda: "")

    @server.tool
    async def learn_tool(name: str) -> None:
        server.tool(name=name)(lambda: f"I am {name}")

    @server.tool
    async def touch(uri: str) -> None:
        """Notify those who listen to a resource."""
        server.resource_updated(uri)


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(sys.argv[1]))
