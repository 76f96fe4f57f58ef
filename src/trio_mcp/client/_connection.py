"""The untyped half of a client: one connection, and the requests on it with all their attempts.

The typed `Client` calls it, and it calls the transport. It knows envelopes, attempts and time limits, and no single
method.

A modern server that needs more information asks for it in the result of a request, and the client repeats the request
with the answers. Almost every request has one attempt and ends with its result: that way is short, and everything else
that a request needs is created on demand.

Rules of this file:

1. A retry is a new request with its own id, progress token, `_meta` and clock. `Rounds` decides what it contains.
2. The updates of all attempts come out in order, as if they were one request.
3. No task runs in the background: the task that waits for an update or the result also answers the questions.
4. A server that finds the arguments of a call mirrored wrongly has run nothing. The client lists the tools again and
   repeats the call once.
5. A request that does no harm when it is made twice may be repeated once if its response was lost. Any other request,
   and every retry, is repeated only if the caller allows it: the server may have acted on the answers.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from attrs import define, field

from .. import types
from .._errors import (
    ConnectionLost,
    ErrorResponse,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
    StructureError,
    TrioMcpError,
)
from .._extensions import is_specified, with_named_extensions
from .._tracing import client_span
from .._user_types import is_model, reader_of
from ..abc import Tap, Transport
from ..peer import ClientSession, IncomingRequest, Limits, OutgoingRequest
from ..wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    HEADER_MISMATCH,
    LOG_LEVEL_KEY,
    REVISION_KEY,
    ExchangeState,
    JsonObject,
    NotJsonError,
    copy_json,
    is_modern,
    stamp,
)
from ._answer import VISIT_DONE, Answering, CustomMessages, Rounds
from ._cache import Cacheable, ConnectionCache, with_cache_hints
from ._callbacks import IDEMPOTENT, check_declared, consented, declaration
from ._legacy_listen import SessionChanges
from ._lists import KnownTools
from ._timing import RequestClocks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from ._callbacks import Consent

__all__ = ["Connection", "OpenRequest"]

_OPEN = ExchangeState.OPEN  # looked up once, because looking up a member of an enumeration is slow

R = TypeVar("R")
C = TypeVar("C", bound=Cacheable)


@define(eq=False)
class Connection:
    """A client's connection: what `abc.Client` promises the transport, and requests for the layer above."""

    info: types.Implementation
    """How this client names itself."""
    capabilities: types.ClientCapabilities
    """What this client declares: in a handshake, or in each modern request."""
    limits: Limits
    stopwatch: RequestClocks
    answering: Answering
    tap: Tap | None
    """Sees each message that passes; never raises."""
    cache: ConnectionCache
    """What was asked before and need not be asked again."""
    own: CustomMessages
    """What the application has added to the protocol."""
    news: SessionChanges = field(init=False)
    """What the server tells unasked."""
    tools: KnownTools = field(init=False)
    """What it has said about its tools."""
    admission: ClientSession = field(factory=ClientSession, init=False)
    consent: Consent | None = field(init=False)
    """The application's word on each tool call; None where it has none."""
    transport: Transport = field(init=False)
    """What carries the exchanges, once there is something; see `carried_by`."""
    revision: str = field(init=False)
    """The protocol revision, once it is agreed on."""
    is_modern: bool = field(default=False, init=False)
    """Whether that is one whose requests say about themselves what others say in a handshake."""
    server_info: types.Implementation | None = field(default=None, init=False)
    server_capabilities: types.ServerCapabilities = field(init=False)
    instructions: str | None = field(default=None, init=False)
    _loss: ConnectionLost | None = field(default=None, init=False)
    """Why the connection is gone; None while it is up."""
    _blocks: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """What makes no sense without it."""
    _envelope: JsonObject = field(factory=dict[str, Any], init=False)
    """What each modern message says about itself."""
    _said: JsonObject = field(factory=dict[str, Any], init=False)
    """What each modern request does: besides, which messages it asks to be logged."""
    _checked: set[str] = field(factory=set[str], init=False)
    """The methods of which it is known that the server has declared what they need."""
    _declared: JsonObject = field(factory=dict[str, Any], init=False)
    """The server's capabilities, as they go over the wire."""

    def __attrs_post_init__(self) -> None:
        nursery = self.answering.pool.nursery
        self.news, self.tools = SessionChanges(self.request, self.cache, nursery), KnownTools(self.cached_request)
        self.server_capabilities = types.ServerCapabilities()
        self.consent = self.answering.replies.callbacks.consent
        nursery.start_soon(self.stopwatch.run)

    def carried_by(self, transport: Transport) -> None:
        """There is something to carry exchanges."""
        self.transport = transport
        transport.on_disconnect(self._lost)

    @property
    def expects_news(self) -> bool:
        """Whether the application hears what the server says outside of requests, even if it does not `listen`."""
        return self.answering.hears or self.own.hears

    def _lost(self, reason: ConnectionLost) -> None:
        self._loss = reason
        for scope in self._blocks:
            scope.cancel(reason="the connection is gone")
        self.news.lost(reason)
        self.cache.leave()

    @contextmanager
    def while_it_lasts(self) -> Generator[None]:
        """Cancel the block when the connection is lost: nobody need answer what cannot be sent any more.

        Raises:
            ConnectionLost: it is gone.
        """
        with trio.CancelScope() as scope:
            if self._loss is not None:
                raise copy(self._loss)
            self._blocks.add(scope)
            try:
                yield
            finally:
                self._blocks.discard(scope)
        if scope.cancelled_caught:
            assert self._loss is not None
            raise copy(self._loss)

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer what the server asks."""
        span = exchange.begin_span()
        if span is None:
            self._begin_to_answer(exchange)
        else:
            with span.active():
                self._begin_to_answer(exchange)

    def _begin_to_answer(self, exchange: IncomingRequest) -> None:
        if not self.own.answer(exchange, self.answering.pool, self.stopwatch):
            self.answering.answer(exchange)

    def notified(self, method: str, params: JsonObject) -> None:
        """Take a notification of the server's."""
        if method == "notifications/message":
            self.answering.log(params)
        elif method == VISIT_DONE:
            self.answering.visits.done(params)
        elif not self.own.hear(method, params):
            self.news.heard(method, params)

    def asking_person(self) -> AbstractContextManager[None]:
        """Return a block in which a person is being asked: all time limits stand still."""
        return self.stopwatch.stopped()

    def renewed(self) -> None:
        """Another session stands in the place of a lost one; what this client wanted of that is asked for again."""
        self.tools.forget()
        self.news.renewed()

    def agree(
        self,
        revision: str,
        capabilities: types.ServerCapabilities,
        server_info: types.Implementation | None,
        instructions: str | None,
    ) -> None:
        """Settle on what the server answered."""
        capabilities = with_named_extensions(capabilities)
        self.server_capabilities, self.server_info, self.instructions = capabilities, server_info, instructions
        info = None if server_info is None else types.unstructure(server_info)
        self._declared = types.unstructure(capabilities)
        self.admission.agree(revision, self._declared, info)
        self.revision, self.is_modern = revision, is_modern(revision)
        self._checked.clear()
        if self.is_modern:
            self._said = self._envelope = self.envelope(revision)
            self.tools.mirrors_arguments = self.transport.has_fields
            self.cache.agreed(self._envelope, info)

    def envelope(self, revision: str) -> JsonObject:
        """Return what each modern request says about itself."""
        return {
            REVISION_KEY: revision,
            CLIENT_INFO_KEY: types.unstructure(self.info, revision=revision),
            CAPABILITIES_KEY: declaration(self.capabilities, revision),
        }

    def ask_for_logs(self, level: types.LoggingLevel) -> None:
        """From now on modern requests ask that messages of *level* and above be logged."""
        self._said = {**self._envelope, LOG_LEVEL_KEY: level}

    def has(self, method: str) -> bool:
        """Tell whether the agreed revision has a request *method* that clients send."""
        row = types.METHODS[self.revision].get(method)
        return row is not None and row.kind == "request" and row.direction != "server"

    def check(self, method: str, *, undeclared: bool = False) -> None:
        """Refuse what cannot be asked.

        Args:
            undeclared: allow what the server has not declared.

        Raises:
            LocalProtocolError: the agreed revision has no such request.
            MissingCapability: the server has not declared what the request needs.
        """
        if not self.has(method) and is_specified(method):  # it may be the application's own
            raise LocalProtocolError(f"revision {self.revision} has no request {method!r}")
        if not undeclared:
            check_declared(method, self._declared, self.revision)
            self._checked.add(method)

    def ask(
        self,
        method: str,
        params: JsonObject | None,
        *,
        wants_updates: bool = False,
        undeclared: bool = False,
        capabilities: JsonObject | None = None,
    ) -> OutgoingRequest:
        """Return a request to enter, without time limits; leaving it before the outcome has arrived cancels it.

        Args:
            wants_updates: ask for progress.
            undeclared: ask even what the server has not declared.
            capabilities: what a modern request declares in place of what this client does.

        Raises:
            LocalProtocolError: the agreed revision has no such request; or an argument of a call cannot be mirrored.
            MissingCapability: the server has not declared what the request needs.
        """
        if method not in self._checked:
            self.check(method, undeclared=undeclared)
        if self.is_modern:
            said = self._said if capabilities is None else {**self._said, CAPABILITIES_KEY: capabilities}
            params = stamp(params, said)
        span = client_span(method, params, self.revision)
        asked = self.transport.ask(method, params if span is None else span.inject(params), wants_updates=wants_updates)
        asked.span = span
        if self.tools.mirrors_arguments and method == "tools/call":
            assert params is not None
            asked.fields = self.tools.fields(params)
        return asked

    async def request(self, method: str, params: JsonObject | None, result: type[R], *, undeclared: bool = False) -> R:
        """Send a request, answer what a modern server asks first, and return the typed result.

        Args:
            undeclared: ask even what the server has not declared.

        Raises:
            MissingCapability: the server has not declared what the request needs.
            ErrorResponse: the server answered with an error.
            RequestTimedOut: it did not answer within the time limits.
            RemoteProtocolError: its answer breaks the protocol.
            LocalProtocolError: the agreed revision has no such request, or *params* are not JSON.
            ConnectionLost: the connection is gone.
        """
        request = OpenRequest(self, method, params, undeclared=undeclared)
        await request.begin()
        try:
            return self.read_result(method, await request.result(), result)
        finally:
            request.leave()

    async def cached_request(self, method: str, params: JsonObject | None, result: type[C], *, fresh: bool) -> C:
        """Return a result that was asked for before, if it is fresh, and else do as `request` does, and keep it.

        Args:
            fresh: ask in any case.
        """
        asking = self.cache.asking(method, params)
        if asking is None:
            return await self.request(method, params, result)
        found = None if fresh else await asking.find()
        if found is not None:
            return self.read_result(method, found, result)
        with asking:
            request = OpenRequest(self, method, params)
            await request.begin()
            try:
                value = self.read_result(method, await request.result(), result)
            finally:
                request.leave()
            if not request.has_rounds:  # else it depends on what was answered
                asking.keep(value)
            return value

    def read_result(self, method: str, json: JsonObject, result: type[R]) -> R:
        """Return the typed result; raises `RemoteProtocolError` where it does not fit its type, or is of another."""
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
        """Send a notification that belongs to no request. The application's own say of themselves what requests do.

        Raises:
            LocalProtocolError: the agreed revision has no such notification from a client, or this client has not
                declared what it is about.
            ConnectionLost: the connection is gone.
        """
        if not is_specified(method):
            await self.transport.notify(method, stamp(params, self._envelope) if self.is_modern else params)
            return
        row = types.METHODS[self.revision].get(method)
        if row is None or row.kind != "notification" or row.direction == "server":
            raise LocalProtocolError(f"revision {self.revision} has no notification {method!r} from a client")
        if method == "notifications/roots/list_changed" and self.capabilities.roots is None:
            raise LocalProtocolError("this client has declared no roots that could have changed")
        await self.transport.notify(method, params)


