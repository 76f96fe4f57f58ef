"""A server whose handlers ask during a call: the documented program, and one handler for every other question.

Usage: ``python asking_server.py [parked | replayed]``.
"""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Declined, Dismissed, Elicit, ListRoots, Server, serve_stdio, types

server = Server("asking", asking="replayed" if sys.argv[1:] == ["replayed"] else "parked")
side_effects: list[str] = []
"""The state of every trip, because over HTTP the server outlives its clients."""


# The fragment below is identical to the one in the documentation.
@frozen
class Seats:
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")]


@server.tool
async def book(show: str, ctx: Context) -> str:
    match await ctx.elicit(f"How many seats for {show}?", Seats):
        case Accepted(value=seats):
            return f"{seats.count} seats for {show}"
        case Declined() | Dismissed():
            return "nothing booked"


# End of the fragment from the documentation.
@server.tool
async def careful(trip: str, ctx: Context) -> str:
    """Run a visible step before the question, and a step that runs once."""
    before, once = f"before {trip}", f"once {trip}"
    side_effects.append(before)
    await ctx.once("charge", lambda: side_effects.append(once))
    await ctx.elicit("How many?", Seats)
    await ctx.elicit("How many more?", Seats)
    return f"{side_effects.count(before)} {side_effects.count(once)}"


@server.tool
async def summarise(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    answer = await ctx.sample(f"Summarise: {text}", max_tokens=50)
    return f"{answer.model}: {answer.content.text if isinstance(answer.content, types.TextContent) else '?'}"


@server.tool
async def everything(ctx: Context) -> str:
    """Ask for everything at once."""
    seats, roots = await ctx.ask_all(Elicit("How many?", Seats), ListRoots())
    return f"{seats} {[root.uri for root in roots]}"


@server.prompt
async def plan(ctx: Context) -> str:
    match await ctx.elicit("For how many?", Seats):
        case Accepted(value=seats):
            return f"Plan an evening for {seats.count}."
        case _:
            return "Plan an evening."


@server.resource("seats://free")
async def free(ctx: Context) -> str:
    roots = await ctx.list_roots()
    return f"{len(roots)} roots"


if __name__ == "__main__":
    trio.run(serve_stdio, server)
