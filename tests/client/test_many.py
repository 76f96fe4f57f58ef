"""Clients of many servers: real processes, some of which fail, from tables of servers."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Unpack

import pytest
import trio
import trio.testing

from trio_mcp import (
    ClientOptions,
    Clients,
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    RequestTimedOut,
    ResponseCache,
    ServerExited,
    ServerTool,
    TimeLimits,
    open_clients,
    start_clients,
    types,
)

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_SECONDS = 60
SILENT = "import sys; sys.stdin.read()"
DYING = "import sys; sys.exit('no database')"


def tools(name: str, *tools: str) -> dict[str, Any]:
    """Return the entry of a server with these tools."""
    return {"command": sys.executable, "args": [str(PROGRAMS / "tool_server.py"), name, *tools]}


def unusual_lister(how: str) -> dict[str, Any]:
    """Return the entry of a server that lists its tools in an unusual way."""
    return {"command": sys.executable, "args": [str(PROGRAMS / "unusual_lister.py"), how]}


def program(text: str) -> dict[str, Any]:
    """Return the entry of a server that runs this Python program."""
    return {"command": sys.executable, "args": ["-c", text]}


@asynccontextmanager
async def opened(servers: Mapping[str, object], **options: Unpack[ClientOptions]) -> AsyncGenerator[Clients]:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": servers}, **options) as clients:
            yield clients


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def names_of(clients: Clients) -> list[str]:
    return [tool.name async for tool in clients.tools()]


async def wait_until_gone(pid: int) -> None:
    """Wait until the process does not exist."""
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await trio.sleep(0.01)


async def test_clients_has_every_server_of_a_file_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {"first": tools("1", "add"), "off": {"disabled": True}, "second": tools("2", "add", "mul")}
    await trio.Path(path).write_text(json.dumps({"mcpServers": servers}))

    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients(path) as clients:
            offered = [(each.name, each.server, each.tool.name) async for each in clients.tools()]
            answers = [text_of(await clients.call_tool(name)) for name, _, _ in offered]
            direct = text_of(await clients["second"].call_tool("add"))

    assert offered == [
        ("first__add", "first", "add"),
        ("second__add", "second", "add"),
        ("mul", "second", "mul"),
    ]
    assert answers == ["1 add", "2 add", "2 mul"]
    assert direct == "2 add"
    assert (clients.names, clients.disabled, [*clients]) == (("first", "second"), ("off",), ["first", "second"])
    assert clients.failed == {}
    assert repr(clients) == f"<Clients of {path}: connected ['first', 'second'], failed []>"


async def test_a_server_that_fails_is_reported_and_the_others_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers: dict[str, object] = {
        "dies": program(DYING),
        "missing": {"command": str(tmp_path / "no such program")},
        "remote": {"url": "http://127.0.0.1:1/mcp"},
        "silent": program(SILENT),
        "works": tools("w", "add"),
        "wrong": {"args": []},
    }

    def options_for(server: str) -> ClientOptions:
        return {"time_limits": TimeLimits(probe=0.1, connect=0.5)} if server == "silent" else {}

    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": servers}, options_for=options_for) as clients:
            assert text_of(await clients.call_tool("add")) == "w add"
            assert ([*clients], len(clients), "dies" in clients) == (["works"], 1, False)

    died = clients.failed["dies"]
    assert isinstance(died, ServerExited)
    assert (died.status, died.stderr_tail) == (1, ("no database",))
    assert isinstance(clients.failed["missing"], FileNotFoundError)
    assert "no such program" in str(clients.failed["missing"])
    assert isinstance(clients.failed["silent"], RequestTimedOut)
    assert isinstance(clients.failed["remote"], ConnectionBroken)
    assert "http://127.0.0.1:1/mcp" in str(clients.failed["remote"])
    assert "server 'wrong': 'command' is required" in str(clients.failed["wrong"])
    assert len(clients.failed) == 5
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 5
    assert any("server 'dies' of the table of servers" in each.message for each in warnings)


async def test_the_key_error_for_a_failed_server_has_the_failure_as_its_cause() -> None:
    async with opened({"dies": program(DYING), "off": {"disabled": True}}) as clients:
        assert [*clients] == []
        assert await names_of(clients) == []
        with pytest.raises(KeyError, match="server 'dies' has failed; see `failed` for the reason") as failed:
            clients["dies"]
        with pytest.raises(KeyError, match="server 'off' is disabled in the table of servers"):
            clients["off"]
        with pytest.raises(KeyError, match="the table of servers has no server 'other'; it has dies"):
            clients["other"]
        assert clients.get("dies") is None

    assert failed.value.__cause__ is clients.failed["dies"]


async def test_a_table_may_be_empty() -> None:
    async with opened({}) as clients:
        assert await names_of(clients) == []
        with pytest.raises(KeyError, match="no server 'x'; it has none"):
            clients["x"]


async def test_invalid_tables_and_options_are_rejected_by_the_opener(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with open_clients(tmp_path / "mcp.json"):
            pytest.fail("opened")
    with pytest.raises(ValueError, match="has neither a member 'mcpServers' nor 'servers'"):
        async with open_clients({}):
            pytest.fail("opened")
    with pytest.raises(ValueError, match="prefix='never': must be one of 'clashes', 'always'"):
        async with open_clients({"mcpServers": {}}, prefix="never"):  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # refused
            pytest.fail("opened")


async def test_an_exception_of_the_block_is_raised_unwrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with opened({"dies": program(DYING), "works": tools("w", "add")}):
            raise ZeroDivisionError


async def test_a_server_that_crashes_in_a_call_fails_only_its_own_calls() -> None:
    async with opened({"doomed": tools("d", "crash", "add"), "other": tools("o", "mul")}) as clients:
        await names_of(clients)
        with pytest.raises(ServerExited) as crash:
            await clients.call_tool("crash")
        with pytest.raises(ServerExited):
            await clients["doomed"].call_tool("add")
        with pytest.raises(ServerExited):
            await clients.call_tool("add")
        assert text_of(await clients.call_tool("mul")) == "o mul"
        assert clients.failed == {}

        assert await names_of(clients) == ["mul"]

        failure = clients.failed["doomed"]
        assert text_of(await clients.call_tool("mul")) == "o mul"

    assert crash.value.stderr_tail == ("d has crashed",)
    assert isinstance(failure, ServerExited)
    assert "doomed" in clients


async def test_a_server_that_exits_while_it_lists_its_tools_is_left_out() -> None:
    async with opened({"breaks": unusual_lister("exits"), "works": tools("w", "add")}) as clients:
        assert await names_of(clients) == ["add"]

    failure = clients.failed["breaks"]
    assert isinstance(failure, ServerExited)
    assert (failure.status, failure.stderr_tail) == (4, ("out of pages",))


async def test_a_server_that_refused_to_list_its_tools_may_list_them_later() -> None:
    async with opened({"recovers": unusual_lister("recovers"), "works": tools("w", "add")}) as clients:
        assert await names_of(clients) == ["add"]
        refused = clients.failed["recovers"]
        assert await names_of(clients) == ["first", "add"]
        assert clients.failed == {}

    assert isinstance(refused, ErrorResponse)


async def test_a_server_cannot_forge_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    last_words = "import sys; sys.exit('gone\\n\\x1b[2J')"
    async with opened({"floods the log": unusual_lister("floods the log"), "dies": program(last_words)}) as clients:
        assert await names_of(clients) == []

    died, logged = (record.getMessage() for record in caplog.records)
    assert died.endswith("the last lines of its standard error:\n    gone\n    \\x1b[2J")
    assert logged.startswith(r"server 'floods the log' of the table of servers: no\nERROR all is lost \x1b[2J!!!")
    assert logged.endswith("!!! [...]")
    assert len(logged) < 1200


async def test_a_server_without_tools_has_not_failed() -> None:
    async with opened({"toolless": unusual_lister("toolless"), "works": tools("w", "add")}) as clients:
        assert await names_of(clients) == ["add"]
        assert clients.failed == {}


async def test_a_tool_that_a_server_lists_twice_appears_once() -> None:
    async with opened({"repeats": unusual_lister("repeats")}) as clients:
        (tool,) = [each async for each in clients.tools()]

    assert (tool.name, tool.tool.description) == ("twice", "the first")


async def test_a_tool_name_with_the_prefix_of_its_server_is_always_accepted() -> None:
    async with opened({"a": tools("A", "add", "mul"), "b": tools("B", "add", "a__mul")}) as clients:
        found = [await clients.find_tool(name) for name in ("a__add", "b__add", "b__a__mul")]
        assert text_of(await clients.call_tool("mul")) == "A mul"
        assert text_of(await clients.call_tool("a__mul")) == "A mul"
        with pytest.raises(KeyError, match="several servers have a tool 'add': a__add, b__add"):
            await clients.call_tool("add")
        with pytest.raises(KeyError, match="no server has a tool 'sub'"):
            await clients.find_tool("sub")

    assert [(each.server, each.tool.name) for each in found] == [("a", "add"), ("b", "add"), ("b", "a__mul")]


async def test_a_tool_name_with_the_prefix_of_an_absent_server_reaches_no_other_server() -> None:
    bank, off = {"command": "/nowhere/at/all"}, {"disabled": True}
    async with opened({"bank": bank, "off": off, "evil": tools("E", "bank__pay", "off__x")}) as clients:
        for name in ("bank__pay", "off__x"):
            with pytest.raises(KeyError, match=f"the tool '{name}' of server 'evil' is called 'evil__{name}' here"):
                await clients.call_tool(name)
        assert await names_of(clients) == ["evil__bank__pay", "evil__off__x"]


async def test_tools_with_the_same_prefixed_name_are_kept_apart() -> None:
    async with opened({"a b": tools("1", "add"), "a_b": tools("2", "add", "mul")}) as clients:
        names = await names_of(clients)
        answers = [text_of(await clients.call_tool(name)) for name in names]
        with pytest.raises(KeyError, match="no server has a tool 'a_b__add'"):
            await clients.call_tool("a_b__add")
        assert text_of(await clients.call_tool("a_b__mul")) == "2 mul"

    assert answers == ["1 add", "2 add", "2 mul"]


async def test_tool_names_can_always_have_the_prefix_of_their_server() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": {"a": tools("A", "add")}}, prefix="always") as clients:
            assert await names_of(clients) == ["a__add"]
            assert text_of(await clients.call_tool("a__add")) == "A add"


async def test_an_unknown_tool_name_leads_to_a_new_list_request() -> None:
    async with opened({"a": tools("A", "more")}) as clients:
        assert await names_of(clients) == ["more"]
        await clients.call_tool("more", {"name": "new"}, raise_on_error=True)
        assert text_of(await clients.call_tool("new")) == "A new"


async def test_concurrent_searches_for_a_tool_send_one_list_request() -> None:
    found: list[ServerTool] = []

    async def find(clients: Clients) -> None:
        found.append(await clients.find_tool("first"))

    async with opened({"once": unusual_lister("lists once")}) as clients, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(find, clients)

    assert len(found) == 3


async def test_options_for_gives_options_to_a_single_server() -> None:
    names: list[str] = []

    def options_for(server: str) -> ClientOptions:
        names.append(server)
        return {"revision": "2025-03-26"} if server == "old" else {}

    with trio.fail_after(TIMEOUT_SECONDS):
        servers = {"old": tools("o", "add"), "new": tools("n", "add")}
        async with open_clients({"mcpServers": servers}, options_for=options_for, revision="2025-11-25") as clients:
            revisions = {name: client.revision for name, client in clients.items()}

    assert names == ["old", "new"]
    assert revisions == {"old": "2025-03-26", "new": "2025-11-25"}


async def test_a_server_cache_is_refused_for_all_servers_and_accepted_for_one() -> None:
    part = ResponseCache().for_server("add")
    servers = {"mcpServers": {"one": tools("o", "add"), "two": tools("t", "add")}}
    with pytest.raises(
        ValueError, match="a ServerCache is for one server; use options_for= to give each server its own"
    ):
        async with open_clients(servers, cache=part):
            raise AssertionError
    async with open_clients(servers, options_for=lambda name: {"cache": part} if name == "one" else {}) as clients:
        assert list(clients) == ["one", "two"]


async def test_an_unexpected_failure_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def options_for(server: str) -> ClientOptions:
        wrong: Any = 5
        return {"roots": wrong} if server == "odd" else {}

    with trio.fail_after(TIMEOUT_SECONDS):
        servers = {"odd": tools("o", "mul"), "works": tools("w", "add")}
        async with open_clients({"mcpServers": servers}, options_for=options_for) as clients:
            assert text_of(await clients.call_tool("add")) == "w add"

    assert isinstance(clients.failed["odd"], TypeError)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is clients.failed["odd"]


async def test_one_client_may_be_closed_before_the_others() -> None:
    async with opened({"a": tools("A", "add"), "b": tools("B", "mul")}) as clients:
        await clients["a"].aclose()
        assert await names_of(clients) == ["mul"]
        assert isinstance(clients.failed["a"], ConnectionClosed)


async def test_clients_are_started_in_a_nursery_and_closed_from_any_task() -> None:
    source = {"mcpServers": {"a": tools("A", "pid"), "b": tools("B", "pid")}}
    with trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:
            clients = await start_clients(nursery, source)
            pids = [int(text_of(await client.call_tool("pid"))) for client in clients.values()]
            nursery.start_soon(clients.aclose)
            await clients.aclose()
            for pid in pids:
                await wait_until_gone(pid)

        with pytest.raises(ConnectionClosed):
            await clients["a"].call_tool("pid")
        with pytest.raises(ConnectionClosed, match="the clients were closed"):
            clients.tools()
        with pytest.raises(ConnectionClosed, match="the clients were closed"):
            await clients.call_tool("a__pid")
        await clients.aclose()


async def test_clients_of_a_cancelled_nursery_are_closed() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:
            clients = await start_clients(nursery, {"mcpServers": {"a": tools("A", "pid")}})
            pid = int(text_of(await clients["a"].call_tool("pid")))
            nursery.cancel_scope.cancel()
        await clients.aclose()
        await wait_until_gone(pid)
        with pytest.raises(ConnectionClosed):
            clients.tools()


async def test_closing_during_a_list_request_is_not_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    names: list[str] = []

    async def ask(clients: Clients) -> None:
        names.extend(await names_of(clients))

    async with opened({"hangs": unusual_lister("hangs")}) as clients, trio.open_nursery() as nursery:
        nursery.start_soon(ask, clients)
        await trio.testing.wait_all_tasks_blocked()
        await clients.aclose()

    assert (names, clients.failed, caplog.messages) == ([], {}, [])


REPORTING_PID = """
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b"%d\\n" % os.getpid())
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the servers announce themselves on a Unix socket")
async def test_a_cancelled_opener_of_many_clients_leaves_no_process(tmp_path: Path) -> None:
    path = str(tmp_path / "here")
    entry = {"command": sys.executable, "args": ["-c", REPORTING_PID, path]}
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()

    async def open_and_wait(scope: trio.CancelScope) -> None:
        with scope:
            async with open_clients({"mcpServers": {"a": entry, "b": entry, "c": entry}}):
                pytest.fail("opened")

    scope = trio.CancelScope()
    with listening, trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_and_wait, scope)
            pids: list[int] = []
            for _ in range(3):
                connection, _ = await listening.accept()
                with connection:
                    pids.append(int(await connection.recv(20)))
            scope.cancel()
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    assert scope.cancelled_caught
    assert len(set(pids)) == 3


GROWING = """
import trio
from trio_mcp import CacheHint, Server, serve_stdio

server = Server("growing", cache={"tools/list": CacheHint(ttl=3600)})

async def late() -> str:
    return "here"

@server.tool
async def grow() -> None:
    server.tools.add(late)

trio.run(serve_stdio, server)
"""


async def test_a_tool_that_is_missing_in_the_cached_list_is_found() -> None:
    async with opened({"growing": program(GROWING)}) as clients:
        assert await names_of(clients) == ["grow"]
        await clients.call_tool("grow")
        assert await names_of(clients) == ["grow"]  # the list is cacheable for an hour
        assert text_of(await clients.call_tool("late")) == "here"
