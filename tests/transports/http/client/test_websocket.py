"""The client over a WebSocket: the transport contract, its opening handshake, its control frames and its end."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    Request,
    TextMessage,
)

from tests.transports.http.client.scripted_auth import ScriptedAuth
from tests.transports.http.scripted_server import ClientStub
from trio_mcp import (
    AuthorizationFailed,
    ConnectionBroken,
    ErrorResponse,
    HttpStatusError,
    Server,
    open_client,
    open_http_client,
    serve_http,
    types,
)
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Answerer, HttpAnswerer, TransportOpener
from trio_mcp.peer import Link
from trio_mcp.testing import TransportContract
from trio_mcp.transports import http_transport
from trio_mcp.transports.http import _http1_engine
from trio_mcp.transports.http._http1_engine import Http1Connection
from trio_mcp.transports.http.client import _websocket as module
from trio_mcp.transports.http.ws import Close, WebSocketStream, _stream, accept_token


def websocket_url(url: str) -> str:
    return "ws" + url.removeprefix("http")


class TestWebSocket(TransportContract):
    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        assert isinstance(server, HttpAnswerer)
        async with owned_nursery() as nursery:
            bound = await nursery.start(partial(serve_http, server, port=0, websocket=True))
            await trio.testing.wait_all_tasks_blocked()  # a clause counts its tasks
            yield http_transport(websocket_url(bound.url))
            with trio.CancelScope(shield=True):
                await bound.stop()


# --- Opening ---


@define(eq=False)
class Accepted:
    """The server's end of a connection."""

    stream: trio.SocketStream
    wire: WSConnection = field(factory=lambda: WSConnection(ConnectionType.SERVER))
    events: list[Event] = field(factory=list[Event])

    async def event(self) -> Event:
        """Return the next event of the client."""
        while not self.events:
            self.wire.receive_data(bytes(await self.stream.receive_some()) or None)
            self.events += self.wire.events()
        return self.events.pop(0)

    async def send(self, *events: Event) -> None:
        await self.stream.send_all(b"".join(map(self.wire.send, events)))

    async def accept(self, *more: Event) -> Request:
        """Accept the WebSocket, and send *more* in the same piece."""
        request = await self.event()
        assert isinstance(request, Request)
        accepted = AcceptConnection(subprotocol="mcp")
        await self.send(accepted, *more)
        return request

    async def refuse(self, status: str, body: bytes = b"", *fields: str) -> Mapping[str, str]:
        """Refuse the WebSocket; return the header fields of its request."""
        request = await self.event()
        assert isinstance(request, Request)
        lines = (f"HTTP/1.1 {status}", f"content-length: {len(body)}", *fields, "", "")
        await self.stream.send_all("\r\n".join(lines).encode() + body)
        return {name.decode(): value.decode() for name, value in request.extra_headers}


@define(eq=False)
class Listening:
    """A server that a test controls."""

    url: str
    _listener: trio.SocketListener

    accepted: list[Accepted] = field(factory=list[Accepted], init=False)

    async def accept(self) -> Accepted:
        self.accepted.append(Accepted(await self._listener.accept()))
        return self.accepted[-1]


@asynccontextmanager
async def listening() -> AsyncGenerator[Listening]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        with trio.fail_after(30):
            server = Listening(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}/mcp", listener)
            yield server
        for accepted in server.accepted:
            accepted.stream.socket.close()


async def fail_to_open(server: Listening, react: Callable[[Accepted], Any], **options: Any) -> BaseException:
    """Return what opening a client raises at a server that reacts so."""

    async def serve() -> None:
        accepted = await server.accept()
        with suppress(trio.BrokenResourceError):
            await react(accepted)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(Exception) as caught:  # noqa: PT011 # the tests check it
            async with open_http_client(server.url, revision="2026-07-28", **options):
                pass
        nursery.cancel_scope.cancel()
    return caught.value


async def test_a_client_opens_a_websocket_by_its_url() -> None:
    server = Server("s")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0, websocket=True))
        for revision in ("2024-11-05", "2026-07-28", None):
            options: dict[str, Any] = {} if revision is None else {"revision": revision}
            async with open_client(websocket_url(bound.url), **options) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).content == [types.TextContent(text="3")]
        await bound.stop()


