"""What a browser is told when it comes back from an authorization server: a page on its own, the same for everybody.

Nothing of the request is in it, no script, and nothing that would be loaded from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib

__all__ = ["DONE", "NOT_FOUND", "NO_REQUEST", "REFUSED", "STRANGER", "WRONG_METHOD"]

_STYLE = "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem}"
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def _response(status: str, title: str, text: str, *fields: str) -> bytes:
    """Return a whole HTTP response that ends its connection."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1><p>{text}</p></body></html>\n"
    ).encode()
    head = [
        f"HTTP/1.1 {status}",
        "content-type: text/html; charset=utf-8",
        f"content-length: {len(page)}",
        "cache-control: no-store",
        f"content-security-policy: {_POLICY}; frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "connection: close",
        *fields,
    ]
    return "".join(f"{line}\r\n" for line in [*head, ""]).encode() + page


DONE = _response("200 OK", "Back to the application", "It goes on by itself. You can close this page.")
REFUSED = _response(
    "200 OK", "Not signed in", "The sign-in has not been completed. You can close this page; the application says more."
)
STRANGER = _response(
    "400 Bad Request", "Not this sign-in", "This page belongs to no sign-in that the application waits for."
)
NOT_FOUND = _response("404 Not Found", "Nothing here", "There is no such page.")
WRONG_METHOD = _response("405 Method Not Allowed", "Nothing here", "This page can only be visited.", "allow: GET")
NO_REQUEST = _response("400 Bad Request", "Nothing here", "This was no request that could be read.")
