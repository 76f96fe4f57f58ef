"""A client without any person: ``CLIENT_ID=robot CLIENT_SECRET=... ISSUER=... python machine_client.py URL``.

``CLIENT_KEY``, the path of a private key as PEM, takes the place of the secret: better, because it never leaves this
machine. ``ISSUER`` is the authorization server that knows this client. Nobody else is shown what proves it, whoever the
server at ``URL`` says is responsible. The tokens are bound to a key of this process, so that a stolen one is of no use.
`protected_server.py` is a server for it.
"""

import os
import sys
from pathlib import Path

import trio

from trio_mcp import ClientCredentials, PrivateKey, TrioMcpError, open_http_client


def credentials() -> ClientCredentials:
    """Return what the environment says of this client."""
    key, secret = os.environ.get("CLIENT_KEY"), os.environ.get("CLIENT_SECRET")
    return ClientCredentials(
        os.environ["CLIENT_ID"],
        secret=secret if key is None else None,
        private_key=None if key is None else PrivateKey(Path(key).read_text(encoding="ascii")),
        issuer=os.environ["ISSUER"],
        dpop=True,
    )


async def main(url: str) -> None:
    """Write a note, and count them."""
    async with open_http_client(url, auth=credentials()) as client:
        written = await client.call_tool("write_note", {"text": "I was here."}, raise_on_error=True)
        print("note number", written.structured_content["result"])


if __name__ == "__main__":
    try:
        trio.run(main, sys.argv[1])
    except (IndexError, KeyError, ValueError, OSError) as wrong:
        sys.exit(f"machine_client: {type(wrong).__name__}: {wrong} (see the head of this file)")
    except TrioMcpError as failure:  # such as AuthorizationFailed: the credentials are no good
        sys.exit(f"machine_client: {failure}")
