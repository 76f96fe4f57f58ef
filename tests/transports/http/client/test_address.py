"""The addresses and header fields that an HTTP client accepts from its caller."""

from __future__ import annotations

import pytest

from tests.transports.http.scripted_server import ClientStub, ScriptedHttpServer
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import http_transport
from trio_mcp.transports.http._engine import checked_url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "example.org/mcp",
            r"'example.org/mcp' is not the address of a server: it does not begin with http:// or https://",
        ),
        ("ftp://example.org", "does not begin with http"),
        ("", "does not begin with http"),
        ("http://", "names no host"),
        ("http:///mcp", "names no host"),
        ("http://example.org:port/", "(?i)port"),
        ("http://example.org:99999/", "(?i)port"),
        ("http://[::1/mcp", "(?i)ipv6"),
        ("http://example.org/a b", "holds a space or a control character"),
        ("http://example.org/\r\nX-Evil: 1", "holds a space or a control character"),
    ],
)
def test_a_string_that_is_not_the_address_of_a_server_is_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        http_transport(url)


@pytest.mark.parametrize("url", ["https://user@example.org/", "https://:secret@example.org/"])
def test_credentials_in_an_address_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match=r"send credentials in headers=\{'Authorization'") as caught:
        http_transport(url)

    assert "secret" not in str(caught.value)
    assert "'example.org'" in str(caught.value)


@pytest.mark.parametrize("url", ["http://me:secret@example.org:99999/", "ftp://me:s@secret@example.org/"])
def test_credentials_are_never_shown_in_errors(url: str) -> None:
    with pytest.raises(ValueError, match=r"//example\.org.* is not the address of a server") as caught:
        http_transport(url)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("http://example.org", "http://example.org"),
        ("https://example.org:8443/mcp?key=1#part", "https://example.org:8443/mcp?key=1"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
    ],
)
def test_an_address_is_used_unchanged_without_its_fragment(url: str, checked: str) -> None:
    assert checked_url(url) == checked


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"X Y": "1"}, "'X Y' is not a valid name of a header field"),
        ({"": "1"}, "'' is not a valid name of a header field"),
        ({"X-A\r\nX-Evil": "1"}, "is not a valid name of a header field"),
        ({"X-A": "1\r\nX-Evil: 1"}, "the value of 'X-A' holds characters that are not allowed in a header field"),
        ({"X-A": "caf\u00e9"}, "the value of 'X-A' holds characters"),
        ({"X-A": " 1"}, "the value of 'X-A' holds characters"),
        ({"Mcp-Session-Id": "s"}, "'Mcp-Session-Id' belongs to the protocol"),
        ({"MCP-Param-City": "s"}, "'MCP-Param-City' belongs to the protocol"),
        ({"Accept": "*/*"}, "'Accept' belongs to the protocol"),
        ({"Transfer-Encoding": "chunked"}, "'Transfer-Encoding' belongs to the protocol"),
    ],
)
def test_invalid_header_fields_are_refused(headers: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        http_transport("http://example.org", headers=headers)

    assert "Evil: 1" not in str(caught.value)


def test_valid_header_fields_of_the_caller_are_accepted() -> None:
    http_transport("http://example.org", headers={"Authorization": "Bearer a b", "X-Empty": "", "x-tab": "a\tb"})


def test_an_engine_and_an_http_client_exclude_each_other() -> None:
    engine = AsgiEngine(ScriptedHttpServer())
    client = object()

    with pytest.raises(ValueError, match="give one of them"):
        http_transport("http://example.org", engine=engine, http_client=client)  # type: ignore[arg-type] # its type does not matter here
    assert ClientStub().limits.max_posts == 256
