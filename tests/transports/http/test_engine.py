"""The client over HTTP with httpx2 and real sockets: what the server sees of it, and faults of the network."""

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
from tests.transports.http.scripted_server import META, Caller, Pending, ask, notice, result
from trio_mcp import ErrorResponse, HttpStatusError, Limits, RemoteProtocolError, ResponseLost
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Transport
from trio_mcp.transports import EngineError, http_transport
from trio_mcp.transports.http._engine import HttpxEngine, new_httpx_client
from trio_mcp.transports.http.client._transport import HttpTransport
from trio_mcp.wire import JsonObject, sse_event

SURELY = 60  # seconds: no test takes nearly as long; what hangs fails


@define(eq=False)
class Connection:
    """The server's end of one connection, byte by byte."""

    stream: trio.abc.Stream
    unread: bytes = b""

    async def request(self) -> tuple[str, dict[str, str], bytes]:
        """The next request: its first line, its header fields by lower-case name, its body."""
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
        """Send the head of a response, and some of its body."""
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
        """Send some of a body without known length; its end if there is nothing in it."""
        await self.stream.send_all(b"%x\r\n%s\r\n" % (len(data), data))

    async def left(self) -> None:
        """Wait until the client has closed its end."""
        with suppress(trio.BrokenResourceError):  # with what it had not read
            assert await self.stream.receive_some() == b""


@define(eq=False)
class Listening:
    """A server by hand, and each connection to it as it comes."""

    port: int
    _arriving: trio.MemoryReceiveChannel[Connection]
    accepted: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def connection(self) -> Connection:
        """The next connection."""
        return await self._arriving.receive()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None = None, *, host: str | None = None) -> AsyncGenerator[Listening]:
    """Listen on a port of this machine; *host* is the only address to do so, if it is given."""
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

    with trio.fail_after(SURELY):
        async with owned_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, accept, 0, host=host))
            server = Listening(listeners[0].socket.getsockname()[1], receive)
            yield server


@asynccontextmanager
async def connected(
    server: Listening, limits: Limits | None = None, **options: Any
) -> AsyncGenerator[tuple[Transport, trio.Nursery]]:
    """A transport to the server, and a nursery for requests."""
    async with (
        http_transport(server.url, **options)(Caller(limits or Limits())) as transport,
        trio.open_nursery() as nursery,
    ):
        yield transport, nursery


async def asked(transport: Transport, nursery: trio.Nursery, server: Listening) -> tuple[Pending, Connection]:
    """Ask; return the request and the connection by which the server has got it."""
    pending = ask(nursery, transport)
    connection = await server.connection()
    await connection.request()
    return pending, connection


async def until(fits: Callable[[], bool]) -> None:
    """Wait for what takes the other task a moment."""
    while not fits():  # noqa: ASYNC110 # there is no event for it
        await trio.sleep(0.001)


async def test_a_request_as_the_server_sees_it() -> None:
    async with listening() as server, connected(server, headers={"X-Mine": "1"}) as (transport, nursery):
        pending = ask(nursery, transport)
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


async def test_a_connection_is_used_again_whichever_way_it_answered() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        assert isinstance(transport, HttpTransport)
        pending, connection = await asked(transport, nursery, server)
        await connection.json(result(1))
        await pending.outcome()
        pending = ask(nursery, transport)
        await connection.request()
        await connection.events()
        for event in (notice("notifications/x"), result(2)):
            await connection.chunk(sse_event(json.dumps(event).encode()))
        await pending.outcome()
        await connection.chunk(b"")
        await until(lambda: not transport._tasks)  # it is known that nothing more comes
        ask(nursery, transport)
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
    ids=["no length", "no chunk", "a body of no use", "no content"],
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
        pending = ask(nursery, transport)
        await connection.request()
        await connection.json(result(1))
        assert await pending.outcome() == {}
    assert server.accepted == 1


async def test_what_follows_the_head_of_an_answer_to_a_notification_is_not_waited_for() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        nursery.start_soon(transport.notify, "com.example/x", {"_meta": META})
        connection = await server.connection()
        await connection.request()
        await connection.send("HTTP/1.1 202 Accepted", "content-length: 4", body=b"nu")
        await connection.left()


async def test_a_request_that_is_left_closes_its_connection() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        for begun in (False, True):
            pending, connection = await asked(transport, nursery, server)
            if begun:
                await connection.events()
                await connection.chunk(b": there\n\n")
            pending.scope.cancel()
            await connection.left()


