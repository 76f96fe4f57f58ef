"""The untyped half of a client: one connection, on terms agreed with the server, over any transport.

Called by the typed `Client`; calls the transport. It knows envelopes and time limits, and no single method.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from attrs import define, field

from .. import types
from .._errors import ConnectionLost, LocalProtocolError, RemoteProtocolError, StructureError
from .._extensions import is_specified, with_named_extensions
from .._tracing import TRACING_MODULE, client_span
from .._user_types import is_model, reader_of
from ..abc import Tap, Transport
from ..peer import ClientSession, IncomingRequest, Limits, OutgoingRequest
from ..wire import CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, REVISION_KEY, JsonObject, is_modern, stamp
from ._answer import VISIT_DONE, Answering
from ._cache import Cacheable, ConnectionCache
from ._callbacks import check_declared, declaration
from ._extensions import CustomMessages
from ._legacy_listen import SessionChanges
from ._lists import KnownTools
from ._request import OpenRequest, RequestClocks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ._callbacks import Consent

__all__ = ["Connection"]

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
    mirrors_arguments: bool = field(default=False, init=False)
    """Whether arguments of a call go into header fields as well, where its tool wants that."""
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
        self.news, self.tools = SessionChanges(self), KnownTools(self)
        self.server_capabilities = types.ServerCapabilities()
        self.consent = self.answering.replies.callbacks.consent
        self.answering.pool.nursery.start_soon(self.stopwatch.run)

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
            self.mirrors_arguments = self.transport.has_fields
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
        span = client_span(method, params, self.revision) if TRACING_MODULE in sys.modules else None
        asked = self.transport.ask(method, params if span is None else span.inject(params), wants_updates=wants_updates)
        asked.span = span
        if self.mirrors_arguments and method == "tools/call":
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


@cache
def _reader(result: Any, revision: str) -> Callable[[JsonObject], Any]:
    """Return what reads a result; required members whose absence has a meaning may be missing where there are any."""
    if not is_model(result):
        return reader_of(result)
    read = types.structurer(result, revision)
    if not is_modern(revision):
        return read
    if hasattr(result, "ttl_ms"):
        return lambda json: read(_cacheable(json))
    return lambda json: read(json if "resultType" in json else {"resultType": "complete", **json})


def _cacheable(json: JsonObject) -> JsonObject:
    """Supply what it means where nothing is said about caching, or the age is negative: there shall be none.

    See https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """
    supplied = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **json}
    age = supplied["ttlMs"]
    if type(age) is int and age < 0:
        supplied["ttlMs"] = 0
    return supplied
