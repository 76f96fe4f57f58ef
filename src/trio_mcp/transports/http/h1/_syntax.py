"""The syntax that both roles of HTTP/1.1 share: the patterns of a head, the framing of a body, and the error.

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = [
    "FIELD",
    "FIELD_VALUE",
    "LENGTH",
    "TOKEN",
    "Fields",
    "HttpSyntaxError",
    "joined_fields",
    "options_of",
    "values_of",
]

TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 # no secret
FIELD_VALUE: Final = r"[\t\x20-\x7e\x80-\xff]*"
FIELD: Final = TOKEN + ":" + FIELD_VALUE + r"\r\n"
"""The pattern of a field line: nothing is folded, no space precedes the colon, values have no control characters."""
LENGTH: Final = re.compile("0|[1-9][0-9]{0,17}")
"""The pattern of `Content-Length`. `str.isdigit` accepts other digits as well. Some read ``010`` as an octal number."""

Fields = Sequence[tuple[str, str]]
"""The names in lower case, and the values without outer whitespace, in the order of the message. Bytes are Latin-1."""


class HttpSyntaxError(Exception):
    """The other side has not spoken HTTP/1.1, or not in a way that has one meaning only.

    Args:
        message: what is wrong; it quotes at most 100 bytes of what was received.
        status: the status with which a server refuses the request.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def joined_fields(fields: Fields) -> Mapping[str, str]:
    """Return the fields by name, the values of repeated ones joined."""
    joined = dict(fields)
    if len(joined) < len(fields):
        joined.clear()
        for name, value in fields:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def values_of(fields: Fields, name: str) -> list[str]:
    """Return the values of the fields with this name, which is in lower case."""
    return [value for each, value in fields if each == name]


def options_of(headers: Mapping[str, str]) -> Sequence[str]:
    """Return the options of the field `Connection`, in lower case."""
    options = headers.get("connection")
    return () if options is None else [option.strip(" \t") for option in options.lower().split(",")]
