"""The header fields of Streamable HTTP that mirror a message, and how a value gets into a field and out again.

Rules of this file:

1. A value that is visible ASCII with inner spaces stands for itself. Any other, and one that looks like the encoded
   form, is Base64 of its UTF-8 between `=?base64?` and `?=`. So nothing that could end a field ever gets into one.
2. The markers are exact: what has only one of them, or an upper-case one, stands for itself. What has both and is not
   Base64 of UTF-8 is a fault.
3. The revision and the method are never encoded, because nobody decodes them.

Names are lower-case here, as ASGI has them; in HTTP their case means nothing.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping

from ._envelope import REVISION_KEY
from ._json import JsonObject, is_object

__all__ = [
    "METHOD_FIELD",
    "NAME_FIELD",
    "PARAM_PREFIX",
    "VERSION_FIELD",
    "decode_field",
    "encode_field",
    "is_plain_field",
    "name_of",
    "request_fields",
]

VERSION_FIELD = "mcp-protocol-version"
METHOD_FIELD = "mcp-method"
NAME_FIELD = "mcp-name"
PARAM_PREFIX = "mcp-param-"

_NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Which member of its params a method's `Mcp-Name` repeats."""

_PREFIX, _SUFFIX = "=?base64?", "?="
_PLAIN = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_ALLOWED = re.compile(r"[\t -~]*")


def is_plain_field(text: str) -> bool:
    """Tell whether *text* can be the value of a field as it is: visible ASCII, with spaces between."""
    return _PLAIN.fullmatch(text) is not None


def encode_field(value: str | int | bool) -> str:
    """Return *value* as that of an `Mcp-Name` or `Mcp-Param-` field (rule 1): visible ASCII and spaces, or nothing.

    Raises:
        ValueError: the text holds a lone surrogate, which UTF-8 cannot say.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if is_plain_field(text) and not (text.startswith(_PREFIX) and text.endswith(_SUFFIX)):
        return text
    return _PREFIX + binascii.b2a_base64(text.encode(), newline=False).decode() + _SUFFIX


def decode_field(text: str) -> str:
    """Return what the value of an `Mcp-Name` or `Mcp-Param-` field stands for (rules 1 and 2).

    Raises:
        ValueError: it holds characters that no field may have, or broken Base64; the text says what.
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


def name_of(method: str, params: JsonObject | None) -> str | None:
    """Return what the `Mcp-Name` of a message repeats; None where its method has no name, or its params lack it."""
    name = (params or {}).get(_NAMED_BY.get(method, ""))
    return name if type(name) is str else None


def request_fields(method: str, params: JsonObject | None) -> dict[str, str]:
    """Return the fields that repeat what the body of a modern message says: its revision, its method, its name.

    The revision is left out where `params._meta` names none.

    Raises:
        ValueError: the revision or the method cannot stand in a field; such a message cannot go over HTTP.
    """
    meta = (params or {}).get("_meta")
    revision = meta.get(REVISION_KEY) if is_object(meta) else None
    fields = {METHOD_FIELD: _plain("method", method)}
    if type(revision) is str:
        fields[VERSION_FIELD] = _plain("protocol version", revision)
    name = name_of(method, params)
    if name is not None:
        fields[NAME_FIELD] = encode_field(name)
    return fields


def _plain(what: str, text: str) -> str:
    if not is_plain_field(text):
        raise ValueError(f"the {what} {text[:100]!r} cannot go into a header field: it is not plain ASCII")
    return text
