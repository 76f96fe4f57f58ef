"""A client in its own process that is already signed in and shares its tokens with other clients.

    signed_in_client.py STORAGE URL

For each line on stdin it calls the server once and prints its user name on stdout. No user can sign in.
"""

import sys

import trio

from trio_mcp import FileTokenStorage, OAuth, open_http_client, types


async def refuse_sign_in(url: str) -> None:
    raise AssertionError(f"the user is asked to sign in, at {url}")


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main() -> None:
    storage, url = sys.argv[1:]
    auth = OAuth(storage=FileTokenStorage(storage), show=refuse_sign_in)
    async with open_http_client(url, auth=auth) as client:
        write_line("connected")
        while await trio.to_thread.run_sync(sys.stdin.readline):
            [content] = (await client.call_tool("whoami")).content
            write_line(content.text if isinstance(content, types.TextContent) else "?")


if __name__ == "__main__":
    trio.run(main)