async def test_a_server_without_websockets_refuses_with_its_status() -> None:
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, Server("s"), port=0))
        with pytest.raises(HttpStatusError) as caught:
            async with open_client(websocket_url(bound.url)):
                pass
        await bound.stop()

    assert caught.value.status == 403


async def test_the_handshake_has_the_header_fields_of_the_caller() -> None:
    fields: list[Mapping[str, str]] = []

    async def refuse(accepted: Accepted) -> None:
        fields.append(await accepted.refuse("404 Not Found"))

    async with listening() as server:
        error = await fail_to_open(server, refuse, headers={"X-Tenant": "a"})

    assert isinstance(error, HttpStatusError)
    assert fields[0]["x-tenant"] == "a"
    assert fields[0]["user-agent"].startswith("trio-mcp")


async def test_a_refusal_with_an_error_raises_that_error() -> None:
    body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"not now"}}'

    async def refuse(accepted: Accepted) -> None:
        await accepted.refuse("503 Service Unavailable", body, "content-type: application/json")

    async with listening() as server:
        error = await fail_to_open(server, refuse)

    assert isinstance(error, ErrorResponse)
    assert error.message == "not now"


async def test_no_more_of_a_refusal_is_read_than_an_error_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REFUSAL_BYTES", 100)

    async def refuse(accepted: Accepted) -> None:
        await accepted.event()
        for part in (b"HTTP/1.1 500 Oh\r\n", b"content-length: 100000\r\n\r\n", b"x" * 1000):
            await accepted.stream.send_all(part)
            await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.sleep_forever()

    async with listening() as server:
        error = await fail_to_open(server, refuse)

    assert isinstance(error, HttpStatusError)


@pytest.mark.parametrize("reply", [b"", b"220 smtp ready\r\n\r\n"], ids=["nothing", "another protocol"])
async def test_a_server_that_does_not_speak_websocket_is_named(reply: bytes) -> None:
    async def react(accepted: Accepted) -> None:
        await accepted.stream.send_all(reply)
        await accepted.stream.aclose()

    async with listening() as server:
        error = await fail_to_open(server, react)

    assert isinstance(error, ConnectionBroken)
    assert "does not open a WebSocket: " in str(error)


async def react_with(accepted: Accepted, change: Callable[[dict[str, str]], object], then: bytes = b"") -> None:
    """Accept a WebSocket as a server does that differs in some header fields."""
    request = (await accepted.stream.receive_some()).decode()
    (key,) = re.findall("sec-websocket-key: (.*)\r\n", request)
    fields = {"upgrade": "WebSocket", "connection": "keep-alive, Upgrade", "sec-websocket-accept": accept_token(key)}
    change(fields)
    lines = ("HTTP/1.1 101 Switching", *(f"{name}: {value}" for name, value in fields.items()), "", "")
    await accepted.stream.send_all("\r\n".join(lines).encode() + then)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upgrade", "h2c"),
        ("upgrade", None),
        ("connection", "keep-alive"),
        ("connection", None),
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("sec-websocket-accept", None),
        ("sec-websocket-protocol", "chat"),
        ("sec-websocket-extensions", "permessage-deflate"),
    ],
)
async def test_a_handshake_that_opens_something_else_is_refused(name: str, value: str | None) -> None:
    def change(fields: dict[str, str]) -> None:
        fields[name] = value or ""
        if value is None:
            del fields[name]

    async with listening() as server:
        error = await fail_to_open(server, partial(react_with, change=change))
        assert not await server.accepted[0].stream.receive_some()

    assert isinstance(error, ConnectionBroken)
    assert "does not open a WebSocket: the " in str(error)


async def test_a_server_may_name_no_subprotocol_and_differ_in_case() -> None:
    def change(fields: dict[str, str]) -> None:
        fields.pop("sec-websocket-protocol", None)

    async with listening() as server:
        error = await fail_to_open(server, partial(react_with, change=change, then=b"\x88\x05\x03\xe9why"))

    assert str(error) == "the server closed the WebSocket with the code 1001: why"


