"""Leads a person to an authorization server and back by a function of the application's: its own window, or a test.

Called by the driver of flows. What goes wrong in the function fails one authorization, and nothing else.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from .._errors import AuthorizationFailed
from ._shown import shown_url

__all__ = ["HandlerVisitor"]


@frozen(eq=False)
class HandlerVisitor:
    """A `Visitor` by a function of the application's."""

    _visit: Callable[[str], Awaitable[str]]
    _redirect_uri: str
    _seconds: float

    async def pick_redirect(self, preferred: str | None) -> str:  # noqa: ARG002 # there is one, whatever is known
        """Return the redirect URI that the application waits at."""
        await trio.lowlevel.checkpoint()
        return self._redirect_uri

    async def visit(self, url: str, redirect_uri: str) -> str:  # noqa: ARG002 # it stands in the URL
        """Hand *url* to the application, and return the URL that it says the browser came back to."""
        came_back_to: object = None
        with trio.move_on_after(self._seconds) as scope:
            try:
                came_back_to = await self._visit(url)
            except AuthorizationFailed:
                raise
            except Exception as error:
                raise AuthorizationFailed(
                    f"the application could not lead anybody to {shown_url(url)}: {type(error).__name__}"
                ) from error
        if scope.cancelled_caught:
            raise AuthorizationFailed(f"nobody has come back from {shown_url(url)} within {self._seconds:g} s")
        if not isinstance(came_back_to, str):
            raise AuthorizationFailed(
                f"the application's visit function returned {type(came_back_to).__name__}, and no URL"
            )
        return came_back_to
