"""Openers of clients: `open_*` for a block, `start_*` for a nursery of the caller.

All of them run the same coroutine, which owns the client's connection from beginning to end. Closing a client asks this
coroutine to end; any task may do so, in any order and any number of times. An opener raises a failure to connect
unwrapped. If a connection is lost later, the calls that need it fail, and the block continues.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, cast, get_args

import trio
from attrs import field, frozen

from .. import transports, types
from .._capabilities import load_capability
from .._errors import ConnectionBroken, RequestTimedOut, ResponseLost, TrioMcpError
from .._extensions import CORE_RESULT_TYPES, check_custom, checked_settings
from .._misuse import async_block, check_class, did_you_mean
from .._other_sdks import option_cure
from .._user_types import TypedFunction, look_at
from .._util import owned_nursery
from .._version import VERSION
from ..abc import Answerer, ClientAuth, Tap, TransportOpener
from ..peer import HandlerPool, Limits
from ..wire import LIST_CHANGES, JsonObject
from ._answer import Answering, CustomMessages, ResolvedType, ResultInProgress
from ._cache import CacheOption, check_cache, connection_cache
from ._callbacks import FORMS_ONLY, Callbacks, Consent, ElicitMode, OnElicit, OnElicitComplete, OnLog, OnSample, Roots
from ._client import Client, Lifetime
from ._connection import Connection
from ._negotiate import Negotiation
from ._probe_memory import Beginning, ProbeChoice, WrongBeginningError, check_probe
from ._timing import RequestClocks, TimeLimits

if TYPE_CHECKING:
    from .._capabilities import AppHost
    from ..transports import HttpEngine, HttpxClient, StderrTarget

__all__ = [
    "ClientOptions",
    "CustomHandler",
    "Extension",
    "Resolve",
    "Target",
    "check_options",
    "open_client",
    "open_http_client",
    "open_memory_client",
    "open_stdio_client",
    "open_stream_client",
    "run_client",
    "start_client",
    "start_http_client",
    "start_memory_client",
    "start_stdio_client",
    "start_stream_client",
]


Resolve: TypeAlias = Callable[[Client, JsonObject], "Awaitable[JsonObject] | ResultInProgress"]
"""A function that takes a result of an extension's type, as received, and returns the complete result as JSON, at the
end of an awaitable or of a `ResultInProgress`."""
CustomHandler: TypeAlias = Callable[..., Awaitable[Any]]
"""A function that takes the params of a message, as its parameter is annotated, and for a request returns the result.
"""


@frozen(eq=False)
class Extension:
    """An extension of the protocol that a client understands.

    ::

        async def resolve(client: Client, result: JsonObject) -> JsonObject:
            return await client.request("com.example/wait", {"id": result["id"]}, dict[str, Any])

        Extension("com.example/tickets", result_types={"com.example/ticket": resolve})

    Args:
        id: its name, with a prefix: ``"com.example/rooms"``.
        settings: this client's settings of it.
        result_types: functions by ``resultType``, for the result types that the extension adds to tool calls and to
            methods that the specification does not have. Each is an async function that takes the client and the
            result's JSON and returns the JSON of the complete result; an exception it raises is raised by the call. No
            time limit applies to it.
        result_methods: the methods whose results may have these types, if they are fewer. A result of such a type for
            another method breaks the protocol.

    Raises:
        ValueError: the id is not a valid name, or a result type is one of the protocol's own.
    """

    id: str
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    result_types: Mapping[str, Resolve] = field(factory=dict[str, Resolve])
    result_methods: Collection[str] | None = None

    def __attrs_post_init__(self) -> None:
        checked_settings({self.id: self.settings}, "settings")
        for taken in sorted(self.result_types.keys() & set(CORE_RESULT_TYPES)):
            raise ValueError(f"{taken!r} is a result type of the protocol, not of {self.id!r}")


def _follow_task(client: Client, result: JsonObject) -> ResultInProgress:
    followed: ResultInProgress = load_capability("tasks").FollowedTask(client, result)
    return followed


_TASKS = Extension("io.modelcontextprotocol/tasks", result_types={"task": _follow_task}, result_methods={"tools/call"})

Extensions: TypeAlias = "Mapping[str, Mapping[str, Any]] | Sequence[Extension]"
"""The extensions that a client understands: settings by id, or `Extension` objects."""


class ClientOptions(TypedDict, total=False):
    """The options of every opener of a client. All are keyword arguments and optional; the default of each is None.

    The callbacks are functions of these forms::

        async def on_elicit(question: types.ElicitRequestParams) -> types.ElicitResult:
            return types.ElicitResult(action="accept", content={"count": 2})

        async def on_elicit_complete(visit: types.ElicitationCompleteNotificationParams) -> None:
            print("finished on the page of", visit.elicitation_id)

        async def on_sample(question: types.CreateMessageRequestParams) -> types.CreateMessageResult:
            text = types.TextContent(text="Paris")
            return types.CreateMessageResult(role="assistant", content=text, model="my-model")

        async def roots() -> list[types.Root]:
            return [types.Root(uri="file:///home/ada/project")]

        async def on_log(message: types.LoggingMessageNotificationParams) -> None:
            print(message.level, message.data)

        async def consent(request: Consentable) -> Consentable:
            if isinstance(request, types.CallToolRequestParams) and request.name == "delete":
                raise ConsentRefused("deleting is not allowed")
            return request

        async def answer_ping(params: dict[str, Any]) -> dict[str, Any]:
            return {"seen": params}

        def tap(direction: Direction, message: bytes) -> None:
            print(direction, message)

        async with open_client(
            target,
            on_elicit=on_elicit,
            on_elicit_complete=on_elicit_complete,
            on_sample=on_sample,
            roots=roots,
            on_log=on_log,
            consent=consent,
            methods={"com.example/ping": answer_ping},
            tap=tap,
        ) as client:
            ...

    """

    revision: str | None
    """The only protocol revision to speak; by default the client finds out the newest one that both sides speak."""
    probe: ProbeChoice | None
    """The way in which the client finds that out. It probes a server with a request of the newest revision, and makes
    the handshake of earlier revisions if the server does not know that request.

    ``"remember"``, the default: a server that was started by a command or is reached by a URL, and that knows only the
    handshake, gets no probe for a day. It is remembered in a small file in the user's cache folder
    (``trio-mcp/servers.json``), and probed again at once if its name or version changes, or the handshake fails.
    ``"always"``: probe at each connection, and remember nothing. ``"never"``: begin with the handshake. A server of
    both eras then speaks an earlier revision; one that refuses the handshake and names newer revisions is used in them.
    """
    info: types.Implementation | None
    """The name and version that this client states to servers."""
    limits: Limits | None
    """The limits of the connection's memory and rates."""
    time_limits: TimeLimits | None
    """The time limits of requests."""
    on_elicit: OnElicit | None
    """Asks the user for the server; declares the capability.

    Accepted content is checked against the form before it is sent; see also `elicit_modes` and `apply_form_defaults`.
    While the user is asked, no time limit runs. If the callback raises an exception for a question in a result
    (2026-07-28), the request that returned it raises the exception and is not sent again; in earlier revisions the
    client answers the server with an error (that of an `McpError`, else -32603), and the request continues. The same
    applies to `on_sample` and `roots`.
    """
    elicit_modes: Sequence[ElicitMode] | None
    """The ways in which `on_elicit` can ask: ``"form"`` by default, ``"url"`` if it can have the user visit a page as
    well. It must show the whole URL and open nothing without the user's consent.
    """
    apply_form_defaults: bool | None
    """Use the defaults of a form for members that are missing in accepted content."""
    on_elicit_complete: OnElicitComplete | None
    """Notified when the user has finished with a page that the server named in a question or in the data of an error
    -32042 (`types.URLElicitationRequiredErrorData`). Only servers of 2025-11-25 report that.
    """
    on_sample: OnSample | None
    """Asks the host's model for the server; declares the capability."""
    sample_with_tools: bool | None
    """Declare that `on_sample` understands `tools` and `tool_choice`; without it, requests with them are refused."""
    sample_with_context: bool | None
    """Declare that `on_sample` understands `include_context`."""
    roots: Roots | None
    """The folders and files that are relevant to the server; declares the capability."""
    on_log: OnLog | None
    """Receives the server's log messages, one after the other, in a task of the connection: all of them until
    `Client.set_log_level` sets a level.
    """
    consent: Consent | None
    """Sees each tool call before it is sent, and each question to the user or the model before it is asked.

    It is awaited with `types.CallToolRequestParams`, `types.ElicitRequestFormParams`, `types.ElicitRequestURLParams` or
    `types.CreateMessageRequestParams`, and returns the same object or an edited copy (`attrs.evolve`), which is then
    used; to refuse, it raises `ConsentRefused`. Any other exception is treated as if a callback, or the call, had
    raised it. A call is shown once, not again for each round of questions. No time limit runs meanwhile.
    """
    cache: CacheOption
    """The cache for results that a server of 2026-07-28 or later allows to be kept. By default each client has a
    `ResponseCache` of its own; False disables caching.
    """
    extensions: Extensions | None
    """The extensions of the protocol that this client understands and declares."""
    apps: AppHost | None
    """Declares that this client shows the apps of servers to its user (`Client.app_of`, `trio_mcp.apps.open_view`)."""
    tasks: bool | None
    """Take tasks (2026-07-28): a server may make a task of a tool call, and the call then follows that task to its end,
    without a time limit. Messages of the task are progress of the call, the callbacks answer its questions, and a
    cancelled call cancels it. Without this, calls are answered when they are done, and tools that run only as tasks
    refuse them. `Client.start_task` works without it.
    """
    experimental: Mapping[str, Mapping[str, Any]] | None
    """Non-standard capabilities to declare, by name."""
    methods: Mapping[str, CustomHandler] | None
    """Async functions that answer custom requests of the server, by method: each takes the params, as its parameter is
    annotated, and returns an object. Only servers of revisions before 2026-07-28 send requests.
    """
    notifications: Mapping[str, CustomHandler] | None
    """Async functions that take custom notifications of the server, by method: one after the other, in the order of
    arrival, in a task of the connection. An exception is logged, and affects one notification; so does the time limit,
    `Limits.notification_seconds`. The three notifications of changes of lists may be named too
    (``"notifications/tools/list_changed"``), whether or not the server has declared them; servers of 2026-07-28 send
    them only while `Client.listen` asks for them.
    """
    tap: Tap | None
    """Called with ``"sent"`` or ``"received"`` and each message as bytes, without its newline, when it passes.

    Synchronous: the connection waits for it. If it raises an exception, that is logged once, and it is not called
    again. It does not see a message that is too large to be received, or that is not sent or received as a whole; it
    sees a server's whole line that is not a message. Between a client and a server in one process there are no bytes;
    it sees what they would be. Messages may contain secrets.
    """
    stderr: StderrTarget
    """The destination of the standard error of a server that is run as a child process; no other targets have one.

    By default it is passed on to the standard error of this process as it arrives. `subprocess.DEVNULL` drops it; a
    path names a file to append to, in UTF-8; a file that is open for text is written to, and not closed; a plain
    function is called in the event loop with each line, without its newline, and must not block. If the function raises
    an exception, that is logged once, and it is not called again. The last lines are always kept for `ServerExited`.
    """


