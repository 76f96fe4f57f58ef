"""Common mistakes in programs: each error names the cause and the cure, in the words of the program."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import getitem
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import (
    Client,
    ConnectionClosed,
    Context,
    ErrorResponse,
    HttpStatusError,
    Request,
    Server,
    http_app,
    open_client,
    open_clients,
    open_http_client,
    open_memory_client,
    open_stdio_client,
    open_stream_client,
    serve_http,
    serve_listeners,
    serve_stdio,
    serve_stream,
    types,
)
from trio_mcp.testing import AsgiEngine


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def add(a: int, b: int = 0) -> int:
        return a + b

    return server


async def entered(block: Any) -> None:
    async with block:
        raise AssertionError


# --- asyncio ---


@pytest.mark.parametrize(
    ("call", "function"),
    [
        (lambda: serve_http(make_server(), port=0), "serve_http()"),
        (lambda: serve_stdio(make_server()), "serve_stdio()"),
        (lambda: serve_listeners(make_server(), []), "serve_listeners()"),
        (lambda: serve_stream(make_server(), trio.testing.memory_stream_pair()[0]), "a server"),
        (lambda: entered(make_server().serving()), "a server"),
        (lambda: entered(open_client(make_server())), "open_client()"),
        (lambda: entered(open_memory_client(make_server())), "open_memory_client()"),
        (lambda: entered(open_stdio_client(["never"])), "open_stdio_client()"),
        (lambda: entered(open_http_client("http://never.example/mcp")), "open_http_client()"),
        (lambda: entered(open_clients({"mcpServers": {}})), "open_clients()"),
    ],
)
def test_an_asyncio_program_is_told_to_use_trio(call: Callable[[], Any], function: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        asyncio.run(call())

    assert str(raised.value) == (
        f"{function} needs Trio, and no event loop of Trio runs here: start the program with trio.run(main), not with "
        "asyncio.run(main()), and mark a test with @pytest.mark.trio, of pytest-trio; or import it from "
        "trio_mcp.asyncio, if that has it"
    )


RUNS: Sequence[Callable[[Any], Any]] = (lambda app: app.run(), lambda app: app.lifespan(None))


@pytest.mark.parametrize("run", RUNS)
def test_an_application_whose_host_runs_asyncio_names_the_servers_that_run_trio(run: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"needs Trio.*uvicorn runs asyncio.*hypercorn -k trio module:app"):
        asyncio.run(entered(run(http_app(make_server()))))


def using_asyncio() -> Server:
    server = Server("s")

    @server.tool
    async def naps() -> None:
        await asyncio.sleep(0)

    @server.tool
    async def sleeps() -> None:
        await asyncio.sleep(1)

    @server.tool
    def finds_the_loop() -> None:
        asyncio.get_running_loop()

    @server.tool
    async def raises() -> None:
        raise RuntimeError("of the application")

    @server.tool
    async def raises_without_words() -> None:
        raise RuntimeError

    @server.prompt
    async def prompt() -> str:
        await asyncio.sleep(0)
        return ""

    return server


async def test_a_handler_that_uses_asyncio_is_told_what_to_use_instead(caplog: pytest.LogCaptureFixture) -> None:
    async with open_client(using_asyncio()) as client:
        for tool in ("naps", "sleeps", "finds_the_loop"):
            result = await client.call_tool(tool)
            assert "the handler uses asyncio, and it runs on Trio: use Trio instead (trio.sleep" in str(result.content)
        with pytest.raises(ErrorResponse):
            await client.get_prompt("prompt")

    assert caplog.text.count("the handler uses asyncio") == 4
    assert "await asyncio.sleep(0)" in caplog.text  # the line of the program


async def test_errors_of_handlers_that_do_not_use_asyncio_stay_as_they_are() -> None:
    async with open_client(using_asyncio()) as client:
        assert "of the application" in str((await client.call_tool("raises")).content)
        assert "RuntimeError" in str((await client.call_tool("raises_without_words")).content)


# --- Blocks and iterators ---

BLOCKS: Mapping[str, Callable[[], Any]] = {
    "open_client": lambda: open_client(make_server()),
    "open_stdio_client": lambda: open_stdio_client(["never"]),
    "open_http_client": lambda: open_http_client("http://never.example/mcp"),
    "open_stream_client": lambda: open_stream_client(trio.testing.memory_stream_pair()[0]),
    "open_memory_client": lambda: open_memory_client(make_server()),
    "open_clients": lambda: open_clients({}),
}


async def refusal(mistake: Callable[[], Any]) -> str:
    with pytest.raises((TypeError, AttributeError)) as raised:
        await mistake()
    return str(raised.value)


def with_block(block: Any) -> None:
    with block:
        raise AssertionError


@pytest.mark.parametrize("opener", BLOCKS)
async def test_an_opener_that_is_not_used_as_an_asynchronous_block_shows_its_use(opener: str) -> None:
    block = BLOCKS[opener]()
    name = "clients" if opener == "open_clients" else "client"
    use = f"write `async with {opener}(...) as {name}:`"

    assert use in await refusal(lambda: block)
    assert use in await refusal(lambda: with_block(block))
    assert use in await refusal(lambda: block.call_tool("add"))
    assert use in await refusal(lambda: list(block))
    assert use in await refusal(lambda: anext(aiter(block)))


async def test_the_blocks_and_iterators_of_a_client_show_their_use() -> None:
    async with open_client(make_server()) as client, open_clients({"mcpServers": {}}) as clients:
        call: Any = client.open_call("add", {"a": 1})
        assert "write `async with client.open_call(...) as call:`" in await refusal(lambda: call.result())  # noqa: PLW0108 # it has none
        listening: Any = client.listen(tools=True)
        assert "write `async with client.listen(...) as changes:`" in await refusal(lambda: anext(aiter(listening)))
        async with client.open_call("add", {"a": 1}) as opened, client.listen(tools=True) as changes:
            iterators: dict[str, Any] = {
                "async for tool in client.tools()": client.tools(),
                "async for tool in clients.tools()": clients.tools(),
                "async for update in call.updates": opened.updates,
                "async for change in changes": changes,
            }
            for use, iterator in iterators.items():
                assert f"write `{use}`" in await refusal(partial(next, iter([iterator])))
                assert f"write `{use}`" in await refusal(partial(list[Any], iterator))
                assert f"write `{use}`, or make a list of it" in await refusal(partial(getitem, iterator, 0))
            waited: Any = opened
            assert await refusal(waited.__await__) == "a call cannot be awaited: write `await call.result()`"


# --- Wrong results of handlers ---


def forgetting_await() -> Server:
    server = Server("s")

    async def fetch() -> str:
        raise AssertionError

    server.tool(name="plain")(lambda: fetch())  # noqa: PLW0108 # it is no async function

    @server.tool
    def promised() -> list[str]:
        return [fetch()]  # type: ignore[list-item] # pyright: ignore[reportReturnType] # the mistake

    @server.tool
    async def asynchronous():  # type: ignore[no-untyped-def] # noqa: ANN202 # without an output schema
        return fetch()

    @server.prompt
    async def ask(topic: str) -> Any:
        return fetch()

    @server.completion(prompt="ask", argument="topic")
    async def complete(typed: str) -> Any:
        return fetch()

    @server.resource("a://b")
    async def resource() -> Any:
        return fetch()

    @server.method("com.example/get")
    async def custom() -> Any:
        return fetch()

    return server


MISSING_AWAIT = "it is a coroutine of forgetting_await.<locals>.fetch(): `await` is missing before that call"


async def test_a_handler_that_returns_a_coroutine_is_told_of_the_missing_await(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prompt = types.PromptReference(name="ask")
    async with open_client(forgetting_await()) as client:
        assert MISSING_AWAIT in str((await client.call_tool("plain")).content)
        requests: list[Callable[[], Awaitable[object]]] = [
            lambda: client.call_tool("promised"),
            lambda: client.call_tool("asynchronous"),
            lambda: client.get_prompt("ask", {"topic": "x"}),
            lambda: client.complete(prompt, "topic", "x"),
            lambda: client.read_resource("a://b"),
            lambda: client.request("com.example/get", {}, dict[str, Any]),
        ]
        for request in requests:
            caplog.clear()
            with pytest.raises(ErrorResponse):
                await request()
            assert MISSING_AWAIT in caplog.text


async def test_middleware_that_returns_a_coroutine_is_told_of_the_missing_await(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make_server()

    @server.middleware
    async def forgets(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        return call_next(request) if request.method == "tools/call" else await call_next(request)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse):
            await client.call_tool("add", {"a": 1})

    assert "`await` is missing before that call" in caplog.text


# --- Wrong options and arguments ---

TOKEN: Any = "secret"
FIVE: Any = 5
OF_HTTP: Any = {"auth": "secret"}
OF_STDIO: Any = {"env": {}}
MISSPELT: Any = {"on_elict": None}
WORDS: Any = ["python", "-m", 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: open_http_client("http://a.example/mcp", auth=TOKEN),
            "auth: expected OAuth(...), Bearer(...) or the like, and got str; a token is given as Bearer(token)",
        ),
        (
            lambda: open_http_client("http://a.example/mcp", auth=FIVE),
            "auth: expected OAuth(...), Bearer(...) or the like, and got int",
        ),
        (
            lambda: open_client("http://a.example/mcp", **OF_HTTP),
            "unknown client option 'auth'; see ClientOptions; open_http_client takes 'auth'",
        ),
        (
            lambda: open_client(["never"], **OF_STDIO),
            "unknown client option 'env'; see ClientOptions; open_stdio_client takes 'env'",
        ),
        (
            lambda: open_client(["never"], **MISSPELT),
            "unknown client option 'on_elict'; see ClientOptions; did you mean 'on_elicit' or 'on_elicit_complete'?",
        ),
        (
            lambda: open_client(["never"], limits=FIVE),
            "limits: expected Limits, such as Limits(max_in_flight=100), and got int",
        ),
        (
            lambda: open_client(["never"], time_limits=FIVE),
            "time_limits: expected TimeLimits, such as TimeLimits(total=60), and got int",
        ),
        (
            lambda: Server("s", limits=FIVE),
            "limits: expected Limits, such as Limits(max_running=100), and got int",
        ),
        (
            lambda: http_app(make_server(), auth=TOKEN),
            "auth: expected ResourceServer(url, issuers=[...]), and got str",
        ),
        (
            lambda: serve_http(make_server(), auth=TOKEN),
            "auth: expected ResourceServer(url, issuers=[...]), and got str",
        ),
        (lambda: serve_http(make_server(), host=FIVE), "host: expected str, such as '127.0.0.1', and got int"),
        (
            lambda: serve_http(make_server(), sessions=FIVE),
            "sessions: expected SessionSettings, such as SessionSettings(store=...) or False, and got int",
        ),
        (
            lambda: serve_http(make_server(), FIVE),
            "serve_http() takes all options by name: write serve_http(server, port=8000)",
        ),
        (lambda: open_client(WORDS), "command: word 2 must be a string or a path, and is 3"),
        (lambda: http_app(TOKEN), "http_app(): expected a Server, such as Server('notes'), and got str"),
        (lambda: serve_http(TOKEN), "serve_http(): expected a Server, such as Server('notes'), and got str"),
        (lambda: serve_stdio(TOKEN), "serve_stdio(): expected a Server, such as Server('notes'), and got str"),
        (lambda: serve_stream(TOKEN, TOKEN), "serve_stream(): expected a Server, such as Server('notes'), and got str"),
        (
            lambda: serve_listeners(TOKEN, []),
            "serve_listeners(): expected a Server, such as Server('notes'), and got str",
        ),
    ],
)
async def test_an_option_of_a_wrong_type_is_refused_with_an_example(call: Callable[[], Any], message: str) -> None:
    async def use() -> None:
        made = call()
        await (made if inspect.iscoroutine(made) else entered(made))

    with pytest.raises(TypeError) as raised:
        await use()

    assert str(raised.value) == message


@pytest.mark.parametrize("port", ["80", 80.0, True, -1, 65_536])
async def test_a_port_that_is_no_number_is_refused(port: Any) -> None:
    with pytest.raises(ValueError, match=f"port={port!r}: must be an integer from 0 to 65535"):
        await serve_http(make_server(), port=port)


WRONG_ARGUMENTS: Sequence[tuple[Callable[[Any], Awaitable[object]], str]] = [
    (lambda client: client.call_tool("add", [1, 2]), "expected a dict, such as {'a': 1}, and got list"),
    (
        lambda client: client.call_tool("add", '{"a": 1}'),
        "expected a dict, such as {'a': 1}, and got str; json.loads makes a dict of JSON text",
    ),
    (lambda client: client.call_tool("add", {"a": 1}, meta=[]), "meta: expected a dict"),
    (lambda client: client.call_tool(types.Tool(name="add", input_schema={"type": "object"})), "such as tool.name"),
    (lambda client: client.get_prompt("p", "x"), "the arguments of a prompt: expected a dict"),
    (lambda client: client.read_resource("a://b", meta="x"), "meta: expected a dict"),
    (lambda client: client.call_tool("add", argument={"a": 1}), "unexpected keyword argument 'argument'"),
    (lambda client: client.call_tool("add", a=1), "the arguments of the tool are a dict, the second argument of"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_ARGUMENTS)
async def test_arguments_that_are_no_dict_are_refused_before_anything_is_sent(
    call: Callable[[Any], Awaitable[object]], message: str
) -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(TypeError, match=re.escape(message)):
            await call(client)


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({"a": None}, ["$.a: expected integer, got null"]),
        ({"aa": 1}, ["$.a: required, but missing", "$.aa: unknown, not allowed here"]),
    ],
)
async def test_arguments_that_do_not_fit_are_named_by_their_path(arguments: dict[str, Any], faults: list[str]) -> None:
    async with open_client(make_server()) as client:
        result = await client.call_tool("add", arguments)

    assert result.is_error
    assert [fault for fault in faults if fault not in str(result.content)] == [], result.content


async def test_an_unknown_tool_or_prompt_is_refused_with_similar_names() -> None:
    server = make_server()
    server.prompt(name="review")(lambda: "x")
    async with open_client(server) as client, open_clients({"mcpServers": {}}) as clients:
        for call, message in (
            (lambda: client.call_tool("ad"), "no tool 'ad'; did you mean 'add'?"),
            (lambda: client.call_tool("x" * 1000), f"no tool '{'x' * 1000}'"),
            (lambda: client.get_prompt("reviw"), "no prompt 'reviw'; did you mean 'review'?"),
        ):
            with pytest.raises(ErrorResponse) as raised:
                await call()
            assert raised.value.message == message
        with pytest.raises(KeyError, match="no server has a tool 'ad'"):
            await clients.find_tool("ad")


async def test_a_handler_without_a_lifespan_is_told_where_its_state_comes_from() -> None:
    server = make_server()

    @server.tool
    async def count(ctx: Context) -> int:
        return int(ctx.state.counter)

    @server.tool
    async def has_state(ctx: Context) -> bool:
        return hasattr(ctx, "state")

    async with open_client(server) as client:
        result = await client.call_tool("count")
        assert "ctx.state: this server has no lifespan, and so no state" in str(result.content)
        assert "Server(lifespan=...)" in str(result.content)
        assert (await client.call_tool("has_state")).structured_content == {"result": False}


def test_a_lifespan_that_does_not_take_the_server_is_refused() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        raise AssertionError
        yield

    with pytest.raises(TypeError, match=r"^lifespan: its function takes the server, as in "):
        Server("s", lifespan=lifespan)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_lifespan_that_does_not_tell_its_parameters_is_not_checked() -> None:
    builtin: Any = max

    Server("s", lifespan=builtin)


async def test_a_lifespan_may_yield_none() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        yield

    server = Server("s", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        return repr(ctx.state)

    async with open_client(server) as client:
        assert (await client.call_tool("state")).structured_content == {"result": "None"}


# --- Clients and applications at the wrong time or place ---


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_client_that_is_used_after_its_block_says_that_it_is_closed(revision: str) -> None:
    async with open_client(make_server(), revision=revision) as client:
        pass

    uses: list[Callable[[Client], Awaitable[object]]] = [
        lambda client: client.call_tool("add", {"a": 1}),
        lambda client: client.list_tools(),
    ]
    for use in uses:
        with pytest.raises(ConnectionClosed) as raised:
            await use(client)
        assert str(raised.value) == ("this client is closed: its `async with` block has ended, or aclose() was called")


async def test_scopes_without_authentication_are_named_in_the_error_and_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")
    server.tool(name="burn", scopes=["write"])(lambda: None)
    app = http_app(server)
    why = (
        "this needs scopes (write), and this HTTP application has no authentication: serve it with auth=, or with "
        "--auth"
    )

    async with app.run(), open_http_client("http://localhost/mcp", engine=AsgiEngine(app)) as client:
        with caplog.at_level(logging.WARNING, "trio_mcp"):
            for _ in range(2):
                with pytest.raises((ErrorResponse, HttpStatusError), match=re.escape(why)):
                    await client.call_tool("burn")
    assert [record.message for record in caplog.records] == [f"a request is refused: {why}"]


# --- Callbacks ---


def plain(value: Any = None) -> Any:
    return None


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("callback", ["on_elicit", "on_sample", "roots"])
async def test_a_plain_function_cannot_answer_questions(
    callback: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> None:
        match callback:
            case "on_elicit":
                await ctx.elicit("Sure?", {"type": "object", "properties": {}})
            case "on_sample":
                await ctx.sample("Well?", max_tokens=5)
            case _:
                await ctx.list_roots()

    options: Any = {callback: plain}
    told = f"{callback}: expected an async function (`async def`), and {plain!r} is a plain one"
    async with open_client(server, revision=revision, **options) as client:
        if revision == "2026-07-28":
            with pytest.raises(TypeError, match=re.escape(told)):
                await client.call_tool("ask")
        else:
            assert (await client.call_tool("ask")).is_error
            assert told in caplog.text


async def test_a_plain_function_is_no_callback_for_progress_and_consent() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)

    async with open_client(server) as client:
        with pytest.raises(TypeError, match=r"^on_progress: expected an async function"):
            await client.call_tool("work", on_progress=plain)
    async with open_client(server, consent=plain) as client:
        with pytest.raises(TypeError, match=r"^consent: expected an async function"):
            await client.call_tool("work")


async def test_a_plain_function_for_log_messages_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("info", "working")

    async with open_client(server, on_log=plain) as client:
        await client.call_tool("work")
        with trio.fail_after(60):
            while "on_log: expected an async function" not in caplog.text:
                await trio.lowlevel.checkpoint()


async def test_a_question_without_a_form_is_told_what_a_form_is() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> None:
        await ctx.elicit("Sure?")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]

    async with open_client(server) as client:
        said = str((await client.call_tool("ask")).content)

    assert "ctx.elicit(): pass a form or url=, and not both" in said
    assert "one without members asks for consent alone" in said
