"""Tests of tools in worker processes: arguments and results, refusals, failures, and the end of processes."""

from __future__ import annotations

import importlib.machinery
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import types as python_types
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.server import isolated_tools as tools
from tests.server.isolated_calls import Calls, hang_up, is_gone, taking_calls, until, value_of
from trio_mcp import Client, Context, ErrorResponse, Limits, Server, open_client, serve_stream
from trio_mcp.server import ActiveServer, _process_worker, _processes
from trio_mcp.server._process_worker import HEAD
from trio_mcp.server._processes import program_of_main, start_worker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups and Unix sockets are POSIX's")


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncGenerator[Calls]:
    async with taking_calls(tmp_path / "calls") as taken:
        yield taken


def isolating(*functions: Callable[..., Any], limits: Limits | None = None, **options: Any) -> Server:
    server = Server("isolating", limits=limits)
    for function in functions:
        server.tool(isolate="process", **options)(function)
    return server


@asynccontextmanager
async def served(server: Server) -> AsyncGenerator[tuple[ActiveServer, Client]]:
    """Open a serving that the test can inspect, and a client over byte streams."""
    with trio.fail_after(60):
        async with server.serving() as serving, trio.open_nursery() as nursery:
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve_stream, serving, theirs)
            async with open_client(ours) as client:
                yield serving, client


