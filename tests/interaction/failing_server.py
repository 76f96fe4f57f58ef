"""A server whose handlers of every kind raise what is no `Exception`, in this process or as a child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from tests.interaction.not_exceptions import KINDS, NOT_EXCEPTIONS, raise_it
from trio_mcp import CallNext, Request, Server, serve_stdio


def make_server() -> Server:  # noqa: C901 # a list of handlers, not a decision
    server = Server("failing")

    @server.tool
    async def fail(kind: str) -> str:
        await raise_it(kind)
        raise AssertionError

    @server.tool
    def fail_in_a_thread(kind: str) -> str:
        failure = NOT_EXCEPTIONS[kind]()
        raise failure

    @server.tool
    async def fail_later(kind: str) -> str:
        server.background.start_soon(raise_it, kind)
        await trio.lowlevel.checkpoint()
        return "begun"

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.resource("fail://{kind}")
    async def failing_resource(kind: str) -> str:
        await raise_it(kind)
        raise AssertionError

    @server.prompt
    async def failing_prompt(kind: str) -> str:
        await raise_it(kind)
        raise AssertionError

    @server.completion(prompt="failing_prompt", argument="kind")
    async def complete(prefix: str) -> Sequence[str]:
        await raise_it(prefix)
        raise AssertionError

    @server.method("com.example/fail")
    async def failing_method(params: dict[str, Any]) -> dict[str, Any]:
        await raise_it(params["kind"])
        raise AssertionError

    @server.notification("com.example/failed")
    async def failing_notification(params: dict[str, Any]) -> None:
        await raise_it(params["kind"])

    @server.middleware
    async def failing_middleware(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/list" and request.params.cursor in KINDS:
            await raise_it(request.params.cursor)
        return await call_next(request)

    return server


if __name__ == "__main__":
    trio.run(serve_stdio, make_server())