async def test_an_engine_tells_when_the_request_has_left() -> None:
    told: list[str] = []
    engine = HttpxEngine(new_httpx_client(), closes=True)
    async with listening() as server, trio.open_nursery() as nursery:

        async def request() -> None:
            body = b"x" * 100_000
            async with engine.request("POST", server.url, {}, body, on_sent=lambda: told.append("sent")) as response:
                told.append("head")
                assert (response.status, response.headers["x-a"]) == (200, "1, 2")
                async with aclosing(response.chunks()) as chunks:
                    assert [chunk async for chunk in chunks] == [b"hello"]

        nursery.start_soon(request)
        connection = await server.connection()
        await connection.request()
        await until(lambda: told == ["sent"])
        await connection.send("HTTP/1.1 200 OK", "x-a: 1", "X-A: 2", "content-length: 5", body=b"hello")
    assert told == ["sent", "head"]
    await engine.aclose()


async def test_what_a_server_gives_as_a_cookie_comes_back_to_it() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        pending, connection = await asked(transport, nursery, server)
        await connection.json(result(1), "set-cookie: worker=7")
        await pending.outcome()
        ask(nursery, transport)
        _, fields, _ = await connection.request()
        await connection.json(result(2))
    assert fields["cookie"] == "worker=7"


async def test_the_fields_of_a_caller_stand_in_place_of_the_usual_ones() -> None:
    mine = {"User-Agent": "mine/1", "Host": "mcp.example"}
    async with listening() as server, connected(server, headers=mine) as (transport, nursery):
        ask(nursery, transport)
        connection = await server.connection()
        _, fields, _ = await connection.request()
        await connection.json(result(1))
    assert (fields["user-agent"], fields["host"]) == ("mine/1", "mcp.example")


@pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("GET", None), ("DELETE", None)])
async def test_the_size_of_no_body_is_said_where_one_is_expected(method: str, length: str | None) -> None:
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


async def test_authentication_of_a_users_client_may_read_the_body_and_send_it_again() -> None:
    told: list[str] = []

    class Signing(httpx2.Auth):
        requires_request_body = True

        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
            for attempt in range(2):
                request.headers["x-signed"] = f"{attempt}: {request.content.decode()}"
                yield request

    async with httpx2.AsyncClient(auth=Signing()) as mine, listening() as server, trio.open_nursery() as nursery:
        engine = HttpxEngine(mine, closes=False)

        async def request() -> None:
            async with engine.request("POST", server.url, {}, b"x", on_sent=lambda: told.append("sent")) as response:
                told.append(f"{response.status}")

        nursery.start_soon(request)
        connection = await server.connection()
        for attempt, status in enumerate((401, 204)):
            _, fields, body = await connection.request()
            assert (fields["x-signed"], body) == (f"{attempt}: x", b"x")
            while len(told) <= attempt:  # noqa: ASYNC110 # as in `until`
                await trio.sleep(0.001)
            await connection.send(f"HTTP/1.1 {status} Then", "content-length: 0" if status == 401 else "x: y")
    assert told == ["sent", "sent", "204"]


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
    await connection.stream.send_all(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000)


@pytest.mark.parametrize("fault", [_cut_body, _cut_chunk, _no_head, _half_a_head, _junk, _endless_head])
async def test_a_connection_that_dies_fails_one_call_and_no_other(
    fault: Callable[[Connection], Awaitable[None]],
) -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        failing, first = await asked(transport, nursery, server)
        going, second = await asked(transport, nursery, server)
        await fault(first)
        await trio.aclose_forcefully(first.stream)
        with pytest.raises(ResponseLost, match="'tools/list': ") as caught:
            await failing.outcome()
        assert caught.value.sent
        await second.json(result(2, tools=[]))
        assert await going.outcome() == {"tools": []}
        again = ask(nursery, transport)
        await second.request()
        await second.json(result(3))
        await again.outcome()


