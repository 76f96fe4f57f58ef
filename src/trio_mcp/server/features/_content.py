"""What a tool returns, as content: helpers for binary blocks, and what older revisions do not have.

A kind of content that a revision lacks (sounds before 2025-03-26, links to resources before 2025-06-18) is refused: its
author learns of it, and nobody gets something else in its place without being told. Members that a revision lacks are
left out.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from attrs import evolve, frozen

from ... import types
from ..._errors import McpError, ToolError
from ...wire import INTERNAL_ERROR, JsonObject, encode, is_modern

__all__ = [
    "RESULT_CLASSES",
    "SCALARS",
    "Audio",
    "Content",
    "Image",
    "content_blocks",
    "data_result",
    "holds_content",
    "legacy_messages",
    "legacy_result",
    "text_result",
]

_log = logging.getLogger("trio_mcp.server")

CONTENT_CLASSES = (
    types.TextContent,
    types.ImageContent,
    types.AudioContent,
    types.ResourceLink,
    types.EmbeddedResource,
)
_STRUCTURED = frozenset(types.REVISIONS[types.REVISIONS.index("2025-06-18") :])
"""Revisions with structured content, with `_meta` of blocks, and with every kind of content there is."""
_SINCE: Mapping[type, tuple[str, str]] = {
    types.AudioContent: ("a sound", "2025-03-26"),
    types.ResourceLink: ("a link to a resource", "2025-06-18"),
}
"""Kinds of content that came after the first revision: what each is called, and the revision it came with."""
_OBJECTS = (dict, Mapping)
"""The first is what nearly all of the second are, and takes no search."""
Content: TypeAlias = (
    "types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource"
)


@frozen
class Image:
    """A picture to return from a tool or prompt: its bytes, and what they are.

    Args:
        data: the encoded picture, such as the content of a PNG file.
        mime_type: its media type, such as ``"image/png"``.
    """

    data: bytes
    mime_type: str

    def block(self) -> types.ImageContent:
        """Return it as it goes over the wire: base64 in a content block."""
        return types.ImageContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime_type)


@frozen
class Audio:
    """A sound to return from a tool or prompt: its bytes, and what they are.

    Args:
        data: the encoded sound, such as the content of a WAV file.
        mime_type: its media type, such as ``"audio/wav"``.
    """

    data: bytes
    mime_type: str

    def block(self) -> types.AudioContent:
        """Return it as it goes over the wire: base64 in a content block."""
        return types.AudioContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime_type)


RESULT_CLASSES = (*CONTENT_CLASSES, Image, Audio, types.CallToolResult)
"""Classes that a tool returns instead of data: a return annotation that names one gives no output schema."""
SCALARS = frozenset({str, int, float, bool, type(None)})
"""What is none of these at a glance: an instance of just one of these classes."""
_AS_BLOCKS = (*CONTENT_CLASSES, Image, Audio)
_LISTS = (list, tuple)


def content_blocks(value: Any) -> list[Content]:
    """Return *value* as content blocks.

    A list is taken as content when it holds content; any other value is data, and becomes the text of its JSON.

    Raises:
        TypeError: bytes, which say nothing about what they are.
    """
    if value is None:
        return []
    if isinstance(value, _LISTS) and holds_content(value):
        return [_block(item) for item in cast("Sequence[Any]", value)]
    return [_block(value)]


def holds_content(value: Any) -> bool:
    """Tell whether *value* is content, or a list with some in it."""
    if isinstance(value, _LISTS):
        return any(issubclass(each, _AS_BLOCKS) for each in set(map(type, cast("Sequence[Any]", value))))
    return issubclass(type(value), _AS_BLOCKS)


def _block(value: Any) -> Content:
    if type(value) is str:
        return types.TextContent(text=value)
    if isinstance(value, CONTENT_CLASSES):
        return value
    if isinstance(value, Image | Audio):
        return value.block()
    if isinstance(value, bytes | bytearray):
        raise TypeError("bytes need a media type: return Image(data, mime_type) or Audio(data, mime_type)")
    return types.TextContent(text=_text_of(value))


def _text_of(value: Any) -> str:
    """Return the text that stands for *value*: itself if it is one, its JSON otherwise.

    Raises:
        NotJsonError: *value* holds something that JSON cannot say.
    """
    return value if isinstance(value, str) else encode(value).decode()


def text_result(plain: Any) -> JsonObject:
    """Return the result of a tool that says no more than *plain*, in JSON; see `data_result`."""
    return {"content": [{"type": "text", "text": _text_of(plain)}]}


def data_result(plain: Any, structured: Any, revision: str) -> JsonObject:
    """Return the result of a tool that has returned data, in JSON: most results are, and need no classes.

    Args:
        plain: the data, as JSON values.
        structured: what stands for them as structured content; it is left out where the revision has none, or has
            none but objects.
    """
    result = text_result(plain)
    if revision in _STRUCTURED and (type(structured) is dict or is_modern(revision)):
        result["structuredContent"] = structured
    return result


def legacy_result(result: types.CallToolResult, revision: str, tool: str) -> types.CallToolResult:
    """Return the *result* of a tool as a peer of the legacy *revision* can read it.

    Structured content is there from 2025-06-18 on, and is an object. Where it has to go, its JSON takes its place, if
    the result has no text of its own.

    Raises:
        ToolError: the content has a kind that the revision lacks. The log has it, too.
    """
    structured, has_structure = result.structured_content, revision in _STRUCTURED
    fits = structured is types.UNSET or (has_structure and isinstance(structured, _OBJECTS))
    if fits and has_structure:
        return result
    try:
        content = _for_revision(result.content, revision, f"tool {tool!r}: content")
    except McpError as error:
        raise ToolError(error.message) from error
    if fits:
        return result if content == result.content else evolve(result, content=content)
    if not any(isinstance(block, types.TextContent) for block in content):
        content.append(types.TextContent(text=_text_of(structured)))
    return evolve(result, content=content, structured_content=types.UNSET)


def legacy_messages(result: types.GetPromptResult, revision: str, prompt: str) -> types.GetPromptResult:
    """Return the *result* of a prompt as a peer of *revision* can read it.

    Raises:
        McpError: the messages hold content of a kind that the revision lacks. The log has it, too.
    """
    if revision in _STRUCTURED:
        return result
    contents = [each.content for each in result.messages]
    pairs = zip(result.messages, _for_revision(contents, revision, f"prompt {prompt!r}: messages"), strict=True)
    return evolve(result, messages=[evolve(each, content=content) for each, content in pairs])


def _for_revision(blocks: Sequence[Any], revision: str, where: str) -> list[Any]:
    """Return *blocks* as a peer of *revision* can read them: without what the revision lacks in a block.

    Args:
        where: what errors call them.

    Raises:
        McpError: one of them is of a kind that the revision lacks. The log has it, too.
    """
    for number, block in enumerate(blocks):
        what, since = _SINCE.get(block.__class__, ("", ""))
        if revision < since:
            text = f"{where}[{number}] is {what}, which revision {revision} does not have ({since} and later ones do)"
            _log.error("%s; nothing was sent. Context.revision tells what a client speaks", text)
            raise McpError(INTERNAL_ERROR, text)
    if revision in _STRUCTURED:
        return list(blocks)
    return [block if block.meta is None else evolve(block, meta=None) for block in blocks]
