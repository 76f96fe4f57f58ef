"""The hosts and origins that the entries of a policy allow."""

from __future__ import annotations

import pytest

from trio_mcp.wire import HttpPolicy, check_head

HOSTS = [
    ("localhost:*", "localhost", True),
    ("localhost:*", "localhost:", True),
    ("localhost:*", "localhost:1", True),
    ("LOCALHOST:*", "LocalHost:1", True),
    ("localhost:*", "localhost.:1", False),
    ("localhost:*", "xlocalhost:1", False),
    ("localhost:*", "localhost:*", False),
    ("localhost:*", "localhost:1:2", False),
    ("localhost:*", "localhost:1@evil.example.com", False),
    ("localhost:*", "user@localhost:1", False),
    ("localhost:*", "localhost/x", False),
    ("localhost:*", "localhost:\u0661", False),
    ("127.0.0.1:8000", "127.0.0.1:8000", True),
    ("127.0.0.1:8000", "127.0.0.1:8001", False),
    ("127.0.0.1:8000", "127.0.0.1", False),
    ("example.com", "example.com", True),
    ("example.com", "example.com:443", False),
    ("example.com", "www.example.com", False),
    ("[::1]:*", "[::1]:80", True),
    ("[::1]:*", "[::1]", True),
    ("[::1]:*", "[::2]", False),
    ("[::1]:*", "::1", False),
    ("[2001:DB8::1]", "[2001:db8::1]", True),
]

ORIGINS = [
    ("https://example.com", "https://example.com", True),
    ("https://example.com", "HTTPS://Example.COM", True),
    ("https://example.com", "https://example.com:443", True),
    ("https://example.com:443", "https://example.com", True),
    ("http://example.com:80", "http://example.com", True),
    ("https://example.com:80", "https://example.com", False),
    ("https://example.com", "http://example.com", False),
    ("https://example.com", "https://example.com:8443", False),
    ("https://example.com", "https://example.com.evil.example", False),
    ("https://example.com", "https://example.com/", False),
    ("https://example.com", "https://", False),
    ("https://example.com", "example.com", False),
    ("https://example.com", "null", False),
    ("http://localhost:*", "http://localhost", True),
    ("http://localhost:*", "http://localhost:3000", True),
    ("http://localhost:*", "http://localhost:*", False),
    ("http://localhost:*", "https://localhost:3000", False),
    ("vscode-webview://abc", "vscode-webview://abc", True),
    ("http://localhost:*", "9http://localhost", False),
]


def policy(*, hosts: list[str] | None = None, origins: list[str] | None = None) -> HttpPolicy:
    return HttpPolicy(allowed_hosts=hosts, allowed_origins=origins, max_body_bytes=1, legacy=True, modern=True)


@pytest.mark.parametrize(("entry", "host", "fits"), HOSTS)
def test_an_entry_allows_a_host_with_or_without_a_port(entry: str, host: str, fits: bool) -> None:
    assert (check_head("DELETE", {"host": host}, policy(hosts=["other", entry])) is None) is fits


@pytest.mark.parametrize(("entry", "origin", "fits"), ORIGINS)
def test_an_entry_allows_an_origin_with_its_scheme(entry: str, origin: str, fits: bool) -> None:
    assert (check_head("DELETE", {"origin": origin}, policy(origins=["a://b", entry])) is None) is fits
