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
from typing import Any, Literal, TypeAlias

from attrs import evolve, field, frozen

from ..._errors import AuthorizationFailed
from ...wire import JsonObject, decode, encode, is_object
from .._urls import is_local_host, read_url, resource_of, shown_text, shown_url
from ._discovery import ServerMetadata, TokenIssuer
from ._flow import CallFailed, Flow, HttpCall, Load, PickRedirect, Swap, call, now
from ._token_endpoint import AuthMethod, Registration, json_object_of, refusal_of

__all__ = [
    "ApplicationType",
    "ClientProfile",
    "StoredRegistration",
    "UsableRegistration",
    "application_type_of",
    "check_issuer",
    "check_metadata_url",
    "check_redirect_uri",
    "ensure_registration",
    "find_registration",
    "forget_registration",
    "is_loopback",
    "method_named",
    "optional_string",
    "optional_time",
    "read_stored",
    "register_now",
]


# Registers a client at an authorization server that has never heard of it, without anybody's help.
#
# Deprecated by the protocol in favour of documents that servers read; there are servers that know nothing else.
#
# Specification: https://www.rfc-editor.org/rfc/rfc7591

_MAX_TIME = 1e12  # as `time.time` counts: what is beyond it means never, and may be too much for a float


def register_now(token_issuer: TokenIssuer, introduction: dict[str, Any]) -> Flow[Registration]:
    """Register a client at the authorization server of *place*, with an introduction of `ClientProfile`.

    Raises:
        AuthorizationFailed: it cannot be registered, or was turned away.
    """
    server = token_issuer.server
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise AuthorizationFailed(
            f"{shown_text(server.issuer)} lets no program register itself; register this client by hand, and pass "
            "client=Registration('its client id')"
            + (" or client_metadata_url=" if server.client_id_metadata_document_supported else "")
        )
    step = f"the registration at {shown_url(endpoint)}"
    headers = {"accept": "application/json", "content-type": "application/json"}
    request = HttpCall(method="POST", url=endpoint, headers=headers, body=encode(introduction), named_by="server")
    try:
        reply = yield from call(request)
    except CallFailed as failure:
        raise AuthorizationFailed(f"{step} could not be made: {failure}") from failure
    if reply.status not in {200, 201}:
        raise refusal_of(step, reply)
    members = json_object_of(reply)
    if members is None:
        raise AuthorizationFailed(f"{step} was answered with something that is no JSON object")
    try:
        return _read_answer(members, introduction, token_issuer)
    except ValueError as fault:
        raise AuthorizationFailed(f"{step} brought no registration that can be used: {fault}") from None


def _read_answer(members: JsonObject, introduction: dict[str, Any], token_issuer: TokenIssuer) -> Registration:
    """Read a registration; raises `ValueError`."""
    asked: AuthMethod = introduction["token_endpoint_auth_method"]
    secret = optional_string(members, "client_secret")
    method = method_named(members.get("token_endpoint_auth_method"))
    if method is None:  # the server did not say, so it means what was asked for, if it can
        listed = token_issuer.server.token_endpoint_auth_methods_supported or ()
        method = asked if secret is None or asked in listed else None
    if secret is None and method in {"client_secret_basic", "client_secret_post"}:
        raise ValueError(f"the client is to authenticate by {method}, but there is no client_secret")
    client_id = optional_string(members, "client_id")
    if client_id is None:
        raise ValueError("client_id is missing")
    return Registration(
        client_id,
        secret=secret,
        method=method,
        issuer=token_issuer.server.issuer,
        redirect_uri=introduction["redirect_uris"][0],
        secret_expires_at=optional_time(members, "client_secret_expires_at") or None,  # 0: never
    )


def method_named(name: object) -> AuthMethod | None:
    """Return a way to authenticate that needs no more than a secret, None for None; raises `ValueError` for others."""
    if name is None:
        return None
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if name == method:
            return method
    raise ValueError(f"the client is to authenticate by {shown_text(str(name))!r}")


def optional_string(members: JsonObject, name: str) -> str | None:
    """Return a text, None where there is nothing in it; raises `ValueError` where it is none."""
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value or None