@define(eq=False)
class Attempt:
    """One attempt at a request, and its clock: `begin` sends it, `leave` ends it.

    What only hands on what is to be awaited is no coroutine itself: whoever is resumed passes through all of them.
    """

    _stopwatch: RequestClocks
    asked: OutgoingRequest
    _began: float = field(init=False)
    _total_deadline: float = field(init=False)
    _heard: float = field(init=False)
    """When the idle limit began last, unless an update has come since."""

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If it cannot be sent, it is over.

        Raises:
            RequestTimedOut: it could not be sent within the total limit.
        """
        asked = self.asked
        if not asked.begins_at_once():
            await self._begin_in_time()
            return
        await asked.begin()
        if asked.state is _OPEN:  # else the answer is there, and nobody will wait
            self._start()

    async def _begin_in_time(self) -> None:
        self._start()
        with self._stopwatch.timeouts.within(self._stopwatch.limits.total) as scope:
            try:
                await self.asked.begin()
            except BaseException:
                self._stopwatch.running.discard(self)
                raise
        if scope.cancelled_caught:
            raise self._too_long()

    def _start(self) -> None:
        stopwatch = self._stopwatch
        self._began = self._heard = now = stopwatch.now()
        self._total_deadline = now + stopwatch.limits.total
        stopwatch.running.add(self)

    def leave(self) -> None:
        """End the attempt; synchronous, and harmless when it has ended already."""
        self._stopwatch.running.discard(self)
        self.asked.leave()

    def next_update(self) -> Awaitable[tuple[str, JsonObject] | None]:
        """Wait for the next update; None when the outcome has arrived.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.asked.state is _OPEN:  # else the outcome is there, however late it is asked for
            self._begin_wait()
        return self.asked.next_update()

    def result(self) -> Awaitable[JsonObject]:
        """Wait for the result.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.asked.state is _OPEN:
            self._begin_wait()
        return self.asked.result()

    def _begin_wait(self) -> None:
        """From now on the other side is waited for. When a limit is reached, the wait raises `RequestTimedOut`."""
        stopwatch = self._stopwatch
        self._heard = now = stopwatch.now()
        if now >= self._total_deadline and math.isinf(stopwatch.stopped_at):
            raise self._timed_out(now)
        deadline = min(now + stopwatch.limits.idle, self._total_deadline)
        if deadline < stopwatch.looks_at:  # which is rare
            stopwatch.look_at(deadline)

    def judge(self, now: float) -> float:
        """Give the request up if a limit is reached; return when to look again, infinite where nobody waits."""
        if not self.asked.receiving:
            return math.inf
        # Updates may have come in that nobody has read yet.
        deadline = min(max(self._heard, self.asked.last_heard) + self._stopwatch.limits.idle, self._total_deadline)
        if now < deadline:
            return deadline
        self.asked.interrupt(self._timed_out(now))
        return math.inf

    def _timed_out(self, now: float) -> RequestTimedOut:
        method, limits = self.asked.method, self._stopwatch.limits
        if now >= self._total_deadline:
            return self._too_long()
        return RequestTimedOut(f"{method!r}: nothing was heard for {limits.idle:g} s (TimeLimits.idle)")

    def _too_long(self) -> RequestTimedOut:
        total = self._stopwatch.limits.total
        return RequestTimedOut(f"{self.asked.method!r} took longer than {total:g} s in all (TimeLimits.total)")

    def go_on(self, stopped_at: float) -> None:
        """The person has answered; *stopped_at* is when the clocks were stopped."""
        now = self._stopwatch.now()
        self._total_deadline += now - max(stopped_at, self._began)
        heard = max(self._heard, self.asked.last_heard)
        self._heard = heard + now - max(stopped_at, heard)


_PLAIN = ("complete", None)
"""The types of almost every result: there is nothing more to do."""


@define(eq=False)
class OpenRequest:
    """One request with all its attempts: `begin` sends it, `leave` ends what is under way.

    Args:
        wants_updates: ask for progress.
        undeclared: ask even what the server has not declared.
        capabilities: what this request declares, in a modern revision; None for what the client does.
        is_manual: a result that asks for input is the outcome; by default this client's callbacks answer it.
        repeatable: every attempt may be sent once more where its answer was lost, whatever it does.
    """

    connection: Connection
    method: str
    params: JsonObject | None
    """What is asked; once it is sent, with what the consent hook has made of it."""
    wants_updates: bool = field(default=False, kw_only=True)
    undeclared: bool = field(default=False, kw_only=True)
    capabilities: JsonObject | None = field(default=None, kw_only=True)
    is_manual: bool = field(default=False, kw_only=True)
    repeatable: bool = field(default=False, kw_only=True)
    _current: Attempt = field(init=False)
    _sent: JsonObject | None = field(init=False)
    """The params of that attempt."""
    _renewals: int = field(init=False)
    """Of the list of tools, when it was sent."""
    _rounds: Rounds | None = field(init=False)
    """None until the server asks."""
    _is_corrected: bool = field(init=False)
    """Whether something was sent once more because it was mirrored wrongly."""
    _earlier: tuple[Attempt, ...] = field(init=False)
    """Attempts that are over, with updates that nobody has read."""
    _skipped: int = field(init=False)
    """Of the attempts that are left."""
    _is_going_on: bool = field(init=False)
    _failure: Exception | None = field(init=False)
    _completed: JsonObject | None = field(init=False)
    """What an extension has made of the result."""

    def __attrs_post_init__(self) -> None:
        # Here, because attrs takes three times as long to set what is no argument, and each call makes one of these.
        self._rounds = None
        self._is_corrected = False
        self._earlier = ()
        self._skipped = 0
        self._is_going_on = False
        self._failure = None
        self._completed = None

    def begin(self) -> Awaitable[None]:
        """Send the request; `leave` must follow. If it cannot be sent, it is over.

        Raises:
            RequestTimedOut: it could not be sent within the total limit.
            Exception: whatever `Connection.ask` raises, the consent hook, or the transport.
        """
        consent = self.connection.consent
        if consent is not None and self.method == "tools/call":
            return self._begin_with_consent(consent)
        return self._send(self.params)

    async def _begin_with_consent(self, consent: Consent) -> None:
        await self._get_consent(consent)
        await self._send(self.params)

    def leave(self) -> None:
        """End it; synchronous, and harmless when it has ended already."""
        for each in self._earlier:
            each.leave()
        self._current.leave()

    @property
    def has_rounds(self) -> bool:
        """Whether the server has asked."""
        return self._rounds is not None

    @property
    def skipped(self) -> int:
        """Updates that were dropped because too many waited."""
        return self._skipped + sum(each.asked.skipped for each in (*self._earlier, self._current))

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update of whichever attempt; None when the outcome has arrived."""
        while True:
            while self._earlier:
                update = await self._earlier[0].asked.next_update()
                if update is not None:
                    return update
                over, *others = self._earlier
                self._earlier = tuple(others)
                self._leave(over)
            update = await self._current.next_update()
            if update is not None:
                return update
            interim = await self._interim() if self.connection.is_modern else None
            if interim is None:
                return None
            await self._go_on(interim)

    async def _interim(self) -> JsonObject | ErrorResponse | None:
        """Return the latest outcome if it is none of the request: it asks for a round, or for a correction."""
        if self._failure is not None:
            return None
        try:
            outcome = await self._current.asked.result()  # it is there
        except ErrorResponse as error:
            return error if self._can_correct(error) else None
        except TrioMcpError:
            return None
        return outcome if self.is_interim(outcome) and not self.is_manual else None

    def _can_correct(self, error: ErrorResponse) -> bool:
        is_meant = error.code == HEADER_MISMATCH and self.method == "tools/call"
        return is_meant and not self._is_corrected and self.connection.tools.mirrors_arguments

    async def result(self) -> JsonObject:
        """Wait for the result, which is a round only if the caller goes through them.

        Raises:
            RemoteProtocolError: what the server asks breaks the protocol, or goes beyond `Limits.max_rounds`.
            Exception: whatever a callback raises; the request is not sent again.
        """
        while True:
            if self._failure is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._failure
            try:
                outcome = await self._current.result()
            except ErrorResponse as error:
                if self._can_correct(error):
                    await self._go_on(error)
                    continue
                self.connection.answering.visits.required(error)
                raise
            if outcome.get("resultType") in _PLAIN:
                return outcome
            if not self.is_interim(outcome):
                return await self._complete(outcome)
            if self.is_manual:
                return outcome
            await self._go_on(outcome)

    async def _complete(self, outcome: JsonObject) -> JsonObject:
        """Return what a result of an extension's type stands for; any other as it is."""
        own = self.connection.own
        resolve = own.resolver(self.method, outcome.get("resultType")) if self.connection.is_modern else None
        if resolve is None:
            return outcome
        if self._completed is None:
            with self._alone():
                self._completed = await own.resolved(resolve, self.method, outcome)
        return self._completed

    def is_interim(self, outcome: JsonObject) -> bool:
        """Say whether the server has asked instead of answering."""
        if outcome.get("resultType") != "input_required" or not self.connection.is_modern:
            return False
        row = types.METHODS[self.connection.revision].get(self.method)
        return row is not None and types.InputRequiredResult in row.results  # of others it is an unknown type

    async def _get_consent(self, consent: Consent) -> None:
        self.connection.check(self.method, undeclared=self.undeclared)
        try:
            shown = copy_json(self.params)  # the caller's own may change while the hook thinks, and what it saw may not
            call = types.structure(shown, types.CallToolRequestParams)
        except NotJsonError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        except StructureError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} do not fit: {'; '.join(exc.faults)}") from exc
        self.params = types.unstructure(await consented(consent, call), revision=self.connection.revision)

    async def _send(self, params: JsonObject | None) -> None:
        """Make an attempt. If it cannot be sent, nothing has changed."""
        connection, renewals = self.connection, self.connection.tools.renewals
        asked = connection.ask(
            self.method,
            params,
            wants_updates=self.wants_updates,
            undeclared=self.undeclared,
            capabilities=self.capabilities,
        )
        asked.repeatable = self.repeatable or (self._rounds is None and self.method in IDEMPOTENT)
        attempt = Attempt(connection.stopwatch, asked)
        await attempt.begin()
        self._current, self._sent, self._renewals = attempt, params, renewals

    async def _go_on(self, outcome: JsonObject | ErrorResponse) -> None:
        """Go through a round or a correction. If cancelled, nothing was sent; who waits next begins where it stood."""
        over = self._current
        with self._alone():
            try:
                if isinstance(outcome, ErrorResponse):
                    await self._correct()
                else:
                    await self._retry(outcome)
            except Exception as exc:
                self._failure = exc
                raise
        if over.asked.waiting:
            self._earlier = (*self._earlier, over)
        else:
            self._leave(over)

    async def _retry(self, outcome: JsonObject) -> None:
        if self._rounds is None:
            connection = self.connection
            replies = connection.answering.replies
            self._rounds = Rounds(
                self.method, self.params, connection.revision, connection.limits, replies, connection.while_it_lasts
            )
        await self._send(await self._rounds.retry(outcome))
        self._rounds.sent()

    async def _correct(self) -> None:
        await self.connection.tools.renew(self._renewals)
        await self._send(self._sent)
        self._is_corrected = True

    @contextmanager
    def _alone(self) -> Generator[None]:
        if self._is_going_on:
            raise trio.BusyResourceError("another task is answering what the server asks")
        self._is_going_on = True
        try:
            yield
        finally:
            self._is_going_on = False

    def _leave(self, attempt: Attempt) -> None:
        attempt.leave()
        self._skipped += attempt.asked.skipped


@cache
def _reader(result: Any, revision: str) -> Callable[[JsonObject], Any]:
    """Return what reads a result; required members whose absence has a meaning may be missing where there are any."""
    if not is_model(result):
        return reader_of(result)
    read = types.structurer(result, revision)
    if not is_modern(revision):
        return read
    if hasattr(result, "ttl_ms"):
        return lambda json: read(with_cache_hints(json))
    return lambda json: read(json if "resultType" in json else {"resultType": "complete", **json})
