"""Keeps the tokens for one server, for all connections of one grant.

Called by the sources of the connections; begins flights, which do what `TokenRenewal` says. Rules of this file:

1. Whoever has a token that is good shows it, and waits for nobody.
2. There is one flight at a time. Whoever needs what it brings waits for it, and looks again when it has landed.
3. What has gone wrong, or has brought no other token, concerns those alone whose need it was.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

import trio
from attrs import define, field, frozen

from ..._errors import AuthorizationFailed, ConnectionClosed
from ...wire import encode
from .._challenges import Challenge
from .._dpop import PROOF_FIELD, DpopKey, DpopProver
from .._urls import resource_of, shown_text, shown_url
from ._discovery import TokenIssuer, discover, first_scopes, wider_scopes
from ._flow import (
    ConnectionServices,
    Flow,
    FlowServices,
    SharedTask,
    drive,
    failing_as_authorization,
    outlast,
    trusting,
)
from ._token_endpoint import TokenAsk, Tokens
from ._token_storage import (
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
    "TokenProvider",
    "TokenRenewal",
    "TokenRequirement",
    "Way",
    "storage_key",
]

_log = logging.getLogger("trio_mcp.auth")

_RETRY_SECONDS = 10.0
"""Between attempts to replace a token that is still good."""


# The tokens that a client shows a server now, and what is asked of better ones.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage


class TokenProvider(Protocol):
    """A `Grant` as the token cache uses it; the members are described there."""

    scopes: Sequence[str] | None
    storage: TokenStorage
    account: str
    dpop: bool
    trusted_hosts: Sequence[str]
    clock: Callable[[], float]
    interactive: ClassVar[bool]

    @property
    def identity(self) -> str: ...

    @property
    def stays_with_issuer(self) -> bool: ...

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]: ...

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]: ...

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]: ...


Way: TypeAlias = Literal["loaded", "refreshed", "obtained"]

_REST_SECONDS = 60.0


@frozen(kw_only=True)
class TokenRequirement:
    """What is wrong with what was shown. Requests whose needs are equal are served by the same."""

    shown: str | None = field(repr=False)
    """The access token; None where none was shown."""
    was_refused: bool = False
    """Whether the server has said so, and it is not just about to end."""
    scopes: tuple[str, ...] | None = None
    """What better ones are to be asked for; None where the scopes were not what was wrong, empty where nobody has said
    which are lacking."""
    may_refresh: bool = True
    """Whether better ones can be had by the refresh token."""
    challenge: Challenge | None = field(default=None, eq=False)
    """What the server has said."""


@define(eq=False)
class ActiveToken:
    """Tokens that are being shown."""

    record: TokenRecord
    proofs: DpopProver | None
    way: Way
    """How they came here."""
    since: float
    """When, as `time.time` counts."""
    is_accepted: bool = field(default=False, init=False)
    """Whether the server has taken them for good, once at least."""

    @property
    def token(self) -> str:
        """What is shown."""
        return self.record.tokens.access_token

    def serves(self, need: TokenRequirement, now: float) -> bool:
        """Tell whether they are better than what was shown."""
        is_other = self.token != need.shown and not self.record.has_ended(now)
        return is_other and set(self.record.known_scopes).issuperset(need.scopes or ())

    def is_hopeless(self, now: float) -> bool:
        """Tell whether the server refuses what was obtained for it a moment ago, so that another would not help."""
        return self.way == "obtained" and not self.is_accepted and now - self.since < _REST_SECONDS

    def fields(self, method: str, url: str, now: float) -> dict[str, str]:
        """Return the header fields that show them with one request."""
        shown = {"authorization": f"{self.record.tokens.token_type} {self.token}"}
        if self.proofs is not None:
            shown[PROOF_FIELD] = self.proofs.proof(method, url, now=now, token=self.token)
        return shown


def storage_key(url: str, *, identity: str, account: str, dpop: bool) -> str:
    """Return where the storage holds the record of the tokens for the server at *url*, its canonical URI."""
    return encode(["tokens", url, identity, account, dpop]).decode()


REFRESH_SECONDS = 25.0
"""The longest that a refresh may take."""


_STORE_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""For what is under way when its connection closes."""


def _locks() -> defaultdict[str, trio.Lock]:
    return defaultdict(trio.Lock)


@define(eq=False)
class IssuerLocks:
    """Who may ask which authorization server now (rule 2); locks by issuer."""

    machines: defaultdict[str, trio.Lock] = field(factory=_locks, init=False)
    """For what is over soon."""
    persons: defaultdict[str, trio.Lock] = field(factory=_locks, init=False)
    """For what takes as long as a person likes."""


