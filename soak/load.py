"""The mixed load: the actions of the clients, each with a check of its result.

Every function makes one or a few numbered calls of one client. None sleeps without a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

import trio

from trio_mcp import Client, ResourceUpdated, types
from trio_mcp.wire import is_object

from .accounting import CANCEL, KILL
from .book import Book, WrongAnswerError

__all__ = ["EVERYTHING", "Activity", "call_number", "do_anything", "start_many_calls"]

Activity: TypeAlias = Callable[[Client, Book, Random], Awaitable[None]]

MAX_STEPS = 200
LARGE = 200_000
"""The size of an answer that no pipe or socket takes at once, in bytes."""
SOON = 0.02
"""The seconds within which most calls end. Calls are cancelled at a random time within it."""


async def call_number(client: Client, n: int, tool: str, **arguments: Any) -> None:
    """Call a tool with a number and check that the answer belongs to it.

    Raises:
        WrongAnswerError: it is not.
    """
    check(await client.call_tool(tool, {"n": n, **arguments}), n, arguments.get("size", 0))


def check(result: types.CallToolResult, n: int, size: int = 0) -> None:
    """Check that a result belongs to a number and is complete."""
    content: Any = result.structured_content
    if result.is_error or not is_object(content) or content.get("n") != n:
        raise WrongAnswerError(f"{n} was called, and the answer was {str(result)[:200]}")
    received = len(content.get("fill", ""))
    if received != size:
        raise WrongAnswerError(f"{received} of {size} bytes were received")


async def echo(client: Client, book: Book, rng: Random) -> None:
    size = rng.choice((0, 0, 0, 1_000, LARGE))
    await book.ask("call", lambda n: call_number(client, n, "echo", size=size))


async def echo_in_a_thread(client: Client, book: Book, _: Random) -> None:
    await book.ask("thread", lambda n: call_number(client, n, "echo_in_a_thread"))


async def compute(client: Client, book: Book, _: Random) -> None:
    await book.ask("process", lambda n: call_number(client, n, "compute"))


async def burst(client: Client, book: Book, rng: Random) -> None:
    """Many calls at once."""
    async with trio.open_nursery() as nursery:
        for _ in range(rng.randint(2, 32)):
            nursery.start_soon(book.ask, "call", partial(_nap, client, rng.uniform(0, SOON), 0))


async def count(client: Client, book: Book, rng: Random) -> None:
    """Follow progress, which must grow and reach its end before the result."""
    steps = rng.randint(1, MAX_STEPS)

    async def follow(n: int) -> None:
        at = 0.0
        async with client.open_call("count", {"n": n, "steps": steps}) as call:
            async for update in call.updates:
                if update.progress <= at:
                    raise WrongAnswerError(f"progress went from {at} to {update.progress}")
                at = update.progress
            check(await call.result(), n)
        if at != steps:
            raise WrongAnswerError(f"progress went to {at} of {steps}")

    await book.ask("progress", follow)


async def ask(client: Client, book: Book, _: Random) -> None:
    await book.ask("question", lambda n: call_number(client, n, "ask"))


async def listen(client: Client, book: Book, _: Random) -> None:
    """Subscribe to a resource, change it, and get the notification."""

    async def receive_change(n: int) -> None:
        uri = f"thing://{n}"
        async with client.listen(resources=[uri]) as changes:
            await call_number(client, n, "touch")
            change = await anext(changes)
        if change != ResourceUpdated(uri):
            raise WrongAnswerError(f"{uri} was changed, and the notification was {change}")

    await book.ask("listen", receive_change)


async def flip(client: Client, book: Book, _: Random) -> None:
    """Change the list of tools, to which other clients listen."""
    await book.ask("change", lambda n: call_number(client, n, "flip"))


async def look_around(client: Client, book: Book, _: Random) -> None:
    """Read the lists and resources, which need no numbers."""
    names = {tool.name async for tool in client.tools(fresh=True)}
    if "echo" not in names:
        book.fault(f"the list of tools was {names}")
    await client.read_resource("thing://here")
    await client.get_prompt("review", {"code": "x"})


async def cancel_soon(client: Client, book: Book, rng: Random) -> None:
    """Cancel a call at any point."""
    with trio.move_on_after(rng.uniform(0, SOON)):
        await book.ask("call", lambda n: call_number(client, n, "nap", seconds=SOON), peril=CANCEL)


async def cancel_at_work(client: Client, book: Book, _: Random) -> None:
    """Cancel a call whose handler is running."""
    with trio.CancelScope() as scope:

        async def cancel_when_begun(n: int) -> None:
            async with client.open_call("hang", {"n": n}) as call:
                await anext(call.updates)
                scope.cancel()
                await call.result()

        await book.ask("call", cancel_when_begun, peril=CANCEL)


async def cancel_a_process(client: Client, book: Book, rng: Random) -> None:
    """Cancel a call that never ends; its worker process is killed."""
    with trio.move_on_after(rng.uniform(0, 0.5)):
        await book.ask("process", lambda n: call_number(client, n, "spin"), peril=KILL)


EVERYTHING: tuple[tuple[Activity, float], ...] = (
    (echo, 30),
    (echo_in_a_thread, 5),
    (burst, 4),
    (count, 10),
    (ask, 10),
    (listen, 8),
    (flip, 1),
    (look_around, 5),
    (cancel_soon, 15),
    (cancel_at_work, 10),
    (compute, 1),
    (cancel_a_process, 0.1),
)
"""The actions and their weights."""


async def do_anything(client: Client, book: Book, rng: Random) -> None:
    """Perform one action."""
    (activity,) = rng.choices([each for each, _ in EVERYTHING], [weight for _, weight in EVERYTHING])
    await activity(client, book, rng)


def start_many_calls(
    nursery: trio.Nursery, client: Client, book: Book, *, peril: str, calls: int = 16, seconds: float = 0.2
) -> None:
    """Start several slow calls with large answers at once."""
    for index in range(calls):
        size = LARGE if index % 4 == 0 else 0
        call = partial(_nap, client, seconds * (index + 1) / calls, size)
        nursery.start_soon(partial(book.ask, "call", call, peril=peril))


async def _nap(client: Client, seconds: float, size: int, n: int) -> None:
    await call_number(client, n, "nap", seconds=seconds, size=size)
