"""The pages that the development authorization server shows to people: sign in and consent, or what is wrong.

Specification: https://www.rfc-editor.org/rfc/rfc9700#section-4.16
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from urllib.parse import urlsplit

from ._authorization_http import Answer

__all__ = ["consent_page", "error_page"]

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem}"
    ".warning{background:#fff3cd;border:1px solid #b58900;padding:.5rem 1rem}"
    ".error{color:#a00}label{display:block;margin:.5rem 0}button{margin-right:1rem;padding:.4rem 1.2rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_WARNING = "Development authorization server: for tests, and not for production."


def consent_page(
    *,
    action: str,
    ticket: str,
    client: str,
    client_id: str,
    redirect_uri: str,
    scopes: tuple[str, ...],
    resource: str | None,
    trouble: str | None,
) -> Answer:
    """Return the page on which a user signs in, and allows what a client asks for, or does not.

    Args:
        action: where the form goes.
        ticket: stands for what is asked for, in the form.
        trouble: what was wrong with the form before; None at first.
    """
    wanted = "".join(f"<li><code>{escape(scope)}</code></li>" for scope in scopes) or "<li>nothing in particular</li>"
    warned = f'<p class="error" role="alert">{escape(trouble)}</p>' if trouble else ""
    body = (
        f"<h1>Allow {escape(client)}?</h1>{warned}"
        f"<p><strong>{escape(client)}</strong> (<code>{escape(client_id)}</code>) wants to use "
        f"<code>{escape(resource or 'an unnamed server')}</code> for you:</p><ul>{wanted}</ul>"
        f"<p>Then you are sent to <code>{escape(redirect_uri)}</code>.</p>"
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="ticket" value="{escape(ticket)}">'
        '<label>User <input name="username" autocomplete="username"></label>'
        '<label>Password <input name="password" type="password" autocomplete="current-password"></label>'
        '<button name="decision" value="allow">Allow</button>'
        '<button name="decision" value="deny">Deny</button></form>'
    )
    # browsers hold a redirect that follows a form against this rule, too
    targets = f"form-action 'self' {urlsplit(redirect_uri).scheme}:"
    return _page("Sign in and consent", body, targets, status=403 if trouble else 200)


def error_page(message: str, *, error: str, status: int = 400) -> Answer:
    """Return a page for a user who cannot be sent back, because it is not certain whose address that would be."""
    body = f'<h1>This does not work</h1><p class="error">{escape(message)}</p>'
    return _page("Error", body, "form-action 'none'", status=status, error=error)


def _page(title: str, body: str, targets: str, *, status: int, error: str | None = None) -> Answer:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<style>{_STYLE}</style></head><body><p class="warning">{_WARNING}</p>{body}</body></html>'
    )
    rules = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'; {targets}"
    headers: Mapping[str, str] = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": rules,
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }
    return Answer(status=status, headers=headers, body=text.encode(), error=error)
