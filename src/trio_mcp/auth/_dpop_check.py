"""Proofs that whoever shows a token has the key that it is bound to, each of which holds for one request.

Specification: https://www.rfc-editor.org/rfc/rfc9449#section-4.3
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection
from urllib.parse import unquote

from attrs import define, field, frozen

from ..wire import is_object
from ._claims import read_time
from ._jws import ASYMMETRIC, encode_base64url, is_signed_by, public_key, read_jws
from ._urls import read_url
from ._verified import InvalidToken, VerifierUnavailable

__all__ = ["Proof", "Replays", "read_proof"]

_PROOF_SECONDS = 300.0
"""How far the time of a proof may be off, in either direction."""
_MAX_PROOF_CHARS = 8192
_LONGEST_ID = 256
_MAX_KEPT = 300_000
"""So many proofs of the last minutes are remembered: a thousand a second. Beyond that none is accepted, instead of any
once more."""


@frozen(kw_only=True)
class Proof:
    """A proof that has been checked, all but whether it has been seen before."""

    thumbprint: str
    """Of the key that it was made with."""
    id: str
    until: float
    """From then on it is too old, as `time.time` counts."""


def read_proof(text: str, *, method: str, urls: Collection[str], token: str, now: float) -> Proof:
    """Check a proof, all but whether it has been seen before.

    Args:
        text: the value of the header field ``DPoP``, as it came.
        method: of the request, in capitals.
        urls: the names that its URL may have; queries do not matter.
        token: what the proof comes with.
        now: the time, as `time.time` counts.

    Raises:
        InvalidToken: it is no proof, or one of something else.
    """
    proof = read_jws(text, algorithms=ASYMMETRIC, max_chars=_MAX_PROOF_CHARS)
    if proof.type != "dpop+jwt":
        raise InvalidToken("it is no proof, but says that it is something else")
    jwk = proof.header.get("jwk")
    if not is_object(jwk):
        raise InvalidToken("it holds no key")
    key = public_key(jwk)
    if not is_signed_by(proof, key):
        raise InvalidToken("its signature is wrong")
    said = proof.payload
    id, made = said.get("jti"), read_time(said, "iat")
    if said.get("htm") != method:
        raise InvalidToken("it is for another method")
    if not _is_one_of(said.get("htu"), urls):
        raise InvalidToken("it is for another URL")
    if made is None or abs(made - now) > _PROOF_SECONDS:
        raise InvalidToken("it is too old, or from the future")
    if said.get("ath") != encode_base64url(hashlib.sha256(token.encode()).digest()):
        raise InvalidToken("it is for another token")
    if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
        raise InvalidToken("it has no identifier")
    return Proof(thumbprint=key.thumbprint(), id=id, until=made + _PROOF_SECONDS)


def _is_one_of(url: object, urls: Collection[str]) -> bool:
    normal = _normal(url) if isinstance(url, str) else None
    return normal is not None and any(normal == _normal(one) for one in urls)


def _normal(url: str) -> tuple[str, str] | None:
    """Return what of a URL matters, the same for all its spellings; None where it is none."""
    parts = read_url(url)
    return None if parts is None or parts.user is not None else (parts.origin, unquote(parts.path) or "/")


@define(eq=False)
class Replays:
    """Remembers which proofs have been seen, for as long as they could be shown once more."""

    max_kept: int = _MAX_KEPT
    _seen: set[bytes] = field(factory=set[bytes], init=False, repr=False)
    _ending: list[tuple[float, bytes]] = field(factory=list[tuple[float, bytes]], init=False, repr=False)

    def note(self, proof: Proof, now: float) -> bool:
        """Remember a proof; return False where it has been seen before.

        Raises:
            VerifierUnavailable: no more can be remembered now.
        """
        while self._ending and self._ending[0][0] < now:
            self._seen.discard(heapq.heappop(self._ending)[1])
        digest = hashlib.sha256(f"{proof.thumbprint} {proof.id}".encode()).digest()
        if digest in self._seen:
            return False
        if len(self._seen) >= self.max_kept:
            raise VerifierUnavailable(f"{self.max_kept} proofs were shown within minutes; no more are remembered")
        self._seen.add(digest)
        heapq.heappush(self._ending, (proof.until, digest))
        return True