async def test_a_slow_head_is_waited_for_as_long_as_the_caller_does() -> None:
    async with listening() as server, connected(server) as (transport, nursery):
        pending, connection = await asked(transport, nursery, server)
        for byte in b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 36\r\n\r\n":
            await connection.stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()
        await connection.stream.send_all(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert await pending.outcome() == {}


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_not_read_to_its_end(declared: bool) -> None:
    async with listening() as server, connected(server, Limits(max_message_bytes=10_000)) as (transport, nursery):
        pending, connection = await asked(transport, nursery, server)
        length = "content-length: 1000000000" if declared else "transfer-encoding: chunked"
        await connection.send("HTTP/1.1 200 OK", "content-type: application/json", length)
        if not declared:
            await connection.chunk(b" " * 10_001)
        with pytest.raises(RemoteProtocolError, match="more than 10000 bytes"):
            await pending.outcome()
        await connection.left()


async def test_a_compressed_body_is_never_unpacked() -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    async with listening() as server, connected(server) as (transport, nursery):
        pending, connection = await asked(transport, nursery, server)
        length = f"content-length: {len(bomb)}"
        await connection.send(
            "HTTP/1.1 200 OK", "content-type: application/json", "content-encoding: gzip", length, body=bomb
        )
        with pytest.raises(RemoteProtocolError, match="compressed"):
            await pending.outcome()


async def test_a_redirect_is_not_followed_even_by_a_client_that_would() -> None:
    async with httpx2.AsyncClient(follow_redirects=True) as mine, listening() as server:
        async with connected(server, http_client=mine) as (transport, nursery):
            pending, connection = await asked(transport, nursery, server)
            await connection.send("HTTP/1.1 308 Moved", "location: /elsewhere", "content-length: 0")
            with pytest.raises(HttpStatusError, match=r"redirects to http://127.0.0.1:[0-9]+/elsewhere"):
                await pending.outcome()
        assert server.accepted == 1


async def test_a_server_that_is_not_there_is_named() -> None:
    async with listening() as server:
        pass
    async with connected(server) as (transport, nursery):
        with pytest.raises(ResponseLost, match=f"cannot connect to http://127.0.0.1:{server.port}/mcp") as caught:
            await ask(nursery, transport).outcome()
        assert not caught.value.sent


@pytest.mark.parametrize("url", ["http://nobody.invalid/", "http://xn--/"])
async def test_an_address_that_leads_nowhere_is_a_failure_to_connect(url: str) -> None:
    async with http_transport(url)(Caller()) as transport, trio.open_nursery() as nursery:
        with pytest.raises(ResponseLost, match=f"cannot connect to {url}") as caught:
            await ask(nursery, transport).outcome()
        assert not caught.value.sent


# A client of the user's, and the environment.


async def test_a_client_of_the_users_is_used_as_it_is_and_not_closed() -> None:
    requests: list[httpx2.Request] = []

    async def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json=result(1, tools=[]))

    limits = httpx2.Timeout(1, pool=2)
    async with httpx2.AsyncClient(
        headers={"X-Theirs": "1"}, timeout=limits, transport=httpx2.MockTransport(respond)
    ) as mine:
        async with (
            http_transport("http://x/", http_client=mine)(Caller()) as transport,
            trio.open_nursery() as nursery,
        ):
            assert await ask(nursery, transport).outcome() == {"tools": []}
        assert not mine.is_closed

    (request,) = requests
    assert request.headers["x-theirs"] == "1"
    assert request.headers["accept-encoding"] == "identity"
    # Their limit on reading would end every stream that is quiet for a while.
    assert request.extensions["timeout"] == {"connect": 1, "read": None, "write": 1, "pool": 2}


async def test_what_a_client_of_the_users_raises_fails_one_call() -> None:
    async def sign(request: httpx2.Request) -> None:
        raise PermissionError("the key is locked away")

    async with (
        httpx2.AsyncClient(event_hooks={"request": [sign]}) as mine,
        listening() as server,
        connected(server, http_client=mine) as (transport, nursery),
    ):
        with pytest.raises(ResponseLost, match="PermissionError: the key is locked away"):
            await ask(nursery, transport).outcome()
        mine.event_hooks = {}
        pending, connection = await asked(transport, nursery, server)
        await connection.json({"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "no"}})
        with pytest.raises(ErrorResponse):
            await pending.outcome()


async def test_a_body_that_a_client_of_the_users_cannot_read_breaks_off() -> None:
    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            yield b"half"
            raise ZeroDivisionError  # without a word

    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Stream())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as mine:
        engine = HttpxEngine(mine, closes=False)
        async with engine.request("GET", "http://x/", {}) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"half"
            with pytest.raises(EngineError, match="ZeroDivisionError") as caught:
                await anext(chunks)
            assert caught.value.sent


async def test_where_a_transport_of_the_users_leads_is_not_known() -> None:
    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(204)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as mine:
        engine = HttpxEngine(mine, closes=False, notes_address=True)
        async with engine.request("GET", "http://x/", {}) as response:
            assert (response.status, engine.reached_at) == (204, None)


async def test_a_body_that_a_transport_of_the_users_makes_up_for_ever_is_left() -> None:
    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            while True:
                yield b"x"

    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Endless())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as mine:
        engine = HttpxEngine(mine, closes=False)
        async with engine.request("GET", "http://x/", {}) as unread:
            assert unread.status == 200
        async with engine.request("GET", "http://x/", {}) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"x"


