"""A first client as programs of the official SDK 1.x have it; its arguments are the command of the server."""

# ruff: noqa: T201 # a program prints
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# Type checkers run where this SDK is not installed.

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


async def main() -> None:
    parameters = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        result = await session.call_tool("add", {"a": 1, "b": 2})
        print(result.structuredContent)
        print((await session.read_resource("greeting://Ada")).contents[0].text)
        print((await session.get_prompt("greet_user", {"name": "Ada"})).messages[0].content.text)


asyncio.run(main())
