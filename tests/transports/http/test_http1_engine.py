"""The client's own HTTP engine over real sockets: its connections, and what ends them."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import httpx2
import pytest
import trio
from attrs import define

from tests.transports.http.hypercorn.test_tls import make_certificate
from tests.transports.http.test_engine import Connection, RawServer, listening
from trio_mcp.transports import EngineError
from trio_mcp.transports.http import _http1_engine as module
from trio_mcp.transports.http._engine import Place, place_of
from trio_mcp.transports.http._http1_engine import Http1Engine

BOOKS = "xn--bcher-kva.test"
LARGE = b"x" * 8_000_000
NO_LINGER = struct.pack("ii", 1, 0)


@asynccontextmanager
async def opened(**options: Any) -> AsyncGenerator[Http1Engine]:
    engine = Http1Engine(**options)
    try:
        yield engine
    finally:
        await engine.aclose()


async def post(
    engine: Http1Engine, url: str, content: bytes = b"{}", headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, bytes]:
    """Return the status and the body of the response."""
    async with engine.request("POST", url, headers, content) as response:
        return response.status, b"".join([chunk async for chunk in response.chunks()])


async def serve(server: RawServer, *lines: str, body: bytes = b"", connection: Connection | None = None) -> Connection:
    """Answer one request; return its connection."""
    connection = connection or await server.connection()
    await connection.request()
    await connection.send(*(lines or ("HTTP/1.1 200 OK", f"content-length: {len(body)}")), body=body)
    return connection


async def exchange(engine: Http1Engine, server: RawServer, connection: Connection | None = None) -> Connection:
    """Make a request that is answered; return its connection, which is a new one by default."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url)
        return await serve(server, connection=connection)


def reset(connection: Connection) -> None:
    """Close the server's end so that the client's next write fails."""
    stream: Any = connection.stream
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    stream.socket.close()


# --- Kept connections ---


async def test_a_kept_connection_that_had_ended_is_replaced_because_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_usable(_: object) -> bool:
        return True  # it ends a moment later

    monkeypatch.setattr(module.Http1Connection, "is_usable", is_usable)  # a fault that is a race
    async with listening() as server, opened() as engine:
        reset(await exchange(engine, server))
        await exchange(engine, server)

        assert server.accepted == 2


async def test_a_new_connection_that_ends_before_the_request_fails_it_as_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect(engine: Http1Engine, place: Place, address: str | None) -> Any:
        connection: Any = await original(engine, place, address)
        reset(await server.connection())
        await trio.lowlevel.wait_readable(connection.stream.socket)
        return connection

    original = Http1Engine.connect
    monkeypatch.setattr(Http1Engine, "connect", connect)
    async with listening() as server, opened() as engine:
        with pytest.raises(EngineError, match=r"^cannot connect to http://[^ ]*: ") as failed:
            await post(engine, server.url)

    assert not failed.value.sent


async def test_a_kept_connection_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
    async with listening() as server, listening() as other, opened() as engine:
        first = await exchange(engine, server)
        second = await exchange(engine, server)
        await first.left()
        await exchange(engine, other)
        await second.left()


async def test_a_bounded_number_of_connections_is_kept() -> None:
    async with listening() as server, listening() as other, opened(most_idle=1) as engine:
        first = await exchange(engine, server)
        await exchange(engine, other)
        await first.left()


async def leave_response(engine: Http1Engine, server: RawServer, rest: bytes) -> Connection:
    """Leave a response of which the head and then *rest* have arrived; return its connection."""
    async with trio.open_nursery() as nursery:

        async def leave() -> None:
            async with engine.request("POST", server.url, {}):
                arrived.set()
                await left.wait()

        arrived, left = trio.Event(), trio.Event()
        nursery.start_soon(leave)
        connection = await serve(server, "HTTP/1.1 202 Accepted", "transfer-encoding: chunked")
        await arrived.wait()
        if rest:
            await connection.stream.send_all(rest)
        left.set()
    return connection


async def test_a_connection_is_kept_if_the_rest_of_a_response_that_is_left_has_arrived() -> None:
    async with listening() as server, opened() as engine:
        connection = await leave_response(engine, server, b"2\r\n{}\r\n0\r\n\r\n")
        await exchange(engine, server, connection)


@pytest.mark.parametrize("rest", [b"2\r\n{}\r\n", b"malformed", b""])
async def test_a_connection_is_closed_if_a_response_is_left_before_its_end(rest: bytes) -> None:
    async with listening() as server, opened() as engine:
        connection = await leave_response(engine, server, rest)
        await connection.left()
        await exchange(engine, server)


