"""The HTTP application: refused requests, mounting, the lifespan, and requests outside of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from tests.client.http_origin import served
from tests.transports.http.asgi_caller import AsgiCaller, call, request, scope_of
from tests.transports.http.socket_clients import read_all
from trio_mcp import Context, Limits, Server, SessionSettings, open_http_client
from trio_mcp.server import HttpOptions, http_app
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiApp, AsgiMessage, HttpApp, Receive, Scope, Send
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    REVISION_KEY,
    UNSUPPORTED_REVISION,
)

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}
ADD = call("add", {"a": 1, "b": 2})


def request_in(revision: str) -> dict[str, Any]:
    """Return a request that names another revision in its body and its header fields."""
    envelope: dict[str, Any] = {REVISION_KEY: revision}
    return request("tools/list", **envelope)


def make_server(**options: Any) -> Server:
    server = Server("sums", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


def make_app(**options: Any) -> HttpApp:
    return http_app(make_server(), **options)


async def text_from(app: Any, caller: AsgiCaller) -> str:
    """Send the call of a tool, and return the text of its result."""
    await caller.run(app)
    assert caller.status == 200, caller.body
    text: str = caller.answer["result"]["content"][0]["text"]
    return text


@pytest.mark.requirement("B.3-S1b", "B.3-S4b", "B.6-S2a", "B.6-S2b", "B.7-S3a", "B.8-S2a", "B.8-S7a", "B.8-S8")
@pytest.mark.parametrize(
    ("caller", "status", "code"),
    [
        (AsgiCaller(scope_of("PUT")), 405, None),
        (AsgiCaller(scope_of("OPTIONS")), 405, None),
        (AsgiCaller(scope_of(path="/")), 404, None),
        (AsgiCaller(scope_of(path="/mcp/more")), 404, None),
        (AsgiCaller(scope_of("GET", path="/mcpx")), 404, None),
        (AsgiCaller.post(ADD, {"host": "evil.example"}), 403, INVALID_REQUEST),
        (AsgiCaller.post(ADD, {"host": ""}), 403, INVALID_REQUEST),
        (AsgiCaller.post(ADD, {"origin": "https://evil.example"}), 403, INVALID_REQUEST),
        (AsgiCaller.post(ADD, {"content-type": "text/plain"}), 415, INVALID_REQUEST),
        (AsgiCaller.post(ADD, {"accept": "application/json"}), 406, INVALID_REQUEST),
        (AsgiCaller.post(ADD, {"content-length": "5000000"}), 413, INVALID_REQUEST),
        (AsgiCaller.post(b"x" * 5_000_000), 413, INVALID_REQUEST),
        (AsgiCaller.post(b"{"), 400, PARSE_ERROR),
        (AsgiCaller.post(b"[]"), 400, INVALID_REQUEST),
        (AsgiCaller.post(ADD, {"mcp-protocol-version": "2026-07-27"}), 400, -32020),
        (AsgiCaller.post(ADD, {"mcp-method": ""}), 400, -32020),
        (AsgiCaller.post(request_in("2099-01-01")), 400, UNSUPPORTED_REVISION),
        (AsgiCaller.post(request("tools/list", **{CAPABILITIES_KEY: None})), 400, -32602),
        (AsgiCaller.post(ADD, {"mcp-name": "sub"}), 400, -32020),
        (AsgiCaller.post(request("tools/call", {"name": 7}), {"mcp-name": "7"}), 200, -32602),
        (AsgiCaller(scope_of("GET", headers={"accept": "application/json"})), 406, INVALID_REQUEST),
    ],
)
async def test_a_refused_request_gets_a_status_and_a_reason(caller: AsgiCaller, status: int, code: int | None) -> None:
    app = make_app()
    async with app.run():
        await caller.run(app)

    assert caller.status == status
    assert caller.complete
    if code is None:
        assert caller.body == b""
    else:
        assert caller.code == code


@pytest.mark.parametrize(
    ("headers", "writes_null"),
    [
        ({}, True),  # the session is of 2025-03-26, which has no header field for the revision
        ({"mcp-protocol-version": "2025-06-18"}, True),
        ({"mcp-protocol-version": "2025-11-25"}, False),
    ],
)
@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (AsgiCaller.post(INITIALIZE, {"host": "evil.example"}), 403),
        (AsgiCaller.post(INITIALIZE, {"content-type": "text/plain"}), 415),
        (AsgiCaller(scope_of("GET", headers={"accept": "application/json"})), 406),
        (AsgiCaller.post(b"x" * 5_000_000), 413),
        (AsgiCaller.post(b"{"), 400),
        (AsgiCaller.post(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'), 404),
        (AsgiCaller(scope_of("GET")), 404),
        (AsgiCaller(scope_of("DELETE")), 404),
    ],
)
async def test_an_error_without_a_request_has_the_id_null_in_the_revisions_that_require_it(
    caller: AsgiCaller, status: int, headers: dict[str, str], writes_null: bool
) -> None:
    app, fields = make_app(), {b"mcp-session-id": b"s", **{k.encode(): v.encode() for k, v in headers.items()}}
    sent = AsgiCaller({**caller.scope, "headers": [*caller.scope["headers"], *fields.items()]}, caller.pieces)

    async with app.run():
        await sent.run(app)

    assert sent.status == status
    assert sent.answer.get("id", "none") == (None if writes_null else "none")


@pytest.mark.parametrize(("revision", "writes_null"), [("2025-06-18", True), ("2025-11-25", False)])
@pytest.mark.parametrize("body", [b"{", b"x" * 5_000_000])
async def test_an_error_in_a_session_has_the_form_of_its_revision(
    body: bytes, revision: str, writes_null: bool
) -> None:
    app = make_app()
    async with app.run():
        params = {**INITIALIZE["params"], "protocolVersion": revision}
        begun = await AsgiCaller.post({**INITIALIZE, "params": params}).run(app)
        refused = await AsgiCaller.post(body, {"mcp-session-id": begun.headers["mcp-session-id"]}).run(app)

    assert refused.status in {400, 413}
    assert refused.answer.get("id", "none") == (None if writes_null else "none")


async def test_a_refused_http_method_gets_the_list_of_allowed_methods() -> None:
    caller = await AsgiCaller(scope_of("PUT")).run(make_app())

    assert caller.headers["allow"] == "GET, POST, DELETE"


@pytest.mark.requirement("B.4-S4", "B.8-S9")
async def test_a_server_with_modern_revisions_alone_accepts_only_posts_and_has_no_sessions() -> None:
    app = http_app(make_server(revisions=["2026-07-28"]))
    assert await text_from(app, AsgiCaller.post(ADD, {"mcp-session-id": "x", "last-event-id": "1"})) == "3"

    get, delete, initialize = (AsgiCaller(scope_of("GET")), AsgiCaller(scope_of("DELETE")), AsgiCaller.post(INITIALIZE))
    for caller in (get, delete, initialize):
        await caller.run(app)

    assert [(caller.status, caller.headers.get("allow")) for caller in (get, delete)] == [(405, "POST")] * 2
    assert (initialize.status, initialize.code) == (400, UNSUPPORTED_REVISION)


async def test_a_server_with_legacy_revisions_alone_refuses_modern_requests() -> None:
    app = http_app(make_server(revisions=["2025-06-18"]))

    assert (await AsgiCaller.post(ADD).run(app)).status == 400


@pytest.mark.parametrize("origin", ["http://localhost", "https://127.0.0.1:3000", "http://[::1]:80", ""])
async def test_requests_without_an_origin_or_from_local_pages_are_accepted(origin: str) -> None:
    assert await text_from(make_app(), AsgiCaller.post(ADD, {"origin": origin, "host": "127.0.0.1:8000"})) == "3"


@pytest.mark.parametrize(
    ("options", "headers", "status"),
    [
        ({"allowed_hosts": ["a.example"]}, {"host": "a.example", "origin": "https://a.example"}, 200),
        ({"allowed_hosts": ["a.example"]}, {"host": "localhost"}, 403),
        ({"allowed_hosts": ["a.example"]}, {"host": "a.example", "origin": "http://localhost"}, 403),
        ({"allowed_hosts": "any"}, {"host": "b.example"}, 200),
        ({"allowed_hosts": "any"}, {"host": "b.example", "origin": "https://b.example"}, 403),
        ({"allowed_origins": ["https://b.example"]}, {"origin": "https://b.example"}, 200),
        ({"allowed_origins": ["https://b.example"]}, {"origin": "http://localhost"}, 403),
        ({"allowed_origins": "any"}, {"origin": "https://b.example"}, 200),
    ],
)
async def test_allowed_hosts_and_origins_replace_the_defaults(
    options: Any, headers: dict[str, str], status: int
) -> None:
    assert (await AsgiCaller.post(ADD, headers).run(make_app(**options))).status == status


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "mcp"}, "path='mcp'"),
        ({"max_body_bytes": 0}, "max_body_bytes=0"),
        ({"max_body_bytes": float("inf")}, "max_body_bytes=inf"),
        ({"body_seconds": float("nan")}, "body_seconds=nan"),
        ({"keep_alive": True}, "keep_alive=True"),
        ({"allowed_hosts": "localhost"}, "allowed_hosts"),
        ({"allowed_hosts": ["http://localhost"]}, "http://localhost"),
        ({"allowed_origins": ["localhost"]}, "allowed_origins"),
    ],
)
def test_an_invalid_option_is_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_app(**options)


def test_an_unknown_option_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(TypeError, match=r"^unknown options: host; serve_http takes 'host'$"):
        make_app(host="localhost")


def test_the_options_are_documented() -> None:
    assert HttpOptions.__doc__ is not None


TWICE = {"content-length": "1000", "transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    ("caller", "closes"),
    [
        (AsgiCaller.post(ADD, TWICE), True),
        (AsgiCaller.post(ADD, TWICE, path="/elsewhere"), True),
        (AsgiCaller.post(ADD, {"transfer-encoding": "chunked"}), False),
        (AsgiCaller.post(ADD, {"content-length": "1000"}), False),
        (AsgiCaller.post(ADD, TWICE, http_version="2"), False),
    ],
)
async def test_the_response_to_a_request_that_is_framed_twice_closes_the_connection(
    caller: AsgiCaller, closes: bool
) -> None:
    await caller.run(make_app())

    assert caller.headers.get("connection") == ("close" if closes else None)


async def test_under_hypercorn_a_request_that_is_framed_twice_is_the_last_of_its_connection() -> None:
    fields = {"host": "localhost", "accept": "*/*", "content-type": "application/json", **TWICE}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    hidden = b"GET /hidden HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with served(make_app()) as url, await trio.open_tcp_stream("127.0.0.1", urlsplit(url).port or 0) as stream:
        await stream.send_all(f"POST /mcp HTTP/1.1\r\n{head}\r\n2\r\n{{}}\r\n0\r\n\r\n".encode() + hidden)
        response = await read_all(stream)

    assert response.count(b"HTTP/1.1 ") == 1
    assert b"connection: close\r\n" in response


async def test_a_body_that_arrives_too_slowly_gets_408(autojump_clock: trio.testing.MockClock) -> None:
    app = make_app(body_seconds=7)

    async def receive() -> AsgiMessage:
        await trio.sleep(5)
        return {"type": "http.request", "body": b" ", "more_body": True}

    caller = AsgiCaller.post(ADD)
    sent: list[AsgiMessage] = []

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    await app(caller.scope, receive, send)

    assert sent[0]["status"] == 408


async def test_a_client_that_disconnects_in_the_middle_of_a_body_gets_no_answer() -> None:
    caller = AsgiCaller.post(ADD)
    caller.disconnect()

    await caller.run(make_app())

    assert caller.sent == []


@pytest.mark.parametrize(
    ("options", "path", "root_path"),
    [
        ({}, "/mcp", ""),
        ({}, "/mcp/", ""),
        ({}, "/api/mcp", "/api"),
        ({}, "/api/mcp", "/api/"),
        ({}, "/mcp", "/api"),
        ({"path": "/"}, "/mcp", "/mcp"),
        ({"path": "/"}, "/mcp/", "/mcp"),
        ({"path": "/a/b"}, "/a/b", ""),
        ({"path": None}, "/any/path", ""),
    ],
)
async def test_a_mounted_application_is_found_below_its_root_path(options: Any, path: str, root_path: str) -> None:
    caller = AsgiCaller.post(ADD, path=path, root_path=root_path)

    assert await text_from(make_app(**options), caller) == "3"


async def test_a_root_path_that_is_not_a_whole_segment_is_not_removed() -> None:
    caller = AsgiCaller.post(ADD, path="/mcp", root_path="/m")

    assert await text_from(make_app(), caller) == "3"


async def test_nothing_is_sent_to_a_websocket() -> None:
    messages = [{"type": "websocket.connect"}, {"type": "websocket.disconnect"}]

    async def receive() -> AsgiMessage:
        return messages.pop(0)

    async def send(message: AsgiMessage) -> None:
        raise AssertionError(message)

    await make_app()({"type": "websocket", "path": "/mcp"}, receive, send)

    assert messages == []


async def test_an_unknown_kind_of_scope_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'webtransport'"):
        await AsgiCaller({"type": "webtransport"}).run(make_app())


async def run_app(app: AsgiApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def test_a_request_under_asyncio_is_answered_with_instructions(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        raise AssertionError

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    for app in (make_app(), make_app().wrap(host)):
        asyncio.run(run_app(app, scope_of(), receive, send))

    assert [message.get("status") for message in sent] == [500, None] * 2
    assert b"hypercorn -k trio" in sent[-1]["body"]
    assert "hypercorn -k trio" in caplog.text


def test_the_startup_under_asyncio_fails_with_instructions() -> None:
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        return {"type": "lifespan.startup"}

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    for app in (make_app(), make_app().wrap(host)):
        asyncio.run(run_app(app, {"type": "lifespan"}, receive, send))

    assert [message["type"] for message in sent] == ["lifespan.startup.failed"] * 2
    assert "hypercorn -k trio" in sent[0]["message"]


async def host(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers every request with 418, and has no lifespan."""
    if scope["type"] == "lifespan":
        raise NotImplementedError
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def with_lifespan(log: list[str]) -> Server:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[str]:
        log.append("entered")
        yield "shared"
        log.append("left")

    server = make_server(lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.state)

    return server


