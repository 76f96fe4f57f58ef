"""The records of tokens in a storage, and the leases by which only one process refreshes them.

Rules of this file: a refresh token is presented once, whichever process does it.

1. A process that wants to refresh first writes a lease into the record, by compare-and-swap. Other processes pause, and
   read the record again.
2. A lease expires after more time than a refresh may take, because its holder may have died.
3. New tokens are stored before they are used. If the storage refuses them, they are used all the same, because the old
   ones are useless by then.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
"""

from __future__ import annotations

import logging
import secrets
from typing import Literal

import msgspec
from attrs import evolve, field, frozen

from ..._errors import AuthorizationFailed
from .._dpop import DpopKey
from ._discovery import TokenIssuer
from ._steps import Flow, Load, Pause, Swap, now
from ._token_endpoint import Tokens, is_showable

__all__ = [
    "Lease",
    "LeasedRecord",
    "TokenRecord",
    "load_record",
    "read_record",
    "refresh_leased",
    "release_lease",
    "store_record",
    "take_lease",
    "write_record",
]

_log = logging.getLogger("trio_mcp.auth")

_EARLY_SECONDS = 30.0
_EARLY_FRACTION = 0.1


@frozen
class Lease:
    """A claim of one process to replace the tokens, which other processes respect until it expires."""

    holder: str
    """A random string."""
    until: float
    """The expiry, as `time.time` counts."""


@frozen(kw_only=True)
class TokenRecord:
    """The tokens for one server, and the facts that are needed to replace them."""

    version: Literal[1] = 1
    """The version of the format. A record of another version is ignored."""
    issuer: str
    """The authorization server that issued the tokens. They are sent only to it and to the MCP server."""
    resource: str | None
    """The server, as the token requests have named it."""
    tokens: Tokens
    obtained_at: float
    """The time at which the tokens were obtained, as `time.time` counts."""
    requested: tuple[str, ...] | None
    """The requested scopes; None if none were named."""
    dpop_key: str | None = field(repr=False)
    """The private key that the tokens are bound to, as a JSON Web Key."""
    lease: Lease | None = None

    def is_for(self, token_issuer: TokenIssuer) -> bool:
        """Return True if the tokens are from this issuer, and for its server."""
        return self.issuer == token_issuer.server.issuer and self.resource == token_issuer.identifier

    @property
    def scopes_to_keep(self) -> tuple[str, ...]:
        """The scopes that a later token request must include."""
        return self.tokens.scopes or () if self.requested is None else self.requested

    def has_expired(self, now: float) -> bool:
        """Return True if the access token has expired."""
        return self.tokens.expires_at is not None and self.tokens.expires_at <= now

    def expires_soon(self, now: float) -> bool:
        """Return True if the access token expires within 30 s, or within the last tenth of a short lifetime."""
        if self.tokens.expires_at is None:
            return False
        lifetime = self.tokens.expires_at - self.obtained_at
        return self.tokens.expires_at - now < min(_EARLY_SECONDS, lifetime * _EARLY_FRACTION)


def read_record(text: str | None) -> TokenRecord | None:
    """Return a record of `write_record`; None for any other string, which is logged without its content."""
    if text is None:
        return None
    try:
        record = msgspec.json.decode(text, type=TokenRecord)
    except (ValueError, RecursionError):
        record = None
    if record is None or not is_showable(record.tokens.access_token) or not _has_matching_key(record):
        _log.warning("the token storage holds a value of another version or format; it is ignored")
        return None
    return record


def _has_matching_key(record: TokenRecord) -> bool:
    if record.dpop_key is None:
        return record.tokens.token_type == "Bearer"  # noqa: S105 # a type of tokens
    try:
        DpopKey.from_jwk(record.dpop_key)
    except ValueError:
        return False
    return record.tokens.token_type == "DPoP"  # noqa: S105 # a type of tokens


def write_record(record: TokenRecord) -> str:
    """Return a record as a string for the storage. It contains secrets."""
    return msgspec.json.encode(record).decode()


