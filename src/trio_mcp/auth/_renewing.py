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
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import AuthorizationFailed
from ._discovery import discover
from ._dpop import DpopKey
from ._driver import World, drive, outlast
from ._flight import Flight
from ._grant import Grant, TokenAsk
from ._held import Held, Need
from ._leases import REFRESH_SECONDS, Leased, load_record, refresh_leased, release_lease, store_record, take_lease
from ._metadata import Place
from ._records import Record
from ._scopes import first_scopes, wider_scopes
from ._shown import shown_text, shown_url
from ._tokens import Tokens
from ._trusting import trusting

if TYPE_CHECKING:
    from ..abc import Fetch
    from ._keeper import Keeper

__all__ = ["Renewing", "Turns"]

_log = logging.getLogger("trio_mcp.auth")

_STORE_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""For what is under way when its connection closes."""


def _locks() -> defaultdict[str, trio.Lock]:
    return defaultdict(trio.Lock)


@define(eq=False)
class Turns:
    """Who may ask which authorization server now (rule 2); locks by issuer."""

    machines: defaultdict[str, trio.Lock] = field(factory=_locks, init=False)
    """For what is over soon."""
    persons: defaultdict[str, trio.Lock] = field(factory=_locks, init=False)
    """For what takes as long as a person likes."""


@define(eq=False)
class Renewing:
    """What one flight does.

    Args:
        keeper: of the tokens.
        fetch: makes requests.
        flight: this.
        need: what it is about.
    """

    _keeper: Keeper
    _fetch: Fetch
    _flight: Flight[Held | None]
    _need: Need
    _world: World = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._world = World(
            fetch=trusting(self._fetch, self._grant.trusted_hosts),
            storage=self._grant.storage,
            clock=self._grant.clock,
            visitor=self._grant.visitor,
            asking_person=self._flight.asking_person,
        )

    @property
    def _grant(self) -> Grant:
        return self._keeper.grant

    async def run(self) -> Held | None:
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

    async def _find(self, record: Record | None) -> Place:
        """Return where tokens are to be had, as the server says now that it has refused one."""
        keeper = self._keeper
        if keeper.place is None or not self._need.scopes:
            keeper.place = await self._discovered(record)
        return keeper.place

    async def _find_again(self, record: Record | None) -> Place | None:
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

    def _check_issuer(self, record: Record, place: Place) -> None:
        """Refuse to show another authorization server what the one that tokens came from has given by hand."""
        issuer = place.server.issuer
        if self._grant.stays_with_issuer and record.issuer != issuer:
            raise AuthorizationFailed(
                f"{shown_url(self._keeper.url)} wants tokens of {shown_text(issuer)} now, but those so far came from "
                f"{shown_text(record.issuer)}, and so may the client's credentials; name the right one as their issuer"
            )

    async def _discovered(self, record: Record | None) -> Place:
        prefer = None if record is None else record.issuer
        trusted, challenge = self._grant.trusted_hosts, self._need.challenge
        return await drive(discover(self._keeper.url, challenge, trusted_hosts=trusted, prefer=prefer), self._world)

    # The refresh token.

    async def _refresh(self, record: Record, place: Place) -> Held | None:
        """Replace the tokens by their refresh token; return None where that has brought nothing better."""
        keeper, useless = self._keeper, record.tokens.access_token
        async with keeper.turns.machines[place.server.issuer]:
            found = await drive(take_lease(keeper.key, useless, place), self._world)
            if found is None:
                return None
            if isinstance(found, Leased):
                await self._refresh_leased(found, place)
            else:
                keeper.take(found, "loaded")
        held = keeper.held
        assert held is not None
        if self._need.was_refused:
            return None if held.token == useless else held
        return None if held.record.ends_soon(self._grant.clock()) else held

    async def _refresh_leased(self, leased: Leased, place: Place) -> None:
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

    async def _obtain(self, record: Record | None, place: Place) -> Held:
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
        record = Record(
            issuer=ask.place.server.issuer,
            resource=ask.place.identifier,
            tokens=tokens,
            obtained_at=self._grant.clock(),
            requested=ask.scopes,
            dpop_key=key,
        )
        await drive(store_record(self._keeper.key, record), self._world)
        self._keeper.take(record, "obtained")

    def _key(self, record: Record | None, place: Place) -> str | None:
        """Return the key that new tokens are to be bound to; None where they are for their bearer."""
        if self._grant.dpop:
            return DpopKey.generate().to_jwk() if record is None else record.dpop_key
        if place.resource is not None and place.resource.dpop_bound_access_tokens_required:
            raise AuthorizationFailed(
                f"the server {shown_url(self._keeper.url)} takes no tokens but those bound to a key: pass dpop=True"
            )
        return None

    def _scopes(self, record: Record | None, place: Place) -> tuple[str, ...] | None:
        """Return what to ask for: what was asked for earlier is not lost by what is needed now."""
        need, configured = self._need, self._grant.scopes
        earlier = () if record is None or self._keeper.doubts_scopes else record.known_scopes
        lacking = _listed(place) if need.scopes == () else need.scopes or ()
        if not earlier and not lacking:
            return first_scopes(configured, need.challenge, place, offline=self._grant.interactive)
        wanted = tuple(dict.fromkeys((*earlier, *(configured or ()), *lacking)))
        return wanted if need.challenge is None else wider_scopes(wanted, need.challenge)


def _listed(place: Place) -> tuple[str, ...]:
    """Return the scopes that a server's metadata list."""
    return first_scopes(None, None, place, offline=False) or ()
