"""The HTTP request of an operation: its arguments in the path, the query, the header, the cookies and the body.

Rules of this file:

1. Every style of OpenAPI is there. Where it leaves open what a deep object is, each level is a name or a number in
   brackets: ``filter[price][from]=1``, ``items[0][id]=7``.
2. What a value could change beyond its own place is refused or encoded: a value in a path is one segment, and a value
   in the header is one line.
3. A null is not sent, except inside JSON: only JSON has such a value. In a path, where something must stand, it is
   refused.

Specification: https://spec.openapis.org/oas/v3.2.0.html#style-values
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from attrs import frozen

from .. import ToolError
from ..types import JSONObject
from ..wire import is_array, is_object
from ._media_types import FORM, PARTS, base_of, is_json
from ._operations import Body, Encoding, Operation, Parameter
from ._schemas import alternatives, is_binary

__all__ = ["ApiRequest", "http_request"]

_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_OF_QUERY: Final = _RESERVED.translate({ord(each): None for each in "&=#+"})
"""The reserved characters that have no meaning of their own in a query or a form."""
_OF_PATH: Final = _RESERVED.translate({ord(each): None for each in "/?#"})
_ENCODED: Final = re.compile(r"%25([0-9A-Fa-f]{2})")
"""A character that was encoded before, and once more by mistake."""
_SEPARATORS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "cookie": ",", "deepObject": ","}
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
    given = [(each, value) for each, value in given if value is not None or _is_in_json(each)]
    query = [field for parameter, value in given if "query" in parameter.place for field in _in_query(parameter, value)]
    if query:
        target += ("&" if "?" in target else "?") + "&".join(query)
    headers = {each.name: _in_header(each, value) for each, value in given if each.place == "header"}
    cookies = [field for each, value in given if each.place == "cookie" for field in _in_query(each, value)]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    if operation.body is None or "body" not in arguments:
        return ApiRequest(operation.method, target, headers)
    content, parts, media_type = _body(operation.body, arguments["body"])
    if media_type is not None:
        headers["Content-Type"] = media_type
    return ApiRequest(operation.method, target, headers, content, parts)


def _is_in_json(parameter: Parameter) -> bool:
    return parameter.media_type is not None and is_json(parameter.media_type)


def _text(value: Any) -> str:
    """Return the text of a value: that of JSON for numbers and truth values, and nothing for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encoded(value: Any, *, safe: str = "") -> str:
    """Return the text of a value with percent signs for all characters but unreserved and safe ones.

    If there are safe ones, characters that are encoded already stay so.
    """
    text = quote(_text(value), safe=safe)
    return _ENCODED.sub(r"%\1", text) if safe else text


def _without_nulls(value: Any) -> Any:
    """Return a list or an object without the nulls in it (rule 3)."""
    if is_object(value):
        return {name: each for name, each in value.items() if each is not None}
    return [each for each in value if each is not None] if is_array(value) else value


def _in_path(parameter: Parameter, value: Any) -> str:
    """Return a value in its style, as one segment of the path or a part of one."""
    if parameter.media_type is not None:
        return _encoded(_written(parameter, value))
    first, between, named = {"simple": ("", ",", False), "label": (".", ".", False), "matrix": (";", ";", True)}[
        parameter.style
    ]
    safe = _OF_PATH if parameter.allow_reserved else ""
    separator, name = between if parameter.explode else ",", _encoded(parameter.name)
    value = _without_nulls(value)
    if is_object(value):
        pairs = [(_encoded(key, safe=safe), _encoded(each, safe=safe)) for key, each in value.items()]
        text = separator.join(f"{key}{'=' if parameter.explode else ','}{each}" for key, each in pairs)
        text = f"{name}={text}" if named and not parameter.explode else text
    elif is_array(value):
        values = [_encoded(each, safe=safe) for each in value]
        if named and parameter.explode:
            text = separator.join(f"{name}={each}" for each in values)
        else:
            text = (f"{name}=" if named else "") + separator.join(values)
    else:
        text = f"{name}={_encoded(value, safe=safe)}" if named else _encoded(value, safe=safe)
    segment = first + text
    if value is None or segment in {"", ".", ".."}:
        raise ToolError(f"argument {parameter.argument!r}: {value!r} cannot be in a path")
    return segment


def _in_query(parameter: Parameter, value: Any) -> Iterator[str]:
    """Yield the fields of a value in its style; cookies have the same form."""
    if parameter.place == "querystring" and base_of(parameter.media_type or FORM) == FORM:
        yield from _fields(value, parameter.argument, {})
    elif parameter.place == "querystring":
        yield _encoded(_written(parameter, value))
    elif parameter.media_type is not None:
        yield f"{_encoded(parameter.name)}={_encoded(_written(parameter, value))}"
    else:
        yield from _styled(parameter.name, value, parameter)


