"""What a protected server and its authorization server say of themselves, as far as a client has a use for it.

Members that are not named here mean nothing, a null is as good as none, and a member of a wrong type makes the whole
document unusable: who has published it is to hear of it.

Specification: https://www.rfc-editor.org/rfc/rfc9728 and https://www.rfc-editor.org/rfc/rfc8414
"""

from __future__ import annotations

from attrs import frozen

from .._errors import AuthorizationFailed
from ..wire import JsonObject, Undecodable, decode, is_array, is_object
from ._shown import shown_text, shown_url

__all__ = ["Place", "ResourceMetadata", "ServerMetadata", "read_resource_metadata", "read_server_metadata"]


@frozen(kw_only=True)
class ResourceMetadata:
    """What an MCP server says of its protection (RFC 9728)."""

    resource: str
    """Its identifier, byte for byte as it stands there: what tokens have to be for."""
    authorization_servers: tuple[str, ...]
    """The issuers whose tokens it takes; at least one."""
    scopes_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool = False


@frozen(kw_only=True)
class ServerMetadata:
    """What an authorization server says of itself (RFC 8414, OpenID Connect Discovery).

    Where it leaves a list out, that is None: what this means differs from member to member.
    """

    issuer: str
    """Byte for byte the one by which it was looked up."""
    authorization_endpoint: str | None = None
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    is_assumed: bool = False
    """Whether there are no such metadata, and the endpoints are those that 2025-03-26 prescribes in that case."""


@frozen(kw_only=True)
class Place:
    """Where a token for a server is to be had."""

    url: str
    """The server, as its user has named it."""
    resource: ResourceMetadata | None
    """None where it has no such metadata, as servers of 2025-03-26 may."""
    server: ServerMetadata

    @property
    def identifier(self) -> str | None:
        """The `resource` parameter of all requests for tokens; None where none is sent."""
        return None if self.resource is None else self.resource.resource


def read_resource_metadata(body: bytes, url: str) -> ResourceMetadata:
    """Return what the document at *url* says of a server.

    Raises:
        AuthorizationFailed: it is no such document; the text names what is wrong with it.
    """
    document = _Document.read(body, f"the protected-resource metadata at {shown_url(url)}")
    servers = document.texts("authorization_servers")
    if not servers:
        raise document.fault("its member 'authorization_servers' names nobody")
    return ResourceMetadata(
        resource=document.text("resource"),
        authorization_servers=servers,
        scopes_supported=document.texts("scopes_supported"),
        dpop_bound_access_tokens_required=document.flag("dpop_bound_access_tokens_required"),
    )


def read_server_metadata(body: bytes, url: str) -> ServerMetadata:
    """Return what the document at *url* says of an authorization server. Its endpoints are not checked here.

    Raises:
        AuthorizationFailed: it is no such document; the text names what is wrong with it.
    """
    document = _Document.read(body, f"the authorization-server metadata at {shown_url(url)}")
    signing = "token_endpoint_auth_signing_alg_values_supported"
    return ServerMetadata(
        issuer=document.text("issuer"),
        authorization_endpoint=document.optional_text("authorization_endpoint"),
        token_endpoint=document.text("token_endpoint"),
        registration_endpoint=document.optional_text("registration_endpoint"),
        scopes_supported=document.texts("scopes_supported"),
        grant_types_supported=document.texts("grant_types_supported"),
        token_endpoint_auth_methods_supported=document.texts("token_endpoint_auth_methods_supported"),
        token_endpoint_auth_signing_alg_values_supported=document.texts(signing),
        code_challenge_methods_supported=document.texts("code_challenge_methods_supported"),
        dpop_signing_alg_values_supported=document.texts("dpop_signing_alg_values_supported"),
        client_id_metadata_document_supported=document.flag("client_id_metadata_document_supported"),
        authorization_response_iss_parameter_supported=document.flag("authorization_response_iss_parameter_supported"),
    )


@frozen
class _Document:
    """The members of a document, and what it is called in messages."""

    members: JsonObject
    name: str

    @classmethod
    def read(cls, body: bytes, name: str) -> _Document:
        try:
            members = decode(body)
        except Undecodable as exc:
            raise AuthorizationFailed(f"{name} cannot be used: it is no JSON: {shown_text(str(exc))}") from None
        document = cls(members, name)
        if not is_object(members):
            raise document.fault("it is no JSON object")
        return document

    def fault(self, reason: str) -> AuthorizationFailed:
        return AuthorizationFailed(f"{self.name} cannot be used: {reason}")

    def text(self, member: str) -> str:
        value = self.optional_text(member)
        if value is None:
            raise self.fault(f"it has no member {member!r}")
        return value

    def optional_text(self, member: str) -> str | None:
        value = self.members.get(member)
        if value is not None and not isinstance(value, str):
            raise self.fault(f"its member {member!r} is no text")
        return value

    def texts(self, member: str) -> tuple[str, ...] | None:
        value = self.members.get(member)
        if value is None:
            return None
        if not is_array(value) or not all(isinstance(each, str) for each in value):
            raise self.fault(f"its member {member!r} is no list of texts")
        return tuple(value)

    def flag(self, member: str) -> bool:
        value = self.members.get(member)
        if value is not None and not isinstance(value, bool):
            raise self.fault(f"its member {member!r} is neither true nor false")
        return value is True
