"""Shows a token that the application has got by itself.

Specification: https://www.rfc-editor.org/rfc/rfc6750#section-2.1
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast

import trio
from attrs import define, field

from .._errors import AuthorizationFailed
from ._flight import failing_as_authorization
from ._records import is_showable

if TYPE_CHECKING:
    from ..abc import Fetch

__all__ = ["Bearer"]


@define(eq=False)
class Bearer:
    """Shows a token that you have: an `abc.ClientAuth` for any number of clients.

    Args:
        token: the token, or an async function that returns one. The function is called when a token is first needed,
            and once more when the server refuses that one; all clients share what it has returned.

    Raises:
        ValueError: the token is empty, or holds more than visible ASCII, so that no header field can carry it.

    What the function raises, or a token of its that is none, is an `AuthorizationFailed` at the call that needed it. It
    runs in that call's time, and is cancelled with it; others who wait for a token then call it anew.
    """

    _token: str | Callable[[], Awaitable[str]] = field(repr=False)
    _current: str | None = field(default=None, init=False, repr=False)
    _asking: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self._token, str):
            if not is_showable(self._token):
                raise ValueError("the token is empty, or holds characters that no header field can carry")
            self._current = self._token

    @property
    def can_change(self) -> bool:
        """Whether another token can be had when the server refuses this one."""
        return not isinstance(self._token, str)

    def source(
        self,
        url: str,  # noqa: ARG002 # it is shown to whichever server the client is opened for
        *,
        fetch: Fetch,  # noqa: ARG002 # nobody is asked
        nursery: trio.Nursery,  # noqa: ARG002
        asking_person: Callable[[], AbstractContextManager[None]],  # noqa: ARG002
    ) -> BearerSource:
        """Return what shows it; see `abc.ClientAuth`."""
        return BearerSource(self)

    async def current(self, refused: str | None) -> str:
        """Return the token to show, another one than *refused* if there is one.

        Raises:
            AuthorizationFailed: the function has raised something, or returned what is no token.
        """
        if isinstance(self._token, str):
            return self._token
        if self._current is not None and self._current != refused:
            return self._current
        async with self._asking:
            if self._current is None or self._current == refused:
                self._current = await _called(self._token)
            return self._current


async def _called(function: Callable[[], Awaitable[str]]) -> str:
    with failing_as_authorization():
        token = cast("object", await function())
    if not isinstance(token, str) or not is_showable(token):
        raise AuthorizationFailed("the function that returns tokens has returned what no header field can carry")
    return token


@define(eq=False)
class BearerSource:
    """Shows the token, for one connection; an `abc.TokenSource`."""

    _bearer: Bearer

    def attempt(self, method: str, url: str) -> BearerAttempt:  # noqa: ARG002 # it is the same for all requests
        """Return what accompanies one request."""
        return BearerAttempt(self._bearer)


@define(eq=False)
class BearerAttempt:
    """Accompanies one request; an `abc.AuthAttempt`."""

    _bearer: Bearer
    _shown: str | None = field(default=None, init=False, repr=False)
    _has_settled: bool = field(default=False, init=False)

    async def fields(self) -> Mapping[str, str]:
        """Return the header field that shows the token."""
        if self._shown is None:
            self._shown = await self._bearer.current(None)
        return {"authorization": f"Bearer {self._shown}"}

    def heard(self, status: int, headers: Mapping[str, str]) -> bool:  # noqa: ARG002 # what it says changes nothing
        """Return whether another token may do better: once, when one is refused."""
        if status != 401 or self._has_settled or not self._bearer.can_change:
            return False
        self._has_settled = True
        return True

    async def settle(self) -> None:
        """Have another token."""
        self._shown = await self._bearer.current(self._shown)
