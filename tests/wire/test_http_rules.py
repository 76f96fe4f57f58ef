"""The checks before the body of a request is read, the form of refusals, and the HTTP statuses of errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import McpError
from trio_mcp.wire import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_REVISION,
    HttpPolicy,
    Refusal,
    check_head,
    decode,
    needs_null_id,
    status_of,
)

LOCAL = ("localhost:*", "127.0.0.1:*", "[::1]:*")
DUAL = HttpPolicy(
    allowed_hosts=LOCAL,
    allowed_origins=("http://localhost:*", "https://example.com"),
    max_body_bytes=1000,
    legacy=True,
    modern=True,
)
MODERN = evolve(DUAL, legacy=False)
HEAD = {
    "host": "localhost:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "content-length": "2",
}


def head(**changes: str | None) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in {**HEAD, **named}.items() if value is not None}


def status(refusal: Refusal | None) -> int | None:
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("policy", "method", "allow"),
    [
        (DUAL, "PUT", "GET, POST, DELETE"),
        (DUAL, "OPTIONS", "GET, POST, DELETE"),
        (DUAL, "HEAD", "GET, POST, DELETE"),
        (DUAL, "post", "GET, POST, DELETE"),
        (MODERN, "GET", "POST"),
        (MODERN, "DELETE", "POST"),
    ],
)
def test_an_unsupported_http_method_is_refused_with_the_supported_ones(
    policy: HttpPolicy, method: str, allow: str
) -> None:
    assert check_head(method, head(), policy) == Refusal(405, headers={"allow": allow})


HEADS: list[tuple[str, dict[str, str | None], int | None]] = [
    ("POST", {}, None),
    ("GET", {"content_type": None}, None),
    ("GET", {"accept": "text/event-stream"}, None),
    ("GET", {"accept": "TEXT/event-stream;charset=utf-8, */*"}, None),
    ("GET", {"accept": None}, 406),
    ("GET", {"accept": "*/*"}, 406),
    ("GET", {"accept": "text/*"}, 406),
    ("GET", {"accept": "image/avif,image/webp,*/*;q=0.8"}, 406),
    ("GET", {"accept": "text/event-stream;q=0, */*"}, 406),
    ("GET", {"accept": "application/json"}, 406),
    ("DELETE", {"content_type": None, "accept": "text/html"}, None),
    # Host
    ("POST", {"host": "127.0.0.1:1"}, None),
    ("POST", {"host": "LocalHost"}, None),
    ("POST", {"host": "[::1]:9"}, None),
    ("POST", {"host": "evil.example.com"}, 403),
    ("POST", {"host": "localhost.evil.example.com"}, 403),
    ("POST", {"host": "localhost:8000, evil.example.com"}, 403),
    ("POST", {"host": None}, 403),
    ("GET", {"host": "evil.example.com"}, 403),
    ("DELETE", {"host": "evil.example.com"}, 403),
    # Origin
    ("POST", {"origin": "http://localhost:3000"}, None),
    ("POST", {"origin": "https://example.com"}, None),
    ("POST", {"origin": "http://example.com"}, 403),
    ("POST", {"origin": "http://evil.example.com"}, 403),
    ("POST", {"origin": "null"}, 403),
    ("POST", {"origin": ""}, 403),
    ("GET", {"origin": "http://evil.example.com"}, 403),
    # Sec-Fetch-Site
    ("GET", {"sec_fetch_site": "cross-site"}, 403),
    ("GET", {"sec_fetch_site": "same-site"}, 403),
    ("GET", {"sec_fetch_site": "Cross-Site"}, 403),
    ("GET", {"sec_fetch_site": "cross-site", "accept": "*/*"}, 403),
    ("POST", {"sec_fetch_site": "cross-site"}, 403),
    ("DELETE", {"sec_fetch_site": "cross-site"}, 403),
    ("GET", {"sec_fetch_site": "cross-site", "origin": "https://example.com"}, None),
    ("POST", {"sec_fetch_site": "cross-site", "origin": "https://example.com"}, None),
    ("POST", {"sec_fetch_site": "cross-site", "origin": "https://evil.example.com"}, 403),
    ("GET", {"sec_fetch_site": "same-origin"}, None),
    ("GET", {"sec_fetch_site": "none"}, None),
    # Content-Type
    ("POST", {"content_type": "Application/JSON; charset=utf-8"}, None),
    ("POST", {"content_type": "text/plain"}, 415),
    ("POST", {"content_type": "application/jsonx"}, 415),
    ("POST", {"content_type": None}, 415),
    # Accept
    ("POST", {"accept": None}, None),
    ("POST", {"accept": "*/*"}, None),
    ("POST", {"accept": "application/json"}, 406),
    ("POST", {"accept": "text/event-stream"}, 406),
    ("POST", {"accept": "application/json, text/event-stream;q=0"}, 406),
    # Content-Length
    ("POST", {"content_length": None}, None),
    ("POST", {"content_length": "1000"}, None),
    ("POST", {"content_length": "1001"}, 413),
    ("POST", {"content_length": "9" * 10_000}, 413),
    ("POST", {"content_length": "-1"}, None),
    ("POST", {"content_length": "²"}, None),
    # The order: host and origin are checked first.
    ("PUT", {"host": "evil.example.com"}, 405),
    ("POST", {"host": "evil.example.com", "content_type": "text/plain", "content_length": "1001"}, 403),
    ("POST", {"origin": "null", "content_type": "text/plain"}, 403),
    ("POST", {"content_type": "text/plain", "accept": "text/html"}, 415),
    ("POST", {"accept": "text/html", "content_length": "1001"}, 406),
]


@pytest.mark.parametrize(("method", "changes", "expected"), HEADS)
def test_a_request_head_is_refused_for_the_first_rule_that_it_violates(
    method: str, changes: dict[str, str | None], expected: int | None
) -> None:
    refusal = check_head(method, head(**changes), DUAL)

    assert status(refusal) == expected
    if refusal is not None and refusal.status != 405:
        assert decode(refusal.body())["error"]["code"] == INVALID_REQUEST
        assert "id" not in decode(refusal.body())


def test_a_server_may_accept_any_host_and_any_origin() -> None:
    policy = evolve(DUAL, allowed_hosts=None, allowed_origins=None)

    assert check_head("POST", head(host=None, origin="null"), policy) is None
    assert check_head("POST", head(host="evil.example.com", origin="https://evil.example.com"), policy) is None
    assert check_head("GET", head(host="evil.example.com", sec_fetch_site="cross-site"), policy) is None


def test_a_server_may_refuse_every_origin() -> None:
    policy = evolve(DUAL, allowed_origins=())

    assert status(check_head("POST", head(origin="https://example.com"), policy)) == 403
    assert check_head("POST", head(), policy) is None


def test_a_refusal_quotes_the_received_value_up_to_a_limit() -> None:
    refusal = check_head("POST", head(host="x" * 10_000), DUAL)

    assert refusal is not None
    assert refusal.error is not None
    assert refusal.error.message == f"Host '{'x' * 100}' is not a name of this server (see allowed_hosts)"


@given(
    st.sampled_from(["GET", "POST", "DELETE"]) | st.text(),
    st.dictionaries(st.sampled_from([*HEAD, "origin"]), st.text() | st.sampled_from([*HEAD.values(), "*", "a://b:*"])),
)
def test_any_request_head_is_accepted_or_refused(method: str, headers: dict[str, str]) -> None:
    refusal = check_head(method, headers, DUAL)

    assert refusal is None or 400 <= refusal.status < 500


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"allowed_hosts": "localhost"}, "allowed_hosts is a list of strings, not the string 'localhost'"),
        ({"allowed_origins": "null"}, "allowed_origins is a list of strings, not the string 'null'"),
        ({"allowed_hosts": ["http://localhost"]}, "allowed_hosts: 'http://localhost' is not of the form example.com"),
        ({"allowed_hosts": ["*"]}, "allowed_hosts: '*' is not of the form"),
        ({"allowed_hosts": ["localhost:x"]}, "allowed_hosts: 'localhost:x' is not of the form"),
        ({"allowed_hosts": ["::1"]}, "allowed_hosts: '::1' is not of the form"),
        ({"allowed_hosts": [""]}, "allowed_hosts: '' is not of the form"),
        ({"allowed_origins": ["example.com"]}, "allowed_origins: 'example.com' is not of the form https://example.com"),
        ({"allowed_origins": ["https://example.com/"]}, "allowed_origins: 'https://example.com/' is not"),
        ({"allowed_origins": ["null"]}, "allowed_origins: 'null' is not of the form"),
        ({"legacy": False, "modern": False}, "a server serves at least one era"),
    ],
)
def test_an_invalid_policy_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 # the message is compared below
        evolve(DUAL, **changes)

    assert str(refused.value).startswith(fault)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (METHOD_NOT_FOUND, 404),
        (HEADER_MISMATCH, 400),
        (MISSING_CAPABILITY, 400),
        (UNSUPPORTED_REVISION, 400),
        (INVALID_PARAMS, 200),
        (INVALID_REQUEST, 200),
        (PARSE_ERROR, 200),
        (-32603, 200),
        (-32002, 200),
        (1, 200),
    ],
)
def test_an_error_response_has_the_http_status_of_its_code(code: int, expected: int) -> None:
    assert status_of(code) == expected


def test_the_body_of_a_refusal_is_the_error_with_the_id_if_it_is_known() -> None:
    error = McpError(-32000, "no", {"x": 1})
    expected: Mapping[str, Any] = {"code": -32000, "message": "no", "data": {"x": 1}}

    assert decode(Refusal(400, error, "a").body()) == {"jsonrpc": "2.0", "id": "a", "error": expected}
    assert decode(Refusal(400, error, 0).body()) == {"jsonrpc": "2.0", "id": 0, "error": expected}
    assert decode(Refusal(400, error).body()) == {"jsonrpc": "2.0", "error": expected}
    assert decode(Refusal(400, error).body(null_id=True)) == {"jsonrpc": "2.0", "id": None, "error": expected}
    assert decode(Refusal(400, error, "a").body(null_id=True))["id"] == "a"
    assert Refusal(405).body(null_id=True) == b""


@pytest.mark.parametrize(
    ("headers", "query", "needed"),
    [
        ({}, "", False),  # it may be `initialize`, of any revision
        ({"mcp-session-id": "s"}, "", True),
        ({}, "sessionId=s", True),
        ({"mcp-session-id": "s", "mcp-protocol-version": ""}, "", True),
        ({"mcp-protocol-version": "2024-11-05"}, "", True),
        ({"mcp-protocol-version": "2025-03-26"}, "", True),
        ({"mcp-session-id": "s", "mcp-protocol-version": "2025-06-18"}, "", True),
        ({"mcp-session-id": "s", "mcp-protocol-version": "2025-11-25"}, "", False),
        ({"mcp-protocol-version": "2026-07-28"}, "key=1", False),
    ],
)
def test_an_error_for_an_unread_message_has_a_null_id_in_early_revisions(
    headers: dict[str, str], query: str, needed: bool
) -> None:
    assert needs_null_id(headers, query) is needed
