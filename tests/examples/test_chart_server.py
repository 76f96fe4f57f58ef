"""The example with an app: its text without a view, its data for the view, and the link between both."""

from __future__ import annotations

import sys

import pytest

from tests.examples.test_examples import EXAMPLES
from trio_mcp import AppHost, open_client, types
from trio_mcp.llm import load_toolkit

CHART = [sys.executable, str(EXAMPLES / "chart_server.py")]


@pytest.mark.parametrize(
    ("apps", "end"),
    [(AppHost(), "The user sees the months in a chart."), (None, "Nov: 73, Dec: 88")],
    ids=["app", "text"],
)
async def test_the_text_of_the_chart_has_what_the_client_does_not_show(apps: AppHost | None, end: str) -> None:
    async with open_client(CHART, apps=apps) as client:
        result = await client.call_tool("sales", {"year": 2026}, raise_on_error=True)

    (text,) = result.content
    assert isinstance(text, types.TextContent)
    assert "packets of tea were sold in 2026, most of them in " in text.text
    assert text.text.endswith(end)


async def test_the_chart_is_an_app_whose_buttons_have_a_tool_of_their_own() -> None:
    async with open_client(CHART, apps=AppHost()) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        app = await client.app_of(tools["sales"])
        offered = [each["function"]["name"] for each in (await load_toolkit(client)).functions]
        months = await client.call_tool("months", {"year": 2025}, raise_on_error=True)
        wrong = await client.call_tool("months", {"year": 1900})

    assert app is not None
    assert app.html == (EXAMPLES / "chart.html").read_text(encoding="utf-8")
    assert app.prefers_border is True
    assert offered == ["sales"]
    assert len(months.structured_content["months"]) == 12
    assert wrong.is_error