async def test_only_a_bounded_part_of_a_response_that_is_left_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAST_READS", 1)
    async with listening() as server, opened() as engine:
        connection = await leave_response(engine, server, b"2\r\n{}\r\n")
        await connection.left()


# --- Requests ---


async def test_a_request_waits_if_nothing_can_be_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_: int, __: bytes) -> int:
        raise BlockingIOError

    monkeypatch.setattr(module, "os", SimpleNamespace(write=write, read=os.read))
    async with listening() as server, opened() as engine:
        await exchange(engine, server)


async def test_a_request_waits_again_if_nothing_can_be_read_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    def read(descriptor: int, size: int) -> bytes:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise BlockingIOError
        return os.read(descriptor, size)

    monkeypatch.setattr(module, "os", SimpleNamespace(write=os.write, read=read))
    async with listening() as server, opened() as engine:
        await exchange(engine, server)

    assert attempts == 2


async def test_the_address_of_the_latest_response_is_known() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        assert engine.reached_at is None
        await exchange(engine, server)
        nursery.start_soon(post, engine, server.url.replace("127.0.0.1", "127.0.0.2"))
        await (await server.connection()).request()
        assert engine.reached_at == "127.0.0.1"
        nursery.cancel_scope.cancel()


async def test_a_large_request_is_sent_whole() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url, LARGE)
        connection = await server.connection()
        _, fields, body = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")

    assert (fields["content-length"], body) == (str(len(LARGE)), LARGE)


async def test_a_refusal_that_arrives_before_the_request_was_sent_is_the_response() -> None:
    async def refuse() -> None:
        connection = await server.connection()
        assert await connection.stream.receive_some(100)
        await connection.send("HTTP/1.1 413 Too Large", "content-length: 3", body=b"no!")
        reset_after_data(connection)

    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        sent: list[str] = []
        async with engine.request("POST", server.url, {}, LARGE, on_sent=lambda: sent.append("whole")) as response:
            assert (response.status, [chunk async for chunk in response.chunks()]) == (413, [b"no!"])
        await exchange(engine, server)

    assert (sent, server.accepted) == ([], 2)


async def test_the_status_of_an_early_refusal_is_known_although_its_body_breaks_off() -> None:
    async def refuse() -> None:
        connection = await server.connection()
        assert await connection.stream.receive_some(100)
        await connection.send("HTTP/1.1 413 Too Large", "content-length: 100", body=b"no!")
        reset_after_data(connection)

    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        async with engine.request("POST", server.url, {}, LARGE) as response:
            assert response.status == 413
            with pytest.raises(EngineError):
                async for _ in response.chunks():
                    pass


async def test_no_representation_shows_a_secret() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(serve, server, "HTTP/1.1 200 OK", "content-length: 0", "set-cookie: id=s3cret")
        async with engine.request("POST", server.url, {"authorization": "Bearer s3cret"}, b"{}") as response:
            assert "s3cret" not in repr(response) + repr(engine)


def reset_after_data(connection: Connection) -> None:
    """Close the server's end: the system resets the connection, because there is unread data."""
    stream: Any = connection.stream
    stream.socket.close()


async def test_a_connection_that_breaks_while_a_request_is_sent_fails_it() -> None:
    async def leave() -> None:
        connection = await server.connection()
        assert await connection.stream.receive_some(100)
        reset_after_data(connection)

    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        with pytest.raises(EngineError) as failed:
            await post(engine, server.url, LARGE)

    assert failed.value.sent


async def test_a_server_that_takes_nothing_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_SECONDS", 0.01)
    async with listening() as server, opened() as engine:
        with pytest.raises(EngineError, match=r"the server has taken nothing for 0\.01 s"):
            await post(engine, server.url, LARGE * 4)


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url, LARGE)
        connection = await server.connection()
        assert await connection.stream.receive_some(100)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True), pytest.raises((trio.BrokenResourceError, AssertionError)):
            await connection.request()


@pytest.mark.parametrize("url", ["http://0177.0.0.1/mcp", "http://a.test/mcp"])
async def test_what_cannot_be_a_request_is_not_sent(url: str) -> None:
    async with opened() as engine:
        with pytest.raises(EngineError) as failed:
            async with engine.request("PO ST", url, {}):
                pass

    assert not failed.value.sent


