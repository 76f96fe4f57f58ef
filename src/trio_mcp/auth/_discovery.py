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

from collections.abc import Sequence
from typing import Literal

from attrs import field, frozen

from .._errors import AuthorizationFailed
from ..wire import MODERN_REVISIONS, VERSION_FIELD, Undecodable, decode, is_object
from ._challenges import Challenge
from ._metadata import Place, ResourceMetadata, ServerMetadata, read_resource_metadata, read_server_metadata
from ._shown import shown_text, shown_url
from ._steps import CallFailed, Flow, HttpReply, Unreadable, get_json_from
from ._urls import checked_endpoint, covers, origin_of, server_metadata_urls, well_known_urls

__all__ = ["discover"]

_MOST_ISSUERS = 4  # that are tried, of those that a server names
_PASSING = {408, 425, 429}  # statuses of trouble that may pass, besides those of 500 and above
_FIELDS = {VERSION_FIELD: MODERN_REVISIONS[-1]}  # a server of 2025-03-26 may want to know it
_RESOURCE = "protected-resource metadata"
_SERVER = "authorization-server metadata"


def discover(
    url: str, challenged: Challenge | None, *, trusted_hosts: Sequence[str], prefer: str | None = None
) -> Flow[Place]:
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
            return Place(url=url, resource=None, server=(yield from search.unnamed_server()))
        return Place(url=url, resource=resource, server=(yield from search.named_server(resource, prefer)))
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
            return self._own(reply.body, named)
        for place in well_known_urls(self.url, "oauth-protected-resource"):
            body = yield from self._document_at(place, _RESOURCE)
            if body is not None:
                return self._own(body, place)
        return None

    def _own(self, body: bytes, place: str) -> ResourceMetadata:
        """Read what the server says of its protection, if it is about this server (rule 2)."""
        found = read_resource_metadata(body, place)
        if not covers(found.resource, self.url):
            raise AuthorizationFailed(
                f"mismatch: the {_RESOURCE} at {shown_url(place)} are about {shown_url(found.resource)!r}, "
                f"and not about {shown_url(self.url)}"
            )
        return found

    def named_server(self, resource: ResourceMetadata, prefer: str | None) -> Flow[ServerMetadata]:
        """Find the metadata of the first authorization server that can be used, of those that are named (rule 3)."""
        issuers = dict.fromkeys(resource.authorization_servers)
        if prefer in issuers:
            issuers = dict.fromkeys([prefer, *issuers])
        faults: list[str] = []
        for issuer in list(issuers)[:_MOST_ISSUERS]:
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
        for place in server_metadata_urls(issuer):
            body = yield from self._document_at(place, _SERVER)
            if body is not None:
                return self._server_at(place, body, (issuer,))
        reasons = self.unreadable[earlier:] or [f"the authorization server {shown_url(issuer)} publishes no metadata"]
        raise AuthorizationFailed(reasons[0])

    def unnamed_server(self) -> Flow[ServerMetadata]:
        """Find the authorization server of a server that names none (rule 4)."""
        origin = origin_of(self.url)
        place = f"{origin}/.well-known/oauth-authorization-server"
        body = yield from self._document_at(place, _SERVER)
        if body is not None:
            return self._server_at(place, body, (origin, f"{origin}/"))  # nobody has said which of the two it is
        if self.unreadable:
            raise AuthorizationFailed(self.unreadable[0])
        return ServerMetadata(
            issuer=origin,
            authorization_endpoint=f"{origin}/authorize",
            token_endpoint=f"{origin}/token",
            registration_endpoint=f"{origin}/register",
            is_assumed=True,
        )

    def _server_at(self, place: str, body: bytes, issuers: Sequence[str]) -> ServerMetadata:
        """Read the metadata of an authorization server, if it is one of *issuers* (rule 2)."""
        found = read_server_metadata(body, place)
        if found.issuer not in issuers:
            raise AuthorizationFailed(
                f"mismatch: the {_SERVER} at {shown_url(place)} are those of {shown_text(found.issuer)!r}, "
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

    def _document_at(self, place: str, what: str) -> Flow[bytes | None]:
        """Return the JSON object at a place; None where there is none (rule 1)."""
        try:
            reply = yield from self._get(place, what)
        except Unreadable as exc:
            self.unreadable.append(str(exc))
            return None
        if reply.status >= 500 or reply.status in _PASSING:
            raise CallFailed(f"the {what} at {shown_url(place)} cannot be read now: HTTP status {reply.status}")
        return reply.body if reply.status == 200 and _is_object(reply.body) else None

    def _get(self, place: str, what: str) -> Flow[HttpReply]:
        named_by: Literal["user", "server"] = "user" if origin_of(place) == origin_of(self.url) else "server"
        try:
            return (yield from get_json_from(place, named_by=named_by, headers=_FIELDS))
        except CallFailed as exc:
            kind = Unreadable if isinstance(exc, Unreadable) else CallFailed
            raise kind(f"the {what} at {shown_url(place)} cannot be read: {shown_text(str(exc))}") from None


def _is_object(body: bytes) -> bool:
    try:
        return is_object(decode(body))
    except Undecodable:
        return False