async def test_the_lifespan_events_of_an_asgi_server_run_the_application() -> None:
    log: list[str] = []
    app = http_app(with_lifespan(log))

    async with AsgiEngine(app).lifespan():
        assert log == ["entered"]
        assert await text_from(app, AsgiCaller.post(call("state"))) == "shared"

    assert log == ["entered", "left"]


async def test_lifespan_events_do_not_affect_an_application_that_is_running() -> None:
    log: list[str] = []
    app = http_app(with_lifespan(log))

    async with app.run():
        async with AsgiEngine(app).lifespan():
            assert log == ["entered"]
        assert await text_from(app, AsgiCaller.post(call("state"))) == "shared"

    assert log == ["entered", "left"]


async def test_an_application_can_run_again_but_not_twice_at_once() -> None:
    log: list[str] = []
    app = http_app(with_lifespan(log))

    async with app.run():
        with pytest.raises(RuntimeError, match="already running"):
            async with app.run():
                pytest.fail("the application runs twice")
        assert await text_from(app, AsgiCaller.post(call("state"))) == "shared"
    async with app.lifespan(object()):
        assert await text_from(app, AsgiCaller.post(call("state"))) == "shared"

    assert log == ["entered", "left"] * 2


async def test_an_application_that_starts_or_has_stopped_refuses_requests_with_a_reason() -> None:
    entering, entered = trio.Event(), trio.Event()

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        entering.set()
        await entered.wait()
        yield

    app = http_app(make_server(lifespan=lifespan))
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            async with app.run():
                nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        await entering.wait()
        early, early_sessions = AsgiCaller.post(ADD), AsgiCaller.post(INITIALIZE)
        await early.run(app)
        await early_sessions.run(app)
        entered.set()
    late = await AsgiCaller.post(ADD).run(app)

    for caller, id, message in ((early, 1, "starting"), (early_sessions, 5, "starting"), (late, 1, "has stopped")):
        assert (caller.status, caller.code, caller.answer["id"]) == (503, INTERNAL_ERROR, id)
        assert message in caller.answer["error"]["message"]


