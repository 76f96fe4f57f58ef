"""A server as a child process: its process group, its standard input and output as a stream, its standard error.

What POSIX and Windows do differently is behind functions of the same names. `start` uses `trio.lowlevel.open_process`,
because `trio.run_process` adds a nursery and a kill that waits for the child alone, and this module needs others.

Rules of the child process:

1. One shielded task for each child watches it, and ends it when the block is left in any way.
2. The exit of the child ends the stream, not end-of-file on a pipe that a grandchild may hold. Output of the child
   itself is always delivered. Output of other processes is awaited until `drain_seconds` have passed.
3. The process group is killed after the child has ended and its output is drained. The number of a process group is not
   reused while one of its processes exists. Whether one exists is checked the moment the child is reaped, and an empty
   group is never signalled.
4. Then the processes that have left the group are killed too, as far as they are found: see `_descendants.py`.
5. Standard output is read to its end, even after the stream was closed, so that a child that still writes can leave.
6. Standard error is passed on as it arrives, and its last lines are kept: see `_stderr.py`.
7. A child inherits few environment variables, because the others may hold secrets that it does not need.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio
from attrs import field, frozen

from ..._errors import ConnectionBroken, RequestTimedOut, ServerExited
from ..._util import owned_nursery
from ...abc import KnownOpener, Transport, TransportClient
from .._stream import connect_link
from ._descendants import DescendantMark
from ._pipes import ImmediateStream, read_pipe, wake_reader, write_now
from ._stderr import StderrPump, StderrSink, StderrTarget, open_sink

__all__ = [
    "NARROW_PIPE",
    "WIDE_PIPE",
    "ChildProcess",
    "StdioServer",
    "bytes_waiting",
    "child_environment",
    "group_is_alive",
    "kill_group",
    "open_child_process",
    "resize_pipe",
    "start",
    "stdio_transport",
    "terminate_group",
]


NARROW_PIPE, WIDE_PIPE = 64 * 1024, 1024 * 1024
"""Capacities of a pipe, in bytes: one for many small messages, and one that passes a large message in one piece."""

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    import shutil

    async def start(command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> trio.Process:
        """Start *command*, found as the shell finds it (`npx` is a file named `npx.cmd`)."""
        program = shutil.which(command[0], path=env.get("PATH")) or command[0]
        return await trio.lowlevel.open_process(
            [program, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
        )

    def terminate_group(process: trio.Process) -> None:
        """End the child; Windows has no polite way that reaches every program."""
        with suppress(OSError):
            process.terminate()

    def kill_group(process: trio.Process) -> None:
        """End the child. Its own children end when their pipes do."""
        with suppress(OSError):
            process.kill()

    def group_is_alive(process: trio.Process) -> bool:  # noqa: ARG001 # the signature of POSIX
        """Return False: Windows does not tell what an ended child has started."""
        return False

    def resize_pipe(stream: object, capacity: int) -> bool:  # noqa: ARG001 # the signature of POSIX
        """Return False: these pipes cannot be resized."""
        return False

    def bytes_waiting(stream: object) -> int:  # noqa: ARG001 # the signature of POSIX
        """Return 0: the number is unknown for these pipes."""
        return 0

else:
    import fcntl
    import signal
    import termios

    async def start(command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> trio.Process:
        """Start *command* as the leader of a new session, and thus of a new process group."""
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        resize_pipe(process.stdin, WIDE_PIPE)
        resize_pipe(process.stdout, WIDE_PIPE)
        return process

    def resize_pipe(stream: object, capacity: int) -> bool:
        """Set the capacity of a pipe of the child, in bytes; return True on success."""
        if sys.platform == "linux":  # pragma: no branch # no other system can be asked
            assert isinstance(stream, trio.lowlevel.FdStream)
            with suppress(OSError):  # the user's share of pipe memory is used up, or the pipe holds more
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, capacity)
                return True
        return False

    def _signal_group(process: trio.Process, number: int) -> bool:
        try:
            os.killpg(process.pid, number)
        except OSError:  # no process is left, or none that this user may signal
            return False
        return True

    def terminate_group(process: trio.Process) -> None:
        """Ask the process group of the child to end."""
        _signal_group(process, signal.SIGTERM)

    def kill_group(process: trio.Process) -> None:
        """Kill the process group of the child; processes in a session of their own are not in it."""
        _signal_group(process, signal.SIGKILL)

    def group_is_alive(process: trio.Process) -> bool:
        """Return True if a process of the child's process group is left."""
        return _signal_group(process, 0)

    def bytes_waiting(stream: object) -> int:
        """Return the number of unread bytes in the pipe of which this is one end; on Linux it may be either."""
        assert isinstance(stream, trio.lowlevel.FdStream)
        answer = fcntl.ioctl(stream.fileno(), termios.FIONREAD, bytes(4))
        return int.from_bytes(answer, sys.byteorder)


