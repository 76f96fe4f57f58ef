"""Who gets into a protected HTTP application, with what, what anybody may read of it, and when streams end."""

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
from tests.transports.http.asgi_caller import NEVER, Caller, call, request, scope_of
from tests.transports.http.server.scripted_client import ByHand, events_of, initialize, message
from tests.transports.http.server.scripted_client import call as called
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
class Vault:
    """A protected server, and what its handlers have seen."""

    tokens: Tokens = field(factory=Tokens)
    server: Server = field(factory=lambda: Server("vault", limits=Limits(drain_seconds=1)))
    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)
    heard: trio.Event = field(factory=trio.Event, init=False)

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
        self.log.append(f"{ctx.principal} {sorted(ctx.access.scopes)} {ctx.headers.get('x-door')}")
        self.heard.set()

    def app(self, *, clock: Any = lambda: 0.0, **options: Any) -> HttpApp:
        return http_app(self.server, auth=protection(self.tokens, clock=clock), **options)

    @asynccontextmanager
    async def by_hand(self, *, clock: Any = lambda: 0.0, **options: Any) -> AsyncGenerator[ByHand]:
        """Serve, and yield a client that shows no token."""
        app = self.app(clock=clock, **options)
        async with trio.open_nursery() as nursery, app.run():
            yield ByHand(app, nursery)


@pytest.fixture
def vault() -> Vault:
    return Vault()


def text_of(caller: Caller) -> str:
    assert caller.status == 200, caller.body
    text: str = caller.answer["result"]["content"][0]["text"]
    return text


# -- Who gets in.


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
async def test_without_a_good_token_nothing_of_a_request_is_read(
    vault: Vault, headers: dict[str, str], error: str | None, runs: bool
) -> None:
    vault.tokens.give("ann", audience="https://other.example/mcp")
    app = vault.app()
    caller = Caller.post(call("look"), headers)

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
async def test_handlers_know_the_principal_and_not_the_token(vault: Vault, runs: bool) -> None:
    ann = vault.tokens.give("ann", "b", "a")
    app = vault.app()
    caller = Caller.post(call("look"), ann)

    if runs:
        async with app.run():
            await caller.run(app)
    else:
        await caller.run(app)

    assert text_of(caller) == "ann ann ['a', 'b'] test []"


@pytest.mark.requirement("C.3-8")
async def test_every_request_is_judged_by_itself(vault: Vault) -> None:
    ann = vault.tokens.give("ann")
    app = vault.app()

    async with app.run():
        assert (await Caller.post(call("look"), ann).run(app)).status == 200
        vault.tokens.known.clear()
        assert (await Caller.post(call("look"), ann).run(app)).status == 401

    assert vault.tokens.seen == ["token-0", "token-0"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 403), ({"origin": "https://evil.example"}, 403), ({"content-type": "text/plain"}, 415)],
)
async def test_what_is_wrong_with_a_request_anyway_is_said_before_tokens_are_looked_at(
    vault: Vault, headers: dict[str, str], status: int
) -> None:
    caller = await Caller.post(call("look"), vault.tokens.give("ann") | headers).run(vault.app())

    assert caller.status == status
    assert vault.tokens.seen == []


