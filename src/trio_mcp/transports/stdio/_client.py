"""A server as a child process, spoken to over its standard input and output.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import field, frozen

from ..._errors import ConnectionBroken, ServerExited
from ..._util import owned_nursery
from ...abc import Transport, TransportClient, TransportOpener
from .._stream import connect_link
from ._pipes import ImmediateStream, read_pipe, wake_reader, write_now

__all__ = [
    "NARROW_PIPE",
    "WIDE_PIPE",
    "ChildProcess",
    "StderrPump",
    "StdioServer",
    "bytes_waiting",
    "child_environment",
    "group_is_alive",
    "has_room",
    "kill_group",
    "open_child_process",
    "resize_pipe",
    "start",
    "stdio_transport",
    "terminate_group",
]


# What POSIX and Windows do differently about a child process, behind functions of the same names.
#
# `start` uses `trio.lowlevel.open_process`, because what `trio.run_process` adds (a nursery of its own, a kill that
# waits
# for nothing but the child) is what `_child_process` has to do otherwise.

NARROW_PIPE, WIDE_PIPE = 64 * 1024, 1024 * 1024
"""Capacities of a pipe, in bytes: for floods of small messages, and one that a large message passes in one piece."""

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    import shutil

    async def start(command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> trio.Process:
        """Start *command*, found as the shell would find it (`npx` is a file named `npx.cmd`)."""
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
        """End the child; Windows knows no polite way that reaches every program."""
        with suppress(OSError):
            process.terminate()

    def kill_group(process: trio.Process) -> None:
        """End the child. What it has started ends when its pipes do."""
        with suppress(OSError):
            process.kill()

    def group_is_alive(process: trio.Process) -> bool:  # noqa: ARG001 # the signature is POSIX's
        """Nothing can be asked about what an ended child has started."""
        return False

    def resize_pipe(stream: object, capacity: int) -> bool:  # noqa: ARG001 # the signature is POSIX's
        """Leave these pipes as they are."""
        return False

    def bytes_waiting(stream: trio.abc.ReceiveStream) -> int:  # noqa: ARG001 # the signature is POSIX's
        """Unknown for these pipes, hence none."""
        return 0

    def has_room(file: Any) -> bool:  # noqa: ARG001 # the signature is POSIX's
        """Unknown for these files, hence yes."""
        return True

else:
    import fcntl
    import select
    import signal
    import termios

    async def start(command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> trio.Process:
        """Start *command* as the leader of a session, so of a process group, of its own."""
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
        """Give one of the child's pipes that capacity, in bytes; say whether it was done."""
        if sys.platform == "linux":  # pragma: no branch # no other system can be asked
            assert isinstance(stream, trio.lowlevel.FdStream)
            with suppress(OSError):  # the user's share of pipe memory is used up, or more than that lies in it
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, capacity)
                return True
        return False

    def _signal_group(process: trio.Process, number: int) -> bool:
        try:
            os.killpg(process.pid, number)
        except OSError:  # nobody is left, or nobody whom this user may signal
            return False
        return True

    def terminate_group(process: trio.Process) -> None:
        """Ask the child and what it has started to end."""
        _signal_group(process, signal.SIGTERM)

    def kill_group(process: trio.Process) -> None:
        """End the child and what it has started, unless that left for a session of its own."""
        _signal_group(process, signal.SIGKILL)

    def group_is_alive(process: trio.Process) -> bool:
        """Say whether anything of the child's process group is left."""
        return _signal_group(process, 0)

    def bytes_waiting(stream: trio.abc.ReceiveStream) -> int:
        """Return how many bytes lie in the pipe, unread."""
        assert isinstance(stream, trio.lowlevel.FdStream)
        answer = fcntl.ioctl(stream.fileno(), termios.FIONREAD, bytes(4))
        return int.from_bytes(answer, sys.byteorder)

    def has_room(file: Any) -> bool:
        """Say whether *file* takes 4096 bytes at once; True where it is no open file of the system's."""
        poll = select.poll()
        try:
            poll.register(file, select.POLLOUT)
        except (AttributeError, OSError, TypeError, ValueError):
            return True
        return bool(poll.poll(0))


# What a child says on standard error: shown on this process's own as it comes, and its last lines kept for the end.
#
# The one rule: nothing here may hold anybody up. Not the child, which would stop in the middle of its work if nobody
# read its words; not this process, whose own standard error may be a pipe nobody reads or a paused terminal.

