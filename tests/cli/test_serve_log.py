"""`trio-mcp serve`: the line on a terminal, the log of requests, and access tokens."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.cli.command import environment, run, terminal
from tests.cli.conftest import Command
from tests.transports.http.asgi_caller import call
from trio_mcp.testing import open_authorization_server
from trio_mcp.wire import encode

PROGRAM = """
import logging
from contextlib import asynccontextmanager
from trio_mcp import Server, types

logging.getLogger("mine").warning("imported")


@asynccontextmanager
async def lifespan(server):
    logging.getLogger("mine").info("opened")
    yield None

server = Server("served", lifespan=lifespan)


@server.tool
async def hello(name: str):
    if name == "nobody":
        raise ValueError("nobody is there")
    if name == "failure":
        return types.CallToolResult(content=[], is_error=True)
    return f"hello {name}"
"""
SERVE = [sys.executable, "-m", "trio_mcp", "serve"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def log_of(program: Path, tool: str, name: str, *options: str) -> list[str]:
    """Call a tool of the served program; return the lines on standard error."""
    done = run("serve", str(program), *options, stdin=encode(call(tool, {"name": name})) + b"\n")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    return done.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("tool", "name", "outcome"),
    [
        ("hello", "ada", "hello: done"),
        ("hello", "nobody", "hello: ValueError: nobody is there"),
        ("hello", "failure", "hello: failed"),
        ("he\nllo", "ada", r"he\\nllo: McpError: .*"),
    ],
)
def test_requests_are_logged_from_info_on(tool: str, name: str, outcome: str, program: Path) -> None:
    log = log_of(program, tool, name, "--log-level", "info")

    (line,) = (each for each in log if " tools/call " in each)
    assert re.fullmatch(rf"\d{{4}}-\S+ \S+ INFO trio_mcp.requests: tools/call {outcome}, [\d.]+ ms", line), log
    assert any("INFO mine: opened" in each for each in log)


@pytest.mark.parametrize("options", [[], ["--log-level", "warning"], ["--log-level", "error"]])
def test_requests_are_not_logged_otherwise(options: list[str], program: Path) -> None:
    log = log_of(program, "hello", "ada", *options)

    assert "tools/call" not in "".join(log)
    assert any("imported" in each for each in log) == ("error" not in options)


async def test_a_terminal_shows_that_the_server_is_ready(program: Path) -> None:
    async with terminal("serve", str(program)) as screen:
        await screen.until("serving served over standard input and output, for a client that starts this command; ")
        await screen.type("\x04")
        assert await screen.end() == 0


def test_nothing_is_printed_where_there_is_no_terminal(program: Path) -> None:
    assert run("serve", str(program)).stderr == b"imported\n"


# --- Access tokens ---


@asynccontextmanager
async def serving(program: Path, *options: str) -> AsyncGenerator[str]:
    """Serve over HTTP, and yield the URL."""
    with trio.fail_after(120):
        line = [*SERVE, str(program), "--http", "0", *options]
        process = await trio.lowlevel.open_process(line, stderr=subprocess.PIPE, env=environment())
        assert process.stderr is not None
        try:
            printed = b""
            while (found := re.search(rb"serving served at (\S+)\n", printed)) is None:
                chunk = await process.stderr.receive_some()
                assert chunk, printed
                printed += chunk
            yield found[1].decode()
            process.terminate()
            assert await process.wait() == 0
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            await process.stderr.aclose()


ADDRESS = "https://mcp.example.org/mcp"


async def test_clients_need_a_token_of_the_issuer_with_the_scopes(program: Path) -> None:
    async def called(url: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        return await trio.to_thread.run_sync(partial(run, "call", "hello", "name=ada", *options, "--", url))

    def bearer(*scopes: str) -> tuple[str, str]:
        token = authorization.issue_token(subject="ada", resource=ADDRESS, scopes=scopes)
        return "--header", f"Authorization: Bearer {token}"

    async with open_authorization_server(users={"ada": "x"}) as authorization:
        options = ("--auth", authorization.issuer, "--auth-url", ADDRESS, "--auth-scope", "use")
        async with serving(program, *options) as url:
            allowed = await called(url, *bearer("use"))
            weak = await called(url, *bearer("other"))
            none = await called(url)

    assert (allowed.returncode, allowed.stdout) == (0, b"hello ada\n"), allowed.stderr
    assert (weak.returncode, none.returncode) == (3, 3)
    assert b"403" in weak.stderr
    assert b"401" in none.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--auth", "https://a.example"], "--auth needs --auth-url URL, the URL by which clients reach this server"),
        (["--auth-url", ADDRESS], "--auth-url can only be used with --auth ISSUER"),
        (["--auth-scope", "x"], "--auth-scope can only be used with --auth ISSUER"),
    ],
)
def test_incomplete_options_are_refused(options: list[str], message: str, program: Path, command: Command) -> None:
    done = command("serve", str(program), "--http", "0", *options)

    assert done.status == 2
    assert message in done.err


def test_an_issuer_that_is_no_url_is_refused(program: Path) -> None:
    done = run("serve", str(program), "--http", "0", "--auth", "login", "--auth-url", ADDRESS)

    assert done.returncode == 2
    assert b"trio-mcp serve: the issuer 'login'" in done.stderr
