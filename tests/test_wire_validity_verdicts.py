"""Conversations with valid and invalid messages, and the faults that `nox -s spec` reports for them."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any, TypeAlias

import pytest

from tests.wire_validity.conversation import Verdict
from tests.wire_validity.judge import BENCHES, EXEMPTIONS, INVALID_ON_PURPOSE, Judge, table
from tests.wire_validity.plugin import missing
from tests.wire_validity.stand_in import ROOT, judge, upstream
from tests.wire_validity.tap import Role
from tests.wire_validity.upstream import Part
from trio_mcp.wire import SUBSCRIPTION_ID_KEY, Undecodable, decode

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
BATCHES = "2025-03-26"

Json: TypeAlias = dict[str, Any]
Sent: TypeAlias = tuple[Role, Json | list[Json]]
INFO: Json = {"name": "scripted", "version": "0"}
ENVELOPE: Json = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

EXTENDED: Json = ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"a.b/tasks": {}}}}


TASKS: Json = ENVELOPE | {
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
}
"""The metadata of a request that declares the tasks extension."""
WORKING: Json = {"taskId": "t", "status": "working", "createdAt": "now", "lastUpdatedAt": "now", "ttlMs": None}
FILE: Json = {"uri": "skill://a/SKILL.md", "digest": f"sha256:{'0' * 64}", "size": 1}
SKILL: Json = {"uri": FILE["uri"], "frontmatter": {"name": "a", "description": "b"}, "resources": [FILE]}
FRESH: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def request(id: int | str, method: str, params: Json | None = None) -> Sent:
    return "client", {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def server_request(id: int | str, method: str, params: Json | None = None) -> Sent:
    return "server", request(id, method, params)[1]


def result(id: int | str, value: Any, role: Role = "server") -> Sent:
    return role, {"jsonrpc": "2.0", "id": id, "result": value}


def error(code: int, **more: Any) -> Sent:
    data = {"data": more.pop("data")} if "data" in more else {}
    return "server", {"jsonrpc": "2.0", **more, "error": {"code": code, "message": "no", **data}}


def notification(role: Role, method: str, params: Json | None = None) -> Sent:
    return role, {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def handshake(revision: str) -> list[Sent]:
    about: Json = {"protocolVersion": revision, "capabilities": {}}
    begin = request("hello", "initialize", about | {"clientInfo": INFO})
    return [begin, result("hello", about | {"serverInfo": INFO}), notification("client", "notifications/initialized")]


def modern(id: int | str, method: str, params: Json | None = None) -> Sent:
    return request(id, method, {**(params or {}), "_meta": ENVELOPE})


def subscribed(id: int | str = 1) -> list[Sent]:
    """Return a subscription and the result with which the server ends it."""
    return [
        modern(id, "subscriptions/listen", {"notifications": {}}),
        result(id, {"resultType": "complete", "_meta": tag(id)}),
    ]


def ended(id: int | str, role: Role = "server", **more: Any) -> Sent:
    """Return the notification that follows the result of a subscription."""
    return notification(role, "notifications/cancelled", {"requestId": id, **more})


def tag(id: Any) -> Json:
    return {SUBSCRIPTION_ID_KEY: id}


def faults_of(here: Judge, *sent: Sent) -> list[str]:
    """Send messages from both sides of one connection; return the faults of the last message."""
    here.opened(1, None)
    for role, message in sent[:-1]:
        here.observed(1, role, json.dumps(message).encode() + b"\n", ours=True)
    assert here.faults == []
    role, message = sent[-1]
    here.observed(1, role, json.dumps(message).encode() + b"\n", ours=True)
    return here.faults


CALL: Json = {"name": "x"}
TASK: Json = {"taskId": "t", "status": "working", "createdAt": "now", "lastUpdatedAt": "now", "ttl": None}
VALID: dict[str, list[Sent]] = {
    "a modern call and its result": [
        modern(1, "tools/call", CALL),
        result(1, {"resultType": "complete", "content": []}),
    ],
    "a result that asks for input": [
        modern(1, "tools/call", CALL),
        result(1, {"resultType": "input_required", "requestState": "s"}),
    ],
    "a result of an extension that the request declares": [
        request(1, "tools/call", {**CALL, "_meta": EXTENDED}),
        result(1, {"resultType": "task", "taskId": "t"}),
    ],
    "a call that becomes a task": [
        request(1, "tools/call", {**CALL, "_meta": TASKS}),
        result(1, {"resultType": "task", **WORKING}),
    ],
    "the methods of tasks": [
        request(1, "tasks/get", {"taskId": "t", "_meta": TASKS}),
        result(1, {"resultType": "complete", **WORKING, "status": "failed", "error": {"code": 1, "message": "no"}}),
        request(2, "tasks/update", {"taskId": "t", "inputResponses": {}, "_meta": TASKS}),
        result(2, {"resultType": "complete"}),
        request(3, "tasks/cancel", {"taskId": "t", "_meta": TASKS}),
        result(3, {"resultType": "complete"}),
    ],
    "the state of a task, pushed": [
        request(1, "subscriptions/listen", {"notifications": {"taskIds": ["t"]}, "_meta": TASKS}),
        notification("server", "notifications/tasks", {**WORKING, "_meta": tag(1)}),
    ],
    "skills": [
        modern(1, "skills/list"),
        result(1, {"skills": [SKILL], **FRESH}),
        modern(2, "skills/get", {"uri": SKILL["uri"]}),
        result(2, {"skill": {**SKILL, "resources": "dynamic"}, **FRESH}),
        modern(3, "resources/directory/read", {"uri": "skill://a"}),
        result(3, {"resources": [{"uri": SKILL["uri"], "name": "SKILL.md"}], "resultType": "complete"}),
    ],
    "skills in a legacy revision": [
        *handshake(LEGACY),
        request(1, "skills/list"),
        result(1, {"skills": [SKILL]}),
        request(2, "skills/get", {"uri": SKILL["uri"]}),
        result(2, {"skill": SKILL}),
    ],
    "skills in the oldest revision": [*handshake("2024-11-05"), request(1, "skills/list"), result(1, {"skills": []})],
    "a method of an application": [modern(1, "acme/ask"), result(1, {"resultType": "complete", "answer": 42})],
    "a method of an extension": [
        request(1, "tasks/get", {"taskId": "t", "_meta": EXTENDED}),
        result(1, {"resultType": "complete", "taskId": "t"}),
    ],
    "a notification of an application": [
        *handshake(LEGACY),
        notification("server", "notifications/acme/tick", {"n": 1}),
    ],
    "a task, for a call that requests one": [
        *handshake(LEGACY),
        request(1, "tools/call", {**CALL, "task": {}}),
        result(1, {"task": TASK}),
    ],
    "a request of a legacy server and its answer": [
        *handshake("2024-11-05"),
        server_request(1, "roots/list"),
        result(1, {"roots": [{"uri": "file:///x"}]}, "client"),
    ],
    "a ping before the handshake": [request(1, "ping"), result(1, {})],
    "an id that both sides use": [
        *handshake(LEGACY),
        request(1, "ping"),
        server_request(1, "ping"),
        result(1, {}, "client"),
    ],
    "an id of the other type": [request(1, "ping"), request("1", "ping"), result("1", {})],
    "an error without id where it may be missing": [*handshake(LEGACY), error(-32700)],
    "a refused revision": [
        modern(1, "tools/list"),
        error(-32022, id=1, data={"supported": [MODERN], "requested": "x"}),
    ],
    "requested progress": [
        *handshake(LEGACY),
        request(1, "tools/call", {**CALL, "_meta": {"progressToken": "t"}}),
        notification("server", "notifications/progress", {"progressToken": "t", "progress": 1}),
    ],
    "the cancellation of a request": [
        modern(1, "tools/call", CALL),
        notification("client", "notifications/cancelled", {"requestId": 1}),
    ],
    "the cancellation of a subscription that the server has just answered": [
        *subscribed("1"),
        ended("1", _meta=tag("1")),
    ],
    "the end of two subscriptions": [
        *subscribed(1),
        ended(1, _meta=tag(1)),
        *subscribed("1"),
        modern(2, "tools/call", CALL),
        ended("1", _meta=tag("1")),
    ],
    "a log message to a modern request": [
        modern(1, "tools/call", CALL),
        notification("server", "notifications/message", {"level": "info", "data": None}),
    ],
    "a batch of answers": [
        *handshake(BATCHES),
        request(1, "ping"),
        request(2, "ping"),
        ("server", [result(1, {})[1], result(2, {})[1]]),  # type: ignore[list-item] # both are objects
    ],
}


@pytest.mark.parametrize("case", VALID)
def test_a_valid_message_is_counted_and_not_reported(case: str) -> None:
    here = judge()
    assert faults_of(here, *VALID[case]) == []
    batched = sum(len(message) for _, message in VALID[case] if isinstance(message, list))
    assert here.counts.judged.total() + here.counts.invented.total() == len(VALID[case]) + batched
    assert bool(here.counts.invented) == ("of an application" in case or "of an extension" in case)
    assert not here.counts.exempt


OF_NO_REQUEST = "$.params.requestId: of no request"
INVALID: dict[str, tuple[list[Sent], str]] = {
    "a result of an extension that the request does not declare": (
        [modern(1, "tools/call", CALL), result(1, {"resultType": "task", "taskId": "t"})],
        '$.result: "content" is a required property',
    ),
    "a task without a time": (
        [request(1, "tools/call", {**CALL, "_meta": TASKS}), result(1, {"resultType": "task", "taskId": "t"})],
        '$.result: "createdAt" is a required property',
    ),
    "a completed task without its result": (
        [
            request(1, "tasks/get", {"taskId": "t", "_meta": TASKS}),
            result(1, {**WORKING, "resultType": "complete", "status": "completed"}),
        ],
        "tasks:GetTaskResult, Result (at result):",
    ),
    "an update of a task without answers": (
        [request(1, "tasks/update", {"taskId": "t", "_meta": TASKS})],
        '$.params: "inputResponses" is a required property',
    ),
    "a state of a task that no request asked for": (
        [modern(1, "tools/list"), notification("server", "notifications/tasks", WORKING)],
        "$.method: no server sends a notification 'notifications/tasks' in this revision",
    ),
    "a request of a client that the file of an extension only repeats": (
        [request(1, "roots/list", {"_meta": TASKS})],
        "$.method: no client sends a request 'roots/list' in this revision",
    ),
    "a pushed state of a task without its id": (
        [
            request(1, "subscriptions/listen", {"notifications": {"taskIds": ["t"]}, "_meta": TASKS}),
            notification("server", "notifications/tasks", {**WORKING, "taskId": 3}),
        ],
        "tasks:TaskStatusNotification:",
    ),
    "skills without a time for the cache": (
        [modern(1, "skills/list"), result(1, {"skills": [], "resultType": "complete"})],
        '$.result: "ttlMs" is a required property',
    ),
    "a digest in capitals": (
        [
            modern(1, "skills/get", {"uri": SKILL["uri"]}),
            result(1, {"skill": {**SKILL, "resources": [{**FILE, "digest": f"sha256:{'A' * 64}"}]}, **FRESH}),
        ],
        "skills:GetSkillResult, CacheableResult (at result):",
    ),
    "a modern request of an extension without the capabilities of the client": (
        [request(1, "skills/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}})],
        '$.params._meta: "io.modelcontextprotocol/clientCapabilities" is a required property',
    ),
    "a result of another method": (
        [modern(1, "tools/list"), result(1, {"resultType": "complete", "prompts": [], "ttlMs": 0})],
        "ListToolsResult (at result):",
    ),
    "a modern result without its type": (
        [modern(1, "tools/call", CALL), result(1, {"content": []})],
        '"resultType" is a required property',
    ),
    "a complete result that only fits one that asks for input": (
        [modern(1, "tools/call", CALL), result(1, {"resultType": "complete"})],
        '$.result: "content" is a required property',
    ),
    "a task that was not requested": (
        [*handshake(LEGACY), request(1, "tools/call", CALL), result(1, {"task": TASK})],
        "CallToolResult (at result):",
    ),
    "params of the wrong type": ([*handshake(LEGACY), request(1, "tools/call", {"name": 3})], "$.params.name: 3 is"),
    "a member with an unknown value": (
        [modern(1, "tools/list"), result(1, {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "x"})],
        "$.result.cacheScope",
    ),
    "a modern request without envelope": ([modern(1, "tools/list"), request(2, "tools/list")], "names no revision"),
    "an incomplete envelope": (
        [request(1, "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}})],
        'clientCapabilities" is a required property',
    ),
    "a method of a later revision": (
        [*handshake("2024-11-05"), server_request(1, "elicitation/create", {"message": "m"})],
        "no server sends a request 'elicitation/create' in this revision",
    ),
    "a method of an earlier revision": ([modern(1, "ping")], "no client sends a request 'ping' in this revision"),
    "a method of the other side": ([*handshake(LEGACY), server_request(1, "tools/list")], "no server sends a request"),
    "a notification of the other side": (
        [*handshake(LEGACY), notification("client", "notifications/tools/list_changed")],
        "no client sends a notification",
    ),
    "an invented method": ([request(1, "work")], "no client sends a request 'work' in this revision"),
    "an answer without a request": ([*handshake(LEGACY), result(1, {})], "$.id: a result for no request"),
    "a second answer": ([request(1, "ping"), result(1, {}), result(1, {})], "$.id: a result for no request"),
    "an answer to an id of the other type": ([request(1, "ping"), result("1", {})], "$.id: a result for no request"),
    "an error without a request": ([*handshake(LEGACY), error(-32603, id=1)], "$.id: an error for no request, 1"),
    "an id that was used before": ([request(1, "ping"), result(1, {}), request(1, "ping")], "used before"),
    "progress without a request": (
        [
            modern(1, "tools/call", CALL),
            notification("server", "notifications/progress", {"progressToken": 1, "progress": 1}),
        ],
        "$.params.progressToken: of no request",
    ),
    "a cancellation without a request": (
        [*handshake(LEGACY), notification("client", "notifications/cancelled", {"requestId": 1})],
        OF_NO_REQUEST,
    ),
    "a second cancellation of an answered subscription": (
        [*subscribed(), ended(1, _meta=tag(1)), ended(1, _meta=tag(1))],
        OF_NO_REQUEST,
    ),
    "the cancellation of an answered subscription without its tag": ([*subscribed(), ended(1)], OF_NO_REQUEST),
    "a cancellation with the tag of another subscription": ([*subscribed(), ended(1, _meta=tag(2))], OF_NO_REQUEST),
    "a cancellation with a tag of the other type": ([*subscribed(), ended(1, _meta=tag("1"))], OF_NO_REQUEST),
    "the cancellation of an earlier subscription": (
        [*subscribed(2), *subscribed(1), ended(2, _meta=tag(2))],
        OF_NO_REQUEST,
    ),
    "a cancellation that does not follow the result directly": (
        [*subscribed(), modern(2, "tools/call", CALL), error(-32603, id=2), ended(1, _meta=tag(1))],
        OF_NO_REQUEST,
    ),
    "the cancellation of an answered request that is not a subscription": (
        [modern(1, "tools/call", CALL), result(1, {"resultType": "complete", "content": []}), ended(1, _meta=tag(1))],
        OF_NO_REQUEST,
    ),
    "the cancellation of a subscription that an error has ended": (
        [modern(1, "subscriptions/listen", {"notifications": {}}), error(-32603, id=1), ended(1, _meta=tag(1))],
        OF_NO_REQUEST,
    ),
    "a log message with an unknown level": (
        [*handshake(LEGACY), notification("server", "notifications/message", {"level": "loud", "data": 1})],
        "$.params.level",
    ),
    "an error of a known code without its data": (
        [modern(1, "tools/list"), error(-32022, id=1)],
        "against JSONRPCMessage, JSONRPCErrorResponse, UnsupportedProtocolVersionError",
    ),
    "null for an id that may be missing": ([*handshake(LEGACY), error(-32700, id=None)], "$.id: null is not"),
    "no id where it is required": ([*handshake("2025-06-18"), error(-32700)], '"id" is a required property'),
    "null for the id of a result": (
        [*handshake("2024-11-05"), ("server", {"jsonrpc": "2.0", "id": None, "result": {}})],
        "a result for no request",
    ),
    "an invalid error with a null id": (
        [*handshake("2024-11-05"), ("server", {"jsonrpc": "2.0", "id": None, "error": {"code": "x", "message": ""}})],
        "$.error.code",
    ),
    "a batch in another revision": (
        [*handshake(LEGACY), request(1, "ping"), ("server", [result(1, {})[1]])],  # type: ignore[list-item] # the same
        f"batch of the server in {LEGACY}, against JSONRPCMessage:",
    ),
    "a null as a request's id": (
        [("client", {"jsonrpc": "2.0", "id": None, "method": "ping"})],
        "this is not a message",
    ),
    "an empty object": ([("client", {})], "this is not a message"),
}


@pytest.mark.parametrize("case", INVALID)
def test_the_fault_of_an_invalid_message_names_its_definition_and_path(case: str) -> None:
    sent, expected = INVALID[case]
    (fault, *_) = faults_of(judge(), *sent)
    assert expected in fault


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":NaN}\n', "what is not JSON (NaN is not a JSON value)"),
        (b"Server started!\n", "what is not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "what is not one line"),
        (b'{"jsonrpc":"2.0",\n"id":1,"method":"ping"}\n', "what is not one line"),
    ],
)
def test_a_line_that_is_not_json_is_a_fault_only_if_our_code_has_sent_it(line: bytes, expected: str) -> None:
    here = judge()
    here.opened(1, None)
    here.observed(1, "server", line, ours=False)
    assert here.faults == []
    here.observed(1, "client", line, ours=True)
    assert expected in here.faults[0]


def test_every_message_of_a_peer_that_the_parser_of_the_package_accepts_is_read() -> None:
    here = judge()
    here.opened(1, None)
    line = deepest()
    here.observed(1, "client", line, ours=False)
    here.observed(1, "server", json.dumps(error(-32602, id=1)[1]).encode() + b"\n", ours=True)
    assert here.faults == []
    assert sys.getrecursionlimit() < 2 * line.count(b"[")  # the limit was restored


def deepest() -> bytes:
    """Return a request with the deepest nesting that the parser of the package accepts at this stack depth."""
    for depth in range(sys.getrecursionlimit(), 0, -1):
        line = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%b%b}}\n' % (b"[" * depth, b"]" * depth)
        with suppress(Undecodable):
            decode(line)
            return line
    raise AssertionError("the parser accepts no nesting")


# -- Exemptions.


@pytest.mark.parametrize("revision", ["2024-11-05", BATCHES, "2025-06-18"])
def test_an_error_with_a_null_id_is_exempt_where_the_schema_requires_an_id(revision: str) -> None:
    here = judge()
    assert faults_of(here, *handshake(revision), error(-32700, id=None)) == []
    assert list(here.counts.exempt.items()) == [(EXEMPTIONS[0].reason, 1)]


def test_a_batch_is_exempt_if_its_errors_are() -> None:
    null: Any = error(-32600, id=None)[1]
    wrong: Any = {"jsonrpc": "2.0", "id": None, "error": {}}
    here, there = judge(), judge()
    assert faults_of(here, *handshake(BATCHES), ("server", [null])) == []
    assert sum(here.counts.exempt.values()) == 2  # the batch, and the error in it
    assert len(faults_of(there, *handshake(BATCHES), ("server", [null, wrong]))) == 2  # the same


@pytest.mark.parametrize("place", ["result", "inputResponses"])
def test_only_numbers_in_answers_to_forms_need_not_be_integers(place: str) -> None:
    def amended(answer: Json) -> Json | None:
        wrapped: Json = {"result": answer} if place == "result" else {"params": {place: {"k": answer}, "x": [1.5]}}
        found = EXEMPTIONS[1].amend(Verdict(wrapped, "client", "result", LEGACY, [], []), upstream())
        return found and (found["result"] if place == "result" else found["params"][place]["k"])

    accepted: Json = {"action": "accept", "content": {"a": 1.5, "b": True, "c": "1.5"}}
    assert amended(accepted) == {"action": "accept", "content": {"a": 1, "b": True, "c": "1.5"}}
    for other in ({"action": "decline", "content": {"a": 1.5}}, {"action": "accept", "content": [1.5]}, {"a": 1.5}):
        assert amended(other) is None


def test_every_test_of_a_file_can_be_exempt_on_one_side() -> None:
    entry = next(each for each in INVALID_ON_PURPOSE if "::" not in each.test)
    wrong = request(1, "initialize")
    for test, faults in ((f"{entry.test}::test_x[y] (call)", 0), (f"{entry.test}_either::test_x", 1)):
        assert len(faults_of(judge(test), wrong)) == faults


def test_an_exemption_for_a_test_applies_only_to_that_test_and_that_side() -> None:
    wrong = request(1, "initialize")
    entry = next(each for each in INVALID_ON_PURPOSE if "never_cancelled" in each.test)
    for test, faults in (
        (entry.test, 0),
        (f"{entry.test}[x] (call)", 0),
        (f"{entry.test}_either (call)", 1),
        ("here", 1),
    ):
        assert len(faults_of(judge(test), wrong)) == faults
    assert len(faults_of(judge(entry.test), *handshake(LEGACY), server_request(1, "sampling/createMessage"))) == 1


def test_invented_methods_of_link_tests_are_counted_separately_and_real_methods_are_checked() -> None:
    bench = f"{BENCHES[0]}test_link.py::test_x (call)"
    here = judge(bench)
    assert faults_of(here, modern(1, "work"), result(1, {"anything": 1})) == []
    assert here.counts.invented.total() == 2
    assert faults_of(judge(bench), ("client", {"jsonrpc": "2.0", "id": 1, "method": "work", "params": [1]})) != []
    assert faults_of(judge(bench), modern(1, "tools/list"), result(1, {"anything": 1})) != []
    assert faults_of(judge(bench), *handshake("2024-11-05")[:1], result("hello", {"revision": "2024-11-05"})) == []
    assert faults_of(judge(bench), *handshake("2024-11-05")[:1], result("hello", {"protocolVersion": "x"})) != []


def test_only_link_tests_may_cancel_a_request_with_an_invented_method() -> None:
    work = [modern(1, "work"), result(1, {"end": 1}), ended(1, _meta=tag(1))]
    called = [
        modern(1, "tools/list"),
        result(1, {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
    ]
    bench = f"{BENCHES[0]}test_peer.py::test_x (call)"
    assert faults_of(judge(bench), *work) == []
    assert OF_NO_REQUEST in faults_of(judge(bench), *work, work[-1])[0]
    assert OF_NO_REQUEST in faults_of(judge(bench), *called, work[-1])[0]


# -- Complete runs.


def test_an_incomplete_run_fails() -> None:
    here = judge()
    faults_of(here, *VALID["a modern call and its result"])
    found = missing(here, upstream())
    assert f"no error of a server in {MODERN} was seen" in found
    assert f"no result of a server in {MODERN} was seen" not in found
    assert "no child process recorded messages" in found
    assert {"no skills:ListSkillsRequest was seen", "no tasks:GetTaskResult was seen"} <= set(found)
    assert sum("unused exemption" in fault for fault in found) == len(EXEMPTIONS) + len(INVALID_ON_PURPOSE)


def test_every_test_with_an_exemption_exists() -> None:
    for entry in INVALID_ON_PURPOSE:
        path, _, name = entry.test.partition("::")
        assert (f"async def {name}(" if name else "async def test_") in (ROOT / path).read_text("utf-8")


def test_every_request_of_every_revision_has_a_definition_of_its_result() -> None:
    for revision in upstream().revisions.values():
        assert {("client", "tools/call"), ("client", "tools/list")} <= revision.requests.keys()
        for role, method in revision.requests:
            for part in revision.for_result(role, method, {}, {}):
                assert set(part.definitions) <= revision.definitions.keys()
                assert revision.faults(Part(part.definitions), None)


def test_a_report_counts_by_revision_and_role() -> None:
    here = judge()
    faults_of(here, *VALID["a batch of answers"])
    assert list(table(here.counts))[:3] == [
        "checked against upstream's schema: 8 messages",
        f"    {BATCHES} client: 3 requests, 1 notifications",
        f"    {BATCHES} server: 3 results, 1 batches",
    ]
