"""A server with authentication: each user has separate notes, and writing requires a further scope.

``python protected_server.py`` also starts an authorization server for development, with one user and one program.
``browser_client.py`` and ``machine_client.py`` are clients for them.

``python protected_server.py --issuer https://login.example.org --url https://notes.example.org/mcp`` accepts the
tokens of another authorization server, which must support the scopes ``notes:read`` and ``notes:write``. Use a proxy
for TLS, or see `serve_http`, which supports TLS as well.
"""

import argparse
from functools import partial

import trio
from attrs import define, field

from trio_mcp import Access, Context, ResourceServer, Server, ToolError, serve_http
from trio_mcp.testing import KnownClient, open_authorization_server

READ, WRITE = "notes:read", "notes:write"
USERS = {"ada": "her password"}
ROBOT = KnownClient("robot", secret="its secret", grant_types=["client_credentials"])  # noqa: S106 # for development only


@define
class Shelf:
    """The notes of all principals."""

    notes: dict[str, list[str]] = field(factory=dict[str, list[str]])

    def of(self, ctx: Context) -> list[str]:
        """Return the notes of the caller."""
        return self.notes.setdefault(access_of(ctx).principal, [])


shelf = Shelf()
server = Server("notes", instructions="Personal notes.")


def access_of(ctx: Context) -> Access:
    """Return the access of the caller. It is missing on a server without authentication, for example over stdio."""
    if ctx.access is None:
        raise RuntimeError("this server requires http_app(auth=...)")
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
    """Delete your notes. A dry run only counts them, and requires no further scope."""
    count = len(shelf.of(ctx))
    if dry_run:
        return f"{count} notes would be deleted"
    if WRITE not in access_of(ctx).scopes:  # the requirement depends on an argument, so the handler checks it
        raise ToolError(f"this requires the scope {WRITE}")
    shelf.of(ctx).clear()
    return f"{count} notes were deleted"


def protection(url: str, issuer: str) -> ResourceServer:
    """Return the protection of the server at *url* with tokens of *issuer*."""
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
    parser.add_argument("--port", type=int, default=8000, help="the port to listen on, at 127.0.0.1")
    parser.add_argument("--url", help="the URL for clients; by default the local URL")
    parser.add_argument("--issuer", help="the authorization server; by default one for development is started")
    options = parser.parse_args()
    url = options.url or f"http://127.0.0.1:{options.port}/mcp"
    serve = partial(serve_http, server, port=options.port)
    if options.issuer is not None:
        await serve(auth=protection(url, options.issuer))
        return
    async with open_authorization_server(users=USERS, clients=[ROBOT]) as authorization:
        print(f"server  {url}", f"issuer  {authorization.issuer}", sep="\n")
        print(*(f"user    {name}, password: {password}" for name, password in USERS.items()), sep="\n")
        print(f"program {ROBOT.client_id}, secret: {ROBOT.secret}", flush=True)
        await serve(auth=protection(url, authorization.issuer))


if __name__ == "__main__":
    trio.run(main)
