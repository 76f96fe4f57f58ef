"""JSON-RPC 2.0 messages: bytes to lines, lines to JSON values, values to messages, and back.

Rules of this file:

1. A request has a string or integer id, never null; a notification has none. `1` and `"1"` are different ids, and
   neither `true` nor `1.0` is an id.
2. A response has an id and exactly one of `result` and `error`. A broken response is never answered. It becomes
   `BrokenResponse`, and fails the request that it names, if it names one.
3. Any other value becomes `Malformed`, with the error to answer with, and the id to answer to if one could be read.
4. `params` are an object if present. (JSON-RPC allows an array; MCP has no positional parameters.)
5. Unknown members are ignored.
6. JSON is read and written by msgspec. Integers keep every digit. Input with `NaN` or invalid UTF-8 is refused. On
   output msgspec silently writes NaN as null, so `encode` searches for NaN if a null was written, unless the value
   cannot hold floats.
7. One line is one message. A line may end in CR LF. Blank lines are ignored. `without_preamble` removes what editors
   and terminals put before the first message: a byte order mark, and escape sequences.
8. Framing takes linear time: only new bytes are searched. A line that comes in pieces grows in place.
9. A line over the limit takes no more memory than the limit. It is reported once and skipped up to its newline; the
   following lines are read as usual.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#messages and
https://www.jsonrpc.org/specification and
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, TypeGuard, cast

import msgspec
from attrs import define, field, frozen

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "BrokenResponse",
    "ErrorReply",
    "JsonObject",
    "JsonRpcRequest",
    "JsonText",
    "Line",
    "LineFramer",
    "Malformed",
    "Message",
    "NotJsonError",
    "Notification",
    "Oversized",
    "Reply",
    "RequestId",
    "Undecodable",
    "copy_json",
    "decode",
    "decoded",
    "digest",
    "encode",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "encode_result_in_pieces",
    "is_array",
    "is_id",
    "is_object",
    "json_text",
    "parse_line",
    "parse_message",
    "parse_reply",
    "without_preamble",
]


JsonObject: TypeAlias = dict[str, Any]
Line: TypeAlias = bytes | bytearray
"""The bytes of a message. A long one that came in pieces is a `bytearray`, which nobody changes."""
JsonText: TypeAlias = msgspec.Raw
"""A JSON value that is encoded already; `encode` copies it byte for byte."""

_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_encode_lines: Callable[[list[Any]], bytes] = msgspec.json.Encoder().encode_lines
_encode_sorted: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode
_decode: Callable[[bytes | bytearray | memoryview], Any] = msgspec.json.Decoder().decode


_LARGE = 64 * 1024
"""The number of bytes above which a look at the parts of a value is usually faster than a search of its JSON."""
_BYTES_PER_PART = 512
"""With more parts than one for this number of bytes of its JSON, the search is faster."""
_NO_FLOATS = frozenset({str, int, bool, type(None), JsonText})
"""The classes of values that cannot hold a NaN."""


class Undecodable(ValueError):
    """The bytes are not one JSON value. The message names the reason and the place."""


class NotJsonError(ValueError):
    """A Python value cannot be written as JSON. The message names its place."""


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return True if a decoded value is a JSON object."""
    return type(value) is dict


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return True if a decoded value is a JSON array."""
    return type(value) is list


def json_text(data: bytes) -> JsonText:
    """Return *data*, which must be one JSON value, for use as a part of larger values.

    Line breaks between its tokens become spaces, because a message has one line.
    """
    return msgspec.Raw(data.replace(b"\r", b" ").replace(b"\n", b" "))


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Return the JSON value in *data*.

    Raises:
        Undecodable: not JSON, not UTF-8, a number out of range, or nested deeper than the interpreter allows.
    """
    try:
        return _decode(data)
    except UnicodeDecodeError as exc:
        raise Undecodable(f"invalid UTF-8 at byte {exc.start} of a string: {exc.reason}") from None
    except RecursionError:
        raise Undecodable("nested too deep") from None
    except msgspec.MsgspecError as exc:
        raise Undecodable(str(exc)) from None


