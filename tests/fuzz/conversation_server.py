"""The server of the conversations that must have the same outcome over every transport; also a program for stdio."""

from __future__ import annotations

from typing import Any

import trio
from attrs import frozen

from trio_mcp import Context, McpError, Server, ToolError, serve_stdio

__all__ = ["make_server"]


@frozen
class Answer:
    """The form that the user fills in."""

    text: str
    number: int = 0


def make_server() -> Server:  # noqa: C901 # a list of tools, not a decision
    """Return a server whose results depend only on the request, and for `remember` also on earlier requests."""
    server = Server("talk", version="1.0", instructions="Say anything.")
    remembered: list[Any] = []

    @server.tool
    async def echo(value: Any) -> list[Any]:
        """Return any JSON value in a list."""
        return [value]

    @server.tool
    async def divide(a: int, b: int) -> float:
        return a / b

    @server.tool
    def shout(text: str) -> str:
        return text.upper()

    @server.tool
    async def count(steps: int, then: str, ctx: Context) -> int:
        """Report progress and log, then return, fail, or refuse."""
        for step in range(steps):
            await ctx.report_progress(step, total=steps, message=f"step {step}")
            await ctx.log("info", {"step": step})
        if then == "fail":
            raise ToolError(f"after {steps}")
        if then == "refuse":
            raise McpError(-5, f"after {steps}", {"steps": steps})
        return steps

    @server.tool
    async def remember(value: Any, ctx: Context) -> int:
        remembered.append(value)
        return len(remembered)

    @server.tool
    async def ask(question: str, ctx: Context) -> str:
        """Ask the user."""
        answer = await ctx.elicit(question, Answer)
        return repr(answer)

    @server.tool
    async def hang(ctx: Context) -> None:
        """Report once, and work until stopped."""
        await ctx.report_progress(1)
        await trio.sleep_forever()

    @server.resource("talk://{+path}")
    async def resource(path: str) -> str:
        return path

    @server.prompt
    def review(code: str, style: str = "kind") -> str:
        return f"A {style} review of {code}."

    return server


if __name__ == "__main__":
    trio.run(serve_stdio, make_server())
