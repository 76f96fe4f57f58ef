"""The header fields of Streamable HTTP that mirror parts of a message, and the encoding of their values.

Rules of values:

1. A value of visible ASCII with inner spaces is written as it is. Any other value, and one that looks like the encoded
   form, is written as Base64 of its UTF-8 between `=?base64?` and `?=`. So no value can end its field.
2. The markers are exact: a value with only one of them, or with an upper-case one, is read as it is. A value with both
   that is not Base64 of UTF-8 is a fault.
3. The revision and the method are never encoded, because receivers do not decode them.

Rules of mirrored arguments of tools (`x-mcp-header` in the input schema):

4. The annotation is an HTTP token, unique in the schema of its tool without regard to case. It belongs to a property of
   type string, integer or boolean that is reached from the root through `properties` alone. Anything else is a fault of
   the schema, and a client hides the tool.
5. The value at exactly that path is mirrored. An absent value, or null, has no field.
6. Integers are compared as numbers and are within +-(2**53 - 1), because a reader of the field may have only floats.

Names are lower-case here, as in ASGI; HTTP ignores their case.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
and https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from attrs import frozen

from ..schema import LISTS_OF_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS
from ._jsonrpc import JsonObject, is_array, is_object
from ._revisions import LEGACY_REVISIONS, REVISION_KEY

__all__ = [
    "METHOD_FIELD",
    "NAME_FIELD",
    "PARAM_PREFIX",
    "PROXY_ADVICE",
    "VERSION_FIELD",
    "MirroredParam",
    "decode_field",
    "encode_field",
    "is_plain_field",
    "is_verbatim_field",
    "mirrored_params",
    "name_of",
    "param_fault",
    "param_fields",
    "request_fields",
]

VERSION_FIELD = "mcp-protocol-version"
METHOD_FIELD = "mcp-method"
NAME_FIELD = "mcp-name"
PARAM_PREFIX = "mcp-param-"
PROXY_ADVICE = (
    "a proxy may have removed it: let it pass, or pin a revision that needs no such field "
    f"(revision={LEGACY_REVISIONS[-1]!r} of the client, or revisions=[{LEGACY_REVISIONS[-1]!r}] of the server)"
)
"""What to do about a header field that is missing, for errors."""

_NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of the params that `Mcp-Name` mirrors, by method."""

_PREFIX, _SUFFIX = "=?base64?", "?="
_PLAIN = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_ALLOWED = re.compile(r"[\t -~]*")


def is_plain_field(text: str) -> bool:
    """Return True if *text* can be the value of a field as it is: visible ASCII with inner spaces."""
    return _PLAIN.fullmatch(text) is not None


