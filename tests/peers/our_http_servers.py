"""Our servers over HTTP in one process: ``python our_http_servers.py FOLDER``; databases are created in FOLDER.

Prints one line, a JSON object of their URLs by name, and serves until standard input ends. The object also has a token
for `tour-protected`.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import trio

from examples import library_server
from tests.conformance.runner.haproxy import balanced
from tests.peers import asking_server
from tests.peers.conftest import free_port
from tests.peers.tour_server import make_server
from trio_mcp import Context, MemoryEventStore, MemoryShared, ResourceServer, Server, SessionSettings, serve_http
from trio_mcp.cli.demo import database_file, sqlite_server
from trio_mcp.testing import open_authorization_server

RESUMABLE = SessionSettings(event_store=MemoryEventStore(), retry_seconds=0.01)

polled = Server("polled")


@polled.tool
async def be_patient(steps: int, ctx: Context) -> str:
    """Close the stream; progress and the result wait until the client reconnects."""
    await ctx.close_stream()
    for step in range(1, steps + 1):
        await ctx.report_progress(step, total=steps)
    return "thank you"


async def main(folder: Path) -> None:
    """Serve all of them."""
    async with AsyncExitStack() as stack, open_authorization_server() as authority, trio.open_nursery() as nursery:
        urls: dict[str, str] = {}

        async def serve(name: str, server: Server, *, port: int = 0, **options: Any) -> None:
            bound = await nursery.start(partial(serve_http, server, port=port, **options))
            urls[name] = bound.url

        await serve("asking-parked", asking_server.server, asking="parked")
        await serve("asking-replayed", asking_server.server, asking="replayed")
        await serve("polled", polled, sessions=RESUMABLE)
        for era in ("legacy", "auto"):  # each has its own data
            with database_file(str(folder / f"{era}.db")) as path:
                await serve(f"sqlite-{era}", sqlite_server(path))
            await serve(f"library-{era}", library_server.server)
        await serve("tour", make_server())
        await serve("tour-resumable", make_server(resumable=True), sessions=RESUMABLE)
        if shutil.which("haproxy") is not None:  # else the session leaves out what needs it
            shared = MemoryShared()
            for number in range(3):
                await serve(f"node-{number}", make_server(), shared=shared, asking="parked")
            nodes = [urls.pop(f"node-{number}") for number in range(3)]
            urls["tour-nodes"] = await stack.enter_async_context(balanced(nodes, folder))
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        await serve("tour-protected", make_server(), port=port, auth=ResourceServer(url, issuers=[authority.issuer]))
        urls["token"] = authority.issue_token(resource=url)
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
