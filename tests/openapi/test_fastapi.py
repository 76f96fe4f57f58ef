"""FastAPI applications as tools: what they describe of themselves, and what they answer under Trio."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
import trio
from fastapi import (
    BackgroundTasks,
    Depends,
    FastAPI,
    File,
    Form,
    Header,
    HTTPException,
    Path,
    Query,
    Request,
    UploadFile,
)
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from tests.openapi.helpers import call, tools
from trio_mcp import Server, open_client
from trio_mcp.openapi import add_asgi


class Item(BaseModel):
    """An item that can be ordered."""

    name: str = Field(min_length=1)
    price: float = Field(gt=0)
    parts: list[Item] = []


class Order(BaseModel):
    """An order as the application shows it."""

    id: int
    item: Item
    note: str | None = None


class Window(BaseModel):
    """A part of a list."""

    limit: int = Field(10, le=100)
    after: str | None = None


app = FastAPI(title="orders")


@app.get("/orders/{order_id}", tags=["orders"], operation_id="get_order")
async def get_order(
    order_id: Annotated[int, Path(ge=1)],
    window: Annotated[Window, Query()],
    x_token: Annotated[str | None, Header()] = None,
    words: Annotated[list[str] | None, Query()] = None,
) -> dict[str, Any]:
    """Get an order."""
    return {"id": order_id, "window": window.model_dump(), "token": x_token, "words": words}


@app.put("/orders/{order_id}", tags=["orders"], operation_id="put_order")
async def put_order(order_id: int, item: Item) -> Order:
    return Order(id=order_id, item=item)


@app.get("/items", operation_id="list_items", response_model=list[Item])
def list_items() -> Any:  # in a thread
    return [{"name": "pen", "price": 1, "secret": "left out by the model"}]


@app.delete("/orders/{order_id}", operation_id="delete_order")
async def delete_order(order_id: int) -> None:
    raise HTTPException(409, detail=f"order {order_id} was shipped", headers={"X-Reason": "shipped"})


@app.post("/upload", operation_id="upload")
async def upload(file: UploadFile, others: Annotated[list[UploadFile] | None, File()] = None) -> dict[str, Any]:
    contents = [await each.read() for each in (file, *(others or []))]
    return {"sizes": [len(each) for each in contents], "type": file.content_type, "first": contents[0].hex()}


@app.post("/sign-in", operation_id="sign_in")
async def sign_in(
    name: Annotated[str, Form()], roles: Annotated[list[str], Form()], note: Annotated[str | None, Form()] = None
) -> dict[str, Any]:
    return {"name": name, "roles": roles, "note": note}


async def even(number: int) -> int:
    if number % 2:
        raise HTTPException(422, detail=[{"loc": ["query", "number"], "msg": "must be even"}])
    return number


@app.get("/half", operation_id="half")
async def half(number: Annotated[int, Depends(even)]) -> int:
    return number // 2


@app.get("/broken", operation_id="broken")
async def broken() -> None:
    raise ZeroDivisionError("a detail of the database")


@app.get("/asyncio", operation_id="with_asyncio")
async def with_asyncio() -> None:
    await asyncio.sleep(1)


@pytest.fixture
def server() -> Server:
    """A server with all operations of the application."""
    server = Server("orders")
    assert add_asgi(server, app, include=["* *"]).left_out == {}
    return server


async def test_parameters_of_all_places_and_models_are_arguments(server: Server) -> None:
    schema = (await tools(server))["get_order"].input_schema

    assert schema["required"] == ["order_id"]
    assert schema["properties"]["order_id"]["minimum"] == 1
    assert schema["properties"]["limit"]["maximum"] == 100
    assert await call(server, "get_order", order_id=7, limit=5, words=["a", "b"], **{"x-token": "t"}) == {
        "id": 7,
        "window": {"limit": 5, "after": None},
        "token": "t",
        "words": ["a", "b"],
    }


async def test_an_optional_argument_that_is_null_is_not_sent(server: Server) -> None:
    seen = await call(server, "get_order", order_id=7, after=None, words=None, **{"x-token": None})

    assert (seen["window"], seen["token"], seen["words"]) == ({"limit": 10, "after": None}, None, None)


async def test_a_body_is_a_model_that_may_contain_itself(server: Server) -> None:
    item = {"name": "set", "price": 3, "parts": [{"name": "pen", "price": 1}]}

    schema = (await tools(server))["put_order"].input_schema
    (name,) = schema["$defs"]
    assert schema["properties"]["body"] == {"$ref": f"#/$defs/{name}"}
    assert schema["$defs"][name]["properties"]["parts"]["items"] == {"$ref": f"#/$defs/{name}"}
    assert (await call(server, "put_order", order_id=7, body=item))["item"]["parts"][0]["name"] == "pen"


async def test_a_value_that_only_the_application_can_refuse_is_a_tool_error_with_its_reason(server: Server) -> None:
    assert await call(server, "half", number=8) == 4
    said = await call(server, "half", number=7)
    assert said.startswith("the API answered 422 Unprocessable ")
    assert said.endswith(': {"detail": [{"loc": ["query", "number"], "msg": "must be even"}]}')


async def test_a_validation_error_of_the_application_names_the_field(server: Server) -> None:
    strict = FastAPI()

    @strict.get("/days", operation_id="days")
    async def days(date: str) -> str:
        return date

    # The description says less than the application checks.
    described = strict.openapi()
    described["paths"]["/days"]["get"]["parameters"] = []
    other = Server("days")
    add_asgi(other, strict, source=described, include=["days"])

    said = await call(other, "days")
    assert said.startswith("the API answered 422 Unprocessable ")
    assert '{"detail": [{"type": "missing"' in said
    assert '"loc": ["query", "date"]' in said
    # What the description says, the server checks before the application is called.
    assert "$.order_id" in await call(server, "get_order", order_id=0)


async def test_a_response_model_is_the_output_schema() -> None:
    server = Server("orders")
    add_asgi(server, app, include=["put_order", "list_items", "upload"], check_responses="refuse")

    schemas = {name: tool.output_schema for name, tool in (await tools(server)).items()}

    order, items = schemas["put_order"], schemas["list_items"]
    assert order is not None
    assert items is not None
    assert ([*order["properties"]], order["required"]) == (["id", "item", "note"], ["id", "item"])
    assert items["type"] == "array"
    assert await call(server, "list_items") == [{"name": "pen", "price": 1.0, "parts": []}]


async def test_an_http_exception_is_a_tool_error_with_its_detail(server: Server) -> None:
    assert await call(server, "delete_order", order_id=7) == "the API answered 409 Conflict: order 7 was shipped"


async def test_files_are_uploaded_from_base64(server: Server) -> None:
    data = [base64.b64encode(each).decode() for each in (b"\x00\xff", b"abc", b"")]

    schema = (await tools(server))["upload"].input_schema["properties"]["body"]
    assert schema["properties"]["file"]["contentEncoding"] == "base64"
    assert await call(server, "upload", body={"file": data[0], "others": data[1:]}) == {
        "sizes": [2, 3, 0],
        "type": "application/octet-stream",
        "first": "00ff",
    }
    assert (await call(server, "upload", body={"file": data[0], "others": None}))["sizes"] == [2]
    assert await call(server, "upload", body={"file": "?"}) == "argument 'body.file': expected bytes in base64"


async def test_a_form_has_fields_and_lists(server: Server) -> None:
    assert await call(server, "sign_in", body={"name": "a&b", "roles": ["x", "y"], "note": None}) == {
        "name": "a&b",
        "roles": ["x", "y"],
        "note": None,
    }


async def test_an_application_that_fails_answers_500_and_the_log_says_why(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    said = await call(server, "broken")

    assert said == "the API answered 500 Internal Server Error"
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "the application failed at GET /broken")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


async def test_an_endpoint_that_needs_asyncio_is_an_error_with_the_cause_and_the_cure(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    said = await call(server, "with_asyncio")

    assert said.startswith("the application uses asyncio, and it runs on Trio")
    assert "trio.to_thread.run_sync" in said
    assert said.endswith("call it by its URL, with add_openapi()")
    assert "GET /asyncio" in caplog.text


async def test_a_stream_is_read_up_to_the_limit_and_then_ended() -> None:
    streaming = FastAPI()
    sent: list[int] = []
    ended = trio.Event()

    async def lines(count: int) -> AsyncIterator[bytes]:
        try:
            for number in range(count):
                sent.append(number)
                yield b"x" * 1000
                await trio.lowlevel.checkpoint()
        finally:
            ended.set()

    @streaming.get("/lines", operation_id="lines")
    async def stream(count: int) -> StreamingResponse:
        return StreamingResponse(lines(count), media_type="text/plain")

    server = Server("lines")
    add_asgi(server, streaming, include=["lines"], max_response_bytes=10_000)

    async with open_client(server) as client:
        short = await client.call_tool("lines", {"count": 3})
        long: Any = await client.call_tool("lines", {"count": 10**9})
        await ended.wait()

    assert len(short.content[0].text) == 3000  # type: ignore[union-attr]
    assert long.content[0].text == "the response is longer than 10000 bytes"
    assert len(sent) < 100


async def test_a_background_task_delays_no_answer_and_is_done_when_the_server_has_ended() -> None:
    mailing = FastAPI()
    begin, done = trio.Event(), list[str]()

    async def send_mail(to: str) -> None:
        await begin.wait()
        done.append(to)

    @mailing.post("/mails", operation_id="mail")
    async def mail(to: str, tasks: BackgroundTasks) -> str:
        tasks.add_task(send_mail, to)
        return "accepted"

    server = Server("mails")
    add_asgi(server, mailing, include=["mail"])

    async with open_client(server) as client:
        assert (await client.call_tool("mail", {"to": "ada"})).structured_content == "accepted"
        assert done == []
        begin.set()

    assert done == ["ada"]


async def test_the_lifespan_of_an_application_and_its_state() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        log.append("started")
        yield {"database": "connected"}
        log.append("ended")

    stateful = FastAPI(lifespan=lifespan)

    @stateful.get("/state", operation_id="state")
    async def state(request: Request) -> str:
        return getattr(request.state, "database", "not connected")

    server, without = Server("with"), Server("without")
    add_asgi(server, stateful, include=["state"], lifespan=True)
    add_asgi(without, stateful, include=["state"])

    assert (await call(without, "state"), log) == ("not connected", [])
    assert (await call(server, "state"), log) == ("connected", ["started", "ended"])


async def test_webhooks_and_callbacks_of_an_application_are_no_tools() -> None:
    calling = FastAPI()
    back = FastAPI()

    @back.post("{$request.query.url}")
    def paid() -> None: ...

    @calling.post("/invoices", operation_id="invoice", callbacks=back.routes)
    async def invoice(url: str) -> str:
        return url

    @calling.webhooks.post("new-order")
    def new_order(order: Order) -> None: ...

    server = Server("invoices")
    described = calling.openapi()

    assert "webhooks" in described
    assert "callbacks" in described["paths"]["/invoices"]["post"]
    assert add_asgi(server, calling, include=["* *"]).names == ["invoice"]
    assert await call(server, "invoice", url="http://me.test/") == "http://me.test/"