async def test_each_handshake_has_a_key_of_its_own() -> None:
    fields = list[Mapping[str, str]]()

    async def refuse(accepted: Accepted) -> None:
        request = (await accepted.stream.receive_some()).decode()
        fields.append(dict(line.split(": ", 1) for line in request.split("\r\n")[1:-2]))
        await accepted.stream.aclose()

    async with listening() as server:
        for _ in range(2):
            await fail_to_open(server, refuse)

    assert fields[0]["sec-websocket-key"] != fields[1]["sec-websocket-key"]
    assert (fields[0]["upgrade"], fields[0]["connection"]) == ("websocket", "Upgrade")
    assert (fields[0]["sec-websocket-version"], fields[0]["sec-websocket-protocol"]) == ("13", "mcp")


async def test_a_handshake_that_is_not_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HANDSHAKE_SECONDS", 0.01)

    async def wait(_: Accepted) -> None:
        await trio.sleep_forever()

    async with listening() as server:
        error = await fail_to_open(server, wait)

    assert isinstance(error, ConnectionBroken)
    assert "did not answer the handshake within 0.01 s" in str(error)


async def test_opening_can_be_cancelled_and_closes_the_connection() -> None:
    async with listening() as server:
        async with trio.open_nursery() as opening:

            async def cancel() -> None:
                assert isinstance(await (await server.accept()).event(), Request)
                opening.cancel_scope.cancel()

            opening.start_soon(cancel)
            async with open_client(server.url):
                pytest.fail("no WebSocket was opened")
        assert not await server.accepted[0].stream.receive_some()


async def test_a_server_that_cannot_be_reached_is_named() -> None:
    async with listening() as server:
        pass
    with pytest.raises(ConnectionBroken, match="cannot connect to"):
        async with open_http_client(server.url):
            pass


@pytest.mark.parametrize("option", ["engine", "http_client"])
def test_what_carries_http_cannot_carry_a_websocket(option: str) -> None:
    options: dict[str, Any] = {option: object()}
    with pytest.raises(ValueError, match="the URL is that of a WebSocket"):
        http_transport("ws://localhost/mcp", **options)


# --- Credentials ---


async def test_the_handshake_is_repeated_with_the_credentials_that_the_server_asks_for() -> None:
    seen: list[str] = []

    async def serve() -> None:
        accepted = await server.accept()
        seen.append((await accepted.refuse("401 Unauthorized", b"", "www-authenticate: Bearer"))["authorization"])
        accepted = await server.accept()
        request = await accepted.accept()
        seen.extend(value.decode() for name, value in request.extra_headers if name == b"authorization")
        await accepted.send(CloseConnection(1000))

    auth = ScriptedAuth()
    async with listening() as server, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(ConnectionBroken):
            async with open_http_client(server.url, auth=auth):
                pass

    address = "http" + server.url.removeprefix("ws")
    assert seen[0] == "Bearer t0"
    assert seen[1:] == [f"Bearer {auth.token}"]
    assert auth.renewals == 1
    assert auth.url == address
    assert auth.responses == [("GET", address, 401)]


async def test_a_server_that_still_refuses_after_a_renewal_is_named() -> None:
    async with listening() as server, trio.open_nursery() as nursery:

        async def refuse() -> None:
            for _ in range(2):
                await (await server.accept()).refuse("401 Unauthorized")

        nursery.start_soon(refuse)
        with pytest.raises(HttpStatusError):
            async with open_http_client(server.url, auth=ScriptedAuth()):
                pass


async def test_credentials_that_cannot_be_obtained_fail_the_opening() -> None:
    with pytest.raises(AuthorizationFailed):
        async with open_http_client("ws://127.0.0.1:1/mcp", auth=ScriptedAuth(failure=ValueError())):
            pass


# --- Open WebSockets ---


@define(eq=False)
class Opened:
    """Both ends of an open WebSocket."""

    client: WebSocketStream
    server: Accepted


def connection_of(stream: WebSocketStream) -> Http1Connection:
    channel = stream._channel
    assert isinstance(channel, module._SocketChannel)
    return channel._connection


def reason_of(ends: Opened) -> str:
    """Return why the stream of the client has ended."""
    return str(module._disconnect_reason(ends.client))


async def take_nothing(_: object) -> None:
    await trio.sleep_forever()


@asynccontextmanager
async def opened(*first: Event) -> AsyncGenerator[Opened]:
    async with listening() as server:
        found: list[WebSocketStream] = []

        async def open_() -> None:
            found.append(await module._opened("http" + server.url.removeprefix("ws"), {}, None))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_)
            accepted = await server.accept()
            await accepted.accept(*first)
        yield Opened(found[0], accepted)
        connection_of(found[0]).close()


