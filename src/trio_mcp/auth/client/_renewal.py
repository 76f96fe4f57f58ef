"""Gets better tokens for one server: what another process has stored, what a refresh brings, or quite new ones.

Rules of this file:

1. What other processes have put into the storage is used before anything is asked for.
2. Of all servers of one issuer, one is refreshed at a time, and a person is asked about one at a time. Who refreshes
   does not wait for persons.
3. What an authorization server has replaced is kept, though the connection closes meanwhile.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps
"""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import trio
from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from .._dpop import DpopKey
from .._urls import read_url, shown_text, shown_url
from ._discovery import TokenIssuer, discover, first_scopes, wider_scopes
from ._flow import Flow, FlowServices, HttpCall, HttpReply, Load, Pause, Swap, drive, now, outlast
from ._grant import Grant, TokenAsk
from ._tokens import ActiveToken, Lease, TokenRecord, TokenRequirement, Tokens, read_record, write_record

if TYPE_CHECKING:
    from ...abc import Fetch
    from ._token_cache import TokenCache

__all__ = [
    "REFRESH_SECONDS",
    "ConnectionServices",
    "IssuerLocks",
    "LeasedRecord",
    "SharedTask",
    "TaskOutcome",
    "TokenRenewal",
    "failing_as_authorization",
    "load_record",
    "refresh_leased",
    "release_lease",
    "store_record",
    "take_lease",
    "trusting",
]


# Replaces tokens in the storage so that a refresh token is presented once, whichever process does it.
#
# Rules of this file:
#
# 1. Whoever wants to refresh first writes a lease into the record, by compare-and-swap. Others pause, and look again.
# 2. A lease ends by itself, after more time than a refresh may take: its holder may be gone.
# 3. The new tokens are in the storage before anybody shows them. Where it does not take them, they are shown all the
#    same: those in their place are of no use any more.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens

_log = logging.getLogger("trio_mcp.auth")

REFRESH_SECONDS = 25.0
"""The longest that a refresh may take."""
_LEASE_SECONDS = 40.0
_FIRST_PAUSE = 0.05  # seconds
_LONGEST_PAUSE = 1.0
_MOST_SWAPS = 20  # that others may come between
_TEMPORARY = {"temporarily_unavailable", "server_error", "slow_down", "use_dpop_nonce", "invalid_dpop_proof"}


@frozen
class LeasedRecord:
    """A record that is ours to replace."""

    key: str
    record: TokenRecord
    text: str = field(repr=False)
    """What stands in the storage."""


def load_record(key: str) -> Flow[TokenRecord | None]:
    """Return the record that the storage holds."""
    text: str | None = yield Load(key)
    return read_record(text)


def take_lease(key: str, useless: str, place: TokenIssuer) -> Flow[LeasedRecord | TokenRecord | None]:
    """Wait until nobody else replaces the tokens from *place*, and lease them.

    Args:
        key: of the record.
        useless: the access token that is to be replaced.
        place: where it is replaced.

    Returns:
        What to replace; or the record as it is, where somebody else has replaced it or nobody can; or None, where
        there is none.
    """
    pause = _FIRST_PAUSE
    while True:
        text: str | None = yield Load(key)
        record = read_record(text)
        if record is None or not record.is_for(place):
            return None
        if record.tokens.access_token != useless or record.tokens.refresh_token is None:
            return record
        time = yield from now()
        if record.lease is not None and time < record.lease.until <= time + _LEASE_SECONDS:
            yield Pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            continue
        leased = evolve(record, lease=Lease(secrets.token_urlsafe(12), time + _LEASE_SECONDS))
        leased_text = write_record(leased)
        if (yield Swap(key, text, leased_text)):
            return LeasedRecord(key, leased, leased_text)


def release_lease(leased: LeasedRecord) -> Flow[None]:
    """Let others try, with the same refresh token; nothing happens where the record is ours no more."""
    yield Swap(leased.key, leased.text, write_record(evolve(leased.record, lease=None)))


def refresh_leased(leased: LeasedRecord, grant: Grant, ask: TokenAsk) -> Flow[TokenRecord]:
    """Replace the tokens; the lease ends with it. Where this fails, it is to be released.

    Returns:
        The new record, or the one there was without its refresh token: that is of no use any more.

    Raises:
        AuthorizationFailed: it cannot be told now.
    """
    old = leased.record
    assert old.tokens.refresh_token is not None
    try:
        tokens = yield from grant.refresh(ask, old.tokens.refresh_token)
    except AuthorizationFailed as failure:
        if failure.error is None or failure.error in _TEMPORARY:
            raise
        _log.info("the authorization server %s refreshes no more: %s", old.issuer, failure)
        spent = evolve(old, lease=None, tokens=evolve(old.tokens, refresh_token=None))
        yield Swap(leased.key, leased.text, write_record(spent))
        return spent
    tokens = evolve(
        tokens,
        refresh_token=tokens.refresh_token or old.tokens.refresh_token,
        scopes=old.tokens.scopes if tokens.scopes is None else tokens.scopes,
        client=old.tokens.client,
    )
    new = evolve(old, tokens=tokens, obtained_at=(yield from now()), lease=None)
    try:
        yield from _store_refreshed(leased, new)
    except Exception as error:  # noqa: BLE001 # storages raise anything; the old tokens are gone, whatever it was
        _log.warning("a token was refreshed and is used, but could not be stored: %s", type(error).__name__)
    return new


