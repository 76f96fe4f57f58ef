"""What a client remembers of the tools it has listed: what they promise, and which arguments go into header fields too.

Rules of this file:

1. The latest list is right. It is learned from whoever has asked for it.
2. Header fields are for modern requests over a transport that has any. What a schema asks for is not looked at
   otherwise.
3. A tool whose schema asks for fields that cannot be is left out of the lists, and the log says why.
4. A server that finds a field missing or wrong has run nothing. The list is old then: it is asked for anew, once,
   however many calls have found out.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import LocalProtocolError, TrioMcpError
from ..wire import JsonObject, MirroredParam, is_object, mirrored_params, param_fields
from ._output_schemas import OutputSchemas
from ._pages import Walk

if TYPE_CHECKING:
    from ._connection import Connection

__all__ = ["KnownTools"]

_log = logging.getLogger("trio_mcp.client")

MAX_MIRRORING = 10_000
"""Tools whose arguments are mirrored; of a server that lists more, those of the rest are not."""
MAX_COMPLAINTS = 100
"""Tools left out of which the log says so; a server that goes on fills no log."""


@define(eq=False)
class KnownTools:
    """The tools that one client has listed."""

    _connection: Connection
    outputs: OutputSchemas = field(factory=OutputSchemas, init=False)
    """What they promise to return."""
    renewals: int = field(default=0, init=False)
    """How often the list was asked for anew because a field was wrong."""
    _mirrored: dict[str, Sequence[MirroredParam]] = field(factory=dict[str, "Sequence[MirroredParam]"], init=False)
    """By the names of the tools that have any."""
    _refused: set[tuple[str, str]] = field(factory=set[tuple[str, str]], init=False)
    """The tools that the log has been told of, and why they are left out."""
    _renewing: trio.Lock = field(factory=trio.Lock, init=False)

    async def page(self, cursor: str | None, *, fresh: bool) -> types.ListToolsResult:
        """Return one page of the tools, of those that can be called."""
        params: JsonObject | None = None if cursor is None else {"cursor": cursor}
        page = await self._connection.cached_request("tools/list", params, types.ListToolsResult, fresh=fresh)
        self.outputs.learn(page.tools)
        if not self._connection.mirrors_arguments:
            return page
        callable_ones = [tool for tool in page.tools if self._learn_fields(tool)]
        return page if len(callable_ones) == len(page.tools) else evolve(page, tools=callable_ones)

    def _learn_fields(self, tool: types.Tool) -> bool:
        """Take note of what a tool wants to have mirrored; False where that cannot be."""
        self._mirrored.pop(tool.name, None)
        try:
            mirrored = mirrored_params(tool.input_schema)
        except ValueError as fault:
            self._refuse(tool.name, str(fault))
            return False
        if mirrored and len(self._mirrored) < MAX_MIRRORING:
            self._mirrored[tool.name] = mirrored
        return True

    def _refuse(self, name: str, fault: str) -> None:
        if (name, fault) not in self._refused and len(self._refused) < MAX_COMPLAINTS:
            self._refused.add((name, fault))
            _log.warning("tool %.200r is left out, because its input schema breaks the protocol: %.1000s", name, fault)

    def fields(self, call: JsonObject) -> Mapping[str, str]:
        """Return the header fields of a call, none where its tool has not been listed.

        Raises:
            LocalProtocolError: an argument cannot be mirrored.
        """
        name, arguments = call.get("name"), call.get("arguments")
        if not isinstance(name, str) or name not in self._mirrored or not is_object(arguments):
            return {}
        try:
            return param_fields(self._mirrored[name], arguments)
        except ValueError as fault:
            raise LocalProtocolError(f"the call of {name!r} cannot be sent: {fault}") from None

    async def renew(self, seen: int) -> None:
        """List all tools anew, unless that was done since there were *seen* `renewals`. A failure is not raised."""
        async with self._renewing:
            if self.renewals != seen:
                return
            try:
                async for _ in Walk(partial(self.page, fresh=True), lambda page: page.tools):
                    pass
            except TrioMcpError as exc:  # the call that wanted it will say what is wrong
                _log.debug("the tools could not be listed anew: %s", exc)
            self.renewals += 1

    def forget(self) -> None:
        """The server may be another one now."""
        self.outputs.forget()
        self._mirrored.clear()
