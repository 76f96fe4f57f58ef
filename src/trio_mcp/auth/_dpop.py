"""DPoP: proofs that a client holds the key that its tokens are bound to, one proof for each request.

Rules of the memory of used proofs:

1. A proof is accepted only if it certainly was not used before. A proof that may have been used is refused.
2. The memory is bounded for all principals together, with shares by principal (`trio_mcp._shares`): a proof is
   remembered only after its token has been verified, so its principal is known.
3. If the memory is full, the principal with the most proofs gives way to one that has fewer. Its oldest proofs are
   forgotten, second by second, and from then on its proofs of these seconds and of earlier ones are refused, used or
   not: a forgotten proof cannot be replayed, and nobody else is affected. That mark counts as one of its proofs.
4. If nobody has more proofs than the newcomer, its proof cannot be checked, and is not accepted.

Specification: https://www.rfc-editor.org/rfc/rfc9449
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from attrs import define, field, frozen

from .._shares import Sender, SharedBound, sender_of
from ..wire import Undecodable, decode, encode, is_object
from ._jwt import (
    ASYMMETRIC,
    InvalidToken,
    VerifierUnavailable,
    encode_base64url,
    is_signed_by,
    public_key,
    read_jws,
    read_time,
)
from ._urls import origin_of, read_url

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

__all__ = ["NONCE_FIELD", "PROOF_FIELD", "CheckedProof", "DpopKey", "DpopProver", "SeenProofs", "read_proof"]

PROOF_FIELD = "dpop"
NONCE_FIELD = "dpop-nonce"

_ALGORITHM = "ES256"
_CURVE = "P-256"
_NONCE = re.compile(r"[!#-\[\]-~]{1,1024}")  # RFC 9449, 8.1; the length limit is ours
_MOST_ORIGINS = 8  # whose nonces are kept; one token needs two


@frozen(slots=False, eq=False)
class DpopKey:
    """A private key of the curve P-256, and the proofs that it makes. Only its thumbprint may be shown."""

    _key: ECKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Generate a new key."""
        from joserfc.jwk import ECKey  # noqa: PLC0415 # heavy

        return cls(ECKey.generate_key(_CURVE))

    @classmethod
    def from_jwk(cls, text: str) -> Self:
        """Return the key of a string that `to_jwk` has written.

        Raises:
            ValueError: it is not a private key of this curve; the message contains nothing of the string.
        """
        from joserfc.errors import JoseError  # noqa: PLC0415 # heavy
        from joserfc.jwk import ECKey  # noqa: PLC0415 # heavy

        try:
            members: Any = decode(text.encode())
            key = ECKey.import_key(members) if is_object(members) else None
        except (Undecodable, JoseError, LookupError, ValueError, TypeError):  # LookupError: an unknown curve
            key = None
        if key is None or not key.is_private or key.curve_name != _CURVE:
            raise ValueError(f"not a private key of the curve {_CURVE}, as a JWK")
        return cls(key)

    def to_jwk(self) -> str:
        """Return the private key as a JSON Web Key, for the storage. It is a secret."""
        return encode(self._key.as_dict(private=True)).decode()

    @cached_property
    def thumbprint(self) -> str:
        """The thumbprint that tokens are bound to (RFC 7638, SHA-256). It is not a secret."""
        return self._key.thumbprint()

    def proof(self, method: str, url: str, *, now: float, token: str | None = None, nonce: str | None = None) -> str:
        """Return a proof for one request. It is valid for no other request, and must be sent only once.

        Args:
            method: the HTTP method, in capitals.
            url: the absolute URL of the request.
            now: the time, as `time.time` counts.
            token: the access token of the request, if it has one.
            nonce: the newest nonce that the server requires.

        Raises:
            ValueError: *url* is not an http or https URL.
        """
        from joserfc import jwt  # noqa: PLC0415 # heavy

        parts = read_url(url)
        if parts is None:
            raise ValueError("a proof needs an http or https URL")
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(18),
            "htm": method,
            "htu": f"{parts.origin}{parts.path or '/'}",
            "iat": int(now),
        }
        if token is not None:
            claims["ath"] = encode_base64url(hashlib.sha256(token.encode()).digest())
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": _ALGORITHM, "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=[_ALGORITHM])