_POSIX_NAMES = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})

_WINDOWS_NAMES = frozenset(
    {
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PROGRAMFILES(X86)",
        "SYSTEMDRIVE",
        "SYSTEMROOT",  # Python and sockets do not start without it
        "TEMP",
        "TMP",
        "TZ",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    }
)

_INHERITED = _WINDOWS_NAMES if sys.platform == "win32" else _POSIX_NAMES


def child_environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child server.

    It has the variables for the files, the user and the language (`PATH`, `HOME`, `LANG`, `LC_*`, ...) that this
    process has, and no others of this process.

    Args:
        added: more variables, which replace those of this process.
    """
    inherited = {name: value for name, value in os.environ.items() if _is_inherited(name, value)}
    return inherited | dict(added or {})


def _is_inherited(name: str, value: str) -> bool:
    # An exported shell function starts with "()": it is code for the shell of the child. Windows gives every name in
    # upper case.
    return (name in _INHERITED or name.startswith("LC_")) and not value.startswith("()")


_STDERR_DRAIN_SECONDS = 0.5
"""How long the end of standard error is awaited if another process still holds the pipe."""
_MANY_LINES = 64
"""This many lines in one read that fills a narrow pipe are a flood of small messages."""
_KILL_SECONDS = 2.0
"""How long a killed child is awaited. Only a child that hangs in the kernel takes longer."""


@asynccontextmanager
async def open_child_process(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: StderrTarget = None,
    leave_seconds: float = 2.0,
    terminate_seconds: float = 2.0,
    drain_seconds: float = 1.0,
) -> AsyncGenerator[ChildProcess]:
    """Run *command* for the duration of the block.

    When the block is left, the standard input of the child is closed. A child that does not exit gets SIGTERM, then
    SIGKILL. This is shielded from cancellation, bounded, and ends when the child exits. All other processes of its
    process group are killed too. On Linux, so are processes that it has started outside of its group, directly or not;
    see `DescendantMark`.

    Args:
        command: the program and its arguments; no shell is involved.
        env: variables to add to the few that every child inherits (see `child_environment`).
        stderr: where its standard error goes; see `StderrTarget`.
        leave_seconds: how long the child may take to exit after its standard input was closed.
        terminate_seconds: how long it may take after SIGTERM.
        drain_seconds: how long output is awaited after the exit of the child if another process still holds the pipe.

    Raises:
        OSError: the program could not be started, or the file of *stderr* not be opened; the message names it.

    Cancellation: a started child is ended before the cancellation leaves the block.
    """
    arguments = [os.fspath(part) for part in command]
    mark = DescendantMark()
    with open_sink(stderr) as sink:
        try:
            process = await start(arguments, mark.added_to(child_environment(env)), cwd)
        except OSError as exc:
            why = f"{exc.strerror}{_cure(arguments[0], cwd)}"
            raise OSError(exc.errno, f"cannot start {arguments[0]!r}: {why}", exc.filename) from None
        child = ChildProcess(process, mark, sink, leave_seconds, terminate_seconds, drain_seconds)
        async with owned_nursery() as nursery:
            nursery.start_soon(child.supervise, name=f"child process {process.pid}")
            try:
                yield child
            finally:
                child.left.set()


_INTERPRETERS = {".cjs": "node", ".js": "node", ".mjs": "node", ".py": "python"}


def _cure(program: str, cwd: str | os.PathLike[str] | None) -> str:
    """Return what the user may do about a program that cannot be started; empty if that is unknown."""
    interpreter = _INTERPRETERS.get(Path(program).suffix)
    if interpreter is not None and os.path.isfile(Path(cwd or ".") / program):  # noqa: PTH113 # it raises nothing
        return f"; it is a file for {interpreter}, so put that first, as in: {interpreter} {program}"
    if len(program.split()) > 1:
        return "; the program and each of its arguments are given separately"
    return ""


class ChildProcess:
    """A running child process.

    `stream` sends to its standard input and receives from its standard output. `returncode` is its exit status,
    negative for the number of a signal, and None while it runs.
    """

    def __init__(
        self,
        process: trio.Process,
        mark: DescendantMark,
        sink: StderrSink | None,
        leave_seconds: float,
        terminate_seconds: float,
        drain_seconds: float,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self.returncode: int | None = None
        self.left = trio.Event()
        self._process = process
        self._mark = mark
        self._leave_seconds = leave_seconds
        self._terminate_seconds = terminate_seconds
        self._drain_seconds = drain_seconds
        self._exited = trio.Event()
        self._stderr = process.stderr
        self._pump = StderrPump(process.stderr, sink)
        self._stream = _ChildStream(process.stdin, process.stdout, drain_seconds)

    @property
    def stream(self) -> ImmediateStream:
        """The standard input and output of the child. Closing it early closes the standard input of the child."""
        return self._stream

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines on standard error so far, oldest first; complete once `stream` has ended."""
        return self._pump.tail

    async def wait_exited(self) -> int:
        """Wait until the child exits, and return its status. Any number of tasks may wait."""
        await self._exited.wait()
        assert self.returncode is not None
        return self.returncode

    def exit_error(self) -> ConnectionBroken:
        """Return the reason for the end of the stream: `ServerExited`, unless the child still runs."""
        if self.returncode is None:
            return ConnectionBroken(f"the server (process {self.pid}) closed its standard output but still runs")
        return ServerExited(self.returncode, self.stderr_tail, has_read=self._stream.has_been_read)

    async def supervise(self) -> None:
        """Own the process from start to end. This is the only task of `open_child_process`."""
        with trio.CancelScope(shield=True):  # bounded by `_stop` after the block is left
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump.run)
                    nursery.start_soon(self._watch)
                    await self.left.wait()
                    await self._stream.aclose()
                    nursery.start_soon(self._stream.discard)
                    await self._stop()
                    nursery.cancel_scope.cancel()
            finally:
                await self._end_by_force()
                await self._stream.release()
                await self._stderr.aclose()

    async def _stop(self) -> None:
        """Wait for the exit of the child, then send SIGTERM, then SIGKILL. Its standard input is closed already."""
        for seconds, signal_child in ((self._leave_seconds, terminate_group), (self._terminate_seconds, kill_group)):
            with trio.move_on_after(seconds):
                await self._stream.ended.wait()
            if self.returncode is not None:
                break
            signal_child(self._process)
        with trio.move_on_after(_KILL_SECONDS):
            await self._stream.ended.wait()

    async def _end_by_force(self) -> None:
        """Kill the child even if a task of this module has failed: an interrupt may strike any of them."""
        if self.returncode is None:
            kill_group(self._process)
            with trio.move_on_after(_KILL_SECONDS):
                self.returncode = await self._process.wait()
            await self._kill_descendants()

    async def _kill_descendants(self) -> None:
        """Kill what the child has started and its process group does not contain."""
        await trio.to_thread.run_sync(self._mark.kill_all, limiter=trio.CapacityLimiter(1))

    async def _watch(self) -> None:
        """Reap the child when it exits, then drain its output and kill the processes that it left."""
        self.returncode = await self._process.wait()
        orphans = group_is_alive(self._process)  # checked before any other task can run, see rule 3
        self._exited.set()
        await self._stream.exited()
        with trio.move_on_after(self._drain_seconds):
            await self._stream.drained.wait()
        self._stream.give_up()
        if orphans:
            kill_group(self._process)
        await self._kill_descendants()
        with trio.move_on_after(_STDERR_DRAIN_SECONDS):
            await self._pump.done.wait()
        self._stream.ended.set()


