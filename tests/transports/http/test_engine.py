"""The HTTP client with httpx2 over real sockets: the requests on the wire, and faults of the network."""

from __future__ import annotations

import gzip
import json
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from attrs import define, field

from tests.transports.http.hypercorn.test_tls import make_certificate
from tests.transports.http.scripted_server import META, ClientStub, Pending, notification, result, start_request
from trio_mcp import ErrorResponse, HttpStatusError, Limits, RemoteProtocolError, ResponseLost
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Transport
from trio_mcp.transports import EngineError, http_transport
from trio_mcp.transports.http._httpx_engine import HttpxEngine, new_httpx_client
from trio_mcp.transports.http.client._transport import HttpTransport
from trio_mcp.wire import JsonObject, sse_event

TIMEOUT_SECONDS = 60  # seconds: far more than any test needs, so that a test that hangs fails


@define(eq=False)
class Connection:
    """The server's end of one connection, byte by byte."""

    stream: trio.abc.Stream
    unread: bytes = b""

    async def request(self) -> tuple[str, dict[str, str], bytes]:
        """Return the next request: its first line, its header fields by lower-case name, its body."""
        while b"\r\n\r\n" not in self.unread:
            self.unread += await self._more()
        head, _, self.unread = self.unread.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(fields.get("content-length", "0"))
        while len(self.unread) < length:
            self.unread += await self._more()
        body, self.unread = self.unread[:length], self.unread[length:]
        return first, fields, body

    async def _more(self) -> bytes:
        chunk = await self.stream.receive_some()
        assert chunk, "the client has left"
        return bytes(chunk)

    async def send(self, *lines: str, body: bytes = b"") -> None:
        """Send the head of a response, and a part of its body."""
        await self.stream.send_all("".join(f"{line}\r\n" for line in (*lines, "")).encode() + body)

    async def json(self, message: JsonObject, *fields: str) -> None:
        """Send a whole response."""
        body = json.dumps(message).encode()
        kind, length = "content-type: application/json", f"content-length: {len(body)}"
        await self.send("HTTP/1.1 200 OK", kind, length, *fields, body=body)

    async def events(self) -> None:
        """Begin a response of events."""
        await self.send("HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked")

    async def chunk(self, data: bytes) -> None:
        """Send a chunk of a body of unknown length; an empty chunk ends the body."""
        await self.stream.send_all(b"%x\r\n%s\r\n" % (len(data), data))

    async def left(self) -> None:
        """Wait until the client has closed its end."""
        with suppress(trio.BrokenResourceError):  # there was unread data
            assert await self.stream.receive_some() == b""


@define(eq=False)
class RawServer:
    """A server that leaves each connection to the test."""

    port: int
    _arriving: trio.MemoryReceiveChannel[Connection]
    accepted: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def connection(self) -> Connection:
        """Return the next connection."""
        return await self._arriving.receive()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None = None, *, host: str | None = None) -> AsyncGenerator[RawServer]:
    """Listen on a free port of this machine, at *host* only if it is given."""
    send, receive = trio.open_memory_channel[Connection](100)

    async def accept(stream: trio.abc.Stream) -> None:
        if context is not None:
            stream = trio.SSLStream(stream, context, server_side=True)
            try:
                await stream.do_handshake()
            except trio.BrokenResourceError:
                return
        server.accepted += 1
        await send.send(Connection(stream))
        await trio.sleep_forever()

    with trio.fail_after(TIMEOUT_SECONDS):
        async with owned_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, accept, 0, host=host))
            server = RawServer(listeners[0].socket.getsockname()[1], receive)
            yield server


@asynccontextmanager
async def connected(
    server: RawServer, limits: Limits | None = None, **options: Any
) -> AsyncGenerator[tuple[Transport, trio.Nursery]]:
    """Open a transport to the server; yield it and a nursery for requests."""
    async with (
        http_transport(server.url, **options)(ClientStub(limits or Limits())) as transport,
        trio.open_nursery() as nursery,
    ):
        yield transport, nursery


async def sent_request(transport: Transport, nursery: trio.Nursery, server: RawServer) -> tuple[Pending, Connection]:
    """Start a request; return it and the connection on which the server has received it."""
    pending = start_request(nursery, transport)
    connection = await server.connection()
    await connection.request()
    return pending, connection


