"""The parties of a siege: their addresses, tokens and secrets, in a file that the processes of a run share."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs
from attrs import frozen

__all__ = ["ATTACKER", "PATH", "SERVER_ID", "USER", "Parties", "make_secrets", "url_at"]

USER, ATTACKER = "user", "attacker"
"""The principals, and the subjects of their tokens."""
PATH = "/mcp"
SERVER_ID = "siege-server"
"""The id of the server at the authorization server."""
_FILE = "parties.json"


def url_at(port: int) -> str:
    """Return the URL of the server at a port of this machine."""
    return f"http://127.0.0.1:{port}{PATH}"


def make_secrets() -> Mapping[str, str]:
    """Return a secret for each principal, which `whoami` tells only this principal."""
    return {principal: f"secret-{secrets.token_hex(16)}" for principal in (USER, ATTACKER)}


@frozen(kw_only=True)
class Parties:
    """The credentials of all parties. A real attacker has only its own: it needs the others to prepare its thefts."""

    issuer: str
    server_secret: str
    """The secret of the server at the authorization server."""
    tokens: Mapping[str, str]
    """The access token of each principal."""
    bound_tokens: Mapping[str, str]
    """An access token of each principal that is bound to the key below."""
    keys: Mapping[str, str]
    """The private key of each principal, for proofs of possession, as a JSON Web Key."""
    secrets: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file of a folder."""
        members: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return cls(**members)

    def write(self, folder: Path) -> None:
        """Write the file into a folder, which only the user of this process may read."""
        (folder / _FILE).write_text(json.dumps(attrs.asdict(self)), encoding="utf-8")
