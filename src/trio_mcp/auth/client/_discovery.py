"""Discovery: the metadata of a server and of its authorization server, and the scopes to request.

Rules of this file:

1. A metadata URL in the challenge is the only one that counts. Otherwise the well-known URLs are tried in their order.
   A URL without metadata (any status but 200, not a JSON object, a response that is too large, a redirect to another
   origin, for example to a sign-in page) leads to the next one. A temporary failure, such as a status of 500, ends the
   attempt: it does not mean that there is no metadata.
2. The metadata of a server must be about this server. The metadata of an authorization server must name exactly the
   issuer that was looked up, character by character. Otherwise nothing of it is used.
3. The authorization server is the one that was used before, if the server still names it, or else the first usable one.
4. If a server has no metadata, revision 2025-03-26 takes its origin as the authorization server. If the origin has no
   metadata, either, its endpoints have fixed paths; unless a redirect was found, which is reported.
5. Unknown members of metadata are ignored, and null means that a member is missing. A member of a wrong type makes the
   whole document unusable, so that its publisher notices.
6. A client requests the scopes that it needs, and no others.

Specification: https://www.rfc-editor.org/rfc/rfc9728, https://www.rfc-editor.org/rfc/rfc8414 and
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery and
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from attrs import field, frozen

from ..._errors import AuthorizationFailed
from ...wire import MODERN_REVISIONS, VERSION_FIELD, JsonObject, Undecodable, decode, is_array, is_object
from .._challenges import Challenge
from .._urls import checked_endpoint, covers, origin_of, server_metadata_urls, shown_text, shown_url, well_known_urls
from ._steps import CallFailed, Flow, HttpReply, Unreadable, get_json_from

__all__ = [
    "OFFLINE_ACCESS",
    "ResourceMetadata",
    "ServerMetadata",
    "TokenIssuer",
    "discover",
    "first_scopes",
    "is_scope",
    "read_resource_metadata",
    "read_scopes",
    "read_server_metadata",
    "wider_scopes",
]


@frozen(kw_only=True)
class ResourceMetadata:
    """The metadata of a protected MCP server (RFC 9728)."""

    resource: str
    """The server's identifier, unchanged: the audience of tokens."""
    authorization_servers: tuple[str, ...]
    """The issuers of accepted tokens; at least one."""
    scopes_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool = False


@frozen(kw_only=True)
class ServerMetadata:
    """The metadata of an authorization server (RFC 8414, OpenID Connect Discovery).

    A list that it leaves out is None. The meaning of this differs from member to member.
    """

    issuer: str
    """The issuer, exactly as it was looked up."""
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
    """True if there is no metadata, so that the endpoints are the default ones of 2025-03-26."""


@frozen(kw_only=True)
class TokenIssuer:
    """The issuer of tokens for a server, and the metadata of both."""

    url: str
    """The URL of the server, as the user has named it."""
    resource: ResourceMetadata | None
    """The server's metadata; None if it has none, which 2025-03-26 allows."""
    server: ServerMetadata
    accepts_resource: bool = True
    """False if the user says that the authorization server refuses the `resource` parameter."""

    @property
    def identifier(self) -> str | None:
        """The server's identifier in its metadata; None if it has none."""
        return None if self.resource is None else self.resource.resource

    @property
    def resource_member(self) -> dict[str, str]:
        """The `resource` parameter of authorization and token requests (RFC 8707); no parameter if none is sent."""
        return {} if self.identifier is None or not self.accepts_resource else {"resource": self.identifier}


def read_resource_metadata(body: bytes, url: str) -> ResourceMetadata:
    """Parse the protected-resource metadata at *url*.

    Raises:
        AuthorizationFailed: the document is invalid; the message names the reason.
    """
    document = _MetadataDocument.read(body, f"the protected-resource metadata at {shown_url(url)}")
    servers = document.strings("authorization_servers")
    if not servers:
        raise document.fault("its member 'authorization_servers' is missing or empty")
    return ResourceMetadata(
        resource=document.text("resource"),
        authorization_servers=servers,
        scopes_supported=document.strings("scopes_supported"),
        dpop_bound_access_tokens_required=document.flag("dpop_bound_access_tokens_required"),
    )


