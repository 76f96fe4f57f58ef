"""Views: the pages of apps that a host shows, connected with the server that made them.

`open_view` runs a `Bridge` over any two ways of JSON messages, carries out what the view asks for with a client, and
asks the host's callbacks for consent.

Rules of this file:

1. A view is served as long as its block lasts, and a little longer: it is asked to end, and may save what it has.
2. A view learns of a failure as much as its server may know. Exceptions of callbacks are logged, and the view gets an
   error without details.
3. What a callback is asked about, the user must see. What has no callback is refused, and the view is told so before.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, Self, TypeAlias, cast

import trio
from attrs import define, evolve, field, frozen

from .. import Client, ConsentRefused, ErrorResponse, Extension, TrioMcpError, types
from ..lowlevel import owned_nursery, succeeds
from ..wire import INTERNAL_ERROR, JsonObject, RequestId, is_object
from ._bridge import (
    Bridge,
    BridgeEvent,
    CloseRequested,
    DisplayModeRequested,
    DownloadRequested,
    LinkRequested,
    MessageRequested,
    ModelContextChanged,
    RequestCancelled,
    ServerRequested,
    SizeChanged,
    ToolCallRequested,
    ViewClosed,
    ViewLogged,
    ViewReady,
)
from ._client import App
from ._metadata import APP_TYPE, EXTENSION, PERMISSIONS, AppPermission
from .types import (
    McpUiDisplayMode,
    McpUiHostCapabilities,
    McpUiHostCapabilitiesSandbox,
    McpUiHostCapabilitiesServerResources,
    McpUiHostCapabilitiesServerTools,
    McpUiHostContext,
    McpUiHostContextToolInfo,
    McpUiSupportedContentBlockModalities,
    McpUiUpdateModelContextRequestParams,
)

__all__ = ["AppHost", "View", "open_view"]

_log = logging.getLogger("trio_mcp.apps")

OnOpenLink: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks the user whether to visit a page, and opens it; returns False if the user refuses."""
OnMessage: TypeAlias = "Callable[[Sequence[types.ContentBlock]], Awaitable[bool]]"
"""Asks the user whether to send a message to the model, and sends it; returns False if the user refuses."""
OnDownload: TypeAlias = "Callable[[Sequence[types.EmbeddedResource | types.ResourceLink]], Awaitable[bool]]"
"""Asks the user whether to save files, and saves them; returns False if the user refuses."""
OnModelContext: TypeAlias = Callable[[McpUiUpdateModelContextRequestParams], Awaitable[None]]
"""Takes what the model shall know from its next turn on, instead of what the view has stated before."""
OnDisplayMode: TypeAlias = Callable[[McpUiDisplayMode], Awaitable[McpUiDisplayMode]]
"""Shows the view in another place; returns the place that it has then."""
OnSize: TypeAlias = Callable[[SizeChanged], Awaitable[None]]
"""Takes the size of the view's content."""
OnViewLog: TypeAlias = Callable[[ViewLogged], Awaitable[None]]
"""Takes a log message of the view."""
OnCloseRequest: TypeAlias = Callable[[], Awaitable[None]]
"""Is told that the view wants to be closed; the host leaves the block of the view, or does not."""


def _this_package() -> types.Implementation:
    return types.Implementation(name="trio-mcp", version=version("trio-mcp"))


_ALL_CONTENT = McpUiSupportedContentBlockModalities(text={}, image={}, audio={}, resource={}, resource_link={})


