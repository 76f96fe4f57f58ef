"""Who is known to the development authorization server: registered beforehand, by themselves, or by a document.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field, frozen

from ..auth import AuthMethod, CallFailed, HttpCall
from ..wire import Undecodable, decode, is_array, is_object
from ._authorization_http import OAuthError
from ._authorization_keys import read_keys
from ._authorization_options import KnownClient, Settings
from ._authorization_redirects import THIS_MACHINE, check_redirect_uris

__all__ = ["ClientRegistry", "keep"]

_MAX_CLIENTS = 10_000
_MAX_DOCUMENTS = 1000
_DOCUMENT_SECONDS = 300.0
_GRANTS = ("authorization_code", "refresh_token", "client_credentials")


def keep(kept: dict[str, Any], key: str, value: object, most: int) -> None:
    """Put something into a dict that forgets the oldest where there are too many."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


@frozen
class _Document:
    client: KnownClient
    until: float


@define(eq=False)
class ClientRegistry:
    """All clients that an authorization server knows."""

    _settings: Settings
    _registered: dict[str, KnownClient] = field(factory=dict[str, KnownClient], init=False)
    """By themselves."""
    _documents: dict[str, _Document] = field(factory=dict[str, _Document], init=False)

    async def find(self, client_id: str) -> KnownClient:
        """Return a client, by its document where its name is the address of one.

        Raises:
            OAuthError: there is none of that name.
        """
        for client in self._settings.clients:
            if client.client_id == client_id:
                return client
        if client_id in self._registered:
            return self._registered[client_id]
        if self._settings.fetch is not None and _is_document(client_id):
            return await self._documented(client_id)
        raise OAuthError("invalid_client", "no such client", status=401)

    def forget_registered(self) -> None:
        """Forget all clients that have registered by themselves, as a server may."""
        self._registered.clear()

    def register(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client by itself (RFC 7591); return what it is told.

        Raises:
            OAuthError: it cannot be registered like that.
        """
        client = self._read(secrets.token_urlsafe(16), members, "client_secret_basic")
        keep(self._registered, client.client_id, client, _MAX_CLIENTS)
        told = {
            "client_id": client.client_id,
            "client_id_issued_at": int(self._settings.clock()),
            "redirect_uris": [*client.redirect_uris],
            "grant_types": [*(client.grant_types or ())],
            "response_types": ["code"],
            "token_endpoint_auth_method": client.method,
            "client_name": client.name,
            **({"scope": members["scope"]} if "scope" in members else {}),
            **({"application_type": members["application_type"]} if "application_type" in members else {}),
        }
        if client.secret is not None:
            told |= {"client_secret": client.secret, "client_secret_expires_at": int(client.secret_expires_at or 0)}
        return told

    async def _documented(self, client_id: str) -> KnownClient:
        kept = self._documents.get(client_id)
        if kept is None or kept.until < self._settings.clock():
            client = await self._read_document(client_id)
            kept = _Document(client, self._settings.clock() + _DOCUMENT_SECONDS)
            keep(self._documents, client_id, kept, _MAX_DOCUMENTS)
        return kept.client

    async def _read_document(self, client_id: str) -> KnownClient:
        members = await self._get_json(client_id)
        if members.get("client_id") != client_id:
            raise OAuthError("invalid_client", "the client's document is about another client", status=401)
        if "client_secret" in members or not isinstance(members.get("client_name"), str):
            raise OAuthError("invalid_client", "the client's document has a secret, or no client_name", status=401)
        if "jwks_uri" in members and isinstance(members["jwks_uri"], str):
            members = {**members, "jwks": await self._get_json(members["jwks_uri"])}
        client = self._read(client_id, members, "none")
        if client.secret is not None:
            raise OAuthError("invalid_client", "clients with a document have no secret", status=401)
        return client

    async def _get_json(self, url: str) -> Mapping[str, Any]:
        assert self._settings.fetch is not None
        headers = {"accept": "application/json"}
        try:
            reply = await self._settings.fetch(HttpCall(method="GET", url=url, headers=headers, named_by="server"))
            members = decode(reply.body) if reply.status == 200 else None
        except (CallFailed, Undecodable):
            members = None
        if not is_object(members):
            raise OAuthError("invalid_client", "the client's document cannot be read", status=401)
        return members

    def _read(self, client_id: str, members: Mapping[str, Any], usual: AuthMethod) -> KnownClient:
        """Make a client of the metadata that it has sent, or has put down somewhere.

        Raises:
            OAuthError: they cannot be accepted.
        """
        uris, grants = _texts(members, "redirect_uris"), _texts(members, "grant_types") or ["authorization_code"]
        method = members.get("token_endpoint_auth_method", usual)
        if method not in self._settings.auth_methods:
            raise _unacceptable(f"token_endpoint_auth_method has to be one of {', '.join(self._settings.auth_methods)}")
        if not set(grants) <= set(_GRANTS):
            raise _unacceptable(f"grant_types may be {', '.join(_GRANTS)}")
        if "authorization_code" in grants or uris:
            check_redirect_uris(uris, members.get("application_type"))
        keys = _keys(members) if method == "private_key_jwt" else None
        has_secret = method in {"client_secret_basic", "client_secret_post"}
        ends = self._settings.secret_seconds
        return KnownClient(
            client_id,
            name=str(members.get("client_name", "a client"))[:100],
            secret=secrets.token_urlsafe(32) if has_secret else None,
            keys=keys,
            method=method,
            redirect_uris=uris,
            grant_types=grants,
            secret_expires_at=self._settings.clock() + ends if has_secret and ends is not None else None,
        )


def _unacceptable(why: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", why)


def _keys(members: Mapping[str, Any]) -> Mapping[str, Any]:
    jwks = members.get("jwks")
    keys = jwks if is_object(jwks) else {}
    try:
        read_keys(keys)
    except ValueError:
        raise _unacceptable("private_key_jwt needs the client's public keys: jwks") from None
    return keys


def _texts(members: Mapping[str, Any], name: str) -> Sequence[str]:
    value = members.get(name, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise _unacceptable(f"{name} has to be a list of strings")
    return value


def _is_document(client_id: str) -> bool:
    """Tell whether a client's name is the address of a document about it."""
    try:
        parts = urlsplit(client_id)
    except ValueError:
        return False
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in THIS_MACHINE):
        return False
    return parts.path not in {"", "/"} and "@" not in parts.netloc and "#" not in client_id