def read_server_metadata(body: bytes, url: str) -> ServerMetadata:
    """Parse the authorization-server metadata at *url*. The endpoints are not checked here.

    Raises:
        AuthorizationFailed: the document is invalid; the message names the reason.
    """
    document = _MetadataDocument.read(body, f"the authorization-server metadata at {shown_url(url)}")
    signing = "token_endpoint_auth_signing_alg_values_supported"
    return ServerMetadata(
        issuer=document.text("issuer"),
        authorization_endpoint=document.optional_string("authorization_endpoint"),
        token_endpoint=document.text("token_endpoint"),
        registration_endpoint=document.optional_string("registration_endpoint"),
        scopes_supported=document.strings("scopes_supported"),
        grant_types_supported=document.strings("grant_types_supported"),
        token_endpoint_auth_methods_supported=document.strings("token_endpoint_auth_methods_supported"),
        token_endpoint_auth_signing_alg_values_supported=document.strings(signing),
        code_challenge_methods_supported=document.strings("code_challenge_methods_supported"),
        dpop_signing_alg_values_supported=document.strings("dpop_signing_alg_values_supported"),
        client_id_metadata_document_supported=document.flag("client_id_metadata_document_supported"),
        authorization_response_iss_parameter_supported=document.flag("authorization_response_iss_parameter_supported"),
    )


@frozen
class _MetadataDocument:
    """The members of a metadata document, and its name in messages."""

    members: JsonObject
    name: str

    @classmethod
    def read(cls, body: bytes, name: str) -> _MetadataDocument:
        try:
            members = decode(body)
        except Undecodable as exc:
            raise AuthorizationFailed(f"{name} cannot be used: it is not JSON: {shown_text(str(exc))}") from None
        document = cls(members, name)
        if not is_object(members):
            raise document.fault("it is not a JSON object")
        return document

    def fault(self, reason: str) -> AuthorizationFailed:
        return AuthorizationFailed(f"{self.name} cannot be used: {reason}")

    def text(self, member: str) -> str:
        value = self.optional_string(member)
        if value is None:
            raise self.fault(f"it has no member {member!r}")
        return value

    def optional_string(self, member: str) -> str | None:
        value = self.members.get(member)
        if value is not None and not isinstance(value, str):
            raise self.fault(f"its member {member!r} is not a string")
        return value

    def strings(self, member: str) -> tuple[str, ...] | None:
        value = self.members.get(member)
        if value is None:
            return None
        if not is_array(value) or not all(isinstance(each, str) for each in value):
            raise self.fault(f"its member {member!r} is not a list of strings")
        return tuple(value)

    def flag(self, member: str) -> bool:
        value = self.members.get(member)
        if value is not None and not isinstance(value, bool):
            raise self.fault(f"its member {member!r} is neither true nor false")
        return value is True


_MAX_ISSUERS = 4  # issuers to try, of those that a server names
_TEMPORARY_STATUSES = {408, 425, 429}  # statuses of temporary failures, besides those of 500 and above
_FIELDS = {VERSION_FIELD: MODERN_REVISIONS[-1]}  # a server of 2025-03-26 may need it
_RESOURCE = "protected-resource metadata"
_SERVER = "authorization-server metadata"


def discover(
    url: str, challenged: Challenge | None, *, trusted_hosts: Sequence[str], prefer: str | None = None
) -> Flow[TokenIssuer]:
    """Discover the issuer of tokens for a server.

    Args:
        url: the URL of the server, as the user has named it.
        challenged: the challenge of a response of the server; None if no request was sent yet.
        trusted_hosts: names of hosts that may be reached without TLS.
        prefer: the issuer to keep, as long as the server names it.

    Raises:
        AuthorizationFailed: metadata is unreachable, invalid or unsafe; the message names it, and the reason.
    """
    checked_endpoint(url, "server", trusted_hosts)
    search = _Search(url, trusted_hosts)
    try:
        resource = yield from search.resource(challenged)
        if resource is None:
            return TokenIssuer(url=url, resource=None, server=(yield from search.unnamed_server()))
        return TokenIssuer(url=url, resource=resource, server=(yield from search.named_server(resource, prefer)))
    except CallFailed as exc:
        raise AuthorizationFailed(str(exc)) from None


