"""Common mistakes with processes and addresses: each error names the cause and the cure."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.transports.http.hypercorn.test_tls import make_certificate
from trio_mcp import (
    ConnectionBroken,
    HttpBound,
    HttpStatusError,
    RequestTimedOut,
    Server,
    ServerExited,
    TimeLimits,
    open_client,
    open_clients,
    open_stdio_client,
    serve_http,
)


async def refusal(target: Any, expected: type[Exception] = Exception, **options: Any) -> str:
    """Connect, which fails; return the message."""
    with pytest.raises(expected) as raised, trio.fail_after(60):
        async with open_client(target, **options):
            raise AssertionError
    return str(raised.value)


# --- Commands ---


@pytest.mark.parametrize(("name", "interpreter"), [("ok.py", "python"), ("ok.js", "node")])
async def test_a_script_that_is_no_program_is_named_with_its_interpreter(
    name: str, interpreter: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("")
    cure = f"it is a file for {interpreter}, so put that first, as in: {interpreter}"

    assert f"{cure} {tmp_path / name}" in await refusal([str(tmp_path / name)], PermissionError)
    (tmp_path / name).chmod(0o755)  # it has no line that names its interpreter
    assert f"{cure} {tmp_path / name}" in await refusal([str(tmp_path / name)], OSError)
    with pytest.raises(FileNotFoundError, match=f"cannot start '{name}': .*; {cure} {name}"):
        async with open_stdio_client([name], cwd=tmp_path):
            raise AssertionError


async def test_a_command_in_one_string_is_told_to_separate_its_arguments() -> None:
    message = await refusal(["python server.py"], FileNotFoundError)

    assert "; the program and each of its arguments are given separately" in message


async def test_a_program_that_does_not_exist_is_named_without_a_guess() -> None:
    assert (await refusal(["no-such-program"], FileNotFoundError)).endswith("directory: 'no-such-program'")


def cli(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trio_mcp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)


def test_the_command_line_names_the_interpreter_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "ok.py").write_text("")

    done = cli("tools", "--", "ok.py", cwd=tmp_path)

    assert done.returncode == 3
    assert done.stderr.endswith("it is a file for python, so put that first, as in: python ok.py\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tools", "node", "server.js"], "write -- before its command or URL, as in -- node server.js"),
        (
            ["info", "--json", "http://localhost/mcp"],
            "write -- before its command or URL, as in -- http://localhost/mcp",
        ),
        (["call", "add", "a=1", "node", "server.js"], "write: trio-mcp call add a=1 -- node server.js"),
        (["call", "add", "a=1"], "add -- and its command or URL, as in -- python server.py"),
    ],
)
def test_a_missing_pair_of_dashes_is_named(arguments: Sequence[str], words: str) -> None:
    done = cli(*arguments)

    assert done.returncode == 2
    assert words in done.stderr


# --- Servers that do not serve ---

COUNTED = "from pathlib import Path; file = Path('starts'); file.write_text(f'{file.read_text()}x'); "


async def test_a_program_that_ends_without_serving_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    message = await refusal([sys.executable, "-c", "print('hello')"], ServerExited)

    assert message == (
        "the server process exited with status 0 (it ended by itself before it answered: does the program serve, as "
        "with serve_stdio?)"
    )
    assert "not a message" in caplog.text
    assert "hello" in caplog.text


def test_a_child_that_ends_at_once_is_started_once_and_its_words_are_shown_once(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("")
    program = f"{COUNTED} raise SystemExit('no database')"

    done = cli("tools", "--", sys.executable, "-c", program, cwd=tmp_path)

    assert done.stderr == "no database\ntrio-mcp tools: the server process exited with status 1\n"
    assert (tmp_path / "starts").read_text() == "x"


async def test_a_child_that_has_read_the_first_request_is_started_again_with_a_handshake(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("")
    program = f"{COUNTED} import sys; raise SystemExit(sys.stdin.readline()[:1] and 3)"

    with pytest.raises(ServerExited) as raised:
        async with open_stdio_client([sys.executable, "-c", program], cwd=tmp_path):
            raise AssertionError

    assert (raised.value.status, raised.value.has_read) == (3, True)
    assert (tmp_path / "starts").read_text() == "xx"


async def test_a_silent_server_is_named_with_its_command_the_time_and_its_last_words() -> None:
    program = "import sys; print('waiting for the database', file=sys.stderr, flush=True); sys.stdin.read()"
    limits = TimeLimits(connect=1.5, probe=0.1)

    message = await refusal([sys.executable, "-c", program], RequestTimedOut, time_limits=limits)

    assert message == (
        "the server has not agreed to a revision within 1.5 s (TimeLimits.connect); its process runs: "
        f"{sys.executable} -c '{program.replace(chr(39), chr(39) + chr(34) + chr(39) + chr(34) + chr(39))}'; the last "
        "lines of its standard error:\n    waiting for the database"
    )


# --- Addresses ---


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[HttpBound]:
    async with trio.open_nursery() as nursery:
        bound: HttpBound = await nursery.start(partial(serve_http, Server("s"), port=0, **options))
        yield bound
        await bound.stop()


async def test_an_address_at_which_nothing_listens_is_named_with_host_and_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen
        port = taken.getsockname()[1]
        message = await refusal(f"http://127.0.0.1:{port}/mcp", ConnectionBroken)

    assert f"cannot connect to http://127.0.0.1:{port}/mcp" in message
    assert message.endswith(f"; nothing accepts connections at 127.0.0.1, port {port}: is the server running there?")


async def test_an_unknown_host_is_named() -> None:
    message = await refusal("http://unknown.invalid/mcp", ConnectionBroken)

    assert message.endswith("; is 'unknown.invalid' the right name, and is there a network?")


@pytest.mark.parametrize("path", ["", "/"])
async def test_a_url_without_its_path_is_answered_with_the_usual_one(path: str) -> None:
    async with serving() as bound:
        origin = bound.url.removesuffix("/mcp")
        assert f"(the URL has no path: is it {origin}/mcp?)" in await refusal(origin + path, HttpStatusError)
        assert "/mcp?" not in await refusal(f"{origin}/other", HttpStatusError)


@pytest.mark.parametrize("path", ["/mpc", "/mcp/mcp"])
async def test_a_url_whose_path_is_like_the_usual_one_is_answered_with_that(path: str) -> None:
    async with serving() as bound:
        message = await refusal(bound.url.replace("/mcp", path), HttpStatusError)

    assert f"(is it {bound.url}?)" in message


async def test_a_path_at_which_a_server_may_be_mounted_is_answered_with_its_endpoint() -> None:
    async with serving(path="/tools") as bound:
        origin = bound.url.removesuffix("/tools")
        for path in ("/mcp", "/mcp/"):
            message = await refusal(origin + path, HttpStatusError)
            assert f"(if the server is mounted at /mcp, its endpoint is {origin}/mcp/mcp)" in message


async def test_https_to_a_server_without_tls_is_told_so() -> None:
    async with serving() as bound:
        message = await refusal(bound.url.replace("http:", "https:"), ConnectionBroken)

    assert message.endswith("; the server answers without TLS: does its URL begin with http://?")


async def test_http_to_a_server_with_tls_is_told_so(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with serving(certfile=certificate.certfile, keyfile=certificate.keyfile) as bound:
        message = await refusal(bound.url.replace("https:", "http:"), ConnectionBroken)

    assert message.endswith("; if the server uses TLS, its URL begins with https://")


# --- Files ---


async def test_a_server_that_is_named_twice_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "one"}, "b": {"command": "no-such"}, "a": {"command": "two"}}}')

    async with open_clients(path) as clients:
        assert str(clients.failed["a"]) == f"{path}: server 'a': the name is given twice; rename one of the two entries"
        assert "cannot start 'no-such'" in str(clients.failed["b"])
