"""The typed client: one method for each request that a client may send, in every revision.

Specification: https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, NoReturn, Protocol, TypeAlias, TypeVar, overload

import trio
from attrs import define, evolve, field

from .. import types
from .._capabilities import load_capability
from .._errors import ConnectionLost, ErrorResponse, LocalProtocolError, MissingCapability, StructureError
from .._extensions import with_named_extensions
from .._misuse import AsyncForOnly, AsyncWithOnly, called_back, check_class
from .._other_sdks import unknown_options
from .._util import own_cancellation
from ..peer import ConnectionStatistics
from ..wire import LISTEN, ChangeFilter, JsonObject
from ._answer import ANSWERS, STATE, read_interim
from ._callbacks import declaration
from ._connection import Connection
from ._custom import CustomRequests, declared_with
from ._legacy_listen import LegacyListen
from ._listen import ChangeInbox, Changes, ListenRequest
from ._lists import MAX_PAGES, PageIterator
from ._requests import OpenRequest, call_params, members_of

if TYPE_CHECKING:
    from .._capabilities import App, ClientSkill
    from ._returns import ReturnType

__all__ = ["Call", "Client", "Lifetime", "ManualCall", "OnProgress", "OpenCall", "Updates"]


_log = logging.getLogger("trio_mcp.client")
_IN_A_DICT = "the arguments of the tool are a dict, the second argument of `call_tool`"

OnProgress: TypeAlias = Callable[["types.ProgressNotificationParams"], Awaitable[None]]
"""A callback that receives one progress update."""


@define(eq=False)
class Updates(AsyncForOnly):
    """The progress updates of one call, in order: an asynchronous iterator that ends when the result has arrived."""

    _usage = "async for update in call.updates"

    _request: OpenRequest
    _has_warned: bool = field(default=False, init=False)

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> types.ProgressNotificationParams:
        while (update := await self._request.next_update()) is not None:
            try:
                revision = self._request.connection.revision
                return types.structure(update[1], types.ProgressNotificationParams, revision=revision)
            except StructureError as exc:  # only this update is lost; one warning a call keeps the log small
                _log.log(
                    logging.DEBUG if self._has_warned else logging.WARNING, "a progress update is invalid: %s", exc
                )
                self._has_warned = True
        raise StopAsyncIteration


@define(eq=False)
class _CallInFlight:
    """A tool call in flight. Only one task may read from it at a time; others get `trio.BusyResourceError`."""

    _request: OpenRequest

    @property
    def updates(self) -> Updates:
        """The progress updates in the order they were sent, all before the result; updates of retries follow."""
        return Updates(self._request)

    @property
    def skipped(self) -> int:
        """The number of updates that were dropped because too many waited unread; see `Limits`."""
        return self._request.skipped

    if not TYPE_CHECKING:  # type checkers refuse this use by themselves

        def __await__(self) -> NoReturn:
            raise TypeError("a call cannot be awaited: write `await call.result()`")


class Call(_CallInFlight):
    """A tool call in flight.

    One task reads from it at a time; a second one gets `trio.BusyResourceError`. If a modern server asks questions, the
    client's callbacks answer them in the task that iterates over `updates` or waits for the `result`. An exception of a
    callback is raised in that task, and again in each task that waits later.
    """

    async def result(self, *, raise_on_error: bool = False) -> types.CallToolResult:
        """Wait for the result. Unread updates do not delay it, and it may be awaited repeatedly.

        Args:
            raise_on_error: raise `ToolFailed` instead of returning a result that says `is_error`.

        Raises:
            ToolFailed: the tool failed, and *raise_on_error* is set.
            ErrorResponse: the server answered with an error.
            RequestTimedOut: the server did not answer within the time limits.
            RemoteProtocolError: the result does not match its type or the tool's output schema; or the server asked a
                question that breaks the protocol or that this client has not declared, or it asked too often
                (`Limits.max_rounds`).
            ConnectionLost: the connection is gone.
        """
        return read_call(self._request, await self._request.result(), raise_on_error=raise_on_error)


class ManualCall(_CallInFlight):
    """A tool call in flight whose caller answers the server's questions; see `Client.open_call`."""

    async def result(self, *, raise_on_error: bool = False) -> types.CallToolResult | types.InputRequiredResult:
        """Wait for the result, or for the questions that the server asks before it gives one.

        A `types.InputRequiredResult` ends this call. Its `input_requests` are the questions by key. To answer them,
        make a new call of the same tool with the same arguments, the answers and the `request_state`. The state may be
        confidential: store it as carefully as the answers.

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
    """A tool call that has not begun."""

    connection: Connection
    name: str
    arguments: Mapping[str, Any] | None
    meta: Mapping[str, Any] | None
    answers: Mapping[str, types.InputResponse | JsonObject] | None = None
    state: str | None = None
    capabilities: types.ClientCapabilities | None = None
    repeatable: bool = False

    def open(self, *, is_manual: bool) -> OpenRequest:
        """Return the request of the call, with progress updates.

        Raises:
            LocalProtocolError: calls of the agreed revision carry no answers and no state.
            TypeError: an answer has a wrong type.
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
        if given.extensions is None:  # extensions depend on the client, not on the caller that answers
            given = evolve(given, extensions=usual.extensions)
        if given.experimental is None:
            given = evolve(given, experimental=usual.experimental)
        return declaration(given, self.connection.revision)

    def _params(self) -> JsonObject:
        params = call_params(self.name, self.arguments, self.meta)
        revision = self.connection.revision
        if (self.answers is not None or self.state is not None) and not self.connection.is_modern:
            raise LocalProtocolError(f"calls of revision {revision} carry no answers and no state")
        if self.answers is not None:
            params[ANSWERS] = {
                key: types.unstructure(answer, revision=revision) for key, answer in self.answers.items()
            }
        if self.state is not None:
            params[STATE] = self.state
        return params


