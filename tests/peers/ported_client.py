"""The clients in `python/ported_*_client.py`, ported by the pages about these SDKs."""

# ruff: noqa: T201 # a program prints

import sys

import trio

from trio_mcp import open_client, types


async def main() -> None:
    async with open_client(sys.argv[1:]) as client:
        print([tool.name async for tool in client.tools()])
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(result.structured_content)
        (contents,) = (await client.read_resource("greeting://Ada")).contents
        assert isinstance(contents, types.TextResourceContents)
        print(contents.text)
        (message,) = (await client.get_prompt("greet_user", {"name": "Ada"})).messages
        assert isinstance(message.content, types.TextContent)
        print(message.content.text)


trio.run(main)
