"""A protected HTTP application: tokens and scopes, public metadata, sessions, and the expiry of tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.server.raw_http_client import connected, served
from tests.transports.http.asgi_caller import NEVER, AsgiCaller, call, request, scope_of
from tests.transports.http.server.raw_session_client import RawSessionClient, events_of, initialize, message
from tests.transports.http.server.raw_session_client import call as called
from tests.transports.http.server.token_verifier import ISSUER, METADATA, METADATA_URL, RESOURCE, Tokens, protection
from trio_mcp import CallNext, Context, Limits, MemoryEventStore, Request, Server, SessionSettings, http_app
from trio_mcp.abc import Fetch
from trio_mcp.auth import HttpCall, HttpReply, ResourceServer, VerifiedToken
from trio_mcp.transports import HttpApp, open_fetch
from trio_mcp.wire import INVALID_REQUEST, METHOD_NOT_FOUND, decode

BATCHING, LATEST, OLDEST = "2025-03-26", "2025-11-25", "2024-11-05"
ANY_PATH = "/.well-known/oauth-protected-resource"
ANN = {"authorization": "Bearer ann"}
LISTEN = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


@define(eq=False)
class ProtectedServer:
    """A protected server, and a log of its handlers."""

    tokens: Tokens = field(factory=Tokens)
    server: Server = field(factory=lambda: Server("protected", limits=Limits(drain_seconds=1)))
    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)
    notified: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.server.tool(self.look)
        self.server.tool(self.wait)
        self.server.tool(scopes=["vault:open"])(self.open)
        self.server.tool(scopes=["vault:open", "vault:empty"])(self.empty)
        self.server.notification("notifications/acme/knock")(self.knock)

    async def look(self, ctx: Context) -> str:
        access = ctx.access
        assert access is not None
        secrets = {"authorization", "dpop"} & set(ctx.headers)
        return f"{ctx.principal} {access.principal} {sorted(access.scopes)} {access.client_id} {sorted(secrets)}"

    async def wait(self, ctx: Context) -> str:
        await ctx.report_progress(1)
        await self.go.wait()
        return "waited"

    async def open(self) -> str:
        self.log.append("opened")
        return "open"

    async def empty(self) -> str:
        self.log.append("emptied")
        return "empty"

    async def knock(self, params: dict[str, Any], ctx: Context) -> None:
        assert ctx.access is not None
        self.log.append(f"{ctx.principal} {sorted(ctx.access.scopes)} {ctx.headers.get('x-source')}")
        self.notified.set()

    def app(self, *, clock: Any = lambda: 0.0, **options: Any) -> HttpApp:
        return http_app(self.server, auth=protection(self.tokens, clock=clock), **options)

    @asynccontextmanager
    async def open_session_client(
        self, *, clock: Any = lambda: 0.0, **options: Any
    ) -> AsyncGenerator[RawSessionClient]:
        """Run the application, and yield a raw client without a token."""
        app = self.app(clock=clock, **options)
        async with trio.open_nursery() as nursery, app.run():
            yield RawSessionClient(app, nursery)


@pytest.fixture
def protected() -> ProtectedServer:
    return ProtectedServer()


def text_of(caller: AsgiCaller) -> str:
    assert caller.status == 200, caller.body
    text: str = caller.answer["result"]["content"][0]["text"]
    return text


# Authentication.


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, None),
        ({"authorization": "Bearer nonsense"}, "invalid_token"),
        ({"authorization": "Bearer token-0"}, "invalid_token"),
        ({"authorization": "Basic dXNlcjpwYXNz"}, None),
    ],
)
@pytest.mark.requirement("B.6-S2d", "B.8-S2c", "C.3-4")
async def test_the_body_of_a_request_without_a_valid_token_is_not_read(
    protected: ProtectedServer, headers: dict[str, str], error: str | None, runs: bool
) -> None:
    protected.tokens.issue("ann", audience="https://other.example/mcp")
    app = protected.app()
    caller = AsgiCaller.post(call("look"), headers)

    if runs:
        async with app.run():
            await caller.run(app)
    else:
        await caller.run(app)

    assert caller.status == 401
    assert caller.complete
    challenge = caller.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert f'resource_metadata="{METADATA_URL}"' in challenge
    assert (f'error="{error}"' in challenge) if error else ("error=" not in challenge)
    assert caller._read == 0


@pytest.mark.parametrize("runs", [True, False])
async def test_handlers_know_the_principal_and_not_the_token(protected: ProtectedServer, runs: bool) -> None:
    ann = protected.tokens.issue("ann", "b", "a")
    app = protected.app()
    caller = AsgiCaller.post(call("look"), ann)

    if runs:
        async with app.run():
            await caller.run(app)
    else:
        await caller.run(app)

    assert text_of(caller) == "ann ann ['a', 'b'] test []"


@pytest.mark.requirement("C.3-8")
async def test_the_token_of_every_request_is_verified(protected: ProtectedServer) -> None:
    ann = protected.tokens.issue("ann")
    app = protected.app()

    async with app.run():
        assert (await AsgiCaller.post(call("look"), ann).run(app)).status == 200
        protected.tokens.known.clear()
        assert (await AsgiCaller.post(call("look"), ann).run(app)).status == 401

    assert protected.tokens.verified == ["token-0", "token-0"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 403), ({"origin": "https://evil.example"}, 403), ({"content-type": "text/plain"}, 415)],
)
async def test_requests_that_are_refused_for_other_reasons_are_refused_before_their_token_is_verified(
    protected: ProtectedServer, headers: dict[str, str], status: int
) -> None:
    caller = await AsgiCaller.post(call("look"), protected.tokens.issue("ann") | headers).run(protected.app())

    assert caller.status == status
    assert protected.tokens.verified == []


async def test_a_verifier_that_raises_refuses_every_request(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
            raise RuntimeError(f"cannot read {len(token)} characters")

    app = http_app(Server("s"), auth=protection(Broken()))

    caller = await AsgiCaller.post(request("tools/list"), {"authorization": "Bearer secret-1"}).run(app)

    assert caller.status == 503
    assert "cannot read" not in caller.body.decode()
    assert "cannot read" in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "mcp.example"}, 200),
        ({"host": "mcp.example", "origin": "https://mcp.example"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "mcp.example:8000"}, 403),
        ({"host": "mcp.example", "origin": "https://other.example"}, 403),
    ],
)
async def test_the_host_of_the_resource_is_an_allowed_host(
    protected: ProtectedServer, headers: dict[str, str], status: int
) -> None:
    caller = await AsgiCaller.post(call("look"), protected.tokens.issue("ann") | headers).run(protected.app())

    assert caller.status == status


@pytest.mark.parametrize("resource", ["https://MCP.example:443/mcp", "http://mcp.example:80", "https://mcp.example/"])
async def test_the_default_port_of_the_resource_is_not_part_of_the_host(
    protected: ProtectedServer, resource: str
) -> None:
    auth = ResourceServer(resource, issuers=[ISSUER], verifier=protected.tokens, trusted_hosts=["mcp.example"])
    token = protected.tokens.issue("ann", audience=resource)

    caller = await AsgiCaller.post(call("look"), token | {"host": "mcp.example"}).run(
        http_app(protected.server, auth=auth)
    )

    assert caller.status == 200


async def test_allowed_hosts_replace_the_host_of_the_resource(protected: ProtectedServer) -> None:
    app = protected.app(allowed_hosts=["other.example"])

    caller = await AsgiCaller.post(call("look"), protected.tokens.issue("ann") | {"host": "mcp.example"}).run(app)

    assert caller.status == 403


async def test_a_protected_server_on_all_addresses_allows_the_host_of_its_resource(protected: ProtectedServer) -> None:
    async with served(protected.server, host="0.0.0.0", auth=protection(protected.tokens)) as bound:
        assert bound.port is not None
        async with connected(bound) as client:
            await client.stream.send_all(b"GET /mcp HTTP/1.1\r\nhost: mcp.example\r\naccept: text/event-stream\r\n\r\n")
            assert b" 401 " in await client.until(b"\r\n")


# Public metadata.


@pytest.mark.parametrize("path", [METADATA, ANY_PATH])
@pytest.mark.parametrize("options", [{}, {"path": None}, {"path": "/elsewhere"}])
@pytest.mark.requirement("C.3-2")
async def test_the_resource_metadata_is_public(protected: ProtectedServer, path: str, options: dict[str, Any]) -> None:
    caller = await AsgiCaller(scope_of("GET", path, {"host": "mcp.example", "accept": "*/*"})).run(
        protected.app(**options)
    )

    assert caller.status == 200
    assert caller.headers["content-type"] == "application/json"
    assert caller.headers["access-control-allow-origin"] == "*"
    assert caller.headers["cache-control"] == "public, max-age=300"
    document = json.loads(caller.body)
    assert document["resource"] == RESOURCE
    assert document["authorization_servers"] == [ISSUER]


@pytest.mark.parametrize("method", ["POST", "HEAD", "DELETE"])
async def test_the_resource_metadata_can_only_be_read(protected: ProtectedServer, method: str) -> None:
    caller = await AsgiCaller(scope_of(method, METADATA)).run(protected.app())

    assert (caller.status, caller.headers["allow"], caller.body) == (405, "GET, OPTIONS", b"")


PREFLIGHT = {
    "host": "mcp.example",
    "origin": "https://page.example",
    "access-control-request-method": "GET",
    "access-control-request-headers": "mcp-protocol-version",
}


@pytest.mark.parametrize("path", [METADATA, ANY_PATH])
async def test_a_browser_may_let_any_page_read_the_resource_metadata_with_any_header_field(
    protected: ProtectedServer, path: str
) -> None:
    caller = await AsgiCaller(scope_of("OPTIONS", path, PREFLIGHT)).run(protected.app())

    assert (caller.status, caller.body) == (204, b"")
    assert caller.headers["access-control-allow-origin"] == "*"
    assert caller.headers["access-control-allow-methods"] == "GET"
    allowed = caller.headers["access-control-allow-headers"].split(", ")
    assert {"mcp-protocol-version", "authorization", "*"} == set(allowed)
    assert "access-control-allow-credentials" not in caller.headers


async def test_a_preflight_for_the_endpoint_itself_allows_nothing(protected: ProtectedServer) -> None:
    caller = await AsgiCaller(scope_of("OPTIONS", "/mcp", PREFLIGHT)).run(protected.app())

    assert caller.status == 405
    assert not [name for name in caller.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    ("path", "root_path", "status"),
    [
        (METADATA, "/mounted", 200),  # the server in front has removed the mount
        (f"/mounted{METADATA}", "/mounted", 200),
        (METADATA, "/.well-known/oauth-protected-resource", 200),
        ("/mcp", "/.well-known/oauth-protected-resource", 200),
        ("/.well-known/oauth-protected-resource/other", "", 404),
        ("/.well-known/oauth-authorization-server", "", 404),
    ],
)
async def test_the_resource_metadata_is_found_below_the_root_path(
    protected: ProtectedServer, path: str, root_path: str, status: int
) -> None:
    caller = await AsgiCaller(scope_of("GET", path, root_path=root_path)).run(protected.app())

    assert caller.status == status


async def test_an_application_that_wraps_another_one_serves_the_resource_metadata(protected: ProtectedServer) -> None:
    async def host(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = protected.app().wrap(host)

    assert (await AsgiCaller(scope_of("GET", METADATA)).run(app)).status == 200
    assert (await AsgiCaller(scope_of("GET", "/.well-known/other")).run(app)).status == 418


async def test_an_unprotected_application_has_no_resource_metadata() -> None:
    assert (await AsgiCaller(scope_of("GET", METADATA)).run(http_app(Server("s")))).status == 404


# Scopes.


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("granted", "status"), [([], 403), (["vault:open"], 403), (["vault:open", "vault:empty", "more"], 200)]
)
async def test_a_tool_requires_a_token_with_all_of_its_scopes(
    protected: ProtectedServer, granted: list[str], status: int, runs: bool
) -> None:
    app = protected.app()
    caller = AsgiCaller.post(call("empty"), protected.tokens.issue("ann", *granted))

    if runs:
        async with app.run():
            await caller.run(app)
    else:
        await caller.run(app)

    assert caller.status == status
    assert protected.log == (["emptied"] if status == 200 else [])
    if status == 403:
        challenge = caller.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="vault:empty vault:open"' in challenge
        assert f'resource_metadata="{METADATA_URL}"' in challenge


async def test_requests_that_need_no_scopes_are_accepted_with_any_valid_token(protected: ProtectedServer) -> None:
    ann = protected.tokens.issue("ann")
    app = protected.app()

    async with app.run():
        for requested in (request("tools/list"), request("server/discover"), call("look"), call("unknown")):
            assert (await AsgiCaller.post(requested, ann).run(app)).status == 200


async def test_without_authentication_requests_that_need_scopes_are_refused(protected: ProtectedServer) -> None:
    app = http_app(protected.server)

    async with app.run():
        caller = await AsgiCaller.post(call("empty"), protected.tokens.issue("ann", "vault:open", "vault:empty")).run(
            app
        )

    assert (caller.status, caller.code) == (403, INVALID_REQUEST)
    assert caller.answer["id"] == 1
    sentence = "this needs scopes (vault:empty, vault:open), and this HTTP application has no authentication"
    assert caller.answer["error"]["message"].startswith(sentence)
    assert protected.log == []


# Sessions.


@pytest.mark.requirement("C.3-6")
async def test_a_session_does_not_replace_authentication(protected: ProtectedServer) -> None:
    ann, bob = protected.tokens.issue("ann", "vault:open"), protected.tokens.issue("bob", "vault:open")

    async with protected.open_session_client() as client:
        client.headers |= ann
        await client.begin()
        assert text_of(await client.post(called("look"))).startswith("ann ")
        for other, status in (("Bearer nonsense", 401), ("", 401), (bob["authorization"], 404)):
            assert (await client.post(called("open"), authorization=other)).status == status
            assert (await client.request("GET", authorization=other)).status == status
            assert (await client.request("DELETE", authorization=other)).status == status
        assert (await client.post(called("open"))).status == 200

    assert protected.log == ["opened"]


async def test_many_sessions_of_one_principal_do_not_replace_those_of_others(protected: ProtectedServer) -> None:
    async with protected.open_session_client(sessions=SessionSettings(max_sessions=3)) as client:

        async def begin(subject: str) -> RawSessionClient:
            another = RawSessionClient(client.app, client.nursery)
            another.headers |= protected.tokens.issue(subject)
            return await another.begin(LATEST)

        anns = [await begin("ann") for _ in range(3)]
        bob = await begin("bob")
        full = await AsgiCaller.post(initialize(), protected.tokens.issue("bob")).run(client.app)
        statuses = [(await each.post(called("look"))).status for each in (*anns, bob)]

    assert statuses == [404, 200, 200, 200]
    assert (full.status, full.headers["retry-after"]) == (503, "30")


async def test_each_request_in_a_session_is_authorized_by_its_own_token(protected: ProtectedServer) -> None:
    without_scopes, with_scope = protected.tokens.issue("ann"), protected.tokens.issue("ann", "vault:open")

    async with protected.open_session_client() as client:
        client.headers |= without_scopes
        await client.begin()
        refused = await client.post(called("open"))
        assert (refused.status, refused.answer["id"]) == (403, 2)
        assert 'scope="vault:open"' in refused.headers["www-authenticate"]
        client.headers |= with_scope
        assert text_of(await client.post(called("open"))) == "open"
        assert text_of(await client.post(called("look"))) == "ann ann ['vault:open'] test []"
        client.headers |= without_scopes
        assert text_of(await client.post(called("look"))) == "ann ann [] test []"


async def test_an_array_runs_only_if_its_token_has_the_scopes_of_all_its_requests(protected: ProtectedServer) -> None:
    partly_authorized = protected.tokens.issue("ann", "vault:open")
    fully_authorized = protected.tokens.issue("ann", "vault:open", "vault:empty")
    array = [called("open", 2), called("empty", 3), message("notifications/acme/knock")]

    async with protected.open_session_client() as client:
        client.headers |= partly_authorized
        await client.begin(BATCHING)
        refused = await client.post(array)
        assert refused.status == 403
        assert 'scope="vault:empty vault:open"' in refused.headers["www-authenticate"]
        assert refused.answer["id"] is None
        assert protected.log == []
        done = await client.post(array, **fully_authorized)
        await protected.notified.wait()

    assert {each["id"] for each in done.messages} == {2, 3}
    assert {"opened", "emptied"} < set(protected.log)


async def test_an_array_that_is_too_long_is_refused_as_a_whole() -> None:
    protected = ProtectedServer(server=Server("protected", limits=Limits(max_queued=2)))

    async with protected.open_session_client() as client:
        client.headers |= protected.tokens.issue("ann")
        await client.begin(BATCHING)
        refused = await client.post([called("look", 2), called("look", 3), called("open", 4)])

    assert (refused.status, refused.code) == (200, INVALID_REQUEST)
    assert "at most 2 messages" in refused.body.decode()
    assert protected.log == []


async def test_the_scopes_of_modern_methods_in_a_session_are_not_computed(
    protected: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[str] = []

    def needed_scopes(_: Server, method: str, *__: Any) -> frozenset[str]:
        requested.append(method)
        return frozenset()

    monkeypatch.setattr(Server, "needed_scopes", needed_scopes)

    async with protected.open_session_client() as client:
        client.headers |= protected.tokens.issue("ann")
        await client.begin(BATCHING)
        params = {"notifications": {"resourceSubscriptions": ["paper://1"] * 1000}}
        refused = await client.post([message("subscriptions/listen", params, id) for id in (2, 3)])

    assert [each["error"]["code"] for each in refused.messages] == [METHOD_NOT_FOUND, METHOD_NOT_FOUND]
    assert requested == ["initialize"]


@pytest.mark.parametrize("revision", [BATCHING, LATEST])
async def test_an_unprotected_session_is_refused_requests_that_need_scopes(
    protected: ProtectedServer, revision: str
) -> None:
    app = http_app(protected.server)

    async with trio.open_nursery() as nursery, app.run():
        client = await RawSessionClient(app, nursery).begin(revision)
        refused = await client.post(called("open"))

    assert (refused.status, refused.code, refused.answer["id"]) == (403, INVALID_REQUEST, 2)


@pytest.mark.requirement("B.7-S3c")
async def test_each_post_to_an_http_sse_stream_is_authorized_by_its_own_token(protected: ProtectedServer) -> None:
    without_scopes, with_scope = protected.tokens.issue("ann"), protected.tokens.issue("ann", "vault:open")
    bob = protected.tokens.issue("bob", "vault:open")

    async with protected.open_session_client() as client:
        client.headers |= without_scopes
        stream, post = await open_sse_stream(client)
        assert (await post(called("open"))).status == 403
        assert (await post(called("open"), authorization="")).status == 401
        assert (await post(called("open"), **bob)).status != 202
        assert (await post(called("open"), **with_scope)).status == 202
        assert (await post(called("look", 3))).status == 202
        opened, looked = (await sse_messages(stream))[1:]
        stream.disconnect()

    assert protected.log == ["opened"]
    assert (opened["id"], looked["id"]) == (2, 3)
    assert looked["result"]["content"][0]["text"] == "ann ann [] test []"


async def open_sse_stream(client: RawSessionClient) -> tuple[AsgiCaller, Any]:
    """Open a stream of HTTP+SSE and perform the handshake; return the stream, and a function that POSTs to it."""
    stream = client.get()
    await trio.testing.wait_all_tasks_blocked()
    query = stream.body.decode().partition("?")[2].split()[0].encode()

    async def post(body: Any, **headers: str) -> AsgiCaller:
        caller = client.caller(body, **headers)
        caller.scope["query_string"] = query
        return await caller.run(client.app)

    assert (await post(initialize(OLDEST))).status == 202
    await post(message("notifications/initialized"))
    assert (await sse_messages(stream))[0]["id"] == 1
    return stream, post


async def sse_messages(stream: AsgiCaller) -> list[Any]:
    """Wait until all tasks are blocked; return the messages of a stream of HTTP+SSE so far."""
    await trio.testing.wait_all_tasks_blocked()
    return [decode(event.data) for event in events_of(stream) if event.event == "message"]


# Notifications.


async def test_the_handler_of_a_notification_knows_the_principal_and_the_header_fields(
    protected: ProtectedServer,
) -> None:
    without_scopes, with_scope = protected.tokens.issue("ann"), protected.tokens.issue("ann", "a")
    seen: list[str | None] = []

    @protected.server.middleware
    async def record(request: Request, call_next: CallNext) -> Any:
        if request.method == "notifications/acme/knock":
            seen.append(request.context.principal)
        return await call_next(request)

    async with protected.open_session_client() as client:
        modern = request("notifications/acme/knock", id=None)
        assert (await AsgiCaller.post(modern, {**with_scope, "x-source": "modern"}).run(client.app)).status == 202
        await protected.notified.wait()
        client.headers |= without_scopes
        await client.begin()
        protected.notified = trio.Event()
        await client.post(message("notifications/acme/knock"), **with_scope, x_source="session")
        await protected.notified.wait()
        protected.notified = trio.Event()
        del client.headers["mcp-session-id"], client.headers["mcp-protocol-version"]
        stream, post = await open_sse_stream(client)
        await post(message("notifications/acme/knock"), **with_scope, x_source="stream")
        await protected.notified.wait()
        stream.disconnect()

    assert protected.log == ["ann ['a'] modern", "ann ['a'] session", "ann ['a'] stream"]
    assert seen == ["ann"] * 3


# Expiry of tokens.


def wall_clock() -> float:
    """Return a time of day that follows Trio's clock."""
    return 1000.0 + trio.current_time()


