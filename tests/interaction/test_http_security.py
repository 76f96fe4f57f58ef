"""Security of a server over HTTP on real sockets: access, responses and limits."""

from __future__ import annotations

import gzip
import logging
import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, evolve, field

from tests.server.raw_http_client import RawClient, body_of, connected, served
from tests.transports.http.asgi_caller import AsgiCaller, call, request
from trio_mcp import (
    Context,
    HttpBound,
    Server,
    SessionSettings,
    open_http_client,
)
from trio_mcp.peer import Access
from trio_mcp.transports import HttpRequest
from trio_mcp.transports.http.server._asgi import RequestAuthorizer
from trio_mcp.wire import JsonObject, decode, encode

MODERN, LEGACY, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"
SSE = "/sse"
EVIL = "x\r\nx-evil: 1\r\n\r\n{}"
NAMED = {"clientInfo": {"name": "c", "version": "0"}, "capabilities": {}}
POST = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream"}


def initialize(revision: str = LEGACY) -> JsonObject:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": revision, **NAMED},
    }


def in_session(method: str, id: int | None = 2, **params: Any) -> JsonObject:
    message: JsonObject = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if id is None else {**message, "id": id}


@define
class RawResponse:
    """One complete response."""

    status: int
    head: str
    body: bytes

    @property
    def code(self) -> int:
        code: int = decode(self.body)["error"]["code"]
        return code

    def field(self, name: str) -> str | None:
        found = re.search(rf"^{name}: (.*)$", self.head, re.IGNORECASE | re.MULTILINE)
        return None if found is None else found[1].strip()