async def test_a_verifier_with_a_bug_refuses_every_request(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
            raise RuntimeError(f"cannot read {len(token)} characters")

    app = http_app(Server("s"), auth=protection(Broken()))

    caller = await Caller.post(request("tools/list"), {"authorization": "Bearer secret-1"}).run(app)

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
async def test_the_name_that_tokens_are_made_for_is_a_name_of_the_server(
    vault: Vault, headers: dict[str, str], status: int
) -> None:
    caller = await Caller.post(call("look"), vault.tokens.give("ann") | headers).run(vault.app())

    assert caller.status == status


@pytest.mark.parametrize("resource", ["https://MCP.example:443/mcp", "http://mcp.example:80", "https://mcp.example/"])
async def test_the_port_that_clients_do_not_name_is_no_part_of_it(vault: Vault, resource: str) -> None:
    auth = ResourceServer(resource, issuers=[ISSUER], verifier=vault.tokens, trusted_hosts=["mcp.example"])
    token = vault.tokens.give("ann", audience=resource)

    caller = await Caller.post(call("look"), token | {"host": "mcp.example"}).run(http_app(vault.server, auth=auth))

    assert caller.status == 200


async def test_names_that_are_said_stand_alone(vault: Vault) -> None:
    app = vault.app(allowed_hosts=["other.example"])

    caller = await Caller.post(call("look"), vault.tokens.give("ann") | {"host": "mcp.example"}).run(app)

    assert caller.status == 403


async def test_a_protected_server_at_every_address_knows_its_name(vault: Vault) -> None:
    async with served(vault.server, host="0.0.0.0", auth=protection(vault.tokens)) as bound:
        assert bound.port is not None
        async with connected(bound) as client:
            await client.stream.send_all(b"GET /mcp HTTP/1.1\r\nhost: mcp.example\r\naccept: text/event-stream\r\n\r\n")
            assert b" 401 " in await client.until(b"\r\n")


# -- What anybody may read.


@pytest.mark.parametrize("path", [METADATA, ANY_PATH])
@pytest.mark.parametrize("options", [{}, {"path": None}, {"path": "/elsewhere"}])
@pytest.mark.requirement("C.3-2")
async def test_what_a_client_has_to_know_can_be_read_by_anybody(
    vault: Vault, path: str, options: dict[str, Any]
) -> None:
    caller = await Caller(scope_of("GET", path, {"host": "mcp.example", "accept": "*/*"})).run(vault.app(**options))

    assert caller.status == 200
    assert caller.headers["content-type"] == "application/json"
    assert caller.headers["access-control-allow-origin"] == "*"
    assert caller.headers["cache-control"] == "public, max-age=300"
    document = json.loads(caller.body)
    assert document["resource"] == RESOURCE
    assert document["authorization_servers"] == [ISSUER]


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "DELETE"])
async def test_it_can_be_read_and_nothing_else(vault: Vault, method: str) -> None:
    caller = await Caller(scope_of(method, METADATA)).run(vault.app())

    assert (caller.status, caller.headers["allow"], caller.body) == (405, "GET", b"")


@pytest.mark.parametrize(
    ("path", "root_path", "status"),
    [
        (METADATA, "/mounted", 200),  # the server in front has taken the mount off
        (f"/mounted{METADATA}", "/mounted", 200),
        (METADATA, "/.well-known/oauth-protected-resource", 200),
        ("/mcp", "/.well-known/oauth-protected-resource", 200),
        ("/.well-known/oauth-protected-resource/other", "", 404),
        ("/.well-known/oauth-authorization-server", "", 404),
    ],
)
async def test_it_is_found_below_what_the_application_is_mounted_under(
    vault: Vault, path: str, root_path: str, status: int
) -> None:
    caller = await Caller(scope_of("GET", path, root_path=root_path)).run(vault.app())

    assert caller.status == status


async def test_around_another_application_it_is_still_found(vault: Vault) -> None:
    async def host(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = vault.app().wrap(host)

    assert (await Caller(scope_of("GET", METADATA)).run(app)).status == 200
    assert (await Caller(scope_of("GET", "/.well-known/other")).run(app)).status == 418


async def test_an_application_without_protection_describes_none() -> None:
    assert (await Caller(scope_of("GET", METADATA)).run(http_app(Server("s")))).status == 404


# -- What was granted.


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("granted", "status"), [([], 403), (["vault:open"], 403), (["vault:open", "vault:empty", "more"], 200)]
)
async def test_a_tool_runs_for_a_client_with_all_of_its_scopes(
    vault: Vault, granted: list[str], status: int, runs: bool
) -> None:
    app = vault.app()
    caller = Caller.post(call("empty"), vault.tokens.give("ann", *granted))

    if runs:
        async with app.run():
            await caller.run(app)
    else:
        await caller.run(app)

    assert caller.status == status
    assert vault.log == (["emptied"] if status == 200 else [])
    if status == 403:
        challenge = caller.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="vault:empty vault:open"' in challenge
        assert f'resource_metadata="{METADATA_URL}"' in challenge


async def test_what_needs_no_scopes_is_there_for_everybody_with_a_token(vault: Vault) -> None:
    ann = vault.tokens.give("ann")
    app = vault.app()

    async with app.run():
        for asked in (request("tools/list"), request("server/discover"), call("look"), call("unknown")):
            assert (await Caller.post(asked, ann).run(app)).status == 200


