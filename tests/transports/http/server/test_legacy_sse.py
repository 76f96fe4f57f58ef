"""HTTP+SSE of revision 2024-11-05 at the server: one event stream, and the endpoint for POSTs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.asgi_caller import AsgiCaller, scope_of
from tests.transports.http.server.raw_session_client import (
    RawSessionClient,
    ToolServer,
    call,
    events_of,
    initialize,
    message,
    open_session_client,
    session_statistics,
)
from trio_mcp import Limits, SessionSettings, http_app
from trio_mcp.wire import PARSE_ERROR, decode

OLDEST = "2024-11-05"


@pytest.fixture
def tool_server() -> ToolServer:
    return ToolServer()


class RawSseClient:
    """A raw client of HTTP+SSE: one stream, and POSTs."""

    def __init__(self, client: RawSessionClient, path: str = "/mcp") -> None:
        self.client = client
        self.stream = AsgiCaller(scope_of("GET", path))
        self.path, self.query = "", ""

    async def open(self) -> RawSseClient:
        """Open the stream."""
        self.client.nursery.start_soon(self.stream.run, self.client.app)
        await wait_all_tasks_blocked()
        first = events_of(self.stream)[0]
        assert first.event == "endpoint"
        address = urlsplit(urljoin("http://localhost" + self.stream.scope["path"], first.data.decode()))
        self.path, self.query = address.path, address.query
        return self

    async def begin(self, **capabilities: Any) -> RawSseClient:
        """Open the stream and perform the handshake."""
        await self.open()
        await self.post(initialize(OLDEST, **capabilities))
        await self.post(message("notifications/initialized"))
        return self

    async def post(self, body: Any, **scope: Any) -> AsgiCaller:
        """POST a body to the endpoint that the stream has named."""
        target = {"path": self.path, "query_string": self.query.encode(), **scope}
        return await AsgiCaller.post(body, {"accept": ""}, **target).run(self.client.app)

    @property
    def messages(self) -> list[Any]:
        """The messages of the stream so far."""
        return [decode(event.data) for event in events_of(self.stream) if event.event == "message"]

    async def wait_for(self, count: int) -> None:
        """Wait until at least *count* messages have been received."""
        while len(self.messages) < count:
            await wait_all_tasks_blocked()


@pytest.mark.requirement("B.7-S1", "B.7-S2")
async def test_requests_are_answered_on_the_stream(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).open()
        posted = await sse.post(initialize(OLDEST))
        await sse.post(message("notifications/initialized"))
        await sse.post(call("add", a=1, b=2))
        await sse.wait_for(2)

        assert (posted.status, posted.body) == (202, b"")
        assert sse.messages[0]["result"]["protocolVersion"] == OLDEST
        assert sse.messages[1]["result"]["content"][0]["text"] == "3"
        assert b"event: message\n" in sse.stream.body
        sse.stream.disconnect()


async def test_messages_inside_and_outside_of_requests_are_sent_on_the_same_stream(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin(elicitation={})
        tool_server.go.set()
        await sse.post(call("log_twice", words=["a"]))

        async def another() -> None: ...

        tool_server.server.tool(another)
        await sse.wait_for(5)
        await sse.post(call("add", 9, a=1, b=2))
        await sse.wait_for(6)

        assert [each["params"]["data"] for each in sse.messages if "data" in each.get("params", {})] == ["a", "a again"]
        assert "notifications/tools/list_changed" in [each.get("method") for each in sse.messages]
        sse.stream.disconnect()


async def test_a_question_is_answered_by_a_post(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).open()
        await sse.post(initialize("2025-06-18", elicitation={}))  # clients of this transport go up to 2025-11-25
        await sse.post(message("notifications/initialized"))
        await sse.post(call("elicit_seats"))
        await sse.wait_for(2)
        reply = {"jsonrpc": "2.0", "id": sse.messages[1]["id"], "result": {"action": "accept", "content": {"count": 3}}}
        await sse.post(reply)
        await sse.wait_for(3)

        assert "count=3" in sse.messages[2]["result"]["content"][0]["text"]
        sse.stream.disconnect()


async def test_a_client_that_disconnects_ends_its_session_and_its_handlers(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin()
        await sse.post(call("wait"))
        await wait_all_tasks_blocked()
        sse.stream.disconnect()
        await sse.stream.returned.wait()
        await wait_all_tasks_blocked()
        late = await sse.post(message("ping", id=3))

        assert tool_server.log == ["cancelled"]
        assert late.status == 400
        assert session_statistics(client).sessions == 0


async def test_handlers_see_the_header_fields_of_their_own_post(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin()
        caller = AsgiCaller.post(
            call("show_context"), {"x-color": "blue"}, path=sse.path, query_string=sse.query.encode()
        )
        await caller.run(client.app)
        await sse.post(call("show_context", 3))
        await sse.wait_for(3)

        texts = {each["id"]: each["result"]["content"][0]["text"] for each in sse.messages[1:]}
        assert "x-color" in texts[2]
        assert "x-color" not in texts[3]
        sse.stream.disconnect()


async def test_a_malformed_message_is_refused_and_the_stream_continues(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin()
        broken = await sse.post(b"{")
        await sse.post(message("ping", id=2))
        await sse.wait_for(2)

        assert (broken.status, broken.code) == (400, PARSE_ERROR)
        assert sse.messages[1] == {"jsonrpc": "2.0", "id": 2, "result": {}}
        sse.stream.disconnect()


async def test_a_stream_without_a_handshake_ends_within_seconds(
    tool_server: ToolServer, autojump_clock: MockClock
) -> None:
    async with open_session_client(tool_server) as client:
        open_only = await RawSseClient(client).open()
        begun = await RawSseClient(client).begin()
        await trio.sleep(31)
        assert open_only.stream.complete

        await trio.sleep(10_000)
        assert not begun.stream.complete
        assert begun.stream.comments > 600
        begun.stream.disconnect()


async def test_a_client_that_does_not_read_loses_its_stream(autojump_clock: MockClock) -> None:
    tool_server = ToolServer(limits=Limits(outbox_bytes=200, outbox_urgent_bytes=500))
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin()
        sse.stream.stop_reading()
        for id in range(2, 40):
            await sse.post(message("ping", id=id))
        await wait_all_tasks_blocked()

        assert session_statistics(client).sessions == 0
        sse.stream.resume_reading()
        await sse.stream.returned.wait()


async def test_a_handler_waits_when_the_outbox_of_the_stream_is_full(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin()
        sse.stream.stop_reading()
        await sse.post(call("flood", count=100))
        await wait_all_tasks_blocked()
        assert len(tool_server.log) < 100
        assert session_statistics(client).outbox_bytes >= 1000

        sse.stream.resume_reading()
        await sse.wait_for(102)
        sse.stream.disconnect()


async def test_when_the_server_stops_answers_are_sent_and_the_stream_ends(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        sse = await RawSseClient(client).begin()
        await sse.post(call("wait"))
        await wait_all_tasks_blocked()
        client.app.stop()
        client.nursery.start_soon(client.app.drained)
        await wait_all_tasks_blocked()
        tool_server.go.set()
        await sse.stream.returned.wait()

    assert sse.messages[-1]["result"]["content"][0]["text"] == "done"
    assert sse.stream.complete


async def test_http_sse_may_have_its_own_path(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server, sse_path="/sse") as client:
        sse = await RawSseClient(client, "/sse").begin()
        at_the_endpoint = await RawSseClient(client).begin()

        assert sse.path == "/sse"
        assert at_the_endpoint.path == "/mcp"
        assert len(sse.messages) == len(at_the_endpoint.messages) == 1
        for each in (sse, at_the_endpoint):
            each.stream.disconnect()


@pytest.mark.parametrize("path", ["/a b/mcp", "/mcp"])
async def test_the_endpoint_contains_the_path_under_which_the_application_is_mounted(
    tool_server: ToolServer, path: str
) -> None:
    async with open_session_client(tool_server) as client:
        sse = RawSseClient(client)
        sse.stream = AsgiCaller(scope_of("GET", path, root_path="/a b"))
        await sse.open()

        assert sse.path == "/a%20b/mcp"
        sse.stream.disconnect()


async def test_the_endpoint_never_names_another_host(tool_server: ToolServer) -> None:
    app = http_app(tool_server.server, path=None)
    async with trio.open_nursery() as nursery, app.run():
        sse = RawSseClient(RawSessionClient(app, nursery), "//evil.example/mcp")
        nursery.start_soon(sse.stream.run, app)
        await wait_all_tasks_blocked()

        assert urljoin("http://localhost//evil.example/mcp", events_of(sse.stream)[0].data.decode()).startswith(
            "http://localhost/evil.example/mcp?"
        )
        sse.stream.disconnect()


@pytest.mark.parametrize("settings", [SessionSettings(sse=False), None], ids=["off", "unsupported"])
async def test_a_get_without_a_session_is_refused_if_http_sse_is_not_served(settings: SessionSettings | None) -> None:
    tool_server = ToolServer() if settings else ToolServer(options={"revisions": ["2025-06-18", "2026-07-28"]})
    app = http_app(tool_server.server, sessions=settings)
    async with app.run():
        refused = await AsgiCaller(scope_of("GET")).run(app)

    assert refused.status == 400
    assert "initialize" in refused.answer["error"]["message"]


async def test_a_get_of_a_later_revision_without_a_session_is_refused(tool_server: ToolServer) -> None:
    async with open_session_client(tool_server) as client:
        refused = await client.request("GET", mcp_protocol_version="2025-06-18")

    assert refused.status == 400
