"""A serving for a single request, for HTTP apps without a running lifespan: its abilities and refusals."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from attrs import define

from trio_mcp import Context, McpError, Server, ToolFailed, open_client, types
from trio_mcp.abc import HttpAnswerer
from trio_mcp.server import ActiveServer


@define
class ForOneRequest:
    """A server that opens each serving for a single request."""

    server: Server

    def serving(self) -> AbstractAsyncContextManager[ActiveServer]:
        return self.server.serving_one()


@define
class Consent:
    really: bool


async def accept(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"really": True})


async def test_a_server_is_an_http_answerer() -> None:
    assert isinstance(Server("any"), HttpAnswerer)


async def test_a_serving_for_one_request_answers_it() -> None:
    server = Server("one")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with open_client(ForOneRequest(server)) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_a_handler_that_asks_is_replayed_with_the_answer_in_any_asking_mode() -> None:
    server, begun = Server("one", asking="parked"), list[str]()

    @server.tool
    async def book(ctx: Context) -> str:
        begun.append("book")
        await ctx.elicit("Consent?", Consent)
        return "booked"

    async with open_client(ForOneRequest(server), on_elicit=accept) as client:
        await client.call_tool("book", raise_on_error=True)
    assert begun == ["book", "book"]


async def test_a_serving_may_have_another_asking_mode_than_its_server() -> None:
    server = Server("one", asking="parked")
    async with server.serving(asking="replayed") as replaying, server.serving() as parking:
        assert (replaying.asking, parking.asking) == ("replayed", "parked")


async def test_background_tasks_are_refused_with_advice() -> None:
    server = Server("one")

    @server.tool
    async def begin() -> None:
        server.background.start_soon(server.revisions.count)  # type: ignore[arg-type]  # never called

    async with open_client(ForOneRequest(server)) as client:
        with pytest.raises(ToolFailed, match=r"background tasks: this request has a serving of its own.*app\.run\(\)"):
            await client.call_tool("begin", raise_on_error=True)


async def test_a_server_with_a_lifespan_is_refused_with_advice() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        yield

    with pytest.raises(McpError, match=r"server 'one': its lifespan is not running.*app\.run\(\)"):
        Server("one", lifespan=lifespan).serving_one()


async def test_the_input_schema_of_a_tool_is_the_same_object_each_time() -> None:
    server = Server("one")

    @server.tool
    async def add(a: int) -> int:
        return a

    async with server.serving_one() as serving:
        schema = serving.input_schema("add", None)
        assert schema is not None
        assert schema["properties"] == {"a": {"type": "integer"}}
        assert serving.input_schema("add", None) is schema
        assert serving.input_schema("other", None) is None
