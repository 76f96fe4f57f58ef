"""The tools, the resource and the prompt of the tour (see `tour.py`), for servers of other SDKs in Python."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["register"]


def register(server: Any, context: type, ask: Callable[[Any], Awaitable[str]]) -> None:
    """Fill a server whose decorators are called, as those of FastMCP and of the official SDK can be.

    Args:
        server: the server.
        context: the class by which the server finds the parameter that takes the context.
        ask: asks the user for a name.
    """

    def add(a: int, b: int) -> int:
        return a + b

    async def count(to: int, ctx: Any) -> str:
        for step in range(1, to + 1):
            await ctx.report_progress(step, to)
        return f"counted to {to}"

    async def ask_user(ctx: Any) -> str:
        return f"hello {await ask(ctx)}"

    def fail() -> str:
        raise ValueError("it failed")

    def memo() -> str:
        return "one"

    def greet(name: str) -> str:
        return f"Greet {name}"

    for each in (count, ask_user):
        each.__annotations__["ctx"] = context
    for tool in (add, count, fail):
        server.tool()(tool)
    server.tool(name="ask")(ask_user)
    server.resource("memo://one")(memo)
    server.prompt()(greet)