_KEPT_LINES = 20
_KEPT_LINE_BYTES = 1000
"""The rest of a longer line is shown, but not kept."""
_PIECE_CHARACTERS = 1000
"""Written at once: in UTF-8 never more than the 4096 bytes that a pipe with room takes without waiting."""
_STALL_SECONDS = 1.0
"""How long our standard error may take nothing before text for it is left out."""
_RETRY_SECONDS = 0.02
_GAP = "\n[trio-mcp: output of a server is missing here, because standard error took nothing for a while]\n"


class StderrPump:
    """Reads *stream* to its end. `done` is set when it has, or when it was cancelled."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self.done = trio.Event()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._open_line = b""
        self._has_gap = False

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that are not empty, oldest first, one still unfinished included."""
        lines = [*self._lines, self._open_line] if self._open_line else [*self._lines]
        return tuple(line.decode("utf-8", "replace") for line in lines[-_KEPT_LINES:])

    async def run(self) -> None:
        """Read, keep and show."""
        try:
            async for chunk in self._stream:
                self._keep(bytes(chunk))
                await self._show(self._decoder.decode(bytes(chunk)))
        finally:
            self.done.set()

    def _keep(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = (self._open_line + end)[:_KEPT_LINE_BYTES].rstrip(b"\r")
            if line:
                self._lines.append(line)
            self._open_line = b""
        self._open_line = (self._open_line + rest)[:_KEPT_LINE_BYTES]

    async def _show(self, text: str) -> None:
        for start in range(0, len(text), _PIECE_CHARACTERS):
            if not await self._room():
                self._has_gap = True
                return
            if self._has_gap:
                self._has_gap = False
                _write(_GAP)
            _write(text[start : start + _PIECE_CHARACTERS])

    async def _room(self) -> bool:
        """Wait a little until our standard error takes text; where that was in vain already, only look."""
        if has_room(sys.stderr):
            return True
        if self._has_gap:
            return False
        with trio.move_on_after(_STALL_SECONDS):
            while not has_room(sys.stderr):  # noqa: ASYNC110 # a file Trio does not own raises no event
                await trio.sleep(_RETRY_SECONDS)
            return True
        return False


def _write(text: str) -> None:
    # None, closed, without a reader, or an object of the program's own that fails: there is nobody to show it to.
    with suppress(Exception):
        sys.stderr.write(text)
        sys.stderr.flush()


# Which environment variables a child server gets: few of ours, because the rest may hold secrets it has no use for.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio

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

_HANDED_ON = _WINDOWS_NAMES if sys.platform == "win32" else _POSIX_NAMES


def child_environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child server.

    It holds what a program needs to find its files, its user and its language (`PATH`, `HOME`, `LANG`, `LC_*`, ...)
    as far as this process has it, and nothing else of this process.

    Args:
        added: variables of the caller's choice; they win.
    """
    handed_on = {name: value for name, value in os.environ.items() if _is_handed_on(name, value)}
    return handed_on | dict(added or {})


def _is_handed_on(name: str, value: str) -> bool:
    # An exported shell function begins with "()": it is code, which the child's shell would define. Windows gives
    # every name in upper case.
    return (name in _HANDED_ON or name.startswith("LC_")) and not value.startswith("()")


# A child process as a byte stream, with an end that is certain: the child, and whatever it has started, is gone.
#
# The rules of this file:
#
# - One shielded task per child watches it, and closes it when the block is left, however it is left.
# - The child's exit ends the stream, not end-of-file on a pipe that a grandchild may hold. What the child itself wrote
#   is always delivered; what others write afterwards is waited for until `drain_seconds` have passed.
# - The process group is killed once the child has ended and its output is drained. A process group's number is given
#   to nobody else while one of its processes is there: whether one is left is asked the moment the child is reaped,
#   and an empty group is never signalled.
# - Standard output is read to its end, closed stream or not: a child that still writes while it leaves is not
# punished.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio

_STDERR_DRAIN_SECONDS = 0.5
"""How long the last words on standard error are waited for when something still holds that pipe."""
_MANY_LINES = 64
"""So many in one read that fills a narrow pipe are a flood of small messages."""
_KILL_SECONDS = 2.0
"""How long a killed child is waited for: only one stuck in the kernel outlasts it."""


@asynccontextmanager
async def open_child_process(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    leave_seconds: float = 2.0,
    terminate_seconds: float = 2.0,
    drain_seconds: float = 1.0,
) -> AsyncGenerator[ChildProcess]:
    """Run *command* for as long as the block lasts.

    When the block is left, the child's standard input is closed; a child that stays is asked to end (SIGTERM), then
    made to (SIGKILL). That is shielded from cancellation, bounded, and over the moment the child exits. Everything
    else in its process group is killed as well.

    Args:
        command: the program and its arguments; no shell is involved.
        env: variables to add to the few that every child gets (see `child_environment`).
        leave_seconds: how long the child may take to leave after its standard input was closed.
        terminate_seconds: how long it may take after SIGTERM.
        drain_seconds: how long, after the child's exit, output is awaited on a pipe that something else still holds.

    Raises:
        OSError: the program could not be started; the text names it.

    Cancellation: a child that was started is wound down before the cancellation leaves the block.
    """
    arguments = [os.fspath(part) for part in command]
    try:
        process = await start(arguments, child_environment(env), cwd)
    except OSError as exc:
        raise OSError(exc.errno, f"cannot start {arguments[0]!r}: {exc.strerror}", exc.filename) from None
    child = ChildProcess(process, leave_seconds, terminate_seconds, drain_seconds)
    async with owned_nursery() as nursery:
        nursery.start_soon(child.supervise, name=f"child process {process.pid}")
        try:
            yield child
        finally:
            child.left.set()


class ChildProcess:
    """A running child.

    `stream` sends to its standard input and receives from its standard output. `returncode` is its exit status,
    negative for the number of a signal, and None while it runs.
    """

    def __init__(
        self, process: trio.Process, leave_seconds: float, terminate_seconds: float, drain_seconds: float
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self.returncode: int | None = None
        self.left = trio.Event()
        self._process = process
        self._leave_seconds = leave_seconds
        self._terminate_seconds = terminate_seconds
        self._drain_seconds = drain_seconds
        self._exited = trio.Event()
        self._stderr = process.stderr
        self._pump = StderrPump(process.stderr)
        self._stream = _ChildStream(process.stdin, process.stdout, drain_seconds)

    @property
    def stream(self) -> ImmediateStream:
        """The child's standard input and output. Closing it early closes the child's standard input."""
        return self._stream

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines on standard error so far, oldest first; complete once `stream` has ended."""
        return self._pump.tail

    async def wait_exited(self) -> int:
        """Wait for the child's own exit and return its status; any number of tasks may."""
        await self._exited.wait()
        assert self.returncode is not None
        return self.returncode

    def exit_error(self) -> ConnectionBroken:
        """Return why the stream has ended: `ServerExited`, unless the child lives on without standard output."""
        if self.returncode is None:
            return ConnectionBroken(f"the server (process {self.pid}) closed its standard output and runs on")
        return ServerExited(self.returncode, self.stderr_tail)

    async def supervise(self) -> None:
        """Own the process from start to end: the one task of `open_child_process`."""
        with trio.CancelScope(shield=True):  # bounded by the ladder once the block is left
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump.run)
                    nursery.start_soon(self._watch)
                    await self.left.wait()
                    await self._stream.aclose()
                    nursery.start_soon(self._stream.discard)
                    await self._climb_down()
                    nursery.cancel_scope.cancel()
            finally:
                await self._end_by_force()
                await self._stream.release()
                await self._stderr.aclose()

    async def _climb_down(self) -> None:
        """Wait for the child's end, with more pressure at each step; its standard input is closed already."""
        for seconds, pressure in ((self._leave_seconds, terminate_group), (self._terminate_seconds, kill_group)):
            with trio.move_on_after(seconds):
                await self._stream.ended.wait()
            if self.returncode is not None:
                break
            pressure(self._process)
        with trio.move_on_after(_KILL_SECONDS):
            await self._stream.ended.wait()

    async def _end_by_force(self) -> None:
        """Leave no child behind, even if one of our own tasks has failed (an interrupt strikes whichever runs)."""
        if self.returncode is None:
            kill_group(self._process)
            with trio.move_on_after(_KILL_SECONDS):
                self.returncode = await self._process.wait()

    async def _watch(self) -> None:
        """Reap the child when it exits, then see to its output and to what it has left behind."""
        self.returncode = await self._process.wait()
        orphans = group_is_alive(self._process)  # asked before anything else can run, see the rules above
        self._exited.set()
        await self._stream.exited()
        with trio.move_on_after(self._drain_seconds):
            await self._stream.drained.wait()
        self._stream.give_up()
        if orphans:
            kill_group(self._process)
        with trio.move_on_after(_STDERR_DRAIN_SECONDS):
            await self._pump.done.wait()
        self._stream.ended.set()


