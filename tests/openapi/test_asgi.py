"""ASGI applications that are called in this process: what they see, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio

from tests.openapi.helpers import add, call, describe
from trio_mcp import Server, http_app, open_client, open_http_client
from trio_mcp.testing import AsgiEngine

START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
FAILED = "the API answered 500 Internal Server Error"


def body(content: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


def application(answer: Callable[..., Any]) -> Server:
    """Return a server whose tool `get` calls an ASGI application."""
    server, _ = add(describe(get={}), answer)
    return server


async def test_an_application_sees_a_request_as_from_a_server() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
        await send(START)
        await send(body(b"text"))
        assert await receive() == {"type": "http.disconnect"}
        scopes.append("disconnected")

    server, _ = add(describe(get={}), app, base_url="https://shop.example/v1")

    assert await call(server, "get") == "text"
    scope, disconnected = scopes
    assert (scope["method"], scope["scheme"], scope["path"], scope["raw_path"]) == (
        "GET",
        "https",
        "/v1/get",
        b"/v1/get",
    )
    assert (scope["server"], dict(scope["headers"])[b"host"]) == (("shop.example", 443), b"shop.example")
    assert "state" not in scope
    assert disconnected == "disconnected"


async def test_the_body_of_a_response_to_head_is_not_read() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"never"))

    server, _ = add(describe(get={"method": "head"}), app)

    assert await call(server, "get") == "200 OK"


async def fails_at_once(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError("a bug")


async def exits(scope: Any, receive: Any, send: Any) -> None:
    raise SystemExit(3)


async def says_nothing(scope: Any, receive: Any, send: Any) -> None:
    await receive()


async def begins_with_the_body(scope: Any, receive: Any, send: Any) -> None:
    await send(body(b"text"))


@pytest.mark.parametrize(
    ("app", "cause"),
    [
        (fails_at_once, "a bug"),
        (exits, "the application tried to exit the process"),
        (says_nothing, "the application returned without a whole answer to GET /get"),
        (begins_with_the_body, "'http.response.body' at a time when no server expects it"),
    ],
)
async def test_an_application_that_does_not_answer_is_an_api_that_fails_and_the_log_says_why(
    app: Any, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await call(application(app), "get") == FAILED
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "trio_mcp.openapi")
    assert cause in caplog.text


async def test_an_application_that_fails_in_its_answer_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"half", more=True))
        raise ValueError("a bug")

    assert await call(application(app), "get") == "the API cannot be reached: ReadError"
    assert "a bug" in caplog.text


@pytest.mark.parametrize("status", [None, 200, 500])
async def test_an_application_that_needs_asyncio_is_an_error_with_the_cause_and_the_cure(
    status: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if status is not None:
            await send({**START, "status": status})
            await send(body(b"half", more=status == 200))
        await asyncio.sleep(1)

    said = await call(application(app), "get")

    assert said.startswith("the application uses asyncio, and it runs on Trio: use Trio instead")
    assert said.endswith("Otherwise serve it by a server for asyncio, and call it by its URL, with add_openapi()")
    assert "QuartTrio" in caplog.text


async def test_an_application_whose_answer_nobody_awaits_is_cancelled() -> None:
    log: list[str] = []
    waiting = trio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        waiting.set()
        try:
            await receive()
        except trio.Cancelled:
            log.append("cancelled")
            raise

    async with open_client(application(app)) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "get")
        await waiting.wait()
        nursery.cancel_scope.cancel()

    assert log == ["cancelled"]


async def test_what_an_application_does_after_its_answer_is_cancelled_in_the_end(autojump_clock: object) -> None:
    log: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"text"))
        try:
            await trio.sleep_forever()
        finally:
            log.append("cancelled")

    assert await call(application(app), "get") == "text"
    assert log == ["cancelled"]


# --- The lifespan ---


class Recorded:
    """An application that records its lifespan, and answers with its state."""

    def __init__(self, *, at_start: Any = None, at_end: Any = None) -> None:
        self.log: list[str] = []
        self._at_start, self._at_end = at_start, at_end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send(START)
            await send(body(repr(scope.get("state")).encode()))
            return
        assert await receive() == {"type": "lifespan.startup"}
        if self._at_start is not None:
            await self._at_start(send)
            return
        scope["state"]["number"] = 7
        self.log.append("started")
        await send({"type": "lifespan.startup.complete"})
        assert await receive() == {"type": "lifespan.shutdown"}
        self.log.append("ended")
        if self._at_end is not None:
            await self._at_end(send)
        await send({"type": "lifespan.shutdown.complete"})


async def fail(send: Any) -> None:
    raise ValueError("no database")


async def say_failed(step: str, send: Any) -> None:
    await send({"type": f"lifespan.{step}.failed", "message": "no database"})


async def return_at_once(send: Any) -> None:
    await trio.lowlevel.checkpoint()


async def wait(send: Any) -> None:
    await trio.sleep_forever()


async def need_asyncio(send: Any) -> None:
    await asyncio.sleep(1)


async def test_the_lifespan_lasts_as_long_as_the_server_is_served() -> None:
    app = Recorded()
    server, _ = add(describe(get={}), app, lifespan=True)

    for _ in range(2):
        app.log.clear()
        async with open_client(server) as client:
            assert app.log == ["started"]
            (content,) = (await client.call_tool("get")).content
        assert getattr(content, "text", None) == "{'number': 7}"
        assert app.log == ["started", "ended"]


async def test_the_lifespan_is_that_of_a_request_if_the_server_serves_single_requests() -> None:
    app = Recorded()
    server, _ = add(describe(get={}), app, lifespan=True)

    async with open_http_client("http://localhost/mcp", engine=AsgiEngine(http_app(server))) as client:
        (content,) = (await client.call_tool("get")).content

    assert getattr(content, "text", None) == "{'number': 7}"
    assert app.log == ["started", "ended"]


@pytest.mark.parametrize(
    ("at_start", "fault"),
    [
        (fail, "the application could not start: no database"),
        (partial(say_failed, "startup"), "the application could not start: no database"),
        (return_at_once, "the application has returned without completing its startup"),
        (need_asyncio, "the application could not start: the application uses asyncio"),
    ],
)
async def test_a_server_whose_application_cannot_start_is_not_served(at_start: Any, fault: str) -> None:
    server, _ = add(describe(get={}), Recorded(at_start=at_start), lifespan=True)

    with pytest.raises(RuntimeError, match=fault):
        async with open_client(server) as client:
            await client.call_tool("get")


@pytest.mark.parametrize(
    ("at_end", "logged"),
    [
        (fail, "the lifespan of the application failed"),
        (partial(say_failed, "shutdown"), "no database"),
        (wait, "the application has not shut down within 10 s, and is cancelled"),
    ],
)
async def test_an_application_that_cannot_shut_down_is_logged(
    at_end: Any, logged: str, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    server, _ = add(describe(get={}), Recorded(at_end=at_end), lifespan=True)

    assert await call(server, "get") == "{'number': 7}"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert logged in caplog.text