async def text_of(client: Client, tool: str, arguments: dict[str, Any] | None = None) -> str:
    """Return the message of the tool error of a call."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    block: Any = result.content[0]
    return str(block.text)


# Arguments and results.


async def test_an_isolated_function_runs_in_a_process_that_is_reused() -> None:
    async with served(isolating(tools.pid)) as (serving, client):
        first, second = await value_of(client, "pid"), await value_of(client, "pid")
        assert serving.statistics().processes == 1

    assert first == second != os.getpid()
    assert is_gone(first)


async def test_arguments_and_results_are_the_annotated_types_in_both_processes() -> None:
    async with open_client(isolating(tools.mirrored)) as client:
        plain = await value_of(client, "mirrored", {"point": {"x": 1, "y": 2}})
        shifted = await value_of(client, "mirrored", {"point": {"x": 1, "y": 2}, "by": 10, "shift": 5})

    assert plain == {"x": 2, "y": 1}
    assert shifted == {"x": 25, "y": 15}


async def test_arguments_are_checked_before_they_are_sent_to_a_process() -> None:
    async with served(isolating(tools.mirrored)) as (serving, client):
        assert "$.point.x: expected integer" in await text_of(client, "mirrored", {"point": {"x": "one"}})
        assert serving.statistics().processes == 0


async def test_arguments_and_results_may_be_larger_than_a_pipe() -> None:
    text = "x" * 3_000_000

    async with open_client(isolating(tools.echo)) as client:
        assert await value_of(client, "echo", {"text": text}) == text


async def test_partials_and_objects_and_their_methods_can_be_isolated() -> None:
    server, counter = Server("s"), tools.Counter(40)
    server.tool(name="partial", isolate="process")(partial(tools.mirrored, shift=1))
    server.tool(name="object", isolate="process")(counter)
    server.tool(name="method", isolate="process")(counter.bound)

    async with open_client(server) as client:
        assert await value_of(client, "partial", {"point": {"x": 1}}) == {"x": 1, "y": 2}
        assert await value_of(client, "object", {"step": 2}) == 42
        assert await value_of(client, "method", {"step": 1}) == 42


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are looked up in /proc")
async def test_a_worker_has_no_descriptor_of_the_server() -> None:
    listening, inheritable = socket.socket(), socket.socket()
    listening.listen()
    inheritable.set_inheritable(True)

    with listening, inheritable:
        async with open_client(isolating(tools.descriptors)) as client:
            found = await value_of(client, "descriptors")

    assert not [target for target in found.values() if target.startswith("socket")]
    assert found["0"] == os.devnull
    assert len([target for target in found.values() if target.startswith("pipe")]) <= 4  # 1 and 2 may be pipes


async def test_output_of_a_worker_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    async with open_client(isolating(tools.say)) as client:
        await client.call_tool("say", {"text": "printed"}, raise_on_error=True)

    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("printed") == 2


async def test_a_program_without_standard_error_can_have_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)

    async with open_client(isolating(tools.say)) as client:
        await client.call_tool("say", {"text": "lost"}, raise_on_error=True)


async def test_output_of_start_up_files_is_not_taken_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('x' * 100_000)", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async with open_client(isolating(tools.echo)) as client:
        assert await value_of(client, "echo", {"text": "clean"}) == "clean"


# Refusals.


def refusal(function: Callable[..., Any]) -> str:
    with pytest.raises(TypeError) as caught:
        Server("s").tool(name="it", isolate="process")(function)
    return str(caught.value)


def test_an_async_function_cannot_be_isolated() -> None:
    async def work() -> None: ...

    assert refusal(work).startswith('it: isolate="process" is for plain `def` functions')


def test_a_function_that_takes_a_context_cannot_be_isolated() -> None:
    def work(ctx: Context) -> None: ...

    assert "it cannot have a Context or a Resolve, which stay in the process of the server" in refusal(work)


def test_a_function_that_cannot_be_imported_cannot_be_isolated() -> None:
    class Local:
        def __call__(self) -> None: ...

    assert "isolated_tools.local.<locals>.inner cannot be imported" in refusal(tools.local())
    assert "<lambda> cannot be imported: define it at the top level" in refusal(lambda: None)
    assert "inner cannot be imported" in refusal(partial(tools.local()))
    assert "<locals>.Local cannot be imported" in refusal(Local())


@pytest.mark.parametrize("how", ["python -c", "python -m package"])
def test_a_function_of_a_main_module_that_cannot_be_imported_cannot_be_isolated(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = python_types.ModuleType("__main__")
    if how == "python -m package":
        main.__spec__ = importlib.machinery.ModuleSpec("package.__main__", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(tools.pid, "__module__", "__main__")

    assert "__main__.pid is in a main module that cannot be imported again" in refusal(tools.pid)


def test_workers_import_the_main_module_by_its_name_or_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = python_types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    main.__file__ = __file__
    by_file = program_of_main()
    main.__spec__ = importlib.machinery.ModuleSpec("package.module", None)

    assert by_file == {"init_main_from_path": __file__}
    assert program_of_main() == {"init_main_from_name": "package.module"}


def test_any_other_value_of_isolate_is_refused() -> None:
    how: Any = "thread"

    with pytest.raises(ValueError, match="tool 'pid': isolate='thread': must be 'process' or None"):
        Server("s").tool(isolate=how)(tools.pid)


# Failures.


async def test_a_function_that_its_name_does_not_refer_to_fails_at_its_call() -> None:
    async with open_client(isolating(tools.impostor)) as client:
        text = await text_of(client, "pid")

    assert text.startswith('pid: isolate="process" must pickle the function and its arguments, which failed')
    assert "not the same object" in text


async def test_a_function_that_the_worker_cannot_import_fails_at_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made = python_types.ModuleType("made_here")
    exec("def hello() -> None: ...", made.__dict__)  # a module without a file
    monkeypatch.setitem(sys.modules, "made_here", made)

    async with open_client(isolating(made.hello)) as client:
        assert await text_of(client, "hello") == "its worker process cannot load the call: No module named 'made_here'"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("deliberately", "not today"),
        ("plainly", "nothing there"),
        ("with two", "1 and 2"),
        ("with a secret", "cannot be pickled itself"),
        ("silently", "WithoutString"),
        ("oddly", "an odd one"),
        ("by leaving", "the handler tried to exit the process: sys.exit(4)"),
        ("by interrupting", "the handler raised KeyboardInterrupt"),
    ],
)
async def test_an_exception_of_an_isolated_function_is_raised_in_the_server(
    how: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(isolating(tools.fail)) as (serving, client):
        assert await text_of(client, "fail", {"how": how}) == message
        assert serving.statistics().processes == 1  # the worker is still alive

    if how == "deliberately":
        assert caplog.records == []
    else:
        assert "isolated_tools.py" in caplog.text  # the traceback is only in the log


async def test_a_protocol_error_of_an_isolated_function_answers_the_request() -> None:
    async with open_client(isolating(tools.fail)) as client:
        with pytest.raises(ErrorResponse, match="not so") as caught:
            await client.call_tool("fail", {"how": "by protocol"})

    assert caught.value.code == 7


async def test_a_result_that_cannot_be_pickled_is_an_error_that_says_so() -> None:
    async with open_client(isolating(tools.give_function, tools.give_trap)) as client:
        assert "its result cannot be pickled" in await text_of(client, "give_function")
        assert "its result cannot be unpickled" in await text_of(client, "give_trap")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("exit", "exited with status 3"),
        ("SIGKILL", "was killed by signal 9"),
        ("SIGSEGV", "was killed by signal 11"),
    ],
)
async def test_the_death_of_a_worker_fails_its_call_and_nothing_else(
    how: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(isolating(tools.end, tools.pid)) as client:
        assert await text_of(client, "end", {"how": how}) == f"end: its worker process {message}"
        assert await value_of(client, "pid")

    assert [(record.name, record.levelno) for record in caplog.records] == [("trio_mcp.server", logging.WARNING)]


async def test_a_worker_that_has_died_between_calls_is_replaced() -> None:
    async with served(isolating(tools.pid)) as (serving, client):
        first = await value_of(client, "pid")
        os.kill(first, signal.SIGKILL)
        await until(lambda: serving.statistics().processes == 0)

        assert await value_of(client, "pid") != first


@pytest.mark.skipif(sys.platform != "linux", reason="a stopped process is recognised on Linux only")
async def test_an_idle_worker_that_is_stopped_is_killed_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async with served(isolating(tools.pid)) as (serving, client):
        stopped = await value_of(client, "pid")
        os.kill(stopped, signal.SIGSTOP)
        flags = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        await until(lambda: os.waitid(os.P_PID, stopped, flags) is not None)  # all of its threads have stopped

        assert await value_of(client, "pid") != stopped
        assert is_gone(stopped)
        assert serving.statistics().processes == 1

    assert [record.getMessage() for record in caplog.records] == [
        f"worker process {stopped} is stopped; it is killed and replaced"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="a stopped process is recognised on Linux only")
async def test_a_worker_that_is_stopped_during_a_call_is_killed_which_fails_the_call(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_processes, "_LOOK_SECONDS", 0.01)

    async with served(isolating(tools.stop_itself, tools.pid, limits=Limits(max_processes=1))) as (_, client):
        text = await text_of(client, "stop_itself", {"path": calls.path})
        line, stopped = await calls.take()
        await hang_up(line)
        assert await value_of(client, "pid") != int(stopped)

    assert text == "stop_itself: its worker process was killed by signal 9"
    assert f"worker process {stopped} is stopped; it is killed" in caplog.text


async def test_a_worker_whose_descendant_holds_its_pipes_is_known_to_be_dead(calls: Calls) -> None:
    async with served(isolating(tools.exit_leaving_a_child)) as (_, client), trio.open_nursery() as nursery:
        texts: list[str] = []

        async def call() -> None:
            texts.append(await text_of(client, "exit_leaving_a_child", {"path": calls.path}))

        nursery.start_soon(call)
        line, _ = await calls.take()
        await until(lambda: bool(texts))
        await line.aclose()  # the descendant exits

    assert texts == ["exit_leaving_a_child: its worker process exited with status 3"]


async def test_a_worker_that_starts_too_slowly_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "_START_SECONDS", 0.001)

    async with served(isolating(tools.pid)) as (serving, client):
        assert await text_of(client, "pid") == "pid: its worker process did not start within 0.001 s"
        await until(lambda: serving.statistics().processes == 0)


UNGUARDED = """
import trio
from trio_mcp import Server

