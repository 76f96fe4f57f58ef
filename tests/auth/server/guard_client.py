"""A client of a token guard whose authorization server is scripted, and helpers for its outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from tests.auth.signed_tokens import ISSUER, RESOURCE, Issuer
from trio_mcp.auth import ResourceServer, TokenGuard
from trio_mcp.auth._challenges import Challenge, read_challenges
from trio_mcp.peer import Access
from trio_mcp.wire import Refusal

__all__ = ["GuardClient", "access_of", "challenges_of", "guard_client", "refusal_of"]


@define(eq=False)
class GuardClient:
    """A client that sends requests to a token guard."""

    guard: TokenGuard
    issuer: Issuer = field(factory=Issuer)

    async def __call__(
        self,
        token: str | None = None,
        *,
        scheme: str = "Bearer",
        proof: str | None = None,
        method: str = "POST",
        path: str = "/mcp",
        query: str = "",
        headers: Mapping[str, str] | None = None,
        address: str | None = None,
    ) -> Access | Refusal:
        """Send one request."""
        fields = {} if token is None else {"authorization": f"{scheme} {token}"}
        if proof is not None:
            fields["dpop"] = proof
        return await self.guard.admit(method, path, query, {**fields, **(headers or {})}, client=address)


def guard_client(issuer: Issuer | None = None, **options: Any) -> GuardClient:
    """Return a client of a protected server that has the usual settings, changed by *options*."""
    issuer = issuer or Issuer()
    settings: dict[str, Any] = {"resource": RESOURCE, "issuers": [ISSUER], "clock": issuer.clock, **options}
    return GuardClient(ResourceServer(**settings).guard(issuer), issuer)


def access_of(outcome: Access | Refusal) -> Access:
    assert isinstance(outcome, Access), outcome
    return outcome


def refusal_of(outcome: Access | Refusal | None, status: int, error: str | None = None) -> Refusal:
    """Return the refusal, after checking its status and the error in each of its challenges."""
    assert isinstance(outcome, Refusal), outcome
    assert outcome.status == status
    assert [challenge.parameters.get("error") for challenge in challenges_of(outcome)] == [error] * len(
        challenges_of(outcome)
    )
    return outcome


def challenges_of(refusal: Refusal) -> list[Challenge]:
    return read_challenges(refusal.headers.get("www-authenticate", ""))
