"""`python/ported_official_server.py` and `python/ported_fastmcp_server.py`, ported by the pages about these SDKs."""

from trio_mcp import Context, Server

server = Server("Demo")


@server.tool
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    await ctx.report_progress(1, 2)
    return a + b


@server.resource("greeting://{name}")
def greeting(name: str) -> str:
    return f"Hello, {name}!"


@server.prompt
def greet_user(name: str, style: str = "friendly") -> str:
    return f"Write a {style} greeting for {name}."


if __name__ == "__main__":
    server.run()
