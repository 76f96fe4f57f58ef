"""The host's side of the messages between the page of an app (the *view*) and its host, without I/O.

The owner of a `Bridge` passes each message of the view to `Bridge.receive`, carries out the events that it returns, and
sends what `Bridge.outgoing` holds. `open_view` does this with a client.

Rules of this file:

1. A state that is not in the table is a mistake. A view that makes one is refused or not heard; a host that makes one
   gets `LocalProtocolError`.
2. The host sends no request and no notification before the view is initialized. What the host wants to send is kept
   until then. A view that initializes again, because its page was loaded again, gets it again.
3. A view is hostile. Its messages are bounded in size, and its open requests in number. It may call only tools that
   its server makes for apps, and only methods of the host whose capability the host declares.
4. Links are addresses of web pages or of mail. A user must see the whole link, and so it holds no user name.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from attrs import define, field, frozen

from .. import LocalProtocolError, StructureError, types
from ..wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorReply,
    JsonObject,
    JsonRpcRequest,
    Malformed,
    Notification,
    NotJsonError,
    Reply,
    RequestId,
    encode,
    is_id,
    is_object,
    parse_message,
)
from ._client import App
from ._metadata import PERMISSIONS, AppPermission, visibility_of
from .types import (
    McpUiAppCapabilities,
    McpUiDisplayMode,
    McpUiDownloadFileRequestParams,
    McpUiHostCapabilities,
    McpUiHostContext,
    McpUiInitializeRequestParams,
    McpUiInitializeResult,
    McpUiMessageRequestParams,
    McpUiOpenLinkRequestParams,
    McpUiRequestDisplayModeRequestParams,
    McpUiSizeChangedNotificationParams,
    McpUiUpdateModelContextRequestParams,
)

__all__ = [
    "REFUSED",
    "Bridge",
    "BridgeEvent",
    "CallPhase",
    "CloseRequested",
    "DisplayModeRequested",
    "DownloadRequested",
    "LinkRequested",
    "MessageRequested",
    "ModelContextChanged",
    "RequestCancelled",
    "ServerRequested",
    "SizeChanged",
    "ToolCallRequested",
    "ViewClosed",
    "ViewLogged",
    "ViewReady",
    "ViewState",
]

T = TypeVar("T")

VERSIONS = ("2026-01-26",)
"""The versions of these messages, the newest last."""
REFUSED = -32000
"""The code of the error for a request that the host or its user refuses."""
_LINK_SCHEMES = ("http", "https", "mailto")
_MOST_OF_A_LINK = 2_048
_MOST_PIXELS = 100_000


# --- States ---


class ViewState(Enum):
    """The state of a view, as its host knows it."""

    LOADING = auto()
    """The view has said nothing."""
    INITIALIZING = auto()
    """The view has asked to be initialized."""
    READY = auto()
    """The view is initialized: the host may send."""
    CLOSING = auto()
    """The host has asked the view to end; the view may still save what it has."""
    CLOSED = auto()
    """The view has ended."""


class _ViewChange(Enum):
    INITIALIZE = auto()
    """The view asks to be initialized."""
    INITIALIZED = auto()
    """The view says that it is initialized."""
    CLOSE = auto()
    """The host asks the view to end."""
    END = auto()
    """The view has ended, or is gone."""


_V, _C = ViewState, _ViewChange

VIEW: Mapping[ViewState, Mapping[_ViewChange, ViewState]] = {
    _V.LOADING: {_C.INITIALIZE: _V.INITIALIZING, _C.END: _V.CLOSED},
    _V.INITIALIZING: {_C.INITIALIZE: _V.INITIALIZING, _C.INITIALIZED: _V.READY, _C.END: _V.CLOSED},
    _V.READY: {_C.INITIALIZE: _V.INITIALIZING, _C.CLOSE: _V.CLOSING, _C.END: _V.CLOSED},
    _V.CLOSING: {_C.END: _V.CLOSED},
    _V.CLOSED: {},
}
"""The transitions of a view. A view that is not initialized has nothing to save, and ends at once."""


class CallPhase(Enum):
    """The phase of the tool call whose results a view shows."""

    DRAFTING = auto()
    """The model still writes the arguments."""
    RUNNING = auto()
    """The arguments are complete."""
    DONE = auto()
    """There is a result, or the call was cancelled."""


class _CallStep(Enum):
    PARTIAL_INPUT = "ui/notifications/tool-input-partial"
    INPUT = "ui/notifications/tool-input"
    RESULT = "ui/notifications/tool-result"
    CANCELLED = "ui/notifications/tool-cancelled"


_P, _S = CallPhase, _CallStep

CALL: Mapping[CallPhase, Mapping[_CallStep, CallPhase]] = {
    _P.DRAFTING: {_S.PARTIAL_INPUT: _P.DRAFTING, _S.INPUT: _P.RUNNING, _S.CANCELLED: _P.DONE},
    _P.RUNNING: {_S.RESULT: _P.DONE, _S.CANCELLED: _P.DONE},
    _P.DONE: {},
}
"""The transitions of the call."""


# --- Events ---


@frozen
class ViewReady:
    """The view is initialized."""

    info: types.Implementation
    """The name and version that the view states."""
    capabilities: McpUiAppCapabilities
    """The abilities that the view declares."""


@frozen
class ToolCallRequested:
    """The view wants to call a tool that its server makes for apps."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    name: str
    """The name of the tool."""
    arguments: JsonObject
    """The arguments of the tool."""


