"""A first server as programs of FastMCP have it."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# Type checkers run where this SDK is not installed.

from fastmcp import Context, FastMCP

mcp = FastMCP("Demo")


@mcp.tool
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    await ctx.report_progress(1, 2)
    return a + b


@mcp.resource("greeting://{name}")
def greeting(name: str) -> str:
    return f"Hello, {name}!"


@mcp.prompt
def greet_user(name: str, style: str = "friendly") -> str:
    return f"Write a {style} greeting for {name}."


if __name__ == "__main__":
    mcp.run(show_banner=False)
