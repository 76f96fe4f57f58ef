"""The reading of a line of JSON as a whole message, of the class that the specification has for its method."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, overload

import attrs
import msgspec

from trio_mcp import types
from trio_mcp._errors import StructureError
from trio_mcp.types._converter import profile_of, structurer
from trio_mcp.types._faults import kind_of
from trio_mcp.types._model import JSONObject, Model
from trio_mcp.types._tables import ERRORS, METHODS, REVISIONS

__all__ = ["read_message"]

_T = TypeVar("_T")


def read_message(
    line: bytes | bytearray | str, *, revision: str | None = None, method: str | None = None
) -> types.Message:
    """Return the message that a line of JSON holds, in the class of its method: `CallToolRequest` for `tools/call`.

    A response does not say which request it answers, so its class depends on `method`: `CallToolResultResponse` for
    `tools/call`. Without it the class is `JSONRPCResultResponse`, whose `result.extra` holds the members of the result
    as they were received. An error has the class of its code if the revision has one, such as
    `UnsupportedProtocolVersionError`, otherwise `JSONRPCErrorResponse`. A method that the revision does not have
    becomes a `JSONRPCRequest` or a `JSONRPCNotification`, whose params are a dict.

    `_meta` of params and results is checked too, and stays a dict. `unstructure` returns the JSON value of the message.

    Args:
        line: one JSON object, in UTF-8 if it is bytes; white space around it is ignored.
        revision: the protocol revision whose rules apply; None for those of all revisions together.
        method: the method of the request that the line answers. It is ignored if the line is not a result.

    Raises:
        StructureError: the line is not JSON, or not a message of the revision, which is the fault of its sender. The
            message names the revision, and every fault by its path. A batch of revision 2025-03-26 is an array: give
            `structure` its JSON value and `JSONRPCBatchRequest` or `JSONRPCBatchResponse`.
        ValueError: the revision is unknown.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#messages
    """
    profile = profile_of(revision)
    value = _decoded(line, revision)
    message = _message(value, revision, method)
    member = "result" if "result" in value else "params"
    body = getattr(message, member, None)
    meta, meta_type = getattr(body, "meta", None), profile.metas.get(type(body).__name__)
    if meta is not None and meta_type is not None:
        _structured(meta, meta_type, revision, name=type(message).__name__, at=f"$.{member}._meta")
    return message


def _decoded(line: bytes | bytearray | str, revision: str | None) -> JSONObject:
    try:
        value = msgspec.json.decode(line)
    except (UnicodeError, msgspec.MsgspecError) as error:
        raise _refusal("message", revision, [f"$: not JSON: {error}"]) from None
    except RecursionError:
        raise _refusal("message", revision, ["$: nested too deeply"]) from None
    if kind_of(value) != "object":
        raise _refusal("message", revision, [f"$: expected object, got {kind_of(value)}"])
    return cast("JSONObject", value)


def _message(value: JSONObject, revision: str | None, method: str | None) -> types.Message:
    if "method" in value:
        return cast("types.Message", _structured(value, _class_of(value, revision), revision))
    match "result" in value, "error" in value:
        case True, False:
            return _result(value, revision, method)
        case False, True:
            return cast("types.Message", _structured(value, _class_of_error(value["error"], revision), revision))
        case True, True:
            fault = "a response has either a result or an error, not both"
        case _:
            fault = "a message has a method, a result or an error"
    raise _refusal("message", revision, [f"$: {fault}"])


def _class_of(value: JSONObject, revision: str | None) -> type[Model]:
    """Return the class of a request or a notification."""
    method = value["method"]
    having = _having(method, revision) if kind_of(method) == "string" else []
    if any(METHODS[each][method].kind != "embedded" for each in having):
        return _classes()[method]
    return types.JSONRPCRequest if "id" in value else types.JSONRPCNotification


@cache
def _classes() -> dict[str, type[Model]]:
    """Return the class of each request and notification by its method."""
    unions: tuple[Any, ...] = (
        *(types.ClientNotification, types.ClientRequest),
        *(types.ServerNotification, types.ServerRequest),
    )
    return {str(attrs.fields_dict(cls)["method"].default): cls for union in unions for cls in get_args(union)}


def _result(value: JSONObject, revision: str | None, method: str | None) -> types.Message:
    having = _having(method, revision)
    rows = [row for each in having if (row := METHODS[each][method or ""]).kind == "request"]
    results: Any = tuple(dict.fromkeys(result for row in rows for result in row.results))
    if not results:
        return _structured(value, types.JSONRPCResultResponse, revision)
    name = f"{_classes()[method or ''].__name__.removesuffix('Request')}ResultResponse"
    envelope = _structured(value, types.JSONRPCResultResponse, revision, name=name)
    # Not by the class of the response, whose result may also be that of another revision.
    kind: Any = Union[results]  # noqa: UP007 - a tuple of arms
    result = _structured(value["result"], kind, revision, name=name, at="$.result")
    cls: Any = getattr(types, name)
    return cast("types.Message", cls(id=envelope.id, result=result, extra=envelope.extra))


def _class_of_error(error: Any, revision: str | None) -> type[Model]:
    code: Any = error.get("code") if kind_of(error) == "object" else None
    if kind_of(code) in {"integer", "number"}:
        for each in _revisions(revision):
            shape = ERRORS[each].get(code)
            cls = getattr(types, shape.name) if shape is not None else None
            # The errors of JSON-RPC itself have a class for their body only.
            if cls is not None and "jsonrpc" in attrs.fields_dict(cls):
                return cast("type[Model]", cls)
    return types.JSONRPCErrorResponse


def _having(method: str | None, revision: str | None) -> list[str]:
    """Return the revisions that have a method, among those whose rules apply."""
    return [each for each in _revisions(revision) if method in METHODS[each]]


def _revisions(revision: str | None) -> Iterator[str]:
    """Yield the revisions whose rules apply, newest first."""
    return reversed(REVISIONS) if revision is None else iter((revision,))


@overload
def _structured(value: Any, kind: type[_T], revision: str | None, *, name: str | None = None, at: str = "$") -> _T: ...
@overload
def _structured(value: Any, kind: Any, revision: str | None, *, name: str | None = None, at: str = "$") -> Any: ...
def _structured(value: Any, kind: Any, revision: str | None, *, name: str | None = None, at: str = "$") -> Any:
    """Return the structured value, which stands at a path of the message; its faults name the message."""
    try:
        return structurer(kind, revision)(value)
    except StructureError as error:
        faults = [re.sub(r"^\$", lambda _: at, fault) for fault in error.faults]
        raise _refusal(name or error.type_name, revision, faults) from None


def _refusal(name: str, revision: str | None, faults: list[str]) -> StructureError:
    return StructureError(name if revision is None else f"{name} of revision {revision}", faults)
