"""A modern server by hand that asks in its results, and what it asks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, Unpack

import trio

from trio_mcp import Client, ClientOptions, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server

Json: TypeAlias = dict[str, Any]

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
DONE: Json = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
FORM: Json = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]}
HOW_MANY: Json = {"method": "elicitation/create", "params": {"message": "How many?", "requestedSchema": FORM}}
PAGE: Json = {"mode": "url", "message": "Log in", "url": "https://example.com/login"}
LOG_IN: Json = {"method": "elicitation/create", "params": PAGE}
THINK: Json = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5},
}
WHERE: Json = {"method": "roots/list"}

ROOTS = [types.Root(uri="file:///home", name="home")]
HI = types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="hi"))


@asynccontextmanager
async def asked(**options: Unpack[ClientOptions]) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Connect a client to a modern server by hand, and bound the time it may be open."""
    options.setdefault("revision", MODERN)
    with trio.fail_after(10_000):
        async with open_scripted_server(**options) as connected:
            yield connected


def interim(state: str | None = None, **questions: Json) -> Json:
    """Return a result that asks; without any question it has no member for them."""
    return (
        {"resultType": "input_required"}
        | ({"inputRequests": questions} if questions else {})
        | ({} if state is None else {"requestState": state})
    )


async def two(_: object) -> types.ElicitResult:
    """Answer the question of `HOW_MANY`."""
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"count": 2})


TWO: Json = {"action": "accept", "content": {"count": 2}}


async def hi(_: object) -> types.CreateMessageResult:
    """Answer the question of `THINK`."""
    await trio.lowlevel.checkpoint()
    return HI


async def no(request: Any) -> Any:
    """Stand for a callback that is never asked."""
    raise AssertionError(request)


@asynccontextmanager
async def in_background(call: Callable[[], Awaitable[Any]]) -> AsyncGenerator[list[Any]]:
    """Wait for *call* beside the block; when the block has ended, its outcome is in the list."""
    outcome: list[Any] = []

    async def wait() -> None:
        try:
            outcome.append(await call())
        except Exception as error:  # noqa: BLE001 # the outcome
            outcome.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        yield outcome