async def test_a_connection_that_takes_too_long_to_make_is_given_up() -> None:
    async with listening() as server, opened(connect_seconds=0.0) as engine:
        with pytest.raises(EngineError, match=r"^cannot connect to http://[^ ]* within 0 s$") as failed:
            await post(engine, f"{server.url}?key=s3cret")

    assert not failed.value.sent
    assert "s3cret" not in str(failed.value)


async def test_a_connection_that_breaks_before_the_response_fails_the_request() -> None:
    async def leave() -> None:
        connection = await server.connection()
        await connection.request()
        reset(connection)

    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        with pytest.raises(EngineError) as failed:
            await post(engine, server.url)

    assert failed.value.sent


async def test_a_malformed_response_fails_the_request() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(serve, server, "HTTP/1.1 200 OK", "transfer-encoding: gzip, chunked")
        with pytest.raises(EngineError, match="the framing of the response is ambiguous") as failed:
            await post(engine, server.url)

    assert failed.value.sent


async def test_the_response_to_a_head_request_has_no_body() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(serve, server, "HTTP/1.1 200 OK", "content-length: 5")
        async with engine.request("HEAD", server.url, {}) as response:
            assert [chunk async for chunk in response.chunks()] == []


async def test_cookies_of_several_responses_are_sent_back() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url)
        connection = await serve(server, "HTTP/1.1 200 OK", "content-length: 0", "set-cookie: a=1", "set-cookie: b=2")
        nursery.start_soon(post, engine, server.url)
        _, fields, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "content-length: 0", "set-cookie: a=3")
        assert fields["cookie"] == "a=1; b=2"
        nursery.start_soon(post, engine, server.url)
        _, fields, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")
        assert fields["cookie"] == "a=3; b=2"


async def test_cookies_are_sent_to_their_host_alone() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url)
        connection = await serve(server, "HTTP/1.1 200 OK", "content-length: 0", "set-cookie: a=1")
        await connection.stream.aclose()
        nursery.start_soon(post, engine, server.url.replace("127.0.0.1", "localhost"))
        connection = await server.connection()
        _, fields, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")

    assert "cookie" not in fields


async def test_the_cookie_of_the_caller_is_not_replaced() -> None:
    async with listening() as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url)
        connection = await serve(server, "HTTP/1.1 200 OK", "content-length: 0", "set-cookie: a=1")
        nursery.start_soon(post, engine, server.url, b"{}", {"cookie": "mine=2"})
        _, fields, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")

    assert fields["cookie"] == "mine=2"


async def test_an_engine_without_cookies_sends_none() -> None:
    async with listening() as server, opened(cookies=False) as engine, trio.open_nursery() as nursery:
        nursery.start_soon(post, engine, server.url)
        connection = await serve(server, "HTTP/1.1 200 OK", "content-length: 0", "set-cookie: a=1")
        nursery.start_soon(post, engine, server.url)
        _, fields, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")

    assert "cookie" not in fields


async def test_a_cancelled_task_sends_nothing_over_a_kept_connection() -> None:
    async with listening() as server, opened() as engine:
        connection = await exchange(engine, server)
        with trio.CancelScope() as scope:
            scope.cancel()
            await post(engine, server.url, b"must not arrive")
        _ = await exchange(engine, server, connection)


# --- TLS ---


@define
class TlsServer:
    """A server with TLS, and its context."""

    raw: RawServer
    context: ssl.SSLContext

    @property
    def url(self) -> str:
        return f"https://localhost:{self.raw.port}/mcp"


@asynccontextmanager
async def listening_with_tls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[TlsServer]:
    """Listen with a certificate for `localhost` that the environment makes a trusted one."""
    certificate = make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certfile))
    module._trust.cache_clear()  # which other tests have filled
    try:
        async with listening(context) as server:
            yield TlsServer(server, context)
    finally:
        module._trust.cache_clear()  # likewise


async def test_the_certificates_of_the_environment_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, opened() as engine, trio.open_nursery() as nursery:
        nursery.start_soon(serve, server.raw, "HTTP/1.1 200 OK", "transfer-encoding: chunked")
        async with engine.request("POST", server.url, {}, b"{}") as response:
            assert (response.status, engine.reached_at) == (200, "127.0.0.1")