async def receive_lines(stream: WebSocketStream) -> bytes:
    """Return what the server has sent, to the next end of a message."""
    received = b""
    while not received.endswith(b"\n"):
        received += await stream.receive_some()
    return received


async def test_messages_in_the_piece_of_the_handshake_are_received() -> None:
    async with opened(TextMessage("first"), TextMessage("second")) as ends:
        assert await ends.client.receive_some() == b"first\nsecond\n"


async def test_a_message_in_parts_is_one_line_and_its_line_breaks_do_not_end_it() -> None:
    async with opened(TextMessage("[1,\n", message_finished=False), TextMessage("2]")) as ends:
        assert await receive_lines(ends.client) == b"[1,\r2]\n"


async def test_a_line_in_parts_is_one_message() -> None:
    async with opened() as ends:
        await ends.client.send_all(b'{"a"')
        await ends.client.send_all(b":1}\n\nsecond\n")
        assert [await ends.server.event(), await ends.server.event()] == [TextMessage('{"a":1}'), TextMessage("second")]


async def test_the_latest_of_many_pings_is_answered() -> None:
    async with opened(Ping(b"1"), Ping(b"2"), TextMessage("x")) as ends:
        assert await ends.client.receive_some() == b"x\n"
        assert await ends.server.event() == Pong(b"2")


async def test_a_close_is_answered_and_named() -> None:
    async with opened(CloseConnection(1001, "going away")) as ends:
        assert await ends.client.receive_some() == b""
        assert await ends.server.event() == CloseConnection(1001, "")
        assert reason_of(ends) == "the server closed the WebSocket with the code 1001: going away"
        with pytest.raises(trio.BrokenResourceError):
            await ends.client.send_all(b"x\n")


async def test_a_close_without_a_reason_is_named() -> None:
    async with opened(CloseConnection(1000)) as ends:
        assert await ends.client.receive_some() == b""
        assert reason_of(ends) == "the server closed the WebSocket with the code 1000"


async def test_a_binary_message_ends_the_websocket() -> None:
    async with opened(BytesMessage(b"x")) as ends:
        assert await ends.client.receive_some() == b""
        event = await ends.server.event()
        assert isinstance(event, CloseConnection)
        assert event.code == 1003
        assert reason_of(ends) == "the server breaks the protocol of WebSockets: messages are text"


async def test_the_end_of_the_connection_is_the_end_of_the_websocket() -> None:
    async with opened() as ends:
        await ends.server.stream.aclose()
        assert await ends.client.receive_some() == b""
        assert "ended before the WebSocket was closed" in reason_of(ends)


async def test_a_websocket_that_is_closed_tells_the_server() -> None:
    async with opened() as ends:
        await ends.client.wait_send_all_might_not_block()
        await ends.client.aclose()
        assert await ends.server.event() == CloseConnection(1000, "")


async def test_the_closing_of_a_broken_connection_raises_nothing() -> None:
    async with opened(Ping(b"1")) as ends:
        connection_of(ends.client).close()
        with pytest.raises(trio.BrokenResourceError):
            await ends.client.receive_some()
        await ends.client.aclose()


@pytest.mark.parametrize("failing", ["send_all", "receive_some"])
async def test_an_error_of_the_system_is_a_broken_stream(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as ends:

        async def fail(*_: object) -> None:
            await trio.lowlevel.checkpoint()
            raise OSError

        connection = connection_of(ends.client)
        monkeypatch.setattr(connection, "uses_descriptor", False)
        monkeypatch.setattr(connection.stream, failing, fail)
        with pytest.raises(trio.BrokenResourceError):
            await (ends.client.send_all(b"x\n") if failing == "send_all" else ends.client.receive_some())


async def test_a_server_that_takes_no_control_frame_loses_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http1_engine, "_WRITE_SECONDS", 0.01)
    async with opened(Ping(b"1")) as ends, trio.open_nursery() as nursery:
        connection = connection_of(ends.client)
        monkeypatch.setattr(connection, "uses_descriptor", False)
        monkeypatch.setattr(connection.stream, "send_all", take_nothing)  # the server takes nothing
        nursery.start_soon(ends.client.keep_alive)
        with pytest.raises(trio.BrokenResourceError):
            await ends.client.receive_some()


