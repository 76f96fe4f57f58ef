"""The runner of the commands that need a server: it connects, handles signals, runs the command, and closes.

The first signal cancels the command and lets the connection close; the second cancels the closing too. Trio's own
handling of Ctrl+C raises KeyboardInterrupt in any task, perhaps in one that closes the connection. Here a call is
cancelled as for any other reason: the server is notified, and its handler stops.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

import trio
from attrs import define, field

from .. import auth, types
from .._errors import MissingCapability
from .._util import owned_nursery
from ..abc import ClientAuth, Direction
from ..client import (
    Client,
    ClientOptions,
    OnElicit,
    OnLog,
    ServerTable,
    TimeLimits,
    open_client,
    open_http_client,
    open_stdio_client,
    read_server_table,
)
from ._commands import (
    Job,
    Watching,
    call,
    complete,
    info,
    ping,
    prepare_call,
    prompt,
    prompts,
    read,
    resources,
)
from ._errors import Interrupted, UsageError, nearest
from ._output import Notes, Output, log_lines
from ._questions import Answers, can_ask, questions, read_answers
from ._skills import skill, skills
from ._terminal import visible_json
from ._tools import list_tools_of_all, tools

if TYPE_CHECKING:
    from ..apps import AppHost

__all__ = ["Interrupts", "Trace", "headers_of", "open_trace", "run_connected", "sign_in_by_browser"]


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@define(eq=False)
class Interrupts:
    """The cancel scopes that signals cancel, one at each signal, the innermost first."""

    _scopes: list[trio.CancelScope] = field(factory=list[trio.CancelScope], init=False)
    _caught: int | None = field(default=None, init=False)

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Handle signals forever, in a task of its own."""
        with trio.open_signal_receiver(*_SIGNALS) as received:
            task_status.started()
            async for number in received:
                self._caught = number
                if self._scopes:
                    self._scopes.pop().cancel(reason="a signal")

    @contextmanager
    def ending(self) -> Generator[None]:
        """Cancel the block when a signal arrives; blocks inside it are cancelled first."""
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                yield
            finally:
                if scope in self._scopes:
                    self._scopes.remove(scope)

    def check(self) -> None:
        """Raise `Interrupted` if a signal has arrived."""
        if self._caught is not None:
            raise Interrupted(self._caught)


_ARROWS = {"sent": "-->", "received": "<--"}


@define(eq=False)
class Trace:
    """A tap that writes a line for each message: the time, the direction and the message. It stops at a write error."""

    _file: TextIO
    failure: OSError | None = field(default=None, init=False)
    _began: float = field(factory=time.perf_counter, init=False)

    def __call__(self, direction: Direction, message: bytes) -> None:
        self._write("", direction, message)

    def of(self, server: str, direction: Direction, message: bytes) -> None:
        """Write a line for a message to or from one of several servers."""
        self._write(f"{server} ", direction, message)

    def _write(self, server: str, direction: Direction, message: bytes) -> None:
        if self.failure is not None:
            return
        seconds = time.perf_counter() - self._began
        text = visible_json(message.decode("utf-8", "backslashreplace"))
        try:
            self._file.write(f"{seconds:10.4f} {server}{_ARROWS[direction]} {text}\n")
            self._file.flush()
        except OSError as error:
            self.failure = error


