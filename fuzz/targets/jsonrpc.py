"""JSON-RPC messages: read as the specification says, refused with a message that can be sent, and written as read."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from fuzz.source import Source
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
    Reply,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    is_object,
    parse_line,
    parse_message,
)

_MEMBERS = ("jsonrpc", "id", "method", "params", "result", "error")
_ABSENT = object()


def target(data: bytes) -> None:
    """Read the bytes as a line, or build a message from them and read that."""
    source = Source(data)
    if source.flag():
        _read_line(source.rest())
    else:
        _read_value(_message(source))


def _read_line(line: bytes) -> None:
    message = parse_line(line)
    if isinstance(message, Malformed) and message.code == PARSE_ERROR:
        assert message.id is None
        _can_be_refused(message)
        return
    value = json.loads(
        line, parse_constant=_refuse
    )  # the second decoder accepts the same input and returns the same value
    assert message == (value if isinstance(value, list) else parse_message(value))
    assert json.loads(encode(value)) == value
    if not isinstance(value, list):
        _read_value(value)


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def _message(source: Source) -> dict[str, Any]:
    """Return an object that is nearly a message, or is one."""
    value: dict[str, Any] = {"jsonrpc": "2.0"}
    for name in _MEMBERS[1:]:
        match source.below(4):
            case 1:
                value[name] = _usual(source, name)
            case 2:
                value[name] = source.json()
            case _:
                pass
    if source.below(8) == 7:
        value[source.choose(_MEMBERS)] = source.json()
    return value


def _usual(source: Source, name: str) -> Any:
    match name:
        case "id":
            return source.choose((1, "1", 2**70, "", source.text()))
        case "method":
            return source.text()
        case "error":
            return {"code": source.choose((-32600, 0, 5)), "message": source.text(), "data": source.json()}
        case _:
            return source.object()


def _read_value(value: Any) -> None:
    message = parse_message(value)
    assert type(message) is _kind(value), (message, value)
    if isinstance(message, Malformed):
        assert message.code in {INVALID_REQUEST, INVALID_PARAMS}
        _can_be_refused(message)
    if not isinstance(message, Notification) and message.id is not None:
        assert message.id == value["id"]
        assert type(message.id) is type(value["id"])
    written = _written(message)
    if written is not None:
        assert written.endswith(b"\n")
        assert written.count(b"\n") == 1
        assert parse_line(written) == message


def _can_be_refused(message: Malformed) -> None:
    refusal = parse_line(encode_error(message.id, message.code, message.fault))
    assert isinstance(refusal, ErrorReply)
    assert (refusal.id, refusal.code) == (message.id, message.code)


def _kind(value: Any) -> type[Message]:
    """Return the kind of a JSON value, by JSON-RPC 2.0 and the additions of MCP."""
    if not is_object(value):
        return Malformed
    versioned, id = value.get("jsonrpc") == "2.0", value.get("id", _ABSENT)
    identified = type(id) in {int, str}
    if "method" in value:
        good = versioned and type(value["method"]) is str and is_object(value.get("params", {}))
        if not good or not (identified or id is _ABSENT):
            return Malformed
        return JsonRpcRequest if identified else Notification
    if "result" not in value and "error" not in value:
        return Malformed
    if not versioned or ("result" in value and "error" in value):
        return BrokenResponse
    if "result" in value:
        return Reply if identified and is_object(value["result"]) else BrokenResponse
    error = value["error"]
    readable = is_object(error) and type(error.get("code")) is int and type(error.get("message")) is str
    return ErrorReply if readable and (identified or id is None or id is _ABSENT) else BrokenResponse


def _written(message: Message) -> bytes | None:
    match message:
        case JsonRpcRequest(id=id, method=method, params=params):
            return encode_request(id, method, params)
        case Notification(method=method, params=params):
            return encode_notification(method, params)
        case Reply(id=id, result=result):
            return encode_result(id, result)
        case ErrorReply(id=id, code=code, message=text, data=more) if len(text) < 1000:
            return encode_error(id, code, text, more)
        case _:
            return None
