import trio
from trio_mcp import Context, Server, serve_stdio

server = Server("demo", version="1.0", instructions="Small sums.")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: first number
        b: second number
    """
    return a + b


@server.tool(timeout=30, max_concurrency=4)
async def crunch(steps: int, ctx: Context) -> str:
    """Work for a while and report the progress."""
    for done in range(steps):
        await trio.sleep(0.01)
        await ctx.report_progress(done + 1, total=steps, message=f"step {done + 1}")
    return "done"


@server.resource("greeting://{name}")
async def greeting(name: str) -> str:
    """A greeting for one person."""
    return f"Hello, {name}!"


@server.prompt
def review(code: str) -> str:
    """Ask for a code review."""
    return f"Please review this code:\n\n{code}"


if __name__ == "__main__":
    trio.run(serve_stdio, server)
