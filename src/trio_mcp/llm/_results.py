"""What a tool returned, as the text of a chat's tool message: the one kind of content that every interface takes there.

Pictures, sounds and other binary content are described, not given.
"""

from __future__ import annotations

from typing import Any

from .. import types
from ..wire import encode

__all__ = ["bounded", "error_text", "result_text"]


def result_text(result: types.CallToolResult) -> str:
    """Return what a language model is told about *result*.

    Text is given as it is, and so are embedded resources that are text. Structured content is given as JSON where
    there is no text. Other content is described. A result that says `is_error` begins with ``Error:``.
    """
    parts = [_part(block) for block in result.content]
    content: Any = result.structured_content
    if content is not types.UNSET and not any(isinstance(block, types.TextContent) for block in result.content):
        parts.append(encode(content).decode())
    text = "\n".join(parts)
    if result.is_error:
        return error_text(text or "the tool failed, and did not say why")
    return text or "(the tool returned nothing)"


def error_text(text: str) -> str:
    """Return *text* so that a model takes it for the description of a failure."""
    return f"Error: {text}"


def bounded(text: str, max_characters: int) -> str:
    """Return the beginning of *text*, with a note where something was left out."""
    if len(text) <= max_characters:
        return text
    return f"{text[:max_characters]}\n[{len(text) - max_characters} more characters are left out here]"


def _part(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            return f"[an image of type {block.mime_type}, {_size(block.data)} bytes, which cannot be shown here]"
        case types.AudioContent():
            return f"[a sound of type {block.mime_type}, {_size(block.data)} bytes, which cannot be played here]"
        case types.ResourceLink():
            described = f": {block.description}" if block.description else ""
            return f"[resource {block.title or block.name} <{block.uri}>{described}]"
        case _:
            return _resource(block.resource)


def _resource(contents: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(contents, types.TextResourceContents):
        return f"[resource <{contents.uri}>]\n{contents.text}"
    kind = f" of type {contents.mime_type}" if contents.mime_type else ""
    return f"[resource <{contents.uri}>{kind}, {_size(contents.blob)} bytes, which cannot be shown here]"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
