"""Requirements for every client, as the server at the other end observes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing

from tests.interaction.scripted_peers import (
    EVERYTHING,
    INFO,
    LEGACY,
    META,
    MODERN,
    NEWEST_LEGACY,
    Json,
    sample,
    welcoming,
)
from trio_mcp import (
    Client,
    ClientOptions,
    ConnectionBroken,
    ErrorResponse,
    RequestTimedOut,
    TimeLimits,
    UnsupportedRevision,
    open_client,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_scripted_server

COMPLETE: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
Attempt: TypeAlias = Callable[[Client], Awaitable[object]]


async def ignore(_: object) -> Any:
    await trio.lowlevel.checkpoint()


async def elicit(_: object) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="decline")


# The handshake.


@pytest.mark.requirement("B.2-C1a", "B.2-C1b", "B.2-C2", "B.2-C3")
async def test_the_client_completes_the_handshake_before_its_first_request() -> None:
    received: list[Any] = []

    async def script(server: ScriptedPeer) -> None:
        request = await server.receive()
        received.append(request)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0) as nothing:
            received.append(await server.receive())
        assert nothing.cancelled_caught
        result: Json = {"protocolVersion": NEWEST_LEGACY, "capabilities": EVERYTHING, "serverInfo": INFO}
        await server.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        received.append(await server.receive())

    async with (
        open_scripted_server(script, revision=NEWEST_LEGACY) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.list_tools)
        received.append(await server.answer({"tools": []}))
    assert [message["method"] for message in received] == ["initialize", "notifications/initialized", "tools/list"]
    assert received[0]["params"] == {
        "protocolVersion": NEWEST_LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "trio-mcp", "version": version("trio-mcp")},
    }
    assert "id" not in received[1]


# Declared capabilities.


@pytest.mark.requirement("B.23-C1a", "B.23-C1b", "B.24-C1a", "B.25-C1a")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_capability_is_declared_if_its_callback_is_given_and_the_revision_has_it(revision: str) -> None:
    declared: list[Any] = []

    async def script(server: ScriptedPeer) -> None:
        declared.append((await server.answer_initialize(revision))["params"]["capabilities"])

    given = [
        ClientOptions(revision=revision, on_elicit=elicit),
        ClientOptions(revision=revision, on_sample=sample),
        ClientOptions(revision=revision, roots=[]),
        ClientOptions(revision=revision, on_log=ignore),
    ]
    for options in given:
        async with open_scripted_server(script, **options):
            pass
    form: Json = {"elicitation": {"form": {}}} if revision >= "2025-11-25" else {"elicitation": {}}
    assert declared == [
        form if revision >= "2025-06-18" else {},
        {"sampling": {}},
        {"roots": {"listChanged": True}},
        {},
    ]


@pytest.mark.requirement("A.4-P1", "G.17")
async def test_the_client_treats_empty_capabilities_as_declared_and_keeps_unknown_ones(revision: str) -> None:
    declared: Json = {"tools": {}, "prompts": {"odd": 1}, "flying": {"height": 3}}

    async def script(server: ScriptedPeer) -> None:
        if revision == MODERN:
            await server.answer(COMPLETE | {"supportedVersions": [MODERN], "capabilities": declared})
        else:
            result: Json = {"protocolVersion": revision, "capabilities": declared, "serverInfo": INFO}
            await server.answer(result)
            await server.receive()

    async with open_scripted_server(script, revision=revision) as (client, server), trio.open_nursery() as nursery:
        assert types.unstructure(client.server_capabilities) == declared
        nursery.start_soon(client.list_tools)
        await server.answer(COMPLETE | {"tools": []}, method="tools/list")
        nursery.start_soon(client.list_prompts)
        await server.answer(COMPLETE | {"prompts": []}, method="prompts/list")


# Metadata of each request.

ASKING: dict[str, tuple[Attempt, Json]] = {
    "tools/list": (Client.list_tools, {"tools": []}),
    "tools/call": (lambda client: client.call_tool("t", {"a": 1}, meta={"mine": 1}), {"content": []}),
    "resources/list": (Client.list_resources, {"resources": []}),
    "resources/templates/list": (Client.list_resource_templates, {"resourceTemplates": []}),
    "resources/read": (lambda client: client.read_resource("a:b"), {"contents": []}),
    "prompts/list": (Client.list_prompts, {"prompts": []}),
    "prompts/get": (lambda client: client.get_prompt("p"), {"messages": []}),
    "completion/complete": (
        lambda client: client.complete(types.PromptReference(name="p"), "a", "v"),
        {"completion": {"values": []}},
    ),
    "server/discover": (Client.discover, {"supportedVersions": [MODERN], "capabilities": {}}),
}


@pytest.mark.requirement("B.3-C1a", "B.3-C1b", "A.7-P1")
@pytest.mark.parametrize("method", ASKING)
async def test_every_modern_request_names_its_revision_and_its_client(method: str) -> None:
    attempt, result = ASKING[method]
    async with (
        open_scripted_server(welcoming(MODERN), revision=MODERN) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(attempt, client)
        request = await server.answer(COMPLETE | result, method=method)
    assert request["params"]["_meta"] == {
        META + "protocolVersion": MODERN,
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "trio-mcp", "version": version("trio-mcp")},
    } | ({"mine": 1} if method == "tools/call" else {})


@pytest.mark.requirement("B.4-C5")
@pytest.mark.parametrize("revision", [MODERN, NEWEST_LEGACY])
async def test_the_client_probes_a_server_once_for_each_connection(revision: str) -> None:
    async def script(server: ScriptedPeer) -> None:
        if revision == MODERN:
            await server.answer_discover(MODERN)
        else:
            await server.refuse(-32601, method="server/discover")
            await server.answer_initialize(revision)

    async with open_scripted_server(script) as (client, server), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(client.list_tools)
            await server.answer(COMPLETE | {"tools": []}, method="tools/list")
            nursery.start_soon(refused, client.list_prompts)
            await server.refuse(-32601, method="prompts/list")


async def refused(ask: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(ErrorResponse):
        await ask()


# stdio.

LISTENER = """
import json, sys
received = open(sys.argv[1], "wb")
for line in sys.stdin.buffer:
    received.write(line)
    received.flush()
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        named = {"name": "listener", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": named}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.requirement("B.5-C1", "B.1-P1b", "B.5-P1a")
async def test_a_child_process_receives_one_message_a_line_and_nothing_else(tmp_path: Path) -> None:
    received = tmp_path / "received"
    with trio.fail_after(60):
        async with open_client([sys.executable, "-S", "-c", LISTENER, str(received)]) as client:
            with pytest.raises(ErrorResponse):
                await client.call_tool("grüß\ndich", {"line\r": "break\n\u2028"})
    data = await trio.Path(received).read_bytes()
    messages = [json.loads(line) for line in data.decode().split("\n")[:-1]]
    assert data.endswith(b"\n")
    assert [message["method"] for message in messages] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    params = messages[-1]["params"]
    assert 0 < params.pop("_meta").pop("io.github.trio-mcp/deadline") <= 60
    assert params == {"name": "grüß\ndich", "arguments": {"line\r": "break\n\u2028"}}


# Progress.


@pytest.mark.requirement("B.14-P1a", "B.14-P1b")
async def test_every_request_in_flight_has_its_own_progress_token(revision: str) -> None:
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        client.open_call("a"),
        client.open_call("b"),
        client.open_call("c"),
    ):
        tokens = [(await server.receive())["params"]["_meta"]["progressToken"] for _ in range(3)]
    assert len(set(tokens)) == 3
    assert {type(token) for token in tokens} <= {int, str}


