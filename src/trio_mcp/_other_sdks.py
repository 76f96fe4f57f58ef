"""Errors for names that other SDKs have: each says what to write with this package.

A program that is ported from the official SDK or from FastMCP meets a name that does not exist here. Python says that
it does not exist; these errors add the cure. The tables hold, for each class and function, the foreign names that the
guides of those SDKs teach.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = [
    "ATTRIBUTES",
    "IMPORTS",
    "OPTIONS",
    "ForeignAttribute",
    "ForeignAttributes",
    "explained_init",
    "foreign_name",
    "option_cure",
    "unknown_options",
]

_SERVING = "use `await serve_http(server, port=8000)`, or `server.run(http=8000)` where no event loop runs"
_ASGI = "use `http_app(server)`"
_CONTEXT = "take a parameter `ctx: Context` in the handler"
_CALL_IT = "call the function itself: the decorator returns it unchanged"
_MOUNT = "use `Gateway('all').mount(target)`, of `trio_mcp.gateway`"
_AS_CLIENT = "`async with open_client(server) as client:` reaches them"
_LOG = "use `await ctx.log({level!r}, data)`"
_STATE = "use a local variable, a dependency (`Resolve`), or `ctx.state` for what the lifespan yields"
_ANSWER = "use `isinstance(answer, Accepted)`, and then `answer.value`; or `match`"
_IN_BLOCK = "not needed: the block of `open_client` does it"

ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Server": {
        "run_async": "use `await serve_stdio(server)` or `await serve_http(server, port=8000)`",
        "run_stdio_async": "use `await serve_stdio(server)`",
        **dict.fromkeys(("run_http_async", "run_streamable_http_async", "run_sse_async"), _SERVING),
        **dict.fromkeys(("http_app", "streamable_http_app", "sse_app"), _ASGI),
        "session_manager": "use `http_app(server).run()` or its `lifespan`",
        "settings": "use the options of `Server(...)`, of `serve_http(...)`, and `Limits`",
        **{
            name: f"use `server.info.{name}`"
            for name in ("name", "version", "title", "description", "website_url", "icons")
        },
        "add_tool": "use `server.tools.add(function)`",
        "remove_tool": "use `server.tools.remove(name)`",
        "add_resource": "use `server.resources.add_static(uri, text, name=...)`, or `.add(uri, function)`",
        "add_template": "use `server.resources.add(uri, function)`",
        "resource_template": "use `@server.resource('users://{id}')`",
        "add_prompt": "use `server.prompts.add(function)`",
        "add_middleware": "use `@server.middleware`",
        "custom_route": "use `routes={path: function}` of `serve_http` or `http_app`",
        **dict.fromkeys(("list_tools", "get_tools", "get_tool"), f"use `@server.tool` to register one; {_AS_CLIENT}"),
        "call_tool": f"use `@server.tool` to register one; {_AS_CLIENT}",
        **dict.fromkeys(
            ("list_resources", "list_resource_templates", "read_resource", "get_resource", "get_resources"),
            f"use `@server.resource(uri)` to register one; {_AS_CLIENT}",
        ),
        **dict.fromkeys(
            ("list_prompts", "get_prompt", "get_prompts"), f"use `@server.prompt` to register one; {_AS_CLIENT}"
        ),
        **dict.fromkeys(("get_context", "request_context"), _CONTEXT),
        **dict.fromkeys(("mount", "import_server", "as_proxy", "add_provider"), _MOUNT),
        "from_openapi": "use `add_openapi(server, source, include=[...])`, of `trio_mcp.openapi`",
        "from_fastapi": "use `add_asgi(server, app, include=[...])`, of `trio_mcp.openapi`",
        "get_capabilities": "use `server.capabilities`",
        "create_initialization_options": "not needed: `server.run()` and `serve_stdio(server)` need none",
        **dict.fromkeys(("enable", "disable"), "use `Server(visible=function)`, or `visible=` of one entry"),
        "set_logging_level": "not needed: `ctx.log` obeys the level that the client sets",
        **dict.fromkeys(
            ("subscribe_resource", "unsubscribe_resource"),
            "not needed: call `server.resource_updated(uri)` after a change",
        ),
    },
    "Context": {
        **{level: _LOG.format(level=level) for level in ("debug", "info", "warning", "error")},
        "request_context": "use `ctx.state` for what the lifespan yields, `ctx.meta`, `ctx.headers`",
        "lifespan_context": "use `ctx.state`",
        "session": "use `ctx.elicit`, `ctx.sample`, `ctx.list_roots` and `ctx.resource_updated`; list changes are sent "
        "without your help",
        **dict.fromkeys(("fastmcp", "mcp_server", "server"), "use the `Server` object itself, which the module holds"),
        **dict.fromkeys(("read_resource", "list_resources", "get_prompt", "list_prompts"), _CALL_IT),
        **dict.fromkeys(("get_state", "set_state", "delete_state"), _STATE),
        "get_http_request": "use `ctx.headers`",
        **dict.fromkeys(("client_id", "access_token"), "use `ctx.access` for the token's claims, `ctx.principal`"),
        **dict.fromkeys(("session_id", "request_id"), "use a value of your own; `ctx.principal` tells users apart"),
        "protocol_version": "use `ctx.revision`",
        "elicit_url": "use `await ctx.elicit(message, url=...)`",
        **dict.fromkeys(
            ("input_responses", "request_state"), "use `await ctx.elicit(...)` or `await ctx.ask_all(...)`"
        ),
        **dict.fromkeys(("notify_resource_updated", "send_resource_updated"), "use `ctx.resource_updated(uri)`"),
        **dict.fromkeys(
            (
                *("notify_tools_changed", "notify_resources_changed", "notify_prompts_changed"),
                *("send_tool_list_changed", "send_resource_list_changed", "send_prompt_list_changed"),
            ),
            "not needed: changes of lists are sent without your help",
        ),
        "send_notification": "use `await ctx.notify(method, params)`",
        "close_sse_stream": "use `await ctx.close_stream()`",
    },
    "Client": {
        "initialize": _IN_BLOCK,
        **dict.fromkeys(("close", "disconnect"), "use `await client.aclose()`, or leave the block of `open_client`"),
        **dict.fromkeys(
            ("is_connected", "session", "transport"), "use the client itself, inside the block of `open_client`"
        ),
        "new": "use `open_client(...)` once more",
        "initialize_result": "use `client.server_info`, `client.server_capabilities`, `client.instructions`",
        "get_server_capabilities": "use `client.server_capabilities`",
        "protocol_version": "use `client.revision`",
        "send_ping": "use `await client.ping()`",
        "set_logging_level": "use `await client.set_log_level(level)`",
        "send_roots_list_changed": "use `await client.roots_changed()`",
        "send_request": "use `await client.request(method, params, result)`",
        "send_notification": "use `await client.notify(method, params)`",
        "cancel": "use a cancel scope around the call: cancelling it cancels the handler",
        **{
            f"{name}_mcp": f"use `await client.{name}(...)`"
            for name in (
                *("list_tools", "call_tool", "list_resources", "list_resource_templates", "read_resource"),
                *("list_prompts", "get_prompt", "complete"),
            )
        },
    },
    "Clients": {
        "list_tools": "use `clients.tools()`",
        **dict.fromkeys(("close", "disconnect"), "use `await clients.aclose()`, or leave the block of `open_clients`"),
        **{
            name: f"use that of one server, as in `clients['notes'].{name}(...)`"
            for name in (
                *("complete", "get_prompt", "list_prompts", "list_resources", "open_call", "ping", "prompts"),
                *("read_resource", "resource_templates", "resources", "set_log_level"),
            )
        },
    },
    **{
        name: {"action": _ANSWER, "data": _ANSWER, "content": _ANSWER} for name in ("Accepted", "Declined", "Dismissed")
    },
    "CreateMessageResult": {"text": "use `result.content.text`, if it is a `types.TextContent`"},
    "CallToolResult": {
        "data": "use `result.structured_content`, or `call_tool(..., returns=T)`",
        "text": "use `result.content[0].text`, or `call_tool(..., returns=str)`",
    },
    "Model": {
        "inputSchema": "use `input_schema`",
        "isError": "use `is_error`",
        "mimeType": "use `mime_type`",
        "nextCursor": "use `next_cursor`",
        "outputSchema": "use `output_schema`",
        "structuredContent": "use `structured_content`",
        "uriTemplate": "use `uri_template`",
        "model_dump": "use `types.unstructure(value)`",
        "model_dump_json": "use `json.dumps(types.unstructure(value))`",
        "model_copy": "use `attrs.evolve(value, ...)`",
        **dict.fromkeys(("model_validate", "model_validate_json"), "use `types.structure(value, cls)`"),
    },
}
"""What to write for an attribute of another SDK, by the name of the class that lacks it."""

_AT_HTTP = "it is an option of `serve_http`, `server.run(http=...)` or `http_app`"
_AUTH = "use `serve_http(server, auth=ResourceServer(url, issuers=[...]))`, or `http_app(...)` with it"
_LOGGING = "use the standard module logging: logging.basicConfig(level=...)"
_META = "use `meta={...}`"
_PROGRESS = "use `on_progress=`"
_LIMIT = (
    "use `with trio.fail_after(seconds):` around the call; on asyncio `async with asyncio.timeout(seconds):`; without "
    "async `time_limits=` of `open_client`"
)

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "Server": {
        "json_response": "not needed: a response without messages before the answer is JSON",
        "stateless_http": "not needed: clients of 2026-07-28 have no sessions; `sessions=False` of `serve_http` or "
        "`http_app` refuses older ones",
        "event_store": "use `sessions=SessionSettings(event_store=...)` of `serve_http` or `http_app`",
        **dict.fromkeys(("host", "port"), _AT_HTTP),
        "streamable_http_path": "use `path=` of `serve_http` or `http_app`",
        "transport_security": "use `allowed_hosts=` and `allowed_origins=` of `serve_http` or `http_app`",
        **dict.fromkeys(("auth", "token_verifier", "auth_server_provider"), _AUTH),
        **dict.fromkeys(("debug", "log_level"), _LOGGING),
        "mask_error_details": "use `mask_errors=`",
        "strict_input_validation": "use `repair_arguments=False`",
        "list_page_size": "use `page_size=`",
        "tools": "use `server.tools.add(function)` for each",
        **dict.fromkeys(("include_tags", "exclude_tags"), "use `visible=function`"),
        **dict.fromkeys(
            ("on_duplicate", "on_duplicate_tools", "warn_on_duplicate_tools"),
            "not needed: a second entry of one name is an error",
        ),
        **{
            f"on_{name}": "use `@server.tool`, `@server.resource` and `@server.prompt` for each entry"
            for name in (
                *("list_tools", "call_tool", "list_resources", "list_resource_templates", "read_resource"),
                *("list_prompts", "get_prompt"),
            )
        },
        "on_completion": "use `@server.completion(prompt=..., argument=...)`",
        "dependencies": "use the dependencies of the program's own project or script",
    },
    "@server.tool": {
        "tags": f"{_META}, and `visible=` to hide the tool",
        "structured_output": "not needed: a return annotation gives structured content, and no annotation gives none",
        "enabled": "use `visible=`, or `server.tools.remove(name)`",
        "exclude_args": "use `Annotated[T, Resolve(function)]` as the parameter's annotation",
        "auth": "use `scopes=[...]`",
        "version": _META,
    },
    "@server.resource": {
        "tags": f"{_META}, and `visible=` to hide the resource",
        "mimeType": "use `mime_type=`",
        "enabled": "use `visible=`",
        "auth": "use `scopes=[...]`",
        "security": "use `allow_traversal=`",
        "version": _META,
    },
    "@server.prompt": {
        "tags": f"{_META}, and `visible=` to hide the prompt",
        "enabled": "use `visible=`",
        "auth": "use `scopes=[...]`",
        "version": _META,
    },
    "serve_http": {
        **dict.fromkeys(("limits", "lifespan", "middleware"), "it is an option of `Server`"),
        **dict.fromkeys(
            ("stateless_http", "json_response"), "not needed; `sessions=False` refuses clients with sessions"
        ),
        **dict.fromkeys(("log_level", "show_banner"), _LOGGING),
        "reload": "use `trio-mcp dev FILE`",
    },
    "server.run": {
        **dict.fromkeys(
            ("stateless_http", "json_response"), "not needed; `sessions=False` refuses clients with sessions"
        ),
        **dict.fromkeys(("log_level", "show_banner"), _LOGGING),
        **dict.fromkeys(("uvicorn_config", "middleware"), "use `http_app(server)` under `hypercorn -k trio`"),
    },
    "ctx.log": {
        "message": "use `data`, the second argument",
        **dict.fromkeys(("logger_name", "extra"), "use `logger=`"),
    },
    **{
        place: {
            "path": "use `path.read_bytes()` and the media type, as in `Image(path.read_bytes(), 'image/png')`",
            "format": "use `mime_type=`, such as 'image/png'",
        }
        for place in ("Image", "Audio")
    },
    "ctx.elicit": dict.fromkeys(("schema", "response_type"), "use `ctx.elicit(message, Form)`, with a class of fields"),
    "client.call_tool": {
        **dict.fromkeys(("progress_callback", "progress_handler"), _PROGRESS),
        **dict.fromkeys(("read_timeout_seconds", "timeout"), _LIMIT),
    },
    "open_client": {
        **dict.fromkeys(("sampling_callback", "sampling_handler"), "use `on_sample=`"),
        **dict.fromkeys(("elicitation_callback", "elicitation_handler"), "use `on_elicit=`"),
        **dict.fromkeys(("logging_callback", "log_handler"), "use `on_log=`"),
        "list_roots_callback": "use `roots=`",
        "message_handler": "use `notifications={method: function}`",
        **dict.fromkeys(("progress_handler", "progress_callback"), "use `on_progress=` of `call_tool`"),
        **dict.fromkeys(("timeout", "init_timeout", "read_timeout_seconds"), "use `time_limits=TimeLimits(...)`"),
        **dict.fromkeys(("client_info", "name"), "use `info=types.Implementation(name=..., version=...)`"),
        "mode": "use `revision=` or `probe=`",
    },
}
"""What to write for an option of another SDK, by the place that lacks it, as a program writes it."""

IMPORTS: Mapping[str, str] = {
    **dict.fromkeys(("FastMCP", "MCPServer"), "use `Server`"),
    "ClientSession": "use `open_client(target)`",
    **dict.fromkeys(
        ("StdioServerParameters", "stdio_client", "StdioTransport", "PythonStdioTransport"),
        "use `open_client([command, *args])`",
    ),
    **dict.fromkeys(
        ("streamable_http_client", "streamablehttp_client", "sse_client", "StreamableHttpTransport", "SSETransport"),
        "use `open_client(url)`",
    ),
    "ClientSessionGroup": "use `open_clients('mcp.json')`",
    "stdio_server": "use `serve_stdio(server)`",
    **dict.fromkeys(("UserMessage", "Message"), "use `User(...)`"),
    "AssistantMessage": "use `Assistant(...)`",
    "Depends": "use `Annotated[T, Resolve(function)]` as the parameter's annotation",
    **dict.fromkeys(("CurrentContext", "get_context"), _CONTEXT),
    **dict.fromkeys(("MCPError", "McpException"), "use `McpError` in a server, and `ErrorResponse` in a client"),
    "ErrorData": "use `McpError(code, message, data)`",
    **dict.fromkeys(("AcceptedElicitation", "DeclinedElicitation", "CancelledElicitation"), _ANSWER),
    **dict.fromkeys(("get_access_token", "AccessToken"), "use `ctx.access`"),
    **dict.fromkeys(("get_http_headers", "get_http_request"), "use `ctx.headers`"),
    "BearerAuth": "use `Bearer(token)`",
    "OAuthClientProvider": "use `OAuth()`",
    **dict.fromkeys(("AuthSettings", "TokenVerifier"), "use `ResourceServer(url, issuers=[...])`, of `serve_http`"),
    "TransportSecuritySettings": "use `allowed_hosts=` and `allowed_origins=` of `serve_http` or `http_app`",
    **dict.fromkeys(("TextResource", "FileResource"), "use `server.resources.add_static(uri, text, name=...)`"),
    "ToolResult": "use `types.CallToolResult`",
    "ResourceError": "use `ResourceNotFound`, or `McpError(code, message)`",
    **dict.fromkeys(
        ("ServerSession", "NotificationOptions", "InitializationOptions"), "not needed: `Context` has it all"
    ),
    **{name: f"use `types.{name}`" for name in ("Tool", "TextContent", "ImageContent", "CallToolResult", "Root")},
    "ResourceNotFoundError": "use `ResourceNotFound`",
    "Icon": "use `types.Icon`",
}
"""What to write for an import from another SDK."""


C = TypeVar("C")


class ForeignAttributes:
    """A base class whose missing attributes are explained if another SDK has them.

    It makes each attribute of its subclasses a little slower to read; see `ForeignAttribute`.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report a missing attribute by themselves

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property has raised AttributeError: its own message says more
                return object.__getattribute__(self, name)
            raise _missing(self, name, type(self))


