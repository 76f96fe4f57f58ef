"""What a tool returns, as content: helpers for binary blocks, and the forms older revisions lack, said in words."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from attrs import evolve, frozen

from .. import types
from ..wire import encode

__all__ = [
    "RESULT_CLASSES",
    "Audio",
    "Content",
    "Image",
    "content_blocks",
    "for_revision",
    "holds_content",
    "older_result",
    "text_of",
]

CONTENT_CLASSES = (
    types.TextContent,
    types.ImageContent,
    types.AudioContent,
    types.ResourceLink,
    types.EmbeddedResource,
)
_LINKS = types.REVISIONS.index("2025-06-18")
"""The first revision with links to resources, `_meta` of blocks, and structured content."""
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


def content_blocks(value: Any) -> list[Content]:
    """Return *value* as content blocks.

    A list is taken as content when it holds content; any other value is data, and becomes the text of its JSON.

    Raises:
        TypeError: bytes, which say nothing about what they are.
    """
    if value is None:
        return []
    if isinstance(value, list | tuple) and holds_content(value):  # pyright: ignore[reportUnknownArgumentType] # any user value
        return [_block(item) for item in value]  # pyright: ignore[reportUnknownVariableType] # likewise
    return [_block(value)]


def holds_content(value: Any) -> bool:
    """Tell whether *value* is content, or a list with some in it."""
    classes = set(map(type, cast("Sequence[Any]", value))) if isinstance(value, list | tuple) else {type(value)}
    return any(issubclass(each, (*CONTENT_CLASSES, Image, Audio)) for each in classes)


def _block(value: Any) -> Content:
    if isinstance(value, CONTENT_CLASSES):
        return value
    if isinstance(value, Image | Audio):
        return value.block()
    if isinstance(value, bytes | bytearray):
        raise TypeError("bytes need a media type: return Image(data, mime_type) or Audio(data, mime_type)")
    return types.TextContent(text=text_of(value))


def text_of(value: Any) -> str:
    """Return the text that stands for *value*: itself if it is one, its JSON otherwise.

    Raises:
        NotJsonError: *value* holds something that JSON cannot say.
    """
    return value if isinstance(value, str) else encode(value).decode()


def older_result(result: types.CallToolResult, revision: str) -> types.CallToolResult:
    """Return *result* as a peer of the legacy *revision* can read it.

    Structured content is there from 2025-06-18 on, and is an object. Where it has to go, its JSON takes its place, if
    the result has no text of its own.
    """
    content = for_revision(result.content, revision)
    structured = result.structured_content
    if structured is types.UNSET or (_knows_links(revision) and isinstance(structured, Mapping)):
        return result if content == result.content else evolve(result, content=content)
    if not any(isinstance(block, types.TextContent) for block in content):
        content.append(types.TextContent(text=text_of(structured)))
    return evolve(result, content=content, structured_content=types.UNSET)


def for_revision(blocks: Sequence[Any], revision: str) -> list[Any]:
    """Return *blocks* as a peer of *revision* can read them: a kind it does not know becomes a text about it."""
    if _knows_links(revision):
        return list(blocks)
    return [_older(block, audio=revision != types.REVISIONS[0]) for block in blocks]


def _knows_links(revision: str) -> bool:
    return types.REVISIONS.index(revision) >= _LINKS


def _older(block: Any, *, audio: bool) -> Any:
    if isinstance(block, types.ResourceLink):
        described = f": {block.description}" if block.description else ""
        return types.TextContent(text=f"{block.title or block.name}{described} <{block.uri}>")
    if isinstance(block, types.AudioContent) and not audio:
        return types.TextContent(text=f"[a sound of type {block.mime_type}, which this revision cannot carry]")
    return block if block.meta is None else evolve(block, meta=None)
