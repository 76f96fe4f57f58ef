"""The registry of a server: tools, resources, prompts and extensions. `serve_*` and `open_client` run it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, TypeVar, Unpack, cast, get_args, overload

import trio
from attrs import define, field

from .. import types
from .._capabilities import load_capability
from .._errors import McpError
from .._extensions import checked_settings
from .._misuse import check_class
from .._other_sdks import OPTIONS, ForeignAttribute, ForeignAttributes, unknown_options
from ..abc import SharedService
from ..peer import Access, Limits
from ..wire import INTERNAL_ERROR, JsonObject, ListChanged, is_array, is_object
from ._background import Background
from ._context import NO_STATE
from ._extensions import CustomMethods
from ._middleware import Middleware, check_middleware
from ._serving import ActiveServer, open_serving
from ._stopping import OnStuck
from .asking import AskingMode, Seals
from .features import (
    NO_SCOPES,
    Around,
    CacheableMethod,
    CacheHint,
    Catalog,
    ChangeSource,
    Completions,
    Cursors,
    ListenFilter,
    Prompts,
    RawSchema,
    Resources,
    TaskMode,
    Tools,
    Visible,
    check_hints,
    check_keys,
    check_visible,
)
from .signature import SchemaRefs

if TYPE_CHECKING:
    from .._capabilities import AppPermission, AppResourceOptions, Csp, ServerSkills, ServerTasks, TaskSettings
    from ._extension_points import ServingPart
    from ._forwarder import Forwarder
    from ._serve_http import ServeHttpOptions
    from ._snapshot import ServerSnapshot

__all__ = ["Server", "ServerInternals", "callers_names"]


F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)
L = TypeVar("L")
E = TypeVar("E")
_EXAMPLES = {"name": "notes", "version": "1.0"}
AnyEntry: TypeAlias = types.Tool | types.Resource | types.ResourceTemplate | types.Prompt


@asynccontextmanager
async def _no_lifespan(_: Server) -> AsyncGenerator[object]:
    yield NO_STATE


@define(eq=False)
class ServerInternals:
    """The parts of a server that are no business of the program that made it; `internals_of` returns them."""

    info_json: JsonObject
    """The name and version of the server, as they are sent."""
    cursors: Cursors
    """Seals and reads the cursors of the lists."""
    seals: Seals
    """Seals and opens the states that clients send back with their answers."""
    middleware: Sequence[Middleware]
    """The functions around every request, the outermost first."""
    given_keys: tuple[bytes, ...] = field(repr=False)
    """The keys that the program has given; empty if the server has made its own."""
    checks: list[Callable[[], None]] = field(factory=list[Callable[[], None]], init=False)
    """Called before each serving; see `ServerExtensionPoints.before_serving`."""
    custom: CustomMethods = field(factory=CustomMethods, init=False)
    """The custom methods and notifications, beyond the specification."""
    changes: ChangeSource = field(factory=ChangeSource, init=False)
    """Notifies listeners of registrations, removals and updates."""
    servings: list[ActiveServer] = field(factory=list["ActiveServer"], init=False)
    """The servings of the server that are open."""
    listen_filters: dict[str, ListenFilter] = field(factory=dict[str, "ListenFilter"], init=False)
    """The members that extensions add to the filter of `subscriptions/listen`, by name."""
    tasks: ServerTasks | None = field(default=None, init=False)
    """The tasks; None unless the server has any."""
    parts: tuple[ServingPart[Any], ...] = field(default=(), init=False)
    """What packages beside the core keep for each serving."""
    forwarder: ServingPart[Forwarder] | None = field(default=None, init=False)
    """The part of a serving that answers requests on behalf of others; see `ServerExtensionPoints.forward`."""


@define(eq=False, init=False, repr=False)
class Server(ForeignAttributes):
    """An MCP server: a registry of tools, resources and prompts, which decorators fill.

    The same server can be served several times at once, on any transport. A registration or removal takes effect with
    the next request.

    The functions that it takes have these forms::

        @asynccontextmanager
        async def lifespan(server: Server) -> AsyncGenerator[Database]:
            async with open_database() as database:
                yield database  # it is Context.state

        async def middleware(request: Request, call_next: CallNext) -> Any:
            print(request.method)
            return await call_next(request)

        def on_stuck(stuck: Sequence[StuckTask]) -> None:
            print([task.place for task in stuck])

        server = Server("notes", lifespan=lifespan, middleware=[middleware], on_stuck=on_stuck)

    Args:
        name: the name of the server.
        version: the version of the program, not of the protocol.
        title: the name to display to users.
        description: a description of the server, in one sentence.
        website_url: the URL of the server's web site.
        icons: icons of the server.
        instructions: instructions for the calling model.
        lifespan: an async context manager function, called with the server and entered once per serving; the value
            that it yields is `Context.state`.
        limits: the limits of each connection.
        revisions: the protocol revisions that the server supports; all by default.
        page_size: the number of entries on each page of a list, read when a serving begins; all on one page by default.
        keys: secrets of at least 16 bytes. The server uses them to seal the cursors of its lists and the states of
            questions. The first key seals; every key opens. By default each server generates a key, which is lost
            when the process ends.
        asking: the way in which a handler waits for the answer of a modern client. ``"parked"`` keeps the handler in
            this process; ``"replayed"`` ends it and runs it again with the answers, in any process that shares *keys*.
            See `Context`.
        cache: the cache hints of results, by method: ``{"tools/list": CacheHint(ttl=60)}``. By default clients must
            not cache. A resource may have a hint of its own: see `resource`.
        middleware: async functions around every request and notification, the outermost first; see `middleware`.
        extensions: the extensions that the server supports, by id, with its settings of each:
            ``{"com.example/rooms": {}}``.
        experimental: non-standard capabilities to declare, by name, with their settings.
        schema_refs: what becomes of ``$ref`` and ``$defs`` in the schemas of tools that are made from annotations.
            ``"inline"`` puts each definition into the places that refer to it, because many hosts cannot follow
            references; definitions that contain themselves stay, and so do all definitions of a schema that would grow
            beyond 2,000 parts. ``"keep"`` publishes all references. Schemas that are given are never changed.
        repair_arguments: True to take JSON that was sent as a string, as some hosts do: ``"[1, 2]"`` for a list. It
            applies only where the arguments of a tool do not fit, the schema admits no string in that place, and the
            repaired arguments fit as a whole. `Tools.repaired` counts the strings, and the log names their places at
            the level of debugging. False to refuse such calls.
        mask_errors: True to tell callers nothing of an exception that a handler raises, but that it failed; a
            `ToolError` or `McpError` always keeps its text. By default the text of an exception of a tool reaches the
            model. What resources, prompts, completions and custom methods raise is never told. The log has everything.
        visible: decides who sees each tool, resource, resource template and prompt, in addition to the `visible` of
            the entry itself; see `tool`. Results that could differ between callers are never cacheable as public.
        tasks: the settings of tasks, for tools with ``task=``; see `tool`.
        on_stuck: a function that is called, in the event loop, with handlers, background tasks or the lifespan that do
            not end although the server has stopped and cancelled them: a list of `StuckTask`. The log names them too.

    Raises:
        ValueError: *revisions* is empty or contains an unknown revision, an extension id is not valid, *page_size* is
            below 1, a key is too short, *cache* names a method whose results cannot be cached, or *asking* or
            *schema_refs* is not one of its values.
        TypeError: *keys* is not a list of bytes, *limits* is not a `Limits`, a value of *cache* is not a `CacheHint`,
            *visible* is not a plain function, a text is not a string, *lifespan* is not a function that returns an
            async context manager, or an option does not exist.
    """

    info: types.Implementation
    """The name and version of the server."""
    instructions: str | None
    lifespan: Callable[[Server], AbstractAsyncContextManager[Any]]
    limits: Limits
    revisions: tuple[str, ...]
    """The supported protocol revisions, oldest first."""
    page_size: int | None
    """The number of entries on each page of a list; None for all on one page."""
    asking: AskingMode
    """The way in which a handler waits for the answer of a modern client."""
    cache: Mapping[str, CacheHint]
    """The cache hints of results, by method."""
    tools: Tools
    """The tools; use this to add and remove them without decorators."""
    resources: Resources
    """The resources and resource templates."""
    prompts: Prompts
    """The prompts."""
    completions: Completions
    """The completions."""
    background: Background
    """Starts tasks that outlive the call that starts them."""
    extensions: Mapping[str, JsonObject]
    """The settings of each extension that the server declares, by id."""
    experimental: Mapping[str, JsonObject]
    """The non-standard capabilities that the server declares."""
    on_stuck: OnStuck | None
    """Called with the tasks that do not end after the server has stopped."""
    _internals: ServerInternals
    _skills: ServerSkills | None

    if not TYPE_CHECKING:  # these are called on the class
        as_proxy = ForeignAttribute()
        from_fastapi = ForeignAttribute()
        from_openapi = ForeignAttribute()

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        instructions: str | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] = _no_lifespan,
        limits: Limits | None = None,
        revisions: Sequence[str] = types.REVISIONS,
        page_size: int | None = None,
        keys: Sequence[bytes] = (),
        cache: Mapping[CacheableMethod, CacheHint] | None = None,
        asking: AskingMode = "parked",
        middleware: Sequence[Middleware] = (),
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        experimental: Mapping[str, Mapping[str, Any]] | None = None,
        on_stuck: OnStuck | None = None,
        schema_refs: SchemaRefs = "inline",
        repair_arguments: bool = True,
        mask_errors: bool = False,
        visible: Visible[AnyEntry] | None = None,
        tasks: TaskSettings | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise unknown_options("Server", unknown)
        texts = {
            "name": name,
            "version": version,
            "title": title,
            "description": description,
            "instructions": instructions,
        }
        for option, text in texts.items():
            if text is not None or option in {"name", "version"}:
                check_class(f"Server({option}=)", text, str, f"{option}={_EXAMPLES.get(option, 'My server')!r}")
        self.info = types.Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.extensions = checked_settings(extensions or {}, "extensions")
        self.experimental = {name: dict(each) for name, each in (experimental or {}).items()}
        self.instructions = instructions
        self.lifespan = _checked_lifespan(lifespan)
        self.limits = Limits() if limits is None else limits
        check_class("limits", self.limits, Limits, "Limits(max_running=100)")
        self.on_stuck = on_stuck
        self.revisions = _in_order(revisions)
        if page_size is not None and (type(page_size) is not int or page_size < 1):
            raise ValueError(f"page_size={page_size!r}: must be an integer of at least 1")
        self.page_size = page_size
        if asking not in get_args(AskingMode):
            raise ValueError(f"asking={asking!r}: must be one of {', '.join(get_args(AskingMode))}")
        self.asking = asking
        all_keys = check_keys(keys)
        self._internals = ServerInternals(
            types.unstructure(self.info),
            Cursors(all_keys),
            Seals(all_keys),
            tuple(map(check_middleware, middleware)),
            tuple(keys),
        )
        self.cache = check_hints(cache)
        if schema_refs not in get_args(SchemaRefs):
            raise ValueError(f"schema_refs={schema_refs!r}: must be one of {', '.join(get_args(SchemaRefs))}")
        self.tools = Tools(schema_refs, repair_arguments, mask_errors)
        self.resources, self.prompts = Resources(), Prompts()
        self.completions = Completions(self.prompts, self.resources)
        self.background = Background(self)
        self._skills = None
        notify = self._internals.changes.notify_nowait
        self.tools.catalog.changed = partial(notify, ListChanged("tools"))
        self.prompts.catalog.changed = partial(notify, ListChanged("prompts"))
        for catalog in (self.resources.catalog, self.resources.templates):
            catalog.changed = partial(notify, ListChanged("resources"))
        check_visible("Server", visible)
        lists: Sequence[Catalog[Any]] = (
            self.tools.catalog,
            self.prompts.catalog,
            self.resources.catalog,
            self.resources.templates,
        )
        for each in lists:
            each.restrict(visible)
        self.tools.task_maker = self._around_task
        if tasks is not None:
            self._internals.tasks = load_capability("tasks").ServerTasks(self, tasks)

    def _around_task(self, mode: TaskMode, inner: Around | None) -> Around:
        """Return the function around a tool whose calls may become tasks."""
        tasks = self._internals.tasks
        if tasks is None:
            capability = load_capability("tasks")
            tasks = self._internals.tasks = capability.ServerTasks(self, capability.TaskSettings())
        around: Around = tasks.around(mode, inner)
        return around

    def __repr__(self) -> str:
        return f"<Server {self.info.name!r}>"

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares; they depend on what is registered."""
        return types.ServerCapabilities(
            completions={} if self.completions.offered else None,
            logging={},
            tools=types.ToolsCapability(list_changed=True) if self.tools.catalog.offered else None,
            resources=types.ResourcesCapability(subscribe=True, list_changed=True) if self.resources.offered else None,
            prompts=types.PromptsCapability(list_changed=True) if self.prompts.catalog.offered else None,
            extensions=self.extensions or None,
            experimental=self.experimental or None,
        )

    @property
    def skills(self) -> ServerSkills:
        """The skills that the server offers: instructions for models, with their files.

        ::

            server.skills.add_directory("skills/")

        Specification: https://modelcontextprotocol.io/extensions/skills/overview
        """
        skills: ServerSkills = load_capability("skills").ServerSkills(self) if self._skills is None else self._skills
        self._skills = skills
        return skills

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to a resource that it has changed; in handlers, use `Context`.

        Never waits, and may be called from any thread, whether or not the server is being served.

        Args:
            uri: the URI of the resource, exactly as clients name it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions
        """
        self._internals.changes.resource_updated(uri)

    @overload
    def run(self, *, http: None = None, signals: bool = True) -> None: ...
    @overload
    def run(self, *, http: int, signals: bool = True, host: str = ..., **options: Unpack[ServeHttpOptions]) -> None: ...
    def run(self, *transport: Never, http: int | None = None, signals: bool = True, **options: Any) -> None:
        """Start Trio and serve, over standard input and output or over HTTP; for programs that do nothing else.

        ::

            if __name__ == "__main__":
                server.run()  # or server.run(http=8000)

        Returns when `serve_stdio` or `serve_http` returns: after one SIGINT or SIGTERM, and over standard input also
        when it has ended. It cannot be cancelled.

        Args:
            http: the port to serve HTTP on, only for this machine unless *host* is given; 0 for any free port. By
                default the server uses standard input and output.
            signals: True to listen for SIGINT and SIGTERM, if this is the main thread.
            options: those of `serve_http` and `ServeHttpOptions`; only with *http*.

        Raises:
            RuntimeError: Trio or asyncio runs in this thread already.
            TypeError: an option does not exist or needs *http*, or *http* is not an integer.
            BaseException: raised by `serve_stdio` or `serve_http`.
        """
        if transport or {*options} & {"transport", "port"}:
            port = options.get("port")
            kept = "".join(f", {name}={options[name]!r}" for name in ("host", "path") if name in options)
            raise TypeError(
                "server.run() takes no transport and no port=: write server.run() for standard input and output, and "
                f"server.run(http={port if type(port) is int else 8000}{kept}) for HTTP, which serves clients of "
                "HTTP+SSE as well"
            )
        if foreign := options.keys() & OPTIONS["server.run"]:
            raise unknown_options("server.run", sorted(foreign))
        if http is None:
            if options:
                raise TypeError(
                    f"run({'=, '.join(sorted(options))}=): only with http=PORT; without it, run() serves stdio"
                )
            _check_no_loop_runs("serve_stdio", "server")
            from ._serve import serve_stdio  # noqa: PLC0415 # few programs serve in more than one way

            trio.run(partial(serve_stdio, self, signals=signals))
            return
        if type(http) is not int:
            raise TypeError(f"run(http={http!r}): must be the number of a port, such as 8000")
        _check_no_loop_runs("serve_http", f"server, port={http}")
        from ._serve_http import HttpService, announcement  # noqa: PLC0415 # likewise

        host = options.pop("host", "127.0.0.1")
        service = HttpService.of(self, host, http, cast("ServeHttpOptions", options))
        trio.run(partial(service.serve, signals=signals, on_bound=announcement(self)))

    def snapshot(self) -> ServerSnapshot:
        """Return what the server does now: its connections, its requests in flight, and where each handler stands.

        For debugging: it costs nothing unless it is called, and never waits. It is not thread-safe: call it in the
        event loop of the serving, in any task; from a worker thread, as
        ``trio.from_thread.run_sync(server.snapshot)``. It holds no arguments, results or tokens. See also
        ``trio-mcp inspect``.
        """
        from ._snapshot import take_snapshot  # noqa: PLC0415 # few programs look

        return take_snapshot(self)

    def serving(
        self, *, asking: AskingMode | None = None, home: Callable[[], str] = str, shared: SharedService | None = None
    ) -> AbstractAsyncContextManager[ActiveServer]:
        """Open a serving: enter the lifespan, and open the handler pool. `serve_*` do this for you.

        Args:
            asking: overrides the server's `asking` for this serving.
            home: returns the name of this process in a service of several; see `abc.HttpAnswerer`.
            shared: what this process shares with the others of its service.
        """
        self._run_checks()
        return open_serving(self, asking or self.asking, home=home, shared=shared)

    def needed_scopes(self, method: str, params: JsonObject, access: Access | None) -> frozenset[str]:
        """Return the scopes that a request needs; empty if it needs none, or names what is hidden from the caller.

        Scopes are checked by HTTP applications with authentication, before a request is begun, and nowhere else. This
        reads of the params what the handler will read; params that the handler will refuse need no scopes. Lists are
        never restricted, because a client must find a tool before it can request its scopes.

        Args:
            method: the method of the request.
            params: its params, which have not been checked.
            access: the authenticated caller; None without authentication.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling
        """
        match method:
            case "tools/call":
                return self.tools.scopes_of(params.get("name"), access)
            case "prompts/get":
                return self.prompts.scopes_of(params.get("name"), access)
            case "resources/read" | "resources/subscribe":
                return self.resources.scopes_of(params.get("uri"), access)
            case "completion/complete":
                ref: Any = params.get("ref")
                named: JsonObject = ref if is_object(ref) else {}
                of_prompt = self.prompts.scopes_of(named.get("name"), access)
                return of_prompt | self.resources.scopes_of_template(named.get("uri"), access)
            case "subscriptions/listen":
                uris = islice(_listened(params), self.limits.max_subscriptions)  # a request with more is refused
                return NO_SCOPES.union(*(self.resources.scopes_of(uri, access) for uri in uris))
            case _:
                return self._internals.custom.scopes_of(method)

    def serving_one(self) -> AbstractAsyncContextManager[ActiveServer]:
        """Open a serving for a single request, whose handler cannot be parked and cannot start background tasks.

        Raises:
            McpError: the server has a lifespan, which cannot be entered for a single request.
        """
        if self.lifespan is not _no_lifespan:
            raise McpError(
                INTERNAL_ERROR,
                f"server {self.info.name!r}: its lifespan is not running; configure the host of the HTTP application "
                "to send lifespan events, or enter `app.run()`",
            )
        self._run_checks()
        return open_serving(self, "replayed", lasts=False)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        input_schema: RawSchema | None = None,
        output_schema: RawSchema | None = None,
        timeout: float | None = None,
        max_concurrency: int | None = None,
        isolate: Literal["process"] | None = None,
        app: str | None = None,
        visibility: Sequence[Literal["model", "app"]] | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[types.Tool] | None = None,
        around: Around | None = None,
        task: TaskMode | None = None,
    ) -> Callable[[F], F]: ...
    def tool(self, *args: Any, **options: Any) -> Any:
        """Register a function as a tool; bare or called. The function is returned unchanged.

        The input schema comes from the signature, descriptions from the docstring's ``Args:`` or from
        ``Annotated[..., "text"]``, constraints from ``Annotated[..., msgspec.Meta(ge=1)]``; pydantic's ``Field`` gives
        both, in ``Annotated`` or as a default. A return annotation gives an output schema; without one, the return
        value becomes content. A parameter annotated `Context` receives it, and one annotated with `Resolve` its
        dependency.

        ::

            async def around(context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
                async with context.state.transaction():
                    return await call()

            @server.tool(around=around)
            async def transfer(amount: int) -> str: ...

        Args:
            name: the name of the tool; by default the name of the function.
            title: the name to display to users; by default it is made from the name: ``Search books`` from
                ``search_books`` or ``searchBooks``.
            description: a description for the calling model; the docstring by default.
            annotations: hints about the tool's behaviour.
            icons: icons of the tool.
            meta: the tool's `_meta`.
            input_schema: a JSON Schema for the arguments, which are then passed as JSON values. A schema that is given
                as JSON text is published byte for byte.
            output_schema: a JSON Schema for the return value, which is then the structured content, unconverted.
            timeout: the seconds that the handler may run; then it is cancelled, and the call is a tool error.
            max_concurrency: the number of calls of this tool that run at once, over all connections; others wait.
            isolate: ``"process"`` runs a plain function in a worker process. The process and its children are killed
                when the call is cancelled, when it times out, and when the server stops. The first call waits until a
                new Python process has imported the program, whose main module needs ``if __name__ == "__main__"``.
                Arguments and results are pickled; `Context` and context variables are not available; output that the
                function prints goes to standard error. Worker processes are reused, and kept until the server stops,
                up to `Limits.max_processes`. This is not a sandbox: isolated code is as trusted as the server.
            app: the URI of the app that shows the results of the tool; see `app`. Hosts without apps use the content
                of the results, which must be meaningful by itself. When the server begins to serve, there must be a
                resource with this URI.
            visibility: the callers to which hosts offer the tool: ``"model"``, ``"app"`` for the apps of this server,
                or both, which is the default. It protects nothing: a client can call any tool.
            scopes: the scopes that a caller needs. An HTTP application with authentication (`http_app`) requests
                missing scopes; one without authentication refuses all calls. Other transports have no authentication,
                and permit all calls.
            visible: decides which callers see the tool: a plain function of the `types.Tool` and the `Access` of the
                caller, None without authentication. To others the tool is neither listed nor known. It is called in the
                event loop for each list and each call, and must not wait. If it raises an exception, which is logged,
                the tool is hidden.
            around: an async function around each call of the tool whose arguments fit. It is called with the `Context`
                and with a function that calls the tool, and returns what the tool returns.
            task: ``"optional"`` lets a call go on as a task if it takes longer than `TaskSettings.after` and its client
                takes tasks. ``"required"`` makes every call a task, and refuses clients that take none. The function is
                the same: its progress becomes the message of the task, its questions are asked in the task, and it is
                cancelled when the task is. A task belongs to the serving, not to the connection.

        Raises:
            ValueError: a tool of this name is registered, an option is not valid, or the schema uses header fields
                (`x-mcp-header`) in a way that clients must not accept.
            TypeError: a parameter has no annotation, cannot be described by a JSON Schema, or has a default that is not
                a value of its type; the message names it. Or the function cannot be isolated, because it is async,
                takes a `Context` or a dependency, or cannot be imported by its name. Or a dependency cannot be
                resolved, *visible* is not a plain function, or the return annotation names a type that cannot be
                returned.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
        """
        namespace = callers_names()
        if options.keys() & {"app", "visibility"}:
            options = load_capability("apps").tool_options(self, **options)
        return _decorated("tool", partial(self.tools.add, namespace=namespace), *args, **options)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        contents_meta: Mapping[str, Any] | None = None,
        size: int | None = None,
        allow_traversal: bool = False,
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[Any] | None = None,
        listed: bool = True,
        **unknown: Never,
    ) -> Callable[[F], F]:
        """Register a function as a resource, or as a resource template if *uri* has ``{variables}``.

        The function gets the variables of the template, and a `Context` or dependencies (`Resolve`) if parameters are
        annotated so. A variable is a string, or is converted by the parameter's annotation; an exploded variable
        (``{/path*}``) is a list. For constant contents, use `Resources.add_static`.

        The function returns a string, bytes, an `Image` or `Audio`, or contents (`types.TextResourceContents`,
        `types.BlobResourceContents`), a list with bytes or contents, a whole `types.ReadResourceResult`, or data: a
        dict, list, dataclass or model, which becomes JSON text. It raises `ResourceNotFound` if there is no such
        resource; the client gets the error code of its revision.

        Args:
            uri: a URI, or a template by RFC 6570: levels 1 to 3, and exploded variables.
            name: the name of the resource; by default the name of the function.
            title: the name to display to users; by default it is made from the name: ``Search books`` from
                ``search_books`` or ``searchBooks``.
            description: a description; the docstring by default.
            mime_type: the media type; by default ``text/plain`` for strings, ``application/octet-stream`` for bytes and
                ``application/json`` for data.
            annotations: hints about the intended audience.
            icons: icons of the resource.
            meta: the resource's `_meta`.
            contents_meta: members for the `_meta` of each of the contents. Contents that are returned with a `_meta` of
                their own keep its members.
            size: the size of the contents in bytes, if known.
            allow_traversal: accept any value of a template's variables. By default a URI is not found if a value could
                escape from its place in a path: ``..`` in any encoding, an absolute path, or a control character.
            cache: the cache hint for clients; by default that of `Server` for all resources. A
                `types.ReadResourceResult` with a hint of its own takes precedence.
            scopes: the scopes that a caller needs to read the resource, or to listen for its changes; as of `tool`.
                The contents may then be cached only for the caller.
            visible: decides which callers see the resource or template; as of `tool`. It gets the `types.Resource` or
                `types.ResourceTemplate`. The contents may then be cached only for the caller.
            listed: False to leave the resource or template out of the list. It can be read all the same, by a client
                that has its URI from elsewhere.

        Raises:
            ValueError: the URI is registered or not valid, its variables are not the function's parameters, *scopes*
                are not valid, or *cache* is public although the resource needs scopes.
            TypeError: a parameter cannot be described by a JSON Schema, its default is not a value of its type, or the
                return annotation names a type that cannot be returned; the message names it. Or *cache* is not a
                `CacheHint`, *visible* is not a plain function, *uri* is not a string, or an option does not exist.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources
        """
        if unknown:
            raise unknown_options("@server.resource", unknown)
        namespace, given = callers_names(), cast("object", uri)
        if not isinstance(given, str):
            called = getattr(given, "__name__", "it")
            raise TypeError(f"@server.resource takes a URI: write @server.resource('notes://{called}') above {called}")

        def register(function: F) -> F:
            self.resources.add(
                function,
                uri,
                name=name,
                title=title,
                description=description,
                mime_type=mime_type,
                annotations=annotations,
                icons=icons,
                meta=meta,
                contents_meta=contents_meta,
                size=size,
                allow_traversal=allow_traversal,
                cache=cache,
                scopes=scopes,
                visible=visible,
                listed=listed,
                namespace=namespace,
            )
            return function

        return register

    def app(
        self,
        uri: str,
        *,
        csp: Csp | None = None,
        permissions: Sequence[AppPermission] = (),
        prefers_border: bool | None = None,
        domain: str | None = None,
        **options: Unpack[AppResourceOptions],
    ) -> Callable[[F], F]:
        """Register a function as an app: a resource whose contents are a page that hosts show beside results of tools.

        ::

            @server.app("ui://chart", csp=Csp(connect=["https://api.example.com"]))
            def chart() -> str:
                return "<!doctype html>..."

            @server.tool(app="ui://chart")
            async def sales(year: int) -> Sales: ...

        The function returns a whole HTML document, as a string or as bytes. Hosts show it in a sandbox, in which it has
        no access to the network except as *csp* states, and talks to the host by messages (``ui/*``). The server
        declares the extension ``io.modelcontextprotocol/ui``.

        Args:
            uri: a URI, or a URI template, that begins with ``ui://``.
            csp: the origins that the page may use; by default none.
            permissions: what the page asks the browser for: ``"camera"``, ``"microphone"``, ``"geolocation"`` or
                ``"clipboard_write"``. Hosts may refuse.
            prefers_border: whether the host should draw a border around the page; by default the host decides.
            domain: the origin of the sandbox, in a form that the host defines.
            options: those of `resource`: `name`, `title`, `description`, `annotations`, `icons`, `meta`, `cache`,
                `scopes` and `visible`.

        Raises:
            ValueError: the URI does not begin with ``ui://``, a permission does not exist, *meta* has a member ``"ui"``
                of its own, or as `resource` says.
            TypeError: *csp* is not a `Csp`, an option does not exist, or as `resource` says.

        Specification: https://modelcontextprotocol.io/extensions/apps/overview
        """
        namespace = callers_names()
        given: dict[str, Any] = load_capability("apps").app_options(
            self,
            uri,
            csp=csp,
            permissions=permissions,
            prefers_border=prefers_border,
            domain=domain,
            **options,
        )

        def register(function: F) -> F:
            self.resources.add(function, uri, namespace=namespace, **given)
            return function

        return register

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[types.Prompt] | None = None,
    ) -> Callable[[F], F]: ...
    def prompt(self, *args: Any, **options: Any) -> Any:
        """Register a function as a prompt; bare or called. The function is returned unchanged.

        The function's parameters are the prompt's arguments. They are sent as strings; an annotation such as `int` or
        `Literal` converts the string, and an argument that does not fit is refused. The function returns
        messages (`User`, `Assistant`, `types.PromptMessage`, or a dict with ``role`` and ``content``), a string or
        content, which becomes a message of the user, a list of these, or a whole `types.GetPromptResult`.

        Args:
            name: the name of the prompt; by default the name of the function.
            title: the name to display to users; by default it is made from the name: ``Search books`` from
                ``search_books`` or ``searchBooks``.
            description: a description; the docstring by default.
            icons: icons of the prompt.
            meta: the prompt's `_meta`.
            scopes: the scopes that a caller needs to get the prompt, or to complete its arguments; as of `tool`.
            visible: decides which callers see the prompt; as of `tool`.

        Raises:
            ValueError: a prompt of this name is registered, or *scopes* are not valid.
            TypeError: a parameter has no annotation, cannot be described by a JSON Schema, or has a default that is not
                a value of its type, or the return annotation names a type that cannot be returned; the message names
                it. Or *visible* is not a plain function.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
        """
        return _decorated("prompt", partial(self.prompts.add, namespace=callers_names()), *args, **options)

    def completion(self, *, prompt: str | None = None, template: str | None = None, argument: str) -> Callable[[F], F]:
        """Register a function that suggests values for an argument of a prompt or a variable of a resource template.

        The function's first parameter takes the string typed so far. Further parameters, named after other arguments of
        the same prompt or template, take the values that are already chosen, or None; a parameter may also be annotated
        with `Context` or `Resolve`. The function returns strings, best first, of which 100 are sent, or a
        `types.Completion`.

        Args:
            prompt: the name of a registered prompt.
            template: or a registered URI template.
            argument: the argument or variable to complete.

        Raises:
            ValueError: there is no such argument, or it already has a completion.
            TypeError: a parameter of the function is not one of the other arguments, or a dependency cannot be
                resolved.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
        """
        namespace = callers_names()

        def register(function: F) -> F:
            self.completions.add(function, prompt=prompt, template=template, argument=argument, namespace=namespace)
            return function

        return register

    def method(self, name: str, *, extension: str | None = None, scopes: Sequence[str] = ()) -> Callable[[F], F]:
        """Register a function as the handler of a custom method, or of an extension's method, in every revision.

        The function takes the params, in the type of its parameter's annotation (an attrs class, a dataclass, a
        TypedDict, a `msgspec.Struct`, a pydantic model or a dict), and a `Context` if a parameter is annotated so. It
        returns an object of any of these kinds, or None for an empty object. Params that do not fit are refused.

        Args:
            name: the method, such as ``"com.example/rooms/list"``.
            extension: the extension that the method belongs to; a request that does not declare it is refused.
            scopes: the scopes that a caller needs; as of `tool`.

        Raises:
            ValueError: the specification defines a method of this name, the name is registered, or *scopes* are not
                valid.
            TypeError: the function cannot be called with params; the message says why.
        """
        return _custom_registrar(
            partial(self._internals.custom.add_method, scopes=scopes), name, extension, callers_names()
        )

    def page(self, list_name: str, entries: Iterable[tuple[int, E]], cursor: str | None) -> tuple[list[E], str | None]:
        """Return one page of a list of a custom method, and the cursor of the next page; None if there is none.

        A page has `page_size` entries. Cursors are sealed like those of all lists of the server; see *keys*.

        ::

            @server.method("com.example/rooms/list")
            async def list_rooms(params: ListParams) -> dict[str, Any]:
                page, following = server.page("com.example/rooms/list", enumerate(rooms), params.cursor)
                return {"rooms": page} | ({} if following is None else {"nextCursor": following})

        Args:
            list_name: the name of the list, such as its method. A cursor of another list is refused.
            entries: the entries, each with its place: a number from 0 to 2**63, ascending. An entry that keeps its
                place is on exactly one page, even if others come and go while a client requests page after page.
            cursor: the cursor that the client sent; None for the first page.

        Raises:
            McpError: the cursor is not one of this list.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
        """
        cursors = self._internals.cursors
        after = -1 if cursor is None else cursors.read(list_name, cursor)
        following = ((place, entry) for place, entry in entries if place > after)
        page = list(islice(following, self.page_size))
        if next(following, None) is None:
            return [entry for _, entry in page], None
        return [entry for _, entry in page], cursors.seal(list_name, page[-1][0])

    def notification(self, name: str, *, extension: str | None = None) -> Callable[[F], F]:
        """Register a function as the handler of the notification *name*, of your own or of an extension; see `method`.

        The notifications of one connection are handled one at a time, in the order in which they were sent. The return
        value is ignored. An exception is logged and affects only that notification. A handler that has not returned
        after `Limits.notification_seconds` is cancelled, and the log names the notification.

        Raises what `method` raises.
        """
        return _custom_registrar(self._internals.custom.add_notification, name, extension, callers_names())

    def declare_extension(self, id: str, settings: Mapping[str, Any] | None = None) -> None:
        """Declare an extension, or change its settings; for packages that add an extension to a server.

        It takes effect with the next request; clients that have made a handshake are not told.

        Args:
            id: the extension's id, such as ``"com.example/rooms"``.
            settings: the server's settings of the extension.

        Raises:
            ValueError: the id is not valid.
            TypeError: the settings are not a mapping.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
        """
        self.extensions = {**self.extensions, **checked_settings({id: settings or {}}, "extensions")}

    def _run_checks(self) -> None:
        for check in self._internals.checks:
            check()

    def middleware(self, function: M) -> M:
        """Register an async function around every request and notification; see `Request`. It is returned unchanged.

        The function is called with the `Request` and with a function that calls the next one, and returns the result::

            @server.middleware
            async def middleware(request: Request, call_next: CallNext) -> Any:
                print(request.method)
                return await call_next(request)

        The function registered first is the outermost. Middleware sees every message of a client, including list
        requests, `initialize` and unknown methods, except `notifications/cancelled` and `notifications/progress`, and
        except an answer that continues a parked handler. For `subscriptions/listen`, `call_next` ends only by
        cancellation. A function may answer without calling the next one, hand on other params
        (`Request.with_params`), or raise `McpError`. Any other exception of its own is answered as an internal error,
        and affects one request.

        A registration while the server is being served takes effect with the next request.

        Raises:
            TypeError: *function* is not an async function.
        """
        self._internals.middleware = (*self._internals.middleware, check_middleware(function))
        return function


def _decorated(
    kind: str, add: Callable[..., None], function: F | None = None, /, **options: Any
) -> F | Callable[[F], F]:
    """Register *function*, or return a decorator that does; *kind* is the name of the decorator."""
    if isinstance(function, str):
        raise TypeError(
            f"@server.{kind}({function!r}): a name is given as name=: write @server.{kind}(name={function!r})"
        )
    if function is None:
        return lambda later: _decorated(kind, add, later, **options)  # type: ignore[return-value]  # with a function it returns one
    add(function, **options)
    return function


def _checked_lifespan(lifespan: L) -> L:
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
        raise TypeError("lifespan: a generator function needs @asynccontextmanager (of contextlib) above it")
    if not callable(lifespan) or inspect.iscoroutinefunction(lifespan):
        raise TypeError("lifespan: expected a function that takes the server and returns an async context manager")
    with suppress(ValueError):  # it does not tell its parameters
        try:
            inspect.signature(lifespan).bind(lifespan)
        except TypeError:
            raise TypeError("lifespan: its function takes the server, as in `lifespan(server: Server)`") from None
    return lifespan


def _check_no_loop_runs(function: str, arguments: str) -> None:
    """Check that no event loop runs in this thread.

    Args:
        function: the function to name in the message, which serves in a running loop.
        arguments: its arguments, as a program writes them.

    Raises:
        RuntimeError: Trio or asyncio runs.
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(f"server.run() starts Trio, which runs already: write `await {function}({arguments})`")
    if _runs_in_asyncio():
        raise RuntimeError(
            "server.run() would block the asyncio event loop that runs in this thread: call it where no loop runs, or "
            f"call `trio.run(partial({function}, {arguments}))` in a thread of its own"
        )


def _runs_in_asyncio() -> bool:
    asyncio = sys.modules.get("asyncio")  # only a program that has imported it can run a loop
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def _in_order(revisions: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(revisions) - set(types.REVISIONS))
    if unknown or not revisions:
        raise ValueError(f"revisions={list(revisions)!r}: must be some of {', '.join(types.REVISIONS)}")
    return tuple(revision for revision in types.REVISIONS if revision in revisions)


def _custom_registrar(
    add: Callable[[Callable[..., Any], str, str | None, Mapping[str, Any]], None],
    name: str,
    extension: str | None,
    namespace: Mapping[str, Any],
) -> Callable[[F], F]:
    def register(function: F) -> F:
        add(function, name, extension, namespace)
        return function

    return register


def callers_names() -> Mapping[str, Any]:
    """Return the local variables of the caller of a decorator, because annotations may name local classes."""
    return sys._getframe(2).f_locals  # noqa: SLF001 # Python has no public name for a caller's frame


def _listened(params: JsonObject) -> Iterable[str]:
    """Return the resources that a request to listen names, each once, as its handler will."""
    wanted: Any = params.get("notifications")
    uris: Any = wanted.get("resourceSubscriptions") if is_object(wanted) else None
    return dict.fromkeys(uri for uri in uris if isinstance(uri, str)) if is_array(uris) else ()