async def fetch(bound: HttpBound, fields: dict[str, str], body: bytes = b"", method: str = "POST") -> RawResponse:
    """Make one request on a separate connection and read the whole response."""
    lines = [f"{method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value)]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "connection: close", "", ""])
    async with connected(bound) as client:
        await client.stream.send_all(head.encode("latin-1") + body)
        return parse_response(await client.rest())


def parse_response(received: bytes) -> RawResponse:
    head, _, body = received.partition(b"\r\n\r\n")
    return RawResponse(int(head.split()[1]), head.decode("latin-1").replace("\r", ""), body)


async def post(bound: HttpBound, message: Any, **fields: str) -> RawResponse:
    """Post a message as a client does, with changed header fields; an empty one is left out."""
    caller = AsgiCaller.post(message)
    usual = {name.decode(): value.decode() for name, value in caller.scope["headers"]}
    return await fetch(
        bound, usual | {name.replace("_", "-"): value for name, value in fields.items()}, body_of(message)
    )


async def begin(bound: HttpBound, **fields: str) -> str:
    """Begin a session; return its id."""
    id = (await post(bound, initialize(), **fields)).field("mcp-session-id")
    assert id is not None
    await post(bound, in_session("notifications/initialized", None), mcp_session_id=id, **fields)
    return id


@asynccontextmanager
async def sse_stream(bound: HttpBound, **fields: str) -> AsyncGenerator[tuple[RawClient, str]]:
    """Open a stream of HTTP+SSE; yield it and the endpoint URL that it names."""
    lines = [f"GET {SSE} HTTP/1.1", "host: localhost", "accept: text/event-stream", "", ""]
    lines[1:1] = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    async with connected(bound) as stream:
        await stream.stream.send_all("\r\n".join(lines).encode())
        received = await stream.until(b"\n\n")
        yield stream, received.partition(b"data: ")[2].split()[0].decode()


async def post_to(bound: HttpBound, address: str, message: JsonObject, **fields: str) -> RawResponse:
    """Post a message to the address that a stream of HTTP+SSE has named."""
    body = encode(message)
    named = {**POST, **fields, "content-length": str(len(body)), "connection": "close"}
    head = "\r\n".join([f"POST {address} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""])
    async with connected(bound) as client:
        await client.stream.send_all(head.encode() + body)
        return parse_response(await client.rest())


@define(eq=False)
class Shop:
    """A server with protected tools."""

    server: Server = field(factory=lambda: Server("shop"))
    sold: list[str] = field(factory=list[str])

    def __attrs_post_init__(self) -> None:
        @self.server.tool(
            input_schema={
                "type": "object",
                "properties": {"what": {"type": "string", "x-mcp-header": "What"}},
                "required": ["what"],
            }
        )
        async def sell(what: str) -> str:
            self.sold.append(what)
            return what

        @self.server.tool
        async def echo(text: str, ctx: Context) -> str:
            await ctx.report_progress(1, message=text)
            return text

        @self.server.resource("shop:secret")
        async def secret() -> str:
            raise ValueError("the password is hunter2")


@pytest.fixture
def shop() -> Shop:
    return Shop()


# Access.


FOREIGN = [
    {"host": "evil.example"},
    {"host": "evil.example:80", "origin": "http://evil.example:80"},
    {"host": "localhost.evil.example"},
    {"host": "evil.example\\@localhost"},
    {"host": ""},
    {"origin": "http://evil.example"},
    {"origin": "http://localhost.evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost, http://evil.example"},
]


@pytest.mark.parametrize("fields", FOREIGN, ids=str)
async def test_requests_from_foreign_sites_are_refused(shop: Shop, fields: dict[str, str]) -> None:
    async with served(shop.server, sessions=SessionSettings(sse_path=SSE)) as bound:
        session = await begin(bound)
        in_it = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25", **fields}
        responses = [
            await post(bound, call("sell", {"what": "x"}), **fields),
            await post(bound, initialize(), **fields),
            await post(bound, in_session("tools/call", name="sell", arguments={}), **in_it),
            *[await fetch(bound, {**POST, **in_it}, method=method) for method in ("GET", "DELETE", "OPTIONS")],
        ]
        async with sse_stream(bound) as (_, address):
            responses.append(await post_to(bound, address, initialize(OLDEST), **fields))
        assert (await post(bound, in_session("ping"), mcp_session_id=session)).status == 200

    is_http = fields.get("host") not in {"", "evil.example\\@localhost"}  # without a valid host it is not even HTTP
    refused = {403} if is_http else {400, 403}
    assert {each.status for each in responses} <= refused | {405}
    assert not any(each.field("mcp-session-id") or each.field("access-control-allow-origin") for each in responses)
    assert shop.sold == []


async def test_a_session_exists_only_for_its_principal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sign_in(_: RequestAuthorizer, request: HttpRequest) -> HttpRequest:
        user = request.headers.get("x-user")
        return evolve(request, access=None if user is None else Access(user))

    monkeypatch.setattr(RequestAuthorizer, "admit", sign_in)
    async with served(shop.server, sessions=SessionSettings(sse_path=SSE)) as bound:
        session = await begin(bound, x_user="ada")
        others: list[RawResponse] = []
        for user in ("eve", ""):
            others.append(await post(bound, in_session("ping"), mcp_session_id=session, x_user=user))
            for method in ("GET", "DELETE"):
                fields = {**POST, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25", "x-user": user}
                others.append(await fetch(bound, fields, method=method))
        unknown = await post(bound, in_session("ping"), mcp_session_id="x" * 43, x_user="ada")
        async with sse_stream(bound, x_user="ada") as (_, address):
            foreign = await post_to(bound, address, in_session("ping"), **{"x-user": "eve"})
            nowhere = await post_to(bound, f"{SSE}?sessionId=x", in_session("ping"), **{"x-user": "ada"})
            own_session = await post_to(bound, address, in_session("ping"), **{"x-user": "ada"})
        still = await post(bound, in_session("ping"), mcp_session_id=session, x_user="ada")

    assert [each.status for each in others] == [404] * 6
    assert {each.body for each in others if each.body.startswith(b'{"jsonrpc":"2.0","id":2')} == {unknown.body}
    assert (foreign.status, foreign.body) == (nowhere.status, nowhere.body)
    assert (foreign.status, own_session.status, still.status) == (400, 202, 200)


@pytest.mark.parametrize(
    "fields",
    [
        {"mcp_method": "tools/list"},
        {"mcp_method": ""},
        {"mcp_name": "echo"},
        {"mcp_name": ""},
        {"mcp_protocol_version": LEGACY},
        {"mcp_protocol_version": ""},
        {"mcp_param_what": "y"},
        {"mcp_param_what": ""},
        {"mcp_param_what": "=?base64?!?="},
    ],
    ids=str,
)
async def test_a_request_whose_header_contradicts_its_body_has_no_effect(shop: Shop, fields: dict[str, str]) -> None:
    async with served(shop.server) as bound:
        right = {"mcp_param_what": "x"}
        refused = await post(bound, call("sell", {"what": "x"}), **right | fields)
        assert shop.sold == []
        assert (await post(bound, call("sell", {"what": "x"}), **right)).status == 200

    assert (refused.status, refused.code) == (400, -32020)


# Responses.


async def test_values_of_the_client_cannot_inject_header_fields_or_events(shop: Shop) -> None:
    async with served(shop.server, sessions=SessionSettings(sse_path=SSE)) as bound:
        session = await begin(bound)
        responses = [
            await post(bound, call("echo", {"text": EVIL}, progressToken=EVIL)),
            await post(bound, request("tools/call", {"name": EVIL}, id=EVIL)),
            await fetch(
                bound, {**POST, "mcp-protocol-version": MODERN, "mcp-method": "x"}, encode(request(EVIL, id=EVIL))
            ),
            await post(bound, in_session("tools/call", name=EVIL), mcp_session_id=session),
            await post(bound, in_session(EVIL), mcp_session_id=session),
            await post(bound, in_session("ping"), mcp_session_id=session, mcp_protocol_version="x\tevil\xe4"),
            await post(bound, initialize(EVIL)),
        ]

    for each in responses:
        assert "evil" not in each.head
        assert not re.search(rb"^x-evil", each.body, re.MULTILINE)


async def test_the_endpoint_url_of_a_stream_is_one_line_and_on_the_same_host(shop: Shop) -> None:
    async with served(shop.server, path=None) as bound, trio.open_nursery() as nursery:
        received: dict[str, bytes] = {}

        async def ask(path: str) -> None:
            async with connected(bound) as client:
                await client.stream.send_all(
                    f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode()
                )
                await client.until(b"sessionId=")
                received[path] = (await client.until(b"\n\n")).partition(b"event: ")[2]

        for path in ("/x%0d%0adata:%20evil", "//evil.example/x"):
            nursery.start_soon(ask, path)

    assert received["/x%0d%0adata:%20evil"].startswith(b"endpoint\ndata: /x%0D%0Adata%3A%20evil?sessionId=")
    assert received["//evil.example/x"].startswith(b"endpoint\ndata: /evil.example/x?sessionId=")


async def test_session_ids_cannot_be_guessed_and_are_in_no_log(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids: list[str] = []
    make = secrets.token_urlsafe

    def token(size: int) -> str:
        ids.append(make(size))
        return ids[-1]

    monkeypatch.setattr(secrets, "token_urlsafe", token)
    caplog.set_level(logging.INFO)
    async with served(shop.server, sessions=SessionSettings(sse_path=SSE)) as bound:
        for _ in range(5):
            session = await begin(bound)
            assert session == ids[-1]
            await fetch(bound, {**POST, "mcp-session-id": session}, method="DELETE")
        sse_url = bound.url.replace("/mcp", SSE)
        for url, revision in ((f"{bound.url}?key=s3cret", LEGACY), (sse_url, OLDEST)):
            async with open_http_client(url, revision=revision) as client:
                await client.call_tool("echo", {"text": "x"})

    assert len(set(ids)) == 7
    assert all(re.fullmatch(r"[\w-]{43}", id) for id in ids)
    assert "s3cret" not in caplog.text
    assert not any(id in caplog.text for id in ids)


async def test_responses_contain_no_traceback_and_no_secret(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    fields = {"authorization": "Bearer t0ken", "cookie": "t0ken"}
    async with served(shop.server) as bound:
        session = await begin(bound)
        responses = [
            await post(bound, request("resources/read", {"uri": "shop:secret"}), **fields),
            await post(bound, in_session("resources/read", uri="shop:secret"), mcp_session_id=session, **fields),
            await post(bound, call("sell", {"what": 1}), **fields),
            await post(bound, call("nothing"), **fields),
            await post(bound, b"{", **fields),
            await fetch(bound, {**POST, **fields}, method="PATCH"),
        ]

    received = b"".join(each.head.encode() + each.body for each in responses)
    assert not re.search(rb"Traceback|\.py\b|hunter2|t0ken|Hypercorn|ValueError", received)
    assert "hunter2" in caplog.text
    assert "t0ken" not in caplog.text


# Limits.


async def test_a_compressed_body_is_refused_without_decompression(shop: Shop) -> None:
    bomb = gzip.compress(encode(call("sell", {"what": "x" * 10_000_000})))
    async with served(shop.server) as bound:
        for encoding in ("gzip", "deflate", "gzip, gzip"):
            assert (await fetch(bound, {**POST, "content-encoding": encoding}, bomb)).status in {400, 415}

    assert shop.sold == []


@pytest.mark.parametrize(
    "opening", [b"[", b'{"a":', b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":']
)
async def test_deeply_nested_json_is_refused(shop: Shop, opening: bytes) -> None:
    async with served(shop.server) as bound:
        session = await begin(bound)
        for fields in ({}, {"mcp-session-id": session}):
            assert (await fetch(bound, {**POST, **fields}, opening * 50_000)).status == 400
        arguments: Any = "x"
        for _ in range(400):
            arguments = [arguments]
        deep = await post(bound, call("sell", {"what": arguments}), mcp_param_what="x")
        assert (await post(bound, in_session("ping"), mcp_session_id=session)).status == 200

    assert deep.status in {200, 400}
    assert shop.sold == []


@pytest.mark.parametrize(
    "fields",
    [{"x": "a" * 100_000}, {f"x{i}": "a" * 100 for i in range(1000)}, {"a" * 50_000: "x"}],
    ids=["value", "many", "name"],
)
async def test_enormous_header_fields_are_refused(shop: Shop, fields: dict[str, str]) -> None:
    async with served(shop.server) as bound:
        refused = await fetch(bound, {**POST, **fields}, encode(initialize()))
        assert refused.status in {400, 431}
        assert await begin(bound)