def optional_time(members: JsonObject, name: str) -> float | None:
    """Return a time, as `time.time` counts, None where there is none; raises `ValueError` where it is no number."""
    value = members.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{name} is no number")
    return None if value is None else float(min(max(value, 0), _MAX_TIME))


# A registration as it stands in the storage, which may be old, of another version of this package, or damaged.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration

_log = logging.getLogger("trio_mcp.auth")


@frozen
class StoredRegistration:
    """What the storage holds of a client."""

    registration: Registration
    scopes: tuple[str, ...] | None
    """What it may ask for; None where that was left to the server."""

    def fits(self, redirect_uri: str, scopes: tuple[str, ...] | None, time: float) -> bool:
        """Tell whether it will do once more, to come back to *redirect_uri* with *scopes*."""
        ends = self.registration.secret_expires_at
        is_enough = self.scopes is None or set(scopes or ()) <= set(self.scopes)
        return self.registration.redirect_uri == redirect_uri and is_enough and (ends is None or time < ends)

    def to_json(self) -> str:
        """Return what stands in the storage: a secret."""
        registration = self.registration
        members = {
            "client_id": registration.client_id,
            "client_secret": registration.secret,
            "token_endpoint_auth_method": registration.method,
            "issuer": registration.issuer,
            "redirect_uri": registration.redirect_uri,
            "client_secret_expires_at": registration.secret_expires_at,
            "scope": None if self.scopes is None else " ".join(self.scopes),
        }
        return encode(members).decode()


def read_stored(text: str | None, issuer: str) -> StoredRegistration | None:
    """Read what `StoredRegistration.to_text` has written; None where that is not what *text* is, or of another issuer.

    Args:
        text: of the storage, which may hold anything; None where it holds nothing.
        issuer: of whom it has to be.
    """
    if text is None:
        return None
    try:
        return _read(text, issuer)
    except ValueError:
        _log.warning("the stored registration at %s cannot be read: it counts as absent", shown_text(issuer))
        return None


def _read(text: str, issuer: str) -> StoredRegistration:
    members = decode(text.encode())
    if not is_object(members) or members.get("issuer") != issuer:
        raise ValueError("no registration at this issuer")
    client_id, redirect_uri = optional_string(members, "client_id"), optional_string(members, "redirect_uri")
    if client_id is None or redirect_uri is None:
        raise ValueError("no registration that can be used")
    scope = members.get("scope")
    registration = Registration(
        client_id,
        secret=optional_string(members, "client_secret"),
        method=method_named(members.get("token_endpoint_auth_method")),
        issuer=issuer,
        redirect_uri=redirect_uri,
        secret_expires_at=optional_time(members, "client_secret_expires_at"),
    )
    return StoredRegistration(registration, None if scope is None else tuple(str(scope).split()))


# How a client presents itself to authorization servers that do not know it yet.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration

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


_TRIES = 4  # how often a registration is put in the place of one that somebody else has stored meanwhile


@frozen(kw_only=True)
class UsableRegistration:
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


def check_issuer(issuer: str | None, token_issuer: TokenIssuer, what: str) -> None:
    """Refuse to show what belongs to one authorization server to another.

    Args:
        issuer: of whom it is; None where any will do.
        place: where a server leads to.
        what: it is, as the beginning of a sentence.

    Raises:
        AuthorizationFailed: the server leads to another one than the user has named.
    """
    if issuer is not None and issuer != token_issuer.server.issuer:
        raise AuthorizationFailed(
            f"{what} is for {shown_text(issuer)}, but {shown_url(token_issuer.url)} wants tokens of "
            f"{shown_text(token_issuer.server.issuer)}"
        )


