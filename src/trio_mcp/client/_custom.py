"""The methods of a client for messages beyond the specification: custom requests, and what extensions need of it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, overload

from attrs import define, evolve, field, frozen

from .. import types
from .._capabilities import load_capability
from .._errors import LocalProtocolError, RemoteProtocolError, StructureError
from .._extensions import checked_settings, is_specified, with_named_extensions
from .._other_sdks import ForeignAttributes
from .._user_types import to_object
from ..wire import JsonObject
from ._answer import answers_to
from ._callbacks import declaration
from ._connection import Connection
from ._lists import MAX_PAGES, PageIterator, PageLike
from ._requests import CallbackAttempt, OpenRequest, call_params

if TYPE_CHECKING:
    from .._capabilities import TaskHandle

__all__ = ["ClientExtensionPoints", "CustomRequests", "declared_with"]

R = TypeVar("R")
T = TypeVar("T")
P = TypeVar("P", bound=PageLike)


@define(eq=False)
class CustomRequests(ForeignAttributes):
    """The part of `Client` for messages beyond the specification."""

    _connection: Connection = field(repr=False)

    @overload
    async def request(
        self,
        method: str,
        params: Any,
        result: type[dict[str, Any]],
        *,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]: ...
    @overload
    async def request(
        self,
        method: str,
        params: Any,
        result: type[R],
        *,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> R: ...
    async def request(
        self,
        method: str,
        params: Any,
        result: type[Any],
        *,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Any:
        """Send a custom request, a request of an extension, or one of the agreed revision that has no method here.

        The server's declared capabilities are not checked. In a modern revision the request carries the same `_meta` as
        every other, so that a server sees which extensions the client declares.

        Args:
            method: such as ``"com.example/rooms/list"``, or ``"tasks/get"`` (of 2025-11-25, and of an extension).
            params: an object: a mapping, or an instance of a class that is converted to a JSON object.
            result: the class to return: one of `trio_mcp.types`, an attrs class, a dataclass, a TypedDict, a
                `msgspec.Struct`, a pydantic model, or `dict`.
            extensions: extensions that this request declares in addition to those of the client, by id, with their
                settings; in revisions before 2026-07-28 they are declared only in the handshake.

        Raises:
            TypeError: *params* or *result* is not an object.
            ValueError: the id of an extension is not valid.
            LocalProtocolError: the specification has that method, and the agreed revision does not.
        """
        connection = self._connection
        json = None if params is None else to_object(params, connection.revision)
        request = OpenRequest(
            connection, method, json, undeclared=True, capabilities=declared_with(connection, extensions)
        )
        await request.begin()
        try:
            return connection.read_result(method, await request.result(), result)
        finally:
            request.leave()

    def pages(
        self,
        method: str,
        result: type[P],
        items: Callable[[P], Iterable[T]],
        *,
        identity: Callable[[T], str],
        params: Any = None,
        max_pages: int = MAX_PAGES,
    ) -> AsyncIterator[T]:
        """Iterate over the list of a custom method, or of one of an extension, page by page, as `tools` does.

        Each page is requested as by `request`, with the cursor of the page before as the member ``cursor``.

        ::

            async for room in client.pages(
                "com.example/rooms/list", RoomsPage, lambda page: page.rooms, identity=lambda room: room.name
            ):
                print(room.name)

        Args:
            method: the list request.
            result: the class of a page, with the attribute ``next_cursor``; as of `request`.
            items: returns the items of a page.
            identity: returns what tells an item from the others. The iterator uses it if it has to read the list again.
            params: members for each request, besides the cursor; as of `request`.
            max_pages: as of `tools`.

        Raises what `tools` and `request` raise.
        """
        members = to_object(params, self._connection.revision)

        async def fetch(cursor: str | None) -> P:
            return await self.request(method, members if cursor is None else {**members, "cursor": cursor}, result)

        return PageIterator(fetch, items, max_pages, identity, empty_is_last=not self._connection.is_modern)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a custom notification or one of an extension. If cancelled, nothing was sent.

        Args:
            method: a name that the specification does not use.
            params: as those of `request`.

        Raises:
            LocalProtocolError: the specification has that notification; the client sends it when it is due.
            TypeError: *params* is not an object.
        """
        if is_specified(method):
            raise LocalProtocolError(
                f"{method!r} is a notification of the specification; the client sends it when it is due"
            )
        await self._connection.notify(method, to_object(params, self._connection.revision))

    def extension(self, id: str) -> Mapping[str, Any] | None:
        """Return the server's settings of an extension that both sides have declared; otherwise None."""
        if id not in self._connection.custom.extensions:
            return None
        return (self._connection.server_capabilities.extensions or {}).get(id)

    # --- Tasks ---

    async def start_task(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> TaskHandle:
        """Call a tool, and return as soon as the server has made a task of the call, which then runs on by itself.

        The server decides whether it does: it may also answer the call, and then the handle has the result already
        (`TaskHandle.id` is None). Questions that the server asks before it decides are answered by the callbacks.
        Cancelled before the task exists, this cancels the call.

        Args:
            name: the tool's name.
            arguments: JSON values by parameter.
            meta: members for the request's `_meta`.

        Raises what `Client.call_tool` raises.

        Specification: https://modelcontextprotocol.io/extensions/tasks/overview
        """
        handle: TaskHandle = await load_capability("tasks").start_task(self, name, arguments, meta)
        return handle

    def task(self, id: str) -> TaskHandle:
        """Return the handle of a task that was started before, perhaps by another client; nothing is sent.

        Args:
            id: the id of the task, `TaskHandle.id`.
        """
        handle: TaskHandle = load_capability("tasks").open_task(self, id)
        return handle


_connection_of: Callable[[CustomRequests], Connection] = attrgetter("_connection")


@frozen(eq=False)
class ClientExtensionPoints:
    """The points at which a package adds an extension to a client; see also `Client.request` and `Extension`."""

    client: CustomRequests
    """The `Client`."""

    async def call_tool_json(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        members: Mapping[str, Any] | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> JsonObject:
        """Call a tool, and return the JSON of its result: complete, or of the type of an extension.

        Questions that the server asks before are answered by the callbacks, and the consent hook is asked.
        `read_tool_result` reads a complete result.

        Args:
            name: the tool's name.
            arguments: JSON values by parameter.
            members: further members of the params, such as ``_meta``.
            extensions: as those of `request`.

        Raises what `Client.call_tool` raises.
        """
        connection = _connection_of(self.client)
        params = {**call_params(name, arguments, None), **(members or {})}
        request = OpenRequest(
            connection, "tools/call", params, capabilities=declared_with(connection, extensions), keeps_custom=True
        )
        await request.begin()
        try:
            return await request.result()
        finally:
            request.leave()

    async def request_json(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        on_update: Callable[[str, JsonObject], Awaitable[None]] | None = None,
        on_notification: Callable[[str, JsonObject], bool] | None = None,
        capabilities: Mapping[str, Any] | None = None,
        returns_questions: bool = False,
        after: JsonObject | None = None,
    ) -> JsonObject:
        """Send a request of any method, and return the JSON of its result, of whatever type it is.

        Neither the params nor the result are checked, and neither are the declared capabilities of the server.

        Args:
            method: the method.
            params: JSON; in a modern revision, members of ``_meta`` that the client sets itself are replaced.
            on_update: called with each notification about the progress of the request, its method and params, in the
                order of arrival and before this returns.
            on_notification: called with each other notification that is known to belong to this request: over HTTP,
                those of its response. It takes the notification and returns True, or leaves it to the handlers of the
                client. It must neither wait nor raise.
            capabilities: JSON of the capabilities that a modern request declares in place of the client's.
            returns_questions: return a result that asks for input; by default the callbacks answer it.
            after: a result of this request that asks for input, received by `request_nowait`: it is answered first.

        Raises what `Client.request` raises, except for what concerns the form of params and results.
        """
        connection = _connection_of(self.client)
        request = OpenRequest(
            connection,
            method,
            None if params is None else dict(params),
            wants_updates=on_update is not None,
            undeclared=True,
            capabilities=None if capabilities is None else dict(capabilities),
            is_manual=returns_questions,
            on_notification=on_notification,
            keeps_custom=True,
        )
        await (request.begin() if after is None else request.begin_after(after))
        try:
            if on_update is not None:
                while (update := await request.next_update()) is not None:
                    await on_update(*update)
            return await request.result()
        finally:
            request.leave()

    def request_nowait(
        self,
        method: str,
        params: JsonObject,
        on_outcome: Callable[[JsonObject | Exception], None],
        *,
        capabilities: JsonObject | None = None,
        deadline: float = math.inf,
    ) -> Callable[[], None] | None:
        """Send a request as `request_json` does, without a task that waits for its result.

        Args:
            method: as of `request_json`.
            params: as of `request_json`; they must not be changed later.
            capabilities: as of `request_json`; they must not be changed later.
            on_outcome: called with the JSON of the result, of whatever type it is, or with the exception that
                `request_json` would raise; in another task, and perhaps before this returns. It must not raise. Long
                members of the result may be `wire.JsonText`.
            deadline: the time of Trio's clock at which the request ends with `RequestTimedOut`; the server is told.

        Returns:
            A function that cancels the request; or None, with nothing sent, if sending needs to wait, the connection
            is not up, or its requests carry header fields.
        """
        connection = _connection_of(self.client)
        if connection.is_closed or connection.gone.is_set() or connection.transport.has_fields:
            return None
        outgoing = connection.ask(method, params, undeclared=True, capabilities=capabilities)
        outgoing.keeps_text, outgoing.deadline = True, deadline
        attempt = CallbackAttempt(connection.clocks, outgoing, on_outcome)
        return attempt.leave if attempt.begin_nowait() else None

    def take_other_notifications(self, callback: Callable[[str, JsonObject], None]) -> None:
        """Call a function with each custom notification that has no handler, its method and params, from now on.

        Args:
            callback: called where the notification is read, before any later message is. It must neither wait nor
                raise.
        """
        _connection_of(self.client).custom.on_other_notification = callback

    @property
    def has_logs(self) -> bool:
        """True if log messages have arrived that `on_log` has not taken yet."""
        return _connection_of(self.client).answering.has_logs

    def after_logs(self, callback: Callable[[], None]) -> None:
        """Call a function when `on_log` has taken the log messages that have arrived, or when the client is closed.

        Args:
            callback: called once, without arguments. It must not raise, and may be called before this returns.
        """
        _connection_of(self.client).answering.after_logs(callback)

    async def logs_delivered(self) -> None:
        """Wait until `on_log` has taken the log messages that have arrived so far."""
        await _connection_of(self.client).answering.logs_delivered()

    def read_tool_result(
        self, json: JsonObject, *, name: str | None = None, raise_on_error: bool = False
    ) -> types.CallToolResult:
        """Return the typed result of a tool call, checked as `Client.call_tool` checks it.

        Args:
            json: the JSON of the result, in the revision of the connection.
            name: the name of the tool, for the check of its output schema if this client has listed the tool, and for
                errors; None if it is unknown.

        Raises:
            ToolFailed: the tool failed, and *raise_on_error* is set.
            RemoteProtocolError: the result does not match its type or the tool's output schema.
        """
        return _connection_of(self.client).read_tool_result(name, json, raise_on_error=raise_on_error)

    async def answer_questions(self, questions: Mapping[str, Any], asker: str) -> JsonObject:
        """Answer questions that a server asks in a result, with the callbacks and the consent hook of this client.

        No time limit runs meanwhile, except the deadlines of the caller.

        Args:
            questions: the JSON of each question, a method and params, by key.
            asker: who asks, for errors, such as ``"tasks/get"``.

        Returns:
            The JSON of the answers, by key.

        Raises:
            RemoteProtocolError: a question breaks the protocol, or this client has not declared that it answers such
                questions; then none is answered.
            Exception: any exception of a callback.
        """
        connection = _connection_of(self.client)
        revision = connection.revision
        structured = types.structurer(types.InputRequest, revision)
        try:
            read = {key: structured(each) for key, each in questions.items()}
        except StructureError as error:
            raise RemoteProtocolError(f"a question of {asker!r} does not fit: {'; '.join(error.faults)}") from error
        with connection.while_connected():
            return await answers_to(read, asker, connection.answering.replies, revision, connection.limits)


def declared_with(connection: Connection, extensions: Mapping[str, Mapping[str, Any]] | None) -> JsonObject | None:
    """Return the capabilities of a request that declares more extensions; None for those of the client."""
    if not extensions or not connection.is_modern:
        return None
    usual = with_named_extensions(connection.capabilities)
    named = {**(usual.extensions or {}), **checked_settings(extensions, "extensions")}
    return declaration(evolve(usual, extensions=named), connection.revision)
