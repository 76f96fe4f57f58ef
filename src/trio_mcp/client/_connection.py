"""The untyped half of a client: one connection.

The typed `Client` calls it, and it calls the transport. It knows envelopes and requests, and no single method.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import logging
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
    LocalProtocolError,
    MissingCapability,
    RemoteProtocolError,
    StructureError,
    ToolFailed,
)
from .._extensions import is_specified, with_named_extensions
from .._tracing import TRACING_MODULE, client_span
from .._user_types import is_model, reader_of
from ..abc import Tap, Transport
from ..peer import ClientSession, IncomingRequest, Limits, OutgoingRequest
from ..wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    EVERY_LIST,
    LOG_LEVEL_KEY,
    REVISION_KEY,
    JsonObject,
    is_modern,
    stamp,
)
from ._answer import ELICITATION_COMPLETE, Answering, CustomMessages
from ._cache import Cacheable, ConnectionCache, with_cache_hints
from ._callbacks import check_declared, declaration
from ._legacy_listen import SessionChanges
from ._lists import EMPTY_LISTS, KnownTools, without_empty_cursor
from ._requests import OpenRequest
from ._timing import RequestClocks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ._callbacks import Consent

__all__ = ["Connection"]

_log = logging.getLogger("trio_mcp.client")

_ALL_LOGS: types.LoggingLevel = "debug"
"""The log level until the application sets another one: servers of earlier revisions send all levels then."""
_SUBSCRIPTIONS = ("resources/subscribe", "resources/unsubscribe")


@cache
def _requests_of(revision: str) -> frozenset[str]:
    """Return the methods of the requests that clients send in a revision."""
    rows = types.METHODS[revision].items()
    return frozenset(method for method, row in rows if row.kind == "request" and row.direction != "server")


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
    gone: trio.Event = field(factory=trio.Event, init=False)
    """Set when the connection is gone."""
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
        self.gone.set()
        for scope in self._scopes:
            scope.cancel(reason="the connection is gone")
        self.changes.disconnected(reason)
        self.cache.disconnected()

    async def wait_lost(self) -> ConnectionLost:
        """Wait until the connection is gone, and return the reason."""
        await self.gone.wait()
        assert self._disconnect_reason is not None
        return copy(self._disconnect_reason)

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
        return method in _requests_of(self.revision)

    def check(self, method: str, *, undeclared: bool = False) -> None:
        """Check that a request may be sent.

        Args:
            undeclared: allow requests that need capabilities the server has not declared.

        Raises:
            LocalProtocolError: the agreed revision has no such request.
            MissingCapability: the server has not declared a capability that the request needs.
        """
        if not self.has(method) and is_specified(method):  # other methods may be custom ones
            cure = "; use `client.listen(resources=[uri])`, in every revision" if method in _SUBSCRIPTIONS else ""
            raise LocalProtocolError(f"revision {self.revision} has no request {method!r}{cure}")
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

    def read_tool_result(self, name: str | None, json: JsonObject, *, raise_on_error: bool) -> types.CallToolResult:
        """Return the typed result of a tool call, checked against the tool's output schema if that is known.

        Raises:
            ToolFailed: the tool failed, and *raise_on_error* is set.
            RemoteProtocolError: the result does not match its type or the schema.
        """
        result = self.read_result("tools/call", json, types.CallToolResult)
        output = None if name is None else self.tools.outputs.get(name)
        if output is not None:
            output.check(result)
        if raise_on_error and result.is_error:
            texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
            raise ToolFailed(name, "\n".join(texts), result)
        return result

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
