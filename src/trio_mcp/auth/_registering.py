"""Which client this is, to an authorization server: known to it already, or made known now.

The order: registered by hand, by a document that the server reads (CIMD), stored from an earlier time, registered now
(RFC 7591). Called by the grant that leads people to authorization servers. Rules of this file:

1. A registration belongs to one issuer, and is never shown to another.
2. One that was made here belongs to one server and account besides, as the tokens do that it brings: to make it anew
   costs no others their refresh tokens. Nor does it cost its own: they remember as whom they were obtained.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import logging

from attrs import evolve, field, frozen

from .._errors import AuthorizationFailed
from ..wire import encode
from ._client_profile import ClientProfile
from ._dynamic_registration import register_now
from ._metadata import Place
from ._shown import shown_text, shown_url
from ._steps import Flow, Load, PickRedirect, Swap, now
from ._stored_registration import StoredRegistration, read_stored
from ._tokens import Registration
from ._urls import resource_of

__all__ = ["Known", "check_issuer", "forget", "known_client", "make_known"]

_TRIES = 4  # how often a registration is put in the place of one that somebody else has stored meanwhile
_log = logging.getLogger("trio_mcp.auth")


@frozen(kw_only=True)
class Known:
    """A registration, and where it is stored."""

    registration: Registration
    key: str | None = None
    """In the storage; None where nobody has to remember it."""
    text: str | None = field(default=None, repr=False)
    """What stands there: a secret."""
    is_new: bool = False
    """Whether it was made just now."""

    @property
    def redirect_uri(self) -> str:
        """Where browsers come back to."""
        assert self.registration.redirect_uri is not None
        return self.registration.redirect_uri


def check_issuer(issuer: str | None, place: Place, what: str) -> None:
    """Refuse to show what belongs to one authorization server to another.

    Args:
        issuer: of whom it is; None where any will do.
        place: where a server leads to.
        what: it is, as the beginning of a sentence.

    Raises:
        AuthorizationFailed: the server leads to another one than the user has named.
    """
    if issuer is not None and issuer != place.server.issuer:
        raise AuthorizationFailed(
            f"{what} is for {shown_text(issuer)}, but {shown_url(place.url)} wants tokens of "
            f"{shown_text(place.server.issuer)}"
        )


def known_client(place: Place, profile: ClientProfile, earlier: Registration | None = None) -> Flow[Known | None]:
    """Return how the client is known to the authorization server, None where it is not.

    Args:
        place: whose authorization server it is.
        profile: what there is to be said of the client.
        earlier: which it was registered as there for what it wants to go on with, though another may be stored now.

    Raises:
        AuthorizationFailed: it is registered at another one.
    """
    given = _given(place, profile) if earlier is None else None
    if given is not None:
        return Known(registration=given)
    key = _key(place, profile)
    text: str | None = yield Load(key)
    stored = read_stored(text, place.server.issuer)
    if earlier is not None and (stored is None or stored.registration != earlier):
        return Known(registration=earlier)
    return None if stored is None else Known(registration=stored.registration, key=key, text=text)


def make_known(place: Place, profile: ClientProfile, scopes: tuple[str, ...] | None, *, dpop: bool) -> Flow[Known]:
    """Return how the client is known to the authorization server, with a redirect URI that is ready.

    Args:
        place: whose authorization server it is.
        profile: what there is to be said of the client.
        scopes: what it is going to ask for.
        dpop: whether its tokens will be bound to a key.

    Raises:
        AuthorizationFailed: it is registered elsewhere, cannot be registered, or was turned away.
    """
    given = _given(place, profile)
    if given is not None:
        redirect_uri: str = yield PickRedirect(profile.redirect_uri or given.redirect_uri)
        return Known(registration=evolve(given, redirect_uri=redirect_uri))
    key = _key(place, profile)
    text: str | None = yield Load(key)
    stored = read_stored(text, place.server.issuer)
    earlier = None if stored is None else stored.registration.redirect_uri
    redirect_uri = yield PickRedirect(profile.redirect_uri or earlier)
    time = yield from now()
    if stored is not None and stored.fits(redirect_uri, scopes, time):
        return Known(registration=stored.registration, key=key, text=text)
    wanted = _worth_registering(place, scopes)
    fresh = yield from register_now(place, profile.introduction(place.server, redirect_uri, wanted, dpop=dpop))
    written = StoredRegistration(fresh, wanted).to_text()
    for _ in range(_TRIES):
        if (yield Swap(key, text, written)):
            return Known(registration=fresh, key=key, text=written, is_new=True)
        text = yield Load(key)
        stored = read_stored(text, place.server.issuer)
        if stored is not None and stored.fits(redirect_uri, scopes, time):
            return Known(registration=stored.registration, key=key, text=text)
    raise AuthorizationFailed(
        f"the registration at {shown_text(place.server.issuer)} could not be stored: others change it all the time"
    )


def forget(known: Known) -> Flow[None]:
    """Drop a registration that the authorization server does not know any more, so that the next one is made anew."""
    if known.key is not None:
        _log.info("the registration of client %s is forgotten", shown_text(known.registration.client_id))
        yield Swap(known.key, known.text, None)


def _given(place: Place, profile: ClientProfile) -> Registration | None:
    """Return the registration that there is without the storage."""
    if profile.registration is not None:
        check_issuer(profile.registration.issuer, place, f"the client {profile.registration.client_id!r}")
        return profile.registration
    if profile.metadata_url is not None and place.server.client_id_metadata_document_supported:
        return Registration(profile.metadata_url, method="none", issuer=place.server.issuer)
    return None


def _key(place: Place, profile: ClientProfile) -> str:
    names = [place.server.issuer, place.identifier or resource_of(place.url), profile.identity, profile.account]
    return f"registration {encode(names).decode()}"


def _worth_registering(place: Place, scopes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return what the client may have to ask for one day: some servers hold it to what it was registered with."""
    if scopes is None:
        return None
    later = (place.resource.scopes_supported or ()) if place.resource is not None else ()
    known = set(later if place.server.scopes_supported is None else place.server.scopes_supported)
    return tuple(dict.fromkeys([*scopes, *(scope for scope in later if scope in known)]))
