"""Pages in Chromium as clients: `fetch` with JSON and streams, `EventSource`, `WebSocket`, other origins."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.transports.http.hypercorn.test_tls import Certificate
from tests.web.nginx import nginx
from tests.web.web_server import (
    INITIALIZE,
    INITIALIZED,
    LEGACY,
    WebServer,
    call,
    fields_of,
    modern,
    serving,
)
from tests.web.webdriver import Browser
from trio_mcp import HttpBound
from trio_mcp.wire import JsonObject

SCRIPT = Path(__file__).with_name("page.js").read_text()
ADD = call("add", {"a": 1, "b": 2})
SUM = {"result": 3}


async def page() -> str:
    """A page; the tests run their scripts in it."""
    return "a page"


@asynccontextmanager
async def serving_page(
    web: WebServer, certificate: Certificate | None = None, **options: Any
) -> AsyncGenerator[HttpBound]:
    """Serve the MCP server and a page of the same origin; with a certificate over TLS and HTTP/2."""
    if certificate is not None:
        options |= {"certfile": certificate.certfile, "keyfile": certificate.keyfile}
    async with serving(web, routes={"/page": page}, websocket=True, **options) as bound:
        yield bound


async def visit(browser: Browser, origin: str) -> None:
    """Open the page of a server."""
    await browser.go(f"{origin}/page")
    await browser.run(SCRIPT)


def origin_of(bound: HttpBound) -> str:
    return bound.url.removesuffix("/mcp")


def posted(message: JsonObject, session: str | None = None) -> tuple[str, JsonObject, dict[str, str]]:
    """Return the arguments of `post` in the page."""
    return "/mcp", message, fields_of(message, session)


# --- fetch ---


async def test_fetch_calls_a_tool_in_the_modern_revision(browser: Browser) -> None:
    async with serving_page(WebServer()) as bound:
        await visit(browser, origin_of(bound))
        answer = await browser.run("return await (await post(...$)).json()", *posted(modern(ADD)))

    assert answer["result"]["structuredContent"] == SUM


async def test_fetch_has_a_session_from_its_handshake_to_its_end(browser: Browser) -> None:
    async with serving_page(WebServer()) as bound:
        await visit(browser, origin_of(bound))
        name = 'return (await post(...$)).headers.get("mcp-session-id")'
        session = await browser.run(name, *posted(INITIALIZE))
        status = "return (await post(...$)).status"
        assert await browser.run(status, *posted(INITIALIZED, session)) == 202
        answer = await browser.run("return await (await post(...$)).json()", *posted(ADD, session))
        end = "return (await fetch($[0], {method: 'DELETE', headers: {'mcp-session-id': $[1]}})).status"
        ended = await browser.run(end, "/mcp", session)
        gone = await browser.run(status, *posted(ADD, session))

    assert answer["result"]["structuredContent"] == SUM
    assert (ended, gone) == (204, 404)


COUNT = """
window.counted = mailbox();
const answer = await post(...$);
(async () => { for await (const message of messagesOf(answer)) counted.put(message); counted.put("end"); })();
return answer.headers.get("content-type");
"""
"""Start a call whose response is a stream; its messages go to a mailbox."""


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
async def test_fetch_reads_progress_while_the_call_runs(
    protocol: str, browser: Browser, certificate: Certificate
) -> None:
    web = WebServer()
    async with serving_page(web, certificate if protocol == "h2" else None) as bound:
        await visit(browser, origin_of(bound))
        assert await browser.run(COUNT, *posted(modern(call("count")))) == "text/event-stream"
        early = [(await browser.run("return counted.next()"))["params"]["progress"] for _ in range(2)]
        web.go.set()
        late = (await browser.run("return counted.next()"))["params"]["progress"]
        answer = await browser.run("return counted.next()")
        assert await browser.run("return counted.next()") == "end"
        spoken = await browser.run("return performance.getEntriesByType('navigation')[0].nextHopProtocol")

    assert (early, late, answer["result"]["content"][0]["text"]) == ([1, 2], 3, "counted")
    assert spoken == protocol


ABORT = """
const stop = new AbortController();
window.abort = () => stop.abort();
window.aborted = post(...$, {signal: stop.signal}).then(() => "answered", error => error.name);
"""


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
@pytest.mark.parametrize("behind_nginx", [False, True], ids=["direct", "nginx"])
async def test_aborting_a_fetch_cancels_its_handler(
    behind_nginx: bool, protocol: str, browser: Browser, certificate: Certificate, tmp_path: Path
) -> None:
    web, is_http2 = WebServer(), protocol == "h2"
    files = certificate if is_http2 else None
    async with (
        serving_page(web, None if behind_nginx else files) as bound,
        nginx(tmp_path, [bound.port], certificate=files) as port,
    ):
        origin = f"{'https' if is_http2 else 'http'}://127.0.0.1:{port}" if behind_nginx else origin_of(bound)
        await visit(browser, origin)
        await browser.run(ABORT, *posted(modern(call("wait"))))
        await web.until_waiting("wait")
        assert await browser.run("abort(); return await aborted") == "AbortError"
        await web.cancelled.wait()
        answer = await browser.run("return await (await post(...$)).json()", *posted(modern(ADD)))
        assert answer["result"]["structuredContent"] == SUM


async def test_leaving_the_page_cancels_its_calls(browser: Browser) -> None:
    web = WebServer()
    async with serving_page(web) as bound:
        await visit(browser, origin_of(bound))
        await browser.run(ABORT, *posted(modern(call("wait"))))
        await web.until_waiting("wait")
        await browser.go("about:blank")
        await web.cancelled.wait()


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
async def test_many_calls_of_a_page_at_once(protocol: str, browser: Browser, certificate: Certificate) -> None:
    calls = [list(posted(modern(call("add", {"a": number, "b": 0}, id=number)))) for number in range(50)]
    async with serving_page(WebServer(), certificate if protocol == "h2" else None) as bound:
        await visit(browser, origin_of(bound))
        script = "return await Promise.all($.map(async each => (await post(...each)).json()))"
        answers = await browser.run(script, *calls)

    assert [each["result"]["structuredContent"]["result"] for each in answers] == list(range(50))


# --- EventSource ---

LISTEN = """
window.arrived = mailbox();
window.source = new EventSource($[0]);
source.addEventListener("endpoint", event => arrived.put(event.data));
source.onmessage = event => arrived.put(JSON.parse(event.data));
source.onerror = () => arrived.put("error");
"""


async def test_event_source_is_a_client_of_http_sse(browser: Browser) -> None:
    web = WebServer()
    async with serving_page(web) as bound:
        await visit(browser, origin_of(bound))
        await browser.run(LISTEN, "/mcp")
        address = await browser.run("return arrived.next()")
        status = "return (await post(...$)).status"
        answers = list[Any]()
        for message in (INITIALIZE, INITIALIZED, ADD):
            assert await browser.run(status, address, message, fields_of(message)) == 202
            if "id" in message:
                answers.append(await browser.run("return arrived.next()"))
        await browser.run(status, address, call("wait"), fields_of(ADD))
        await web.until_waiting("wait")
        await browser.run("source.close()")
        await web.cancelled.wait()

    assert [each["id"] for each in answers] == [0, 1]
    assert answers[1]["result"]["structuredContent"] == SUM


# --- WebSocket ---

OPEN = "window.socket = await openWebSocket($[0], 'mcp'); return [socket.protocol, socket.readyState, socket.code]"
CALL = "socket.send(JSON.stringify($[0])); return socket.mailbox.next()"
IS_OPEN = 1
ABNORMAL = 1006
"""The code that a page gets for a WebSocket that was never open."""
SECURE = pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
"""With TLS, the page has come over HTTP/2, and its WebSocket is a stream of the same connection (RFC 8441)."""


def websocket_url(origin: str) -> str:
    return f"ws{origin.removeprefix('http')}/mcp"


@SECURE
async def test_a_websocket_carries_calls_of_both_eras_until_the_page_closes_it(
    secure: bool, browser: Browser, certificate: Certificate
) -> None:
    async with serving_page(WebServer(), certificate if secure else None) as bound:
        await visit(browser, origin_of(bound))
        url = websocket_url(origin_of(bound))
        assert (await browser.run(OPEN, url))[:2] == ["mcp", IS_OPEN]
        first = [await browser.run(CALL, modern({**ADD, "id": number})) for number in range(3)]
        first_end = await browser.run("socket.close(1000, 'done'); return socket.mailbox.next()")

        assert (await browser.run(OPEN, url))[:2] == ["mcp", IS_OPEN]
        opened = await browser.run(CALL, INITIALIZE)
        await browser.run("socket.send(JSON.stringify($[0]))", INITIALIZED)
        second = await browser.run(CALL, ADD)

    assert [(each["id"], each["result"]["structuredContent"]) for each in first] == [(n, SUM) for n in range(3)]
    assert first_end == {"code": 1000}
    assert (opened["result"]["protocolVersion"], second["result"]["structuredContent"]) == (LEGACY, SUM)


@SECURE
async def test_progress_arrives_over_a_websocket_while_the_call_runs(
    secure: bool, browser: Browser, certificate: Certificate
) -> None:
    web = WebServer()
    async with serving_page(web, certificate if secure else None) as bound:
        await visit(browser, origin_of(bound))
        await browser.run(OPEN, websocket_url(origin_of(bound)))
        arrived = [await browser.run(CALL, modern(call("count")))]
        arrived.append(await browser.run("return socket.mailbox.next()"))
        web.go.set()
        arrived += [await browser.run("return socket.mailbox.next()") for _ in range(2)]

    assert [each["params"]["progress"] for each in arrived[:3]] == [1, 2, 3]
    assert arrived[3]["result"]["content"][0]["text"] == "counted"
    assert ("upgrade" in web.fields) is not secure


@SECURE
async def test_a_stop_answers_what_is_in_flight_and_closes_the_websocket_with_code_1001(
    secure: bool, browser: Browser, certificate: Certificate
) -> None:
    web = WebServer()
    async with serving_page(web, certificate if secure else None) as bound:
        await visit(browser, origin_of(bound))
        await browser.run(OPEN, websocket_url(origin_of(bound)))
        await browser.run("socket.send(JSON.stringify($[0]))", modern(call("hold", {"name": "last"})))
        await web.until_waiting("hold")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bound.stop)
            web.go.set()
            answer = await browser.run("return socket.mailbox.next()")
            end = await browser.run("return socket.mailbox.next()")

    assert (answer["result"]["content"][0]["text"], end) == ("last", {"code": 1001})


@SECURE
async def test_closing_a_websocket_cancels_its_calls(secure: bool, browser: Browser, certificate: Certificate) -> None:
    web = WebServer()
    async with serving_page(web, certificate if secure else None) as bound:
        await visit(browser, origin_of(bound))
        await browser.run(OPEN, websocket_url(origin_of(bound)))
        await browser.run("socket.send(JSON.stringify($[0]))", modern(call("wait")))
        await web.until_waiting("wait")
        await browser.run("socket.close()")
        await web.cancelled.wait()


# --- Pages of other origins ---

SIMPLE = """
const answer = await fetch($[0], {method: "POST", mode: "no-cors", body: JSON.stringify($[1])});
return answer.type;
"""
"""A request that a browser sends to any site without asking it first."""
FAILED_FETCH = "return await post(...$).then(() => 'answered', error => error.name)"


@SECURE
@pytest.mark.parametrize("is_allowed", [False, True], ids=["foreign", "allowed"])
async def test_a_page_of_another_origin_opens_a_websocket_only_if_its_origin_is_allowed(
    is_allowed: bool, secure: bool, browser: Browser, certificate: Certificate
) -> None:
    files = certificate if secure else None
    async with serving_page(WebServer(), files) as home:
        allowed = [origin_of(home)] if is_allowed else ["https://example.com"]
        async with serving_page(WebServer(), files, allowed_origins=allowed) as bound:
            await visit(browser, origin_of(home))
            opened = await browser.run(OPEN, websocket_url(origin_of(bound)))

    assert opened == (["mcp", IS_OPEN, None] if is_allowed else [None, None, ABNORMAL])


@pytest.mark.parametrize("is_allowed", [False, True], ids=["foreign", "allowed"])
async def test_a_page_of_another_origin_can_neither_read_nor_run_anything_by_itself(
    is_allowed: bool, browser: Browser
) -> None:
    """The server answers no preflight for its endpoint, not even that of an allowed origin: a proxy or host does it."""
    web = WebServer()
    web.go.set()
    held = call("hold", {"name": "foreign"})
    async with serving_page(WebServer()) as home:
        allowed = [origin_of(home)] if is_allowed else ["https://example.com"]
        async with serving_page(web, allowed_origins=allowed) as bound:
            await visit(browser, origin_of(home))
            assert await browser.run(FAILED_FETCH, bound.url, modern(held), fields_of(modern(held))) == "TypeError"
            assert await browser.run(SIMPLE, bound.url, modern(held)) == "opaque"
            await browser.run(LISTEN, bound.url)
            assert await browser.run("return arrived.next()") == "error"
            await browser.run("source.close()")

    assert not web.ran


CORS = """
if ($request_method = OPTIONS) { return 204; }
add_header Access-Control-Allow-Origin $http_origin always
add_header Access-Control-Allow-Methods "GET, POST, DELETE" always
add_header Access-Control-Allow-Headers "*" always
add_header Access-Control-Expose-Headers "Mcp-Session-Id" always
"""


async def test_a_page_of_an_allowed_origin_uses_a_server_behind_a_proxy_that_answers_preflights(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        serving_page(WebServer()) as home,
        serving_page(WebServer(), allowed_origins=[origin_of(home)]) as bound,
        nginx(tmp_path, [bound.port], *CORS.strip().splitlines()) as port,
    ):
        await visit(browser, origin_of(home))
        url = f"http://127.0.0.1:{port}/mcp"
        script = "return await (await post(...$)).json()"
        answer = await browser.run(script, url, modern(ADD), fields_of(modern(ADD)))
        name = 'return (await post(...$)).headers.get("mcp-session-id")'
        session = await browser.run(name, url, INITIALIZE, fields_of(INITIALIZE))

    assert answer["result"]["structuredContent"] == SUM
    assert session
