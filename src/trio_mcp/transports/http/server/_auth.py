"""Who may ask an HTTP application for what: each request shows who makes it, and nothing is done for it before.

Rules of this file:

1. A request is judged by its head. Of one that is turned away no body is read.
2. What all the messages of one POST need has to be granted before the first of them is taken.
3. Where nobody is authenticated, nothing was granted to anybody: what needs scopes is refused to all.
4. What an application says of its protection may be read by everybody, pages of other sites included.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING

import trio
from attrs import define, evolve, field

from ...._errors import McpError
from ....abc import Fetch, HttpServing
from ....auth import LEEWAY_SECONDS
from ....peer import Limits
from ....wire import INVALID_REQUEST, JsonRpcRequest, Message, Refusal, is_array, parse_message
from ._asgi import HttpRequest, Responding

if TYPE_CHECKING:
    from ....auth import HttpCall, HttpReply, ResourceServer, TokenGuard

__all__ = ["RequestAuthorizer", "messages_in"]

_DOCUMENT_FIELDS = {"access-control-allow-origin": "*", "cache-control": "public, max-age=300"}


@define(eq=False)
class _Fetching:
    """Makes the requests of a guard: by what is open while the application runs, or else by something for just one."""

    _trusted_hosts: Sequence[str]
    _open_now: Fetch | None = field(default=None, init=False)

    async def __call__(self, call: HttpCall) -> HttpReply:
        if self._open_now is not None:
            return await self._open_now(call)
        async with self._opened() as fetch:
            return await fetch(call)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self._opened() as fetch:
            self._open_now = fetch
            try:
                yield
            finally:
                self._open_now = None

    def _opened(self) -> AbstractAsyncContextManager[Fetch]:
        from .._fetch import open_fetch  # noqa: PLC0415 # most applications need none

        return open_fetch(trusted_hosts=self._trusted_hosts)


@define(eq=False)
class RequestAuthorizer:
    """Judges the requests of one application.

    Args:
        auth: how it is protected; None where it is not.
    """

    _auth: ResourceServer | None
    _fetching: _Fetching = field(init=False)
    _guard: TokenGuard | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        auth = self._auth
        self._fetching = _Fetching(() if auth is None else auth.trusted_hosts)
        self._guard = None if auth is None else auth.guard(self._fetching)

    @property
    def metadata_paths(self) -> Collection[str]:
        """The paths at which the application says how it is protected, whatever it is mounted under."""
        return () if self._auth is None else self._auth.metadata_paths

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Have what fetches keys, and asks about tokens, open for as long as the block lasts."""
        if self._auth is None or self._auth.fetch is not None:
            yield
            return
        async with self._fetching.running():
            yield

    async def describe(self, request: HttpRequest, responding: Responding) -> None:
        """Answer a request for what the application says of its protection (rule 4)."""
        assert self._auth is not None
        if request.method == "GET":
            await responding.json(self._auth.document(), headers=_DOCUMENT_FIELDS)
        else:
            await responding.refuse(Refusal(405, headers={"allow": "GET"}))

    async def admit(self, request: HttpRequest) -> HttpRequest | Refusal:
        """Return a request with what is known of who makes it, or what they get instead (rule 1)."""
        if self._auth is None or self._guard is None:
            return request
        access = await self._guard.admit(request.method, request.path, request.query, request.headers)
        if isinstance(access, Refusal):
            return access
        until = math.inf
        if access.expires_at is not None:
            until = trio.current_time() + access.expires_at + LEEWAY_SECONDS - self._auth.clock()
        return evolve(request, access=access, access_until=until)

    def refusal(self, messages: Iterable[Message], request: HttpRequest, serving: HttpServing) -> Refusal | None:
        """Return what a POST gets that needs more than was granted, None where it does not (rule 2).

        Args:
            messages: what was posted.
            request: which carried them, admitted.
            serving: knows what each of them needs.
        """
        requests = [message for message in messages if isinstance(message, JsonRpcRequest)]
        needed = frozenset[str]().union(*(serving.needed_scopes(each.method, each.params or {}) for each in requests))
        if not needed:
            return None
        id = requests[0].id if len(requests) == 1 else None
        if self._guard is None or request.access is None:
            refusal: Refusal | None = _nobody_is_known(needed)
        else:
            refusal = self._guard.permit(request.access, needed)
        return None if refusal is None else evolve(refusal, id=id)


def messages_in(value: object, limits: Limits) -> Iterable[Message]:
    """Return the messages that were posted, one or an array of them; of an array that is too long to be taken, some."""
    return map(parse_message, islice(value, limits.max_queued)) if is_array(value) else [parse_message(value)]


def _nobody_is_known(needed: Collection[str]) -> Refusal:
    """Return the refusal of rule 3."""
    listed = ", ".join(sorted(needed))
    why = f"this needs scopes ({listed}), and this HTTP application authenticates nobody: see http_app(auth=...)"
    return Refusal(403, McpError(INVALID_REQUEST, why))
