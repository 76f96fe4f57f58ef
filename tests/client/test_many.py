"""Many servers at once: real processes, of which some fail, and files that say how they are started."""

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
PATIENCE = 60  # seconds for a whole conversation
SILENT = "import sys; sys.stdin.read()"
DYING = "import sys; sys.exit('no database')"


def tools(name: str, *tools: str) -> dict[str, Any]:
    """The entry of a server with these tools."""
    return {"command": sys.executable, "args": [str(PROGRAMS / "tool_server.py"), name, *tools]}


def lister(how: str) -> dict[str, Any]:
    """The entry of a server that lists its tools in an odd way."""
    return {"command": sys.executable, "args": [str(PROGRAMS / "odd_lister.py"), how]}


def program(text: str) -> dict[str, Any]:
    """The entry of a server that is this Python program."""
    return {"command": sys.executable, "args": ["-c", text]}


@asynccontextmanager
async def opened(servers: Mapping[str, object], **options: Unpack[ClientOptions]) -> AsyncGenerator[Clients]:
    with trio.fail_after(PATIENCE):
        async with open_clients({"mcpServers": servers}, **options) as clients:
            yield clients


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def names_of(clients: Clients) -> list[str]:
    return [tool.name async for tool in clients.tools()]


async def gone(pid: int) -> None:
    """Wait until there is no such process."""
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await trio.sleep(0.01)


async def test_every_server_of_a_file_is_there_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {"first": tools("1", "add"), "off": {"disabled": True}, "second": tools("2", "add", "mul")}
    await trio.Path(path).write_text(json.dumps({"mcpServers": servers}))

    with trio.fail_after(PATIENCE):
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

    with trio.fail_after(PATIENCE):
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


async def test_a_server_s_failure_is_the_cause_of_not_finding_it() -> None:
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


async def test_a_server_that_crashes_in_a_call_fails_its_own_calls_alone() -> None:
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


async def test_a_server_that_breaks_while_it_lists_is_left_out() -> None:
    async with opened({"breaks": lister("exits"), "works": tools("w", "add")}) as clients:
        assert await names_of(clients) == ["add"]

    failure = clients.failed["breaks"]
    assert isinstance(failure, ServerExited)
    assert (failure.status, failure.stderr_tail) == (4, ("out of pages",))


async def test_a_server_that_could_not_list_once_may_later() -> None:
    async with opened({"recovers": lister("recovers"), "works": tools("w", "add")}) as clients:
        assert await names_of(clients) == ["add"]
        refused = clients.failed["recovers"]
        assert await names_of(clients) == ["first", "add"]
        assert clients.failed == {}

    assert isinstance(refused, ErrorResponse)


async def test_a_server_cannot_forge_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    last_words = "import sys; sys.exit('gone\\n\\x1b[2J')"
    async with opened({"shouts": lister("shouts"), "dies": program(last_words)}) as clients:
        assert await names_of(clients) == []

    died, shouted = (record.getMessage() for record in caplog.records)
    assert died.endswith("the last lines of its standard error:\n    gone\n    \\x1b[2J")
    assert shouted.startswith(r"server 'shouts' of the table of servers: no\nERROR all is lost \x1b[2J!!!")
    assert shouted.endswith("!!! [...]")
    assert len(shouted) < 1200


async def test_a_server_without_tools_has_not_failed() -> None:
    async with opened({"toolless": lister("toolless"), "works": tools("w", "add")}) as clients:
        assert await names_of(clients) == ["add"]
        assert clients.failed == {}


async def test_a_name_that_a_server_lists_twice_is_there_once() -> None:
    async with opened({"repeats": lister("repeats")}) as clients:
        (tool,) = [each async for each in clients.tools()]

    assert (tool.name, tool.tool.description) == ("twice", "the first")


async def test_a_name_with_its_server_s_in_front_is_always_understood() -> None:
    async with opened({"a": tools("A", "add", "mul"), "b": tools("B", "add", "a__mul")}) as clients:
        found = [await clients.find_tool(name) for name in ("a__add", "b__add", "b__a__mul")]
        assert text_of(await clients.call_tool("mul")) == "A mul"
        assert text_of(await clients.call_tool("a__mul")) == "A mul"
        with pytest.raises(KeyError, match="several servers have a tool 'add': a__add, b__add"):
            await clients.call_tool("add")
        with pytest.raises(KeyError, match="no server has a tool 'sub'"):
            await clients.find_tool("sub")

    assert [(each.server, each.tool.name) for each in found] == [("a", "add"), ("b", "add"), ("b", "a__mul")]


async def test_no_server_answers_for_one_that_is_not_there() -> None:
    bank, off = {"command": "/nowhere/at/all"}, {"disabled": True}
    async with opened({"bank": bank, "off": off, "evil": tools("E", "bank__pay", "off__x")}) as clients:
        for name in ("bank__pay", "off__x"):
            with pytest.raises(KeyError, match=f"the tool '{name}' of server 'evil' is called 'evil__{name}' here"):
                await clients.call_tool(name)
        assert await names_of(clients) == ["evil__bank__pay", "evil__off__x"]


