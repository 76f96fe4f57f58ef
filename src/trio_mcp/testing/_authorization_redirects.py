"""Where the development authorization server sends browsers back to, and where it does not.

Specification: https://www.rfc-editor.org/rfc/rfc8252 and https://www.rfc-editor.org/rfc/rfc9700#section-4.1
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from ._authorization_http import OAuthError

__all__ = ["THIS_MACHINE", "check_redirect_uris", "is_registered"]

THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER = frozenset({"javascript", "data", "vbscript", "file", "blob", "about"})
"""Schemes that run something, or show what is on this machine."""


def check_redirect_uris(uris: Sequence[str], application_type: object) -> None:
    """Check what a client wants to register.

    Args:
        application_type: what it says to be: ``"native"``, ``"web"``, or nothing.

    Raises:
        OAuthError: browsers cannot be sent there, or not those of such an application.
    """
    if application_type not in (None, "native", "web"):  # a tuple: it may be anything that JSON can say
        raise OAuthError("invalid_client_metadata", "application_type has to be native or web")
    if not uris:
        raise OAuthError("invalid_redirect_uri", "redirect_uris are missing")
    for uri in uris:
        parts = _split(uri)
        if parts is None or not _may_be_used(parts):
            raise OAuthError("invalid_redirect_uri", "https, http on this machine, or a scheme of its own")
        if application_type == "web" and (parts.scheme != "https" or parts.hostname in THIS_MACHINE):
            raise OAuthError("invalid_redirect_uri", "a web application is redirected by https, to its host")


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        return None if parts.port == 0 or "#" in uri or not uri.isascii() or not uri.isprintable() else parts
    except ValueError:
        return None


def _may_be_used(parts: SplitResult) -> bool:
    if parts.username is not None or parts.password is not None:
        return False
    if parts.scheme in {"http", "https"}:
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in THIS_MACHINE)
    return bool(parts.scheme) and parts.scheme not in _NEVER


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Tell whether *uri* is one of those, exactly; of ``http`` on this machine the port does not matter."""
    return uri in registered or any(_is_same_but_for_port(uri, each) for each in registered)


def _is_same_but_for_port(one: str, other: str) -> bool:
    first, second = _split(one), _split(other)
    if first is None or second is None or first.scheme != "http" or first.hostname not in THIS_MACHINE:
        return False
    return (
        first.username is None
        and first._replace(netloc="") == second._replace(netloc="")
        and (first.hostname == second.hostname)
    )
