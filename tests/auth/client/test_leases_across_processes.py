"""Processes that share one token file, with an authorization server that accepts each refresh token once."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import define, field

from tests.auth.client.scripted_network import ISSUER, URL
from trio_mcp.auth import FileTokenStorage
from trio_mcp.auth.client._token_cache import storage_key
from trio_mcp.auth.client._token_endpoint import Tokens
from trio_mcp.auth.client._token_records import TokenRecord, write_record

if sys.platform == "win32":
    pytest.skip("the file's locks is about POSIX", allow_module_level=True)

PROGRAM = Path(__file__).parent / "programs" / "refreshing.py"


@define
class RotatingServer:
    """A server that answers lines of JSON with metadata, and with tokens for the one valid refresh token."""

    good: str
    served: int = field(default=0, init=False)
    old: list[str] = field(factory=list[str], init=False)
    """The refresh tokens that were presented, and had been before."""

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the single request of a connection."""
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive_some()
        url, form = json.loads(line)
        answer = self.answer(url, form)
        if "refresh_token" in form:
            await trio.sleep(0.05)  # gives the other process time to collide
        await stream.send_all(json.dumps(answer).encode())
        await stream.aclose()

    def answer(self, url: str, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        if "oauth-protected-resource" in url:
            return 200, {"resource": URL, "authorization_servers": [ISSUER]}
        if "oauth-authorization-server" in url:
            return 200, {"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token"}
        if form["refresh_token"] != self.good:
            self.old.append(form["refresh_token"])
            return 400, {"error": "invalid_grant"}
        self.served += 1
        self.good = f"refresh-{self.served}"
        return 200, {"access_token": f"access-{self.served}", "refresh_token": self.good}


async def test_processes_that_share_a_file_never_present_a_refresh_token_twice(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    path, rotating = tmp_path / "tokens.json", RotatingServer(good="refresh-0")
    tokens = Tokens(
        access_token="access-0", token_type="Bearer", expires_at=None, refresh_token="refresh-0", scopes=None
    )
    record = TokenRecord(issuer=ISSUER, resource=URL, tokens=tokens, obtained_at=0.0, requested=None, dpop_key=None)
    key = storage_key(URL, identity="refreshing", account="", dpop=False)
    assert await FileTokenStorage(path).swap(key, None, write_record(record))
    listeners = await nursery.start(partial(trio.serve_tcp, rotating.serve, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]

    command = [sys.executable, "-W", "error", str(PROGRAM), str(path), str(port), "6"]
    with trio.fail_after(60):
        async with trio.open_nursery() as processes:
            for _ in range(2):
                processes.start_soon(trio.run_process, command)
    nursery.cancel_scope.cancel()

    assert rotating.old == []
    assert 6 <= rotating.served <= 12  # a process also uses the tokens that the other process has refreshed
