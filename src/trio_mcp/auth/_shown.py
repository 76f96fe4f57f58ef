"""How words of another side get into a message of ours: short, printable, and without the parts that may be secret."""

from __future__ import annotations

__all__ = ["shown_text", "shown_url"]

_LONGEST = 200  # characters


def shown_text(text: str) -> str:
    """Return *text* as a message may have it: ``?`` for what cannot be printed, and ``...`` for what is too much."""
    head = "".join(char if char.isprintable() else "?" for char in text[:_LONGEST])
    return head if len(text) <= _LONGEST else f"{head}..."


def shown_url(url: str) -> str:
    """Return a URL as it can stand in a message: without what names a user, without query and fragment."""
    scheme, separator, rest = url.partition("?")[0].partition("#")[0].rpartition("://")
    authority, slash, path = rest.partition("/")
    return shown_text(f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}")
