"""`serve_http` on real sockets: addresses, signals, shutdown and protection from misbehaving clients."""

from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import trio_mcp.server
from tests.server.raw_http_client import RawClient, connected, head_of, make_server, served
from tests.transports.http.asgi_caller import AsgiCaller, call, request
from trio_mcp import Context, HttpBound, Limits, Server, open_http_client, serve_http
from trio_mcp.server import HttpService
from trio_mcp.transports import AsgiMessage
from trio_mcp.wire import encode


@pytest.mark.requirement("B.6-S2c")
async def test_serve_http_reports_its_url_and_serves_both_eras() -> None:
    log: list[str] = []
    async with served(make_server(log)) as bound:
        assert bound.url == f"http://127.0.0.1:{bound.port}/mcp"
        assert bound.urls == [bound.url]
        for revision in ("2025-11-25", "2026-07-28"):
            async with open_http_client(bound.url, revision=revision) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        assert log == ["entered"]

    assert log == ["entered", "left"]
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", bound.port or 0)


@pytest.mark.parametrize("path", ["/", "/api/mcp", None])
async def test_the_reported_url_contains_the_path(path: str | None) -> None:
    async with served(make_server(), path=path) as bound, open_http_client(bound.url) as client:
        assert bound.url == f"http://127.0.0.1:{bound.port}{path or ''}"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_a_server_may_listen_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with served(make_server(), unix_socket=path) as bound:
        assert (bound.url, bound.port) == (f"unix:{path}", None)
        async with await trio.open_unix_socket(path) as stream:
            client = RawClient(stream)
            await client.post(call("add", {"a": 1, "b": 2}))
            assert b"200" in await client.until(b'"structuredContent":{"result":3}')
    assert not path.exists()


async def test_an_address_in_use_raises_before_the_lifespan_is_entered() -> None:
    log: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            await serve_http(make_server(log), port=port)

    assert log == []


async def test_an_exception_of_the_lifespan_is_raised_unchanged() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        raise ZeroDivisionError("no database")
        yield

    with pytest.raises(ZeroDivisionError, match="no database"):
        await serve_http(Server("x", lifespan=lifespan), port=0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"host": "0.0.0.0"}, ValueError, "allowed_hosts"),
        ({"host": "::"}, ValueError, "every address"),
        ({"port": 70_000}, ValueError, "port=70000"),
        ({"keyfile": "key.pem"}, ValueError, "needs a certfile"),
        ({"certfile": "/no/such.pem"}, OSError, r"/no/such\.pem"),
        ({"keep_alive": 0}, ValueError, "keep_alive=0"),
        ({"hosts": []}, TypeError, "unknown options: hosts"),
    ],
)
async def test_invalid_options_are_refused_before_the_lifespan_is_entered(
    options: Any, error: type[Exception], message: str
) -> None:
    log: list[str] = []
    with pytest.raises(error, match=message):
        await serve_http(make_server(log), **options)

    assert log == []


@pytest.mark.parametrize(
    ("options", "host", "status"),
    [
        ({}, "localhost:1", 200),
        ({}, "example.com", 403),
        ({"host": "127.0.0.2"}, "127.0.0.2:1", 200),
        ({"host": "::1"}, "[::1]:1", 200),
        ({"host": "0.0.0.0", "allowed_hosts": ["example.com"]}, "example.com", 200),
        ({"host": "0.0.0.0", "allowed_hosts": ["example.com"]}, "localhost", 403),
        ({"host": "0.0.0.0", "allowed_hosts": "any"}, "other.example", 200),
    ],
)
async def test_only_requests_for_allowed_host_names_are_served(options: Any, host: str, status: int) -> None:
    options = {"host": "127.0.0.1", **options}
    service = HttpService.of(make_server(), options.pop("host"), 0, options)
    async with service.app.run():
        assert (await AsgiCaller.post(call("add", {"a": 1, "b": 2}), {"host": host}).run(service.app)).status == status


async def test_a_signal_stops_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(serve_http, make_server(log), port=0))
            await trio.testing.wait_all_tasks_blocked()
            while not log:
                await trio.testing.wait_all_tasks_blocked(0.01)
            signal.raise_signal(signal.SIGTERM)

    assert log == ["entered", "left"]


async def test_a_signal_cancels_a_slow_start() -> None:
    entering = trio.Event()

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        entering.set()
        await trio.sleep_forever()
        yield

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(serve_http, Server("x", lifespan=lifespan), port=0))
            await entering.wait()
            signal.raise_signal(signal.SIGINT)


async def test_a_server_that_is_started_in_a_nursery_does_not_handle_signals() -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as received:
        async with served(make_server()) as bound:
            signal.raise_signal(signal.SIGTERM)
            async for number in received:
                assert number == signal.SIGTERM
                break
            async with open_http_client(bound.url) as client:
                assert client.server_info is not None


async def test_a_cancelled_server_ends_at_once() -> None:
    log: list[str] = []
    server = make_server(log, limits=Limits(drain_seconds=1000))
    go = trio.Event()

    @server.tool
    async def wait() -> str:
        await go.wait()
        return "never"

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            bound: HttpBound = await nursery.start(partial(serve_http, server, port=0))
            async with connected(bound) as client:
                await client.post(call("wait"))
                await trio.testing.wait_all_tasks_blocked(0.05)
                nursery.cancel_scope.cancel()

    assert log == ["entered"]  # a cancellation skips the code after the yield