async def test_a_failed_startup_is_reported_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        raise ZeroDivisionError("no database")
        yield

    app = http_app(make_server(lifespan=lifespan))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: no database"):
        async with AsgiEngine(app).lifespan():
            pytest.fail("it has started")

    assert "could not start" in caplog.text


async def test_an_application_whose_lifespan_has_failed_refuses_requests(caplog: pytest.LogCaptureFixture) -> None:
    crash = trio.Event()

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crashing)
            yield

    async def crashing() -> None:
        await crash.wait()
        raise ZeroDivisionError("lost the database")

    app = http_app(make_server(lifespan=lifespan))
    with pytest.raises(RuntimeError, match="could not shut down"):
        async with AsgiEngine(app).lifespan():
            assert await text_from(app, AsgiCaller.post(ADD)) == "3"
            crash.set()
            await trio.testing.wait_all_tasks_blocked()
            assert "lost the database" in caplog.text
            assert (await AsgiCaller.post(ADD).run(app)).status == 503


async def test_an_application_that_is_not_run_serves_modern_requests_one_by_one() -> None:
    app = make_app()

    assert await text_from(app, AsgiCaller.post(ADD)) == "3"
    assert (await AsgiCaller.post(request("server/discover")).run(app)).status == 200


async def test_an_application_that_is_not_run_explains_how_to_run_its_lifespan() -> None:
    app = http_app(with_lifespan([]))

    caller = await AsgiCaller.post(ADD).run(app)

    assert (caller.status, caller.code, caller.answer["id"]) == (503, INTERNAL_ERROR, 1)
    assert "app.run()" in caller.answer["error"]["message"]


