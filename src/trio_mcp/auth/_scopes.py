"""Which scopes a client asks for: no more than it needs, and all that it needs.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ._challenges import Challenge
from ._metadata import Place

__all__ = ["OFFLINE_ACCESS", "first_scopes", "is_scope", "read_scopes", "wider_scopes"]

OFFLINE_ACCESS = "offline_access"
"""Asks an authorization server for a refresh token, if it lists this scope."""

_MOST_SCOPES = 200  # of those that a server lists; a request for more would be too long for a URL
_SCOPE = re.compile(r"[!#-\[\]-~]{1,256}")  # RFC 6749, 3.3; its length is our bound


def is_scope(text: str) -> bool:
    """Tell whether *text* is one scope."""
    return _SCOPE.fullmatch(text) is not None


def read_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes in a text, which has blanks between them: in order, none twice, and none that is malformed."""
    return _distinct(filter(is_scope, text.split()))


def first_scopes(
    configured: Sequence[str] | None, challenged: Challenge | None, place: Place, *, offline: bool
) -> tuple[str, ...] | None:
    """Return what to ask for first; None: ask for no scope, so that the authorization server gives what it likes.

    What the challenge names is needed, with what the user has configured. Where neither says anything it is what the
    server's metadata lists.

    Args:
        configured: by the user.
        challenged: what the server answered with; None where it was not asked yet.
        place: where the token is to be had.
        offline: whether a refresh token is of use; the scope for it is then added where the authorization server
            lists it, and where anything is asked for: alone it would stand in the way of what is given to all.
    """
    chosen = _distinct([*(configured or ()), *_challenged_scopes(challenged)])
    if not chosen and place.resource is not None:
        listed = place.resource.scopes_supported or ()
        chosen = _distinct(scope for scope in listed if is_scope(scope) and scope != OFFLINE_ACCESS)[:_MOST_SCOPES]
    if chosen and offline and OFFLINE_ACCESS in (place.server.scopes_supported or ()):
        chosen = _distinct([*chosen, OFFLINE_ACCESS])
    return chosen or None


def wider_scopes(earlier: Sequence[str] | None, challenged: Challenge) -> tuple[str, ...]:
    """Return what to ask for after *challenged*, which says that *earlier* was too little: both together."""
    return _distinct([*(earlier or ()), *_challenged_scopes(challenged)])


def _challenged_scopes(challenged: Challenge | None) -> tuple[str, ...]:
    return () if challenged is None else read_scopes(challenged.parameters.get("scope", ""))


def _distinct(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scopes))