@define(eq=False)
class OpenCall(AsyncWithOnly, Generic[C]):
    """An `async with` block around one call; see `Client.open_call`."""

    _usage = "async with client.open_call(...) as call:"

    _plan: CallPlan
    _kind: type[C]
    _request: OpenRequest = field(init=False)

    async def __aenter__(self) -> C:
        self._request = self._plan.open(is_manual=issubclass(self._kind, ManualCall))
        await self._request.begin()
        return self._kind(self._request)

    async def __aexit__(self, *_: object) -> None:
        if self._request.is_resolving:
            await self._request.aclose()
        else:
            self._request.leave()


def read_call(request: OpenRequest, json: JsonObject, *, raise_on_error: bool) -> types.CallToolResult:
    """Return the typed result of a call; see `Call.result`."""
    assert request.params is not None
    return request.connection.read_tool_result(request.params["name"], json, raise_on_error=raise_on_error)


R = TypeVar("R")


class _ListenMethod(Protocol):
    """The way in which an era listens for changes."""

    async def begin(self) -> ChangeFilter:
        """Ask the server, and return the changes it has agreed to report.

        If this fails or is cancelled, nothing stays open.
        """
        ...

    def leave(self) -> None:
        """Stop listening. Synchronous; does not wait for the server."""
        ...


@define(eq=False)
class OpenListen(AsyncWithOnly):
    """An `async with` block that receives changes; see `Client.listen`."""

    _usage = "async with client.listen(...) as changes:"

    _connection: Connection
    _wanted: ChangeFilter
    _declared: JsonObject | None
    """The capabilities that the request declares; None for those of the client."""
    _inbox: ChangeInbox = field(init=False)
    _method: _ListenMethod = field(init=False)

    async def __aenter__(self) -> Changes:
        connection = self._connection
        possible = self._wanted.within(connection.server_capabilities)
        # Legacy servers report changes of lists unasked, and some do so without having declared it.
        heard = possible if connection.is_modern else evolve(self._wanted, resources=possible.resources)
        if not heard:
            raise MissingCapability(
                "the server has not declared that it reports any of these changes", _required(self._wanted)
            )
        self._inbox = ChangeInbox(heard, connection.limits)
        if connection.is_modern:
            self._method = ListenRequest(
                connection.ask(LISTEN, {"notifications": possible.to_wire()}, capabilities=self._declared),
                possible,
                self._inbox,
                connection.cache,
                connection.custom.take_notification,
                connection.revision,
                connection.clocks.limits.idle,
            )
        else:
            connection.changes.expect(heard)
            self._method = LegacyListen(
                connection.changes, connection.transport.open_standalone_stream, possible, self._inbox
            )
        return Changes(await self._method.begin(), self._inbox)

    async def __aexit__(self, *_: object) -> None:
        self._inbox.end(trio.ClosedResourceError("the block of listen() has ended"))
        self._method.leave()


