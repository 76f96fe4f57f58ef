"""JSON-RPC 2.0 messages: JSON values to messages and back, and the right error code for what is neither.

Rules of this file:

1. A request has a string or integer id, never null; a notification has none. `1` and `"1"` are different ids, and
   neither `true` nor `1.0` is an id.
2. A response has an id and exactly one of `result` and `error`. A broken response is never answered: it is
   `BrokenResponse`, and fails the request it names, if it names one.
3. Anything else is `Malformed`: it carries the error to answer with, and the id to answer to where one could be read.
4. `params` are an object when present. (JSON-RPC would allow an array; MCP has no positional parameters.)
5. Members this file does not know are ignored.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#messages
and https://www.jsonrpc.org/specification
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

from attrs import define, frozen

from ._json import JsonObject, Undecodable, decode, encode, is_array, is_object

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "BrokenResponse",
    "ErrorReply",
    "Malformed",
    "Message",
    "Notification",
    "Reply",
    "Request",
    "RequestId",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "is_id",
    "parse_line",
    "parse_message",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_ERROR_CHARACTERS = 10_000
"""How much of an error's message is sent."""

RequestId: TypeAlias = "str | int"


@define
class Request:
    """Asks for exactly one response."""

    id: RequestId
    method: str
    params: JsonObject | None


@define
class Notification:
    """Tells something; is never answered."""

    method: str
    params: JsonObject | None


@define
class Reply:
    """The response that carries a result."""

    id: RequestId
    result: JsonObject


@define
class ErrorReply:
    """The response that carries an error. `id` is None where the sender could not read the request's."""

    id: RequestId | None
    code: int
    message: str
    data: Any


@define
class BrokenResponse:
    """A response that breaks a rule; `id` names the request it was meant for, if that could be read."""

    id: RequestId | None
    fault: str


@frozen
class Malformed:
    """No message. `code` and `fault` say what to answer, `id` to whom (None: it could not be read)."""

    id: RequestId | None
    code: int
    fault: str


Message: TypeAlias = "Request | Notification | Reply | ErrorReply | BrokenResponse | Malformed"


def parse_line(line: bytes) -> Message | list[Any]:
    """Return the message in *line*, or the list of values where the line is a JSON array (a batch)."""
    try:
        value = decode(line)
    except Undecodable as exc:
        return Malformed(None, PARSE_ERROR, f"not a JSON message: {exc}")
    return value if is_array(value) else parse_message(value)


def parse_message(value: Any) -> Message:
    """Return the message that the JSON value *value* is."""
    if not is_object(value):
        return Malformed(None, INVALID_REQUEST, f"a message is a JSON object, not {_kind(value)}")
    if "method" in value:
        return _parse_call(value)
    if "result" in value or "error" in value:
        return _parse_response(value)
    return Malformed(_readable_id(value), INVALID_REQUEST, "a message has a 'method', a 'result' or an 'error'")


def _parse_call(value: JsonObject) -> Message:
    method, params = value["method"], value.get("params")
    fault = _call_fault(value, method)
    if fault is not None:
        return Malformed(_readable_id(value), INVALID_REQUEST, fault)
    if params is not None and not is_object(params):
        if "id" not in value:
            return Malformed(
                None, INVALID_PARAMS, f"'params' of notification {method!r} are {_kind(params)}, not an object"
            )
        return Malformed(value["id"], INVALID_PARAMS, f"'params' of {method!r} are {_kind(params)}, not an object")
    return Request(value["id"], method, params) if "id" in value else Notification(method, params)


def _call_fault(value: JsonObject, method: Any) -> str | None:
    if value.get("jsonrpc") != "2.0":
        return "the member 'jsonrpc' is not \"2.0\""
    if type(method) is not str:
        return f"'method' is {_kind(method)}, not a string"
    if "params" in value and value["params"] is None:
        return f"'params' of {method!r} are null, not an object"
    if "id" in value and not is_id(value["id"]):
        return f"the 'id' of {method!r} is {_kind(value['id'])}, not a string or an integer"
    return None


def _parse_response(value: JsonObject) -> Message:
    id, error = value.get("id"), value.get("error")
    if value.get("jsonrpc") != "2.0" or ("result" in value) == ("error" in value):
        return BrokenResponse(_readable_id(value), "a response has 'jsonrpc' \"2.0\" and one of 'result' and 'error'")
    if "result" in value:
        if not is_id(id):
            return BrokenResponse(None, "a result without a usable 'id'")
        result = value["result"]
        return (
            Reply(id, result)
            if is_object(result)
            else BrokenResponse(id, f"'result' is {_kind(result)}, not an object")
        )
    if not is_object(error) or type(error.get("code")) is not int or type(error.get("message")) is not str:
        return BrokenResponse(
            _readable_id(value), "'error' is not an object with an integer 'code' and a string 'message'"
        )
    if id is not None and not is_id(id):
        return BrokenResponse(None, f"the 'id' of an error is {_kind(id)}")
    return ErrorReply(id, error["code"], error["message"], error.get("data"))


def is_id(value: object) -> TypeGuard[RequestId]:
    """Tell whether a decoded value may identify a request, or be a progress token."""
    return type(value) is int or type(value) is str


def _readable_id(value: JsonObject) -> RequestId | None:
    id = value.get("id")
    return id if is_id(id) else None


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an object" if is_object(value) else "an array"


def encode_request(id: RequestId, method: str, params: JsonObject | None) -> bytes:
    """Return the line of a request; raises `NotJsonError` for what JSON cannot say."""
    if params is None:
        return encode({"jsonrpc": "2.0", "id": id, "method": method}) + b"\n"
    return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n"


def encode_notification(method: str, params: JsonObject | None) -> bytes:
    """Return the line of a notification; raises `NotJsonError` for what JSON cannot say."""
    if params is None:
        return encode({"jsonrpc": "2.0", "method": method}) + b"\n"
    return encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def encode_result(id: RequestId, result: JsonObject) -> bytes:
    """Return the line of a response with a result; raises `NotJsonError` for what JSON cannot say."""
    return encode({"jsonrpc": "2.0", "id": id, "result": result}) + b"\n"


def encode_error(id: RequestId | None, code: int, message: str, data: Any = None, *, omit_id: bool = False) -> bytes:
    """Return the line of a response with an error; raises `NotJsonError` for what JSON cannot say.

    Args:
        omit_id: leave an unknown id out, as revisions from 2025-11-25 want it, instead of sending JSON-RPC's null.
    """
    if len(message) > MAX_ERROR_CHARACTERS:  # it may repeat what the peer has sent, which may be megabytes
        message = f"{message[:MAX_ERROR_CHARACTERS]} [...]"
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    if id is None and omit_id:
        return encode({"jsonrpc": "2.0", "error": error}) + b"\n"
    return encode({"jsonrpc": "2.0", "id": id, "error": error}) + b"\n"
