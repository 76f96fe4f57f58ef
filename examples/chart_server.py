"""A server whose tool shows its results as a chart, in hosts that show apps.

Try it with a browser: ``trio-mcp app sales year=2026 examples/chart_server.py``. Other hosts show the text of the
result.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from trio_mcp import Context, Server, types

PAGE = Path(__file__).with_name("chart.html")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FIRST, LAST = 2020, 2026

server = Server("sales", title="Sales", version="1.0", instructions="The sales of tea, by month.")


class Sales(TypedDict):
    """The sales of one year."""

    year: int
    """The year."""
    months: dict[str, int]
    """Thousands of packets, by month."""


@server.app("ui://sales/chart", prefers_border=True)
def chart() -> str:
    """Sales by month, as bars."""
    return PAGE.read_text(encoding="utf-8")


@server.tool(app="ui://sales/chart")
async def sales(year: int, ctx: Context) -> types.CallToolResult:
    """Show the sales of a year, by month.

    Args:
        year: from 2020 to 2026
    """
    found = sales_of(year)
    best = max(found["months"], key=lambda month: found["months"][month])
    text = f"{sum(found['months'].values())},000 packets of tea were sold in {year}, most of them in {best}."
    if ctx.client_shows_apps:
        text += " The user sees the months in a chart."
    else:
        text += " " + ", ".join(f"{month}: {sold}" for month, sold in found["months"].items())
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=found)


@server.tool(visibility=["app"])
async def months(year: int) -> Sales:
    """Return the sales of another year, for the buttons of the chart. The model does not see this tool.

    Args:
        year: from 2020 to 2026
    """
    return sales_of(year)


def sales_of(year: int) -> Sales:
    """Return the sales of a year; they are made up."""
    if not FIRST <= year <= LAST:
        raise ValueError(f"there are no sales of {year}: use a year from {FIRST} to {LAST}")
    sold = {month: 40 + (year * 7 + at * at * 3 + at * year) % 61 for at, month in enumerate(MONTHS)}
    return {"year": year, "months": sold}


if __name__ == "__main__":
    server.run()