async def test_what_has_come_already_is_dropped_by_leaving() -> None:
    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            for part in (b"a", b"b", b"c"):
                yield part

    async def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Stream())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as mine:
        engine = HttpxEngine(mine, closes=False)
        async with engine.request("GET", "http://x/", {}) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"a"


@pytest.mark.parametrize("scheme", ["http", "all"])
async def test_the_environments_proxy_is_used(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async with listening() as proxy:
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", f"{scheme.title()}_Proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with (
            http_transport("http://nobody.invalid/mcp")(Caller()) as transport,
            trio.open_nursery() as nursery,
        ):
            pending = ask(nursery, transport)
            connection = await proxy.connection()
            first, fields, _ = await connection.request()
            await connection.json(result(1))
            await pending.outcome()

    assert first == "POST http://nobody.invalid/mcp HTTP/1.1"
    assert fields["host"] == "nobody.invalid"


async def test_a_request_has_not_left_when_a_proxy_is_asked_for_the_way(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=certificate.certfile)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    told: list[str] = []
    async with listening() as proxy, trio.open_nursery() as nursery:
        engine = HttpxEngine(httpx2.AsyncClient(proxy=f"http://127.0.0.1:{proxy.port}", verify=trusted), closes=True)

        async def request() -> None:
            async with engine.request("POST", "https://localhost/mcp", {}, b"x", on_sent=lambda: told.append("sent")):
                told.append("head")

        nursery.start_soon(request)
        connection = await proxy.connection()
        first, _, _ = await connection.request()
        await connection.send("HTTP/1.1 200 OK")
        connection.stream = trio.SSLStream(connection.stream, context, server_side=True)
        await connection.stream.do_handshake()
        assert (first, told) == ("CONNECT localhost:443 HTTP/1.1", [])
        await connection.request()
        await until(lambda: told == ["sent"])
        await connection.send("HTTP/1.1 200 OK", "content-length: 0")
        await until(lambda: told == ["sent", "head"])
    await engine.aclose()


async def test_all_clients_of_the_process_share_what_they_verify_servers_with(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    async with listening(context) as server:
        url = f"https://localhost:{server.port}/mcp"
        async with http_transport(url)(Caller()) as transport, trio.open_nursery() as nursery:
            with pytest.raises(ResponseLost, match="certificate verify failed") as caught:
                await ask(nursery, transport).outcome()
            assert not caught.value.sent
        async with (
            httpx2.AsyncClient(verify=certificate.trusted) as mine,
            http_transport(url, http_client=mine)(Caller()) as transport,
            trio.open_nursery() as nursery,
        ):
            pending, connection = await asked(transport, nursery, server)
            await connection.json(result(1, tools=[]))
            assert await pending.outcome() == {"tools": []}
    contexts = [vars(new_httpx_client()._transport)["_pool"]._ssl_context for _ in range(2)]
    assert contexts[0] is contexts[1]


async def test_the_log_of_httpx_has_the_queries_of_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    carrier = httpx2.MockTransport(lambda _: httpx2.Response(200, json=result(1, tools=[])))
    async with httpx2.AsyncClient(transport=carrier) as mine:
        await mine.get("http://server.test/other?key=told")
        async with (
            http_transport("http://server.test/mcp?key=s3cret", http_client=mine)(Caller()) as transport,
            trio.open_nursery() as nursery,
        ):
            await ask(nursery, transport).outcome()

    assert "http://server.test/other?key=told" in caplog.text
    assert "http://server.test/mcp " in caplog.text
    assert "s3cret" not in caplog.text