_CLASSES = (
    ("limits", Limits, "Limits(max_in_flight=100)"),
    ("time_limits", TimeLimits, "TimeLimits(total=60)"),
)
"""The options of one class, each with an example."""
_OPENER_OF_OPTION: Mapping[str, str] = {
    **dict.fromkeys(("auth", "engine", "headers", "http_client"), "open_http_client"),
    **dict.fromkeys(("cwd", "env"), "open_stdio_client"),
}
"""The openers with options of their own."""


def _cure_of_option(name: str) -> str:
    """Return what the user may do about an unknown option; empty if that is unknown."""
    if name in _OPENER_OF_OPTION:
        return f"; {_OPENER_OF_OPTION[name]} takes {name!r}"
    return option_cure("open_client", name) or did_you_mean(name, ClientOptions.__annotations__)


def check_options(options: ClientOptions) -> None:
    """Check options before anything is connected.

    Raises:
        TypeError: an option does not exist: a callback under a misspelt name would never be called. Or an option has a
            wrong type.
        ValueError: the revision, a mode of elicitation, or a choice of `probe` does not exist.
    """
    unknown = sorted(options.keys() - ClientOptions.__annotations__.keys())
    if unknown:
        cures = "".join(map(_cure_of_option, unknown))
        raise TypeError(f"unknown client option {', '.join(map(repr, unknown))}; see ClientOptions{cures}")
    given = cast("Mapping[str, object]", options)
    for name, expected, example in _CLASSES:
        if given.get(name) is not None:
            check_class(name, given[name], expected, example)
    modes = options.get("elicit_modes")
    if modes is not None and (isinstance(modes, str) or not modes or not {*modes} <= {*get_args(ElicitMode)}):
        raise ValueError(f"elicit_modes={modes!r}: expected a list of one or both of {get_args(ElicitMode)!r}")
    check_cache(options.get("cache"))
    if options.get("stderr") is not None:  # few programs redirect it
        transports.check_stderr(options.get("stderr"))
    check_probe(options.get("probe"))
    _custom_messages(options)
    pinned = options.get("revision")
    if pinned is not None and pinned not in types.REVISIONS:
        raise ValueError(f"revision={pinned!r}: this package supports {', '.join(types.REVISIONS)}")