@contextmanager
def open_trace(path: str | None) -> Generator[Trace | None]:
    """Open a trace during the block: None without a path, on standard error if the path is ``-``.

    Raises:
        UsageError: the file cannot be opened or written. An exception of the block takes precedence.
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
            with suppress(OSError):  # the same failure again
                file.close()
        if trace.failure is not None:
            raise UsageError(f"the trace is incomplete: cannot write {path}: {trace.failure.strerror}")


Command: TypeAlias = Callable[[Job], Awaitable[None]]

_COMMANDS: Mapping[str, Command] = {
    "call": call,
    "complete": complete,
    "info": info,
    "ping": ping,
    "prompt": prompt,
    "prompts": prompts,
    "read": read,
    "resources": resources,
    "skill": skill,
    "skills": skills,
    "tools": tools,
}


def run_connected(options: argparse.Namespace) -> None:
    """Run one of the commands that connect to a server.

    Raises:
        UsageError: the command line does not fit the server.
        Interrupted: a signal has arrived, and the command was cancelled.
        ToolFailed: the tool reports a failure.
        TrioMcpError: the server refuses, breaks the protocol or is gone, or the user has not signed in.
        OSError: the server's command cannot be started, or the output cannot be written.
    """
    if options.command in {"app", "call"}:
        prepare_call(options)
    answers = None if options.answer is None else read_answers(options.answer)
    with open_trace(options.trace) as trace:
        trio.run(_run, options, trace, answers)


async def _run(options: argparse.Namespace, trace: Trace | None, answers: Answers | None) -> None:
    interrupts, notes, output = Interrupts(), Notes(), Output()
    run, on_log = _command(options, notes, output)
    given = _client_options(options, notes, on_log, trace, answers)
    with notes.logged():
        async with owned_nursery() as nursery:
            await nursery.start(interrupts.listen)
            with interrupts.ending():
                if _is_about_all(options):
                    await _list_tools_of_all(options, given, notes, output)
                else:
                    async with _connected(options, given, notes) as client:
                        with interrupts.ending(), _answering(answers, notes):  # first, while the connection is open
                            job = Job(client, options, output, notes)
                            if on_log is not None:
                                await _ask_for_logs(job)
                            await run(job)
    interrupts.check()


def _answering(answers: Answers | None, notes: Notes) -> AbstractContextManager[None]:
    return nullcontext() if answers is None else answers.ending(notes)


def _command(options: argparse.Namespace, notes: Notes, output: Output) -> tuple[Command, OnLog | None]:
    """Return the command, and the callback for log messages; None if the user requested none."""
    if options.command == "watch":
        watching = Watching(options.json, output)
        return watching.run, watching.log
    if options.command == "app":
        from ._app import show_app  # noqa: PLC0415 # no other command needs it

        return show_app, None
    if options.command == "stubs":
        from ._stubs import stubs  # noqa: PLC0415 # no other command needs it

        return stubs, None
    command = _COMMANDS.get(options.command)
    if command is None or (options.command == "call" and options.detach):
        from ._tasks import start, task  # noqa: PLC0415 # no other command needs it

        command = task if command is None else start
    return command, None if options.log_level is None else log_lines(notes)


def _client_options(
    options: argparse.Namespace, notes: Notes, on_log: OnLog | None, trace: Trace | None, answers: Answers | None
) -> ClientOptions:
    return {
        "revision": options.revision,
        "time_limits": _limits(options.timeout),
        "on_elicit": _on_elicit(options, notes) if answers is None else answers.answer,
        "elicit_modes": ("form", "url") if answers is None else ("form",),
        "on_log": on_log,
        "roots": [_root(path) for path in options.root] or None,
        "tap": trace,
        "tasks": options.command in {"app", "call"},
        "apps": _app_host() if options.command == "app" else None,
    }


def _on_elicit(options: argparse.Namespace, notes: Notes) -> OnElicit | None:
    """Return the callback for the questions of the server; None if nobody can answer them."""
    if can_ask():
        return questions(notes)
    if options.command == "call" and options.detach:
        from ._tasks import refuse_to_answer  # noqa: PLC0415 # no other command needs it

        return refuse_to_answer
    return None


def _app_host() -> AppHost:
    from ..apps import AppHost  # noqa: PLC0415 # one command needs it

    return AppHost()


@asynccontextmanager
async def _connected(options: argparse.Namespace, given: ClientOptions, notes: Notes) -> AsyncGenerator[Client]:
    async with AsyncExitStack() as stack:
        try:
            sign_in = sign_in_by_browser(notes) if options.login else None
            client = await stack.enter_async_context(await _open_target(options, given, sign_in))
        except ValueError as error:
            raise UsageError(str(error)) from None
        yield client


def _is_about_all(options: argparse.Namespace) -> bool:
    """Return True for the tools of all servers of a file."""
    return options.command == "tools" and options.name is None and options.config is not None and not options.config[1:]


async def _list_tools_of_all(options: argparse.Namespace, given: ClientOptions, notes: Notes, output: Output) -> None:
    from ..client import open_clients  # noqa: PLC0415  # one server does not need it

    _check_header(options)
    (path,) = options.config
    if options.login:
        raise UsageError(f"--login needs one server: --config {path} NAME")
    async with AsyncExitStack() as stack:
        with _reading(path):
            clients = await stack.enter_async_context(open_clients(path, **given))
        await list_tools_of_all(clients, output, notes, as_json=options.json)


@contextmanager
def _reading(path: str) -> Generator[None]:
    """Name the file of servers in errors of the block, which reads it.

    Raises:
        UsageError: the file cannot be read, or has another form.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def sign_in_by_browser(notes: Notes) -> ClientAuth:
    """Return OAuth with the browser. Its tokens are in the file that programs of this user share by default."""
    show = partial(auth.open_browser, say=notes.say)
    return auth.OAuth(client_name="trio-mcp", storage=auth.FileTokenStorage(), show=show)


