"""Commands whose server is reached by a URL."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import trio

from tests.cli.command import environment
from tests.cli.conftest import Command
from tests.client.http_origin import Answer, HttpOrigin, ReceivedRequest, modern, served

FAR = "http://127.0.0.1:1/mcp"
"""A URL whose port is closed."""


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--", "ftp://example.org/mcp"], 2, "'ftp://example.org/mcp' is not the address of a server"),
        (["--", "HTTPS://me:secret@example.org/mcp"], 2, "the address of 'example.org' holds a user name"),
        (["--header", "X-Who: me", "--", "run"], 2, "--header needs a URL after --; for a config file"),
        (["--header", "X-Who: me", "--config", "file", "far"], 2, "--header needs a URL after --; for a config file"),
        (["--header", "secret", "--", FAR], 2, "--header: expected NAME:VALUE"),
        (["--header", "a:secret", "--header", "A: 2", "--", FAR], 2, "--header A is given twice"),
        (["--header", "a b:secret", "--", FAR], 2, "headers: 'a b' is not a valid name of a header field"),
        (["--", FAR], 3, f"'server/discover': cannot connect to {FAR}: "),
    ],
)
def test_an_invalid_url_or_header_is_reported_in_one_line(
    arguments: list[str], status: int, line: str, command: Command
) -> None:
    done = command("tools", *arguments)

    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"trio-mcp tools: {line}")
    assert done.err.count("\n") == 1
    assert "secret" not in done.err


def header_reply(request: ReceivedRequest) -> Answer:
    return modern(content=[{"type": "text", "text": request.headers.get("x-who", "missing")}])


async def run(*arguments: str) -> str:
    """Run the command, which succeeds; return what it prints."""
    line = [sys.executable, "-m", "trio_mcp", *arguments]
    done = await trio.run_process(line, capture_stdout=True, env=environment())
    return done.stdout.decode()


async def test_a_server_may_be_given_by_its_url_or_in_a_config_file(tmp_path: Path) -> None:
    tool = {"name": "who", "inputSchema": {"type": "object"}}
    origin = HttpOrigin(replies={"tools/call": header_reply, "tools/list": lambda _: modern(tools=[tool])})

    async with served(origin) as url:
        entry = {"url": url, "headers": {"X-Who": "a file"}}
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"far": entry}}))

        assert await run("call", "who", "--header", "X-Who: me", "--header", "X-B:", "--", url) == "me\n"
        assert await run("call", "who", "--config", str(tmp_path / "servers.json"), "far") == "a file\n"
