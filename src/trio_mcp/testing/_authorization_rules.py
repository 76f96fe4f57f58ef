"""Which scopes the development authorization server grants, and for which servers.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-3.3 and https://www.rfc-editor.org/rfc/rfc8707
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from ._authorization_http import OAuthError
from ._authorization_options import AccessAsk, KnownClient, Settings

__all__ = ["asked_resource", "asked_scopes", "granted_scopes", "may_refresh", "require_grant"]


def require_grant(client: KnownClient, grant_type: str) -> None:
    """Make sure that a client may use a grant.

    Raises:
        OAuthError: it has not registered for it.
    """
    if not client.may_use(grant_type):
        raise OAuthError("unauthorized_client", "the client has not registered for this grant_type")


def asked_scopes(settings: Settings, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is asked for, in its order and each once.

    Raises:
        OAuthError: there is no such scope.
    """
    named = parameters.get("scope")
    scopes = tuple(settings.default_scopes) if named is None else tuple(dict.fromkeys(named.split()))
    offline = ["offline_access"] if settings.refresh_tokens == "offline_access" else []
    if settings.scopes is not None and not {*scopes} <= {*settings.scopes, *offline}:
        raise OAuthError("invalid_scope", "there is no such scope")
    return scopes


def asked_resource(settings: Settings, parameters: Mapping[str, str]) -> str | None:
    """Return the server that a token is asked for; None where it is not said.

    Raises:
        OAuthError: that is no server, or none that there are tokens for.
    """
    resource = parameters.get("resource")
    if resource is None:
        return None
    try:
        parts = urlsplit(resource)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or not parts.netloc or "#" in resource:
        raise OAuthError("invalid_target", "resource has to be a URL without a fragment")
    if settings.resources is not None and resource not in settings.resources:
        raise OAuthError("invalid_target", "there are no tokens for this resource")
    return resource


def granted_scopes(settings: Settings, ask: AccessAsk, *, refusal: str) -> tuple[str, ...]:
    """Return what the policy grants.

    Raises:
        OAuthError: it grants nothing; *refusal* is the code.
    """
    granted = settings.policy(ask)
    if granted is None:
        raise OAuthError(refusal, "access is denied")
    return tuple(dict.fromkeys(granted))


def may_refresh(settings: Settings, client: KnownClient, scopes: tuple[str, ...]) -> bool:
    """Tell whether a client gets refresh tokens for what was granted to it."""
    if settings.refresh_tokens == "never" or not client.may_use("refresh_token"):
        return False
    return settings.refresh_tokens == "always" or "offline_access" in scopes
