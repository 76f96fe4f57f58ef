"""The verifier that asks the authorization server about each token, with a bounded number of requests at once.

Rules of this file:

1. A bounded number of requests runs at once, for all senders together. The senders that wait get turns in rotation,
   one request each, however many requests they have: a sender of many tokens delays another one by one turn. A sender
   whose latest tokens were all refused has few turns at once.
2. A bounded number of requests waits, for a bounded time, with shares by sender (`trio_mcp._shares`). A request that
   gives way fails: its token may be valid, so the client may try again later.
3. The sender of a token that was valid before is its principal. The sender of any other token is the client's address.
4. Valid and refused tokens are cached apart, so that refused ones cannot take the place of valid ones. Each cache is
   bounded: that of valid tokens with shares by principal, that of refused tokens with shares by sender.
5. Only digests of tokens are kept.
6. The processes of a service share the results for their lifetime, refused tokens for a minute at most. The backend
   gets neither tokens nor results: it gets authentication codes of tokens, and results that only a process of the
   service can read or make (`abc.SharedService.keep`). If it cannot be reached, the authorization server is asked.

Specification: https://www.rfc-editor.org/rfc/rfc7662
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias
from urllib.parse import urlencode

import trio
from attrs import define, evolve, field, frozen

from ..._errors import AuthorizationFailed
from ..._shares import Sender, SharedBound, sender_of
from ...abc import Fetch, SharedService
from ...wire import JsonObject, NotJsonError, Undecodable, decode, encode, is_array
from .._jwt import InvalidToken, VerifiedToken, VerifierUnavailable, is_of_another_kind, read_claims
from ..client import HttpCall, HttpReply, Registration, ServerMetadata, authenticate
from ._token_verifiers import (
    ACCEPT_JSON,
    RefreshSchedule,
    check_option,
    endpoint_of,
    fetch_json,
    host_chosen_by,
    read_issuer,
)

__all__ = ["IntrospectionTurns", "IntrospectionVerifier", "SenderFetch", "SharedVerdict", "Verdict", "VerdictCache"]


@frozen(eq=False)
class SenderFetch:
    """An `abc.Fetch` for the token of one request, which knows the sender of that request."""

    _fetch: Fetch
    sender: Sender
    shared: SharedService | None = None
    """The memory that this process has in common with the others of its service; None if there are no others."""

    async def __call__(self, call: HttpCall) -> HttpReply:
        """Make one request; see `abc.Fetch`."""
        return await self._fetch(call)


# --- Turns ---

_MOST_RUNNING = 32
_MOST_RUNNING_OF_SUSPECT = 4
_REFUSALS_OF_SUSPECT = 8
"""The number of refused tokens in a row that make a sender a suspect."""
_MOST_SUSPECTS = 1000
_MOST_WAITING = 1000
_WAIT_SECONDS = 10.0


@define(eq=False)
class _WaitingRequest:
    """A request that waits for its turn."""

    sender: Sender
    called: trio.Event = field(factory=trio.Event)
    """Set when it has a turn, or gives way."""
    gave_way: bool = False


@define(eq=False)
class IntrospectionTurns:
    """The turns of the requests to an authorization server (rules 1 and 2).

    Args:
        most_running: the greatest number of turns at once.
        most_waiting: the greatest number of requests that wait.
    """

    most_running: int = _MOST_RUNNING
    most_waiting: int = _MOST_WAITING
    running: int = field(default=0, init=False)
    """The number of turns now."""
    _running_of: Counter[Sender] = field(factory=Counter[Sender], init=False)
    """The number of turns that each sender has now."""
    _refusals: OrderedDict[Sender, int] = field(factory=OrderedDict[Sender, int], init=False)
    """The number of refused tokens in a row of the senders that had one, the latest sender last."""
    _waiting: SharedBound[_WaitingRequest] = field(init=False)
    _rotation: dict[Sender, None] = field(factory=dict[Sender, None], init=False)
    """The senders that wait, the next one first."""

    def __attrs_post_init__(self) -> None:
        self._waiting = SharedBound(self.most_waiting)

    @asynccontextmanager
    async def turn(self, sender: Sender) -> AsyncGenerator[None]:
        """Wait for a turn, and keep it for as long as the block lasts.

        Raises:
            VerifierUnavailable: too many requests wait, or this one has waited for too long.
        """
        if self._may_have_turn(sender):
            self._give_turn(sender)
        else:
            await self._wait(sender)
        try:
            yield
        finally:
            self._end_turn(sender)

    def learn(self, sender: Sender, *, is_valid: bool) -> None:
        """Take note of the result for a token."""
        if is_valid:
            self._refusals.pop(sender, None)
            return
        self._refusals[sender] = self._refusals.get(sender, 0) + 1
        self._refusals.move_to_end(sender)
        if len(self._refusals) > _MOST_SUSPECTS:
            self._refusals.popitem(last=False)

    def _may_have_turn(self, sender: Sender) -> bool:
        is_suspect = self._refusals.get(sender, 0) >= _REFUSALS_OF_SUSPECT
        most = _MOST_RUNNING_OF_SUSPECT if is_suspect else self.most_running
        return self.running < self.most_running and self._running_of[sender] < most

    def _give_turn(self, sender: Sender) -> None:
        self.running += 1
        self._running_of[sender] += 1

    async def _wait(self, sender: Sender) -> None:
        self._make_room(sender)
        request = _WaitingRequest(sender)
        self._waiting.add(sender, request)
        self._rotation.setdefault(sender)
        has_turn = False
        try:
            with trio.move_on_after(_WAIT_SECONDS):
                await request.called.wait()
                has_turn = not request.gave_way
        finally:
            if not has_turn:
                self._give_up(request)
        if not has_turn:
            raise VerifierUnavailable("too many tokens wait for introspection" if request.gave_way else _TOO_LONG)

    def _make_room(self, newcomer: Sender) -> None:
        if self._waiting.has_room():
            return
        request = self._waiting.oldest_to_give_way(newcomer)
        if request is None:
            raise VerifierUnavailable(f"{self.most_waiting} tokens wait for introspection, which is the limit")
        self._remove(request)
        request.gave_way = True
        request.called.set()

    def _give_up(self, request: _WaitingRequest) -> None:
        """Take back a request that does not wait any longer, with the turn that it may have got in this moment."""
        if request in self._waiting:
            self._remove(request)
        elif not request.gave_way:
            self._end_turn(request.sender)

    def _end_turn(self, sender: Sender) -> None:
        """End a turn of a sender, and give what is free to those that wait."""
        self.running -= 1
        self._running_of[sender] -= 1
        if not self._running_of[sender]:
            del self._running_of[sender]
        while (following := next(filter(self._may_have_turn, self._rotation), None)) is not None:
            request = next(iter(self._waiting.entries_of(following)))
            self._remove(request)
            if following in self._rotation:  # it has other requests, whose turn comes after those of all other senders
                self._rotation[following] = self._rotation.pop(following)
            self._give_turn(following)
            request.called.set()

    def _remove(self, request: _WaitingRequest) -> None:
        self._waiting.remove(request)
        if not self._waiting.weight_of(request.sender):
            del self._rotation[request.sender]


_TOO_LONG = f"the token has waited for introspection for {_WAIT_SECONDS:g} s"


# --- Cached results ---

Verdict: TypeAlias = "VerifiedToken | str"
"""The result of an introspection: the content of a valid token, or the reason why a token is refused."""

_MAX_KEPT = 10_000
"""The limit of cached results of each kind."""


@define(eq=False)
class _KeptVerdicts:
    """The cached results of one kind. Beyond the bound, the sender with the most gives way, or replaces its oldest."""

    _bound: SharedBound[bytes] = field(factory=lambda: SharedBound[bytes](_MAX_KEPT), init=False)
    _kept: dict[bytes, tuple[float, Verdict]] = field(factory=dict[bytes, "tuple[float, Verdict]"], init=False)
    """The results with the time of their arrival."""

    def get(self, digest: bytes) -> tuple[float, Verdict] | None:
        return self._kept.get(digest)

    def put(self, digest: bytes, sender: Sender, at: float, verdict: Verdict) -> None:
        self.drop(digest)
        if not self._bound.has_room():
            last = self._bound.oldest_to_give_way(sender) or next(iter(self._bound.entries_of(sender)), None)
            if last is None:
                return
            self.drop(last)
        self._bound.add(sender, digest)
        self._kept[digest] = (at, verdict)

    def drop(self, digest: bytes) -> None:
        self._bound.remove(digest)
        self._kept.pop(digest, None)


@define(eq=False)
class _PendingLookup:
    """A request to the authorization server that is in flight, and shared by all tasks that need its result."""

    done: trio.Event = field(factory=trio.Event)
    verdict: Verdict | None = None
    failure: VerifierUnavailable | None = None


_REFUSED_SECONDS = 60.0
"""The longest time for which processes share the result for a refused token; anybody can send any number of them."""


@frozen
class SharedVerdict:
    """The result for one token that the processes of a service share (rule 6).

    Args:
        shared: what the processes share.
        key: identifies the token, the authorization server, and the client that asks it.
        seconds: the lifetime of a result.
        clock: returns the time, as `time.time` does.
    """

    _shared: SharedService
    _key: str = field(repr=False)
    _seconds: float
    _clock: Callable[[], float]

    async def find(self) -> tuple[float, Verdict] | None:
        """Return the result, and the time at which a process has got it; None if there is none, or it is old."""
        kept = await self._shared.recall(self._key)
        if kept is None:
            return None
        try:
            at, issuer, contents = decode(kept)
        except Undecodable:  # nested too deep for this program
            return None
        if not 0 <= self._clock() - at < self._seconds:
            return None
        return at, read_claims(contents, issuer=issuer) if issuer else contents

    async def keep(self, at: float, verdict: Verdict) -> None:
        """Let the other processes know the result, unless it is nested so deeply that it cannot be written."""
        if isinstance(verdict, str):
            value, seconds = [at, "", verdict], min(self._seconds, _REFUSED_SECONDS)
        else:
            value, seconds = [at, verdict.issuer, verdict.claims], self._seconds
        with suppress(NotJsonError):
            await self._shared.keep(self._key, encode(value), seconds=seconds)


@define(eq=False)
class VerdictCache:
    """A cache of introspection results (rules 3 to 6).

    Args:
        seconds: the lifetime of a result; 0 disables the cache.
        clock: returns the time, as `time.time` does.
    """

    _seconds: float
    _clock: Callable[[], float]
    _valid: _KeptVerdicts = field(factory=_KeptVerdicts, init=False, repr=False)
    """Results are kept here beyond their lifetime, because of rule 3."""
    _refused: _KeptVerdicts = field(factory=_KeptVerdicts, init=False, repr=False)
    _pending: dict[bytes, _PendingLookup] = field(factory=dict[bytes, _PendingLookup], init=False, repr=False)

    async def find(
        self,
        token: str,
        sender: Sender,
        ask: Callable[[Sender], Awaitable[Verdict]],
        shared: SharedVerdict | None = None,
    ) -> Verdict:
        """Return the cached result for a token, or else that of another process, or else the result of *ask*.

        If the task that calls *ask* is cancelled, another waiting task calls it.

        Args:
            token: the token.
            sender: the sender of the request, if the token is not known yet.
            ask: asks the authorization server; gets the sender of the token.
            shared: the result that the processes of a service share.

        Raises:
            VerifierUnavailable: *ask* has raised it, for all waiting tasks.
        """
        if not self._seconds:
            return await ask(sender)
        digest = hashlib.sha256(token.encode()).digest()
        while (lookup := self._pending.get(digest)) is not None:
            await lookup.done.wait()
            if lookup.failure is not None:
                raise VerifierUnavailable(*lookup.failure.args)
            if lookup.verdict is not None:
                return lookup.verdict
        at, verdict = self._valid.get(digest) or self._refused.get(digest) or (-math.inf, "")
        if 0 <= self._clock() - at < self._seconds:
            return verdict
        sender = _sender_of(verdict, sender)

        async def look_up() -> tuple[float, Verdict]:
            found = None if shared is None else await shared.find()
            if found is None:
                answer = await ask(sender)
                found = self._clock(), answer
                if shared is not None:
                    await shared.keep(*found)
            return found

        return await self._look_up(digest, sender, look_up)

    async def _look_up(
        self, digest: bytes, sender: Sender, look_up: Callable[[], Awaitable[tuple[float, Verdict]]]
    ) -> Verdict:
        lookup = self._pending[digest] = _PendingLookup()
        try:
            at, verdict = await look_up()
            lookup.verdict = verdict
        except VerifierUnavailable as exc:
            lookup.failure = exc
            raise
        finally:
            del self._pending[digest]
            lookup.done.set()
        fitting, other = (self._refused, self._valid) if isinstance(verdict, str) else (self._valid, self._refused)
        other.drop(digest)
        fitting.put(digest, _sender_of(verdict, sender), at, verdict)
        return verdict


def _sender_of(verdict: Verdict, sender: Sender) -> Sender:
    """Return the principal of a valid token; otherwise *sender*."""
    if isinstance(verdict, str):
        return sender
    name = f"client {verdict.client_id}" if verdict.subject is None else verdict.subject
    return sender_of(f"{verdict.issuer} {name}", None)


# --- The verifier ---


@frozen(kw_only=True)
class _IntrospectionEndpoint:
    """An introspection endpoint."""

    url: str
    named_by: Literal["user", "server"]
    server: ServerMetadata
    """The metadata that concerns the authentication of clients."""


@define(eq=False)
class IntrospectionVerifier:
    """A verifier that asks the authorization server about each token, with this server's own credentials there.

    Results are cached for a while; concurrent requests with the same token share one request. The processes of a
    service (``serve_http(shared=...)``) share the results if their server was given keys (``Server(keys=...)``). At
    most 32 requests run at once, on connections that are kept; others wait for at most 10 seconds, in turns by client,
    and then fail as if the authorization server were out of reach. Any number of tasks may use it at once.

    Args:
        endpoint: the URL of the introspection endpoint; None means the one in the issuer's metadata.
        client: the registration of this server there: ``Registration("id", secret="...")``.
        cache_seconds: the lifetime of a cached result, for which a withdrawn token stays accepted. 0 disables the
            cache.
        issuer: the authorization server; by default the only one of the `ResourceServer`.
        trusted_hosts: names of hosts that may be reached without TLS; by default those of the `ResourceServer`.
        clock: the clock that decides when a result is old.

    Raises:
        ValueError: an option is invalid; the message names it.
    """

    endpoint: str | None = None
    client: Registration = field(kw_only=True)
    cache_seconds: float = field(default=10.0, kw_only=True)
    issuer: str | None = field(default=None, kw_only=True)
    trusted_hosts: Sequence[str] = field(default=(), kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _place: _IntrospectionEndpoint | None = field(default=None, init=False, repr=False)
    _renewal: RefreshSchedule = field(init=False, repr=False)
    _verdicts: VerdictCache = field(init=False, repr=False)
    _turns: IntrospectionTurns = field(factory=IntrospectionTurns, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.cache_seconds < math.inf:
            raise ValueError(f"cache_seconds={self.cache_seconds!r}: must be a number of seconds, 0 or more")
        self.issuer = self.issuer or self.client.issuer
        self._renewal = RefreshSchedule("the introspection endpoint", self._look_up, self.clock)
        self._verdicts = VerdictCache(self.cache_seconds, self.clock)

    def serving(
        self, issuers: Sequence[str], *, trusted_hosts: Sequence[str], clock: Callable[[], float]
    ) -> IntrospectionVerifier:
        """Return a copy for one resource server; a configured issuer is kept. `ResourceServer` calls this.

        Args:
            issuers: the issuers of the `ResourceServer`, by URL.
            trusted_hosts: its hosts that may have addresses in a private network; those of this verifier replace them.
            clock: returns the seconds since the epoch, as `time.time` does.

        Raises:
            ValueError: there are several issuers, and the option *issuer* is missing; or the URL is not safe.
        """
        if self.issuer is None and len(issuers) > 1:
            raise ValueError("IntrospectionVerifier: with several issuers, pass issuer=")
        trusted_hosts = self.trusted_hosts or trusted_hosts
        if self.endpoint is not None:
            check_option(self.endpoint, "introspection endpoint", trusted_hosts)
        return evolve(self, issuer=self.issuer or issuers[0], trusted_hosts=trusted_hosts, clock=clock)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return the content of a token, as the authorization server states it; see `abc.TokenVerifier`.

        Calls for one token at the same time share one request. If the call that sends it is cancelled, another one that
        waits sends it again.

        Args:
            token: the token as it was received.
            fetch: makes requests to the authorization server.

        Raises:
            InvalidToken: the authorization server says that the token is not active, or its answer does not describe an
                access token of this issuer.
            VerifierUnavailable: the authorization server cannot be asked now.

        Specification: https://www.rfc-editor.org/rfc/rfc7662
        """
        await trio.lowlevel.checkpoint()
        sender = fetch.sender if isinstance(fetch, SenderFetch) else sender_of(None, None)
        shared = self._shared_verdict(token, fetch)
        verdict = await self._verdicts.find(token, sender, lambda sender: self._ask(token, sender, fetch), shared)
        if isinstance(verdict, str):
            raise InvalidToken(verdict)
        return verdict

    def _shared_verdict(self, token: str, fetch: Fetch) -> SharedVerdict | None:
        """Return the result that the processes share for which *fetch* makes requests; None if there is one process."""
        if not isinstance(fetch, SenderFetch) or fetch.shared is None:
            return None
        key = ascii(("verdict", self.issuer, self.endpoint, self.client.client_id, token))
        return SharedVerdict(fetch.shared, key, self.cache_seconds, self.clock)

    async def _ask(self, token: str, sender: Sender, fetch: Fetch) -> Verdict:
        place = await self._where(fetch)
        async with self._turns.turn(sender):
            try:
                client = authenticate(self.client, place.server, self.clock())
            except AuthorizationFailed as exc:
                raise VerifierUnavailable(str(exc)) from None
            headers = {**ACCEPT_JSON, "content-type": "application/x-www-form-urlencoded", **client.headers}
            form = urlencode({"token": token, "token_type_hint": "access_token", **client.form}).encode()
            call = HttpCall(method="POST", url=place.url, headers=headers, body=form, named_by=place.named_by)
            verdict = _read_answer(await fetch_json(call, fetch), place.server.issuer)
            self._turns.learn(sender, is_valid=not isinstance(verdict, str))
            return verdict

    async def _where(self, fetch: Fetch) -> _IntrospectionEndpoint:
        if self.issuer is None:
            raise RuntimeError("IntrospectionVerifier: pass issuer=, or use it in a ResourceServer")
        if self.endpoint is not None:
            server = ServerMetadata(issuer=self.issuer, token_endpoint=self.endpoint)
            return _IntrospectionEndpoint(url=self.endpoint, named_by="user", server=server)
        await self._renewal.keep_fresh(fetch)
        if self._place is None:
            raise VerifierUnavailable(f"the introspection endpoint of {self.issuer} is unknown")
        return self._place

    async def _look_up(self, fetch: Fetch) -> None:
        assert self.issuer is not None
        metadata = await read_issuer(self.issuer, fetch)
        url = endpoint_of(metadata, "introspection_endpoint", self.trusted_hosts)
        methods = metadata.get("introspection_endpoint_auth_methods_supported")
        server = ServerMetadata(
            issuer=self.issuer,
            token_endpoint=url,
            token_endpoint_auth_methods_supported=tuple(methods) if is_array(methods) else None,
        )
        self._place = _IntrospectionEndpoint(url=url, named_by=host_chosen_by(self.issuer, url), server=server)


def _read_answer(answer: JsonObject, issuer: str) -> Verdict:
    if answer.get("active") is not True:
        return f"{issuer} says that it is not active"
    if answer.get("iss", issuer) != issuer:
        return f"{issuer} has introspected it as a token of another issuer"
    if is_of_another_kind(answer):  # a server may also look for it among its refresh tokens
        return f"{issuer} says that it is not an access token"
    try:
        return read_claims(answer, issuer=issuer)
    except InvalidToken as exc:
        return f"the introspection response of {issuer} is invalid: {exc}"
