"""The faults over HTTP: those of connections, and clients that vanish, do not read, or send partial requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

from trio_mcp.testing import ScriptedPeer
from trio_mcp.wire import decode, encode, is_object, request_fields

from .accounting import CANCEL
from .book import WrongAnswerError
from .faults_sockets import SOCKET_FAULTS
from .load import LARGE
from .places import ERAS, Fault, HttpPlace, Place, Watched
from .shared_faults import SHARED

__all__ = ["HTTP_FAULTS"]

_MANY = 10 * LARGE
"""The size of an answer that exceeds every buffer between two processes, in bytes."""


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
    server = HttpPlace.of(place).server
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
    port = HttpPlace.of(place).server.port
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
    **SOCKET_FAULTS,
    "slow reader": slow_reader,
    "partial requests": partial_requests,
    **SHARED,
}
