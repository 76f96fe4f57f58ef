"""`--login`: the user signs in with a browser, once for all commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import frozen

from tests.auth.protected_server import serving_protected
from tests.cli.command import environment
from tests.cli.conftest import Command
from trio_mcp import Server, serve_http
from trio_mcp.testing import open_authorization_server

FAR = "http://127.0.0.1:1/mcp"
"""A URL whose port is closed."""
BROWSER = """\
#!{python}
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=60).read()
"""
CALL = ("call", "whoami")


@frozen
class Home:
    """The files of a user and a browser program, which opens the given URL and follows redirects."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Home:
        (folder / "browser").write_text(BROWSER.format(python=sys.executable))
        (folder / "browser").chmod(0o755)
        return cls(folder)

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run the command."""
        variables = {"BROWSER": str(self.folder / "browser"), "XDG_DATA_HOME": str(self.folder)}
        line = [sys.executable, "-m", "trio_mcp", *arguments]
        return await trio.run_process(
            line, capture_stdout=True, capture_stderr=True, check=False, env={**environment(), **variables}
        )

    def servers(self, entry: object) -> Sequence[str]:
        """Write a config file with one server; return the end of a command line that names it."""
        path = self.folder / "servers.json"
        path.write_text(json.dumps({"mcpServers": {"far": entry}}))
        return ["--config", str(path), "far"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.create(tmp_path)


async def test_one_sign_in_is_sufficient_for_all_later_commands(home: Home) -> None:
    async with (
        open_authorization_server(auto_consent=True, users={"ada": "x"}) as authorization,
        serving_protected(authorization.issuer) as url,
    ):
        first = await home.run(*CALL, "--login", "--", url)
        second = await home.run(*CALL, "--login", "--", url)
        third = await home.run(*CALL, "--login", *home.servers({"url": url}))

    assert (first.returncode, first.stdout) == (0, b"ada\n"), first.stderr
    printed = first.stderr.decode().splitlines()
    assert printed[0] == "To sign in at 127.0.0.1, use the page that your browser opens, or visit:"
    assert printed[1].startswith(f"    {authorization.issuer}/authorize?")
    assert len(printed) == 2
    for later in (second, third):
        assert (later.returncode, later.stdout, later.stderr) == (0, b"ada\n", b"")
    assert len(authorization.asked("authorize")) == 1
    (registered,) = authorization.asked("register")
    assert registered.parameters["client_name"] == "trio-mcp"


async def test_the_error_after_a_denial_suggests_the_login_option(home: Home) -> None:
    async with (
        open_authorization_server(auto_consent=True) as authorization,
        serving_protected(authorization.issuer) as url,
    ):
        done = await home.run(*CALL, "--", url)

    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"trio-mcp call: HTTP status 401")
    assert done.stderr.endswith(b" (try --login)\n")
    assert done.stderr.count(b"\n") == 1
    assert authorization.requests == []


async def test_the_error_of_a_server_without_authentication_does_not_suggest_the_login_option(home: Home) -> None:
    server = Server("open")
    server.tool(name="burn", scopes=["write"])(lambda: None)
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0))
        done = await home.run("call", "burn", "--", bound.url)
        await bound.stop()

    assert done.returncode == 3
    assert b"has no authentication: serve it with auth=, or with --auth\n" in done.stderr


async def test_a_failed_sign_in_is_reported_in_one_line_with_status_3(home: Home) -> None:
    async with (
        open_authorization_server(auto_consent=True, policy=lambda ask: None) as authorization,
        serving_protected(authorization.issuer) as url,
    ):
        done = await home.run(*CALL, "--login", "--", url)

    *shown, line = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, len(shown)) == (3, b"", 2)
    assert line.startswith("trio-mcp call: ")
    assert "access_denied" in line
    assert "--login" not in line


async def test_a_cancelled_sign_in_ends_the_command(home: Home) -> None:
    async with (
        open_authorization_server() as authorization,
        serving_protected(authorization.issuer) as url,
        trio.open_nursery() as nursery,
    ):
        line = [sys.executable, "-m", "trio_mcp", *CALL, "--login", "--", url]
        variables = {"BROWSER": "true", "XDG_DATA_HOME": str(home.folder)}
        process = await nursery.start(
            partial(trio.run_process, line, stderr=subprocess.PIPE, check=False, env={**environment(), **variables})
        )
        printed = b""
        async for chunk in process.stderr:
            if b"&state=" not in printed and b"&state=" in printed + chunk:
                process.send_signal(signal.SIGINT)
            printed += chunk

    assert process.returncode == 130
    assert printed.endswith(b"\ntrio-mcp call: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--", "run"], "--login needs a server with a URL"),
        (["--header", "authorization: Bearer secret", "--", FAR], "--login and --header Authorization exclude"),
    ],
)
def test_a_login_option_without_effect_is_refused_in_one_line(
    arguments: Sequence[str], line: str, command: Command
) -> None:
    done = command(*CALL, "--login", *arguments)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"trio-mcp call: {line}")
    assert done.err.count("\n") == 1
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"command": "run"},
            "server 'far': only a server with a 'url' accepts credentials; this one is started as a process",
        ),
        (
            {"url": FAR, "headers": {"Authorization": "Bearer secret"}},
            "server 'far': auth and an Authorization header exclude",
        ),
    ],
)
def test_the_login_option_is_refused_for_a_config_entry_that_excludes_it(
    entry: object, message: str, home: Home, command: Command
) -> None:
    done = command(*CALL, "--login", *home.servers(entry))

    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert "secret" not in done.err
