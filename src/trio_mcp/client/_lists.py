"""The lists of a server: iteration over their pages, and what the client remembers of the tools.

A client remembers the output schemas of listed tools, and the arguments that are mirrored in header fields.

Rules of this file:

1. The latest list is right, whichever task has requested it.
2. Header fields are for modern requests over a transport that has header fields. Otherwise input schemas are not
   examined.
3. A tool whose schema requires impossible header fields is left out of the lists, and the reason is logged.
4. A server that finds a field missing or wrong has run nothing, and the client's list is outdated. The client lists the
   tools again, once, however many calls have failed in this way.
5. A page iterator is not an async generator: there is nothing to clean up between two items. The caller may leave its
   loop early without closing the iterator, and may continue after a cancellation.
6. A server may refuse a cursor that it gave out earlier, for example on a cached page. The list is then read again from
   the start, once, and items that the caller has received are not repeated.
7. A list that the server has not declared is empty. It is not requested, because the specification forbids that.
8. In the modern revision an empty string is a cursor like any other. Some legacy servers send it with the last page.

Specification:
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters,
https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema,
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import ErrorResponse, LocalProtocolError, RemoteProtocolError, TrioMcpError
from .._misuse import AsyncForOnly
from ..schema import LazyValidator, SchemaError
from ..wire import INVALID_PARAMS, JsonObject, MirroredParam, is_object, mirrored_params, param_fields

__all__ = ["EMPTY_LISTS", "MAX_PAGES", "KnownTools", "PageIterator", "PageLike", "ToolOutput", "without_empty_cursor"]


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
            raise RemoteProtocolError(f"tool {name!r} returned no structured content, which its output schema requires")
        content: Any = result.structured_content
        try:
            faults = self._validator.faults(content)
        except SchemaError as exc:
            raise RemoteProtocolError(f"the output schema of tool {name!r} cannot be used: {exc}") from exc
        if faults:
            raise RemoteProtocolError(
                f"the result of tool {name!r} does not fit its output schema: {'; '.join(faults)}"
            )


# --- Pages ---


def _identity(item: Any) -> str:
    """Return what tells one tool, resource, resource template or prompt from others of its kind."""
    match item:
        case types.Resource():
            return item.uri
        case types.ResourceTemplate():
            return item.uri_template
        case _:
            name: str = item.name
            return name


Item = TypeVar("Item")


class PageLike(Protocol):
    """A page of a list: the result of a list request."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last one."""
        ...


Page = TypeVar("Page", bound=PageLike)

MAX_PAGES = 1000
"""The default number of pages after which a list is considered endless."""

EMPTY_LISTS: Mapping[str, Callable[[], types.Model]] = {
    "tools/list": lambda: types.ListToolsResult(tools=[]),
    "resources/list": lambda: types.ListResourcesResult(resources=[]),
    "resources/templates/list": lambda: types.ListResourceTemplatesResult(resource_templates=[]),
    "prompts/list": lambda: types.ListPromptsResult(prompts=[]),
}
"""The list of each kind of a server that has not declared it, by the method that would request it."""


@define(eq=False)
class PageIterator(AsyncForOnly, AsyncIterator[Item], Generic[Page, Item]):
    """The items of all pages, in order. No request is open while the caller works.

    Args:
        fetch: returns the page of a cursor; the first page for None.
        read: returns a page's items.
        max_pages: the largest number of pages; 1 or more.
        identity: returns what tells an item from the others of the list.
        empty_is_last: True if an empty cursor means that there are no more pages (rule 8).
    """

    _usage = "async for tool in client.tools()"

    _fetch: Callable[[str | None], Awaitable[Page]]
    _read: Callable[[Page], Iterable[Item]]
    _max_pages: int = MAX_PAGES
    _identity: Callable[[Item], str] = _identity
    _empty_is_last: bool = field(default=False, alias="empty_is_last", kw_only=True)
    _items: deque[Item] = field(factory=deque[Item], init=False)
    _cursor: str | None = field(default=None, init=False)
    _seen: set[str | None] = field(factory=set[str | None], init=False)
    """The cursors of the pages so far."""
    _ended: bool = field(default=False, init=False)
    _returned: set[str] = field(factory=set[str], init=False)
    """The identities of the items so far."""
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
            raise RemoteProtocolError(f"the server's list is endless: cursor {self._cursor!r:.100} is repeated")
        if len(self._seen) == self._max_pages:
            raise RemoteProtocolError(f"the server's list has more than {self._max_pages} pages (max_pages)")
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
            identity = self._identity(item)
            if not self._restarted or identity not in self._returned:
                self._items.append(item)
            self._returned.add(identity)
        self._cursor = page.next_cursor
        self._ended = self._cursor is None or (self._empty_is_last and not self._cursor)


