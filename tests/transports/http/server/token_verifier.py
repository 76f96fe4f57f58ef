"""A resource server whose tokens a test issues: their subject, scopes, audience and expiry."""

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
    """A token verifier that knows the tokens that it has issued."""

    known: dict[str, VerifiedToken] = field(factory=dict[str, VerifiedToken], init=False)
    verified: list[str] = field(factory=list[str], init=False)
    """The tokens that were verified, in order."""

    def issue(
        self, subject: str, *scopes: str, expires_at: float | None = None, audience: str = RESOURCE
    ) -> dict[str, str]:
        """Issue a token; return the header field that carries it."""
        token = f"token-{len(self.known)}"
        self.known[token] = VerifiedToken(
            issuer=ISSUER,
            subject=subject,
            client_id="test",
            audiences=(audience,),
            scopes=frozenset(scopes),
            expires_at=expires_at,
        )
        return {"authorization": f"Bearer {token}"}

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        del fetch
        await trio.lowlevel.checkpoint()
        self.verified.append(token)
        if token not in self.known:
            raise InvalidToken("it was never issued")
        return self.known[token]


def protection(tokens: Any, *, clock: Callable[[], float] = lambda: 0.0, **options: Any) -> ResourceServer:
    """Return a resource server that verifies its tokens with *tokens*."""
    return ResourceServer(RESOURCE, issuers=[ISSUER], verifier=tokens, clock=clock, **options)
