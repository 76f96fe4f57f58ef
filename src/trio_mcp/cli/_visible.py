r"""What a server says, made fit to be shown: on a terminal, characters are commands.

Control characters, marks that turn the direction of text around and characters that nobody can see become escapes such
as ``\x1b``. Every text of a server passes through this file before a terminal gets it.
"""

from __future__ import annotations

import re

__all__ = ["visible", "visible_json", "visible_line"]

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, apart from tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of direction
    "\u00ad\u200b\u2028\u2029\u2060-\u2064\ufeff"  # nothing to see, and line ends that are none
    "\ud800-\udfff\U000e0000-\U000e007f"  # halves of characters, and letters that are not shown
    "]"
)


def visible(text: str) -> str:
    """Return *text*, of one line or several, without anything that a terminal would obey."""
    return _INVISIBLE.sub(_escape, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return *text* on one line, without anything that a terminal would obey."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """Return a JSON text that means the same, without anything that a terminal would obey."""
    return _INVISIBLE.sub(_json_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