def encode(value: Any) -> bytes:
    """Return *value* as JSON in UTF-8, on one line.

    Raises:
        NotJsonError: *value* holds something that JSON does not have: NaN, an infinity, a lone surrogate, an object
            of an unknown class, a cycle.
    """
    return _encoded(value, b"")


def _encoded(value: Any, end: Literal[b"", b"\n"]) -> bytes:
    """Return *value* as JSON, followed by *end*; raise what `encode` raises."""
    try:
        data = _line(value) if end else _encode(value)
        has_null = b"null" in data if len(data) <= _LARGE else _has_null(data, value)
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_nothing) if has_null else None
    except RecursionError:
        raise NotJsonError("the value is nested too deep, or contains itself") from None
    except UnicodeEncodeError as exc:
        raise NotJsonError(f"the string {exc.object[:40]!r} holds a lone surrogate") from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as exc:
        raise NotJsonError(str(exc)) from None
    path = None if plain is None else _path_of_non_finite(plain)
    if path is not None:
        raise NotJsonError(f"{path}: NaN and infinities are not JSON")
    return data


def _line(value: Any) -> bytes:
    """Return *value* as JSON with a newline.

    To append the newline to a large message would copy it, which takes as long as to write it. A small one is copied,
    because msgspec reserves 1 KiB for it, and thousands may wait to be sent.
    """
    line = _encode_lines([value])
    return line if len(line) > _LARGE else b"".join((line, b""))


