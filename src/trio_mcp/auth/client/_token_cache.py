"""The token cache: it keeps the tokens of one grant for each server, and replaces them when they expire or are refused.

The token sources of the connections call `TokenCache`. It starts a `TokenRenewal` when better tokens are needed. Rules
of this file:

1. A request that has a usable token uses it without waiting.
2. At most one renewal per server is in flight. Requests that need its result wait for it, and check the cache again
   when it has ended.
3. A renewal that fails, or that returns no other token, affects only the requests with the same `TokenRequirement`.
4. Tokens that another process has put into the storage are used before an authorization server is asked.
5. For each issuer, one refresh is in flight at a time, and one user sign-in is in progress at a time. A refresh does
   not wait for a sign-in.
6. Tokens that an authorization server has already replaced are stored, even if the connection closes meanwhile.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling and
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

import trio
from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed, ConnectionClosed
from ..._util import outlast
from ...wire import encode
from .._challenges import Challenge
from .._dpop import PROOF_FIELD, DpopKey, DpopProver
from .._urls import resource_of, shown_text, shown_url
from ._discovery import TokenIssuer, discover, first_scopes, wider_scopes
from ._steps import ConnectionServices, Flow, FlowServices, SharedTask, drive, failing_as_authorization, trusting
from ._token_endpoint import TokenAsk, Tokens
from ._token_records import (
    LeasedRecord,
    TokenRecord,
    load_record,
    read_record,
    refresh_leased,
    release_lease,
    store_record,
    take_lease,
)

if TYPE_CHECKING:
    from ...abc import Fetch, TokenStorage
    from ._browser import BrowserAgent

__all__ = [
    "REFRESH_SECONDS",
    "ActiveToken",
    "IssuerLocks",
    "TokenCache",
    "TokenCaches",
    "TokenOrigin",
    "TokenProvider",
    "TokenRenewal",
    "TokenRequirement",
    "storage_key",
]

_log = logging.getLogger("trio_mcp.auth")

_RETRY_SECONDS = 10.0
"""The pause between attempts to replace a token that is still valid."""


class TokenProvider(Protocol):
    """The part of `Grant` that the token cache uses. The members are described there."""

    scopes: Sequence[str] | None
    storage: TokenStorage
    account: str
    dpop: bool
    trusted_hosts: Sequence[str]
    issuers_without_resource: Sequence[str]
    clock: Callable[[], float]
    interactive: ClassVar[bool]

    @property
    def identity(self) -> str: ...

    @property
    def stays_with_issuer(self) -> bool: ...

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]: ...

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]: ...

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]: ...


TokenOrigin: TypeAlias = Literal["loaded", "refreshed", "obtained"]

_UNACCEPTED_SECONDS = 60.0


@frozen(kw_only=True)
class TokenRequirement:
    """The reason why a request needs other tokens. Requests with equal requirements share one renewal."""

    shown: str | None = field(repr=False)
    """The access token that the request carried; None if it carried none."""
    was_refused: bool = False
    """True if the server has refused the token; False if the token is only about to expire."""
    scopes: tuple[str, ...] | None = None
    """The scopes to request; None if the scopes were not the problem, empty if the server did not say which are
    missing."""
    may_refresh: bool = True
    """True if the refresh token may be used."""
    challenge: Challenge | None = field(default=None, eq=False)
    """The challenge of the server's response."""


@define(eq=False)
class ActiveToken:
    """The tokens that requests carry now."""

    record: TokenRecord
    proofs: DpopProver | None
    origin: TokenOrigin
    """The way in which the tokens were obtained."""
    since: float
    """The time at which the tokens became active, as `time.time` counts."""
    is_accepted: bool = field(default=False, init=False)
    """True if the server has accepted the token at least once."""

    @property
    def token(self) -> str:
        """The access token."""
        return self.record.tokens.access_token

    def satisfies(self, requirement: TokenRequirement, now: float) -> bool:
        """Return True if these tokens fulfil a requirement."""
        is_other = self.token != requirement.shown and not self.record.has_expired(now)
        return is_other and set(self.record.scopes_to_keep).issuperset(requirement.scopes or ())

    def is_new_and_unaccepted(self, now: float) -> bool:
        """Return True if the server refuses a token that was just issued, so that another one would not help."""
        return self.origin == "obtained" and not self.is_accepted and now - self.since < _UNACCEPTED_SECONDS

    def fields(self, method: str, url: str, now: float) -> dict[str, str]:
        """Return the header fields that carry the token with one request."""
        shown = {"authorization": f"{self.record.tokens.token_type} {self.token}"}
        if self.proofs is not None:
            shown[PROOF_FIELD] = self.proofs.proof(method, url, now=now, token=self.token)
        return shown


