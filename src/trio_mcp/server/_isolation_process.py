"""One worker process, as the server sees it: its start, its jobs, and an end that is certain.

Rules of this file:

1. Each process leads a session of its own: the Ctrl+C of a terminal does not reach it, and whatever it has started is
   killed with it.
2. It gets pipes and standard error, and no other descriptor of the server: no socket, no protocol.
3. One task per process watches over it, reaps it, and buries it when the serving ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from ._isolation_worker import HEAD, READY
from ._threads import clock_stands_still

__all__ = ["WorkerProcess", "program_of_main", "start_worker"]

_LEAVE_SECONDS = 2.0
"""How long an idle worker may take to leave when the serving ends."""
_KILL_SECONDS = 2.0
"""How long a killed worker is waited for: only one stuck in the kernel outlasts it."""
_DRAIN_SECONDS = 1.0
"""How long, after its end, an answer is awaited on a pipe that something it has started still holds."""

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    _GROUP: dict[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def _kill(process: trio.Process) -> None:
        with suppress(OSError):
            process.kill()

else:
    _GROUP: dict[str, Any] = {"start_new_session": True}

    def _kill(process: trio.Process) -> None:
        with suppress(OSError):  # nobody is left of the group
            os.killpg(process.pid, signal.SIGKILL)


def program_of_main() -> dict[str, Any] | None:
    """Return how a worker imports the main module of this program; None where it cannot."""
    module: Any = sys.modules["__main__"]
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        importable = spec.name.rpartition(".")[2] != "__main__"  # that of `python -m package` just runs
        return {"init_main_from_name": spec.name} if importable else None
    path = Path(getattr(module, "__file__", None) or "").absolute()
    return {"init_main_from_path": str(path)} if path.is_file() else None


async def start_worker() -> WorkerProcess:
    """Start a process; `watch` must run from then on.

    Raises:
        OSError: the system starts no more processes.
    """
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # what `multiprocessing` in a worker calls it
    # The worker finds what this program finds, and nothing in a folder that happens to be the current one.
    code = f"import sys; sys.path[:] = {sys.path!r}; from trio_mcp.server._isolation_worker import main; main()"
    private: Any = subprocess
    flags: list[str] = private._args_from_interpreter_flags()  # noqa: SLF001 # it has no public name
    process = await trio.lowlevel.open_process(
        [sys.executable, *flags, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if sys.__stderr__ is not None else subprocess.DEVNULL,
        **_GROUP,
    )
    return WorkerProcess(process)


@define(eq=False)
class WorkerProcess:
    """A process that does one job at a time."""

    _process: trio.Process
    gone: trio.Event = field(factory=trio.Event, init=False)
    """Set when it is dead and reaped."""
    _received: bytearray = field(factory=bytearray, init=False)
    _at_work: trio.Event | None = field(default=None, init=False)
    """Set when the job is over; None between jobs."""

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as can be told."""
        return self._process.poll() is None

    @property
    def end(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        if status is None:
            return "cannot be reached any more"
        return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"

    async def watch(self) -> None:
        """Wait for its end; cancelled, bring it about, politely if it has nothing to do."""
        try:
            await self._process.wait()
        finally:
            with trio.CancelScope(shield=True), clock_stands_still():
                await self._bury()

    async def _bury(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.aclose()  # it leaves
        with trio.move_on_after(_LEAVE_SECONDS):
            await self._process.wait()
        _kill(self._process)
        with trio.move_on_after(_KILL_SECONDS):
            await self._process.wait()
        if self._at_work is not None:  # its last words lie in the pipe, which ends behind them
            with trio.move_on_after(_DRAIN_SECONDS):
                await self._at_work.wait()
        await self._process.stdout.aclose()
        self.gone.set()

    async def kill(self) -> None:
        """Kill it, whatever it does, and all it has started; wait until it is gone, which cannot be cancelled."""
        _kill(self._process)
        with trio.move_on_after(_LEAVE_SECONDS + _KILL_SECONDS, shield=True):
            await self.gone.wait()

    async def prepare(self) -> bool:
        """Wait until it can work; False if it ended instead."""
        program = {"name": "trio-mcp worker", "sys_argv": sys.argv, **(program_of_main() or {})}
        return await self._answered(pickle.dumps(program), self._until_ready) is not None

    async def ask(self, job: bytes) -> bytes | None:
        """Have it do a job, and return the answer; None if it ended instead. Cancelled, it must be killed."""
        return await self._answered(job, self._frame)

    async def _answered(self, job: bytes, read: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
        assert self._process.stdin is not None
        self._at_work = trio.Event()
        try:
            await self._process.stdin.send_all(HEAD.pack(len(job)) + job)
            return await read()
        except (trio.BrokenResourceError, trio.ClosedResourceError):  # dead, or dead and buried
            return None
        finally:
            self._at_work.set()
            self._at_work = None

    async def _until_ready(self) -> bytes | None:
        while (at := self._received.find(READY)) < 0:
            if not await self._receive():
                return None
        del self._received[: at + len(READY)]
        return READY

    async def _frame(self) -> bytes | None:
        size = HEAD.size
        while len(self._received) < size:
            if not await self._receive():
                return None
            if size == HEAD.size <= len(self._received):
                size += HEAD.unpack_from(self._received)[0]
        answer = bytes(self._received[HEAD.size : size])
        del self._received[:size]
        return answer

    async def _receive(self) -> bool:
        assert self._process.stdout is not None
        data = await self._process.stdout.receive_some()
        self._received += data
        return bool(data)
