"""A client without a user: ``CLIENT_ID=robot CLIENT_SECRET=... ISSUER=... python machine_client.py URL``.

``CLIENT_KEY``, the path of a private key in PEM format, may replace the secret; this is safer, because the key is never
sent. ``ISSUER`` is the authorization server where the client is registered; the credentials are sent only to it, even
if the server at ``URL`` names another one. The tokens are bound to a key of this process, so a stolen token cannot be
used. `protected_server.py` is a server for this client.
"""

import os
import sys
from pathlib import Path

import trio

from trio_mcp import ClientCredentials, PrivateKey, TrioMcpError, open_http_client


def credentials() -> ClientCredentials:
    """Return the credentials in the environment variables."""
    key, secret = os.environ.get("CLIENT_KEY"), os.environ.get("CLIENT_SECRET")
    return ClientCredentials(
        os.environ["CLIENT_ID"],
        secret=secret if key is None else None,
        private_key=None if key is None else PrivateKey(Path(key).read_text(encoding="ascii")),
        issuer=os.environ["ISSUER"],
        dpop=True,
    )


async def main(url: str) -> None:
    """Write a note and print the number of notes."""
    async with open_http_client(url, auth=credentials()) as client:
        written = await client.call_tool("write_note", {"text": "I was here."}, raise_on_error=True)
        print("note number", written.structured_content["result"])


if __name__ == "__main__":
    try:
        trio.run(main, sys.argv[1])
    except (IndexError, KeyError, ValueError, OSError) as wrong:
        sys.exit(f"machine_client: {type(wrong).__name__}: {wrong} (see the docstring of this file)")
    except TrioMcpError as failure:  # for example AuthorizationFailed: the credentials are invalid
        sys.exit(f"machine_client: {failure}")