async def test_without_authentication_requests_that_need_scopes_are_refused(vault: Vault) -> None:
    app = http_app(vault.server)

    async with app.run():
        caller = await Caller.post(call("empty"), vault.tokens.give("ann", "vault:open", "vault:empty")).run(app)

    assert (caller.status, caller.code) == (403, INVALID_REQUEST)
    assert caller.answer["id"] == 1
    sentence = "this needs scopes (vault:empty, vault:open), and this HTTP application has no authentication"
    assert caller.answer["error"]["message"].startswith(sentence)
    assert vault.log == []


# -- Sessions.


@pytest.mark.requirement("C.3-6")
async def test_a_session_is_no_authentication(vault: Vault) -> None:
    ann, bob = vault.tokens.give("ann", "vault:open"), vault.tokens.give("bob", "vault:open")

    async with vault.by_hand() as client:
        client.headers |= ann
        await client.begin()
        assert text_of(await client.post(called("look"))).startswith("ann ")
        for other, status in (("Bearer nonsense", 401), ("", 401), (bob["authorization"], 404)):
            assert (await client.post(called("open"), authorization=other)).status == status
            assert (await client.request("GET", authorization=other)).status == status
            assert (await client.request("DELETE", authorization=other)).status == status
        assert (await client.post(called("open"))).status == 200

    assert vault.log == ["opened"]


async def test_one_principal_cannot_lock_others_out_with_many_sessions(vault: Vault) -> None:
    async with vault.by_hand(sessions=SessionSettings(max_sessions=3)) as client:

        async def begin(who: str) -> ByHand:
            another = ByHand(client.app, client.nursery)
            another.headers |= vault.tokens.give(who)
            return await another.begin(LATEST)

        anns = [await begin("ann") for _ in range(3)]
        bob = await begin("bob")
        full = await Caller.post(initialize(), vault.tokens.give("bob")).run(client.app)
        statuses = [(await each.post(called("look"))).status for each in (*anns, bob)]

    assert statuses == [404, 200, 200, 200]
    assert (full.status, full.headers["retry-after"]) == (503, "30")


async def test_in_a_session_the_token_of_each_request_authorizes_it(vault: Vault) -> None:
    little, more = vault.tokens.give("ann"), vault.tokens.give("ann", "vault:open")

    async with vault.by_hand() as client:
        client.headers |= little
        await client.begin()
        refused = await client.post(called("open"))
        assert (refused.status, refused.answer["id"]) == (403, 2)
        assert 'scope="vault:open"' in refused.headers["www-authenticate"]
        client.headers |= more
        assert text_of(await client.post(called("open"))) == "open"
        assert text_of(await client.post(called("look"))) == "ann ann ['vault:open'] test []"
        client.headers |= little
        assert text_of(await client.post(called("look"))) == "ann ann [] test []"


async def test_of_an_array_nothing_runs_unless_all_of_it_may(vault: Vault) -> None:
    some = vault.tokens.give("ann", "vault:open")
    all_of_it = vault.tokens.give("ann", "vault:open", "vault:empty")
    array = [called("open", 2), called("empty", 3), message("notifications/acme/knock")]

    async with vault.by_hand() as client:
        client.headers |= some
        await client.begin(BATCHING)
        refused = await client.post(array)
        assert refused.status == 403
        assert 'scope="vault:empty vault:open"' in refused.headers["www-authenticate"]
        assert refused.answer["id"] is None
        assert vault.log == []
        done = await client.post(array, **all_of_it)
        await vault.heard.wait()

    assert {each["id"] for each in done.messages} == {2, 3}
    assert {"opened", "emptied"} < set(vault.log)


async def test_an_array_that_is_too_long_is_not_read_to_its_end() -> None:
    vault = Vault(server=Server("vault", limits=Limits(max_queued=2)))

    async with vault.by_hand() as client:
        client.headers |= vault.tokens.give("ann")
        await client.begin(BATCHING)
        refused = await client.post([called("look", 2), called("look", 3), called("open", 4)])

    assert (refused.status, refused.code) == (200, INVALID_REQUEST)
    assert "at most 2 messages" in refused.body.decode()
    assert vault.log == []


