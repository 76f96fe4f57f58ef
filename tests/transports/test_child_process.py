"""A child process as a stream: sending, receiving, shutdown and standard error, with real processes."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from trio_mcp import ConnectionBroken, ServerExited
from trio_mcp.transports import DescendantMark
from trio_mcp.transports.stdio import _client as _child_process
from trio_mcp.transports.stdio import _descendants
from trio_mcp.transports.stdio import _stderr as _child_stderr
from trio_mcp.transports.stdio._client import NARROW_PIPE, WIDE_PIPE, ChildProcess, bytes_waiting, open_child_process

if sys.platform == "win32":
    pytest.skip("the children are POSIX programs", allow_module_level=True)

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_SECONDS = 60  # seconds: far more than any test needs, so that a test that hangs fails
NEVER_EXITS = "exec sleep 1000"  # it never reads, and outlives the test run if it is not killed
ORPHAN = "sleep 1000 & echo $!"  # the shell exits; the sleeper stays and keeps every pipe open


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


async def wait_until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 # another process raises no event
        await trio.sleep(0.001)


async def wait_until_dead(pid: int) -> None:
    await wait_until(lambda: not is_running(pid))


def read_available(descriptor: int) -> bytes:
    """Read without waiting."""
    os.set_blocking(descriptor, False)
    found = b""
    with suppress(BlockingIOError):
        while chunk := os.read(descriptor, 1 << 20):
            found += chunk
    return found


async def read_all(child: ChildProcess) -> bytes:
    return b"".join([bytes(chunk) async for chunk in child.stream])


async def read_line(child: ChildProcess) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        chunk = await child.stream.receive_some()
        assert chunk, line
        line += bytes(chunk)
    return line


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Check that the test leaves no child of this process, zombies included, and no additional descriptor.

    Trio's own descriptors exist neither before nor after a run.
    """
    before = descriptors()
    yield
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert len(descriptors()) == len(before)


async def test_data_is_sent_to_the_child_and_received_from_it() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"]) as child:
            await child.stream.wait_send_all_might_not_block()
            await child.stream.send_all(b"hello\n")

            assert await child.stream.receive_some(3) == b"hel"
            assert await child.stream.receive_some() == b"lo\n"
            assert child.returncode is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the capacity of a pipe")
async def test_the_output_pipe_is_narrow_for_many_small_messages_and_wide_for_large_ones() -> None:
    small, large = b"x\n" * 2 * NARROW_PIPE, b"x" * 2 * NARROW_PIPE + b"\n"
    script = f"""import os; os.write(1, b'x\\n' * {2 * NARROW_PIPE}); os.read(0, 1)
os.write(1, b'x' * {2 * NARROW_PIPE} + b'\\n'); os.read(0, 1)"""

    async def filled(child: ChildProcess, size: int) -> None:
        await wait_until(lambda: bytes_waiting(child._stream._stdout) == size)

    def capacity(child: ChildProcess) -> int:
        assert isinstance(child._stream._stdout, trio.lowlevel.FdStream)
        return fcntl.fcntl(child._stream._stdout.fileno(), fcntl.F_GETPIPE_SZ)

    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process([sys.executable, "-c", script]) as child:
            assert capacity(child) == WIDE_PIPE
            await filled(child, len(small))
            received = await child.stream.receive_some(NARROW_PIPE)
            assert capacity(child) == WIDE_PIPE  # it holds more than a narrow one can
            received += await child.stream.receive_some(2 * NARROW_PIPE)
            assert capacity(child) == NARROW_PIPE
            received += await child.stream.receive_some(NARROW_PIPE)
            await child.stream.send_all(b"!")
            await filled(child, NARROW_PIPE)
            received += await child.stream.receive_some(NARROW_PIPE // 2)
            assert capacity(child) == NARROW_PIPE  # so little does not show the size of the messages
            await filled(child, NARROW_PIPE)
            received += await child.stream.receive_some(NARROW_PIPE)
            assert capacity(child) == WIDE_PIPE
            await filled(child, len(small + large) - len(received))
            received += await child.stream.receive_some(len(large))

    assert received == small + large


@pytest.mark.requirement("B.5-C3a")
async def test_closing_does_not_wait_longer_than_the_child_needs_to_exit() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"], leave_seconds=1000) as child:
            pass

    assert child.returncode == 0


@pytest.mark.requirement("B.5-C3b")
async def test_a_child_that_ignores_the_end_of_its_input_gets_sigterm() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(NEVER_EXITS), leave_seconds=0.05, terminate_seconds=1000) as child:
            pass

    assert child.returncode == -signal.SIGTERM