def find_registration(
    token_issuer: TokenIssuer, profile: ClientProfile, earlier: Registration | None = None
) -> Flow[UsableRegistration | None]:
    """Return how the client is known to the authorization server, None where it is not.

    Args:
        place: whose authorization server it is.
        profile: what there is to be said of the client.
        earlier: which it was registered as there for what it wants to go on with, though another may be stored now.

    Raises:
        AuthorizationFailed: it is registered at another one.
    """
    given = _configured_registration(token_issuer, profile) if earlier is None else None
    if given is not None:
        return UsableRegistration(registration=given)
    key = _key(token_issuer, profile)
    text: str | None = yield Load(key)
    stored = read_stored(text, token_issuer.server.issuer)
    if earlier is not None and (stored is None or stored.registration != earlier):
        return UsableRegistration(registration=earlier)
    return None if stored is None else UsableRegistration(registration=stored.registration, key=key, text=text)


def ensure_registration(
    token_issuer: TokenIssuer, profile: ClientProfile, scopes: tuple[str, ...] | None, *, dpop: bool
) -> Flow[UsableRegistration]:
    """Return how the client is known to the authorization server, with a redirect URI that is ready.

    Args:
        place: whose authorization server it is.
        profile: what there is to be said of the client.
        scopes: what it is going to ask for.
        dpop: whether its tokens will be bound to a key.

    Raises:
        AuthorizationFailed: it is registered elsewhere, cannot be registered, or was turned away.
    """
    given = _configured_registration(token_issuer, profile)
    if given is not None:
        redirect_uri: str = yield PickRedirect(profile.redirect_uri or given.redirect_uri)
        return UsableRegistration(registration=evolve(given, redirect_uri=redirect_uri))
    key = _key(token_issuer, profile)
    text: str | None = yield Load(key)
    stored = read_stored(text, token_issuer.server.issuer)
    earlier = None if stored is None else stored.registration.redirect_uri
    redirect_uri = yield PickRedirect(profile.redirect_uri or earlier)
    time = yield from now()
    if stored is not None and stored.fits(redirect_uri, scopes, time):
        return UsableRegistration(registration=stored.registration, key=key, text=text)
    wanted = _scopes_to_register(token_issuer, scopes)
    fresh = yield from register_now(
        token_issuer, profile.introduction(token_issuer.server, redirect_uri, wanted, dpop=dpop)
    )
    written = StoredRegistration(fresh, wanted).to_json()
    for _ in range(_TRIES):
        if (yield Swap(key, text, written)):
            return UsableRegistration(registration=fresh, key=key, text=written, is_new=True)
        text = yield Load(key)
        stored = read_stored(text, token_issuer.server.issuer)
        if stored is not None and stored.fits(redirect_uri, scopes, time):
            return UsableRegistration(registration=stored.registration, key=key, text=text)
    raise AuthorizationFailed(
        f"the registration at {shown_text(token_issuer.server.issuer)} could not be stored: it keeps being changed"
    )


def forget_registration(registered: UsableRegistration) -> Flow[None]:
    """Drop a registration that the authorization server does not know any more, so that the next one is made anew."""
    if registered.key is not None:
        _log.info("the registration of client %s is forgotten", shown_text(registered.registration.client_id))
        yield Swap(registered.key, registered.text, None)


def _configured_registration(token_issuer: TokenIssuer, profile: ClientProfile) -> Registration | None:
    """Return the registration that there is without the storage."""
    if profile.registration is not None:
        check_issuer(profile.registration.issuer, token_issuer, f"the client {profile.registration.client_id!r}")
        return profile.registration
    if profile.metadata_url is not None and token_issuer.server.client_id_metadata_document_supported:
        return Registration(profile.metadata_url, method="none", issuer=token_issuer.server.issuer)
    return None


def _key(token_issuer: TokenIssuer, profile: ClientProfile) -> str:
    names = [
        token_issuer.server.issuer,
        token_issuer.identifier or resource_of(token_issuer.url),
        profile.identity,
        profile.account,
    ]
    return f"registration {encode(names).decode()}"


def _scopes_to_register(token_issuer: TokenIssuer, scopes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return what the client may have to ask for one day: some servers hold it to what it was registered with."""
    if scopes is None:
        return None
    later = (token_issuer.resource.scopes_supported or ()) if token_issuer.resource is not None else ()
    registered = set(later if token_issuer.server.scopes_supported is None else token_issuer.server.scopes_supported)
    return tuple(dict.fromkeys([*scopes, *(scope for scope in later if scope in registered)]))
