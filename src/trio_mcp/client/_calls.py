"""One tool call in flight: its progress as it comes, then its result."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from attrs import define, field

from .. import types
from .._errors import StructureError, ToolFailed
from ._connection import Connection, OpenExchange
from ._output_schemas import OutputSchemas

__all__ = ["Call", "OnProgress", "Updates"]

_log = logging.getLogger("trio_mcp.client")

OnProgress: TypeAlias = Callable[[types.ProgressNotificationParams], Awaitable[None]]
"""Takes one progress update."""


@define(eq=False)
class Updates:
    """The progress of one call, in order: iterate over it. It ends when the result has arrived."""

    _connection: Connection
    _exchange: OpenExchange
    _complained: bool = field(default=False, init=False)

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> types.ProgressNotificationParams:
        while (update := await self._exchange.next_update()) is not None:
            try:
                return types.structure(update[1], types.ProgressNotificationParams, revision=self._connection.revision)
            except StructureError as exc:  # costs this update, nothing else; a server that goes on fills no log
                _log.log(logging.DEBUG if self._complained else logging.WARNING, "a progress update is none: %s", exc)
                self._complained = True
        raise StopAsyncIteration


@define(eq=False)
class Call:
    """A tool call in flight.

    One task reads from it at a time; a second one gets `trio.BusyResourceError`.
    """

    _connection: Connection
    _exchange: OpenExchange
    _name: str
    _schemas: OutputSchemas

    @property
    def updates(self) -> Updates:
        """Progress updates, in the order they were sent, all before the result."""
        return Updates(self._connection, self._exchange)

    @property
    def skipped(self) -> int:
        """Updates that were dropped because too many waited unread; see `Limits`."""
        return self._exchange.asked.skipped

    async def result(self, *, raise_on_error: bool = False) -> types.CallToolResult:
        """Wait for the result; updates that nobody reads do not hold it back. May be asked for repeatedly.

        Args:
            raise_on_error: raise `ToolFailed` instead of returning a result that says `is_error`.

        Raises:
            ToolFailed: the tool failed, and *raise_on_error* is set.
            ErrorResponse: the server answered with an error.
            RequestTimedOut: it did not answer within the time limits.
            RemoteProtocolError: the result does not fit its type, or the tool's output schema.
            ConnectionLost: the connection is gone.
        """
        json = await self._exchange.result()
        result = self._connection.read_result("tools/call", json, types.CallToolResult)
        self._schemas.check(self._name, result)
        if raise_on_error and result.is_error:
            texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
            raise ToolFailed(self._name, "\n".join(texts), result)
        return result
