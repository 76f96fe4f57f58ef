"""Keeps the tokens for one server, for all connections of one grant.

Called by the sources of the connections; begins flights, which do what `TokenRenewal` says. Rules of this file:

1. Whoever has a token that is good shows it, and waits for nobody.
2. There is one flight at a time. Whoever needs what it brings waits for it, and looks again when it has landed.
3. What has gone wrong, or has brought no other token, concerns those alone whose need it was.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling
"""

from __future__ import annotations

import logging

import trio
from attrs import define, field

from ..._errors import AuthorizationFailed, ConnectionClosed
from .._dpop import DpopKey, DpopProver
from .._urls import resource_of
from ._discovery import TokenIssuer
from ._grant import Grant
from ._renewal import ConnectionServices, IssuerLocks, SharedTask, TokenRenewal, failing_as_authorization
from ._tokens import ActiveToken, TokenRecord, TokenRequirement, Way, key_of, read_record

__all__ = ["TokenCache", "TokenCaches"]

_log = logging.getLogger("trio_mcp.auth")

_REST_SECONDS = 10.0
"""Between attempts to replace a token that is still good."""


@define(eq=False)
class TokenCaches:
    """What one grant keeps, of all servers that it is used for."""

    _grant: Grant
    _by_url: dict[str, TokenCache] = field(factory=dict[str, "TokenCache"], init=False)
    _turns: IssuerLocks = field(factory=IssuerLocks, init=False)

    def of(self, url: str) -> TokenCache:
        """Return the keeper of the tokens for the server at *url*; the same for all spellings of it."""
        canonical = resource_of(url)
        if canonical not in self._by_url:
            self._by_url[canonical] = TokenCache(self._grant, url, key_of(self._grant, canonical), self._turns)
        return self._by_url[canonical]


@define(eq=False)
class TokenCache:
    """Keeps the tokens for the server at one URL."""

    grant: Grant
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
            self._rests_until = now + _REST_SECONDS

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
