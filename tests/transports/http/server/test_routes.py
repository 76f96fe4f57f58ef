"""Requests beside the endpoint: routes of the program, pages for load balancers, and the log of all requests."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from tests.transports.http.asgi_caller import AsgiCaller, call, scope_of
from tests.transports.http.server.token_verifier import METADATA, Tokens, protection
from trio_mcp import Context, HttpRequest, Limits, MemoryShared, Server, SessionSettings, http_app
from trio_mcp.transports import AsgiApp, HttpApp, Receive, Scope, Send
from trio_mcp.wire import decode

ADD = call("add", {"a": 1, "b": 2})


def make_app(routes: Any = None, **options: Any) -> HttpApp:
    server = Server("sums", limits=Limits(drain_seconds=1000))

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def wait(ctx: Context) -> None:
        del ctx
        await trio.sleep(10)

    return http_app(server, routes=routes, **options)


async def get(app: AsgiApp, path: str, method: str = "GET", **headers: str) -> AsgiCaller:
    return await AsgiCaller(scope_of(method, path, headers)).run(app)


async def version() -> str:
    return "1.0 é"


async def echo(request: HttpRequest) -> dict[str, str]:
    return {"path": request.path, "query": request.query, "agent": request.headers.get("User-Agent", "")}


async def test_a_function_answers_with_text_bytes_or_json() -> None:
    async def data() -> bytes:
        return b"\0"

    app = make_app({"/version": version, "/echo": echo, "/data": data})
    async with app.run():
        text, json, octets = (
            await get(app, "/version"),
            await get(app, "/echo", **{"user-agent": "x"}),
            await get(app, "/data"),
        )

    assert (text.status, text.body.decode(), text.headers["content-type"]) == (
        200,
        "1.0 é",
        "text/plain; charset=utf-8",
    )
    assert text.headers["content-length"] == "6"
    assert (decode(json.body), json.headers["content-type"]) == (
        {"path": "/echo", "query": "", "agent": "x"},
        "application/json",
    )
    assert (octets.body, octets.headers["content-type"]) == (b"\0", "application/octet-stream")


async def test_a_function_answers_with_a_response_of_starlette() -> None:
    async def teapot() -> PlainTextResponse:
        return PlainTextResponse("short and stout", status_code=418)

    app = make_app({"/tea": teapot, "/same": PlainTextResponse("same")})

    assert ((tea := await get(app, "/tea")).status, tea.body) == (418, b"short and stout")
    assert (await get(app, "/same")).body == b"same"


async def test_a_function_answers_only_requests_that_read() -> None:
    app = make_app({"/version": version})

    head, post = await get(app, "/version", "HEAD"), await get(app, "/version", "POST")

    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "6")
    assert (post.status, post.headers["allow"]) == (405, "GET, HEAD")


async def test_an_application_is_mounted_at_a_path_that_ends_in_a_slash() -> None:
    async def show(request: Request) -> JSONResponse:
        return JSONResponse([request.scope["root_path"], request.path_params["name"]])

    site = Starlette(routes=[Route("/show/{name}", show)])
    app = make_app({"/": site, "/admin/": site, "/admin/deep/": site, "/admin/show/exact": version})

    assert decode((await get(app, "/show/a")).body) == ["", "a"]
    assert decode((await get(app, "/admin/show/a")).body) == ["/admin", "a"]
    assert decode((await get(app, "/admin/deep/show/a")).body) == ["/admin/deep", "a"]
    assert (await get(app, "/admin/show/exact")).body == "1.0 é".encode()
    redirect = await AsgiCaller(scope_of("GET", "/api/admin", query_string=b"a=1", root_path="/api")).run(app)
    assert (redirect.status, redirect.headers["location"]) == (307, "/api/admin/?a=1")
    assert (await get(app, "/admin/deep")).headers["location"] == "/admin/deep/"
    assert (await AsgiCaller.post(ADD).run(app)).status == 200


async def test_a_mounted_host_leaves_its_prefix_to_the_routes() -> None:
    async def show(request: Request) -> JSONResponse:
        return JSONResponse([request.scope["root_path"], request.url.path])

    app = make_app({"/admin/": Starlette(routes=[Route("/show", show)])})

    kept = await AsgiCaller(scope_of("GET", "/api/admin/show", root_path="/api")).run(app)
    removed = await AsgiCaller(scope_of("GET", "/admin/show", root_path="/api")).run(app)

    assert decode(kept.body) == decode(removed.body) == ["/api/admin", "/api/admin/show"]


async def test_other_paths_are_not_found() -> None:
    app = make_app({"/version": version, "/admin/": PlainTextResponse("admin")}, health_path="/healthz")

    assert [(await get(app, path)).status for path in ("/version/", "/version/x", "/administrator", "/health")] == [
        404
    ] * 4


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"sec-fetch-site": "cross-site"}, 200),  # a link on the page of another site
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"content-length": "5000000"}, 413),
    ],
)
async def test_a_route_has_the_hosts_origins_and_sizes_of_the_endpoint(headers: dict[str, str], status: int) -> None:
    assert (await get(make_app({"/version": version}), "/version", **headers)).status == status


async def test_a_route_is_public_even_if_the_endpoint_is_protected() -> None:
    app = make_app({"/version": version}, auth=protection(Tokens()), allowed_hosts=["localhost"])

    assert (await get(app, "/version")).status == 200
    assert (await AsgiCaller.post(ADD).run(app)).status == 401


@pytest.fixture
def read() -> tuple[AsgiApp, list[str]]:
    """Return an application that reads the body of its request, and the list of the events that it received."""
    events: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, send
        while not events or events[-1] not in {"disconnect", "end"}:
            message = await receive()
            is_part = message["type"] == "http.request"
            events.append(str(len(message["body"])) if is_part else "disconnect")
            if is_part and not message["more_body"]:
                events.append("end")

    return application, events


async def test_a_body_within_the_limits_reaches_the_route(read: tuple[AsgiApp, list[str]]) -> None:
    application, events = read

    await AsgiCaller(scope_of("POST", "/read"), (b"abc", b"de")).run(make_app({"/read": application}, max_body_bytes=5))

    assert events == ["3", "2", "end"]


async def test_a_route_learns_that_the_client_has_left_after_its_body() -> None:
    left = trio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, send
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    caller = AsgiCaller(scope_of("GET", "/wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, make_app({"/wait": application}))
        await trio.testing.wait_all_tasks_blocked()
        caller.disconnect()
    assert left.is_set()


async def test_a_body_that_is_too_long_ends_as_if_the_client_had_left(read: tuple[AsgiApp, list[str]]) -> None:
    application, events = read

    async def twice(scope: Scope, receive: Receive, send: Send) -> None:
        await application(scope, receive, send)
        assert (await receive())["type"] == "http.disconnect"

    await AsgiCaller(scope_of("POST", "/read"), (b"abc", b"def")).run(make_app({"/read": twice}, max_body_bytes=5))

    assert events == ["3", "disconnect"]


async def test_a_body_that_does_not_arrive_ends_as_if_the_client_had_left(
    read: tuple[AsgiApp, list[str]], autojump_clock: trio.testing.MockClock
) -> None:
    application, events = read

    async def receive() -> Any:
        if not events:
            return {"type": "http.request", "body": b"abc", "more_body": True}
        await trio.sleep_forever()
        raise AssertionError

    async def send(_: object) -> None:
        raise AssertionError

    app = make_app({"/read": application}, body_seconds=7)
    await app(scope_of("POST", "/read"), receive, send)

    assert events == ["3", "disconnect"]
    assert trio.current_time() == pytest.approx(autojump_clock.current_time())


PAGES: dict[str, Any] = {"health_path": "/healthz", "ready_path": "/readyz", "metrics_path": "/metrics"}


async def test_the_checks_of_health_and_readiness_follow_the_state_of_the_application(autojump_clock: object) -> None:
    states: list[tuple[str, str, int]] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        await look()
        yield
        await look()

    async def look() -> None:
        asked = [await get(app, path, host="10.0.0.7:8000") for path in ("/healthz", "/readyz")]
        assert [each.headers["cache-control"] for each in asked] == ["no-store"] * 2
        health, ready = (f"{each.status} {each.body.decode()}" for each in asked)
        route = await get(app, "/version")
        states.append((health, ready, route.status or 0))

    server = Server("sums", lifespan=lifespan, limits=Limits(drain_seconds=1000))
    begun = trio.Event()

    @server.tool
    async def wait(ctx: Context) -> None:
        del ctx
        begun.set()
        await trio.sleep(10)

    app = http_app(server, routes={"/version": version}, **PAGES)
    calling = AsgiCaller.post(call("wait"))
    await look()
    async with trio.open_nursery() as nursery, app.run():
        await look()
        app.announce_stop()
        await look()
        nursery.start_soon(calling.run, app)
        await begun.wait()
        app.stop()
        await look()
    await look()
    async with app.run():
        await look()

    assert calling.status == 200
    starting, serving = "503 the server is starting; try again", ("200 serving", "200 ready", 200)
    stopping, stopped = "the server stops", "503 the server has stopped"
    assert states == [
        serving,  # without a run, a modern client is served nevertheless
        (starting, starting, 503),
        serving,
        ("200 serving", "503 the server is about to stop", 200),
        (f"200 {stopping}", f"503 {stopping}", 503),
        (f"200 {stopping}", f"503 {stopping}", 503),  # while its lifespan ends
        (stopped, stopped, 503),
        (starting, starting, 503),
        serving,
        (f"200 {stopping}", f"503 {stopping}", 503),
    ]


async def test_a_page_answers_only_requests_that_read() -> None:
    app = make_app(**PAGES)

    for path in PAGES.values():
        whole, head = await get(app, path), await get(app, path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert int(head.headers["content-length"]) >= len(whole.body) > 0  # that of metrics has one more request
        assert ((post := await get(app, path, "POST")).status, post.headers["allow"]) == (405, "GET, HEAD")
        assert (await get(make_app(), path)).status == 404


async def test_a_wrapped_host_serves_what_is_neither_endpoint_nor_page_nor_route() -> None:
    host = PlainTextResponse("host")
    app = make_app({"/version": version}, **PAGES).wrap(host)

    assert [(await get(app, path)).body[:4] for path in ("/version", *PAGES.values(), "/other")] == [
        b"1.0 ",
        b"serv",
        b"read",
        b"# HE",
        b"host",
    ]


async def two(first: object, second: object) -> None:
    del first, second


def not_async(request: HttpRequest) -> str:
    return request.path


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"routes": {"version": version}}, ValueError, "routes: the path 'version' must begin with a slash"),
        ({"routes": {"/mcp/": version}}, ValueError, "routes: the path '/mcp/' is that of the MCP server itself"),
        ({"routes": {"/h": version}, "health_path": "/h"}, ValueError, "'/h' is that of the MCP server itself"),
        ({"routes": {METADATA: version}, "auth": protection(Tokens())}, ValueError, "is that of the MCP server itself"),
        ({"routes": {"/sse": version}, "sessions": SessionSettings(sse_path="/sse")}, ValueError, "'/sse' is that of"),
        ({"routes": {"/x": not_async}}, TypeError, "routes: '/x' must be an ASGI application, or an async function"),
        ({"routes": {"/x": two}}, TypeError, "routes: '/x' must be an ASGI application"),
        ({"routes": {"/x": "text"}}, TypeError, "routes: '/x' must be an ASGI application"),
        ({"health_path": "healthz"}, ValueError, "health_path='healthz': must begin with a slash"),
        ({"health_path": "/mcp"}, ValueError, "health_path='/mcp'"),
        ({"health_path": "/mcp/"}, ValueError, "health_path='/mcp/'"),
        ({"ready_path": "readyz"}, ValueError, "ready_path='readyz': must begin with a slash"),
        ({"metrics_path": "/mcp"}, ValueError, "metrics_path='/mcp'"),
        ({"health_path": "/h", "ready_path": "/h"}, ValueError, "ready_path='/h': must begin with a slash, and not be"),
        ({"ready_path": "/s", "sessions": SessionSettings(sse_path="/s")}, ValueError, "ready_path='/s'"),
        ({"metrics_path": METADATA, "auth": protection(Tokens())}, ValueError, "metrics_path='/.well-known"),
        ({"routes": {"/r": version}, "ready_path": "/r"}, ValueError, "'/r' is that of the MCP server itself"),
        ({"routes": {"/m/": version}, "metrics_path": "/m"}, ValueError, "'/m/' is that of the MCP server itself"),
        ({"path": None, "health_path": "/healthz"}, ValueError, "so there is no room for routes or health_path"),
        ({"path": None, "metrics_path": "/metrics"}, ValueError, "so there is no room for routes or metrics_path"),
        ({"path": None, "routes": {"/x": version}}, ValueError, "path=None answers at every path"),
        ({"access_log": "file.log"}, TypeError, "access_log='file.log': must be True, False or a logging.Logger"),
    ],
)
def test_an_option_that_is_not_valid_is_named(options: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        make_app(**options)


class Counter:
    """A callable object, as frameworks have them."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> int:
        self.count += 1
        return self.count


