"""WebSockets of an HTTP server: who may open one, what its requests may do, and how it ends."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field
from h2.events import DataReceived, RemoteSettingsChanged, ResponseReceived
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from tests.server.raw_http_client import make_server, served
from tests.transports.http.hypercorn.test_tls import make_certificate
from tests.transports.http.server.browser import Browser, browsing
from tests.transports.http.server.token_verifier import Tokens, protection
from tests.transports.http.socket_clients import Http2Client, read_all, read_until, reset
from trio_mcp import Context, HttpBound, Limits, Server, http_app, open_client
from trio_mcp.abc import Fetch
from trio_mcp.auth import LEEWAY_SECONDS, VerifiedToken
from trio_mcp.transports import AsgiMessage, HttpApp, Scope
from trio_mcp.transports.http import _http1_engine
from trio_mcp.transports.http.server._websocket import AsgiWebSocket

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def refusal_of(browser: Browser) -> tuple[int, Any]:
    """Return the status and the error of a refusal."""
    head = await browser.event()
    assert isinstance(head, RejectConnection)
    body = b""
    while head.has_body:
        part = await browser.event()
        assert isinstance(part, RejectData)
        body += bytes(part.data)
        if part.body_finished:
            break
    return head.status_code, json.loads(body)["error"] if body else None


# --- Who may open one ---


async def test_a_websocket_speaks_the_subprotocol_that_its_client_offers() -> None:
    async with served(make_server(), websocket=True) as bound, browsing(bound) as browser:
        accepted = await browser.event()
        assert isinstance(accepted, AcceptConnection)
        assert accepted.subprotocol == "mcp"
        await browser.initialize()
        assert await browser.call(PING) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await browser.send(CloseConnection(1000))
        assert await browser.closed() == 1000


@pytest.mark.parametrize("field_", ["origin", "host"])
async def test_pages_of_other_sites_are_refused(field_: str) -> None:
    fields = {"origin": "https://evil.example"} if field_ == "origin" else {}
    options: dict[str, Any] = {} if field_ == "origin" else {"allowed_hosts": ["example.com"]}
    async with served(make_server(), websocket=True, **options) as bound, browsing(bound, **fields) as browser:
        status, error = await refusal_of(browser)

    assert status == 403
    assert field_ in error["message"].lower()


async def test_only_the_path_of_the_endpoint_takes_websockets() -> None:
    async with served(make_server(), websocket=True) as bound, browsing(bound, path="/other") as browser:
        assert (await refusal_of(browser))[0] == 404  # as every GET


async def test_any_path_takes_websockets_if_any_is_that_of_the_endpoint() -> None:
    async with served(make_server(), websocket=True, path=None) as bound, browsing(bound, path="/x") as browser:
        assert isinstance(await browser.event(), AcceptConnection)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_websocket_carries_calls_in_every_era(revision: str) -> None:
    server = make_server()
    async with (
        served(server, websocket=True) as bound,
        open_client("ws" + bound.url.removeprefix("http"), revision=revision) as client,
    ):
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        assert [each.transport for each in server.snapshot().connections] == ["websocket"]


async def test_a_message_that_is_too_long_is_refused_and_the_next_one_served() -> None:
    server = make_server(limits=Limits(max_message_bytes=1000))
    async with served(server, websocket=True) as bound, browsing(bound) as browser:
        await browser.event()
        await browser.initialize()
        assert (await browser.call({**PING, "params": {"x": "y" * 2000}}))["error"]["code"] == -32600
        assert (await browser.call(PING))["result"] == {}


# --- The opening handshake ---

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = ("upgrade: websocket", "connection: upgrade", f"sec-websocket-key: {KEY}", "sec-websocket-version: 13")
HEARD = b"\x81\x82\x00\x00\x00\x00[]"
"""A masked message to which the server answers with an error."""


def opening(*fields: str, method: str = "GET /mcp HTTP/1.1") -> bytes:
    """Return the head of a request."""
    return "\r\n".join((method, "host: localhost", *fields, "", "")).encode("latin-1")


@asynccontextmanager
async def connected(bound: HttpBound) -> AsyncGenerator[trio.SocketStream]:
    assert bound.port is not None
    async with await trio.open_tcp_stream("127.0.0.1", bound.port) as stream:
        yield stream


async def head_of(stream: trio.SocketStream) -> bytes:
    """Return the head of the response, with what has arrived behind it."""
    return await read_until(stream, b"\r\n\r\n")


async def test_the_handshake_has_the_answer_to_the_key_and_no_subprotocol_that_was_not_offered() -> None:
    async with served(make_server(), websocket=True) as bound, connected(bound) as stream:
        await stream.send_all(opening(*UPGRADE, "sec-websocket-extensions: permessage-deflate"))
        head = await head_of(stream)
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"\r\nupgrade: websocket\r\n" in head
        assert b"\r\nconnection: upgrade\r\n" in head
        assert b"\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head  # the example of RFC 6455
        assert b"sec-websocket-protocol" not in head
        assert b"sec-websocket-extensions" not in head


async def test_a_message_that_is_sent_with_the_handshake_is_received() -> None:
    async with served(make_server(), websocket=True) as bound, connected(bound) as stream:
        await stream.send_all(opening(*UPGRADE) + HEARD[:3])
        assert (await head_of(stream)).startswith(b"HTTP/1.1 101 ")
        await stream.send_all(HEARD[3:])
        assert b'"error"' in await read_until(stream, b"}}")


@pytest.mark.parametrize(
    ("without", "field_", "status"),
    [
        (3, "sec-websocket-version: 8", b"426"),
        (3, "x: y", b"426"),
        (2, "x: y", b"400"),
        (2, "sec-websocket-key: dGhlIHNhbXBsZQ==", b"400"),
        (2, "sec-websocket-key: \xff", b"400"),
        (2, "sec-websocket-key: ====", b"400"),
    ],
)
async def test_a_malformed_handshake_is_refused(without: int, field_: str, status: bytes) -> None:
    fields = [*UPGRADE[:without], *UPGRADE[without + 1 :], field_]
    async with served(make_server(), websocket=True) as bound, connected(bound) as stream:
        await stream.send_all(opening(*fields, "connection: close"))
        reply = await read_all(stream)

    assert reply.startswith(b"HTTP/1.1 " + status)
    assert (b"\r\nsec-websocket-version: 13\r\n" in reply) == (status == b"426")


@pytest.mark.parametrize("name", ["protocol", "extensions"])
async def test_bytes_beyond_ascii_in_a_handshake_are_no_offer(name: str) -> None:
    async with served(make_server(), websocket=True) as bound, connected(bound) as stream:
        await stream.send_all(opening(*UPGRADE, f"sec-websocket-{name}: \xff"))
        assert (await head_of(stream)).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("GET /mcp HTTP/1.0", UPGRADE),
        ("POST /mcp HTTP/1.1", (*UPGRADE, "content-length: 0")),
        ("GET /mcp HTTP/1.1", UPGRADE[:1] + UPGRADE[2:]),
        ("GET /mcp HTTP/1.1", ("upgrade: h2c", *UPGRADE[1:])),
    ],
    ids=["old version", "other method", "no connection option", "other protocol"],
)
async def test_what_does_not_ask_for_a_websocket_is_answered_like_any_request(
    method: str, fields: tuple[str, ...]
) -> None:
    async with served(make_server(), websocket=True) as bound, connected(bound) as stream:
        await stream.send_all(opening(*fields, method=method))
        assert (await head_of(stream))[9:10] == b"4"


async def test_a_client_that_leaves_during_the_handshake_affects_no_other() -> None:
    async with served(make_server(), websocket=True) as bound:
        async with connected(bound) as stream:
            await stream.send_all(opening(*UPGRADE)[:-3])
        async with connected(bound) as stream:
            await stream.send_all(opening(*UPGRADE))
        async with browsing(bound) as browser:
            assert isinstance(await browser.event(), AcceptConnection)


# --- Access ---


@asynccontextmanager
async def protected(tokens: Tokens, **options: Any) -> AsyncGenerator[HttpBound]:
    """Serve a protected server with the tools ``whoami`` and, for the scope ``vault:open``, ``open``."""
    server = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.headers.get('x-source')}"

    @server.tool(name="open", scopes=["vault:open"])
    async def open_vault() -> str:
        return "open"

    @server.notification("notifications/acme/knock")
    async def knock(params: dict[str, Any], ctx: Context) -> None:
        knocks.append(ctx.principal)
        knocked.set()

    knocks: list[str | None] = []
    knocked = trio.Event()
    auth = protection(tokens, **options)
    async with served(server, websocket=True, auth=auth, allowed_hosts="any") as bound:
        yield bound
        if tokens.known:
            await knocked.wait()
            assert len(knocks) == 1


KNOCK = TextMessage('{"jsonrpc": "2.0", "method": "notifications/acme/knock", "params": {}}')


def call_of(tool: str, id: int) -> Any:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}}


async def test_a_websocket_needs_an_access_token() -> None:
    async with protected(Tokens()) as bound, browsing(bound) as browser:
        assert (await refusal_of(browser))[0] == 401


async def test_the_requests_of_a_websocket_have_its_access_and_need_their_scopes() -> None:
    tokens = Tokens()
    poor, rich = tokens.issue("ann"), tokens.issue("bob", "vault:open")
    async with protected(tokens) as bound:
        async with browsing(bound, **poor, x_source="door") as browser:
            await browser.event()
            await browser.initialize()
            reply = await browser.call(call_of("whoami", 1))
            assert "ann" in reply["result"]["content"][0]["text"]
            assert "door" in reply["result"]["content"][0]["text"]
            assert "vault:open" in (await browser.call(call_of("open", 2)))["error"]["message"]
        async with browsing(bound, **rich) as browser:
            await browser.event()
            await browser.initialize()
            assert (await browser.call(call_of("open", 1)))["result"]["content"][0]["text"] == "open"
            await browser.send(KNOCK)
            assert (await browser.call(PING))["result"] == {}


async def test_a_websocket_is_closed_when_its_access_expires() -> None:
    tokens = Tokens()
    fields = tokens.issue("ann", expires_at=-LEEWAY_SECONDS + 0.5)
    async with protected(tokens) as bound, browsing(bound, **fields) as browser:
        await browser.event()
        await browser.initialize()
        await browser.send(KNOCK)
        assert await browser.closed() == 3000


async def test_a_verifier_that_fails_refuses_the_websocket_only() -> None:
    class Failing(Tokens):
        async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
            raise ZeroDivisionError

    async with protected(Failing()) as bound, browsing(bound, authorization="Bearer x") as browser:
        assert (await refusal_of(browser))[0] == 503


# --- The end ---


async def test_a_binary_message_ends_the_websocket() -> None:
    async with served(make_server(), websocket=True) as bound, browsing(bound) as browser:
        await browser.event()
        await browser.send(BytesMessage(b"x"))
        assert await browser.closed() == 1003


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (b"\x81\x02hi", 1002),
        (b"\xc1\x80\0\0\0\0", 1002),
        (b"\x80\x80\0\0\0\0", 1002),
        (b"\x81\x81\0\0\0\0\xff", 1007),
        (b"\x82\x81\0\0\0\0\xff", 1003),
        (b"\x88\x82\0\0\0\0\x03\xed", 1002),
    ],
    ids=["not masked", "reserved bit", "no message", "not UTF-8", "binary", "code of a close"],
)
async def test_a_client_that_breaks_the_protocol_is_told_why(frames: bytes, code: int) -> None:
    async with served(make_server(), websocket=True) as bound, browsing(bound) as browser:
        await browser.event()
        await browser.initialize()
        assert (await browser.call(PING))["result"] == {}
        await browser.stream.send_all(frames)
        assert await browser.closed() == code


async def test_a_message_in_parts_with_a_ping_between_is_one_message() -> None:
    async with served(make_server(), websocket=True) as bound, browsing(bound) as browser:
        await browser.event()
        await browser.initialize()
        text = json.dumps(PING)
        await browser.send(TextMessage(text[:9], message_finished=False))
        await browser.send(Ping(b"there?"))
        await browser.send(TextMessage(text[9:]))
        assert await browser.event() == Pong(b"there?")
        event = await browser.event()
        assert isinstance(event, TextMessage)
        assert json.loads(event.data) == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_a_silent_client_is_asked_for_a_sign_of_life_and_then_counts_as_gone() -> None:
    async with served(make_server(), websocket=True, keep_alive=0.05) as bound, browsing(bound) as browser:
        await browser.event()
        for _ in range(3):
            event = await browser.event()
            assert isinstance(event, Ping)
            await browser.send(event.response())
        assert isinstance(await browser.event(), Ping)
        assert await browser.closed() == 1006  # the connection has ended without a close


async def test_a_client_that_vanishes_affects_no_other() -> None:
    server = make_server()
    async with served(server, websocket=True) as bound:
        async with browsing(bound) as browser:
            await browser.event()
            await browser.initialize()
            assert isinstance(browser.stream, trio.SocketStream)
            await reset(browser.stream)
        async with browsing(bound) as browser:
            await browser.event()
            await browser.initialize()
            assert (await browser.call(PING))["result"] == {}


async def test_a_client_that_vanishes_during_an_answer_affects_no_other() -> None:
    server = Server("s")

    @server.tool
    async def large() -> str:
        return "x" * 20_000_000

    async with served(server, websocket=True) as bound:
        async with browsing(bound) as browser:
            await browser.event()
            await browser.initialize()
            await browser.send(TextMessage(json.dumps(call_of("large", 1))))
            assert isinstance(browser.stream, trio.SocketStream)
            await browser.stream.receive_some(1)
            await trio.testing.wait_all_tasks_blocked()
            await reset(browser.stream)
        async with browsing(bound) as browser:
            await browser.event()
            await browser.initialize()
            assert (await browser.call(PING))["result"] == {}


async def test_a_stop_answers_what_is_in_flight_and_tells_that_the_server_goes_away() -> None:
    server, begun, go_on = Server("s"), trio.Event(), trio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async with served(server, websocket=True) as bound, browsing(bound) as browser:
        await browser.event()
        await browser.initialize()
        async with trio.open_nursery() as nursery:
            await browser.send(TextMessage(json.dumps(call_of("wait", 1))))
            await begun.wait()
            nursery.start_soon(bound.stop)
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
            event = await browser.event()
            assert isinstance(event, TextMessage)
            assert "done" in event.data
            assert await browser.closed() == 1001


async def test_websockets_are_logged_like_requests(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.access")
    async with served(make_server(), websocket=True, access_log=True) as bound:
        async with browsing(bound) as browser:
            await browser.event()
            await browser.send(CloseConnection(1000))
            await browser.closed()
        async with browsing(bound, origin="https://evil.example") as browser:
            await refusal_of(browser)

    lines = [record.getMessage() for record in caplog.records if record.name == "trio_mcp.access"]
    assert [line.split()[:3] for line in lines] == [["GET", "/mcp", "101"], ["GET", "/mcp", "403"]]


# --- Under any ASGI server ---


@define(eq=False)
class Caller:
    """An ASGI server that passes messages of a test to an application."""

    received: list[AsgiMessage]
    sent: list[AsgiMessage] = field(factory=list[AsgiMessage], init=False)
    failure: Exception | None = None
    """Raised at each message but the acceptance."""

    async def run(self, app: HttpApp, **more: Any) -> None:
        scope: Scope = {"type": "websocket", "path": "/mcp", "headers": [(b"host", b"localhost")], **more}
        await app(scope, self.receive, self.send)

    async def receive(self) -> AsgiMessage:
        await trio.lowlevel.checkpoint()
        if not self.received:
            await trio.sleep_forever()
        return self.received.pop(0)

    async def send(self, message: AsgiMessage) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)
        if self.failure is not None and message["type"] != "websocket.accept":
            raise self.failure


CONNECT, LEAVE = {"type": "websocket.connect"}, {"type": "websocket.disconnect"}
GOING_AWAY = {"type": "websocket.close", "code": 1001, "reason": "the server stops"}


async def test_a_client_that_has_left_is_sent_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.access")
    app = http_app(make_server(), websocket=True, access_log=True)
    async with app.run():
        caller = Caller([CONNECT, {"type": "websocket.receive", "text": json.dumps(PING)}, LEAVE])
        await caller.run(app)

    assert [message["type"] for message in caller.sent][:1] == ["websocket.accept"]
    assert "websocket.close" not in [message["type"] for message in caller.sent]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "trio_mcp.access"]
    assert line.split()[:3] == ["GET", "/mcp", "101"]


async def test_a_binary_message_of_a_client_ends_its_websocket() -> None:
    app = http_app(make_server(), websocket=True)
    async with app.run():
        caller = Caller([CONNECT, {"type": "websocket.receive", "bytes": b"x", "text": None}])
        await caller.run(app)

    assert caller.sent[-1] == {"type": "websocket.close", "code": 1003, "reason": "messages are text"}


async def test_an_error_of_the_system_ends_the_websocket() -> None:
    app = http_app(make_server(), websocket=True)
    async with app.run():
        caller = Caller([CONNECT, {"type": "websocket.receive", "text": "[]"}], failure=OSError())
        with pytest.raises(OSError):  # noqa: PT011 # of the close
            await caller.run(app)

    assert [message["type"] for message in caller.sent] == ["websocket.accept", "websocket.send", "websocket.close"]


@pytest.mark.parametrize("runs", [True, False], ids=["fails", "closes"])
async def test_a_refusal_without_a_response_is_a_close(runs: bool, caplog: pytest.LogCaptureFixture) -> None:
    caller = Caller([CONNECT], failure=ZeroDivisionError() if runs else None)
    await caller.run(http_app(make_server(), websocket=True))

    assert caller.sent == [{"type": "websocket.close"}]
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_an_application_that_does_not_run_refuses_websockets() -> None:
    caller = Caller([CONNECT])
    await caller.run(http_app(make_server(), websocket=True), extensions={"websocket.http.response": {}})

    assert caller.sent[0]["status"] == 503
    assert b"app.run()" in caller.sent[1]["body"]


async def test_websockets_of_a_cancelled_run_end(nursery: trio.Nursery) -> None:
    app = http_app(make_server(), websocket=True)
    caller, ended = Caller([CONNECT]), trio.Event()

    async def serve() -> None:
        await caller.run(app)
        ended.set()

    with trio.CancelScope() as running:
        async with app.run():
            nursery.start_soon(serve)
            while not caller.sent:
                await trio.lowlevel.checkpoint()
            running.cancel()
            await trio.lowlevel.checkpoint()
    await ended.wait()

    assert caller.sent[-1] == GOING_AWAY


async def test_a_websocket_that_is_accepted_during_a_stop_is_closed() -> None:
    app = http_app(make_server(), websocket=True)
    caller = Caller([CONNECT])

    async def send(message: AsgiMessage) -> None:
        caller.sent.append(message)
        app.stop()
        await trio.lowlevel.checkpoint()

    async with app.run():
        await app({"type": "websocket", "path": "/mcp", "headers": [(b"host", b"localhost")]}, caller.receive, send)

    assert caller.sent[-1] == GOING_AWAY


async def test_the_stream_of_a_link_never_waits_to_send() -> None:
    stream = AsgiWebSocket(Caller([]).receive, Caller([]).send)
    await stream.wait_send_all_might_not_block()
    await stream.aclose()
    assert await stream.receive_some() == b""


# --- Over HTTP/2 ---


@pytest.mark.parametrize(("path", "status"), [("/mcp", "200"), ("/other", "403")])
async def test_a_websocket_over_http2_is_served_at_the_path_of_the_endpoint(path: str, status: str) -> None:
    async with served(make_server(), websocket=True) as bound, connected(bound) as stream:
        client = Http2Client(stream)
        await client.start()
        await client.next_event(RemoteSettingsChanged)
        head = [(":method", "CONNECT"), (":protocol", "websocket"), (":path", path), (":scheme", "http")]
        head += [(":authority", "localhost"), ("sec-websocket-version", "13")]
        number = client.wire.get_next_available_stream_id()
        client.wire.send_headers(number, head)
        await client.flush()
        response = await client.next_event(ResponseReceived, number)
        assert dict(response.headers)[":status"] == status
        if status == "200":
            client.wire.send_data(number, HEARD)
            await client.flush()
            assert b'"error"' in (await client.next_event(DataReceived, number)).data


# --- Under TLS ---


async def test_a_websocket_under_tls_is_opened_and_its_pings_are_answered_at_once(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    files: dict[str, Any] = {"certfile": certificate.certfile, "keyfile": certificate.keyfile}
    async with served(make_server(), websocket=True, host="127.0.0.1", **files) as bound:
        assert bound.port is not None
        plain = await trio.open_tcp_stream("127.0.0.1", bound.port)
        async with trio.SSLStream(plain, certificate.trusted, server_hostname="localhost") as stream:
            browser = Browser(stream)
            await browser.send(Request(host="localhost", target="/mcp"))
            assert isinstance(await browser.event(), AcceptConnection)
            await browser.send(Ping(b"1"))
            assert await browser.event() == Pong(b"1")
            await browser.send(TextMessage("[]"))
            assert isinstance(await browser.event(), TextMessage)
            await browser.send(CloseConnection(1000))
            assert await browser.closed() == 1000


async def test_a_client_opens_a_websocket_under_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setattr(_http1_engine, "_trust", lambda: certificate.trusted)
    files: dict[str, Any] = {"certfile": certificate.certfile, "keyfile": certificate.keyfile}
    async with (
        served(make_server(), websocket=True, host="127.0.0.1", **files) as bound,
        open_client(f"wss://localhost:{bound.port}/mcp") as client,
    ):
        for _ in range(2):
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
