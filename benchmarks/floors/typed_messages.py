"""The attrs classes of the reference floor, and the only conversion they get: cattrs, with its defaults."""

from __future__ import annotations

from typing import Any

import cattrs
from attrs import field, frozen

__all__ = ["Blob", "CallParams", "CallResult", "ListResult", "ReadParams", "ReadResult", "Text", "Tool", "converter"]


@frozen
class CallParams:
    """What `tools/call` says."""

    name: str
    arguments: dict[str, Any]


@frozen
class Text:
    """A text block."""

    text: str
    type: str = "text"


@frozen
class CallResult:
    """What `tools/call` gives."""

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
    """What `tools/list` gives."""

    tools: list[Tool]


@frozen
class ReadParams:
    """What `resources/read` says."""

    uri: str


@frozen
class Blob:
    """The contents of a resource."""

    uri: str
    blob: str
    mime_type: str = field(default="application/octet-stream", alias="mimeType")


@frozen
class ReadResult:
    """What `resources/read` gives."""

    contents: list[Blob]


converter = cattrs.Converter(use_alias=True)
"""For all of them, in both directions."""
