"""Tokens that say themselves what they are, signed by the authorization server.

Specification: https://www.rfc-editor.org/rfc/rfc9068#section-4
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

import trio
from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from ...abc import Fetch
from ...wire import JsonObject, Undecodable, decode, is_array, is_object
from .._jose import (
    ASYMMETRIC,
    InvalidToken,
    SignedJson,
    VerifiedToken,
    VerifierUnavailable,
    is_of_another_kind,
    is_signed_by,
    public_key,
    read_claims,
    read_jws,
)
from .._urls import checked_endpoint, origin_of, server_metadata_urls, shown_text, shown_url
from ..client import CallFailed, HttpCall, Registration, ServerMetadata, authenticate

if TYPE_CHECKING:
    from joserfc.jwk import Key

__all__ = [
    "ACCEPT_JSON",
    "PAUSE_SECONDS",
    "IntrospectionVerifier",
    "JwtVerifier",
    "KeyRing",
    "RefreshSchedule",
    "VerdictCache",
    "check_option",
    "endpoint_of",
    "fetch_json",
    "host_chosen_by",
    "read_issuer",
]


# What an authorization server has said of tokens: kept for a while, and asked for once by all who want it at a time.
#
# Specification: https://www.rfc-editor.org/rfc/rfc7662#section-4

_MAX_KEPT = 10_000
"""Beyond that the oldest is dropped."""


@define(eq=False)
class _PendingLookup:
    """A question that is being asked, for all who want its answer."""

    resolved: trio.Event = field(factory=trio.Event)
    failure: VerifierUnavailable | None = None


@define(eq=False)
class VerdictCache:
    """What tokens are, None for those that are not good. Tokens themselves are not kept, only digests of them.

    Args:
        seconds: how long an answer is used; 0: not at all.
        clock: tells the time, as `time.time` does.
    """

    _seconds: float
    _clock: Callable[[], float]
    _kept: dict[bytes, tuple[float, VerifiedToken | None]] = field(
        factory=dict[bytes, "tuple[float, VerifiedToken | None]"], init=False, repr=False
    )
    """The oldest first, each with the time of its arrival."""
    _asked: dict[bytes, _PendingLookup] = field(factory=dict[bytes, _PendingLookup], init=False, repr=False)

    async def find(self, token: str, ask: Callable[[], Awaitable[VerifiedToken | None]]) -> VerifiedToken | None:
        """Return what is known of a token, or else what *ask* returns.

        Whoever asks may be cancelled: somebody else who waits asks then.

        Raises:
            VerifierUnavailable: what *ask* raises, for all who wait.
        """
        if not self._seconds:
            return await ask()
        digest = hashlib.sha256(token.encode()).digest()
        while (question := self._asked.get(digest)) is not None:
            await question.resolved.wait()
            if question.failure is not None:
                raise VerifierUnavailable(*question.failure.args)
        at, answer = self._kept.get(digest, (-math.inf, None))
        if 0 <= self._clock() - at < self._seconds:
            return answer
        return await self._ask(digest, ask)

    async def _ask(self, digest: bytes, ask: Callable[[], Awaitable[VerifiedToken | None]]) -> VerifiedToken | None:
        question = self._asked[digest] = _PendingLookup()
        try:
            answer = await ask()
        except VerifierUnavailable as exc:
            question.failure = exc
            raise
        finally:
            del self._asked[digest]
            question.resolved.set()
        self._kept.pop(digest, None)
        self._kept[digest] = (self._clock(), answer)
        if len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return answer


# What a server that checks tokens has to know of the authorization server that issues them.
#
# Specification: https://www.rfc-editor.org/rfc/rfc8414 and https://openid.net/specs/openid-connect-discovery-1_0.html

ACCEPT_JSON = {"accept": "application/json"}


class _NothingThereError(VerifierUnavailable):
    """A URL leads to nothing."""


def check_option(url: str, name: str, trusted_hosts: Sequence[str]) -> None:
    """Check a URL that was given as an option.

    Raises:
        ValueError: it is none that requests with secrets may go to; the text names the option.
    """
    try:
        checked_endpoint(url, name, trusted_hosts)
    except AuthorizationFailed as exc:
        raise ValueError(str(exc)) from None


async def read_issuer(issuer: str, fetch: Fetch) -> JsonObject:
    """Return the metadata of an authorization server, which this server's own options have named.

    Raises:
        VerifierUnavailable: there are none, they cannot be had now, or they are those of another server.
    """
    for url in server_metadata_urls(issuer):
        call = HttpCall(method="GET", url=url, headers=ACCEPT_JSON, named_by="user")
        try:
            metadata = await fetch_json(call, fetch)
        except _NothingThereError:
            continue
        if metadata.get("issuer") != issuer:
            raise VerifierUnavailable(f"the metadata at {url} say that they are those of another issuer")
        return metadata
    raise VerifierUnavailable(f"{issuer} publishes no metadata")


def endpoint_of(metadata: JsonObject, name: str, trusted_hosts: Sequence[str]) -> str:
    """Return the URL that is a member of an issuer's metadata.

    Raises:
        VerifierUnavailable: there is none, or it is not safe.
    """
    url = metadata.get(name)
    if not isinstance(url, str):
        raise VerifierUnavailable(f"the metadata of {metadata['issuer']} name no {name!r}")
    try:
        return checked_endpoint(url, name, trusted_hosts)
    except AuthorizationFailed as exc:
        raise VerifierUnavailable(str(exc)) from None


def host_chosen_by(issuer: str, url: str) -> Literal["user", "server"]:
    """Tell who has chosen the host of a URL in an issuer's metadata: where it is the issuer's own, the options have."""
    return "user" if origin_of(url) == origin_of(issuer) else "server"


async def fetch_json(call: HttpCall, fetch: Fetch) -> JsonObject:
    """Return the JSON object that a request gets.

    Raises:
        VerifierUnavailable: it gets something else, or nothing can be had now.
    """
    shown = shown_url(call.url)
    try:
        reply = await fetch(call)
    except CallFailed as exc:
        raise VerifierUnavailable(f"{shown}: {shown_text(str(exc))}") from exc
    if reply.status != 200:
        failure = _NothingThereError if reply.status // 100 == 4 else VerifierUnavailable
        raise failure(f"{shown} answered with the status {reply.status}")
    try:
        value = decode(reply.body)
    except Undecodable as exc:
        raise VerifierUnavailable(f"{shown} answered with no JSON: {shown_text(str(exc))}") from None
    if not is_object(value):
        raise VerifierUnavailable(f"{shown} answered with no JSON object")
    return value


# Something that another side publishes: fetched once for all who wait, and again when there is reason.
#
# Rules of this file:
#
# 1. It is never fetched sooner than `PAUSE_SECONDS` after the last time, whatever was the matter then.
# 2. One fetch is under way at a time. It is shielded, for a bounded time, from the cancellation of the request that
# needs
#    it: clients that leave at once would otherwise make each other begin anew.
# 3. Whoever has something to go on with does not wait for a fetch of somebody else's.

_log = logging.getLogger("trio_mcp.auth")

PAUSE_SECONDS = 10.0
_FRESH_SECONDS = 600.0
_FETCH_SECONDS = 10.0
"""How long one fetch may take in all."""


@define(eq=False)
class RefreshSchedule:
    """When something was fetched, and may be fetched again. Any number of tasks may use it at once.

    Args:
        what: it is, for the log.
        read: fetches and keeps it; raises `VerifierUnavailable`.
        clock: tells the time, as `time.time` does.
    """

    _what: str
    _read: Callable[[Fetch], Awaitable[None]]
    _clock: Callable[[], float]
    _done_at: float | None = field(default=None, init=False)
    _tried_at: float | None = field(default=None, init=False)
    _lock: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    @property
    def age(self) -> float:
        """How many seconds ago it was fetched; infinite where it never was."""
        return self._since(self._done_at)

    async def keep_fresh(self, fetch: Fetch) -> None:
        """Fetch it if it is old."""
        if self.age > _FRESH_SECONDS and not (self._done_at is not None and self._lock.locked()):
            await self.again(fetch)

    async def again(self, fetch: Fetch) -> None:
        """Fetch it, if nobody has done so for a while. What fails goes to the log: see `age`.

        A cancellation takes effect when a fetch that this call has begun is over.
        """
        async with self._lock:
            if self._since(self._tried_at) < PAUSE_SECONDS:
                return
            try:
                with trio.move_on_after(_FETCH_SECONDS, shield=True) as in_time:
                    await self._read(fetch)
                    self._done_at = self._clock()
                if in_time.cancelled_caught:
                    _log.warning("%s cannot be had: it did not come within %g s", self._what, _FETCH_SECONDS)
            except VerifierUnavailable as exc:
                _log.warning("%s cannot be had: %s", self._what, exc)
            finally:
                self._tried_at = self._clock()

    def _since(self, moment: float | None) -> float:
        """Return the seconds since then; infinite where it was never, or the clock was set back."""
        passed = -1.0 if moment is None else self._clock() - moment
        return math.inf if passed < 0 else passed


# The keys with which one authorization server signs.
#
# An unknown key makes them be fetched again, at a bounded rate (`_renewal`), however many tokens name unknown keys.
# When
# a fetch fails the old keys stay in use for a day, so that an authorization server may be away for a while; no
# longer, so
# that a key that was withdrawn does not hold for ever.
#
# Specification: https://www.rfc-editor.org/rfc/rfc7517#section-5

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
    _renewal: RefreshSchedule = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._renewal = RefreshSchedule(f"the keys of {self._issuer}", self._read, self._clock)

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


# Tokens that only the authorization server can read: it is asked what each of them is.
#
# Specification: https://www.rfc-editor.org/rfc/rfc7662


@frozen(kw_only=True)
class _IntrospectionEndpoint:
    """Where to ask."""

    url: str
    named_by: Literal["user", "server"]
    server: ServerMetadata
    """What the authorization server says of itself, as far as it concerns how its clients authenticate there."""


@define(eq=False)
class IntrospectionVerifier:
    """Asks the authorization server what a token is, with this server's own client id and secret there.

    What it answers is kept for a while, and asked for once by all who show the same token at the same time. Any number
    of tasks may use it at once.

    Args:
        endpoint: the URL at which it is asked; None: what its metadata say.
        client: how this server is known to it: ``Registration("id", secret="...")``.
        cache_seconds: how long an answer is used: so long a token that was withdrawn is taken. 0 asks each time.
        issuer: the authorization server; by default the only one of the `ResourceServer`.
        trusted_hosts: names of hosts that may be reached without TLS; by default those of the `ResourceServer`.
        clock: tells how old an answer is.

    Raises:
        ValueError: an option makes no sense; the text names it.
    """

    endpoint: str | None = None
    client: Registration = field(kw_only=True)
    cache_seconds: float = field(default=10.0, kw_only=True)
    issuer: str | None = field(default=None, kw_only=True)
    trusted_hosts: Sequence[str] = field(default=(), kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _place: _IntrospectionEndpoint | None = field(default=None, init=False, repr=False)
    _renewal: RefreshSchedule = field(init=False, repr=False)
    _answers: VerdictCache = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.cache_seconds < math.inf:
            raise ValueError(f"cache_seconds={self.cache_seconds!r}: must be a number of seconds, 0 or more")
        self.issuer = self.issuer or self.client.issuer
        self._renewal = RefreshSchedule("the place where tokens are introspected", self._look_up, self.clock)
        self._answers = VerdictCache(self.cache_seconds, self.clock)

    def serving(
        self, issuers: Sequence[str], *, trusted_hosts: Sequence[str], clock: Callable[[], float]
    ) -> IntrospectionVerifier:
        """Return this verifier for one resource server; what was said of the issuer stays.

        Raises:
            ValueError: there are several issuers, and nothing says which of them is asked; or its URL is not safe.
        """
        if self.issuer is None and len(issuers) > 1:
            raise ValueError("IntrospectionVerifier: with several issuers, say by issuer= which of them is asked")
        trusted_hosts = self.trusted_hosts or trusted_hosts
        if self.endpoint is not None:
            check_option(self.endpoint, "introspection endpoint", trusted_hosts)
        return evolve(self, issuer=self.issuer or issuers[0], trusted_hosts=trusted_hosts, clock=clock)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return what a token says; see `abc.TokenVerifier`. If it is cancelled, others who wait for it ask anew."""
        await trio.lowlevel.checkpoint()
        verified = await self._answers.find(token, lambda: self._ask(token, fetch))
        if verified is None:
            raise InvalidToken("the authorization server says that it is not good")
        return verified

    async def _ask(self, token: str, fetch: Fetch) -> VerifiedToken | None:
        place = await self._where(fetch)
        try:
            client = authenticate(self.client, place.server, self.clock())
        except AuthorizationFailed as exc:
            raise VerifierUnavailable(str(exc)) from None
        headers = {**ACCEPT_JSON, "content-type": "application/x-www-form-urlencoded", **client.headers}
        form = urlencode({"token": token, "token_type_hint": "access_token", **client.form}).encode()
        call = HttpCall(method="POST", url=place.url, headers=headers, body=form, named_by=place.named_by)
        return _read_answer(await fetch_json(call, fetch), place.server.issuer)

    async def _where(self, fetch: Fetch) -> _IntrospectionEndpoint:
        if self.issuer is None:
            raise RuntimeError("IntrospectionVerifier: outside of a ResourceServer it needs issuer=")
        if self.endpoint is not None:
            server = ServerMetadata(issuer=self.issuer, token_endpoint=self.endpoint)
            return _IntrospectionEndpoint(url=self.endpoint, named_by="user", server=server)
        await self._renewal.keep_fresh(fetch)
        if self._place is None:
            raise VerifierUnavailable(f"it is not known where {self.issuer} introspects tokens")
        return self._place

    async def _look_up(self, fetch: Fetch) -> None:
        assert self.issuer is not None
        metadata = await read_issuer(self.issuer, fetch)
        url = endpoint_of(metadata, "introspection_endpoint", self.trusted_hosts)
        methods = metadata.get("introspection_endpoint_auth_methods_supported")
        server = ServerMetadata(
            issuer=self.issuer,
            token_endpoint=url,
            token_endpoint_auth_methods_supported=tuple(methods) if is_array(methods) else None,
        )
        self._place = _IntrospectionEndpoint(url=url, named_by=host_chosen_by(self.issuer, url), server=server)


def _read_answer(answer: JsonObject, issuer: str) -> VerifiedToken | None:
    if answer.get("active") is not True:
        return None
    if answer.get("iss", issuer) != issuer:
        _log.info("a token is none of %s, but it has introspected it all the same", issuer)
        return None
    if is_of_another_kind(answer):  # a server is free to look for it among refresh tokens, too
        _log.info("what %s knows of a token is that it is none for access", issuer)
        return None
    try:
        return read_claims(answer, issuer=issuer)
    except InvalidToken as exc:
        _log.info("what %s says of a token is of no use: %s", issuer, exc)
        return None
