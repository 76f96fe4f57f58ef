"""Replaces tokens in the storage so that a refresh token is presented once, whichever process does it.

Rules of this file:

1. Whoever wants to refresh first writes a lease into the record, by compare-and-swap. Others pause, and look again.
2. A lease ends by itself, after more time than a refresh may take: its holder may be gone.
3. The new tokens are in the storage before anybody shows them. Where it does not take them, they are shown all the
   same: those in their place are of no use any more.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from .._errors import AuthorizationFailed
from ._metadata import Place
from ._records import Lease, Record, read_record, write_record
from ._steps import Flow, Load, Pause, Swap, now

if TYPE_CHECKING:
    from ._grant import Grant, TokenAsk

__all__ = ["REFRESH_SECONDS", "Leased", "load_record", "refresh_leased", "release_lease", "store_record", "take_lease"]

_log = logging.getLogger("trio_mcp.auth")

REFRESH_SECONDS = 25.0
"""The longest that a refresh may take."""
_LEASE_SECONDS = 40.0
_FIRST_PAUSE = 0.05  # seconds
_LONGEST_PAUSE = 1.0
_MOST_SWAPS = 20  # that others may come between
_TEMPORARY = {"temporarily_unavailable", "server_error", "slow_down", "use_dpop_nonce", "invalid_dpop_proof"}


@frozen
class Leased:
    """A record that is ours to replace."""

    key: str
    record: Record
    text: str = field(repr=False)
    """What stands in the storage."""


def load_record(key: str) -> Flow[Record | None]:
    """Return the record that the storage holds."""
    text: str | None = yield Load(key)
    return read_record(text)


def take_lease(key: str, useless: str, place: Place) -> Flow[Leased | Record | None]:
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
            return Leased(key, leased, leased_text)


def release_lease(leased: Leased) -> Flow[None]:
    """Let others try, with the same refresh token; nothing happens where the record is ours no more."""
    yield Swap(leased.key, leased.text, write_record(evolve(leased.record, lease=None)))


def refresh_leased(leased: Leased, grant: Grant, ask: TokenAsk) -> Flow[Record]:
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


def _store_refreshed(leased: Leased, new: Record) -> Flow[None]:
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


def store_record(key: str, record: Record) -> Flow[None]:
    """Store a record in place of whatever is there."""
    new_text = write_record(record)
    for _ in range(_MOST_SWAPS):
        text: str | None = yield Load(key)
        if (yield Swap(key, text, new_text)):
            return
    raise AuthorizationFailed("the token storage does not take the new token: it changes all the time")
