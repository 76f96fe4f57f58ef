"""The rules of sampling messages: which content each revision allows, and how results follow the use of tools.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling#message-content-constraints
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .. import types
from ._jsonrpc import JsonObject, is_array, is_object

__all__ = ["sampling_content", "sampling_faults"]

_SINCE: Mapping[str, str] = {
    "AudioContent": "2025-03-26",
    "ToolUseContent": "2025-11-25",
    "ToolResultContent": "2025-11-25",
}
"""The revisions that introduced the classes of content which the first revision lacks."""
_WITH_LISTS = "2025-11-25"
"""The revision from which on a message may hold several blocks."""

Content: TypeAlias = "types.SamplingMessageContentBlock | Sequence[types.SamplingMessageContentBlock]"
"""The content of a message."""


def sampling_content(content: Content, revision: str) -> Content:
    """Return the content of a message as *revision* can carry it.

    Raises:
        ValueError: *revision* does not have such content; the message names it, as the end of a sentence.
    """
    blocks = [content] if isinstance(content, types.Model) else content
    for block in blocks:
        if revision < _SINCE.get(type(block).__name__, revision):
            raise ValueError(f"{type(block).__name__}, which revision {revision} does not have")
    if isinstance(content, types.Model) or revision >= _WITH_LISTS:
        return content
    if len(blocks) != 1:
        raise ValueError(f"{len(blocks)} blocks of content; revision {revision} has room for one")
    return blocks[0]


def sampling_faults(messages: Sequence[JsonObject]) -> Iterator[str]:
    """Yield the faults in the use of tools in a conversation, each with the index of its message.

    Tool results stand alone in a message of the user, and the message after a use of tools holds the result of each.

    Args:
        messages: the messages in the form of `types.SamplingMessage`, as they are sent.
    """
    expected: set[Any] = set()
    for index, message in enumerate(messages):
        blocks = _blocks(message)
        results = {block.get("toolUseId") for block in blocks if block.get("type") == "tool_result"}
        if results and (message.get("role") != "user" or len(results) < len(blocks)):
            yield f"$.messages[{index}]: results of tools stand alone, in a message of the user's"
        for unknown in sorted(map(str, results - expected)):
            yield f"$.messages[{index}]: the result of {unknown!r}, which the message before does not use"
        for missing in sorted(map(str, expected - results)):
            yield f"$.messages[{index}]: the result of {missing!r} is missing, which the message before uses"
        expected = {block.get("id") for block in blocks if block.get("type") == "tool_use"}
    for missing in sorted(map(str, expected)):
        yield f"$.messages[{len(messages)}]: the result of {missing!r} is missing, which the message before uses"


def _blocks(message: JsonObject) -> list[JsonObject]:
    content: Any = message.get("content")
    return [each for each in (content if is_array(content) else [content]) if is_object(each)]