class _ChildStream(ImmediateStream):
    """The standard input and output of the child.

    `drained` is set when no task waits for output any more: it has ended, or the stream is closed. `ended` is set by
    the watcher at the end of everything, including standard error.
    """

    def __init__(self, stdin: trio.abc.SendStream, stdout: trio.abc.ReceiveStream, drain_seconds: float) -> None:
        self.drained = trio.Event()
        self.ended = trio.Event()
        self._stdin = stdin
        self._stdout = stdout
        self._drain_seconds = drain_seconds
        self._owed = 0  # unread bytes in the pipe when the child exited
        self._sent = 0  # bytes that the pipe of standard input has taken
        self.has_been_read = False  # True if the child, when it exited, had read any of them
        self._given_up = False  # output of other processes is not awaited any more
        self._closed = False
        self._is_wide = True  # the capacity of the pipe of standard output
        self._is_being_read = False

    def send_now(self, data: bytes | memoryview) -> int:
        taken = write_now(self._stdin, data)
        self._sent += taken
        return taken

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stdin.send_all(data)
        except trio.ClosedResourceError:
            raise self._not_writable() from None
        self._sent += len(data)

    async def wait_send_all_might_not_block(self) -> None:
        try:
            await self._stdin.wait_send_all_might_not_block()
        except trio.ClosedResourceError:
            raise self._not_writable() from None

    def _not_writable(self) -> Exception:
        if self._closed:
            return trio.ClosedResourceError("the stream to the child process was closed")
        return trio.BrokenResourceError("the child process has ended")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._is_being_read:
            raise trio.BusyResourceError("another task already receives from the child process")
        self._is_being_read = True  # a lock would take a twentieth of a small call
        try:
            while not self._closed and (self._owed or not self._given_up):
                try:
                    data = await read_pipe(self._stdout, max_bytes)
                except trio.ClosedResourceError:
                    continue  # `aclose` or `give_up` has woken this task
                if self._owed:
                    self._owed = max(0, self._owed - len(data))
                if len(data) >= NARROW_PIPE:
                    self._fit_pipe(data)
                if data:
                    return data
                break
            return await self._end_of_output()
        finally:
            self._is_being_read = False

    async def _end_of_output(self) -> bytes:
        """Wait until the exit status and the end of standard error are known, and return nothing."""
        if self._closed:
            raise trio.ClosedResourceError("the stream to the child process was closed")
        self.drained.set()
        with trio.move_on_after(self._drain_seconds):
            await self.ended.wait()
        return b""

    def _fit_pipe(self, data: bytes) -> None:
        """Make the pipe narrow in a flood of small messages, and wide again for large ones, which pass in one piece.

        A wide pipe holds thousands of updates, and later messages wait until all of them are read.
        """
        # To search for one line end, which a large message has not, takes a thirtieth of the time of counting them.
        is_wide = data.find(b"\n", 0, NARROW_PIPE) < 0 or data.count(b"\n", 0, NARROW_PIPE) < _MANY_LINES
        if is_wide is not self._is_wide and resize_pipe(self._stdout, WIDE_PIPE if is_wide else NARROW_PIPE):
            self._is_wide = is_wide

    async def exited(self) -> None:
        """Close standard input, because the child has exited."""
        self._owed = bytes_waiting(self._stdout)
        self.has_been_read = self._closed or self._sent > bytes_waiting(self._stdin)
        await self._stdin.aclose()

    def give_up(self) -> None:
        """Stop waiting for output of other processes than the child."""
        self._given_up = True
        if not self._owed:
            wake_reader(self._stdout)

    async def aclose(self) -> None:
        """Close the standard input of the child, and receive nothing more from its output."""
        self._closed = True
        wake_reader(self._stdout)
        self.drained.set()
        await self._stdin.aclose()

    async def discard(self) -> None:
        """Read and drop the output to its end, so that a child that still writes can exit.

        `aclose` has been called, so no other task waits for the output any more.
        """
        with suppress(trio.ClosedResourceError):  # given up
            while await read_pipe(self._stdout):
                pass

    async def release(self) -> None:
        """Close the descriptors."""
        self._closed = True
        await self._stdin.aclose()
        await self._stdout.aclose()


