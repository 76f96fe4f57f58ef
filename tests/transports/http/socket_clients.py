"""An HTTP server with a small application, and raw clients over real sockets."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import h2.config
import h2.connection
import h2.events
import trio
from attrs import define, field

from trio_mcp._util import owned_nursery
from trio_mcp.transports import Bound, HttpListening, Receive, Scope, Send, serve_asgi

TIMEOUT_SECONDS = 60  # seconds: far more than any test needs, so that a test that hangs fails

Handler: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

WINDOW_BYTES = 65_535
"""The initial flow control window of HTTP/2 in bytes, for each stream and for the connection."""
OK = b"HTTP/1.1 200 OK\r\n"


def get(path: str, *fields: str) -> bytes:
    """Return the bytes of a request without a body."""
    return "".join(f"{line}\r\n" for line in (f"GET {path} HTTP/1.1", "host: here", *fields, "")).encode()


def post(path: str, length: int, body: bytes = b"") -> bytes:
    """Return the head of a POST with a body of *length* bytes, and the first bytes of the body."""
    return f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {length}\r\n\r\n".encode() + body


async def answer(send: Send, body: bytes = b"fine", status: int = 200) -> None:
    """Send a response with a body of known length."""
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def begin(send: Send) -> None:
    """Begin a response of unknown length."""
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def send_part(send: Send, body: bytes) -> None:
    """Send a part of a response of unknown length."""
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def read_body(receive: Receive) -> bytes:
    """Receive the body of a request."""
    body = b""
    while True:
        event = await receive()
        body += bytes(event["body"])
        if not event["more_body"]:
            return body


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def fine(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer at once."""
    await answer(send)


@define(eq=False)
class App:
    """An ASGI application with a handler for each path and a default handler, that records its lifespan events."""

    handlers: Mapping[str, Handler] = field(factory=dict[str, Handler])
    lifespan_events: list[str] = field(factory=list[str])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{stage}"
                self.lifespan_events.append(stage)
                await send({"type": f"lifespan.{stage}.complete"})
        else:
            await self.handlers.get(scope["path"], fine)(scope, receive, send)


@define(eq=False)
class Served:
    """A running server and the connections to it."""

    bound: Bound
    nursery: trio.Nursery
    stop: trio.Event
    ended: trio.Event
    clients: list[trio.SocketStream] = field(factory=list[trio.SocketStream], init=False)

    async def connect(self) -> trio.SocketStream:
        """Open a connection; it is closed before the server stops at the end of the test."""
        assert self.bound.port is not None
        stream = await trio.open_tcp_stream("127.0.0.1", self.bound.port)
        self.clients.append(stream)
        return stream

    async def connect_tls(self, trusted: ssl.SSLContext, *protocols: str) -> trio.SSLStream[trio.SocketStream]:
        """Open a connection with TLS that offers these protocols."""
        if protocols:
            trusted.set_alpn_protocols(protocols)
        stream = trio.SSLStream(await self.connect(), trusted, server_hostname="localhost")
        await stream.do_handshake()
        return stream

    async def serves_others(self) -> bool:
        """Return True if the server still answers a new client."""
        async with await self.connect() as stream:
            await stream.send_all(get("/"))
            return (await read_until(stream, b"fine")).startswith(OK)


async def no_drain() -> None:
    """Return at once, for an application whose streams end without a drain."""


@asynccontextmanager
async def serving(
    app: Callable[..., Awaitable[None]],
    *,
    drain: Any = no_drain,
    drain_seconds: Any = 0.2,
    direct: Any = None,
    **settings: Any,
) -> AsyncGenerator[Served]:
    """Serve *app* at a free port of this machine with settings of `HttpListening`; stop the server at the end."""
    stop, ended = trio.Event(), trio.Event()
    options: dict[str, Any] = {"port": 0, **settings}
    listening = HttpListening(**options)

    async def run(task_status: trio.TaskStatus[Bound]) -> None:
        await serve_asgi(
            app,
            listening,
            direct=direct,
            stopping=stop.wait,
            drain=drain,
            drain_seconds=drain_seconds,
            task_status=task_status,
        )
        ended.set()

    with trio.fail_after(TIMEOUT_SECONDS):
        async with owned_nursery() as nursery:
            served = Served(await nursery.start(run), nursery, stop, ended)
            try:
                yield served
            finally:
                for stream in served.clients:
                    stream.socket.close()
            stop.set()
            await ended.wait()


async def read_until(stream: trio.abc.ReceiveStream, end: bytes) -> bytes:
    """Read until *end* has been received; fail if the connection ends before."""
    found = b""
    while end not in found:
        chunk = await stream.receive_some()
        assert chunk, found
        found += bytes(chunk)
    return found


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Read until the connection is closed or reset."""
    found = b""
    try:
        async for chunk in stream:
            found += bytes(chunk)
    except trio.BrokenResourceError:
        found += b"[reset]"
    return found


async def reset(stream: trio.SocketStream) -> None:
    """Reset the connection."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


@define(eq=False)
class Http2Client:
    """An HTTP/2 client that is controlled step by step, and opens its flow control window only on request."""

    stream: trio.abc.Stream
    wire: h2.connection.H2Connection = field(init=False)
    events: list[h2.events.Event] = field(factory=list[h2.events.Event], init=False)
    has_ended: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))

    async def start(self) -> None:
        """Send the preface of the connection."""
        self.wire.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        """Send the pending data."""
        await self.stream.send_all(self.wire.data_to_send())

    async def send_request(self, path: str, *, method: str = "GET", end: bool = True, length: int | None = None) -> int:
        """Send the head of a request, with the length of its body if given; return the id of its stream."""
        number = self.wire.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "here")]
        head += [] if length is None else [("content-length", str(length))]
        self.wire.send_headers(number, head, end_stream=end)
        await self.flush()
        return number

    async def next_event(self, kind: type[h2.events.Event], number: int | None = None) -> Any:
        """Read until an event of that kind, and of that stream if given, has arrived; return it."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and number in {None, getattr(event, "stream_id", None)}:
                    self.events.remove(event)
                    return event
            assert not self.has_ended, self.events
            await self.read()

    async def read(self) -> None:
        """Receive the next data of the server."""
        data = await self.stream.receive_some()
        self.has_ended = not data
        self.events += self.wire.receive_data(data)
        await self.flush()

    async def acknowledge(self) -> None:
        """Open the window of the connection for all data read so far."""
        self.wire.increment_flow_control_window(WINDOW_BYTES - self.wire.inbound_flow_control_window)
        await self.flush()

    async def read_until_closed(self) -> None:
        """Read until the server closes the connection."""
        while not self.has_ended:
            await self.read()
