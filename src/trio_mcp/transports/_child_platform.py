"""What POSIX and Windows do differently about a child process, behind functions of the same names.

`start` uses `trio.lowlevel.open_process`, because what `trio.run_process` adds (a nursery of its own, a kill that waits
for nothing but the child) is what `_child_process` has to do otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

__all__ = [
    "NARROW_PIPE",
    "WIDE_PIPE",
    "bytes_waiting",
    "group_is_alive",
    "has_room",
    "kill_group",
    "resize_pipe",
    "start",
    "terminate_group",
]

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