async def _open_target(
    options: argparse.Namespace, given: ClientOptions, sign_in: ClientAuth | None
) -> AbstractAsyncContextManager[Client]:
    """Return the client of the server that the command line names: by a command, a URL, or a config file entry.

    Raises:
        UsageError: the file or its entry cannot be used, or --header or --login do not apply to the server.
    """
    command: list[str] | None = options.target
    is_url = command is not None and len(command) == 1 and "://" in command[0]
    if not is_url:
        _check_header(options)
    if command is None:
        return await _open_entry(options.config, given, sign_in)
    if is_url:
        headers = headers_of(options.header)
        if sign_in is not None and "authorization" in map(str.lower, headers):
            raise UsageError("--login and --header Authorization exclude each other: use one of them")
        return open_http_client(command[0], headers=headers, auth=sign_in, **given)
    if sign_in is not None:
        raise UsageError("--login needs a server with a URL; this command starts the server itself")
    return open_stdio_client(command, **given)


def _check_header(options: argparse.Namespace) -> None:
    """Refuse headers for a server that is not given by its URL."""
    if options.header:
        raise UsageError("--header needs a URL after --; for a config file, write 'headers' in the entry")


def headers_of(given: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon:
            raise UsageError("--header: expected NAME:VALUE")  # not quoted: it may be a secret
        if name.strip().lower() in map(str.lower, headers):
            raise UsageError(f"--header {name.strip()} is given twice")
        headers[name.strip()] = value.strip()
    return headers


async def _open_entry(
    config: Sequence[str], given: ClientOptions, sign_in: ClientAuth | None
) -> AbstractAsyncContextManager[Client]:
    path, *names = config
    with _reading(path):
        table = await read_server_table(path)
        name = names[0] if names else _only_name(path, table)
        if name in table.disabled:
            raise UsageError(f"{path}: server {name!r} is disabled")
        if name not in table.entries:
            raise UsageError(f"{path}: no server {name!r}; {nearest(name, table.entries)}")
        opener = table.opener(name, auth=sign_in)
    return open_client(opener, **given)


def _only_name(path: str, table: ServerTable) -> str:
    names = [*table.entries]
    if not names:
        raise UsageError(f"{path} has no servers")
    if len(names) > 1:
        raise UsageError(f"name a server, as in --config {path} {names[0]}: there are {', '.join(names)}")
    return names[0]


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
        job.notes.say(f"the server sends no log messages: {error}")