@pytest.mark.parametrize(
    ("caller", "id"),
    [
        (AsgiCaller.post(INITIALIZE), 5),
        (AsgiCaller.post(INITIALIZE, {"mcp-session-id": "x"}), 5),
        (AsgiCaller(scope_of("GET", headers={"mcp-session-id": "x"})), None),
        (AsgiCaller(scope_of("DELETE", headers={"mcp-session-id": "x"})), None),
        (AsgiCaller.post(request("com.example/news", id=None)), "none"),
    ],
)
async def test_an_application_that_is_not_run_refuses_sessions_and_notifications_with_instructions(
    caller: AsgiCaller, id: int | str | None
) -> None:
    await caller.run(make_app())

    assert (caller.status, caller.code, caller.answer.get("id", "none")) == (503, INTERNAL_ERROR, id)
    assert "app.run()" in caller.answer["error"]["message"]


async def test_an_application_that_is_not_run_limits_the_requests_in_flight() -> None:
    server, go = make_server(limits=Limits(max_running=3)), trio.Event()

    @server.tool
    async def wait() -> str:
        await go.wait()
        return "went"

    app, callers = http_app(server), [AsgiCaller.post(call("wait")) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, app)
        await trio.testing.wait_all_tasks_blocked()
        refused = await AsgiCaller.post(call("wait")).run(app)
        go.set()

    assert refused.status == 503
    assert "Limits.max_running" in refused.answer["error"]["message"]
    assert [caller.status for caller in callers] == [200, 200]
    assert await text_from(app, AsgiCaller.post(ADD)) == "3"