async def seconds_until_end(caller: AsgiCaller) -> float:
    """Wait for the end of a response; return the seconds that this took."""
    begun = trio.current_time()
    await caller.returned.wait()
    assert caller.complete
    return trio.current_time() - begun


async def test_a_listen_request_completes_when_its_token_expires(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        ann = protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        listening, working = AsgiCaller.post(LISTEN, ann), AsgiCaller.post(call("wait", progressToken=1), ann)
        client.nursery.start_soon(listening.run, client.app)
        client.nursery.start_soon(working.run, client.app)
        assert 300 <= await seconds_until_end(listening) <= 360
        assert listening.answer["result"]["resultType"] == "complete"
        await trio.sleep(300)
        assert not working.returned.is_set()
        protected.go.set()
        await working.returned.wait()

    assert text_of(working) == "waited"
    assert len(working.messages) == 2


async def test_a_listen_request_with_middleware_completes_when_its_token_expires(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    @protected.server.middleware
    async def pass_on(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    async with protected.open_session_client(clock=wall_clock) as client:
        listening = AsgiCaller.post(LISTEN, protected.tokens.issue("ann", expires_at=wall_clock() + 300))
        client.nursery.start_soon(listening.run, client.app)
        assert 300 <= await seconds_until_end(listening) <= 360

    assert listening.answer["result"]["resultType"] == "complete"


async def test_a_listen_request_with_a_token_that_never_expires_does_not_end(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        listening = AsgiCaller.post(LISTEN, protected.tokens.issue("ann"))
        client.nursery.start_soon(listening.run, client.app)
        await trio.sleep(NEVER)
        assert not listening.returned.is_set()
        listening.disconnect()


@pytest.mark.parametrize("resumable", [True, False])
async def test_a_standalone_stream_ends_with_its_token_and_the_next_one_gets_later_messages(
    protected: ProtectedServer, resumable: bool, autojump_clock: trio.testing.MockClock
) -> None:
    sessions = SessionSettings(event_store=MemoryEventStore() if resumable else None)

    async with protected.open_session_client(clock=wall_clock, sessions=sessions) as client:
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        await client.begin()
        stream, working = client.get(), client.start(called("wait"))
        assert 300 <= await seconds_until_end(stream) <= 360
        assert stream.messages == []
        assert not working.returned.is_set()
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        protected.server.tools.remove("open")
        following = client.get()
        await following.wait_for_messages(1)
        assert following.answer["method"] == "notifications/tools/list_changed"
        protected.go.set()
        await working.returned.wait()
        following.disconnect()

    assert text_of(working) == "waited"


async def test_unsent_messages_at_the_expiry_of_a_standalone_stream_are_sent_on_the_next_one(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        await client.begin()
        stream = client.get()
        await trio.sleep(350)
        stream.stop_reading()
        protected.server.tools.remove("open")
        await trio.sleep(1)  # the first message is being written
        protected.server.tools.remove("empty")
        await trio.sleep(19)
        stream.resume_reading()
        await stream.returned.wait()
        client.headers |= protected.tokens.issue("ann")
        following = client.get()
        await following.wait_for_messages(1)
        following.disconnect()

    assert (len(stream.messages), len(following.messages)) == (1, 1)


async def test_a_resumed_stream_may_wait_for_its_answer_longer_than_its_token_is_valid(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(
        clock=wall_clock, sessions=SessionSettings(event_store=MemoryEventStore())
    ) as client:
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        await client.begin()
        working = client.start(called("wait"))
        await trio.testing.wait_all_tasks_blocked()
        working.disconnect()
        resumed = client.get(events_of(working)[0].id)
        await trio.sleep(1000)
        assert not resumed.returned.is_set()
        protected.go.set()
        await resumed.returned.wait()

    assert text_of(resumed) == "waited"


async def test_a_stream_lasts_until_the_leeway_of_its_token_is_over(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        expired_within_leeway, expired = (
            protected.tokens.issue("ann", expires_at=wall_clock() - ago) for ago in (59, 61)
        )
        listening = AsgiCaller.post(LISTEN, expired_within_leeway)
        client.nursery.start_soon(listening.run, client.app)
        assert (await AsgiCaller.post(LISTEN, expired).run(client.app)).status == 401
        assert 0.5 <= await seconds_until_end(listening) <= 1.5

    assert listening.answer["result"]["resultType"] == "complete"


async def test_an_http_sse_stream_lasts_as_long_as_its_client_posts_with_valid_tokens(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        stream, post = await open_sse_stream(client)
        await trio.sleep(250)
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        assert (await post(called("look"))).status == 202
        await trio.sleep(250)
        assert not stream.returned.is_set()
        assert await seconds_until_end(stream) <= 120
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        assert (await post(called("look"))).status == 400


async def test_a_call_in_flight_keeps_an_http_sse_stream_with_an_expired_token_open(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        stream, post = await open_sse_stream(client)
        await post(called("wait"))
        await trio.sleep(1000)
        assert not stream.returned.is_set()
        protected.go.set()
        assert await seconds_until_end(stream) <= 15

    assert (await sse_messages(stream))[-1]["result"]["content"][0]["text"] == "waited"


async def test_a_cancelled_call_does_not_keep_an_http_sse_stream_open(
    protected: ProtectedServer, autojump_clock: trio.testing.MockClock
) -> None:
    async with protected.open_session_client(clock=wall_clock) as client:
        client.headers |= protected.tokens.issue("ann", expires_at=wall_clock() + 300)
        stream, post = await open_sse_stream(client)
        await post(called("wait"))
        await trio.sleep(250)
        await post(message("notifications/cancelled", {"requestId": 2}))
        assert await seconds_until_end(stream) <= 120


# Requests of a verifier.


@define(eq=False)
class FetchingVerifier:
    """A verifier that sends a request to another server for each token."""

    url: str
    statuses: list[int] = field(factory=list[int], init=False)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        reply = await fetch(HttpCall(method="GET", url=self.url, named_by="user"))
        self.statuses.append(reply.status)
        return VerifiedToken(
            issuer=ISSUER, subject=token, client_id=None, audiences=(RESOURCE,), scopes=frozenset(), expires_at=None
        )


@pytest.fixture
def opened_fetches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the trusted hosts of each fetch that is opened."""
    opened_with: list[Any] = []

    def record(*, trusted_hosts: Any) -> Any:
        opened_with.append(trusted_hosts)
        return open_fetch(trusted_hosts=trusted_hosts)

    monkeypatch.setattr("trio_mcp.transports.http._fetch.open_fetch", record)
    return opened_with


async def test_a_running_application_opens_one_fetch_for_its_verifier(
    protected: ProtectedServer, opened_fetches: list[Any]
) -> None:
    async with served(protected.server) as bound:
        verifier = FetchingVerifier(f"{bound.url}/nothing")
        app = http_app(protected.server, auth=protection(verifier, trusted_hosts=["login.internal"]))
        async with app.run():
            callers = [await AsgiCaller.post(call("look"), ANN).run(app) for _ in range(2)]
            assert opened_fetches == [("login.internal",)]
        stopped = await AsgiCaller.post(call("look"), ANN).run(app)

    assert [text_of(caller) for caller in callers] == ["ann ann [] None []"] * 2
    assert stopped.answer["error"]["message"] == "the server has stopped"
    assert verifier.statuses == [404] * 3


async def test_an_application_that_is_not_run_opens_a_fetch_for_each_request(
    protected: ProtectedServer, opened_fetches: list[Any]
) -> None:
    async with served(protected.server) as bound:
        app = http_app(protected.server, auth=protection(FetchingVerifier(f"{bound.url}/nothing")))
        callers = [await AsgiCaller.post(call("look"), ANN).run(app) for _ in range(2)]

    assert [text_of(caller) for caller in callers] == ["ann ann [] None []"] * 2
    assert opened_fetches == [(), ()]


async def test_an_application_with_a_custom_fetch_opens_no_other(
    protected: ProtectedServer, opened_fetches: list[Any]
) -> None:
    requested: list[str] = []

    async def fetch(call: HttpCall) -> HttpReply:
        requested.append(call.url)
        return HttpReply(status=200)

    app = http_app(protected.server, auth=protection(FetchingVerifier("https://login.example/keys"), fetch=fetch))

    async with app.run():
        caller = await AsgiCaller.post(call("look"), ANN).run(app)

    assert caller.status == 200
    assert opened_fetches == []
    assert requested == ["https://login.example/keys"]