def encode_field(value: str | int | bool) -> str:
    """Return *value* encoded for an `Mcp-Name` or `Mcp-Param-` field (rule 1): visible ASCII and spaces, or empty.

    Raises:
        ValueError: the string holds a lone surrogate, which UTF-8 cannot encode.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if is_plain_field(text) and not (text.startswith(_PREFIX) and text.endswith(_SUFFIX)):
        return text
    return _PREFIX + binascii.b2a_base64(text.encode(), newline=False).decode() + _SUFFIX


def decode_field(text: str) -> str:
    """Return the decoded value of an `Mcp-Name` or `Mcp-Param-` field (rules 1 and 2).

    Raises:
        ValueError: it holds characters that no field may have, or broken Base64; the message says which.
    """
    text = text.strip(" \t")
    if not _ALLOWED.fullmatch(text):
        raise ValueError("it holds characters other than visible ASCII, space and tab")
    if not (text.startswith(_PREFIX) and text.endswith(_SUFFIX) and len(text) >= len(_PREFIX + _SUFFIX)):
        return text
    try:
        return binascii.a2b_base64(text[len(_PREFIX) : -len(_SUFFIX)], strict_mode=True).decode()
    except binascii.Error as exc:
        raise ValueError(f"it is not Base64: {exc}") from None
    except UnicodeDecodeError:
        raise ValueError("its Base64 is not UTF-8") from None


def is_verbatim_field(text: str) -> bool:
    """Return True if `decode_field` returns *text* as it is; False if that is not certain."""
    return text.isascii() and text.isprintable() and not text.startswith(_PREFIX) and text == text.strip(" ")


def name_of(method: str, params: JsonObject | None) -> str | None:
    """Return the name that `Mcp-Name` mirrors; None if the method has no name, or the params lack it."""
    name = (params or {}).get(_NAMED_BY.get(method, ""))
    return name if type(name) is str else None


def request_fields(method: str, params: JsonObject | None) -> Mapping[str, str]:
    """Return the fields that mirror the revision, the method and the name of a modern message.

    The revision is left out if `params._meta` names none.

    Raises:
        ValueError: the revision or the method cannot be the value of a field; such a message cannot be sent over HTTP.
    """
    meta = (params or {}).get("_meta")
    revision = meta.get(REVISION_KEY) if is_object(meta) else None
    revision = revision if type(revision) is str else None
    name = name_of(method, params)
    if name is not None and len(name) > _LONGEST_KNOWN:
        return _request_fields(method, revision, name)
    return _known_request_fields(method, revision, name)


def _request_fields(method: str, revision: str | None, name: str | None) -> Mapping[str, str]:
    fields = {METHOD_FIELD: _plain("method", method)}
    if revision is not None:
        fields[VERSION_FIELD] = _plain("protocol version", revision)
    if name is not None:
        fields[NAME_FIELD] = encode_field(name)
    return fields


_LONGEST_KNOWN = 256
"""The length of the longest name whose fields are remembered."""
_known_request_fields = lru_cache(maxsize=256)(_request_fields)


def _plain(what: str, text: str) -> str:
    if not is_plain_field(text):
        raise ValueError(f"the {what} {text[:100]!r} cannot go into a header field: it is not plain ASCII")
    return text


_ANNOTATION = "x-mcp-header"
_PROPERTIES = "properties"
_MIRRORED_TYPES = ("string", "integer", "boolean")
_LARGEST_INTEGER = 2**53 - 1
_TOO_LARGE = "an integer that is mirrored in a header lies within +-(2**53 - 1)"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_INTEGER = re.compile(r"(-?[0-9]{1,20})(?:\.0+)?")


@frozen
class MirroredParam:
    """An argument that is mirrored in a header field."""

    path: tuple[str, ...]
    """The path of its value in the arguments: the names of the properties from the root on."""
    field: str
    """The name of the field in lower case, for example `mcp-param-region`."""


@frozen
class _Position:
    """A schema inside the input schema, and its path."""

    place: str
    path: tuple[str, ...] | None
    """The names of the properties on its path; None if the path contains anything else."""
    schema: JsonObject


def mirrored_params(input_schema: JsonObject) -> tuple[MirroredParam, ...]:
    """Return the mirrored arguments of a tool, in the order of its input schema.

    Raises:
        ValueError: annotations break the constraints (rule 4); the message names every one and its place.
    """
    params: dict[str, MirroredParam] = {}
    faults: list[str] = []
    for position in _positions(input_schema):
        if _ANNOTATION not in position.schema:
            continue
        name, path = position.schema[_ANNOTATION], position.path
        fault = _fault_of(position, name)
        if fault is None and name.lower() in params:
            fault = f"{name!r} is used twice"
        if fault is not None or not path:
            faults.append(f"{position.place}.{_ANNOTATION}: {fault}")
        else:
            params[name.lower()] = MirroredParam(path, PARAM_PREFIX + name.lower())
    if faults:
        raise ValueError("; ".join(faults))
    return tuple(params.values())


def _fault_of(position: _Position, name: Any) -> str | None:
    if not position.path:
        return "only a property that is reached by 'properties' alone can be mirrored"
    if type(name) is not str:
        return "expected string"
    if not _TOKEN.fullmatch(name):
        return f"{name[:100]!r} is not an HTTP token"
    if position.schema.get("type") not in _MIRRORED_TYPES:
        return "only a property of type string, integer or boolean can be mirrored"
    return None


def _positions(root: JsonObject) -> Iterator[_Position]:
    """Yield every schema inside *root*, itself first, outer ones before inner ones."""
    waiting = [_Position("$", (), root)]  # a stack, because recursion could go too deep
    while waiting:
        position = waiting.pop()
        yield position
        waiting += reversed([*_properties(position), *_others(position)])


def _properties(outer: _Position) -> Iterator[_Position]:
    properties = outer.schema.get(_PROPERTIES)
    for name, schema in properties.items() if is_object(properties) else ():
        if is_object(schema):
            path = None if outer.path is None else (*outer.path, name)
            yield _Position(f"{outer.place}.properties.{name}", path, schema)


def _others(outer: _Position) -> Iterator[_Position]:
    """Yield the inner schemas that do not belong to one property by its name."""
    for key, value in outer.schema.items():
        members: list[tuple[str, Any]] = []
        if key in SINGLE_SCHEMAS and is_object(value):
            members = [(f".{key}", value)]
        elif key in LISTS_OF_SCHEMAS and is_array(value):
            members = [(f".{key}[{index}]", member) for index, member in enumerate(value)]
        elif key in NAMED_SCHEMAS and key != _PROPERTIES and is_object(value):
            members = [(f".{key}.{name}", member) for name, member in value.items()]
        for place, member in members:
            if is_object(member):
                yield _Position(outer.place + place, None, member)


def param_fields(params: Sequence[MirroredParam], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a call with these arguments, by name. An argument of another type has none.

    Raises:
        ValueError: an argument cannot be mirrored (rule 6, or a lone surrogate); the message names it.
    """
    fields: dict[str, str] = {}
    for param in params:
        value = _value_at(param.path, arguments)
        if value is None:
            continue
        if type(value) is int and abs(value) > _LARGEST_INTEGER:
            raise ValueError(f"{_shown(param)}: {_TOO_LARGE}")
        fields[param.field] = encode_field(value)
    return fields