def any_arguments(application: AsgiApp) -> Callable[..., Awaitable[None]]:
    """Wrap an application as middleware does that passes on its arguments unseen."""

    async def wrapped(*arguments: Any) -> None:
        await application(*arguments)

    return wrapped


async def test_a_route_may_be_any_callable() -> None:
    app = make_app({"/count": Counter(), "/wrapped": any_arguments(PlainTextResponse("wrapped"))})

    assert [(await get(app, "/count")).body for _ in "ab"] == [b"1", b"2"]
    assert (await get(app, "/wrapped")).body == b"wrapped"


# --- The log of requests ---


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return a function that returns the lines of the access log so far."""
    caplog.set_level(logging.INFO, "trio_mcp.access")
    return lambda: [each.getMessage() for each in caplog.records if each.name == "trio_mcp.access"]


async def test_each_request_is_one_line_when_its_response_ends(
    log: Callable[[], list[str]], caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    app = make_app({"/tea": PlainTextResponse("no", status_code=418)}, access_log=True)
    async with app.run():
        await AsgiCaller.post(call("wait")).run(app)
        await get(app, "/tea")
        await AsgiCaller.post(ADD, {"host": "evil.example"}).run(app)

    assert log() == ["POST /mcp 200 10000.0 ms -", "GET /tea 418 0.0 ms -", "POST /mcp 403 0.0 ms -"]
    record = next(each for each in caplog.records if each.name == "trio_mcp.access")
    shown = {name: value for name, value in vars(record).items() if name.startswith("http_")}
    assert re.fullmatch("[0-9a-f]{16}", shown.pop("http_request_id"))
    assert shown == {
        "http_method": "POST",
        "http_path": "/mcp",
        "http_status": 200,
        "http_seconds": 10.0,
        "http_principal": None,
        "http_principal_hash": None,
        "http_node": None,
    }


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-request-id": "abc-!~"}, "abc-!~"),
        ({"x-request-id": "a" * 128}, "a" * 128),
        ({"traceparent": PARENT, "x-request-id": "abc"}, PARENT),
        ({"traceparent": "two words", "x-request-id": "abc"}, "abc"),
        ({"x-request-id": "a" * 129}, "[0-9a-f]{16}"),
        ({"x-request-id": "a b"}, "[0-9a-f]{16}"),
        ({"x-request-id": "a\x7f"}, "[0-9a-f]{16}"),
        ({"x-request-id": "\xe9"}, "[0-9a-f]{16}"),
        ({}, "[0-9a-f]{16}"),
    ],
)
async def test_the_record_of_a_request_has_its_id(
    headers: dict[str, str], expected: str, log: object, caplog: pytest.LogCaptureFixture
) -> None:
    await get(make_app(access_log=True), "/x", **headers)

    (record,) = caplog.records
    assert re.fullmatch(expected, vars(record)["http_request_id"])


async def test_the_record_of_a_request_has_the_hash_of_its_principal(
    log: object, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = Tokens()
    app = make_app(access_log=True, auth=protection(tokens), allowed_hosts=["localhost"])
    await AsgiCaller.post(ADD, tokens.issue("Ada Lovelace\n")).run(app)

    (record,) = (vars(each) for each in caplog.records if each.name == "trio_mcp.access")
    principal = unquote(record["http_principal"])
    assert principal.endswith("Ada Lovelace\n")
    assert record["http_principal_hash"] == sha256(principal.encode()).hexdigest()[:16]


async def test_the_record_of_a_request_names_the_process_of_a_service_of_several(
    log: object, caplog: pytest.LogCaptureFixture
) -> None:
    shared = MemoryShared()
    one, other = make_app(access_log=True, shared=shared), make_app(access_log=True, shared=shared)
    async with one.run(), other.run():
        for app in (one, other, one):
            await get(app, "/x")

    first, second, third = (vars(each)["http_node"] for each in caplog.records if each.name == "trio_mcp.access")
    assert first == third != second
    assert re.fullmatch("[a-z0-9]+", first)


async def test_the_log_names_the_principal_and_nothing_secret(log: Callable[[], list[str]]) -> None:
    tokens = Tokens()
    app = make_app(access_log=True, auth=protection(tokens), allowed_hosts=["localhost"])
    token = tokens.issue("Ada Lovelace\n")
    async with app.run():
        await AsgiCaller.post(ADD, token, query_string=b"secret=1").run(app)
        await AsgiCaller.post(ADD, {"authorization": "Bearer forged"}).run(app)

    admitted, refused = log()
    assert admitted.startswith("POST /mcp 200 ")
    assert admitted.endswith("Ada%20Lovelace%0A")
    assert refused.startswith("POST /mcp 401 ")
    assert refused.endswith(" ms -")
    assert "secret" not in admitted + refused
    assert "token-0" not in admitted


async def test_what_a_client_chooses_cannot_forge_a_line(log: Callable[[], list[str]]) -> None:
    await get(make_app(access_log=True), "/x\nGET /mcp 200 \udcff" + "y" * 500, "GE\tT")

    (line,) = log()
    assert line.startswith("GE%09T /x%0AGET%20/mcp%20200%20%3Fy")
    assert len(line) < 300


async def test_a_failed_route_is_logged_with_the_status_that_its_server_sends(log: Callable[[], list[str]]) -> None:
    async def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await get(make_app({"/broken": broken}, access_log=True), "/broken")

    assert [line.split()[:3] for line in log()] == [["GET", "/broken", "500"]]


async def test_a_request_whose_client_left_has_no_status(log: Callable[[], list[str]]) -> None:
    app = make_app(access_log=True)
    caller = AsgiCaller(scope_of("POST"), ())
    caller.disconnect()
    async with app.run():
        await caller.run(app)

    assert [line.split()[:3] for line in log()] == [["POST", "/mcp", "-"]]


async def test_requests_are_logged_only_if_the_log_is_asked_for_and_takes_them(
    log: Callable[[], list[str]], caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    own = logging.getLogger("com.example.access")
    for given in (None, False, own):
        await get(make_app(access_log=given), "/x")
    caplog.set_level(logging.INFO, own.name)
    await get(make_app(access_log=own), "/y")

    assert log() == []
    assert [each.getMessage() for each in caplog.records if each.name == own.name] == ["GET /y 404 0.0 ms -"]