def _custom_messages(options: ClientOptions) -> CustomMessages:
    """Check the options for custom messages, and return them as one object.

    Raises:
        ValueError: a name is invalid or is the specification's, or two extensions claim the same name.
        TypeError: a handler is not an async function that can be called with params.
    """
    settings: dict[str, Mapping[str, Any]] = {}
    resolvers: dict[str, ResolvedType] = {}
    capabilities = (*_of_apps(options.get("apps")), *([_TASKS] if options.get("tasks") else ()))
    for each in (*_listed(options.get("extensions") or {}), *capabilities):
        if each.id in settings:
            raise ValueError(f"extensions: {each.id!r} is given twice")
        for kind, resolve in each.result_types.items():
            if kind in resolvers:
                raise ValueError(f"extensions: two extensions have results of type {kind!r}")
            resolvers[kind] = ResolvedType(resolve, each.result_methods)
        settings[each.id] = each.settings
    methods, notifications = options.get("methods") or {}, options.get("notifications") or {}
    for name in methods:
        check_custom(name, "method")
    for name in notifications.keys() - LIST_CHANGES:
        check_custom(name, "notification")
    return CustomMessages(
        settings,
        {name: dict(each) for name, each in (options.get("experimental") or {}).items()},
        {name: _handler(handler, f"methods[{name!r}]") for name, handler in methods.items()},
        {name: _handler(handler, f"notifications[{name!r}]") for name, handler in notifications.items()},
        resolvers,
    )


