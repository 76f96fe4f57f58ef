"""Request states: what a server wants to know again at the retry, sealed so that only it can read or make one.

A state crosses the client's hands, which are anybody's: it is encrypted and authenticated with AES-256-GCM, says itself
until when it holds and for which request and principal, and whatever is wrong with one, the answer is the same. The
log knows the cause.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#security-considerations
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from .._errors import McpError
from ..peer import Exchange
from ..wire import INVALID_PARAMS, JsonObject, NotJsonError, Undecodable, decode, digest, encode, is_object

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["BadStateError", "Seals", "binding_of", "pin"]

_log = logging.getLogger("trio_mcp.server")

_VERSION = b"\x01"
_PURPOSE = b"trio-mcp request state"
"""Keeps what is sealed here apart from whatever else is made with the same key."""
_NONCE_BYTES = 12
_NOT_BOUND = frozenset({"_meta", "inputResponses", "requestState"})
"""The members of params that differ from one attempt to the next."""


class BadStateError(McpError):
    """The one answer to every state that cannot be used."""

    def __init__(self, method: str, cause: str) -> None:
        super().__init__(
            INVALID_PARAMS, "$.requestState: it cannot be used, or not any more; send the request anew without it"
        )
        _log.warning("the state of a retry of %r was refused: %s", method, cause)


def pin(exchange: Exchange) -> bytes:
    """Return what a state is bound to, in JSON: the request without what belongs to one attempt, and who makes it.

    Call it before a handler is given the params, which it may change.

    Raises:
        NotJsonError: the params are nested so deep that they could just be read, but not be written here.
    """
    params = {name: value for name, value in (exchange.params or {}).items() if name not in _NOT_BOUND}
    principal = exchange.context.principal
    who = [] if principal is None else [principal]  # `encode` is slow where there is a null
    return encode([exchange.method, params, who])


def binding_of(pinned: bytes) -> str:
    """Return the short form of what `pin` returned, the same for the same values in any order.

    Raises:
        NotJsonError, Undecodable: it is nested so deep that it could just be written, but not once more here.
    """
    return digest(decode(pinned))


@define(eq=False)
class Seals:
    """Seals states, and opens them again.

    Args:
        keys: the first one seals, all of them open.
    """

    _keys: Sequence[bytes] = field(alias="keys", repr=False)
    _ciphers: list[AESGCM] = field(factory=list["AESGCM"], init=False)

    def seal(self, contents: JsonObject, binding: str, expires: float) -> str:
        """Return *contents* as a state.

        Args:
            binding: what `binding_of` makes of the request.
            expires: until when it can be opened, as `time.time` counts; infinite for as long as the key is known.

        Raises:
            NotJsonError: *contents* hold something that JSON cannot say.
        """
        until = None if math.isinf(expires) else expires
        plain = encode({"binding": binding, "expires": until, "contents": contents})
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _VERSION + nonce + self._made()[0].encrypt(nonce, plain, _VERSION)
        return base64.urlsafe_b64encode(sealed).decode()

    def open(self, state: str, exchange: Exchange) -> JsonObject:
        """Return the contents of a state that came with *exchange*.

        Raises:
            BadStateError: it is none of this server's, of another request or of another principal, or has expired.
        """
        plain = self._decrypt(state)
        if plain is None:
            raise BadStateError(exchange.method, "it was not made with a key of this server, or was changed")
        try:
            belongs = plain["binding"] == binding_of(pin(exchange))
        except (NotJsonError, Undecodable):  # then nothing was asked for this request
            belongs = False
        if not belongs:
            raise BadStateError(exchange.method, "it belongs to another request, or to somebody else")
        if plain["expires"] is not None and plain["expires"] <= time.time():
            raise BadStateError(exchange.method, "it has expired")
        contents: JsonObject = plain["contents"]
        return contents

    def _decrypt(self, state: str) -> JsonObject | None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 # heavy, and most servers never ask

        try:
            sealed = base64.b64decode(state.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        if sealed[:1] != _VERSION or base64.urlsafe_b64encode(sealed).decode() != state:  # one text for each state
            return None
        nonce, encrypted = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        for cipher in self._made():
            try:
                plain: Any = decode(cipher.decrypt(nonce, encrypted, _VERSION))
            except (InvalidTag, ValueError):  # ValueError: the nonce is cut short
                continue
            return plain if is_object(plain) else None  # only this server can have made it
        return None

    def _made(self) -> Sequence[AESGCM]:
        if not self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 # likewise
            from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

            self._ciphers = [AESGCM(HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(key)) for key in self._keys]
        return self._ciphers
