"""A server that wants to know who asks: everybody has notes of their own, and writing takes more than reading.

``python protected_server.py`` is for trying it out: an authorization server for development runs beside it, with one
user and one program. ``browser_client.py`` and ``machine_client.py`` are their clients.

``python protected_server.py --issuer https://login.example.org --url https://notes.example.org/mcp`` takes the tokens
of an authorization server of yours, which has to know the scopes ``notes:read`` and ``notes:write``. Put what speaks
TLS before it, or see `serve_http`, which can do that too.
"""

import argparse
from functools import partial

import trio
from attrs import define, field

from trio_mcp import Access, Context, ResourceServer, Server, ToolError, serve_http
from trio_mcp.testing import KnownClient, open_authorization_server

READ, WRITE = "notes:read", "notes:write"
USERS = {"ada": "her password"}
ROBOT = KnownClient("robot", secret="its secret", grant_types=["client_credentials"])  # noqa: S106 # known to everybody


@define
class Shelf:
    """Everybody's notes, by whose they are."""

    notes: dict[str, list[str]] = field(factory=dict[str, list[str]])

    def of(self, ctx: Context) -> list[str]:
        """Return the notes of whoever asks."""
        return self.notes.setdefault(asking(ctx).principal, [])


shelf = Shelf()
server = Server("notes", instructions="Notes of one's own.")


def asking(ctx: Context) -> Access:
    """Return who asks. On a protected server that is always known; over stdio, say, nobody is."""
    if ctx.access is None:
        raise RuntimeError("this server is for http_app(auth=...) alone")
    return ctx.access


@server.tool
async def read_notes(ctx: Context) -> list[str]:
    """Read your notes."""
    return shelf.of(ctx)


@server.tool(scopes=[WRITE])
async def write_note(text: str, ctx: Context) -> int:
    """Write a note; returns how many there are."""
    shelf.of(ctx).append(text)
    return len(shelf.of(ctx))


@server.tool
async def forget_notes(ctx: Context, *, dry_run: bool = True) -> str:
    """Throw your notes away. A dry run only counts them, so that it takes less."""
    count = len(shelf.of(ctx))
    if dry_run:
        return f"{count} notes would go"
    if WRITE not in asking(ctx).scopes:  # what depends on the arguments, the handler decides
        raise ToolError(f"this takes the scope {WRITE}")
    shelf.of(ctx).clear()
    return f"{count} notes have gone"


def protection(url: str, issuer: str) -> ResourceServer:
    """Return what protects the server at *url* by the tokens of *issuer*."""
    return ResourceServer(
        url,
        issuers=[issuer],
        scopes=[READ],
        scopes_supported=[READ, WRITE],
        implied_scopes={WRITE: [READ]},
        name="Notes",
    )


async def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A protected server.")
    parser.add_argument("--port", type=int, default=8000, help="where it listens, on 127.0.0.1")
    parser.add_argument("--url", help="by which clients reach it; by default that of this machine")
    parser.add_argument("--issuer", help="whose tokens it takes; by default those of a server for development")
    options = parser.parse_args()
    url = options.url or f"http://127.0.0.1:{options.port}/mcp"
    serve = partial(serve_http, server, port=options.port)
    if options.issuer is not None:
        await serve(auth=protection(url, options.issuer))
        return
    async with open_authorization_server(users=USERS, clients=[ROBOT]) as authority:
        print(f"server  {url}", f"issuer  {authority.issuer}", sep="\n")
        print(*(f"user    {name}, password: {password}" for name, password in USERS.items()), sep="\n")
        print(f"program {ROBOT.client_id}, secret: {ROBOT.secret}", flush=True)
        await serve(auth=protection(url, authority.issuer))


if __name__ == "__main__":
    trio.run(main)
