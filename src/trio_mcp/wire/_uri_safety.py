r"""Whether a value out of a URI, used in a path, could lead out of its place: what a server asks before a handler runs.

A handler that opens ``root / name`` is right for every name but a few. Those few are refused here, whatever system the
server runs on and whatever its handler makes of the value. Rules of this file: a value escapes where it, or what is
left of it when it is percent-decoded again or normalised (NFKC), holds

1. a control character, NUL among them;
2. a separator (``/`` or ``\``) at its beginning, which makes it absolute, or a network path of Windows;
3. a segment of nothing but dots and spaces: ``..``, and what Windows reads as that or as nothing. A ``;`` or ``:`` ends
   a segment, since some servers and NTFS cut the rest off;
4. a segment that begins with a drive of Windows, ``C:``, which may be any character before a colon;
5. a URI of its own at its beginning: ``file:``, or any scheme before a separator;
6. an overlong encoding of UTF-8, or more layers of percent-encoding than anyone means.

An item of a list is one segment, so there every separator escapes, and so does an empty item before others: joined with
``/``, ``["", "etc"]`` is absolute.

What is not looked for: names of devices on Windows (``NUL``, ``COM1``), which are ordinary words elsewhere; symbolic
links, which only the file system knows; ``~``, ``$HOME`` and the like, which no path means by itself; and characters
that only look like a dot or a slash and stay what they are.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#security-considerations
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

__all__ = ["escapes"]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r".:", re.DOTALL)
"""Windows takes any character before a colon for a drive, not letters alone."""
_END_OF_SEGMENT: Final = re.compile(r"[;:]")
_URI: Final = re.compile(r"(?:(?!file:)[a-z][a-z0-9+.-]*:)*(?:file:|(?<=:)[/\\])", re.IGNORECASE | re.ASCII)
_OVERLONG: Final = re.compile(r"%c[01]%|%e0%[89][0-9a-f]|%f0%8[0-9a-f]", re.IGNORECASE)
_CODE_UNIT: Final = re.compile(r"%u([0-9A-Fa-f]{4})", re.IGNORECASE)
_LAYERS: Final = 4
"""How often a value may be percent-decoded again and still change; each time costs as much as the value is long."""


def escapes(value: str | Sequence[str]) -> bool:
    """Return whether a value could lead out of the place where a path has it.

    Args:
        value: as `UriTemplate.match` returns it, decoded once: text, which may be a relative path of several segments,
            or a list, in which each item is one segment.
    """
    if isinstance(value, str):
        return _escapes(value, segment=False)
    return not all(value[:-1]) or any(_escapes(item, segment=True) for item in value)


def _escapes(value: str, *, segment: bool) -> bool:
    for _ in range(_LAYERS):
        plain = _without_lookalikes(value)
        if any(_leads_out(form, segment=segment) for form in {value, plain}) or _OVERLONG.search(plain):
            return True
        value = unquote(_CODE_UNIT.sub(_code_unit, plain))
        if value == plain:
            return False
    return True


def _without_lookalikes(value: str) -> str:
    """Return what NFKC makes of each character.

    One by one, since it is the time of a whole normalisation that grows with the square of a run of accents; and no
    character that matters here is put together out of several.
    """
    return value.translate({ord(each): unicodedata.normalize("NFKC", each) for each in set(value)})


def _code_unit(found: re.Match[str]) -> str:
    """Return the character of ``%u002e``, an encoding that some servers of Windows decode."""
    return chr(int(found[1], 16))


def _leads_out(path: str, *, segment: bool) -> bool:
    segments = _SEPARATOR.split(path)
    return (
        _CONTROL.search(path) is not None
        or (len(segments) > 1 and (segment or not segments[0]))
        or _URI.match(path.lstrip(" ")) is not None
        or any(map(_is_special, segments))
    )


def _is_special(segment: str) -> bool:
    """Whether a segment of a path is not the name of something inside."""
    if _DRIVE.match(segment):
        return True
    name = _END_OF_SEGMENT.split(segment, 1)[0]
    return name != "" and not name.strip(". ")