def _as_command(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(command, str) or not command:
        raise ValueError(f"command {command!r}: expected a list of the program and its arguments")
    words: Any = command
    for number, word in enumerate(words):
        if not isinstance(word, str | os.PathLike):
            raise TypeError(f"command: word {number} must be a string or a path, and is {word!r:.50}")
    return tuple(os.fspath(part) for part in command)


@frozen
class StdioServer:
    """The command, environment and directory with which a server is started."""

    command: tuple[str, ...] = field(converter=_as_command)
    """The program and its arguments; no shell is involved."""
    env: Mapping[str, str] | None = None
    """Environment variables to add to the few that are handed on."""
    cwd: str | os.PathLike[str] | None = None
    """The working directory of the child; by default that of this process."""


def stdio_transport(server: StdioServer, stderr: StderrTarget = None) -> KnownOpener:
    """Return an opener that starts a new process of *server* each time, and ends it with its process group.

    Args:
        stderr: where the standard error of the process goes.
    """

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        async with (
            open_child_process(server.command, env=server.env, cwd=server.cwd, stderr=stderr) as child,
            connect_link(child.stream, client, disconnect_reason=child.exit_error) as link,
        ):
            try:
                yield link
            except ServerExited as exited:  # while connecting: later, it is raised in the tasks of the callers
                if exited.status == 0:
                    exited.hint = "it ended by itself before it answered: does the program serve, as with serve_stdio?"
                raise
            except RequestTimedOut as timeout:  # likewise
                raise RequestTimedOut(f"{timeout}; {_running(server.command, child.stderr_tail)}") from None

    return KnownOpener(connect, ("command", _folder(server.cwd), *server.command), starts_process=True)


def _folder(cwd: str | os.PathLike[str] | None) -> str:
    """Return the absolute path of the folder of a child; empty if this process has lost its own."""
    with suppress(OSError):
        return str(Path(cwd or os.curdir).absolute())
    return ""


_SHOWN_CHARACTERS = 300


def _running(command: Sequence[str], stderr_tail: Sequence[str]) -> str:
    """Describe a server that runs, and does not answer."""
    shown = shlex.join(command)[:_SHOWN_CHARACTERS]
    tail = "".join(f"\n    {line}" for line in stderr_tail)
    return f"its process runs: {shown}" + (f"; the last lines of its standard error:{tail}" if tail else "")
