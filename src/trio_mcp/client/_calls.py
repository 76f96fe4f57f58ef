"""One tool call in flight: its progress as it comes, then its result, and what the server asks in between."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import define, evolve, field

from .. import types
from .._errors import LocalProtocolError, StructureError, ToolFailed
from .._extensions import with_named_extensions
from ..wire import JsonObject
from ._connection import Connection
from ._declared import declaration
from ._request import OpenRequest
from ._rounds import ANSWERS, STATE, read_interim

__all__ = ["Call", "CallPlan", "ManualCall", "OnProgress", "OpenCall", "Updates", "call_params", "read_call"]

_log = logging.getLogger("trio_mcp.client")

OnProgress: TypeAlias = Callable[["types.ProgressNotificationParams"], Awaitable[None]]
"""Takes one progress update."""


@define(eq=False)
class Updates:
    """The progress of one call, in order: iterate over it. It ends when the result has arrived."""

    _request: OpenRequest
    _complained: bool = field(default=False, init=False)

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> types.ProgressNotificationParams:
        while (update := await self._request.next_update()) is not None:
            try:
                revision = self._request.connection.revision
                return types.structure(update[1], types.ProgressNotificationParams, revision=revision)
            except StructureError as exc:  # costs this update, nothing else; a server that goes on fills no log
                _log.log(logging.DEBUG if self._complained else logging.WARNING, "a progress update is none: %s", exc)
                self._complained = True
        raise StopAsyncIteration


@define(eq=False)
class _CallInFlight:
    """What every call in flight has. One task reads from it at a time; a second one gets `trio.BusyResourceError`."""

    _request: OpenRequest

    @property
    def updates(self) -> Updates:
        """Progress updates, in the order they were sent, all before the result; those of retries follow on."""
        return Updates(self._request)

    @property
    def skipped(self) -> int:
        """Updates that were dropped because too many waited unread; see `Limits`."""
        return self._request.skipped


class Call(_CallInFlight):
    """A tool call in flight.

    One task reads from it at a time; a second one gets `trio.BusyResourceError`. Whatever a modern server asks is
    answered by the client's callbacks while `updates` are iterated over or the `result` is waited for, in that task;
    what a callback raises is raised there, and again by whoever waits later.
    """

    async def result(self, *, raise_on_error: bool = False) -> types.CallToolResult:
        """Wait for the result; updates that nobody reads do not hold it back. May be asked for repeatedly.

        Args:
            raise_on_error: raise `ToolFailed` instead of returning a result that says `is_error`.

        Raises:
            ToolFailed: the tool failed, and *raise_on_error* is set.
            ErrorResponse: the server answered with an error.
            RequestTimedOut: it did not answer within the time limits.
            RemoteProtocolError: the result does not fit its type, or the tool's output schema; or what the server asks
                breaks the protocol, was not declared by this client, or is asked too often (`Limits.max_rounds`).
            ConnectionLost: the connection is gone.
        """
        return read_call(self._request, await self._request.result(), raise_on_error=raise_on_error)


class ManualCall(_CallInFlight):
    """A tool call in flight whose caller answers what the server asks; see `Client.open_call`."""

    async def result(self, *, raise_on_error: bool = False) -> types.CallToolResult | types.InputRequiredResult:
        """Wait for the result, or for what the server must know before there is one.

        A `types.InputRequiredResult` ends this call. Its `input_requests`, each by its key, want an answer; a new call
        of the same tool, with the same arguments, takes them and the `request_state`. The state may hold what is not
        for others: keep it as you keep the answers.

        Raises what `Call.result` raises.
        """
        request = self._request
        json = await request.result()
        if request.is_interim(json):
            return read_interim(json, request.method, request.connection.revision)
        return read_call(request, json, raise_on_error=raise_on_error)


C = TypeVar("C", Call, ManualCall)


@define(eq=False)
class CallPlan:
    """A tool call that is not begun."""

    connection: Connection
    name: str
    arguments: Mapping[str, Any] | None
    meta: Mapping[str, Any] | None
    answers: Mapping[str, types.InputResponse | JsonObject] | None = None
    state: str | None = None
    capabilities: types.ClientCapabilities | None = None
    repeatable: bool = False

    def open(self, *, is_manual: bool) -> OpenRequest:
        """Return the request to begin, which wants updates.

        Raises:
            LocalProtocolError: the agreed revision has nothing to be answered by a call.
            TypeError: an answer is none.
        """
        return OpenRequest(
            self.connection,
            "tools/call",
            self._params(),
            wants_updates=True,
            capabilities=self._declared(),
            is_manual=is_manual,
            repeatable=self.repeatable,
        )

    def _declared(self) -> JsonObject | None:
        given = self.capabilities
        if given is None:
            return None
        usual = with_named_extensions(self.connection.capabilities)
        if given.extensions is None:  # which depend on this client, and not on who answers
            given = evolve(given, extensions=usual.extensions)
        if given.experimental is None:
            given = evolve(given, experimental=usual.experimental)
        return declaration(given, self.connection.revision)

    def _params(self) -> JsonObject:
        params = call_params(self.name, self.arguments, self.meta)
        revision = self.connection.revision
        if (self.answers is not None or self.state is not None) and not self.connection.is_modern:
            raise LocalProtocolError(f"in revision {revision} a call carries no answers and no state")
        if self.answers is not None:
            params[ANSWERS] = {
                key: types.unstructure(answer, revision=revision) for key, answer in self.answers.items()
            }
        if self.state is not None:
            params[STATE] = self.state
        return params


@define(eq=False)
class OpenCall(Generic[C]):
    """An `async with` block around one call; see `Client.open_call`."""

    _plan: CallPlan
    _kind: type[C]
    _request: OpenRequest = field(init=False)

    async def __aenter__(self) -> C:
        self._request = self._plan.open(is_manual=issubclass(self._kind, ManualCall))
        await self._request.begin()
        return self._kind(self._request)

    async def __aexit__(self, *_: object) -> None:
        self._request.leave()


def call_params(name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None) -> JsonObject:
    """Return the params of a call."""
    params: JsonObject = {"name": name}
    if arguments is not None:
        params["arguments"] = dict(arguments)
    if meta is not None:
        params["_meta"] = dict(meta)
    return params


def read_call(request: OpenRequest, json: JsonObject, *, raise_on_error: bool) -> types.CallToolResult:
    """Return the typed result of a call; see `Call.result`."""
    assert request.params is not None
    name: str = request.params["name"]
    result = request.connection.read_result("tools/call", json, types.CallToolResult)
    request.connection.tools.outputs.check(name, result)
    if raise_on_error and result.is_error:
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        raise ToolFailed(name, "\n".join(texts), result)
    return result
