r"""The one spelling in which URIs and templates are compared, and percent-encoding.

Rules of this file:

1. Two URIs are spelled the same where they differ only in what RFC 3986 (section 6.2.2) and RFC 3987 (section 3.1)
   call the same characters: the case of hex digits (``%2f``, ``%2F``), unreserved characters that are percent-encoded
   (``%41``, ``A``), and characters outside ASCII, which stand for the percent-encoding of their UTF-8 (``ö``,
   ``%C3%B6``). Clients send all of these for one and the same thing, people and models type the last.
2. Nothing else is normalised. The case of scheme and host stays, and ``..`` stays where it is: who removes it does not
   see the attack.
3. A percent sign without two hex digits, octets that are no UTF-8, and ASCII characters that no URI may hold (spaces,
   controls, ``"<>\^`{|}``) have no spelling: such a text is no URI.
4. A spelling has one character for each character meant, so that it may be cut anywhere. Percent-encoded ASCII
   characters other than the unreserved ones are kept apart from those that stand for themselves: ``%2F`` is the lone
   surrogate U+DC2F, where ``/`` is itself. No real text holds lone surrogates.

Specification: https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Final
from urllib.parse import quote

__all__ = [
    "ENCODED_RESERVED",
    "RESERVED",
    "decoded",
    "encoded",
    "encoded_except_reserved",
    "is_uri",
    "spelled",
    "spelled_uri",
]

RESERVED: Final = ":/?#[]@!$&'()*+,;="
_UNRESERVED: Final = string.ascii_letters + string.digits + "-._~"

_NO_URI: Final = re.compile(r"""%(?![0-9A-Fa-f]{2})|[\x00-\x20"<>\\^`{|}\x7f\ud800-\udfff]""")
_WITH_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_OCTETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

_APART: Final = {code: 0xDC00 + code for code in range(0x80) if chr(code) not in _UNRESERVED}
_TOGETHER: Final = {apart: code for code, apart in _APART.items()}

ENCODED_RESERVED: Final = RESERVED.translate(_APART)
"""The reserved characters as a spelling has them where they were percent-encoded."""


@lru_cache(maxsize=1)  # a URI is compared with one template after the other
def spelled_uri(uri: str) -> str | None:
    """Return what `spelled` does; the last answer is remembered."""
    return spelled(uri)


def spelled(uri: str) -> str | None:
    """Return the spelling of a URI or a part of one; None where the text cannot stand in a URI."""
    if _NO_URI.search(uri):
        return None
    try:
        return _OCTETS.sub(_spelled_octets, uri)
    except UnicodeDecodeError:
        return None


def _spelled_octets(octets: re.Match[str]) -> str:
    return bytes.fromhex(octets[0].replace("%", "")).decode().translate(_APART)


def is_uri(text: str) -> bool:
    """Tell whether *text* is a whole URI: a scheme, and after it characters of a URI alone, all of them ASCII."""
    return text.isascii() and _WITH_SCHEME.fullmatch(text) is not None and spelled(text) is not None


def decoded(spelling: str) -> str:
    """Return the text that a spelling stands for: percent-decoded once."""
    return spelling.translate(_TOGETHER)


def encoded(text: str) -> str:
    """Return *text* with everything but unreserved characters percent-encoded.

    Raises:
        ValueError: a lone surrogate, which has no UTF-8.
    """
    return quote(text, safe="")


def encoded_except_reserved(text: str) -> str:
    """Return *text* for where reserved characters, and what is percent-encoded already, stay as they are.

    Raises:
        ValueError: a lone surrogate, which has no UTF-8.
    """
    return quote(_LONE_PERCENT.sub("%25", text), safe=RESERVED + "%")