async def test_an_application_that_is_not_run_serves_a_listener_until_its_client_disconnects() -> None:
    server = make_server()
    app = http_app(server)
    caller = AsgiCaller.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, app)
        await caller.wait_for_messages(1)
        server.tools.remove("add")
        await caller.wait_for_messages(2)
        caller.disconnect()


async def test_an_application_that_is_not_run_asks_questions_by_replaying_the_handler() -> None:
    server = make_server(keys=[b"k" * 16])

    @server.tool
    async def greet(ctx: Context) -> str:
        return str((await ctx.list_roots())[0].uri)

    app = http_app(server)
    question = (await AsgiCaller.post(call("greet", **ROOTS)).run(app)).answer["result"]
    (key,) = question["inputRequests"]
    retry = call("greet", **ROOTS)
    answers = {key: {"roots": [{"uri": "file:///here"}]}}
    retry["params"] |= {"requestState": question["requestState"], "inputResponses": answers}

    assert await text_from(app, AsgiCaller.post(retry)) == "file:///here"


async def test_an_internal_error_fails_one_request_and_is_logged_but_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, sent = make_app(), list[AsgiMessage]()

    async def receive() -> AsgiMessage:
        raise ZeroDivisionError("a secret")

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    await app(AsgiCaller.post(ADD).scope, receive, send)

    assert sent[0]["status"] == 500
    assert b"log says why" in sent[1]["body"]
    assert b"secret" not in sent[1]["body"]
    assert "ZeroDivisionError: a secret" in caplog.text
    assert await text_from(app, AsgiCaller.post(ADD)) == "3"


