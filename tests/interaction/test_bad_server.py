"""Invalid input from a server: at most one call fails, and the client continues."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
import trio

from tests.interaction.scripted_peers import EVERYTHING, INFO, LEGACY, MODERN, Json, sample, welcoming
from trio_mcp import (
    Client,
    ClientOptions,
    ErrorResponse,
    Limits,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_scripted_server

ASKING = "2025-11-25"
"""The revision in which a server can send the most kinds of requests."""


async def assert_alive(client: Client, server: ScriptedPeer) -> None:
    """Check that the server gets `tools/list` as its next request and that the answer arrives."""
    result: Json = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.answer, result, method="tools/list"))
        assert (await client.list_tools()).tools == []


JUNK: dict[str, Any] = {
    "junk bytes": b"\xff\x00junk\n",
    "an ordinary print": b"Server started!\n",
    "a number": 7,
    "an array": [],
    "an empty object": {},
    "NaN": b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}\n',
    "a deep value": b"[" * 100_000 + b"\n",
    "a result without a request": {"jsonrpc": "2.0", "id": 77, "result": {}},
    "a result with an unknown kind of id": {"jsonrpc": "2.0", "id": [], "result": {}},
    "an error without a request": {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "x"}},
    "an error without id": {"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}},
    "an unknown notification": {"jsonrpc": "2.0", "method": "notifications/nothing", "params": {}},
    "an invalid log message": {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud"}},
    "progress with an unknown token": {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 9},
    },
    "a cancellation of an unknown request": {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1},
    },
}


@pytest.mark.requirement("B.1-P6b", "B.12-P2c", "B.15-P1b")
@pytest.mark.parametrize("line", JUNK)
async def test_a_meaningless_line_does_not_disturb_the_client(line: str, revision: str) -> None:
    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        await server.send(JUNK[line])
        await trio.testing.wait_all_tasks_blocked()
        if revision != MODERN:  # a legacy client reports a line that it could not read
            await server.send({"jsonrpc": "2.0", "id": "ping", "method": "ping"})
            answers = [await server.receive()]
            if "error" in answers[0]:
                answers.append(await server.receive())
            assert answers[-1] == {"jsonrpc": "2.0", "id": "ping", "result": {}}
        await assert_alive(client, server)


BROKEN: dict[str, Json] = {
    "an array as result": {"result": []},
    "null as result": {"result": None},
    "result and error": {"result": {}, "error": {"code": 1, "message": "x"}},
    "an error without code": {"error": {"message": "x"}},
    "an error without message": {"error": {"code": 1}},
    "an error with a string as code": {"error": {"code": "1", "message": "x"}},
    "an error that is a string": {"error": "x"},
    "another version of JSON-RPC": {"jsonrpc": "1.0", "result": {"tools": []}},
    "a result without the list": {"result": {"resultType": "complete"}},
    "a list of invalid items": {"result": {"tools": [7], "resultType": "complete"}},
    "a tool without a name": {"result": {"tools": [{"inputSchema": {}}], "resultType": "complete"}},
}


@pytest.mark.parametrize("answer", BROKEN)
async def test_a_broken_response_fails_only_its_own_call(answer: str, revision: str) -> None:
    failed = trio.Event()

    async def list_tools(client: Client) -> None:
        with pytest.raises(RemoteProtocolError):
            await client.list_tools()
        failed.set()

    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(list_tools, client)
        broken = await server.receive()
        nursery.start_soon(client.list_prompts)
        other = await server.receive()
        await server.send({"jsonrpc": "2.0", "id": broken["id"]} | BROKEN[answer])
        await failed.wait()
        result: Json = {"prompts": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await server.send({"jsonrpc": "2.0", "id": other["id"], "result": result})


@pytest.mark.requirement("B.1-C1b")
@pytest.mark.parametrize("kind", ["input_required", "task", "", 7, None])
async def test_a_result_of_an_unknown_type_is_refused_in_the_modern_era(kind: object) -> None:
    async with (
        open_scripted_server(welcoming(MODERN), revision=MODERN) as (client, server),
        trio.open_nursery() as nursery,
    ):
        result: Json = {"resultType": kind, "tools": [], "ttlMs": 0, "cacheScope": "private"}
        nursery.start_soon(server.answer, result)
        with pytest.raises(RemoteProtocolError, match="'tools/list'"):
            await client.list_tools()


@pytest.mark.requirement("B.1-C1a")
async def test_a_result_without_a_type_is_complete() -> None:
    async with (
        open_scripted_server(welcoming(MODERN), revision=MODERN) as (client, server),
        trio.open_nursery() as nursery,
    ):
        result: Json = {"content": []}
        nursery.start_soon(server.answer, result)
        assert (await client.call_tool("x")).content == []


async def test_an_error_is_raised_as_the_server_sent_it(revision: str) -> None:
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.refuse, 7, {"why": None})
        with pytest.raises(ErrorResponse) as refused:
            await client.list_tools()
        assert (refused.value.code, refused.value.message, refused.value.data) == (7, "no", {"why": None})


async def test_only_an_invalid_progress_update_itself_is_dropped(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        client.open_call("x") as call,
    ):
        request = await server.receive()
        token = request["params"]["_meta"]["progressToken"]
        for progress in ({"progress": 1}, {"progress": "two"}, {"progress": None}, {}, {"progress": 3}):
            params: Json = {"progressToken": token, **progress}
            await server.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        result: Json = {"content": [], "resultType": "complete"}
        await server.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        assert [update.progress async for update in call.updates] == [1, 3]
        assert (await call.result()).content == []
    assert caplog.text.count("a progress update is invalid") == 1  # only one log record for all of them


@pytest.mark.requirement("B.14-P5b")
async def test_progress_after_the_result_is_dropped(revision: str) -> None:
    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        async with client.open_call("x") as call:
            request = await server.answer({"content": [], "resultType": "complete"})
            params: Json = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1}
            await server.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await trio.testing.wait_all_tasks_blocked()
            assert [update async for update in call.updates] == []
        await assert_alive(client, server)


async def test_a_call_without_a_progress_callback_requests_no_progress(revision: str) -> None:
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.call_tool, "x")
        request = await server.answer({"content": [], "resultType": "complete"})
    assert "progressToken" not in request["params"].get("_meta", {})


@pytest.mark.requirement("B.12-P5a")
async def test_an_exception_in_a_progress_callback_fails_its_own_call(revision: str) -> None:
    async def on_progress(_: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("mine")

    async def call(client: Client) -> None:
        with pytest.raises(KeyError, match="mine"):
            await client.call_tool("x", on_progress=on_progress)

    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, client)
            request = await server.receive()
            params: Json = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1}
            await server.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            cancelled = await server.receive()
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", request["id"])
        await assert_alive(client, server)


@pytest.mark.requirement("B.12-P3", "B.12-P4a")
async def test_a_result_after_the_cancellation_is_dropped_and_counted(revision: str) -> None:
    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        async with client.open_call("x"):
            request = await server.receive()
        assert (await server.receive())["method"] == "notifications/cancelled"
        await server.send({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
        await assert_alive(client, server)
        assert client.statistics().unmatched_responses == 1


@pytest.mark.requirement("B.1-P9a", "B.5-C5b")
async def test_the_client_does_not_answer_a_request_in_the_modern_era() -> None:
    async with open_scripted_server(welcoming(MODERN), revision=MODERN, roots=[]) as (client, server):
        for method in ("ping", "roots/list", "elicitation/create", "nothing"):
            await server.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
        await server.send(b"junk\n", [])
        await assert_alive(client, server)  # its request is the first message that the server gets
        assert client.statistics().malformed == 6


ASKED: dict[str, Json] = {
    "roots/list": {},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    "tasks/list": {},
    "tools/list": {},
    "nothing": {},
}


@pytest.mark.requirement("B.10-C2", "B.25-C5")
@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_request_for_an_undeclared_capability_is_an_unknown_method(method: str, revision: str) -> None:
    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        answer = await server.request(method, ASKED[method])
        assert answer["error"]["code"] == -32601
        await assert_alive(client, server)


async def elicit(_: Any) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"count": 2})


@pytest.mark.requirement("B.10-C1", "B.23-C1c")
@pytest.mark.parametrize("revision", LEGACY)
async def test_the_client_answers_requests_for_declared_capabilities_where_the_revision_has_them(revision: str) -> None:
    roots = [types.Root(uri="file:///home", name="home")]
    options = ClientOptions(revision=revision, on_elicit=elicit, on_sample=sample, roots=roots)
    async with open_scripted_server(welcoming(revision), **options) as (client, server):
        listed = await server.request("roots/list", None)
        assert listed["result"] == {"roots": [{"uri": "file:///home", "name": "home"}]}
        sampled = await server.request("sampling/createMessage", ASKED["sampling/createMessage"])
        assert sampled["result"] == {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}
        elicited = await server.request("elicitation/create", ASKED["elicitation/create"])
        if revision >= "2025-06-18":
            assert elicited["result"] == {"action": "accept", "content": {"count": 2}}
        else:
            assert elicited["error"]["code"] == -32601
        await assert_alive(client, server)


@pytest.mark.requirement("B.23-C1d", "B.24-C2")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", {"mode": "url", "url": "https://x.example", "message": "go", "elicitationId": "1"}),
        ("elicitation/create", {"mode": "smoke", "message": "?"}),
        ("elicitation/create", {"message": 7, "requestedSchema": {"type": "object", "properties": {}}}),
        ("elicitation/create", {}),
        ("sampling/createMessage", {"messages": [], "maxTokens": "many"}),
        (
            "sampling/createMessage",
            {"messages": [], "maxTokens": 1, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        ),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1, "toolChoice": {"mode": "auto"}}),
        ("roots/list", {"_meta": 7}),
    ],
)
async def test_an_invalid_question_is_refused(method: str, params: Json) -> None:
    async with open_scripted_server(
        welcoming(ASKING), revision=ASKING, on_elicit=elicit, on_sample=sample, roots=[]
    ) as (
        client,
        server,
    ):
        answer = await server.request(method, params)
        assert answer["error"]["code"] == -32602
        await assert_alive(client, server)


async def test_an_exception_in_a_callback_is_an_error_response_and_the_client_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: Any) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        raise KeyError("secret")

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_elicit=fail) as (client, server):
        answer = await server.request("elicitation/create", ASKED["elicitation/create"])
        assert answer["error"]["code"] == -32603
        assert "secret" not in answer["error"]["message"]
        await assert_alive(client, server)
    assert "secret" in caplog.text


@pytest.mark.requirement("B.24-C3")
async def test_a_callback_can_choose_the_error_that_the_server_receives() -> None:
    async def refuse(_: Any) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        raise McpError(-1, "the user refused")

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_sample=refuse) as (client, server):
        answer = await server.request("sampling/createMessage", ASKED["sampling/createMessage"])
        assert answer["error"] == {"code": -1, "message": "the user refused"}
        await assert_alive(client, server)


@pytest.mark.requirement("B.25-C4")
async def test_the_roots_callback_runs_for_every_request_and_the_client_notifies_changes() -> None:
    count = [0]

    async def roots() -> list[types.Root]:
        await trio.lowlevel.checkpoint()
        count[0] += 1
        return [types.Root(uri=f"file:///{count[0]}")]

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, roots=roots) as (client, server):
        for number in (1, 2):
            answer = await server.request("roots/list", None)
            assert answer["result"] == {"roots": [{"uri": f"file:///{number}"}]}
        await client.roots_changed()
        assert (await server.receive())["method"] == "notifications/roots/list_changed"


async def test_a_notification_that_the_revision_lacks_is_not_sent() -> None:
    async with open_scripted_server(welcoming(MODERN), revision=MODERN) as (client, server):
        with pytest.raises(LocalProtocolError, match="no notification 'notifications/roots/list_changed'"):
            await client.roots_changed()
        await assert_alive(client, server)


@pytest.mark.requirement("B.12-P2a")
async def test_the_callback_is_cancelled_when_the_server_cancels_its_question() -> None:
    began, stopped = trio.Event(), trio.Event()

    async def ask(_: Any) -> types.ElicitResult:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_elicit=ask) as (client, server):
        params = ASKED["elicitation/create"]
        await server.send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        await began.wait()
        await server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}})
        await stopped.wait()
        await assert_alive(client, server)


@pytest.mark.requirement("B.15-P1b")
async def test_before_the_handshake_ends_the_client_answers_only_ping() -> None:
    async def ask_first(server: ScriptedPeer) -> None:
        request = await server.receive()
        assert request["method"] == "initialize"
        assert (await server.request("roots/list", None))["error"]["code"] == -32601
        assert (await server.request("ping", None))["result"] == {}
        result: Json = {"protocolVersion": ASKING, "capabilities": EVERYTHING, "serverInfo": INFO}
        await server.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        await server.receive()

    async with open_scripted_server(ask_first, revision=ASKING, roots=[]) as (client, server):
        await assert_alive(client, server)


async def test_a_slow_log_callback_delays_messages_up_to_a_bound_and_then_the_oldest_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    got: list[Any] = []
    began, go_on, last = trio.Event(), trio.Event(), trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        began.set()
        await go_on.wait()
        got.append(message.data)
        if message.data == 1999:
            last.set()

    def log(data: int) -> Json:
        return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_log=on_log) as (client, server):
        await server.send(log(-1))
        await began.wait()
        await server.send(*(log(data) for data in range(2000)))
        await assert_alive(client, server)  # other requests do not wait for the callback
        go_on.set()
        await last.wait()
    assert got == [-1, *range(2000 - 1024, 2000)]


async def test_an_exception_in_a_log_callback_loses_only_one_message(caplog: pytest.LogCaptureFixture) -> None:
    got: list[Any] = []
    last = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        if message.data == "bad":
            raise KeyError("mine")
        got.append(message.data)
        last.set()

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_log=on_log) as (_, server):
        for params in ({"level": "info", "data": "bad"}, {"level": "info"}, {"level": "info", "data": "good"}):
            await server.send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await last.wait()
    assert got == ["good"]
    assert "on_log failed" in caplog.text
    assert "a log message of the server does not fit" in caplog.text


async def test_a_log_callback_that_never_returns_is_cancelled_and_loses_only_one_message(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    last = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        if message.data == "bad":
            await trio.sleep_forever()
        last.set()

    limits = Limits(notification_seconds=3)
    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_log=on_log, limits=limits) as (_, server):
        for data in ("bad", "good"):
            params = {"level": "info", "data": data}
            await server.send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await last.wait()
    assert "on_log was cancelled: it did not return within 3 s (Limits.notification_seconds)" in caplog.text


async def test_the_client_does_not_follow_an_endless_list_of_tools(revision: str) -> None:
    async def serve_repeated_cursor(server: ScriptedPeer) -> None:
        for cursor in (" ", "a", "b", " "):
            page: Json = {
                "tools": [],
                "nextCursor": cursor,
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }
            await server.answer(page, method="tools/list")

    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve_repeated_cursor, server)
        with pytest.raises(RemoteProtocolError, match=r"endless|more than"):
            assert [tool async for tool in client.tools()] == []


@pytest.mark.requirement("B.20-C3")
@pytest.mark.parametrize("revision", [each for each in types.REVISIONS if each >= "2025-06-18"])
async def test_structured_content_that_does_not_match_the_output_schema_fails_the_call(revision: str) -> None:
    schema: Json = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool: Json = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    page: Json = {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def answer(server: ScriptedPeer, result: Json) -> None:
        complete: Json = {"resultType": "complete", "content": []}
        await server.answer(complete | result)

    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.answer, page)
            await client.list_tools()
        for result, fault in (
            ({"structuredContent": {"n": "1"}}, "does not fit its output schema"),
            ({}, "returned no structured content, which its output schema requires"),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer, server, result)
                with pytest.raises(RemoteProtocolError, match=fault):
                    await client.call_tool("t")
        for good in ({"structuredContent": {"n": 1}}, {"isError": True}):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer, server, good)
                await client.call_tool("t")


async def test_a_value_that_json_cannot_express_is_not_sent(revision: str) -> None:
    async with open_scripted_server(welcoming(revision), revision=revision) as (client, server):
        for value in (float("nan"), object(), "\ud800"):
            with pytest.raises(LocalProtocolError, match="cannot be sent"):
                await client.call_tool("x", {"value": value})
        await assert_alive(client, server)
        assert client.statistics().outgoing == 0


@pytest.mark.requirement("B.1-C1a", "B.17-C4c")
@pytest.mark.parametrize("hints", [{}, {"ttlMs": -5, "cacheScope": "public"}])
async def test_a_list_with_invalid_cache_hints_is_not_cached(hints: Json) -> None:
    result: Json = {"tools": [], **hints}
    async with (
        open_scripted_server(welcoming(MODERN), revision=MODERN) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.answer, result)
        assert (await client.list_tools()).ttl_ms == 0


async def test_invalid_log_messages_do_not_flood_the_log_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    last = trio.Event()

    async def on_log(_: types.LoggingMessageNotificationParams) -> None:
        last.set()

    def message(level: str) -> Json:
        return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": 1}}

    async with open_scripted_server(welcoming(ASKING), revision=ASKING, on_log=on_log) as (_, server):
        await server.send(*(message("loud") for _ in range(15)), message("info"))
        await last.wait()

    assert caplog.text.count("a log message of the server does not fit") == 10