def storage_key(url: str, *, identity: str, account: str, dpop: bool) -> str:
    """Return the key of the record of the tokens for the server at *url*, its canonical URI, in the storage."""
    return encode(["tokens", url, identity, account, dpop]).decode()


REFRESH_SECONDS = 25.0
"""The longest time that a refresh may take."""


_STORE_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""The time that work in flight may still take after its connection has closed."""


def _locks() -> defaultdict[str, trio.Lock]:
    return defaultdict(trio.Lock)


@define(eq=False)
class IssuerLocks:
    """Locks that limit concurrent requests to one authorization server (rule 5), by issuer."""

    non_interactive: defaultdict[str, trio.Lock] = field(factory=_locks, init=False)
    """For requests without the user, which end soon."""
    interactive: defaultdict[str, trio.Lock] = field(factory=_locks, init=False)
    """For sign-ins, which take as long as the user takes."""


@define(eq=False)
class TokenRenewal:
    """The work of one renewal.

    Args:
        cache: the tokens to replace.
        fetch: makes HTTP requests.
        task: the shared task that runs this renewal.
        requirement: the tokens that are needed.
    """

    _cache: TokenCache
    _fetch: Fetch
    _task: SharedTask[ActiveToken | None]
    _requirement: TokenRequirement
    _services: FlowServices = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._services = FlowServices(
            fetch=trusting(self._fetch, self._grant.trusted_hosts),
            storage=self._grant.storage,
            clock=self._grant.clock,
            agent=self._grant.agent,
            asking_person=self._task.asking_person,
        )

    @property
    def _grant(self) -> TokenProvider:
        return self._cache.grant

    async def run(self) -> ActiveToken | None:
        """Return better tokens; None if they need the user, and the server has not refused a request yet.

        The result is None, too, if no better tokens are known: all scopes that the server lists were requested.
        """
        requirement = self._requirement
        record = await drive(load_record(self._cache.key), self._services)
        if record is not None:
            stored = self._cache.take(record, "loaded")
            if stored.satisfies(requirement, self._grant.clock()):
                return stored
        token_issuer = await self._find(record) if requirement.was_refused else await self._find_again(record)
        if token_issuer is None:
            return None
        if record is not None and not record.is_for(token_issuer):
            self._check_issuer(record, token_issuer)
            record = None
        if (
            requirement.scopes == ()
            and record is not None
            and set(_listed_scopes(token_issuer)) <= set(record.scopes_to_keep)
        ):
            return None
        if (
            record is not None
            and requirement.scopes is None
            and requirement.may_refresh
            and record.tokens.refresh_token is not None
        ):
            refreshed = await self._refresh(record, token_issuer)
            if refreshed is not None:
                return refreshed
        if self._grant.interactive and not requirement.was_refused:
            return None
        return await self._obtain(record, token_issuer)

    async def _find(self, record: TokenRecord | None) -> TokenIssuer:
        """Return the issuer of tokens, according to the server's current refusal."""
        cache = self._cache
        if cache.token_issuer is None or not self._requirement.scopes:
            cache.token_issuer = await self._discovered(record)
        return cache.token_issuer

    async def _find_again(self, record: TokenRecord | None) -> TokenIssuer | None:
        """Return the issuer of the current tokens; None if only a refusal of the server can name it."""
        token_issuer = self._cache.token_issuer
        if record is not None and token_issuer is None:
            try:
                token_issuer = await self._discovered(record)
            except AuthorizationFailed as failure:
                _log.info("the issuer of replacement tokens could not be discovered: %s", failure)
        if record is None or token_issuer is None or not record.is_for(token_issuer):
            return None
        self._cache.token_issuer = token_issuer
        return token_issuer

    def _check_issuer(self, record: TokenRecord, token_issuer: TokenIssuer) -> None:
        """Refuse to send manually configured credentials to another issuer than before."""
        issuer = token_issuer.server.issuer
        if self._grant.stays_with_issuer and record.issuer != issuer:
            raise AuthorizationFailed(
                f"{shown_url(self._cache.url)} requires tokens of {shown_text(issuer)} now, but the tokens so far "
                f"came from {shown_text(record.issuer)}, and the client's credentials may belong to it; "
                "name the right issuer of the credentials"
            )

    async def _discovered(self, record: TokenRecord | None) -> TokenIssuer:
        prefer = None if record is None else record.issuer
        trusted, challenge = self._grant.trusted_hosts, self._requirement.challenge
        flow = discover(self._cache.url, challenge, trusted_hosts=trusted, prefer=prefer)
        found = await drive(flow, self._services)
        return evolve(found, accepts_resource=found.server.issuer not in self._grant.issuers_without_resource)

    async def _refresh(self, record: TokenRecord, token_issuer: TokenIssuer) -> ActiveToken | None:
        """Replace the tokens by means of their refresh token; return None if the result is not better."""
        cache, old_token = self._cache, record.tokens.access_token
        async with cache.locks.non_interactive[token_issuer.server.issuer]:
            found = await drive(take_lease(cache.key, old_token, token_issuer), self._services)
            if found is None:
                return None
            if isinstance(found, LeasedRecord):
                await self._refresh_leased(found, token_issuer)
            else:
                cache.take(found, "loaded")
        active = cache.active
        assert active is not None
        if self._requirement.was_refused:
            return None if active.token == old_token else active
        return None if active.record.expires_soon(self._grant.clock()) else active

    async def _refresh_leased(self, leased: LeasedRecord, token_issuer: TokenIssuer) -> None:
        record, refresh_token = leased.record, leased.record.tokens.refresh_token
        assert refresh_token is not None
        proofs = None if record.dpop_key is None else self._cache.proofs_with(record.dpop_key)
        ask = TokenAsk(token_issuer=token_issuer, scopes=record.requested, proofs=proofs, client=record.tokens.client)

        async def refresh() -> None:
            flow = refresh_leased(leased, self._grant.refresh(ask, refresh_token))
            self._cache.take(await drive(flow, self._services), "refreshed")

        try:
            await outlast(refresh, seconds=REFRESH_SECONDS, grace=_GRACE_SECONDS)
        except BaseException as exc:
            with trio.move_on_after(_GRACE_SECONDS, shield=True):
                await drive(release_lease(leased), self._services)
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(exc, trio.TooSlowError):
                raise AuthorizationFailed(f"{shown_url(record.issuer)} took too long to refresh a token") from None
            raise

    async def _obtain(self, record: TokenRecord | None, token_issuer: TokenIssuer) -> ActiveToken:
        """Obtain new tokens, and store them."""
        key = self._key(record, token_issuer)
        proofs = None if key is None else self._cache.proofs_with(key)
        ask = TokenAsk(token_issuer=token_issuer, scopes=self._scopes(record, token_issuer), proofs=proofs)
        try:
            async with self._issuer_lock(token_issuer.server.issuer):
                tokens = await drive(self._grant.obtain(ask), self._services)
        except AuthorizationFailed as failure:
            self._cache.ignores_earlier_scopes = failure.error == "invalid_scope" and self._requirement.scopes is None
            raise
        self._cache.ignores_earlier_scopes = False
        try:
            await outlast(lambda: self._store(ask, tokens, key), seconds=_STORE_SECONDS, grace=_GRACE_SECONDS)
        except trio.TooSlowError:
            raise AuthorizationFailed("the token storage took too long to store a token") from None
        assert self._cache.active is not None
        return self._cache.active

    @asynccontextmanager
    async def _issuer_lock(self, issuer: str) -> AsyncGenerator[None]:
        """Hold the lock of an issuer, so that no other renewal obtains tokens from it."""
        locks = self._cache.locks
        if not self._grant.interactive:
            async with locks.non_interactive[issuer]:
                yield
            return
        with self._task.with_person():
            with self._task.asking_person():
                await locks.interactive[issuer].acquire()
            try:
                yield
            finally:
                locks.interactive[issuer].release()

    async def _store(self, ask: TokenAsk, tokens: Tokens, key: str | None) -> None:
        record = TokenRecord(
            issuer=ask.token_issuer.server.issuer,
            resource=ask.token_issuer.identifier,
            tokens=tokens,
            obtained_at=self._grant.clock(),
            requested=ask.scopes,
            dpop_key=key,
        )
        await drive(store_record(self._cache.key, record), self._services)
        self._cache.take(record, "obtained")

    def _key(self, record: TokenRecord | None, token_issuer: TokenIssuer) -> str | None:
        """Return the private key to bind new tokens to; None for bearer tokens."""
        if self._grant.dpop:
            return DpopKey.generate().to_jwk() if record is None else record.dpop_key
        if token_issuer.resource is not None and token_issuer.resource.dpop_bound_access_tokens_required:
            raise AuthorizationFailed(
                f"the server {shown_url(self._cache.url)} accepts only tokens that are bound to a key; pass dpop=True"
            )
        return None

    def _scopes(self, record: TokenRecord | None, token_issuer: TokenIssuer) -> tuple[str, ...] | None:
        """Return the scopes to request: the earlier ones, and those that are needed now."""
        requirement, configured = self._requirement, self._grant.scopes
        earlier = () if record is None or self._cache.ignores_earlier_scopes else record.scopes_to_keep
        lacking = _listed_scopes(token_issuer) if requirement.scopes == () else requirement.scopes or ()
        if not earlier and not lacking:
            return first_scopes(configured, requirement.challenge, token_issuer, offline=self._grant.interactive)
        wanted = tuple(dict.fromkeys((*earlier, *(configured or ()), *lacking)))
        return wanted if requirement.challenge is None else wider_scopes(wanted, requirement.challenge)


