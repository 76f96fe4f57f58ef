"""ASGI requests: the scope, the body and its limits, and servers without Trio."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import pytest
import trio

from tests.transports.http.asgi_caller import scope_of
from trio_mcp.transports import AsgiChannel, AsgiMessage, HttpRequest, Receive, read_body
from trio_mcp.transports.http.server._asgi import refuse_without_trio
from trio_mcp.wire import Refusal


def chunk(body: bytes, *, more: bool) -> AsgiMessage:
    return {"type": "http.request", "body": body, "more_body": more}


class ScriptedReceive:
    """A `receive` that returns one message after the other, and then waits forever."""

    def __init__(self, *messages: AsgiMessage) -> None:
        self.messages = list(messages)

    async def __call__(self) -> AsgiMessage:
        await trio.lowlevel.checkpoint()
        if not self.messages:
            await trio.sleep(math.inf)
        return self.messages.pop(0)


def received_by(receive: Receive) -> AsgiChannel:
    async def send(message: AsgiMessage) -> None:
        pytest.fail(f"{message} was sent")

    return AsgiChannel({}, receive, send)


def test_header_fields_have_lower_case_names_and_joined_values() -> None:
    lines = [(b"Accept", b" text/html\t"), (b"accept", b"text/plain"), (b"X-Name", "é".encode("latin-1"))]

    request = HttpRequest.of({**scope_of(), "headers": lines, "query_string": b"a=b%20c"})

    assert request.headers == {"accept": "text/html, text/plain", "x-name": "é"}
    assert (request.method, request.path, request.query, request.client) == ("POST", "/mcp", "a=b%20c", "127.0.0.1")
    assert (request.principal, request.body) == (None, b"")


def test_a_request_over_a_unix_socket_has_no_address() -> None:
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": None}

    assert HttpRequest.of(scope).client is None
    del scope["client"]
    assert HttpRequest.of(scope).client is None


async def test_the_parts_of_a_body_are_joined() -> None:
    receive = ScriptedReceive(
        chunk(b"ab", more=True), {"type": "http.request", "more_body": True}, chunk(b"c", more=False)
    )

    assert await read_body(received_by(receive), 3, 1) == b"abc"


async def test_the_rest_of_a_body_over_the_limit_is_not_read() -> None:
    receive = ScriptedReceive(chunk(b"abcd", more=True), chunk(b"never read", more=False))

    body = await read_body(received_by(receive), 3, 1)

    assert isinstance(body, Refusal)
    assert body.status == 413
    assert "3 bytes" in str(body.error)
    assert len(receive.messages) == 1


async def test_a_body_that_arrives_too_slowly_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()

    body = await read_body(received_by(ScriptedReceive(chunk(b"a", more=True))), 3, 10)

    assert isinstance(body, Refusal)
    assert body.status == 408
    assert "10 s" in str(body.error)
    assert trio.current_time() - began == 10


async def test_a_client_that_disconnects_in_the_middle_of_a_body_has_sent_no_body() -> None:
    assert (
        await read_body(received_by(ScriptedReceive(chunk(b"a", more=True), {"type": "http.disconnect"})), 3, 1) is None
    )


def refused_under_asyncio(scope: dict[str, Any]) -> list[AsgiMessage]:
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        await asyncio.sleep(0)
        return {"type": "lifespan.startup"}

    async def send(message: AsgiMessage) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    asyncio.run(refuse_without_trio(scope, receive, send))
    return sent


def test_the_startup_without_trio_fails_with_instructions() -> None:
    (failed,) = refused_under_asyncio({"type": "lifespan"})

    assert failed["type"] == "lifespan.startup.failed"
    assert "hypercorn -k trio" in failed["message"]


def test_a_request_without_trio_is_answered_with_instructions(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "trio_mcp.transports"):
        start, body = refused_under_asyncio({"type": "http"})

    assert start["status"] == 500
    assert b"hypercorn -k trio" in body["body"]
    assert "hypercorn -k trio" in caplog.text


def test_other_scopes_without_trio_raise_instructions() -> None:
    with pytest.raises(RuntimeError, match="hypercorn -k trio"):
        refused_under_asyncio({"type": "websocket"})
