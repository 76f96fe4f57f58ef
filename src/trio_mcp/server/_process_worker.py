"""What runs in the worker process of an isolated tool: takes jobs from the server, one after the other, and answers.

Rules of this file:

1. The pipes to and from the server come in as descriptors 0 and 1, and move away first of all: then 0 is the null
   device and 1 is standard error, so that nothing that is printed here, by Python or by C, gets into an answer, or
   onto the wire of the server.
2. The process ends with the server, however that ended: a thread sees the end of the pipe. If there is work, everything
   in the process group is killed; if there is none, the interpreter is left politely, for its `atexit` functions.
3. Whatever a job raises, and whatever cannot be pickled, is an answer. Only the death of the process is none.
"""

from __future__ import annotations

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

__all__ = ["HEAD", "READY", "JobResult", "is_starting", "main"]

READY = b"\0a worker of trio-mcp is ready\0"
"""What the worker sends first. What came before it, a start-up file has printed."""
HEAD = struct.Struct(">Q")
"""Stands before each job and each answer: its length in bytes."""

_LEAVE_SECONDS = 2.0
"""How long an idle worker without a server may take to leave."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2

_starting = threading.Event()


def is_starting() -> bool:
    """Whether this is a worker process that imports the main module of its server."""
    return _starting.is_set()


@frozen
class JobResult:
    """What became of a job. Both sides can read it whatever the job dealt with: user objects are in it as bytes."""

    pickled: bytes | None
    """What the function returned or raised; None for an exception that cannot be pickled."""
    failed: bool = False
    text: str = ""
    """What the exception says."""
    trace: str = ""
    """Its traceback, for the log."""


@define(eq=False)
class _Server:
    """The process that started this one, as seen from here."""

    _receiving: BinaryIO
    _sending: BinaryIO
    jobs: SimpleQueue[bytes | None] = field(factory=SimpleQueue["bytes | None"], init=False)
    """What it asks for, in order; None at the end."""
    _asked: int = field(default=0, init=False)
    """Counted by the listening thread alone, as the other is by the main thread."""
    _answered: int = field(default=0, init=False)

    def listen(self) -> None:
        """Take jobs until the server ends, then see to it that this process does (rule 2)."""
        while (job := self._receive()) is not None:
            self._asked += 1
            self.jobs.put(job)
        if self._asked == self._answered:
            self.jobs.put(None)
            time.sleep(_LEAVE_SECONDS)
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
        with suppress(BrokenPipeError):  # the listening thread sees it, too
            self._sending.write(data)
            self._sending.flush()


def main() -> None:
    """Work until the server closes its end of the pipe."""
    server = _Server(*_take_pipes())
    threading.Thread(target=server.listen, name="the server's end", daemon=True).start()
    start = server.jobs.get()
    if start is None:
        return
    _prepare(pickle.loads(start))  # noqa: S301 # from the process that has started this one
    server.send(READY)
    while (job := server.jobs.get()) is not None:
        answer = pickle.dumps(_work(job), pickle.HIGHEST_PROTOCOL)
        with suppress(Exception):  # the program may have put anything there
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
    """Make the server's main module, and its arguments, what they are there."""
    from multiprocessing import spawn  # noqa: PLC0415 # of no use to the server, which imports this file as well

    _starting.set()
    spawn.prepare(program)
    _starting.clear()


def _work(job: bytes) -> JobResult:
    try:
        function, given, keywords = pickle.loads(job)  # noqa: S301 # from the process that has started this one
    except BaseException as exc:  # noqa: BLE001 # rule 3: what is imported for it may raise anything
        return _failure(RuntimeError(f"its worker process cannot load it: {_words(exc)}"), exc)
    try:
        value = function(*given, **keywords)
    except Exception as exc:  # noqa: BLE001 # rule 3
        return _failure(exc, exc)
    except SystemExit as exc:
        return _failure(RuntimeError(f"the handler tried to exit the process: sys.exit({exc.code!r})"), exc)
    except BaseException as exc:  # noqa: BLE001 # likewise: a KeyboardInterrupt from here is none of the server's
        return _failure(RuntimeError(f"the handler raised {type(exc).__name__}"), exc)
    try:
        return JobResult(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception as exc:  # noqa: BLE001 # rule 3
        text = f"what it returned cannot be pickled, and so cannot leave its worker process: {_words(exc)}"
        return _failure(TypeError(text), exc)


def _failure(told: Exception, cause: BaseException) -> JobResult:
    try:
        pickled = pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 # its text is enough
        pickled = None
    return JobResult(pickled, failed=True, text=_words(told), trace="".join(traceback.format_exception(cause)))


def _words(exc: BaseException) -> str:
    try:
        return str(exc) or type(exc).__name__
    except Exception:  # noqa: BLE001 # an exception that cannot say what it is
        return type(exc).__name__


def _kill_group() -> None:  # pragma: no cover # nothing is measured in a process that is killed
    """End this process, and what it has started."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