@pytest.mark.requirement("B.5-C3c")
async def test_a_child_that_ignores_sigterm_is_killed() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        script = f"trap '' TERM; echo ready; {NEVER_EXITS}"
        async with open_child_process(shell(script), leave_seconds=0.05, terminate_seconds=0.05) as child:
            await read_line(child)

    assert child.returncode == -signal.SIGKILL


@pytest.mark.requirement("B.5-C3c")
async def test_a_stopped_child_is_killed() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"], leave_seconds=0.05, terminate_seconds=0.05) as child:
            os.kill(child.pid, signal.SIGSTOP)

    assert child.returncode == -signal.SIGKILL


async def test_a_child_that_survives_sigkill_does_not_block_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    def powerless(process: trio.Process) -> None:
        """Kill nothing, as if the process were stuck in the kernel."""

    monkeypatch.setattr(_child_process, "kill_group", powerless)
    monkeypatch.setattr(_child_process, "_KILL_SECONDS", 0.05)
    with trio.fail_after(TIMEOUT_SECONDS):
        script = f"trap '' TERM; echo ready; {NEVER_EXITS}"
        async with open_child_process(shell(script), leave_seconds=0.02, terminate_seconds=0.02) as child:
            await read_line(child)

        assert child.returncode is None
        os.kill(child.pid, signal.SIGKILL)
        child._process._proc.wait()
        child._process.poll()


async def test_a_killed_child_ends_the_stream_and_names_the_signal() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"]) as child:
            os.kill(child.pid, signal.SIGKILL)

            assert await child.stream.receive_some() == b""
            assert await child.wait_exited() == -signal.SIGKILL
            error = child.exit_error()

    assert isinstance(error, ServerExited)
    assert error.status == -signal.SIGKILL


async def test_the_exit_error_at_the_end_of_the_stream_has_the_status_and_the_last_lines() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell("echo one >&2; printf 'two' >&2; exit 3")) as child:
            assert await child.stream.receive_some() == b""
            assert await child.stream.receive_some() == b""
            error = child.exit_error()

    assert isinstance(error, ServerExited)
    assert (error.status, error.stderr_tail) == (3, ("one", "two"))


async def test_sending_to_a_dead_child_is_a_broken_resource() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["true"]) as child:
            await child.wait_exited()
            assert await read_all(child) == b""

            with pytest.raises(trio.BrokenResourceError):
                await child.stream.send_all(b"anyone?")
            with pytest.raises(trio.BrokenResourceError):
                await child.stream.wait_send_all_might_not_block()


async def test_a_blocked_sender_fails_when_the_child_exits() -> None:
    # The orphan keeps the other end of the pipe open, so the system would never report an error.
    script = "sleep 1000 <&0 & read line; exit 1"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script), drain_seconds=0.05) as child:
            with pytest.raises(trio.BrokenResourceError):
                await child.stream.send_all(b"go\n" + bytes(10_000_000))
            assert await child.wait_exited() == 1


@pytest.mark.complaint(13)
async def test_descendants_that_outlive_a_child_are_killed() -> None:
    script = "sleep 1000 & echo $!; cat >/dev/null; exit 0"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script)) as child:
            grandchild = int(await read_line(child))
            assert is_running(grandchild)

        assert child.returncode == 0
        await wait_until_dead(grandchild)


async def test_the_exit_of_the_child_ends_the_stream_although_a_grandchild_keeps_the_pipe_open() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(ORPHAN), drain_seconds=0.05) as child:
            output = await read_all(child)

            assert child.returncode == 0
            await wait_until_dead(int(output))


async def test_a_blocked_receiver_ends_with_the_child_although_a_grandchild_keeps_the_pipe_open() -> None:
    script = "sleep 1000 & echo $!; read line"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script), drain_seconds=0.05) as child, trio.open_nursery() as nursery:
            grandchild = int(await read_line(child))
            output = b"unset"

            @nursery.start_soon
            async def receive() -> None:
                nonlocal output
                output = bytes(await child.stream.receive_some())

            await trio.testing.wait_all_tasks_blocked()
            await child.stream.send_all(b"\n")

        assert output == b""
        await wait_until_dead(grandchild)


async def test_a_grandchild_has_some_seconds_to_complete_its_output() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell("(sleep 0.1; echo late) & exit 0"), drain_seconds=10) as child:
            assert await read_all(child) == b"late\n"


LIVE_ON = "print(os.getpid(), flush=True); time.sleep(1000)"
ESCAPE = f"import os, time; os.setsid(); {LIVE_ON}"
DAEMON = f"import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); {LIVE_ON}"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other processes' environments are read in /proc")


