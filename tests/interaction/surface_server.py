"""A server with one of everything that can be listed, called, read, got or completed.

Here, or as a child process: `python surface_server.py [PAGE_SIZE]`.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import trio
from attrs import frozen

from trio_mcp import Audio, Context, Image, Limits, Server, serve_stdio, types

PICTURE, SOUND, BLOB = b"\x89PNG", b"RIFF", bytes(range(256))

ICON = types.Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48", "any"], theme="dark")
NOTES = types.Annotations(audience=["user", "assistant"], priority=0.5, last_modified="2026-11-20T12:00:00Z")
META = {"example.com/colour": "red"}
ABOUT: dict[str, Any] = {"title": "A title", "description": "A description.", "icons": [ICON], "meta": META}
"""The optional members of every kind of entry."""

Block: TypeAlias = (
    types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource
)

BLOCKS: list[Block] = [
    types.TextContent(text="words", annotations=NOTES, meta=META),
    types.ImageContent(data="iVBORw==", mime_type="image/png", annotations=NOTES, meta=META),
    types.AudioContent(data="UklGRg==", mime_type="audio/wav", annotations=NOTES, meta=META),
    types.ResourceLink(uri="notes://text", name="link", mime_type="text/plain", size=3, annotations=NOTES, **ABOUT),
    types.EmbeddedResource(
        resource=types.TextResourceContents(uri="notes://text", mime_type="text/plain", text="abc", meta=META),
        annotations=NOTES,
        meta=META,
    ),
    types.EmbeddedResource(
        resource=types.BlobResourceContents(uri="notes://bytes", mime_type="image/png", blob="iVBORw==", meta=META)
    ),
]
"""Every kind of content, with all optional members."""


def known_blocks(ctx: Context) -> list[Block]:
    """Return the blocks of every kind that the client's revision has: others are refused."""
    since: dict[type, str] = {types.AudioContent: "2025-03-26", types.ResourceLink: "2025-06-18"}
    return [block for block in BLOCKS if since.get(type(block), "") <= ctx.revision]


def sounds(ctx: Context) -> list[Audio]:
    return [Audio(SOUND, "audio/wav")] if ctx.revision >= "2025-03-26" else []


LEVELS: tuple[types.LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)


@frozen
class Point:
    x: int
    y: int


def make_server(*, page_size: int | None = None) -> Server:
    # No rate limit applies: the tests check that everything arrives.
    server = Server(
        "surface",
        version="1.0",
        title="Surface",
        description="One of everything.",
        website_url="https://example.com",
        icons=[ICON],
        instructions="Look around.",
        page_size=page_size,
        limits=Limits(max_logs_per_second=1000),
    )
    add_tools(server)
    add_resources(server)
    add_prompts(server)
    add_completions(server)
    return server


def add_tools(server: Server) -> None:  # noqa: C901 # a list of tools, not a decision
    hints = types.ToolAnnotations(
        title="Hinted", read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )

    @server.tool(annotations=hints, **ABOUT)
    async def point(x: int, y: int) -> Point:
        return Point(x, y)

    @server.tool
    async def blocks(ctx: Context) -> list[Block]:
        return known_blocks(ctx)

    @server.tool
    async def mixed(ctx: Context) -> list[str | Image | Audio | dict[str, int] | types.TextContent]:
        return ["before", Image(PICTURE, "image/png"), *sounds(ctx), {"a": 1}, types.TextContent(text="x")]

    @server.tool
    async def whole(failed: bool) -> types.CallToolResult:
        return types.CallToolResult(
            content=[types.TextContent(text="said")], structured_content={"a": [1]}, is_error=failed, meta=META
        )

    @server.tool
    async def names() -> list[str]:
        return ["Ada", "Bo"]

    @server.tool(output_schema={"type": "array", "items": {"type": "integer"}})
    async def array() -> list[int]:
        return [1, 2]

    @server.tool(output_schema={"type": "null"})
    async def null() -> None:
        return None

    @server.tool(output_schema={"type": "number"})
    async def scalar() -> float:
        return 2.5

    @server.tool
    async def learn(name: str) -> None:
        """Register a tool, a resource, a template and a prompt of this name."""
        server.tool(name=name)(lambda: f"I am {name}")
        server.resources.add_static(f"new://{name}", "", name=name)
        server.resource(f"new://{name}/{{x}}", name=name)(_same)
        server.prompt(name=name)(lambda: "")

    @server.tool
    async def forget(name: str) -> None:
        """Remove the entries of this name."""
        server.tools.remove(name)
        server.resources.remove(f"new://{name}")
        server.resources.remove(f"new://{name}/{{x}}")
        server.prompts.remove(name)

    @server.tool
    async def say(ctx: Context) -> None:
        """Send a log message of each level."""
        for level in LEVELS:
            await ctx.log(level, {"level": level, "numbers": [1, None]}, logger=f"voice.{level}")
        await ctx.log("emergency", "over")