R = TypeVar("R")


def without_empty_cursor(method: str, page: R, warn_once: Callable[[str], None]) -> R:
    """Return a page of a list of a legacy server; an empty cursor in it means that there are no more pages (rule 8)."""
    if getattr(page, "next_cursor", None) != "":
        return page
    warn_once(f"the server's last page of {method!r} has an empty nextCursor, where the protocol has none")
    last: R = evolve(cast("Any", page), next_cursor=None)
    return last


_log = logging.getLogger("trio_mcp.client")

MAX_MIRRORED_TOOLS = 10_000
"""The number of tools whose arguments are mirrored; those of further tools are not."""
MAX_WARNINGS = 100
"""The number of left-out tools that are logged."""


class FetchTools(Protocol):
    """The type of `Connection.cached_request`, as far as it is used here."""

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
    """True if the arguments of a call are mirrored in header fields when the tool's schema requires it."""
    refreshes: int = field(default=0, init=False)
    """The number of times the list was requested again because a field was wrong."""
    _mirrored: dict[str, Sequence[MirroredParam]] = field(factory=dict[str, "Sequence[MirroredParam]"], init=False)
    """The mirrored parameters, by the names of the tools that have any."""
    _reported: set[tuple[str, str]] = field(factory=set[tuple[str, str]], init=False)
    """The names and faults of left-out tools that were logged."""
    _refreshing: trio.Lock = field(factory=trio.Lock, init=False)

    async def page(self, cursor: str | None, *, fresh: bool) -> types.ListToolsResult:
        """Return one page of the tools that can be called."""
        params: JsonObject | None = None if cursor is None else {"cursor": cursor}
        page = await self._fetch("tools/list", params, types.ListToolsResult, fresh=fresh)
        self.learn_outputs(page.tools)
        if not self.mirrors_arguments:
            return page
        callable_tools = [tool for tool in page.tools if self._learn_fields(tool)]
        return page if len(callable_tools) == len(page.tools) else evolve(page, tools=callable_tools)

    def learn_outputs(self, tools: Iterable[types.Tool]) -> None:
        """Remember the output schemas of a page of tools."""
        for tool in tools:
            known = self.outputs.get(tool.name)
            if tool.output_schema is None:
                self.outputs.pop(tool.name, None)
            elif known is not None and known.schema == tool.output_schema:
                continue  # it stays compiled
            elif len(self.outputs) < MAX_SCHEMAS:
                self.outputs[tool.name] = ToolOutput(tool.name, LazyValidator(tool.output_schema))

    def _learn_fields(self, tool: types.Tool) -> bool:
        """Remember the mirrored parameters of a tool; return False if its header fields are impossible."""
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
            _log.warning("tool %.200r is left out: its input schema breaks the protocol: %.1000s", name, fault)

    def fields(self, call: JsonObject) -> Mapping[str, str]:
        """Return the header fields of a call; empty if its tool has not been listed.

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
        """List all tools again, unless that was done since there were *known_refreshes*. A failure is logged."""
        async with self._refreshing:
            if self.refreshes != known_refreshes:
                return
            try:
                async for _ in PageIterator(partial(self.page, fresh=True), lambda page: page.tools):
                    pass
            except TrioMcpError as exc:  # the call that needs the list raises its own error
                _log.debug("the tools could not be listed again: %s", exc)
            self.refreshes += 1

    def forget(self) -> None:
        """Forget the tools: the server may be another one now."""
        self.outputs.clear()
        self._mirrored.clear()