class ForeignAttribute:
    """An attribute that only other SDKs have, which is explained when it is read; it slows down nothing else."""

    __slots__ = ("_name",)

    def __set_name__(self, _owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Any]) -> NoReturn:
        raise _missing(owner if instance is None else instance, self._name, owner)


def unknown_options(place: str, unknown: Iterable[str], *, otherwise: str = "") -> TypeError:
    """Return the error about keyword arguments that a function does not have.

    Args:
        place: the function, as a program writes it, such as ``@server.tool``.
        unknown: their names.
        otherwise: the cure of a name that no other SDK has.
    """
    faults = (
        f"unexpected keyword argument {name!r}{option_cure(place, name) or _instead(otherwise)}" for name in unknown
    )
    return TypeError(f"{place}(): {'; '.join(faults)}")


def option_cure(place: str, name: str) -> str:
    """Return what to write for an option that a function does not have, to be added to an error; empty if unknown."""
    return _instead(OPTIONS.get(place, {}).get(name))


def foreign_name(package: str, name: str, known: Iterable[str]) -> Exception:
    """Return the error about a name that a package does not have; to be called by its `__getattr__`.

    Args:
        known: the names that it has.

    It is an `ImportError` only in an import statement, which would replace the text of any other; `hasattr` expects an
    `AttributeError`.
    """
    cure = _instead(IMPORTS.get(name))
    caller = sys._getframe(2).f_code.co_name  # noqa: SLF001 # Python has no public name for a caller's frame
    is_imported = caller == "_handle_fromlist"  # of importlib, which looks for submodules here, too
    if not cure and not is_imported and not name.startswith("_"):  # tools look for many private names
        from ._misuse import did_you_mean  # noqa: PLC0415 # few programs need it

        cure = did_you_mean(name, (each for each in known if each[0] == name[0]))
    if cure and is_imported:
        return ImportError(f"cannot import name {name!r} from {package!r}{cure}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}{cure}")


def explained_init(cls: type[C]) -> type[C]:
    """Explain the arguments that other SDKs' classes of that name take; a decorator, outside of that of attrs.

    The constructor becomes slower, so it is for small classes of users only.
    """
    construct: Any = cls.__init__
    known = inspect.signature(construct).parameters.keys()

    @wraps(construct)
    def explain(self: C, *args: Any, **options: Any) -> None:
        if unknown := [name for name in options if name not in known]:
            raise unknown_options(cls.__name__, unknown)
        construct(self, *args, **options)

    cls.__init__ = explain  # type: ignore[assignment]
    return cls


def _instead(cure: str | None) -> str:
    return f"; {cure}" if cure else ""


def _missing(holder: object, name: str, kind: type[Any]) -> AttributeError:
    """Return the error about an attribute of *holder*, which is an instance of *kind* or *kind* itself."""
    cures = (ATTRIBUTES.get(each.__name__, {}).get(name) for each in kind.__mro__)
    cure = _instead(next(filter(None, cures), None))
    what = f"type object {kind.__name__!r}" if holder is kind else f"{kind.__name__!r} object"
    return AttributeError(f"{what} has no attribute {name!r}{cure}", name=name, obj=holder)
