"""The kinds of media types: JSON, forms, text, and bytes.

Specification: https://www.rfc-editor.org/rfc/rfc6838
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["FORM", "PARTS", "base_of", "charset_of", "is_json", "is_range", "is_text"]

FORM: Final = "application/x-www-form-urlencoded"
PARTS: Final = "multipart/form-data"

_JSON: Final = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json")
_TEXT: Final = re.compile(
    r"text/.+|.+/(?:.+\+)?(?:json|xml|yaml)|application/(?:x-)?(?:yaml|ndjson|jsonl|json-lines|javascript|graphql|sql)"
)
_CHARSET: Final = re.compile(r"""charset=["']?([\w.:-]+)""", re.IGNORECASE)


def base_of(media_type: str) -> str:
    """Return a media type in small letters without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def charset_of(media_type: str) -> str:
    """Return the character set that a media type states, and otherwise ``utf-8``."""
    stated = _CHARSET.search(media_type)
    return "utf-8" if stated is None else stated[1]


def is_json(media_type: str) -> bool:
    """Return True for a media type whose content is one JSON value."""
    return _JSON.fullmatch(base_of(media_type)) is not None


def is_text(media_type: str) -> bool:
    """Return True for a media type whose content is text, such as JSON, XML or plain text."""
    return _TEXT.fullmatch(base_of(media_type)) is not None


def is_range(media_type: str) -> bool:
    """Return True for a range of media types, such as ``*/*``."""
    return "*" in base_of(media_type)