def _store_refreshed(leased: LeasedRecord, new: TokenRecord) -> Flow[None]:
    """Store what has become of a leased record, unless the lease has run out and somebody else has replaced it."""
    replaced, new_text = leased.record.tokens.access_token, write_record(new)
    text: str | None = leased.text
    for _ in range(_MOST_SWAPS):
        if (yield Swap(leased.key, text, new_text)):
            return
        text = yield Load(leased.key)
        stored = read_record(text)
        if stored is None or stored.tokens.access_token != replaced:
            return


def store_record(key: str, record: TokenRecord) -> Flow[None]:
    """Store a record in place of whatever is there."""
    new_text = write_record(record)
    for _ in range(_MOST_SWAPS):
        text: str | None = yield Load(key)
        if (yield Swap(key, text, new_text)):
            return
    raise AuthorizationFailed("the token storage does not take the new token: it changes all the time")


# Hosts that a user trusts by name count as named by the user, whoever leads there.


def trusting(fetch: Fetch, trusted_hosts: Sequence[str]) -> Fetch:
    """Return what makes the requests that *fetch* makes, and may make them to *trusted_hosts* in any network.

    Args:
        trusted_hosts: names of hosts, without port.
    """
    trusted = {host.lower().strip("[]") for host in trusted_hosts}

    async def fetch_trusting(call: HttpCall) -> HttpReply:
        parts = read_url(call.url)
        is_trusted = parts is not None and parts.host in trusted
        return await fetch(evolve(call, named_by="user") if is_trusted else call)

    return fetch_trusting


# Work on the tokens for one server that any number of requests wait for, none of which has it in its hands.
#
# Rules of this file:
#
# 1. A flight is a task of the connection whose request has begun it. Whoever waits may be cancelled; the flight goes
# on.
# 2. While a person is being asked, all connections whose requests wait say so, each in a task of its own.
# 3. A person is asked only as long as somebody waits. A flight that ends because nobody did, or because its connection
#    closed, has no outcome: whoever has come meanwhile begins another one.

T = TypeVar("T")


@frozen(eq=False)
class ConnectionServices:
    """What a connection lends to the work on tokens."""

    fetch: Fetch
    nursery: trio.Nursery
    asking_person: Callable[[], AbstractContextManager[None]]


@frozen
class TaskOutcome(Generic[T]):
    """What has come of a flight."""

    value: T


_Outcome: TypeAlias = "TaskOutcome[T] | AuthorizationFailed | None"


class _Abandoned(Exception):
    """Nobody waits any more."""


@contextmanager
def failing_as_authorization() -> Generator[None]:
    """Turn whatever is raised into `AuthorizationFailed`: storages and functions of the application raise anything."""
    try:
        yield
    except (AuthorizationFailed, _Abandoned):
        raise
    except Exception as exc:
        raise AuthorizationFailed(f"authorization failed, because something raised {type(exc).__name__}") from exc


@define(eq=False)
class SharedTask(Generic[T]):
    """One piece of work, from its first step to its outcome."""

    _outcome: _Outcome[T] = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)
    _is_asking: bool = field(default=False, init=False)
    _waiting: int = field(default=0, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _person: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Around what a person takes part in."""

    async def run(self, work: Callable[[], Awaitable[T]], landing: Callable[[], None]) -> None:
        """Do the work; to be a task of its own.

        Args:
            work: an async function.
            landing: called when it has ended, in whatever way; synchronous.
        """
        try:
            with failing_as_authorization():
                self._outcome = TaskOutcome(await work())
        except AuthorizationFailed as failure:
            self._outcome = failure
        except _Abandoned:
            pass
        finally:
            landing()
            self._is_over = True
            self._change()

    async def wait(self, connected: ConnectionServices) -> _Outcome[T]:
        """Return the outcome when it is there; None where there is none (rule 3).

        Args:
            connected: whose time limits stand still while a person is being asked.
        """
        self._waiting += 1
        try:
            while not self._is_over:
                with connected.asking_person() if self._is_asking else nullcontext():
                    await self._changed.wait()
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._person.cancel()
        return self._outcome

    @contextmanager
    def with_person(self) -> Generator[None]:
        """Return a block in which a person takes part: it is left when nobody waits any more; to be entered once."""
        with self._person:
            yield
            return
        raise _Abandoned

    @contextmanager
    def asking_person(self) -> Generator[None]:
        """Return a block in which a person is being asked."""
        self._is_asking = True
        self._change()
        try:
            yield
        finally:
            self._is_asking = False
            self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


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
    def _grant(self) -> Grant:
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
        record = leased.record
        proofs = None if record.dpop_key is None else self._keeper.proofs_with(record.dpop_key)
        ask = TokenAsk(place=place, scopes=record.requested, proofs=proofs, client=record.tokens.client)

        async def refresh() -> None:
            self._keeper.take(await drive(refresh_leased(leased, self._grant, ask), self._world), "refreshed")

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
