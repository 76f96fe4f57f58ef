"""Where a token for a server is to be had: what it says of its protection, and what its authorization server says.

Rules of this file:

1. A metadata URL in the challenge is the only one that counts. Else the well-known places are tried in their order, and
   one that has nothing (any status but 200, no JSON object, a page too long, a redirect to another origin, where people
   sign in perhaps) leads to the next. Trouble that may pass, such as a status of 500, ends the attempt: what is out of
   reach for a while is not taken for what is not there.
2. Metadata have to be about this server, and those of an authorization server about the very issuer they were looked up
   by, byte for byte. Otherwise none of what they say is used.
3. The authorization server is the one that was used before, if it is still named, or else the first that can be used.
4. Where there are no metadata of the server at all, revision 2025-03-26 takes its origin for the authorization server;
   and where that has none either, its endpoints have fixed paths; unless a place led elsewhere, which is then told.

Specification:
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery
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
from ._flow import CallFailed, Flow, HttpReply, Unreadable, get_json_from

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


# What a protected server and its authorization server say of themselves, as far as a client has a use for it.
#
# Members that are not named here mean nothing, a null is as good as none, and a member of a wrong type makes the whole
# document unusable: who has published it is to hear of it.
#
# Specification: https://www.rfc-editor.org/rfc/rfc9728 and https://www.rfc-editor.org/rfc/rfc8414


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
class TokenIssuer:
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
    document = _MetadataDocument.read(body, f"the protected-resource metadata at {shown_url(url)}")
    servers = document.strings("authorization_servers")
    if not servers:
        raise document.fault("its member 'authorization_servers' names nobody")
    return ResourceMetadata(
        resource=document.text("resource"),
        authorization_servers=servers,
        scopes_supported=document.strings("scopes_supported"),
        dpop_bound_access_tokens_required=document.flag("dpop_bound_access_tokens_required"),
    )


def read_server_metadata(body: bytes, url: str) -> ServerMetadata:
    """Return what the document at *url* says of an authorization server. Its endpoints are not checked here.

    Raises:
        AuthorizationFailed: it is no such document; the text names what is wrong with it.
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
    """The members of a document, and what it is called in messages."""

    members: JsonObject
    name: str

    @classmethod
    def read(cls, body: bytes, name: str) -> _MetadataDocument:
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
        value = self.optional_string(member)
        if value is None:
            raise self.fault(f"it has no member {member!r}")
        return value

    def optional_string(self, member: str) -> str | None:
        value = self.members.get(member)
        if value is not None and not isinstance(value, str):
            raise self.fault(f"its member {member!r} is no text")
        return value

    def strings(self, member: str) -> tuple[str, ...] | None:
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


_MAX_ISSUERS = 4  # that are tried, of those that a server names
_TEMPORARY_STATUSES = {408, 425, 429}  # statuses of trouble that may pass, besides those of 500 and above
_FIELDS = {VERSION_FIELD: MODERN_REVISIONS[-1]}  # a server of 2025-03-26 may want to know it
_RESOURCE = "protected-resource metadata"
_SERVER = "authorization-server metadata"