class _ChildStream(ImmediateStream):
    """The child's standard input and output.

    `drained` is set when nobody waits for output any more: it has ended, or the stream is closed. `ended` is set by
    the watcher when all is over, standard error included.
    """

    def __init__(self, stdin: trio.abc.SendStream, stdout: trio.abc.ReceiveStream, drain_seconds: float) -> None:
        self.drained = trio.Event()
        self.ended = trio.Event()
        self._stdin = stdin
        self._stdout = stdout
        self._drain_seconds = drain_seconds
        self._owed = 0  # bytes that lay in the pipe when the child exited
        self._given_up = False  # output that others write is not waited for any more
        self._closed = False
        self._is_wide = True  # the pipe of the output
        self._reading = trio.Lock()

    def send_now(self, data: bytes | memoryview) -> int:
        return write_now(self._stdin, data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stdin.send_all(data)
        except trio.ClosedResourceError:
            raise self._not_writable() from None

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
        try:
            self._reading.acquire_nowait()
        except trio.WouldBlock:
            raise trio.BusyResourceError("another task is receiving from the child process") from None
        try:
            return await self._receive(max_bytes)
        finally:
            self._reading.release()

    async def _receive(self, max_bytes: int | None) -> bytes:
        while not self._closed and (self._owed or not self._given_up):
            try:
                data = await read_pipe(self._stdout, max_bytes)
            except trio.ClosedResourceError:
                continue  # somebody has closed the stream, or given up, and woken us
            self._owed = max(0, self._owed - len(data))
            self._fit_pipe(data)
            if data:
                return data
            break
        if self._closed:
            raise trio.ClosedResourceError("the stream to the child process was closed")
        self.drained.set()
        with trio.move_on_after(self._drain_seconds):  # so that the exit status and the last words are known
            await self.ended.wait()
        return b""

    def _fit_pipe(self, data: bytes) -> None:
        """Make the pipe narrow in a flood of small messages, and wide again for large ones, which pass in one piece.

        A wide one holds thousands of updates, and what the child says after them waits until all of them are read.
        """
        if len(data) >= NARROW_PIPE:
            is_wide = data.count(b"\n", 0, NARROW_PIPE) < _MANY_LINES
            if is_wide is not self._is_wide and resize_pipe(self._stdout, WIDE_PIPE if is_wide else NARROW_PIPE):
                self._is_wide = is_wide

    async def exited(self) -> None:
        """The child has exited: nothing can be sent any more."""
        self._owed = bytes_waiting(self._stdout)
        await self._stdin.aclose()

    def give_up(self) -> None:
        """Wait no longer for output that the child itself has not written."""
        self._given_up = True
        if not self._owed:
            wake_reader(self._stdout)

    async def aclose(self) -> None:
        """Close the child's standard input, and take nothing more from its output."""
        self._closed = True
        wake_reader(self._stdout)
        self.drained.set()
        await self._stdin.aclose()

    async def discard(self) -> None:
        """Read the output to its end for nobody, so that a child that still writes can leave."""
        async with self._reading:
            with suppress(trio.ClosedResourceError):  # given up
                while await read_pipe(self._stdout):
                    pass

    async def release(self) -> None:
        """Give the descriptors back."""
        self._closed = True
        await self._stdin.aclose()
        await self._stdout.aclose()


def _as_command(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(command, str) or not command:
        raise ValueError(f"command {command!r}: expected a list of the program and its arguments")
    return tuple(os.fspath(part) for part in command)


@frozen
class StdioServer:
    """How a server is started."""

    command: tuple[str, ...] = field(converter=_as_command)
    """The program and its arguments; no shell is involved."""
    env: Mapping[str, str] | None = None
    """Environment variables to add to the few that are handed on."""
    cwd: str | os.PathLike[str] | None = None
    """The child's working directory; this process's by default."""


def stdio_transport(server: StdioServer) -> TransportOpener:
    """Return an opener that starts *server* anew each time, and winds it down with everything it has started."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        async with (
            open_child_process(server.command, env=server.env, cwd=server.cwd) as child,
            connect_link(child.stream, client, disconnect_reason=child.exit_error) as link,
        ):
            yield link

    return connect
