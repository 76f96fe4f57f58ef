"""A server whose tools, resource and prompt ask the user first: `python asking_server.py`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Server, serve_stdio

server = Server("asking")


@frozen
class Seats:
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")]


@frozen
class Agreement:
    """A form without fields, which the user accepts or declines."""


async def booked(ctx: Context) -> str:
    match await ctx.elicit("How many seats?", Seats):
        case Accepted(value=seats):
            return f"{seats.count} seats"
        case other:
            return f"nothing: {type(other).__name__}"


@server.tool
async def book(ctx: Context) -> str:
    """Book seats."""
    await ctx.report_progress(1, total=2)
    seats = await booked(ctx)
    await ctx.report_progress(2, total=2)
    return seats


@server.tool
async def pay(ctx: Context) -> str:
    """Book seats, and pay for them."""
    seats = await booked(ctx)
    paid = await ctx.elicit("Pay?", Agreement)
    return f"{seats}, {type(paid).__name__}"


@server.resource("seats://mine")
async def mine(ctx: Context) -> str:
    return await booked(ctx)


@server.prompt
async def praise(ctx: Context) -> str:
    return f"Praise my {await booked(ctx)}."


if __name__ == "__main__":
    trio.run(serve_stdio, server)
