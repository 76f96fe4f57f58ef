"""The command `watch`: what a server tells of its own accord, a line each, as it comes."""

from __future__ import annotations

from collections.abc import Iterator

import trio
from attrs import define, field

from .. import types
from .._errors import MissingCapability
from ..wire import Change, ChangeFilter, ListChanged, is_modern, notification_of
from ._failures import UsageError
from ._job import Job
from ._log_lines import log_line
from ._output import Output, json_line
from ._visible import visible_line

__all__ = ["Watching"]

_LOOK_SECONDS = 5.0
"""How often a server that tells of no changes is asked whether it is still there."""


@define(eq=False)
class Watching:
    """One such command. Everything is printed at once: whoever reads it may be a program that waits."""

    _as_json: bool
    _output: Output
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _failure: OSError | UsageError | None = field(default=None, init=False)
    """Why nothing can be printed any more."""

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Print a log message; the callback of the client."""
        if self._as_json:
            self._print(json_line({"method": "notifications/message", "params": types.unstructure(message)}))
        else:
            self._print(log_line(message))

    async def run(self, job: Job) -> None:
        """Print changes until the server has no more to tell."""
        with self._scope:
            await self._follow(job)
        if self._failure is not None:
            raise self._failure

    async def _follow(self, job: Job) -> None:
        uris: list[str] = job.options.uris
        try:
            async with job.client.listen(tools=True, prompts=True, resource_list=True, resources=uris) as changes:
                job.notes.say(f"watching {', '.join(_heard_of(job, changes.honored)) or 'nothing'}; Ctrl+C ends it")
                for uri in uris:
                    if uri not in changes.honored.resources:
                        job.notes.say(f"the server does not tell of {uri}")
                async for change in changes:
                    self._tell(change)
                job.notes.say("the server has ended it")
        except MissingCapability:
            logs = not is_modern(job.client.revision) and job.client.server_capabilities.logging is not None
            if uris or not logs:
                raise
            await _while_it_is_there(job)

    def _tell(self, change: Change) -> None:
        if self._as_json:
            method, params = notification_of(change)
            self._print(json_line({"method": method, "params": params}))
        elif isinstance(change, ListChanged):
            self._print(f"the list of {change.kind} has changed")
        else:
            self._print(visible_line(f"{change.uri} has changed"))

    def _print(self, line: str) -> None:
        try:
            self._output.line(line)
            self._output.flush()
        except (OSError, UsageError) as error:  # raised by `run`: a callback's own failure would only be logged
            self._failure = error
            self._scope.cancel(reason="nobody reads")


def _heard_of(job: Job, honored: ChangeFilter) -> Iterator[str]:
    if job.client.server_capabilities.logging is not None:
        yield "log messages"
    if honored.tools:
        yield "tools"
    if honored.prompts:
        yield "prompts"
    if honored.resource_list:
        yield "resources"
    yield from honored.resources


async def _while_it_is_there(job: Job) -> None:
    """Wait until the connection is lost, which raises `ConnectionLost`."""
    job.notes.say("watching log messages; Ctrl+C ends it")
    while True:
        await job.client.ping()
        await trio.sleep(_LOOK_SECONDS)
