"""What a token says, whether it stands in the token itself or in what the authorization server says of it.

Specification: https://www.rfc-editor.org/rfc/rfc9068#section-2.2 and https://www.rfc-editor.org/rfc/rfc7662#section-2.2
"""

from __future__ import annotations

from ..wire import JsonObject, is_array, is_object
from ._verified import InvalidToken, VerifiedToken

__all__ = ["is_of_another_kind", "read_claims", "read_time"]

_LATEST = 2**53
"""The largest time that is taken for one, in seconds; later ones are never meant."""
_LONGEST_NAME = 1024
"""Characters of whoever a token speaks for, or was issued to: it is compared and logged."""
_KIND_CLAIMS = ("typ", "token_use", "token_type")
"""Where authorization servers say what a token is: Keycloak, Cognito and Hydra, and others."""
_OTHER_KINDS = frozenset({"id", "logout", "offline", "refresh"})


def read_claims(claims: JsonObject, *, issuer: str) -> VerifiedToken:
    """Return what the claims of a token say, which was issued by *issuer*.

    Raises:
        InvalidToken: a claim is not what it has to be, or binds the token to something that cannot be checked.
    """
    return VerifiedToken(
        issuer=issuer,
        subject=_name(claims, "sub"),
        client_id=_name(claims, "client_id") or _name(claims, "azp"),
        audiences=_texts(claims, "aud"),
        scopes=frozenset(_words(claims, "scope") or _words(claims, "scp")),
        expires_at=read_time(claims, "exp"),
        not_before=read_time(claims, "nbf"),
        key_thumbprint=_thumbprint(claims),
        claims=claims,
    )


def is_of_another_kind(claims: JsonObject) -> bool:
    """Tell whether claims say of a token that it is something else than one for access, such as a refresh token."""
    kinds = [claims.get(name) for name in _KIND_CLAIMS]
    return any(isinstance(kind, str) and kind.lower().removesuffix("_token") in _OTHER_KINDS for kind in kinds)


def _name(claims: JsonObject, name: str) -> str | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or not value.isprintable():
        raise InvalidToken(f"its {name!r} is no name")
    return value


def _texts(claims: JsonObject, name: str) -> tuple[str, ...]:
    value = claims.get(name)
    values = value if is_array(value) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in values):
        raise InvalidToken(f"its {name!r} is neither a text nor a list of texts")
    return tuple(values)


def _words(claims: JsonObject, name: str) -> list[str]:
    """Return the words of a claim. Blanks alone part them: what else looks like one may stand in a name."""
    return [word for text in _texts(claims, name) for word in text.split(" ") if word]


def read_time(claims: JsonObject, name: str) -> float | None:
    """Return the time that a claim names, as `time.time` counts; None where there is none.

    Raises:
        InvalidToken: it is no time.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise InvalidToken(f"its {name!r} is no time")
    return float(value)


def _thumbprint(claims: JsonObject) -> str | None:
    confirmation = claims.get("cnf")
    if confirmation is None:
        return None
    thumbprint = confirmation.get("jkt") if is_object(confirmation) else None
    if not isinstance(thumbprint, str) or len(confirmation) > 1:
        raise InvalidToken("it is bound to something that is not checked here")
    return thumbprint
