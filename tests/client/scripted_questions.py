"""Scripted servers that ask in their results, and the questions, answers and callbacks of their tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, Unpack

import trio

from trio_mcp import Client, ClientOptions, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server
from trio_mcp.wire import DEADLINE_KEY

Json: TypeAlias = dict[str, Any]

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
DONE: Json = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
FORM: Json = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]}
HOW_MANY: Json = {"method": "elicitation/create", "params": {"message": "How many?", "requestedSchema": FORM}}
URL_PARAMS: Json = {"mode": "url", "message": "Log in", "url": "https://example.com/login"}
VISIT_URL: Json = {"method": "elicitation/create", "params": URL_PARAMS}
SAMPLE: Json = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5},
}
LIST_ROOTS: Json = {"method": "roots/list"}

ROOTS = [types.Root(uri="file:///home", name="home")]
HI = types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="hi"))


@asynccontextmanager
async def scripted_server(**options: Unpack[ClientOptions]) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Connect a client to a scripted server, modern by default; a timeout bounds the block."""
    options.setdefault("revision", MODERN)
    with trio.fail_after(10_000):
        async with open_scripted_server(**options) as connected:
            yield connected


def params_of(request: Json) -> Json:
    """Return the params of a request, without the deadline of `scripted_server`: what is left of it changes."""
    params: Json = request["params"]
    del params["_meta"][DEADLINE_KEY]
    return params


def interim(state: str | None = None, **questions: Json) -> Json:
    """Return an `input_required` result; without questions it has no `inputRequests`."""
    return (
        {"resultType": "input_required"}
        | ({"inputRequests": questions} if questions else {})
        | ({} if state is None else {"requestState": state})
    )


async def answer_two(_: object) -> types.ElicitResult:
    """Answer `HOW_MANY`."""
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"count": 2})


TWO: Json = {"action": "accept", "content": {"count": 2}}


async def answer_hi(_: object) -> types.CreateMessageResult:
    """Answer `SAMPLE`."""
    await trio.lowlevel.checkpoint()
    return HI


async def fail_if_asked(request: Any) -> Any:
    """Fail the test if the client calls this callback."""
    raise AssertionError(request)


@asynccontextmanager
async def in_background(call: Callable[[], Awaitable[Any]]) -> AsyncGenerator[list[Any]]:
    """Run *call* concurrently with the block; after the block, the yielded list contains its outcome."""
    outcome: list[Any] = []

    async def wait() -> None:
        try:
            outcome.append(await call())
        except Exception as error:  # noqa: BLE001 # the outcome
            outcome.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        yield outcome
