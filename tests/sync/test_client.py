"""The client for programs without async, with a real child process as the server."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.asyncio.bridged_server import server, two_calls
from trio_mcp import ConnectionBroken, Extension, ResourceUpdated, ToolFailed, types
from trio_mcp.llm import ToolCall
from trio_mcp.sync import (
    Client,
    ClientOptions,
    Clients,
    TaskHandle,
    Toolkit,
    load_toolkit,
    open_client,
    open_clients,
    open_http_client,
    open_memory_client,
    open_stdio_client,
)
from trio_mcp.sync._run import ThreadRun

PROGRAM = str(Path(__file__).parents[1] / "asyncio" / "bridged_server.py")
COMMAND = [sys.executable, PROGRAM]
TABLE = {"mcpServers": {"one": {"command": sys.executable, "args": [PROGRAM]}}}
SECONDS = 60.0


def test_a_client_calls_lists_and_looks() -> None:
    with open_client(COMMAND) as client:
        assert isinstance(client, Client)
        assert client.revision == types.REVISIONS[-1]
        assert client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        assert [tool.name for tool in client.tools()][:2] == ["add", "wait"]
        assert client.statistics().update_bytes == 0


def test_a_model_uses_the_tools_with_callbacks_that_are_plain_functions() -> None:
    events: list[str] = []

    def approve(call: ToolCall) -> bool | str:
        events.append(f"approve {call.function}")
        return call.function != "fail"

    def on_progress(call: ToolCall, update: types.ProgressNotificationParams) -> None:
        events.append(f"{call.function} {update.message}")

    with open_client(COMMAND) as client:
        toolkit = load_toolkit(client, only=["report", "fail"])
        assert isinstance(toolkit, Toolkit)
        answers = toolkit.answer(two_calls(), approve=approve, on_progress=on_progress, timeout=SECONDS)

    assert [each["content"] for each in answers] == ["done", "Error: the user has refused this call"]
    assert events == ["approve report", "approve fail", "report half", "report all"]


def test_every_opener_opens_a_client(tmp_path: Path) -> None:
    with open_stdio_client(COMMAND, cwd=tmp_path) as over_stdio, open_memory_client(server) as in_memory:
        for client in (over_stdio, in_memory):
            assert client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
    with open_clients(TABLE) as clients:
        assert isinstance(clients, Clients)
        assert isinstance(clients, Mapping)
        assert list(clients) == ["one"]
        assert len(clients) == 1
        assert clients["one"] == clients["one"]
        assert next(each.server for each in clients.tools()) == "one"
        assert clients.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
    with pytest.raises(ConnectionBroken), open_http_client("http://127.0.0.1:1/mcp"):
        raise AssertionError


def test_callbacks_are_plain_functions_and_may_block() -> None:
    told: list[str] = []
    logged = threading.Event()

    def on_elicit(question: types.ElicitRequestParams) -> types.ElicitResult:
        time.sleep(0)
        told.append(question.message)
        return types.ElicitResult(action="accept", content={"color": "red"})

    def on_log(message: types.LoggingMessageNotificationParams) -> None:
        told.append(str(message.data))
        logged.set()

    def on_progress(update: types.ProgressNotificationParams) -> None:
        assert client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3  # a callback may use the client
        told.append(str(update.message))

    with open_client(COMMAND, on_elicit=on_elicit, on_log=on_log) as client:
        assert client.call_tool("ask", returns=str) == "red"
        client.call_tool("report", on_progress=on_progress)
        assert logged.wait(SECONDS)

    assert sorted(told) == ["Which color?", "all", "half", "halfway"]


def test_tables_of_handlers_and_of_options_have_callbacks_too() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    def on_elicit(_: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"color": "blue"})

    options: Any = {
        "on_elicit": on_elicit,
        "notifications": {"com.example/z": never},
        "extensions": [Extension("com.example/x", result_types={"com.example/y": never})],
    }

    def options_for(_: str) -> ClientOptions:
        return options  # type: ignore[no-any-return]

    with open_clients(TABLE, options_for=options_for) as clients:
        assert clients["one"].call_tool("ask", returns=str) == "blue"


def test_options_that_are_data_pass_unchanged() -> None:
    passed: list[bytes] = []
    roots = [types.Root(uri="file:///a")]
    extensions: Mapping[str, Mapping[str, Any]] = {"com.example/x": {}}

    with open_client(
        COMMAND, roots=roots, extensions=extensions, methods=None, tap=lambda _, message: passed.append(message)
    ) as client:
        client.call_tool("add", {"a": 1, "b": 2})

    assert passed


def test_exceptions_come_out_as_they_are() -> None:
    with open_client(COMMAND) as client, pytest.raises(ToolFailed, match="it is broken"):
        client.call_tool("fail", raise_on_error=True)
    with pytest.raises(FileNotFoundError), open_client(["/nowhere/at/all"]):
        raise AssertionError
    with pytest.raises(KeyError), open_client(COMMAND):
        raise KeyError


def test_blocks_and_iterators_of_a_client() -> None:
    with open_client(COMMAND) as client:
        with client.open_call("report") as call:
            assert [update.message for update in call.updates] == ["half", "all"]
            assert not call.result().is_error
        with client.listen(resources=["note://a"]) as changes:
            assert changes.skipped == 0
            client.call_tool("change")
            assert next(changes) == ResourceUpdated("note://a")
        task = client.start_task("build", {"name": "x"})
        assert isinstance(task, TaskHandle)
        assert [state.status for state in task.states()][-1] == "completed"
        assert task.result().structured_content == {"result": "built x"}


def test_several_threads_use_one_client() -> None:
    results: list[int] = []
    with open_client(COMMAND) as client:

        def work() -> None:
            results.extend(client.call_tool("add", {"a": n, "b": n}, returns=int) for n in range(10))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)

    assert sorted(results) == sorted(4 * [2 * n for n in range(10)])


def test_the_thread_of_trio_may_look_at_a_client_and_not_wait_for_it() -> None:
    seen: list[object] = []

    def tap(_: str, __: bytes) -> None:
        if clients and not seen:
            seen.append(clients[0].revision)
            try:
                clients[0].ping()
            except RuntimeError as refused:
                seen.append(str(refused))

    clients: list[Client] = []
    with open_client(COMMAND, tap=tap) as client:
        clients.append(client)
        client.ping()

    assert seen[0] == types.REVISIONS[-1]
    assert "would wait for itself" in str(seen[1])


def test_a_run_that_was_stopped_says_so(tmp_path: Path) -> None:
    run = ThreadRun()
    run.start()
    failures: list[BaseException] = []

    async def forever() -> None:
        (tmp_path / "started").touch()
        await trio.sleep_forever()

    def call() -> None:
        try:
            run.wait(forever)
        except trio.RunFinishedError as failure:
            failures.append(failure)

    waiting = threading.Thread(target=call)
    waiting.start()
    until(tmp_path / "started")
    run.stop()
    waiting.join(SECONDS)
    run.stop()

    assert "the Trio run ended" in str(failures[0])
    with pytest.raises(trio.RunFinishedError):
        run.wait(forever)


def test_a_block_that_is_not_entered_says_how_to() -> None:
    block: Any = open_client(COMMAND)

    with pytest.raises(
        AttributeError, match=r"no attribute 'call_tool': write `with open_client\(\.\.\.\) as client:`"
    ):
        block.call_tool("add")


context: ContextVar[str] = ContextVar("context", default="none")


def test_a_call_sees_the_context_of_its_caller() -> None:
    seen: list[str] = []
    token = context.set("mine")

    with open_client(COMMAND) as client:
        client.call_tool("report", on_progress=lambda _: seen.append(context.get()))
    context.reset(token)

    assert set(seen) == {"mine"}


# --- Whole programs ---

BEGIN = f"""
import os, sys
from pathlib import Path
from trio_mcp.sync import open_client

