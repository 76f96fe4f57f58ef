"""The authorization server of a siege: ``python -m siege.authority FOLDER PORT``.

It writes the credentials of all parties into FOLDER, prints a line, and serves until its input ends.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

import trio

from trio_mcp.testing import AuthorizationServer, KnownClient, open_authorization_server

from .people import ATTACKER, SERVER_ID, USER, Parties, make_secrets, url_at
from .proofs import generate_key, thumbprint

__all__ = ["serve"]

_TOKEN_SECONDS = 24 * 3600.0


async def serve(folder: Path, port: int) -> None:
    """Serve until standard input ends.

    Args:
        folder: the folder of the credentials.
        port: the port of the server that the tokens are for.
    """
    server_secret = secrets.token_urlsafe(32)
    async with open_authorization_server(
        clients=[KnownClient(SERVER_ID, secret=server_secret)], fetch=None, token_seconds=_TOKEN_SECONDS
    ) as authority:
        keys = {principal: generate_key() for principal in (USER, ATTACKER)}
        Parties(
            issuer=authority.issuer,
            server_secret=server_secret,
            tokens={principal: _token(authority, principal, port) for principal in keys},
            bound_tokens={
                principal: _token(authority, principal, port, cnf={"jkt": thumbprint(key)})
                for principal, key in keys.items()
            },
            keys=keys,
            secrets=make_secrets(),
        ).write(folder)
        print("ready", flush=True)
        async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
            while await stdin.receive_some():
                pass


def _token(authority: AuthorizationServer, principal: str, port: int, **claims: Any) -> str:
    return authority.issue_token(resource=url_at(port), subject=principal, client_id="app", claims=claims)


if __name__ == "__main__":
    trio.run(serve, Path(sys.argv[1]), int(sys.argv[2]))
