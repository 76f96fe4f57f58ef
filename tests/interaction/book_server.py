"""The documented program that asks during a call: `python book_server.py [parked | replayed]`."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Declined, Dismissed, Server, serve_stdio
from trio_mcp.server import AskingMode


# The fragment below is identical to the one in the documentation.
@frozen
class Seats:
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")]


def make_server(asking: AskingMode) -> Server:
    server = Server("box office", asking=asking)

    @server.tool
    async def book(show: str, ctx: Context) -> str:
        match await ctx.elicit(f"How many seats for {show}?", Seats):
            case Accepted(value=seats):
                return f"{seats.count} seats for {show}"
            case Declined() | Dismissed():
                return "nothing booked"

    return server


if __name__ == "__main__":
    trio.run(serve_stdio, make_server("replayed" if sys.argv[1:] == ["replayed"] else "parked"))
