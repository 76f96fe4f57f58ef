"""A protection whose tokens a test makes up itself: whose they are, what they are good for, and when they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from attrs import define, field

from trio_mcp.abc import Fetch
from trio_mcp.auth import InvalidToken, ResourceServer, VerifiedToken

RESOURCE, ISSUER = "https://mcp.example/mcp", "https://login.example"
METADATA = "/.well-known/oauth-protected-resource/mcp"
METADATA_URL = f"https://mcp.example{METADATA}"


@define(eq=False)
class Tokens:
    """Verifies the tokens that it has given out."""

    known: dict[str, VerifiedToken] = field(factory=dict[str, VerifiedToken], init=False)
    seen: list[str] = field(factory=list[str], init=False)
    """Those that were shown, in order."""

    def give(self, who: str, *scopes: str, ends: float | None = None, audience: str = RESOURCE) -> dict[str, str]:
        """Return the header field that shows a new token."""
        token = f"token-{len(self.known)}"
        self.known[token] = VerifiedToken(
            issuer=ISSUER,
            subject=who,
            client_id="test",
            audiences=(audience,),
            scopes=frozenset(scopes),
            expires_at=ends,
        )
        return {"authorization": f"Bearer {token}"}

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        del fetch
        await trio.lowlevel.checkpoint()
        self.seen.append(token)
        if token not in self.known:
            raise InvalidToken("nobody was given it")
        return self.known[token]


def protection(tokens: Any, *, clock: Callable[[], float] = lambda: 0.0, **options: Any) -> ResourceServer:
    """Return a protection by *tokens*."""
    return ResourceServer(RESOURCE, issuers=[ISSUER], verifier=tokens, clock=clock, **options)
