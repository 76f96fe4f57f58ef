"""The registry: what a server offers. It owns no task and runs nothing; `serve_*` and `open_client` do."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar, get_args, overload

from attrs import define

from .. import types
from .._errors import McpError
from .._extensions import checked_settings
from ..peer import Limits
from ..wire import INTERNAL_ERROR, JsonObject, ListChanged, is_array, is_object
from ._background import Background
from ._extensions import CustomMethods
from ._middleware import Middleware, check_middleware
from ._serving import ActiveServer, open_serving
from .asking import AskingMode, Seals
from .features import (
    NO_SCOPES,
    CacheableMethod,
    CacheHint,
    ChangeSource,
    Completions,
    Cursors,
    Prompts,
    RawSchema,
    Resources,
    Tools,
    check_hints,
    check_keys,
)

__all__ = ["Server", "callers_names"]


F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


@asynccontextmanager
async def _no_lifespan(_: Server) -> AsyncGenerator[None]:
    yield None


@define(eq=False, init=False)
class Server:
    """What an MCP server offers: tools, resources and prompts, registered by decorators.

    The same server can be served many times at once, on any transport; what is registered or removed meanwhile counts
    for the next request.

    Args:
        name: what the server calls itself.
        version: the version of your program, not of the protocol.
        title: its name for people.
        description: what it is, in a sentence.
        website_url: where to read more.
        icons: pictures of it.
        instructions: how to use it, for the calling model.
        lifespan: an async context manager function, called with the server and entered once per serving; what it
            yields is `Context.state`.
        limits: what each connection may cost.
        revisions: the protocol revisions to speak, all of them by default.
        page_size: how many entries of a list go on one page; all of them by default.
        keys: secrets of at least 16 bytes with which the server seals what it will be shown again: the cursors of its
            lists, the states of questions. The first one seals, all of them open. By default each server makes one of
            its own, so that nothing outlives the process.
        asking: what a handler does while a modern client finds the answer to its question. ``"parked"`` keeps it where
            it stands, in this process; ``"replayed"`` ends it and runs it anew with the answers, in any process that
            shares *keys*. See `Context.elicit`.
        cache: for how long clients may keep results, and for whom, by method: ``{"tools/list": CacheHint(ttl=60)}``.
            Nothing is kept by default. One resource may say otherwise: see `resource`.
        middleware: async functions around every request and notification, the outermost first; see `middleware`.
        extensions: the extensions it understands, by id, and its settings of each: ``{"com.example/rooms": {}}``.
        experimental: non-standard capabilities to declare, by name, each with what there is to say about it.

    Raises:
        ValueError: *revisions* is empty or names an unknown one, the id of an extension is none, *page_size* is below
            1, a key is too short, or *cache* names a method whose results nobody keeps.
        TypeError: *keys* is no list of bytes, or *cache* holds something else.
    """

    info: types.Implementation
    """How the server names itself."""
    info_json: dict[str, Any]
    """The same, as it goes over the wire."""
    instructions: str | None
    lifespan: Callable[[Server], AbstractAsyncContextManager[Any]]
    limits: Limits
    revisions: tuple[str, ...]
    """The protocol revisions it speaks, oldest first."""
    page_size: int | None
    """How many entries of a list go on one page; None puts all of them on one."""
    cursors: Cursors
    """Makes and reads the cursors of its lists."""
    seals: Seals
    """Makes and reads the states with which clients come back after a question."""
    asking: AskingMode
    """Where a handler is while a modern client finds the answer to its question."""
    cache: Mapping[str, CacheHint]
    """For how long results may be kept, and by whom, by method."""
    tools: Tools
    """Its tools, for adding and removing them otherwise than by decorators."""
    resources: Resources
    """Likewise its resources and resource templates."""
    prompts: Prompts
    """Likewise its prompts."""
    completions: Completions
    """Likewise its completions."""
    background: Background
    """Starts tasks that outlive the call that starts them."""
    custom: CustomMethods
    """The custom methods and notifications, beyond the specification."""
    extensions: Mapping[str, JsonObject]
    """The settings of each extension that the server declares, by id."""
    experimental: Mapping[str, JsonObject]
    """The non-standard capabilities that the server declares."""
    all_middleware: Sequence[Middleware]
    """The functions around every request, the outermost first."""
    changes: ChangeSource
    """Where what is registered, removed and updated is told to those who listen."""

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
    ) -> None:
        self.info = types.Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.info_json = types.unstructure(self.info)
        self.all_middleware = tuple(map(check_middleware, middleware))
        self.custom, self.extensions = CustomMethods(), checked_settings(extensions or {}, "extensions")
        self.experimental = {name: dict(each) for name, each in (experimental or {}).items()}
        self.instructions = instructions
        self.lifespan = lifespan
        self.limits = Limits() if limits is None else limits
        self.revisions = _in_order(revisions)
        if page_size is not None and (type(page_size) is not int or page_size < 1):
            raise ValueError(f"page_size={page_size!r} must be a whole number, and at least 1")
        self.page_size = page_size
        if asking not in get_args(AskingMode):
            raise ValueError(f"asking={asking!r}: it is one of {', '.join(get_args(AskingMode))}")
        self.asking = asking
        keys = check_keys(keys)
        self.cursors, self.seals = Cursors(keys), Seals(keys)
        self.cache = check_hints(cache)
        self.tools, self.resources, self.prompts = Tools(), Resources(), Prompts()
        self.completions = Completions(self.prompts, self.resources)
        self.background = Background(self)
        self.changes = ChangeSource()
        self.tools.catalog.changed = partial(self.changes.notify_nowait, ListChanged("tools"))
        self.prompts.catalog.changed = partial(self.changes.notify_nowait, ListChanged("prompts"))
        for catalog in (self.resources.catalog, self.resources.templates):
            catalog.changed = partial(self.changes.notify_nowait, ListChanged("resources"))

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server declares: it follows from what is registered."""
        return types.ServerCapabilities(
            completions={} if self.completions.offered else None,
            logging={},
            tools=types.ToolsCapability(list_changed=True) if self.tools.catalog.offered else None,
            resources=types.ResourcesCapability(subscribe=True, list_changed=True) if self.resources.offered else None,
            prompts=types.PromptsCapability(list_changed=True) if self.prompts.catalog.offered else None,
            extensions=self.extensions or None,
            experimental=self.experimental or None,
        )

    def resource_updated(self, uri: str) -> None:
        """Tell every client that asked for it that a resource is not what it was; in handlers, see `Context`.

        Never waits, and may be called from any thread, whether the server is being served or not.

        Args:
            uri: the resource's own URI, just as clients name it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions
        """
        self.changes.resource_updated(uri)

    def serving(self, *, asking: AskingMode | None = None) -> AbstractAsyncContextManager[ActiveServer]:
        """Open a serving: enters the lifespan, and the nursery in which handlers run. `serve_*` do this for you.

        Args:
            asking: where its handlers are while clients find answers, in place of what the server says of itself.
        """
        return open_serving(self, asking or self.asking)

    def needed_scopes(self, method: str, params: JsonObject) -> frozenset[str]:
        """Return what must have been granted to whoever makes a request; empty where nothing is needed."""
        match method:
            case "tools/call":
                return self.tools.scopes_of(params.get("name"))
            case "prompts/get":
                return self.prompts.scopes_of(params.get("name"))
            case "resources/read" | "resources/subscribe":
                return self.resources.scopes_of(params.get("uri"))
            case "completion/complete":
                ref: Any = params.get("ref")
                named: JsonObject = ref if is_object(ref) else {}
                of_prompt = self.prompts.scopes_of(named.get("name"))
                return of_prompt | self.resources.scopes_of_template(named.get("uri"))
            case "subscriptions/listen":
                uris = islice(_listened(params), self.limits.max_subscriptions)  # with more of them it is refused
                return NO_SCOPES.union(*map(self.resources.scopes_of, uris))
            case _:
                return self.custom.scopes_of(method)

    def serving_one(self) -> AbstractAsyncContextManager[ActiveServer]:
        """Open a serving for a single request, whose handler can neither wait for an answer nor leave tasks behind.

        Raises:
            McpError: the server has a lifespan, which is not for a single request.
        """
        if self.lifespan is not _no_lifespan:
            raise McpError(
                INTERNAL_ERROR,
                f"the server {self.info.name!r} has a lifespan that nobody runs: let the host of the HTTP application "
                "pass on lifespan events, or enter `app.run()`",
            )
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
        scopes: Sequence[str] = (),
    ) -> Callable[[F], F]: ...
    def tool(self, *args: Any, **options: Any) -> Any:
        """Register a function as a tool; bare or called. The function is returned unchanged.

        The input schema comes from the signature, descriptions from the docstring's ``Args:`` or from
        ``Annotated[..., "text"]``, constraints from ``Annotated[..., msgspec.Meta(ge=1)]``. A return annotation gives
        an output schema; without one, what is returned becomes content. A parameter annotated `Context` receives it.

        Args:
            name: the tool's name; the function's by default.
            title: its name for people.
            description: what it does, for the calling model; the docstring by default.
            annotations: hints about its behaviour.
            icons: pictures of it.
            meta: its `_meta`.
            input_schema: a JSON Schema of your own for the arguments, which then arrive as the wire has them. Given as
                JSON text it is published byte for byte.
            output_schema: likewise for what the function returns, which then is the structured content as it is.
            timeout: seconds the handler may work; then it is cancelled, and the call is a tool error.
            max_concurrency: calls of this tool that work at once, over all connections; more wait.
            isolate: ``"process"`` runs a plain function in a worker process, which is killed, with what it has started,
                when the call is cancelled or out of time and when the server stops. It costs a process: the first call
                waits until a new Python has imported the program, whose main module needs its
                ``if __name__ == "__main__"``; arguments and results are pickled; there is no `Context`, and no
                context variable. What it prints goes to standard error. Workers are used again, and stay until the
                server stops, `Limits.max_processes` at most. It is no sandbox: what runs there is trusted as the server
                is.
            scopes: what must have been granted to whoever calls it. A protected HTTP application (`http_app`) asks for
                what is missing; one that is not refuses all calls. Other transports authenticate nobody, and let all
                calls pass.

        Raises:
            ValueError: a tool of this name is registered, an option makes no sense, or the schema asks for header
                fields (`x-mcp-header`) in a way that clients must not accept.
            TypeError: a parameter cannot be described by a JSON Schema; the text names it. Or the function cannot be
                isolated, because it is async, takes a `Context`, or cannot be imported by its name.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
        """
        return _decorated(partial(self.tools.add, namespace=callers_names()), *args, **options)

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
        size: int | None = None,
        allow_traversal: bool = False,
        cache: CacheHint | None = None,
        scopes: Sequence[str] = (),
    ) -> Callable[[F], F]:
        """Register a function as a resource, or, where *uri* has ``{variables}``, as a resource template.

        The function gets the variables of the template and a `Context` if it asks for one. A variable is a text, or
        what its parameter's annotation makes of the text, or a list for an exploded one (``{/path*}``). It returns
        text, bytes, contents (`types.TextResourceContents`, `types.BlobResourceContents`), a list of them, or a
        whole `types.ReadResourceResult`. For contents that do not change there is `Resources.add_static`.
        Where it finds nothing it raises `ResourceNotFound`, which each client gets with the code of its revision.

        Args:
            uri: where clients find it: a URI, or a template by RFC 6570, levels 1 to 3 and exploded variables.
            name: its name; the function's by default.
            title: its name for people.
            description: what it is; the docstring by default.
            mime_type: its media type; of text ``text/plain`` by default, of bytes ``application/octet-stream``.
            annotations: hints about whom it is for.
            icons: pictures of it.
            meta: its `_meta`.
            size: bytes of its contents, where that is known.
            allow_traversal: take any value of a template's variables. By default a URI is not found if one of them
                could lead out of its place, as ``../`` does: an absolute path, a control character, an encoded ``..``.
            cache: for how long clients may keep what was read, and for whom; by default as `Server` says of all
                resources. A `types.ReadResourceResult` that says so itself is right.
            scopes: what must have been granted to whoever reads it, or wants to be told of its changes; as of a `tool`.
                What was read may then be kept for its reader alone.

        Raises:
            ValueError: the URI is registered, is none, or its variables are not the function's parameters. Or there
                are *scopes* that are none, or a *cache* that is for everybody beside them.
            TypeError: a parameter cannot be described by a JSON Schema; the text names it. Or *cache* is no
                `CacheHint`.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources
        """
        namespace = callers_names()

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
                size=size,
                allow_traversal=allow_traversal,
                cache=cache,
                scopes=scopes,
                namespace=namespace,
            )
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
    ) -> Callable[[F], F]: ...
    def prompt(self, *args: Any, **options: Any) -> Any:
        """Register a function as a prompt; bare or called. The function is returned unchanged.

        Its parameters are the prompt's arguments. They travel as text; an annotation such as `int` or `Literal` says
        what a text is turned into, and one that does not fit is refused. It returns a text, a `types.PromptMessage`,
        content, a list of these, or a whole `types.GetPromptResult`.

        Args:
            name: the prompt's name; the function's by default.
            title: its name for people.
            description: what it is for; the docstring by default.
            icons: pictures of it.
            meta: its `_meta`.
            scopes: what must have been granted to whoever gets it, or completes its arguments; as of a `tool`.

        Raises:
            ValueError: a prompt of this name is registered, or *scopes* are none.
            TypeError: a parameter cannot be described by a JSON Schema; the text names it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
        """
        return _decorated(partial(self.prompts.add, namespace=callers_names()), *args, **options)

    def completion(self, *, prompt: str | None = None, template: str | None = None, argument: str) -> Callable[[F], F]:
        """Register a function that suggests values for an argument of a prompt or a variable of a resource template.

        Its first parameter takes the text typed so far. Further parameters, named after other arguments of the same
        prompt or template, take what these are settled to already, None where that is open; a `Context` is passed
        as well. It returns texts, best first, of which a hundred are sent, or a `types.Completion`.

        Args:
            prompt: the prompt's name; it must be registered.
            template: or the template, as it was registered.
            argument: the argument or variable to complete.

        Raises:
            ValueError: there is no such argument, or it has a completion.
            TypeError: a parameter of the function is none of the other arguments.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
        """
        namespace = callers_names()

        def register(function: F) -> F:
            self.completions.add(function, prompt=prompt, template=template, argument=argument, namespace=namespace)
            return function

        return register

    def method(self, name: str, *, extension: str | None = None, scopes: Sequence[str] = ()) -> Callable[[F], F]:
        """Register a function as the answer to a method of your own, or of an extension, in every revision.

        It takes the params, as the annotation of its parameter says (an attrs class, a dataclass, a TypedDict, a
        `msgspec.Struct`, a pydantic model, a dict), and a `Context` if it asks for one. It returns an object of any of
        these kinds, or None for an empty one. Params that do not fit are refused, and it does not run.

        Args:
            name: the method, such as ``"com.example/rooms/list"``.
            extension: the extension it belongs to: a request that does not declare it is refused.
            scopes: what must have been granted to whoever asks it; as of a `Server.tool`.

        Raises:
            ValueError: the specification has a method of this name, it is registered already, or *scopes* are none.
            TypeError: it cannot be called with params; the text says why.
        """
        return _custom_registrar(partial(self.custom.add_method, scopes=scopes), name, extension, callers_names())

    def notification(self, name: str, *, extension: str | None = None) -> Callable[[F], F]:
        """Register a function that takes a notification of your own, or of an extension; see `method`.

        Those of one connection are worked on one after the other, in the order in which they were sent. What it returns
        means nothing; its failure goes to the log, and costs that notification.

        Raises what `method` raises.
        """
        return _custom_registrar(self.custom.add_notification, name, extension, callers_names())

    def middleware(self, function: M) -> M:
        """Register an async function around every request and notification; see `Request`. It is returned unchanged.

        It is called with the `Request` and with what calls the next one, and returns the result::

            @server.middleware
            async def log(request, call_next):
                print(request.method)
                return await call_next(request)

        The first one registered is the outermost. Each sees whatever a client sends, lists, `initialize` and unknown
        methods too, but not `notifications/cancelled` and `notifications/progress`, which belong to the engine, and
        not the answer to a question, with which a parked handler goes on. `call_next` of `subscriptions/listen` returns
        no sooner than it ends: by cancellation. It may answer itself, pass other params on (`Request.with_params`),
        and raise `McpError`. Any other failure of its own is answered as an internal error, and costs one request.

        What is registered while the server is being served counts for the next request.

        Raises:
            TypeError: it is no async function.
        """
        self.all_middleware = (*self.all_middleware, check_middleware(function))
        return function


def _decorated(add: Callable[..., None], function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Register *function*, or return the decorator that will."""
    if function is None:
        return lambda later: _decorated(add, later, **options)  # type: ignore[return-value]  # given one, it returns it
    add(function, **options)
    return function


def _in_order(revisions: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(revisions) - set(types.REVISIONS))
    if unknown or not revisions:
        raise ValueError(f"revisions={list(revisions)!r}: at least one of {', '.join(types.REVISIONS)}, and no other")
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
    """Return the local names of whoever called a decorator: annotations may name classes that are local there."""
    return sys._getframe(2).f_locals  # noqa: SLF001 # Python has no public name for a caller's frame


def _listened(params: JsonObject) -> Iterable[str]:
    """Return what a request to listen names as resources; what it names twice counts once, as for its handler."""
    wanted: Any = params.get("notifications")
    uris: Any = wanted.get("resourceSubscriptions") if is_object(wanted) else None
    return dict.fromkeys(uri for uri in uris if isinstance(uri, str)) if is_array(uris) else ()
