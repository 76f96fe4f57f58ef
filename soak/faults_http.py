"""The faults over HTTP: cut sockets, killed servers, and clients that vanish, do not read, or send partial requests."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

from trio_mcp import Changes, ResponseLost, open_http_client
from trio_mcp.testing import ScriptedPeer
from trio_mcp.wire import decode, encode, is_object, request_fields

from .accounting import CANCEL, CUT, KILL, SAFE
from .book import TIMEOUT_SECONDS, Book, WrongAnswerError
from .cuttable import cuttable
from .load import LARGE, call_number, start_many_calls
from .places import ERAS, Fault, HttpPlace, HttpServer, Place, Watched, lasting_port
from .shared_faults import SHARED

__all__ = ["HTTP_FAULTS"]

_MANY = 10 * LARGE
"""The size of an answer that exceeds every buffer between two processes, in bytes."""


def _server_of(place: Place) -> HttpServer:
    assert isinstance(place, HttpPlace)
    return place.server


@asynccontextmanager
async def sockets_cut(place: Place) -> AsyncGenerator[Watched]:
    """Reset all connections of a client with in-flight calls and a listener: each call fails, the client continues."""
    revision = place.rng.choice(ERAS)
    async with (
        cuttable(_server_of(place).port) as network,
        open_http_client(network.url, **place.options(revision)) as client,
        client.listen(tools=True) as changes,
    ):
        async with trio.open_nursery() as nursery:
            start_many_calls(nursery, client, place.book, peril=CUT)
            await trio.sleep(place.rng.uniform(0, 0.2))
            network.cut()
        await place.book.ask("change", lambda n: call_number(client, n, "flip"))
        await _expect_change(place.book, changes)
        yield {}


async def _expect_change(book: Book, changes: Changes) -> None:
    """Check that a listener gets the change, or a notice that it may have missed changes."""
    try:
        with trio.fail_after(TIMEOUT_SECONDS):
            await anext(changes)
    except ResponseLost:
        pass
    except trio.TooSlowError:
        book.fault("a listener whose connection was cut received neither a change nor a notice")


@asynccontextmanager
async def sessions_abandoned(place: Place) -> AsyncGenerator[Watched]:
    """Cut the network permanently with calls in flight: the server must detect it."""
    async with cuttable(_server_of(place).port) as network:
        for revision in ERAS:
            async with (
                open_http_client(network.url, **place.options(revision)) as client,
                trio.open_nursery() as nursery,
            ):
                start_many_calls(nursery, client, place.book, peril=KILL)
                await trio.sleep(place.rng.uniform(0, 0.1))
                network.is_plugged_in = False
                network.cut()
                await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
            network.is_plugged_in = True
    yield {}


@asynccontextmanager
async def server_killed(place: Place) -> AsyncGenerator[Watched]:
    """Kill a server with calls in flight and restart it: the client continues with the new one."""
    revision, port = place.rng.choice(ERAS), lasting_port(place.rng)
    async with AsyncExitStack() as stack:
        async with HttpServer.run(place.book, place.folder, port) as server:
            client = await stack.enter_async_context(open_http_client(server.url, **place.options(revision)))
            async with trio.open_nursery() as nursery:
                start_many_calls(nursery, client, place.book, peril=KILL)
                await trio.sleep(place.rng.uniform(0, 0.2))
                server.process.kill()
        yield {}
        async with HttpServer.run(place.book, place.folder, port):
            await place.book.ask("call", lambda n: call_number(client, n, "echo"))
            await stack.aclose()


@asynccontextmanager
async def server_frozen(place: Place) -> AsyncGenerator[Watched]:
    """Suspend a server with calls in flight and resume it: every call is answered."""
    revision = place.rng.choice(ERAS)
    async with (
        HttpServer.run(place.book, place.folder) as server,
        open_http_client(server.url, **place.options(revision)) as client,
        trio.open_nursery() as nursery,
    ):
        start_many_calls(nursery, client, place.book, peril=SAFE)
        await trio.sleep(place.rng.uniform(0, 0.1))
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            yield {"frozen server": server.process.pid}
        finally:
            os.kill(server.process.pid, signal.SIGCONT)


def _post(n: int, tool: str, **arguments: object) -> tuple[bytes, bytes]:
    """Return the head and the body of a call."""
    params = {"name": tool, "arguments": {"n": n, **arguments}, "_meta": ScriptedPeer.envelope(ERAS[0])}
    body = encode({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params})
    fields = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "content-length": str(len(body)),
        "connection": "close",
        **request_fields("tools/call", params),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode(), body


@asynccontextmanager
async def slow_reader(place: Place) -> AsyncGenerator[Watched]:
    """Request an answer larger than the socket buffers and read it much later: it is complete."""
    server = _server_of(place)
    async with trio.open_nursery() as calls:
        may_read = trio.Event()

        async def ask_and_wait(n: int) -> None:
            async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
                await stream.send_all(b"".join(_post(n, "echo", size=_MANY)))
                await may_read.wait()
                response = b"".join([bytes(chunk) async for chunk in stream])
            _check(response, n)

        for _ in range(4):
            calls.start_soon(place.book.ask, "slow", ask_and_wait)
        await trio.sleep(0.5)
        try:
            yield {}
        finally:
            may_read.set()


def _check(response: bytes, n: int) -> None:
    head, _, body = response.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        raise WrongAnswerError("an answer of known length was sent in chunks")
    answer = decode(body)
    result: Any = answer.get("result") if is_object(answer) else None
    content = result.get("structuredContent") if is_object(result) else None
    if content != {"n": n, "fill": "x" * _MANY}:
        raise WrongAnswerError(f"{n} was called, and the answer was {response[:200]!r}")


@asynccontextmanager
async def partial_requests(place: Place) -> AsyncGenerator[Watched]:
    """Send partial requests (half a head, half a body), and disconnect during a running request."""
    port = _server_of(place).port
    async with AsyncExitStack() as stack:
        head, body = _post(0, "echo")
        for part in (head[: len(head) // 2], head + body[: len(body) // 2]):
            stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            await stream.send_all(part)

        async def hang_up(n: int) -> None:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"".join(_post(n, "hang")))
                await trio.sleep(place.rng.uniform(0, 0.05))
            hung_up.cancel()
            await trio.lowlevel.checkpoint()

        with trio.CancelScope() as hung_up:
            await place.book.ask("abandoned", hang_up, peril=CANCEL)
        yield {}


HTTP_FAULTS: Mapping[str, Fault] = {
    "sockets cut": sockets_cut,
    "sessions abandoned": sessions_abandoned,
    "server killed": server_killed,
    "server frozen": server_frozen,
    "slow reader": slow_reader,
    "partial requests": partial_requests,
    **SHARED,
}
