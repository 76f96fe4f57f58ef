"""What both halves of HTTP/1.1 share: the patterns of a head, how a body is framed, and the error of whoever breaks it.

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["FIELD", "FIELD_VALUE", "MAX_LENGTH_DIGITS", "TOKEN", "Fields", "HttpSyntaxError", "options_of", "values_of"]

TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD_VALUE: Final = rb"[\t\x20-\x7e\x80-\xff]*"
FIELD: Final = TOKEN + b":" + FIELD_VALUE + rb"\r\n"
"""The pattern of a field line: nothing is folded, no space precedes the colon, values have no control characters."""
MAX_LENGTH_DIGITS: Final = 18

Fields = Sequence[tuple[bytes, bytes]]
"""The names in lower case, and the values, in the order of the message."""


class HttpSyntaxError(Exception):
    """The other side has not spoken HTTP/1.1, or not in a way that has one meaning only.

    Args:
        message: what is wrong; it quotes at most 100 bytes of what was received.
        status: the status with which a server refuses the request.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def values_of(fields: Fields, name: bytes) -> list[bytes]:
    """Return the values of the fields with this name, which is in lower case."""
    return [value for each, value in fields if each == name]


def options_of(fields: Fields) -> set[bytes]:
    """Return the options of the field `Connection`, in lower case."""
    return {option.strip().lower() for name, value in fields if name == b"connection" for option in value.split(b",")}