async def test_an_internal_error_in_the_middle_of_a_response_breaks_it_off(caplog: pytest.LogCaptureFixture) -> None:
    caller, receive = AsgiCaller.post(ADD), AsgiCaller.post(ADD)._receive
    sent: list[AsgiMessage] = []

    async def send(message: AsgiMessage) -> None:
        sent.append(message)
        if len(sent) == 2:
            raise ZeroDivisionError

    await make_app()(caller.scope, receive, send)

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert "ZeroDivisionError" in caplog.text


async def test_an_application_that_wraps_another_one_answers_only_at_its_path() -> None:
    log: list[str] = []
    both = http_app(with_lifespan(log)).wrap(host)

    async with AsgiEngine(both).lifespan():
        assert log == ["entered"]
        assert await text_from(both, AsgiCaller.post(call("state"))) == "shared"
        assert (await AsgiCaller(scope_of("GET", path="/other")).run(both)).status == 418

    assert log == ["entered", "left"]


def test_an_application_without_a_path_cannot_wrap_another_one() -> None:
    with pytest.raises(ValueError, match="path=None"):
        make_app(path=None).wrap(host)


async def test_stopping_an_application_that_does_not_run_does_nothing() -> None:
    app = make_app()

    app.stop()
    await app.drained()

    assert await text_from(app, AsgiCaller.post(ADD)) == "3"


async def test_a_stop_may_be_repeated() -> None:
    app = make_app()
    async with app.run():
        app.stop()
        app.stop()
        await app.drained()
        stopping = await AsgiCaller.post(ADD).run(app)

    assert stopping.status == 503
    assert "stops" in stopping.answer["error"]["message"]


@pytest.mark.parametrize(("asking", "continues"), [("parked", True), ("replayed", False), (None, True)])
async def test_an_option_decides_whether_handlers_are_parked_or_replayed(asking: Any, continues: bool) -> None:
    server, begun = make_server(), 0

    @server.tool
    async def first_root(ctx: Context) -> str:
        nonlocal begun
        begun += 1
        return str((await ctx.list_roots())[0].uri)

    app = http_app(server, asking=asking)
    async with app.run():
        question = (await AsgiCaller.post(call("first_root", **ROOTS)).run(app)).answer["result"]
        (key,) = question["inputRequests"]
        retry = call("first_root", **ROOTS)
        answers = {key: {"roots": [{"uri": "file:///here"}]}}
        retry["params"] |= {"requestState": question["requestState"], "inputResponses": answers}
        assert await text_from(app, AsgiCaller.post(retry)) == "file:///here"

    assert begun == (1 if continues else 2)


