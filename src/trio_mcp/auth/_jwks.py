"""The keys with which one authorization server signs.

An unknown key makes them be fetched again, at a bounded rate (`_renewal`), however many tokens name unknown keys. When
a fetch fails the old keys stay in use for a day, so that an authorization server may be away for a while; no longer, so
that a key that was withdrawn does not hold for ever.

Specification: https://www.rfc-editor.org/rfc/rfc7517#section-5
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import define, field

from ..abc import Fetch
from ..wire import JsonObject, is_array, is_object
from ._issuer import ACCEPT_JSON, endpoint_of, fetch_json, host_chosen_by, read_issuer
from ._jws import SignedJson, is_signed_by, public_key
from ._renewal import Renewal
from ._steps import HttpCall
from ._verified import InvalidToken, VerifierUnavailable

if TYPE_CHECKING:
    from joserfc.jwk import Key

__all__ = ["KeyRing"]

_log = logging.getLogger("trio_mcp.auth")

_KEPT_SECONDS = 86_400.0
_MOST_KEYS = 100
_MOST_TRIED = 8
"""How many keys are tried for a token that names none."""


@define(eq=False)
class KeyRing:
    """The public keys of one issuer. Any number of tasks may use it at once.

    Args:
        issuer: whose they are.
        uri: where they are published; None: where the issuer's metadata say.
        trusted_hosts: names of hosts that may be reached without TLS.
        clock: tells the time, as `time.time` does.
    """

    _issuer: str
    _uri: str | None
    _trusted_hosts: Sequence[str]
    _clock: Callable[[], float]
    _keys: Sequence[Key] = field(default=(), init=False, repr=False)
    _renewal: Renewal = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._renewal = Renewal(f"the keys of {self._issuer}", self._read, self._clock)

    async def has_signed(self, signed: SignedJson, fetch: Fetch) -> bool:
        """Tell whether one of the keys has signed.

        Raises:
            VerifierUnavailable: there are no keys, and none can be had now.
        """
        await self._renewal.keep_fresh(fetch)
        if self._renewal.age > _KEPT_SECONDS:
            raise VerifierUnavailable(f"there are no keys of {self._issuer}")
        if self._one_has_signed(signed):
            return True
        if any(key.kid == signed.key_id for key in self._keys if signed.key_id is not None):
            return False
        await self._renewal.again(fetch)
        return self._one_has_signed(signed)

    def _one_has_signed(self, signed: SignedJson) -> bool:
        candidates = [key for key in self._keys if signed.key_id is None or key.kid == signed.key_id]
        return any(is_signed_by(signed, key) for key in candidates[:_MOST_TRIED])

    async def _read(self, fetch: Fetch) -> None:
        if self._uri is not None:
            call = HttpCall(method="GET", url=self._uri, headers=ACCEPT_JSON, named_by="user")
        else:
            uri = endpoint_of(await read_issuer(self._issuer, fetch), "jwks_uri", self._trusted_hosts)
            named_by = host_chosen_by(self._issuer, uri)
            call = HttpCall(method="GET", url=uri, headers=ACCEPT_JSON, named_by=named_by)
        self._keys = self._usable(await fetch_json(call, fetch))

    def _usable(self, document: JsonObject) -> Sequence[Key]:
        """Return the keys of a key set that can be used here; others are passed over."""
        listed = document.get("keys")
        if not is_array(listed):
            raise VerifierUnavailable("what is published is no set of keys")
        keys: list[Key] = []
        for jwk in listed[:_MOST_KEYS]:
            try:
                keys.append(public_key(jwk if is_object(jwk) else {}))
            except InvalidToken as exc:
                _log.debug("a key of %s is not used: %s", self._issuer, exc)
        return keys
