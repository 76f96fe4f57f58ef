"""Applications of asyncio that are called from Trio: routes as tools of the server that they host, and tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

from trio_mcp import Server
from trio_mcp import open_client as open_trio_client
from trio_mcp.asyncio import asyncio_app, open_client
from trio_mcp.asyncio import http_app as asyncio_http_app
from trio_mcp.asyncio import open_http_client as open_asyncio_http_client
from trio_mcp.openapi import add_asgi
from trio_mcp.testing import AsgiEngine

SECONDS = 60.0


class Stock:
    """A state that needs asyncio."""

    def __init__(self) -> None:
        self.items = {7: "Hamlet"}
        self.lock = asyncio.Lock()
        self.waiting, self.cancelled = asyncio.Event(), asyncio.Event()

    async def find(self, number: int) -> str | None:
        async with self.lock:
            await asyncio.sleep(0)
            return self.items.get(number)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    app.state.stock = Stock()
    yield


def stock_of(request: Request) -> Stock:
    stock: Stock = request.app.state.stock
    return stock


def make_app() -> FastAPI:
    app = FastAPI(lifespan=lifespan)

    @app.get("/items/{number}", operation_id="get_item")
    async def get_item(number: int, stock: Annotated[Stock, Depends(stock_of)]) -> str:
        item = await stock.find(number)
        if item is None:
            raise HTTPException(404, f"no item {number}")
        return item

    @app.post("/items", operation_id="add_item")
    async def add_item(item: str, request: Request, stock: Annotated[Stock, Depends(stock_of)]) -> int:
        await asyncio.sleep(0)
        stock.items[8] = item + (await request.body()).decode()
        return 8

    @app.get("/lines", operation_id="lines")
    async def lines() -> StreamingResponse:
        async def generate() -> AsyncGenerator[str]:
            for number in range(3):
                await asyncio.sleep(0)
                yield f"{number}\n"

        return StreamingResponse(generate(), media_type="text/plain")

    @app.get("/bug", operation_id="bug")
    async def bug() -> None:
        await asyncio.sleep(0)
        raise ValueError("a bug")

    @app.get("/forever", operation_id="forever")
    async def forever(stock: Annotated[Stock, Depends(stock_of)]) -> None:
        stock.waiting.set()
        try:
            await asyncio.sleep(SECONDS)
        finally:
            stock.cancelled.set()

    return app


@asynccontextmanager
async def hosted() -> AsyncGenerator[tuple[FastAPI, Server]]:
    """Run the lifespan of an application; yield it, and a server with its routes as tools."""
    app, server = make_app(), Server("shop")
    add_asgi(server, asyncio_app(app), include=["*"])
    async with asyncio.timeout(SECONDS), app.router.lifespan_context(app):
        yield app, server


def test_routes_that_await_asyncio_are_tools() -> None:
    async def main() -> None:
        async with hosted() as (app, server), open_client(server) as client:
            assert await client.call_tool("get_item", {"number": 7}, returns=str) == "Hamlet"
            assert await client.call_tool("add_item", {"item": "Lear"}, returns=int) == 8
            assert await app.state.stock.find(8) == "Lear"

    asyncio.run(main())


def test_an_answer_that_reports_a_failure_is_a_tool_error() -> None:
    async def main() -> None:
        async with hosted() as (_, server), open_client(server) as client:
            missing = await client.call_tool("get_item", {"number": 9})
            assert missing.is_error
            assert "no item 9" in str(missing.content)

    asyncio.run(main())


def test_an_endpoint_that_raises_is_a_tool_error_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with hosted() as (_, server), open_client(server) as client:
            assert "500 Internal Server Error" in str((await client.call_tool("bug")).content)

    asyncio.run(main())

    assert "ValueError: a bug" in caplog.text


def test_a_response_may_come_in_parts() -> None:
    async def main() -> None:
        async with hosted() as (_, server), open_client(server) as client:
            assert "0\\n1\\n2\\n" in str((await client.call_tool("lines")).content)

    asyncio.run(main())


def test_cancelling_a_call_cancels_its_endpoint() -> None:
    async def main() -> None:
        async with hosted() as (app, server), open_client(server) as client:
            call = asyncio.create_task(client.call_tool("forever"))
            await app.state.stock.waiting.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await app.state.stock.cancelled.wait()

    asyncio.run(main())


def test_a_client_reaches_a_mounted_server_without_a_socket() -> None:
    async def main() -> None:
        async with hosted() as (app, server):
            app.mount("/mcp", asyncio_http_app(server))
            engine = AsgiEngine(asyncio_app(app))
            async with open_asyncio_http_client("http://localhost/mcp/mcp", engine=engine) as client:
                assert await client.call_tool("get_item", {"number": 7}, returns=str) == "Hamlet"

    asyncio.run(main())


async def test_without_asyncio_the_log_says_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("shop")
    add_asgi(server, asyncio_app(make_app()), include=["get_item"])

    async with open_trio_client(server) as client:
        result = await client.call_tool("get_item", {"number": 7})

    assert result.is_error
    assert "asyncio_app() is for handlers of a server that asyncio hosts" in caplog.text


def test_an_application_without_a_description_needs_one() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="does not describe itself"):
        add_asgi(Server("shop"), asyncio_app(app), include=["*"])