def _has_null(data: bytes, value: Any) -> bool:
    """Return True if the JSON of *value* has a null that may stand for a NaN or an infinity."""
    return not _is_known_to_hold_no_float(value, len(data) // _BYTES_PER_PART) and b"null" in data


def _is_known_to_hold_no_float(value: Any, most_parts: int) -> bool:
    """Return True if *value* has at most *most_parts* parts, of the usual classes, and none of them is a float."""
    found, waiting = 1, [value]
    while waiting:
        part = waiting.pop()
        if is_object(part) or is_array(part):
            found += len(part)
            if found > most_parts:
                return False
            waiting += part.values() if is_object(part) else part
        elif part.__class__ not in _NO_FLOATS:
            return False
    return True


def _nothing(_: JsonText) -> None:
    """Replace encoded JSON, which holds no NaN, while a value is searched for one."""


def copy_json(value: Any) -> Any:
    """Return a copy of *value* as the peer would have received it.

    Raises:
        NotJsonError: as `encode` does.
    """
    return _decode(encode(value))


def digest(value: Any) -> str:
    """Return a digest of *value* that does not depend on the order of members, in 64 characters.

    Raises:
        NotJsonError: as `encode` does.
    """
    encode(value)
    return hashlib.sha256(_encode_sorted(value)).hexdigest()


def _path_of_non_finite(plain: Any) -> str | None:
    """Return the path of the first NaN or infinity in *plain*, which consists of builtins; None if it has none."""
    waiting: list[tuple[str, Any]] = [("$", plain)]  # a stack, because recursion could go too deep
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return path
        members: list[tuple[str, Any]] = []
        if is_object(value):
            members = [(f"{path}.{key}", member) for key, member in value.items()]
        elif is_array(value) or type(value) is tuple:
            members = [(f"{path}[{index}]", member) for index, member in enumerate(cast("Sequence[Any]", value))]
        waiting += reversed(members)
    return None


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_ERROR_CHARACTERS = 10_000
"""How many characters of an error message are sent."""

RequestId: TypeAlias = "str | int"


@define
class JsonRpcRequest:
    """A message that asks for exactly one response."""

    id: RequestId
    method: str
    params: JsonObject | None


@define
class Notification:
    """A message that is never answered."""

    method: str
    params: JsonObject | None


@define
class Reply:
    """A response with a result."""

    id: RequestId
    result: JsonObject


@define
class ErrorReply:
    """A response with an error. `id` is None if the sender could not read the id of the request."""

    id: RequestId | None
    code: int
    message: str
    data: Any


@define
class BrokenResponse:
    """A response that breaks a rule. `id` names its request, if it could be read."""

    id: RequestId | None
    fault: str


@frozen
class Malformed:
    """A value that is not a message. It is answered with `code` and `fault`, and with `id` if it could be read."""

    id: RequestId | None
    code: int
    fault: str


Message: TypeAlias = "JsonRpcRequest | Notification | Reply | ErrorReply | BrokenResponse | Malformed"


def parse_line(line: Line) -> Message | list[Any]:
    """Return the message in *line*, or the list of values if the line is a JSON array (a batch)."""
    message = _usual_message(line)
    if message is not None:
        return message
    try:
        value = decode(line)
    except Undecodable as exc:
        return Malformed(None, PARSE_ERROR, f"not a JSON message: {exc}")
    return value if is_array(value) else parse_message(value)


class _Members(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a usual message."""

    jsonrpc: Any = msgspec.UNSET
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET
    params: Any = msgspec.UNSET
    result: Any = msgspec.UNSET


_decode_members: Callable[[Line], _Members] = msgspec.json.Decoder(_Members).decode


def _usual_message(line: Line) -> JsonRpcRequest | Notification | Reply | None:
    """Return the request, notification or result in *line*; None if it is anything else, or breaks a rule.

    It reads the same as `parse_message`, with a fifth of the calls: most messages are of these kinds.
    """
    try:
        members = _decode_members(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    id, method, params, result = members.id, members.method, members.params, members.result
    has_id = type(id) is int or type(id) is str
    if members.jsonrpc != "2.0" or not (has_id or members.id is msgspec.UNSET):
        return None
    if type(method) is str and result is msgspec.UNSET:
        if params is msgspec.UNSET:
            params = None
        elif type(members.params) is not dict:
            return None
        return JsonRpcRequest(id, method, params) if has_id else Notification(method, params)
    if has_id and type(members.result) is dict and method is msgspec.UNSET:
        return Reply(id, result)
    return None


_NO_TEXT = msgspec.Raw()


class _Response(msgspec.Struct):
    """The members of a response, those of its result not decoded."""

    id: Any = None
    jsonrpc: Any = None
    result: dict[str, msgspec.Raw] | None = None
    error: msgspec.Raw = _NO_TEXT
    method: Any = None


class _CallResult(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The members of the result of a tool, its blocks of content taken apart and nothing else decoded."""

    content: list[dict[str, msgspec.Raw]]
    structured_content: msgspec.Raw = _NO_TEXT
    is_error: msgspec.Raw = _NO_TEXT
    result_type: msgspec.Raw = _NO_TEXT
    meta: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="_meta")

    def members(self) -> Iterator[tuple[str, msgspec.Raw | list[dict[str, msgspec.Raw]]]]:
        """Return the members that were there, with their names."""
        yield "content", self.content
        for name, text in (
            ("structuredContent", self.structured_content),
            ("isError", self.is_error),
            ("resultType", self.result_type),
            ("_meta", self.meta),
        ):
            if text:
                yield name, text


class _CallResponse(msgspec.Struct):
    """The members of a response to a call of a tool."""

    result: _CallResult
    id: Any = None
    jsonrpc: Any = None
    error: msgspec.Raw = _NO_TEXT
    method: Any = None


_decode_response: Callable[[Line], _Response] = msgspec.json.Decoder(_Response).decode
_decode_call_response: Callable[[Line], _CallResponse] = msgspec.json.Decoder(_CallResponse).decode
_LONG = 4096
"""The number of bytes above which `parse_reply` does not decode a member."""


def parse_reply(line: Line, keeps_text: Callable[[RequestId], bool]) -> Reply | None:
    """Return the response with a result in *line*, with the long members of the result as `JsonText`.

    Of the result of a tool, the blocks of content are objects whose long members are `JsonText`, unless they are many
    small ones.

    None if it is any other message or value, or if *keeps_text* returns False for its id: then `parse_line` reads it.
    """
    try:
        response = _split_response(line)
        if response.jsonrpc != "2.0" or not is_id(response.id) or response.method is not None:
            return None
        if response.result is None or response.error or not keeps_text(response.id):
            return None
        if not line.isascii():
            str(line, "utf-8")  # what is skipped is not checked
        result = response.result
        members = result.members() if isinstance(result, _CallResult) else result.items()
        return Reply(response.id, {name: _short_decoded(each) for name, each in members})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Undecodable):
        return None


