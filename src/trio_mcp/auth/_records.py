"""What the storage holds about the tokens for one server: one text of JSON, for other processes and later ones.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#token-theft
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Literal

import msgspec
from attrs import field, frozen

from ..wire import encode
from ._dpop import DpopKey
from ._metadata import Place
from ._tokens import Tokens

if TYPE_CHECKING:
    from ._grant import Grant

__all__ = ["Lease", "Record", "is_showable", "key_of", "read_record", "write_record"]

_log = logging.getLogger("trio_mcp.auth")

_SHOWABLE = re.compile(r"[!-~]+")
_EARLY_SECONDS = 30.0
_EARLY_PART = 0.1


@frozen
class Lease:
    """Who is replacing the tokens, and until when nobody else may try."""

    holder: str
    """A text that nobody else has drawn."""
    until: float
    """As `time.time` counts."""


@frozen(kw_only=True)
class Record:
    """The tokens for one server, and what has to be known to replace them."""

    version: Literal[1] = 1
    """Of this shape; what has another one is none of ours."""
    issuer: str
    """Who has issued the tokens; nobody else ever sees them, but for the server."""
    resource: str | None
    """The server, as the requests for the tokens have named it."""
    tokens: Tokens
    obtained_at: float
    """As `time.time` counts."""
    requested: tuple[str, ...] | None
    """The scopes that were asked for; None where none was named."""
    dpop_key: str | None = field(repr=False)
    """The private key that the tokens are bound to, as a JSON Web Key."""
    lease: Lease | None = None

    def is_for(self, place: Place) -> bool:
        """Tell whether the tokens are from the issuer at *place*, and for the server there."""
        return self.issuer == place.server.issuer and self.resource == place.identifier

    @property
    def known_scopes(self) -> tuple[str, ...]:
        """The scopes that a request for other tokens must not lose."""
        return self.tokens.scopes or () if self.requested is None else self.requested

    def has_ended(self, now: float) -> bool:
        """Tell whether the access token is of no use any more."""
        return self.tokens.expires_at is not None and self.tokens.expires_at <= now

    def ends_soon(self, now: float) -> bool:
        """Tell whether to replace the access token: 30 s before its end, or in the last tenth of a short life."""
        if self.tokens.expires_at is None:
            return False
        life = self.tokens.expires_at - self.obtained_at
        return self.tokens.expires_at - now < min(_EARLY_SECONDS, life * _EARLY_PART)


def key_of(grant: Grant, url: str) -> str:
    """Return where the storage holds the record of the tokens for the server at *url*, its canonical URI."""
    return encode(["tokens", url, grant.identity, grant.account, grant.dpop]).decode()


def is_showable(token: str) -> bool:
    """Tell whether a token can stand in a header field: visible ASCII alone, and not empty."""
    return _SHOWABLE.fullmatch(token) is not None


def read_record(text: str | None) -> Record | None:
    """Return what `write_record` has written; None for anything else, which is logged without its content."""
    if text is None:
        return None
    try:
        record = msgspec.json.decode(text, type=Record)
    except (ValueError, RecursionError):
        record = None
    if record is None or not is_showable(record.tokens.access_token) or not _is_bound_as_it_says(record):
        _log.warning("the token storage holds a value that is none of this version's; it is not used")
        return None
    return record


def _is_bound_as_it_says(record: Record) -> bool:
    if record.dpop_key is None:
        return record.tokens.token_type == "Bearer"  # noqa: S105 # a type
    try:
        DpopKey.from_jwk(record.dpop_key)
    except ValueError:
        return False
    return record.tokens.token_type == "DPoP"  # noqa: S105 # a type


def write_record(record: Record) -> str:
    """Return a record as the storage holds it; it is full of secrets."""
    return msgspec.json.encode(record).decode()
