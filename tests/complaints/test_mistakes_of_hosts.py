"""Common mistakes in hosts and clients: each error names the cause and the cure."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

import trio_mcp.asyncio
import trio_mcp.sync
from trio_mcp import Context, Server, TimeLimits, open_client, open_clients, types
from trio_mcp.llm import load_toolkit

TIMEOUT_SECONDS = 60
NO_SERVERS: dict[str, Any] = {"mcpServers": {}}
ONE_SERVER = {"mcpServers": {"notes": {"command": sys.executable, "args": ["-c", "raise SystemExit"]}}}
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "report", "arguments": "{}"}}],
}


@dataclass
class Answer:
    count: int


def make_server() -> Server:
    server = Server("notes")

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        return type(await ctx.elicit("Really?", Answer)).__name__

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Why?", max_tokens=5)).model

    @server.tool
    async def folders(ctx: Context) -> int:
        return len(await ctx.list_roots())

    return server


async def refused(block: Any) -> str:
    """Return the message of the error that entering a block raises."""
    with trio.fail_after(TIMEOUT_SECONDS), pytest.raises((TypeError, ValueError)) as raised:
        async with block:
            raise AssertionError
    return str(raised.value)


# --- Targets and tables ---


@pytest.mark.parametrize(
    ("target", "cure"),
    [
        ("mcp.json", "open_clients('mcp.json') opens the servers of a file"),
        (Path("notes.py"), "a list of the program and its arguments, such as [sys.executable, 'notes.py']"),
        (Path("mcp.json"), "open_clients('mcp.json') opens the servers of a file"),
    ],
)
async def test_a_path_is_no_target_of_one_client(target: Any, cure: str) -> None:
    assert (await refused(open_client(target))).endswith(cure)


async def test_a_program_is_no_table_of_servers(tmp_path: Path) -> None:
    program = tmp_path / "notes.py"
    program.write_text("import trio_mcp")

    assert (await refused(open_clients(program))).endswith(
        f"open_client([sys.executable, {str(program)!r}]) opens one server"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a.json"], "expected the path of an mcpServers file, or its contents, and got list"),
        ({"notes": {"command": "python"}}, "write {'mcpServers': {name: entry, ...}}"),
    ],
)
async def test_a_table_of_another_form_shows_the_right_one(source: Any, message: str) -> None:
    assert message in await refused(open_clients(source))


@pytest.mark.parametrize("member", ["serverUrl", "httpUrl"])
async def test_a_url_under_the_name_of_another_program_names_the_member(member: str) -> None:
    async with open_clients({"mcpServers": {"notes": {member: "https://a.example/mcp"}}}) as clients:
        assert str(clients.failed["notes"]).endswith(f"{member!r} is not supported: write 'url'")


@pytest.mark.parametrize("option", ["options_for", "auth_for"])
async def test_options_of_each_server_are_a_function_of_its_name(option: str) -> None:
    message = f"{option}: expected a function of the name of a server, and got "
    table: Any = {option: {}}
    number: Any = {option: 5}
    assert (
        await refused(open_clients(NO_SERVERS, **table))
        == f"{message}dict; for a dict by name, write {option}=table.get"
    )
    assert await refused(open_clients(NO_SERVERS, **number)) == f"{message}int"


async def test_the_function_of_options_returns_a_dict_or_none() -> None:
    def nothing(_: str) -> None:
        return None

    def wrong(_: str) -> Any:
        return ["on_log"]

    async with open_clients(ONE_SERVER, options_for=nothing) as clients:
        assert clients.names == ("notes",)
    assert await refused(open_clients(ONE_SERVER, options_for=wrong)) == (
        "options_for('notes'): expected dict, such as {'on_log': on_log}, and got list"
    )


def test_a_time_limit_is_a_number_of_seconds() -> None:
    limit: Any = timedelta(seconds=3)

    with pytest.raises(ValueError, match=r"^TimeLimits\(idle=.*\): must be a number of seconds above 0$"):
        TimeLimits(idle=limit)


# --- Callbacks ---


@pytest.mark.parametrize(("option", "tool"), [("on_elicit", "ask"), ("on_sample", "sample"), ("roots", "folders")])
async def test_a_plain_function_as_a_callback_is_named(option: str, tool: str) -> None:
    def plain(*_: object) -> None: ...

    options: Any = {option: plain}
    async with open_client(make_server(), **options) as client:
        with pytest.raises(TypeError, match=rf"^{option}: expected an async function .*plain at .* is a plain one$"):
            await client.call_tool(tool)


async def test_a_plain_function_for_consent_progress_or_approval_is_named() -> None:
    def nothing(*_: object) -> None: ...

    plain: Any = nothing
    async with open_client(make_server(), consent=plain) as client:
        with pytest.raises(TypeError, match=r"^consent: expected an async function"):
            await client.call_tool("report")
    async with open_client(make_server()) as client:
        with pytest.raises(TypeError, match=r"^on_progress: expected an async function"):
            await client.call_tool("report", on_progress=plain)
        toolkit = await load_toolkit(client)
        with pytest.raises(TypeError, match=r"^approve: expected an async function"):
            await toolkit.answer(CALL, approve=plain)


async def test_a_plain_function_for_the_log_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("log")

    @server.tool
    async def say(ctx: Context) -> None:
        await ctx.log("info", "hello")

    plain: Any = print
    async with open_client(server, on_log=plain) as client:
        await client.call_tool("say")

    assert "TypeError: on_log: expected an async function" in caplog.text


async def test_callbacks_with_the_parameters_of_another_sdk_are_told_the_number() -> None:
    async def three(progress: float, total: float | None, message: str | None) -> None: ...

    async def one(call: object) -> None: ...

    wrong: tuple[Any, Any] = (three, one)
    async with open_client(make_server()) as client:
        with pytest.raises(TypeError, match=r"^on_progress: it is called with one argument, and .*three at"):
            await client.call_tool("report", on_progress=wrong[0])
        toolkit = await load_toolkit(client)
        with pytest.raises(TypeError, match=r"^approve: it is called with one argument, and .*three at"):
            await toolkit.answer(CALL, approve=wrong[0])


async def test_the_text_of_a_callback_that_fails_by_itself_is_kept() -> None:
    async def report(update: types.ProgressNotificationParams) -> None: ...

    def broken(update: types.ProgressNotificationParams) -> Any:
        return report(update, 5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

    async with open_client(make_server()) as client:
        with pytest.raises(TypeError, match=r"report\(\) takes 1 positional argument but 2 were given$"):
            await client.call_tool("report", on_progress=broken)


# --- Models ---


class Dumps:
    def model_dump(self) -> dict[str, Any]:
        raise AssertionError


@pytest.mark.parametrize(
    ("answer", "cure"),
    [
        (Dumps(), "is of type Dumps: pass answer(message.model_dump())"),
        (CALL["tool_calls"], "is of type list: pass the whole message of the model, not a part of it"),
    ],
)
async def test_an_answer_of_a_model_that_is_no_dict_shows_the_way_to_one(answer: Any, cure: str) -> None:
    async with open_client(make_server()) as client:
        toolkit = await load_toolkit(client)
        with pytest.raises(TypeError, match=re.escape(cure)):
            await toolkit.answer(answer)


async def test_a_list_of_clients_has_no_tools() -> None:
    async with open_client(make_server()) as client:
        clients: Any = [client]
        with pytest.raises(TypeError, match=r"expected a Client, or the Clients of open_clients\(\), and got list$"):
            await load_toolkit(clients)


# --- asyncio, and no async ---

ENTERED: dict[str, Callable[[Any], Any]] = {
    "awaited": lambda block: block.__await__(),
    "entered": lambda block: block.__enter__(),
    "used": lambda block: block.call_tool,
}


@pytest.mark.parametrize("use", ENTERED)
def test_a_block_for_asyncio_shows_its_use(use: str) -> None:
    with pytest.raises((TypeError, AttributeError), match=r"write `async with open_client\(...\) as client:`$"):
        ENTERED[use](trio_mcp.asyncio.open_client(["never"]))


@pytest.mark.parametrize("use", ["awaited", "used"])
def test_a_block_without_async_shows_its_use(use: str) -> None:
    with pytest.raises((TypeError, AttributeError), match=r"write `with open_clients\(...\) as clients:`"):
        ENTERED[use](trio_mcp.sync.open_clients("never"))


def test_a_block_without_async_is_not_entered_asynchronously() -> None:
    async def main() -> None:
        block: Any = trio_mcp.sync.open_client(["never"])
        async with block:
            raise AssertionError

    with pytest.raises(TypeError, match=r"^this is a block without async: write `with open_client\(...\) as client:`;"):
        asyncio.run(main())


async def test_a_program_on_trio_is_told_not_to_use_the_client_for_asyncio() -> None:
    with pytest.raises(RuntimeError, match=r"^trio_mcp\.asyncio needs asyncio, .*if it runs on Trio"):
        async with trio_mcp.asyncio.open_client(["never"]):
            raise AssertionError


def test_an_async_function_is_no_callback_without_async() -> None:
    async def on_log(message: types.LoggingMessageNotificationParams) -> None: ...

    options: Any = {"on_log": on_log}
    with pytest.raises(
        TypeError, match=r"on_log at .* is an async function: callbacks of trio_mcp\.sync are plain ones"
    ):
        trio_mcp.sync.open_client(["never"], **options).__enter__()


def test_tools_for_a_model_are_loaded_by_the_module_of_the_client() -> None:
    with trio_mcp.sync.open_memory_client(make_server()) as client:
        wrong: Any = client
        load: Any = trio_mcp.asyncio.load_toolkit
        with pytest.raises(RuntimeError, match=r"^load_toolkit\(\) needs Trio, .* import it from trio_mcp\.asyncio"):
            asyncio.run(load_toolkit(wrong))
        with pytest.raises(TypeError, match=r"a client of trio_mcp\.asyncio, .* of class trio_mcp\.sync\.Client$"):
            load(wrong)