def _listed(extensions: Extensions) -> Sequence[Extension]:
    if isinstance(extensions, Mapping):
        return [Extension(id, settings) for id, settings in extensions.items()]
    return extensions


def _of_apps(host: AppHost | None) -> Sequence[Extension]:
    if host is None:
        return ()
    check_class("apps", host, load_capability("apps").AppHost, "AppHost()")
    return [host.extension]


def _handler(handler: CustomHandler, label: str) -> TypedFunction:
    looked_at = look_at(handler, label)
    if not looked_at.is_async:
        raise TypeError(f"{label}: {handler!r} must be an async function")
    return looked_at


async def run_client(
    opener: TransportOpener, options: ClientOptions, *, task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED
) -> None:
    """Connect, agree on a revision, report the client as started, and keep it until it is closed or cancelled."""
    check_options(options)
    beginning = Beginning.of(opener, options.get("probe"), options.get("revision"))
    try:
        await _connect_and_hold(opener, options, task_status, beginning)
    except WrongBeginningError:
        await _connect_and_hold(opener, options, task_status, beginning)


async def _connect_and_hold(
    opener: TransportOpener, options: ClientOptions, task_status: trio.TaskStatus[Client], beginning: Beginning
) -> None:
    limits = options.get("limits") or Limits()
    clocks = RequestClocks(options.get("time_limits") or TimeLimits())
    callbacks = Callbacks(
        on_elicit=options.get("on_elicit"),
        elicit_modes=options.get("elicit_modes") or FORMS_ONLY,
        apply_form_defaults=options.get("apply_form_defaults") or False,
        on_elicit_complete=options.get("on_elicit_complete"),
        on_sample=options.get("on_sample"),
        sample_with_tools=options.get("sample_with_tools") or False,
        sample_with_context=options.get("sample_with_context") or False,
        roots=options.get("roots"),
        on_log=options.get("on_log"),
        consent=options.get("consent"),
    )
    custom = _custom_messages(options)
    with ExitStack() as when_all_tasks_have_ended:
        async with owned_nursery() as nursery:
            connection = Connection(
                options.get("info") or types.Implementation(name="trio-mcp", version=VERSION),
                custom.declared_with(callbacks.capabilities()),
                limits,
                clocks,
                Answering(callbacks, clocks, HandlerPool(nursery, limits)),
                transports.guarded_tap(options.get("tap")),
                connection_cache(options.get("cache")),
                custom,
            )
            lifetime = Lifetime()
            client = custom.client = Client(connection, lifetime)
            when_all_tasks_have_ended.callback(lifetime.end)
            when_all_tasks_have_ended.callback(connection.close)
            async with opener(connection) as transport:
                connection.use_transport(transport)
                await _agree(connection, options.get("revision"), beginning)
                connection.answering.start(nursery, connection.revision)
                custom.start(nursery, limits.notification_seconds)
                task_status.started(client)
                await lifetime.closing.wait()