def _required(wanted: ChangeFilter) -> dict[str, Any]:
    """Return the capabilities that a server would have to declare for all of *wanted*."""
    resources = {"listChanged": wanted.resource_list, "subscribe": bool(wanted.resources)}
    features = {
        "tools": {"listChanged": wanted.tools},
        "prompts": {"listChanged": wanted.prompts},
        "resources": resources,
    }
    needed = {name: {flag: True for flag, is_wanted in flags.items() if is_wanted} for name, flags in features.items()}
    return {name: flags for name, flags in needed.items() if flags}


@define(eq=False)
class Lifetime:
    """The life of a client, between the coroutine that owns its connection and the tasks that close it."""

    closing: trio.Event = field(factory=trio.Event, init=False)
    """Set when the client shall be closed; the owner waits for it."""
    closed: trio.Event = field(factory=trio.Event, init=False)
    """Set when the connection is gone, for any reason."""

    def end(self) -> None:
        """Note that the connection is gone; called by its owner."""
        self.closing.set()
        self.closed.set()


@define(eq=False)
class Client(CustomRequests):
    """A connection to a server. Create it with `open_client`, `start_client` or one of their siblings.

    Every method may be used from any number of tasks at once. If a call is cancelled, the server's
    handler is cancelled too. Each method may raise `ErrorResponse`, `RequestTimedOut`, `RemoteProtocolError`,
    `LocalProtocolError` (the agreed revision has no such request), `MissingCapability` (the server has not declared a
    capability that the request needs) and `ConnectionLost`; only the last one means that the connection is gone. Over
    HTTP a method may also raise `ResponseLost` and `HttpStatusError`. A request that only reads is repeated once before
    `ResponseLost` is raised.

    The callbacks of `ClientOptions` answer the server's questions. In 2026-07-28 a server asks in the result of a tool
    call, a prompt or a resource; an exception of a callback is then raised by that request, unwrapped.
    """

    _lifetime: Lifetime = field(repr=False)

    if not TYPE_CHECKING:

        def __init__(self, *args: Any, **options: Any) -> None:
            if len(args) != 2 or options or not isinstance(args[1], Lifetime):
                raise TypeError("Client() takes no target: write `async with open_client(target) as client:`")
            self._connection, self._lifetime = args

    @property
    def revision(self) -> str:
        """The protocol revision agreed on, such as ``"2026-07-28"``."""
        return self._connection.revision

    @property
    def server_info(self) -> types.Implementation | None:
        """The name and version that the server states, for display only; None if it states none."""
        return self._connection.server_info

    @property
    def server_capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declared."""
        return self._connection.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for the calling model; None if there are none."""
        return self._connection.instructions

    def statistics(self) -> ConnectionStatistics:
        """Return the current contents of the connection, for debugging."""
        return self._connection.transport.statistics()

    async def aclose(self) -> None:
        """Close the connection: from any task, in any order with other clients, any number of times.

        Calls in flight raise `ConnectionClosed`. If cancelled, the connection closes all the same.
        """
        self._lifetime.closing.set()
        await self._lifetime.closed.wait()

    @property
    def is_lost(self) -> bool:
        """True once the connection is gone; `wait_lost` returns the reason."""
        return self._connection.gone.is_set()

    async def wait_lost(self) -> ConnectionLost:
        """Wait until the connection is gone, and return the reason.

        The reason is `ConnectionClosed` if this side has closed the connection; otherwise `ServerExited` for a child
        process, or `ConnectionBroken`. Over HTTP, a modern server can be gone without that: each request is a
        connection of its own, and fails by itself.
        """
        return await self._connection.wait_lost()

    def tools(self, *, max_pages: int = MAX_PAGES, fresh: bool = False) -> AsyncIterator[types.Tool]:
        """Iterate over all tools of the server, page by page.

        A cached page is used again while it is fresh. If the server refuses a cursor, the list is read again from the
        start, once, without repeating a name.

        Args:
            max_pages: the number of pages after which the list is considered endless; 1000 by default.
            fresh: request every page, even if it is cached.

        Raises:
            RemoteProtocolError: the server gives out a cursor twice, or has more than *max_pages* pages.
            ValueError: *max_pages* is less than 1.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
        """
        return PageIterator(partial(self.list_tools, fresh=fresh), lambda page: page.tools, max_pages)

    def resources(self, *, max_pages: int = MAX_PAGES, fresh: bool = False) -> AsyncIterator[types.Resource]:
        """Iterate over all resources of the server; see `tools`."""
        return PageIterator(partial(self.list_resources, fresh=fresh), lambda page: page.resources, max_pages)

    def resource_templates(
        self, *, max_pages: int = MAX_PAGES, fresh: bool = False
    ) -> AsyncIterator[types.ResourceTemplate]:
        """Iterate over all resource templates of the server; see `tools`."""
        return PageIterator(
            partial(self.list_resource_templates, fresh=fresh), lambda page: page.resource_templates, max_pages
        )

    def prompts(self, *, max_pages: int = MAX_PAGES, fresh: bool = False) -> AsyncIterator[types.Prompt]:
        """Iterate over all prompts of the server; see `tools`."""
        return PageIterator(partial(self.list_prompts, fresh=fresh), lambda page: page.prompts, max_pages)

    def skills(self, *, server: str | None = None, max_pages: int = MAX_PAGES) -> AsyncIterator[ClientSkill]:
        """Iterate over all skills of the server, page by page: their entries; no file is requested.

        There are none if the server has not declared that it has skills. A server need not list all its skills; see
        `skill`. An entry that is not valid is left out, and logged.

        Args:
            server: the application's name of the server, by which it tells the skills of several servers apart. It is
                needed for approvals; see `skills.SkillApprovals`.
            max_pages: as of `tools`.

        Specification: https://modelcontextprotocol.io/extensions/skills/overview
        """
        found: AsyncIterator[ClientSkill] = load_capability("skills").list_skills(self, server, max_pages)
        return found

    async def skill(self, uri: str, *, server: str | None = None) -> ClientSkill:
        """Request the current entry of one skill, listed or not; no file is requested.

        Args:
            uri: the URI of its SKILL.md.
            server: as of `skills`.

        Raises:
            MissingCapability: the server has not declared that it has skills.
            ErrorResponse: the server has no such skill.
            RemoteProtocolError: the entry is not valid.

        Specification: https://modelcontextprotocol.io/extensions/skills/overview
        """
        check_class("uri", uri, str, "'skill://pdf-processing/SKILL.md'")
        found: ClientSkill = await load_capability("skills").get_skill(self, uri, server)
        return found

    async def list_tools(self, cursor: str | None = None, *, fresh: bool = False) -> types.ListToolsResult:
        """Return one page of the tools.

        The page is empty if the server has not declared that it has tools.

        Over HTTP, a tool of a modern server is left out, and logged, if its schema requires arguments to be mirrored in
        header fields that are not possible.

        Args:
            cursor: the `next_cursor` of the page before; None for the first page.
            fresh: as in `tools`.
        """
        return await self._connection.tools.page(cursor, fresh=fresh)

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: None = None,
        on_progress: OnProgress | None = None,
        raise_on_error: bool = False,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> types.CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[R],
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> R: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: object,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> Any: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: Any = None,
        on_progress: OnProgress | None = None,
        raise_on_error: bool = False,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
        **unknown: Never,
    ) -> Any:
        """Call a tool and return its result, including a result that says `is_error`; or, with *returns*, its value.

        Structured content is checked against the tool's output schema if this client has listed the tool. A result
        without structured content has `types.UNSET` there, because None is a value that a tool may return.

        ::

            async def on_progress(update: types.ProgressNotificationParams) -> None:
                print(update.progress, update.total, update.message)

            result = await client.call_tool("build", {"branch": "main"}, on_progress=on_progress)

        With ``returns=list[Hit]`` the value is checked and converted to that type, and a tool that fails raises
        `ToolFailed`. Structured content is used if there is some, else a single text block: its JSON, or for `str` the
        text. Members that a class does not declare are ignored. Type checkers know the type unless it is written as a
        union or is `Annotated`; annotate the variable then.

        Args:
            name: the tool's name.
            arguments: JSON values by parameter, in a dict.
            returns: the type of the value: a builtin type, an attrs class, a dataclass, a TypedDict, a NamedTuple, a
                `msgspec.Struct`, a pydantic model, an enum, or a union or collection of these.
            on_progress: awaited with each progress update, in order, in this task, before the result is returned. An
                exception it raises ends the call and is raised here.
            raise_on_error: raise `ToolFailed` instead of returning a result that says `is_error`; always with
                *returns*.
            meta: members for the request's `_meta`.
            repeatable: allow the client to repeat the call if its response was lost with an HTTP connection or a
                session. The tool may then run twice. By default such a call raises `ResponseLost`.

        Raises:
            ToolFailed: the tool failed, and *raise_on_error* is set, or *returns*.
            UnexpectedResult: the result does not fit *returns*; it names each part that does not. The tool has run.
            TypeError: *name* is not a string, *arguments* or *meta* is not a dict, *returns* is no type with a JSON
                form, or an option does not exist; nothing was sent.
            ConsentRefused: the client's consent hook refused the call; nothing was sent.
            RemoteProtocolError: the result does not match its type or the tool's output schema; or the server asked a
                question that this client has not declared, or asked too often (`Limits.max_rounds`).

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
        """
        if unknown:
            raise unknown_options("client.call_tool", unknown, otherwise=_IN_A_DICT)
        reader = None if returns is None else _reader_of(returns)
        request = OpenRequest(
            self._connection,
            "tools/call",
            call_params(name, arguments, meta),
            wants_updates=on_progress is not None,
            repeatable=repeatable,
        )
        await request.begin()
        try:
            if on_progress is not None:
                with own_cancellation("on_progress", _log):
                    async for update in Updates(request):
                        await called_back("on_progress", on_progress, update)
            json = await request.result()
            result = self._connection.read_tool_result(name, json, raise_on_error=raise_on_error or reader is not None)
        finally:
            if request.is_resolving:
                await request.aclose()
            else:
                request.leave()
        if reader is None:
            return result
        output = self._connection.tools.outputs.get(name)
        return reader.read(name, result, None if output is None else output.schema)

    @overload
    def open_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> OpenCall[Call]: ...
    @overload
    def open_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
        manual_input: Literal[True],
        input_responses: Mapping[str, types.InputResponse | types.JSONObject] | None = None,
        request_state: str | None = None,
        capabilities: types.ClientCapabilities | None = None,
    ) -> OpenCall[ManualCall]: ...
    def open_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        repeatable: bool = False,
        manual_input: bool = False,
        input_responses: Mapping[str, types.InputResponse | types.JSONObject] | None = None,
        request_state: str | None = None,
        capabilities: types.ClientCapabilities | None = None,
    ) -> OpenCall[Call] | OpenCall[ManualCall]:
        """Open a call whose updates the caller reads; use it with `async with`.

        Leaving the block before the result has arrived cancels the call. See `Call`.

        With *manual_input* the caller receives the questions of a modern server. They may be answered later, by another
        client, in another process::

            async with client.open_call("book", {"show": "Hamlet"}, manual_input=True) as call:
                answer = await call.result()
            if isinstance(answer, types.InputRequiredResult):
                answers = {key: await ask(question) for key, question in (answer.input_requests or {}).items()}
                call = client.open_call(
                    "book",
                    {"show": "Hamlet"},
                    manual_input=True,
                    input_responses=answers,
                    request_state=answer.request_state,
                )

        A server of an earlier revision still asks the callbacks of this client.

        Args:
            name: the tool's name.
            arguments: JSON values by parameter.
            meta: members for the request's `_meta`.
            repeatable: as in `call_tool`; it applies to each round of questions as well.
            manual_input: let `result` return a `types.InputRequiredResult` when the server asks; see `ManualCall`.
            input_responses: the answers to the questions of the previous call, by key; each is a message or its JSON
                value.
            request_state: the state of the previous call, exactly as it was received; None if there was none.
            capabilities: the capabilities that this call declares instead of those that follow from this client's
                callbacks. Declare the questions that can be answered later. The client's extensions and experimental
                capabilities are added unless *capabilities* contains its own. Revisions before 2026-07-28 declare no
                capabilities by call.

        Raises:
            TypeError: an argument that continues a call is given, and *manual_input* is not set.
            LocalProtocolError: such an argument is given in a revision whose calls carry no answers; raised when the
                block is entered.
        """
        plan = CallPlan(
            self._connection, name, arguments, meta, input_responses, request_state, capabilities, repeatable
        )
        if manual_input:
            return OpenCall(plan, ManualCall)
        if input_responses is not None or request_state is not None or capabilities is not None:
            raise TypeError("open_call(input_responses=, request_state=, capabilities=) need manual_input=True")
        return OpenCall(plan, Call)

    async def list_resources(self, cursor: str | None = None, *, fresh: bool = False) -> types.ListResourcesResult:
        """Return one page of the resources; see `list_tools`."""
        return await self._connection.cached_request(
            "resources/list", _page(cursor), types.ListResourcesResult, fresh=fresh
        )

    async def list_resource_templates(
        self, cursor: str | None = None, *, fresh: bool = False
    ) -> types.ListResourceTemplatesResult:
        """Return one page of the resource templates; see `list_tools`."""
        return await self._connection.cached_request(
            "resources/templates/list", _page(cursor), types.ListResourceTemplatesResult, fresh=fresh
        )

    async def read_resource(
        self, uri: str, *, meta: Mapping[str, Any] | None = None, fresh: bool = False
    ) -> types.ReadResourceResult:
        """Read a resource. A cached result is used again while it is fresh.

        Args:
            uri: the resource's URI.
            meta: members for the request's `_meta`.
            fresh: request the resource even if it is cached.

        Raises:
            TypeError: *uri* is not a string; nothing was sent.
        """
        check_class("uri", uri, str, "'file:///notes.txt'")
        return await self._connection.cached_request(
            "resources/read", _with_meta({"uri": uri}, meta), types.ReadResourceResult, fresh=fresh
        )

    async def subscribe_resource(self, uri: str) -> None:
        """Ask a legacy server to report when the resource at *uri* changes.

        `listen` does this by itself, and receives the reports.
        """
        await self._connection.changes.subscribe_explicitly(uri)

    async def unsubscribe_resource(self, uri: str) -> None:
        """End a subscription of `subscribe_resource` to *uri*. Blocks of `listen` for the same resource continue."""
        await self._connection.changes.unsubscribe_explicitly(uri)

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resource_list: bool = False,
        resources: Sequence[str] = (),
        custom: Mapping[str, Sequence[str]] | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> AbstractAsyncContextManager[Changes]:
        """Receive changes on a server of any revision for as long as the block lasts.

        Use it with `async with`::

            async with client.listen(tools=True, resources=["file:///config.json"]) as changes:
                async for change in changes:
                    match change:
                        case ListChanged(kind=kind):  # "tools", "prompts" or "resources"
                            ...
                        case ResourceUpdated(uri=uri):
                            ...

        No change is missed from the moment the block begins, and each one is kept once until it is read. Changes that
        the server does not report are left out: see `Changes.honored`. A server of a revision before 2026-07-28 may
        report changes of a list that it has not declared: they are received, after a warning in the log. Any number of
        blocks may listen at once. No time limit applies to them.

        Over HTTP the stream of a modern server may break: `changes` then raises `ResponseLost`, and changes may have
        been missed. If a legacy server has lost its session, the client opens a new one and reports everything that is
        listened for as changed.

        Leaving the block ends the subscriptions it made, without waiting for the server.

        Args:
            tools: report changes of the list of tools.
            prompts: report changes of the list of prompts.
            resource_list: report changes of the list of resources or of resource templates.
            resources: the URIs of resources whose updates are reported.
            custom: what extensions report, by the member that they add to the filter: ``{"taskIds": [id]}``. Each
                notification is a `CustomChange`; only in 2026-07-28.
            extensions: extensions that the request declares in addition to those of the client; see `request`.

        Raises:
            ValueError: no argument selects any change, or the id of an extension is not valid.
            TypeError: *resources*, or the value of a member of *custom*, is a single string.
            MissingCapability: the server has not declared that it reports any of these changes; before 2026-07-28, of
                these resources, if nothing else is selected. Raised when the block is entered, as are the exceptions of
                the requests it makes.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
        """
        if isinstance(resources, str):
            raise TypeError(f"resources={resources!r}: expected a list of URIs")
        for member, strings in (custom or {}).items():
            if isinstance(strings, str):
                raise TypeError(f"custom[{member!r}]={strings!r}: expected a list of strings")
        wanted = ChangeFilter(
            tools=tools,
            prompts=prompts,
            resource_list=resource_list,
            resources=dict.fromkeys(resources),
            custom=custom or {},
        )
        if not wanted:
            raise ValueError("listen(): select at least one kind of change")
        return OpenListen(self._connection, wanted, declared_with(self._connection, extensions))

    async def list_prompts(self, cursor: str | None = None, *, fresh: bool = False) -> types.ListPromptsResult:
        """Return one page of the prompts; see `list_tools`."""
        return await self._connection.cached_request(
            "prompts/list", _page(cursor), types.ListPromptsResult, fresh=fresh
        )

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> types.GetPromptResult:
        """Get a prompt's messages.

        Args:
            name: the name of the prompt.
            arguments: its arguments, which are strings.
            meta: further members of the request's `_meta`.
        """
        params: JsonObject = {"name": name}
        if arguments is not None:
            params["arguments"] = members_of("the arguments of a prompt", arguments)
        return await self._connection.request("prompts/get", _with_meta(params, meta), types.GetPromptResult)

    async def complete(
        self,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
    ) -> types.Completion:
        """Return suggestions for an argument of a prompt or resource template.

        Args:
            ref: the prompt or the resource template.
            argument: the name of its argument.
            value: the characters typed so far.
            context: arguments that already have a value; revisions before 2025-06-18 do not carry them.
        """
        params = types.CompleteRequestParams(
            ref=ref,
            argument=types.CompletionArgument(name=argument, value=value),
            context=None if context is None else types.CompletionContext(arguments=dict(context)),
        )
        json = types.unstructure(params, revision=self.revision)
        return (await self._connection.request("completion/complete", json, types.CompleteResult)).completion

    async def app_of(self, tool: types.Tool) -> App | None:
        """Read the app that shows the results of a tool; None if the tool has none.

        Args:
            tool: a tool of this server, as `tools` yields it.

        Raises:
            RemoteProtocolError: the URI of the app, or its resource, is not that of an app.

        Specification: https://modelcontextprotocol.io/extensions/apps/overview
        """
        app: App | None = await load_capability("apps").read_app(self, tool)
        return app

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Ask for log messages of *level* and above. Until then a client with `on_log` gets those of all levels.

        In a legacy revision this applies to the whole connection, in a modern one to each request made from now on.
        """
        if self._connection.has("logging/setLevel"):
            await self._connection.changes.set_log_level(level)
        else:
            await trio.lowlevel.checkpoint()
            self._connection.ask_for_logs(level)

    async def ping(self) -> None:
        """Return when the server has answered.

        2026-07-28 has no request for that: there the client sends ``server/discover``, which every server answers
        without running a handler, and takes any answer for a sign of life.
        """
        connection = self._connection
        if connection.has("ping"):
            await connection.request("ping", None, types.EmptyResult)
            return
        with suppress(ErrorResponse):
            await connection.request("server/discover", None, dict)

    async def discover(self, *, fresh: bool = False) -> types.DiscoverResult:
        """Ask the server for its current capabilities; modern revisions only. *fresh*: even if the result is cached."""
        return await self._connection.cached_request("server/discover", None, types.DiscoverResult, fresh=fresh)

    async def roots_changed(self) -> None:
        """Notify a legacy server that the roots have changed."""
        await self._connection.notify("notifications/roots/list_changed")


def _reader_of(returns: Any) -> ReturnType:
    from ._returns import return_type  # noqa: PLC0415 # programs that take whole results do not need it

    return return_type(returns)


def _page(cursor: str | None) -> JsonObject | None:
    return None if cursor is None else {"cursor": cursor}


def _with_meta(params: JsonObject, meta: Mapping[str, Any] | None) -> JsonObject:
    return params if meta is None else {**params, "_meta": members_of("meta", meta)}