def _listed_scopes(token_issuer: TokenIssuer) -> tuple[str, ...]:
    """Return the scopes that a server's metadata lists."""
    return first_scopes(None, None, token_issuer, offline=False) or ()


@define(eq=False)
class TokenCaches:
    """The token caches of one grant, one for each server."""

    _grant: TokenProvider
    _by_url: dict[str, TokenCache] = field(factory=dict[str, "TokenCache"], init=False)
    _issuer_locks: IssuerLocks = field(factory=IssuerLocks, init=False)

    def of(self, url: str) -> TokenCache:
        """Return the token cache of the server at *url*; all spellings of a URL share one cache."""
        canonical = resource_of(url)
        if canonical not in self._by_url:
            grant = self._grant
            key = storage_key(canonical, identity=grant.identity, account=grant.account, dpop=grant.dpop)
            self._by_url[canonical] = TokenCache(grant, url, key, self._issuer_locks)
        return self._by_url[canonical]


@define(eq=False)
class TokenCache:
    """A cache of the tokens for the server at one URL."""

    grant: TokenProvider
    url: str
    key: str
    """The key of the record in the storage."""
    locks: IssuerLocks
    active: ActiveToken | None = field(default=None, init=False)
    """The tokens that requests carry now."""
    token_issuer: TokenIssuer | None = field(default=None, init=False)
    """The issuer that was last discovered."""
    ignores_earlier_scopes: bool = field(default=False, init=False)
    """True if the authorization server refuses the scopes that were requested earlier."""
    _proofs: tuple[str, DpopProver] | None = field(default=None, init=False, repr=False)
    """The proof maker, and the private key that it uses."""
    _is_loaded: bool = field(default=False, init=False)
    _loading: trio.Lock = field(factory=trio.Lock, init=False)
    _renewing: tuple[TokenRequirement, SharedTask[ActiveToken | None]] | None = field(default=None, init=False)
    _retry_at: float = field(default=0.0, init=False)

    async def current(self, connection: ConnectionServices) -> ActiveToken | None:
        """Return the tokens to send; None if there are none until the server has refused a request.

        Tokens that expire soon are replaced first, if this does not need the user.

        Raises:
            AuthorizationFailed: the token has expired, and cannot be replaced.
            ConnectionClosed: the connection was closed meanwhile.
        """
        if not self._is_loaded:
            await self._load()
        active, now = self.active, self.grant.clock()
        if active is None or not active.record.expires_soon(now):
            return active
        if active.record.has_expired(now) or now >= self._retry_at:
            await self._replace_expiring(connection, active)
        active = self.active
        return None if active is None or active.record.has_expired(self.grant.clock()) else active

    async def _replace_expiring(self, connection: ConnectionServices, active: ActiveToken) -> None:
        if self.grant.interactive and active.record.tokens.refresh_token is None:
            return
        try:
            await self.renewed(connection, TokenRequirement(shown=active.token))
        except AuthorizationFailed as failure:
            now = self.grant.clock()
            if active.record.has_expired(now):
                raise
            _log.info("a token that is still valid could not be replaced: %s", failure)
            self._retry_at = now + _RETRY_SECONDS

    async def renewed(self, connection: ConnectionServices, requirement: TokenRequirement) -> ActiveToken | None:
        """Return tokens that fulfil a requirement; None if they need the user before the server has refused a request.

        Raises:
            AuthorizationFailed: no such tokens could be obtained.
            ConnectionClosed: the connection was closed meanwhile.

        Cancellation: a renewal that other requests wait for continues. A sign-in ends when no request waits for it.
        """
        while True:
            if self.active is not None and self.active.satisfies(requirement, self.grant.clock()):
                return self.active
            is_new = self._renewing is None
            task_requirement, task = self._renewing or self._start_renewal(connection, requirement)
            outcome = await task.wait(connection)
            if not is_new and (outcome is None or task_requirement != requirement):
                continue
            if outcome is None:
                raise ConnectionClosed("this side closed the connection while a token was requested")
            if isinstance(outcome, AuthorizationFailed):
                raise AuthorizationFailed(str(outcome), error=outcome.error) from outcome
            return outcome.value

    def _start_renewal(
        self, connection: ConnectionServices, requirement: TokenRequirement
    ) -> tuple[TokenRequirement, SharedTask[ActiveToken | None]]:
        task = SharedTask[ActiveToken | None]()
        work = TokenRenewal(self, connection.fetch, task, requirement).run
        try:
            connection.nursery.start_soon(task.run, work, self._finish, name="authorization")
        except RuntimeError:  # the nursery is closed, so the task would never run
            raise ConnectionClosed("this side has closed the connection; no token is requested any more") from None
        self._renewing = requirement, task
        return self._renewing

    def _finish(self) -> None:
        self._renewing = None

    async def _load(self) -> None:
        async with self._loading:
            if not self._is_loaded:
                with failing_as_authorization():
                    record = read_record(await self.grant.storage.load(self.key))
                self._is_loaded = True
                if record is not None:
                    self.take(record, "loaded")

    # Called by `TokenRenewal`.

    def take(self, record: TokenRecord, origin: TokenOrigin) -> ActiveToken:
        """Make these tokens the active ones."""
        if origin != "obtained" and self.active is not None and self.active.token == record.tokens.access_token:
            self.active.record = record  # the state of a token that stays the same is kept
            return self.active
        proofs = None if record.dpop_key is None else self.proofs_with(record.dpop_key)
        self.active = ActiveToken(record, proofs, origin, self.grant.clock())
        return self.active

    def proofs_with(self, key: str) -> DpopProver:
        """Return the proof maker of a key. It stays the same as long as the key does, so that nonces are kept."""
        if self._proofs is None or self._proofs[0] != key:
            self._proofs = key, DpopProver(DpopKey.from_jwk(key))
        return self._proofs[1]
