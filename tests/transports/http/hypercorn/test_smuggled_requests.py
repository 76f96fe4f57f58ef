"""The corpus of request smuggling against a real server: what is behind a refused request gets no answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from tests.transports.http.h1.smuggled_requests import ACCEPTED_REQUESTS, REFUSED_REQUESTS, AcceptedRequest
from tests.transports.http.h1.smuggling import Refused
from tests.transports.http.socket_clients import Served, get, read_all, read_body, serving
from trio_mcp.transports import Receive, Scope, Send

AT_ONCE = 20
"""The connections that are open at the same time."""
NEXT = get("/next", "connection: close")
"""A request behind another, after which the connection ends in any case."""

BY_ORIGIN = {
    origin: [each for each in REFUSED_REQUESTS if each.origin == origin]
    for origin in dict.fromkeys(each.origin for each in REFUSED_REQUESTS)
}


async def describe(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what was requested, which shows how many requests the server has found, and which."""
    if scope["type"] == "http":
        body = await read_body(receive)
        target = b"?".join(filter(None, [scope["raw_path"], scope["query_string"]]))
        host = b",".join(value for name, value in scope["headers"] if name == b"host")
        answer = b"<%b %b %b %b>" % (scope["method"].encode(), target, host, body.hex().encode())
        length = (b"content-length", b"%d" % len(answer))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": answer})


async def exchange(served: Served, data: bytes) -> bytes:
    """Send the data, and return all that the server sends until it closes the connection."""
    async with await served.connect() as stream:
        await stream.send_all(data)
        reply = await read_all(stream)
    served.clients.remove(stream)
    return reply


@pytest.mark.parametrize("origin", BY_ORIGIN)
async def test_a_smuggled_request_is_refused_and_what_is_behind_it_gets_no_answer(origin: str) -> None:
    replies: list[tuple[Refused, bytes]] = []

    async def send(refused: Refused) -> None:
        async with limiter:
            replies.append((refused, await exchange(served, refused.data + NEXT)))

    limiter = trio.CapacityLimiter(AT_ONCE)
    async with serving(describe) as served, trio.open_nursery() as nursery:
        for each in BY_ORIGIN[origin]:
            nursery.start_soon(send, each)

    assert len(replies) == len(BY_ORIGIN[origin])
    for refused, reply in replies:
        assert reply.startswith(b"HTTP/1.1 %d " % refused.status), refused
        assert b"connection: close\r\n" in reply, refused
        assert (reply.count(b"HTTP/1.1 "), b"<" in reply) == (1, False), refused


@pytest.mark.parametrize("refused", BY_ORIGIN["RFC 9112"][:10], ids=lambda each: each.trick)
async def test_a_smuggled_request_behind_a_valid_one_is_refused_as_well(refused: Refused) -> None:
    async with serving(describe) as served:
        reply = await exchange(served, get("/first") + refused.data + NEXT)

    first, _, second = reply.partition(b"<GET /first here >")
    assert first.startswith(b"HTTP/1.1 200 ")
    assert second.startswith(b"HTTP/1.1 %d " % refused.status)
    assert b"<" not in second


def answers_to(accepted: AcceptedRequest) -> Sequence[bytes]:
    """Return the answers to a request that has one reading, and to that behind it."""
    this = f"<{accepted.method} {accepted.target} {accepted.host} {accepted.body.hex()}>".encode()
    return [*([] if accepted.method == "HEAD" else [this]), *([] if accepted.is_last else [b"<GET /next here >"])]


@pytest.mark.parametrize(
    "accepted", [each for each in ACCEPTED_REQUESTS if each.is_last or not each.surplus], ids=lambda each: each.trick
)
async def test_a_request_that_looks_smuggled_is_answered_once_and_so_is_that_behind_it(
    accepted: AcceptedRequest,
) -> None:
    async with serving(describe) as served:
        reply = await exchange(served, accepted.data + NEXT)

    found = [b"<" + part.partition(b">")[0] + b">" for part in reply.split(b"<")[1:]]
    assert found == answers_to(accepted)
