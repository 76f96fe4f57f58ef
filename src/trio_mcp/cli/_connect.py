"""Runs a command that needs a server: connects, watches for signals, lets the command work, and closes."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TextIO, TypeAlias

import trio
from attrs import define, field

from .. import types
from .._errors import MissingCapability
from .._util import owned_nursery
from ..abc import ClientAuth, Direction
from ..client import Client, ClientOptions, OnLog, TimeLimits
from ._commands import Job, Watching, call, complete, info, prepare_call, prompt, prompts, read, resources, tools
from ._errors import Interrupted, UsageError, visible_json
from ._output import Notes, Output, log_lines
from ._questions import can_ask, questions
from ._target import open_target

__all__ = ["Interrupts", "Trace", "open_trace", "run_connected"]


# Signals while a command runs: the first ends what it does and lets it close, the second ends the closing too.
#
# Trio's own way with Ctrl+C is to raise KeyboardInterrupt in whichever task runs, which may be one that closes the
# connection. Here a call is cancelled like by any other cause: its server is told, and its handler stops.

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@define(eq=False)
class Interrupts:
    """What signals end, innermost last."""

    _scopes: list[trio.CancelScope] = field(factory=list[trio.CancelScope], init=False)
    _caught: int | None = field(default=None, init=False)

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Take signals for ever, in a task of its own."""
        with trio.open_signal_receiver(*_SIGNALS) as received:
            task_status.started()
            async for number in received:
                self._caught = number
                if self._scopes:
                    self._scopes.pop().cancel(reason="a signal")

    @contextmanager
    def ending(self) -> Generator[None]:
        """Cancel what is in the block when a signal comes; blocks inside it go first."""
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                yield
            finally:
                if scope in self._scopes:
                    self._scopes.remove(scope)

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self._caught is not None:
            raise Interrupted(self._caught)


# The wire as lines to read: when, in which direction, and the message.

_ARROWS = {"sent": "-->", "received": "<--"}


@define(eq=False)
class Trace:
    """Takes messages as they pass, and writes a line for each at once, until it cannot."""

    _file: TextIO
    failure: OSError | None = field(default=None, init=False)
    _began: float = field(factory=time.perf_counter, init=False)

    def __call__(self, direction: Direction, message: bytes) -> None:
        if self.failure is not None:
            return
        seconds = time.perf_counter() - self._began
        text = visible_json(message.decode("utf-8", "backslashreplace"))
        try:
            self._file.write(f"{seconds:10.4f} {_ARROWS[direction]} {text}\n")
            self._file.flush()
        except OSError as error:
            self.failure = error


@contextmanager
def open_trace(path: str | None) -> Generator[Trace | None]:
    """Open a trace for as long as the block lasts; None where there is no path, standard error where it is ``-``.

    Raises:
        UsageError: the file cannot be written, from the start or to the end. What the block raises goes first.
    """
    if path is None:
        yield None
    elif path == "-":
        yield Trace(sys.stderr)
    else:
        try:
            file = open(path, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # closed below
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        trace = Trace(file)
        try:
            yield trace
        finally:
            with suppress(OSError):  # the failure, once more
                file.close()
        if trace.failure is not None:
            raise UsageError(f"the trace is not complete: cannot write {path}: {trace.failure.strerror}")


Command: TypeAlias = Callable[[Job], Awaitable[None]]

_COMMANDS: Mapping[str, Command] = {
    "call": call,
    "complete": complete,
    "info": info,
    "prompt": prompt,
    "prompts": prompts,
    "read": read,
    "resources": resources,
    "tools": tools,
}


def run_connected(options: argparse.Namespace) -> None:
    """Run one of the commands that connect to a server.

    Raises:
        UsageError: the command line makes no sense, seen in the light of the server.
        Interrupted: a signal has come; what was under way has been cancelled.
        ToolFailed: the tool says that it failed.
        TrioMcpError: the server refuses, breaks the protocol or is gone, or the person has not signed in.
        OSError: the server's command cannot be started, or the output cannot be written.
    """
    if options.command == "call":
        prepare_call(options)
    with open_trace(options.trace) as trace:
        trio.run(_run, options, trace)


async def _run(options: argparse.Namespace, trace: Trace | None) -> None:
    interrupts, notes, output = Interrupts(), Notes(), Output()
    run, on_log = _command(options, notes, output)
    with notes.logged():
        async with owned_nursery() as nursery:
            await nursery.start(interrupts.listen)
            with interrupts.ending():
                async with _connected(options, notes, on_log, trace) as client:
                    with interrupts.ending():  # inside: what it was doing is cancelled while there is a connection
                        job = Job(client, options, output, notes)
                        if on_log is not None:
                            await _ask_for_logs(job)
                        await run(job)
    interrupts.check()


def _command(options: argparse.Namespace, notes: Notes, output: Output) -> tuple[Command, OnLog | None]:
    """Return the command, and what takes log messages, None where nobody has asked for any."""
    if options.command == "watch":
        watching = Watching(options.json, output)
        return watching.run, watching.log
    return _COMMANDS[options.command], None if options.log_level is None else log_lines(notes)


@asynccontextmanager
async def _connected(
    options: argparse.Namespace, notes: Notes, on_log: OnLog | None, trace: Trace | None
) -> AsyncGenerator[Client]:
    given: ClientOptions = {
        "revision": options.revision,
        "time_limits": _limits(options.timeout),
        "on_elicit": questions(notes) if can_ask() else None,
        "elicit_modes": ("form", "url"),
        "on_log": on_log,
        "roots": [_root(path) for path in options.root] or None,
        "tap": trace,
    }
    async with AsyncExitStack() as stack:
        try:
            auth = _sign_in(notes) if options.login else None
            client = await stack.enter_async_context(await open_target(options, given, auth))
        except ValueError as error:
            raise UsageError(str(error)) from None
        yield client


def _sign_in(notes: Notes) -> ClientAuth:
    from ._login import sign_in  # noqa: PLC0415  # others do without all of that

    return sign_in(notes)


def _limits(seconds: float | None) -> TimeLimits:
    if seconds is None:
        return TimeLimits()
    limits = TimeLimits()
    return TimeLimits(idle=seconds, total=seconds, connect=seconds, probe=min(limits.probe, seconds / 2))


def _root(path: str) -> types.Root:
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise UsageError(f"--root {path}: no such folder")
    return types.Root(uri=folder.as_uri(), name=folder.name)


async def _ask_for_logs(job: Job) -> None:
    try:
        await job.client.set_log_level(job.options.log_level or "info")
    except MissingCapability as error:
        job.notes.say(f"no log messages will come: {error}")