def starting(program: str, prefix: str = "") -> str:
    """Return a shell command that starts a Python program in the background."""
    return f"{prefix} '{sys.executable}' -I -S -c '{program}' &"


@linux_only
@pytest.mark.parametrize("program", [ESCAPE, DAEMON], ids=["a session of its own", "a daemon"])
async def test_a_grandchild_that_left_the_process_group_ends_with_the_child_and_does_not_block_closing(
    program: str,
) -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(f"{starting(program)} read line; exit 0"), drain_seconds=0.05) as child:
            escaped = int(await read_line(child))
            assert os.getpgid(escaped) != child.pid
            await child.stream.send_all(b"\n")
            assert await read_all(child) == b""
            assert not is_running(escaped)


@linux_only
async def test_a_grandchild_that_left_the_process_group_ends_with_a_child_that_is_killed() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(f"{starting(ESCAPE)} cat"), drain_seconds=0.05) as child:
            escaped = int(await read_line(child))
            os.kill(child.pid, signal.SIGKILL)
            assert await read_all(child) == b""
            assert not is_running(escaped)


@linux_only
async def test_a_grandchild_that_left_the_process_group_is_killed_if_the_supervising_task_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: object, text: str) -> None:
        raise KeyboardInterrupt(text)

    monkeypatch.setattr(_child_stderr, "_write", interrupt)
    escaped = 0
    with trio.fail_after(TIMEOUT_SECONDS):
        with pytest.raises(BaseExceptionGroup):
            async with open_child_process(shell(f"{starting(ESCAPE)} read line; echo words >&2; cat")) as child:
                escaped = int(await read_line(child))
                await child.stream.send_all(b"\n")
                await trio.sleep_forever()

        assert not is_running(escaped)


@linux_only
async def test_a_process_that_a_nested_client_has_started_ends_with_the_outer_server() -> None:
    """A server that is itself a client starts its servers in sessions of their own."""
    nested = """
import sys, trio
from trio_mcp.transports.stdio._client import open_child_process
async def main():
    async with open_child_process(["sleep", "1000"], leave_seconds=1000) as child:
        print(child.pid, flush=True)
        await trio.sleep_forever()
trio.run(main)
"""
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process([sys.executable, "-c", nested], drain_seconds=0.05) as child:
            inner = int(await read_line(child))
            os.kill(child.pid, signal.SIGKILL)
            await child.stream.receive_some()
            assert not is_running(inner)


async def test_a_grandchild_that_is_started_without_the_mark_outlives_the_child() -> None:
    script = f"{starting(ESCAPE, 'env -u TRIO_MCP_STARTED_BY')} read line; exit 0"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script), drain_seconds=0.05) as child:
            daemon = int(await read_line(child))
            await child.stream.send_all(b"\n")
            assert await read_all(child) == b""

        assert is_running(daemon)
        os.kill(daemon, signal.SIGKILL)


@linux_only
def test_killed_descendants_are_awaited_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_descendants, "_MOST_SECONDS", -1)
    mark = DescendantMark()
    with subprocess.Popen(["sleep", "1000"], env=mark.added_to(os.environ)) as sleeper:
        while mark._text not in Path(f"/proc/{sleeper.pid}/environ").read_text():
            pass  # it is still a copy of this process
        mark.kill_all()

    assert sleeper.returncode == -signal.SIGKILL


def test_a_process_has_the_marks_of_all_its_ancestors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIO_MCP_STARTED_BY", raising=False)
    outer, inner = DescendantMark(), DescendantMark()

    assert DescendantMark.of_this_process() is None
    monkeypatch.setenv("TRIO_MCP_STARTED_BY", outer.added_to({})["TRIO_MCP_STARTED_BY"])
    assert DescendantMark.of_this_process() == outer
    assert inner.added_to({"A": "b"}) == {"A": "b", "TRIO_MCP_STARTED_BY": f"{outer._text}:{inner._text}"}


async def test_everything_a_child_wrote_before_its_exit_arrives() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell("head -c 10000000 /dev/zero"), drain_seconds=0.01) as child:
            assert len(await read_all(child)) == 10_000_000


async def test_data_in_the_pipe_at_the_exit_is_kept_for_a_late_reader() -> None:
    script = "head -c 60000 /dev/zero; sleep 1000 & exit 0"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script), drain_seconds=0.01) as child:
            await child.wait_exited()
            await trio.sleep(0.05)

            assert len(await read_all(child)) == 60_000