async def test_two_tools_that_would_have_the_same_name_in_full_are_not_confused() -> None:
    async with opened({"a b": tools("1", "add"), "a_b": tools("2", "add", "mul")}) as clients:
        names = await names_of(clients)
        answers = [text_of(await clients.call_tool(name)) for name in names]
        with pytest.raises(KeyError, match="no server has a tool 'a_b__add'"):
            await clients.call_tool("a_b__add")
        assert text_of(await clients.call_tool("a_b__mul")) == "2 mul"

    assert answers == ["1 add", "2 add", "2 mul"]


async def test_names_may_always_have_their_server_s_in_front() -> None:
    with trio.fail_after(PATIENCE):
        async with open_clients({"mcpServers": {"a": tools("A", "add")}}, prefix="always") as clients:
            assert await names_of(clients) == ["a__add"]
            assert text_of(await clients.call_tool("a__add")) == "A add"


async def test_an_unknown_name_is_asked_for_anew() -> None:
    async with opened({"a": tools("A", "more")}) as clients:
        assert await names_of(clients) == ["more"]
        await clients.call_tool("more", {"name": "new"}, raise_on_error=True)
        assert text_of(await clients.call_tool("new")) == "A new"


async def test_tasks_that_look_for_a_tool_at_once_ask_once() -> None:
    found: list[ServerTool] = []

    async def find(clients: Clients) -> None:
        found.append(await clients.find_tool("first"))

    async with opened({"once": lister("lists once")}) as clients, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(find, clients)

    assert len(found) == 3


async def test_each_server_may_have_options_of_its_own() -> None:
    asked: list[str] = []

    def options_for(server: str) -> ClientOptions:
        asked.append(server)
        return {"revision": "2025-03-26"} if server == "old" else {}

    with trio.fail_after(PATIENCE):
        servers = {"old": tools("o", "add"), "new": tools("n", "add")}
        async with open_clients({"mcpServers": servers}, options_for=options_for, revision="2025-11-25") as clients:
            revisions = {name: client.revision for name, client in clients.items()}

    assert asked == ["old", "new"]
    assert revisions == {"old": "2025-03-26", "new": "2025-11-25"}


async def test_a_part_of_a_cache_that_is_about_one_server_is_not_for_all_of_them() -> None:
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
        wrong: Any = "soon"
        return {"time_limits": wrong} if server == "odd" else {}

    with trio.fail_after(PATIENCE):
        servers = {"odd": tools("o", "mul"), "works": tools("w", "add")}
        async with open_clients({"mcpServers": servers}, options_for=options_for) as clients:
            assert text_of(await clients.call_tool("add")) == "w add"

    assert isinstance(clients.failed["odd"], AttributeError)
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
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            clients = await start_clients(nursery, source)
            pids = [int(text_of(await client.call_tool("pid"))) for client in clients.values()]
            nursery.start_soon(clients.aclose)
            await clients.aclose()
            for pid in pids:
                await gone(pid)

        with pytest.raises(ConnectionClosed):
            await clients["a"].call_tool("pid")
        with pytest.raises(ConnectionClosed, match="the clients were closed"):
            clients.tools()
        with pytest.raises(ConnectionClosed, match="the clients were closed"):
            await clients.call_tool("a__pid")
        await clients.aclose()


async def test_clients_of_a_cancelled_nursery_are_closed() -> None:
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            clients = await start_clients(nursery, {"mcpServers": {"a": tools("A", "pid")}})
            pid = int(text_of(await clients["a"].call_tool("pid")))
            nursery.cancel_scope.cancel()
        await clients.aclose()
        await gone(pid)
        with pytest.raises(ConnectionClosed):
            clients.tools()


async def test_closing_while_the_tools_are_asked_for_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    names: list[str] = []

    async def ask(clients: Clients) -> None:
        names.extend(await names_of(clients))

    async with opened({"hangs": lister("hangs")}) as clients, trio.open_nursery() as nursery:
        nursery.start_soon(ask, clients)
        await trio.testing.wait_all_tasks_blocked()
        await clients.aclose()

    assert (names, clients.failed, caplog.messages) == ([], {}, [])


ANNOUNCING = """
import os, socket, sys
held = socket.socket(socket.AF_UNIX)
held.connect(sys.argv[1])
held.sendall(b"%d\\n" % os.getpid())
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the servers announce themselves on a Unix socket")
async def test_opening_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    path = str(tmp_path / "here")
    entry = {"command": sys.executable, "args": ["-c", ANNOUNCING, path]}
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()

    async def open_and_wait(scope: trio.CancelScope) -> None:
        with scope:
            async with open_clients({"mcpServers": {"a": entry, "b": entry, "c": entry}}):
                pytest.fail("opened")

    scope = trio.CancelScope()
    with listening, trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_and_wait, scope)
            pids: list[int] = []
            for _ in range(3):
                announced, _ = await listening.accept()
                with announced:
                    pids.append(int(await announced.recv(20)))
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


async def test_a_tool_that_came_after_the_list_that_is_kept_is_found() -> None:
    async with opened({"growing": program(GROWING)}) as clients:
        assert await names_of(clients) == ["grow"]
        await clients.call_tool("grow")
        assert await names_of(clients) == ["grow"]  # the server said that its list holds for an hour
        assert text_of(await clients.call_tool("late")) == "here"
