"""The untyped half of a client: one connection, on terms agreed with the server, over any transport.

Called by the typed `Client`; calls the transport. It knows envelopes and time limits, and no single method.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import trio
from attrs import define, field

from .. import types
from .._errors import ConnectionLost, LocalProtocolError, RemoteProtocolError, StructureError
from .._extensions import is_specified, with_named_extensions
from .._tracing import client_span
from .._typed import is_model, reader_of
from ..abc import Tap, Transport
from ..peer import Asked, ClientSession, Exchange, Limits
from ..wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    REVISION_KEY,
    ExchangeState,
    JsonObject,
    is_modern,
    stamp,
)
from ._answering import Answering
from ._cache_connection import Cacheable, ConnectionCache
from ._custom import OwnMessages
from ._declared import check_declared, declaration
from ._known_tools import KnownTools
from ._listen_session import SessionNews
from ._rounds import OpenRequest
from ._timing import RequestClock, Stopwatch
from ._visits import VISIT_DONE

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Connection", "OpenExchange"]

R = TypeVar("R")
C = TypeVar("C", bound=Cacheable)


@define(eq=False)
class OpenExchange:
    """One attempt at a request, under the connection's time limits: `begin` sends it, `leave` ends it."""

    asked: Asked
    _clock: RequestClock

    async def begin(self) -> Self:
        """Send the request; `leave` must follow. If it cannot be sent, it is over."""
        self._clock.start()
        try:
            if self.asked.begins_at_once():
                await self.asked.__aenter__()
            else:
                await self._clock.bounded(self.asked.__aenter__)
        except BaseException:
            self._clock.end()
            raise
        return self

    def leave(self) -> None:
        """End the exchange; synchronous, and harmless when it has ended already."""
        self._clock.end()
        self.asked.leave()

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update; None when the outcome has arrived."""
        self._begin_wait()
        return await self.asked.next_update()

    async def result(self) -> JsonObject:
        """Wait for the result."""
        self._begin_wait()
        return await self.asked.result()

    def _begin_wait(self) -> None:
        if self.asked.state is ExchangeState.OPEN:  # else the outcome is there, however late it is asked for
            self._clock.begin_wait()


@define(eq=False)
class Connection:
    """A client's connection: what `abc.Client` promises the transport, and requests for the layer above."""

    info: types.Implementation
    """How this client names itself."""
    capabilities: types.ClientCapabilities
    """What this client declares: in a handshake, or in each modern request."""
    limits: Limits
    stopwatch: Stopwatch
    answering: Answering
    tap: Tap | None
    """Sees each message that passes; never raises."""
    cache: ConnectionCache
    """What was asked before and need not be asked again."""
    own: OwnMessages
    """What the application has added to the protocol."""
    news: SessionNews = field(init=False)
    """What the server tells unasked."""
    tools: KnownTools = field(init=False)
    """What it has said about its tools."""
    gate: ClientSession = field(factory=ClientSession, init=False)
    server_info: types.Implementation | None = field(default=None, init=False)
    server_capabilities: types.ServerCapabilities = field(factory=types.ServerCapabilities, init=False)
    instructions: str | None = field(default=None, init=False)
    log_level: types.LoggingLevel | None = field(default=None, init=False)
    """What modern requests ask to be logged."""
    _transport: Transport | None = field(default=None, init=False)
    _loss: ConnectionLost | None = field(default=None, init=False)
    """Why the connection is gone; None while it is up."""
    _blocks: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """What makes no sense without it."""
    _envelope: JsonObject = field(factory=dict[str, Any], init=False)
    _declared: JsonObject = field(factory=dict[str, Any], init=False)
    """The server's capabilities, as they go over the wire."""

    def __attrs_post_init__(self) -> None:
        self.news, self.tools = SessionNews(self), KnownTools(self)
        self.answering.hall.nursery.start_soon(self.stopwatch.run)

    @property
    def transport(self) -> Transport:
        """What carries the exchanges."""
        assert self._transport is not None
        return self._transport

    @transport.setter
    def transport(self, transport: Transport) -> None:
        self._transport = transport
        transport.when_lost(self._lost)

    @property
    def mirrors_arguments(self) -> bool:
        """Whether arguments of a call go into header fields as well, where its tool wants that."""
        return bool(self._envelope) and self.transport.has_fields

    @property
    def expects_news(self) -> bool:
        """Whether the application hears what the server says outside of requests, even if it does not `listen`."""
        return self.answering.hears or self.own.hears

    @property
    def revision(self) -> str:
        """The protocol revision agreed on."""
        assert self.gate.revision is not None
        return self.gate.revision

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

    def answer(self, exchange: Exchange) -> None:
        """Begin to answer what the server asks."""
        span = exchange.begin_span()
        if span is None:
            self._begin_to_answer(exchange)
        else:
            with span.active():
                self._begin_to_answer(exchange)

    def _begin_to_answer(self, exchange: Exchange) -> None:
        if not self.own.answer(exchange, self.answering.hall, self.stopwatch):
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
        self.gate.agree(revision, self._declared, info)
        self._envelope = self.envelope(revision) if is_modern(revision) else {}
        if self._envelope:
            self.cache.agreed(self._envelope, info)

    def envelope(self, revision: str) -> JsonObject:
        """Return what each modern request says about itself."""
        return {
            REVISION_KEY: revision,
            CLIENT_INFO_KEY: types.unstructure(self.info, revision=revision),
            CAPABILITIES_KEY: declaration(self.capabilities, revision),
        }

    def has(self, method: str) -> bool:
        """Tell whether the agreed revision has a request *method* that clients send."""
        row = types.METHODS[self.revision].get(method)
        return row is not None and row.kind == "request" and row.direction != "server"

    def open(
        self,
        method: str,
        params: JsonObject | None,
        *,
        wants_updates: bool = False,
        undeclared: bool = False,
        capabilities: JsonObject | None = None,
        is_manual: bool = False,
        repeatable: bool = False,
    ) -> OpenRequest:
        """Return a request to enter, with all its retries; leaving it before the outcome has arrived cancels it.

        Args:
            wants_updates: ask for progress.
            undeclared: ask even what the server has not declared.
            capabilities: what a modern request declares in place of what this client does.
            is_manual: a result that asks for input is the outcome; by default this client's callbacks answer it.
            repeatable: it may be sent once more where its answer was lost, whatever it does.

        Entering it raises what `ask` raises, and whatever the consent hook does.
        """
        return OpenRequest(self, method, params, wants_updates, undeclared, capabilities, is_manual, repeatable)

    def attempt(
        self,
        method: str,
        params: JsonObject | None,
        *,
        wants_updates: bool,
        undeclared: bool,
        capabilities: JsonObject | None,
        repeatable: bool,
    ) -> OpenExchange:
        """Return one attempt at a request, to enter; see `open`."""
        asked = self.ask(method, params, wants_updates=wants_updates, undeclared=undeclared, capabilities=capabilities)
        asked.repeatable = repeatable
        return OpenExchange(asked, RequestClock(self.stopwatch, asked))

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

    def ask(
        self,
        method: str,
        params: JsonObject | None,
        *,
        wants_updates: bool = False,
        undeclared: bool = False,
        capabilities: JsonObject | None = None,
    ) -> Asked:
        """Return a request to enter, without time limits; leaving it before the outcome has arrived cancels it.

        Args:
            wants_updates: ask for progress.
            undeclared: ask even what the server has not declared.
            capabilities: what a modern request declares in place of what this client does.

        Raises:
            LocalProtocolError: the agreed revision has no such request; or an argument of a call cannot be mirrored.
            MissingCapability: the server has not declared what the request needs.
        """
        self.check(method, undeclared=undeclared)
        if self._envelope:
            level = {} if self.log_level is None else {LOG_LEVEL_KEY: self.log_level}
            declared = {} if capabilities is None else {CAPABILITIES_KEY: capabilities}
            params = stamp(params, self._envelope | level | declared)
        span = client_span(method, params, self.revision)
        asked = self.transport.ask(method, params if span is None else span.inject(params), wants_updates=wants_updates)
        asked.span = span
        if method == "tools/call" and self.mirrors_arguments:
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
        async with self.open(method, params, undeclared=undeclared) as exchange:
            return self.read_result(method, await exchange.result(), result)

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
            async with self.open(method, params) as request:
                value = self.read_result(method, await request.result(), result)
            if request.rounds == 0:  # else it depends on what was answered
                asking.keep(value)
            return value

    def read_result(self, method: str, json: JsonObject, result: type[R]) -> R:
        """Return the typed result; raises `RemoteProtocolError` where it does not fit its type, or is of another."""
        kind = json.get("resultType", "complete")
        if is_modern(self.revision) and kind != "complete":
            raise RemoteProtocolError(
                f"the result of {method!r} has the type {kind!r}, which this client does not know"
            )
        try:
            if not is_model(result):
                read: R = reader_of(cast("Any", result))(json)
                return read
            return types.structure(self._lenient(json, result), result, revision=self.revision)
        except StructureError as exc:
            raise RemoteProtocolError(f"the result of {method!r} does not fit: {'; '.join(exc.faults)}") from exc

    def _lenient(self, json: JsonObject, result: type[object]) -> JsonObject:
        """Supply required members whose absence has a meaning: complete, and not to be cached.

        A negative age means the same: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
        """
        if not is_modern(self.revision):
            return json
        if hasattr(result, "ttl_ms"):
            json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **json}
            age = json["ttlMs"]
            return {**json, "ttlMs": 0} if type(age) is int and age < 0 else json
        return json if "resultType" in json else {"resultType": "complete", **json}

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to no request. The application's own say of themselves what requests do.

        Raises:
            LocalProtocolError: the agreed revision has no such notification from a client, or this client has not
                declared what it is about.
            ConnectionLost: the connection is gone.
        """
        if not is_specified(method):
            await self.transport.notify(method, stamp(params, self._envelope) if self._envelope else params)
            return
        row = types.METHODS[self.revision].get(method)
        if row is None or row.kind != "notification" or row.direction == "server":
            raise LocalProtocolError(f"revision {self.revision} has no notification {method!r} from a client")
        if method == "notifications/roots/list_changed" and self.capabilities.roots is None:
            raise LocalProtocolError("this client has declared no roots that could have changed")
        await self.transport.notify(method, params)
