"""A process with a protected server, without any configuration of its log, that gets a token for another server.

It prints the token.
"""

import sys

import trio

from tests.auth.server.guard_client import guard_client


async def main() -> None:
    client = guard_client()
    token = client.issuer.token(aud="https://other.example")
    for _ in range(20):
        await client(token, address="192.0.2.1")
    sys.stdout.write(token)


trio.run(main)
