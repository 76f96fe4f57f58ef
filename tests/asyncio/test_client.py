"""The client for programs on asyncio, with a real child process as the server."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import uvloop

from tests.asyncio.bridged_server import server, two_calls, until
from trio_mcp import ConnectionBroken, ConnectionLost, Extension, ResourceUpdated, TimeLimits, ToolFailed, types
from trio_mcp.asyncio import (
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
from trio_mcp.llm import ToolCall

PROGRAM = str(Path(__file__).with_name("bridged_server.py"))
COMMAND = [sys.executable, PROGRAM]
SECONDS = 60.0


def run(main: Callable[[], Awaitable[Any]], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Any:
    """Run an async function on a new loop, with a time limit."""

    async def limited() -> Any:
        async with asyncio.timeout(SECONDS):
            return await main()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(limited())


def test_a_client_calls_lists_and_looks() -> None:
    async def main() -> None:
        async with open_client(COMMAND) as client:
            assert isinstance(client, Client)
            assert client.revision == types.REVISIONS[-1]
            assert repr(client).startswith("Client(")
            assert (await client.call_tool("add", {"a": 1, "b": 2}, returns=int)) == 3
            assert [tool.name async for tool in client.tools()][:2] == ["add", "wait"]

    run(main)


def test_every_opener_opens_a_client(tmp_path: Path) -> None:
    table = {"mcpServers": {"one": {"command": sys.executable, "args": [PROGRAM]}}}

    async def main() -> None:
        async with open_stdio_client(COMMAND, cwd=tmp_path) as over_stdio, open_memory_client(server) as in_memory:
            for client in (over_stdio, in_memory):
                assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        async with open_clients(table) as clients:
            assert isinstance(clients, Clients)
            assert list(clients) == ["one"]
            assert len(clients) == 1
            assert clients["one"] == clients["one"]
            assert {clients["one"]} == set(clients.values())
            assert await anext(each.server async for each in clients.tools()) == "one"
            assert await clients.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        with pytest.raises(ConnectionBroken):
            async with open_http_client("http://127.0.0.1:1/mcp"):
                pass

    run(main)


def test_callbacks_run_as_tasks_of_the_loop() -> None:
    asked: list[str] = []
    logged = asyncio.Event()

    async def on_elicit(question: types.ElicitRequestParams) -> types.ElicitResult:
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None
        asked.append(question.message)
        return types.ElicitResult(action="accept", content={"color": "red"})

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await asyncio.sleep(0)
        asked.append(str(message.data))
        logged.set()

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await asyncio.sleep(0)
        asked.append(str(update.message))

    async def main() -> None:
        async with open_client(COMMAND, on_elicit=on_elicit, on_log=on_log) as client:
            assert await client.call_tool("ask", returns=str) == "red"
            await client.call_tool("report", on_progress=on_progress)
            await logged.wait()

    run(main)

    assert sorted(asked) == ["Which color?", "all", "half", "halfway"]


def test_a_model_uses_the_tools_with_callbacks_that_run_as_tasks_of_the_loop() -> None:
    events: list[str] = []

    async def approve(call: ToolCall) -> bool | str:
        await asyncio.sleep(0)
        events.append(f"approve {call.function}")
        return call.function != "fail" or "never"

    async def on_progress(call: ToolCall, update: types.ProgressNotificationParams) -> None:
        await asyncio.sleep(0)
        events.append(f"{call.function} {update.message}")

    async def main() -> None:
        async with open_client(COMMAND) as client:
            toolkit = await load_toolkit(client, only=["report", "fail"])
            assert isinstance(toolkit, Toolkit)
            assert [each["function"]["name"] for each in toolkit.functions] == ["report", "fail"]
            assert toolkit.skills == ""
            answers = await toolkit.answer(two_calls(), approve=approve, on_progress=on_progress, timeout=SECONDS)
        assert [each["content"] for each in answers] == ["done", "Error: the user has refused this call: never"]

    run(main)

    assert events == ["approve report", "approve fail", "report half", "report all"]


def test_tables_of_handlers_and_of_options_have_callbacks_too() -> None:
    async def take(params: dict[str, Any]) -> None:
        raise AssertionError

    async def resolve(_: Any, result: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError

    async def on_elicit(_: types.ElicitRequestParams) -> types.ElicitResult:
        await asyncio.sleep(0)
        return types.ElicitResult(action="accept", content={"color": "blue"})

    extension = Extension("com.example/x", result_types={"com.example/y": resolve})
    table = {"mcpServers": {"one": {"command": sys.executable, "args": [PROGRAM]}}}

    async def main() -> None:
        options: ClientOptions = {
            "on_elicit": on_elicit,
            "notifications": {"com.example/z": take},
            "extensions": [extension],
        }
        async with open_clients(table, options_for=lambda _: options) as clients:
            assert await clients["one"].call_tool("ask", returns=str) == "blue"

    run(main)


def test_a_callback_that_is_cancelled_by_the_server_side_is_a_cancelled_task() -> None:
    ended: list[str] = []

    async def on_elicit(_: types.ElicitRequestParams) -> types.ElicitResult:
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        raise AssertionError

    async def main() -> None:
        async with open_client(COMMAND, on_elicit=on_elicit) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await client.call_tool("ask")
            assert ended == ["cancelled"]

    run(main)


def test_a_callback_that_cancels_itself_fails_the_call_and_nothing_else() -> None:
    async def on_progress(_: types.ProgressNotificationParams) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with open_client(COMMAND) as client:
            with pytest.raises(RuntimeError, match="the asyncio task of a callback was cancelled"):
                await client.call_tool("report", on_progress=on_progress)
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3

    run(main)


def test_exceptions_come_out_as_they_are() -> None:
    async def main() -> None:
        async with open_client(COMMAND, time_limits=TimeLimits(total=60)) as client:
            with pytest.raises(ToolFailed, match="it is broken"):
                await client.call_tool("fail", raise_on_error=True)
        with pytest.raises(FileNotFoundError):
            async with open_client(["/nowhere/at/all"]):
                raise AssertionError
        with pytest.raises(KeyError):
            async with open_client(COMMAND):
                raise KeyError
        with pytest.raises(TypeError, match="unknown client option"):
            async with open_client(COMMAND, on_elict=1):  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
                raise AssertionError

    run(main)


def test_blocks_and_iterators_of_a_client() -> None:
    async def main() -> None:
        async with open_client(COMMAND) as client:
            async with client.open_call("report") as call:
                assert [update.message async for update in call.updates] == ["half", "all"]
                assert not (await call.result()).is_error
            async with client.listen(resources=["note://a"]) as changes:
                assert changes.skipped == 0
                await client.call_tool("change")
                assert await anext(changes) == ResourceUpdated("note://a")
            task = await client.start_task("build", {"name": "x"})
            assert isinstance(task, TaskHandle)
            assert [state.status async for state in task.states()][-1] == "completed"
            assert (await task.result()).structured_content == {"result": "built x"}
            with pytest.raises(AttributeError, match="nonsense"):
                client.nonsense  # type: ignore[attr-defined] # noqa: B018 # pyright: ignore[reportAttributeAccessIssue, reportUnusedExpression]

    run(main)


def test_a_mirror_has_no_private_attributes_of_the_client() -> None:
    async def main() -> None:
        async with open_client(server) as client:
            assert not hasattr(client, "_connection")

    run(main)


def test_a_loop_that_goes_on_after_its_generators_were_shut_down_starts_trio_again() -> None:
    async def main() -> None:
        for _ in range(2):
            async with open_client(server) as client:
                assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
            await asyncio.get_running_loop().shutdown_asyncgens()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of asyncio, about the second generator
        run(main)


@pytest.mark.parametrize("new_loop", [None, uvloop.new_event_loop])
def test_cancelling_the_task_cancels_the_handler_in_the_other_process(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    async def main() -> None:
        async with open_client(COMMAND) as client:
            task = asyncio.create_task(client.call_tool("wait", {"folder": str(tmp_path)}))
            await until(tmp_path / "started")
            task.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(tmp_path / "cancelled")
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3

    run(main, new_loop)


def test_a_second_cancellation_does_not_stop_the_wait_for_the_end(tmp_path: Path) -> None:
    async def on_elicit(_: types.ElicitRequestParams) -> types.ElicitResult:
        (tmp_path / "asked").touch()
        try:
            await asyncio.sleep(SECONDS)
        finally:
            (tmp_path / "ending").touch()
            await asyncio.sleep(0.2)
            (tmp_path / "ended").touch()
        raise AssertionError

    async def main() -> None:
        async with open_client(COMMAND, on_elicit=on_elicit) as client:
            task = asyncio.create_task(client.call_tool("ask"))
            await until(tmp_path / "asked")
            task.cancel()
            await until(tmp_path / "ending")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (tmp_path / "ended").exists()

    run(main)


def test_timeouts_and_task_groups(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_client(COMMAND) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await client.call_tool("wait", {"folder": str(tmp_path)})
            async with asyncio.TaskGroup() as group:
                sums = [group.create_task(client.call_tool("add", {"a": n, "b": n}, returns=int)) for n in range(20)]
            assert [each.result() for each in sums] == [2 * n for n in range(20)]

    run(main)


def test_a_cancelled_block_closes_the_client_before_it_ends() -> None:
    async def main() -> None:
        opened = asyncio.Event()

        async def hold() -> None:
            async with open_client(COMMAND) as client:
                clients.append(client)
                opened.set()
                await asyncio.sleep(SECONDS)

        clients: list[Client] = []
        task = asyncio.create_task(hold())
        await opened.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert clients[0].is_lost

    run(main)


def test_opening_may_be_cancelled() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with (
                asyncio.timeout(0.5),
                open_client([sys.executable, "-c", "import time; time.sleep(600)"]),
            ):
                raise AssertionError

    run(main)


def test_several_loops_in_several_threads() -> None:
    results: list[int] = []

    def work() -> None:
        async def main() -> None:
            async with open_client(COMMAND) as client:
                results.append(await client.call_tool("add", {"a": 1, "b": 2}, returns=int))

        run(main)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)

    assert results == [3, 3, 3]


def test_a_client_belongs_to_its_loop() -> None:
    clients: list[Client] = []

    async def leave_open() -> None:
        clients.append(await open_client(COMMAND).__aenter__())

    async def use() -> None:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await clients[0].call_tool("add", {"a": 1, "b": 2})

    run(leave_open)
    run(use)


def test_an_opener_on_trio_says_which_one_is_right() -> None:
    async def main() -> None:
        async with open_client(server):
            pass

    with pytest.raises(RuntimeError, match=r"trio_mcp\.asyncio needs asyncio, .* from trio_mcp, if it runs on Trio"):
        trio.run(main)


def test_a_block_that_is_not_entered_says_how_to() -> None:
    async def main() -> None:
        block: Any = open_client(COMMAND)
        with pytest.raises(
            AttributeError, match=r"no attribute 'call_tool': write `async with open_client\(\.\.\.\) as client:`"
        ):
            block.call_tool("add")
        with pytest.raises(TypeError, match="cannot be awaited"):
            await block
        several: Any = open_clients({"mcpServers": {}})
        with pytest.raises(AttributeError, match=r"`async with open_clients\(\.\.\.\) as clients:`"):
            several.tools()

    run(main)


def test_a_call_that_is_in_flight_when_the_loop_ends_says_so() -> None:
    async def main() -> None:
        client = await open_client(COMMAND).__aenter__()
        await asyncio.get_running_loop().shutdown_asyncgens()
        with pytest.raises(trio.RunFinishedError, match="its event loop ends"):
            await client.call_tool("add", {"a": 1, "b": 2})

    run(main)


def test_a_call_that_the_end_of_the_loop_interrupts_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        client = await open_client(COMMAND).__aenter__()
        call = asyncio.create_task(client.call_tool("wait", {"folder": str(tmp_path)}))
        await until(tmp_path / "started")
        await asyncio.get_running_loop().shutdown_asyncgens()
        with pytest.raises((trio.RunFinishedError, ConnectionLost)):
            await call

    run(main)


# --- Whole programs ---

BEGIN = f"""
import asyncio, sys
from pathlib import Path
from trio_mcp.asyncio import open_client

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


