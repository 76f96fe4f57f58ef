"""Curl as a client: both eras, streams, versions of HTTP, and what a server has to refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import trio

from tests.transports.http.hypercorn.test_tls import Certificate
from tests.web.curl import curl, curl_post, curl_streaming, header_options, post_options
from tests.web.web_server import INITIALIZE, INITIALIZED, LEGACY, WebServer, call, fields_of, modern, request, serving
from trio_mcp.wire import JsonObject, encode

ADD = call("add", {"a": 1, "b": 2})
VERSIONS = ("--http1.0", "--http1.1", "--http2", "--http2-prior-knowledge")
ANSWERED = {"--http1.0": "1.1", "--http1.1": "1.1", "--http2": "1.1", "--http2-prior-knowledge": "2"}
"""The version of the response without TLS: the upgrade of HTTP/1.1 to HTTP/2 is obsolete, and the server ignores it."""


def sum_in(message: Any) -> Any:
    return message["result"]["structuredContent"]["result"]


async def open_session(url: str, *options: str) -> str:
    """Perform the handshake; return the name of the session."""
    opened = await curl_post(url, INITIALIZE, "--include", *options)
    assert opened.status == 200
    named = re.search(r"^mcp-session-id: (.+?)\r?$", opened.body, re.IGNORECASE | re.MULTILINE)
    assert named is not None
    session = str(named[1])
    done = await curl_post(url, INITIALIZED, *options, session=session)
    assert (done.status, done.body) == (202, "")
    return session


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_from_its_handshake_to_its_end(version: str) -> None:
    async with serving(WebServer()) as bound:
        session = await open_session(bound.url, version)
        listed = await curl_post(bound.url, request("tools/list"), version, session=session)
        called = await curl_post(bound.url, ADD, version, session=session)
        of_session = header_options({"mcp-session-id": session, "mcp-protocol-version": LEGACY})
        ended = await curl("--request", "DELETE", *of_session, version, bound.url)
        gone = await curl_post(bound.url, ADD, version, session=session)

    assert "add" in [tool["name"] for tool in listed.message["result"]["tools"]]
    assert (called.status, sum_in(called.message)) == (200, 3)
    assert (ended.status, gone.status) == (204, 404)
    assert called.report["http_version"] == ANSWERED[version]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_modern_call_is_one_request(version: str) -> None:
    async with serving(WebServer()) as bound:
        called = await curl_post(bound.url, modern(ADD), version)

    assert (called.status, sum_in(called.message)) == (200, 3)
    assert called.report["http_version"] == ANSWERED[version]


@pytest.mark.parametrize(("version", "spoken"), [("--http1.1", "1.1"), ("--http2", "2")])
async def test_a_call_over_tls(version: str, spoken: str, certificate: Certificate) -> None:
    async with serving(WebServer(), certfile=certificate.certfile, keyfile=certificate.keyfile) as bound:
        url = f"https://localhost:{bound.port}/mcp"
        called = await curl_post(url, modern(ADD), version, "--cacert", str(certificate.certfile))

    assert (sum_in(called.message), called.report["http_version"]) == (3, spoken)


async def test_a_call_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with serving(WebServer(), unix_socket=path):
        called = await curl_post("http://localhost/mcp", modern(ADD), "--unix-socket", str(path))

    assert sum_in(called.message) == 3


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_modern", [False, True], ids=["session", "modern"])
async def test_progress_is_received_while_the_call_runs(is_modern: bool, version: str) -> None:
    web = WebServer()
    async with serving(web) as bound:
        session = None if is_modern else await open_session(bound.url)
        message = modern(call("count")) if is_modern else call("count")
        async with curl_streaming(*post_options(message, session), version, bound.url, body=encode(message)) as stream:
            early = [(await stream.message())["params"]["progress"] for _ in range(2)]
            web.go.set()
            late = (await stream.message())["params"]["progress"]
            result = (await stream.message())["result"]
            await stream.wait_ended()

    assert ([*early, late], result["content"][0]["text"]) == ([1, 2, 3], "counted")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_curl_that_is_ended_cancels_its_modern_call(version: str) -> None:
    web, message = WebServer(), modern(call("wait"))
    async with serving(web) as bound:
        async with curl_streaming(*post_options(message), version, bound.url, body=encode(message)):
            await web.until_waiting("wait")
        await web.cancelled.wait()


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_stream_of_a_session_receives_changes(version: str) -> None:
    async with serving(WebServer()) as bound:
        session = await open_session(bound.url)
        fields = {"accept": "text/event-stream", "mcp-session-id": session, "mcp-protocol-version": LEGACY}
        async with curl_streaming("--include", *header_options(fields), version, bound.url) as stream:
            first = await curl_post(bound.url, call("change"), session=session)
            changed = await stream.message()

    assert first.status == 200
    assert changed["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_stream_of_http_sse_names_its_address_and_carries_the_answers(version: str) -> None:
    async with (
        serving(WebServer()) as bound,
        curl_streaming("--header", "accept: text/event-stream", version, bound.url) as stream,
    ):
        endpoint = await stream.event()
        opened = await curl_post(urljoin(bound.url, endpoint.data.decode()), INITIALIZE, version)
        answer = await stream.message()

    assert (endpoint.event, opened.status, answer["id"]) == ("endpoint", 202, 0)


async def test_requests_share_a_connection() -> None:
    """Curl reports the number of new connections of each request."""
    async with serving(WebServer()) as bound:
        body = encode(modern(ADD)).decode()
        fields = header_options(fields_of(modern(ADD)))
        one = [*fields, "--data-binary", body, "--write-out", "%{num_connects}", "--output", "/dev/null", bound.url]
        reply = await curl(*one, "--next", *one, "--next", *one, "--next", *one, "--write-out", "\n%{json}")

    assert reply.body == "100"
    assert reply.report["num_connects"] == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_large_body_is_sent_after_the_server_has_agreed(version: str) -> None:
    text = "x" * 2_000_000
    message = modern(call("echo", {"text": text}))
    async with serving(WebServer()) as bound:
        called = await curl_post(bound.url, message, "--header", "expect: 100-continue", version, "--verbose")

    assert called.message["result"]["content"][0]["text"] == text


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    message = modern(call("echo", {"text": "x" * 2_000_000}))
    async with serving(WebServer(), max_body_bytes=1_000_000, max_buffer_bytes=1_000_000) as bound:
        refused = await curl_post(bound.url, message, "--header", "expect: 100-continue", "--expect100-timeout", "60")

    assert (refused.status, refused.report["size_upload"]) == (413, 0)


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_a_body_of_unknown_length(version: str) -> None:
    async with serving(WebServer()) as bound:
        called = await curl_post(bound.url, modern(ADD), "--header", "transfer-encoding: chunked", version)

    assert sum_in(called.message) == 3


@pytest.mark.parametrize("version", VERSIONS)
async def test_head_has_no_body(version: str) -> None:
    async with serving(WebServer(), health_path="/healthz") as bound:
        endpoint = await curl("--head", version, bound.url)
        health = await curl("--head", version, f"http://127.0.0.1:{bound.port}/healthz")

    assert (endpoint.status, endpoint.report["size_download"]) == (405, 0)
    assert (health.status, health.report["size_download"]) == (200, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("field", ["host: evil.example", "origin: https://evil.example"])
async def test_foreign_hosts_and_origins_are_refused(field: str, version: str) -> None:
    async with serving(WebServer()) as bound:
        refused = await curl_post(bound.url, modern(ADD), "--header", field, version)

    assert refused.status == 403
    assert "evil.example" in refused.message["error"]["message"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_stop_lets_curl_receive_its_answer(version: str) -> None:
    web, message = WebServer(), modern(call("count"))
    async with (
        serving(web) as bound,
        curl_streaming(*post_options(message), version, bound.url, body=encode(message)) as stream,
    ):
        await web.until_waiting("count")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bound.stop)
            web.go.set()
            answers: list[JsonObject] = [await stream.message() for _ in range(4)]
            await stream.wait_ended()

    assert answers[-1]["result"]["content"][0]["text"] == "counted"
