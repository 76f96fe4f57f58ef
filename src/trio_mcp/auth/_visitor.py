"""What leads a person to an authorization server and back.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Visitor"]


class Visitor(Protocol):
    """Leads a person to an authorization server and back, once."""

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return where the browser is to be sent back to, ready for it.

        Args:
            preferred: what the authorization server knows already; another one has to be registered there first.

        Raises:
            AuthorizationFailed: there is no such place.
        """
        ...

    async def visit(self, url: str, redirect_uri: str) -> str:
        """Show *url* to the person, and return the whole URL that the browser was then sent to.

        Args:
            url: an ``https`` URL, or an ``http`` one of this machine; checked already.
            redirect_uri: what `pick_redirect` has returned.

        Raises:
            AuthorizationFailed: the person could not be shown it, or did not come back in time.
        """
        ...