async def main():
    async with Server("unguarded").serving():
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_main_module_that_serves_when_it_is_imported_gets_a_helpful_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    main = python_types.ModuleType("__main__")
    main.__file__ = str(tmp_path / "unguarded.py")
    (tmp_path / "unguarded.py").write_text(UNGUARDED, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "__main__", main)

    async with open_client(isolating(tools.pid)) as client:
        text = await text_of(client, "pid")

    assert text == "pid: while it started (see its standard error), its worker process exited with status 1"
    assert (
        'put the code that only the program itself shall run under `if __name__ == "__main__":`'
        in capfd.readouterr().err
    )


async def test_a_worker_that_is_stuck_in_the_kernel_has_no_status() -> None:
    worker = await start_worker()
    assert worker.exit_description == "cannot be reached any more"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.watch)
        await worker.kill()
    assert worker.exit_description == "was killed by signal 9"
    assert not worker.is_stopped


# The end of processes.


@pytest.mark.parametrize("tool", [tools.spin, tools.wait], ids=["busy", "blocked"])
async def test_a_cancelled_call_kills_its_process(tool: Callable[..., Any], calls: Calls) -> None:
    async with served(isolating(tool, tools.pid, limits=Limits(max_processes=1))) as (serving, client):
        async with client.open_call(tool.__name__, {"path": calls.path}):
            line, pid = await calls.take()
            assert (serving.processes.working, serving.statistics().processes) == (1, 1)
        await hang_up(line)
        await until(lambda: serving.processes.working == 0)
        assert serving.statistics().processes == 0
        assert is_gone(int(pid))

        assert await value_of(client, "pid") != int(pid)  # its slot is free again


