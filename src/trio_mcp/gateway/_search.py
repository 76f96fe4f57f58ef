"""Tool search: two tools in place of more than fit into the context of a model.

Rules of this file:

1. The tools of a caller are replaced if they need more tokens than allowed, by an estimate; otherwise they are listed
   as they are. What the gateway itself has registered is always listed.
2. A tool that is not listed can be called by its name all the same: hosts that have found it may call it directly.
3. A call through ``use_tool`` is the call of the tool: its progress, questions and result are those of the tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio
from attrs import field, frozen

from .. import ToolError
from ..lowlevel import estimated_tokens
from ..wire import JsonObject, decode, encode, is_object
from ._merged import Entry, MergedLists
from ._ranking import ToolIndex

__all__ = ["FIND_TOOLS", "USE_TOOL", "ToolSearch", "found_tools", "is_needed", "query_of", "search_tools", "used_tool"]

FIND_TOOLS: Final = "find_tools"
USE_TOOL: Final = "use_tool"
_MOST_FOUND: Final = 20


def _positive(search: ToolSearch, attribute: Any, value: int) -> None:
    del search
    if isinstance(value, bool) or value < 1:
        raise ValueError(f"ToolSearch({attribute.name}={value!r}): must be an integer of at least 1")


@frozen(kw_only=True)
class ToolSearch:
    """The tools of a gateway are found by search if there are too many for the context of a model.

    The gateway then lists two tools: ``find_tools``, which describes the tools that fit a query best, and ``use_tool``,
    which calls one of them.

    Args:
        at_most_tokens: the estimated number of tokens up to which all tools are listed.
        at_once: the number of tools that ``find_tools`` describes, unless the model asks for another number.
    """

    at_most_tokens: int = field(validator=_positive)
    at_once: int = field(default=5, validator=_positive)


_REVISION = "2025-11-25"
"""The revision in which tools are described to models; they need nothing that later ones add."""


def is_needed(search: ToolSearch, merged: MergedLists, entries: Sequence[Entry]) -> bool:
    """Return True if the tools need more tokens than allowed (rule 1)."""
    if merged.tokens is None:
        merged.tokens = {id(entry): estimated_tokens(_described(entry)) for entry in merged.entries["tools"]}
    return sum(merged.tokens[id(entry)] for entry in entries) > search.at_most_tokens


def query_of(search: ToolSearch, arguments: Any) -> tuple[str, int]:
    """Return the query of a call of ``find_tools``, and the number of tools that it wants at most.

    Raises:
        ToolError: the arguments do not fit.
    """
    given: Any = arguments or {}
    query, at_most = given.get("query"), given.get("at_most", search.at_once)
    if not isinstance(query, str) or type(at_most) is not int or at_most < 1:
        raise ToolError(f"{FIND_TOOLS} takes a query as a string, and at_most as an integer of at least 1")
    return query, at_most


async def found_tools(merged: MergedLists, entries: Sequence[Entry], query: str, at_most: int) -> JsonObject:
    """Return the result of ``find_tools``: the tools that fit a query best, best first."""
    is_whole = len(entries) == len(merged.entries["tools"])
    index = merged.index if is_whole else None
    if index is None:  # in a thread, because thousands of tools take a fraction of a second
        index = await trio.to_thread.run_sync(ToolIndex, [_described(entry) for entry in entries])
        if is_whole:
            merged.index = index
    found = [_described(entries[place]) for place in index.search(query, min(at_most, _MOST_FOUND))]
    tools = [{name: tool[name] for name in ("name", "description", "inputSchema") if name in tool} for tool in found]
    text = encode(tools).decode() if tools else "no tool fits; try other words"
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"tools": tools}}


def _described(entry: Entry) -> JsonObject:
    described: JsonObject = decode(bytes(entry.json(_REVISION)))
    return described


def search_tools(search: ToolSearch, count: int) -> list[JsonObject]:
    """Return the JSON of the two tools that stand for *count* others."""
    find: JsonObject = {
        "name": FIND_TOOLS,
        "title": "Find tools",
        "description": (
            f"Find tools for a task. {count} tools are available that are not listed here. Returns the names, "
            f"descriptions and input schemas of those that fit best; call them with {USE_TOOL}."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what the tool should do, in a few words"},
                "at_most": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": _MOST_FOUND,
                    "description": f"the number of tools to return; {search.at_once} by default",
                },
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
    use: JsonObject = {
        "name": USE_TOOL,
        "title": "Use a tool",
        "description": f"Call a tool that {FIND_TOOLS} has returned, with arguments that fit its input schema.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "the name of the tool"},
                "arguments": {"type": "object", "description": "the arguments of the tool"},
            },
            "required": ["name"],
        },
    }
    return [find, use]


def used_tool(arguments: Any) -> tuple[str, Any] | None:
    """Return the name and the arguments of the tool that ``use_tool`` calls; None if the arguments do not fit."""
    if not is_object(arguments) or not isinstance(arguments.get("name"), str):
        return None
    inner = arguments.get("arguments", {})
    return (arguments["name"], inner) if is_object(inner) else None
