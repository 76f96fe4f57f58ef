"""URLs of servers: which ones are safe, which ones are equivalent, and where their metadata is published."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth._urls import (
    Url,
    checked_endpoint,
    covers,
    is_local_host,
    origin_of,
    read_url,
    resource_of,
    server_metadata_urls,
    well_known_urls,
)

WELL_KNOWN = "https://x.example/.well-known"

NO_URLS = [
    "",
    "x.example",
    "//x.example/",
    "/token",
    "ftp://x.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https:x.example",
    "https:///path",
    "https://",
    "https://:443/",
    "https://x.example\\@evil.example/",
    "https://x.example /",
    " https://x.example/",
    "https://x.example/\r\nHost: evil.example",
    "https://x.example/\t",
    "https://x.example/é",
    "https://ex%61mple.com/",
    "https://x.example/%zz",
    "https://x.example/%",
    "https://a@b@x.example/",
    "https://x.example:65536/",
    "https://x.example:123456/",
    "https://x.example:-1/",
    "https://x.example:80a/",
    "https://[::1/",
    "https://[::1]evil.example/",
    "https://[1::2::3]/",
    "https://[127.0.0.1]/",
    "https://[fe80::1%25eth0]/",
    "https://x.example/<script>",
    'https://x.example/"',
]


@pytest.mark.parametrize("text", NO_URLS)
def test_a_url_that_two_parsers_could_read_differently_is_refused(text: str) -> None:
    assert read_url(text) is None


def test_a_url_is_split_into_its_parts() -> None:
    parts = read_url("HTTPS://User:pw@X.Example:8443/Path/a%2Fb?q=1?2#frag/?")

    assert parts == Url(
        scheme="https",
        user="User:pw",
        host="x.example",
        port=8443,
        path="/Path/a%2Fb",
        query="q=1?2",
        fragment="frag/?",
    )


def test_an_empty_part_differs_from_a_missing_part() -> None:
    bare, empty = read_url("http://x"), read_url("http://@x:/?#")

    assert bare == Url(scheme="http", user=None, host="x", port=80, path="", query=None, fragment=None)
    assert empty == Url(scheme="http", user="", host="x", port=80, path="/", query="", fragment="")


@given(st.text(st.sampled_from("htps:/@[]?#.%a1\\ \n")) | st.text())
def test_parsing_any_string_returns_a_url_or_none(text: str) -> None:
    parts = read_url(text)

    assert parts is None or parts.origin in {origin_of(text), parts.origin}
    assert parts is None or text.isascii()


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://x.example", "https://x.example"),
        ("HTTPS://X.EXAMPLE:443/mcp?q#f", "https://x.example"),
        ("https://x.example:0443", "https://x.example"),
        ("http://x.example:80", "http://x.example"),
        ("http://x.example:443", "http://x.example:443"),
        ("https://user@x.example:8443/", "https://x.example:8443"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000"),
        ("http://[0:0:0:0:0:0:0:1]:8000/mcp", "http://[::1]:8000"),
    ],
)
def test_equivalent_urls_have_the_same_origin(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("url", "resource"),
    [
        ("HTTPS://X.Example:443/Mcp/", "https://x.example/Mcp"),
        ("https://x.example/", "https://x.example"),
        ("https://x.example", "https://x.example"),
        ("https://user:pw@x.example/mcp#f", "https://x.example/mcp"),
        ("https://x.example/mcp?tenant=1", "https://x.example/mcp?tenant=1"),
        ("http://localhost:8000/a/b", "http://localhost:8000/a/b"),
    ],
)
def test_a_server_has_one_canonical_uri(url: str, resource: str) -> None:
    assert resource_of(url) == resource


def test_an_invalid_url_has_no_origin_and_no_metadata_urls_and_is_not_shown_in_errors() -> None:
    functions: list[Callable[[str], object]] = [origin_of, resource_of, server_metadata_urls]
    functions.append(partial(well_known_urls, name="thing"))
    for function in functions:
        with pytest.raises(ValueError, match=r"'ftp://x\.example/' is not an http or https URL") as caught:
            function("ftp://user:secret@x.example/?key=secret")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.255.3.4", "::1", "[::1]", "0:0:0:0:0:0:0:1"]
)
def test_loopback_hosts_are_local(host: str) -> None:
    assert is_local_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "x.example",
        "localhost.example",
        "a.localhost",
        "localhost.",
        "0.0.0.0",
        "10.0.0.1",
        "128.0.0.1",
        "127.0.0.1.nip.io",
        "127.1",
        "2130706433",
        "0177.0.0.1",
        "::",
        "::2",
        "::ffff:127.0.0.1",
        "fe80::1",
    ],
)
def test_other_hosts_are_not_local(host: str) -> None:
    assert not is_local_host(host)


@pytest.mark.requirement("C.2-16")
@pytest.mark.parametrize(
    "url",
    [
        "https://as.example/token",
        "HTTPS://as.example",
        "https://10.0.0.1/token?tenant=1",
        "http://localhost:9000/token",
        "http://127.0.0.1/token",
        "http://[::1]:9000/token",
        "http://as.internal/token",
        "http://AS.internal:8080/token",
        "http://[fd00::1]/token",
    ],
)
def test_an_endpoint_with_tls_or_on_a_local_or_trusted_host_is_safe(url: str) -> None:
    assert checked_endpoint(url, "token endpoint", ["As.Internal", "[fd00::1]"]) == url


@pytest.mark.requirement("C.2-16")
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://as.example/token?k=secret", "'http://as.example/token' is without TLS, and neither on this machine"),
        ("http://localhost.evil.example/", "is without TLS"),
        ("https://user:secret@as.example/", "'https://as.example/' has a user name or a fragment"),
        ("https://as.example/#secret", "'https://as.example/' has a user name or a fragment"),
        ("javascript:alert(1)", "'javascript:alert(1)' is not an http or https URL"),
        ("https://as.example/" + "a" * 2048, "is not an http or https URL"),
        ("/token", "'/token' is not an http or https URL"),
        ("", "'' is not an http or https URL"),
    ],
)
def test_other_endpoints_are_refused_by_name_without_showing_secrets(url: str, reason: str) -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        checked_endpoint(url, "token endpoint", ["as.internal"])

    assert str(caught.value).startswith("the token endpoint ")
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.requirement("C.2-3")
@pytest.mark.parametrize(
    ("resource", "url"),
    [
        ("https://x.example/mcp", "https://x.example/mcp"),
        ("https://x.example/mcp", "https://x.example/mcp/"),
        ("https://x.example/mcp/", "https://x.example/mcp"),
        ("HTTPS://X.EXAMPLE:443/mcp", "https://x.example/mcp"),
        ("https://x.example", "https://x.example/a/mcp"),
        ("https://x.example/", "https://x.example/a/mcp"),
        ("https://x.example/a", "https://x.example/a/mcp"),
        ("https://x.example/a/", "https://x.example/a/mcp"),
        ("https://x.example/mcp", "https://x.example/mcp?tenant=1"),
        ("https://x.example/mcp?tenant=1", "https://x.example/mcp?tenant=1"),
        ("http://[::1]:80/mcp", "http://[0::1]/mcp"),
    ],
)
def test_metadata_may_describe_the_server_or_a_parent_path_on_its_origin(resource: str, url: str) -> None:
    assert covers(resource, url)


@pytest.mark.requirement("C.2-3")
@pytest.mark.parametrize(
    ("resource", "url"),
    [
        ("https://evil.example/mcp", "https://x.example/mcp"),
        ("http://x.example/mcp", "https://x.example/mcp"),
        ("https://x.example:8443/mcp", "https://x.example/mcp"),
        ("https://x.example.evil.example/mcp", "https://x.example/mcp"),
        ("https://x.example@evil.example/mcp", "https://x.example/mcp"),
        ("https://user@x.example/mcp", "https://x.example/mcp"),
        ("https://x.example/mcp#f", "https://x.example/mcp"),
        ("https://x.example/mc", "https://x.example/mcp"),
        ("https://x.example/MCP", "https://x.example/mcp"),
        ("https://x.example/mcp/a", "https://x.example/mcp"),
        ("https://x.example/mcp?tenant=2", "https://x.example/mcp?tenant=1"),
        ("https://x.example/mcp?tenant=2", "https://x.example/mcp"),
        ("x.example", "https://x.example/mcp"),
        ("", "https://x.example/mcp"),
        ("https://x.example/mcp", "mcp"),
        ("https://x.example/mcp" + "/" * 2048, "https://x.example/mcp"),
    ],
)
def test_metadata_about_another_resource_is_refused(resource: str, url: str) -> None:
    assert not covers(resource, url)


@pytest.mark.requirement("C.2-3")
@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("https://x.example", [f"{WELL_KNOWN}/thing"]),
        ("https://X.example:443/#f", [f"{WELL_KNOWN}/thing"]),
        ("https://x.example/mcp", [f"{WELL_KNOWN}/thing/mcp", f"{WELL_KNOWN}/thing"]),
        ("https://x.example/a/b/", [f"{WELL_KNOWN}/thing/a/b/", f"{WELL_KNOWN}/thing/a/b", f"{WELL_KNOWN}/thing"]),
        ("https://x.example/mcp?t=1", [f"{WELL_KNOWN}/thing/mcp?t=1", f"{WELL_KNOWN}/thing"]),
        ("https://x.example/?t=1", [f"{WELL_KNOWN}/thing?t=1", f"{WELL_KNOWN}/thing"]),
    ],
)
def test_the_well_known_urls_have_the_path_inserted_or_are_at_the_root(url: str, urls: list[str]) -> None:
    assert well_known_urls(url, "thing") == urls


@pytest.mark.requirement("C.2-4")
@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        ("https://x.example", [f"{WELL_KNOWN}/oauth-authorization-server", f"{WELL_KNOWN}/openid-configuration"]),
        ("https://x.example/", [f"{WELL_KNOWN}/oauth-authorization-server", f"{WELL_KNOWN}/openid-configuration"]),
        (
            "https://x.example/tenant1",
            [
                f"{WELL_KNOWN}/oauth-authorization-server/tenant1",
                f"{WELL_KNOWN}/openid-configuration/tenant1",
                "https://x.example/tenant1/.well-known/openid-configuration",
            ],
        ),
        (
            "https://x.example/a/b/",
            [
                f"{WELL_KNOWN}/oauth-authorization-server/a/b",
                f"{WELL_KNOWN}/openid-configuration/a/b",
                "https://x.example/a/b/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_the_metadata_urls_of_an_issuer_are_those_of_the_specification(issuer: str, urls: list[str]) -> None:
    assert server_metadata_urls(issuer) == urls
