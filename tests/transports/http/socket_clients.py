"""An HTTP server with a small application in it, and clients that send what they like over real sockets."""

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

SURELY = 60  # seconds: no test takes nearly as long; what hangs fails

Handler: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

ROOM = 65_535
"""Bytes that a client of HTTP/2 grants its server at first, for each stream and for all together."""
OK = b"HTTP/1.1 200 \r\n"


def get(path: str, *fields: str) -> bytes:
    """A request without a body, as it travels."""
    return "".join(f"{line}\r\n" for line in (f"GET {path} HTTP/1.1", "host: here", *fields, "")).encode()


def post(path: str, length: int, body: bytes = b"") -> bytes:
    """The head of a request with a body of that length, and as much of it as given."""
    return f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {length}\r\n\r\n".encode() + body


async def answer(send: Send, body: bytes = b"fine", status: int = 200) -> None:
    """Answer with a body of known length."""
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def begin(send: Send) -> None:
    """Begin an answer of unknown length."""
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def part(send: Send, body: bytes) -> None:
    """Send a part of an answer of unknown length."""
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def read_body(receive: Receive) -> bytes:
    """Receive the body of a request."""
    body = b""
    while True:
        event = await receive()
        body += bytes(event["body"])
        if not event["more_body"]:
            return body


async def until_left(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def fine(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer at once."""
    await answer(send)


@define(eq=False)
class App:
    """An ASGI application that has a handler for each path; `/` is always fine. It takes part in the lifespan."""

    handlers: Mapping[str, Handler] = field(factory=dict[str, Handler])
    diary: list[str] = field(factory=list[str])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{stage}"
                self.diary.append(stage)
                await send({"type": f"lifespan.{stage}.complete"})
        else:
            await self.handlers.get(scope["path"], fine)(scope, receive, send)


@define(eq=False)
class Served:
    """A server that is serving."""

    bound: Bound
    nursery: trio.Nursery
    stop: trio.Event
    ended: trio.Event
    clients: list[trio.SocketStream] = field(factory=list[trio.SocketStream], init=False)

    async def connect(self) -> trio.SocketStream:
        """Open a connection, which is closed at the latest before the server stops at the end of the test."""
        assert self.bound.port is not None
        stream = await trio.open_tcp_stream("127.0.0.1", self.bound.port)
        self.clients.append(stream)
        return stream

    async def connect_by_tls(self, trusted: ssl.SSLContext, *protocols: str) -> trio.SSLStream[trio.SocketStream]:
        """Open a connection with TLS, offering these protocols."""
        if protocols:
            trusted.set_alpn_protocols(protocols)
        stream = trio.SSLStream(await self.connect(), trusted, server_hostname="localhost")
        await stream.do_handshake()
        return stream

    async def is_well(self) -> bool:
        """Whether somebody else is still served."""
        async with await self.connect() as stream:
            await stream.send_all(get("/"))
            return (await read_until(stream, b"fine")).startswith(OK)


async def nothing_to_drain() -> None:
    """An application whose streams end by themselves."""


@asynccontextmanager
async def serving(
    app: Callable[..., Awaitable[None]],
    *,
    drain: Any = nothing_to_drain,
    drain_seconds: Any = 0.2,
    **settings: Any,
) -> AsyncGenerator[Served]:
    """Serve *app* at a free port of this machine, with settings of `HttpListening`; stop it at the end."""
    stop, ended = trio.Event(), trio.Event()
    options: dict[str, Any] = {"port": 0, **settings}
    listening = HttpListening(**options)

    async def run(task_status: trio.TaskStatus[Bound]) -> None:
        await serve_asgi(
            app, listening, stopping=stop.wait, drain=drain, drain_seconds=drain_seconds, task_status=task_status
        )
        ended.set()

    with trio.fail_after(SURELY):
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
    """Read until *end* has come; fail if the connection ends before."""
    found = b""
    while end not in found:
        chunk = await stream.receive_some()
        assert chunk, found
        found += bytes(chunk)
    return found


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Read until the connection ends, well or not."""
    found = b""
    try:
        async for chunk in stream:
            found += bytes(chunk)
    except trio.BrokenResourceError:
        found += b"[reset]"
    return found


async def reset(stream: trio.SocketStream) -> None:
    """Leave without a goodbye."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


@define(eq=False)
class Http2Client:
    """A client of HTTP/2 that does what it is told, and grants no room unless it is told."""

    stream: trio.abc.Stream
    wire: h2.connection.H2Connection = field(init=False)
    events: list[h2.events.Event] = field(factory=list[h2.events.Event], init=False)
    has_ended: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))

    async def start(self) -> None:
        """Say hello."""
        self.wire.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        """Send what there is to send."""
        await self.stream.send_all(self.wire.data_to_send())

    async def ask(self, path: str, *, method: str = "GET", end: bool = True) -> int:
        """Send the head of a request; return the number of its stream."""
        number = self.wire.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "here")]
        self.wire.send_headers(number, head, end_stream=end)
        await self.flush()
        return number

    async def until(self, kind: type[h2.events.Event], number: int | None = None) -> Any:
        """Read until an event of that kind has come, for that stream; return it."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and number in {None, getattr(event, "stream_id", None)}:
                    self.events.remove(event)
                    return event
            assert not self.has_ended, self.events
            await self.read()

    async def read(self) -> None:
        """Take what the server sends next."""
        data = await self.stream.receive_some()
        self.has_ended = not data
        self.events += self.wire.receive_data(data)
        await self.flush()

    async def grant_room(self) -> None:
        """Make good for all that has been read so far."""
        self.wire.increment_flow_control_window(ROOM - self.wire.inbound_flow_control_window)
        await self.flush()

    async def until_end(self) -> None:
        """Read until the server closes the connection."""
        while not self.has_ended:
            await self.read()
