"""The HTTP application: what gets in, where it is mounted, who runs it, and what it says where nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.transports.http.asgi_caller import Caller, call, request, scope_of
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


def speaking(revision: str) -> dict[str, Any]:
    """Return a request that names another revision, in its body and in what is made of that."""
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


async def text_from(app: Any, caller: Caller) -> str:
    """Return the text that a call of a tool is answered with."""
    await caller.run(app)
    assert caller.status == 200, caller.body
    text: str = caller.answer["result"]["content"][0]["text"]
    return text


@pytest.mark.requirement("B.3-S1b", "B.3-S4b", "B.6-S2a", "B.6-S2b", "B.7-S3a", "B.8-S2a", "B.8-S7a", "B.8-S8")
@pytest.mark.parametrize(
    ("caller", "status", "code"),
    [
        (Caller(scope_of("PUT")), 405, None),
        (Caller(scope_of("OPTIONS")), 405, None),
        (Caller(scope_of(path="/")), 404, None),
        (Caller(scope_of(path="/mcp/more")), 404, None),
        (Caller(scope_of("GET", path="/mcpx")), 404, None),
        (Caller.post(ADD, {"host": "evil.example"}), 403, INVALID_REQUEST),
        (Caller.post(ADD, {"host": ""}), 403, INVALID_REQUEST),
        (Caller.post(ADD, {"origin": "https://evil.example"}), 403, INVALID_REQUEST),
        (Caller.post(ADD, {"content-type": "text/plain"}), 415, INVALID_REQUEST),
        (Caller.post(ADD, {"accept": "application/json"}), 406, INVALID_REQUEST),
        (Caller.post(ADD, {"content-length": "5000000"}), 413, INVALID_REQUEST),
        (Caller.post(b"x" * 5_000_000), 413, INVALID_REQUEST),
        (Caller.post(b"{"), 400, PARSE_ERROR),
        (Caller.post(b"[]"), 400, INVALID_REQUEST),
        (Caller.post(ADD, {"mcp-protocol-version": "2026-07-27"}), 400, -32020),
        (Caller.post(ADD, {"mcp-method": ""}), 400, -32020),
        (Caller.post(speaking("2099-01-01")), 400, UNSUPPORTED_REVISION),
        (Caller.post(request("tools/list", **{CAPABILITIES_KEY: None})), 400, -32602),
        (Caller.post(ADD, {"mcp-name": "sub"}), 400, -32020),
        (Caller.post(request("tools/call", {"name": 7}), {"mcp-name": "7"}), 200, -32602),
        (Caller(scope_of("GET", headers={"accept": "application/json"})), 406, INVALID_REQUEST),
    ],
)
async def test_a_refused_request_gets_the_reason(caller: Caller, status: int, code: int | None) -> None:
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
        ({}, True),  # 2025-03-26 has no field for it, and there is a session
        ({"mcp-protocol-version": "2025-06-18"}, True),
        ({"mcp-protocol-version": "2025-11-25"}, False),
    ],
)
@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (Caller.post(INITIALIZE, {"host": "evil.example"}), 403),
        (Caller.post(INITIALIZE, {"content-type": "text/plain"}), 415),
        (Caller(scope_of("GET", headers={"accept": "application/json"})), 406),
        (Caller.post(b"x" * 5_000_000), 413),
        (Caller.post(b"{"), 400),
        (Caller.post(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'), 404),
        (Caller(scope_of("GET")), 404),
        (Caller(scope_of("DELETE")), 404),
    ],
)
async def test_an_error_of_no_request_has_the_id_null_where_the_clients_revision_wants_one(
    caller: Caller, status: int, headers: dict[str, str], writes_null: bool
) -> None:
    app, fields = make_app(), {b"mcp-session-id": b"s", **{k.encode(): v.encode() for k, v in headers.items()}}
    asked = Caller({**caller.scope, "headers": [*caller.scope["headers"], *fields.items()]}, caller.pieces)

    async with app.run():
        await asked.run(app)

    assert asked.status == status
    assert asked.answer.get("id", "none") == (None if writes_null else "none")


@pytest.mark.parametrize(("revision", "writes_null"), [("2025-06-18", True), ("2025-11-25", False)])
@pytest.mark.parametrize("body", [b"{", b"x" * 5_000_000])
async def test_an_error_in_a_session_has_the_form_of_its_revision(
    body: bytes, revision: str, writes_null: bool
) -> None:
    app = make_app()
    async with app.run():
        params = {**INITIALIZE["params"], "protocolVersion": revision}
        begun = await Caller.post({**INITIALIZE, "params": params}).run(app)
        refused = await Caller.post(body, {"mcp-session-id": begun.headers["mcp-session-id"]}).run(app)

    assert refused.status in {400, 413}
    assert refused.answer.get("id", "none") == (None if writes_null else "none")


async def test_a_method_that_is_not_served_gets_the_list_of_those_that_are() -> None:
    caller = await Caller(scope_of("PUT")).run(make_app())

    assert caller.headers["allow"] == "GET, POST, DELETE"


@pytest.mark.requirement("B.4-S4", "B.8-S9")
async def test_a_server_of_modern_revisions_alone_has_one_method_and_no_sessions() -> None:
    app = http_app(make_server(revisions=["2026-07-28"]))
    assert await text_from(app, Caller.post(ADD, {"mcp-session-id": "x", "last-event-id": "1"})) == "3"

    get, delete, initialize = (Caller(scope_of("GET")), Caller(scope_of("DELETE")), Caller.post(INITIALIZE))
    for caller in (get, delete, initialize):
        await caller.run(app)

    assert [(caller.status, caller.headers.get("allow")) for caller in (get, delete)] == [(405, "POST")] * 2
    assert (initialize.status, initialize.code) == (400, UNSUPPORTED_REVISION)


async def test_a_server_of_older_revisions_alone_refuses_the_modern_one() -> None:
    app = http_app(make_server(revisions=["2025-06-18"]))

    assert (await Caller.post(ADD).run(app)).status == 400


@pytest.mark.parametrize("origin", ["http://localhost", "https://127.0.0.1:3000", "http://[::1]:80", ""])
async def test_pages_of_this_machine_and_programs_get_in(origin: str) -> None:
    assert await text_from(make_app(), Caller.post(ADD, {"origin": origin, "host": "127.0.0.1:8000"})) == "3"


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
async def test_hosts_and_origins_are_those_that_were_named(options: Any, headers: dict[str, str], status: int) -> None:
    assert (await Caller.post(ADD, headers).run(make_app(**options))).status == status


@pytest.mark.parametrize(
    ("options", "words"),
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
def test_an_option_that_makes_no_sense_is_refused_at_once(options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_app(**options)


def test_a_misspelt_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(TypeError, match=r"unknown options: host; use some of path, allowed_hosts"):
        make_app(host="localhost")


def test_every_option_is_said_what_it_does() -> None:
    assert HttpOptions.__doc__ is not None


async def test_a_body_that_trickles_in_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    app = make_app(body_seconds=7)

    async def receive() -> AsgiMessage:
        await trio.sleep(5)
        return {"type": "http.request", "body": b" ", "more_body": True}

    caller = Caller.post(ADD)
    sent: list[AsgiMessage] = []

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    await app(caller.scope, receive, send)

    assert sent[0]["status"] == 408


async def test_a_client_that_leaves_in_the_middle_of_a_body_gets_no_answer() -> None:
    caller = Caller.post(ADD)
    caller.leave()

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
        ({"path": None}, "/where/ever", ""),
    ],
)
async def test_it_is_found_below_what_it_is_mounted_under(options: Any, path: str, root_path: str) -> None:
    caller = Caller.post(ADD, path=path, root_path=root_path)

    assert await text_from(make_app(**options), caller) == "3"


async def test_a_mount_whose_name_merely_begins_the_path_takes_nothing_off() -> None:
    caller = Caller.post(ADD, path="/mcp", root_path="/m")

    assert await text_from(make_app(), caller) == "3"


async def test_nothing_is_sent_to_a_websocket() -> None:
    messages = [{"type": "websocket.connect"}, {"type": "websocket.disconnect"}]

    async def receive() -> AsgiMessage:
        return messages.pop(0)

    async def send(message: AsgiMessage) -> None:
        raise AssertionError(message)

    await make_app()({"type": "websocket", "path": "/mcp"}, receive, send)

    assert messages == []


async def test_another_kind_of_scope_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'webtransport'"):
        await Caller({"type": "webtransport"}).run(make_app())


async def called(app: AsgiApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def test_under_asyncio_a_request_is_answered_with_the_fix(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        raise AssertionError

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    for app in (make_app(), make_app().wrap(host)):
        asyncio.run(called(app, scope_of(), receive, send))

    assert [message.get("status") for message in sent] == [500, None] * 2
    assert b"hypercorn -k trio" in sent[-1]["body"]
    assert "hypercorn -k trio" in caplog.text


def test_under_asyncio_the_start_fails_with_the_fix() -> None:
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        return {"type": "lifespan.startup"}

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    for app in (make_app(), make_app().wrap(host)):
        asyncio.run(called(app, {"type": "lifespan"}, receive, send))

    assert [message["type"] for message in sent] == ["lifespan.startup.failed"] * 2
    assert "hypercorn -k trio" in sent[0]["message"]


async def host(scope: Scope, receive: Receive, send: Send) -> None:
    """Another application: answers every request with 418, and has no lifespan."""
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


async def test_the_lifespan_events_of_a_server_run_it() -> None:
    log: list[str] = []
    app = http_app(with_lifespan(log))

    async with AsgiEngine(app).lifespan():
        assert log == ["entered"]
        assert await text_from(app, Caller.post(call("state"))) == "shared"

    assert log == ["entered", "left"]


async def test_lifespan_events_are_nothing_to_an_application_that_its_owner_runs() -> None:
    log: list[str] = []
    app = http_app(with_lifespan(log))

    async with app.run():
        async with AsgiEngine(app).lifespan():
            assert log == ["entered"]
        assert await text_from(app, Caller.post(call("state"))) == "shared"

    assert log == ["entered", "left"]


async def test_an_application_runs_once_at_a_time_and_any_number_of_times() -> None:
    log: list[str] = []
    app = http_app(with_lifespan(log))

    async with app.run():
        with pytest.raises(RuntimeError, match="already running"):
            async with app.run():
                pytest.fail("it runs twice")
        assert await text_from(app, Caller.post(call("state"))) == "shared"
    async with app.lifespan(object()):
        assert await text_from(app, Caller.post(call("state"))) == "shared"

    assert log == ["entered", "left"] * 2


async def test_before_and_after_its_run_the_application_refuses_with_a_reason() -> None:
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
        early, early_sessions = Caller.post(ADD), Caller.post(INITIALIZE)
        await early.run(app)
        await early_sessions.run(app)
        entered.set()
    late = await Caller.post(ADD).run(app)

    for caller, id, words in ((early, 1, "starting"), (early_sessions, 5, "starting"), (late, 1, "has stopped")):
        assert (caller.status, caller.code, caller.answer["id"]) == (503, INTERNAL_ERROR, id)
        assert words in caller.answer["error"]["message"]


async def test_a_start_that_fails_is_reported_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        raise ZeroDivisionError("no database")
        yield

    app = http_app(make_server(lifespan=lifespan))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: no database"):
        async with AsgiEngine(app).lifespan():
            pytest.fail("it has started")

    assert "could not start" in caplog.text


async def test_when_what_it_runs_fails_it_serves_nothing_any_more(caplog: pytest.LogCaptureFixture) -> None:
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
            assert await text_from(app, Caller.post(ADD)) == "3"
            crash.set()
            await trio.testing.wait_all_tasks_blocked()
            assert "lost the database" in caplog.text
            assert (await Caller.post(ADD).run(app)).status == 503


async def test_without_a_run_modern_requests_are_served_one_by_one() -> None:
    app = make_app()

    assert await text_from(app, Caller.post(ADD)) == "3"
    assert (await Caller.post(request("server/discover")).run(app)).status == 200


async def test_without_a_run_the_error_says_how_to_run_a_lifespan() -> None:
    app = http_app(with_lifespan([]))

    caller = await Caller.post(ADD).run(app)

    assert (caller.status, caller.code, caller.answer["id"]) == (503, INTERNAL_ERROR, 1)
    assert "app.run()" in caller.answer["error"]["message"]


@pytest.mark.parametrize(
    ("caller", "id"),
    [
        (Caller.post(INITIALIZE), 5),
        (Caller.post(INITIALIZE, {"mcp-session-id": "x"}), 5),
        (Caller(scope_of("GET", headers={"mcp-session-id": "x"})), None),
        (Caller(scope_of("DELETE", headers={"mcp-session-id": "x"})), None),
        (Caller.post(request("com.example/news", id=None)), "none"),
    ],
)
async def test_without_a_run_messages_that_outlive_a_request_are_refused_with_the_fix(
    caller: Caller, id: int | str | None
) -> None:
    await caller.run(make_app())

    assert (caller.status, caller.code, caller.answer.get("id", "none")) == (503, INTERNAL_ERROR, id)
    assert "app.run()" in caller.answer["error"]["message"]


async def test_without_a_run_the_number_of_requests_is_bounded() -> None:
    server, go = make_server(limits=Limits(max_running=2)), trio.Event()

    @server.tool
    async def wait() -> str:
        await go.wait()
        return "went"

    app, callers = http_app(server), [Caller.post(call("wait")) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, app)
        await trio.testing.wait_all_tasks_blocked()
        refused = await Caller.post(call("wait")).run(app)
        go.set()

    assert refused.status == 503
    assert "Limits.max_running" in refused.answer["error"]["message"]
    assert [caller.status for caller in callers] == [200, 200]
    assert await text_from(app, Caller.post(ADD)) == "3"


async def test_without_a_run_a_listener_lasts_until_its_client_leaves() -> None:
    server = make_server()
    app = http_app(server)
    caller = Caller.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, app)
        await caller.messages_are(1)
        server.tools.remove("add")
        await caller.messages_are(2)
        caller.leave()


async def test_without_a_run_questions_are_asked_by_replaying() -> None:
    server = make_server(keys=[b"k" * 16])

    @server.tool
    async def greet(ctx: Context) -> str:
        return str((await ctx.list_roots())[0].uri)

    app = http_app(server)
    asked = (await Caller.post(call("greet", **ROOTS)).run(app)).answer["result"]
    (key,) = asked["inputRequests"]
    retry = call("greet", **ROOTS)
    answers = {key: {"roots": [{"uri": "file:///here"}]}}
    retry["params"] |= {"requestState": asked["requestState"], "inputResponses": answers}

    assert await text_from(app, Caller.post(retry)) == "file:///here"


async def test_a_failure_costs_one_request_and_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    app, sent = make_app(), list[AsgiMessage]()

    async def receive() -> AsgiMessage:
        raise ZeroDivisionError("a secret")

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    await app(Caller.post(ADD).scope, receive, send)

    assert sent[0]["status"] == 500
    assert b"log says why" in sent[1]["body"]
    assert b"secret" not in sent[1]["body"]
    assert "ZeroDivisionError: a secret" in caplog.text
    assert await text_from(app, Caller.post(ADD)) == "3"


async def test_a_failure_in_the_middle_of_a_response_cuts_it(caplog: pytest.LogCaptureFixture) -> None:
    caller, receive = Caller.post(ADD), Caller.post(ADD)._receive
    sent: list[AsgiMessage] = []

    async def send(message: AsgiMessage) -> None:
        sent.append(message)
        if len(sent) == 2:
            raise ZeroDivisionError

    await make_app()(caller.scope, receive, send)

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert "ZeroDivisionError" in caplog.text


async def test_wrapped_around_another_application_it_answers_at_its_path_alone() -> None:
    log: list[str] = []
    both = http_app(with_lifespan(log)).wrap(host)

    async with AsgiEngine(both).lifespan():
        assert log == ["entered"]
        assert await text_from(both, Caller.post(call("state"))) == "shared"
        assert (await Caller(scope_of("GET", path="/other")).run(both)).status == 418

    assert log == ["entered", "left"]


def test_what_answers_everywhere_leaves_nothing_for_another_application() -> None:
    with pytest.raises(ValueError, match="path=None"):
        make_app(path=None).wrap(host)


async def test_stopping_what_does_not_run_is_harmless() -> None:
    app = make_app()

    app.stop()
    await app.drained()

    assert await text_from(app, Caller.post(ADD)) == "3"


async def test_a_stop_may_be_repeated() -> None:
    app = make_app()
    async with app.run():
        app.stop()
        app.stop()
        await app.drained()
        stopping = await Caller.post(ADD).run(app)

    assert stopping.status == 503
    assert "stops" in stopping.answer["error"]["message"]


@pytest.mark.parametrize(("asking", "goes_on"), [("parked", True), ("replayed", False), (None, True)])
async def test_where_handlers_wait_for_answers_is_an_option(asking: Any, goes_on: bool) -> None:
    server, begun = make_server(), 0

    @server.tool
    async def where(ctx: Context) -> str:
        nonlocal begun
        begun += 1
        return str((await ctx.list_roots())[0].uri)

    app = http_app(server, asking=asking)
    async with app.run():
        asked = (await Caller.post(call("where", **ROOTS)).run(app)).answer["result"]
        (key,) = asked["inputRequests"]
        retry = call("where", **ROOTS)
        answers = {key: {"roots": [{"uri": "file:///here"}]}}
        retry["params"] |= {"requestState": asked["requestState"], "inputResponses": answers}
        assert await text_from(app, Caller.post(retry)) == "file:///here"

    assert begun == (1 if goes_on else 2)


async def begun_session(app: HttpApp) -> dict[str, str]:
    """Make a handshake; return the header fields of the session."""
    caller = await Caller.post(INITIALIZE).run(app)
    assert (caller.status, caller.answer["result"]["protocolVersion"]) == (200, "2025-06-18")
    headers = {"mcp-session-id": caller.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await Caller.post(initialized, headers).run(app)).status == 202
    return headers


@pytest.mark.requirement("B.8-S1", "B.4-S3")
async def test_both_eras_are_served_at_one_path() -> None:
    app = make_app()
    async with app.run():
        headers = await begun_session(app)
        call_of_session = {**ADD, "params": {"name": "add", "arguments": {"a": 3, "b": 4}}}
        assert await text_from(app, Caller.post(call_of_session, headers)) == "7"
        without_version = {**headers, "mcp-protocol-version": ""}  # the session knows it
        assert await text_from(app, Caller.post(call_of_session, without_version)) == "7"
        assert await text_from(app, Caller.post(ADD)) == "3"


async def test_a_session_has_a_stream_and_an_end() -> None:
    app = make_app()
    async with app.run():
        headers = await begun_session(app)
        stream = Caller(scope_of("GET", headers=headers))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.run, app)
            await trio.testing.wait_all_tasks_blocked()
            assert (stream.status, stream.streams, stream.complete) == (200, True, False)
            assert (await Caller(scope_of("DELETE", headers=headers)).run(app)).status == 204
        assert stream.complete
        assert (await Caller(scope_of("GET", headers=headers)).run(app)).status == 404


async def test_without_sessions_legacy_clients_are_refused_with_the_spoken_revisions() -> None:
    app = make_app(sessions=False)
    async with app.run():
        refused = await Caller.post(INITIALIZE).run(app)
        assert (refused.status, refused.code) == (400, UNSUPPORTED_REVISION)
        assert refused.answer["error"]["data"]["supported"] == ["2026-07-28"]
        assert (await Caller(scope_of("GET")).run(app)).status == 405
        assert await text_from(app, Caller.post(ADD)) == "3"


@pytest.mark.requirement("B.4-S5")
@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_clients_of_http_and_sse_are_served_too(path: str) -> None:
    app = make_app(sessions=SessionSettings(sse_path="/sse"))
    async with app.run(), trio.open_nursery() as nursery:
        stream = Caller(scope_of("GET", path=path, headers={"accept": "text/event-stream"}))
        nursery.start_soon(stream.run, app)
        await trio.testing.wait_all_tasks_blocked()
        address = stream.body.decode().split("data: ")[1].strip()
        where, _, query = address.partition("?")
        assert where == path

        posted = await Caller.post(INITIALIZE, path=where, query_string=query.encode()).run(app)
        assert posted.status == 202
        while b'"protocolVersion"' not in stream.body:
            await trio.testing.wait_all_tasks_blocked()
        app.stop()
        late = await Caller.post(INITIALIZE, path=where, query_string=query.encode()).run(app)
        assert late.status == 503
        await app.drained()
        assert stream.complete


async def test_the_older_path_is_not_there_unless_it_is_named() -> None:
    assert (await Caller(scope_of("GET", path="/sse")).run(make_app())).status == 404


async def test_our_client_speaks_to_it_in_both_eras() -> None:
    app = make_app()
    engine = AsgiEngine(app)
    async with engine.lifespan():
        for revision in ("2025-06-18", "2026-07-28"):
            async with open_http_client("http://localhost/mcp", engine=engine, revision=revision) as client:
                result = await client.call_tool("add", {"a": 1, "b": 2})
                assert (client.revision, result.structured_content) == (revision, {"result": 3})