async def test_a_child_that_closes_its_output_and_lives_ends_the_stream() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        script = f"exec >&-; {NEVER_EXITS}"
        async with open_child_process(shell(script), leave_seconds=0.05, drain_seconds=0.05) as child:
            assert await child.stream.receive_some() == b""
            error = child.exit_error()

    assert type(error) is ConnectionBroken
    assert str(error) == f"the server (process {child.pid}) closed its standard output but still runs"


async def test_a_child_may_write_during_its_shutdown() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(
            [sys.executable, PROGRAMS / "late_output.py"], leave_seconds=TIMEOUT_SECONDS
        ) as child:
            await trio.aclose_forcefully(child.stream)

    assert child.returncode == 0
    assert child.stderr_tail == ()


async def test_a_stream_that_was_closed_neither_sends_nor_receives() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"]) as child:
            await child.stream.aclose()

            with pytest.raises(trio.ClosedResourceError):
                await child.stream.send_all(b"x")
            with pytest.raises(trio.ClosedResourceError):
                await child.stream.receive_some()

    with pytest.raises(trio.ClosedResourceError):
        await child.stream.receive_some()


async def test_closing_the_stream_wakes_its_receiver() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"]) as child, trio.open_nursery() as nursery:

            @nursery.start_soon
            async def receive() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await child.stream.receive_some()

            await trio.testing.wait_all_tasks_blocked()
            await child.stream.aclose()


async def test_only_one_task_at_a_time_may_receive() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"]) as child, trio.open_nursery() as nursery:
            nursery.start_soon(child.stream.receive_some)
            await trio.testing.wait_all_tasks_blocked()

            with pytest.raises(trio.BusyResourceError):
                await child.stream.receive_some()
            nursery.cancel_scope.cancel()


async def test_a_cancelled_receive_loses_nothing() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["cat"]) as child:
            with trio.move_on_after(0.01):
                await child.stream.receive_some()
            await child.stream.send_all(b"x")

            assert await child.stream.receive_some() == b"x"


async def test_a_program_that_does_not_exist_is_an_oserror_with_its_name() -> None:
    with (
        trio.fail_after(TIMEOUT_SECONDS),
        pytest.raises(FileNotFoundError, match="cannot start 'no-such-program'") as caught,
    ):
        async with open_child_process(["no-such-program"]):
            pytest.fail("nothing was started")

    assert caught.value.errno == errno.ENOENT


async def test_a_file_that_is_not_executable_is_an_oserror_with_its_name(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with trio.fail_after(TIMEOUT_SECONDS), pytest.raises(PermissionError, match=r"cannot start '.*plain'"):
        async with open_child_process([plain]):
            pytest.fail("nothing was started")


async def test_the_child_gets_the_inherited_and_added_variables_and_the_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("A_SECRET", "secret")
    with trio.fail_after(TIMEOUT_SECONDS):
        script = 'echo "$A_SECRET $ADDED $PATH"; pwd'
        async with open_child_process(shell(script), env={"ADDED": "added"}, cwd=tmp_path) as child:
            output = await read_all(child)

    assert output.decode() == f" added {os.environ['PATH']}\n{tmp_path}\n"


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_an_exception_in_the_block_is_raised_unchanged(kind: type[BaseException]) -> None:
    error = kind("mine")
    with trio.fail_after(TIMEOUT_SECONDS):
        opened: list[ChildProcess] = []
        with pytest.raises(kind) as caught:
            async with open_child_process(["cat"]) as child:
                opened.append(child)
                raise error

        assert caught.value is error
        assert [child.returncode for child in opened] == [0]


async def test_cancellation_before_the_start_starts_nothing() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_child_process(["cat"]):
            pytest.fail("nothing was started")

    assert scope.cancelled_caught


async def test_cancellation_during_the_start_shuts_the_child_down() -> None:
    started: ChildProcess | None = None
    with trio.fail_after(TIMEOUT_SECONDS):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def start() -> None:
                nonlocal started
                async with open_child_process(["cat"]) as started:
                    await trio.sleep_forever()

            await trio.testing.wait_all_tasks_blocked(0)  # the task waits for the thread that starts the process
            nursery.cancel_scope.cancel()

    assert started is not None
    assert started.returncode == 0


async def test_cancellation_in_the_block_shuts_the_child_down_before_it_is_raised() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        opened: list[ChildProcess] = []
        with trio.move_on_after(0.05) as scope:
            async with open_child_process(["cat"]) as child:
                opened.append(child)
                await child.stream.receive_some()

        assert scope.cancelled_caught
        assert [child.returncode for child in opened] == [0]


async def test_cancellation_during_the_shutdown_does_not_shorten_it() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        opened: list[ChildProcess] = []
        with trio.CancelScope() as scope:
            async with open_child_process(shell(NEVER_EXITS), leave_seconds=0.1) as child:
                opened.append(child)
                scope.deadline = trio.current_time() + 0.02

        assert [child.returncode for child in opened] == [-signal.SIGTERM]


async def test_the_shutdown_of_an_unresponsive_child_takes_no_longer_than_its_timeouts() -> None:
    script = f"trap '' TERM; echo ready; {NEVER_EXITS}"
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script), leave_seconds=0.1, terminate_seconds=0.2) as child:
            await read_line(child)
            began = trio.current_time()

        assert trio.current_time() - began >= 0.3


