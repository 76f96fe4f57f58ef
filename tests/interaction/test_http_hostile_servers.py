"""Hostile servers over real sockets: which URLs the client visits, what it sends, and that it survives."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field

from trio_mcp import TrioMcpError, open_http_client
from trio_mcp._util import owned_nursery
from trio_mcp.wire import decode, encode

MODERN, LEGACY, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"
EVIL = "x\r\nx-evil: 1\r\n\r\n{}"


@define(eq=False)
class HostileHttpServer:
    """A server that answers each request with given bytes and records the requests."""

    reply: Callable[[str, bytes], bytes]
    heads: list[str] = field(factory=list[str], init=False)
    accepted: int = field(default=0, init=False)
    port: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, stream: trio.SocketStream) -> None:
        self.accepted += 1
        received = b""
        async with stream:
            while b"\r\n\r\n" not in received:
                received += bytes(await stream.receive_some())
            raw_head, _, body = received.partition(b"\r\n\r\n")
            head = raw_head.decode("latin-1")
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            while length is not None and len(body) < int(length[1]):
                body += bytes(await stream.receive_some())
            self.heads.append(head)
            with suppress(trio.BrokenResourceError):  # the client may not read everything
                await stream.send_all(self.reply(head, body))


@asynccontextmanager
async def hostile(reply: Callable[[str, bytes], bytes]) -> AsyncGenerator[HostileHttpServer]:
    server = HostileHttpServer(reply)
    with trio.fail_after(30):
        async with owned_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            server.port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, server.serve, listeners)
            yield server
            nursery.cancel_scope.cancel()


def response(status: int, body: bytes = b"", **fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answered(body: bytes, **result: Any) -> bytes:
    result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
    return response(
        200, encode({"jsonrpc": "2.0", "id": decode(body)["id"], "result": result}), content_type="application/json"
    )


def _redirect(status: int, url: str) -> bytes:
    return response(status, location=url)


ELSEWHERE: dict[str, Callable[[str], bytes]] = {
    **{str(status): partial(_redirect, status) for status in (301, 302, 303, 307, 308)},
    "201": lambda url: response(201, location=url, content_location=url),
    "refresh": lambda url: response(200, b"<html>", content_type="text/html", refresh=f"0; url={url}", link=f"<{url}>"),
    "401": lambda url: response(401, www_authenticate=f'Bearer resource_metadata="{url}"'),
    "403": lambda url: response(403, www_authenticate=f'Bearer scope="x", resource_metadata="{url}"'),
    "407": lambda url: response(407, proxy_authenticate="Basic", location=url),
    "503": lambda url: response(503, retry_after="0", location=url, alt_svc=f'h2="{url}"'),
}


@pytest.mark.parametrize("kind", ELSEWHERE)
@pytest.mark.parametrize("revision", [MODERN, LEGACY, OLDEST, None])
async def test_the_client_does_not_follow_urls_of_a_hostile_server(kind: str, revision: str | None) -> None:
    async with hostile(lambda _head, _body: response(200)) as elsewhere:
        async with hostile(lambda _head, _body: ELSEWHERE[kind](elsewhere.url)) as server:
            with pytest.raises(TrioMcpError):
                async with open_http_client(
                    server.url, headers={"authorization": "t0ken"}, revision=revision
                ) as client:
                    await client.list_tools()
        assert (elsewhere.accepted, server.accepted > 0) == (0, True)


@pytest.mark.parametrize(
    "where",
    [
        "{url}",
        "//127.0.0.1:{port}/x",
        "http:{url}",
        "\\\\127.0.0.1:{port}/x",
        "http://localhost@127.0.0.1:{port}/",
        "file:///etc/passwd",
    ],
)
async def test_the_client_posts_to_no_endpoint_of_another_origin(where: str) -> None:
    async with hostile(lambda _head, _body: response(202)) as elsewhere:
        address = where.format(url=elsewhere.url, port=elsewhere.port)

        def reply(head: str, _: bytes) -> bytes:
            if head.startswith("POST"):
                return response(405)
            return response(200, f"event: endpoint\ndata: {address}\n\n".encode(), content_type="text/event-stream")

        async with hostile(reply) as server:
            with pytest.raises(TrioMcpError):
                async with open_http_client(server.url, headers={"authorization": "t0ken"}, revision=OLDEST):
                    raise AssertionError("it was taken")
        assert elsewhere.accepted == 0


# Header fields that a client sends.


async def test_values_of_the_caller_cannot_inject_header_fields() -> None:
    schema = {"type": "object", "properties": {"what": {"type": "string", "x-mcp-header": "What"}}}
    listed = {"name": EVIL, "inputSchema": schema}

    def reply(_: str, body: bytes) -> bytes:
        kind = decode(body)["method"]
        if kind == "server/discover":
            return answered(
                body, supportedVersions=[MODERN], capabilities={"tools": {}, "resources": {}, "prompts": {}}
            )
        return answered(body, tools=[listed], content=[], contents=[], messages=[])

    async with hostile(reply) as server, open_http_client(server.url, revision=MODERN) as client:
        await client.list_tools()
        await client.call_tool(EVIL, {"what": EVIL})
        await client.read_resource(f"a:b{EVIL}")
        await client.get_prompt(EVIL)

    ours = {"host", "accept", "accept-encoding", "connection", "content-length", "content-type", "user-agent"}
    ours |= {"mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-what"}
    for head in server.heads:
        assert {line.partition(":")[0].lower() for line in head.split("\r\n")[1:]} <= ours
    assert sum("mcp-name: =?base64?" in head.lower() for head in server.heads) == 3


@pytest.mark.parametrize(
    "headers", [{"x": "a\r\nx-evil: 1"}, {"x\r\ny": "a"}, {"x": "a\n"}, {"x": "\x00"}, {"x:": "a"}]
)
async def test_configured_header_fields_that_contain_another_field_are_refused(headers: dict[str, str]) -> None:
    async with hostile(lambda _head, _body: response(500)) as server:
        with pytest.raises(ValueError, match="headers: "):
            async with open_http_client(server.url, headers=headers):
                raise AssertionError("they were taken")
    assert server.accepted == 0


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "endless head": lambda _: b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000,
    "endless field": lambda _: b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2_000_000,
    "not http": lambda _: b"SSH-2.0-x\r\n",
    "empty": lambda _: b"",
    "deep": lambda _: response(200, b"[" * 100_000, content_type="application/json"),
    "deep event": lambda _: response(200, b"data: " + b"[" * 100_000 + b"\n\n", content_type="text/event-stream"),
    "bomb": lambda body: response(
        200, gzip.compress(b" " * 10_000_000), content_type="application/json", content_encoding="gzip"
    ),
    "bomb in an event stream": lambda body: response(
        200, gzip.compress(b"data: x\n\n" * 1_000_000), content_type="text/event-stream", content_encoding="gzip"
    ),
    "bomb in an error body": lambda _: response(500, gzip.compress(b" " * 10_000_000), content_encoding="gzip"),
    "bad length": lambda _: b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "bad chunk": lambda _: b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "bad status": lambda _: b"HTTP/1.1 99999 OK\r\n\r\n",
    "endless informational": lambda _: b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    "switching": lambda _: b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nx",
    "wrong id": lambda _: response(200, b'{"jsonrpc":"2.0","id":9999,"result":{}}', content_type="application/json"),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_an_invalid_http_response_fails_one_call_with_a_named_error(kind: str) -> None:
    def reply(_: str, body: bytes) -> bytes:
        message = decode(body)
        if message["method"] == "server/discover":
            return answered(body, supportedVersions=[MODERN], capabilities={"tools": {}})
        return BROKEN[kind](body) if message["method"] == "tools/call" else answered(body, tools=[])

    async with hostile(reply) as server, open_http_client(server.url, revision=MODERN) as client:
        with pytest.raises(TrioMcpError):
            await client.call_tool("x")
        assert (await client.list_tools()).tools == []