async def test_a_process_is_killed_with_what_it_has_started(calls: Calls) -> None:
    async with served(isolating(tools.spin_with_a_child)) as (_, client):
        async with client.open_call("spin_with_a_child", {"path": calls.path}):
            lines = [await calls.take(), await calls.take()]
        for line, _ in lines:
            await hang_up(line)

    assert "grandchild" in {message for _, message in lines}


@pytest.mark.skipif(sys.platform != "linux", reason="other processes' environments are read in /proc")
async def test_a_process_is_killed_with_what_has_left_its_session(calls: Calls) -> None:
    async with served(isolating(tools.spin_with_another_session)) as (_, client):
        async with client.open_call("spin_with_another_session", {"path": calls.path}):
            lines = [await calls.take(), await calls.take()]
        for line, _ in lines:
            await hang_up(line)

    assert "grandchild" in {message for _, message in lines}


@pytest.mark.skipif(sys.platform != "linux", reason="other processes' environments are read in /proc")
async def test_what_has_left_the_session_of_an_idle_worker_is_killed_when_the_serving_ends(calls: Calls) -> None:
    async with served(isolating(tools.leave_a_session)) as (_, client):
        await client.call_tool("leave_a_session", {"path": calls.path}, raise_on_error=True)
        line, _ = await calls.take()

    with trio.fail_after(60):
        await hang_up(line)


async def test_a_stopped_process_is_killed_when_its_call_exceeds_its_timeout(calls: Calls) -> None:
    async with served(isolating(tools.stop_itself, tools.pid, timeout=0.5)) as (_, client):
        assert await text_of(client, "stop_itself", {"path": calls.path}) == "stop_itself timed out after 0.5 s"
        line, pid = await calls.take()
        await hang_up(line)

        assert is_gone(int(pid))


async def test_a_stopped_process_is_killed_when_its_call_is_cancelled(calls: Calls) -> None:
    async with served(isolating(tools.stop_itself, tools.pid, limits=Limits(max_processes=1))) as (_, client):
        async with client.open_call("stop_itself", {"path": calls.path}):
            line, pid = await calls.take()
        await hang_up(line)

        assert await value_of(client, "pid") != int(pid)
        assert is_gone(int(pid))


async def test_a_call_that_exceeds_its_timeout_kills_its_process(calls: Calls) -> None:
    async with served(isolating(tools.spin, timeout=0.05)) as (serving, client):
        assert await text_of(client, "spin", {"path": calls.path}) == "spin timed out after 0.05 s"
        assert serving.statistics().processes == 0


