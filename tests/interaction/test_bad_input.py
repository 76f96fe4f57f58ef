"""Invalid input, by revision: the answer to it, and that the connection and the server continue."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from tests.interaction.scripted_peers import ENVELOPE, INFO, LEGACY, META, MODERN, Json
from trio_mcp import Limits, serve_stream, types
from trio_mcp.testing import ScriptedPeer, open_scripted_client
from trio_mcp.types import METHODS

BATCHES = "2025-03-26"
NULL_IDS = ("2024-11-05", "2025-03-26", "2025-06-18")
"""Revisions in which an error without a known id carries null instead of no id."""

SCHEMAS = {
    revision: json.loads((Path(__file__).parents[2] / "schema" / f"{revision}.json").read_text())["$defs"]
    for revision in types.REVISIONS
}


async def assert_alive(client: ScriptedPeer, revision: str) -> None:
    answer = await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert answer["result"]["content"] == [{"type": "text", "text": "3"}]


def call(id: object, **members: object) -> bytes:
    params: Json = {"name": "add", "arguments": {"a": 1, "b": 2}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params} | members).encode() + b"\n"


NO_ANSWER = None
UNREADABLE: dict[str, tuple[bytes, int]] = {
    "junk bytes": (b"\xff\xfe\x00junk\n", -32700),
    "not JSON": (b"hello\n", -32700),
    "an incomplete value": (b'{"jsonrpc":"2.0","id":1,\n', -32700),
    "two values": (b"{} {}\n", -32700),
    "invalid UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"ping\xc3("}\n', -32700),
    "a lone surrogate": (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}\n', -32700),
    "NaN": (call(1, params={"x": float("nan")}), -32700),
    "an infinity": (call(1, params={"x": float("-inf")}), -32700),
    "arrays nested 100,000 deep": (b"[" * 100_000 + b"]" * 100_000 + b"\n", -32700),
    "objects nested 100,000 deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", -32700),
    "a number": (b"7\n", -32600),
    "a string": (b'"tools/call"\n', -32600),
    "null": (b"null\n", -32600),
    "an empty object": (b"{}\n", -32600),
    "an empty batch": (b"[]\n", -32600),
    "a null id": (call(None), -32600),
    "a boolean id": (call(True), -32600),
    "a fractional id": (call(1.5), -32600),
    "an object as id": (call({}), -32600),
}
"""Lines without a readable id: the answer has no id."""

READABLE: dict[str, tuple[bytes, int]] = {
    "no method": (b'{"jsonrpc":"2.0","id":"x"}\n', -32600),
    "no version of JSON-RPC": (call("x", jsonrpc=None), -32600),
    "another version of JSON-RPC": (call("x", jsonrpc="1.0"), -32600),
    "a method that is not a string": (call("x", method=3), -32600),
    "params that are null": (call("x", params=None), -32600),
    "params by position": (call("x", params=[1]), -32602),
    "params that are a string": (call("x", params="add"), -32602),
}
"""Invalid requests with a readable id, the string "x"."""

CANCELLED = b"notifications/cancelled"
PROGRESS = b"notifications/progress"
SILENT: dict[str, bytes] = {
    "blank lines": b"\n \n\r\n",
    "an unrequested result": b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
    "an unrequested error": b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}\n',
    "an error without id": b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}\n',
    "a response with a result and an error": b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}\n',
    "a result that is not an object": b'{"jsonrpc":"2.0","id":1,"result":[]}\n',
    "an error that is not an object": b'{"jsonrpc":"2.0","id":1,"error":"x"}\n',
    "an unknown notification": b'{"jsonrpc":"2.0","method":"notifications/nothing"}\n',
    "a request without an id": b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add"}}\n',
    "a cancellation without an id": b'{"jsonrpc":"2.0","method":"%b"}\n' % CANCELLED,
    "a cancellation with an unknown id": b'{"jsonrpc":"2.0","method":"%b","params":{"requestId":7}}\n' % CANCELLED,
    "a cancellation with an invalid id": b'{"jsonrpc":"2.0","method":"%b","params":{"requestId":[]}}\n' % CANCELLED,
    "progress with an unknown token": b'{"jsonrpc":"2.0","method":"%b","params":{"progressToken":7}}\n' % PROGRESS,
    "progress with an invalid token": b'{"jsonrpc":"2.0","method":"%b","params":{"progressToken":{}}}\n' % PROGRESS,
}
"""Lines that must not be answered."""


@pytest.mark.requirement("B.1-P2a", "B.1-P4c")
@pytest.mark.parametrize("line", UNREADABLE)
async def test_a_line_that_is_not_a_message_is_refused_without_an_id(line: str, revision: str) -> None:
    data, code = UNREADABLE[line]
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(data)
        answer = await client.receive()
        assert answer["error"]["code"] == code
        if revision in NULL_IDS:
            assert answer["id"] is None
        else:
            assert "id" not in answer
        await assert_alive(client, revision)


@pytest.mark.requirement("B.1-P1a", "B.1-P4c")
@pytest.mark.parametrize("line", READABLE)
async def test_an_invalid_request_is_refused_with_its_id(line: str, revision: str) -> None:
    data, code = READABLE[line]
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(data)
        answer = await client.receive()
        assert (answer["id"], answer["error"]["code"]) == ("x", code)
        await assert_alive(client, revision)


@pytest.mark.requirement("B.1-P6b", "B.12-P2c")
@pytest.mark.parametrize("line", SILENT)
async def test_the_server_does_not_answer_notifications_and_responses(line: str, revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(SILENT[line])
        await assert_alive(client, revision)  # its answer is the first one


@pytest.mark.requirement("B.1-P7a", "B.1-P7b", "B.1-P8")
async def test_a_batch_is_answered_in_its_revision_and_refused_with_one_error_elsewhere(revision: str) -> None:
    batch: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
        7,
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/nothing"},
        {"jsonrpc": "2.0", "id": 3, "method": "nothing"},
    ]
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(batch)
        answer = await client.receive()
        if revision == BATCHES:
            assert {each["id"]: each.get("error", {}).get("code") for each in answer} == {
                1: None,
                None: -32600,
                2: -32600,
                3: -32601,
            }
        else:
            assert answer["error"]["code"] == -32600
        await assert_alive(client, revision)


@pytest.mark.requirement("B.1-P7c")
async def test_a_batch_of_notifications_is_not_answered() -> None:
    async with open_scripted_client(make_server(), BATCHES) as client:
        await client.send([{"jsonrpc": "2.0", "method": "notifications/nothing"}] * 3)
        await assert_alive(client, BATCHES)


@pytest.mark.requirement("B.1-P3b")
async def test_a_request_with_an_id_in_use_is_refused_and_the_first_request_continues(revision: str) -> None:
    arguments: Json = {"name": "when_stopped", "arguments": {"key": "never"}}
    params = arguments | ({"_meta": ENVELOPE} if revision == MODERN else {})
    request: Json = {"jsonrpc": "2.0", "id": "twin", "method": "tools/call", "params": params}
    async with open_scripted_client(make_server(), revision) as client:
        await client.send(request, request)
        refused = await client.receive()
        assert refused.get("id") is None
        assert refused["error"]["code"] == -32600
        assert "'twin'" in refused["error"]["message"]
        await assert_alive(client, revision)
        cancelled: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "twin"}}
        await client.send(cancelled)
        again = params | {"name": "add", "arguments": {"a": 1, "b": 2}}
        await client.send(request | {"params": again})  # the id is free once more
        assert (await client.receive())["id"] == "twin"


@pytest.mark.requirement("B.1-P2b", "G.15")
async def test_a_number_and_a_string_are_different_ids(revision: str) -> None:
    params: Json = {"name": "when_stopped", "arguments": {"key": "k"}}
    params |= {"_meta": ENVELOPE} if revision == MODERN else {}
    async with open_scripted_client(make_server(), revision) as client:
        for id in (1, "1"):
            await client.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}})
        await client.request("tools/list", None)
        stop = {"name": "hang", "arguments": {"key": "k"}} | ({"_meta": ENVELOPE} if revision == MODERN else {})
        await client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": stop})
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        assert (await client.receive())["id"] == 1


@pytest.mark.requirement("B.1-S2")
@pytest.mark.parametrize("method", ["nothing", "tools/nothing", "notifications/initialized", "sampling/createMessage"])
async def test_a_method_that_clients_may_not_call_is_unknown(method: str, revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        answer = await client.request(method, {})
        assert answer["error"]["code"] == -32601
        await assert_alive(client, revision)


@pytest.mark.requirement("B.1-S2", "B.2-P1c", "B.2-P1d", "B.15-P4")
async def test_a_method_of_another_revision_is_unknown(revision: str) -> None:
    everywhere = {method for methods in METHODS.values() for method, row in methods.items() if row.kind == "request"}
    async with open_scripted_client(make_server(), revision) as client:
        for method in sorted(everywhere - METHODS[revision].keys() - {"initialize"}):
            answer = await client.request(method, {})
            assert answer["error"]["code"] == -32601
        await assert_alive(client, revision)


@pytest.mark.requirement("B.1-P10b", "B.16-S1b", "B.16-S1c", "B.20-S6a", "B.21-S3a", "B.21-S3b", "B.22-S2a")
async def test_an_unknown_tool_resource_or_prompt_is_refused(revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        for method, params, code in (
            ("tools/call", {"name": "nothing"}, -32602),
            ("prompts/get", {"name": "nothing"}, -32602),
            ("resources/read", {"uri": "memo://nothing"}, -32602 if revision == MODERN else -32002),
            ("tools/list", {"cursor": "made up"}, -32602),
        ):
            answer = await client.request(method, params)
            assert answer["error"]["code"] == code
        await assert_alive(client, revision)


@pytest.mark.requirement("B.3-S1a", "B.15-P1a")
async def test_before_the_handshake_the_server_answers_only_ping() -> None:
    async with open_scripted_client(make_server(), MODERN) as client:
        answer = await client.request("tools/list", {}, envelope=None)
        assert answer["error"]["code"] == -32602
        assert "initialize" in answer["error"]["message"]
        assert (await client.request("ping", None, envelope=None))["result"] == {}
        await client.greet("2025-11-25")
        await assert_alive(client, "2025-11-25")


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_second_handshake_is_answered_and_applies_from_then_on(revision: str) -> None:
    async with open_scripted_client(make_server(), revision) as client:
        params: Json = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": INFO}
        assert (await client.request("initialize", params))["result"]["protocolVersion"] == "2024-11-05"
        await assert_alive(client, "2024-11-05")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("protocolVersion", 7),
        ("protocolVersion", None),
        ("capabilities", None),
        ("capabilities", []),
        ("clientInfo", "me"),
        ("clientInfo", {"name": "nameless version"}),
        ("_meta", 3),
    ],
)
async def test_an_invalid_handshake_is_refused_and_can_be_repeated(member: str, value: object) -> None:
    params: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO, member: value}
    async with open_scripted_client(make_server(), MODERN) as client:
        assert (await client.request("initialize", params, envelope=None))["error"]["code"] == -32602
        await client.greet("2025-06-18")
        await assert_alive(client, "2025-06-18")


@pytest.mark.requirement("B.3-S1a", "B.3-S4a", "B.14-P1a", "B.18-S3b")
@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        ({META + "protocolVersion": 7}, -32602),
        ({META + "protocolVersion": "1999-01-01"}, -32022),
        ({META + "protocolVersion": "2025-11-25"}, -32022),
        ({META + "clientCapabilities": None}, -32602),
        ({META + "clientCapabilities": []}, -32602),
        ({META + "clientInfo": "me"}, -32602),
        ({META + "clientInfo": {"name": "me"}}, -32602),
        ({META + "logLevel": "loud"}, -32602),
        ({"progressToken": 1.5}, -32602),
        ({"progressToken": None}, -32602),
    ],
)
async def test_an_invalid_envelope_is_refused(envelope: Json, code: int) -> None:
    async with open_scripted_client(make_server(), MODERN) as client:
        answer = await client.request("tools/list", {}, envelope=ENVELOPE | envelope)
        assert answer["error"]["code"] == code
        if code == -32022:
            assert answer["error"]["data"]["requested"] == envelope[META + "protocolVersion"]
            assert MODERN in answer["error"]["data"]["supported"]
        await assert_alive(client, MODERN)


GOOD: dict[str, Json] = {
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "review"},
        "argument": {"name": "style", "value": "k"},
    },
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO},
    "logging/setLevel": {"level": "info"},
    "prompts/get": {"name": "review", "arguments": {"code": "x"}},
    "resources/read": {"uri": "memo://today"},
    "resources/subscribe": {"uri": "memo://today"},
    "resources/unsubscribe": {"uri": "memo://today"},
    "subscriptions/listen": {"notifications": {}},
    "tasks/cancel": {"taskId": "1"},
    "tasks/get": {"taskId": "1"},
    "tasks/result": {"taskId": "1"},
    "tools/call": {"name": "add", "arguments": {"a": 1, "b": 2}},
}
KINDS: tuple[Any, ...] = (None, True, 7, -1.5, "text", [], [1], {}, {"x": 1}, {"type": "nothing"})


def bad_params(revision: str, method: str) -> Iterator[Json]:
    """Yield good params with one member replaced by a value that the schema rejects."""
    params = METHODS[revision][method].params
    schema: Json = {"$ref": f"#/$defs/{_params_name(revision, method)}", "$defs": SCHEMAS[revision]}
    validator: Any = jsonschema.Draft202012Validator(schema)
    assert params is not None
    for member in _members(revision, method):
        for value in KINDS:
            candidate: Json = {"_meta": ENVELOPE} | GOOD.get(method, {}) | {member: value}
            if value is not None and not validator.is_valid(candidate):  # null may stand for a member that is absent
                yield {name: value for name, value in candidate.items() if name != "_meta" or member == "_meta"}


def _params_name(revision: str, method: str) -> str:
    for definition in SCHEMAS[revision].values():
        members = definition.get("properties", {})
        if members.get("method", {}).get("const") == method:
            name: str = members["params"]["$ref"].rpartition("/")[2]
            return name
    raise LookupError(method)


def _members(revision: str, method: str) -> list[str]:
    return list(SCHEMAS[revision][_params_name(revision, method)]["properties"])


@asynccontextmanager
async def uninitialized_client(revision: str, method: str) -> AsyncGenerator[ScriptedPeer]:
    async with open_scripted_client(make_server(), MODERN if method == "initialize" else revision) as client:
        yield client


@pytest.mark.requirement("B.18-S3a", "B.20-S6a")
@pytest.mark.parametrize(
    ("revision", "method"),
    [
        (revision, method)
        for revision, methods in METHODS.items()
        for method, row in methods.items()
        if row.kind == "request" and row.direction != "server"
    ],
)
async def test_a_param_of_the_wrong_type_is_refused(revision: str, method: str) -> None:
    tried = 0
    async with uninitialized_client(revision, method) as client:
        listed = await client.request("server/discover", {}, envelope=ENVELOPE)
        always = ("initialize", "ping", "logging/setLevel", "server/discover", "subscriptions/listen")
        offered = method in always or method.partition("/")[0] in listed["result"]["capabilities"]
        for params in bad_params(revision, method):
            envelope: Json = {} if "_meta" in params else ENVELOPE
            answer = await client.request(method, params, envelope=envelope if revision == MODERN else None)
            assert answer["error"]["code"] == (-32602 if offered or "_meta" in params else -32601), params
            tried += 1
        await assert_alive(client, MODERN)
    assert tried > 3


async def test_an_incomplete_line_is_refused_when_the_input_ends(revision: str) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, make_server(), theirs)
        client = ScriptedPeer(ours)
        await client.greet(revision)
        await client.send(b'{"jsonrpc":"2.0","id":1,"meth')
        await ours.send_eof()
        (refused,) = await client.rest()
    assert refused["error"]["code"] == -32700


async def test_a_last_request_without_newline_is_answered(revision: str) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, make_server(), theirs)
        client = ScriptedPeer(ours)
        await client.greet(revision)
        params: Json = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": ENVELOPE if revision == MODERN else {}}
        await client.send(call(1, params=params).rstrip())
        await ours.send_eof()
        (answered,) = await client.rest()
    assert answered["id"] == 1
    assert "result" in answered


async def test_a_line_of_100_megabytes_is_skipped_and_takes_no_more_memory_than_the_limit(revision: str) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    megabyte = b"x" * 1_000_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, make_server(limits=Limits(max_message_bytes=8 * 2**20)), theirs)
        client = ScriptedPeer(ours)
        await client.greet(revision)
        tracemalloc.start()
        try:
            await client.send(b'{"junk":"', *[megabyte] * 100, b'"}\n')
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        refused = await client.receive()
        assert refused["error"]["code"] == -32600
        assert "8388608 bytes" in refused["error"]["message"]
        await assert_alive(client, revision)
        await ours.aclose()
    assert peak < 24 * 2**20


async def test_the_default_limit_refuses_a_line_of_100_megabytes() -> None:
    async with open_scripted_client(make_server(), MODERN) as client:
        await client.send(*[b"x" * 10_000_000] * 10, b"\n")
        assert (await client.receive())["error"]["code"] == -32600
        await assert_alive(client, MODERN)


async def test_the_server_closes_the_link_of_a_peer_that_floods_and_does_not_read(revision: str) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    unknown = "nothing" * 50  # a longer message in the answers reaches the limit sooner
    block = b"".join(
        json.dumps({"jsonrpc": "2.0", "id": id, "method": unknown, "params": {"_meta": ENVELOPE}}).encode() + b"\n"
        for id in range(100)
    )
    sent = 0
    limits = (
        Limits() if revision == MODERN else Limits(outbox_urgent_bytes=2**19)
    )  # one revision with the default limits is enough
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, make_server(limits=limits), theirs)
        client = ScriptedPeer(ours)
        await client.greet(revision)
        tracemalloc.start()
        try:
            with pytest.raises(trio.BrokenResourceError):
                for _ in range(1000):
                    await ours.send_all(block)
                    sent += 100
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await ours.aclose()
    assert 1_000 < sent < 100_000
    assert peak < 64 * 2**20


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_handshake_in_a_modern_envelope_is_refused_and_the_connection_continues(revision: str) -> None:
    params: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO, "_meta": ENVELOPE}
    message: Json = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    async with open_scripted_client(make_server(), revision) as client:
        await client.send(message)
        assert (await client.receive())["error"]["code"] == -32601
        await assert_alive(client, revision)


async def test_a_batch_that_is_too_long_is_refused_as_a_whole() -> None:
    server = make_server()
    server.limits = Limits(max_queued=3)

    async with open_scripted_client(server, BATCHES) as client:
        await client.send([1, 1, 1, 1])
        assert (await client.receive())["error"]["message"] == "a batch may have at most 3 messages"
        await assert_alive(client, BATCHES)
