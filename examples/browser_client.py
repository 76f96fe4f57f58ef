"""A client for a person, who signs in with a browser: ``python browser_client.py http://127.0.0.1:8000/mcp Buy tea.``.

It writes the words after the URL as a note, if there are any, and shows all notes; `protected_server.py` is a server
for it. The browser opens when the server wants to know who asks, once: what it brings is kept in ``--tokens FILE``, in
the user's own folder for such things by default. To write takes more than to read, so that may ask once more.

Where no browser can be opened, ``--print`` prints the address. A browser has to find its way back to this machine: with
``--redirect-uri http://127.0.0.1:7777/callback`` it is always the same port, which ``ssh -L`` can forward.
"""

import argparse
import sys
from pathlib import Path

import trio

from trio_mcp import FileTokenStorage, OAuth, TrioMcpError, open_http_client
from trio_mcp.auth import open_browser, print_url


async def main() -> None:
    """Write a note, and show all."""
    parser = argparse.ArgumentParser(description="A client that a person signs in with.")
    parser.add_argument("url", help="of the server")
    parser.add_argument("words", nargs="*", help="the note to write")
    parser.add_argument("--print", action="store_true", dest="headless", help="print where to sign in")
    parser.add_argument("--redirect-uri", help="where the browser comes back to, on this machine")
    parser.add_argument("--tokens", type=Path, help="the file that remembers who you are")
    options = parser.parse_args()

    auth = OAuth(
        client_name="Notes on the command line",
        storage=FileTokenStorage() if options.tokens is None else FileTokenStorage(options.tokens),
        show=print_url if options.headless else open_browser,
        redirect_uri=options.redirect_uri,
    )
    async with open_http_client(options.url, auth=auth) as client:
        if options.words:
            await client.call_tool("write_note", {"text": " ".join(options.words)}, raise_on_error=True)
        notes = await client.call_tool("read_notes", raise_on_error=True)
        for note in notes.structured_content["result"]:
            print("-", note)


if __name__ == "__main__":
    try:
        trio.run(main)
    except TrioMcpError as failure:  # such as AuthorizationFailed: nobody has signed in, or they said no
        sys.exit(f"browser_client: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
