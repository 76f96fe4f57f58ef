"""A first client as programs of FastMCP have it; its arguments are the command of the server."""

# ruff: noqa: T201 # a program prints
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# Type checkers run where this SDK is not installed.

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    async with Client(StdioTransport(command=sys.argv[1], args=sys.argv[2:])) as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("add", {"a": 1, "b": 2})).structured_content)
        print((await client.read_resource("greeting://Ada"))[0].text)
        print((await client.get_prompt("greet_user", {"name": "Ada"})).messages[0].content.text)


asyncio.run(main())