@define(eq=False)
class TokenRenewal:
    """What one flight does.

    Args:
        keeper: of the tokens.
        fetch: makes requests.
        flight: this.
        need: what it is about.
    """

    _keeper: TokenCache
    _fetch: Fetch
    _flight: SharedTask[ActiveToken | None]
    _need: TokenRequirement
    _world: FlowServices = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._world = FlowServices(
            fetch=trusting(self._fetch, self._grant.trusted_hosts),
            storage=self._grant.storage,
            clock=self._grant.clock,
            agent=self._grant.agent,
            asking_person=self._flight.asking_person,
        )

    @property
    def _grant(self) -> TokenProvider:
        return self._keeper.grant

    async def run(self) -> ActiveToken | None:
        """Return better tokens; None where they take a person, and the server has not asked for them yet.

        It is None too where nobody knows what would be better: all scopes that the server lists were asked for.
        """
        need = self._need
        record = await drive(load_record(self._keeper.key), self._world)
        if record is not None:
            stored = self._keeper.take(record, "loaded")
            if stored.serves(need, self._grant.clock()):
                return stored
        place = await self._find(record) if need.was_refused else await self._find_again(record)
        if place is None:
            return None
        if record is not None and not record.is_for(place):
            self._check_issuer(record, place)
            record = None
        if need.scopes == () and record is not None and set(_listed(place)) <= set(record.known_scopes):
            return None
        if record is not None and need.scopes is None and need.may_refresh and record.tokens.refresh_token is not None:
            refreshed = await self._refresh(record, place)
            if refreshed is not None:
                return refreshed
        if self._grant.interactive and not need.was_refused:
            return None
        return await self._obtain(record, place)

    async def _find(self, record: TokenRecord | None) -> TokenIssuer:
        """Return where tokens are to be had, as the server says now that it has refused one."""
        keeper = self._keeper
        if keeper.place is None or not self._need.scopes:
            keeper.place = await self._discovered(record)
        return keeper.place

    async def _find_again(self, record: TokenRecord | None) -> TokenIssuer | None:
        """Return where the tokens came from; None where only a refusal of the server's can tell."""
        place = self._keeper.place
        if record is not None and place is None:
            try:
                place = await self._discovered(record)
            except AuthorizationFailed as failure:
                _log.info("where to replace a token could not be found out: %s", failure)
        if record is None or place is None or not record.is_for(place):
            return None
        self._keeper.place = place
        return place

    def _check_issuer(self, record: TokenRecord, place: TokenIssuer) -> None:
        """Refuse to show another authorization server what the one that tokens came from has given by hand."""
        issuer = place.server.issuer
        if self._grant.stays_with_issuer and record.issuer != issuer:
            raise AuthorizationFailed(
                f"{shown_url(self._keeper.url)} wants tokens of {shown_text(issuer)} now, but those so far came from "
                f"{shown_text(record.issuer)}, and so may the client's credentials; name the right one as their issuer"
            )

    async def _discovered(self, record: TokenRecord | None) -> TokenIssuer:
        prefer = None if record is None else record.issuer
        trusted, challenge = self._grant.trusted_hosts, self._need.challenge
        return await drive(discover(self._keeper.url, challenge, trusted_hosts=trusted, prefer=prefer), self._world)

    # The refresh token.

    async def _refresh(self, record: TokenRecord, place: TokenIssuer) -> ActiveToken | None:
        """Replace the tokens by their refresh token; return None where that has brought nothing better."""
        keeper, useless = self._keeper, record.tokens.access_token
        async with keeper.turns.machines[place.server.issuer]:
            found = await drive(take_lease(keeper.key, useless, place), self._world)
            if found is None:
                return None
            if isinstance(found, LeasedRecord):
                await self._refresh_leased(found, place)
            else:
                keeper.take(found, "loaded")
        held = keeper.held
        assert held is not None
        if self._need.was_refused:
            return None if held.token == useless else held
        return None if held.record.ends_soon(self._grant.clock()) else held

    async def _refresh_leased(self, leased: LeasedRecord, place: TokenIssuer) -> None:
        record, refresh_token = leased.record, leased.record.tokens.refresh_token
        assert refresh_token is not None
        proofs = None if record.dpop_key is None else self._keeper.proofs_with(record.dpop_key)
        ask = TokenAsk(place=place, scopes=record.requested, proofs=proofs, client=record.tokens.client)

        async def refresh() -> None:
            flow = refresh_leased(leased, self._grant.refresh(ask, refresh_token))
            self._keeper.take(await drive(flow, self._world), "refreshed")

        try:
            await outlast(refresh, seconds=REFRESH_SECONDS, grace=_GRACE_SECONDS)
        except BaseException as exc:
            with trio.move_on_after(_GRACE_SECONDS, shield=True):
                await drive(release_lease(leased), self._world)
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(exc, trio.TooSlowError):
                raise AuthorizationFailed(f"{shown_url(record.issuer)} took too long to refresh a token") from None
            raise

    # New tokens.

    async def _obtain(self, record: TokenRecord | None, place: TokenIssuer) -> ActiveToken:
        """Get tokens anew, and store them."""
        key = self._key(record, place)
        proofs = None if key is None else self._keeper.proofs_with(key)
        ask = TokenAsk(place=place, scopes=self._scopes(record, place), proofs=proofs)
        try:
            async with self._turn(place.server.issuer):
                tokens = await drive(self._grant.obtain(ask), self._world)
        except AuthorizationFailed as failure:
            self._keeper.doubts_scopes = failure.error == "invalid_scope" and self._need.scopes is None
            raise
        self._keeper.doubts_scopes = False
        try:
            await outlast(lambda: self._store(ask, tokens, key), seconds=_STORE_SECONDS, grace=_GRACE_SECONDS)
        except trio.TooSlowError:
            raise AuthorizationFailed("the token storage took too long to store a token") from None
        assert self._keeper.held is not None
        return self._keeper.held

    @asynccontextmanager
    async def _turn(self, issuer: str) -> AsyncGenerator[None]:
        """Wait until nobody else gets tokens from an issuer, and keep others waiting meanwhile."""
        turns = self._keeper.turns
        if not self._grant.interactive:
            async with turns.machines[issuer]:
                yield
            return
        with self._flight.with_person():
            with self._flight.asking_person():
                await turns.persons[issuer].acquire()
            try:
                yield
            finally:
                turns.persons[issuer].release()

    async def _store(self, ask: TokenAsk, tokens: Tokens, key: str | None) -> None:
        record = TokenRecord(
            issuer=ask.place.server.issuer,
            resource=ask.place.identifier,
            tokens=tokens,
            obtained_at=self._grant.clock(),
            requested=ask.scopes,
            dpop_key=key,
        )
        await drive(store_record(self._keeper.key, record), self._world)
        self._keeper.take(record, "obtained")

    def _key(self, record: TokenRecord | None, place: TokenIssuer) -> str | None:
        """Return the key that new tokens are to be bound to; None where they are for their bearer."""
        if self._grant.dpop:
            return DpopKey.generate().to_jwk() if record is None else record.dpop_key
        if place.resource is not None and place.resource.dpop_bound_access_tokens_required:
            raise AuthorizationFailed(
                f"the server {shown_url(self._keeper.url)} takes no tokens but those bound to a key: pass dpop=True"
            )
        return None

    def _scopes(self, record: TokenRecord | None, place: TokenIssuer) -> tuple[str, ...] | None:
        """Return what to ask for: what was asked for earlier is not lost by what is needed now."""
        need, configured = self._need, self._grant.scopes
        earlier = () if record is None or self._keeper.doubts_scopes else record.known_scopes
        lacking = _listed(place) if need.scopes == () else need.scopes or ()
        if not earlier and not lacking:
            return first_scopes(configured, need.challenge, place, offline=self._grant.interactive)
        wanted = tuple(dict.fromkeys((*earlier, *(configured or ()), *lacking)))
        return wanted if need.challenge is None else wider_scopes(wanted, need.challenge)


