"""Cursors: where the next page of a list begins, in a form that only this server can have made.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from attrs import field, frozen

from .._errors import McpError
from ..wire import INVALID_PARAMS

__all__ = ["Cursors", "check_keys", "keys_by_default"]

keys_by_default: ContextVar[tuple[bytes, ...]] = ContextVar("trio_mcp_keys_by_default", default=())
"""The keys of servers that are made without: for processes each of which may have to open what another has sealed."""

_MIN_KEY_BYTES = 16
_PURPOSE = b"trio-mcp list cursor"
"""Keeps what is signed here apart from whatever else is signed with the same key."""
_PLACE_BYTES, _TAG_BYTES = 8, 16


def check_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return *keys*, or those by default, or a new one where there are none.

    Raises:
        TypeError: they are no list of bytes.
        ValueError: a key is shorter than 16 bytes.
    """
    given: Any = keys
    if isinstance(given, bytes | str) or not all(isinstance(key, bytes) for key in given):
        raise TypeError("keys: a list of bytes, such as [os.urandom(32)]")
    if any(len(key) < _MIN_KEY_BYTES for key in keys):
        raise ValueError(f"keys: each must have at least {_MIN_KEY_BYTES} bytes; os.urandom(32) makes a good one")
    return tuple(keys) or keys_by_default.get() or (os.urandom(32),)


@frozen
class Cursors:
    """Seals places in lists as cursors, and reads them back.

    A cursor names its list and the entry it continues after, and is authenticated with HMAC-SHA256: a changed one,
    or one of another list, is refused. It holds for as long as its key is among the server's.

    Args:
        keys: the first seals; every one of them is tried when reading.
    """

    _keys: tuple[bytes, ...] = field(alias="keys", repr=False)

    def seal(self, method: str, place: int) -> str:
        """Return the cursor for what follows *place* in the list of *method*."""
        packed = place.to_bytes(_PLACE_BYTES, "big")
        return base64.urlsafe_b64encode(packed + _tag(self._keys[0], method, packed)).decode()

    def read(self, method: str, cursor: str) -> int:
        """Return the place that a cursor for *method* continues after.

        Raises:
            McpError: this server has not made it, or has made it for another list.
        """
        try:
            data = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            data = b""
        packed, tag = data[:_PLACE_BYTES], data[_PLACE_BYTES:]
        if not any(hmac.compare_digest(tag, _tag(key, method, packed)) for key in self._keys):
            raise McpError(INVALID_PARAMS, f"$.cursor: {cursor[:100]!r} is no cursor of {method!r} on this server")
        return int.from_bytes(packed, "big")


def _tag(key: bytes, method: str, packed: bytes) -> bytes:
    return hmac.digest(key, b"\0".join((_PURPOSE, method.encode(), packed)), "sha256")[:_TAG_BYTES]