async def start_session(app: HttpApp) -> dict[str, str]:
    """Perform a handshake; return the header fields of the session."""
    caller = await AsgiCaller.post(INITIALIZE).run(app)
    assert (caller.status, caller.answer["result"]["protocolVersion"]) == (200, "2025-06-18")
    headers = {"mcp-session-id": caller.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await AsgiCaller.post(initialized, headers).run(app)).status == 202
    return headers


@pytest.mark.requirement("B.8-S1", "B.4-S3")
async def test_both_eras_are_served_at_one_path() -> None:
    app = make_app()
    async with app.run():
        headers = await start_session(app)
        call_of_session = {**ADD, "params": {"name": "add", "arguments": {"a": 3, "b": 4}}}
        assert await text_from(app, AsgiCaller.post(call_of_session, headers)) == "7"
        without_version = {**headers, "mcp-protocol-version": ""}  # the session has a revision
        assert await text_from(app, AsgiCaller.post(call_of_session, without_version)) == "7"
        assert await text_from(app, AsgiCaller.post(ADD)) == "3"


async def test_a_session_has_a_standalone_stream_and_can_be_deleted() -> None:
    app = make_app()
    async with app.run():
        headers = await start_session(app)
        stream = AsgiCaller(scope_of("GET", headers=headers))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.run, app)
            await trio.testing.wait_all_tasks_blocked()
            assert (stream.status, stream.is_stream, stream.complete) == (200, True, False)
            assert (await AsgiCaller(scope_of("DELETE", headers=headers)).run(app)).status == 204
        assert stream.complete
        assert (await AsgiCaller(scope_of("GET", headers=headers)).run(app)).status == 404


async def test_without_sessions_legacy_clients_are_refused_with_the_supported_revisions() -> None:
    app = make_app(sessions=False)
    async with app.run():
        refused = await AsgiCaller.post(INITIALIZE).run(app)
        assert (refused.status, refused.code) == (400, UNSUPPORTED_REVISION)
        assert refused.answer["error"]["data"]["supported"] == ["2026-07-28"]
        assert (await AsgiCaller(scope_of("GET")).run(app)).status == 405
        assert await text_from(app, AsgiCaller.post(ADD)) == "3"


@pytest.mark.requirement("B.4-S5")
@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_clients_of_http_sse_are_served(path: str) -> None:
    app = make_app(sessions=SessionSettings(sse_path="/sse"))
    async with app.run(), trio.open_nursery() as nursery:
        stream = AsgiCaller(scope_of("GET", path=path, headers={"accept": "text/event-stream"}))
        nursery.start_soon(stream.run, app)
        await trio.testing.wait_all_tasks_blocked()
        address = stream.body.decode().split("data: ")[1].strip()
        path_of_posts, _, query = address.partition("?")
        assert path_of_posts == path

        posted = await AsgiCaller.post(INITIALIZE, path=path_of_posts, query_string=query.encode()).run(app)
        assert posted.status == 202
        while b'"protocolVersion"' not in stream.body:
            await trio.testing.wait_all_tasks_blocked()
        app.stop()
        late = await AsgiCaller.post(INITIALIZE, path=path_of_posts, query_string=query.encode()).run(app)
        assert late.status == 503
        await app.drained()
        assert stream.complete


async def test_http_sse_has_no_extra_path_by_default() -> None:
    assert (await AsgiCaller(scope_of("GET", path="/sse")).run(make_app())).status == 404


async def test_the_client_of_this_package_connects_in_both_eras() -> None:
    app = make_app()
    engine = AsgiEngine(app)
    async with engine.lifespan():
        for revision in ("2025-06-18", "2026-07-28"):
            async with open_http_client("http://localhost/mcp", engine=engine, revision=revision) as client:
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert (client.revision, result.structured_content) == (revision, {"result": 3})
