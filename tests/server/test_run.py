"""`Server.run`: a whole program in one call, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp import HttpBound, Server, open_client, open_http_client
from trio_mcp.server._serve_http import announcement

PROGRAM = """
import logging
from typing import Annotated
from pydantic import BaseModel, Field
from trio_mcp import Context, Resolve, Server

class Database:
    titles = {"tea": 2.0}

class Hit(BaseModel):
    title: str
    score: float

server = Server("shop", title="The shop")

async def database(ctx: Context) -> Database:
    return Database()

@server.tool
async def search(
    query: str = Field(description="what to look for", min_length=2),
    limit: int = Field(10, ge=1, le=50),
    *,
    db: Annotated[Database, Resolve(database)],
) -> list[Hit]:
    return [Hit(title=title, score=score) for title, score in db.titles.items() if title == query][:limit]

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    server.run(OPTIONS)
"""
FOUND = {"result": [{"title": "tea", "score": 2.0}]}


def program(folder: Path, options: str = "") -> list[str]:
    """Write a program that runs a server, and return the command that starts it."""
    path = folder / "shop.py"
    path.write_text(PROGRAM.replace("OPTIONS", options), encoding="utf-8")
    return [sys.executable, str(path)]


async def test_run_serves_standard_input_and_output(tmp_path: Path) -> None:
    async with open_client(program(tmp_path)) as client:
        assert (await client.call_tool("search", {"query": "tea"})).structured_content == FOUND


def test_run_returns_at_the_end_of_standard_input(tmp_path: Path) -> None:
    done = subprocess.run(program(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(("options", "host"), [("http=0", "127.0.0.1"), ("http=0, host='127.0.0.2'", "127.0.0.2")])
async def test_run_with_a_port_serves_http_until_a_signal_arrives(tmp_path: Path, options: str, host: str) -> None:
    process = await trio.lowlevel.open_process(program(tmp_path, options), stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        said = b""
        while b"/mcp\n" not in said:
            said += await process.stderr.receive_some()
        url = said.decode().partition("serving at ")[2].strip()
        async with open_http_client(url) as client:
            assert (await client.call_tool("search", {"query": "tea"})).structured_content == FOUND
        process.send_signal(signal.SIGINT)
        async for _ in process.stderr:
            pass
        status = await process.wait()
    finally:
        process.kill()
        await process.stderr.aclose()

    assert url.startswith(f"http://{host}:")
    assert status == 0


async def test_run_names_its_url_at_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    (path := tmp_path / "quiet.py").write_text("from trio_mcp import Server\nServer('quiet\\n').run(http=0)\n")
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123, ASYNC230 # a descriptor
        process = await trio.lowlevel.open_process([sys.executable, str(path)], stderr=theirs)
        os.close(theirs)
        try:
            line = await trio.to_thread.run_sync(partial(terminal.read, 200))
            process.send_signal(signal.SIGINT)
            status = await process.wait()
        finally:
            process.kill()

    assert re.fullmatch(rb"serving quiet\? at http://127\.0\.0\.1:\d+/mcp; Ctrl\+C stops it\r\n", line)
    assert status == 0


def test_the_url_is_not_printed_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    service: Any = None

    announcement(Server("s"))(HttpBound(["http://127.0.0.1:8000/mcp"], 8000, service))

    assert capsys.readouterr().err == ""


async def test_run_in_a_trio_program_names_the_function_to_await() -> None:
    with pytest.raises(RuntimeError, match=r"Trio, which runs already: write `await serve_stdio\(server\)`"):
        Server("s").run()
    with pytest.raises(RuntimeError, match=r"write `await serve_http\(server, port=8000\)`"):
        Server("s").run(http=8000)


def test_run_in_an_asyncio_program_names_the_function_for_a_thread() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"asyncio event loop .*`trio\.run\(partial\(serve_stdio, server\)"):
            Server("s").run()
        with pytest.raises(RuntimeError, match=r"`trio\.run\(partial\(serve_http, server, port=8000\)\)` in a thread"):
            Server("s").run(http=8000)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"host": "::1", "path": "/"}, TypeError, r"run\(host=, path=\): only with http=PORT"),
        (
            {"port": 8001, "host": "::1"},
            TypeError,
            r"takes no transport and no port=: write .* server\.run\(http=8001, host='::1'\)",
        ),
        ({"http": True}, TypeError, r"run\(http=True\): must be the number of a port"),
        ({"http": 0, "keepalive": 3}, TypeError, "unknown options: keepalive"),
        ({"http": 0, "host": "::"}, ValueError, "every address"),
    ],
)
def test_options_that_are_not_valid_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Server("s").run(**options)


def test_an_exception_of_the_lifespan_leaves_run_unchanged() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        raise ZeroDivisionError("no database")
        yield

    with pytest.raises(ZeroDivisionError, match="no database"):
        Server("s", lifespan=lifespan).run(http=0)


def test_an_address_in_use_leaves_run_as_an_os_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            Server("s").run(http=port)
