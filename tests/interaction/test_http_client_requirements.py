"""Requirements for every client that connects over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import FullyDeclaringServer, make_server
from tests.interaction.over_http import URL, Seen, Witness, only_legacy, served_at_socket
from tests.interaction.scripted_peers import MODERN
from trio_mcp import (
    Client,
    ClientOptions,
    Context,
    ErrorResponse,
    HttpStatusError,
    MemoryEventStore,
    ResourceUpdated,
    Server,
    SessionSettings,
    http_app,
    open_http_client,
    types,
)
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiApp, AsgiMessage, Receive, Scope, Send
from trio_mcp.wire import decode_field, is_object

SESSIONS = types.REVISIONS[1:-1]
"""The revisions that have Streamable HTTP with sessions."""
NEWEST_LEGACY = types.REVISIONS[-2]
BOTH = {"application/json", "text/event-stream"}
KEPT = SessionSettings(event_store=MemoryEventStore())


@asynccontextmanager
async def witnessed(app: AsgiApp, **options: Unpack[ClientOptions]) -> AsyncGenerator[tuple[Witness, Client]]:
    witness = Witness(app)
    engine = AsgiEngine(witness)
    with trio.fail_after(1000):
        async with engine.lifespan(), open_http_client(URL, engine=engine, **options) as client:
            yield witness, client


def asking_server() -> Server:
    server = make_server(make=FullyDeclaringServer)

    @server.tool
    async def where(ctx: Context) -> str:
        return ", ".join(root.uri for root in await ctx.list_roots())

    @server.notification("notifications/acme/tick")
    async def tick() -> None: ...

    return server


ROOTS = [types.Root(uri="file:///srv")]


async def converse(client: Client) -> None:
    """Send every kind of message: requests with and without updates, notifications and responses."""

    async def on_progress(_: object) -> None:
        await trio.lowlevel.checkpoint()

    assert [tool.name async for tool in client.tools()]
    assert (await client.call_tool("add", {"a": 1, "b": 2})).content == [types.TextContent(text="3")]
    counted = await client.call_tool("count", {"steps": 3}, on_progress=on_progress)
    assert counted.content == [types.TextContent(text="counted")]
    assert (await client.call_tool("where")).content == [types.TextContent(text="file:///srv")]
    await client.notify("notifications/acme/tick")
    await client.read_resource("memo://today")
    async with client.listen(tools=True, resources=["memo://today"]) as changes:
        await client.call_tool("touch", {"uris": ["memo://today"]})
        assert await anext(changes) == ResourceUpdated("memo://today")
    with trio.move_on_after(1):
        await client.call_tool("hang", {"key": "k"})
    await client.call_tool("when_stopped", {"key": "k"})


def posts(witness: Witness) -> list[Seen]:
    return [seen for seen in witness.requests if seen.method == "POST"]


def methods(witness: Witness) -> list[str]:
    return [seen.message.get("method", "(answer)") for seen in posts(witness)]


def accepted(seen: Seen) -> set[str]:
    return set(seen.headers["accept"].replace(" ", "").split(","))


# Every request.


@pytest.mark.requirement("B.6-C1", "B.8-C1")
@pytest.mark.parametrize("revision", [*SESSIONS, MODERN])
async def test_each_message_is_its_own_post_that_accepts_json_and_events(revision: str, autojump_clock: object) -> None:
    async with witnessed(http_app(asking_server()), revision=revision, roots=ROOTS) as (witness, client):
        await converse(client)
    assert len(posts(witness)) > 8
    for seen in posts(witness):
        assert is_object(seen.message)
        assert seen.headers["content-type"] == "application/json"
        assert accepted(seen) >= BOTH


@pytest.mark.requirement("B.8-C1")
async def test_the_header_fields_mirror_a_modern_message(autojump_clock: object) -> None:
    async with witnessed(http_app(asking_server()), revision=MODERN, roots=ROOTS) as (witness, client):
        await converse(client)
    named = 0
    for seen in witness.requests:
        assert seen.method == "POST"
        params = seen.message["params"]
        assert seen.headers["mcp-protocol-version"] == MODERN
        assert seen.headers["mcp-method"] == seen.message["method"]
        name = params.get("uri") if seen.message["method"] == "resources/read" else params.get("name")
        field = seen.headers.get("mcp-name")
        assert (None if field is None else decode_field(field)) == name
        named += name is not None
    assert named >= 5


@pytest.mark.requirement("B.8-C2")
async def test_in_the_newest_revision_the_client_posts_only_requests_and_notifications(autojump_clock: object) -> None:
    async with witnessed(http_app(asking_server()), revision=MODERN, roots=ROOTS) as (witness, client):
        await converse(client)
    assert "(answer)" not in methods(witness)
    assert methods(witness).count("tools/call") >= 6  # one of them carries the requested roots


@pytest.mark.requirement("B.6-C2", "B.8-C3")
@pytest.mark.parametrize("revision", [*SESSIONS, MODERN])
async def test_the_client_reads_json_and_event_responses(revision: str, autojump_clock: object) -> None:
    async with witnessed(http_app(asking_server()), revision=revision, roots=ROOTS) as (witness, client):
        await converse(client)  # raises if a response cannot be read
    heads = [dict(message["headers"]) for message in witness.sent if message["type"] == "http.response.start"]
    assert {head.get(b"content-type", b"").decode() for head in heads} == {*BOTH, ""}


@pytest.mark.requirement("B.2-C6", "B.6-C3", "B.6-C7", "B.6-C10")
@pytest.mark.parametrize("revision", SESSIONS)
async def test_every_request_after_the_handshake_names_its_session_and_revision(
    revision: str, autojump_clock: object
) -> None:
    async with witnessed(http_app(asking_server()), revision=revision, roots=ROOTS) as (witness, client):
        await converse(client)
    hello, *later = witness.requests
    assert hello.message["method"] == "initialize"
    assert not {"mcp-session-id", "mcp-protocol-version"} & hello.headers.keys()
    heads = [dict(message["headers"]) for message in witness.sent if message["type"] == "http.response.start"]
    session = heads[0][b"mcp-session-id"].decode()
    assert {seen.method for seen in later} == {"POST", "GET", "DELETE"}
    assert {seen.headers["mcp-session-id"] for seen in later} == {session}
    assert {seen.headers["mcp-protocol-version"] for seen in later} == {revision}
    assert all("text/event-stream" in accepted(seen) for seen in later if seen.method == "GET")


@pytest.mark.requirement("B.6-C7")
async def test_session_ids_and_credentials_are_not_shown_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    witness = Witness(http_app(make_server()))
    engine = AsgiEngine(witness)
    async with engine.lifespan():
        headers = {"authorization": "Bearer s3cret"}
        async with open_http_client(URL, engine=engine, headers=headers, revision=NEWEST_LEGACY) as client:
            await client.list_tools()
            last = witness.requests[-1].headers
            session = last["mcp-session-id"]
            assert last["authorization"] == "Bearer s3cret"
            shown = repr(client)
    assert not any(secret in shown + caplog.text for secret in (session, "s3cret"))


@pytest.mark.requirement("B.7-C1")
async def test_over_http_and_sse_the_client_posts_to_the_endpoint_of_the_first_event(autojump_clock: object) -> None:
    app = http_app(asking_server())
    async with witnessed(only_legacy(app), revision=types.REVISIONS[0], roots=ROOTS) as (witness, client):
        await converse(client)
    endpoint = next(
        message["body"] for message in witness.sent if message.get("body", b"").startswith(b"event: endpoint")
    )
    address = endpoint.decode().splitlines()[1].removeprefix("data: ")
    refused, *others = posts(witness)
    assert (refused.target, refused.message["method"]) == ("/mcp", "initialize")
    assert {seen.target for seen in others} == {address}
    assert methods(witness)[1] == "initialize"
    assert "(answer)" in methods(witness)


# Negotiation.


@pytest.mark.requirement("B.4-H3")
@pytest.mark.parametrize("revision", [None, types.REVISIONS[0], NEWEST_LEGACY])
@pytest.mark.parametrize("status", [400, 404, 405])
async def test_the_client_tries_http_and_sse_if_initialize_is_refused(status: int, revision: str | None) -> None:
    async with witnessed(only_legacy(http_app(make_server()), status), revision=revision) as (witness, client):
        assert client.revision == (revision or NEWEST_LEGACY)
        await client.list_tools()
    began = [(seen.method, seen.message["method"] if seen.body else None) for seen in witness.requests]
    probe = [] if revision else [("POST", "server/discover")]
    assert began[: len(probe) + 3] == [*probe, ("POST", "initialize"), ("GET", None), ("POST", "initialize")]


@pytest.mark.requirement("B.4-H4")
async def test_the_client_negotiates_once_even_if_its_session_is_lost() -> None:
    def app() -> AsgiApp:
        return http_app(make_server(revisions=types.REVISIONS[:-1]))

    async with witnessed(app()) as (witness, client):
        for _ in range(3):  # the session is lost twice in each pass but the first
            assert client.revision == NEWEST_LEGACY
            await client.list_tools()
            async with restarted(witness, app()):
                await client.list_tools()
    assert methods(witness).count("server/discover") == 1
    assert methods(witness).count("initialize") == 6


@asynccontextmanager
async def restarted(witness: Witness, app: Any) -> AsyncGenerator[None]:
    """Replace the running server by another process of the same server."""
    before = witness.app
    async with app.run():
        witness.app = app
        try:
            yield
        finally:
            witness.app = before


# Sessions.


@pytest.mark.requirement("B.6-C8")
@pytest.mark.parametrize("revision", SESSIONS)
async def test_the_client_begins_a_new_session_after_a_404(revision: str) -> None:
    async with witnessed(http_app(make_server()), revision=revision) as (witness, client):
        await client.list_tools()
        begun = len(witness.requests)
        async with restarted(witness, http_app(make_server())):
            assert [tool.name async for tool in client.tools()]
            again = witness.requests[begun:]
    assert [seen.message["method"] for seen in again[:4]] == [
        "tools/list",
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]
    assert "mcp-session-id" not in again[1].headers
    assert again[3].headers["mcp-session-id"] != again[0].headers["mcp-session-id"]


@pytest.mark.requirement("B.2-P2b", "B.6-C9")
@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_closing_client_deletes_its_session_and_closes_every_stream(revision: str) -> None:
    async with witnessed(http_app(asking_server()), revision=revision, roots=ROOTS) as (witness, client):
        async with client.listen(tools=True):
            assert witness.open == 1  # the stream of changes
        await client.list_tools()
    *_, last = witness.requests
    assert (last.method, last.headers["mcp-session-id"]) == ("DELETE", witness.requests[1].headers["mcp-session-id"])
    assert witness.open == 0


@pytest.mark.requirement("B.2-P2b")
@pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
async def test_a_closing_client_closes_every_connection(revision: str) -> None:
    connections, closed = list[trio.SocketStream](), trio.Event()

    async def relay(port: int | None, client: trio.SocketStream) -> None:
        assert port is not None
        connections.append(client)
        async with await trio.open_tcp_stream("127.0.0.1", port) as server, trio.open_nursery() as nursery:
            nursery.start_soon(pump, server, client)
            await pump(client, server)
            nursery.cancel_scope.cancel()
        connections.remove(client)
        if not connections:
            closed.set()

    with trio.fail_after(60):
        async with served_at_socket(asking_server()) as bound, trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, partial(relay, bound.port), [listener])
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
            async with open_http_client(url, revision=revision, roots=ROOTS) as client:
                async with client.listen(tools=True):
                    await client.list_tools()
                assert connections
            await closed.wait()
            nursery.cancel_scope.cancel()


async def pump(source: trio.SocketStream, target: trio.SocketStream) -> None:
    try:
        async for chunk in source:
            await target.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


# Broken streams and streams that the server closes early.


def polling() -> Server:
    server = Server("polling")

    @server.tool
    async def slow(retry: float, ctx: Context) -> str:
        await ctx.notify("notifications/acme/before")
        await ctx.close_stream(retry=retry)
        await ctx.notify("notifications/acme/after")
        await trio.sleep(retry / 2)
        return "done"

    return server


@pytest.mark.requirement("B.6-C3", "B.6-C5a", "B.6-C5b", "B.6-C6")
async def test_the_client_resumes_a_stream_that_was_closed_early_after_the_requested_delay(
    autojump_clock: object,
) -> None:
    methods: list[str] = []

    async def record(method: str, _: object) -> None:
        await trio.lowlevel.checkpoint()
        methods.append(method)

    handlers = {name: partial(record, name) for name in ("notifications/acme/before", "notifications/acme/after")}
    app = http_app(polling(), sessions=KEPT)
    async with witnessed(app, revision=NEWEST_LEGACY, notifications=handlers) as (witness, client):
        began = trio.current_time()
        called = await client.call_tool("slow", {"retry": 7})
        assert called.content == [types.TextContent(text="done")]
        assert trio.current_time() - began == pytest.approx(7)
    (resumed,) = [seen for seen in witness.requests if "last-event-id" in seen.headers]
    assert resumed.method == "GET"
    assert accepted(resumed) >= {"text/event-stream"}
    assert methods == [*handlers]


def cut_in_mid_stream(app: AsgiApp, after: int) -> AsgiApp:
    """Return *app* with a connection that breaks after *after* pieces of the stream of the first tool call."""
    cut = False

    async def cutting_app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal cut
        pieces, is_call = 0, False

        async def watching_receive() -> AsgiMessage:
            nonlocal is_call
            message = await receive()
            is_call = is_call or b"tools/call" in message.get("body", b"")
            return message

        async def cutting_send(message: AsgiMessage) -> None:
            nonlocal pieces, cut
            await send(message)
            pieces += 1
            if is_call and not cut and pieces > after:
                cut = True
                raise OSError("the network is gone")

        await app(scope, watching_receive, cutting_send)

    return cutting_app


@pytest.mark.requirement("B.6-C6")
@pytest.mark.parametrize("revision", SESSIONS)
async def test_the_client_resumes_a_broken_stream_with_the_id_of_its_last_event(
    revision: str, autojump_clock: object
) -> None:
    updates: list[float] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update.progress)

    server = Server("slow")

    @server.tool
    async def count(steps: int, ctx: Context) -> str:
        for step in range(steps):
            await ctx.report_progress(step)
            await trio.sleep(1)
        return "counted"

    app = cut_in_mid_stream(http_app(server, sessions=KEPT), after=5)
    async with witnessed(app, revision=revision) as (witness, client):
        called = await client.call_tool("count", {"steps": 20}, on_progress=on_progress)
        assert called.content == [types.TextContent(text="counted")]
    assert updates == list(range(20))
    (resumed,) = [seen for seen in witness.requests if "last-event-id" in seen.headers]
    assert resumed.method == "GET"
    assert methods(witness).count("tools/call") == 1


# Cancellation.


@pytest.mark.requirement("B.6-C5c")
@pytest.mark.parametrize("revision", types.REVISIONS[:-1])
async def test_a_notification_cancels_a_request_of_a_session(revision: str) -> None:
    async with witnessed(http_app(make_server()), revision=revision) as (witness, client):
        async with client.open_call("hang", {"key": "k"}) as call:
            await anext(call.updates)
        await client.call_tool("when_stopped", {"key": "k"})
    hang = next(seen.message for seen in posts(witness) if seen.message.get("params", {}).get("name") == "hang")
    (cancelled,) = [seen.message for seen in posts(witness) if seen.message["method"] == "notifications/cancelled"]
    assert cancelled["params"]["requestId"] == hang["id"]


@pytest.mark.requirement("B.8-C5", "B.12-P5b")
async def test_closing_the_response_cancels_a_modern_request() -> None:
    async with witnessed(http_app(make_server()), revision=MODERN) as (witness, client):
        async with client.open_call("hang", {"key": "k"}) as call:
            await anext(call.updates)
            assert witness.open == 1
        await client.call_tool("when_stopped", {"key": "k"})
        await trio.testing.wait_all_tasks_blocked()
        assert witness.open == 0
    assert "notifications/cancelled" not in methods(witness)


# Bodies that are too large.


@pytest.mark.requirement("B.8-C6")
async def test_a_body_that_is_too_large_raises_a_clear_error() -> None:
    async with witnessed(http_app(make_server(), max_body_bytes=10_000), revision=MODERN) as (_, client):
        with pytest.raises((HttpStatusError, ErrorResponse), match="10000 bytes") as caught:
            await client.call_tool("shout", {"text": "x" * 20_000})
        assert "413" in str(caught.value) or isinstance(caught.value, ErrorResponse)
        assert (await client.call_tool("shout", {"text": "x"})).content == [types.TextContent(text="X")]


@pytest.mark.requirement("B.8-C6")
@pytest.mark.parametrize("status", [413, 431])
async def test_a_body_size_that_a_proxy_refuses_raises_a_clear_error(status: int) -> None:
    app = http_app(make_server())

    async def proxied(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (b"mcp-name", b"shout") in scope["headers"]:
            head: AsgiMessage = {"type": "http.response.start", "headers": [(b"content-type", b"text/plain")]}
            await send({**head, "status": status})
            await send({"type": "http.response.body", "body": b"too large for me"})
        else:
            await app(scope, receive, send)

    async with witnessed(proxied, revision=MODERN) as (_, client):
        with pytest.raises(HttpStatusError, match=f"^HTTP status {status}: too large for me$") as caught:
            await client.call_tool("shout", {"text": "x"})
        assert caught.value.status == status
        assert (await client.list_tools()).tools
