import sys
import trio
from trio_mcp import open_client


async def main() -> None:
    async with open_client([sys.executable, "server.py"]) as client:
        print(client.revision, client.server_info)
        async for tool in client.tools():            # walks every page
            print(tool.name, tool.description)
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(result.structured_content)             # {'result': 3}

        with trio.move_on_after(1):                  # the server's handler is cancelled too
            await client.call_tool("crunch", {"steps": 10**6})

        async with client.open_call("crunch", {"steps": 5}) as call:
            async for update in call.updates:        # in order, before the result
                print(update.progress, update.message)
            print(await call.result())


if __name__ == "__main__":
    trio.run(main)
