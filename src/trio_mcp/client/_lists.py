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
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import ErrorResponse, LocalProtocolError, RemoteProtocolError, TrioMcpError
from ..schema import LazyValidator, SchemaError
from ..wire import INVALID_PARAMS, JsonObject, MirroredParam, is_object, mirrored_params, param_fields

__all__ = ["MAX_PAGES", "KnownTools", "PageIterator", "ToolOutput"]


# Checking structured content against the output schemas that a server has published.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema

MAX_SCHEMAS = 10_000
"""The number of tools whose output schemas are kept. Results of further tools are not checked."""


@define(eq=False)
class ToolOutput:
    """The output schema of one tool. It is compiled when it is first used."""

    _tool: str
    _validator: LazyValidator

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema as the server has published it."""
        return self._validator.schema

    def check(self, result: types.CallToolResult) -> None:
        """Compare a result with the schema; results that say `is_error` are not checked.

        Raises:
            RemoteProtocolError: a successful result has no structured content, or content that does not match the
                schema; or the schema itself cannot be used.
        """
        if result.is_error:
            return
        name = self._tool
        if result.structured_content is types.UNSET:
            raise RemoteProtocolError(f"tool {name!r} promised structured content and returned none")
        content: Any = result.structured_content
        try:
            faults = self._validator.faults(content)
        except SchemaError as exc:
            raise RemoteProtocolError(f"the output schema of tool {name!r} cannot be used: {exc}") from exc
        if faults:
            raise RemoteProtocolError(
                f"what tool {name!r} returned does not fit its output schema: {'; '.join(faults)}"
            )


# Walking over a list that a server hands out page by page.
#
# An iterator of its own, not an async generator: there is nothing to clean up between two items, so a caller may leave
# its loop early without closing anything, and one that was cancelled in the middle may go on.
#
# A server may refuse a cursor that it gave out some time ago, on a page that was cached, say. Then the list is read
# anew
# from its beginning, once, and what the caller has had is not repeated.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination

Item = TypeVar("Item", bound="types.Tool | types.Resource | types.ResourceTemplate | types.Prompt")
Page = TypeVar(
    "Page",
    "types.ListToolsResult",
    "types.ListResourcesResult",
    "types.ListResourceTemplatesResult",
    "types.ListPromptsResult",
)

MAX_PAGES = 1000
"""Pages of a list that are walked, if the caller does not say otherwise; a server that has more has no end."""


@define(eq=False)
class PageIterator(AsyncIterator[Item], Generic[Page, Item]):
    """The items of every page, in order. No request is open while the caller works.

    Args:
        fetch: returns the page of a cursor; the first page for None.
        read: returns a page's items.
        max_pages: how many pages are walked; 1 or more.
    """

    _fetch: Callable[[str | None], Awaitable[Page]]
    _read: Callable[[Page], Iterable[Item]]
    _max_pages: int = MAX_PAGES
    _items: deque[Item] = field(factory=deque[Item], init=False)
    _cursor: str | None = field(default=None, init=False)
    _seen: set[str | None] = field(factory=set[str | None], init=False)
    """The cursors of the pages so far."""
    _ended: bool = field(default=False, init=False)
    _returned: set[str] = field(factory=set[str], init=False)
    """What tells the items so far from others."""
    _restarted: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self._max_pages < 1:
            raise ValueError(f"max_pages={self._max_pages!r}: must be 1 or more")

    async def __anext__(self) -> Item:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            await self._fetch_page()
        return self._items.popleft()

    async def _fetch_page(self) -> None:
        if self._cursor in self._seen:
            raise RemoteProtocolError(f"the server's list has no end: cursor {self._cursor!r:.100} came twice")
        if len(self._seen) == self._max_pages:
            raise RemoteProtocolError(f"the server's list has no end within {self._max_pages} pages (max_pages)")
        try:
            page = await self._fetch(self._cursor)
        except ErrorResponse as error:
            if self._cursor is None or error.code != INVALID_PARAMS or self._restarted:
                raise
            self._restarted, self._cursor = True, None
            self._seen.clear()
            return
        self._seen.add(self._cursor)
        for item in self._read(page):
            identity = _identity(item)
            if not self._restarted or identity not in self._returned:
                self._items.append(item)
            self._returned.add(identity)
        self._cursor = page.next_cursor
        self._ended = self._cursor is None


def _identity(item: types.Tool | types.Resource | types.ResourceTemplate | types.Prompt) -> str:
    match item:
        case types.Resource():
            return item.uri
        case types.ResourceTemplate():
            return item.uri_template
        case _:
            return item.name


_log = logging.getLogger("trio_mcp.client")

MAX_MIRRORED_TOOLS = 10_000
"""Tools whose arguments are mirrored; of a server that lists more, those of the rest are not."""
MAX_WARNINGS = 100
"""Tools left out of which the log says so; a server that goes on fills no log."""


class FetchTools(Protocol):
    """`Connection.cached_request`, as far as it is used here."""

    def __call__(
        self, method: str, params: JsonObject | None, result: type[types.ListToolsResult], *, fresh: bool
    ) -> Awaitable[types.ListToolsResult]:
        """Return one page of the tools."""
        ...


@define(eq=False)
class KnownTools:
    """The tools that one client has listed."""

    _fetch: FetchTools
    outputs: dict[str, ToolOutput] = field(factory=dict[str, ToolOutput], init=False)
    """The output schemas, by the names of the tools that have one."""
    mirrors_arguments: bool = field(default=False, init=False)
    """Whether arguments of a call go into header fields as well, where its tool wants that."""
    refreshes: int = field(default=0, init=False)
    """How often the list was asked for anew because a field was wrong."""
    _mirrored: dict[str, Sequence[MirroredParam]] = field(factory=dict[str, "Sequence[MirroredParam]"], init=False)
    """By the names of the tools that have any."""
    _reported: set[tuple[str, str]] = field(factory=set[tuple[str, str]], init=False)
    """The tools that the log has been told of, and why they are left out."""
    _refreshing: trio.Lock = field(factory=trio.Lock, init=False)

    async def page(self, cursor: str | None, *, fresh: bool) -> types.ListToolsResult:
        """Return one page of the tools, of those that can be called."""
        params: JsonObject | None = None if cursor is None else {"cursor": cursor}
        page = await self._fetch("tools/list", params, types.ListToolsResult, fresh=fresh)
        self.learn_outputs(page.tools)
        if not self.mirrors_arguments:
            return page
        callable_tools = [tool for tool in page.tools if self._learn_fields(tool)]
        return page if len(callable_tools) == len(page.tools) else evolve(page, tools=callable_tools)

    def learn_outputs(self, tools: Iterable[types.Tool]) -> None:
        """Take over the output schemas of a page of tools."""
        for tool in tools:
            known = self.outputs.get(tool.name)
            if tool.output_schema is None:
                self.outputs.pop(tool.name, None)
            elif known is not None and known.schema == tool.output_schema:
                continue  # it stays compiled
            elif len(self.outputs) < MAX_SCHEMAS:
                self.outputs[tool.name] = ToolOutput(tool.name, LazyValidator(tool.output_schema))

    def _learn_fields(self, tool: types.Tool) -> bool:
        """Take note of what a tool wants to have mirrored; False where that cannot be."""
        self._mirrored.pop(tool.name, None)
        try:
            mirrored = mirrored_params(tool.input_schema)
        except ValueError as fault:
            self._report(tool.name, str(fault))
            return False
        if mirrored and len(self._mirrored) < MAX_MIRRORED_TOOLS:
            self._mirrored[tool.name] = mirrored
        return True

    def _report(self, name: str, fault: str) -> None:
        if (name, fault) not in self._reported and len(self._reported) < MAX_WARNINGS:
            self._reported.add((name, fault))
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

    async def refresh(self, known_refreshes: int) -> None:
        """List all tools anew, unless that was done since there were *known_refreshes* `refreshes`. A failure is not raised."""
        async with self._refreshing:
            if self.refreshes != known_refreshes:
                return
            try:
                async for _ in PageIterator(partial(self.page, fresh=True), lambda page: page.tools):
                    pass
            except TrioMcpError as exc:  # the call that wanted it will say what is wrong
                _log.debug("the tools could not be listed anew: %s", exc)
            self.refreshes += 1

    def forget(self) -> None:
        """The server may be another one now."""
        self.outputs.clear()
        self._mirrored.clear()