# Ping.


@pytest.mark.requirement("B.15-P1b")
@pytest.mark.parametrize("revision", LEGACY)
async def test_the_client_answers_a_ping_while_callbacks_run(revision: str) -> None:
    began = trio.Event()

    async def think(_: object) -> types.CreateMessageResult:
        began.set()
        await trio.sleep_forever()
        raise AssertionError

    async with open_scripted_server(welcoming(revision), revision=revision, on_sample=think) as (_, server):
        params: Json = {"messages": [], "maxTokens": 1}
        await server.send({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params})
        await began.wait()
        assert (await server.request("ping", None))["result"] == {}
        assert (await server.request("ping", {"_meta": {"odd": 1}}))["result"] == {}


# Lists.


@pytest.mark.requirement("B.16-C1a", "B.16-C1b", "B.16-C1c", "B.16-C2a", "B.22-P2", "G.14")
@pytest.mark.parametrize("kind", ["tools", "resources", "resource_templates", "prompts"])
async def test_the_client_reads_a_list_to_its_end_for_any_cursors_and_page_sizes(kind: str, revision: str) -> None:
    cursors = [" ", "0", "null", "a/b?c=d&é\n", '{"x":1}']
    if revision == MODERN:
        cursors.insert(0, "")  # before, it is not a cursor
    items: dict[str, Callable[[int], Json]] = {
        "tools": lambda number: {"name": str(number), "inputSchema": {"type": "object"}},
        "resources": lambda number: {"name": str(number), "uri": "a:b"},
        "resource_templates": lambda number: {"name": str(number), "uriTemplate": "a:{b}"},
        "prompts": lambda number: {"name": str(number)},
    }
    member, sizes, names = {"resource_templates": "resourceTemplates"}.get(kind, kind), [3, 0, 1, 0, 0, 7, 1], []
    requested: list[Any] = []

    async def serve(server: ScriptedPeer) -> None:
        for size, cursor in zip(sizes[: len(cursors) + 1], [*cursors, None], strict=True):
            page: Json = COMPLETE | {member: [items[kind](number) for number in range(size)]}
            request = await server.answer(page | ({} if cursor is None else {"nextCursor": cursor}))
            params: Json = request.get("params", {})
            requested.append(params.get("cursor"))

    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve, server)
        names = [item.name async for item in getattr(client, kind)()]
    assert requested == [None, *cursors]
    assert names == [str(number) for size in sizes[: len(cursors) + 1] for number in range(size)]


# Results.


