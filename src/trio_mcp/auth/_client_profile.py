"""How a client presents itself to authorization servers that do not know it yet.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from ._metadata import ServerMetadata
from ._tokens import AuthMethod, Registration
from ._urls import is_local_host, read_url

__all__ = [
    "ApplicationType",
    "ClientProfile",
    "application_type_of",
    "check_metadata_url",
    "check_redirect_uri",
    "is_loopback",
]

ApplicationType: TypeAlias = Literal["native", "web"]


@frozen(kw_only=True)
class ClientProfile:
    """What there is to be said of a client; nothing of it is secret but what the registration holds."""

    identity: str
    """Tells it apart from others in one storage."""
    account: str
    registration: Registration | None
    """Which somebody has made for it by hand."""
    metadata_url: str | None
    """Where a document describes it, and by which it is known to servers that read such documents."""
    redirect_uri: str | None
    """Where browsers have to come back to; None where any place of this machine will do."""
    names: dict[str, Any] = field(factory=dict[str, Any])
    """What people are shown of it, as members of a registration: `client_name` and so on."""

    def document(self, redirect_uri: str) -> dict[str, Any]:
        """Return what the document at `metadata_url` has to say."""
        return {
            "client_id": self.metadata_url,
            **self.names,
            "redirect_uris": [redirect_uri],
            "application_type": application_type_of(redirect_uri),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    def introduction(
        self, server: ServerMetadata, redirect_uri: str, scopes: tuple[str, ...] | None, *, dpop: bool
    ) -> dict[str, Any]:
        """Return what to register with (RFC 7591)."""
        kind = application_type_of(redirect_uri)
        grants = ["authorization_code", "refresh_token"]
        if server.grant_types_supported is not None and "refresh_token" not in server.grant_types_supported:
            grants.remove("refresh_token")  # some servers turn a client away for asking
        return {
            **self.names,
            "redirect_uris": [redirect_uri],
            "application_type": kind,
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": _method(kind, server),
            **({"scope": " ".join(scopes)} if scopes else {}),
            **({"dpop_bound_access_tokens": True} if dpop else {}),
        }


def _method(kind: ApplicationType, server: ServerMetadata) -> AuthMethod:
    """Choose how to authenticate: what runs on people's machines can keep no secret, so it does well without one.

    Where the server takes none of them, it will say so itself.
    """
    methods: list[AuthMethod] = ["none", "client_secret_basic", "client_secret_post"]
    if kind == "web":
        methods = ["client_secret_basic", "client_secret_post", "none"]
    listed = server.token_endpoint_auth_methods_supported
    fit: list[AuthMethod] = methods if listed is None else [method for method in methods if listed.count(method)]
    return (fit or methods)[0]


def application_type_of(redirect_uri: str) -> ApplicationType:
    """Tell what kind of application browsers come back to at a redirect URI."""
    url = read_url(redirect_uri)
    return "native" if url is not None and is_local_host(url.host) else "web"


def is_loopback(redirect_uri: str) -> bool:
    """Tell whether browsers come back to an http URL of this machine."""
    url = read_url(redirect_uri)
    return url is not None and url.scheme == "http" and is_local_host(url.host)


def check_redirect_uri(uri: str) -> None:
    """Refuse what is no redirect URI.

    Raises:
        ValueError: it is neither https, nor http of this machine, which are the ones that MCP allows; or it has a
            fragment.
    """
    url = read_url(uri)
    is_plain = url is not None and url.user is None and url.fragment is None
    if url is None or not is_plain or not (url.scheme == "https" or is_local_host(url.host)):
        raise ValueError(
            f"redirect_uri={uri!r}: a redirect URI is an https URL, or an http URL of this machine, without a fragment"
        )


def check_metadata_url(text: str) -> None:
    """Refuse what cannot be the URL of a client ID metadata document.

    Raises:
        ValueError: it is no https URL with a path, or has what such a URL may not have.
    """
    url = read_url(text)
    is_plain = url is not None and url.user is None and url.fragment is None
    if url is None or not is_plain or url.scheme != "https" or url.path in {"", "/"}:
        raise ValueError(f"client_metadata_url={text!r}: it has to be an https URL with a path, and without a fragment")
