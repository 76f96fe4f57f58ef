"""Worker processes that share one port. They are real processes, most of them tiny."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.transports.http.socket_clients import get, read_all, read_until
from trio_mcp._util import owned_nursery
from trio_mcp.transports import Bound, HttpListening, bind_sockets, serve_workers, take_inheritance
from trio_mcp.transports.http.hypercorn import _workers as _hypercorn_workers
from trio_mcp.transports.http.hypercorn._workers import inheritance_variables

if sys.platform == "win32":
    pytest.skip("workers need POSIX", allow_module_level=True)

ROOT = Path(__file__).parents[4]
PROGRAM = Path(__file__).parents[2] / "programs" / "http_worker.py"
HOUR = 3600.0
TIMEOUT_SECONDS = 60  # seconds: far more than any test needs, so that a test that hangs fails

START = "import os, time; line = int(os.environ['TRIO_MCP_HTTP_WORKER'].split(':')[0]); "
"""The beginning of a worker that serves no requests."""
READY = START + r"os.write(line, b'\n'); "
"""The beginning of a worker that reports that it is ready."""
ANSWERING = "exec('while os.read(line, 64): os.write(line, b\".\")')"
"""The end of a worker that shows signs of life until it is dismissed."""
UNTIL_DISMISSED = READY + ANSWERING
UNRESPONSIVE = READY + "time.sleep(1000)"


def python(program: str) -> list[str]:
    """Return the command of a tiny Python program that starts fast."""
    return [sys.executable, "-I", "-S", "-c", program]


@asynccontextmanager
async def running_workers(
    command: list[str], workers: int = 1, **options: Any
) -> AsyncGenerator[tuple[Bound, Callable[[], None]]]:
    """Run workers during the block; yield their addresses, and a function that stops them earlier."""
    stop, ended = trio.Event(), trio.Event()

    async def run(task_status: trio.TaskStatus[Bound]) -> None:
        settings: dict[str, Any] = {"drain_seconds": 5, "leave_seconds": 5, "hang_seconds": HOUR, **options}
        listening = HttpListening(port=0)
        await serve_workers(
            command, listening, workers=workers, stopping=stop.wait, task_status=task_status, **settings
        )
        ended.set()

    with trio.fail_after(TIMEOUT_SECONDS):
        async with owned_nursery() as nursery:
            yield await nursery.start(run), stop.set
            stop.set()
            await ended.wait()


async def fail_to_run(command: list[str], **options: Any) -> ChildProcessError:
    listening = HttpListening(port=0)
    with trio.fail_after(TIMEOUT_SECONDS), pytest.raises(ChildProcessError) as caught:
        settings: dict[str, Any] = {"drain_seconds": 1, "hang_seconds": HOUR, **options}
        await serve_workers(command, listening, workers=2, stopping=trio.sleep_forever, **settings)
    return caught.value


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # another process raises no event
        await trio.sleep(0.005)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def children() -> list[int]:
    """Return the ids of the child processes, zombies included."""
    return [int(pid) for thread in Path("/proc/self/task").glob("*/children") for pid in thread.read_text().split()]


async def request_pid(port: int | None) -> int:
    stream = await trio.open_tcp_stream("127.0.0.1", port or 0)
    async with stream:
        await stream.send_all(get("/pid"))
        return int((await read_until(stream, b";")).rpartition(b"\n")[2][:-1])


async def request_pids(port: int | None) -> set[int]:
    found = set[int]()

    async def ask() -> None:
        found.add(await request_pid(port))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
    return found


async def test_workers_share_a_port_and_are_replaced_when_they_die_and_drain_when_they_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = {"PYTHONPATH": str(ROOT)}
    async with running_workers([sys.executable, str(PROGRAM)], workers=2, env=env) as (bound, stop):
        first = set[int]()
        while len(first) < 2:  # on a busy machine one worker may accept all connections for a while
            first |= await request_pids(bound.port)
        killed = min(first)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: not is_running(killed))
        found = first
        while len(found) < 3:
            found |= await request_pids(bound.port)

        async with await trio.open_tcp_stream("127.0.0.1", bound.port or 0) as stream:
            await stream.send_all(get("/stream"))
            await read_until(stream, b"first\r\n")
            stop()
            assert await read_all(stream) == b"4\r\nlast\r\n0\r\n\r\n"

    assert not any(map(is_running, found))
    (record,) = caplog.records
    assert record.getMessage().endswith(f" (process {killed}) was killed by signal 9; it is restarted in 0.1 seconds")


async def test_a_worker_that_exits_before_it_serves_is_an_error() -> None:
    error = await fail_to_run(python("raise SystemExit(3)"))

    assert " ended with status 3 before it served" in str(error)
    assert children() == []


async def test_a_worker_that_cannot_be_started_is_an_error_that_names_it() -> None:
    error = await fail_to_run(["/no/such/program"])

    assert "cannot be started: " in str(error)
    assert "/no/such/program" in str(error)


async def test_all_workers_stop_when_one_fails_at_the_start(tmp_path: Path) -> None:
    claim = f"import os; os.open({str(tmp_path / 'claim')!r}, os.O_CREAT | os.O_EXCL); "  # only one process succeeds

    error = await fail_to_run(python(claim + UNTIL_DISMISSED))

    assert " ended with status 1 before it served" in str(error)
    assert children() == []


async def test_a_worker_that_exits_soon_is_replaced_after_growing_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hypercorn_workers, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(_hypercorn_workers, "_LONGEST_PAUSE_SECONDS", 0.025)

    async with running_workers(python(READY + "raise SystemExit(7)")):
        await until(lambda: len(caplog.records) == 4)

    messages = [record.getMessage() for record in caplog.records]
    assert all(" ended with status 7; it is restarted in " in message for message in messages)
    pauses = [record.args[2] for record in caplog.records[:4] if isinstance(record.args, tuple)]
    assert pauses == [0.01, 0.02, 0.025, 0.025]


async def test_a_worker_that_lasted_is_replaced_after_a_short_pause(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hypercorn_workers, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(_hypercorn_workers, "_LASTING_SECONDS", 0.0)

    async with running_workers(python(READY)):
        await until(lambda: len(caplog.records) == 3)

    pauses = [record.args[2] for record in caplog.records[:3] if isinstance(record.args, tuple)]
    assert pauses == [0.01, 0.01, 0.01]


async def test_a_worker_that_does_not_stop_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    async with running_workers(python(UNRESPONSIVE), drain_seconds=0.05, leave_seconds=0.05):
        (pid,) = children()
        assert os.getpgid(pid) == pid  # an interrupt at the terminal is the parent's to handle

    assert not is_running(pid)
    (record,) = caplog.records
    assert record.getMessage() == f"worker 1 (process {pid}) does not end in time and is killed"


async def test_the_child_processes_of_a_worker_end_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    start = (
        "import subprocess; pid = subprocess.Popen(['sleep', '1000']).pid; "
        f"open({str(pid_file)!r}, 'w').write(str(pid))"
    )

    async with running_workers(python(f"{READY}{start}; os._exit(0)")):
        await until(lambda: pid_file.exists() and pid_file.read_text())
        orphan = int(pid_file.read_text())
        await until(lambda: not is_running(orphan))


async def test_a_worker_that_is_stopped_is_killed_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async with running_workers(python(UNTIL_DISMISSED), hang_seconds=3):
        (stopped,) = children()
        os.kill(stopped, signal.SIGSTOP)
        await until(lambda: not is_running(stopped))
        await until(lambda: len(caplog.records) >= 2)
        await until(children)

    found, replaced = (record.getMessage() for record in caplog.records[:2])
    assert found.startswith(f"worker 1 (process {stopped}) has shown no sign of life for 3 s ")
    assert found.endswith(" and is killed")
    assert replaced == f"worker 1 (process {stopped}) was killed by signal 9; it is restarted in 0.1 seconds"


async def test_a_worker_whose_event_loop_is_blocked_is_killed_and_replaced_while_others_live(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    note = tmp_path / "blocked"
    env = {"PYTHONPATH": str(ROOT), "BLOCKED": str(note)}
    async with running_workers([sys.executable, str(PROGRAM)], workers=2, env=env, hang_seconds=5) as (bound, _):
        async with await trio.open_tcp_stream("127.0.0.1", bound.port or 0) as stream:
            await stream.send_all(get("/block"))
            await until(lambda: note.exists() and note.read_text())
            blocked = int(note.read_text())
            assert await request_pid(bound.port) != blocked
            await until(lambda: not is_running(blocked))
        found = set[int]()
        while len(found) < 2:
            found |= await request_pids(bound.port)

    assert blocked not in found
    assert f"(process {blocked}) has shown no sign of life for 5 s" in caplog.text


async def test_a_worker_that_never_starts_is_killed_and_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    error = await fail_to_run(python("import time; time.sleep(1000)"), start_seconds=0.2)

    assert " was killed by signal 9 before it served" in str(error)
    assert " has not started within 0.2 s and is killed" in caplog.text
    assert children() == []


async def test_a_worker_that_drains_for_long_is_not_taken_for_one_that_hangs(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    stop, began = trio.Event(), trio.current_time()
    limits: dict[str, Any] = {"drain_seconds": 3 * HOUR, "hang_seconds": HOUR, "start_seconds": math.inf}
    serve = partial(serve_workers, workers=1, stopping=stop.wait, **limits)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, python(UNRESPONSIVE), HttpListening(port=0))
        (pid,) = children()
        stop.set()

    assert trio.current_time() - began > 3 * HOUR
    (record,) = caplog.records
    assert record.getMessage() == f"worker 1 (process {pid}) does not end in time and is killed"


async def test_cancellation_kills_the_workers() -> None:
    async with trio.open_nursery() as nursery:
        serve = partial(serve_workers, workers=2, stopping=trio.sleep_forever, drain_seconds=1000, hang_seconds=HOUR)
        await nursery.start(serve, python(UNRESPONSIVE), HttpListening(port=0))
        assert len(children()) == 2
        nursery.cancel_scope.cancel()

    assert children() == []


async def test_a_stop_before_all_workers_are_ready_stops_them() -> None:
    started: list[Bound] = []

    class Status:
        def started(self, value: Bound) -> None:
            started.append(value)

    async def stopping() -> None:
        await until(children)

    status: Any = Status()
    settings: dict[str, Any] = {"workers": 1, "stopping": stopping, "drain_seconds": 5, "hang_seconds": HOUR}
    await serve_workers(python(START + ANSWERING), HttpListening(port=0), task_status=status, **settings)

    assert started == []
    assert children() == []


PARENT = """
import sys
import trio
from trio_mcp.transports.http.hypercorn._sockets import HttpListening
from trio_mcp.transports.http.hypercorn._workers import serve_workers

