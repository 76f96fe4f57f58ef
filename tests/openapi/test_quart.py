"""Quart applications as tools. Quart itself needs asyncio; QuartTrio is Quart on Trio, which needs Python 3.13."""

from __future__ import annotations

import base64
import importlib
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from tests.openapi.helpers import call, describe, parameter, tools
from trio_mcp import Server, open_client
from trio_mcp.openapi import add_asgi

pytestmark = pytest.mark.skipif(sys.version_info < (3, 13), reason="Quart-Trio needs Python 3.13")


@dataclass
class Order:
    item: str
    count: int = 1


@dataclass
class Window:
    limit: int | None = None


@dataclass
class Saved:
    id: int
    order: Order
    limit: int | None


async def make_order(order_id: int, data: Order, query_args: Window) -> Saved:
    """Make an order."""
    return Saved(order_id, data, query_args.limit)


def application() -> Any:
    """Return an application of QuartTrio."""
    return importlib.import_module("quart_trio").QuartTrio("orders")


def described_application() -> tuple[Any, Any]:
    """Return an application and the description that Quart-Schema makes of it."""
    app, extension = application(), importlib.import_module("quart_schema")
    schema = extension.QuartSchema(app)
    handler: Any = extension.validate_response(Saved)(make_order)
    handler = extension.validate_querystring(Window)(extension.validate_request(Order)(handler))
    app.post("/orders/<int:order_id>")(handler)
    return app, schema.openapi_provider.schema()


async def test_a_quart_application_is_described_by_quart_schema() -> None:
    app, description = described_application()
    server = Server("orders")
    (name,) = add_asgi(server, app, source=description, include=["POST *"], check_responses="refuse").names

    tool = (await tools(server))[name]
    assert tool.title == "Make an order."
    assert [*tool.input_schema["properties"]] == ["order_id", "limit", "body"]
    assert tool.output_schema is not None
    assert await call(server, name, order_id=7, limit=3, body={"item": "pen"}) == {
        "id": 7,
        "order": {"item": "pen", "count": 1},
        "limit": 3,
    }


async def test_what_a_quart_application_refuses_is_a_tool_error() -> None:
    app, _ = described_application()
    document = describe(
        make={"path": "/orders/{id}", "method": "post", "parameters": [parameter("id", "path")]},
        none={"path": "/none"},
    )
    server = Server("orders")
    add_asgi(server, app, source=document, include=["*"])

    assert (await call(server, "make", id=7)).startswith("the API answered 400 Bad Request")
    assert (await call(server, "none")).startswith("the API answered 404 Not Found")


async def test_a_quart_application_takes_files_and_streams() -> None:
    quart: Any = importlib.import_module("quart")
    app = application()
    ended = trio.Event()

    async def upload() -> dict[str, Any]:
        files, form = await quart.request.files, await quart.request.form
        return {"file": files["file"].read().hex(), "note": form["note"]}

    async def lines() -> Any:
        async def generate() -> AsyncGenerator[bytes]:
            try:
                while True:
                    yield b"x" * 1000
            finally:
                ended.set()

        return generate()

    app.post("/upload")(upload)
    app.get("/lines")(lines)
    file = {"type": "string", "format": "binary"}
    form = {"type": "object", "properties": {"file": file, "note": {"type": "string"}}}
    body = {"content": {"multipart/form-data": {"schema": form}}}
    document = describe(upload={"method": "post", "requestBody": body}, lines={})
    server = Server("files")
    add_asgi(server, app, source=document, include=["*"], max_response_bytes=5000)

    async with open_client(server) as client:
        data = base64.b64encode(b"\x00\xff").decode()
        uploaded = await client.call_tool("upload", {"body": {"file": data, "note": "hi"}})
        endless: Any = await client.call_tool("lines")
        await ended.wait()

    assert uploaded.structured_content == {"file": "00ff", "note": "hi"}
    assert endless.content[0].text == "the response is longer than 5000 bytes"


async def test_a_background_task_of_a_quart_application_runs_in_its_lifespan() -> None:
    app = application()
    log: list[str] = []

    async def mail() -> str:
        app.add_background_task(send)
        return "accepted"

    async def send() -> None:
        log.append("sent")

    async def start() -> None:
        log.append("started")

    app.before_serving(start)
    app.post("/mail")(mail)
    server = Server("mails")
    add_asgi(server, app, source=describe(mail={"method": "post"}), include=["*"], lifespan=True)

    assert await call(server, "mail") == "accepted"
    assert log == ["started", "sent"]


async def test_a_quart_application_that_needs_asyncio_is_an_error_with_the_cause_and_the_cure() -> None:
    app = importlib.import_module("quart").Quart("orders")
    app.get("/get")(lambda: "text")
    server = Server("orders")
    add_asgi(server, app, source=describe(get={}), include=["*"])

    said = await call(server, "get")

    assert said.startswith("the application uses asyncio, and it runs on Trio")
    assert "Quart runs on Trio as QuartTrio (of quart-trio)" in said
