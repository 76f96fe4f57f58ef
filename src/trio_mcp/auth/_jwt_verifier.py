"""Tokens that say themselves what they are, signed by the authorization server.

Specification: https://www.rfc-editor.org/rfc/rfc9068#section-4
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import trio
from attrs import define, evolve, field

from ..abc import Fetch
from ..wire import JsonObject
from ._claims import is_of_another_kind, read_claims
from ._issuer import check_option
from ._jwks import KeyRing
from ._jws import ASYMMETRIC, read_jws
from ._verified import InvalidToken, VerifiedToken

__all__ = ["JwtVerifier"]

_MAX_TOKEN_CHARS = 16_384


def _in_lower_case(types: Collection[str | None]) -> frozenset[str | None]:
    return frozenset(None if name is None else name.lower() for name in types)


@define(kw_only=True, eq=False)
class JwtVerifier:
    """Takes tokens that are signed JSON (JWT), and checks them with the keys that their issuers publish.

    The keys are fetched when the first token comes, and kept; an unknown one makes them be fetched again, at most every
    10 seconds. Any number of tasks may use it at once.

    Raises:
        ValueError: an option makes no sense; the text names it.
    """

    algorithms: Collection[str] = ASYMMETRIC
    """How tokens may be signed. Only algorithms with public keys can be named: with another, whoever checks tokens
    could make them."""
    jwks_uri: str | Mapping[str, str] | None = None
    """Where the keys are published: of the only issuer, or by issuer. By default where the issuer's metadata say."""
    types: Collection[str | None] = field(default=("at+jwt", "jwt", None), converter=_in_lower_case)
    """What tokens may say that they are (``typ``); None stands for those that say nothing. Many
    authorization servers do not say `at+jwt`; with ``["at+jwt"]``, those that do keep every other kind of token out."""
    issuers: Sequence[str] = ()
    """Whose tokens are taken; by default those of the `ResourceServer` that it belongs to."""
    trusted_hosts: Sequence[str] = ()
    """Names of hosts that may be reached without TLS; by default those of the `ResourceServer`."""
    clock: Callable[[], float] = time.time
    """Tells how old the keys are."""
    _rings: dict[str, KeyRing] = field(factory=dict[str, KeyRing], init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        unfit = [name for name in self.algorithms if name not in ASYMMETRIC]
        if unfit or not self.algorithms:
            raise ValueError(f"algorithms={self.algorithms!r}: must be some of {', '.join(ASYMMETRIC)}")

    def serving(
        self, issuers: Sequence[str], *, trusted_hosts: Sequence[str], clock: Callable[[], float]
    ) -> JwtVerifier:
        """Return this verifier for one resource server, with keys of its own; what was said of issuers stays.

        Raises:
            ValueError: the keys of one issuer would count for another, or their URL is not safe.
        """
        issuers, trusted_hosts = self.issuers or issuers, self.trusted_hosts or trusted_hosts
        uris = self.jwks_uri
        if isinstance(uris, str) and len(issuers) > 1:
            raise ValueError("jwks_uri: with several issuers, say which of them has which keys: {issuer: url}")
        for uri in [uris] if isinstance(uris, str) else (uris or {}).values():
            check_option(uri, "jwks_uri", trusted_hosts)
        return evolve(self, issuers=issuers, trusted_hosts=trusted_hosts, clock=clock)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return what a token says; see `abc.TokenVerifier`. If it is cancelled nothing is lost."""
        await trio.lowlevel.checkpoint()
        signed = read_jws(token, algorithms=self.algorithms, max_chars=_MAX_TOKEN_CHARS)
        if signed.type not in self.types:
            raise InvalidToken(f"it says that it is {signed.type!r:.40}, and no token for access")
        issuer = signed.payload.get("iss")
        if not isinstance(issuer, str) or issuer not in self.issuers:
            raise InvalidToken(f"its issuer {issuer!r:.200} is none of those that are trusted")
        if not await self._ring(issuer).has_signed(signed, fetch):
            raise InvalidToken("no key of its issuer has signed it")
        verified = read_claims(signed.payload, issuer=issuer)
        if verified.expires_at is None:
            raise InvalidToken("it never expires")
        if signed.type != "at+jwt" and _is_for_something_else(signed.payload):
            raise InvalidToken("it is no token for access")
        return verified

    def _ring(self, issuer: str) -> KeyRing:
        if issuer not in self._rings:
            uri = self.jwks_uri if isinstance(self.jwks_uri, str) else (self.jwks_uri or {}).get(issuer)
            self._rings[issuer] = KeyRing(issuer, uri, self.trusted_hosts, self.clock)
        return self._rings[issuer]


def _is_for_something_else(claims: JsonObject) -> bool:
    """Tell whether a token, which does not say what it is, is known by its claims to be an ID token or its like."""
    return not claims.keys().isdisjoint({"at_hash", "c_hash"}) or is_of_another_kind(claims)