def discover(
    url: str, challenged: Challenge | None, *, trusted_hosts: Sequence[str], prefer: str | None = None
) -> Flow[TokenIssuer]:
    """Find out where a token for a server is to be had.

    Args:
        url: of the server, as the user has named it.
        challenged: how it has answered a request without a good token; None where it was not asked yet.
        trusted_hosts: names of hosts that may be reached without TLS.
        prefer: the issuer to stay with, as long as the server names it.

    Raises:
        AuthorizationFailed: nowhere: metadata are out of reach, wrong, or unsafe; the text names which, and why.
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
    """Looks for the metadata of one server. What it raises as `CallFailed` may pass, the rest does not."""

    url: str
    trusted_hosts: Sequence[str]
    unreadable: list[str] = field(factory=list[str], init=False)
    """What there was in places in which metadata could have been."""

    def resource(self, challenged: Challenge | None) -> Flow[ResourceMetadata | None]:
        """Find what the server says of its protection; None where it says nothing."""
        named = None if challenged is None else challenged.parameters.get("resource_metadata")
        if named is not None:
            checked_endpoint(named, f"URL of the {_RESOURCE}", self.trusted_hosts)
            reply = yield from self._get(named, _RESOURCE)
            if reply.status != 200:
                raise AuthorizationFailed(
                    f"the {_RESOURCE} are not at {shown_url(named)}, where the server says: HTTP status {reply.status}"
                )
            return self._read_for_this_server(reply.body, named)
        for location in well_known_urls(self.url, "oauth-protected-resource"):
            body = yield from self._document_at(location, _RESOURCE)
            if body is not None:
                return self._read_for_this_server(body, location)
        return None

    def _read_for_this_server(self, body: bytes, location: str) -> ResourceMetadata:
        """Read what the server says of its protection, if it is about this server (rule 2)."""
        found = read_resource_metadata(body, location)
        if not covers(found.resource, self.url):
            raise AuthorizationFailed(
                f"mismatch: the {_RESOURCE} at {shown_url(location)} are about {shown_url(found.resource)!r}, "
                f"and not about {shown_url(self.url)}"
            )
        return found

    def named_server(self, resource: ResourceMetadata, prefer: str | None) -> Flow[ServerMetadata]:
        """Find the metadata of the first authorization server that can be used, of those that are named (rule 3)."""
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
            raise AuthorizationFailed(f"the issuer {shown_url(issuer)!r} has a query, which it may not have")
        earlier = len(self.unreadable)
        for location in server_metadata_urls(issuer):
            body = yield from self._document_at(location, _SERVER)
            if body is not None:
                return self._server_at(location, body, (issuer,))
        reasons = self.unreadable[earlier:] or [f"the authorization server {shown_url(issuer)} publishes no metadata"]
        raise AuthorizationFailed(reasons[0])

    def unnamed_server(self) -> Flow[ServerMetadata]:
        """Find the authorization server of a server that names none (rule 4)."""
        origin = origin_of(self.url)
        location = f"{origin}/.well-known/oauth-authorization-server"
        body = yield from self._document_at(location, _SERVER)
        if body is not None:
            return self._server_at(location, body, (origin, f"{origin}/"))  # nobody has said which of the two it is
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
        """Read the metadata of an authorization server, if it is one of *issuers* (rule 2)."""
        found = read_server_metadata(body, location)
        if found.issuer not in issuers:
            raise AuthorizationFailed(
                f"mismatch: the {_SERVER} at {shown_url(location)} are those of {shown_text(found.issuer)!r}, "
                f"and not exactly of {shown_text(issuers[0])!r}"
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
        """Return the JSON object at a place; None where there is none (rule 1)."""
        try:
            reply = yield from self._get(location, what)
        except Unreadable as exc:
            self.unreadable.append(str(exc))
            return None
        if reply.status >= 500 or reply.status in _TEMPORARY_STATUSES:
            raise CallFailed(f"the {what} at {shown_url(location)} cannot be read now: HTTP status {reply.status}")
        return reply.body if reply.status == 200 and _is_object(reply.body) else None

    def _get(self, location: str, what: str) -> Flow[HttpReply]:
        named_by: Literal["user", "server"] = "user" if origin_of(location) == origin_of(self.url) else "server"
        try:
            return (yield from get_json_from(location, named_by=named_by, headers=_FIELDS))
        except CallFailed as exc:
            kind = Unreadable if isinstance(exc, Unreadable) else CallFailed
            raise kind(f"the {what} at {shown_url(location)} cannot be read: {shown_text(str(exc))}") from None


def _is_object(body: bytes) -> bool:
    try:
        return is_object(decode(body))
    except Undecodable:
        return False


# Which scopes a client asks for: no more than it needs, and all that it needs.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy

OFFLINE_ACCESS = "offline_access"
"""Asks an authorization server for a refresh token, if it lists this scope."""

_MAX_SCOPES = 200  # of those that a server lists; a request for more would be too long for a URL
_SCOPE = re.compile(r"[!#-\[\]-~]{1,256}")  # RFC 6749, 3.3; its length is our bound


def is_scope(text: str) -> bool:
    """Tell whether *text* is one scope."""
    return _SCOPE.fullmatch(text) is not None


def read_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes in a text, which has blanks between them: in order, none twice, and none that is malformed."""
    return _distinct(filter(is_scope, text.split()))


def first_scopes(
    configured: Sequence[str] | None, challenged: Challenge | None, token_issuer: TokenIssuer, *, offline: bool
) -> tuple[str, ...] | None:
    """Return what to ask for first; None: ask for no scope, so that the authorization server gives what it likes.

    What the challenge names is needed, with what the user has configured. Where neither says anything it is what the
    server's metadata lists.

    Args:
        configured: by the user.
        challenged: what the server answered with; None where it was not asked yet.
        place: where the token is to be had.
        offline: whether a refresh token is of use; the scope for it is then added where the authorization server
            lists it, and where anything is asked for: alone it would stand in the way of what is given to all.
    """
    chosen = _distinct([*(configured or ()), *_challenged_scopes(challenged)])
    if not chosen and token_issuer.resource is not None:
        listed = token_issuer.resource.scopes_supported or ()
        chosen = _distinct(scope for scope in listed if is_scope(scope) and scope != OFFLINE_ACCESS)[:_MAX_SCOPES]
    if chosen and offline and OFFLINE_ACCESS in (token_issuer.server.scopes_supported or ()):
        chosen = _distinct([*chosen, OFFLINE_ACCESS])
    return chosen or None


def wider_scopes(earlier: Sequence[str] | None, challenged: Challenge) -> tuple[str, ...]:
    """Return what to ask for after *challenged*, which says that *earlier* was too little: both together."""
    return _distinct([*(earlier or ()), *_challenged_scopes(challenged)])


def _challenged_scopes(challenged: Challenge | None) -> tuple[str, ...]:
    return () if challenged is None else read_scopes(challenged.parameters.get("scope", ""))


def _distinct(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scopes))
