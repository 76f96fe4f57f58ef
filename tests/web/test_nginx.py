"""Nginx between a client and the server: buffering, versions of HTTP, WebSockets, cancellation, and stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from attrs import define

from tests.transports.http.hypercorn.test_tls import Certificate
from tests.web.curl import curl, curl_post, curl_streaming, post_options
from tests.web.nginx import nginx
from tests.web.web_server import LEGACY, MODERN, WebServer, call, modern, serving
from trio_mcp import (
    Client,
    ConnectionBroken,
    HttpStatusError,
    ListChanged,
    open_client,
    open_http_client,
    types,
)
from trio_mcp.transports import Receive, Scope, Send
from trio_mcp.wire import encode

BUFFERING = ("proxy_buffering off", "proxy_buffering on")
"""A stream is not buffered in either case: the server marks it with `X-Accel-Buffering: no`."""


@define(eq=False)
class Front:
    """An nginx in front of a server, and the way in which its clients connect."""

    port: int
    protocol: str
    """`http1`, `http2` (with TLS), or `websocket`."""
    certificate: Certificate

    @property
    def url(self) -> str:
        schemes = {"http1": "http", "http2": "https", "websocket": "ws"}
        return f"{schemes[self.protocol]}://localhost:{self.port}/mcp"

    @asynccontextmanager
    async def client(self, revision: str) -> AsyncGenerator[Client]:
        async with AsyncExitStack() as stack:
            options: dict[str, Any] = {"revision": revision}
            if self.protocol == "http2":
                http = httpx2.AsyncClient(http1=False, http2=True, verify=self.certificate.trusted, trust_env=False)
                options["http_client"] = await stack.enter_async_context(http)
            opener = open_client if self.protocol == "websocket" else open_http_client
            yield await stack.enter_async_context(opener(self.url, **options))


@asynccontextmanager
async def fronted(
    web: WebServer, folder: Path, certificate: Certificate, protocol: str = "http1", *directives: str, **options: Any
) -> AsyncGenerator[Front]:
    """Serve behind nginx."""
    in_front = certificate if protocol == "http2" else None
    async with (
        serving(web, websocket=True, **options) as bound,
        nginx(folder, [bound.port], *directives, certificate=in_front) as port,
    ):
        yield Front(port, protocol, certificate)


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


PROTOCOLS = pytest.mark.parametrize("protocol", ["http1", "http2", "websocket"])
ERAS = pytest.mark.parametrize("revision", [LEGACY, MODERN])


@ERAS
@PROTOCOLS
@pytest.mark.parametrize("buffering", BUFFERING)
async def test_progress_arrives_in_order_while_the_call_runs(
    buffering: str, protocol: str, revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    web = WebServer()
    async with (
        fronted(web, tmp_path, certificate, protocol, buffering) as front,
        front.client(revision) as client,
        client.open_call("count") as counting,
    ):
        updates = aiter(counting.updates)
        early = [(await anext(updates)).progress for _ in range(2)]
        web.go.set()
        late = [update.progress async for update in updates]
        assert (early, late, text_of(await counting.result())) == ([1, 2], [3], "counted")


@ERAS
async def test_a_proxy_that_buffers_streams_nevertheless_keeps_their_order(
    revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    web = WebServer()
    web.go.set()
    seen = list[float]()

    async def note(update: types.ProgressNotificationParams) -> None:
        seen.append(update.progress)

    directives = ("proxy_buffering on", "proxy_ignore_headers X-Accel-Buffering")
    async with fronted(web, tmp_path, certificate, "http1", *directives) as front, front.client(revision) as client:
        assert text_of(await client.call_tool("count", on_progress=note)) == "counted"

    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("protocol", "revision"),
    # Over HTTP/2, httpx2 does not tell the server that it no longer wants a response.
    [("http1", LEGACY), ("http1", MODERN), ("http2", LEGACY), ("websocket", LEGACY), ("websocket", MODERN)],
)
async def test_a_cancelled_call_is_cancelled_on_the_server(
    protocol: str, revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    web = WebServer()
    async with fronted(web, tmp_path, certificate, protocol) as front, front.client(revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await web.until_waiting("wait")
            nursery.cancel_scope.cancel()
        await web.cancelled.wait()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@ERAS
@PROTOCOLS
async def test_a_listening_client_receives_changes(
    protocol: str, revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    async with (
        fronted(WebServer(), tmp_path, certificate, protocol, "proxy_buffering on") as front,
        front.client(revision) as client,
        client.listen(tools=True) as changes,
    ):
        await client.call_tool("change")
        assert await anext(changes) == ListChanged("tools")


@ERAS
@PROTOCOLS
@pytest.mark.parametrize("buffering", BUFFERING)
async def test_ten_megabytes_in_each_direction(
    buffering: str, protocol: str, revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    text = "0123456789" * 1_000_000
    async with (
        fronted(WebServer(), tmp_path, certificate, protocol, buffering, max_body_bytes=12_000_000) as front,
        front.client(revision) as client,
    ):
        assert text_of(await client.call_tool("echo", {"text": text})) == text


@ERAS
@PROTOCOLS
async def test_concurrent_calls_get_their_own_answers(
    protocol: str, revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    async with fronted(WebServer(), tmp_path, certificate, protocol) as front, front.client(revision) as client:
        answers = dict[int, Any]()

        async def add(number: int) -> None:
            answers[number] = (await client.call_tool("add", {"a": number, "b": 1000})).structured_content

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(add, number)

    assert answers == {number: {"result": number + 1000} for number in range(50)}


async def test_nginx_keeps_its_connections_to_the_server(tmp_path: Path, certificate: Certificate) -> None:
    async def show_port(scope: Scope, receive: Receive, send: Send) -> None:
        body = str(scope["client"][1]).encode()
        head = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async with fronted(WebServer(), tmp_path, certificate, routes={"/port": show_port}) as front:
        first, second = [await curl(f"http://localhost:{front.port}/port") for _ in range(2)]

    assert first.body == second.body


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_curl_reads_a_stream_through_http2_in_front(
    version: str, tmp_path: Path, certificate: Certificate
) -> None:
    web, message = WebServer(), modern(call("count"))
    trusted = ("--cacert", str(certificate.certfile), version)
    async with fronted(web, tmp_path, certificate, "http2") as front:
        arguments = (*post_options(message), *trusted, front.url)
        async with curl_streaming(*arguments, body=encode(message)) as stream:
            early = [(await stream.message())["params"]["progress"] for _ in range(2)]
            web.go.set()
            answers = [await stream.message() for _ in range(2)]
        called = await curl_post(front.url, modern(call("add", {"a": 1, "b": 2})), *trusted)

    assert (early, answers[0]["params"]["progress"]) == ([1, 2], 3)
    assert answers[1]["result"]["content"][0]["text"] == "counted"
    assert called.report["http_version"] == version.removeprefix("--http")


async def test_foreign_hosts_are_refused_behind_nginx_too(tmp_path: Path, certificate: Certificate) -> None:
    async with fronted(WebServer(), tmp_path, certificate) as front:
        refused = await curl_post(front.url, modern(call("add")), "--header", "host: evil.example")

    assert refused.status == 403


async def test_a_stop_answers_every_call_once_and_the_next_ones_go_to_another_server(tmp_path: Path) -> None:
    """Nginx has open connections to the server that stops: idle ones, and such with a call."""
    names, answers = [str(number) for number in range(20)], list[str]()
    first, second = WebServer(), WebServer()
    second.go.set()

    async def hold(name: str) -> None:
        answers.append(text_of(await client.call_tool("hold", {"name": name})))

    async with serving(second) as other, serving(first) as bound:
        otherwise = f"proxy_pass http://127.0.0.1:{other.port}; proxy_set_header Host $http_host"
        async with (
            nginx(tmp_path, [bound.port], f"error_page 502 = @other; }} location @other {{ {otherwise}") as port,
            open_http_client(f"http://localhost:{port}/mcp", revision=MODERN) as client,
        ):
            async with trio.open_nursery() as nursery:
                for name in names:
                    nursery.start_soon(hold, name)
                await first.until_waiting("hold", len(names))
                async with trio.open_nursery() as adding:  # their connections are idle when the server stops
                    for number in range(10):
                        adding.start_soon(client.call_tool, "add", {"a": number, "b": number})
                nursery.start_soon(bound.stop)
                first.go.set()
            for name in names:
                await hold(f"later {name}")

    assert sorted(answers) == sorted([*names, *(f"later {name}" for name in names)])
    assert (first.ran, second.ran) == (Counter(names), Counter(f"later {name}" for name in names))


@ERAS
async def test_a_stop_answers_the_calls_of_a_websocket_and_says_so(
    revision: str, tmp_path: Path, certificate: Certificate
) -> None:
    web, results = WebServer(), list[str]()

    async def hold() -> None:
        results.append(text_of(await client.call_tool("hold", {"name": "last"})))

    async with (
        serving(web, websocket=True) as bound,
        nginx(tmp_path, [bound.port]) as port,
        Front(port, "websocket", certificate).client(revision) as client,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await web.until_waiting("hold")
            nursery.start_soon(bound.stop)
            web.go.set()
        with pytest.raises(ConnectionBroken, match="1001"):
            await client.call_tool("add", {"a": 1, "b": 2})
    assert results == ["last"]


async def test_what_is_too_large_for_nginx_is_an_error_of_that_call(tmp_path: Path, certificate: Certificate) -> None:
    async with (
        fronted(WebServer(), tmp_path, certificate, "http1", "client_max_body_size 1k") as front,
        front.client(MODERN) as client,
    ):
        with pytest.raises(HttpStatusError, match="413"):
            await client.call_tool("echo", {"text": "x" * 10_000})
        assert text_of(await client.call_tool("echo", {"text": "x"})) == "x"
