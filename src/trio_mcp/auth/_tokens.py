"""What an authorization server has granted, and how a client is known there.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

__all__ = ["AuthMethod", "PrivateKey", "Registration", "TokenType", "Tokens"]

AuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client authenticates at a token endpoint."""
TokenType: TypeAlias = Literal["Bearer", "DPoP"]


@frozen(kw_only=True)
class Tokens:
    """A token to be shown, and what came with it."""

    access_token: str = field(repr=False)
    token_type: TokenType
    expires_at: float | None
    """When it ends, as `time.time` counts; None where nobody said."""
    refresh_token: str | None = field(repr=False)
    scopes: tuple[str, ...] | None
    """What was granted; None where nobody said, so that it is what was asked for."""
    client: Registration | None = field(default=None, repr=False)
    """As whom they were obtained, where a program has registered it: the refresh token is good for no other."""


@frozen
class PrivateKey:
    """The private key by which a client authenticates (`private_key_jwt`).

    Args:
        pem: the key, as PEM (PKCS #8).
        algorithm: of the signature: ``"ES256"``, ``"RS256"`` and so on; no symmetric one.
        key_id: by which the authorization server knows the public half, if it has several.
    """

    pem: str = field(repr=False)
    algorithm: str = "ES256"
    key_id: str | None = None


@frozen
class Registration:
    """How a client is known to an authorization server.

    Args:
        client_id: its name there.
        secret: what proves that this is the client, where it has a secret.
        private_key: what proves it, in place of a secret.
        method: how it authenticates; None: as the server likes best, of what its secret or key allows.
        issuer: the one authorization server that knows it; None: whichever the MCP server names first.
        redirect_uri: where browsers are sent back to, as it was registered; None where it has said nothing of that.
        secret_expires_at: when the secret ends, as `time.time` counts; None: never.
    """

    client_id: str
    secret: str | None = field(default=None, kw_only=True, repr=False)
    private_key: PrivateKey | None = field(default=None, kw_only=True)
    method: AuthMethod | None = field(default=None, kw_only=True)
    issuer: str | None = field(default=None, kw_only=True)
    redirect_uri: str | None = field(default=None, kw_only=True)
    secret_expires_at: float | None = field(default=None, kw_only=True)