@frozen
class ServerRequested:
    """The view sends its server a request that only reads."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    method: str
    """The method of the request."""
    params: JsonObject
    """The params of the request, which have not been checked."""


@frozen
class LinkRequested:
    """The view wants the user to visit a page, or to write a mail."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    url: str
    """The URL, which the page has chosen: do not visit it before the user has seen it."""


@frozen
class MessageRequested:
    """The view wants to add a message of the user to the conversation."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    content: Sequence[types.ContentBlock]
    """The content of the message."""


@frozen
class DownloadRequested:
    """The view wants the user to save files: their contents, or links to resources of the server."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    contents: Sequence[types.EmbeddedResource | types.ResourceLink]
    """The files: their contents, or links to resources of the server."""


@frozen
class ModelContextChanged:
    """The view states what the model shall know; it replaces what the view has stated before."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    context: McpUiUpdateModelContextRequestParams
    """The content for the model, as text or other blocks and as JSON."""


@frozen
class DisplayModeRequested:
    """The view wants to be shown in another place. Answer with `Bridge.display_mode_is`."""

    id: RequestId
    """The id of the request, for `Bridge.respond` and `Bridge.refuse`."""
    mode: McpUiDisplayMode
    """The place: ``"inline"``, ``"fullscreen"`` or ``"pip"``."""


@frozen
class SizeChanged:
    """The content of the view has another size."""

    width: float | None
    """The width in CSS pixels; None if the view does not say."""
    height: float | None
    """The height in CSS pixels; None if the view does not say."""


@frozen
class ViewLogged:
    """The view has written a log message."""

    level: types.LoggingLevel
    """The severity, such as ``"info"``."""
    data: Any
    """The message: a string or any other JSON value. Do not trust it."""
    logger: str | None
    """The name of the logger of the page; None if it has none."""


@frozen
class CloseRequested:
    """The view wants to be closed; the host decides."""


@frozen
class RequestCancelled:
    """The view no longer needs the response to a request that was not answered. Call `Bridge.forget`."""

    id: RequestId
    """The id of the request."""


@frozen
class ViewClosed:
    """The view has ended: its frame may be removed."""


BridgeEvent: TypeAlias = (
    ViewReady
    | ToolCallRequested
    | ServerRequested
    | LinkRequested
    | MessageRequested
    | DownloadRequested
    | ModelContextChanged
    | DisplayModeRequested
    | SizeChanged
    | ViewLogged
    | CloseRequested
    | RequestCancelled
    | ViewClosed
)
"""An event of a view: something that it says or asks. Those with an `id` are requests: answer each with
`Bridge.respond` or `Bridge.refuse`."""


# --- Reading the params of a view ---


class _RefusalError(Exception):
    """A request cannot be carried out. Its arguments are the code and the message of the error."""


def _fault(message: str) -> _RefusalError:
    return _RefusalError(INVALID_PARAMS, message)


def _structure(value: Any, kind: type[T]) -> T:
    try:
        return types.structure(value, kind)
    except StructureError as error:
        raise _fault("; ".join(error.faults)) from None


def _read_server_request(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    del bridge
    passed: JsonObject = {name: params[name] for name in ("uri", "cursor") if name in params}  # no `_meta`
    return ServerRequested(request.id, request.method, passed)


def _read_tool_call(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    call = _structure(params, types.CallToolRequestParams)
    if "app" not in bridge.callers_of(call.name):
        raise _fault(f"the server has no tool {call.name[:200]!r} for apps")
    return ToolCallRequested(request.id, call.name, call.arguments or {})


def _read_link(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    del bridge
    url = _structure(params, McpUiOpenLinkRequestParams).url
    if not _is_link(url):
        raise _fault(
            f"$.url: expected the address of a web page or of mail, of at most {_MOST_OF_A_LINK} characters, without a "
            "user name"
        )
    return LinkRequested(request.id, url)


def _is_link(url: str) -> bool:
    if len(url) > _MOST_OF_A_LINK or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        is_web = parts.scheme != "mailto"
        return parts.scheme in _LINK_SCHEMES and is_web == bool(parts.hostname) and not (is_web and "@" in parts.netloc)
    except ValueError:
        return False


def _read_message(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    del bridge
    if is_object(content := params.get("content")):  # the first text of the specification has a single block
        params = {**params, "content": [content]}
    return MessageRequested(request.id, _structure(params, McpUiMessageRequestParams).content)


def _read_download(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    del bridge
    contents = _structure(params, McpUiDownloadFileRequestParams).contents
    if not contents:
        raise _fault("$.contents: there are none")
    return DownloadRequested(request.id, contents)


def _read_context(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    del bridge
    return ModelContextChanged(request.id, _structure(params, McpUiUpdateModelContextRequestParams))


def _read_display_mode(bridge: Bridge, request: JsonRpcRequest, params: JsonObject) -> BridgeEvent:
    del bridge
    return DisplayModeRequested(request.id, _structure(params, McpUiRequestDisplayModeRequestParams).mode)


_Reader: TypeAlias = "Callable[[Bridge, JsonRpcRequest, JsonObject], BridgeEvent]"

_REQUESTS: Mapping[str, tuple[str | None, _Reader]] = {
    "tools/call": ("server_tools", _read_tool_call),
    "resources/read": ("server_resources", _read_server_request),
    "resources/list": ("server_resources", _read_server_request),
    "resources/templates/list": ("server_resources", _read_server_request),
    "ui/open-link": ("open_links", _read_link),
    "ui/message": ("message", _read_message),
    "ui/download-file": ("download_file", _read_download),
    "ui/update-model-context": ("update_model_context", _read_context),
    "ui/request-display-mode": (None, _read_display_mode),
}
"""The requests of a view, each with the capability of the host that it needs, and the function that reads it."""


def _read_size(params: JsonObject) -> BridgeEvent | None:
    size = _structure(params, McpUiSizeChangedNotificationParams)
    given = [each for each in (size.width, size.height) if each is not None]
    return SizeChanged(size.width, size.height) if given and all(0 <= each <= _MOST_PIXELS for each in given) else None


def _read_log(params: JsonObject) -> BridgeEvent:
    message = _structure(params, types.LoggingMessageNotificationParams)
    return ViewLogged(message.level, message.data, message.logger)


def _read_close(params: JsonObject) -> BridgeEvent:
    del params
    return CloseRequested()


_NOTIFICATIONS: Mapping[str, tuple[str | None, Callable[[JsonObject], BridgeEvent | None]]] = {
    "notifications/message": ("logging", _read_log),
    "ui/notifications/size-changed": (None, _read_size),
    "ui/notifications/request-teardown": (None, _read_close),
}
"""The notifications of an initialized view, as `_REQUESTS`. One that does not fit is dropped."""


# --- The bridge ---

_PROXY_IS_READY = "ui/notifications/sandbox-proxy-ready"
_INITIALIZED = "ui/notifications/initialized"
_CONTEXT_CHANGED = "ui/notifications/host-context-changed"


@define(eq=False, kw_only=True)
class Bridge:
    """The host's side of the messages of one view: a state machine that does no I/O.

    ::

        for event in bridge.receive(message):
            match event:
                case LinkRequested(id=id, url=url):
                    bridge.refuse(id, "this host opens no links")
                ...
        while bridge.outgoing:
            await send(bridge.outgoing.popleft())

    Args:
        app: the page that a sandbox gets when it asks for it; None if the page is loaded in another way.
        info: the name and version of the host.
        capabilities: what the host supports (``hostCapabilities``). Methods of other capabilities are refused.
        context: what the view learns about its host (``hostContext``).
        tools: the tools of the server.
        granted: the permissions that the host grants the page, if the page asks for them.
        max_message_bytes: the size of the largest message of the view that is accepted.
        max_requests: the number of requests of the view that may be open at once.

    Specification: https://modelcontextprotocol.io/extensions/apps/overview
    """

    app: App | None = None
    info: types.Implementation
    capabilities: McpUiHostCapabilities = field(factory=McpUiHostCapabilities)
    context: McpUiHostContext = field(factory=McpUiHostContext)
    tools: Iterable[types.Tool] = ()
    granted: Iterable[AppPermission] = ()
    max_message_bytes: int = 16 * 1024 * 1024
    max_requests: int = 32
    state: ViewState = field(default=ViewState.LOADING, init=False)
    """The state of the view."""
    phase: CallPhase = field(default=CallPhase.DRAFTING, init=False)
    """The phase of the call whose results the view shows."""
    outgoing: deque[JsonObject] = field(factory=deque[JsonObject], init=False)
    """The messages to send to the view, in this order; take them from the left."""
    dropped: int = field(default=0, init=False)
    """The number of messages of the view that were dropped because they do not fit."""
    _callers: dict[str, frozenset[str]] = field(factory=dict[str, frozenset[str]], init=False)
    _open: set[RequestId] = field(factory=set[RequestId], init=False)
    """The requests of the view without a response."""
    _closing_id: RequestId | None = field(default=None, init=False)
    """The id of the request with which the host asks the view to end."""
    _call: list[JsonObject] = field(factory=list[JsonObject], init=False)
    """The notifications about the call that a view needs which is initialized now (rule 2)."""
    _has_new_context: bool = field(default=False, init=False)
    """True if the context has changed since the view, which is not initialized yet, has got it."""
    _view: McpUiInitializeRequestParams | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.use_tools(self.tools)

    def use_tools(self, tools: Iterable[types.Tool]) -> None:
        """Take note of the tools that the server has now."""
        self.tools = [*tools]
        self._callers = {tool.name: visibility_of(tool) for tool in self.tools}

    def callers_of(self, name: str) -> frozenset[str]:
        """Return the callers for which the server makes a tool; empty if it has none of this name."""
        return self._callers.get(name, frozenset())

    # --- From the view ---

    def receive(self, message: Any) -> Sequence[BridgeEvent]:
        """Take a message of the view, a JSON value; return what the host has to do, and add replies to `outgoing`.

        Nothing is raised for what a view does. What does not fit is refused, if it is a request, and else dropped.
        """
        if self.state is ViewState.CLOSED:
            return ()
        try:
            is_too_large = len(encode(message)) > self.max_message_bytes
        except (NotJsonError, RecursionError):
            return self._drop()
        if is_too_large:
            return self._refuse_too_large(message)
        match parse_message(message):
            case JsonRpcRequest() as request:
                return self._take_request(request)
            case Notification(method=method, params=params):
                return self._take_notification(method, params or {})
            case Reply(id=id) | ErrorReply(id=id) if id == self._closing_id:
                return self._end()
            case Malformed(id=id, code=code, fault=text) if id is not None:
                self._send_error(id, code, text)
                return ()
            case _:
                return self._drop()

    def view_is_gone(self) -> Sequence[BridgeEvent]:
        """Take note that the view can send nothing any more, for example because its frame was removed."""
        return () if self.state is ViewState.CLOSED else self._end()

    def _refuse_too_large(self, message: Any) -> Sequence[BridgeEvent]:
        id: Any = message.get("id") if is_object(message) and "method" in message else None
        if not is_id(id):
            return self._drop()
        self._send_error(id, INVALID_REQUEST, f"the message is larger than {self.max_message_bytes} bytes")
        return ()

    def _take_request(self, request: JsonRpcRequest) -> Sequence[BridgeEvent]:
        try:
            if request.id in self._open:
                raise _RefusalError(INVALID_REQUEST, f"the id {request.id!r:.80} is that of an open request")  # noqa: TRY301 # the rest is in functions
            match request.method:
                case "ping":
                    self._send({"id": request.id, "result": {}})
                    return ()
                case "ui/initialize":
                    return self._initialize(request.id, request.params or {})
                case _:
                    event = self._read_request(request)
        except _RefusalError as refusal:
            code, text = refusal.args
            self._send_error(request.id, code, text)
            return ()
        self._open.add(request.id)
        return (event,)

    def _read_request(self, request: JsonRpcRequest) -> BridgeEvent:
        method = request.method
        if method not in _REQUESTS:
            raise _RefusalError(METHOD_NOT_FOUND, f"unknown method {method[:200]!r}")
        if self.state not in {ViewState.READY, ViewState.CLOSING}:
            raise _RefusalError(INVALID_REQUEST, f"{method!r} before {_INITIALIZED!r}")
        capability, read = _REQUESTS[method]
        if not self._supports(capability):
            raise _RefusalError(METHOD_NOT_FOUND, f"this host does not support {method!r}")
        if len(self._open) >= self.max_requests:
            raise _RefusalError(REFUSED, f"too many open requests: at most {self.max_requests} are possible")
        return read(self, request, request.params or {})

    def _take_notification(self, method: str, params: JsonObject) -> Sequence[BridgeEvent]:
        if method == _PROXY_IS_READY and self.app is not None and self.state is ViewState.LOADING:
            self._send(_notification("ui/notifications/sandbox-resource-ready", self._page(self.app)))
            return ()
        if method == _INITIALIZED and self.state is ViewState.INITIALIZING:
            return self._become_ready()
        if method == "notifications/cancelled":
            id: Any = params.get("requestId")
            return (RequestCancelled(id),) if is_id(id) and id in self._open else ()
        capability, read = _NOTIFICATIONS.get(method, (None, None))
        if read is None or self.state not in {ViewState.READY, ViewState.CLOSING}:
            return self._drop()
        try:
            event = read(params) if self._supports(capability) else None
        except _RefusalError:
            event = None
        return self._drop() if event is None else (event,)

    def _supports(self, capability: str | None) -> bool:
        return capability is None or getattr(self.capabilities, capability) is not None

    def _page(self, app: App) -> JsonObject:
        permissions: JsonObject = {PERMISSIONS[each]: {} for each in self.granted if each in app.permissions}
        return {"html": app.html, "csp": app.csp.to_wire(), "permissions": permissions}

    def _initialize(self, id: RequestId, params: JsonObject) -> Sequence[BridgeEvent]:
        if _ViewChange.INITIALIZE not in VIEW[self.state]:
            raise _RefusalError(INVALID_REQUEST, "the view is being closed")
        self._view = view = _structure(params, McpUiInitializeRequestParams)
        self._advance(_ViewChange.INITIALIZE)
        self._has_new_context = False
        result = McpUiInitializeResult(
            protocol_version=view.protocol_version if view.protocol_version in VERSIONS else VERSIONS[-1],
            host_info=self.info,
            host_capabilities=self.capabilities,
            host_context=self.context,
        )
        self._send({"id": id, "result": types.unstructure(result)})
        return [RequestCancelled(each) for each in self._open]  # by the page that was there before

    def _become_ready(self) -> Sequence[BridgeEvent]:
        assert self._view is not None
        self._advance(_ViewChange.INITIALIZED)
        if self._has_new_context:
            self._send(_notification(_CONTEXT_CHANGED, _json(self.context)))
        for message in self._call:
            self._send(message)
        return (ViewReady(self._view.app_info, self._view.app_capabilities),)

    def _end(self) -> Sequence[BridgeEvent]:
        self._advance(_ViewChange.END)
        self.outgoing.clear()
        self._open.clear()
        return (ViewClosed(),)

    def _drop(self) -> Sequence[BridgeEvent]:
        self.dropped += 1
        return ()

    # --- Answers to the view ---

    def respond(self, id: RequestId, result: JsonObject | None = None) -> None:
        """Answer a request of the view; do nothing if the view no longer waits for it.

        Args:
            id: the id of the event that reported the request.
            result: the JSON of the result; None for an empty one.
        """
        if self._is_answered(id):
            self._send({"id": id, "result": result or {}})

    def refuse(self, id: RequestId, message: str, *, code: int = REFUSED, data: Any = types.UNSET) -> None:
        """Answer a request of the view with an error; do nothing if the view no longer waits for it.

        Args:
            id: the id of the event that reported the request.
            message: one sentence, which the page can read.
            code: the number of the JSON-RPC error.
            data: any JSON value with details; omitted by default.
        """
        if self._is_answered(id):
            self._send_error(id, code, message, data)

    def forget(self, id: RequestId) -> None:
        """Forget the request *id*, which the view has cancelled: no response to it is sent any more."""
        self._open.discard(id)

    def display_mode_is(self, id: RequestId, mode: McpUiDisplayMode) -> None:
        """Answer a request for another place with the place that the view has now, and tell the view if it is new.

        A view is never put into a place that it does not declare; it then stays where it is.

        Args:
            id: the id of the `DisplayModeRequested` event.
            mode: the place that the host has chosen: ``"inline"``, ``"fullscreen"`` or ``"pip"``.

        Raises:
            StructureError: there is no such place.
        """
        assert self._view is not None
        declared, now = self._view.app_capabilities.available_display_modes, self.context.display_mode or "inline"
        if declared is not None and mode not in declared:
            mode = now
        if mode != now:
            self.change_context(McpUiHostContext(display_mode=mode))
        self.respond(id, {"mode": mode})

    def _is_answered(self, id: RequestId) -> bool:
        is_open = id in self._open
        self._open.discard(id)
        return is_open

    # --- To the view ---

    def tool_input_partial(self, arguments: Mapping[str, Any]) -> None:
        """Tell the view the arguments that the model has written so far; each replaces the one before.

        Raises:
            LocalProtocolError: the arguments are complete already.
        """
        self._report(_CallStep.PARTIAL_INPUT, {"arguments": dict(arguments)})

    def tool_input(self, arguments: Mapping[str, Any]) -> None:
        """Tell the view the arguments of the call, once.

        Raises:
            LocalProtocolError: they were told already, or the call was cancelled.
        """
        self._report(_CallStep.INPUT, {"arguments": dict(arguments)})

    def tool_result(self, result: types.CallToolResult) -> None:
        """Give the view the result of the call, once.

        Raises:
            LocalProtocolError: the view does not know the arguments, or the call is over.
        """
        self._report(_CallStep.RESULT, _json(result))

    def tool_cancelled(self, reason: str | None = None) -> None:
        """Tell the view that there will be no result.

        Args:
            reason: one sentence for the page; None to give no reason.

        Raises:
            LocalProtocolError: the call is over.
        """
        self._report(_CallStep.CANCELLED, {} if reason is None else {"reason": reason})

    def change_context(self, changes: McpUiHostContext) -> None:
        """Change those members of the context that *changes* have, such as the theme, and tell the view."""
        new = _json(changes)
        self.context = types.structure({**_json(self.context), **new}, McpUiHostContext)
        if self.state is ViewState.INITIALIZING:
            self._has_new_context = True
        elif self.state is ViewState.READY:
            self._send(_notification(_CONTEXT_CHANGED, new))

    def close(self, reason: str | None = None) -> Sequence[BridgeEvent]:
        """Ask the view to end, and to save what it has; a later `ViewClosed` says that it has ended.

        A view that is not initialized ends at once: the `ViewClosed` event is returned. Asking again changes nothing.

        Args:
            reason: one sentence for the page; None to give no reason.
        """
        if self.state in {ViewState.CLOSING, ViewState.CLOSED}:
            return ()
        if self.state is not ViewState.READY:
            return self._end()
        self._advance(_ViewChange.CLOSE)
        self._closing_id = "close"
        params = {} if reason is None else {"reason": reason}
        self._send({"id": self._closing_id, "method": "ui/resource-teardown", "params": params})
        return ()

    def _report(self, step: _CallStep, params: JsonObject) -> None:
        if step not in CALL[self.phase]:
            raise LocalProtocolError(f"{step.value!r} is not possible: the call is {self.phase.name}")
        self.phase = CALL[self.phase][step]
        message = _notification(step.value, params)
        self._call = [*(self._call if step in {_CallStep.RESULT, _CallStep.CANCELLED} else ()), message]
        if self.state is ViewState.READY:
            self._send(message)

    def _advance(self, change: _ViewChange) -> None:
        self.state = VIEW[self.state][change]

    def _send(self, members: JsonObject) -> None:
        self.outgoing.append({"jsonrpc": "2.0", **members})

    def _send_error(self, id: RequestId, code: int, message: str, data: Any = types.UNSET) -> None:
        error = {"code": code, "message": message} | ({} if data is types.UNSET else {"data": data})
        self._send({"id": id, "error": error})


def _json(message: object) -> JsonObject:
    return cast("JsonObject", types.unstructure(message))


def _notification(method: str, params: JsonObject) -> JsonObject:
    return {"method": method, "params": params}