@frozen
class _Search:
    """A search for the metadata of one server. `CallFailed` means a temporary failure; other exceptions are final."""

    url: str
    trusted_hosts: Sequence[str]
    unreadable: list[str] = field(factory=list[str], init=False)
    """The failures at URLs that may have metadata."""

    def resource(self, challenged: Challenge | None) -> Flow[ResourceMetadata | None]:
        """Find the metadata of the server; return None if it has none."""
        named = None if challenged is None else challenged.parameters.get("resource_metadata")
        if named is not None:
            checked_endpoint(named, f"URL of the {_RESOURCE}", self.trusted_hosts)
            reply = yield from self._get(named, _RESOURCE)
            if reply.status != 200:
                raise AuthorizationFailed(
                    f"the {_RESOURCE} is not at {shown_url(named)}, which the server names: HTTP status {reply.status}"
                )
            return self._read_for_this_server(reply.body, named)
        for location in well_known_urls(self.url, "oauth-protected-resource"):
            body = yield from self._document_at(location, _RESOURCE)
            if body is not None:
                return self._read_for_this_server(body, location)
        return None

    def _read_for_this_server(self, body: bytes, location: str) -> ResourceMetadata:
        """Parse the metadata of the server, and check that it is about this server (rule 2)."""
        found = read_resource_metadata(body, location)
        if not covers(found.resource, self.url):
            raise AuthorizationFailed(
                f"mismatch: the {_RESOURCE} at {shown_url(location)} is about {shown_url(found.resource)!r}, "
                f"not about {shown_url(self.url)}"
            )
        return found

    def named_server(self, resource: ResourceMetadata, prefer: str | None) -> Flow[ServerMetadata]:
        """Find the metadata of the first usable authorization server of those that are named (rule 3)."""
        issuers = dict.fromkeys(resource.authorization_servers)
        if prefer in issuers:
            issuers = dict.fromkeys([prefer, *issuers])
        faults: list[str] = []
        for issuer in list(issuers)[:_MAX_ISSUERS]:
            try:
                return (yield from self._server(issuer))
            except AuthorizationFailed as exc:
                faults.append(str(exc))
        raise AuthorizationFailed("; ".join(faults))

    def _server(self, issuer: str) -> Flow[ServerMetadata]:
        checked_endpoint(issuer, "issuer", self.trusted_hosts)
        if "?" in issuer:
            raise AuthorizationFailed(f"the issuer {shown_url(issuer)!r} has a query, which is not allowed")
        earlier = len(self.unreadable)
        for location in server_metadata_urls(issuer):
            body = yield from self._document_at(location, _SERVER)
            if body is not None:
                return self._server_at(location, body, (issuer,))
        reasons = self.unreadable[earlier:] or [f"the authorization server {shown_url(issuer)} publishes no metadata"]
        raise AuthorizationFailed(reasons[0])

    def unnamed_server(self) -> Flow[ServerMetadata]:
        """Find the authorization server of a server without metadata (rule 4)."""
        origin = origin_of(self.url)
        location = f"{origin}/.well-known/oauth-authorization-server"
        body = yield from self._document_at(location, _SERVER)
        if body is not None:
            return self._server_at(
                location, body, (origin, f"{origin}/")
            )  # either spelling of the origin may be the issuer
        if self.unreadable:
            raise AuthorizationFailed(self.unreadable[0])
        return ServerMetadata(
            issuer=origin,
            authorization_endpoint=f"{origin}/authorize",
            token_endpoint=f"{origin}/token",
            registration_endpoint=f"{origin}/register",
            is_assumed=True,
        )

    def _server_at(self, location: str, body: bytes, issuers: Sequence[str]) -> ServerMetadata:
        """Parse the metadata of an authorization server, and check that it is about one of *issuers* (rule 2)."""
        found = read_server_metadata(body, location)
        if found.issuer not in issuers:
            raise AuthorizationFailed(
                f"mismatch: the {_SERVER} at {shown_url(location)} is about {shown_text(found.issuer)!r}, "
                f"not exactly about {shown_text(issuers[0])!r}"
            )
        for what, endpoint in {
            "authorization endpoint": found.authorization_endpoint,
            "token endpoint": found.token_endpoint,
            "registration endpoint": found.registration_endpoint,
        }.items():
            if endpoint is not None:
                checked_endpoint(endpoint, f"{what} of {shown_url(found.issuer)}", self.trusted_hosts)
        return found

    def _document_at(self, location: str, what: str) -> Flow[bytes | None]:
        """Return the JSON object at a URL; None if there is none (rule 1)."""
        try:
            reply = yield from self._get(location, what)
        except Unreadable as exc:
            self.unreadable.append(str(exc))
            return None
        if reply.status >= 500 or reply.status in _TEMPORARY_STATUSES:
            raise CallFailed(
                f"the {what} at {shown_url(location)} is temporarily unavailable: HTTP status {reply.status}"
            )
        return reply.body if reply.status == 200 and _is_object(reply.body) else None

    def _get(self, location: str, what: str) -> Flow[HttpReply]:
        named_by: Literal["user", "server"] = "user" if origin_of(location) == origin_of(self.url) else "server"
        try:
            return (yield from get_json_from(location, named_by=named_by, headers=_FIELDS))
        except CallFailed as exc:
            kind = Unreadable if isinstance(exc, Unreadable) else CallFailed
            raise kind(f"the {what} at {shown_url(location)} could not be read: {shown_text(str(exc))}") from None