async def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds."""
    while not condition():  # noqa: ASYNC110 # there is no event for it
        await trio.sleep(0.001)


async def test_a_request_has_the_expected_line_header_fields_and_body() -> None:
    async with listening() as server, connected(server, headers={"X-Mine": "1"}) as (transport, nursery):
        pending = start_request(nursery, transport)
        connection = await server.connection()
        first, fields, body = await connection.request()
        await connection.json(result(1, tools=[]))
        assert await pending.outcome() == {"tools": []}

    assert first == "POST /mcp HTTP/1.1"
    agent = fields.pop("user-agent")
    assert agent.startswith("trio-mcp/")
    assert fields == {
        "host": f"127.0.0.1:{server.port}",
        "connection": "keep-alive",
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-mine": "1",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
    }
    assert json.loads(body)["params"] == {"_meta": META}


async def test_a_connection_is_reused_after_a_json_response_and_after_a_stream() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        assert isinstance(transport, HttpTransport)
        pending, connection = await sent_request(transport, nursery, server)
        await connection.json(result(1))
        await pending.outcome()
        pending = start_request(nursery, transport)
        await connection.request()
        await connection.events()
        for event in (notification("notifications/x"), result(2)):
            await connection.chunk(sse_event(json.dumps(event).encode()))
        await pending.outcome()
        await connection.chunk(b"")
        await until(lambda: not transport._tasks)  # the client has read the end of the body
        start_request(nursery, transport)
        await connection.request()
        await connection.json(result(3))
    assert server.accepted == 1


@pytest.mark.parametrize(
    "head_and_body",
    [
        ("HTTP/1.1 202 Accepted", "content-length: 0", b""),
        ("HTTP/1.1 202 Accepted", "transfer-encoding: chunked", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK", "content-length: 4", b"null"),
        ("HTTP/1.1 204 No Content", "x-a: b", b""),
    ],
    ids=["no length", "no chunk", "an ignored body", "no content"],
)
async def test_a_connection_is_reused_after_an_accepted_notification(
    head_and_body: tuple[str, str, bytes],
) -> None:
    status, field, body = head_and_body
    async with listening() as server, connected(server) as (transport, nursery):
        async with trio.open_nursery() as notifying:
            notifying.start_soon(transport.notify, "com.example/x", {"_meta": META})
            connection = await server.connection()
            await connection.request()
            await connection.send(status, field, body=body)
        pending = start_request(nursery, transport)
        await connection.request()
        await connection.json(result(1))
        assert await pending.outcome() == {}
    assert server.accepted == 1


async def test_a_notification_does_not_wait_for_the_body_of_its_response() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        nursery.start_soon(transport.notify, "com.example/x", {"_meta": META})
        connection = await server.connection()
        await connection.request()
        await connection.send("HTTP/1.1 202 Accepted", "content-length: 4", body=b"nu")
        await connection.left()


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        for begun in (False, True):
            pending, connection = await sent_request(transport, nursery, server)
            if begun:
                await connection.events()
                await connection.chunk(b": there\n\n")
            pending.scope.cancel()
            await connection.left()


async def test_an_engine_reports_that_the_request_was_sent() -> None:
    events: list[str] = []
    engine = HttpxEngine(new_httpx_client(), closes=True)
    async with listening() as server, trio.open_nursery() as nursery:

        async def request() -> None:
            body = b"x" * 100_000
            async with engine.request("POST", server.url, {}, body, on_sent=lambda: events.append("sent")) as response:
                events.append("head")
                assert (response.status, response.headers["x-a"]) == (200, "1, 2")
                async with aclosing(response.chunks()) as chunks:
                    assert [chunk async for chunk in chunks] == [b"hello"]

        nursery.start_soon(request)
        connection = await server.connection()
        await connection.request()
        await until(lambda: events == ["sent"])
        await connection.send("HTTP/1.1 200 OK", "x-a: 1", "X-A: 2", "content-length: 5", body=b"hello")
    assert events == ["sent", "head"]
    await engine.aclose()


async def test_a_cookie_is_sent_back_to_its_server() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        pending, connection = await sent_request(transport, nursery, server)
        await connection.json(result(1), "set-cookie: worker=7")
        await pending.outcome()
        start_request(nursery, transport)
        _, fields, _ = await connection.request()
        await connection.json(result(2))
    assert fields["cookie"] == "worker=7"


async def test_header_fields_of_the_caller_replace_the_defaults() -> None:
    custom = {"User-Agent": "mine/1", "Host": "mcp.example"}
    async with listening() as server, connected(server, headers=custom) as (transport, nursery):
        start_request(nursery, transport)
        connection = await server.connection()
        _, fields, _ = await connection.request()
        await connection.json(result(1))
    assert (fields["user-agent"], fields["host"]) == ("mine/1", "mcp.example")


@pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("GET", None), ("DELETE", None)])
async def test_a_post_without_a_body_has_a_content_length_and_other_methods_have_none(
    method: str, length: str | None
) -> None:
    engine = HttpxEngine(new_httpx_client(), closes=True)
    async with listening() as server, trio.open_nursery() as nursery:

        async def request() -> None:
            async with engine.request(method, server.url, {}) as response:
                assert response.status == 204

        nursery.start_soon(request)
        connection = await server.connection()
        _, fields, _ = await connection.request()
        await connection.send("HTTP/1.1 204 No Content")
    assert fields.get("content-length") == length
    await engine.aclose()


async def test_the_authentication_of_a_custom_client_may_read_the_body_and_repeat_the_request() -> None:
    events: list[str] = []

    class Signing(httpx2.Auth):
        requires_request_body = True

        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
            for attempt in range(2):
                request.headers["x-signed"] = f"{attempt}: {request.content.decode()}"
                yield request

    async with httpx2.AsyncClient(auth=Signing()) as custom, listening() as server, trio.open_nursery() as nursery:
        engine = HttpxEngine(custom, closes=False)

        async def request() -> None:
            async with engine.request("POST", server.url, {}, b"x", on_sent=lambda: events.append("sent")) as response:
                events.append(f"{response.status}")

        nursery.start_soon(request)
        connection = await server.connection()
        for attempt, status in enumerate((401, 204)):
            _, fields, body = await connection.request()
            assert (fields["x-signed"], body) == (f"{attempt}: x", b"x")
            while len(events) <= attempt:  # noqa: ASYNC110 # as in `until`
                await trio.sleep(0.001)
            await connection.send(f"HTTP/1.1 {status} Then", "content-length: 0" if status == 401 else "x: y")
    assert events == ["sent", "sent", "204"]


async def _cut_body(connection: Connection) -> None:
    await connection.send("HTTP/1.1 200 OK", "content-type: application/json", "content-length: 100", body=b'{"json')


async def _cut_chunk(connection: Connection) -> None:
    await connection.events()
    await connection.stream.send_all(b"ff\r\ndata: {")


async def _no_head(connection: Connection) -> None:
    pass


async def _half_a_head(connection: Connection) -> None:
    await connection.stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-")


async def _junk(connection: Connection) -> None:
    await connection.stream.send_all(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def _endless_head(connection: Connection) -> None:
    with suppress(trio.BrokenResourceError):  # the client does not read it to its end
        await connection.stream.send_all(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000)


@pytest.mark.parametrize("fault", [_cut_body, _cut_chunk, _no_head, _half_a_head, _junk, _endless_head])
async def test_a_broken_connection_fails_one_call_and_no_other(
    fault: Callable[[Connection], Awaitable[None]],
) -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        failing, first = await sent_request(transport, nursery, server)
        unaffected, second = await sent_request(transport, nursery, server)
        await fault(first)
        await trio.aclose_forcefully(first.stream)
        with pytest.raises(ResponseLost, match="'tools/list': ") as caught:
            await failing.outcome()
        assert caught.value.sent
        await second.json(result(2, tools=[]))
        assert await unaffected.outcome() == {"tools": []}
        again = start_request(nursery, transport)
        await second.request()
        await second.json(result(3))
        await again.outcome()


async def test_a_head_that_arrives_byte_by_byte_is_read() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        pending, connection = await sent_request(transport, nursery, server)
        for byte in b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 36\r\n\r\n":
            await connection.stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()
        await connection.stream.send_all(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert await pending.outcome() == {}


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_not_read_completely(declared: bool) -> None:
    async with listening() as server, connected(server, Limits(max_message_bytes=10_000)) as (transport, nursery):
        pending, connection = await sent_request(transport, nursery, server)
        length = "content-length: 1000000000" if declared else "transfer-encoding: chunked"
        await connection.send("HTTP/1.1 200 OK", "content-type: application/json", length)
        if not declared:
            await connection.chunk(b" " * 10_001)
        with pytest.raises(RemoteProtocolError, match="more than 10000 bytes"):
            await pending.outcome()
        await connection.left()


async def test_a_compressed_body_is_refused() -> None:
    compressed = gzip.compress(b" " * 10_000_000)
    async with listening() as server, connected(server) as (transport, nursery):
        pending, connection = await sent_request(transport, nursery, server)
        length = f"content-length: {len(compressed)}"
        await connection.send(
            "HTTP/1.1 200 OK", "content-type: application/json", "content-encoding: gzip", length, body=compressed
        )
        with pytest.raises(RemoteProtocolError, match="compressed"):
            await pending.outcome()


async def test_a_redirect_is_not_followed_even_by_a_client_that_follows_redirects() -> None:
    async with httpx2.AsyncClient(follow_redirects=True) as custom, listening() as server:
        async with connected(server, http_client=custom) as (transport, nursery):
            pending, connection = await sent_request(transport, nursery, server)
            await connection.send("HTTP/1.1 301 Moved", "location: /elsewhere", "content-length: 0")
            with pytest.raises(HttpStatusError, match=r"redirects to http://127.0.0.1:[0-9]+/elsewhere"):
                await pending.outcome()
        assert server.accepted == 1


async def test_a_redirect_within_the_origin_is_followed_over_the_same_connection() -> None:
    async with listening() as server:
        async with connected(server) as (transport, nursery):
            pending, connection = await sent_request(transport, nursery, server)
            await connection.send("HTTP/1.1 308 Moved", "location: /elsewhere", "content-length: 0")
            line, _, body = await connection.request()
            await connection.json({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": {}})
            assert line == "POST /elsewhere HTTP/1.1"
            assert await pending.outcome() == {}
        assert server.accepted == 1


async def test_the_error_for_an_unreachable_server_names_its_address() -> None:
    async with listening() as server:
        pass
    async with connected(server) as (transport, nursery):
        with pytest.raises(ResponseLost, match=f"cannot connect to http://127.0.0.1:{server.port}/mcp") as caught:
            await start_request(nursery, transport).outcome()
        assert not caught.value.sent


async def test_a_custom_client_that_cannot_connect_has_sent_nothing() -> None:
    async with httpx2.AsyncClient() as custom:
        engine = HttpxEngine(custom, closes=False)
        with pytest.raises(EngineError, match=r"^cannot connect to http://127\.0\.0\.1:1/mcp: ") as failed:
            async with engine.request("POST", "http://127.0.0.1:1/mcp", {}):
                pytest.fail("nothing listens there")

    assert not failed.value.sent


@pytest.mark.parametrize("url", ["http://unknown.invalid/", "http://xn--/"])
async def test_an_unknown_host_is_a_failure_to_connect(url: str) -> None:
    async with http_transport(url)(ClientStub()) as transport, trio.open_nursery() as nursery:
        with pytest.raises(ResponseLost, match=f"cannot connect to {url}") as caught:
            await start_request(nursery, transport).outcome()
        assert not caught.value.sent


# Custom clients, and the environment.


async def test_a_custom_client_is_used_without_changes_and_not_closed() -> None:
    requests: list[httpx2.Request] = []

    async def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json=result(1, tools=[]))

    limits = httpx2.Timeout(1, pool=2)
    async with httpx2.AsyncClient(
        headers={"X-Theirs": "1"}, timeout=limits, transport=httpx2.MockTransport(respond)
    ) as custom:
        async with (
            http_transport("http://x/", http_client=custom)(ClientStub()) as transport,
            trio.open_nursery() as nursery,
        ):
            assert await start_request(nursery, transport).outcome() == {"tools": []}
        assert not custom.is_closed

    (request,) = requests
    assert request.headers["x-theirs"] == "1"
    assert request.headers["accept-encoding"] == "identity"
    # A read timeout would end every stream that is silent for a while.
    assert request.extensions["timeout"] == {"connect": 1, "read": None, "write": 1, "pool": 2}


async def test_an_exception_in_a_custom_client_fails_one_call() -> None:
    async def sign(request: httpx2.Request) -> None:
        raise PermissionError("the key is locked away")

    async with (
        httpx2.AsyncClient(event_hooks={"request": [sign]}) as custom,
        listening() as server,
        connected(server, http_client=custom) as (transport, nursery),
    ):
        with pytest.raises(ResponseLost, match="PermissionError: the key is locked away"):
            await start_request(nursery, transport).outcome()
        custom.event_hooks = {}
        pending, connection = await sent_request(transport, nursery, server)
        await connection.json({"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "no"}})
        with pytest.raises(ErrorResponse):
            await pending.outcome()


async def test_an_exception_while_a_custom_client_reads_a_body_breaks_the_response_off() -> None:
    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            yield b"half"
            raise ZeroDivisionError  # without a message

    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Stream())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as custom:
        engine = HttpxEngine(custom, closes=False)
        async with engine.request("GET", "http://x/", {}) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"half"
            with pytest.raises(EngineError, match="ZeroDivisionError") as caught:
                await anext(chunks)
            assert caught.value.sent


async def test_an_endless_body_of_a_custom_transport_can_be_closed() -> None:
    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            while True:
                yield b"x"

    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Endless())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as custom:
        engine = HttpxEngine(custom, closes=False)
        async with engine.request("GET", "http://x/", {}) as unread:
            assert unread.status == 200
        async with engine.request("GET", "http://x/", {}) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"x"


async def test_unread_chunks_are_dropped_when_the_response_is_closed() -> None:
    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            for part in (b"a", b"b", b"c"):
                yield part

    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Stream())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as custom:
        engine = HttpxEngine(custom, closes=False)
        async with engine.request("GET", "http://x/", {}) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"a"


@pytest.mark.parametrize("scheme", ["http", "all"])
async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async with listening() as proxy:
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", f"{scheme.title()}_Proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with (
            http_transport("http://unknown.invalid/mcp")(ClientStub()) as transport,
            trio.open_nursery() as nursery,
        ):
            pending = start_request(nursery, transport)
            connection = await proxy.connection()
            first, fields, _ = await connection.request()
            await connection.json(result(1))
            await pending.outcome()

    assert first == "POST http://unknown.invalid/mcp HTTP/1.1"
    assert fields["host"] == "unknown.invalid"


async def test_a_request_does_not_count_as_sent_while_the_proxy_opens_the_tunnel(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=certificate.certfile)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    events: list[str] = []
    async with listening() as proxy, trio.open_nursery() as nursery:
        engine = HttpxEngine(httpx2.AsyncClient(proxy=f"http://127.0.0.1:{proxy.port}", verify=trusted), closes=True)

        async def request() -> None:
            async with engine.request("POST", "https://localhost/mcp", {}, b"x", on_sent=lambda: events.append("sent")):
                events.append("head")

        nursery.start_soon(request)
        connection = await proxy.connection()
        first, _, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK")
        connection.stream = trio.SSLStream(connection.stream, context, server_side=True)
        await connection.stream.do_handshake()
        assert (first, events) == ("CONNECT localhost:443 HTTP/1.1", [])
        await connection.request()
        await until(lambda: events == ["sent"])
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")
        await until(lambda: events == ["sent", "head"])
    await engine.aclose()


async def test_all_clients_of_the_process_share_one_ssl_context(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    async with listening(context) as server:
        url = f"https://localhost:{server.port}/mcp"
        async with http_transport(url)(ClientStub()) as transport, trio.open_nursery() as nursery:
            with pytest.raises(ResponseLost, match="certificate verify failed") as caught:
                await start_request(nursery, transport).outcome()
            assert not caught.value.sent
        async with (
            httpx2.AsyncClient(verify=certificate.trusted) as custom,
            http_transport(url, http_client=custom)(ClientStub()) as transport,
            trio.open_nursery() as nursery,
        ):
            pending, connection = await sent_request(transport, nursery, server)
            await connection.json(result(1, tools=[]))
            assert await pending.outcome() == {"tools": []}
    contexts = [vars(new_httpx_client()._transport)["_pool"]._ssl_context for _ in range(2)]
    assert contexts[0] is contexts[1]


async def test_the_log_of_httpx_omits_the_queries_of_mcp_requests_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    mock = httpx2.MockTransport(lambda _: httpx2.Response(200, json=result(1, tools=[])))
    async with httpx2.AsyncClient(transport=mock) as custom:
        await custom.get("http://server.test/other?key=visible")
        async with (
            http_transport("http://server.test/mcp?key=s3cret", http_client=custom)(ClientStub()) as transport,
            trio.open_nursery() as nursery,
        ):
            await start_request(nursery, transport).outcome()

    assert "http://server.test/other?key=visible" in caplog.text
    assert "http://server.test/mcp " in caplog.text
    assert "s3cret" not in caplog.text