def write_little(connection: Http1Connection, data: bytes | bytearray) -> int:
    return os.write(connection._socket.fileno(), data[:10])


def write_nothing(*_: object) -> int:
    return 0


async def test_what_is_sent_during_a_write_is_sent_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Http1Connection, "write_now", write_little)
    async with opened() as ends, trio.open_nursery() as nursery:
        assert ends.client.send_now(b"x" * 1000 + b"\n") == 1000
        nursery.start_soon(ends.client.wait_send_all_might_not_block)
        await trio.lowlevel.checkpoint()
        await ends.client.close_websocket(Close(1000))
        text = ""
        while isinstance(event := await ends.server.event(), TextMessage):  # the parts as they arrive
            text += event.data
        assert text == "x" * 1000
        assert event == CloseConnection(1000, "")


@pytest.mark.parametrize("uses_descriptor", [True, False], ids=["plain", "as under TLS"])
async def test_a_client_leaves_a_server_that_reads_nothing(
    uses_descriptor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stream, "_CLOSING_SECONDS", 0.01)
    monkeypatch.setattr(_http1_engine, "_WRITE_SECONDS", 1000)
    async with listening() as server, trio.open_nursery() as nursery:

        async def serve() -> None:
            await (await server.accept()).accept()
            await trio.sleep_forever()

        nursery.start_soon(serve)
        with trio.fail_after(30):  # much less than the time of a write
            async with http_transport(server.url)(ClientStub()) as transport:
                assert isinstance(transport, Link)
                stream: Any = transport.stream
                connection = connection_of(getattr(stream, "_stream", stream))
                connection.uses_descriptor = uses_descriptor
                monkeypatch.setattr(Http1Connection, "write_now", write_nothing)
                monkeypatch.setattr(Http1Connection, "wait_writable", take_nothing)
                monkeypatch.setattr(connection.stream, "send_all", take_nothing)
                await transport.notify("notifications/x", None)
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("uses_descriptor", [True, False], ids=["plain", "as under TLS"])
async def test_a_server_that_takes_nothing_breaks_the_stream(
    uses_descriptor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http1_engine, "_WRITE_SECONDS", 0.01)
    async with opened() as ends:
        connection = connection_of(ends.client)
        connection.uses_descriptor = uses_descriptor
        monkeypatch.setattr(connection.stream, "send_all", take_nothing)
        monkeypatch.setattr(trio.lowlevel, "wait_writable", take_nothing)
        monkeypatch.setattr(Http1Connection, "write_now", write_nothing)
        with pytest.raises(trio.BrokenResourceError, match=r"taken nothing for 0.01 s"):
            await ends.client.send_all(b"x\n")
        with pytest.raises(trio.BrokenResourceError):
            await ends.client.receive_some()


# --- Signs of life ---


async def test_a_silent_server_is_asked_and_its_answer_keeps_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENCE_SECONDS", 0.05)
    async with opened() as ends, trio.open_nursery() as nursery:
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await ends.client.receive_some())

        nursery.start_soon(receive)
        nursery.start_soon(ends.client.keep_alive)
        for _ in range(3):
            event = await ends.server.event()
            assert isinstance(event, Ping)
            await ends.server.send(event.response())
        await ends.server.send(TextMessage("x"))
        while not received:
            await trio.testing.wait_all_tasks_blocked(0.001)
        nursery.cancel_scope.cancel()

    assert received == [b"x\n"]


async def test_a_server_that_gives_no_sign_of_life_loses_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENCE_SECONDS", 0.01)
    async with opened() as ends, trio.open_nursery() as nursery:
        nursery.start_soon(ends.client.keep_alive)
        with pytest.raises(trio.BrokenResourceError):
            await ends.client.receive_some()


async def test_a_request_fails_with_the_reason_after_the_server_has_closed_the_websocket() -> None:
    async with listening() as server:

        async def serve() -> None:
            accepted = await server.accept()
            await accepted.accept()
            message = await accepted.event()
            assert isinstance(message, TextMessage)
            assert json.loads(message.data)["method"] == "server/discover"
            await accepted.send(CloseConnection(1001))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(ConnectionBroken, match="with the code 1001"):
                async with open_http_client(server.url, revision="2026-07-28"):
                    pass