def add_resources(server: Server) -> None:
    server.resources.add_static("notes://text", "grüß", name="text", annotations=NOTES, **ABOUT)
    server.resources.add_static("notes://bytes", BLOB, name="bytes", mime_type="image/png")
    several: list[types.TextResourceContents | types.BlobResourceContents] = [
        types.TextResourceContents(uri="notes://several/1", mime_type="text/markdown", text="# One", meta=META),
        types.BlobResourceContents(uri="notes://several/2", mime_type="image/png", blob="iVBORw==", meta=META),
    ]
    server.resources.add_static("notes://several", several, name="several")

    @server.resource("notes://made", mime_type="application/json", size=8, **ABOUT)
    async def made(ctx: Context) -> str:
        return '{"a": 1}'

    @server.resource("notes://whole")
    async def whole() -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=several[:1], meta=META, ttl_ms=5000, cache_scope="public")

    @server.resource("notes://named/{name}", mime_type="text/markdown", annotations=NOTES, **ABOUT)
    async def named(name: str) -> str:
        return f"named {name}"

    @server.resource("notes://file/{+path}")
    def file(path: str) -> bytes:
        return path.encode()

    @server.resource("notes://tree{/names*}")
    async def tree(names: list[str]) -> list[str | bytes]:
        return [f"tree {'|'.join(names)}", b"leaf"]

    @server.resource("notes://search{?q,limit}")
    async def search(q: str, limit: int = 10) -> str:
        return f"search {q!r} {limit!r}"

    @server.resource("notes://anywhere/{+path}", allow_traversal=True)
    async def anywhere(path: str) -> str:
        return f"anywhere {path}"


def add_prompts(server: Server) -> None:
    @server.prompt(**ABOUT)
    def plan(
        city: Annotated[str, msgspec.Meta(title="City", description="where to go")],
        days: Annotated[int, "how long"],
        pace: Literal["slow", "fast"] = "slow",
    ) -> str:
        return f"{days!r} {pace} days in {city}"

    @server.prompt
    async def blocks(ctx: Context) -> list[types.PromptMessage]:
        """Every kind of content, of both roles."""
        roles: tuple[types.Role, ...] = ("user", "assistant")
        return [types.PromptMessage(role=role, content=block) for role in roles for block in known_blocks(ctx)]

    @server.prompt
    async def mixed(ctx: Context) -> list[Any]:
        said = types.PromptMessage(role="assistant", content=types.TextContent(text="said"))
        return ["before", Image(PICTURE, "image/png"), *sounds(ctx), said]

    @server.prompt
    async def whole() -> types.GetPromptResult:
        said = types.PromptMessage(role="assistant", content=types.TextContent(text="said"))
        return types.GetPromptResult(description="Made now.", messages=[said], meta=META)


def add_completions(server: Server) -> None:
    @server.completion(prompt="plan", argument="city")
    async def city(typed: str, pace: str | None) -> list[str]:
        """Suggest cities; which ones depends on the pace, if it is known."""
        cities = {"slow": ["Graz", "Genoa"], "fast": ["Geneva"], None: ["Graz", "Genoa", "Geneva"]}
        return [name for name in cities[pace] if name.startswith(typed)]

    @server.completion(prompt="plan", argument="days")
    def days(typed: str) -> list[str]:
        return [str(number) for number in range(1, 251)]

    @server.completion(template="notes://named/{name}", argument="name")
    async def name(typed: str) -> types.Completion:
        return types.Completion(values=[typed + "a", typed + "b"], total=9, has_more=True)

    @server.completion(template="notes://search{?q,limit}", argument="q")
    async def q(typed: str, limit: str | None) -> list[str]:
        return [f"{typed} of {limit}"]


async def _same(x: str) -> str:
    return x


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(page_size=int(sys.argv[1]) if len(sys.argv) > 1 else None))