async def test_the_start_of_a_process_does_not_count_against_the_timeout_of_the_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    run, server = _processes.Processes.run, isolating(tools.pid, timeout=60)

    async def watched(*args: Any, on_begin: Callable[[], object], **options: Any) -> Any:
        def begin() -> None:
            begun.append(f"{args[0].alive} alive")
            on_begin()

        return await run(*args, on_begin=begin, **options)

    monkeypatch.setattr(_processes.Processes, "run", watched)
    async with open_client(server) as client:
        assert await value_of(client, "pid")

    assert begun == ["1 alive"]


async def test_a_call_that_is_cancelled_while_its_process_starts_leaves_no_process() -> None:
    async with served(isolating(tools.pid)) as (serving, client):
        async with client.open_call("pid"):
            await until(lambda: serving.statistics().processes == 1)
        await until(lambda: (serving.processes.working, serving.statistics().processes) == (0, 0))


async def test_the_number_of_busy_processes_is_limited(calls: Calls) -> None:
    async with served(isolating(tools.wait, limits=Limits(max_processes=2))) as (serving, client):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(client.call_tool, "wait", {"path": calls.path})
            lines = [await calls.take(), await calls.take()]
            assert serving.statistics().running == 3
            assert serving.statistics().processes == 2
            await lines[0][0].aclose()
            third, pid = await calls.take()
            assert pid == lines[0][1]  # an idle worker
            await lines[1][0].aclose()
            await third.aclose()
        assert serving.processes.working == 0


async def test_the_limit_of_a_tool_holds_for_processes_too(calls: Calls) -> None:
    server = isolating(tools.wait, max_concurrency=1)

    async with served(server) as (serving, client), trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(client.call_tool, "wait", {"path": calls.path})
        line, _ = await calls.take()
        await until(lambda: serving.statistics().running == 2)
        assert serving.processes.working == 1
        async with client.open_call("wait", {"path": calls.path}):
            pass  # stops waiting for its slot
        await line.aclose()
        line, _ = await calls.take()
        await line.aclose()


async def test_idle_workers_exit_normally_when_the_serving_ends(tmp_path: Path) -> None:
    async with open_client(isolating(tools.write_at_exit)) as client:
        await client.call_tool("write_at_exit", {"path": str(tmp_path / "word")})
        assert not (tmp_path / "word").exists()

    assert (tmp_path / "word").read_text() == "left"


async def test_busy_workers_are_killed_when_the_serving_ends(calls: Calls) -> None:
    server = isolating(tools.spin)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with server.serving() as serving:
                ours, theirs = trio.testing.memory_stream_pair()
                nursery.start_soon(serve_stream, serving, theirs)
                nursery.start_soon(_call_until_stopped, ours, calls.path)
                line, pid = await calls.take()
            assert is_gone(int(pid))
            await hang_up(line)
            nursery.cancel_scope.cancel()


async def _call_until_stopped(stream: trio.abc.Stream, path: str) -> None:
    with suppress(ErrorResponse):  # the server stops
        async with open_client(stream) as client:
            await client.call_tool("spin", {"path": path})


async def test_the_test_clock_pauses_while_processes_work(autojump_clock: MockClock) -> None:
    with trio.fail_after(5):
        async with open_client(isolating(tools.pid)) as client:
            assert await value_of(client, "pid")


# A worker without a server.


@pytest.mark.parametrize(
    "begun", [b"", b"\0\0", HEAD.pack(10) + b"short"], ids=["nothing", "half a head", "half a job"]
)
def test_a_worker_whose_server_ends_before_its_first_message_exits(begun: bytes) -> None:
    program = [sys.executable, "-c", "from trio_mcp.server._process_worker import main; main()"]

    done = subprocess.run(program, input=begun, capture_output=True, check=True, start_new_session=True)

    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_program_is_not_taken_for_a_starting_worker() -> None:
    assert not _process_worker.is_starting()
    json.dumps(program_of_main())  # JSON: nothing else is pickled for the start
