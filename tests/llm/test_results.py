"""Results of tools as strings for a language model."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import types
from trio_mcp.llm import result_text

TEXT = types.TextContent(text="one\ntwo")


def blob(**members: Any) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///b", blob="AAAA", **members))


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (TEXT, "one\ntwo"),
        (
            types.ImageContent(data="AAA=", mime_type="image/png"),
            "[an image of type image/png, 2 bytes, which cannot be shown here]",
        ),
        (
            types.AudioContent(data="AA==", mime_type="audio/wav"),
            "[audio of type audio/wav, 1 bytes, which cannot be played here]",
        ),
        (types.ResourceLink(name="n", uri="file:///a"), "[resource n <file:///a>]"),
        (
            types.ResourceLink(name="n", title="Name", description="all of it", uri="file:///a"),
            "[resource Name <file:///a>: all of it]",
        ),
        (
            types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///t", text="its text")),
            "[resource <file:///t>]\nits text",
        ),
        (blob(), "[resource <file:///b>, 3 bytes, which cannot be shown here]"),
        (blob(mime_type="a/b"), "[resource <file:///b> of type a/b, 3 bytes, which cannot be shown here]"),
    ],
)
def test_every_kind_of_content_becomes_text(block: types.ContentBlock, text: str) -> None:
    assert result_text(types.CallToolResult(content=[block, TEXT])) == f"{text}\none\ntwo"


def test_structured_content_is_included_if_there_is_no_text() -> None:
    image = types.ImageContent(data="", mime_type="image/png")
    described = "[an image of type image/png, 0 bytes, which cannot be shown here]"

    assert result_text(types.CallToolResult(content=[], structured_content={"a": [1]})) == '{"a":[1]}'
    assert result_text(types.CallToolResult(content=[], structured_content=None)) == "null"
    assert result_text(types.CallToolResult(content=[TEXT], structured_content={"a": 1})) == "one\ntwo"
    assert result_text(types.CallToolResult(content=[image], structured_content=1)) == f"{described}\n1"


def test_a_failed_result_begins_with_error() -> None:
    assert result_text(types.CallToolResult(content=[TEXT], is_error=True)) == "Error: one\ntwo"
    assert result_text(types.CallToolResult(content=[], is_error=True)) == (
        "Error: the tool failed, and did not say why"
    )


def test_an_empty_result_is_described() -> None:
    assert result_text(types.CallToolResult(content=[])) == "(the tool returned nothing)"