async def test_a_large_message_fits_into_the_pipe_at_once() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(NEVER_EXITS), leave_seconds=0) as child:
            stdin = child._process.stdin
            assert isinstance(stdin, trio.lowlevel.FdStream)
            if fcntl.fcntl(stdin.fileno(), fcntl.F_GETPIPE_SZ) < 1 << 20:
                pytest.skip("this user's share of pipe memory is used up")
            await child.stream.send_all(bytes(1 << 20))


async def test_a_failure_of_the_supervising_task_leaves_no_child_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object, text: str) -> None:
        raise KeyboardInterrupt(text)  # a real interrupt is raised in any task

    monkeypatch.setattr(_child_stderr, "_write", interrupt)
    opened: list[ChildProcess] = []
    with trio.fail_after(TIMEOUT_SECONDS):
        with pytest.raises(BaseExceptionGroup):
            async with open_child_process(shell(f"echo words >&2; {NEVER_EXITS}"), leave_seconds=1000) as child:
                opened.append(child)
                await trio.sleep_forever()

        assert [child.returncode for child in opened] == [-signal.SIGKILL]


async def test_the_last_twenty_lines_of_standard_error_are_kept_and_cut() -> None:
    script = (
        "i=0; while [ $i -lt 30 ]; do echo \"line $i\" >&2; echo >&2; i=$((i+1)); done; printf 'x%.0s' $(seq 3000) >&2"
    )
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell(script)) as child:
            await read_all(child)

    assert child.stderr_tail == (*(f"line {number}" for number in range(11, 30)), "x" * 1000)


async def test_standard_error_of_the_child_is_forwarded_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell("printf 'caf\\303\\251 \\377' >&2; exec cat")) as child:
            await wait_until(lambda: child.stderr_tail)

            assert capsys.readouterr().err == "café \N{REPLACEMENT CHARACTER}"


@pytest.mark.requirement("B.5-C2")
async def test_a_flood_on_standard_error_blocks_neither_process(capfd: pytest.CaptureFixture[str]) -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell("yes | head -c 10000000 >&2; echo done")) as child:
            assert await read_all(child) == b"done\n"

    assert len(capfd.readouterr().err) == 10_000_000


def closed_file() -> io.StringIO:
    file = io.StringIO()
    file.close()
    return file


@pytest.mark.parametrize("stderr", [None, closed_file(), object()], ids=["missing", "closed", "not a file"])
async def test_an_unusable_standard_error_loses_only_the_displayed_output(
    monkeypatch: pytest.MonkeyPatch, stderr: object
) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(shell("echo words >&2; exit 1")) as child:
            await read_all(child)

    assert child.stderr_tail == ("words",)


async def test_a_standard_error_without_a_reader_blocks_neither_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child_stderr, "_STALL_SECONDS", 0.05)
    reader, writer = os.pipe()
    with trio.fail_after(TIMEOUT_SECONDS), os.fdopen(reader, "rb"), os.fdopen(writer, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        script = "yes | head -c 1000000 >&2; echo last >&2; echo done; read line; echo afterwards >&2; exec cat"
        async with open_child_process(shell(script)) as child:
            assert await read_line(child) == b"done\n"
            await wait_until(lambda: child.stderr_tail[-1] == "last")
            displayed = read_available(reader)
            await child.stream.send_all(b"\n")
            await wait_until(lambda: child.stderr_tail[-1] == "afterwards")
        displayed_later = read_available(reader)

    assert 0 < len(displayed) < 1_000_000
    assert displayed_later == _child_stderr._GAP.encode() + b"afterwards\n"


async def test_a_standard_error_that_is_read_slowly_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with trio.fail_after(TIMEOUT_SECONDS), os.fdopen(reader, "rb"), os.fdopen(writer, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        displayed = b""
        async with open_child_process(shell("yes | head -c 200000 >&2; exec cat")):
            while len(displayed) < 200_000:
                await trio.sleep(0.005)
                displayed += read_available(reader)

    assert displayed == b"y\n" * 100_000
