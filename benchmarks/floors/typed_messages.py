"""The attrs classes of the reference floor, and their conversion by cattrs with its defaults."""

from __future__ import annotations

from typing import Any

import cattrs
from attrs import field, frozen

__all__ = ["Blob", "CallParams", "CallResult", "ListResult", "ReadParams", "ReadResult", "Text", "Tool", "converter"]


@frozen
class CallParams:
    """The params of `tools/call`."""

    name: str
    arguments: dict[str, Any]


@frozen
class Text:
    """A text block."""

    text: str
    type: str = "text"


@frozen
class CallResult:
    """The result of `tools/call`."""

    content: list[Text]
    structured: Any = field(default=None, alias="structuredContent")
    is_error: bool = field(default=False, alias="isError")


@frozen
class Tool:
    """One tool of the list."""

    name: str
    description: str
    input_schema: dict[str, Any] = field(alias="inputSchema")
    output_schema: dict[str, Any] = field(alias="outputSchema")


@frozen
class ListResult:
    """The result of `tools/list`."""

    tools: list[Tool]


@frozen
class ReadParams:
    """The params of `resources/read`."""

    uri: str


@frozen
class Blob:
    """The contents of a resource."""

    uri: str
    blob: str
    mime_type: str = field(default="application/octet-stream", alias="mimeType")


@frozen
class ReadResult:
    """The result of `resources/read`."""

    contents: list[Blob]


converter = cattrs.Converter(use_alias=True)
"""The converter of all classes, in both directions."""
