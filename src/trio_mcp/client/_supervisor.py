"""The one coroutine that owns a client's connection from first byte to last; every door runs it.

Closing a client is asking this coroutine to end, which any task may do, in any order and any number of times.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TypedDict

import trio

from .. import types
from .._errors import RequestTimedOut, ServerExited
from .._util import owned_nursery
from ..abc import Tap, TransportOpener
from ..peer import Hall, Limits
from ..transports import guarded_tap
from ..wire import is_modern
from ._answering import Answering
from ._callbacks import Callbacks, OnElicit, OnLog, OnSample, Roots
from ._client import Client
from ._connection import Connection
from ._negotiate import negotiate
from ._timing import Stopwatch, TimeLimits

__all__ = ["ClientOptions", "check_options", "run_client"]


class ClientOptions(TypedDict, total=False):
    """What every door to a client takes, all by keyword and all optional; None is the default of each."""

    revision: str | None
    """Speak this protocol revision and no other; by default the newest that both sides speak is found out."""
    info: types.Implementation | None
    """How this client names itself to servers."""
    limits: Limits | None
    """What the connection may cost."""
    time_limits: TimeLimits | None
    """How long requests may take."""
    on_elicit: OnElicit | None
    """Asks the user what the server wants to know; declares the capability."""
    on_sample: OnSample | None
    """Asks the host's model what the server wants it to say; declares the capability."""
    roots: Roots | None
    """The folders and files the server may care about; declares the capability."""
    on_log: OnLog | None
    """Takes the server's log messages, one after the other, in a task of the connection."""
    tap: Tap | None
    """Called with ``"sent"`` or ``"received"`` and each message as bytes, without its newline, when it passes.

    Synchronous: everything waits for it. What it raises is logged once, and it is called no more. A message that is
    too large to be received, or does not leave as a whole, is not seen. Between a client and a server in one process
    there are no bytes; it sees what they would be. Messages may hold secrets."""


_THIS_CLIENT = types.Implementation(name="trio-mcp", version="0.1.0")


def check_options(options: ClientOptions) -> None:
    """Refuse options that no server could make right.

    Raises:
        TypeError: there is no option of this name: a callback under a misspelt one would never be asked.
        ValueError: the revision is none.
    """
    unknown = sorted(options.keys() - ClientOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"there is no client option {', '.join(map(repr, unknown))}; ClientOptions lists them")
    pinned = options.get("revision")
    if pinned is not None and pinned not in types.REVISIONS:
        raise ValueError(f"revision={pinned!r}: this package speaks {', '.join(types.REVISIONS)}")


async def run_client(
    opener: TransportOpener, options: ClientOptions, *, task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED
) -> None:
    """Connect, agree on a revision, report the client as started, and keep it until it is closed or cancelled."""
    check_options(options)
    try:
        await _connect_and_hold(opener, options, task_status, probe=True)
    except _ExitedOnProbeError:
        await _connect_and_hold(opener, options, task_status, probe=False)


class _ExitedOnProbeError(Exception):
    """The server process ended when it was asked what it speaks.

    Seen in legacy servers that know no other first request than `initialize`.
    """


async def _connect_and_hold(
    opener: TransportOpener, options: ClientOptions, task_status: trio.TaskStatus[Client], *, probe: bool
) -> None:
    stopwatch = Stopwatch(options.get("time_limits") or TimeLimits())
    callbacks = Callbacks(
        on_elicit=options.get("on_elicit"),
        on_sample=options.get("on_sample"),
        roots=options.get("roots"),
        on_log=options.get("on_log"),
    )
    with ExitStack() as when_all_tasks_have_ended:
        async with owned_nursery() as nursery:
            connection = Connection(
                options.get("info") or _THIS_CLIENT,
                callbacks.capabilities(),
                options.get("limits") or Limits(),
                stopwatch,
                Answering(callbacks, stopwatch, Hall(nursery)),
                guarded_tap(options.get("tap")),
            )
            client = Client(connection)
            when_all_tasks_have_ended.callback(client.ended)
            async with opener(connection) as transport:
                connection.transport = transport
                await _agree(connection, options.get("revision"), probe=probe)
                nursery.start_soon(connection.answering.deliver_logs, connection.revision)
                task_status.started(client)
                await client.hold()


async def _agree(connection: Connection, pinned: str | None, *, probe: bool) -> None:
    limit = connection.stopwatch.limits.connect
    probing = probe and (pinned is None or is_modern(pinned))
    with trio.move_on_after(limit):
        try:
            await negotiate(connection, pinned=pinned, probe=probe)
        except ServerExited:
            if probing and pinned is None:
                raise _ExitedOnProbeError from None
            raise
        return
    raise RequestTimedOut(f"the server has not agreed to anything within {limit:g} s (TimeLimits.connect)")
