"""Reading and writing JSON-RPC messages, and the responses to malformed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    BrokenResponse,
    ErrorReply,
    JsonRpcRequest,
    Malformed,
    Message,
    Notification,
    NotJsonError,
    Reply,
    decode,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    is_id,
    parse_line,
    parse_message,
)
from trio_mcp.wire._jsonrpc import MAX_ERROR_CHARACTERS

V = {"jsonrpc": "2.0"}
GOOD: list[tuple[Any, Message]] = [
    ({**V, "id": 1, "method": "m"}, JsonRpcRequest(1, "m", None)),
    ({**V, "id": "1", "method": "m", "params": {"a": 1}}, JsonRpcRequest("1", "m", {"a": 1})),
    ({**V, "id": 0, "method": ""}, JsonRpcRequest(0, "", None)),
    ({**V, "id": -(2**70), "method": "m"}, JsonRpcRequest(-(2**70), "m", None)),
    ({**V, "method": "n"}, Notification("n", None)),
    ({**V, "method": "n", "params": {}}, Notification("n", {})),
    ({**V, "id": 1, "method": "m", "result": {}, "unknown": 1}, JsonRpcRequest(1, "m", None)),
    ({**V, "id": 1, "result": {}}, Reply(1, {})),
    ({**V, "id": "a", "result": {"b": []}, "unknown": 1}, Reply("a", {"b": []})),
    ({**V, "id": 1, "error": {"code": -1, "message": "no"}}, ErrorReply(1, -1, "no", None)),
    ({**V, "id": None, "error": {"code": -1, "message": "no", "data": [1]}}, ErrorReply(None, -1, "no", [1])),
    ({**V, "error": {"code": -1, "message": "no"}}, ErrorReply(None, -1, "no", None)),
]
MALFORMED: list[tuple[Any, int | str | None, int, str]] = [
    (1, None, INVALID_REQUEST, "JSON object, not a number"),
    (1.5, None, INVALID_REQUEST, "not a number"),
    (True, None, INVALID_REQUEST, "not a boolean"),
    ("text", None, INVALID_REQUEST, "not a string"),
    (None, None, INVALID_REQUEST, "not null"),
    ([], None, INVALID_REQUEST, "not an array"),
    ({}, None, INVALID_REQUEST, "has a 'method', a 'result' or an 'error'"),
    ({**V, "id": 7}, 7, INVALID_REQUEST, "has a 'method'"),
    ({**V, "id": True}, None, INVALID_REQUEST, "has a 'method'"),
    ({"id": 1, "method": "m"}, 1, INVALID_REQUEST, "'jsonrpc' is not"),
    ({"jsonrpc": 2.0, "id": 1, "method": "m"}, 1, INVALID_REQUEST, "'jsonrpc' is not"),
    ({"jsonrpc": "1.0", "method": "m"}, None, INVALID_REQUEST, "'jsonrpc' is not"),
    ({**V, "id": 1, "method": 5}, 1, INVALID_REQUEST, "'method' is a number"),
    ({**V, "id": 1, "method": None}, 1, INVALID_REQUEST, "'method' is null"),
    ({**V, "method": {}}, None, INVALID_REQUEST, "'method' is an object"),
    ({**V, "id": None, "method": "m"}, None, INVALID_REQUEST, "the 'id' of 'm' is null"),
    ({**V, "id": True, "method": "m"}, None, INVALID_REQUEST, "the 'id' of 'm' is a boolean"),
    ({**V, "id": 1.0, "method": "m"}, None, INVALID_REQUEST, "the 'id' of 'm' is a number"),
    ({**V, "id": [1], "method": "m"}, None, INVALID_REQUEST, "the 'id' of 'm' is an array"),
    ({**V, "id": 1, "method": "m", "params": None}, 1, INVALID_REQUEST, "'params' of 'm' are null"),
    ({**V, "method": "m", "params": None}, None, INVALID_REQUEST, "'params' of 'm' are null"),
    ({**V, "id": 1, "method": "m", "params": [1]}, 1, INVALID_PARAMS, "'params' of 'm' are an array"),
    ({**V, "id": "x", "method": "m", "params": "p"}, "x", INVALID_PARAMS, "'params' of 'm' are a string"),
    ({**V, "method": "n", "params": 3}, None, INVALID_PARAMS, "'params' of notification 'n' are a number"),
]
BROKEN: list[tuple[Any, int | str | None, str]] = [
    ({"id": 1, "result": {}}, 1, "one of 'result' and 'error'"),
    ({"jsonrpc": "2", "id": True, "result": {}}, None, "one of 'result' and 'error'"),
    ({**V, "id": 1, "result": {}, "error": {"code": 1, "message": ""}}, 1, "one of 'result' and 'error'"),
    ({**V, "id": 1, "result": {}, "error": None}, 1, "one of 'result' and 'error'"),
    ({**V, "result": {}}, None, "without a usable 'id'"),
    ({**V, "id": None, "result": {}}, None, "without a usable 'id'"),
    ({**V, "id": 1.0, "result": {}}, None, "without a usable 'id'"),
    ({**V, "id": False, "result": {}}, None, "without a usable 'id'"),
    ({**V, "id": 1, "result": []}, 1, "'result' is an array"),
    ({**V, "id": 1, "result": None}, 1, "'result' is null"),
    ({**V, "id": "1", "result": 3}, "1", "'result' is a number"),
    ({**V, "id": 1, "error": None}, 1, "'error' is not an object"),
    ({**V, "id": 1, "error": "no"}, 1, "'error' is not an object"),
    ({**V, "id": 1, "error": {"code": 1.0, "message": ""}}, 1, "integer 'code'"),
    ({**V, "id": 1, "error": {"code": True, "message": ""}}, 1, "integer 'code'"),
    ({**V, "id": 1, "error": {"code": 1}}, 1, "string 'message'"),
    ({**V, "id": {}, "error": {"message": ""}}, None, "integer 'code'"),
    ({**V, "id": True, "error": {"code": 1, "message": ""}}, None, "the 'id' of an error is a boolean"),
    ({**V, "id": 1.5, "error": {"code": 1, "message": ""}}, None, "the 'id' of an error is a number"),
]


@pytest.mark.parametrize(("value", "message"), GOOD)
def test_a_message_is_read_as_its_kind(value: Any, message: Message) -> None:
    assert parse_message(value) == message
    assert parse_line(encode(value)) == message


@pytest.mark.requirement("B.1-P1a")
@pytest.mark.parametrize(("value", "id", "code", "fault"), MALFORMED)
def test_a_malformed_message_has_the_error_and_the_id_of_its_response(
    value: Any, id: int | str | None, code: int, fault: str
) -> None:
    message = parse_message(value)

    assert isinstance(message, Malformed)
    assert (message.id, message.code) == (id, code)
    assert type(message.id) is type(id)
    assert fault in message.fault


@pytest.mark.requirement("B.1-P4b", "B.1-P5")
@pytest.mark.parametrize(("value", "id", "fault"), BROKEN)
def test_a_broken_response_has_the_id_of_its_request(value: Any, id: int | str | None, fault: str) -> None:
    message = parse_message(value)

    assert isinstance(message, BrokenResponse)
    assert message.id == id
    assert type(message.id) is type(id)
    assert fault in message.fault


@pytest.mark.parametrize(
    "line", [b"junk", b'{"jsonrpc"', b"\xff", pytest.param(b"[" * 100_000, id="deep"), b'{"id": NaN}']
)
def test_a_line_that_is_not_json_is_a_parse_error_without_id(line: bytes) -> None:
    message = parse_line(line)

    assert isinstance(message, Malformed)
    assert (message.id, message.code) == (None, PARSE_ERROR)
    assert message.fault.startswith("not a JSON message: ")


@pytest.mark.parametrize("values", [[], [1], [{**V, "id": 1, "method": "m"}, None]])
def test_an_array_is_a_batch_of_values(values: list[Any]) -> None:
    assert parse_line(encode(values)) == values


@pytest.mark.requirement("B.1-P2a")
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3))
def test_only_strings_and_integers_are_ids(value: Any) -> None:
    assert is_id(value) == (isinstance(value, str | int) and not isinstance(value, bool))


VALUES: list[Any] = [None, True, 1, 1.0, "2.0", "m", [], {}, {"code": 1, "message": "no"}]


MEMBERS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"])


@given(st.dictionaries(MEMBERS, st.sampled_from(VALUES)))
def test_every_object_is_read_as_a_message_and_ids_are_never_coerced(value: dict[str, Any]) -> None:
    message = parse_message(value)

    if not isinstance(message, Notification) and message.id is not None:
        assert is_id(value["id"])
        assert message.id == value["id"]


@given(st.dictionaries(MEMBERS | st.just("other"), st.sampled_from(VALUES)))
def test_a_line_is_read_as_its_value(value: dict[str, Any]) -> None:
    message = parse_line(encode(value))

    assert message == parse_message(value)
    assert type(message) is type(parse_message(value))


def test_the_last_of_two_equal_members_counts() -> None:
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "a", "\\u006dethod": "b", "id": "2"}'

    assert parse_line(line) == JsonRpcRequest("2", "b", None)


@pytest.mark.requirement("B.1-P1a", "B.1-P4b", "B.1-P5", "B.1-P6a", "B.5-P1a")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (encode_request(1, "m", None), {**V, "id": 1, "method": "m"}),
        (encode_request("a", "m", {}), {**V, "id": "a", "method": "m", "params": {}}),
        (encode_notification("n", None), {**V, "method": "n"}),
        (encode_notification("n", {"a": None}), {**V, "method": "n", "params": {"a": None}}),
        (encode_result(1, {}), {**V, "id": 1, "result": {}}),
        (encode_error(1, -1, "no"), {**V, "id": 1, "error": {"code": -1, "message": "no"}}),
        (encode_error("1", 5, "no", 0), {**V, "id": "1", "error": {"code": 5, "message": "no", "data": 0}}),
        (encode_error(None, -1, "no"), {**V, "id": None, "error": {"code": -1, "message": "no"}}),
        (encode_error(None, -1, "no", omit_id=True), {**V, "error": {"code": -1, "message": "no"}}),
        (encode_error(3, -1, "no", omit_id=True), {**V, "id": 3, "error": {"code": -1, "message": "no"}}),
    ],
)
def test_messages_are_written_as_one_line(line: bytes, message: dict[str, Any]) -> None:
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_a_long_error_message_is_shortened() -> None:
    line = encode_error(1, -1, "x" * 1_000_000)

    assert len(line) < MAX_ERROR_CHARACTERS + 100
    assert decode(line)["error"]["message"].endswith("x [...]")
    assert decode(encode_error(1, -1, "x" * MAX_ERROR_CHARACTERS))["error"]["message"] == "x" * MAX_ERROR_CHARACTERS


def test_values_that_are_not_json_are_refused_when_a_message_is_written() -> None:
    bad = {"a": float("nan")}
    writers: list[Callable[[], bytes]] = [
        lambda: encode_request(1, "m", bad),
        lambda: encode_notification("n", bad),
        lambda: encode_result(1, bad),
        lambda: encode_error(1, -1, "no", bad),
    ]
    for write in writers:
        with pytest.raises(NotJsonError, match=r"\.a: NaN"):
            write()