def _styled(name: str, value: Any, how: Parameter | Encoding) -> Iterator[str]:
    """Yield the fields of a value in a style of the query."""
    safe, style, key = _OF_QUERY if how.allow_reserved else "", how.style or "form", _encoded(name)
    value = _without_nulls(value)
    if style == "deepObject" and (is_object(value) or is_array(value)):
        yield from (f"{_encoded(inner)}={_encoded(each, safe=safe)}" for inner, each in _deep(name, value))
    elif is_object(value):
        if how.explode:
            yield from (f"{_encoded(inner)}={_encoded(each, safe=safe)}" for inner, each in value.items())
        else:
            texts = [_encoded(each, safe=safe) for pair in value.items() for each in pair]
            yield f"{key}={_SEPARATORS[style].join(texts)}"
    elif is_array(value):
        texts = [_encoded(each, safe=safe) for each in value]
        if how.explode and style in {"form", "cookie"}:
            yield from (f"{key}={each}" for each in texts)
        else:
            yield f"{key}={_SEPARATORS[style].join(texts)}"
    elif value is not None:
        yield f"{key}={_encoded(value, safe=safe)}"


def _deep(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and the values of a deep object (rule 1)."""
    if is_object(value):
        for key, each in value.items():
            yield from _deep(f"{name}[{key}]", each)
    elif is_array(value):
        for at, each in enumerate(value):
            yield from _deep(f"{name}[{at}]", each)
    elif value is not None:
        yield name, value


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.media_type is not None:
        text = _written(parameter, value)
    elif is_object(value):
        between = "=" if parameter.explode else ","
        text = ",".join(f"{key}{between}{_text(each)}" for key, each in _without_nulls(value).items())
    elif is_array(value):
        text = ",".join(map(_text, _without_nulls(value)))
    else:
        text = _text(value)
    if not text.isascii() or not text.isprintable():
        raise ToolError(f"argument {parameter.argument!r}: a header field can hold printable ASCII characters only")
    return text


def _written(parameter: Parameter, value: Any) -> str:
    return json.dumps(value) if _is_in_json(parameter) else _text(value)


# --- Bodies ---


def _body(body: Body, value: Any) -> tuple[bytes | None, Sequence[tuple[str, Part]] | None, str | None]:
    """Return the content or the parts of a body, and its media type, if the HTTP library does not make it."""
    if is_json(body.media_type):
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), None, body.media_type
    base = base_of(body.media_type)
    if base == FORM:
        return "&".join(_fields(value, "body", body.encodings)).encode(), None, body.media_type
    if base == PARTS:
        return None, [*_parts(body, value)], None
    if _is_bytes(body.schema):
        return _decoded(value, "body"), None, body.media_type
    return _text(value).encode("utf-8", "surrogatepass"), None, body.media_type


def _is_bytes(schema: Any) -> bool:
    return is_object(schema) and is_binary(schema, schema.get("$defs", {}))


def _fields(value: Any, argument: str, encodings: Mapping[str, Encoding]) -> Iterator[str]:
    """Yield the fields of a form; a list is one field for each of its values, unless its encoding says otherwise."""
    if not is_object(value):
        raise ToolError(f"argument {argument!r}: a form is an object")
    for name, each in value.items():
        encoding = encodings.get(name)
        if encoding is not None and encoding.style is not None:
            yield from _styled(name, each, encoding)
        elif encoding is not None and encoding.media_type is not None:
            yield f"{_encoded(name)}={_encoded(_text(each))}"
        else:
            for one in each if is_array(each) else [each]:
                if one is not None:
                    yield f"{_encoded(name)}={_encoded(one)}"


def _parts(body: Body, value: Any) -> Iterator[tuple[str, Part]]:
    """Yield the parts of a form: files from base64, text, and JSON for what is nested."""
    if not is_object(value):
        raise ToolError("argument 'body': a form is an object")
    for name, each in value.items():
        encoding = body.encodings.get(name)
        media_type = None if encoding is None else encoding.media_type
        if encoding is not None and encoding.style == "deepObject":
            yield from ((inner, _part(one, None)) for inner, one in _deep(name, each))
            continue
        has_files = _holds_files(body.schema, name)
        for one in each if is_array(each) else [each]:
            if has_files and one is not None:
                yield name, (name, _decoded(one, f"body.{name}"), media_type or "application/octet-stream")
            elif one is not None:
                yield name, _part(one, media_type)


def _part(value: Any, media_type: str | None) -> Part:
    """Return a part that is no file."""
    usual = "application/json" if is_object(value) or is_array(value) else "text/plain; charset=utf-8"
    return None, _text(value).encode("utf-8", "surrogatepass"), media_type or usual


def _holds_files(schema: Any, name: str) -> bool:
    """Return True if a property of a form, or each value of its list, is bytes."""
    definitions: JSONObject = schema.get("$defs", {}) if is_object(schema) else {}
    for form in alternatives(schema, definitions):
        properties = form.get("properties")
        for kind in alternatives(properties.get(name) if is_object(properties) else None, definitions):
            if is_binary(kind, definitions) or is_binary(kind.get("items"), definitions):
                return True
    return False


def _decoded(value: Any, argument: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ToolError(f"argument {argument!r}: expected bytes in base64") from None