async def test_a_stop_completes_in_flight_requests_and_ends_streams() -> None:
    server, go, begun = make_server(), trio.Event(), trio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        await go.wait()
        return "done"

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            bound: HttpBound = await nursery.start(partial(serve_http, server, port=0))
            async with connected(bound) as caller, connected(bound) as listener:
                await caller.post(call("wait"))
                await listener.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
                await listener.until(b"notifications/subscriptions/acknowledged")
                await begun.wait()
                nursery.start_soon(bound.stop)
                ended = await listener.rest()
                go.set()
                assert b'"done"' in await caller.rest()

    assert b'"resultType":"complete"' in ended
    assert ended.endswith(b"0\r\n\r\n")


async def test_what_is_beside_the_endpoint_answers_a_request_for_the_head_only() -> None:
    async def version() -> str:
        return "1.0"

    serving = served(make_server(), health_path="/healthz", routes={"/version": version})
    async with serving as bound, connected(bound) as client:
        for path, length in (("/healthz", 7), ("/version", 3)):
            await client.stream.send_all(f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert f"content-length: {length}\r\n".encode() in await client.until(b"\r\n\r\n")
            client.received = b""
        await client.stream.send_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await client.until(b"1.0")).startswith(b"HTTP/1.1 200")


async def test_a_stop_completes_requests_to_routes() -> None:
    go, begun = trio.Event(), trio.Event()

    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_http, make_server(), port=0, routes={"/slow": slow})
            bound: HttpBound = await nursery.start(serve)
            async with connected(bound) as caller:
                await caller.stream.send_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await begun.wait()
                nursery.start_soon(bound.stop)
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(OSError, match="all attempts to connect"):
                    await trio.open_tcp_stream("127.0.0.1", bound.port or 0)
                go.set()
                assert (await caller.rest()).endswith(b"\r\n\r\ndone")


async def test_a_stop_may_be_repeated() -> None:
    async with served(make_server()) as bound:
        await bound.stop()
    await bound.stop()


async def test_a_handler_is_cancelled_when_its_client_disconnects() -> None:
    server, begun, cancelled = make_server(), trio.Event(), trio.Event()

    @server.tool
    async def wait(ctx: Context) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with served(server) as bound:
        async with connected(bound) as client:
            await client.post(call("wait"))
            await begun.wait()
        await cancelled.wait()


async def test_a_body_above_the_limit_is_refused_before_it_is_sent() -> None:
    async with served(make_server(), max_body_bytes=1000) as bound, connected(bound) as client:
        head = head_of(call("add"), **{"content-length": "1000000"})
        await client.stream.send_all(head)

        assert b" 413 " in (await client.until(b"1000 bytes")).split(b"\r\n")[0]


async def test_a_chunked_body_above_the_limit_is_refused() -> None:
    async with served(make_server(), max_body_bytes=1000) as bound, connected(bound) as client:
        head = head_of(call("add")).replace(b"content-length: ", b"transfer-encoding: chunked\r\nx-ignored: ")
        await client.stream.send_all(head + b"800\r\n" + b" " * 0x800 + b"\r\n")

        assert b" 413 " in (await client.until(b"1000 bytes")).split(b"\r\n")[0]


async def test_a_body_that_arrives_too_slowly_is_refused() -> None:
    async with served(make_server(), body_seconds=0.1) as bound, connected(bound) as client:
        await client.stream.send_all(head_of(call("add")) + b"{")

        assert b" 408 " in (await client.until(b"0.1 s")).split(b"\r\n")[0]


UPGRADE = (
    b"GET /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.mark.parametrize("extra", [b"", b"x"])
async def test_a_websocket_is_refused_without_effect_on_other_connections(
    extra: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(make_server()) as bound:
        async with connected(bound) as client:
            await client.stream.send_all(UPGRADE + extra)
            assert (await client.until(b"}}")).startswith(b"HTTP/1.1 403 ")
        async with open_http_client(bound.url) as other:
            assert (await other.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}

    assert [record for record in caplog.records if record.name.startswith("trio_mcp")] == []


async def test_a_websocket_that_cannot_be_refused_is_not_logged_above_debug(caplog: pytest.LogCaptureFixture) -> None:
    messages: list[AsgiMessage] = [{"type": "websocket.connect"}]

    async def receive() -> AsgiMessage:
        return messages.pop(0)

    async def send(_: AsgiMessage) -> None:
        raise ZeroDivisionError  # stands for h11's LocalProtocolError

    await HttpService.of(make_server(), "127.0.0.1", 0, {})._serve({"type": "websocket"}, receive, send)

    assert messages == []
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_a_client_cannot_inject_header_fields_into_a_response() -> None:
    body = encode(request("evil\r\nx-evil: 1", id="a\r\nx-evil: 1"))
    async with served(make_server()) as bound, connected(bound) as client:
        await client.stream.send_all(head_of(call("add"), **{"content-length": str(len(body))}) + body)
        response = await client.until(b"}}")

    head, _, body = response.partition(b"\r\n\r\n")
    assert b" 400 " in head.split(b"\r\n")[0]
    assert b"evil" not in head
    assert b"evil" in body


def test_a_server_without_http_imports_no_http_modules() -> None:
    program = "import sys; from trio_mcp import Server; print(*sys.modules)"
    child = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8")

    loaded = child.stdout.split()
    assert "trio_mcp.server._server" in loaded
    assert [name for name in loaded if re.search(r"transports\.http|_serve_http", name)] == []


def test_an_unknown_name_of_the_facade_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'trio_mcp\.server' has no attribute 'nothing'"):
        getattr(trio_mcp.server, "nothing")  # noqa: B009 # the name is unknown to the type checkers
