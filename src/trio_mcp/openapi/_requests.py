"""The HTTP request of an operation: its arguments in the path, the query, the header, the cookies and the body.

Every style of OpenAPI is there. What a value could change beyond its own place is refused or encoded: a value in a path
is one segment, and a value in the header is one line.

Specification: https://spec.openapis.org/oas/v3.2.0.html#style-values
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from attrs import frozen

from .. import ToolError
from ..types import JSONObject
from ..wire import is_array, is_object
from ._operations import Body, Operation, Parameter, is_json
from ._schemas import is_binary

__all__ = ["ApiRequest", "http_request"]

_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_FORM: Final = "application/x-www-form-urlencoded"
_SEPARATORS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "cookie": ","}
Part: TypeAlias = "tuple[str | None, bytes, str]"
"""The file name, the content and the media type of a part of a form."""


@frozen
class ApiRequest:
    """A request, without the address of its server."""

    method: str
    target: str
    """The path and the query."""
    headers: Mapping[str, str]
    content: bytes | None = None
    parts: Sequence[tuple[str, Part]] | None = None
    """The parts of a body of the type ``multipart/form-data``, by name."""


def http_request(operation: Operation, arguments: Mapping[str, Any]) -> ApiRequest:
    """Return the request that the arguments make.

    Raises:
        ToolError: an argument cannot be in its place.
    """
    given = [(each, arguments[each.argument]) for each in operation.parameters if each.argument in arguments]
    target = operation.path
    for parameter, value in given:
        if parameter.place == "path":
            target = target.replace(f"{{{parameter.name}}}", _in_path(parameter, value))
    query = [field for parameter, value in given if "query" in parameter.place for field in _in_query(parameter, value)]
    if query:
        target += "?" + "&".join(query)
    headers = {each.name: _in_header(each, value) for each, value in given if each.place == "header"}
    cookies = [field for each, value in given if each.place == "cookie" for field in _in_query(each, value)]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    if operation.body is None or "body" not in arguments:
        return ApiRequest(operation.method.upper(), target, headers)
    content, parts, media_type = _body(operation.body, arguments["body"])
    if media_type is not None:
        headers["Content-Type"] = media_type
    return ApiRequest(operation.method.upper(), target, headers, content, parts)


def _text(value: Any) -> str:
    """Return the text of a value: that of JSON for numbers and truth values, and nothing for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encoded(value: Any, *, safe: str = "") -> str:
    return quote(_text(value), safe=safe)


def _pairs(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((_encoded(name), _encoded(each)) for name, each in value.items())


def _in_path(parameter: Parameter, value: Any) -> str:
    """Return a value in its style, as one segment of the path or a part of one."""
    if parameter.media_type is not None:
        return _encoded(_written(parameter, value))
    first, between, named = {"simple": ("", ",", False), "label": (".", ".", False), "matrix": (";", ";", True)}[
        parameter.style
    ]
    separator, name = between if parameter.explode else ",", _encoded(parameter.name)
    if is_object(value):
        text = separator.join(f"{key}{'=' if parameter.explode else ','}{each}" for key, each in _pairs(value))
        text = f"{name}={text}" if named and not parameter.explode else text
    elif is_array(value):
        values = [_encoded(each) for each in value]
        if named and parameter.explode:
            text = separator.join(f"{name}={each}" for each in values)
        else:
            text = (f"{name}=" if named else "") + separator.join(values)
    else:
        text = f"{name}={_encoded(value)}" if named else _encoded(value)
    segment = first + text
    if segment in {"", ".", ".."}:
        raise ToolError(f"argument {parameter.argument!r}: {value!r} cannot be in a path")
    return segment


def _in_query(parameter: Parameter, value: Any) -> Iterator[str]:
    """Yield the fields of a value in its style; cookies have the same form."""
    safe = _RESERVED.translate({ord(each): None for each in "&=#+"}) if parameter.allow_reserved else ""
    name = _encoded(parameter.name)
    if parameter.place == "querystring":
        yield from _fields(value, parameter.argument)
    elif parameter.media_type is not None:
        yield f"{name}={_encoded(_written(parameter, value))}"
    elif is_object(value):
        if parameter.style == "deepObject":
            yield from (f"{name}{_encoded(f'[{key}]')}={_encoded(each, safe=safe)}" for key, each in value.items())
        elif parameter.explode:
            yield from (f"{_encoded(key)}={_encoded(each, safe=safe)}" for key, each in value.items())
        else:
            texts = [_encoded(each, safe=safe) for pair in value.items() for each in pair]
            yield f"{name}={_SEPARATORS[parameter.style].join(texts)}"
    elif is_array(value):
        texts = [_encoded(each, safe=safe) for each in value]
        if parameter.explode and parameter.style in {"form", "cookie"}:
            yield from (f"{name}={each}" for each in texts)
        else:
            yield f"{name}={_SEPARATORS.get(parameter.style, ',').join(texts)}"
    else:
        yield f"{name}={_encoded(value, safe=safe)}"


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.media_type is not None:
        text = _written(parameter, value)
    elif is_object(value):
        between = "=" if parameter.explode else ","
        text = ",".join(f"{key}{between}{_text(each)}" for key, each in value.items())
    elif is_array(value):
        text = ",".join(map(_text, value))
    else:
        text = _text(value)
    if not text.isascii() or not text.isprintable():
        raise ToolError(f"argument {parameter.argument!r}: a header field can hold printable ASCII characters only")
    return text


def _written(parameter: Parameter, value: Any) -> str:
    return json.dumps(value) if is_json(parameter.media_type or "") else _text(value)


# --- Bodies ---


def _body(body: Body, value: Any) -> tuple[bytes | None, Sequence[tuple[str, Part]] | None, str | None]:
    """Return the content or the parts of a body, and its media type, if the HTTP library does not make it."""
    if is_json(body.media_type):
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), None, body.media_type
    if body.media_type == _FORM:
        return "&".join(_fields(value, "body")).encode(), None, _FORM
    if body.media_type == "multipart/form-data":
        return None, [*_parts(body, value)], None
    if is_object(body.schema) and is_binary(body.schema):
        return _decoded(value, "body"), None, body.media_type
    return _text(value).encode("utf-8", "surrogatepass"), None, body.media_type


def _fields(value: Any, argument: str) -> Iterator[str]:
    """Yield the fields of a form; a list is one field for each of its values."""
    if not is_object(value):
        raise ToolError(f"argument {argument!r}: a form is an object")
    for name, each in value.items():
        for one in each if is_array(each) else [each]:
            yield f"{_encoded(name)}={_encoded(one)}"


def _parts(body: Body, value: Any) -> Iterator[tuple[str, Part]]:
    """Yield the parts of a form: files from base64, text, and JSON for what is nested."""
    if not is_object(value):
        raise ToolError("argument 'body': a form is an object")
    schema: Any = body.schema
    properties: JSONObject = schema.get("properties", {}) if is_object(schema) else {}
    for name, each in value.items():
        many = is_array(each)
        kind: Any = properties.get(name, {})
        kind = kind.get("items", {}) if many and is_object(kind) else kind
        for one in each if many else [each]:
            if is_object(kind) and is_binary(kind):
                yield name, (name, _decoded(one, f"body.{name}"), "application/octet-stream")
            elif isinstance(one, Mapping | list):
                yield name, (None, json.dumps(one, ensure_ascii=False).encode(), "application/json")
            else:
                yield name, (None, _text(one).encode(), "text/plain; charset=utf-8")


def _decoded(value: Any, argument: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ToolError(f"argument {argument!r}: expected bytes in base64") from None