def _listed(place: TokenIssuer) -> tuple[str, ...]:
    """Return the scopes that a server's metadata list."""
    return first_scopes(None, None, place, offline=False) or ()


@define(eq=False)
class TokenCaches:
    """What one grant keeps, of all servers that it is used for."""

    _grant: TokenProvider
    _by_url: dict[str, TokenCache] = field(factory=dict[str, "TokenCache"], init=False)
    _turns: IssuerLocks = field(factory=IssuerLocks, init=False)

    def of(self, url: str) -> TokenCache:
        """Return the keeper of the tokens for the server at *url*; the same for all spellings of it."""
        canonical = resource_of(url)
        if canonical not in self._by_url:
            grant = self._grant
            key = storage_key(canonical, identity=grant.identity, account=grant.account, dpop=grant.dpop)
            self._by_url[canonical] = TokenCache(grant, url, key, self._turns)
        return self._by_url[canonical]


@define(eq=False)
class TokenCache:
    """Keeps the tokens for the server at one URL."""

    grant: TokenProvider
    url: str
    key: str
    """Of the record in the storage."""
    turns: IssuerLocks
    held: ActiveToken | None = field(default=None, init=False)
    """What is shown now."""
    place: TokenIssuer | None = field(default=None, init=False)
    """Where tokens were last found to be had."""
    doubts_scopes: bool = field(default=False, init=False)
    """Whether the authorization server refuses the scopes that were asked for earlier."""
    _proofs: tuple[str, DpopProver] | None = field(default=None, init=False, repr=False)
    """With the key that they are made with."""
    _is_loaded: bool = field(default=False, init=False)
    _loading: trio.Lock = field(factory=trio.Lock, init=False)
    _flying: tuple[TokenRequirement, SharedTask[ActiveToken | None]] | None = field(default=None, init=False)
    _rests_until: float = field(default=0.0, init=False)

    async def current(self, connected: ConnectionServices) -> ActiveToken | None:
        """Return what to show; None where there is nothing, until the server has said what it wants.

        What ends soon is replaced first, where this needs no person.

        Raises:
            AuthorizationFailed: it has ended, and cannot be replaced.
            ConnectionClosed: the connection has ended meanwhile.
        """
        if not self._is_loaded:
            await self._load()
        held, now = self.held, self.grant.clock()
        if held is None or not held.record.ends_soon(now):
            return held
        if held.record.has_ended(now) or now >= self._rests_until:
            await self._replace(connected, held)
        held = self.held
        return None if held is None or held.record.has_ended(self.grant.clock()) else held

    async def _replace(self, connected: ConnectionServices, held: ActiveToken) -> None:
        if self.grant.interactive and held.record.tokens.refresh_token is None:
            return
        try:
            await self.renewed(connected, TokenRequirement(shown=held.token))
        except AuthorizationFailed as failure:
            now = self.grant.clock()
            if held.record.has_ended(now):
                raise
            _log.info("a token that is still good could not be replaced: %s", failure)
            self._rests_until = now + _RETRY_SECONDS

    async def renewed(self, connected: ConnectionServices, need: TokenRequirement) -> ActiveToken | None:
        """Return what is better than what was shown; None where that takes a person, and the server has not asked yet.

        Raises:
            AuthorizationFailed: there is none.
            ConnectionClosed: the connection has ended meanwhile.

        Cancellation: what others need too goes on; a person is not asked any more, unless others wait for that.
        """
        while True:
            if self.held is not None and self.held.serves(need, self.grant.clock()):
                return self.held
            is_new = self._flying is None
            flown_for, flight = self._flying or self._begin(connected, need)
            outcome = await flight.wait(connected)
            if not is_new and (outcome is None or flown_for != need):
                continue
            if outcome is None:
                raise ConnectionClosed("this side closed the connection while it asked for a token")
            if isinstance(outcome, AuthorizationFailed):
                raise AuthorizationFailed(str(outcome), error=outcome.error) from outcome
            return outcome.value

    def _begin(
        self, connected: ConnectionServices, need: TokenRequirement
    ) -> tuple[TokenRequirement, SharedTask[ActiveToken | None]]:
        flight = SharedTask[ActiveToken | None]()
        work = TokenRenewal(self, connected.fetch, flight, need).run
        try:
            connected.nursery.start_soon(flight.run, work, self._landed, name="authorization")
        except RuntimeError:  # the nursery is closed; nobody may be left to wait for what never lands
            raise ConnectionClosed("this side has closed the connection, and asks for no token any more") from None
        self._flying = need, flight
        return self._flying

    def _landed(self) -> None:
        self._flying = None

    async def _load(self) -> None:
        async with self._loading:
            if not self._is_loaded:
                with failing_as_authorization():
                    record = read_record(await self.grant.storage.load(self.key))
                self._is_loaded = True
                if record is not None:
                    self.take(record, "loaded")

    # For the flights.

    def take(self, record: TokenRecord, way: Way) -> ActiveToken:
        """Show these tokens from now on."""
        if way != "obtained" and self.held is not None and self.held.token == record.tokens.access_token:
            self.held.record = record  # what is known of the token holds
            return self.held
        proofs = None if record.dpop_key is None else self.proofs_with(record.dpop_key)
        self.held = ActiveToken(record, proofs, way, self.grant.clock())
        return self.held

    def proofs_with(self, key: str) -> DpopProver:
        """Return what makes proofs with a key: the same for as long as the key is, so that nonces stay known."""
        if self._proofs is None or self._proofs[0] != key:
            self._proofs = key, DpopProver(DpopKey.from_jwk(key))
        return self._proofs[1]
