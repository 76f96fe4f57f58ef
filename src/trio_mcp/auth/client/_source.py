"""Shows the tokens of a grant with the requests of one connection, and judges how the server takes them.

Called by the transport; calls the keeper of the tokens. Rules of this file, all for one attempt:

1. A token that is refused (401) is replaced once. One that was obtained a moment ago, and has never been taken, is not.
2. More scopes are asked for once (403, ``insufficient_scope``): not those that this connection has asked for already,
   and no more of any after two that were of no use. A server that does not name them means those of its metadata.
3. A proof of possession is repeated once for each token, with the nonce that the server wants in it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast

import trio
from attrs import define, field

from ..._errors import AuthorizationFailed
from .._challenges import Challenge, read_challenges
from .._dpop import NONCE_FIELD
from ._discovery import read_scopes, wider_scopes
from ._flow import ConnectionServices, failing_as_authorization
from ._token_cache import ActiveToken, TokenCache, TokenRequirement
from ._token_endpoint import is_showable

if TYPE_CHECKING:
    from ...abc import Fetch

__all__ = ["Bearer", "GrantAttempt", "GrantSource"]

_MAX_FAILED_STEP_UPS = 2


@define(eq=False)
class GrantSource:
    """Shows one server who asks, for one connection; an `abc.TokenSource`."""

    cache: TokenCache
    connection: ConnectionServices
    asked: set[str] = field(factory=set[str], init=False)
    """The scopes that were asked for, as long as this connection lives."""
    failed_step_ups: set[frozenset[str]] = field(factory=set[frozenset[str]], init=False)
    """What the server has wanted, and has not been content with."""

    def attempt(self, method: str, url: str) -> GrantAttempt:
        """Return what accompanies one request."""
        return GrantAttempt(self, method, url)


@define(eq=False)
class GrantAttempt:
    """Accompanies one request; an `abc.AuthAttempt`."""

    _source: GrantSource
    _method: str
    _url: str
    _sent: ActiveToken | None = field(default=None, init=False)
    _next: ActiveToken | None = field(default=None, init=False)
    """What to show next, whatever else there is."""
    _requirement: TokenRequirement | None = field(default=None, init=False)
    """What to settle; None where sending the request again is all there is to do."""
    _has_renewed: bool = field(default=False, init=False)
    _has_repeated: bool = field(default=False, init=False)
    """Whether the nonce was wrong already, with this token."""
    _step_up_scopes: frozenset[str] | None = field(default=None, init=False)
    """The scopes that the server has wanted in addition; empty where it did not say which."""

    async def fields(self) -> Mapping[str, str]:
        """Return the header fields that show who asks; none where there is nothing to show yet."""
        source, active = self._source, self._next
        self._next = None
        if active is None:
            active = await source.cache.current(source.connection)
        self._sent = active
        return {} if active is None else active.fields(self._method, self._url, source.cache.grant.clock())

    def heard(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take the head of the response; return whether to `resolve`, and to send the request once more."""
        self._requirement = None
        shown = self._sent
        if shown is not None:
            shown.is_accepted = shown.is_accepted or (status != 401 and status < 500)
            if shown.proofs is not None:
                shown.proofs.note(self._url, headers)
        if status == 401:
            challenges = self._challenges(headers)
            if self._is_about_nonce(challenges, headers):
                self._has_repeated = True
                return True
            self._requirement = self._renewal(challenges)
        elif status == 403:
            self._requirement = self._step_up(self._challenges(headers))
        elif self._step_up_scopes is not None and status < 500:
            self._source.failed_step_ups.clear()
        return self._requirement is not None

    async def resolve(self) -> None:
        """Get what the response asks for."""
        source, requirement = self._source, self._requirement
        if requirement is None:
            return
        try:
            self._next = await source.cache.renewed(source.connection, requirement)
        except AuthorizationFailed as failure:
            if self._step_up_scopes is not None and failure.error is not None:  # somebody has said no
                source.asked |= self._step_up_scopes
                source.failed_step_ups.add(self._step_up_scopes)
            raise
        self._has_repeated = False
        if self._next is not None and (requirement.scopes is not None or self._next.origin == "obtained"):
            source.asked.update(self._next.record.scopes_to_keep)

    def _challenges(self, headers: Mapping[str, str]) -> list[Challenge]:
        """Return the challenges that can be met, those that fit the grant best first."""
        best = "dpop" if self._source.cache.grant.dpop else "bearer"
        found = read_challenges(headers.get("www-authenticate", ""))
        ours = [challenge for challenge in found if challenge.scheme.lower() in {"bearer", "dpop"}]
        return sorted(ours, key=lambda challenge: challenge.scheme.lower() != best)

    def _is_about_nonce(self, challenges: list[Challenge], headers: Mapping[str, str]) -> bool:
        if self._has_repeated or self._sent is None or self._sent.proofs is None or NONCE_FIELD not in headers:
            return False
        return any(challenge.parameters.get("error") == "use_dpop_nonce" for challenge in challenges)

    def _renewal(self, challenges: list[Challenge]) -> TokenRequirement | None:
        """Return what is needed in place of a token that was refused (rule 1)."""
        cache, shown = self._source.cache, self._sent
        if self._has_renewed:
            return None
        if shown is not None and shown is cache.active and shown.is_new_and_unaccepted(cache.grant.clock()):
            return None
        self._has_renewed = True
        pointing = [challenge for challenge in challenges if "resource_metadata" in challenge.parameters]
        return TokenRequirement(
            shown=None if shown is None else shown.token,
            was_refused=True,
            may_refresh=shown is None or shown.origin != "refreshed" or shown.is_accepted,
            challenge=next(iter([*pointing, *challenges]), None),
        )

    def _step_up(self, challenges: list[Challenge]) -> TokenRequirement | None:
        """Return which scopes are needed in addition to those that were asked for (rule 2)."""
        source, shown = self._source, self._sent
        if self._step_up_scopes is not None:
            source.failed_step_ups.add(self._step_up_scopes)
            return None
        lacking = [each for each in challenges if each.parameters.get("error") == "insufficient_scope"]
        named = [each for each in lacking if read_scopes(each.parameters.get("scope", ""))]
        if not named and (shown is None or not lacking):
            return None
        challenge = (named or lacking)[0]
        wanted = frozenset(read_scopes(challenge.parameters.get("scope", "")))
        requirement = TokenRequirement(
            shown=None if shown is None else shown.token,
            was_refused=True,
            scopes=wider_scopes(None if shown is None else shown.record.scopes_to_keep, challenge) if named else (),
            challenge=challenge,
        )
        active = source.cache.active
        is_there = active is not None and active.satisfies(requirement, source.cache.grant.clock())
        was_requested = wanted <= source.asked if named else wanted in source.failed_step_ups
        if not is_there and (was_requested or len(source.failed_step_ups) >= _MAX_FAILED_STEP_UPS):
            return None
        self._step_up_scopes = wanted
        return requirement


# Shows a token that the application has got by itself.
#
# Specification: https://www.rfc-editor.org/rfc/rfc6750#section-2.1


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
                self._current = await _call_token_function(self._token)
            return self._current


async def _call_token_function(function: Callable[[], Awaitable[str]]) -> str:
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
    _sent: str | None = field(default=None, init=False, repr=False)
    _has_resolved: bool = field(default=False, init=False)

    async def fields(self) -> Mapping[str, str]:
        """Return the header field that shows the token."""
        if self._sent is None:
            self._sent = await self._bearer.current(None)
        return {"authorization": f"Bearer {self._sent}"}

    def heard(self, status: int, headers: Mapping[str, str]) -> bool:  # noqa: ARG002 # what it says changes nothing
        """Return whether another token may do better: once, when one is refused."""
        if status != 401 or self._has_resolved or not self._bearer.can_change:
            return False
        self._has_resolved = True
        return True

    async def resolve(self) -> None:
        """Have another token."""
        self._sent = await self._bearer.current(self._sent)