@frozen(kw_only=True, eq=False)
class AppHost:
    """A host of apps: its callbacks for views, and the facts about it that views learn.

    The callbacks are functions of these forms, each optional::

        async def on_open_link(url: str) -> bool:
            return await ask_user(f"Open {url}?") and webbrowser.open(url)

        async def on_message(content: Sequence[types.ContentBlock]) -> bool:
            return await ask_user("Send this message?", content)

        async def on_download(files: Sequence[types.EmbeddedResource | types.ResourceLink]) -> bool:
            return await ask_user("Save these files?", files)

        async def on_model_context(context: McpUiUpdateModelContextRequestParams) -> None:
            conversation.context = context.content

        async def on_display_mode(mode: McpUiDisplayMode) -> McpUiDisplayMode:
            return "inline"

        async def on_size(size: SizeChanged) -> None:
            frame.resize(size.width, size.height)

        async def on_view_log(message: ViewLogged) -> None:
            print(message.level, message.data)

        async def on_close_request() -> None:
            closing.set()

        host = AppHost(
            on_open_link=on_open_link,
            on_message=on_message,
            on_download=on_download,
            on_model_context=on_model_context,
            on_display_mode=on_display_mode,
            on_size=on_size,
            on_view_log=on_view_log,
            on_close_request=on_close_request,
        )

    A request of a view whose callback is missing is refused, and the view is told in advance that it is not possible.
    An exception of a callback is logged; the view gets an error, and continues. No time limit applies to a callback.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    on_open_link: OnOpenLink | None = None
    """Visits a page. It must show the user the whole URL before."""
    on_message: OnMessage | None = None
    """Adds a message of the user to the conversation."""
    on_download: OnDownload | None = None
    """Saves files: their contents, or links to resources of the server."""
    on_model_context: OnModelContext | None = None
    """Keeps what the model shall know."""
    on_display_mode: OnDisplayMode | None = None
    """Shows the view in another place. Without it, the view stays where it is."""
    on_size: OnSize | None = None
    """Adapts the frame of the view. The next messages of the view wait meanwhile, as for the two that follow."""
    on_view_log: OnViewLog | None = None
    """Takes log messages of the view."""
    on_close_request: OnCloseRequest | None = None
    """Is told that the view wants to be closed."""
    info: types.Implementation = field(factory=_this_package)
    """The name and version that views see."""
    context: McpUiHostContext = field(factory=McpUiHostContext)
    """The facts that views learn about the host at once: theme, language, styles and so on."""
    permissions: Iterable[AppPermission] = ()
    """The permissions that the host lets the browser grant to pages that ask for them."""
    max_message_bytes: int = 16 * 1024 * 1024
    """The size of the largest message of a view; a larger one is refused."""
    max_requests: int = 32
    """The number of requests of one view that may be open at once."""
    close_seconds: float = 5.0
    """The seconds that a view has to save what it has, when it is closed."""

    @property
    def extension(self) -> Extension:
        """The declaration of a client whose host shows apps."""
        return Extension(EXTENSION, {"mimeTypes": [APP_TYPE]})

    def capabilities(self, client: Client, app: App) -> McpUiHostCapabilities:
        """Return the abilities of this host that a view of *app* is told.

        Args:
            client: the client of the app's server; the view can read resources if the server has any.
            app: the app of the view; of the permissions that it requests, it gets those in `permissions`.
        """
        granted: JsonObject = {PERMISSIONS[each]: {} for each in self.permissions if each in app.permissions}
        sandbox = types.structure({"permissions": granted, "csp": app.csp.to_wire()}, McpUiHostCapabilitiesSandbox)
        has_resources = client.server_capabilities.resources is not None
        return McpUiHostCapabilities(
            server_tools=McpUiHostCapabilitiesServerTools(),
            server_resources=McpUiHostCapabilitiesServerResources() if has_resources else None,
            open_links={} if self.on_open_link else None,
            download_file={} if self.on_download else None,
            logging={} if self.on_view_log else None,
            message=_ALL_CONTENT if self.on_message else None,
            update_model_context=evolve(_ALL_CONTENT, structured_content={}) if self.on_model_context else None,
            sandbox=sandbox,
        )

    def context_for(self, tool: types.Tool | None) -> McpUiHostContext:
        """Return the context of a view that shows the results of a tool."""
        return evolve(
            self.context,
            display_mode=self.context.display_mode or "inline",
            tool_info=None if tool is None else McpUiHostContextToolInfo(tool=tool),
        )


@asynccontextmanager
async def open_view(
    client: Client,
    app: App,
    send: Callable[[JsonObject], Awaitable[object]],
    receive: AsyncIterable[Any],
    *,
    host: AppHost,
    tool: types.Tool | None = None,
) -> AsyncGenerator[View]:
    """Serve one view of an app for as long as the block lasts; use it with `async with`.

    ::

        app = await client.app_of(tool)
        async with open_view(client, app, to_page.send, from_page, host=host, tool=tool) as view:
            result = await view.call({"year": 2026})
            await view.wait_closed()

    The view calls tools of its server and reads its resources through *client*. At the end of the block the view is
    asked to end, for at most `AppHost.close_seconds`, also if the block is cancelled; then its requests are cancelled.

    Args:
        client: the client of the server that has made the app.
        app: the page, from `Client.app_of`.
        send: an async function that sends a JSON object to the view, such as the method of a Trio channel. The view is
            gone if it raises `trio.BrokenResourceError` or `trio.ClosedResourceError`.
        receive: yields the messages of the view, JSON values; such as a Trio channel. The view is gone when it ends, or
            raises one of these exceptions.
        host: what the view may ask for.
        tool: the tool whose results the view shows; `View.call` needs it.

    Raises:
        TrioMcpError: the tools of the server cannot be listed.
    """
    bridge = Bridge(
        app=app,
        info=host.info,
        capabilities=host.capabilities(client, app),
        context=host.context_for(tool),
        tools=[each async for each in client.tools()],
        granted=host.permissions,
        max_message_bytes=host.max_message_bytes,
        max_requests=host.max_requests,
    )
    view = View(bridge, client, host, tool, send, receive)
    async with owned_nursery() as nursery:
        nursery.start_soon(view.serve)
        try:
            yield view
        finally:
            await view.end()


@define(eq=False)
class View:
    """A view that is shown; see `open_view`. One task calls `call` or the methods that it consists of."""

    bridge: Bridge
    """The state of the view. Do not call its methods that change it."""
    _client: Client = field(repr=False)
    _host: AppHost = field(repr=False)
    _tool: types.Tool | None
    _send: Callable[[JsonObject], Awaitable[object]] = field(repr=False)
    _receive: AsyncIterable[Any] = field(repr=False)
    _sending: trio.Lock = field(factory=trio.Lock, init=False, repr=False)
    _ready: trio.Event = field(factory=trio.Event, init=False, repr=False)
    _closed: trio.Event = field(factory=trio.Event, init=False, repr=False)
    _serving: trio.CancelScope = field(factory=partial(trio.CancelScope, shield=True), init=False, repr=False)
    _answering: dict[RequestId, trio.CancelScope] = field(
        factory=dict[RequestId, trio.CancelScope], init=False, repr=False
    )
    """The tasks that answer requests of the view, and were not cancelled."""

    # --- What the host tells the view ---

    async def call(self, arguments: Mapping[str, Any] | None = None) -> types.CallToolResult:
        """Call the tool, and tell the view its arguments and its result; return the result.

        If the call fails or is cancelled, the view is told that there will be no result.

        Args:
            arguments: JSON values by parameter.

        Raises:
            ValueError: the view was opened without a tool.
            LocalProtocolError: the view shows the result of a call already.
            TrioMcpError: raised by `Client.call_tool`.
        """
        if self._tool is None:
            raise ValueError("call(): the view was opened without tool=")
        await self.tool_input(arguments or {})
        try:
            result = await self._client.call_tool(self._tool.name, arguments)
        except BaseException as error:
            reason = error.message if isinstance(error, ErrorResponse) else _reason_of(error)
            with trio.move_on_after(self._host.close_seconds, shield=True):
                await self.tool_cancelled(reason)
            raise
        await self.tool_result(result)
        return result

    async def tool_input_partial(self, arguments: Mapping[str, Any]) -> None:
        """Tell the view the arguments that the model has written so far; each replaces the one before.

        Raises:
            LocalProtocolError: the arguments are complete already.
        """
        self.bridge.tool_input_partial(arguments)
        await self._flush()

    async def tool_input(self, arguments: Mapping[str, Any]) -> None:
        """Tell the view the arguments of the call, once.

        Raises:
            LocalProtocolError: they were told already, or the call was cancelled.
        """
        self.bridge.tool_input(arguments)
        await self._flush()

    async def tool_result(self, result: types.CallToolResult) -> None:
        """Give the view the result of the call, once.

        Raises:
            LocalProtocolError: the view does not know the arguments, or the call is over.
        """
        self.bridge.tool_result(result)
        await self._flush()

    async def tool_cancelled(self, reason: str | None = None) -> None:
        """Tell the view that there will be no result.

        Args:
            reason: one sentence for the page; None to give no reason.

        Raises:
            LocalProtocolError: the call is over.
        """
        self.bridge.tool_cancelled(reason)
        await self._flush()

    async def change_context(self, changes: McpUiHostContext) -> None:
        """Change those members of the context that *changes* have, such as the theme, and tell the view."""
        self.bridge.change_context(changes)
        await self._flush()

    # --- The life of the view ---

    async def wait_ready(self) -> None:
        """Wait until the view is initialized. A view need never be."""
        await self._ready.wait()

    async def wait_closed(self) -> None:
        """Wait until the view has ended, or is gone."""
        await self._closed.wait()

    async def close(self, reason: str | None = None) -> None:
        """Ask the view to end, and wait until it has; without a time limit. Leaving the block does the same, bounded.

        Args:
            reason: what the view may show or log.
        """
        await self._carry_out(self.bridge.close(reason))
        await self.wait_closed()

    async def end(self) -> None:
        """Close the view for at most `AppHost.close_seconds`, and cancel its requests; the end of its block."""
        with trio.move_on_after(self._host.close_seconds, shield=True):
            await self.close()
        self._note_end()
        self._serving.cancel(reason="the block of the view has ended")

    # --- What the view says ---

    async def serve(self) -> None:
        """Take the messages of the view until it is gone, in a task of the block."""
        with self._serving:
            async with trio.open_nursery() as nursery:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    async for message in self._receive:
                        await self._learn_tool(message)
                        await self._carry_out(self.bridge.receive(message), nursery)
                await self._carry_out(self.bridge.view_is_gone(), nursery)

    async def _learn_tool(self, message: Any) -> None:
        """List the tools again if the view calls one that is not known: it may be new."""
        if not is_object(message) or message.get("method") != "tools/call" or not is_object(message.get("params")):
            return
        name = message["params"].get("name")
        if isinstance(name, str) and not self.bridge.callers_of(name):
            with suppress(TrioMcpError):  # the bridge refuses the call
                self.bridge.use_tools([each async for each in self._client.tools()])

    async def _carry_out(self, events: Sequence[BridgeEvent], nursery: trio.Nursery | None = None) -> None:
        """Carry out what the bridge has returned, without waiting in between, and send what it holds."""
        for event in events:
            match event:
                case ViewReady():
                    self._ready.set()
                case ViewClosed():
                    self._note_end()
                case RequestCancelled(id=id):
                    self.bridge.forget(id)
                    self._answering.pop(id).cancel(reason="the view has cancelled its request")
                case SizeChanged() | ViewLogged() | CloseRequested():
                    await self._notify(event)
                case _:
                    assert nursery is not None  # only messages of the view have such events
                    self._answering[event.id] = scope = trio.CancelScope()
                    nursery.start_soon(self._answer, event, scope)
        await self._flush()

    def _note_end(self) -> None:
        """Take note that the view has ended: nobody waits for its requests."""
        self.bridge.view_is_gone()
        self._closed.set()
        for scope in self._answering.values():
            scope.cancel(reason="the view has ended")
        self._answering.clear()

    async def _flush(self) -> None:
        """Send what the bridge holds, in order; a message is taken away only when it was sent."""
        outgoing = self.bridge.outgoing
        async with self._sending:
            while outgoing:
                message = outgoing[0]
                try:
                    await self._send(message)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self._note_end()
                if outgoing and outgoing[0] is message:
                    outgoing.popleft()

    async def _notify(self, event: SizeChanged | ViewLogged | CloseRequested) -> None:
        host = self._host
        match event:
            case SizeChanged() if host.on_size is not None:
                await succeeds(partial(host.on_size, event), "on_size", _log)
            case ViewLogged() if host.on_view_log is not None:
                await succeeds(partial(host.on_view_log, event), "on_view_log", _log)
            case CloseRequested() if host.on_close_request is not None:
                await succeeds(host.on_close_request, "on_close_request", _log)
            case _:
                pass

    async def _answer(self, event: _Request, scope: trio.CancelScope) -> None:
        """Answer one request of the view, in a task of its own."""
        with scope:
            try:
                await self._answer_kind(event)
            except Exception:  # noqa: BLE001 # a fault of a callback, or of this package, ends no view
                _log.exception("a request of a view could not be answered")
                self.bridge.refuse(event.id, _FAILED, code=INTERNAL_ERROR)
        if not scope.cancel_called:
            del self._answering[event.id]
            await self._flush()

    async def _answer_kind(self, event: _Request) -> None:
        bridge, host, id = self.bridge, self._host, event.id
        match event:
            case ToolCallRequested(name=name, arguments=arguments):
                await self._pass_on(id, partial(self._call_tool, name, arguments))
            case ServerRequested(method=method, params=params):
                await self._pass_on(id, partial(self._client.request, method, params, dict[str, Any]))
            case LinkRequested(url=url):
                await self._with_consent(id, host.on_open_link, url)
            case MessageRequested(content=content):
                await self._with_consent(id, host.on_message, content)
            case DownloadRequested(contents=contents):
                await self._with_consent(id, host.on_download, contents)
            case ModelContextChanged(context=context):
                done = await _Outcome.of(host.on_model_context, context)
                bridge.respond(id) if done.has_succeeded else bridge.refuse(id, _FAILED, code=INTERNAL_ERROR)
            case _:
                done = await _Outcome.of(host.on_display_mode, event.mode)
                bridge.display_mode_is(id, done.value or bridge.context.display_mode or "inline")

    async def _call_tool(self, name: str, arguments: JsonObject) -> JsonObject:
        return cast("JsonObject", types.unstructure(await self._client.call_tool(name, arguments)))

    async def _pass_on(self, id: RequestId, work: Callable[[], Awaitable[JsonObject]]) -> None:
        """Give the view what the server answers."""
        try:
            result = await work()
        except ErrorResponse as error:
            self.bridge.refuse(id, error.message, code=error.code, data=error.data)
        except ConsentRefused as error:
            self.bridge.refuse(id, str(error))
        except Exception as error:  # noqa: BLE001 # rule 2
            _log.warning("the request of a view failed", exc_info=error)
            self.bridge.refuse(id, _reason_of(error), code=INTERNAL_ERROR)
        else:
            self.bridge.respond(id, result)

    async def _with_consent(self, id: RequestId, callback: Callable[[Any], Awaitable[bool]] | None, what: Any) -> None:
        done = await _Outcome.of(callback, what)
        if not done.has_succeeded:
            self.bridge.refuse(id, _FAILED, code=INTERNAL_ERROR)
        elif done.value:
            self.bridge.respond(id)
        else:
            self.bridge.refuse(id, "the user has refused")


_Request: TypeAlias = (
    ToolCallRequested
    | ServerRequested
    | LinkRequested
    | MessageRequested
    | DownloadRequested
    | ModelContextChanged
    | DisplayModeRequested
)
_FAILED = "the host failed"


@define
class _Outcome:
    """The value that a callback has returned, or its failure."""

    value: Any = None
    has_succeeded: bool = True

    @classmethod
    async def of(cls, callback: Callable[[Any], Awaitable[Any]] | None, argument: Any) -> Self:
        """Call a callback of the host, which may be missing."""
        outcome = cls()
        if callback is None:
            return outcome

        async def keep() -> None:
            outcome.value = await callback(argument)

        outcome.has_succeeded = await succeeds(keep, "a callback of AppHost", _log)
        return outcome


def _reason_of(error: BaseException) -> str:
    """Return what a view may know about a failure."""
    return (
        "the call was cancelled"
        if isinstance(error, trio.Cancelled)
        else f"the request failed ({type(error).__name__})"
    )