COMMAND = [sys.executable, {PROGRAM!r}]
FOLDER = Path(sys.argv[1])
"""


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(path: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} does not appear")


def until_dead(pid: int) -> None:
    """Wait until a process is gone; one that is not reaped is a zombie, and counts as gone."""
    for _ in range(6000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} lives")


def test_ctrl_c_cancels_the_call_and_the_client_goes_on(tmp_path: Path) -> None:
    program = start(
        """
        with open_client(COMMAND) as client:
            try:
                client.call_tool("wait", {"folder": str(FOLDER)})
            except KeyboardInterrupt:
                print("interrupted", client.call_tool("add", {"a": 1, "b": 2}, returns=int))
        """,
        tmp_path,
    )
    until(tmp_path / "started")
    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=SECONDS)

    assert output == "interrupted 3\n", errors
    assert (tmp_path / "cancelled").exists()


def test_ctrl_c_ends_a_program(tmp_path: Path) -> None:
    program = start(
        """
        with open_client(COMMAND) as client:
            client.call_tool("wait", {"folder": str(FOLDER)})
        """,
        tmp_path,
    )
    until(tmp_path / "started")
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=SECONDS)

    assert program.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    until(tmp_path / "cancelled")


def test_ctrl_c_while_a_client_is_opened_ends_the_program(tmp_path: Path) -> None:
    program = start(
        """
        silent = "import sys, time, pathlib; pathlib.Path(sys.argv[1], 'started').touch(); time.sleep(600)"
        with open_client([sys.executable, "-c", silent, str(FOLDER)]):
            raise AssertionError
        """,
        tmp_path,
    )
    until(tmp_path / "started")
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=SECONDS)

    assert "KeyboardInterrupt" in errors
    assert program.returncode == -signal.SIGINT


def test_a_program_that_closes_nothing_ends_and_so_do_its_children(tmp_path: Path) -> None:
    program = start(
        """
        client = open_client(COMMAND).__enter__()
        client.call_tool("add", {"a": 1, "b": 2})
        tasks = Path("/proc/self/task").iterdir()
        print(*[(task / "children").read_text() for task in tasks], flush=True)
        """,
        tmp_path,
    )
    output, errors = program.communicate(timeout=SECONDS)

    assert program.returncode == 0, errors
    assert errors == ""
    children = [int(pid) for pid in output.split()]
    assert children
    for pid in children:
        until_dead(pid)
