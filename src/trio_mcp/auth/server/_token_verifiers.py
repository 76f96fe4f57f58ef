"""The verifier of signed tokens (JWT), and how documents that authorization servers publish are fetched.

Rules of the refresh schedule, by which keys and metadata are fetched:

1. A document is never fetched within `PAUSE_SECONDS` after the last attempt, whatever its result was.
2. One fetch is in flight at a time. It is shielded, for a bounded time, from the cancellation of the request that needs
   it: otherwise, clients that disconnect would make every fetch start again.
3. A request that can use an older document does not wait for the fetch of another request.

If the keys cannot be fetched, the old ones are used for a day, so that the authorization server may be out of reach for
a while; no longer, so that a withdrawn key does not stay valid.

Specification: https://www.rfc-editor.org/rfc/rfc9068#section-4, https://www.rfc-editor.org/rfc/rfc7517#section-5,
https://www.rfc-editor.org/rfc/rfc8414 and https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import trio
from attrs import define, evolve, field

from ..._errors import AuthorizationFailed
from ...abc import Fetch
from ...wire import JsonObject, Undecodable, decode, is_array, is_object
from .._jwt import (
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
from ..client import CallFailed, HttpCall

if TYPE_CHECKING:
    from joserfc.jwk import Key

__all__ = [
    "ACCEPT_JSON",
    "PAUSE_SECONDS",
    "JwtVerifier",
    "KeyRing",
    "RefreshSchedule",
    "check_option",
    "endpoint_of",
    "fetch_json",
    "host_chosen_by",
    "read_issuer",
]


# --- Metadata of authorization servers ---

ACCEPT_JSON = {"accept": "application/json"}


class _NothingThereError(VerifierUnavailable):
    """A URL has no document."""


def check_option(url: str, name: str, trusted_hosts: Sequence[str]) -> None:
    """Check a URL that is an option.

    Raises:
        ValueError: it is not safe for requests with secrets; the message names the option.
    """
    try:
        checked_endpoint(url, name, trusted_hosts)
    except AuthorizationFailed as exc:
        raise ValueError(str(exc)) from None


async def read_issuer(issuer: str, fetch: Fetch) -> JsonObject:
    """Return the metadata of an authorization server that the options name.

    Raises:
        VerifierUnavailable: the metadata is missing, out of reach, or that of another issuer.
    """
    for url in server_metadata_urls(issuer):
        call = HttpCall(method="GET", url=url, headers=ACCEPT_JSON, named_by="user")
        try:
            metadata = await fetch_json(call, fetch)
        except _NothingThereError:
            continue
        if metadata.get("issuer") != issuer:
            raise VerifierUnavailable(f"the metadata at {url} is that of another issuer")
        return metadata
    raise VerifierUnavailable(f"{issuer} publishes no metadata")


def endpoint_of(metadata: JsonObject, name: str, trusted_hosts: Sequence[str]) -> str:
    """Return a URL in the metadata of an issuer.

    Raises:
        VerifierUnavailable: it is missing, or not safe.
    """
    url = metadata.get(name)
    if not isinstance(url, str):
        raise VerifierUnavailable(f"the metadata of {metadata['issuer']} has no {name!r}")
    try:
        return checked_endpoint(url, name, trusted_hosts)
    except AuthorizationFailed as exc:
        raise VerifierUnavailable(str(exc)) from None


def host_chosen_by(issuer: str, url: str) -> Literal["user", "server"]:
    """Return the side that chose the host of a URL in an issuer's metadata: the user, if it is the issuer's host."""
    return "user" if origin_of(url) == origin_of(issuer) else "server"


async def fetch_json(call: HttpCall, fetch: Fetch) -> JsonObject:
    """Send a request, and return the JSON object of its response.

    Raises:
        VerifierUnavailable: the request failed, or its response is anything else.
    """
    shown = shown_url(call.url)
    try:
        reply = await fetch(call)
    except CallFailed as exc:
        raise VerifierUnavailable(f"{shown}: {shown_text(str(exc))}") from exc
    if reply.status != 200:
        failure = _NothingThereError if reply.status // 100 == 4 else VerifierUnavailable
        raise failure(f"{shown} responded with the status {reply.status}")
    try:
        value = decode(reply.body)
    except Undecodable as exc:
        raise VerifierUnavailable(f"the response of {shown} is not JSON: {shown_text(str(exc))}") from None
    if not is_object(value):
        raise VerifierUnavailable(f"the response of {shown} is not a JSON object")
    return value


# --- Fetching published documents ---

_log = logging.getLogger("trio_mcp.auth")

PAUSE_SECONDS = 10.0
_FRESH_SECONDS = 600.0
_FETCH_SECONDS = 10.0
"""The time limit of one fetch."""


@define(eq=False)
class RefreshSchedule:
    """A schedule by which a document is fetched. Any number of tasks may use it at once.

    Args:
        what: the name of the document, for the log.
        read: fetches and keeps it; raises `VerifierUnavailable`.
        clock: returns the time, as `time.time` does.
    """

    _what: str
    _read: Callable[[Fetch], Awaitable[None]]
    _clock: Callable[[], float]
    _done_at: float | None = field(default=None, init=False)
    _tried_at: float | None = field(default=None, init=False)
    _lock: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    @property
    def age(self) -> float:
        """The seconds since it was fetched; infinite if it never was."""
        return self._since(self._done_at)

    async def keep_fresh(self, fetch: Fetch) -> None:
        """Fetch the document if it is old."""
        if self.age > _FRESH_SECONDS and not (self._done_at is not None and self._lock.locked()):
            await self.again(fetch)

    async def again(self, fetch: Fetch) -> None:
        """Fetch the document, unless this was tried a moment ago. A failure is logged; see `age`.

        A cancellation takes effect when the fetch of this call has ended.
        """
        async with self._lock:
            if self._since(self._tried_at) < PAUSE_SECONDS:
                return
            try:
                with trio.move_on_after(_FETCH_SECONDS, shield=True) as in_time:
                    await self._read(fetch)
                    self._done_at = self._clock()
                if in_time.cancelled_caught:
                    _log.warning("%s: the request took more than %g s", self._what, _FETCH_SECONDS)
            except VerifierUnavailable as exc:
                _log.warning("%s could not be fetched: %s", self._what, exc)
            finally:
                self._tried_at = self._clock()

    def _since(self, moment: float | None) -> float:
        """Return the seconds since a time; infinite if it is None, or if the clock was set back."""
        passed = -1.0 if moment is None else self._clock() - moment
        return math.inf if passed < 0 else passed


# --- Signed tokens ---

_KEPT_SECONDS = 86_400.0
_MOST_KEYS = 100
_MOST_TRIED = 8
"""The number of keys to try for a token that names no key."""


@define(eq=False)
class KeyRing:
    """The public keys of one issuer. Any number of tasks may use it at once.

    Args:
        issuer: the issuer.
        uri: the URL of the keys; None means the one in the issuer's metadata.
        trusted_hosts: names of hosts that may be reached without TLS.
        clock: returns the time, as `time.time` does.
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
        """Return True if one of the keys has signed a token. An unknown key id makes the keys be fetched again.

        Raises:
            VerifierUnavailable: there are no keys, and they cannot be fetched now.
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
        """Return the usable keys of a key set; others are skipped."""
        listed = document.get("keys")
        if not is_array(listed):
            raise VerifierUnavailable("the document is not a set of keys")
        keys: list[Key] = []
        for jwk in listed[:_MOST_KEYS]:
            try:
                keys.append(public_key(jwk if is_object(jwk) else {}))
            except InvalidToken as exc:
                _log.debug("a key of %s is ignored: %s", self._issuer, exc)
        return keys


_MAX_TOKEN_CHARS = 16_384


def _in_lower_case(types: Collection[str | None]) -> frozenset[str | None]:
    return frozenset(None if name is None else name.lower() for name in types)


@define(kw_only=True, eq=False)
class JwtVerifier:
    """A verifier of signed JSON tokens (JWT), which uses the keys that their issuers publish.

    The keys are fetched for the first token, and cached; an unknown key makes them be fetched again, at most every 10
    seconds. Any number of tasks may use it at once.

    Raises:
        ValueError: an option is invalid; the message names it.
    """

    algorithms: Collection[str] = ASYMMETRIC
    """The accepted algorithms. Only algorithms with public keys are allowed: with others, this server could make
    tokens."""
    jwks_uri: str | Mapping[str, str] | None = None
    """The URL of the keys: of the only issuer, or by issuer. By default, the one in the issuer's metadata."""
    types: Collection[str | None] = field(default=("at+jwt", "jwt", None), converter=_in_lower_case)
    """The accepted types of tokens (``typ``); None stands for tokens without one. Many authorization servers do not set
    `at+jwt`; for those that do, ``["at+jwt"]`` excludes every other kind of token."""
    issuers: Sequence[str] = ()
    """The issuers of accepted tokens; by default those of the `ResourceServer`."""
    trusted_hosts: Sequence[str] = ()
    """Names of hosts that may be reached without TLS; by default those of the `ResourceServer`."""
    clock: Callable[[], float] = time.time
    """The clock that decides when the keys are old."""
    _rings: dict[str, KeyRing] = field(factory=dict[str, KeyRing], init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        unfit = [name for name in self.algorithms if name not in ASYMMETRIC]
        if unfit or not self.algorithms:
            raise ValueError(f"algorithms={self.algorithms!r}: must be some of {', '.join(ASYMMETRIC)}")

    def serving(
        self, issuers: Sequence[str], *, trusted_hosts: Sequence[str], clock: Callable[[], float]
    ) -> JwtVerifier:
        """Return a copy for one resource server, with its own keys; configured issuers are kept.

        `ResourceServer` calls this.

        Args:
            issuers: the issuers of the `ResourceServer`, by URL.
            trusted_hosts: its hosts that may have addresses in a private network; those of this verifier replace them.
            clock: returns the seconds since the epoch, as `time.time` does.

        Raises:
            ValueError: the keys of one issuer would be used for another, or their URL is not safe.
        """
        issuers, trusted_hosts = self.issuers or issuers, self.trusted_hosts or trusted_hosts
        uris = self.jwks_uri
        if isinstance(uris, str) and len(issuers) > 1:
            raise ValueError("jwks_uri: with several issuers, pass the URL of each one: {issuer: url}")
        for uri in [uris] if isinstance(uris, str) else (uris or {}).values():
            check_option(uri, "jwks_uri", trusted_hosts)
        return evolve(self, issuers=issuers, trusted_hosts=trusted_hosts, clock=clock)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return the content of a signed token; see `abc.TokenVerifier`. It may be cancelled at any time.

        Args:
            token: the token as it was received.
            fetch: reads the keys of the issuer when they are unknown or old.

        Raises:
            InvalidToken: the token is not a signed access token of a trusted issuer, or never expires.
            VerifierUnavailable: the keys of the issuer cannot be read now.

        Specification: https://www.rfc-editor.org/rfc/rfc9068
        """
        await trio.lowlevel.checkpoint()
        signed = read_jws(token, algorithms=self.algorithms, max_chars=_MAX_TOKEN_CHARS)
        if signed.type not in self.types:
            raise InvalidToken(f"its type is {signed.type!r:.40}, not that of an access token")
        issuer = signed.payload.get("iss")
        if not isinstance(issuer, str) or issuer not in self.issuers:
            raise InvalidToken(f"its issuer {issuer!r:.200} is not trusted")
        if not await self._ring(issuer).has_signed(signed, fetch):
            raise InvalidToken(
                f"no key of its issuer {issuer!r:.200} has signed it (its key id is {signed.key_id!r:.80})"
            )
        verified = read_claims(signed.payload, issuer=issuer)
        if verified.expires_at is None:
            raise InvalidToken("it never expires")
        if signed.type != "at+jwt" and _is_for_something_else(signed.payload):
            raise InvalidToken("it is not an access token")
        return verified

    def _ring(self, issuer: str) -> KeyRing:
        if issuer not in self._rings:
            uri = self.jwks_uri if isinstance(self.jwks_uri, str) else (self.jwks_uri or {}).get(issuer)
            self._rings[issuer] = KeyRing(issuer, uri, self.trusted_hosts, self.clock)
        return self._rings[issuer]


def _is_for_something_else(claims: JsonObject) -> bool:
    """Return True if a token without a type is an ID token or the like, according to its claims."""
    return not claims.keys().isdisjoint({"at_hash", "c_hash"}) or is_of_another_kind(claims)
