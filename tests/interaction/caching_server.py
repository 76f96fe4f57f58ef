"""A server with cacheable results that change when a tool is called; as a program it serves over stdio."""

from __future__ import annotations

import trio

from trio_mcp import CacheHint, Context, Server, serve_stdio

MEMO = "memo://today"


def make_server() -> Server:
    """Return a server whose tool `change` adds a prompt and replaces the text of the memo."""
    hour, public = CacheHint(ttl=3600), CacheHint(ttl=3600, scope="public")
    server = Server(
        "caching",
        page_size=1,
        cache={"tools/list": public, "prompts/list": hour, "server/discover": hour, "resources/list": public},
    )
    texts = ["first"]

    @server.tool
    async def change(ctx: Context) -> int:
        """Change what can be read and listed."""
        texts.append(f"number {len(texts)}")
        server.prompt(name=f"prompt-{len(texts)}")(lambda: "")
        ctx.resource_updated(MEMO)
        return len(texts)

    @server.tool
    async def nothing() -> None:
        """Do nothing."""

    @server.resource(MEMO, cache=hour)
    async def memo() -> str:
        """Return the current memo."""
        return texts[-1]

    server.prompt(name="prompt-1")(lambda: "")
    return server


if __name__ == "__main__":
    trio.run(serve_stdio, make_server())
