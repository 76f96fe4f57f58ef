"""URI templates: matching inverts expansion, accepts only possible expansions, and takes linear time."""

from __future__ import annotations

import re
import string
from typing import Final

from fuzz.effort import effort
from fuzz.source import Source
from trio_mcp.wire import UriTemplate

Values = dict[str, str | list[str]]

_UNRESERVED: Final = string.ascii_letters + string.digits + "-._~"
_OPERATORS: Final = ("", "+", "#", ".", "/", ";", "?", "&")
_TEXTS: Final = ("/", "-", ".", "?", "#", "&", ";", "=", ",", "://", "ab", "ö", "%2F", "%c3%b6", "x", "{", "}", " ")
_MARKS: Final = ("%", "%2e", "%2F", "%c3", "/", "..", "&x=", ",", "é", " ", "\x00", "=", "a", "?", "#", ";y=")


def target(data: bytes) -> None:
    """Generate a template, expand it, and match the expansion, a mutated one, and an arbitrary string."""
    source = Source(data)
    try:
        template = UriTemplate(_template(source))
    except ValueError as exc:
        assert "\n" not in str(exc)
        return
    expansion = template.expand(_values(source, template))
    _read(template, expansion)
    at = source.below(len(expansion) + 1) if len(expansion) < 256 else 0
    _read(template, expansion[:at] + source.choose(_MARKS) + expansion[at + source.below(3) :])
    _read(template, source.any_text(64))
    _read(template, expansion + source.any_text(8) * source.choose((0, 1, 100, 1000)))


def _template(source: Source) -> str:
    pieces: list[str] = []
    names = list("xyzw")
    for _ in range(1 + source.below(5)):
        if source.flag() and names:
            variables = [names.pop() + source.choose(("", "", "*")) for _ in range(1 + source.below(len(names)))]
            pieces.append(f"{{{source.choose(_OPERATORS)}{','.join(variables)}}}")
        else:
            pieces.append(source.choose(_TEXTS) if source.below(8) else source.any_text(8))
    return "".join(pieces)


def _values(source: Source, template: UriTemplate) -> Values:
    values: Values = {}
    for name in template.variables:
        if source.below(4) == 3:
            continue
        if name in template.exploded or source.below(8) == 7:
            values[name] = [_text(source) for _ in range(source.below(4))]
        else:
            values[name] = _text(source)
    return values


def _text(source: Source) -> str:
    return "".join(source.choose((*_MARKS, "ab", "%zz")) if source.flag() else source.text(6) for _ in range(2))


def _read(template: UriTemplate, uri: str) -> None:
    values, calls = effort(template.match, uri)
    room = (len(uri) + 8) * (1 + template.template.count("{"))
    assert calls <= 200 + 60 * room, f"{calls} calls for {len(uri)} characters"
    if values is None:
        return
    assert values.keys() >= set(template.variables) - template.optional
    assert values.keys() <= set(template.variables)
    assert {name for name, value in values.items() if isinstance(value, list)} <= template.exploded
    again = template.expand(values)
    assert _normalised(again) == _normalised(uri), (template.template, uri, values)
    assert template.match(again) == values


def _normalised(uri: str) -> str:
    """Return the URI with its characters in normal form, by RFC 3986 and RFC 3987."""
    spelled = ""
    for part in re.findall(r"%[0-9A-Fa-f]{2}|[^%]", uri, re.DOTALL):
        if len(part) == 1:
            spelled += part if ord(part) < 0x80 else "".join(f"%{octet:02X}" for octet in part.encode())
        else:
            character = chr(int(part[1:], 16))
            spelled += character if character in _UNRESERVED else part.upper()
    return spelled