def param_fault(
    params: Sequence[MirroredParam], arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> str | None:
    """Return the first difference between the header fields of a call and its arguments; None if there is none.

    Args:
        params: the mirrored arguments of the called tool.
        arguments: the arguments of the call.
        headers: the header fields by lower-case name.
    """
    faults = (_disagreement(param, _value_at(param.path, arguments), headers.get(param.field)) for param in params)
    return next((fault for fault in faults if fault is not None), None)


def _disagreement(param: MirroredParam, value: str | int | bool | None, text: str | None) -> str | None:
    if value is None:
        return None if text is None else f"{param.field} repeats {_shown(param)}, which the call does not have"
    if text is None:
        return f"{param.field} is missing, which repeats {_shown(param)}; {PROXY_ADVICE}"
    if type(value) is int and abs(value) > _LARGEST_INTEGER:
        return f"{_shown(param)}: {_TOO_LARGE}"
    try:
        decoded = decode_field(text)
    except ValueError as exc:
        return f"{param.field}: {exc}"
    return None if _says(decoded, value) else f"{param.field} differs from {_shown(param)}"


def _says(text: str, value: str | int | bool) -> bool:
    if type(value) is int:
        number = _INTEGER.fullmatch(text)
        return number is not None and int(number[1]) == value
    return text == (str(value).lower() if type(value) is bool else value)


def _value_at(path: Sequence[str], arguments: Mapping[str, Any]) -> str | int | bool | None:
    """Return the value at *path*; None if there is none of a type that can be mirrored."""
    value: Any = arguments
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(name)
    if type(value) is float and value.is_integer():
        return int(value)  # 42.0 is an integer in JSON
    return value if type(value) is str or type(value) is int or type(value) is bool else None


def _shown(param: MirroredParam) -> str:
    return f"the argument {'.'.join(param.path)!r}"
