"""The HTTP messages of the development authorization server: requests, responses, errors and HTML pages.

Specification: https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1 and
https://www.rfc-editor.org/rfc/rfc9700#section-4.16
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from attrs import evolve, field, frozen

from ...transports import HttpRequest
from ...wire import Undecodable, decode, encode, is_object

__all__ = [
    "EndpointRequest",
    "EndpointResponse",
    "OAuthError",
    "error_page",
    "json_answer",
    "redirect",
    "refusal",
    "with_query",
]

MAX_BODY_BYTES = 64 * 1024
BODY_SECONDS = 15.0
_MAX_PARAMETERS = 100
_FORM_TYPE = "application/x-www-form-urlencoded"


class OAuthError(Exception):
    """An error response of the development authorization server.

    Its hooks may raise it, too, so that a request fails as a test needs it.

    Args:
        error: the error code, such as ``"invalid_grant"``.
        description: a sentence for users.
        status: the HTTP status.
        headers: further header fields.
    """

    def __init__(
        self, error: str, description: str = "", *, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error, description)
        self.error = error
        self.description = description
        self.status = status
        self.headers = dict(headers or {})

    @property
    def members(self) -> dict[str, str]:
        """The members of a JSON body, or of the query of a redirect."""
        described = {"error_description": self.description} if self.description else {}
        return {"error": self.error, **described}


@frozen(kw_only=True)
class EndpointRequest:
    """One request to an endpoint. Any part of it may be secret."""

    method: str
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)
    """The query parameters. Those without a value are left out, as if they had not been sent."""
    form: Mapping[str, str] = field(repr=False)
    """Likewise; empty if the body is not a form."""
    body: bytes = field(repr=False)

    @classmethod
    def of(cls, request: HttpRequest) -> EndpointRequest:
        """Parse the parameters of a request.

        Raises:
            OAuthError: they are malformed, or one occurs twice.
        """
        form = request.body if _media_type(request.headers) == _FORM_TYPE else b""
        return cls(
            method=request.method,
            headers=request.headers,
            query=_parameters(request.query),
            form=_parameters(form.decode("latin-1")),
            body=request.body,
        )

    def json(self) -> dict[str, Any]:
        """Return the JSON object in the body.

        Raises:
            OAuthError: the body contains anything else.
        """
        if _media_type(self.headers) != "application/json":
            raise OAuthError("invalid_request", "the body must have the content type application/json")
        try:
            value = decode(self.body)
        except Undecodable:
            value = None
        if not is_object(value):
            raise OAuthError("invalid_request", "the body is not a JSON object")
        return value


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _parameters(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, max_num_fields=_MAX_PARAMETERS, errors="strict")
    except ValueError:
        raise OAuthError("invalid_request", "the parameters cannot be read") from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            error = "invalid_target" if name == "resource" else "invalid_request"
            raise OAuthError(error, f"the parameter {name[:40]!r} must occur only once")
        parameters[name] = value
    return parameters


@frozen(kw_only=True)
class EndpointResponse:
    """The response to an `EndpointRequest`."""

    status: int = 200
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)
    error: str | None = None
    """The error code; None for a success."""


def json_answer(
    members: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> EndpointResponse:
    """Return a response with a JSON object, which must not be cached."""
    fields = {"content-type": "application/json", "cache-control": "no-store", **(headers or {})}
    return EndpointResponse(status=status, headers=fields, body=encode(members))


def refusal(error: OAuthError) -> EndpointResponse:
    """Return an error response, as JSON."""
    answer = json_answer(error.members, status=error.status, headers=error.headers)
    return evolve(answer, error=error.error)


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """Add parameters to a URL, and keep its own ones."""
    separator = "&" if urlsplit(url).query else "?"
    return f"{url}{separator}{urlencode(parameters)}" if parameters else url


def redirect(url: str, *, status: int = 302, error: str | None = None) -> EndpointResponse:
    """Return a redirect of the browser."""
    headers = {"location": url, "cache-control": "no-store", "referrer-policy": "no-referrer"}
    return EndpointResponse(status=status, headers=headers, error=error)


# --- Pages for users ---

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem}"
    ".warning{background:#fff3cd;border:1px solid #b58900;padding:.5rem 1rem}"
    ".error{color:#a00}label{display:block;margin:.5rem 0}button{margin-right:1rem;padding:.4rem 1.2rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_WARNING = "Development authorization server: not for production."


def error_page(message: str, *, error: str, status: int = 400) -> EndpointResponse:
    """Return an error page for a user whose redirect URI was not validated."""
    body = f'<h1>The request cannot be processed</h1><p class="error">{escape(message)}</p>'
    return _page("Error", body, "form-action 'none'", status=status, error=error)


def _page(title: str, body: str, targets: str, *, status: int, error: str | None = None) -> EndpointResponse:
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
    return EndpointResponse(status=status, headers=headers, body=text.encode(), error=error)