async def _agree(connection: Connection, pinned: str | None, beginning: Beginning) -> None:
    clocks, negotiation = connection.clocks, Negotiation.of(connection, pinned)
    limit = clocks.limits.connect
    with clocks.timeouts.within(limit):
        try:
            await negotiation.agree(probe=beginning.probes)
        except TrioMcpError as failure:
            beginning.failed(negotiation, failure)
            if isinstance(failure, ResponseLost):  # without an agreement there is no connection
                raise ConnectionBroken(str(failure)) from failure
            raise
        beginning.agreed(negotiation)
        return
    raise RequestTimedOut(f"the server has not agreed to a revision within {limit:g} s (TimeLimits.connect)")


Target: TypeAlias = (
    "str | Sequence[str | os.PathLike[str]] | Mapping[str, Any] | trio.abc.Stream | Answerer | TransportOpener"
)
"""The targets of `open_client`: a URL, a command, one entry of an ``mcpServers`` table, a byte stream, a server in this
process, or a custom `abc.TransportOpener`.
"""


@async_block("async with open_client(...) as client:")
async def open_client(target: Target, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect to a server, for as long as the block lasts.

    Leave the block in the task that entered it, innermost first; where that is too strict, use `start_client`. Inside
    an async generator, close the generator with `contextlib.aclosing`. An exception of the block is raised unwrapped.

    Args:
        target: a string is a URL, a list is a command to run, a mapping is one entry of an ``mcpServers`` table, a
            `trio.abc.Stream` is a link, a `Server` is in memory, and a function is an `abc.TransportOpener`, for a
            custom transport.
        options: see `ClientOptions`.

    Raises:
        OSError: the command cannot be started.
        UnsupportedRevision: there is no revision that both sides speak.
        ServerExited: the server process exited while connecting.
        ConnectionBroken: the connection ended while connecting, or the URL cannot be reached.
        HttpStatusError: the URL is not that of an MCP server, a proxy has answered, or authentication is required.
        AuthorizationFailed: authentication is required, and the `auth` of `open_http_client` cannot provide it.
        RequestTimedOut: the server did not answer in time.
        ErrorResponse: the server refused the handshake.
        RemoteProtocolError: the server's answer breaks the protocol.
        TypeError: *target* is of a type that cannot be connected to.
        ValueError: *target* is a string and not an ``http`` or ``https`` URL, or an invalid entry.
    """
    async with _opened(_opener_for(target, options), options) as client:
        yield client


async def start_client(nursery: trio.Nursery, target: Target, **options: Unpack[ClientOptions]) -> Client:
    """Connect to a server in a task of *nursery*, until `Client.aclose` or the nursery's end.

    Takes the arguments of `open_client`, and raises the same exceptions. Clients may be closed in any order, from any
    task.
    """
    return await _started(nursery, _opener_for(target, options), options)


@async_block("async with open_stdio_client(...) as client:")
async def open_stdio_client(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Run a server as a child process and connect to it; see `open_client`.

    Args:
        command: the program and its arguments; no shell is involved.
        env: environment variables, in addition to the few that are passed on (PATH, HOME, LANG and the like).
        cwd: the child's working directory; this process's by default.
    """
    opener = transports.stdio_transport(transports.StdioServer(command, env=env, cwd=cwd), options.get("stderr"))
    async with _opened(opener, options) as client:
        yield client


async def start_stdio_client(
    nursery: trio.Nursery,
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Unpack[ClientOptions],
) -> Client:
    """Run a server as a child process and connect to it in a task of *nursery*; see `open_stdio_client`."""
    opener = transports.stdio_transport(transports.StdioServer(command, env=env, cwd=cwd), options.get("stderr"))
    return await _started(nursery, opener, options)


@async_block("async with open_http_client(...) as client:")
async def open_http_client(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Connect to a server by its URL; see `open_client`. The protocol of the server is detected, HTTP+SSE included.

    A ``ws`` or ``wss`` URL opens a WebSocket, over which all messages are sent. It does not use proxies.

    If an HTTP exchange breaks, the request that it carried fails with `ResponseLost`, and others continue. Redirects
    to the same origin that keep the request (307, 308) are followed; others raise `HttpStatusError`.

    Args:
        url: the URL of the server: ``"https://example.org/mcp"``.
        headers: fields to send with each request, or when a WebSocket is opened, such as ``{"X-Tenant": "a"}``.
        auth: provides credentials: `OAuth`, `ClientCredentials`, `Bearer` and so on, or a custom `abc.ClientAuth`. It
            is used when the server requires authentication, and whenever tokens have to be renewed. While a person
            signs in, no time limit runs.
        http_client: a `httpx2.AsyncClient` that carries the requests, for custom proxies and certificates. It is not
            closed. By default each client has its own, configured by the environment.
        engine: carries the requests instead, such as `testing.AsgiEngine`, an ASGI application in this process.

    Raises:
        ValueError: *url* is not an ``http``, ``https``, ``ws`` or ``wss`` URL, or contains a password; or a header is
            invalid, or is one that *auth* sends; or *http_client* or *engine* is given for a WebSocket. Otherwise it
            raises the exceptions of `open_client`.
    """
    opener = transports.http_transport(url, headers=headers, auth=auth, http_client=http_client, engine=engine)
    async with _opened(opener, options) as client:
        yield client


async def start_http_client(
    nursery: trio.Nursery,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    http_client: HttpxClient | None = None,
    engine: HttpEngine | None = None,
    **options: Unpack[ClientOptions],
) -> Client:
    """Connect to a server by its URL in a task of *nursery*; see `open_http_client`."""
    opener = transports.http_transport(url, headers=headers, auth=auth, http_client=http_client, engine=engine)
    return await _started(nursery, opener, options)


@async_block("async with open_stream_client(...) as client:")
async def open_stream_client(stream: trio.abc.Stream, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect over a byte stream (a socket, a TLS stream, pipes), which is closed at the end; see `open_client`."""
    async with _opened(transports.stream_transport(stream), options) as client:
        yield client


async def start_stream_client(
    nursery: trio.Nursery, stream: trio.abc.Stream, **options: Unpack[ClientOptions]
) -> Client:
    """Connect over a byte stream in a task of *nursery*; see `open_stream_client`."""
    return await _started(nursery, transports.stream_transport(stream), options)


@async_block("async with open_memory_client(...) as client:")
async def open_memory_client(server: Answerer, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Serve *server* in this process and connect to it without bytes in between; see `open_client`."""
    async with _opened(transports.memory_transport(server), options) as client:
        yield client


async def start_memory_client(nursery: trio.Nursery, server: Answerer, **options: Unpack[ClientOptions]) -> Client:
    """Serve *server* in this process and connect to it in a task of *nursery*; see `open_memory_client`."""
    return await _started(nursery, transports.memory_transport(server), options)


@asynccontextmanager
async def _opened(opener: TransportOpener, options: ClientOptions) -> AsyncGenerator[Client]:
    client: Client | None = None

    async def close() -> None:
        if client is not None:  # None: opening has failed
            await client.aclose()

    async with owned_nursery(close) as nursery:
        client = await _started(nursery, opener, options)
        yield client


async def _started(nursery: trio.Nursery, opener: TransportOpener, options: ClientOptions) -> Client:
    client: Client = await nursery.start(partial(run_client, opener, options), name="trio-mcp client")
    return client


def _instead_of_path(target: str) -> str:
    """Return what to write instead of a target that is a path or a command in one string."""
    if target.endswith(".json"):
        return f"open_clients({target!r}) opens the servers of a file"
    words = target.split()
    is_script = len(words) == 1 and target.endswith(".py")
    command = f"[sys.executable, {target!r}]" if is_script else repr(words)
    cure = f", such as {command}" if is_script or len(words) > 1 else ""
    return f"pass a command as a list of the program and its arguments{cure}"


def _opener_for(target: Any, options: ClientOptions) -> TransportOpener:
    if isinstance(target, str):
        if "://" not in target:
            raise ValueError(f"{target!r} is not a URL; {_instead_of_path(target)}")
        return transports.http_transport(target)
    if isinstance(target, type):
        raise TypeError(
            f"cannot connect to the class {target.__name__}: pass an instance, such as {target.__name__}(...)"
        )
    if isinstance(target, trio.abc.Stream):
        return transports.stream_transport(target)
    if isinstance(target, Mapping):
        if "mcpServers" in target:
            raise ValueError("open_client() takes one entry of 'mcpServers'; open_clients() takes the whole table")
        from ._mcp_json import opener_from_entry  # noqa: PLC0415 # few programs use entries

        return opener_from_entry(cast("Mapping[str, Any]", target), stderr=options.get("stderr"))
    if isinstance(target, Sequence) and not isinstance(target, bytes):
        return transports.stdio_transport(transports.StdioServer(cast("Sequence[str]", target)), options.get("stderr"))
    if isinstance(target, Answerer):
        return transports.memory_transport(target)
    if callable(target):
        return cast("TransportOpener", target)
    cure = f"; {_instead_of_path(os.fspath(target))}" if isinstance(target, Path) else ""
    raise TypeError(f"cannot connect to {target!r}: expected a URL, a command, a mapping, a stream or a server{cure}")
