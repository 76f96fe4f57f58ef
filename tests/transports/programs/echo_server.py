"""A server that echoes its input in capitals, and prints to standard output as libraries do."""

import sys

import trio

from trio_mcp.transports import claim_stdio


async def main() -> None:
    async with claim_stdio() as stream:
        async for chunk in stream:
            print("stray")  # noqa: T201 # the tests check where it goes
            await stream.send_all(bytes(chunk).upper())
    sys.stderr.write("ended\n")


if __name__ == "__main__":
    trio.run(main)
