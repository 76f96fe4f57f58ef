"""Requirements for every server that serves HTTP in the newest revision."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from tests.interaction.over_http import URL, Witness, bridged, served_at_socket
from tests.interaction.raw_http_client import EVENTS, JSON, RawHttpClient, RawResponse
from tests.interaction.scripted_peers import ENVELOPE, META, MODERN, Json
from trio_mcp import Context, Server, http_app, serve_http
from trio_mcp.testing import AsgiEngine
from trio_mcp.wire import JsonObject

Region = Annotated[str | None, msgspec.Meta(extra_json_schema={"type": "string", "x-mcp-header": "Region"})]


def make_modern() -> Server:
    """Return a conversation server of the newest revision only."""
    return make_server(revisions=[MODERN])


@asynccontextmanager
async def raw_client(server: Server) -> AsyncGenerator[RawHttpClient]:
    async with bridged("http", server) as engine:
        yield RawHttpClient(engine)


# The endpoint.


@pytest.mark.requirement("B.8-S1")
async def test_one_path_accepts_posts() -> None:
    async with raw_client(make_modern()) as client:
        assert (await client.post(client.request("tools/list"))).status == 200
        client.url = URL + "/other"
        assert (await client.post(client.request("tools/list"))).status == 404


@pytest.mark.requirement("B.4-S4", "B.8-S9")
async def test_without_legacy_revisions_the_server_has_no_streams_and_no_sessions() -> None:
    session_fields = {"mcp-session-id": "mine", "last-event-id": "1-1"}
    async with raw_client(make_modern()) as client:
        for method in ("GET", "DELETE"):
            for headers in ({}, session_fields):
                refused = await client.send(method, headers=headers)
                assert (refused.status, refused.headers["allow"], refused.body) == (405, "POST", b"")
        listed = await client.post(client.request("tools/list"), session_fields)
        assert listed.status == 200
        assert "mcp-session-id" not in listed.headers


@pytest.mark.requirement("B.8-S9")
async def test_a_modern_request_gets_no_stream_and_no_session_from_a_server_of_both_eras() -> None:
    async with raw_client(make_server()) as client:
        for method in ("GET", "DELETE"):
            refused = await client.send(method, headers={"mcp-protocol-version": MODERN, "mcp-session-id": "mine"})
            assert refused.status == 405


FOREIGN = ("https://evil.example", "http://localhost.evil.example", "https://127.0.0.1.nip.example:80", "null", "")
OURS = ("http://localhost", "http://localhost:3000", "http://127.0.0.1:8000", "https://localhost", None)


@pytest.mark.requirement("B.6-S2a", "B.6-S2b", "B.7-S3a", "B.8-S2a")
@pytest.mark.parametrize("origin", FOREIGN)
async def test_every_request_from_a_foreign_origin_is_refused(origin: str) -> None:
    foreign = {"origin": origin}
    async with raw_client(make_server()) as client:
        legacy = RawHttpClient(client._engine, "2025-11-25")
        await legacy.greet()
        async with legacy.open("GET", headers={"mcp-session-id": None, "mcp-protocol-version": None}) as stream:
            endpoint = await stream.event()
            assert endpoint is not None
            sse_client = RawHttpClient(client._engine, "2024-11-05", url=f"http://localhost{endpoint.data.decode()}")
            refused = [
                await client.post(client.request("tools/list"), foreign),
                await legacy.post(legacy.request("tools/list"), foreign),
                await legacy.send("GET", headers=foreign),
                await legacy.send("DELETE", headers=foreign),
                await legacy.send("GET", headers={"mcp-session-id": None, "mcp-protocol-version": None, **foreign}),
                await sse_client.post(sse_client.request("ping"), foreign),
            ]
        assert [got.status for got in refused] == [403] * 6
        assert (await legacy.post(legacy.request("tools/list"))).status == 200  # the session still exists


@pytest.mark.parametrize("origin", OURS)
async def test_requests_from_local_origins_or_without_an_origin_are_accepted(origin: str | None) -> None:
    async with raw_client(make_server()) as client:
        assert (await client.post(client.request("tools/list"), {"origin": origin})).status == 200


@pytest.mark.requirement("B.6-S2a", "B.7-S3a", "B.8-S2a")
async def test_a_request_with_a_rebound_host_name_is_refused() -> None:
    async with raw_client(make_server()) as client:
        client.url = "http://rebound.example/mcp"
        assert (await client.post(client.request("tools/list"))).status == 403
        assert (await client.send("GET")).status == 403


@pytest.mark.requirement("B.6-S2c", "B.7-S3b", "B.8-S2b")
async def test_a_server_listens_only_on_the_loopback_address_by_default() -> None:
    async with served_at_socket(make_server()) as bound:
        assert [urlsplit(url).hostname for url in bound.urls] == ["127.0.0.1"]
        if sys.platform == "linux":  # every address of 127.0.0.0/8 is local there
            assert bound.port is not None
            with pytest.raises(OSError, match=r"127\.0\.0\.2"):
                await trio.open_tcp_stream("127.0.0.2", bound.port)
    with pytest.raises(ValueError, match="allowed_hosts"):
        await serve_http(make_server(), host="0.0.0.0", port=0)


# Headers and bodies.


@pytest.mark.requirement("B.8-S3")
async def test_a_notification_gets_202_without_a_body_or_an_error() -> None:
    async with raw_client(make_modern()) as client:
        taken = await client.post(client.notification("notifications/acme/tick"))
        assert (taken.status, taken.body) == (202, b"")
        faults: list[Json] = [{"params": {}}, {"jsonrpc": "1.0"}]
        for broken in faults:
            refused = await client.post(client.notification("notifications/acme/tick") | broken)
            assert 400 <= refused.status < 500


@pytest.mark.requirement("B.1-S2b", "B.8-S8")
@pytest.mark.parametrize("method", ["acme/unknown", "ping", "initialize", "completion/complete", "tasks/get"])
async def test_an_unknown_method_is_404_and_32601(method: str) -> None:
    async with raw_client(make_modern()) as client:
        refused = await client.post(client.request(method, {"taskId": "1"}, id="mine"))
        assert (refused.status, refused.kind, refused.code, refused.answer["id"]) == (404, JSON, -32601, "mine")


@pytest.mark.requirement("B.3-S1b", "B.8-S8")
@pytest.mark.parametrize("missing", ENVELOPE)
async def test_an_incomplete_envelope_is_400_and_32602(missing: str) -> None:
    async with raw_client(make_modern()) as client:
        request = client.request("tools/list")
        fields = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
        del request["params"]["_meta"][missing]
        refused = await client.post(request, fields)
        assert (refused.status, refused.code, refused.answer["id"]) == (400, -32602, 1)


@pytest.mark.requirement("B.3-S4b", "B.8-S8")
@pytest.mark.parametrize("revision", ["2025-11-25", "2099-01-01", "latest"])
async def test_an_unsupported_revision_is_400_and_32022(revision: str) -> None:
    async with raw_client(make_modern()) as client:
        refused = await client.post(client.request("tools/list", meta={META + "protocolVersion": revision}))
        assert (refused.status, refused.code) == (400, -32022)
        assert refused.answer["error"]["data"] == {"supported": [MODERN], "requested": revision}


@pytest.mark.requirement("B.8-S8")
async def test_a_missing_capability_is_400_and_32021() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return ", ".join(root.uri for root in await ctx.list_roots())

    async with raw_client(server) as client:
        refused = await client.post(client.call("ask"))
        assert (refused.status, refused.code) == (400, -32021)
        assert refused.answer["error"]["data"] == {"requiredCapabilities": {"roots": {}}}


CALL: Mapping[str, Json] = {
    "tools/call": {"name": "add", "arguments": {"a": 1, "b": 2}},
    "resources/read": {"uri": "memo://today"},
    "prompts/get": {"name": "review", "arguments": {"code": "x"}},
}


@pytest.mark.requirement("B.8-S7a")
@pytest.mark.parametrize("field", ["mcp-protocol-version", "mcp-method", "mcp-name"])
@pytest.mark.parametrize("value", [None, "", "other", "=?base64?%%%?=", "=?base64?/w==?="])
@pytest.mark.parametrize("method", CALL)
async def test_a_header_that_contradicts_the_body_is_400_and_32020(method: str, field: str, value: str | None) -> None:
    async with raw_client(make_server()) as client:
        good = client.request(method, CALL[method], id=7)
        assert (await client.post(good)).status == 200
        refused = await client.post(good, {field: value})
        assert (refused.status, refused.code, refused.answer["id"]) == (400, -32020, 7)


async def test_a_name_that_a_header_cannot_hold_is_encoded() -> None:
    server = Server("s")
    server.tool(name="grüß\ndich")(lambda: None)
    async with raw_client(server) as client:
        assert (await client.post(client.call("grüß\ndich"))).status == 200


# Arguments in headers.


def routing() -> Server:
    server = Server("s")

    @server.tool
    async def route(region: Region = None, speed: int = 1) -> str:
        return f"{region} {speed}"

    return server


@pytest.mark.requirement("B.8-S11a")
@pytest.mark.parametrize("value", [None, "", "us", "EU", "=?base64?%%%?=", "eu, eu"])
async def test_a_header_that_does_not_mirror_its_argument_is_refused(value: str | None) -> None:
    async with raw_client(routing()) as client:
        refused = await client.post(client.call("route", {"region": "eu"}), {"mcp-param-region": value})
        assert (refused.status, refused.code) == (400, -32020)
        for same in ("eu", "=?base64?ZXU=?="):
            taken = await client.post(client.call("route", {"region": "eu"}), {"mcp-param-region": same})
            assert taken.answer["result"]["content"][0]["text"] == "eu 1"


@pytest.mark.requirement("B.8-S11b")
@pytest.mark.parametrize("arguments", [{}, {"region": None}, {"speed": 2}])
async def test_an_absent_argument_needs_no_header(arguments: Json) -> None:
    async with raw_client(routing()) as client:
        assert (await client.post(client.call("route", arguments))).status == 200


@pytest.mark.requirement("B.8-S10a")
@pytest.mark.parametrize(
    ("properties", "fault"),
    [
        ({"a": {"type": "string", "x-mcp-header": ""}}, "is not an HTTP token"),
        ({"a": {"type": "string", "x-mcp-header": "with space"}}, "is not an HTTP token"),
        ({"a": {"type": "string", "x-mcp-header": 7}}, "expected string"),
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "only a property of type string, integer or boolean"),
        ({name: {"type": "string", "x-mcp-header": name} for name in ("Same", "same")}, "'same' is used twice"),
        ({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}, "reached by 'properties' alone"),
    ],
)
def test_a_tool_with_invalid_header_annotations_is_not_registered(properties: JsonObject, fault: str) -> None:
    server = Server("s")

    with pytest.raises(ValueError, match=f"tool 'route': inputSchema: .*{fault}"):

        @server.tool(input_schema={"type": "object", "properties": properties})
        async def route(**arguments: Any) -> None: ...

    assert server.tools.input_schema("route", None) is None


# Responses.


@pytest.mark.requirement("B.8-S4a")
async def test_a_request_is_answered_with_json_or_events() -> None:
    async with raw_client(make_modern()) as client:
        plain = await client.post(client.call("add", {"a": 1, "b": 2}))
        assert (plain.status, plain.kind) == (200, JSON)
        assert plain.answer["result"]["structuredContent"] == {"result": 3}
        streamed = await client.post(client.call("count", {"steps": 2}, meta={"progressToken": "t"}))
        assert (streamed.status, streamed.kind) == (200, EVENTS)
        assert [message.get("method", "answer") for message in streamed.messages] == [
            *["notifications/progress"] * 2,
            "answer",
        ]
        assert {event.event for event in streamed.events} == {"message"}
        assert streamed.answer["id"] == 1


@pytest.mark.requirement("B.8-S4c")
async def test_a_stream_ends_after_the_response() -> None:
    async with (
        raw_client(make_modern()) as client,
        client.open("POST", client.call("count", {"steps": 2}, meta={"progressToken": "t"})) as got,
    ):
        while "id" not in (message := await got.message()):
            assert message["method"] == "notifications/progress"
        assert await got.event() is None


@pytest.mark.requirement("B.8-S4b")
@pytest.mark.parametrize("asking", ["parked", "replayed"])
async def test_a_stream_contains_no_requests_even_if_the_handler_asks(asking: Any) -> None:
    server = Server("s", asking=asking)

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.log("error", "before")
        return ", ".join(root.uri for root in await ctx.list_roots())

    capable: Json = {
        META + "clientCapabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
        META + "logLevel": "debug",
    }
    async with raw_client(server) as client:
        got = await client.post(client.call("ask", meta=capable))
    assert got.kind == EVENTS
    assert [message["method"] for message in got.messages if "method" in message] == ["notifications/message"]
    assert got.answer["result"]["resultType"] == "input_required"


@pytest.mark.requirement("B.8-S6")
async def test_a_response_header_tells_proxies_not_to_buffer_events() -> None:
    async with raw_client(make_modern()) as client:
        streamed = await client.post(client.call("count", {"steps": 1}, meta={"progressToken": "t"}))
        async with client.open("POST", client.request("subscriptions/listen", {"notifications": {}})) as listening:
            assert [streamed.headers["x-accel-buffering"], listening.headers["x-accel-buffering"]] == ["no", "no"]


@pytest.mark.requirement("B.18-S4c")
async def test_log_messages_travel_in_the_stream_of_their_own_request() -> None:
    server, both = Server("s"), trio.Event()
    began: list[str] = []

    @server.tool
    async def say(word: str, ctx: Context) -> None:
        began.append(word)
        if len(began) == 3:
            both.set()
        await both.wait()
        await ctx.log("info", word)

    got: dict[str, RawResponse] = {}

    async def call(word: str, meta: Json | None = None) -> None:
        got[word] = await client.post(client.call("say", {"word": word}, meta=meta))

    async with raw_client(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(call, "one", {META + "logLevel": "info"})
        nursery.start_soon(call, "two", {META + "logLevel": "info"})
        nursery.start_soon(call, "three")

    messages = {word: [message["params"]["data"] for message in each.messages[:-1]] for word, each in got.items()}
    assert messages == {"one": ["one"], "two": ["two"], "three": []}
    assert got["three"].kind == JSON


# Cancellation.


@pytest.mark.requirement("B.8-S5a", "B.8-S5b", "B.12-P5b")
@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_that_closes_the_response_cancels_the_request_and_receives_nothing_more(streams: bool) -> None:
    server, began, stopped = Server("s"), trio.Event(), trio.Event()

    @server.tool
    async def hang(ctx: Context) -> str:
        if streams:
            await ctx.report_progress(1)
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for number in range(2, 5):
                    await ctx.report_progress(number)
                    await ctx.log("error", "still there")
            stopped.set()
        return "never"

    witness = Witness(http_app(server))
    engine = AsgiEngine(witness)
    async with engine.lifespan(), trio.open_nursery() as nursery:
        client = RawHttpClient(engine)
        leaving = trio.CancelScope()

        async def call() -> None:
            with leaving:
                await client.post(client.call("hang", meta={"progressToken": "t", META + "logLevel": "debug"}))

        nursery.start_soon(call)
        await began.wait()
        await trio.testing.wait_all_tasks_blocked()
        sent = len(witness.sent)
        leaving.cancel()
        await stopped.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert sent == (2 if streams else 0)
        assert len(witness.sent) == sent
