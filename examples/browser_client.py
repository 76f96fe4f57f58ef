"""A client whose user signs in with a browser: ``python browser_client.py http://127.0.0.1:8000/mcp Buy tea.``.

The program writes the words after the URL, if there are any, as a note and prints all notes. `protected_server.py` is a
server for it. When the server requires authentication, the program opens a browser. It stores the tokens in
``--tokens FILE``, by default in the data folder of the user, so the next run needs no browser. Writing requires a
further scope, so the first note may open the browser again.

If no browser can be opened, ``--print`` prints the URL. The browser must be able to reach this machine: with
``--redirect-uri http://127.0.0.1:7777/callback`` the port is fixed, so that ``ssh -L`` can forward it.
"""

import argparse
import sys
from pathlib import Path

import trio

from trio_mcp import FileTokenStorage, OAuth, TrioMcpError, open_http_client
from trio_mcp.auth import open_browser, print_url


async def main() -> None:
    """Write a note and print all notes."""
    parser = argparse.ArgumentParser(description="A client whose user signs in with a browser.")
    parser.add_argument("url", help="the URL of the server")
    parser.add_argument("words", nargs="*", help="the note to write")
    parser.add_argument(
        "--print", action="store_true", dest="headless", help="print the sign-in URL instead of opening a browser"
    )
    parser.add_argument("--redirect-uri", help="the local URL that the browser is redirected to")
    parser.add_argument("--tokens", type=Path, help="the file that stores the tokens")
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
    except TrioMcpError as failure:  # for example AuthorizationFailed: the user did not sign in or denied access
        sys.exit(f"browser_client: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
