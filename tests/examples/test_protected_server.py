"""The protected server and its clients, for a user with a browser and for a program, in separate processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from trio_mcp import ClientCredentials, ToolFailed, open_http_client
from trio_mcp.testing import KnownClient, open_authorization_server

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 60  # seconds for a whole test
BROWSER = f"""\
#!{sys.executable}
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=30).read()
"""


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@asynccontextmanager
async def served(*options: str) -> AsyncGenerator[tuple[str, trio.Process]]:
    """Run the server; yield its URL and its process. SIGINT ends it, and it must exit with status 0."""
    port = free_port()
    command = [sys.executable, "-W", "error", str(EXAMPLES / "protected_server.py"), "--port", str(port), *options]
    with trio.fail_after(TIMEOUT):
        async with trio.open_nursery() as nursery:
            piped = partial(trio.run_process, command, stdout=subprocess.PIPE)
            process: trio.Process = await nursery.start(piped)
            while await trio.to_thread.run_sync(is_closed, port):
                assert process.poll() is None
            yield f"http://127.0.0.1:{port}/mcp", process
            process.send_signal(signal.SIGINT)


def is_closed(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / program), *arguments]
    return await trio.run_process(
        command, capture_stdout=True, capture_stderr=True, check=False, env={**os.environ, **environment}
    )


async def test_a_user_signs_in_once_to_read_and_once_to_write_and_the_tokens_are_stored(tmp_path: Path) -> None:
    browser, tokens = tmp_path / "browser", tmp_path / "tokens.json"
    browser.write_text(BROWSER)
    browser.chmod(0o755)

    async with (
        open_authorization_server(auto_consent=True, users={"ada": "x"}) as authorization,
        served("--issuer", authorization.issuer) as (url, _),
    ):

        async def client(*words: str) -> tuple[bytes, int]:
            done = await run("browser_client.py", url, *words, "--tokens", str(tokens), BROWSER=str(browser))
            assert done.returncode == 0, done.stderr
            return done.stdout, len(authorization.asked("authorize"))

        assert await client() == (b"", 1)
        assert await client("Buy", "tea.") == (b"- Buy tea.\n", 2)
        assert await client("Drink it.") == (b"- Buy tea.\n- Drink it.\n", 2)

    scopes = [request.parameters["scope"] for request in authorization.asked("authorize")]
    assert [set(each.split()) for each in scopes] == [{"notes:read"}, {"notes:read", "notes:write"}]
    assert tokens.stat().st_mode & 0o777 == 0o600


async def test_without_a_browser_the_client_prints_the_url_and_reports_a_refusal_in_one_line(tmp_path: Path) -> None:
    port = free_port()
    back = f"http://127.0.0.1:{port}/callback"

    async with (
        open_authorization_server(auto_consent=True, policy=lambda ask: None) as authorization,
        served("--issuer", authorization.issuer) as (url, _),
        trio.open_nursery() as nursery,
    ):
        options = [url, "--print", "--redirect-uri", back, "--tokens", str(tmp_path / "tokens.json")]
        command = [sys.executable, "-W", "error", str(EXAMPLES / "browser_client.py"), *options]
        piped = partial(trio.run_process, command, stderr=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(piped)
        assert process.stderr is not None
        output = b""
        while b"/authorize?" not in output or not output.endswith(b"\n"):
            output += await process.stderr.receive_some()
        page = output.decode().split()[-1]
        sent_to = await authorization.visit(page)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(f"GET {sent_to.removeprefix(back[:-9])} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await stream.receive_some()
        left = b"".join([chunk async for chunk in process.stderr])

    assert output.startswith(b"To sign in at 127.0.0.1, visit:\n")
    assert sent_to.startswith(f"{back}?error=access_denied")
    assert process.returncode == 1
    assert left.startswith(b"browser_client: ")
    assert b"access_denied" in left
    assert left.count(b"\n") == 1


async def test_a_program_authenticates_with_a_secret_or_a_key_only_at_its_issuer(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    known = [KnownClient("teller", secret="s"), KnownClient("signer", keys=public)]

    async with (
        open_authorization_server(clients=known) as authorization,
        served("--issuer", authorization.issuer) as (url, _),
    ):
        issuer = {"ISSUER": authorization.issuer}
        with_secret = await run("machine_client.py", url, CLIENT_ID="teller", CLIENT_SECRET="s", **issuer)
        signed = await run("machine_client.py", url, CLIENT_ID="signer", CLIENT_KEY=str(pem), **issuer)
        guessed = await run("machine_client.py", url, CLIENT_ID="teller", CLIENT_SECRET="a guess", **issuer)
        before = len(authorization.requests)
        elsewhere = await run(
            "machine_client.py", url, CLIENT_ID="teller", CLIENT_SECRET="s", ISSUER="https://no.example"
        )

    for done in (with_secret, signed):
        assert (done.returncode, done.stdout, done.stderr) == (0, b"note number 1\n", b"")
    for refused, why in ((guessed, b"invalid_client"), (elsewhere, b"https://no.example")):
        assert (refused.returncode, refused.stdout, refused.stderr.count(b"\n")) == (1, b"", 1)
        assert refused.stderr.startswith(b"machine_client: ")
        assert why in refused.stderr
        assert b"guess" not in refused.stderr
    assert {request.endpoint for request in authorization.requests[before:]} <= {"metadata"}


async def test_a_program_reports_missing_settings() -> None:
    done = await run("machine_client.py", "http://127.0.0.1:1/mcp", CLIENT_ID="robot", CLIENT_SECRET="s")

    assert (done.returncode, done.stderr) == (
        1,
        b"machine_client: KeyError: 'ISSUER' (see the docstring of this file)\n",
    )


async def test_by_default_the_server_starts_an_authorization_server_and_prints_its_accounts() -> None:
    async with served() as (url, process):
        assert process.stdout is not None
        output = b""
        while output.count(b"\n") < 4:
            output += await process.stdout.receive_some()
        printed = dict(line.split(None, 1) for line in output.decode().splitlines())
        auth = ClientCredentials("robot", secret="its secret", issuer=printed["issuer"], scopes=["notes:read"])
        async with open_http_client(url, auth=auth) as client:
            with pytest.raises(ToolFailed, match="requires the scope notes:write"):
                await client.call_tool("forget_notes", {"dry_run": False}, raise_on_error=True)
            written = await client.call_tool("write_note", {"text": "I was here."}, raise_on_error=True)
            tried = await client.call_tool("forget_notes", raise_on_error=True)
            gone = await client.call_tool("forget_notes", {"dry_run": False}, raise_on_error=True)

    assert printed["server"] == url
    assert printed["user"] == "ada, password: her password"
    assert printed["program"] == "robot, secret: its secret"
    answers = [each.structured_content["result"] for each in (written, tried, gone)]
    assert answers == [1, "1 notes would be deleted", "1 notes were deleted"]
