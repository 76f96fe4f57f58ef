"""The server of the tests about asking, here or as a child process: `python asking_server.py MODE SECONDS [KEY ...]`.

MODE is "parked" or "replayed", SECONDS is how long a question stays open, each KEY one of its keys, in hexadecimal.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
import trio
from attrs import define, field, frozen

from trio_mcp import (
    Accepted,
    AskExpired,
    Context,
    Declined,
    Dismissed,
    Elicit,
    Limits,
    ListRoots,
    Sample,
    Server,
    TooManyParked,
    serve_stdio,
)

MOST = 3
"""Handlers that may be parked."""
HOURS = 7200.0

Mode: TypeAlias = Literal["parked", "replayed"]

caller: ContextVar[str] = ContextVar("caller", default="default")


@frozen
class Seats:
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")]


@define
class State:
    """The state that the handlers of one serving share."""

    happened: defaultdict[str, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    counted: Counter[str] = field(factory=Counter[str])
    """The number of times that a handler began, or ran the step that must run once."""


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[State]:
    yield State()


def make_server(asking: Mode = "parked", ask_seconds: float = HOURS, keys: Sequence[bytes] = ()) -> Server:
    limits = Limits(max_parked=MOST, ask_seconds=ask_seconds)
    server = Server("asking", version="1.0", lifespan=lifespan, asking=asking, keys=keys, limits=limits)
    for add in (ask_plainly, ask_more, ask_and_end, ask_within_limits, watch):
        add(server)
    return server


def program(asking: Mode = "parked", ask_seconds: float = HOURS, keys: Sequence[bytes] = ()) -> list[str]:
    """Return the command line that serves over stdio what `make_server` returns for the same arguments."""
    return [str(Path(__file__)), asking, str(ask_seconds), *(key.hex() for key in keys)]


async def seats(ctx: Context, message: str, **options: Any) -> int:
    """Ask for a number; return 0 if the user does not accept."""
    match await ctx.elicit(message, Seats, **options):
        case Accepted(value=answer):
            return answer.count
        case Declined() | Dismissed():
            return 0


def ask_plainly(server: Server) -> None:
    """Add tools that ask one question and return its outcome."""

    @server.tool
    async def book(show: str, ctx: Context) -> str:
        ctx.state.counted["book"] += 1
        match await ctx.elicit(f"How many seats for {show}?", Seats):
            case Accepted(value=answer):
                return f"{answer.count} seats for {show}; begun {ctx.state.counted['book']}"
            case Declined() | Dismissed() as outcome:
                return f"nothing booked: {outcome}"

    @server.tool
    def book_in_a_thread(ctx: Context) -> str:
        ctx.state.counted["book_in_a_thread"] += 1
        count = trio.from_thread.run(seats, ctx, "How many?")
        return f"{count}; begun {ctx.state.counted['book_in_a_thread']}"

    @server.prompt
    async def invitation(ctx: Context) -> str:
        return f"Invite {await seats(ctx, 'How many guests?')} guests."

    @server.resource("table://reserved")
    async def table(ctx: Context) -> str:
        return f"A table for {await seats(ctx, 'How many?')}."

    @server.tool
    async def mood(ctx: Context) -> str:
        answer = await ctx.sample("How are you?", max_tokens=5)
        return str(cast("Any", answer.content).text)

    @server.tool
    async def where(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.list_roots()]


def ask_more(server: Server) -> None:  # noqa: C901 # a list of tools without branches
    """Add tools that ask several questions."""

    @server.tool
    async def everything(ctx: Context) -> str:
        count, roots, answer = await ctx.ask_all(
            Elicit("How many?", Seats), ListRoots(), Sample("How are you?", max_tokens=5)
        )
        return f"{cast('Any', count).value.count} {len(roots)} {answer.model}"

    @server.tool
    async def one_by_one(questions: list[str], ctx: Context) -> list[int]:
        ctx.state.counted["one_by_one"] += 1
        await ctx.report_progress(1)
        answers: list[int] = []
        for question in questions:
            answers.append(await seats(ctx, question))
            await ctx.report_progress(1 + len(answers))
            await ctx.log("info", f"{question} was answered")
        return answers

    @server.tool
    async def at_once(questions: list[str], ctx: Context) -> dict[str, int]:
        """Ask in a task for each question."""
        answers: dict[str, int] = {}

        async def one(question: str) -> None:
            answers[question] = await seats(ctx, question)

        async with trio.open_nursery() as nursery:
            for question in questions:
                nursery.start_soon(one, question)
        return dict(sorted(answers.items()))

    @server.tool
    async def by_key(ctx: Context) -> list[int]:
        """Ask the same question three times, twice by a name."""
        return [await seats(ctx, "How many?", key=key) for key in ("adults", "children", None)]

    @server.tool
    async def seats_then_roots(ctx: Context) -> str:
        count = await seats(ctx, "How many?")
        return f"{count} {len(await ctx.list_roots())}"

    @server.tool
    async def pay(ctx: Context) -> str:
        """Run a step before the question that must not run twice."""

        async def charge() -> int:
            ctx.state.counted["paid"] += 1
            await trio.lowlevel.checkpoint()
            return int(ctx.state.counted["paid"])

        receipt = await ctx.once("charge", charge)
        first = await seats(ctx, "Are you sure?")
        second = await seats(ctx, "Really?")
        return f"receipt {receipt}, {first}, {second}"

    @server.tool
    async def pay_carelessly(ctx: Context) -> str:
        ctx.state.counted["paid"] += 1
        await seats(ctx, "Are you sure?")
        return f"paid {ctx.state.counted['paid']}"


def ask_and_end(server: Server) -> None:  # a list of tools without branches
    """Add tools that ask and record how they end."""

    @server.tool
    async def linger(key: str, ctx: Context) -> None:
        """Ask, and work until stopped."""
        await seats(ctx, "How many?")
        try:
            await ctx.report_progress(1)
            await trio.sleep_forever()
        finally:
            ctx.state.happened[f"{key} stopped"].set()

    @server.tool
    async def patient(key: str, clean_up_seconds: float, ctx: Context) -> str:
        """Ask until the question expires, and clean up for the given time."""
        try:
            return str(await seats(ctx, "How many?"))
        except AskExpired as exc:
            ctx.state.happened[f"{key} expired"].set()
            try:
                await trio.sleep(clean_up_seconds)
                ctx.state.happened[f"{key} cleaned up"].set()
            finally:
                ctx.state.happened[f"{key} ended"].set()
            return f"expired: {exc}"

    @server.tool(timeout=1000)
    async def hasty(key: str, seconds: float, ctx: Context) -> str:
        """Ask with the given deadline."""
        with trio.move_on_after(seconds):
            return str(await seats(ctx, "How many?"))
        ctx.state.happened[f"{key} gave up"].set()
        return "gave up"

    @server.tool
    async def noisy(ctx: Context) -> str:
        """Send progress and log messages twice while parked, when the test requests it."""
        await ctx.report_progress(1)
        async with trio.open_nursery() as nursery:

            async def make_noise() -> None:
                await ctx.state.happened["make noise"].wait()
                for _ in range(2):
                    await ctx.report_progress(2)
                    await ctx.log("alert", "dropped")
                ctx.state.happened["noise was made"].set()

            nursery.start_soon(make_noise)
            await seats(ctx, "How many?")
        await ctx.report_progress(3)
        return "done"

    @server.tool
    async def try_to_book(ctx: Context) -> str:
        try:
            return str(await seats(ctx, "How many?"))
        except TooManyParked as exc:
            return str(exc)


def ask_within_limits(server: Server) -> None:
    """Add tools that ask and have a timeout or a concurrency limit."""

    @server.tool(max_concurrency=1)
    async def exclusive(key: str, ctx: Context) -> str:
        """Ask, and work until the test ends it; only one call may work at a time."""
        await seats(ctx, "How many?")
        ctx.state.counted["exclusive"] += 1
        most = ctx.state.counted["exclusive"]
        ctx.state.happened["some work"].set()
        await ctx.state.happened[f"end {key}"].wait()
        ctx.state.counted["exclusive"] -= 1
        return f"{most} at a time"

    @server.tool(timeout=30)
    async def timed(before: float, after: float, ctx: Context) -> str:
        await trio.sleep(before)
        await seats(ctx, "How many?")
        await trio.sleep(after)
        return "in time"

    @server.tool
    async def whose_call(ctx: Context) -> list[str]:
        before = caller.get()
        await seats(ctx, "How many?")
        return [before, caller.get()]


def watch(server: Server) -> None:
    """Add tools that observe and control the other tools."""

    @server.tool
    async def when(event: str, ctx: Context) -> str:
        await ctx.state.happened[event].wait()
        return event

    @server.tool
    async def set_event(event: str, ctx: Context) -> None:
        ctx.state.happened[event].set()

    @server.tool
    async def count_of(what: str, ctx: Context) -> int:
        return int(ctx.state.counted[what])


if __name__ == "__main__":
    mode, seconds, *given = sys.argv[1:]
    made = make_server(cast("Mode", mode), float(seconds), [bytes.fromhex(key) for key in given])
    trio.run(serve_stdio, made)