def _split_response(line: Line) -> _Response | _CallResponse:
    """Return the members of a response, in one pass over its bytes if it is that of a call with large blocks."""
    try:
        response = _decode_call_response(line)
    except msgspec.ValidationError:  # the first member that a result of a tool has not
        return _decode_response(line)
    return response if len(response.result.content) * _LONG < len(line) else _decode_response(line)


def _short_decoded(part: msgspec.Raw | list[dict[str, msgspec.Raw]]) -> Any:
    """Return *part* with every text decoded that is not long."""
    if isinstance(part, list):
        return [{name: _short_decoded(each) for name, each in block.items()} for block in part]
    return part if len(part) > _LONG else decode(part)


def decoded(value: Any) -> Any:
    """Return *value*, a member of a result of `parse_reply` or of one of its blocks, with its `JsonText` decoded.

    Raises:
        Undecodable: as `decode` does.
    """
    if isinstance(value, msgspec.Raw):
        return decode(memoryview(value))
    if is_array(value):
        return [
            {name: decoded(each) if isinstance(each, msgspec.Raw) else each for name, each in block.items()}
            if is_object(block)
            else block
            for block in value
        ]
    return value


def parse_message(value: Any) -> Message:
    """Return the message that the JSON value *value* represents."""
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
    return JsonRpcRequest(value["id"], method, params) if "id" in value else Notification(method, params)


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
    """Return True if a decoded value may be the id of a request, or a progress token."""
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
    """Return the line of a request; raise `NotJsonError` if it cannot be written as JSON."""
    if params is None:
        return _encoded({"jsonrpc": "2.0", "id": id, "method": method}, b"\n")
    return _encoded({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, b"\n")


def encode_notification(method: str, params: JsonObject | None, *, end: Literal[b"", b"\n"] = b"\n") -> bytes:
    """Return the line of a notification; raise `NotJsonError` if it cannot be written as JSON."""
    if params is None:
        return _encoded({"jsonrpc": "2.0", "method": method}, end)
    return _encoded({"jsonrpc": "2.0", "method": method, "params": params}, end)


def encode_result(id: RequestId, result: JsonObject, *, end: Literal[b"", b"\n"] = b"\n") -> bytes:
    """Return the line of a response with a result; raise `NotJsonError` if it cannot be written as JSON."""
    return _encoded({"jsonrpc": "2.0", "id": id, "result": result}, end)


_GAP = msgspec.Raw(b"\0")
"""The place of a long text in a message that is encoded without it. No JSON contains this byte."""


def encode_result_in_pieces(id: RequestId, result: JsonObject) -> list[bytes | memoryview] | None:
    """Return the line of a response in pieces, of which the long texts of the result are some, without a copy of them.

    None if the result has no long text among its members and those of its blocks, or cannot be written as JSON:
    `encode_result` says why.
    """
    if not _may_have_long_texts(result):
        return None
    texts: list[JsonText] = []
    members = {name: _without_long_texts(part, texts) for name, part in result.items()}
    if not texts:
        return None
    try:
        rest = encode_result(id, members).split(b"\0")
    except NotJsonError:
        return None
    pieces: list[bytes | memoryview] = [rest[0]]
    for text, following in zip(texts, rest[1:], strict=True):
        pieces += (memoryview(text), following)
    return pieces


def _may_have_long_texts(result: JsonObject) -> bool:
    """Return False if no member of *result* or of one of its blocks is a `JsonText`, as in most results."""
    for part in result.values():
        if part.__class__ is msgspec.Raw:
            return True
        if is_array(part):
            for block in part:
                if is_object(block):
                    for member in block.values():
                        if member.__class__ is msgspec.Raw:
                            return True
    return False


def _without_long_texts(part: Any, texts: list[JsonText]) -> Any:
    """Return a member of a result with `_GAP` in the place of each long text, which is added to *texts*."""
    if isinstance(part, msgspec.Raw) and len(part) > _LARGE:
        texts.append(part)
        return _GAP
    if is_array(part):
        return [
            {name: _without_long_texts(each, texts) for name, each in block.items()} if is_object(block) else block
            for block in part
        ]
    return part


def encode_error(
    id: RequestId | None,
    code: int,
    message: str,
    data: Any = None,
    *,
    omit_id: bool = False,
    end: Literal[b"", b"\n"] = b"\n",
) -> bytes:
    """Return the line of a response with an error; raise `NotJsonError` if it cannot be written as JSON.

    Args:
        omit_id: omit an unknown id, as revisions from 2025-11-25 on require, instead of sending null.
        end: what follows the message on its line.
    """
    if len(message) > MAX_ERROR_CHARACTERS:  # it may quote megabytes that the peer sent
        message = f"{message[:MAX_ERROR_CHARACTERS]} [...]"
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    if id is None and omit_id:
        return _encoded({"jsonrpc": "2.0", "error": error}, end)
    return _encoded({"jsonrpc": "2.0", "id": id, "error": error}, end)


_PREAMBLE = re.compile(
    rb"(?:\s*(?:\xef\xbb\xbf"  # a byte order mark in UTF-8
    rb"|\x1b\[[0-?]*[ -/]*[@-~]"  # a control sequence, such as a colour
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a command of the operating system, such as a window title
    rb"|\x1b[ -/]*[0-Z\\^-~]))+\s*"  # another escape sequence
)
"""What may come before a message. Escape sequences are those of ECMA-48."""
_FIRST_BYTES = (b"{", b"[{")
"""The first bytes of a message, and of an array of messages; text such as ``[INFO]`` begins otherwise."""


def without_preamble(line: Line) -> Line:
    """Return *line* without byte order marks and terminal escape sequences before a message.

    The line itself is returned if there are none, or if no message follows them; it is empty if nothing follows them.
    """
    found = _PREAMBLE.match(line)
    rest = line if found is None else line[found.end() :]
    return rest if not rest or rest.startswith(_FIRST_BYTES) else line


@frozen
class Oversized:
    """A line that was skipped, because it is longer than the limit."""

    limit: int
    """The number of bytes that a line may have."""


@define(eq=False)
class LineFramer:
    """A splitter of a stream of chunks into lines.

    Args:
        limit: the longest line accepted, in bytes, its newline not counted.
    """

    limit: int
    _begun: bytearray = field(factory=bytearray, init=False)
    """The line that has begun. It grows in place: to join pieces would take their memory twice."""
    _skipping: bool = field(default=False, init=False)

    def feed(self, chunk: bytes) -> Sequence[Line | Oversized]:
        """Take the next bytes; return the lines they complete, in order, without their newlines."""
        if self._begun:
            end = chunk.find(b"\n")
            if end < 0:
                return self._keep(chunk)
            self._begun += memoryview(chunk)[:end]  # a copy of these bytes could keep the line from growing in place
            return [*self.finish(), *self.feed(chunk[end + 1 :])]
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            return self._keep(rest)
        if not rest and not self._skipping and len(head) <= self.limit and b"\n" not in head and not head.isspace():
            return (head,) if head else ()  # what nearly every small chunk is
        lines = head.split(b"\n")
        if self._skipping:  # the first newline ends the line being skipped
            self._skipping = False
            del lines[0]
        checked = self._checked(lines)
        return [*checked, *self._keep(rest)] if rest else checked

    def finish(self) -> Sequence[Line | Oversized]:
        """End the stream; return the last line if its newline is missing."""
        line, self._begun = self._begun, bytearray()
        return self._checked([bytes(line) if len(line) <= _LARGE else line])

    def _keep(self, rest: bytes) -> Sequence[Oversized]:
        if self._skipping:
            return ()
        self._begun += rest
        if len(self._begun) > self.limit:
            self._begun, self._skipping = bytearray(), True
            return (Oversized(self.limit),)
        return ()

    def _checked(self, lines: Sequence[Line]) -> Sequence[Line | Oversized]:
        return [
            line if len(line) <= self.limit else Oversized(self.limit)
            for line in lines
            if len(line) > self.limit or (line and not line.isspace())  # length first, as for a line in pieces
        ]
