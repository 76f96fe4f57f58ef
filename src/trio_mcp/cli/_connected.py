"""Runs a command that needs a server: connects, watches for signals, lets the command work, and closes."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import trio

from .. import types
from .._errors import MissingCapability
from .._util import owned_nursery
from ..abc import ClientAuth
from ..client import Client, ClientOptions, OnLog, TimeLimits
from ._call import call, prepare_call
from ._failures import UsageError
from ._interrupts import Interrupts
from ._job import Job
from ._lists import info, prompts, resources, tools
from ._log_lines import log_lines
from ._notes import Notes
from ._output import Output
from ._questions import can_ask, questions
from ._target import open_target
from ._texts import complete, prompt, read
from ._trace import Trace, open_trace
from ._watch import Watching

__all__ = ["run_connected"]

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
