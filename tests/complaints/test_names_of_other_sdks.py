"""Names, options and imports that only other SDKs have: each error says what to write with this package."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import trio_mcp
from trio_mcp import Audio, Client, Context, Image, Server, http_app, open_client, serve_http, types
from trio_mcp._other_sdks import ATTRIBUTES, IMPORTS, OPTIONS
from trio_mcp.client import ClientOptions
from trio_mcp.server import HttpOptions, ServeHttpOptions
from trio_mcp.types import Model

CLASSES: Mapping[str, type[Any]] = {
    "Server": Server,
    "Context": Context,
    "Client": Client,
    "CallToolResult": types.CallToolResult,
    "Model": Model,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Server": Server,
    "@server.tool": Server("s").tools.add,
    "@server.resource": Server.resource,
    "@server.prompt": Server("s").prompts.add,
    "ctx.elicit": Context.elicit,
    "client.call_tool": Client.call_tool,
    "open_client": open_client,
    "Image": Image,
    "Audio": Audio,
}
HOLDERS: Mapping[str, Any] = {
    **CLASSES,
    "server": Server("s"),
    "ctx": Context,
    "client": Client,
    "result": types.CallToolResult,
    "types": types,
}
FROM_ELSEWHERE = {"trio", "attrs", "json", "logging", "path", "object"}


def parameters_of(function: Callable[..., Any]) -> set[str]:
    named = set(inspect.signature(function).parameters)
    return named | set(ClientOptions.__annotations__) if function is open_client else named


def codes() -> Iterator[str]:
    """Yield the code in all cures."""
    cures = [cure for table in (*ATTRIBUTES.values(), *OPTIONS.values(), IMPORTS) for cure in table.values()]
    for cure in sorted(set(cures)):
        yield from re.findall("`([^`]+)`", re.sub("'[^']*'", "''", cure))


def exists(dotted: str) -> bool:
    first, *rest = dotted.split(".")
    holder = HOLDERS.get(first) or getattr(trio_mcp, first, None)
    for name in rest:
        fields = {each.name for each in getattr(holder, "__attrs_attrs__", ())}
        if not hasattr(holder, name) and name not in fields:
            return False
        holder = getattr(holder, name, None)
        if holder is None or name == "info":  # a field of an instance: it is not followed further
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
    dotted = {*re.findall(r"\b[a-z]+(?:\.[a-z_]+)+", code), *re.findall(r"(?<![.\w'])([A-Za-z_]\w*)\(", code)}
    options = set(re.findall(r"\b([a-z_]+)=", code))
    functions: list[Any] = [*FUNCTIONS.values(), Server.run, Server("s").resources.add_static, serve_http, http_app]
    known = {
        *(name for options in (HttpOptions, ServeHttpOptions, ClientOptions) for name in options.__annotations__),
        *(name for function in functions for name in parameters_of(function)),
        *("event_store", "issuers", "level", "version"),
    }

    missing = {each for each in dotted if each.split(".")[0] not in FROM_ELSEWHERE and not exists(each)}
    assert missing - {"call_tool", "function"} == set()
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


@pytest.mark.parametrize("call", [("stdio",), {"transport": "http", "port": 9000}, {"transport": "sse", "host": "::"}])
def test_run_takes_no_transport(call: Any) -> None:
    run: Any = Server("s").run
    port = 9000 if "port" in call else 8000

    with pytest.raises(TypeError, match=rf"write server\.run\(\) for .*, and server\.run\(http={port}\) for HTTP"):
        run(**call) if isinstance(call, dict) else run(*call)


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
def test_an_image_names_what_is_missing(media: Any) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'mime_type'"):
        media(data=b"", format="png")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'format'$"):
        media(b"", "image/png", format="png")


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


async def test_a_resource_is_read_by_a_string() -> None:
    address: Any = object()

    async with open_client(Server("s")) as client:
        with pytest.raises(TypeError, match=r"^uri: expected str, such as 'file:///notes.txt', and got object$"):
            await client.read_resource(address)
