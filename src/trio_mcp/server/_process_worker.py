"""Runs in the worker process of an isolated tool: it receives jobs from the server, one at a time, and answers them.

Rules of this file:

1. The pipes to and from the server arrive as descriptors 0 and 1, and are moved at once: then 0 is the null device and
   1 is standard error, so that output of Python or C code gets neither into an answer nor onto the wire of the server.
2. The process ends with the server, for any cause: a thread notices the end of the pipe. If a job is running, the
   thread kills the whole process group, and on Linux what has left it. Otherwise the interpreter exits normally, runs
   its `atexit` functions, and kills what it has started.
3. Every job gets an answer, also if it raises or returns an object that cannot be pickled. Only the end of the process
   leaves a job without an answer.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO

from attrs import define, field, frozen

from ..transports import DescendantMark

__all__ = ["HEAD", "READY", "JobResult", "is_starting", "main"]

READY = b"\0a worker of trio-mcp is ready\0"
"""The first message of the worker. Bytes in front of it were printed by a start-up file."""
HEAD = struct.Struct(">Q")
"""The header of each job and each answer: its length in bytes."""

_EXIT_SECONDS = 2.0
"""The time an idle worker gets to exit after the server has ended."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2

_starting = threading.Event()


def is_starting() -> bool:
    """Return True if this is a worker process that is importing the main module of its server."""
    return _starting.is_set()


@frozen
class JobResult:
    """The outcome of a job. User objects in it are pickled separately, so both sides can always unpickle it."""

    pickled: bytes | None
    """The result or the exception of the function; None for an exception that cannot be pickled."""
    failed: bool = False
    text: str = ""
    """The message of the exception."""
    trace: str = ""
    """Its traceback, for the log."""


@define(eq=False)
class _Server:
    """The connection to the server process, which started this one."""

    _receiving: BinaryIO
    _sending: BinaryIO
    jobs: SimpleQueue[bytes | None] = field(factory=SimpleQueue["bytes | None"], init=False)
    """The received jobs, in order; None at the end."""
    _asked: int = field(default=0, init=False)
    """The number of received jobs; only the listening thread writes it, and only the main thread writes the other."""
    _answered: int = field(default=0, init=False)

    def listen(self) -> None:
        """Receive jobs until the server ends, then end this process (rule 2)."""
        while (job := self._receive()) is not None:
            self._asked += 1
            self.jobs.put(job)
        if self._asked == self._answered:
            self.jobs.put(None)
            time.sleep(_EXIT_SECONDS)
        _kill_group()  # pragma: no cover # nothing is measured in a process that is killed

    def _receive(self) -> bytes | None:
        head = self._receiving.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        (size,) = HEAD.unpack(head)
        job = self._receiving.read(size)
        return job if len(job) == size else None

    def send(self, data: bytes) -> None:
        """Answer the oldest job."""
        self._answered += 1
        with suppress(BrokenPipeError):  # the listening thread notices it, too
            self._sending.write(data)
            self._sending.flush()


def main() -> None:
    """Run jobs until the server closes its end of the pipe."""
    server = _Server(*_take_pipes())
    atexit.register(_kill_others)  # runs after the functions that the program registers
    threading.Thread(target=server.listen, name="the server's end", daemon=True).start()
    start = server.jobs.get()
    if start is None:
        return
    _prepare(pickle.loads(start))  # noqa: S301 # from the process that has started this one
    server.send(READY)
    while (job := server.jobs.get()) is not None:
        answer = pickle.dumps(_work(job), pickle.HIGHEST_PROTOCOL)
        with suppress(Exception):  # the program may have replaced it by any object
            sys.stdout.flush()
        server.send(HEAD.pack(len(answer)) + answer)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes to descriptors that no child process inherits (rule 1)."""
    receiving, sending = os.dup(_STDIN), os.dup(_STDOUT)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _STDIN)
    os.close(null)
    os.dup2(_STDERR, _STDOUT)
    return os.fdopen(receiving, "rb"), os.fdopen(sending, "wb")


def _prepare(program: dict[str, Any]) -> None:
    """Import the main module of the server, and set the command line arguments of the server."""
    from multiprocessing import spawn  # noqa: PLC0415 # of no use to the server, which imports this file as well

    _starting.set()
    spawn.prepare(program)
    _starting.clear()


def _work(job: bytes) -> JobResult:
    try:
        function, given, keywords = pickle.loads(job)  # noqa: S301 # from the process that has started this one
    except BaseException as exc:  # noqa: BLE001 # rule 3: an import may raise any exception
        return _failure(RuntimeError(f"its worker process cannot load the call: {_message_of(exc)}"), exc)
    try:
        value = function(*given, **keywords)
    except Exception as exc:  # noqa: BLE001 # rule 3
        return _failure(exc, exc)
    except SystemExit as exc:
        return _failure(RuntimeError(f"the handler tried to exit the process: sys.exit({exc.code!r})"), exc)
    except BaseException as exc:  # noqa: BLE001 # rule 3: a KeyboardInterrupt of the worker must not reach the server
        return _failure(RuntimeError(f"the handler raised {type(exc).__name__}"), exc)
    try:
        return JobResult(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except BaseException as exc:  # noqa: BLE001 # rule 3
        return _failure(TypeError(f"its result cannot be pickled in its worker process: {_message_of(exc)}"), exc)


def _failure(reported: Exception, cause: BaseException) -> JobResult:
    try:
        pickled = pickle.dumps(reported, pickle.HIGHEST_PROTOCOL)
    except BaseException:  # noqa: BLE001 # its message is enough
        pickled = None
    return JobResult(pickled, failed=True, text=_message_of(reported), trace="".join(traceback.format_exception(cause)))


def _message_of(exc: BaseException) -> str:
    try:
        return str(exc) or type(exc).__name__
    except BaseException:  # noqa: BLE001 # an exception whose message cannot be read
        return type(exc).__name__


def _kill_others() -> None:
    """Kill what this process has started, on Linux also what has left its process group."""
    mark = DescendantMark.of_this_process()
    if mark is not None:  # pragma: no branch # only a test starts a worker by hand
        mark.kill_all()


def _kill_group() -> None:  # pragma: no cover # nothing is measured in a process that is killed
    """Kill this process and all that it has started."""
    _kill_others()
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
