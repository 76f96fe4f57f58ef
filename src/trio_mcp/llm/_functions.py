"""Tools as the functions of a chat-completions request: definitions, and names that such interfaces take.

A tool's name may be longer than a function's, and hold other characters. One that fits stays as it is. Of one that
does not, other characters than ``A-Z a-z 0-9 _ -`` become ``_``; where that is too long, or not unique, it ends in a
digest of the tool's name. So a name does not depend on the order of the tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Protocol

from .. import types
from .._function_names import MAX_NAME, fitting, told_apart

__all__ = ["HasTools", "ServerToolLike", "definition", "function_names"]


class ServerToolLike(Protocol):
    """A tool of one of several servers: what `Clients.tools` gives out."""

    @property
    def name(self) -> str:
        """Unique among the tools of all servers."""
        ...

    @property
    def server(self) -> str:
        """Which server has it."""
        ...

    @property
    def tool(self) -> types.Tool:
        """The tool as the server describes it."""
        ...


class HasTools(Protocol):
    """Anything with tools to call: a `Client`, or the `Clients` of many servers."""

    def tools(self) -> AsyncIterator[types.Tool | ServerToolLike]:
        """Iterate over the tools."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> types.CallToolResult:
        """Call the tool that `tools` gave this name."""
        ...


def definition(name: str, tool: types.Tool) -> dict[str, Any]:
    """Return *tool* as a function called *name*; its input schema is passed on as it is."""
    function: dict[str, Any] = {"name": name, "parameters": tool.input_schema}
    if about := tool.description or tool.title:
        function["description"] = about
    return {"type": "function", "function": function}


def function_names(tools: Collection[str]) -> dict[str, str]:
    """Return a function's name for the name of each tool; the names of the tools are unique, and so are these."""
    wanted = {tool: fitting(tool)[:MAX_NAME] or "_" for tool in sorted(tools)}
    times = Counter(wanted.values())
    names = {tool: name for tool, name in wanted.items() if name == tool or _is_its_own(tool, times[name])}
    rest = {tool: name for tool, name in wanted.items() if tool not in names}
    return names | told_apart(rest, times, lambda tool, attempt: f"{attempt}\0{tool}")


def _is_its_own(tool: str, times_wanted: int) -> bool:
    return len(tool) <= MAX_NAME and times_wanted == 1
