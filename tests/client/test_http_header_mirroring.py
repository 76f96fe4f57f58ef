"""Header mirroring: tools whose arguments the client repeats in header fields, and corrections after a refusal."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.client.http_origin import LEGACY, Answer, Failure, HttpOrigin, Json, ReceivedRequest, connected, modern
from trio_mcp import ErrorResponse, LocalProtocolError, RequestTimedOut, Server, TimeLimits, open_client, types
from trio_mcp.client import _lists

MISMATCH = -32020
DONE: Json = {"content": []}


def schema(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


def mirrored(name: str, kind: str = "string") -> Json:
    return {"type": kind, "x-mcp-header": name}


def tool(name: str = "book", **properties: Any) -> Json:
    return {"name": name, "inputSchema": schema(**properties)}


def listing(*pages: Sequence[Json]) -> Any:
    """Return a reply to `tools/list` with these pages."""

    def reply(request: ReceivedRequest) -> Answer:
        at = int(request.params.get("cursor", "0"))
        following = {"nextCursor": str(at + 1)} if at + 1 < len(pages) else {}
        return modern(tools=[*pages[at]], **following)

    return reply


def requiring(name: str, field: str) -> Any:
    """Return a reply that refuses a call whose argument is not repeated in the header field."""

    def reply(request: ReceivedRequest) -> Answer:
        value = request.headers.get(f"mcp-param-{field}")
        return modern(**DONE) if value == request.params["arguments"].get(name) else Failure(MISMATCH)

    return reply


def param_fields(request: ReceivedRequest) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.startswith("mcp-param-")}


BOOKING = tool(
    city=mirrored("Region"),
    nights=mirrored("Nights", "integer"),
    quiet=mirrored("Quiet", "boolean"),
    note={"type": "string"},
    where=schema(street=mirrored("Street")),
)
WITH_REGION = tool(city=mirrored("Region"))


@pytest.mark.requirement("B.8-C7a")
async def test_annotated_arguments_of_a_listed_tool_are_sent_in_header_fields() -> None:
    origin = HttpOrigin(replies={"tools/list": listing([BOOKING]), "tools/call": lambda _: modern(**DONE)})
    arguments = {"city": "Zürich", "nights": 2, "quiet": True, "note": "late", "where": {"street": "Gasse 1"}}

    async with connected(origin) as client:
        assert [each.name async for each in client.tools()] == ["book"]
        await client.call_tool("book", arguments)
        await client.call_tool("book", {"city": "Bern", "nights": None})
        await client.call_tool("book")

    full, partial_, empty = origin.of("tools/call")
    assert full.params["arguments"] == arguments
    assert param_fields(full) == {
        "mcp-param-region": "=?base64?WsO8cmljaA==?=",
        "mcp-param-nights": "2",
        "mcp-param-quiet": "true",
        "mcp-param-street": "Gasse 1",
    }
    assert param_fields(partial_) == {"mcp-param-region": "Bern"}
    assert param_fields(empty) == {}


async def test_a_call_without_a_name_is_refused_by_the_server() -> None:
    origin = HttpOrigin(replies={"tools/call": lambda _: Failure(-32602, status=200)})

    async with connected(origin) as client:
        with pytest.raises(ErrorResponse):
            await client.request("tools/call", {}, dict)


async def test_an_argument_that_a_header_field_cannot_hold_is_refused_before_it_is_sent() -> None:
    origin = HttpOrigin(replies={"tools/list": listing([BOOKING])})

    async with connected(origin) as client:
        await client.list_tools()
        with pytest.raises(LocalProtocolError, match=r"the call of 'book' cannot be sent: the argument 'nights'"):
            await client.call_tool("book", {"nights": 2**60})

    assert origin.of("tools/call") == []


async def test_the_latest_list_determines_the_header_fields() -> None:
    lists = [[WITH_REGION], [tool(city={"type": "string"})], [tool(city=mirrored("Town"))]]
    origin = HttpOrigin(
        replies={"tools/list": lambda _: modern(tools=lists.pop(0)), "tools/call": lambda _: modern(**DONE)}
    )

    async with connected(origin) as client:
        for _ in range(3):
            await client.list_tools()
            await client.call_tool("book", {"city": "Bern"})

    assert [*map(param_fields, origin.of("tools/call"))] == [
        {"mcp-param-region": "Bern"},
        {},
        {"mcp-param-town": "Bern"},
    ]


async def test_the_number_of_mirrored_tools_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lists, "MAX_MIRRORED_TOOLS", 1)
    tools = [tool(name, city=mirrored("Region")) for name in ("a", "b")]
    origin = HttpOrigin(replies={"tools/list": listing(tools), "tools/call": lambda _: modern(**DONE)})

    async with connected(origin) as client:
        await client.list_tools()
        for name in ("a", "b"):
            await client.call_tool(name, {"city": "Bern"})

    assert [*map(param_fields, origin.of("tools/call"))] == [{"mcp-param-region": "Bern"}, {}]


# Tools with invalid annotations.

BROKEN = [
    tool("number", n=mirrored("N", "number")),
    tool("twice", a=mirrored("Same"), b=mirrored("same")),
    tool("space", a=mirrored("a b")),
]


@pytest.mark.requirement("B.8-C7b")
async def test_tools_with_invalid_annotations_are_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    origin = HttpOrigin(replies={"tools/list": listing([BROKEN[0], WITH_REGION], BROKEN[1:])})

    async with connected(origin) as client:
        for _ in range(2):
            assert [each.name async for each in client.tools(fresh=True)] == ["book"]
        assert [each.name for each in (await client.list_tools()).tools] == ["book"]

    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.partition(":")[0] for text in warnings] == [
        "tool 'number' is left out",
        "tool 'twice' is left out",
        "tool 'space' is left out",
    ]
    assert "type string, integer or boolean" in warnings[0]
    assert "'same' is used twice" in warnings[1]
    assert "'a b' is not an HTTP token" in warnings[2]


async def test_the_number_of_warnings_about_left_out_tools_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_lists, "MAX_WARNINGS", 2)
    origin = HttpOrigin(replies={"tools/list": listing(BROKEN)})

    async with connected(origin) as client:
        assert [each async for each in client.tools()] == []

    assert len(caplog.records) == 2


async def test_annotations_are_ignored_in_a_session() -> None:
    listed = {"tools": [*BROKEN, WITH_REGION]}
    origin = HttpOrigin(LEGACY, {"tools/list": lambda _: listed, "tools/call": lambda _: dict(DONE)})

    async with connected(origin) as client:
        assert len((await client.list_tools()).tools) == 4
        await client.call_tool("book", {"city": "Bern"})

    assert [*map(param_fields, origin.of("tools/call"))] == [{}]


async def test_annotations_are_ignored_on_a_connection_without_header_fields() -> None:
    server = Server("in this process")

    @server.tool(name="twice")
    def twice(a: str, b: str) -> str:
        return a + b

    async with open_client(server) as client:
        assert [each.name async for each in client.tools()] == ["twice"]


# Header fields that the server refuses.


@pytest.mark.requirement("B.8-C8")
async def test_an_unlisted_tool_is_listed_when_the_server_reports_a_missing_header_field() -> None:
    origin = HttpOrigin(replies={"tools/list": listing([WITH_REGION]), "tools/call": requiring("city", "region")})

    async with connected(origin) as client:
        assert (await client.call_tool("book", {"city": "Bern"})).content == []

    first, again = origin.of("tools/call")
    assert origin.methods() == ["server/discover", "tools/call", "tools/list", "tools/call"]
    assert [param_fields(first), param_fields(again)] == [{}, {"mcp-param-region": "Bern"}]


async def test_an_outdated_list_is_requested_again_on_all_pages_despite_the_cache() -> None:
    lists = [listing([WITH_REGION], [tool("other")]), listing([tool("other")], [tool(city=mirrored("Town"))])]

    def reply(request: ReceivedRequest) -> Answer:
        return {**lists[0](request), "ttlMs": 60_000}

    origin = HttpOrigin(replies={"tools/list": reply, "tools/call": requiring("city", "town")})

    async with connected(origin) as client:
        assert len([each async for each in client.tools()]) == 2
        del lists[0]
        await client.call_tool("book", {"city": "Bern"})

    cursors = [each.params.get("cursor") for each in origin.of("tools/list")]
    assert cursors == [None, "1", None, "1"]
    assert param_fields(origin.of("tools/call")[-1]) == {"mcp-param-town": "Bern"}


async def test_a_call_is_corrected_once_and_then_its_refusal_is_raised() -> None:
    origin = HttpOrigin(replies={"tools/list": listing([WITH_REGION]), "tools/call": lambda _: Failure(MISMATCH)})

    async with connected(origin) as client, client.open_call("book", {"city": "Bern"}) as call:
        assert [update async for update in call.updates] == []
        for _ in range(2):
            with pytest.raises(ErrorResponse, match=r"no \(-32020\)"):
                await call.result()

    assert origin.methods()[1:] == ["tools/call", "tools/list", "tools/call"]


async def test_tools_that_cannot_be_listed_leave_the_refusal_as_it_is() -> None:
    origin = HttpOrigin(
        replies={"tools/list": lambda _: Failure(-32603, status=200), "tools/call": lambda _: Failure(MISMATCH)}
    )

    async with connected(origin) as client:
        with pytest.raises(ErrorResponse) as refused:
            await client.call_tool("book", {"city": "Bern"})

    assert refused.value.code == MISMATCH


async def test_a_correction_that_cannot_be_sent_is_raised_each_time() -> None:
    origin = HttpOrigin(replies={"tools/list": listing([BOOKING]), "tools/call": lambda _: Failure(MISMATCH)})

    async with connected(origin) as client, client.open_call("book", {"nights": 2**60}) as call:
        for _ in range(2):
            with pytest.raises(LocalProtocolError, match="nights"):
                await call.result()

    assert len(origin.of("tools/call")) == 1


async def test_the_same_error_from_another_method_is_raised_without_a_correction() -> None:
    origin = HttpOrigin(replies={"prompts/get": lambda _: Failure(MISMATCH)})

    async with connected(origin) as client:
        with pytest.raises(ErrorResponse):
            await client.get_prompt("p")

    assert origin.methods() == ["server/discover", "prompts/get"]


async def test_concurrent_corrections_list_the_tools_once() -> None:
    origin = HttpOrigin(replies={"tools/list": listing([WITH_REGION]), "tools/call": requiring("city", "region")})

    async with connected(origin) as client, trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(partial(client.call_tool, "book", {"city": f"city {number}"}))

    assert len(origin.of("tools/list")) == 1
    assert len(origin.of("tools/call")) == 20


async def test_a_cancelled_correction_continues_with_the_next_wait() -> None:
    listed = trio.Event()

    async def slow(request: ReceivedRequest) -> Answer:
        await listed.wait()
        return modern(tools=[WITH_REGION])

    origin = HttpOrigin(replies={"tools/list": slow, "tools/call": requiring("city", "region")})

    async with connected(origin) as client, client.open_call("book", {"city": "Bern"}) as call:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call.result)
                await wait_all_tasks_blocked()
                scope.cancel()
        listed.set()
        assert (await call.result()).content == []

    assert len(origin.of("tools/call")) == 2


@pytest.mark.parametrize("is_manual", [False, True])
async def test_a_round_of_questions_is_corrected_with_its_answers(is_manual: bool) -> None:
    question = modern(resultType="input_required", requestState="sealed", inputRequests={})
    answers: list[Answer] = [question, Failure(MISMATCH), modern(**DONE)]
    origin = HttpOrigin(replies={"tools/list": listing([WITH_REGION]), "tools/call": lambda _: answers.pop(0)})
    book = ("book", {"city": "Bern"})

    async with connected(origin) as client:
        if is_manual:
            async with client.open_call(*book, manual_input=True) as call:
                assert isinstance(await call.result(), types.InputRequiredResult)
            async with client.open_call(*book, manual_input=True, request_state="sealed") as call:
                assert isinstance(await call.result(), types.CallToolResult)
        else:
            await client.call_tool(*book)

    _, retry, corrected = origin.of("tools/call")
    assert retry.params["requestState"] == corrected.params["requestState"] == "sealed"
    assert param_fields(corrected) == {"mcp-param-region": "Bern"}


async def test_a_list_request_of_a_correction_times_out_like_any_other(autojump_clock: object) -> None:
    async def never(request: ReceivedRequest) -> Answer:
        await trio.sleep_forever()
        raise AssertionError

    origin = HttpOrigin(replies={"tools/list": never, "tools/call": lambda _: Failure(MISMATCH)})
    limits = TimeLimits(idle=10)

    async with connected(origin, time_limits=limits) as client:
        began = trio.current_time()
        with pytest.raises(ErrorResponse):
            await client.call_tool("book", {"city": "Bern"})
        assert trio.current_time() - began == pytest.approx(10)
        with pytest.raises(RequestTimedOut):
            await client.list_tools()
