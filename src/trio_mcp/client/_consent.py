"""The application's word on what is about to happen: it sees each call and question, and may edit or refuse it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28#security-and-trust-safety
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, Union

from .. import types

__all__ = ["Consent", "Consentable", "consented"]

Consentable: TypeAlias = Union[
    "types.CallToolRequestParams", "types.CreateMessageRequestParams", "types.ElicitRequestParams"
]
"""What consent is asked for: a tool call of this program's, or a question of the server's."""
Consent: TypeAlias = Callable[[Consentable], Awaitable[Consentable]]
"""Returns what may happen, the same or edited; raises `ConsentRefused` where nothing may."""

C = TypeVar("C", bound=Consentable)


async def consented(consent: Consent | None, request: C) -> C:
    """Return what may happen in place of *request*; without a hook that is the request.

    Raises:
        ConsentRefused: nothing may.
        TypeError: the hook has returned something else than a request of the same class.
    """
    if consent is None:
        return request
    allowed = await consent(request)
    if type(allowed) is not type(request):
        raise TypeError(
            f"consent was given {type(request).__name__} and returned {allowed!r:.200}, no other of its class"
        )
    return allowed
