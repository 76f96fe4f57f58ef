"""Finds and kills what a child process has started, also what has left its process group and its session.

`setsid` leaves the process group, and the exit of the parent process hides the origin: a browser that a server has
started so would run on. Processes with the mark of the child in their environment are found nevertheless.

Rules of this file:

1. Each child process is started with a mark of its own in its environment. What it starts inherits the mark, and may
   have several: those of all its ancestors that were started so.
2. On Linux, processes with the mark are killed once the child has ended. Elsewhere the environment of other processes
   cannot be read, and only the process group is killed.
3. A process without the mark is left alone. It was started with another environment, on purpose or by a program that
   hands on few variables; or it belongs to another user. So a daemon that shall outlive the child is started without
   the variable.
4. A process is signalled by a descriptor that was opened before its environment was read, so never another process with
   the same number.
5. The search is repeated until it finds nothing, because a process may start another one meanwhile.

This program does not become the subreaper of its descendants. That would be a property of the whole program: the
orphans of all its child processes, also of those that other code has detached on purpose, would become its children,
and remain as zombies, because nobody waits for them. A death signal of the parent process reaches only direct children,
and control groups need privileges.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import field, frozen

__all__ = ["DescendantMark"]

VARIABLE = "TRIO_MCP_STARTED_BY"
"""The environment variable with the marks of a process, oldest first."""
_MOST_SECONDS = 2.0
"""How long killed processes are awaited. Only one that hangs in the kernel takes longer."""
_PAUSE_SECONDS = 0.002

if sys.platform == "linux":
    import signal

    def _kill_if_marked(pid: int, mark: bytes) -> bool:
        """Kill a process if it has the mark; return True if it had."""
        with suppress(OSError):  # it has ended, or belongs to another user
            handle = os.pidfd_open(pid)
            try:
                if mark in Path(f"/proc/{pid}/environ").read_bytes():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return True
            finally:
                os.close(handle)
        return False

else:  # pragma: no cover # the tests run on Linux

    def _kill_if_marked(pid: int, mark: bytes) -> bool:  # noqa: ARG001 # the signature of Linux
        """Return False: no mark can be read."""
        return False


def _process_numbers() -> list[int]:
    return [int(each.name) for each in Path("/proc").glob("[0-9]*")]  # none on other systems


@frozen
class DescendantMark:
    """A mark in the environment of a child process, which everything that it starts inherits."""

    _text: str = field(factory=lambda: secrets.token_hex(16))

    @classmethod
    def of_this_process(cls) -> DescendantMark | None:
        """Return the mark with which this process was started; None if it was started without."""
        marks = os.environ.get(VARIABLE)
        return cls(marks.rpartition(":")[2]) if marks else None

    def added_to(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return an environment with this mark and those of this process."""
        inherited = os.environ.get(VARIABLE)
        return {**env, VARIABLE: f"{inherited}:{self._text}" if inherited else self._text}

    def kill_all(self) -> None:
        """Kill every process with the mark except this one, and wait until they are gone. Blocks for milliseconds."""
        own, mark, deadline = os.getpid(), self._text.encode(), time.monotonic() + _MOST_SECONDS
        while [pid for pid in _process_numbers() if pid != own and _kill_if_marked(pid, mark)]:
            if time.monotonic() > deadline:
                return
            time.sleep(_PAUSE_SECONDS)
