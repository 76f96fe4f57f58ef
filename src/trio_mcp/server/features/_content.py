"""The content of results: conversion of return values, binary blocks, and content for legacy revisions.

A kind of content that a revision does not have (audio before 2025-03-26, resource links before 2025-06-18) is refused
with an error, so that no other content silently takes its place. Members that a revision does not have are left out.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from attrs import evolve, frozen

from ... import types
from ..._errors import McpError, ToolError
from ..._misuse import unawaited
from ...wire import INTERNAL_ERROR, JsonObject, NotJsonError, encode, is_modern

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
"""Revisions with structured content, with `_meta` of blocks, and with every kind of content."""
_SINCE: Mapping[type, tuple[str, str]] = {
    types.AudioContent: ("audio", "2025-03-26"),
    types.ResourceLink: ("a resource link", "2025-06-18"),
}
"""Kinds of content that the first revision does not have: the name of each, and its first revision."""
_OBJECTS = (dict, Mapping)
"""`dict` comes first because nearly all mappings are dicts, and the check for `Mapping` is slow."""
Content: TypeAlias = (
    "types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource"
)


@frozen
class Image:
    """An image to return from a tool or prompt: its bytes and its media type.

    Args:
        data: the encoded image, such as the content of a PNG file.
        mime_type: the media type, such as ``"image/png"``.
    """

    data: bytes
    mime_type: str

    def block(self) -> types.ImageContent:
        """Return a content block with the bytes in base64."""
        return types.ImageContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime_type)


@frozen
class Audio:
    """Audio to return from a tool or prompt: its bytes and its media type.

    Args:
        data: the encoded audio, such as the content of a WAV file.
        mime_type: the media type, such as ``"audio/wav"``.
    """

    data: bytes
    mime_type: str

    def block(self) -> types.AudioContent:
        """Return a content block with the bytes in base64."""
        return types.AudioContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime_type)


RESULT_CLASSES = (*CONTENT_CLASSES, Image, Audio, types.CallToolResult)
"""The classes that are content, not data: a return annotation that names one gives no output schema."""
SCALARS = frozenset({str, int, float, bool, type(None)})
"""Classes whose instances are never content: a quick check."""
_AS_BLOCKS = (*CONTENT_CLASSES, Image, Audio)
_LISTS = (list, tuple)


def content_blocks(value: Any) -> list[Content]:
    """Return *value* as content blocks.

    A list that contains content is content; any other value is data, and becomes a text block with its JSON.

    Raises:
        TypeError: *value* is bytes, which have no media type.
    """
    if value is None:
        return []
    if isinstance(value, _LISTS) and holds_content(value):
        return [_block(item) for item in cast("Sequence[Any]", value)]
    return [_block(value)]


def holds_content(value: Any) -> bool:
    """Return True if *value* is content, or a list that contains some."""
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
        raise TypeError("bytes have no media type; return Image(data, mime_type) or Audio(data, mime_type)")
    return types.TextContent(text=_text_of(value))


def _text_of(value: Any) -> str:
    """Return *value* if it is a string, else its JSON.

    Raises:
        NotJsonError: *value* is not JSON.
        TypeError: *value* is a coroutine.
    """
    if isinstance(value, str):
        return value
    try:
        return encode(value).decode()
    except NotJsonError:
        if fault := unawaited(value):
            raise TypeError(f"what the handler returned cannot be sent: {fault}") from None
        raise


def text_result(plain: Any) -> JsonObject:
    """Return the JSON of a tool result with one text block; see `data_result`."""
    return {"content": [{"type": "text", "text": _text_of(plain)}]}


def data_result(plain: Any, structured: Any, revision: str) -> JsonObject:
    """Return the JSON of the result of a tool that has returned data; most results are, and need no typed classes.

    Args:
        plain: the data, as JSON values.
        structured: the structured content; left out if the revision has none, or permits only objects.
    """
    result = text_result(plain)
    if revision in _STRUCTURED and (type(structured) is dict or is_modern(revision)):
        result["structuredContent"] = structured
    return result


def legacy_result(result: types.CallToolResult, revision: str, tool: str) -> types.CallToolResult:
    """Return the *result* of a tool in a form that a client of the legacy *revision* can read.

    Structured content exists from 2025-06-18 on, and must be an object. Where it is not possible, it is replaced by a
    text block with its JSON, unless the result has a text block.

    Raises:
        ToolError: the content is of a kind that the revision does not have; also logged.
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
    """Return the *result* of a prompt in a form that a client of *revision* can read.

    Raises:
        McpError: the messages have content of a kind that the revision does not have; also logged.
    """
    if revision in _STRUCTURED:
        return result
    contents = [each.content for each in result.messages]
    pairs = zip(result.messages, _for_revision(contents, revision, f"prompt {prompt!r}: messages"), strict=True)
    return evolve(result, messages=[evolve(each, content=content) for each, content in pairs])


def _for_revision(blocks: Sequence[Any], revision: str, where: str) -> list[Any]:
    """Return *blocks* without the members that *revision* does not have.

    Args:
        where: the name of the blocks in errors.

    Raises:
        McpError: a block is of a kind that the revision does not have; also logged.
    """
    for number, block in enumerate(blocks):
        what, since = _SINCE.get(block.__class__, ("", ""))
        if revision < since:
            fault = f"{where}[{number}] is {what}, which revision {revision} does not have ({since} and later ones do)"
            _log.error("%s; nothing was sent. Check Context.revision before returning it", fault)
            raise McpError(INTERNAL_ERROR, fault)
    if revision in _STRUCTURED:
        return list(blocks)
    return [block if block.meta is None else evolve(block, meta=None) for block in blocks]