async def test_what_an_array_of_requests_to_listen_names_is_not_looked_at(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def needed_scopes(_: Server, method: str, __: Any) -> frozenset[str]:
        asked.append(method)
        return frozenset()

    monkeypatch.setattr(Server, "needed_scopes", needed_scopes)

    async with vault.by_hand() as client:
        client.headers |= vault.tokens.give("ann")
        await client.begin(BATCHING)
        params = {"notifications": {"resourceSubscriptions": ["paper://1"] * 1000}}
        refused = await client.post([message("subscriptions/listen", params, id) for id in (2, 3)])

    assert [each["error"]["code"] for each in refused.messages] == [METHOD_NOT_FOUND, METHOD_NOT_FOUND]
    assert asked == ["initialize"]


@pytest.mark.parametrize("revision", [BATCHING, LATEST])
async def test_without_protection_a_session_is_refused_what_needs_scopes(vault: Vault, revision: str) -> None:
    app = http_app(vault.server)

    async with trio.open_nursery() as nursery, app.run():
        client = await ByHand(app, nursery).begin(revision)
        refused = await client.post(called("open"))

    assert (refused.status, refused.code, refused.answer["id"]) == (403, INVALID_REQUEST, 2)


@pytest.mark.requirement("B.7-S3c")
async def test_on_a_stream_of_http_and_sse_each_post_is_judged_by_itself(vault: Vault) -> None:
    little, more = vault.tokens.give("ann"), vault.tokens.give("ann", "vault:open")
    bob = vault.tokens.give("bob", "vault:open")

    async with vault.by_hand() as client:
        client.headers |= little
        stream, post = await opened_stream(client)
        assert (await post(called("open"))).status == 403
        assert (await post(called("open"), authorization="")).status == 401
        assert (await post(called("open"), **bob)).status != 202
        assert (await post(called("open"), **more)).status == 202
        assert (await post(called("look", 3))).status == 202
        opened, looked = (await said_by(stream))[1:]
        stream.leave()

    assert vault.log == ["opened"]
    assert (opened["id"], looked["id"]) == (2, 3)
    assert looked["result"]["content"][0]["text"] == "ann ann [] test []"


async def opened_stream(client: ByHand) -> tuple[Caller, Any]:
    """Open a stream of HTTP+SSE, and make the handshake; return it, and what posts to it."""
    stream = client.get()
    await trio.testing.wait_all_tasks_blocked()
    query = stream.body.decode().partition("?")[2].split()[0].encode()

    async def post(said: Any, **headers: str) -> Caller:
        caller = client.caller(said, **headers)
        caller.scope["query_string"] = query
        return await caller.run(client.app)

    assert (await post(initialize(OLDEST))).status == 202
    await post(message("notifications/initialized"))
    assert (await said_by(stream))[0]["id"] == 1
    return stream, post


async def said_by(stream: Caller) -> list[Any]:
    """Return the messages that have come by a stream of HTTP+SSE, when no more come for now."""
    await trio.testing.wait_all_tasks_blocked()
    return [decode(event.data) for event in events_of(stream) if event.event == "message"]


# -- Notifications.


async def test_the_handler_of_a_notification_knows_who_sent_it(vault: Vault) -> None:
    little, more = vault.tokens.give("ann"), vault.tokens.give("ann", "a")
    seen: list[str | None] = []

    @vault.server.middleware
    async def note(request: Request, call_next: CallNext) -> Any:
        if request.method == "notifications/acme/knock":
            seen.append(request.context.principal)
        return await call_next(request)

    async with vault.by_hand() as client:
        modern = request("notifications/acme/knock", id=None)
        assert (await Caller.post(modern, {**more, "x-door": "modern"}).run(client.app)).status == 202
        await vault.heard.wait()
        client.headers |= little
        await client.begin()
        vault.heard = trio.Event()
        await client.post(message("notifications/acme/knock"), **more, x_door="session")
        await vault.heard.wait()
        vault.heard = trio.Event()
        del client.headers["mcp-session-id"], client.headers["mcp-protocol-version"]
        stream, post = await opened_stream(client)
        await post(message("notifications/acme/knock"), **more, x_door="stream")
        await vault.heard.wait()
        stream.leave()

    assert vault.log == ["ann ['a'] modern", "ann ['a'] session", "ann ['a'] stream"]
    assert seen == ["ann"] * 3


# -- The end of a token.


def at_noon() -> float:
    """Return the time of day, on Trio's clock."""
    return 1000.0 + trio.current_time()


async def ended_at(caller: Caller) -> float:
    """Wait for the end of a response; return when that was, in seconds since now."""
    begun = trio.current_time()
    await caller.returned.wait()
    assert caller.complete
    return trio.current_time() - begun


async def test_what_listens_ends_in_peace_when_its_token_does(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        ann = vault.tokens.give("ann", ends=at_noon() + 300)
        listening, working = Caller.post(LISTEN, ann), Caller.post(call("wait", progressToken=1), ann)
        client.nursery.start_soon(listening.run, client.app)
        client.nursery.start_soon(working.run, client.app)
        assert 300 <= await ended_at(listening) <= 360
        assert listening.answer["result"]["resultType"] == "complete"
        await trio.sleep(300)
        assert not working.returned.is_set()
        vault.go.set()
        await working.returned.wait()

    assert text_of(working) == "waited"
    assert len(working.messages) == 2


async def test_with_middleware_it_does_so_too(vault: Vault, autojump_clock: trio.testing.MockClock) -> None:
    @vault.server.middleware
    async def pass_on(request: Request, call_next: CallNext) -> Any:
        return await call_next(request)

    async with vault.by_hand(clock=at_noon) as client:
        listening = Caller.post(LISTEN, vault.tokens.give("ann", ends=at_noon() + 300))
        client.nursery.start_soon(listening.run, client.app)
        assert 300 <= await ended_at(listening) <= 360

    assert listening.answer["result"]["resultType"] == "complete"


async def test_a_token_without_an_end_listens_for_ever(vault: Vault, autojump_clock: trio.testing.MockClock) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        listening = Caller.post(LISTEN, vault.tokens.give("ann"))
        client.nursery.start_soon(listening.run, client.app)
        await trio.sleep(NEVER)
        assert not listening.returned.is_set()
        listening.leave()


@pytest.mark.parametrize("kept", [True, False])
async def test_a_standing_stream_ends_with_its_token_and_the_next_one_gets_the_rest(
    vault: Vault, kept: bool, autojump_clock: trio.testing.MockClock
) -> None:
    sessions = SessionSettings(event_store=MemoryEventStore() if kept else None)

    async with vault.by_hand(clock=at_noon, sessions=sessions) as client:
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        await client.begin()
        stream, working = client.get(), client.start(called("wait"))
        assert 300 <= await ended_at(stream) <= 360
        assert stream.messages == []
        assert not working.returned.is_set()
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        vault.server.tools.remove("open")
        following = client.get()
        await following.messages_are(1)
        assert following.answer["method"] == "notifications/tools/list_changed"
        vault.go.set()
        await working.returned.wait()
        following.leave()

    assert text_of(working) == "waited"


async def test_what_waits_when_the_token_of_a_standing_stream_ends_goes_out_by_the_next_one(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        await client.begin()
        stream = client.get()
        await trio.sleep(350)
        stream.stop_reading()
        vault.server.tools.remove("open")
        await trio.sleep(1)  # it is being written
        vault.server.tools.remove("empty")
        await trio.sleep(19)
        stream.read_on()
        await stream.returned.wait()
        client.headers |= vault.tokens.give("ann")
        following = client.get()
        await following.messages_are(1)
        following.leave()

    assert (len(stream.messages), len(following.messages)) == (1, 1)


async def test_who_comes_back_for_an_answer_may_wait_for_it_longer_than_the_token_lasts(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon, sessions=SessionSettings(event_store=MemoryEventStore())) as client:
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        await client.begin()
        working = client.start(called("wait"))
        await trio.testing.wait_all_tasks_blocked()
        working.leave()
        back = client.get(events_of(working)[0].id)
        await trio.sleep(1000)
        assert not back.returned.is_set()
        vault.go.set()
        await back.returned.wait()

    assert text_of(back) == "waited"


async def test_a_stream_lasts_for_as_long_as_its_token_would_open_another_one(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        barely, too_late = (vault.tokens.give("ann", ends=at_noon() - ago) for ago in (59, 61))
        listening = Caller.post(LISTEN, barely)
        client.nursery.start_soon(listening.run, client.app)
        assert (await Caller.post(LISTEN, too_late).run(client.app)).status == 401
        assert 0.5 <= await ended_at(listening) <= 1.5

    assert listening.answer["result"]["resultType"] == "complete"


async def test_a_stream_of_http_and_sse_lasts_as_long_as_its_client_shows_good_tokens(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        stream, post = await opened_stream(client)
        await trio.sleep(250)
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        assert (await post(called("look"))).status == 202
        await trio.sleep(250)
        assert not stream.returned.is_set()
        assert await ended_at(stream) <= 120
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        assert (await post(called("look"))).status == 400


async def test_a_call_that_is_under_way_keeps_such_a_stream_open_until_its_end(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        stream, post = await opened_stream(client)
        await post(called("wait"))
        await trio.sleep(1000)
        assert not stream.returned.is_set()
        vault.go.set()
        assert await ended_at(stream) <= 15

    assert (await said_by(stream))[-1]["result"]["content"][0]["text"] == "waited"


async def test_a_call_that_is_cancelled_keeps_it_open_no_longer(
    vault: Vault, autojump_clock: trio.testing.MockClock
) -> None:
    async with vault.by_hand(clock=at_noon) as client:
        client.headers |= vault.tokens.give("ann", ends=at_noon() + 300)
        stream, post = await opened_stream(client)
        await post(called("wait"))
        await trio.sleep(250)
        await post(message("notifications/cancelled", {"requestId": 2}))
        assert await ended_at(stream) <= 120


# -- What a verifier fetches.


@define(eq=False)
class Asking:
    """A verifier that asks another server about each token."""

    url: str
    statuses: list[int] = field(factory=list[int], init=False)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        reply = await fetch(HttpCall(method="GET", url=self.url, named_by="user"))
        self.statuses.append(reply.status)
        return VerifiedToken(
            issuer=ISSUER, subject=token, client_id=None, audiences=(RESOURCE,), scopes=frozenset(), expires_at=None
        )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of what each opening of something to ask with was given."""
    noted: list[Any] = []

    def note(*, trusted_hosts: Any) -> Any:
        noted.append(trusted_hosts)
        return open_fetch(trusted_hosts=trusted_hosts)

    monkeypatch.setattr("trio_mcp.transports.http._fetch.open_fetch", note)
    return noted


async def test_a_verifier_asks_others_by_one_client_while_the_application_runs(vault: Vault, opened: list[Any]) -> None:
    async with served(vault.server) as bound:
        verifier = Asking(f"{bound.url}/nothing")
        app = http_app(vault.server, auth=protection(verifier, trusted_hosts=["login.internal"]))
        async with app.run():
            callers = [await Caller.post(call("look"), ANN).run(app) for _ in range(2)]
            assert opened == [("login.internal",)]
        stopped = await Caller.post(call("look"), ANN).run(app)

    assert [text_of(caller) for caller in callers] == ["ann ann [] None []"] * 2
    assert stopped.answer["error"]["message"] == "the server has stopped"
    assert verifier.statuses == [404] * 3


async def test_without_a_run_a_verifier_opens_a_client_for_each_request(vault: Vault, opened: list[Any]) -> None:
    async with served(vault.server) as bound:
        app = http_app(vault.server, auth=protection(Asking(f"{bound.url}/nothing")))
        callers = [await Caller.post(call("look"), ANN).run(app) for _ in range(2)]

    assert [text_of(caller) for caller in callers] == ["ann ann [] None []"] * 2
    assert opened == [(), ()]


async def test_an_application_that_is_given_something_to_ask_with_opens_nothing_of_its_own(
    vault: Vault, opened: list[Any]
) -> None:
    asked: list[str] = []

    async def fetch(call: HttpCall) -> HttpReply:
        asked.append(call.url)
        return HttpReply(status=200)

    app = http_app(vault.server, auth=protection(Asking("https://login.example/keys"), fetch=fetch))

    async with app.run():
        caller = await Caller.post(call("look"), ANN).run(app)

    assert caller.status == 200
    assert opened == []
    assert asked == ["https://login.example/keys"]