def wait_for(path: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} does not appear")


def wait_until_dead(pid: int) -> None:
    """Wait until a process is gone; one that is not reaped is a zombie, and counts as gone."""
    for _ in range(6000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} lives")


def test_ctrl_c_ends_the_call_and_the_program(tmp_path: Path) -> None:
    program = start(
        """
        async def main():
            async with open_client(COMMAND) as client:
                await client.call_tool("wait", {"folder": str(FOLDER)})

        asyncio.run(main())
        """,
        tmp_path,
    )
    wait_for(tmp_path / "started")
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=SECONDS)

    assert (tmp_path / "cancelled").exists()
    assert "KeyboardInterrupt" in errors
    assert program.returncode != 0


@pytest.mark.parametrize(
    "ending",
    ["asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"],
    ids=["asyncio.run", "a loop that is never closed"],
)
def test_a_program_that_closes_nothing_ends_and_so_do_its_children(tmp_path: Path, ending: str) -> None:
    program = start(
        f"""
        async def main():
            client = await open_client(COMMAND).__aenter__()
            await client.call_tool("add", {{"a": 1, "b": 2}})
            globals()["kept"] = client
            tasks = Path("/proc/self/task").iterdir()
            print(*[(task / "children").read_text() for task in tasks], flush=True)

        {ending}
        """,
        tmp_path,
    )
    output, errors = program.communicate(timeout=SECONDS)

    assert program.returncode == 0, errors
    assert errors == ""
    children = [int(pid) for pid in output.split()]
    assert children
    for pid in children:
        wait_until_dead(pid)


