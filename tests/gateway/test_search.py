"""Tool search: when tools are replaced by two that find and use them, what these find, and whom they serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trio_mcp import Access, Client, Context, Server, ToolFailed, open_client, types
from trio_mcp.gateway import Gateway, ToolSearch


def city_server() -> Server:
    server = Server("city")

    @server.tool
    async def weather(city: str, ctx: Context) -> str:
        """Return the forecast for a city."""
        await ctx.report_progress(1)
        return f"sunny in {city}"

    for number in range(30):

        async def multiply(factor: int, number: int = number) -> int:
            return factor * number

        server.tool(name=f"multiply_{number}", description="Multiply a number.")(multiply)
    return server


def gateway(at_most_tokens: int = 500, **options: Any) -> Gateway:
    front = Gateway("front", search=ToolSearch(at_most_tokens=at_most_tokens, at_once=2), **options)
    front.mount(city_server())
    return front


async def names(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


async def find(client: Client, query: str, **options: Any) -> list[str]:
    found: Any = (await client.call_tool("find_tools", {"query": query, **options})).structured_content
    return [tool["name"] for tool in found["tools"]]


async def test_tools_that_fit_are_listed_as_they_are() -> None:
    async with open_client(gateway(100_000)) as client:
        assert len(await names(client)) == 31


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_more_tools_than_fit_are_replaced_by_two(revision: str) -> None:
    async with open_client(gateway(), revision=revision) as client:
        assert await names(client) == ["find_tools", "use_tool"]
        assert await names(client) == ["find_tools", "use_tool"]


async def test_a_search_returns_the_tools_that_fit_best() -> None:
    async with open_client(gateway()) as client:
        found: Any = (await client.call_tool("find_tools", {"query": "forecast"})).structured_content
        assert (
            found["tools"]
            == [
                {
                    "name": "weather",
                    "description": "Return the forecast for a city.",
                    "inputSchema": {
                        "type": "object",
                        "properties": {"city": {"type": "string", "title": "City"}},
                        "required": ["city"],
                    },
                }
            ]
            or found["tools"][0]["name"] == "weather"
        )
        assert len(await find(client, "multiply a number")) == 2
        assert len(await find(client, "multiply a number", at_most=7)) == 7
        nothing = await client.call_tool("find_tools", {"query": "zebra"})
    assert nothing.content == [types.TextContent(text="no tool fits; try other words")]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_found_tool_is_used_with_its_progress(revision: str) -> None:
    seen: list[float] = []

    async def note(progress: types.ProgressNotificationParams) -> None:
        seen.append(progress.progress)

    async with open_client(gateway(), revision=revision) as client:
        arguments = {"name": "weather", "arguments": {"city": "Rome"}}
        used = await client.call_tool("use_tool", arguments, on_progress=note)
        direct = await client.call_tool("weather", {"city": "Oslo"})

    assert used.content == [types.TextContent(text="sunny in Rome")]
    assert direct.content == [types.TextContent(text="sunny in Oslo")]
    assert seen == [1]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("use_tool", {"name": "wether"}, "there is no tool 'wether'"),
        ("use_tool", {}, "takes the name of a tool"),
        ("use_tool", {"name": "weather", "arguments": "Rome"}, "takes the name of a tool"),
        ("find_tools", {}, "takes a query"),
        ("find_tools", {"query": "x", "at_most": 0}, "takes a query"),
    ],
)
async def test_arguments_that_do_not_fit_are_explained_to_the_model(
    tool: str, arguments: dict[str, Any], message: str
) -> None:
    async with open_client(gateway()) as client:
        with pytest.raises(ToolFailed, match=message):
            await client.call_tool(tool, arguments, raise_on_error=True)


async def test_tools_of_the_gateway_itself_are_always_listed_also_page_by_page() -> None:
    front = gateway(page_size=1)

    @front.tool
    async def about() -> str:
        return "a gateway"

    async with open_client(front) as client:
        assert await names(client) == ["about", "find_tools", "use_tool"]


async def test_what_a_caller_does_not_see_is_not_found() -> None:
    def visible(entry: Any, _: Access | None) -> bool:
        return bool(entry.name != "weather")

    front = Gateway("front", search=ToolSearch(at_most_tokens=100))
    front.mount(city_server(), visible=visible)
    async with open_client(front) as client:
        assert await names(client) == ["find_tools", "use_tool"]
        assert await find(client, "forecast") == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolSearch(at_most_tokens=0),
        lambda: ToolSearch(at_most_tokens=True),
        lambda: ToolSearch(at_most_tokens=10, at_once=0),
    ],
)
def test_numbers_out_of_range_are_refused(make: Callable[[], ToolSearch]) -> None:
    with pytest.raises(ValueError, match="must be an integer of at least 1"):
        make()