def _is_object(body: bytes) -> bool:
    try:
        return is_object(decode(body))
    except Undecodable:
        return False


OFFLINE_ACCESS = "offline_access"
"""The scope that requests a refresh token, at an authorization server that lists it."""

_MAX_SCOPES = 200  # of those that a server lists; more of them would make a URL too long
_SCOPE = re.compile(r"[!#-\[\]-~]{1,256}")  # RFC 6749, 3.3; the length limit is ours


def is_scope(text: str) -> bool:
    """Return True if a string is one scope."""
    return _SCOPE.fullmatch(text) is not None


def read_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes in a space-separated string, in order, without duplicates and malformed ones."""
    return _distinct(filter(is_scope, text.split()))


def first_scopes(
    configured: Sequence[str] | None, challenged: Challenge | None, token_issuer: TokenIssuer, *, offline: bool
) -> tuple[str, ...] | None:
    """Return the scopes of the first token request; None leaves the choice to the authorization server.

    The scopes of the challenge and of the user's configuration are requested. If there are none, the scopes of the
    server's metadata are.

    Args:
        configured: the scopes of the user's configuration.
        challenged: the challenge of the server's response; None if no request was sent yet.
        token_issuer: the issuer of tokens.
        offline: True if a refresh token is useful. Its scope is added if the authorization server lists it, and if
            there are other scopes: alone, it would replace the default scopes.
    """
    chosen = _distinct([*(configured or ()), *_challenged_scopes(challenged)])
    if not chosen and token_issuer.resource is not None:
        listed = token_issuer.resource.scopes_supported or ()
        chosen = _distinct(scope for scope in listed if is_scope(scope) and scope != OFFLINE_ACCESS)[:_MAX_SCOPES]
    if chosen and offline and OFFLINE_ACCESS in (token_issuer.server.scopes_supported or ()):
        chosen = _distinct([*chosen, OFFLINE_ACCESS])
    return chosen or None


def wider_scopes(earlier: Sequence[str] | None, challenged: Challenge) -> tuple[str, ...]:
    """Return the scopes to request after *challenged*, which says that *earlier* was too little: both together."""
    return _distinct([*(earlier or ()), *_challenged_scopes(challenged)])


def _challenged_scopes(challenged: Challenge | None) -> tuple[str, ...]:
    return () if challenged is None else read_scopes(challenged.parameters.get("scope", ""))


def _distinct(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scopes))
