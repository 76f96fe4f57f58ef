"""The tokens that a client shows a server now, and what is asked of better ones.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import define, field, frozen

from ._challenges import Challenge
from ._dpop import PROOF_FIELD, Proofs
from ._records import Record

__all__ = ["Held", "Need", "Way"]

Way: TypeAlias = Literal["loaded", "refreshed", "obtained"]

_REST_SECONDS = 60.0


@frozen(kw_only=True)
class Need:
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
class Held:
    """Tokens that are being shown."""

    record: Record
    proofs: Proofs | None
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

    def serves(self, need: Need, now: float) -> bool:
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