@define(eq=False)
class DpopProver:
    """A maker of proofs: a key, and the newest nonce that each origin requires."""

    key: DpopKey
    nonces: dict[str, str] = field(factory=dict[str, str], init=False, repr=False)
    """By origin, the oldest first."""

    def note(self, url: str, headers: Mapping[str, str]) -> bool:
        """Keep the nonce of a response, if it has one; return True if it is new, so that another proof may succeed.

        Args:
            url: the http or https URL of the request.
            headers: the response's fields, by lower-case name. A malformed or long nonce is ignored.
        """
        nonce, origin = headers.get(NONCE_FIELD), origin_of(url)
        if nonce is None or not _NONCE.fullmatch(nonce):
            return False
        is_new = self.nonces.pop(origin, None) != nonce
        self.nonces[origin] = nonce
        if len(self.nonces) > _MOST_ORIGINS:
            del self.nonces[next(iter(self.nonces))]
        return is_new

    def proof(self, method: str, url: str, *, now: float, token: str | None = None) -> str:
        """Return a proof for one request, with the newest nonce of its origin; see `DpopKey.proof`."""
        return self.key.proof(method, url, now=now, token=token, nonce=self.nonces.get(origin_of(url)))


# --- Checking proofs: https://www.rfc-editor.org/rfc/rfc9449#section-4.3 ---

_PROOF_SECONDS = 300.0
"""The largest difference between the time of a proof and the server's clock, in either direction."""
_CLOCKS_DIFFER_BY = 60.0
"""The difference between the clocks of two machines of a service that does not matter."""
_MAX_PROOF_CHARS = 8192
_LONGEST_ID = 256
_MAX_KEPT = 300_000
"""The limit of remembered proofs: a thousand each second."""


@frozen(kw_only=True)
class CheckedProof:
    """A proof that has been checked, except for replay."""

    thumbprint: str
    """The thumbprint of its key."""
    id: str
    until: float
    """The time at which it becomes too old, as `time.time` counts."""

    @property
    def digest(self) -> bytes:
        """A digest that no other proof has."""
        return hashlib.sha256(f"{self.thumbprint} {self.id}".encode()).digest()

    def seconds_after(self, now: float) -> float:
        """Return the seconds after which it is too old on any machine, whose clocks may differ by a minute."""
        return max(0.0, self.until - now) + _CLOCKS_DIFFER_BY


def read_proof(text: str, *, method: str, urls: Collection[str], token: str, now: float) -> CheckedProof:
    """Check a proof, except for replay.

    Args:
        text: the value of the header field ``DPoP``, unchanged.
        method: the request's method, in capitals.
        urls: the accepted URLs; queries are ignored.
        token: the access token of the request.
        now: the time, as `time.time` counts.

    Raises:
        InvalidToken: the proof is malformed, or belongs to another request.
    """
    proof = read_jws(text, algorithms=ASYMMETRIC, max_chars=_MAX_PROOF_CHARS)
    if proof.type != "dpop+jwt":
        raise InvalidToken("it is not a proof, but has another type")
    jwk = proof.header.get("jwk")
    if not is_object(jwk):
        raise InvalidToken("it contains no key")
    key = public_key(jwk)
    if not is_signed_by(proof, key):
        raise InvalidToken("its signature is invalid")
    said = proof.payload
    id, made = said.get("jti"), read_time(said, "iat")
    if said.get("htm") != method:
        raise InvalidToken("it is for another method")
    if not _is_one_of(said.get("htu"), urls):
        raise InvalidToken("it is for another URL")
    if made is None or abs(made - now) > _PROOF_SECONDS:
        raise InvalidToken("it is too old, or its time is in the future")
    if said.get("ath") != encode_base64url(hashlib.sha256(token.encode()).digest()):
        raise InvalidToken("it is for another token")
    if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
        raise InvalidToken("it has no identifier")
    return CheckedProof(thumbprint=key.thumbprint(), id=id, until=made + _PROOF_SECONDS)