async def test_an_empty_body_that_arrives_in_a_record_of_its_own_does_not_close_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, opened() as engine, trio.open_nursery() as nursery:

        async def accept() -> None:
            connections.append(await serve(server.raw, "HTTP/1.1 202 Accepted", "transfer-encoding: chunked"))
            await connections[0].chunk(b"")
            arrived.set()

        connections: list[Connection] = []
        arrived = trio.Event()
        nursery.start_soon(accept)
        async with engine.request("POST", server.url, {}, b"{}"):
            await arrived.wait()
        nursery.start_soon(post, engine, server.url)
        await serve(server.raw, connection=connections[0])

        assert server.raw.accepted == 1


async def test_a_connection_with_tls_that_says_something_while_it_is_idle_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as server, opened() as engine, trio.open_nursery() as nursery:
        async with trio.open_nursery() as posting:
            posting.start_soon(post, engine, server.url)
            connection = await serve(server.raw, "HTTP/1.1 200 OK", "content-length: 0")
        ((idle,),) = engine._idle.values()
        await connection.send("HTTP/1.1 408 Timeout", "content-length: 0")
        await trio.lowlevel.wait_readable(idle._socket)
        nursery.start_soon(post, engine, server.url)
        await serve(server.raw, "HTTP/1.1 200 OK", "content-length: 0")
        await connection.left()


class BatchingStream(trio.abc.Stream):
    """A stream that holds what is sent while `holds` is set."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.holds = False
        self._held = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._held += bytes(data)
        if not self.holds:
            held, self._held = self._held, b""
            await self._stream.send_all(held)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_a_record_after_the_response_ends_the_use_of_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening_with_tls(tmp_path, monkeypatch) as trusted, opened() as engine, trio.open_nursery() as nursery:
        answers = [b"first", b"second"]

        async def answer(plain: trio.abc.Stream) -> None:
            batching = BatchingStream(plain)
            connection = Connection(trio.SSLStream(batching, trusted.context, server_side=True))
            await connection.request()
            batching.holds = True
            body = answers.pop(0)
            await connection.send("HTTP/1.1 200 OK", f"content-length: {len(body)}", body=body)
            batching.holds = False
            await connection.send("HTTP/1.1 200 OK", "content-length: 5", body=b"other")
            await connection.left()

        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        url = f"https://localhost:{listeners[0].socket.getsockname()[1]}/mcp"
        assert await post(engine, url) == (200, b"first")
        assert await post(engine, url) == (200, b"second")
        nursery.cancel_scope.cancel()


def test_httpx2_finds_the_certificates_where_openssl_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(cafile=None, capath=None)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    monkeypatch.setattr(httpx2, "create_ssl_context", lambda: found)
    module._trust.cache_clear()  # which other tests have filled

    assert module._trust() is found  # no machine of the tests has other certificates

    module._trust.cache_clear()  # for other tests


# --- Places ---


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.test", ("http://a.test", "a.test", 80, "a.test", "/")),
        ("http://a.test:8080/b?c=d?e", ("http://a.test:8080/b?c=d?e", "a.test", 8080, "a.test:8080", "/b?c=d?e")),
        ("http://a.test/?", ("http://a.test/?", "a.test", 80, "a.test", "/?")),
        ("https://A.test:443/B", ("https://a.test/B", "a.test", 443, "a.test", "/B")),
        ("http://A.test:8443", ("http://a.test:8443", "a.test", 8443, "a.test:8443", "/")),
        ("https://127.0.0.1:1/", ("https://127.0.0.1:1/", "127.0.0.1", 1, "127.0.0.1:1", "/")),
        ("http://[::1]:8000/mcp", ("http://[::1]:8000/mcp", "::1", 8000, "[::1]:8000", "/mcp")),
        ("http://bücher.test/ü", (f"http://{BOOKS}/%C3%BC", BOOKS, 80, BOOKS, "/%C3%BC")),
        ("http://a.test/b/../.c", ("http://a.test/.c", "a.test", 80, "a.test", "/.c")),
        ("http://a.test/{b}", ("http://a.test/%7Bb%7D", "a.test", 80, "a.test", "/%7Bb%7D")),
    ],
)  # fmt: skip
def test_the_place_of_a_url_is_normalized(url: str, expected: tuple[object, ...]) -> None:
    place = place_of(url)

    assert (place.url, place.host, place.port, place.authority, place.target) == expected
    assert place.is_encrypted == url.startswith("https:")


@pytest.mark.parametrize("url", ["http://0177.0.0.1/", "http://[::1/", "http://\u2060/"])
def test_a_url_without_a_place_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        place_of(url)
