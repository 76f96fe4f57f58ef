"""The untyped half of a client: one connection, and the requests on it with all their attempts.

The typed `Client` calls it, and it calls the transport. It knows envelopes, attempts and time limits, and no single
method.

A modern server that needs more information asks for it in the result of a request, and the client repeats the request
with the answers. Almost every request has one attempt and ends with its result: that way is short, and everything else
that a request needs is created on demand.

Rules of this file:

1. A retry is a new request with its custom id, progress token, `_meta` and clock. `Rounds` decides what it contains.
2. The updates of all attempts come out in order, as if they were one request.
3. No task runs in the background: the task that waits for an update or the result also answers the questions.
4. A server that finds the arguments of a call mirrored wrongly has run nothing. The client lists the tools again and
   repeats the call once.
5. A request that does no harm when it is made twice may be repeated once if its response was lost. Any other request,
   and every retry, is repeated only if the caller allows it: the server may have acted on the answers.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
import math
import sys
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio
from attrs import define, field

from .. import types
from .._errors import (
    ConnectionBroken,
    ConnectionClosed,
    ConnectionLost,
    ErrorResponse,
    LocalProtocolError,
    MissingCapability,
    RemoteProtocolError,
    RequestTimedOut,
    StructureError,
    TrioMcpError,
)
from .._extensions import is_specified, with_named_extensions
from .._tracing import TRACING_MODULE, client_span
from .._user_types import is_model, reader_of
from ..abc import Tap, Transport
from ..peer import ClientSession, ExchangeState, IncomingRequest, Limits, OutgoingRequest
from ..wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    EVERY_LIST,
    HEADER_MISMATCH,
    LOG_LEVEL_KEY,
    REVISION_KEY,
    JsonObject,
    is_modern,
    stamp,
)
from ._answer import ELICITATION_COMPLETE, Answering, CustomMessages, Rounds
from ._cache import Cacheable, ConnectionCache, with_cache_hints
from ._callbacks import IDEMPOTENT, call_with_consent, check_declared, declaration
from ._legacy_listen import SessionChanges
from ._lists import EMPTY_LISTS, KnownTools, without_empty_cursor
from ._timing import RequestClocks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from ._callbacks import Consent

__all__ = ["Connection", "OpenRequest"]

_log = logging.getLogger("trio_mcp.client")

_ALL_LOGS: types.LoggingLevel = "debug"
"""The log level until the application sets another one: servers of earlier revisions send all levels then."""

R = TypeVar("R")
C = TypeVar("C", bound=Cacheable)


@define(eq=False)
class Connection:
    """A client's connection: an `abc.TransportClient` for the transport, and requests for the typed client."""

    info: types.Implementation
    """The name and version of this client."""
    capabilities: types.ClientCapabilities
    """The capabilities that this client declares, in a handshake or in each modern request."""
    limits: Limits
    clocks: RequestClocks
    answering: Answering
    tap: Tap | None
    """A function that sees each message; it never raises."""
    cache: ConnectionCache
    custom: CustomMessages
    """The requests, notifications and extensions that the application has added to the protocol."""
    changes: SessionChanges = field(init=False)
    """The notifications of a legacy server, and the subscriptions to its resources."""
    tools: KnownTools = field(init=False)
    """The tools that the client has listed."""
    admission: ClientSession = field(factory=ClientSession, init=False)
    consent: Consent | None = field(init=False)
    """The application's consent hook for tool calls; None if there is none."""
    transport: Transport = field(init=False)
    """The transport that carries the exchanges; set by `use_transport`."""
    revision: str = field(init=False)
    """The protocol revision, set once it is agreed on."""
    is_closed: bool = field(default=False, init=False)
    """True once the client is closed, unless the connection was lost before."""
    is_modern: bool = field(default=False, init=False)
    """True if the requests of the revision carry the envelope that legacy revisions exchange in a handshake."""
    server_info: types.Implementation | None = field(default=None, init=False)
    server_capabilities: types.ServerCapabilities = field(init=False)
    instructions: str | None = field(default=None, init=False)
    _disconnect_reason: ConnectionLost | None = field(default=None, init=False)
    """The reason why the connection is gone; None while it is up."""
    _scopes: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The blocks that are cancelled when the connection is lost."""
    _envelope: JsonObject = field(factory=dict[str, Any], init=False)
    """The `_meta` of each modern message."""
    _request_meta: JsonObject = field(factory=dict[str, Any], init=False)
    """The `_meta` of each modern request: the envelope, and the log level that the application has set."""
    _checked: set[str] = field(factory=set[str], init=False)
    """The methods whose required capabilities the server is known to have declared."""
    _declared: JsonObject = field(factory=dict[str, Any], init=False)
    """The server's capabilities in their JSON form."""
    _warned: set[str] = field(factory=set[str], init=False)
    """The warnings that were logged."""

    def __attrs_post_init__(self) -> None:
        nursery = self.answering.pool.nursery
        self.changes = SessionChanges(self.request, self.cache, nursery, self.warn_once)
        self.tools = KnownTools(self.cached_request)
        self.server_capabilities = types.ServerCapabilities()
        self.consent = self.answering.replies.callbacks.consent
        nursery.start_soon(self.clocks.run)

    def use_transport(self, transport: Transport) -> None:
        """Attach the transport that carries the exchanges."""
        self.transport = transport
        transport.on_disconnect(self._on_disconnect)

    @property
    def expects_standalone_messages(self) -> bool:
        """True if the application handles messages that the server sends outside of requests, even without `listen`."""
        return self.answering.wants_messages or self.custom.wants_messages

    def _on_disconnect(self, reason: ConnectionLost) -> None:
        self._disconnect_reason = reason
        for scope in self._scopes:
            scope.cancel(reason="the connection is gone")
        self.changes.disconnected(reason)
        self.cache.disconnected()

    @contextmanager
    def while_connected(self) -> Generator[None]:
        """Cancel the block when the connection is lost: an answer that cannot be sent is not needed.

        Raises:
            ConnectionLost: the connection is gone.
        """
        with trio.CancelScope() as scope:
            if self._disconnect_reason is not None:
                raise copy(self._disconnect_reason)
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            assert self._disconnect_reason is not None
            raise copy(self._disconnect_reason)

    def close(self) -> None:
        """Refuse all further requests, because the client is closed; the first reason is kept."""
        self.is_closed = not isinstance(self._disconnect_reason, ConnectionBroken)

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request of the server."""
        span = exchange.begin_span() if TRACING_MODULE in sys.modules else None
        if span is None:
            self._answer(exchange)
        else:
            with span.active():
                self._answer(exchange)

    def _answer(self, exchange: IncomingRequest) -> None:
        if not self.custom.answer(exchange, self.answering.pool, self.clocks):
            self.answering.answer(exchange)

    def notified(self, method: str, params: JsonObject) -> None:
        """Handle a notification of the server."""
        if method == "notifications/message":
            self.answering.log(params)
        elif method == ELICITATION_COMPLETE:
            self.answering.pages.completed(params)
        else:
            self.custom.take_notification(method, params)
            self.changes.take_notification(method, params)

    def asking_person(self) -> AbstractContextManager[None]:
        """Return a block in which a person is asked: all time limits are paused."""
        return self.clocks.paused()

    def renewed(self) -> None:
        """Restore subscriptions and forget known tools after a new session has replaced a lost one."""
        self.tools.forget()
        self.changes.session_renewed()

    def agree(
        self,
        revision: str,
        capabilities: types.ServerCapabilities,
        server_info: types.Implementation | None,
        instructions: str | None,
    ) -> None:
        """Store the terms that the server answered with."""
        capabilities = with_named_extensions(capabilities)
        self.server_capabilities, self.server_info, self.instructions = capabilities, server_info, instructions
        info = None if server_info is None else types.unstructure(server_info)
        self._declared = types.unstructure(capabilities)
        self.changes.declared = EVERY_LIST.within(capabilities)
        self.admission.agree(revision, self._declared, info)
        self.revision, self.is_modern = revision, is_modern(revision)
        self._checked.clear()
        if self.is_modern:
            self._request_meta = self._envelope = self.envelope(revision)
            if self.answering.receives_logs:
                self.ask_for_logs(_ALL_LOGS)
            self.tools.mirrors_arguments = self.transport.has_fields
            self.cache.enable(self._envelope, info)

    def envelope(self, revision: str) -> JsonObject:
        """Return the `_meta` of each modern request."""
        return {
            REVISION_KEY: revision,
            CLIENT_INFO_KEY: types.unstructure(self.info, revision=revision),
            CAPABILITIES_KEY: declaration(self.capabilities, revision),
        }

    def ask_for_logs(self, level: types.LoggingLevel) -> None:
        """Add *level* to later modern requests: the server logs messages of that level and above."""
        self._request_meta = {**self._envelope, LOG_LEVEL_KEY: level}

    def has(self, method: str) -> bool:
        """Return True if the agreed revision has a request *method* that clients send."""
        row = types.METHODS[self.revision].get(method)
        return row is not None and row.kind == "request" and row.direction != "server"

    def check(self, method: str, *, undeclared: bool = False) -> None:
        """Check that a request may be sent.

        Args:
            undeclared: allow requests that need capabilities the server has not declared.

        Raises:
            LocalProtocolError: the agreed revision has no such request.
            MissingCapability: the server has not declared a capability that the request needs.
        """
        if not self.has(method) and is_specified(method):  # other methods may be custom ones
            raise LocalProtocolError(f"revision {self.revision} has no request {method!r}")
        if not undeclared:
            check_declared(method, self._declared, self.revision)
            self._checked.add(method)

    def _declares(self, method: str) -> bool:
        """Return True if the server has declared what a request needs; raises LocalProtocolError as `check` does."""
        if method not in self._checked:
            try:
                self.check(method)
            except MissingCapability:
                return False
        return True

    def ask(
        self,
        method: str,
        params: JsonObject | None,
        *,
        wants_updates: bool = False,
        undeclared: bool = False,
        capabilities: JsonObject | None = None,
    ) -> OutgoingRequest:
        """Return a request to begin, without time limits; leaving it before the outcome has arrived cancels it.

        Args:
            wants_updates: ask for progress.
            undeclared: allow requests that need capabilities the server has not declared.
            capabilities: the capabilities that a modern request declares instead of the client's.

        Raises:
            LocalProtocolError: the agreed revision has no such request; or an argument of a call cannot be mirrored.
            MissingCapability: the server has not declared a capability that the request needs.
            ConnectionClosed: the client is closed.
        """
        if self.is_closed:
            raise ConnectionClosed("this client is closed: its `async with` block has ended, or aclose() was called")
        if method not in self._checked:
            self.check(method, undeclared=undeclared)
        if self.is_modern:
            meta = self._request_meta
            if meta is not self._envelope and params is not None and LOG_LEVEL_KEY in (params.get("_meta") or ()):
                meta = self._envelope  # the request has a log level of its own
            params = stamp(params, meta if capabilities is None else {**meta, CAPABILITIES_KEY: capabilities})
        span = client_span(method, params, self.revision) if TRACING_MODULE in sys.modules else None
        outgoing = self.transport.ask(
            method, params if span is None else span.inject(params), wants_updates=wants_updates
        )
        outgoing.span = span
        if self.tools.mirrors_arguments and method == "tools/call":
            assert params is not None
            outgoing.fields = self.tools.fields(params)
        return outgoing

    async def request(self, method: str, params: JsonObject | None, result: type[R], *, undeclared: bool = False) -> R:
        """Send a request, answer the questions of a modern server, and return the typed result.

        Args:
            undeclared: allow requests that need capabilities the server has not declared.

        Raises:
            MissingCapability: the server has not declared a capability that the request needs.
            ErrorResponse: the server answered with an error.
            RequestTimedOut: the server did not answer within the time limits.
            RemoteProtocolError: the answer breaks the protocol.
            LocalProtocolError: the agreed revision has no such request, or *params* is not JSON.
            ConnectionLost: the connection is gone.
        """
        request = OpenRequest(self, method, params, undeclared=undeclared)
        await request.begin()
        try:
            return self.read_result(method, await request.result(), result)
        finally:
            request.leave()

    async def cached_request(self, method: str, params: JsonObject | None, result: type[C], *, fresh: bool) -> C:
        """Return a fresh cached result, or send the request as `request` does and cache the result.

        A list that the server has not declared is empty, and is not requested.

        Args:
            fresh: send the request even if a result is cached.
        """
        if method in EMPTY_LISTS and not self._declares(method):
            await trio.lowlevel.checkpoint()
            return cast("C", EMPTY_LISTS[method]())
        cached = self.cache.request(method, params)
        if cached is None:
            value = await self.request(method, params, result)
            return value if self.is_modern else without_empty_cursor(method, value, self.warn_once)
        found = None if fresh else await cached.find()
        if found is not None:
            return self.read_result(method, found, result)
        with cached:
            request = OpenRequest(self, method, params)
            await request.begin()
            try:
                value = self.read_result(method, await request.result(), result)
            finally:
                request.leave()
            if not request.has_rounds:  # else the result depends on the answers
                cached.keep(value)
            return value

    def warn_once(self, text: str) -> None:
        """Log a warning about the server, unless it was logged for this connection."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)

    def read_result(self, method: str, json: JsonObject, result: type[R]) -> R:
        """Return the typed result.

        Raises:
            RemoteProtocolError: it does not match *result*, or has an unknown result type.
        """
        if self.is_modern:
            kind = json.get("resultType", "complete")
            if kind != "complete":
                raise RemoteProtocolError(
                    f"the result of {method!r} has the type {kind!r}, which this client does not know"
                )
        hashable: Any = result
        try:
            read: R = _reader(hashable, self.revision)(json)
        except StructureError as exc:
            raise RemoteProtocolError(f"the result of {method!r} does not fit: {'; '.join(exc.faults)}") from exc
        return read

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification outside of any request. A custom one carries the same envelope as requests.

        Raises:
            LocalProtocolError: the agreed revision has no such notification from a client, or this client has not
                declared the capability it belongs to.
            ConnectionLost: the connection is gone.
        """
        if not is_specified(method):
            await self.transport.notify(method, stamp(params, self._envelope) if self.is_modern else params)
            return
        row = types.METHODS[self.revision].get(method)
        if row is None or row.kind != "notification" or row.direction == "server":
            raise LocalProtocolError(f"revision {self.revision} has no notification {method!r} from a client")
        if method == "notifications/roots/list_changed" and self.capabilities.roots is None:
            raise LocalProtocolError("this client has not declared any roots")
        await self.transport.notify(method, params)


@define(eq=False)
class Attempt:
    """One attempt at a request, with its clock: `begin` sends it, `leave` ends it.

    A method that only passes on an awaitable is not a coroutine itself, because every coroutine in a chain is resumed
    for each step: 5 % of the client's processor time in the benchmark cell `stdio-64`.
    """

    _clocks: RequestClocks
    outgoing: OutgoingRequest
    _began: float = field(init=False)
    _total_deadline: float = field(init=False)
    _last_activity: float = field(init=False)
    """The time of the last message, or of the start of the last wait."""

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If sending fails, the attempt has ended.

        Raises:
            RequestTimedOut: the request could not be sent within the total limit.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        outgoing = self.outgoing
        if not outgoing.begin_nowait():
            await self._begin_in_time()
        elif outgoing.state is ExchangeState.OPEN:  # else the answer has arrived, and no task will wait
            self._start()

    async def _begin_in_time(self) -> None:
        self._start()
        with self._clocks.timeouts.within(self._clocks.limits.total) as scope:
            try:
                await self.outgoing.begin()
            except BaseException:
                self._clocks.running.discard(self)
                raise
        if scope.cancelled_caught:
            raise self._too_long()

    def _start(self) -> None:
        clocks = self._clocks
        self._began = self._last_activity = now = clocks.now()
        self._total_deadline = now + clocks.limits.total
        clocks.running.add(self)

    def leave(self) -> None:
        """End the attempt. Synchronous; may be repeated."""
        self._clocks.running.discard(self)
        self.outgoing.leave()

    def next_update(self) -> Awaitable[tuple[str, JsonObject] | None]:
        """Wait for the next update; None when the outcome has arrived.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.outgoing.state is ExchangeState.OPEN:  # else the outcome has arrived, and limits no longer apply
            self._begin_wait()
        return self.outgoing.next_update()

    def result(self) -> Awaitable[JsonObject]:
        """Wait for the result.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.outgoing.state is ExchangeState.OPEN:
            self._begin_wait()
        return self.outgoing.result()

    def _begin_wait(self) -> None:
        """Restart the idle limit. When a limit is reached, the wait raises `RequestTimedOut`."""
        clocks = self._clocks
        self._last_activity = now = clocks.now()
        if now >= self._total_deadline and math.isinf(clocks.stopped_at):
            raise self._timed_out(now)
        deadline = min(now + clocks.limits.idle, self._total_deadline)
        if deadline < clocks.next_check:  # this is rare
            clocks.check_at(deadline)

    def check(self, now: float) -> float:
        """Fail the request if a limit is reached; return the time of the next check, infinite if no task waits."""
        if not self.outgoing.receiving:
            return math.inf
        # Unread updates may have arrived.
        deadline = min(
            max(self._last_activity, self.outgoing.last_update_at) + self._clocks.limits.idle, self._total_deadline
        )
        if now < deadline:
            return deadline
        self.outgoing.interrupt(self._timed_out(now), "timeout")
        return math.inf

    @property
    def is_awaited(self) -> bool:
        """True if a task waits for the request."""
        return self.outgoing.receiving

    def interrupt(self, reason: BaseException) -> None:
        """Raise *reason* in the task that waits for the request."""
        self.outgoing.interrupt(reason)

    def _timed_out(self, now: float) -> RequestTimedOut:
        method, limits = self.outgoing.method, self._clocks.limits
        if now >= self._total_deadline:
            return self._too_long()
        return RequestTimedOut(f"{method!r}: the server sent nothing for {limits.idle:g} s (TimeLimits.idle)")

    def _too_long(self) -> RequestTimedOut:
        total = self._clocks.limits.total
        return RequestTimedOut(f"{self.outgoing.method!r} took longer than {total:g} s in all (TimeLimits.total)")

    def resume(self, stopped_at: float) -> None:
        """Restart the clock, which has been stopped since *stopped_at*."""
        now = self._clocks.now()
        self._total_deadline += now - max(stopped_at, self._began)
        last_activity = max(self._last_activity, self.outgoing.last_update_at)
        self._last_activity = last_activity + now - max(stopped_at, last_activity)


_PLAIN = ("complete", None)  # the types of almost every result, which need no further steps


@define(eq=False)
class OpenRequest:
    """One request with all its attempts: `begin` sends it, `leave` ends the attempt in flight.

    Args:
        wants_updates: ask for progress.
        undeclared: allow requests that need capabilities the server has not declared.
        capabilities: the capabilities that this request declares in a modern revision; None for the client's.
        is_manual: return a result that asks for input; by default this client's callbacks answer it.
        repeatable: allow every attempt to be repeated if its response was lost, even if it is not idempotent.
    """

    connection: Connection
    method: str
    params: JsonObject | None
    """The params of the request; after sending, as edited by the consent hook."""
    wants_updates: bool = field(default=False, kw_only=True)
    undeclared: bool = field(default=False, kw_only=True)
    capabilities: JsonObject | None = field(default=None, kw_only=True)
    is_manual: bool = field(default=False, kw_only=True)
    repeatable: bool = field(default=False, kw_only=True)
    _attempt: Attempt = field(init=False)
    _sent_params: JsonObject | None = field(init=False)  # the params of the current attempt
    _refreshes: int = field(init=False)  # the number of refreshes of the list of tools before the attempt was sent
    _rounds: Rounds | None = field(init=False)  # None until the server asks a question
    _was_corrected: bool = field(init=False)
    """True if the call was repeated because its arguments were mirrored wrongly."""
    _previous: tuple[Attempt, ...] = field(init=False)  # attempts that have ended, with unread updates
    _skipped: int = field(init=False)  # the updates dropped in attempts that were left
    _is_busy: bool = field(init=False)
    _failure: Exception | None = field(init=False)
    _completed: JsonObject | None = field(init=False)
    """The result that an extension has made of the server's result."""

    def __attrs_post_init__(self) -> None:
        # Set here, because attrs takes three times as long for fields that are not arguments: 5 % of the client's
        # processor time in the benchmark cell `stdio-64`.
        self._rounds = None
        self._was_corrected = False
        self._previous = ()
        self._skipped = 0
        self._is_busy = False
        self._failure = None
        self._completed = None

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If sending fails, the request has ended.

        Raises:
            RequestTimedOut: the request could not be sent within the total limit.
            Exception: any exception of `Connection.ask`, the consent hook or the transport.
        """
        consent = self.connection.consent
        if consent is not None and self.method == "tools/call":
            await self._get_consent(consent)
        await self._send(self.params)

    def leave(self) -> None:
        """End the request. Synchronous; may be repeated."""
        for each in self._previous:
            each.leave()
        self._attempt.leave()

    @property
    def has_rounds(self) -> bool:
        """True if the server has asked a question."""
        return self._rounds is not None

    @property
    def skipped(self) -> int:
        """The number of updates that were dropped because too many waited."""
        return self._skipped + sum(each.outgoing.skipped for each in (*self._previous, self._attempt))

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update of any attempt; None when the outcome has arrived."""
        while True:
            while self._previous:
                update = await self._previous[0].outgoing.next_update()
                if update is not None:
                    return update
                ended, *others = self._previous
                self._previous = tuple(others)
                self._leave(ended)
            update = await self._attempt.next_update()
            if update is not None:
                return update
            interim = await self._interim() if self.connection.is_modern else None
            if interim is None:
                return None
            await self._continue(interim)

    async def _interim(self) -> JsonObject | ErrorResponse | None:
        """Return the latest outcome if it calls for a round of questions or for a correction; otherwise None."""
        if self._failure is not None:
            return None
        try:
            outcome = await self._attempt.outgoing.result()  # it has arrived
        except ErrorResponse as error:
            return error if self._can_correct(error) else None
        except TrioMcpError:
            return None
        return outcome if self.is_interim(outcome) and not self.is_manual else None

    def _can_correct(self, error: ErrorResponse) -> bool:
        is_mismatch = error.code == HEADER_MISMATCH and self.method == "tools/call"
        return is_mismatch and not self._was_corrected and self.connection.tools.mirrors_arguments

    async def result(self) -> JsonObject:
        """Wait for the result. A round of questions is returned only if the caller answers them itself.

        Raises:
            RemoteProtocolError: a question of the server breaks the protocol, or exceeds `Limits.max_rounds`.
            Exception: any exception of a callback; the request is not sent again.
        """
        while True:
            if self._failure is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._failure
            try:
                outcome = await self._attempt.result()
            except ErrorResponse as error:
                if self._can_correct(error):
                    await self._continue(error)
                    continue
                self.connection.answering.pages.add_required(error)
                raise
            if outcome.get("resultType") in _PLAIN:
                return outcome
            if not self.is_interim(outcome):
                return await self._complete(outcome)
            if self.is_manual:
                return outcome
            await self._continue(outcome)

    async def _complete(self, outcome: JsonObject) -> JsonObject:
        """Return the complete result for a result of an extension's type; return any other result unchanged."""
        custom = self.connection.custom
        resolve = custom.resolver(self.method, outcome.get("resultType")) if self.connection.is_modern else None
        if resolve is None:
            return outcome
        if self._completed is None:
            with self._exclusively():
                self._completed = await custom.complete_result(resolve, self.method, outcome)
        return self._completed

    def is_interim(self, outcome: JsonObject) -> bool:
        """Return True if the server has asked a question instead of answering."""
        if outcome.get("resultType") != "input_required" or not self.connection.is_modern:
            return False
        row = types.METHODS[self.connection.revision].get(self.method)
        return row is not None and types.InputRequiredResult in row.results  # other methods have no such result type

    async def _get_consent(self, consent: Consent) -> None:
        self.connection.check(self.method, undeclared=self.undeclared)
        self.params = await call_with_consent(consent, self.params, self.connection.revision)

    async def _send(self, params: JsonObject | None) -> None:
        """Make an attempt. If it cannot be sent, the state is unchanged."""
        connection, refreshes = self.connection, self.connection.tools.refreshes
        outgoing = connection.ask(
            self.method,
            params,
            wants_updates=self.wants_updates,
            undeclared=self.undeclared,
            capabilities=self.capabilities,
        )
        outgoing.repeatable = self.repeatable or (self._rounds is None and self.method in IDEMPOTENT)
        attempt = Attempt(connection.clocks, outgoing)
        await attempt.begin()
        self._attempt, self._sent_params, self._refreshes = attempt, params, refreshes

    async def _continue(self, outcome: JsonObject | ErrorResponse) -> None:
        """Answer a round or make a correction.

        If cancelled, nothing was sent, and the next task that waits continues here.
        """
        ended = self._attempt
        with self._exclusively():
            try:
                if isinstance(outcome, ErrorResponse):
                    await self._correct()
                else:
                    await self._retry(outcome)
            except Exception as exc:
                self._failure = exc
                raise
        if ended.outgoing.waiting:
            self._previous = (*self._previous, ended)
        else:
            self._leave(ended)

    async def _retry(self, outcome: JsonObject) -> None:
        if self._rounds is None:
            connection = self.connection
            replies = connection.answering.replies
            self._rounds = Rounds(
                self.method, self.params, connection.revision, connection.limits, replies, connection.while_connected
            )
        await self._send(await self._rounds.retry(outcome))
        self._rounds.sent()

    async def _correct(self) -> None:
        await self.connection.tools.refresh(self._refreshes)
        await self._send(self._sent_params)
        self._was_corrected = True

    @contextmanager
    def _exclusively(self) -> Generator[None]:
        if self._is_busy:
            raise trio.BusyResourceError("another task is answering the server's questions")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _leave(self, attempt: Attempt) -> None:
        attempt.leave()
        self._skipped += attempt.outgoing.skipped


@cache
def _reader(result: Any, revision: str) -> Callable[[JsonObject], Any]:
    """Return a function that reads a result; missing members that have a default meaning are supplied."""
    if not is_model(result):
        return reader_of(result)
    read = types.structurer(result, revision)
    if not is_modern(revision):
        return read
    if hasattr(result, "ttl_ms"):
        return lambda json: read(with_cache_hints(json))
    return lambda json: read(json if "resultType" in json else {"resultType": "complete", **json})
