"""The apps extension: servers, clients and the wire carry its members; a host renders them.

Specification: https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interaction.openers import Opener
from trio_mcp import Context, Server, types

UI = "io.modelcontextprotocol/ui"
PAGE, MEDIA_TYPE = "ui://weather/view.html", "text/html;profile=mcp-app"
FIRST_META_OF_TOOLS = "2025-06-18"
SETTINGS: dict[str, Any] = {"mimeTypes": [MEDIA_TYPE]}
TOOL_META: dict[str, Any] = {"ui": {"resourceUri": PAGE, "visibility": ["model", "app"]}, "com.example/odd": [1, None]}
PAGE_META: dict[str, Any] = {"ui": {"csp": {"connectDomains": ["https://api.example"]}, "prefersBorder": True}}


def make_server() -> Server:
    server = Server("weather", extensions={UI: {}})

    @server.tool(meta=TOOL_META)
    async def weather(city: str, ctx: Context) -> types.CallToolResult:
        shows = ctx.extension(UI) is not None
        text = types.TextContent(text=f"Fine in {city}.")
        return types.CallToolResult(content=[text], meta={"ui/shown": shows, "asked": dict(ctx.meta).get("ui/mode")})

    @server.resource(PAGE, mime_type=MEDIA_TYPE)
    async def view() -> types.TextResourceContents:
        return types.TextResourceContents(uri=PAGE, mime_type=MEDIA_TYPE, text="<p>Fine.</p>", meta=PAGE_META)

    return server


@pytest.mark.requirement("D.3-P1")
@pytest.mark.parametrize("revision", types.REVISIONS)
@pytest.mark.parametrize("extensions", [None, {UI: SETTINGS}])
async def test_unknown_meta_passes_and_tools_return_content_with_and_without_a_view(
    opener: Opener, revision: str, extensions: Any
) -> None:
    async with opener(make_server(), revision=revision, extensions=extensions) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("weather", {"city": "Rome"}, meta={"ui/mode": "inline"})
        (contents,) = (await client.read_resource(PAGE)).contents

    if revision >= FIRST_META_OF_TOOLS:
        assert tool.meta == TOOL_META
        assert contents.meta == PAGE_META
    assert contents.mime_type == MEDIA_TYPE
    assert result.content == [types.TextContent(text="Fine in Rome.")]
    assert result.meta is not None
    assert result.meta["asked"] == "inline"
    assert result.meta["ui/shown"] is (extensions is not None)
