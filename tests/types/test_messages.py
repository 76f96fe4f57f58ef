"""Whole messages: a class for every definition of the specification, and the reading of a line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from trio_mcp import StructureError, types

NEWEST = types.REVISIONS[-1]
SCHEMA = Path(__file__).parents[2] / "schema"
META: types.MetaObject = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_every_definition_of_a_revision_exists_under_its_own_name(revision: str) -> None:
    document = json.loads((SCHEMA / f"{revision}.json").read_text("utf-8"))
    defined = document["$defs"].keys() - document["hoisted"].keys()

    assert len(defined) > 70
    assert sorted(defined - {*dir(types)}) == []
    assert [name for name in defined if getattr(types, name, None) is None] == []


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_every_request_has_a_response_and_every_message_an_envelope(revision: str) -> None:
    sent = {method: row for method, row in types.METHODS[revision].items() if row.kind != "embedded"}

    for method, row in sent.items():
        envelope: types.JSONObject = {"id": 1} if row.kind == "request" else {}
        cls = class_of(method)
        assert {"jsonrpc", "method"} <= {each.name for each in cls.__attrs_attrs__}
        with pytest.raises(StructureError, match="required member 'jsonrpc' is missing"):
            types.structure({"method": method, "params": {}, **envelope}, cls, revision=revision)
        if row.kind == "request":
            assert getattr(types, f"{cls.__name__.removesuffix('Request')}ResultResponse") in get_args(types.Message)


def class_of(method: str) -> Any:
    arms = [arm for arm in get_args(types.Message) if arm.__name__.endswith(("Request", "Notification"))]
    (found,) = (arm for arm in arms if {each.name: each.default for each in arm.__attrs_attrs__}["method"] == method)
    return found


def test_a_message_is_built_with_its_constants() -> None:
    request = types.CallToolRequest(id=1, params=types.CallToolRequestParams(name="add", arguments={"a": 1}))

    assert types.unstructure(request) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1}},
    }


def test_a_request_that_may_be_sent_inside_a_result_has_its_envelope_only_in_the_legacy_era() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}

    request = types.read_message(json.dumps(message), revision="2025-06-18")

    assert request == types.ListRootsRequest(jsonrpc="2.0", id=1)
    assert types.unstructure(request, revision="2025-06-18") == message
    assert types.unstructure(types.ListRootsRequest(), revision=NEWEST) == {"method": "roots/list"}


def test_former_names_of_definitions_are_other_names_of_the_same_class() -> None:
    assert types.JSONRPCError is types.JSONRPCErrorResponse
    assert types.ResourceReference is types.ResourceTemplateReference


def test_a_request_is_read_in_the_class_of_its_method() -> None:
    request = types.read_message(
        line(id="a", method="tools/call", params={"name": "add", "_meta": META}), revision=NEWEST
    )

    assert isinstance(request, types.CallToolRequest)
    assert (request.id, request.params.name, request.params.meta) == ("a", "add", META)


def test_a_notification_is_read_in_the_class_of_its_method() -> None:
    notification = types.read_message(
        line(method="notifications/progress", params={"progressToken": 1, "progress": 0.5}).decode(),
        revision="2024-11-05",
    )

    assert notification == types.ProgressNotification(
        params=types.ProgressNotificationParams(progress_token=1, progress=0.5)
    )


def test_without_a_revision_a_method_of_any_revision_has_its_class() -> None:
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}

    assert isinstance(types.read_message(line(id=1, method="ping")), types.PingRequest)
    assert isinstance(types.read_message(line(id=1, method="initialize", params=initialize)), types.InitializeRequest)
    assert isinstance(types.read_message(line(id=1, method="server/discover", params={})), types.DiscoverRequest)


@pytest.mark.parametrize("method", ["com.example/weather", "ping", "elicitation/create"])
def test_a_method_that_the_revision_does_not_have_becomes_a_plain_message(method: str) -> None:
    request = types.read_message(line(id=1, method=method, params={"city": "Ulm"}), revision=NEWEST)
    notification = types.read_message(line(method=method), revision=NEWEST)

    assert request == types.JSONRPCRequest(id=1, method=method, params={"city": "Ulm"})
    assert notification == types.JSONRPCNotification(method=method)


def test_a_response_is_read_in_the_class_of_the_method_that_it_answers() -> None:
    result = {"content": [{"type": "text", "text": "5"}]}

    old = types.read_message(line(id=1, result=result, more=1), revision="2025-06-18", method="tools/call")
    new = types.read_message(
        line(id=1, result={**result, "resultType": "complete"}), revision=NEWEST, method="tools/call"
    )

    assert isinstance(old, types.CallToolResultResponse)
    assert old.result == types.CallToolResult(content=[types.TextContent(text="5")])
    assert old.extra == {"more": 1}
    assert isinstance(new, types.CallToolResultResponse)
    assert isinstance(new.result, types.CallToolResult)


def test_a_response_to_a_request_of_a_server_is_read_in_its_class_in_the_legacy_era() -> None:
    answer = line(id=1, result={"action": "decline"})

    assert types.read_message(answer, revision="2025-06-18", method="elicitation/create") == types.ElicitResultResponse(
        id=1, result=types.ElicitResult(action="decline")
    )


def test_the_result_has_only_the_types_that_the_revision_gives_it() -> None:
    with pytest.raises(StructureError, match=r"revision 2025-06-18: \$\.result: required member 'content' is missing"):
        types.read_message(line(id=1, result={"requestState": "x"}), revision="2025-06-18", method="tools/call")

    questions = types.read_message(
        line(id=1, result={"resultType": "input_required", "requestState": "x"}), method="tools/call"
    )
    assert isinstance(questions, types.CallToolResultResponse)
    assert isinstance(questions.result, types.InputRequiredResult)


@pytest.mark.parametrize("method", [None, "com.example/weather", "notifications/progress"])
def test_a_response_to_an_unknown_method_keeps_its_result_as_received(method: str | None) -> None:
    response = types.read_message(line(id=7, result={"sky": ["grey"]}), revision="2025-11-25", method=method)

    assert response == types.JSONRPCResultResponse(id=7, result=types.Result(extra={"sky": ["grey"]}))
    assert types.unstructure(response) == {"jsonrpc": "2.0", "id": 7, "result": {"sky": ["grey"]}}


def test_an_error_is_read_in_the_class_of_its_code() -> None:
    body = {"code": -32022, "message": "no", "data": {"supported": [NEWEST], "requested": "1999-01-01"}}

    error = types.read_message(line(id=1, error=body), revision=NEWEST)

    assert isinstance(error, types.UnsupportedProtocolVersionError)
    assert error.error.data.requested == "1999-01-01"
    assert types.read_message(line(id=1, error=body)) == error
    assert types.unstructure(error, revision=NEWEST) == {"jsonrpc": "2.0", "id": 1, "error": body}


@pytest.mark.parametrize("code", [-32602, -32022, -1])
def test_an_error_without_a_class_for_its_code_is_a_plain_error(code: int) -> None:
    error = types.read_message(line(id=1, error={"code": code, "message": "no"}), revision="2025-06-18")

    assert error == types.JSONRPCErrorResponse(id=1, error=types.Error(code=code, message="no"))


FAULTS: list[tuple[bytes | str, str]] = [
    (b"{", "message of revision 2026-07-28: $: not JSON: Input data was truncated"),
    (b'"\xff"', "message of revision 2026-07-28: $: not JSON: 'utf-8' codec can't decode"),
    (b"[" * 100_000, "message of revision 2026-07-28: $: nested too deeply"),
    ("3", "message of revision 2026-07-28: $: expected object, got integer"),
    (b"[]", "message of revision 2026-07-28: $: expected object, got array"),
    (line(id=1), "message of revision 2026-07-28: $: a message has a method, a result or an error"),
    (line(id=1, result={}, error={}), "message of revision 2026-07-28: $: a response has either a result or an error"),
    (line(id=1, method=["ping"]), "JSONRPCRequest of revision 2026-07-28: $.method: expected string, got array"),
    (line(id=1, error=3), "JSONRPCErrorResponse of revision 2026-07-28: $.error: expected object, got integer"),
    (
        line(id=True, method="tools/call", params={"_meta": META}),
        (
            "CallToolRequest of revision 2026-07-28: $.id: expected integer or string, got boolean; "
            "$.params: required member 'name' is missing"
        ),
    ),
    (
        line(method="tools/list", params={"_meta": META}),
        "ListToolsRequest of revision 2026-07-28: $: required member 'id' is missing",
    ),
    (
        line(id=1, method="tools/list", params={"_meta": {"io.modelcontextprotocol/protocolVersion": 3}}),
        (
            "ListToolsRequest of revision 2026-07-28: "
            '$.params._meta["io.modelcontextprotocol/protocolVersion"]: expected string, got integer'
        ),
    ),
    (
        line(id=1, error={"code": -32022, "message": "no", "data": {}}),
        "UnsupportedProtocolVersionError of revision 2026-07-28: $.error.data: required member 'requested' is missing",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), FAULTS, ids=[str(number) for number in range(len(FAULTS))])
def test_a_line_that_is_not_a_message_is_refused_with_place_and_revision(text: bytes | str, sentence: str) -> None:
    with pytest.raises(StructureError) as caught:
        types.read_message(text, revision=NEWEST)

    assert str(caught.value).startswith(f"not a {sentence}")


def test_without_a_revision_a_refusal_names_only_the_message() -> None:
    with pytest.raises(StructureError, match=r"^not a PingRequest: \$: required member 'id' is missing$"):
        types.read_message(line(method="ping"))


def test_an_unknown_revision_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="unknown protocol revision '1999-01-01'"):
        types.read_message(b"{", revision="1999-01-01")


def test_a_batch_is_read_by_its_definition() -> None:
    batch = types.structure(
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "com.example/note"}],
        types.JSONRPCBatchRequest,
        revision="2025-03-26",
    )

    assert batch == [types.JSONRPCRequest(id=1, method="ping"), types.JSONRPCNotification(method="com.example/note")]


def test_the_body_of_an_error_has_one_code() -> None:
    assert types.structure({"code": -32603.0, "message": "no"}, types.InternalError).code == -32603
    for code in (-32602, True, "-32603", None):
        with pytest.raises(StructureError, match=r"\$\.code: expected -32603, got "):
            types.structure({"code": code, "message": "no"}, types.InternalError)
    either = types.structure({"code": -32602, "message": "no"}, types.InternalError | types.InvalidParamsError)
    assert either == types.InvalidParamsError(message="no")


def test_a_program_that_reads_no_whole_messages_does_not_load_their_classes() -> None:
    program = (
        "import sys\nfrom trio_mcp import types\n"
        "types.structure({}, types.CompleteResult | types.EmptyResult)\n"
        "assert 'trio_mcp.types._generated.messages' not in sys.modules\n"
        "types.PingRequest\nassert 'trio_mcp.types._generated.messages' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
