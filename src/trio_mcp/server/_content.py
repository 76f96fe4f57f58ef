"""What a tool returns, as content: helpers for binary blocks, and the forms older revisions lack, said in words."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import evolve, frozen

from .. import types
from ..wire import encode

__all__ = ["RESULT_CLASSES", "Audio", "Content", "Image", "content_blocks", "for_revision", "text_of"]

CONTENT_CLASSES = (
    types.TextContent,
    types.ImageContent,
    types.AudioContent,
    types.ResourceLink,
    types.EmbeddedResource,
)
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
    if isinstance(value, list | tuple) and any(_is_content(item) for item in value):  # pyright: ignore[reportUnknownVariableType] # any user value
        return [_block(item) for item in value]  # pyright: ignore[reportUnknownVariableType] # likewise
    return [_block(value)]


def _is_content(value: Any) -> bool:
    return isinstance(value, (*CONTENT_CLASSES, Image, Audio))


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


def for_revision(blocks: Sequence[Any], revision: str) -> list[Any]:
    """Return *blocks* as a peer of *revision* can read them: a kind it does not know becomes a text about it."""
    place = types.REVISIONS.index(revision)
    if place >= types.REVISIONS.index("2025-06-18"):
        return list(blocks)
    return [_older(block, audio=place >= types.REVISIONS.index("2025-03-26")) for block in blocks]


def _older(block: Any, *, audio: bool) -> Any:
    if isinstance(block, types.ResourceLink):
        described = f": {block.description}" if block.description else ""
        return types.TextContent(text=f"{block.title or block.name}{described} <{block.uri}>")
    if isinstance(block, types.AudioContent) and not audio:
        return types.TextContent(text=f"[a sound of type {block.mime_type}, which this revision cannot carry]")
    return block if block.meta is None else evolve(block, meta=None)