def test_jupyter_runs_cells_on_a_loop_that_goes_on(tmp_path: Path) -> None:
    """A kernel runs each cell as a task of one loop, and interrupts a cell by cancelling its task."""
    loop = asyncio.new_event_loop()
    names: dict[str, Any] = {"open_client": open_client, "COMMAND": COMMAND, "folder": str(tmp_path)}

    def cell(source: str) -> asyncio.Task[Any]:
        code = compile("async def cell():\n" + textwrap.indent(textwrap.dedent(source), "    "), "cell", "exec")
        exec(code, names)
        return loop.create_task(names["cell"]())

    loop.run_until_complete(
        cell("""
        global client, block
        block = open_client(COMMAND)
        client = await block.__aenter__()
        """)
    )
    waiting = cell("await client.call_tool('wait', {'folder': folder})")
    loop.run_until_complete(until(tmp_path / "started"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    total = loop.run_until_complete(cell("return await client.call_tool('add', {'a': 1, 'b': 2}, returns=int)"))
    loop.run_until_complete(cell("await block.__aexit__(None, None, None)"))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()

    assert total == 3
    assert (tmp_path / "cancelled").exists()


def test_trio_does_not_take_sigint_from_a_program_without_a_runner() -> None:
    async def main() -> None:
        async with open_client(server):
            pass

    handler = signal.getsignal(signal.SIGINT)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())

    assert signal.getsignal(signal.SIGINT) is handler
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def test_a_kernel_of_jupyter_runs_cells_with_a_client(tmp_path: Path) -> None:
    """A real kernel: cells share a client, an interrupt ends a cell, and the client goes on.

    The client of the kernel leaves loops of its own behind, so it is in a process of its own too.
    """
    program = [sys.executable, str(Path(__file__).with_name("jupyter_cells.py")), PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=2 * SECONDS, cwd=tmp_path)

    opened, interrupted, called, closed, printed = done.stdout.split() or [done.stderr]
    assert (opened, called, closed, printed) == ("ok", "ok", "ok", "3")
    assert interrupted in {"KeyboardInterrupt", "CancelledError"}
    assert (tmp_path / "cancelled").exists()
