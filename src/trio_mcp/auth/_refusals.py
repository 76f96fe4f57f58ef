"""How authorization servers say no, as `AuthorizationFailed`: with their code, and their words cut short.

Rule of this file: a server may repeat what it was sent, so whatever was secret there is taken out of its words.

Specification: https://www.rfc-editor.org/rfc/rfc6749#section-5.2
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote_plus

from .._errors import AuthorizationFailed
from ..wire import JsonObject, Undecodable, decode, is_object
from ._shown import shown_text
from ._steps import HttpReply

__all__ = ["error_code_of", "json_object_of", "refusal", "refusal_of"]

_SHORTEST_SECRET = 4
"""Characters. What is shorter stands in any text by chance, and is no secret either."""


def json_object_of(reply: HttpReply) -> JsonObject | None:
    """Return the JSON object that a response carries; None where it carries none."""
    try:
        value = decode(reply.body)
    except Undecodable:
        return None
    return value if is_object(value) else None


def error_code_of(reply: HttpReply) -> str | None:
    """Return the code by which a response says that the request was wrong; None where it says something else.

    A server that is out of order, or has too much to do, has not judged the request.
    """
    if not 400 <= reply.status < 500 or reply.status == 429:
        return None
    code = (json_object_of(reply) or {}).get("error")
    return code if isinstance(code, str) and code else None


def refusal_of(step: str, reply: HttpReply, secrets: Iterable[str] = ()) -> AuthorizationFailed:
    """Return what a response that is no success means.

    Args:
        step: what was attempted, as the beginning of a sentence.
        reply: with any status and content.
        secrets: what was sent, and may not be shown.
    """
    code = error_code_of(reply)
    if code is None:
        return AuthorizationFailed(f"{step} failed with HTTP status {reply.status}")
    description = (json_object_of(reply) or {}).get("error_description")
    return refusal(step, code, description if isinstance(description, str) else None, secrets)


def refusal(step: str, code: str, description: str | None, secrets: Iterable[str] = ()) -> AuthorizationFailed:
    """Return what an error code of an authorization server means; see `refusal_of`."""
    raw = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    kept = [*raw, *map(quote_plus, raw)]  # as it stood in the form
    code = _without(kept, code)
    said = f" ({_without(kept, description)})" if description else ""
    return AuthorizationFailed(f"{step} was refused: {code}{said}", error=code)


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return shown_text(text)
