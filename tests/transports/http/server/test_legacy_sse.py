"""HTTP+SSE of 2024-11-05: one event stream for everything, and where to post."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.transports.http.asgi_caller import Caller, scope_of
from tests.transports.http.server.scripted_client import (
    ByHand,
    Theatre,
    call,
    events_of,
    initialize,
    message,
    open_theatre,
    sessions_of,
)
from trio_mcp import Limits, SessionSettings, http_app
from trio_mcp.wire import PARSE_ERROR, decode

OLDEST = "2024-11-05"


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


class SseByHand:
    """A client of HTTP+SSE: one stream, and posts."""

    def __init__(self, client: ByHand, path: str = "/mcp") -> None:
        self.client = client
        self.stream = Caller(scope_of("GET", path))
        self.path, self.query = "", ""

    async def open(self) -> SseByHand:
        """Open the stream."""
        self.client.nursery.start_soon(self.stream.run, self.client.app)
        await wait_all_tasks_blocked()
        first = events_of(self.stream)[0]
        assert first.event == "endpoint"
        address = urlsplit(urljoin("http://localhost" + self.stream.scope["path"], first.data.decode()))
        self.path, self.query = address.path, address.query
        return self

    async def begin(self, **capabilities: Any) -> SseByHand:
        """Open the stream and make the handshake."""
        await self.open()
        await self.post(initialize(OLDEST, **capabilities))
        await self.post(message("notifications/initialized"))
        return self

    async def post(self, said: Any, **scope: Any) -> Caller:
        """Post something to where the stream said."""
        where = {"path": self.path, "query_string": self.query.encode(), **scope}
        return await Caller.post(said, {"accept": ""}, **where).run(self.client.app)

    @property
    def messages(self) -> list[Any]:
        """What has come by the stream."""
        return [decode(event.data) for event in events_of(self.stream) if event.event == "message"]

    async def has(self, count: int) -> None:
        """Wait until so many messages have come."""
        while len(self.messages) < count:
            await wait_all_tasks_blocked()


@pytest.mark.requirement("B.7-S1", "B.7-S2")
async def test_everything_is_answered_on_the_stream(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).open()
        posted = await sse.post(initialize(OLDEST))
        await sse.post(message("notifications/initialized"))
        await sse.post(call("add", a=1, b=2))
        await sse.has(2)

        assert (posted.status, posted.body) == (202, b"")
        assert sse.messages[0]["result"]["protocolVersion"] == OLDEST
        assert sse.messages[1]["result"]["content"][0]["text"] == "3"
        assert b"event: message\n" in sse.stream.body
        sse.stream.leave()


async def test_what_belongs_to_requests_and_what_does_not_goes_the_same_way(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin(elicitation={})
        theatre.go.set()
        await sse.post(call("say", words=["a"]))

        async def another() -> None: ...

        theatre.server.tool(another)
        await sse.has(5)
        await sse.post(call("add", 9, a=1, b=2))
        await sse.has(6)

        assert [each["params"]["data"] for each in sse.messages if "data" in each.get("params", {})] == ["a", "a again"]
        assert "notifications/tools/list_changed" in [each.get("method") for each in sse.messages]
        sse.stream.leave()


async def test_a_question_is_answered_by_a_post(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).open()
        await sse.post(initialize("2025-06-18", elicitation={}))  # clients of this transport go up to 2025-11-25
        await sse.post(message("notifications/initialized"))
        await sse.post(call("book"))
        await sse.has(2)
        reply = {"jsonrpc": "2.0", "id": sse.messages[1]["id"], "result": {"action": "accept", "content": {"count": 3}}}
        await sse.post(reply)
        await sse.has(3)

        assert "count=3" in sse.messages[2]["result"]["content"][0]["text"]
        sse.stream.leave()


async def test_a_client_that_leaves_ends_everything(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin()
        await sse.post(call("wait"))
        await wait_all_tasks_blocked()
        sse.stream.leave()
        await sse.stream.returned.wait()
        await wait_all_tasks_blocked()
        late = await sse.post(message("ping", id=3))

        assert theatre.log == ["cancelled"]
        assert late.status == 400
        assert sessions_of(client).sessions == 0


async def test_handlers_see_the_head_of_their_own_post(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin()
        caller = Caller.post(call("seen"), {"x-color": "blue"}, path=sse.path, query_string=sse.query.encode())
        await caller.run(client.app)
        await sse.post(call("seen", 3))
        await sse.has(3)

        texts = {each["id"]: each["result"]["content"][0]["text"] for each in sse.messages[1:]}
        assert "x-color" in texts[2]
        assert "x-color" not in texts[3]
        sse.stream.leave()


async def test_what_is_no_message_is_refused_and_the_stream_goes_on(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin()
        broken = await sse.post(b"{")
        await sse.post(message("ping", id=2))
        await sse.has(2)

        assert (broken.status, broken.code) == (400, PARSE_ERROR)
        assert sse.messages[1] == {"jsonrpc": "2.0", "id": 2, "result": {}}
        sse.stream.leave()


async def test_a_stream_without_a_handshake_ends_within_seconds(theatre: Theatre, autojump_clock: MockClock) -> None:
    async with open_theatre(theatre) as client:
        open_only = await SseByHand(client).open()
        begun = await SseByHand(client).begin()
        await trio.sleep(31)
        assert open_only.stream.complete

        await trio.sleep(10_000)
        assert not begun.stream.complete
        assert begun.stream.comments > 600
        begun.stream.leave()


async def test_a_client_that_does_not_read_loses_its_stream(autojump_clock: MockClock) -> None:
    theatre = Theatre(limits=Limits(outbox_bytes=200, outbox_urgent_bytes=500))
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin()
        sse.stream.stop_reading()
        for id in range(2, 40):
            await sse.post(message("ping", id=id))
        await wait_all_tasks_blocked()

        assert sessions_of(client).sessions == 0
        sse.stream.read_on()
        await sse.stream.returned.wait()


async def test_a_stream_has_no_room_for_more_than_its_bound(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin()
        sse.stream.stop_reading()
        await sse.post(call("flood", count=100))
        await wait_all_tasks_blocked()
        assert len(theatre.log) < 100
        assert sessions_of(client).outbox_bytes >= 1000

        sse.stream.read_on()
        await sse.has(102)
        sse.stream.leave()


async def test_when_the_server_stops_the_answers_arrive_and_the_stream_ends(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        sse = await SseByHand(client).begin()
        await sse.post(call("wait"))
        await wait_all_tasks_blocked()
        client.app.stop()
        client.nursery.start_soon(client.app.drained)
        await wait_all_tasks_blocked()
        theatre.go.set()
        await sse.stream.returned.wait()

    assert sse.messages[-1]["result"]["content"][0]["text"] == "went"
    assert sse.stream.complete


async def test_it_has_a_path_of_its_own_where_that_is_wanted(theatre: Theatre) -> None:
    async with open_theatre(theatre, sse_path="/sse") as client:
        sse = await SseByHand(client, "/sse").begin()
        at_the_endpoint = await SseByHand(client).begin()

        assert sse.path == "/sse"
        assert at_the_endpoint.path == "/mcp"
        assert len(sse.messages) == len(at_the_endpoint.messages) == 1
        for each in (sse, at_the_endpoint):
            each.stream.leave()


@pytest.mark.parametrize("path", ["/a b/mcp", "/mcp"])
async def test_the_address_is_below_what_the_application_is_mounted_under(theatre: Theatre, path: str) -> None:
    async with open_theatre(theatre) as client:
        sse = SseByHand(client)
        sse.stream = Caller(scope_of("GET", path, root_path="/a b"))
        await sse.open()

        assert sse.path == "/a%20b/mcp"
        sse.stream.leave()


async def test_the_address_never_leads_to_another_host(theatre: Theatre) -> None:
    app = http_app(theatre.server, path=None)
    async with trio.open_nursery() as nursery, app.run():
        sse = SseByHand(ByHand(app, nursery), "//evil.example/mcp")
        nursery.start_soon(sse.stream.run, app)
        await wait_all_tasks_blocked()

        assert urljoin("http://localhost//evil.example/mcp", events_of(sse.stream)[0].data.decode()).startswith(
            "http://localhost/evil.example/mcp?"
        )
        sse.stream.leave()


@pytest.mark.parametrize("settings", [SessionSettings(sse=False), None], ids=["off", "not spoken"])
async def test_where_it_is_not_served_a_get_without_a_session_is_refused(settings: SessionSettings | None) -> None:
    theatre = Theatre() if settings else Theatre(options={"revisions": ["2025-06-18", "2026-07-28"]})
    app = http_app(theatre.server, sessions=settings)
    async with app.run():
        refused = await Caller(scope_of("GET")).run(app)

    assert refused.status == 400
    assert "initialize" in refused.answer["error"]["message"]


async def test_a_client_of_a_later_revision_without_its_session_is_refused(theatre: Theatre) -> None:
    async with open_theatre(theatre) as client:
        refused = await client.request("GET", mcp_protocol_version="2025-06-18")

    assert refused.status == 400
