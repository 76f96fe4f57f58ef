"""The in-process bridge to an ASGI application: requests, responses, disconnection and lifespan."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiMessage, EngineError, HttpResponse, Scope

Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

URL = "http://test.local:8080/a%20b/mcp?x=1&y=%20"
START: AsgiMessage = {"type": "http.response.start", "status": 200, "headers": [(b"X-A", b"1"), (b"x-a", b"2")]}


def piece(body: bytes, *, more: bool = True) -> AsgiMessage:
    """Return a message with a part of the body of a response."""
    return {"type": "http.response.body", "body": body, "more_body": more}


async def read(response: HttpResponse) -> list[bytes]:
    """Return the chunks of the body."""
    async with aclosing(response.chunks()) as chunks:
        return [chunk async for chunk in chunks]


async def test_an_application_sees_the_scope_and_messages_of_a_real_server() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([scope, await receive()])
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})
        seen.append(await receive())

    async with AsgiEngine(app).request("POST", URL, {"X-B": "1", "accept": "*/*"}, b"hello") as response:
        assert (response.status, response.headers, await read(response)) == (204, {}, [])

    assert seen == [
        {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/a b/mcp",
            "raw_path": b"/a%20b/mcp",
            "query_string": b"x=1&y=%20",
            "root_path": "",
            "headers": [(b"host", b"test.local:8080"), (b"x-b", b"1"), (b"accept", b"*/*"), (b"content-length", b"5")],
            "client": ("127.0.0.1", 50_000),
            "server": ("test.local", 8080),
            "extensions": {},
        },
        {"type": "http.request", "body": b"hello", "more_body": False},
        {"type": "http.disconnect"},
    ]


@pytest.mark.parametrize(
    ("method", "url", "server", "fields"),
    [
        ("GET", "https://test", ("test", 443), [b"host"]),
        ("DELETE", "http://test/", ("test", 80), [b"host"]),
        ("POST", "http://test", ("test", 80), [b"host", b"content-length"]),
    ],
)
async def test_the_parts_that_a_url_omits_have_their_usual_values(
    method: str, url: str, server: tuple[str, int], fields: list[bytes]
) -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
        await send(START)
        await send(piece(b"", more=False))

    async with AsgiEngine(app, client=None).request(method, url, {}) as response:
        assert response.headers == {"x-a": "1, 2"}

    (scope,) = scopes
    assert (scope["path"], scope["server"], scope["client"]) == ("/", server, None)
    assert [name for name, _ in scope["headers"]] == fields


async def test_a_response_is_streamed_through_a_small_buffer() -> None:
    sent: list[int] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        for number in range(100):
            await send(piece(b"%d" % number))
            sent.append(number)
        await send(piece(b"", more=False))

    async with AsgiEngine(app).request("GET", URL, {}) as response, aclosing(response.chunks()) as chunks:
        await trio.testing.wait_all_tasks_blocked()
        assert len(sent) == 4
        assert await anext(chunks) == b"0"
        await trio.testing.wait_all_tasks_blocked()
        assert len(sent) == 5
        assert [chunk async for chunk in chunks] == [b"%d" % number for number in range(1, 100)]


async def test_large_bodies_are_sent_and_received_in_pieces() -> None:
    received: list[bytes] = []
    sent_reports: list[int] = []
    body = bytes(range(256)) * 200

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        message: AsgiMessage = {"more_body": True}
        while message["more_body"]:
            assert sent_reports == []
            message = await receive()
            received.append(message["body"])
        assert sent_reports == [1]
        await send(START)
        await send(piece(b"".join(received), more=False))

    engine = AsgiEngine(app)
    async with engine.request("POST", URL, {}, body, on_sent=lambda: sent_reports.append(1)) as response:
        chunks = await read(response)

    assert [len(each) for each in received] == [len(each) for each in chunks] == [16_384] * 3 + [2_048]
    assert b"".join(chunks) == body
    assert sent_reports == [1]


async def test_a_request_counts_as_sent_when_it_is_answered_without_being_read() -> None:
    sent_reports: list[int] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        await send(piece(b"", more=False))

    async with AsgiEngine(app).request("POST", URL, {}, b"x", on_sent=lambda: sent_reports.append(1)):
        assert sent_reports == [1]


async def test_leaving_a_response_early_disconnects_the_application_and_waits_for_it() -> None:
    events: list[str] = []

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(START)
        await send(piece(b"x"))
        assert (await receive())["type"] == "http.disconnect"
        for message in (piece(b"dropped"), piece(b"", more=False)):
            await send(message)
        events.append("returned")

    async with AsgiEngine(app).request("GET", URL, {}) as response:
        async with aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"x"
        assert events == []
    assert events == ["returned"]


async def test_sending_after_the_client_has_left_does_not_fail() -> None:
    events: list[str] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        await send(piece(b"x" * 1_000_000))
        events.append("sent")

    async with AsgiEngine(app).request("GET", URL, {}):
        await trio.testing.wait_all_tasks_blocked()
    assert events == ["sent"]


async def test_cancelling_the_client_does_not_cancel_the_application(autojump_clock: object) -> None:
    events: list[object] = []

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        while (await receive())["type"] != "http.disconnect":
            pass
        await trio.sleep(4)
        events.append(trio.current_time())
        await send(START)  # this comes too late, and is ignored

    with trio.move_on_after(1) as scope:
        async with AsgiEngine(app).request("GET", URL, {}):
            raise AssertionError("it has no head")
    assert scope.cancelled_caught
    assert events == [5]


async def test_an_application_that_does_not_return_after_a_disconnection_is_cancelled(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        await trio.sleep_forever()

    async with AsgiEngine(app).request("GET", URL, {}):
        left = trio.current_time()
    assert trio.current_time() - left == 5
    (record,) = caplog.records
    assert record.name == "trio_mcp.testing"
    assert record.getMessage() == (
        "the application did not return within 5 s after its client had left, and was cancelled: GET /a b/mcp"
    )


async def test_an_exception_of_the_application_becomes_an_error_500(caplog: pytest.LogCaptureFixture) -> None:
    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise ValueError("my fault")

    async with AsgiEngine(app).request("GET", URL, {}) as response:
        assert (response.status, dict(response.headers), await read(response)) == (500, {}, [])

    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert repr(record.exc_info[1]) == "ValueError('my fault')"


async def test_a_system_exit_of_the_application_is_raised_in_the_test() -> None:
    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise SystemExit(3)

    with pytest.raises(BaseExceptionGroup) as caught:
        async with AsgiEngine(app).request("GET", URL, {}):
            await trio.sleep_forever()
    assert caught.group_contains(SystemExit)


@pytest.mark.parametrize("raises", [True, False])
async def test_an_incomplete_response_breaks_off(raises: bool) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        await send(piece(b"half"))
        if raises:
            raise ValueError("my fault")

    async with AsgiEngine(app).request("GET", URL, {}) as response, aclosing(response.chunks()) as chunks:
        assert await anext(chunks) == b"half"
        with pytest.raises(EngineError, match="ended in the middle of its response") as caught:
            await anext(chunks)
        assert caught.value.sent


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([piece(b"x")], 500),
        ([{"type": "http.response.pathsend", "path": "/"}], 500),
        ([START, START], 200),
        ([START, piece(b"", more=False), piece(b"", more=False)], 200),
    ],
)
async def test_messages_that_violate_asgi_are_an_error_of_the_application(
    messages: list[AsgiMessage], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    async with AsgiEngine(app).request("GET", URL, {}) as response:
        await trio.testing.wait_all_tasks_blocked()
        assert response.status == status

    (record,) = caplog.records
    assert record.exc_info is not None
    assert "at a time when no server expects it" in str(record.exc_info[1])


async def test_closing_the_engine_has_no_effect() -> None:
    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise AssertionError

    await AsgiEngine(app).aclose()


# The lifespan.


async def lasting(scope: Scope, receive: Receive, send: Send) -> None:
    """Run an application whose lifespan stores state for its requests."""
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"]["db"] = "open"
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        scope["state"]["db"] = "closed"
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await send(START)
        await send(piece(str(scope.get("state")).encode(), more=False))


async def test_a_lifespan_runs_as_it_does_under_a_server() -> None:
    engine = AsgiEngine(lasting)

    async def state() -> list[bytes]:
        async with engine.request("GET", URL, {}) as response:
            return await read(response)

    assert await state() == [b"None"]
    async with engine.lifespan():
        assert await state() == [b"{'db': 'open'}"]
    assert await state() == [b"None"]


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_lifespan_is_shut_down_even_if_its_block_raises_or_is_cancelled(cancelled: bool) -> None:
    messages: list[str] = []

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        messages.append((await receive())["type"])
        await send({"type": "lifespan.startup.complete"})
        messages.append((await receive())["type"])

    with trio.CancelScope() as scope, pytest.raises(KeyError) if not cancelled else trio.CancelScope():
        async with AsgiEngine(app).lifespan():
            if cancelled:
                scope.cancel()
                await trio.sleep_forever()
            raise KeyError("mine")
    assert messages == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.parametrize(
    ("startup", "error", "message"),
    [
        ({"type": "lifespan.startup.failed", "message": "no disk"}, RuntimeError, "could not start: no disk"),
        ({"type": "lifespan.startup.failed"}, RuntimeError, "could not start: "),
        (None, RuntimeError, "has returned without completing its startup"),
        (ValueError("http only"), ValueError, "http only"),
    ],
)
async def test_a_lifespan_that_does_not_start_is_an_error(startup: Any, error: type[Exception], message: str) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        if isinstance(startup, Exception):
            raise startup
        if startup is not None:
            await send(startup)

    with pytest.raises(error, match=message):
        async with AsgiEngine(app).lifespan():
            raise AssertionError("it has not started")


@pytest.mark.parametrize(
    ("shutdown", "error", "message"),
    [
        ({"type": "lifespan.shutdown.failed", "message": "busy"}, RuntimeError, "could not shut down: busy"),
        (ValueError("oops"), ValueError, "oops"),
        (None, RuntimeError, "has not shut down within 10 s"),
    ],
)
async def test_a_lifespan_that_does_not_end_properly_is_an_error(
    shutdown: Any, error: type[Exception], message: str, autojump_clock: object
) -> None:
    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if isinstance(shutdown, Exception):
            raise shutdown
        if shutdown is None:
            await trio.sleep_forever()
        await send(shutdown)
        await trio.sleep_forever()

    with pytest.raises(error, match=message):
        async with AsgiEngine(app).lifespan():
            pass


async def test_a_lifespan_that_crashes_ends_the_block() -> None:
    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        raise ValueError("out of memory")

    with pytest.raises(ExceptionGroup) as caught:
        async with AsgiEngine(app).lifespan():
            await trio.sleep_forever()
    assert caught.group_contains(ValueError, match="out of memory")
