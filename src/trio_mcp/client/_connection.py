"""The untyped half of a client: one connection, on terms agreed with the server, over any transport.

Called by the typed `Client`; calls the transport. It knows envelopes and time limits, and no single method.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from attrs import define, field

from .. import types
from .._errors import LocalProtocolError, RemoteProtocolError, StructureError
from ..abc import Tap, Transport
from ..peer import Asked, ClientSession, Exchange, Limits
from ..wire import CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, REVISION_KEY, JsonObject, is_modern, stamp
from ._answering import Answering
from ._declared import check_declared
from ._listen_session import SessionNews
from ._timing import RequestClock, Stopwatch

__all__ = ["Connection", "OpenExchange"]

R = TypeVar("R")


@define(eq=False)
class OpenExchange:
    """One request under the connection's time limits; enter it to send the request, leave it to end the exchange."""

    asked: Asked
    _clock: RequestClock

    async def __aenter__(self) -> Self:
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

    async def __aexit__(self, *exc_info: object) -> None:
        self._clock.end()
        self.asked.leave()

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update; None when the outcome has arrived."""
        self._clock.begin_wait()
        return await self.asked.next_update()

    async def result(self) -> JsonObject:
        """Wait for the result."""
        self._clock.begin_wait()
        return await self.asked.result()


@define(eq=False)
class Connection:
    """A client's connection: what `abc.Client` promises the transport, and requests for the layer above."""

    info: types.Implementation
    """How this client names itself."""
    capabilities: types.ClientCapabilities
    """What a handshake declares."""
    limits: Limits
    stopwatch: Stopwatch
    answering: Answering
    tap: Tap | None
    """Sees each message that passes; never raises."""
    news: SessionNews = field(init=False)
    """What the server tells unasked."""
    gate: ClientSession = field(factory=ClientSession, init=False)
    server_info: types.Implementation | None = field(default=None, init=False)
    server_capabilities: types.ServerCapabilities = field(factory=types.ServerCapabilities, init=False)
    instructions: str | None = field(default=None, init=False)
    log_level: types.LoggingLevel | None = field(default=None, init=False)
    """What modern requests ask to be logged."""
    _transport: Transport | None = field(default=None, init=False)
    _envelope: JsonObject = field(factory=dict[str, Any], init=False)
    _declared: JsonObject = field(factory=dict[str, Any], init=False)
    """The server's capabilities, as they go over the wire."""

    def __attrs_post_init__(self) -> None:
        self.news = SessionNews(self)
        self.answering.hall.nursery.start_soon(self.stopwatch.run)

    @property
    def transport(self) -> Transport:
        """What carries the exchanges."""
        assert self._transport is not None
        return self._transport

    @transport.setter
    def transport(self, transport: Transport) -> None:
        self._transport = transport
        transport.when_lost(self.news.lost)

    @property
    def revision(self) -> str:
        """The protocol revision agreed on."""
        assert self.gate.revision is not None
        return self.gate.revision

    def answer(self, exchange: Exchange) -> None:
        """Begin to answer what the server asks."""
        self.answering.answer(exchange)

    def notified(self, method: str, params: JsonObject) -> None:
        """Take a notification of the server's."""
        if method == "notifications/message":
            self.answering.log(params)
        else:
            self.news.heard(method, params)

    def agree(
        self,
        revision: str,
        capabilities: types.ServerCapabilities,
        server_info: types.Implementation | None,
        instructions: str | None,
    ) -> None:
        """Settle on what the server answered."""
        self.server_capabilities, self.server_info, self.instructions = capabilities, server_info, instructions
        info = None if server_info is None else types.unstructure(server_info)
        self._declared = types.unstructure(capabilities)
        self.gate.agree(revision, self._declared, info)
        self._envelope = self.envelope(revision) if is_modern(revision) else {}

    def envelope(self, revision: str) -> JsonObject:
        """Return what each modern request says about itself. It declares nothing that a modern server could ask for."""
        return {
            REVISION_KEY: revision,
            CLIENT_INFO_KEY: types.unstructure(self.info, revision=revision),
            CAPABILITIES_KEY: {},
        }

    def has(self, method: str) -> bool:
        """Tell whether the agreed revision has a request *method* that clients send."""
        row = types.METHODS[self.revision].get(method)
        return row is not None and row.kind == "request" and row.direction != "server"

    def open(
        self, method: str, params: JsonObject | None, *, wants_updates: bool = False, undeclared: bool = False
    ) -> OpenExchange:
        """Return a request to enter; leaving it before the outcome has arrived cancels it. See `ask`."""
        asked = self.ask(method, params, wants_updates=wants_updates, undeclared=undeclared)
        return OpenExchange(asked, RequestClock(self.stopwatch, asked))

    def ask(
        self, method: str, params: JsonObject | None, *, wants_updates: bool = False, undeclared: bool = False
    ) -> Asked:
        """Return a request to enter, without time limits; leaving it before the outcome has arrived cancels it.

        Args:
            undeclared: ask even what the server has not declared.

        Raises:
            LocalProtocolError: the agreed revision has no such request.
            MissingCapability: the server has not declared what the request needs.
        """
        if not self.has(method):
            raise LocalProtocolError(f"revision {self.revision} has no request {method!r}")
        if not undeclared:
            check_declared(method, self._declared, self.revision)
        if self._envelope:
            level = {} if self.log_level is None else {LOG_LEVEL_KEY: self.log_level}
            params = stamp(params, self._envelope | level)
        return self.transport.ask(method, params, wants_updates=wants_updates)

    async def request(self, method: str, params: JsonObject | None, result: type[R], *, undeclared: bool = False) -> R:
        """Send a request and return its typed result.

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

    def read_result(self, method: str, json: JsonObject, result: type[R]) -> R:
        """Return the typed result; raises `RemoteProtocolError` where it does not fit its type, or is of another."""
        kind = json.get("resultType", "complete")
        if is_modern(self.revision) and kind != "complete":
            raise RemoteProtocolError(
                f"the result of {method!r} has the type {kind!r}, which this client does not know"
            )
        try:
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
        """Send a notification that belongs to no request.

        Raises:
            LocalProtocolError: the agreed revision has no such notification from a client, or this client has not
                declared what it is about.
            ConnectionLost: the connection is gone.
        """
        row = types.METHODS[self.revision].get(method)
        if row is None or row.kind != "notification" or row.direction == "server":
            raise LocalProtocolError(f"revision {self.revision} has no notification {method!r} from a client")
        if method == "notifications/roots/list_changed" and self.capabilities.roots is None:
            raise LocalProtocolError("this client has declared no roots that could have changed")
        await self.transport.notify(method, params)