_LEASE_SECONDS = 40.0
_FIRST_PAUSE = 0.05  # seconds
_MAX_PAUSE = 1.0
_MAX_SWAPS = 20  # attempts while other processes change the record
_TEMPORARY = {"temporarily_unavailable", "server_error", "slow_down", "use_dpop_nonce", "invalid_dpop_proof"}


@frozen
class LeasedRecord:
    """A record that this process has leased."""

    key: str
    record: TokenRecord
    text: str = field(repr=False)
    """The string in the storage."""


def load_record(key: str) -> Flow[TokenRecord | None]:
    """Return the record in the storage."""
    text: str | None = yield Load(key)
    return read_record(text)


def take_lease(key: str, old_token: str, token_issuer: TokenIssuer) -> Flow[LeasedRecord | TokenRecord | None]:
    """Wait until no other process replaces the tokens of an issuer, and lease their record.

    Args:
        key: the key of the record.
        old_token: the access token that is to be replaced.
        token_issuer: the issuer that replaces it.

    Returns:
        The leased record; or the record itself if another process has replaced the token or if there is no refresh
        token; or None if there is no such record.
    """
    pause = _FIRST_PAUSE
    while True:
        text: str | None = yield Load(key)
        record = read_record(text)
        if record is None or not record.is_for(token_issuer):
            return None
        if record.tokens.access_token != old_token or record.tokens.refresh_token is None:
            return record
        time = yield from now()
        if record.lease is not None and time < record.lease.until <= time + _LEASE_SECONDS:
            yield Pause(pause)
            pause = min(pause * 2, _MAX_PAUSE)
            continue
        leased = evolve(record, lease=Lease(secrets.token_urlsafe(12), time + _LEASE_SECONDS))
        leased_text = write_record(leased)
        if (yield Swap(key, text, leased_text)):
            return LeasedRecord(key, leased, leased_text)


def release_lease(leased: LeasedRecord) -> Flow[None]:
    """Release a lease, with the refresh token unused. Do nothing if the record has changed."""
    yield Swap(leased.key, leased.text, write_record(evolve(leased.record, lease=None)))


def refresh_leased(leased: LeasedRecord, refresh: Flow[Tokens]) -> Flow[TokenRecord]:
    """Replace the tokens of a leased record, and release the lease. If this fails, the caller must release it.

    Args:
        leased: the record.
        refresh: the flow that presents the refresh token.

    Returns:
        The new record; or the old one without its refresh token, if that was refused.

    Raises:
        AuthorizationFailed: the authorization server gave no definite answer.
    """
    old = leased.record
    try:
        tokens = yield from refresh
    except AuthorizationFailed as failure:
        if failure.error is None or failure.error in _TEMPORARY:
            raise
        _log.info("the authorization server %s has refused the refresh token: %s", old.issuer, failure)
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
    except Exception as error:  # noqa: BLE001 # storages raise anything; the old tokens are useless in any case
        _log.warning("a token was refreshed and is used, but could not be stored: %s", type(error).__name__)
    return new


def _store_refreshed(leased: LeasedRecord, new: TokenRecord) -> Flow[None]:
    """Store the result of a refresh, unless the lease has expired and another process has replaced the record."""
    replaced, new_text = leased.record.tokens.access_token, write_record(new)
    text: str | None = leased.text
    for _ in range(_MAX_SWAPS):
        if (yield Swap(leased.key, text, new_text)):
            return
        text = yield Load(leased.key)
        stored = read_record(text)
        if stored is None or stored.tokens.access_token != replaced:
            return


def store_record(key: str, record: TokenRecord) -> Flow[None]:
    """Store a record in place of any other."""
    new_text = write_record(record)
    for _ in range(_MAX_SWAPS):
        text: str | None = yield Load(key)
        if (yield Swap(key, text, new_text)):
            return
    raise AuthorizationFailed("the token storage does not accept the new token: the record keeps changing")
