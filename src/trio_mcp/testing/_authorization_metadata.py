"""What the development authorization server says of itself, and where.

Specification: https://www.rfc-editor.org/rfc/rfc8414 and https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from ._authorization_keys import ALGORITHMS
from ._authorization_options import Settings

__all__ = ["ID_JAG_TYPE", "JWT_BEARER", "TOKEN_EXCHANGE", "metadata_paths", "server_metadata"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 # a name
ID_JAG_TYPE = "urn:ietf:params:oauth:token-type:id-jag"


def metadata_paths(issuer: str) -> tuple[str, ...]:
    """Return where the metadata of an issuer stand, as paths on its origin that are not percent-encoded."""
    path = unquote(urlsplit(issuer).path).rstrip("/")
    both = (f"/.well-known/oauth-authorization-server{path}", f"/.well-known/openid-configuration{path}")
    return (*both, f"{path}/.well-known/openid-configuration") if path else both


def server_metadata(settings: Settings) -> dict[str, Any]:
    """Return the metadata: the same document in both kinds, with what either of them asks for."""
    grants = ["authorization_code", "refresh_token", "client_credentials", TOKEN_EXCHANGE]
    members: dict[str, Any] = {
        "issuer": settings.issuer,
        "authorization_endpoint": settings.place("/authorize"),
        "token_endpoint": settings.place("/token"),
        "jwks_uri": settings.place("/jwks"),
        "introspection_endpoint": settings.place("/introspect"),
        "revocation_endpoint": settings.place("/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "grant_types_supported": [*grants, JWT_BEARER] if settings.trusted_issuers else grants,
        "token_endpoint_auth_methods_supported": [*settings.auth_methods],
        "token_endpoint_auth_signing_alg_values_supported": [*ALGORITHMS],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": settings.fetch is not None,
    }
    scopes = [*(settings.scopes or ())]
    if settings.refresh_tokens == "offline_access" and "offline_access" not in scopes:
        scopes.append("offline_access")
    if scopes:
        members["scopes_supported"] = scopes
    if settings.registration:
        members["registration_endpoint"] = settings.place("/register")
    if settings.dpop != "off":
        members["dpop_signing_alg_values_supported"] = ["ES256"]
    return members
