"""Names, options and imports that only other SDKs have: each error says what to write with this package."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_args

import pytest
import trio

import trio_mcp
from trio_mcp import (
    Accepted,
    Audio,
    Client,
    Clients,
    Context,
    Declined,
    Dismissed,
    Image,
    Server,
    gateway,
    http_app,
    open_client,
    open_clients,
    openapi,
    serve_http,
    types,
)
from trio_mcp._other_sdks import ATTRIBUTES, IMPORTS, OPTIONS
from trio_mcp.client import ClientOptions
from trio_mcp.llm import load_toolkit
from trio_mcp.server import HttpOptions, ServeHttpOptions
from trio_mcp.types import Model

CLASSES: Mapping[str, type[Any]] = {
    "Accepted": Accepted,
    "Declined": Declined,
    "Dismissed": Dismissed,
    "CreateMessageResult": types.CreateMessageResult,
    "Server": Server,
    "Context": Context,
    "Client": Client,
    "Clients": Clients,
    "CallToolResult": types.CallToolResult,
    "Model": Model,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Server": Server,
    "@server.tool": Server("s").tools.add,
    "@server.resource": Server.resource,
    "@server.prompt": Server("s").prompts.add,
    "server.run": Server.run,
    "serve_http": serve_http,
    "ctx.elicit": Context.elicit,
    "ctx.log": Context.log,
    "client.call_tool": Client.call_tool,
    "open_client": open_client,
    "Image": Image,
    "Audio": Audio,
}
S = TypeVar("S")
T = TypeVar("T")
HOLDERS: Mapping[str, Any] = {
    **CLASSES,
    "server": Server("s"),
    "ctx": Context,
    "client": Client,
    "clients": Clients,
    "result": types.CallToolResult,
    "answer": Accepted,
    "types": types,
}
MODULES: Mapping[str, object] = {
    "gateway": gateway,
    "openapi": openapi,
    **{name: getattr(module, name) for module in (gateway, openapi) for name in vars(module)["__all__"]},
}
"""The public modules besides `trio_mcp`, by their names in it, and what they contain."""
FROM_ELSEWHERE = {"trio", "asyncio", "attrs", "json", "logging", "path", "object"}


def parameters_of(function: Callable[..., Any]) -> set[str]:
    named = set(inspect.signature(function).parameters)
    return named | set(ClientOptions.__annotations__) if function is open_client else named


def codes() -> Iterator[str]:
    """Yield the code in all cures."""
    cures = [cure for table in (*ATTRIBUTES.values(), *OPTIONS.values(), IMPORTS) for cure in table.values()]
    for cure in sorted(set(cures)):
        yield from re.findall("`([^`]+)`", re.sub("'[^']*'", "''", cure))


def exists(dotted: str) -> bool:
    first, *rest = dotted.removeprefix("trio_mcp.").split(".")
    holder = HOLDERS.get(first) or getattr(trio_mcp, first, None) or MODULES.get(first)
    for name in rest:
        fields = {each.name for each in getattr(holder, "__attrs_attrs__", ())}
        if not hasattr(holder, name) and name not in fields:
            return False
        holder = getattr(holder, name, None)
        if holder is None or name in {"info", "content"}:  # a field of an instance: it is not followed further
            return True
    return holder is not None


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_no_explained_attribute_exists(name: str) -> None:
    own = {each for each in ATTRIBUTES[name] if hasattr(CLASSES[name], each)}

    assert own == set()


@pytest.mark.parametrize("place", OPTIONS)
def test_no_explained_option_exists(place: str) -> None:
    function: Any = FUNCTIONS[place]

    assert OPTIONS[place].keys() & parameters_of(function) == set()


def test_no_explained_import_exists() -> None:
    assert IMPORTS.keys() & set(dir(trio_mcp)) == set()


@pytest.mark.parametrize("code", sorted(set(codes())))
def test_the_code_of_a_cure_names_what_exists(code: str) -> None:
    dotted = {*re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+", code), *re.findall(r"(?<![.\w'])([A-Za-z_]\w*)\(", code)}
    options = set(re.findall(r"\b([a-z_]+)=", code))
    functions: list[Any] = [
        *FUNCTIONS.values(),
        Server.run,
        Server.completion,
        Server("s").resources.add_static,
        openapi.add_asgi,
        serve_http,
        http_app,
    ]
    known = {
        *(name for options in (HttpOptions, ServeHttpOptions, ClientOptions) for name in options.__annotations__),
        *(name for function in functions for name in parameters_of(function)),
        *("event_store", "issuers", "level", "version"),
    }

    missing = {each for each in dotted if each.split(".")[0] not in FROM_ELSEWHERE and not exists(each)}
    assert missing - {"call_tool", "function", "isinstance"} == set()
    assert options <= known


@pytest.mark.parametrize("name", sorted(IMPORTS))
def test_an_import_of_another_sdk_names_the_cure(name: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(f"from trio_mcp import {name}", {})

    assert str(raised.value) == f"cannot import name {name!r} from 'trio_mcp'; {IMPORTS[name]}"


def test_a_name_that_no_sdk_has_is_missing_as_everywhere_in_python() -> None:
    assert not hasattr(trio_mcp, "Nothing")
    assert not hasattr(Server("s"), "nothing")
    with pytest.raises(AttributeError, match=r"^'Server' object has no attribute 'nothing'$") as raised:
        Server("s").nothing  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    assert raised.value.name == "nothing"  # Python proposes similar names by it


@pytest.mark.parametrize(
    ("message", "name", "cure"),
    [
        (types.CallToolResult(content=[]), "data", "use `result.structured_content`, or `call_tool(..., returns=T)`"),
        (types.ListToolsResult(tools=[]), "model_dump", "use `types.unstructure(value)`"),
    ],
)
def test_an_attribute_of_a_message_under_the_name_of_another_sdk_names_the_cure(
    message: Model, name: str, cure: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(message, name)

    assert str(raised.value) == f"{type(message).__name__!r} object has no attribute {name!r}; {cure}"


def test_a_message_is_no_list() -> None:
    result: Any = types.ListToolsResult(tools=[])
    expected = r"^'ListToolsResult' is an object and no list: use its members \.tools, .*\.next_cursor"

    for use in (lambda: list(result), lambda: result[0], lambda: "add" in result):
        with pytest.raises(TypeError, match=expected):
            use()


def test_messages_are_copied_and_pickled_as_before() -> None:
    message = types.CallToolResult(content=[types.TextContent(text="x")])

    assert copy.deepcopy(message) == copy.copy(message) == pickle.loads(pickle.dumps(message)) == message


def test_a_client_is_not_made_of_a_target() -> None:
    make: Any = Client

    with pytest.raises(TypeError, match=r"^Client\(\) takes no target: write `async with open_client\(target\)"):
        make("server.py")


def test_a_context_has_one_type() -> None:
    generic: Any = Context

    assert generic[int] is not None
    with pytest.raises(TypeError, match=r"Context takes one type, that of its state: write Context\[State\]"):
        generic[object, int]


def test_a_subclass_of_context_may_have_more_types() -> None:
    class Wider(Context[S], Generic[S, T]): ...

    assert get_args(Wider[int, str]) == (int, str)


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        (("stdio",), "server.run(http=8000)"),
        ({"transport": "http", "port": 9000}, "server.run(http=9000)"),
        ({"transport": "http", "port": None}, "server.run(http=8000)"),
        ({"transport": "sse", "host": "::", "path": "/x"}, "server.run(http=8000, host='::', path='/x')"),
    ],
)
def test_run_takes_no_transport(call: Any, cure: str) -> None:
    run: Any = Server("s").run

    with pytest.raises(TypeError, match=rf"write server\.run\(\) for .*, and {re.escape(cure)} for HTTP"):
        run(**call) if isinstance(call, dict) else run(*call)


@pytest.mark.parametrize("name", OPTIONS["server.run"])
def test_an_option_of_another_sdks_run_names_the_cure(name: str) -> None:
    run: Any = Server("s").run

    for more in ({}, {"http": 0}):
        with pytest.raises(TypeError) as raised:
            run(**{name: None}, **more)
        assert str(raised.value) == f"server.run(): unexpected keyword argument {name!r}; {OPTIONS['server.run'][name]}"


@pytest.mark.parametrize("place", ["Server", "@server.tool", "@server.resource", "@server.prompt"])
def test_an_option_of_another_sdk_names_the_cure_where_something_is_registered(place: str) -> None:
    make: Any = Server
    server: Any = make("s")

    def register(options: dict[str, None]) -> None:
        match place:
            case "Server":
                make("s", **options)
            case "@server.resource":
                server.resource("a://b", **options)
            case _:
                getattr(server, place.removeprefix("@server."))(**options)(register)

    for name, cure in OPTIONS[place].items():
        with pytest.raises(TypeError) as raised:
            register({name: None})
        assert str(raised.value) == f"{place}(): unexpected keyword argument {name!r}; {cure}"


def test_an_unknown_option_is_named_without_a_guess() -> None:
    make: Any = Server

    with pytest.raises(TypeError, match=r"^Server\(\): unexpected keyword argument 'nothing'$"):
        make("s", nothing=1)


@pytest.mark.parametrize("media", [Image, Audio])
@pytest.mark.parametrize("name", ["path", "format"])
def test_the_arguments_of_an_image_of_another_sdk_name_the_cure(media: Any, name: str) -> None:
    place = media.__name__

    with pytest.raises(TypeError) as raised:
        media(**{name: "x"})

    assert str(raised.value) == f"{place}(): unexpected keyword argument {name!r}; {OPTIONS[place][name]}"
    assert [*inspect.signature(media).parameters] == ["data", "mime_type"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'mime_type'"):
        media(b"")


def test_a_misspelt_name_of_a_module_is_answered_with_similar_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'open_cleint'; did you mean 'open_client' or"):
        trio_mcp.open_cleint  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'trio_mcp' has no attribute '_open_client'$"):
        trio_mcp._open_client  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportPrivateUsage]  # noqa: B018


def test_modules_can_be_probed_for_names_of_other_sdks() -> None:
    assert not hasattr(trio_mcp, "FastMCP")
    with pytest.raises(AttributeError, match=r"^module 'trio_mcp' has no attribute 'FastMCP'; use `Server`$"):
        trio_mcp.FastMCP  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    with pytest.raises(AttributeError, match=r"'ErrorData'; use `McpError\(code, message, data\)`$"):
        types.ErrorData  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


@pytest.mark.parametrize(
    ("owner", "name"), [(Server, "from_openapi"), (types.Tool, "model_validate"), (types.Tool, "model_dump")]
)
def test_what_other_sdks_call_on_the_class_is_explained(owner: type[Any], name: str) -> None:
    table = ATTRIBUTES["Server" if owner is Server else "Model"]

    with pytest.raises(AttributeError) as raised:
        getattr(owner, name)

    assert str(raised.value) == f"type object {owner.__name__!r} has no attribute {name!r}; {table[name]}"


@pytest.mark.parametrize("name", OPTIONS["open_client"])
async def test_an_option_of_another_sdks_client_names_the_cure(name: str) -> None:
    options: Any = {name: None}

    with pytest.raises(TypeError) as raised:
        async with open_client(Server("s"), **options):
            raise AssertionError
    assert str(raised.value).endswith(f"; {OPTIONS['open_client'][name]}")


async def test_calls_and_questions_with_options_of_another_sdk_name_the_cure() -> None:
    server, refusals = Server("s"), list[str]()

    @server.tool
    async def ask(ctx: Context) -> None:
        elicit: Any = ctx.elicit
        log: Any = ctx.log
        with pytest.raises(TypeError, match=r"ctx\.log\(\): unexpected keyword argument 'logger_name'; use `logger=`"):
            await log("info", "text", logger_name="x")
        for name in OPTIONS["ctx.elicit"]:
            with pytest.raises(TypeError) as raised:
                await elicit("message", **{name: str})
            refusals.append(str(raised.value))

    async with open_client(server) as client:
        call: Any = client.call_tool
        await call("ask")
        for name, cure in OPTIONS["client.call_tool"].items():
            with pytest.raises(
                TypeError, match=re.escape(f"client.call_tool(): unexpected keyword argument {name!r}; {cure}")
            ):
                await call("ask", **{name: 1})

    assert len(refusals) == 2
    assert all(each.endswith("; use `ctx.elicit(message, Form)`, with a class of fields") for each in refusals)


async def test_handlers_and_clients_explain_the_attributes_of_another_sdk() -> None:
    server, explained = Server("s"), dict[str, str]()

    @server.tool
    def look(ctx: Context) -> None:
        for name in ATTRIBUTES["Context"]:
            with pytest.raises(AttributeError) as raised:
                getattr(ctx, name)
            explained[name] = str(raised.value)

    async with open_client(server) as client:
        await client.call_tool("look", raise_on_error=True)
        for name, cure in ATTRIBUTES["Client"].items():
            with pytest.raises(AttributeError, match=re.escape(f"'Client' object has no attribute {name!r}; {cure}")):
                getattr(client, name)

    assert explained == {
        name: f"'Context' object has no attribute {name!r}; {cure}" for name, cure in ATTRIBUTES["Context"].items()
    }
    for name, cure in ATTRIBUTES["Server"].items():
        with pytest.raises(AttributeError, match=re.escape(f"'Server' object has no attribute {name!r}; {cure}")):
            getattr(server, name)


async def test_the_clients_of_many_servers_explain_what_only_one_client_has() -> None:
    async with open_clients({"mcpServers": {}}) as clients:
        for name, cure in ATTRIBUTES["Clients"].items():
            with pytest.raises(AttributeError, match=re.escape(f"'Clients' object has no attribute {name!r}; {cure}")):
                getattr(clients, name)


async def test_a_resource_is_read_by_a_string() -> None:
    address: Any = object()

    async with open_client(Server("s")) as client:
        with pytest.raises(TypeError, match=r"^uri: expected str, such as 'file:///notes.txt', and got object$"):
            await client.read_resource(address)


@pytest.mark.parametrize("option", ["on_elicit", "on_sample", "on_log", "on_elicit_complete", "consent"])
async def test_a_callback_with_the_parameters_of_another_sdk_is_refused_when_connecting(option: str) -> None:
    async def handle(context: object, params: object) -> None: ...

    for callback, fault in (
        (handle, "missing a required argument: 'params'"),
        ("handle", "expected an async function"),
    ):
        options: Any = {option: callback}
        with pytest.raises(TypeError, match=f"^{option}: .*{fault}"):
            async with open_client(Server("s"), **options):
                raise AssertionError


async def test_a_callback_whose_parameters_python_does_not_know_is_accepted() -> None:
    options: Any = {"on_log": type}

    async with open_client(Server("s"), **options) as client:
        await client.ping()


async def test_roots_that_are_texts_are_refused_when_connecting() -> None:
    options: Any = {"roots": ["file:///tmp"]}

    with pytest.raises(
        TypeError, match=r"^roots: expected Root, such as types\.Root\(uri='file:///home/ada'\), and got str"
    ):
        async with open_client(Server("s"), **options):
            raise AssertionError


async def test_facades_have_a_short_repr() -> None:
    server, shown = Server("a"), list[str]()

    @server.tool
    def look(ctx: Context) -> None:
        shown.append(repr(ctx))

    async with open_client(server) as client:
        await client.call_tool("look", raise_on_error=True)
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0))
        assert len(repr(bound)) < 100
        nursery.cancel_scope.cancel()

    assert [repr(server), repr(http_app(server)), *shown] == [
        "<Server 'a'>",
        "<HttpApp of <Server 'a'>>",
        "<Context of tools/call>",
    ]


@pytest.mark.parametrize("name", OPTIONS["serve_http"])
async def test_an_option_of_another_server_names_the_cure_when_serving(name: str) -> None:
    options: Any = {name: None}

    with pytest.raises(TypeError) as raised:
        await serve_http(Server("s"), port=0, **options)

    assert str(raised.value) == f"unknown options: {name}; {OPTIONS['serve_http'][name]}"


def test_a_misspelt_option_of_an_application_is_named_with_similar_ones() -> None:
    options: Any = {"route": {}}

    with pytest.raises(TypeError, match=r"^unknown options: route; did you mean 'routes'\?$"):
        http_app(Server("s"), **options)
    wrong: Any = {"routes": ["/x"]}
    with pytest.raises(
        TypeError, match=r"^routes: expected Mapping, such as routes=\{'/version': function\}, and got list$"
    ):
        http_app(Server("s"), **wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 3}, "Server(name=): expected str, such as name='notes', and got int"),
        ({"version": 1.0}, "Server(version=): expected str, such as version='1.0', and got float"),
        ({"version": None}, "Server(version=): expected str, such as version='1.0', and got NoneType"),
        ({"instructions": []}, "Server(instructions=): expected str, such as instructions='My server', and got list"),
    ],
)
def test_the_texts_of_a_server_are_strings(options: Any, message: str) -> None:
    make: Any = Server

    with pytest.raises(TypeError) as raised:
        make(**{"name": "s", **options})

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("python server.py", ValueError, "such as ['python', 'server.py']"),
        ("server.py", ValueError, "such as [sys.executable, 'server.py']"),
        (Server, TypeError, "cannot connect to the class Server: pass an instance, such as Server(...)"),
    ],
)
async def test_a_target_that_is_no_target_names_the_cure(target: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        async with open_client(target):
            raise AssertionError


async def test_roots_that_are_no_list_and_no_function_without_parameters_are_refused() -> None:
    async def of(context: object) -> list[types.Root]:
        return []

    wrong: list[tuple[Any, str]] = [(5, "roots: expected Sequence"), (of, "roots: it is called with no argument")]
    for roots, message in wrong:
        with pytest.raises(TypeError, match=message):
            async with open_client(Server("s"), roots=roots):
                raise AssertionError


async def test_a_toolkit_of_no_tool_is_refused() -> None:
    server = Server("s")
    server.tool(parameters_of_nothing)

    async with open_client(server) as client:
        with pytest.raises(ValueError, match=r"^only=\['zzz'\]: no tool has such a name$"):
            await load_toolkit(client, only=["zzz"])
        assert (await load_toolkit(client, only=[])).functions == []


def parameters_of_nothing() -> None: ...


async def test_the_arguments_of_a_call_may_be_any_mapping() -> None:
    server = Server("s")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with open_client(server) as client:
        assert await client.call_tool("add", MappingProxyType({"a": 1, "b": 2}), returns=int) == 3


@pytest.mark.parametrize("lifespan", [None, 3, trio.sleep_forever])
def test_a_lifespan_that_is_no_context_manager_function_is_refused(lifespan: Any) -> None:
    with pytest.raises(TypeError, match=r"^lifespan: expected a function that takes the server and returns an async"):
        Server("s", lifespan=lifespan)
