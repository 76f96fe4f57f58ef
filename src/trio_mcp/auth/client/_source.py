"""Token sources: they add tokens to the requests of one connection, and react when the server refuses a token.

The transport calls them. Rules for one attempt of a request:

1. A refused token (401) is replaced once. A token that was issued a moment ago, and was never accepted, is not
   replaced.
2. More scopes are requested once (403, ``insufficient_scope``). Scopes that this connection has requested already are
   not requested again, and after two step-ups without success none are. If the server names no scopes, those of its
   metadata are meant.
3. A proof of possession is repeated once for each token, with the nonce that the server requires.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling and
https://www.rfc-editor.org/rfc/rfc6750#section-2.1
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
from ._steps import ConnectionServices, failing_as_authorization
from ._token_cache import ActiveToken, TokenCache, TokenRequirement
from ._token_endpoint import is_showable

if TYPE_CHECKING:
    from ...abc import Fetch

__all__ = ["Bearer", "GrantAttempt", "GrantSource"]

_MAX_FAILED_STEP_UPS = 2


@define(eq=False)
class GrantSource:
    """A source that authenticates one connection with the tokens of a grant; an `abc.TokenSource`."""

    cache: TokenCache
    connection: ConnectionServices
    asked: set[str] = field(factory=set[str], init=False)
    """The scopes that this connection has requested."""
    failed_step_ups: set[frozenset[str]] = field(factory=set[frozenset[str]], init=False)
    """The scopes that the server has required, and that it was not satisfied with."""

    def attempt(self, method: str, url: str) -> GrantAttempt:
        """Return the attempt of one request."""
        return GrantAttempt(self, method, url)


@define(eq=False)
class GrantAttempt:
    """The authentication of one request; an `abc.AuthAttempt`."""

    _source: GrantSource
    _method: str
    _url: str
    _sent: ActiveToken | None = field(default=None, init=False)
    _next: ActiveToken | None = field(default=None, init=False)
    """The tokens for the next sending, regardless of the cache."""
    _requirement: TokenRequirement | None = field(default=None, init=False)
    """The tokens to obtain; None if the request only has to be sent again."""
    _has_renewed: bool = field(default=False, init=False)
    _has_repeated: bool = field(default=False, init=False)
    """True if the nonce was wrong once already, with this token."""
    _step_up_scopes: frozenset[str] | None = field(default=None, init=False)
    """The additional scopes that the server has required; empty if it did not name them."""

    async def fields(self) -> Mapping[str, str]:
        """Return the header fields that authenticate the request; none if there is no token yet."""
        source, active = self._source, self._next
        self._next = None
        if active is None:
            active = await source.cache.current(source.connection)
        self._sent = active
        return {} if active is None else active.fields(self._method, self._url, source.cache.grant.clock())

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:
        """Handle the head of a response; return True if the caller must `resolve`, and send the request again."""
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
        """Obtain the tokens that the response requires."""
        source, requirement = self._source, self._requirement
        if requirement is None:
            return
        try:
            self._next = await source.cache.renewed(source.connection, requirement)
        except AuthorizationFailed as failure:
            if self._step_up_scopes is not None and failure.error is not None:  # an authorization server has refused
                source.asked |= self._step_up_scopes
                source.failed_step_ups.add(self._step_up_scopes)
            raise
        self._has_repeated = False
        if self._next is not None and (requirement.scopes is not None or self._next.origin == "obtained"):
            source.asked.update(self._next.record.scopes_to_keep)

    def _challenges(self, headers: Mapping[str, str]) -> list[Challenge]:
        """Return the supported challenges; those that fit the grant come first."""
        best = "dpop" if self._source.cache.grant.dpop else "bearer"
        found = read_challenges(headers.get("www-authenticate", ""))
        ours = [challenge for challenge in found if challenge.scheme.lower() in {"bearer", "dpop"}]
        return sorted(ours, key=lambda challenge: challenge.scheme.lower() != best)

    def _is_about_nonce(self, challenges: list[Challenge], headers: Mapping[str, str]) -> bool:
        if self._has_repeated or self._sent is None or self._sent.proofs is None or NONCE_FIELD not in headers:
            return False
        return any(challenge.parameters.get("error") == "use_dpop_nonce" for challenge in challenges)

    def _renewal(self, challenges: list[Challenge]) -> TokenRequirement | None:
        """Return the requirement after a token was refused (rule 1)."""
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
        """Return the requirement after scopes were missing (rule 2)."""
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


@define(eq=False)
class Bearer:
    """An `abc.ClientAuth` with a token that the application has; it serves any number of clients.

    Args:
        token: the token, or an async function that returns one. The function is called when a token is first needed,
            and once more when the server refuses the token. All clients share its result.

    Raises:
        ValueError: the token is empty, or contains anything but visible ASCII, so that a header field cannot carry it.

    If the function raises an exception, or returns an invalid token, the call that needed the token raises
    `AuthorizationFailed`. The function runs within that call, and is cancelled with it; other calls that wait for a
    token then call it again.
    """

    _token: str | Callable[[], Awaitable[str]] = field(repr=False)
    _current: str | None = field(default=None, init=False, repr=False)
    _asking: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self._token, str):
            if not is_showable(self._token):
                raise ValueError("the token is empty, or contains characters that a header field cannot carry")
            self._current = self._token

    @property
    def can_change(self) -> bool:
        """True if another token may be available after the server has refused this one."""
        return not isinstance(self._token, str)

    def source(
        self,
        url: str,  # noqa: ARG002 # every server gets the same token
        *,
        fetch: Fetch,  # noqa: ARG002 # no authorization server is involved
        nursery: trio.Nursery,  # noqa: ARG002
        asking_person: Callable[[], AbstractContextManager[None]],  # noqa: ARG002
    ) -> BearerSource:
        """Return the source of the token; see `abc.ClientAuth`.

        Args:
            url: not used: every server gets the same token.
            fetch: not used: no authorization server is involved.
            nursery: not used.
            asking_person: not used: no user is asked.
        """
        return BearerSource(self)

    async def current(self, refused: str | None) -> str:
        """Return the token to send, a different one than *refused* if possible.

        Raises:
            AuthorizationFailed: the function raised an exception, or returned an invalid token.
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
        raise AuthorizationFailed("the function that returns tokens returned a value that a header field cannot carry")
    return token


@define(eq=False)
class BearerSource:
    """A source that authenticates one connection with the token of a `Bearer`; an `abc.TokenSource`."""

    _bearer: Bearer

    def attempt(self, method: str, url: str) -> BearerAttempt:  # noqa: ARG002 # all requests carry the same token
        """Return the attempt of one request."""
        return BearerAttempt(self._bearer)


@define(eq=False)
class BearerAttempt:
    """The authentication of one request; an `abc.AuthAttempt`."""

    _bearer: Bearer
    _sent: str | None = field(default=None, init=False, repr=False)
    _has_resolved: bool = field(default=False, init=False)

    async def fields(self) -> Mapping[str, str]:
        """Return the header field that carries the token."""
        if self._sent is None:
            self._sent = await self._bearer.current(None)
        return {"authorization": f"Bearer {self._sent}"}

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:  # noqa: ARG002 # only the status matters
        """Return True if another token may help: once, after a 401."""
        if status != 401 or self._has_resolved or not self._bearer.can_change:
            return False
        self._has_resolved = True
        return True

    async def resolve(self) -> None:
        """Obtain another token."""
        self._sent = await self._bearer.current(self._sent)
