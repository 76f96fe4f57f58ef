"""The content of sampling messages in each revision."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trio_mcp import types
from trio_mcp.wire import sampling_content

TEXT = types.TextContent(text="hi")
BLOCKS: dict[str, tuple[Any, str]] = {
    "TextContent": (TEXT, "2024-11-05"),
    "ImageContent": (types.ImageContent(data="", mime_type="image/png"), "2024-11-05"),
    "AudioContent": (types.AudioContent(data="", mime_type="audio/wav"), "2025-03-26"),
    "ToolUseContent": (types.ToolUseContent(id="1", name="n", input={}), "2025-11-25"),
    "ToolResultContent": (types.ToolResultContent(tool_use_id="1", content=[]), "2025-11-25"),
}


@pytest.mark.parametrize("revision", types.REVISIONS)
@pytest.mark.parametrize("name", BLOCKS)
def test_content_of_later_revisions_is_refused_and_a_single_block_needs_no_list(name: str, revision: str) -> None:
    block, since = BLOCKS[name]
    if revision < since:
        refused = re.escape(f"{name}, which revision {revision} does not have")
        contents: list[Any] = [block, [block], [TEXT, block]]
        for content in contents:
            with pytest.raises(ValueError, match=refused):
                sampling_content(content, revision)
        return
    listed: list[Any] = [block]
    assert sampling_content(listed, revision) == (listed if revision >= "2025-11-25" else block)
    assert sampling_content(block, revision) is block


@pytest.mark.parametrize("revision", types.REVISIONS)
@pytest.mark.parametrize("blocks", [[], [TEXT, TEXT]])
def test_several_blocks_or_none_need_a_revision_with_lists(blocks: list[Any], revision: str) -> None:
    if revision >= "2025-11-25":
        assert sampling_content(blocks, revision) == blocks
    else:
        with pytest.raises(ValueError, match=f"{len(blocks)} blocks of content; revision {revision} has room for one"):
            sampling_content(blocks, revision)