def _is_one_of(url: object, urls: Collection[str]) -> bool:
    normal = _normal(url) if isinstance(url, str) else None
    return normal is not None and any(normal == _normal(one) for one in urls)


def _normal(url: str) -> tuple[str, str] | None:
    """Return the relevant part of a URL, the same for all its spellings; None if it is invalid."""
    parts = read_url(url)
    return None if parts is None or parts.user is not None else (parts.origin, unquote(parts.path) or "/")


@frozen
class _Second:
    """A principal's proofs that become too old in the same second."""

    sender: Sender
    until: int


@define(eq=False)
class SeenProofs:
    """A memory of the proofs that were used in this process, for as long as they could be replayed.

    The processes of a service have another one in common, which is asked afterwards (`abc.SharedService.is_first`).
    """

    max_kept: int = _MAX_KEPT
    _bound: SharedBound[_Second] = field(init=False, repr=False)
    """The weight of a second is the number of its proofs; 1 if they were forgotten."""
    _seen: dict[_Second, set[bytes]] = field(factory=dict[_Second, set[bytes]], init=False, repr=False)
    _senders: dict[int, set[Sender]] = field(factory=dict[int, "set[Sender]"], init=False, repr=False)
    """By second, the principals that have proofs of it."""
    _forgotten: dict[Sender, int] = field(factory=dict[Sender, int], init=False, repr=False)
    """The latest second whose proofs were forgotten (rule 3)."""
    _cleaned_at: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._bound = SharedBound(self.max_kept)

    def note(self, proof: CheckedProof, now: float, principal: str) -> bool:
        """Remember a proof; return False if it was used before, or may have been.

        Raises:
            VerifierUnavailable: the memory is full.
        """
        self._drop_old(now)
        sender = sender_of(principal, None)
        second = _Second(sender, math.ceil(proof.until))
        digest = proof.digest
        if second.until <= self._forgotten.get(sender, -1) or digest in self._seen.get(second, ()):
            return False
        if not self._bound.has_room():
            heaviest = self._bound.who_gives_way(sender)
            if heaviest is None:
                raise VerifierUnavailable(f"{self.max_kept} proofs were used within minutes, which is the limit")
            self._forget_oldest(heaviest)
        self._seen.setdefault(second, set()).add(digest)
        self._senders.setdefault(second.until, set()).add(sender)
        self._bound.add(sender, second)
        return True

    def _drop_old(self, now: float) -> None:
        """Drop the proofs that are too old in any case, once a second."""
        if self._cleaned_at == int(now):
            return
        self._cleaned_at = int(now)
        for until in [each for each in self._senders if each < now]:
            for sender in list(self._senders[until]):
                self._drop(_Second(sender, until))
                if self._forgotten.get(sender) == until:
                    del self._forgotten[sender]

    def _forget_oldest(self, sender: Sender) -> None:
        """Forget the oldest proofs of a principal with two or more, until there is room (rule 3)."""
        seconds = iter(sorted(self._bound.entries_of(sender), key=lambda each: each.until))
        oldest: _Second | None = None
        while not self._bound.has_room():
            if oldest is not None:
                self._drop(oldest)
            oldest = next(seconds)
            self._bound.reduce(oldest, max(len(self._seen[oldest]) - 1, 0))
            self._seen[oldest] = set()
            self._forgotten[sender] = oldest.until

    def _drop(self, second: _Second) -> None:
        del self._seen[second]
        self._bound.remove(second)
        senders = self._senders[second.until]
        senders.remove(second.sender)
        if not senders:
            del self._senders[second.until]