command = sys.argv[1:]
trio.run(lambda: serve_workers(
    command, HttpListening(port=0), workers=1, stopping=trio.sleep_forever, drain_seconds=1000, hang_seconds=1000))
"""


async def test_workers_stop_when_their_parent_is_killed() -> None:
    print_pid = f"{READY}print(os.getpid(), flush=True); {ANSWERING}"
    parent = await trio.lowlevel.open_process(
        [sys.executable, "-c", PARENT, *python(print_pid)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    async with parent.stdout:
        with trio.fail_after(TIMEOUT_SECONDS):
            pid = int(await parent.stdout.receive_some())
            assert is_running(pid)
            parent.kill()
            await parent.wait()

            await until(lambda: not is_running(pid))


async def test_the_children_of_a_worker_do_not_inherit_its_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        sockets = (await bind_sockets(HttpListening(port=0))).sockets
        for name, value in inheritance_variables(theirs, sockets).items():
            monkeypatch.setenv(name, value)
        port = sockets[0].getsockname()[1]
        line = theirs.detach()
        inherited = [each.detach() for each in sockets]
        for descriptor in (line, *inherited):
            os.set_inheritable(descriptor, True)

        inheritance = take_inheritance(HttpListening())
        assert inheritance is not None
        assert inheritance.sockets.bound == Bound((f"http://127.0.0.1:{port}",), port)
        assert not any(map(os.get_inheritable, (line, *inherited)))
        assert take_inheritance(HttpListening()) is None

        await inheritance.report_ready()
        assert ours.recv(10) == b"\n"
        with trio.move_on_after(0.01) as waiting:
            await inheritance.wait_dismissed()
        assert waiting.cancelled_caught
        ours.close()
        await inheritance.wait_dismissed()
        await inheritance.report_ready()  # the other end is closed
        inheritance.close()


async def test_each_signal_goes_to_the_workers_whose_last_statuses_are_returned() -> None:
    """A worker that ignores its dismissal ends at the second signal."""
    count = "import signal; count = iter([lambda: None, lambda: os._exit(7)]); "
    on_signal = "signal.signal(signal.SIGTERM, lambda *_: next(count)()); "
    program = python("import os; " + count + on_signal + READY + "[time.sleep(1) for _ in range(1000)]")
    stop, signals = trio.Event(), trio.Semaphore(0)
    limits: dict[str, Any] = {"drain_seconds": 1000, "hang_seconds": HOUR}
    options: dict[str, Any] = {"workers": 2, "stopping": stop.wait, "signals": signals.acquire, **limits}
    ended = list[int]()

    async def serve(task_status: trio.TaskStatus[Bound]) -> None:
        ended.extend(await serve_workers(program, HttpListening(port=0), task_status=task_status, **options))

    with trio.fail_after(TIMEOUT_SECONDS):
        async with owned_nursery() as nursery:
            await nursery.start(serve)
            stop.set()
            while not ended:
                signals.release()
                await trio.sleep(0.05)

    assert ended == [7, 7]
