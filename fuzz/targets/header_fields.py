"""Header fields: a value of a message is read back from its field, and cannot break out of the field."""

from __future__ import annotations

import base64
import binascii
import re

from fuzz.source import Source
from trio_mcp.wire import (
    METHOD_FIELD,
    NAME_FIELD,
    REVISION_KEY,
    VERSION_FIELD,
    decode_field,
    encode_field,
    is_plain_field,
    request_fields,
)

_FIELD_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?")  # RFC 9110, 5.5, without tabs and obs-text
_METHODS = ("tools/call", "resources/read", "prompts/get", "tasks/get", "tools/list", "", " x", "é", "a\r\nb")
_PIECES = ("=?base64?", "?=", "=", "AAAA", "/w==", "aGk=", " ", "\t", "\r\n", "é", "a")


def target(data: bytes) -> None:
    """Write a value into a field, read a field, or write the fields of a request."""
    source = Source(data)
    match source.below(3):
        case 0:
            _write(source)
        case 1:
            _read("".join(source.choose(_PIECES) if source.flag() else source.any_text() for _ in range(6)))
        case _:
            _repeat(source)


def _write(source: Source) -> None:
    values: tuple[str | int | bool, ...] = (True, False, source.below(256), -(2**70), source.any_text(200))
    value = source.choose(values)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        field = encode_field(value)
    except ValueError:
        assert any("\ud800" <= character <= "\udfff" for character in text)
        return
    assert _FIELD_VALUE.fullmatch(field)
    assert decode_field(field) == decode_field(f" \t{field}\t ") == text
    assert len(field) <= 12 + 4 * (len(text.encode()) + 2) // 3
    if _FIELD_VALUE.fullmatch(text) and not text.startswith("=?base64?"):
        assert field == text


def _read(field: str) -> None:
    assert is_plain_field(field) is bool(_FIELD_VALUE.fullmatch(field))
    try:
        text = decode_field(field)
    except ValueError:
        assert not _is_sound(field)
        return
    assert _is_sound(field)
    if _FIELD_VALUE.fullmatch(text) or text != field.strip(" \t"):
        assert decode_field(encode_field(text)) == text


def _is_sound(field: str) -> bool:
    """Return True if a field can be read, by a second Base64 decoder."""
    inside = field.strip(" \t")
    if any(not (" " <= character <= "~" or character == "\t") for character in inside):
        return False
    match = re.fullmatch(r"=\?base64\?(.*)\?=", inside)
    if match is None:
        return True
    try:
        octets = base64.b64decode(match[1], validate=True)
        octets.decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return base64.b64encode(octets).decode().rstrip("=")[:-1] == match[1].rstrip("=")[:-1]


def _repeat(source: Source) -> None:
    method, name, revision = source.choose(_METHODS), source.any_text(40), source.any_text()
    params = {"name": name, "uri": name, "taskId": name, "_meta": {REVISION_KEY: revision}}
    try:
        fields = request_fields(method, params)
    except ValueError:
        unsayable = any("\ud800" <= character <= "\udfff" for character in name)
        assert unsayable or not _FIELD_VALUE.fullmatch(method) or not _FIELD_VALUE.fullmatch(revision)
        return
    assert all(_FIELD_VALUE.fullmatch(value) for value in fields.values())
    assert (fields[METHOD_FIELD], fields[VERSION_FIELD]) == (method, revision)
    assert NAME_FIELD not in fields or decode_field(fields[NAME_FIELD]) == name
    assert (NAME_FIELD in fields) is (method not in {"tools/list", ""})