@pytest.mark.requirement("B.20-C6")
async def test_a_schema_arrives_unchanged(revision: str) -> None:
    schema: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "string", "x-mcp-header": "A", "x-odd": None}},
        "$defs": {"never": {"type": "object"}},
        "x-odd": [1, None, {"deep": True}],
    }
    page: Json = COMPLETE | {"tools": [{"name": "t", "inputSchema": schema}]}
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.answer, page)
        (tool,) = (await client.list_tools()).tools
    assert tool.input_schema == schema
    assert types.unstructure(tool)["inputSchema"] == schema


@pytest.mark.requirement("B.21-C1")
@pytest.mark.parametrize("code", [-32002, -32602])
async def test_both_error_codes_for_a_missing_resource_are_raised(code: int, revision: str) -> None:
    data = {"uri": "a:b"}
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(server.refuse, code, data)
        with pytest.raises(ErrorResponse) as missing:
            await client.read_resource("a:b")
    assert (missing.value.code, missing.value.data) == (code, data)


@pytest.mark.requirement("B.1-P10f")
async def test_an_error_of_the_client_is_not_an_error_response(autojump_clock: object) -> None:
    ours: list[Exception] = []

    async with open_scripted_server(welcoming(MODERN), revision=MODERN, time_limits=TimeLimits(idle=1)) as (
        client,
        server,
    ):
        for _ in range(2):
            try:
                await client.call_tool("x")
            except (RequestTimedOut, ConnectionBroken) as error:
                ours.append(error)
            await server.stream.aclose()
    assert [type(error) for error in ours] == [RequestTimedOut, ConnectionBroken]
    for each in (*ours, UnsupportedRevision(MODERN, ())):
        assert not isinstance(each, ErrorResponse)
        assert not hasattr(each, "code")


# Completion.


@pytest.mark.requirement("B.19-C1b")
async def test_a_completion_request_carries_resolved_arguments_where_the_revision_allows(revision: str) -> None:
    reference = types.ResourceTemplateReference(uri="a:{b}/{c}")
    result = COMPLETE | {"completion": {"values": ["x"], "hasMore": True, "total": 2}}
    async with (
        open_scripted_server(welcoming(revision), revision=revision) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(partial(client.complete, reference, "c", "v", context={"b": "1"}))
        params = (await server.answer(result))["params"]
    assert params["ref"] == {"type": "ref/resource", "uri": "a:{b}/{c}"}
    assert params["argument"] == {"name": "c", "value": "v"}
    assert params.get("context") == ({"arguments": {"b": "1"}} if revision >= "2025-06-18" else None)


# Tasks, which this package does not create.


@pytest.mark.requirement("D.2-L2")
async def test_a_question_that_requests_a_task_is_answered_directly() -> None:
    params: Json = {"messages": [], "maxTokens": 1, "task": {"ttl": 60_000}}
    async with open_scripted_server(welcoming(NEWEST_LEGACY), revision=NEWEST_LEGACY, on_sample=sample) as (_, server):
        result = (await server.request("sampling/createMessage", params))["result"]
    assert result == {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}


# Roots.


@pytest.mark.requirement("B.25-C5")
async def test_a_failing_roots_callback_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def roots() -> list[types.Root]:
        await trio.lowlevel.checkpoint()
        raise OSError("secret")

    async with open_scripted_server(welcoming(NEWEST_LEGACY), revision=NEWEST_LEGACY, roots=roots) as (_, server):
        error = (await server.request("roots/list", None))["error"]
    assert error["code"] == -32603
    assert "secret" not in error["message"]
    assert "secret" in caplog.text


NO_FILES = ["https://example.com/x", "/home/me", "FILES://x", "", "file:relative"]


@pytest.mark.requirement("B.25-C2")
@pytest.mark.parametrize("uri", NO_FILES)
async def test_a_root_that_is_not_a_file_uri_is_not_sent(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    async def roots() -> list[types.Root]:
        await trio.lowlevel.checkpoint()
        return [types.Root(uri="file:///fine"), types.Root(uri=uri)]

    async with open_scripted_server(welcoming(NEWEST_LEGACY), revision=NEWEST_LEGACY, roots=roots) as (_, server):
        error = (await server.request("roots/list", None))["error"]
    assert error["code"] == -32603
    assert repr(uri) in caplog.text


@pytest.mark.requirement("B.25-C2")
@pytest.mark.parametrize("uri", NO_FILES)
async def test_a_list_of_roots_with_a_uri_that_is_not_a_file_raises_before_the_client_connects(uri: str) -> None:
    with pytest.raises(ValueError, match="the URI must begin with 'file://'"):
        async with open_client(["never-started"], roots=[types.Root(uri=uri)]):
            raise AssertionError


@pytest.mark.requirement("B.24-C2")
@pytest.mark.parametrize("member", [{"tools": []}, {"toolChoice": {}}])
async def test_sampling_with_tools_is_refused_if_undeclared_even_with_an_empty_list(member: Json) -> None:
    params: Json = {"messages": [], "maxTokens": 1, **member}
    async with open_scripted_server(welcoming(NEWEST_LEGACY), revision=NEWEST_LEGACY, on_sample=sample) as (_, server):
        assert (await server.request("sampling/createMessage", params))["error"]["code"] == -32602
